/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An op family: how its descriptor becomes a dispatch key, and its arguments the values that
 * kernels take. Families are generated from the schemas in ops/. op.c implements lookup, kernarg
 * packing, grid and launch for all of them.
 */
#ifndef ATTN_FAMILY_H
#define ATTN_FAMILY_H

#include "runtime/attn.h"

struct attn_op;
struct attn_tensor;

/* Numbers of all values that kernels of any op can take. */
enum attn_arg {
#define ARG(ID, name, kind, help) ATTN_ARG_##ID,
#include "op_args.def"
    ATTN_ARG_COUNT
};

union attn_value {
    const void *ptr;
    int64_t i64; /* also sets an i32: little-endian, the low half is packed */
    float f32;
};

enum { ATTN_KEY_FIELDS = 24, ATTN_KEY_CHOICES = 12 };

/*
 * One field of a key. `choices` are values in order of preference: first the descriptor's value,
 * then values of more general kernels that cover it, each with a cost. Lookup chooses the kernel
 * with the smallest sum of costs.
 */
struct attn_key_field {
    const char *field;
    const char *choices[ATTN_KEY_CHOICES];
    uint8_t costs[ATTN_KEY_CHOICES]; /* costs[0] is 0: the first choice is exact */
    uint8_t count;
    char number[12]; /* text of a choice that is a number */
};

struct attn_key {
    struct attn_key_field fields[ATTN_KEY_FIELDS]; /* ascending by name */
    unsigned count;
};

/* Helpers of make_key. The first three append a field with its exact choice and return it; fields
 * are appended in the order of their names. The last adds a covering choice at `cost`. */
struct attn_key_field *attn_key_add(struct attn_key *key, const char *field, const char *value);
struct attn_key_field *attn_key_add_number(struct attn_key *key, const char *field, int value);
struct attn_key_field *attn_key_add_flag(struct attn_key *key, const char *field, bool value);
void attn_key_cover(struct attn_key_field *field, const char *value, unsigned cost);

/* The texts of enum attn_kv_layout and enum attn_kv_scale in descriptions and keys, by their
 * numbers. */
extern const char *const attn_kv_layout_texts[], *const attn_kv_scale_texts[];
extern const size_t attn_kv_layout_texts_count, attn_kv_scale_texts_count;

/* A number of a more general kernel, which also covers smaller numbers, and its text in keys. */
struct attn_key_step {
    int number;
    const char *text;
};

/* Adds each of the `count` steps above `number` as a covering choice. `steps` ascend: the first
 * such step costs `cost` + 1, each further one 1 more. */
void attn_key_cover_up(struct attn_key_field *field, const struct attn_key_step *steps,
                       unsigned count, int number, unsigned cost);

/* A checked descriptor of any op, with its defaults filled in. */
union attn_desc {
#define OP(name) struct attn_##name##_desc name;
#include "ops/ops.def"
};

/* The arguments of a call of any op. */
union attn_args {
#define OP(name) struct attn_##name##_args name;
#include "ops/ops.def"
};

/* The values and the stream of a launch. */
struct attn_call {
    union attn_value values[ATTN_ARG_COUNT];
    void *stream;
    bool empty; /* true: nothing is launched */
};

/* The count that determines y or z of the grid. A call with too large a count is launched in
 * pieces. */
struct attn_split {
    enum attn_arg count;
    int each; /* workgroups in y or z per element; 0: calls of the op are never split */

    /* Removes the first `count` elements from the values of a call. The caller adjusts the count
     * itself. */
    void (*skip)(const union attn_desc *desc, const void *args, int64_t count,
                 union attn_value *values);
};

struct attn_family {
    const char *op;
    size_t desc_size, args_size;

    /* Checks a descriptor and copies it with its defaults filled in. */
    int (*normalise)(const void *desc, union attn_desc *out);
    void (*make_key)(const union attn_desc *desc, struct attn_key *key);

    /*
     * Checks the arguments and sets every value that a kernel of the family can take. Launch path:
     * only fixed error sentences.
     */
    int (*fill)(const union attn_desc *desc, const void *args, struct attn_call *call);

    struct attn_split split;

    /* ATTN_CHECK_DATA: reads lengths and indices from the device and checks them. */
    int (*check_data)(const struct attn_op *op, const void *args);

    /* Describes the tensors of a call, at most ATTN_TENSORS_MAX; returns their number. */
    unsigned (*tensors)(const union attn_desc *desc, void *args, struct attn_tensor *tensors);

    /* The values that fill() sets, enum attn_arg ascending by name. */
    const uint16_t *args;
    unsigned arg_count;
};

#define OP(name) extern const struct attn_family attn_family_##name;
#include "ops/ops.def"

#endif
