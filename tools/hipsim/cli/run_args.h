/* SPDX-License-Identifier: Apache-2.0 */
/* The arguments of `hipsim run`: buffers and numbers as the command line describes them. */
#ifndef HIPSIM_RUN_ARGS_H
#define HIPSIM_RUN_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum run_type {
    RUN_I8,
    RUN_U8,
    RUN_I16,
    RUN_U16,
    RUN_F16,
    RUN_BF16,
    RUN_I32,
    RUN_U32,
    RUN_F32,
    RUN_I64,
    RUN_U64,
    RUN_F64,
    RUN_TYPES
};

enum run_fill {
    RUN_UNDEFINED, /* never written */
    RUN_ZERO,
    RUN_RAMP,   /* 0, 1, 2, ... */
    RUN_RANDOM, /* floats: -1 to 1; integers: 0 to 99 */
    RUN_NUMBER, /* `text` in every element */
    RUN_FILE,   /* the bytes of file `text` */
};

enum { RUN_VALUE_BYTES = 1024 };

/* One argument of the kernel. */
struct run_arg {
    bool is_buffer; /* passed as a pointer to device memory */
    bool is_null;   /* a null pointer */
    enum run_type type;
    enum run_fill fill;
    const char *text;                     /* number or path; part of the command line */
    uint64_t count;                       /* elements of a buffer; 0: as many as the file has */
    unsigned char value[RUN_VALUE_BYTES]; /* bytes of a number or a struct, little-endian */
    size_t value_bytes; /* bytes of `value` in use; unused by buffers and null pointers */
};

/** Reads "TYPE=NUMBER", "hex=DIGITS", "TYPE:COUNT", "TYPE:COUNT=zero|ramp|random|@FILE|NUMBER",
 *  "@FILE" or "null"; `form` must outlive the result. False with a sentence in `why`. */
bool run_arg_read(const char *form, struct run_arg *arg, char *why, size_t why_size);

/** Returns the size of a type in bytes. */
size_t run_type_bytes(enum run_type type);

/** Makes the initial bytes of a buffer, allocated with malloc, and sets *bytes to their number.
 *  `seed` chooses the random numbers. NULL with a sentence in `why`; RUN_UNDEFINED buffers get
 *  zeros, which the caller does not copy. */
void *run_arg_bytes(const struct run_arg *arg, uint32_t seed, size_t *bytes, char *why,
                    size_t why_size);

/** Writes element `index` of an array of `type` as text. */
void run_print_element(char *text, size_t size, enum run_type type, const void *array,
                       size_t index);

#endif
