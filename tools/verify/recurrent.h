/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares parts that calls of recurrences share: sequences, and the slots from which
 * their states are read and to which they are written.
 */
#ifndef TOOLS_VERIFY_RECURRENT_H
#define TOOLS_VERIFY_RECURRENT_H

#include "tools/verify/call.h"

/* Largest numbers of: sequences in a shape's list, sequences of a call, elements of a key or
 * value. */
enum { RECURRENT_SEQUENCES = 6, RECURRENT_BATCH_MAX = 1024, RECURRENT_DIM_MAX = 256 };
enum { RECURRENT_STEPS_MAX = 64 /* largest number of columns of state_slots in a traced call */ };

/* Flags of a shape of a recurrence. Each op may have further flags. */
enum {
    UNIFORM = 1 << 0,    /* cu_seqlens is NULL */
    ACCEPTED = 1 << 1,   /* the call passes `accepted` */
    FORKS = 1 << 2,      /* states are read from and written to different slots */
    FRESH = 1 << 3,      /* some sequences have no state yet */
    PADDED = 1 << 4,     /* some entries of state_slots are padding; slot 0 is then padding */
    FAR = 1 << 5,        /* slots are GiB apart */
    WIDE_LISTS = 1 << 6, /* rows of state_slots are parts of a wider array */
    EXTREMES = 1 << 7,   /* gates are at their bounds, and some keys are zeros */
    FUSED = 1 << 8,      /* the vectors of a token are slices of one row */
    PLAIN = 1 << 9,      /* all optional arguments are NULL */
    BLOCKS = 1 << 11,    /* only for prompts: states after blocks of tokens are stored too */
};

/** A row of a recurrence's table of shapes. */
struct recurrent_shape {
    struct verify_shape is;
    /* Numbers of key heads, value heads and sequences; tokens of every sequence if `lengths` is
     * empty. */
    int heads, value_heads, batch, length;
    int steps; /* columns of state_slots */
    /* Tokens of each sequence, up to the first 0. */
    int lengths[RECURRENT_SEQUENCES];
};

/** Rows of struct verify_op.dimensions: heads, sequences and tokens. `keys` and `values` are
 * strings that name the operands with key heads and with value heads. */
#define RECURRENT_SIZE_ROWS(keys, values)                                                     \
    {"heads", offsetof(struct recurrent_shape, heads), 1024, "of " keys},                     \
        {"value_heads", offsetof(struct recurrent_shape, value_heads), 1024,                  \
         "of " values ", a multiple of heads"},                                               \
        {"batch", offsetof(struct recurrent_shape, batch), RECURRENT_BATCH_MAX, "sequences"}, \
        {"length", offsetof(struct recurrent_shape, length), 1 << 16, "tokens of each"}

/** Row of struct verify_op.dimensions for an op that stores states of drafts. */
#define RECURRENT_STEPS_ROW                                                       \
    {"state_steps", offsetof(struct recurrent_shape, steps), RECURRENT_STEPS_MAX, \
     "columns of state_slots; above 1 the state after each token is stored"}

/** The counts, lists and states that every recurrence has. The pointers lead to the call's
 * arguments and operands. */
struct recurrent {
    struct call *c;
    /* Row of the op's table of shapes. */
    const struct recurrent_shape *shape;
    struct operand *slots, *slots_in, *cu_seqlens, *accepted, *has_state, *state;
    /* For an op on prompts that stores states after blocks: the operand of slots, and arguments;
     * NULL for other ops. */
    struct operand *block_slots;
    int32_t *block_tokens, *block_columns;
    struct operand *parents; /* parents of drafts that form a tree; NULL: drafts are a chain */
    int32_t *tokens, *batch, *max_seqlen, *state_steps, *first_slot;
    int32_t *starts; /* [batch + 1]: first token of each sequence */
    enum attn_state_layout layout;
    /* numbers of elements of a key and of a value; a head's state is [values][keys] */
    int keys, values;
};

/* Memory of a recurrence in call->own. */
struct recurrent_own {
    int32_t starts[RECURRENT_BATCH_MAX + 1];
    int32_t one; /* always 1: number of columns of state_slots for an op without drafts */
};

/** Makes a struct recurrent for a call. OP is the op's name in numbers of operands, `op` in unions
 * of descriptors and arguments. */
#define RECURRENT_OF(call, op, OP)                                    \
    RECURRENT_WITH(call, op, OP, call_operand((call), OP##_ACCEPTED), \
                   &(call)->args.op.state_steps, )

/** Makes a struct recurrent for a call of an op whose drafts may be a tree. */
#define RECURRENT_OF_TREES(call, op, OP)                              \
    RECURRENT_WITH(call, op, OP, call_operand((call), OP##_ACCEPTED), \
                   &(call)->args.op.state_steps,                      \
                   .parents = (call)->desc.op.tree ? call_operand((call), OP##_PARENTS) : NULL)

/** Makes a struct recurrent for an op on prompts, which takes no drafts. */
#define RECURRENT_OF_PROMPTS(call, op, OP)                                          \
    RECURRENT_WITH(call, op, OP, NULL, &((struct recurrent_own *)(call)->own)->one, \
                   .block_slots = call_operand((call), OP##_BLOCK_SLOTS),           \
                   .block_tokens = &(call)->args.op.block_tokens,                   \
                   .block_columns = &(call)->args.op.block_columns)

#define RECURRENT_WITH(call, op, OP, accepted_operand, steps, ...)               \
    ((struct recurrent){.c = (call),                                             \
                        .shape = (call)->shape,                                  \
                        .slots = call_operand((call), OP##_STATE_SLOTS),         \
                        .slots_in = call_operand((call), OP##_STATE_SLOTS_IN),   \
                        .cu_seqlens = call_operand((call), OP##_CU_SEQLENS),     \
                        .accepted = (accepted_operand),                          \
                        .has_state = call_operand((call), OP##_HAS_STATE),       \
                        .state = call_operand((call), OP##_STATE),               \
                        .tokens = &(call)->args.op.tokens,                       \
                        .batch = &(call)->args.op.batch,                         \
                        .max_seqlen = &(call)->args.op.max_seqlen,               \
                        .state_steps = (steps),                                  \
                        .first_slot = &(call)->args.op.first_slot,               \
                        .starts = ((struct recurrent_own *)(call)->own)->starts, \
                        .layout = (call)->desc.op.state_layout,                  \
                        .keys = (call)->desc.op.head_dim,                        \
                        .values = (call)->desc.op.head_dim_v,                    \
                        __VA_ARGS__})

/** True if a kernel can run shape `s`. With `tree` each draft needs a slot, so no sequence may have
 * more tokens than s->steps. */
bool recurrent_takes(const struct recurrent_shape *s, bool tree);

/** Sets the numbers of tokens, sequences and columns of slots in the call's arguments. */
void recurrent_size(const struct recurrent *r);

/** Sets the strides and the alignment of the states and the lists. */
void recurrent_place(const struct recurrent *r);

/** Aligns a pool of states to 16 bytes. With VERIFY_VIEWS slots have gaps, and each slot is aligned
 * too. */
void recurrent_align(const struct call *c, struct operand *state);

/** Fills the lists of slots, the lengths and the states. */
void recurrent_fill(const struct recurrent *r);

/** A sequence of a call, as the reference computes it. */
struct recurrent_sequence {
    /* start: index of the first token. count: number of tokens. */
    int start, count;
    int slot; /* slot of the initial state */
    /* padding: true if no state is read or written. zero: true if the initial state is zeros */
    bool padding, zero;
};
/** Returns sequence i of a call, from its lists. */
struct recurrent_sequence recurrent_sequence(const struct recurrent *r, int i);

/** Returns the slot to which the state after token t of sequence i is written; -1: it is not
 * stored. */
int recurrent_target(const struct recurrent *r, int i, int t);

/** Returns the slot to which the state before token t of sequence i is written because a block of
 * tokens ends there; -1: no block ends there, or its state is not stored. */
int recurrent_block_target(const struct recurrent *r, int i, int t);

/** Sets at[] to the indices of element (k, v) of a head's state in a slot. */
void recurrent_element(enum attn_state_layout layout, int slot, int head, int v, int k,
                       int64_t at[]);

/** The reference's state of a value head, with a bound of the kernel's error. */
struct recurrent_head {
    double state[RECURRENT_DIM_MAX][RECURRENT_DIM_MAX]; /* [v][k] */
    /* For each row v: bound of the Euclidean length of the row's error. */
    double error[RECURRENT_DIM_MAX];
};

/** Sets `h->state` to a sequence's initial state, zeros if it has none, and `h->error` to 0. */
void recurrent_load_state(const struct recurrent *r, const struct recurrent_sequence *s, int head,
                          struct recurrent_head *h);

/** Sets `h` to the state before token t of sequence i, if drafts form a tree: the parent's state as
 * the kernel stored it, or zeros if the parent has no slot. Does not change `h` for a root, or for
 * a chain. */
void recurrent_load_parent(const struct recurrent *r, int i, int t, int head,
                           struct recurrent_head *h);

/** Compares with 0 the elements of `out`, a row for each token, of a sequence that is padding. Does
 * nothing if `out` is left out. */
void recurrent_compare_padding(const struct recurrent *r, struct operand *out,
                               const struct recurrent_sequence *s);

/** Compares the state that a kernel stored in a slot with the reference `h`. A state of 16 bits
 * must be the reference's, rounded once. A float32 state may differ by h->error. */
void recurrent_compare_state(const struct recurrent *r, int slot, int head,
                             const struct recurrent_head *h);

#endif
