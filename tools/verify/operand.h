/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file declares the tensors of a call: their memory on the host and on the device, and their
 * elements. An element is named by its indices, outermost first: AT(token, head, d).
 */
#ifndef TOOLS_VERIFY_OPERAND_H
#define TOOLS_VERIFY_OPERAND_H

#include "tools/verify/memory.h"
#include "tools/verify/numbers.h"
#include "tools/verify/schema.h"

#define AT(...) ((const int64_t[ATTN_DIMENSIONS_MAX]){__VA_ARGS__})

/**
 * One tensor. Its memory holds poison wherever nothing was set: NaNs, or integers that nothing is.
 * In front of the first element and behind the last one there is more poison, and the first element
 * is aligned to no more than the schema asks for.
 */
struct operand {
    struct attn_tensor schema;            /* name, vector, and whether the kernel writes it */
    const struct precision *precision;    /* NULL: float32 or integers */
    bool given;                           /* else the argument is NULL */
    int size;                             /* bytes of an element */
    int64_t dims[ATTN_DIMENSIONS_MAX];    /* elements; 0 at first where the schema says `any` */
    int64_t strides[ATTN_DIMENSIONS_MAX]; /* elements */
    int align;                            /* bytes */
    bool far; /* strides of GiB: only rows with a value are on the device, no guards */

    struct operand *owner; /* whose memory it lies in, or NULL */
    int64_t offset;        /* there, in elements of its own */

    /* Memory on the host, from element 0 on. */
    uint8_t *image;   /* what is uploaded */
    uint8_t *result;  /* what a launch has left there; NULL before */
    uint8_t *checked; /* [element]: bits: may the kernel write it? */
    char *device;
    size_t front, span, back;  /* bytes before, of and behind the elements */
    bool filled;               /* some element has a value */
    struct operand_rows *rows; /* far: those with a value */
};

/** Offset of an element from the first, in elements. */
int64_t operand_index(const struct operand *o, const int64_t at[]);

/** Returns the number of its elements. */
int64_t operand_count(const struct operand *o);

/* Before the memory is there. */

/** The call does without it: the argument is NULL. */
void operand_leave_out(struct operand *o);

/** Sets the length of a dimension that the schema leaves open, and the strides of a dense
 * tensor. */
void operand_resize(struct operand *o, int axis, int64_t count);

/** Sets strides of a dense tensor, or with gaps: between the elements of each dimension whose
 * stride is free, and with the order of dimensions turned around where all are, or `turned`. */
void operand_set_strides(struct operand *o, bool gaps, bool turned);

/** Sets one stride, in elements. */
void operand_set_stride(struct operand *o, int axis, int64_t stride);

/** Puts `o` into the memory of `owner`, `offset` elements from its first one; strides are the
 * caller's. An operand at offset 0 with the same strides is the owner itself: in place. */
void operand_place_inside(struct operand *o, struct operand *owner, int64_t offset);

/* Elements, where the memory is there. A value is one that the type holds exactly. */

void operand_set(struct operand *o, const int64_t at[], double value);
void operand_set_int(struct operand *o, const int64_t at[], int64_t value);
void operand_set_bits(struct operand *o, const int64_t at[], uint32_t bits);

/** Puts the row of an element of a far tensor on the device, though nothing is set. */
void operand_touch(struct operand *o, const int64_t at[]);

/** Sets every element, in order, to a random_value(), or of 8 bits to any of at most 16. */
void operand_set_random(struct operand *o, uint64_t *random);

/** Sets all memory of a tensor that is not far, gaps too, fast: to random elements of at most
 * `limit` out of a small table; float32 to numbers from limit / 2 to limit, bytes to those below
 * 64, which are small in fp8. */
void operand_set_table(struct operand *o, double limit, uint64_t *random);

/** Sets the first `count` elements of a dense tensor of integers. */
void operand_set_ints(struct operand *o, const int32_t *values, int64_t count);

/** The element as it was uploaded. */
double operand_value(const struct operand *o, const int64_t at[]);
int64_t operand_int(const struct operand *o, const int64_t at[]);
uint32_t operand_bits(const struct operand *o, const int64_t at[]);

/** The element as the kernel left it. */
double operand_result(const struct operand *o, const int64_t at[]);
int64_t operand_result_int(const struct operand *o, const int64_t at[]);
uint32_t operand_result_bits(const struct operand *o, const int64_t at[]);

/** Was an element left as it was? */
bool operand_same(const struct operand *o, const int64_t at[]);

/** An element that the kernel may write, and that is compared otherwise. */
void operand_allow(struct operand *o, const int64_t at[]);

/* For call.c. */

/** From the schema; `args` has the counts. */
void operand_init(struct operand *o, const struct attn_tensor *schema, const char *target);
void operand_allocate(struct operand *o);

/** Sets the pointer and the strides of the arguments. An owner comes before what is inside it. */
void operand_upload(struct operand *o, struct device_memory *m);
void operand_download(struct operand *o, struct device_memory *m);

/** Is all memory but that of checked elements as it was? Else `*at` is an element that is not. */
bool operand_untouched(const struct operand *o, int64_t *at);

/** The results become what the next launch is given. */
void operand_keep_result(struct operand *o);
void operand_free(struct operand *o);

#endif
