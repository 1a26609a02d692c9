/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares what recurrences over tokens share. A wave keeps a part of the state of one
 * sequence and value head in registers, and goes over the sequence's tokens. The loads of the next
 * token's vectors are in flight while it computes one.
 *
 * These ops have arguments in common: q and k_in of a head, v_in and out of a value head, the state
 * and its slots, and the arguments that att_sequence() reads.
 */
#ifndef TEMPLATES_LINEAR_RECURRENCE_H
#define TEMPLATES_LINEAR_RECURRENCE_H

#include "templates/linear/sequence.h"
#include "templates/linear/state.h"
#include "templates/template.h"

enum { ATT_RECURRENCE_VECTORS = 6 }; /* most tiles that load() loads for a token */

/* A kernel of a recurrence under construction. The wave's part of the state is rows x K: `rows`
 * value elements by the K (head_dim) elements of a key. */
struct att_recurrence {
    struct tir_builder b;
    const struct att_variant *v;
    unsigned dtype;               /* enum tir_dtype of q, k, v and out in memory */
    struct att_state state;       /* the wave's part of the state, and its form in the pool */
    struct att_sequence sequence; /* the workgroup's sequence */
    /* i32: index of the head of q and k; index of the value head, the head of v, out and the
     * state. */
    struct tir_value head, value_head;
    struct tir_value first; /* i32: index of the wave's first value element */
    /* i1: the sequence is one of the batch; false: the sequence is padding. */
    struct tir_value real;

    struct tir_value slot;  /* i32: slot of the pool from which the sequence's state is read */
    struct tir_value token; /* i32: row of q, k, v and out of the token that advance() processes */
    bool keeps_state;       /* true: the state after the last token is not written to the pool */

    unsigned vectors; /* number of tiles that load() loads for a token */
    /* Issues the loads of the vectors of token `token` (i32 row) into raw[]; zeros if `there` (i1)
     * is false. */
    void (*load)(struct att_recurrence *r, struct tir_value token, struct tir_value there,
                 struct tir_value *raw);
    /** Advances *state by one token, whose vectors load() has loaded to raw[]. Returns the token's
     * output, f32, rows x 1. */
    struct tir_value (*advance)(struct att_recurrence *r, const struct tir_value *raw,
                                struct tir_value *state);
    /* Loads the numbers that all tokens of the sequence share, before the first token. NULL: there
     * are none. */
    void (*begin)(struct att_recurrence *r);
};

/** Builds the kernel of a recurrence whose v, dtype, vectors and functions are set. The grid is
 * parts of a state x value heads x sequences. */
void att_recurrence_build(struct att_recurrence *r, const struct tir_machine *m,
                          struct att_kernel *out);

/** Returns the address (i64) of the workgroup's head of token `token` (i32 row) in tensor `t`,
 * which is q or k. */
struct tir_value att_recurrence_key(struct att_recurrence *r, struct att_tensor t,
                                    struct tir_value token);
/** Returns the address (i64) of the wave's first value element of token `token` (i32 row). Tensor
 * `t` has value heads, as v and out have. */
struct tir_value att_recurrence_value(struct att_recurrence *r, struct att_tensor t,
                                      struct tir_value token);

/** Returns the slot (i32) to which the state after token `step` (i32) of the sequence is
 * written. */
struct tir_value att_recurrence_slot(struct att_recurrence *r, struct tir_value step);

/** Returns the slot (i32) of the state after token `step` (i32) of the sequence's previous call. */
struct tir_value att_recurrence_slot_in(struct att_recurrence *r, struct tir_value step);

/** Returns the address (i64) of the value head's state in slot `slot` (i32). */
struct tir_value att_recurrence_state(struct att_recurrence *r, struct tir_value slot);

/** Returns the address (i64) of element `element` (i32 index) of the row of token `token` (i32) in
 * tensor `t`. An element has `size` bytes. */
struct tir_value att_recurrence_element(struct att_recurrence *r, struct att_tensor t, int size,
                                        struct tir_value token, struct tir_value element);

/** Returns the product of `state` (rows x head_dim) with `key` (1 x head_dim): a number for each
 * value element, rows x 1. */
struct tir_value att_recurrence_product(struct att_recurrence *r, struct tir_value state,
                                        struct tir_value key);

/** Returns `state` (rows x head_dim) with its elements multiplied by `a`. `a` is one number, 1 x
 * head_dim for the elements of keys, or rows x 1 for value elements. */
struct tir_value att_recurrence_scaled(struct att_recurrence *r, struct tir_value state,
                                       struct tir_value a);

#endif
