/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An op family: the functions that turn an op's descriptor into a dispatch key, and the arguments
 * of a call into kernel arguments. There is one family per op, generated from its schema in ops/.
 * op.c implements lookup, kernarg packing, grid and launch for all families.
 */
#ifndef ATTN_FAMILY_H
#define ATTN_FAMILY_H

#include "runtime/attn.h"

struct attn_op;
struct attn_tensor;

/* All arguments that kernels of any op can have, sorted by name. */
enum attn_arg {
#define ARG(ID, name, kind, help) ATTN_ARG_##ID,
#include "op_args.def"
    ATTN_ARG_COUNT
};

/* The value of a kernel argument. */
union attn_value {
    const void *ptr;
    /* value of an integer; for a 32-bit argument only its low 4 bytes, which come first, are
     * packed */
    int64_t i64;
    float f32;
};

/* Most fields of a dispatch key, and most choices of a field. */
enum { ATTN_KEY_FIELDS = 24, ATTN_KEY_CHOICES = 12 };

/*
 * A field of the dispatch key by which an op looks a kernel up. `choices` are values in order of
 * preference: the descriptor's value, then values of more general kernels that cover it. Each has a
 * cost, and lookup chooses the kernel with the smallest sum of costs.
 */
struct attn_key_field {
    const char *field;
    const char *choices[ATTN_KEY_CHOICES];
    /* cost of each choice; costs[0] is 0, since the first choice is exact */
    uint8_t costs[ATTN_KEY_CHOICES];
    uint8_t count;   /* number of choices */
    char number[12]; /* memory for the text of a choice that is a number */
};

/* The dispatch key by which an op looks a kernel up. */
struct attn_key {
    struct attn_key_field fields[ATTN_KEY_FIELDS]; /* sorted by name */
    unsigned count;
};

/* Appends a field to the key, with `value` as its exact choice, and returns it. Fields must be
 * appended in the order of their names. */
struct attn_key_field *attn_key_add(struct attn_key *key, const char *field, const char *value);
/* Like attn_key_add(), with the decimal text of a number. */
struct attn_key_field *attn_key_add_number(struct attn_key *key, const char *field, int value);

/* Like attn_key_add(), with "true" or "false". */
struct attn_key_field *attn_key_add_flag(struct attn_key *key, const char *field, bool value);

/* Adds `value` as a choice of a more general kernel to the field, at the cost `cost`. */
void attn_key_cover(struct attn_key_field *field, const char *value, unsigned cost);

/* The texts of enum attn_kv_layout and enum attn_kv_scale in descriptions and keys, indexed by the
 * values of the enums. */
extern const char *const attn_kv_layout_texts[], *const attn_kv_scale_texts[];
extern const size_t attn_kv_layout_texts_count, attn_kv_scale_texts_count;

/* A field's value in a kernel that also covers smaller numbers, and its text in keys. */
struct attn_key_step {
    int number;
    const char *text;
};

/* Adds to the field, as choices of more general kernels, each of the `count` steps that is above
 * `number`. `steps` ascend. The first such step costs `cost` + 1, and each further one costs 1
 * more. */
void attn_key_cover_up(struct attn_key_field *field, const struct attn_key_step *steps,
                       unsigned count, int number, unsigned cost);

/* A checked descriptor of any op, with its defaults filled in. */
union attn_desc {
#define OP(name) struct attn_##name##_desc name;
#include "ops/ops.def"
};

/* The argument struct of a call of any op. */
union attn_args {
#define OP(name) struct attn_##name##_args name;
#include "ops/ops.def"
};

/* The kernel arguments and the stream of a launch. */
struct attn_call {
    /* values of the kernel arguments, indexed by enum attn_arg */
    union attn_value values[ATTN_ARG_COUNT];
    void *stream;
    bool empty; /* true: the call has no work, so nothing is launched */
};

/* The argument that limits y or z of the grid. A call in which it is too large is launched in
 * pieces. */
struct attn_split {
    enum attn_arg count; /* the kernel argument: a number of sequences, or of pairs of pages */
    /* workgroups in y or z for each sequence or pair; 0: calls are never launched in pieces */
    int each;

    /* Moves the pointers in `values` past the first `count` sequences, or pairs of pages, of a
     * call. The caller reduces the number of sequences or pairs in `values`. */
    void (*skip)(const union attn_desc *desc, const void *args, int64_t count,
                 union attn_value *values);
};

struct attn_family {
    const char *op;              /* name of the op, such as "prefill" */
    size_t desc_size, args_size; /* bytes of the op's descriptor and argument structs */

    /* Checks the descriptor `desc` and copies it with its defaults filled in to `out`. Returns
     * ATTN_OK or an error. */
    int (*normalise)(const void *desc, union attn_desc *out);
    /* Writes the dispatch key of a descriptor that normalise() has written. */
    void (*make_key)(const union attn_desc *desc, struct attn_key *key);

    /*
     * Checks the argument struct of a call and sets every argument that a kernel of the family can
     * have. Runs during a launch, so messages are constant sentences.
     */
    int (*fill)(const union attn_desc *desc, const void *args, struct attn_call *call);

    struct attn_split split;

    /* Reads lengths and indices of a call from the device and checks them, for ATTN_CHECK_DATA. */
    int (*check_data)(const struct attn_op *op, const void *args);

    /* Describes the tensors of a call, whose addresses and sizes are in `args`. Returns their
     * number, at most ATTN_TENSORS_MAX. */
    unsigned (*tensors)(const union attn_desc *desc, void *args, struct attn_tensor *tensors);

    /* The arguments that fill() sets, enum attn_arg in the order of their names. */
    const uint16_t *args;
    unsigned arg_count;
};

#define OP(name) extern const struct attn_family attn_family_##name;
#include "ops/ops.def"

#endif
