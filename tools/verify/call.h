/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file declares a call of an op: descriptor, arguments and tensors that follow from the schema
 * in ops/<op>.def and a row of a table of shapes. `attnc verify` makes calls of every shape and
 * compares what they wrote; `attnc trace` makes one and times it.
 */
#ifndef TOOLS_VERIFY_CALL_H
#define TOOLS_VERIFY_CALL_H

#include "tools/verify/mean.h"
#include "tools/verify/operand.h"

enum { VERIFY_DIMENSIONS = 16, VERIFY_TUNED = 8 };

/** The first member of every row of a table of shapes. */
struct verify_shape {
    const char *name;
    unsigned flags; /* the op's own, VERIFY_VIEWS and VERIFY_CHOSEN */
};

/** Tensors and caches have gaps, and dimensions in another order. */
#define VERIFY_VIEWS (1u << 31)

/** Not for a kernel to which the pack's table does not give it. */
#define VERIFY_CHOSEN (1u << 30)

/** A number of a shape that `attnc trace --shape` may set: "heads=32". */
struct verify_dimension {
    const char *name;
    size_t offset; /* of an int in the shape */
    int most;
    const char *help;
};

struct call;

/** The test of an op: how its calls are made and what they must give. It stands in
 * tools/verify/<op>.c. */
struct verify_op {
    const char *op;

    /** In place of all that follows: verifies the n-th kernel by itself. */
    void (*verify)(struct verify_run *run, uint32_t n, const struct attn_kernel_info *info);

    /** Rows, each of shape_size bytes that begin with a struct verify_shape. */
    const void *shapes;
    size_t shape_size, shape_count;

    /** The row that `attnc trace` begins with, and what it may change. */
    const void *trace;
    struct verify_dimension dimensions[VERIFY_DIMENSIONS];

    /** Shapes that `attnc tune` measures where no file says which, as its option --shapes has them:
     * "batch=1,q=512". None: it does not choose tiles of the op. */
    const char *tuned[VERIFY_TUNED];

    /** Completes a shape for `attnc trace` where --shape left numbers out. Returns why it cannot
     * be traced, or NULL. */
    const char *(*complete)(const struct call *c, void *shape);

    size_t own_size; /* of call->own, zeroed */

    /** Why the reference does not cover the kernel, or NULL; may be left out. */
    const char *(*covers)(const struct call *c);

    /** Is the shape for the kernel? May be left out. */
    bool (*takes)(const struct call *c);

    /**
     * Sets the sizes of c->desc and the counts of c->args. Where c->steps is not 0 it is called
     * until the pack's table gives the kernel, with c->step up to that: for a ratio or a page size
     * that may be any.
     */
    void (*size)(struct call *c);
    int steps;

    /** Lengths of open dimensions, operands that are left out or inside others; may be left out. */
    void (*place)(struct call *c);

    /** Values of all that the kernel reads. */
    void (*fill)(struct call *c);

    /** Compares results by call_compare() and the like; the rest must be as it was. */
    void (*compare)(struct call *c);

    /** Another launch, after which c->launches counts? Sets new values; may be left out. */
    bool (*again)(struct call *c);

    /** Bytes that any kernel has to move, for trace; left out: call_operand_bytes(). */
    double (*least_bytes)(const struct call *c);
};

#define OP(op) extern const struct verify_op verify_##op;
#include "ops/ops.def"

/** NULL for an op without verification. */
const struct verify_op *verify_op_of(const char *op);

struct call {
    const struct verify_op *op;
    const struct verify_schema *schema;
    const struct attn_pack *pack;
    uint32_t n; /* number of the kernel in the pack */
    const char *target;
    const void *shape; /* of the op's table */
    unsigned flags;    /* the shape's */
    size_t number;     /* of the shape in its table */
    int step, launches;
    bool traced; /* nothing is compared */

    struct hook *hook; /* the user's logits function of the kernel, or NULL */
    float *hook_arg;   /* what it finds behind its argument: call_fill_hook() */

    union attn_desc desc;
    union verify_args args;
    void *own;
    struct operand operands[ATTN_TENSORS_MAX];
    unsigned count;
    uint64_t random;
    struct device_memory memory;
    struct verify_row *row;

    double error, norm, bound; /* sums of squares */
    double closest;            /* an error as a part of its bound */
    struct mean means[MEAN_KINDS];
    double *sizes;             /* table of results that are in `means`, by hash; NULL: none is */
    struct call_block *blocks; /* of call_allocate() */
};

/** An operand by its number of op_operands.h: COMBINE_OUT. */
static inline struct operand *call_operand(struct call *c, unsigned number)
{
    return &c->operands[number];
}

/** Does the tuning of the call's kernel say so? */
bool call_is_tuned(const struct call *c, const char *what);

/** Query heads that share a KV head, as the kernel's key says; 0: any number. */
int call_ratio(const struct call *c);

/**
 * Fills in the heads that the user of trace left out (0), by the kernel's ratio; `usual` is the
 * ratio for a kernel that takes any. Returns NULL, or why the kernel does not take these heads.
 */
const char *call_complete_heads(const struct call *c, int *heads, int *kv_heads, int usual);

/** Zeroed memory that lives as long as the call. */
void *call_allocate(struct call *c, size_t count, size_t size);

/**
 * An element that the kernel had to write: fails the row where it is off by more than `bound`, and
 * adds to the row's errors. An infinite value must be met exactly.
 */
void call_compare(struct call *c, struct operand *o, const int64_t at[], double expected,
                  double bound);

/** call_compare() of an element that is worth `got`, as one with a scale is. */
void call_compare_value(struct call *c, struct operand *o, const int64_t at[], double got,
                        double expected, double bound);

/** call_compare() of an integer, which must be exact. */
void call_compare_int(struct call *c, struct operand *o, const int64_t at[], int64_t expected);

/** call_compare() that adds nothing to the row's errors, as for an LSE. */
void call_check(struct call *c, struct operand *o, const int64_t at[], double expected,
                double bound);

/** Verifies the n-th kernel on the shapes that are for it. */
void verify_calls(struct verify_run *run, uint32_t n, const struct attn_kernel_info *info,
                  const struct verify_op *op);

/** Random numbers for the user's logits function, in c->hook_arg and on the device; NULL for a
 * kernel without one. */
const void *call_fill_hook(struct call *c);

/** Fills the sinks of query heads, if the call has them: one of the first four is minus infinity,
 * which is no sink, another one infinity, which takes all weight. */
void call_fill_sinks(struct call *c, struct operand *sinks);

/**
 * Makes a call of `shape` on the device and leaves it there, for trace, which fills the shape in:
 * c->op, pack, n, target, shape and memory.gpu are set. False: `why` says why not.
 */
bool call_prepare(struct call *c, void *shape, char *why, size_t why_size);

/** Bytes of all tensors but caches, each that is read and each that is written once. */
double call_operand_bytes(const struct call *c);

/** Bytes that any kernel has to move for it. */
double call_least_bytes(const struct call *c);

void call_free(struct call *c);

#endif
