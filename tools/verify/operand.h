/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file declares the tensors of a call: their memory on the host and on the device, and their
 * elements. Functions take an element's indices, outermost first: AT(token, head, d).
 */
#ifndef TOOLS_VERIFY_OPERAND_H
#define TOOLS_VERIFY_OPERAND_H

#include "tools/verify/memory.h"
#include "tools/verify/numbers.h"
#include "tools/verify/schema.h"

/* Makes an array of an element's indices, outermost first. */
#define AT(...) ((const int64_t[ATTN_DIMENSIONS_MAX]){__VA_ARGS__})

/* Marks of an element. CHECKED: the kernel may write it, since it is compared. NOTED: it is the
 * first of a row of a far tensor, and the row is on the device. */
enum { OPERAND_CHECKED = 1 << 0, OPERAND_NOTED = 1 << 1 };

/**
 * One tensor. Memory that was not set holds poison: NaNs, or integers with no meaning. Poison also
 * surrounds the tensor, before the first element and after the last. The first element is aligned
 * to no more than the schema requires.
 */
struct operand {
    /* The tensor in the op's schema: name, element type, and whether the kernel writes it. */
    struct attn_tensor schema;
    const struct precision *precision; /* NULL: float32 or integers */
    bool given;                        /* false: the tensor is left out, and its argument is NULL */
    int size;                          /* bytes of an element */
    /* Lengths of the dimensions, in elements; initially 0 if the schema has `any`. */
    int64_t dims[ATTN_DIMENSIONS_MAX];
    int64_t strides[ATTN_DIMENSIONS_MAX]; /* elements from an index to the next, by dimension */
    int align;                            /* alignment of the first element, in bytes */
    /* true: strides are GiB, only rows with a value are on the device, and no poison surrounds the
     * tensor */
    bool far;

    /* the operand in whose memory this one lies; NULL: it has its own memory */
    struct operand *owner;
    /* distance from the owner's first element, in elements of this operand */
    int64_t offset;

    /* Memory on the host, from element 0 on. */
    uint8_t *image;   /* contents before the launch, which are uploaded */
    uint8_t *result;  /* contents after the launch; NULL before it */
    uint8_t *checked; /* for each element: OPERAND_CHECKED and OPERAND_NOTED */
    char *device;     /* address of element 0 on the device; NULL before operand_upload() */
    /* Bytes of poison before the elements, of the elements, and of poison after them. */
    size_t front, span, back;
    bool filled;               /* true: some element has a value */
    struct operand_rows *rows; /* of a far tensor: the rows with a value */
};

/** Returns the distance of an element from the first one, in elements. */
static inline int64_t operand_index(const struct operand *o, const int64_t at[])
{
    int64_t index = 0;
    for (int k = 0; k < o->schema.ndim; k++)
        index += at[k] * o->strides[k];
    return index;
}

/** Returns the number of elements: the product of the dimensions. */
int64_t operand_count(const struct operand *o);

/* The functions from here on are called before memory is allocated. */

/** Omits the tensor from the call: its argument is NULL. */
void operand_leave_out(struct operand *o);

/** Sets the length of a dimension that the schema leaves open, and the strides of a dense
 * tensor. */
void operand_resize(struct operand *o, int axis, int64_t count);

/** Sets the strides of a dense tensor, or of one with gaps between the elements of each dimension
 * whose stride is free. With `exchanged` the two innermost of these dimensions change places in
 * memory. */
void operand_set_strides(struct operand *o, bool gaps, bool exchanged);

/** Sets one stride, in elements. */
void operand_set_stride(struct operand *o, int axis, int64_t stride);

/** Places `o` in the memory of `owner`, `offset` elements after the owner's first element. The
 * caller sets strides. With offset 0 and the owner's strides the kernel works in place. */
void operand_place_inside(struct operand *o, struct operand *owner, int64_t offset);

/* The functions from here on need allocated memory. Types of 8 and 16 bits must represent a value
 * exactly. Most functions for single elements are inline, since a run has millions of elements. */

/** Adds the row of element `at` to the rows of a far operand that are copied to the device, and
 * writes poison to its elements. Does nothing for a row that was added before. */
void operand_note_row(struct operand *o, const int64_t at[]);

/** Calls operand_note_row() if the tensor is far. */
static inline void operand_touch(struct operand *o, const int64_t at[])
{
    if (o->rows)
        operand_note_row(o, at);
}

/** Returns the bits of an element of `size` bytes. Copies have constant sizes, so that they are
 * instructions and not calls. */
static inline uint64_t operand_load(const uint8_t *element, int size)
{
    uint64_t wide;
    uint32_t word;
    uint16_t half;
    switch (size) {
    case 1: return *element;
    case 2: memcpy(&half, element, sizeof(half)); return half;
    case 4: memcpy(&word, element, sizeof(word)); return word;
    default: memcpy(&wide, element, sizeof(wide)); return wide;
    }
}

/** Writes the bits of an element of `size` bytes. */
static inline void operand_store(uint8_t *element, uint64_t bits, int size)
{
    const uint32_t word = (uint32_t)bits;
    const uint16_t half = (uint16_t)bits;
    switch (size) {
    case 1: *element = (uint8_t)bits; break;
    case 2: memcpy(element, &half, sizeof(half)); break;
    case 4: memcpy(element, &word, sizeof(word)); break;
    default: memcpy(element, &bits, sizeof(bits)); break;
    }
}

/** Sets an element of an operand of integers. */
static inline void operand_set_int(struct operand *o, const int64_t at[], int64_t value)
{
    o->filled = true;
    operand_touch(o, at);
    operand_store(o->image + operand_index(o, at) * o->size, (uint64_t)value, o->size);
}

/** Sets the bits of an element. */
static inline void operand_set_bits(struct operand *o, const int64_t at[], uint32_t bits)
{
    operand_set_int(o, at, bits);
}

/** Sets an element to `value`, which float32 rounds; other types must represent it exactly. */
static inline void operand_set(struct operand *o, const int64_t at[], double value)
{
    const float narrow = (float)value;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof(bits));
    operand_set_bits(o, at, o->precision ? encode_element(o->precision, value) : bits);
}

/** Sets the element with index `at` and the next count - 1 of its row, the last dimension, to
 * random numbers. Elements of a narrow type get random_element() with magnitudes up to `limit`,
 * float32 ones get random_value(). *random is the state of the generator. */
void operand_set_random_run(struct operand *o, const int64_t at[], int64_t count, double limit,
                            uint64_t *random);

/** Sets every element, in order, to a random_value(). 8-bit elements get random numbers of
 * magnitude 16 at most. */
void operand_set_random(struct operand *o, uint64_t *random);

/** Sets every element with first index `row` of a tensor of three dimensions to a random_value().
 * Does nothing if the tensor is left out. */
void operand_set_random_row(struct operand *o, int64_t row, uint64_t *random);

/** Sets all memory of a tensor that is not far, including gaps, by repeating a small table of
 * random elements, which is fast. Magnitudes are `limit` at most, in float32 limit / 2 to limit.
 * Bytes are less than 64, which are small numbers as fp8. */
void operand_set_table(struct operand *o, double limit, uint64_t *random);

/** Sets the first `count` elements of a dense tensor of integers. */
void operand_set_ints(struct operand *o, const int32_t *values, int64_t count);

/** Sets all elements of a dense tensor of integers to 0. */
void operand_clear(struct operand *o);

/** Returns the number with the bits of an element. */
static inline double operand_decode(const struct operand *o, uint64_t bits)
{
    return o->precision ? decode_element(o->precision, (uint16_t)bits)
                        : (double)bits_to_float((uint32_t)bits);
}

/** Returns the integer with the bits of an element. */
static inline int64_t operand_integer(const struct operand *o, uint64_t bits)
{
    return o->schema.element == ATTN_I32 ? (int32_t)bits : (int64_t)bits;
}

/** Returns the bits of an element before the launch. */
static inline uint64_t operand_wide_bits(const struct operand *o, const int64_t at[])
{
    return operand_load(o->image + operand_index(o, at) * o->size, o->size);
}

/** Returns the bits of an element after the launch. */
static inline uint64_t operand_wide_result(const struct operand *o, const int64_t at[])
{
    return operand_load(o->result + operand_index(o, at) * o->size, o->size);
}

/** Returns the value of an element before the launch. */
static inline double operand_value(const struct operand *o, const int64_t at[])
{
    return operand_decode(o, operand_wide_bits(o, at));
}

/** Returns the value of an element before the launch; 0 if the tensor is left out. */
static inline double operand_value_or_zero(const struct operand *o, const int64_t at[])
{
    return o->given ? operand_value(o, at) : 0;
}

/** Writes the values of `count` elements before the launch to `to`: element `at`, and the next ones
 * along the last dimension. */
void operand_read(const struct operand *o, const int64_t at[], int64_t count, double *to);

/** Returns an integer element before the launch. */
static inline int64_t operand_int(const struct operand *o, const int64_t at[])
{
    return operand_integer(o, operand_wide_bits(o, at));
}

/** Returns the bits of an element before the launch. */
static inline uint32_t operand_bits(const struct operand *o, const int64_t at[])
{
    return (uint32_t)operand_wide_bits(o, at);
}

/** Returns the value of an element after the launch. */
static inline double operand_result(const struct operand *o, const int64_t at[])
{
    return operand_decode(o, operand_wide_result(o, at));
}

/** Returns an integer element after the launch. */
static inline int64_t operand_result_int(const struct operand *o, const int64_t at[])
{
    return operand_integer(o, operand_wide_result(o, at));
}

/** Returns the bits of an element after the launch. */
static inline uint32_t operand_result_bits(const struct operand *o, const int64_t at[])
{
    return (uint32_t)operand_wide_result(o, at);
}

/** True if an element has the same bits after the launch as before it. */
static inline bool operand_same(const struct operand *o, const int64_t at[])
{
    return operand_wide_bits(o, at) == operand_wide_result(o, at);
}

/** Marks an element as one that the kernel may write. For elements that the caller does not compare
 * by call_compare(). */
static inline void operand_allow(struct operand *o, const int64_t at[])
{
    o->checked[operand_index(o, at)] |= OPERAND_CHECKED;
}

/* The functions from here on are for call.c only. */

/** Initialises an operand from its tensor in the op's schema, which has dimensions and strides of
 * the call. */
void operand_init(struct operand *o, const struct attn_tensor *schema, const char *target);
/** Allocates the host copies of an operand and fills them with poison. */
void operand_allocate(struct operand *o);

/** Copies the operand to the device, and sets its pointer and strides in the arguments. An owner
 * must be uploaded before the operands inside it. */
void operand_upload(struct operand *o, struct device_memory *m);
/** Copies the operand back from the device after a launch. */
void operand_download(struct operand *o, struct device_memory *m);

/** True if the launch changed no memory except checked elements. Otherwise *at is the distance of a
 * changed element from the first one, in elements. */
bool operand_untouched(const struct operand *o, int64_t *at);

/** Makes the results of a launch the contents before the next launch, and marks all elements as
 * unchecked. */
void operand_keep_result(struct operand *o);
/** Frees the host copies of an operand. */
void operand_free(struct operand *o);

#endif
