/* SPDX-License-Identifier: Apache-2.0 */
/* The arguments of `hipsim run`: buffers and numbers, as the command line describes them. */
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
    RUN_UNDEFINED, /* no bytes are written */
    RUN_ZERO,
    RUN_RAMP,   /* elements are 0, 1, 2, ... */
    RUN_RANDOM, /* random elements: floats from -1 to 1, integers from 0 to 99 */
    RUN_NUMBER, /* every element is the number `text` */
    RUN_FILE,   /* the bytes of the file with path `text` */
};

/* Most bytes of a number or a struct. */
enum { RUN_VALUE_BYTES = 1024 };

/* One argument of the kernel. */
struct run_arg {
    bool is_buffer; /* true: a pointer to device memory is passed */
    bool is_null;   /* true: a null pointer is passed */
    enum run_type type;
    enum run_fill fill;
    const char *text;                     /* number or path; part of the command line */
    uint64_t count;                       /* elements of a buffer; 0: as many as the file has */
    unsigned char value[RUN_VALUE_BYTES]; /* bytes of a number or a struct, the lowest first */
    size_t value_bytes; /* number of bytes in `value`; unused by buffers and null pointers */
};

/** Parses "TYPE=NUMBER", "hex=DIGITS", "TYPE:COUNT", "TYPE:COUNT=zero|ramp|random|@FILE|NUMBER",
 * "@FILE" or "null" to *arg, which points into `form`. On failure false, with a sentence in
 * `why`. */
bool run_arg_read(const char *form, struct run_arg *arg, char *why, size_t why_size);

/** Returns the size of a type in bytes. */
size_t run_type_bytes(enum run_type type);

/** Returns the first contents of a buffer, allocated with malloc(), and sets *bytes to their
 * number. `seed` selects the random numbers. A RUN_UNDEFINED buffer has zeros, which the caller
 * does not copy. On failure NULL, with a sentence in `why`. */
void *run_arg_bytes(const struct run_arg *arg, uint32_t seed, size_t *bytes, char *why,
                    size_t why_size);

/** Writes element `index` of the array `array` of `type` to `text`, of `size` bytes. */
void run_print_element(char *text, size_t size, enum run_type type, const void *array,
                       size_t index);

#endif
