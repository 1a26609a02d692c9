/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file declares a call of an op: its descriptor, arguments and tensors. They follow from the
 * schema in ops/<op>.def and a row of a table of shapes. `attnc verify` makes the calls of all
 * shapes and compares the results; `attnc trace` makes one call and times it.
 */
#ifndef TOOLS_VERIFY_CALL_H
#define TOOLS_VERIFY_CALL_H

#include "tools/verify/mean.h"
#include "tools/verify/operand.h"

/* Most dimensions that a user may set, and most default shapes for `attnc tune`. */
enum { VERIFY_DIMENSIONS = 16, VERIFY_TUNED = 8 };

/** The first member of every row of a table of shapes. */
struct verify_shape {
    const char *name;
    unsigned flags; /* the op's own flags, and VERIFY_VIEWS, VERIFY_CHOSEN */
};

/** Flag: tensors and caches have gaps, and dimensions in another order. */
#define VERIFY_VIEWS (1u << 31)

/** Flag: the shape is only for the kernel that the pack's table selects for it. */
#define VERIFY_CHOSEN (1u << 30)

/** A number of a shape that `attnc trace --shape` may set, such as "heads=32". */
struct verify_dimension {
    const char *name;
    size_t offset;    /* offset of an int in the shape, in bytes */
    int most;         /* largest value that the user may set */
    const char *help; /* text for `attnc trace --shape help` */
};

struct call;

/** The functions that make and compare the calls of an op, defined in tools/verify/<op>.c. */
struct verify_op {
    const char *op;

    /** Replaces all other members: verifies the n-th kernel by itself. */
    void (*verify)(struct verify_run *run, uint32_t n, const struct attn_kernel_info *info);

    /** The table of shapes: rows of shape_size bytes that begin with a struct verify_shape. */
    const void *shapes;
    size_t shape_size, shape_count;

    /** The shape with which `attnc trace` begins, and the numbers that the user may set. */
    const void *trace;
    struct verify_dimension dimensions[VERIFY_DIMENSIONS];

    /** Shapes that `attnc tune` measures by default, in the form of its option --shapes:
     * "batch=1,q=512". None: the op is not tuned. */
    const char *tuned[VERIFY_TUNED];

    /** Sets the numbers of a shape for `attnc trace` that --shape left out. Returns NULL, or why it
     * cannot be traced. */
    const char *(*complete)(const struct call *c, void *shape);

    size_t own_size; /* bytes of call->own, which begin zeroed */

    /** Returns why the reference does not cover the kernel; NULL if it does. The member may be
     * NULL. */
    const char *(*covers)(const struct call *c);

    /** True if the kernel is verified on c->shape. NULL: on every shape. */
    bool (*takes)(const struct call *c);

    /**
     * Sets the sizes of c->desc and the counts of c->args. If `steps` is not 0, it is called with
     * c->step = 0 to steps - 1 until the pack's table selects the kernel. So it can try values of a
     * ratio or page size that may be any.
     */
    void (*size)(struct call *c);
    int steps;

    /** Sets the lengths of dimensions that the schema leaves open. Marks operands that are left out
     * or lie in the memory of others. May be NULL. */
    void (*place)(struct call *c);

    /** Fills everything that the kernel reads. */
    void (*fill)(struct call *c);

    /** Prepares the next launch of a call that is made in several, and sets c->aside. Returns false
     * after the last one; only then results are compared. NULL: a call is one launch. */
    bool (*next)(struct call *c);

    /** Compares results by call_compare() and related functions. All other memory must be
     * unchanged. */
    void (*compare)(struct call *c);

    /** Prepares another launch after launch number c->launches. Returns false if there is none. May
     * be NULL. */
    bool (*again)(struct call *c);

    /** Returns the bytes that any kernel must move, for trace. NULL: call_operand_bytes(). */
    double (*least_bytes)(const struct call *c);
};

#define OP(op) extern const struct verify_op verify_##op;
#include "ops/ops.def"

/** Returns the verification of an op; NULL if it has none. */
const struct verify_op *verify_op_of(const char *op);

/* A call that is being made: its kernel, shape, arguments and tensors, and the errors so far. */
struct call {
    const struct verify_op *op;
    const struct verify_schema *schema;
    const struct attn_pack *pack;
    uint32_t n; /* number of the kernel in the pack */
    const char *target;
    const void *shape; /* row of the op's table, or a trace's own row */
    unsigned flags;    /* flags of the shape: the op's own, VERIFY_VIEWS and VERIFY_CHOSEN */
    size_t number;     /* row number of the shape in its table */
    /* Number of the try at a size (struct verify_op.steps), and launches made so far. */
    int step, launches;
    bool traced; /* true: nothing is compared */
    bool aside;  /* the next launch is of another kernel, before or after the one being verified */

    struct hook *hook; /* the kernel's user-defined logits function, or NULL */
    /* The floats of the argument hook_arg on the host, see call_fill_hook(); NULL: none. */
    float *hook_arg;

    union attn_desc desc;
    union verify_args args;
    /* Data of the op, struct verify_op.own_size bytes; freed with the call. */
    void *own;
    struct operand operands[ATTN_TENSORS_MAX];
    /* Number of operands. */
    unsigned count;
    /* State of the random numbers; see random_bits(). */
    uint64_t random;
    struct device_memory memory;
    /* The line of results that this call fills. */
    struct verify_row *row;

    double error, norm, bound; /* sums of squares of errors, of expected values and of bounds */
    double closest;            /* the largest error relative to its bound */
    struct mean means[MEAN_KINDS];
    double *sizes;             /* hash table of results counted in `means`; NULL: none */
    struct call_block *blocks; /* memory of call_allocate() */
};

/** Returns the operand with a number of op_operands.h, such as COMBINE_OUT. */
static inline struct operand *call_operand(struct call *c, unsigned number)
{
    return &c->operands[number];
}

/** True if the tuning string of the call's kernel contains `what`. */
bool call_is_tuned(const struct call *c, const char *what);

/** Returns the query heads per KV head that the kernel's key names; 0: any number. */
int call_ratio(const struct call *c);

/**
 * Sets the head counts that the user of trace left out (0) from the kernel's ratio. `usual` is the
 * ratio for a kernel that takes any. Returns NULL, or why the kernel does not take these heads.
 */
const char *call_complete_heads(const struct call *c, int *heads, int *kv_heads, int usual);

/** Allocates zeroed memory for `count` elements of `size` bytes. It is freed with the call. */
void *call_allocate(struct call *c, size_t count, size_t size);

/**
 * Compares an element that the kernel had to write. Fails the row if the error exceeds `bound`, and
 * adds the error to the row's sums. If `expected` is infinite, the result must equal it.
 */
void call_compare(struct call *c, struct operand *o, const int64_t at[], double expected,
                  double bound);

/** Like call_compare(), but compares `got` instead of the element itself, such as the element times
 * its scale. */
void call_compare_value(struct call *c, struct operand *o, const int64_t at[], double got,
                        double expected, double bound);

/** Compares an integer, which must be exact. */
void call_compare_int(struct call *c, struct operand *o, const int64_t at[], int64_t expected);

/** Like call_compare(), but does not add to the row's sums; for an LSE. */
void call_check(struct call *c, struct operand *o, const int64_t at[], double expected,
                double bound);

/** Verifies the n-th kernel on its shapes. */
void verify_calls(struct verify_run *run, uint32_t n, const struct attn_kernel_info *info,
                  const struct verify_op *op);

/** Fills c->hook_arg with random numbers for the user's logits function and copies them to the
 * device. Returns the device pointer, or NULL for a kernel without such a function. */
const void *call_fill_hook(struct call *c);

/** Fills the sinks of query heads, if the call has them. One of the first four is minus infinity,
 * which is no sink, and another is infinity, which takes all weight. */
void call_fill_sinks(struct call *c, struct operand *sinks);

/** Makes a call of `shape` on the device for trace, and completes the shape. c->op, pack, n,
 * target, shape and memory.gpu must be set. Returns false with the reason in `why` on failure. */
bool call_prepare(struct call *c, void *shape, char *why, size_t why_size);

/** Returns the bytes of all tensors except caches: each one that is read and each one that is
 * written, once. */
double call_operand_bytes(const struct call *c);

/** Returns the bytes that any kernel has to move for the call. */
double call_least_bytes(const struct call *c);

/** Frees a call and its operands. */
void call_free(struct call *c);

#endif
