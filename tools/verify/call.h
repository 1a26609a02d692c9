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

/** Number of elements of the array `a`. */
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* Most dimensions that a user may set, and most default shapes for `attnc tune`. */
enum { VERIFY_DIMENSIONS = 16, VERIFY_TUNED = 8 };

/** The first member of every row of a table of shapes. */
struct verify_shape {
    const char *name;
    unsigned flags; /* bits: flags of the op's file, and VERIFY_VIEWS, VERIFY_CHOSEN */
};

/** Flag of a shape: tensors and caches have gaps, and their dimensions have another order. */
#define VERIFY_VIEWS (1u << 31)

/** Flag of a shape: only the kernel that the pack's table selects is verified on the shape. */
#define VERIFY_CHOSEN (1u << 30)

/** An integer of a shape that the user of `attnc trace --shape` may set, such as "heads=32". */
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

    /** The table of shapes: rows of shape_size bytes that begin with a struct verify_shape. */
    const void *shapes;
    size_t shape_size, shape_count;

    /** The default shape of `attnc trace`, and the numbers in it that the user may set. The first
     * dimension without a name ends the list. */
    const void *trace;
    struct verify_dimension dimensions[VERIFY_DIMENSIONS];

    /** Shapes that `attnc tune` measures by default, in the form of its option --shapes:
     * "batch=1,q=512". No entry: the op is not tuned. */
    const char *tuned[VERIFY_TUNED];

    /** Sets numbers of a traced shape that --shape left out and that depend on others. Returns
     * NULL, or the reason why the shape cannot be traced. May be NULL. */
    const char *(*complete)(const struct call *c, void *shape);

    size_t own_size; /* bytes of call->own, which are zeroed at first */

    /** Returns the reason why the reference does not cover the kernel; NULL if it does. The member
     * may be NULL: all kernels are covered. */
    const char *(*covers)(const struct call *c);

    /** Returns the name of a stage whose kernel each call of kernel `n` launches, and which `pack`
     * lacks; NULL if there is none. The member may be NULL: a call launches only the kernel. */
    const char *(*lacks)(const struct attn_pack *pack, uint32_t n);

    /** True if the kernel is verified on c->shape. NULL: on every shape. */
    bool (*takes)(const struct call *c);

    /**
     * Sets the sizes of c->desc and the counts of c->args. If `steps` is not 0, size() is called
     * with c->step = 0 to steps - 1 until the pack's table selects the kernel. So size() can try
     * several head ratios or page sizes for a kernel that takes any.
     */
    void (*size)(struct call *c);
    int steps;

    /** Sets lengths of dimensions that the schema leaves open, leaves out operands, and places
     * operands in the memory of others. May be NULL. */
    void (*place)(struct call *c);

    /** Fills all tensors that the kernel reads. */
    void (*fill)(struct call *c);

    /** Prepares the next launch of a call that consists of several launches, and sets c->aside.
     * Returns false after the last launch; only then results are compared. NULL: a call is one
     * launch. */
    bool (*next)(struct call *c);

    /** Compares the results by call_compare() and related functions. Afterwards memory that was not
     * compared is checked to be unchanged. */
    void (*compare)(struct call *c);

    /** Changes inputs for one more launch and comparison, after c->launches launches. Returns false
     * if there is none. NULL: there is one launch. */
    bool (*again)(struct call *c);

    /** Returns the bytes that any kernel must load and store, for trace. NULL:
     * call_operand_bytes(). */
    double (*least_bytes)(const struct call *c);
};

#define OP(op) extern const struct verify_op verify_##op;
#include "ops/ops.def"

/** Sets the table of shapes in the initialiser of a struct verify_op to the array `table`. */
#define VERIFY_SHAPES(table) \
    .shapes = (table), .shape_size = sizeof((table)[0]), .shape_count = COUNT(table)

/** Returns the verification of an op; NULL if it has none. */
const struct verify_op *verify_op_of(const char *op);

/* A call of an op by one kernel on one shape: arguments, tensors, and the sums of errors. */
struct call {
    const struct verify_op *op;
    const struct verify_schema *schema;
    const struct attn_pack *pack;
    uint32_t n; /* number of the kernel in the pack */
    const char *target;
    const void *shape; /* row of the op's table of shapes, or the row that a trace made */
    unsigned flags;    /* flags of the shape: the op's own, VERIFY_VIEWS and VERIFY_CHOSEN */
    size_t number;     /* row number of the shape in its table */
    /* Number of the current try of size() (struct verify_op.steps), and number of launches so
     * far. */
    int step, launches;
    unsigned threads; /* as struct verify_run.threads */
    bool traced;      /* true: the call is made for a trace, and nothing is compared */
    /* true: the next launch runs another kernel, before or after the one that is verified */
    bool aside;

    struct hook *hook; /* the kernel's user-defined logits function, or NULL */
    /* Host copy of the floats that the argument hook_arg points to, see call_fill_hook(); NULL: no
     * logits function. */
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
    double closest;            /* the largest quotient of an element's error and its bound */
    /* Sums of errors with their bounds, in the ways of enum mean_kind. */
    struct mean means[MEAN_KINDS];
    /* hash table of magnitudes of results that `means` has counted; NULL: none yet */
    double *sizes;
    struct call_block *blocks; /* list of the memory from call_allocate() */
};

/** Returns the operand with this number of op_operands.h, such as COMBINE_OUT. */
static inline struct operand *call_operand(struct call *c, unsigned number)
{
    return &c->operands[number];
}

/** True if the call's shape has any of `flags`. */
static inline bool call_has(const struct call *c, unsigned flags) { return c->flags & flags; }

/** Returns the soft cap of a call, in units of a logit: 50 in a trace or with a flag of `huge`, 600
 * with a flag of `large`, else 5. Kernels compute caps above 512 in another way. */
static inline float call_soft_cap(const struct call *c, unsigned huge, unsigned large)
{
    return c->traced || call_has(c, huge) ? 50 : call_has(c, large) ? 600 : 5;
}

/** Returns the entry of sequence i in a list of slots: `slot`, or with the flag `padded` a slot of
 * padding for every third sequence. These are alternately a negative slot and slot 0. */
static inline int call_slot(const struct call *c, unsigned padded, int i, int slot)
{
    if (call_has(c, padded) && i % 3 == 1)
        return i % 2 ? 0 : -1;
    return slot;
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
 * Compares the element `at` of `o`, which the kernel had to write, with `expected`. Fails the row
 * if the error exceeds `bound`, and adds the error to the row's sums. If `expected` is infinite,
 * the result must equal it.
 */
void call_compare(struct call *c, struct operand *o, const int64_t at[], double expected,
                  double bound);

/** Compares as call_compare() does, but compares the number `got` and not the element. `got` is
 * computed from the element, such as the element times its scale. */
void call_compare_value(struct call *c, struct operand *o, const int64_t at[], double got,
                        double expected, double bound);

/** Compares an element of integers, which must equal `expected`. */
void call_compare_int(struct call *c, struct operand *o, const int64_t at[], int64_t expected);

/** Compares as call_compare() does, but does not add the error to the row's sums. For an LSE. */
void call_check(struct call *c, struct operand *o, const int64_t at[], double expected,
                double bound);

/** Verifies the n-th kernel of the pack on shapes of `op` by run->every and run->turn, and reports
 * a row for each. */
void verify_calls(struct verify_run *run, uint32_t n, const struct attn_kernel_info *info,
                  const struct verify_op *op);

/** Fills c->hook_arg with random numbers for the user's logits function and copies them to the
 * device. Returns the device pointer, or NULL for a kernel without such a function. */
const void *call_fill_hook(struct call *c);

/** Fills the sinks of query heads, if the call has them. Among every eight heads one sink is minus
 * infinity, which has no effect, and one is infinity, which takes all weight. */
void call_fill_sinks(struct call *c, struct operand *sinks);

/** Makes a call for trace: completes `shape`, and fills and uploads all tensors. The members op,
 * pack, n, target, shape and memory.gpu must be set. Returns false with the reason in `why` on
 * failure. */
bool call_prepare(struct call *c, void *shape, char *why, size_t why_size);

/** Returns the bytes of all tensors of the call except caches, each counted once. */
double call_operand_bytes(const struct call *c);

/** Returns the bytes that any kernel must load and store for the call. */
double call_least_bytes(const struct call *c);

/** Frees the operands of a call, its memory and its device memory. */
void call_free(struct call *c);

#endif
