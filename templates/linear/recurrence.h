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

enum { ATT_RECURRENCE_VECTORS = 6 };

struct att_recurrence {
    struct tir_builder b;
    const struct att_variant *v;
    unsigned dtype; /* of tokens */
    struct att_state state;
    struct att_sequence sequence;
    struct tir_value head, value_head; /* i32: of q and k; of v and the state */
    struct tir_value first;            /* i32: the wave's first value element */
    struct tir_value real;             /* i1: false: the sequence is padding of a batch */

    struct tir_value slot;  /* i32: slot that the state is read from */
    struct tir_value token; /* i32: token that advance() processes */
    bool keeps_state;       /* true: the pool's state is not written */

    unsigned vectors; /* number of tiles that load() loads for a token */
    void (*load)(struct att_recurrence *r, struct tir_value token, struct tir_value there,
                 struct tir_value *raw);
    /** Advances the state by one token whose loaded vectors are raw[]. Returns the token's output,
     * rows x 1. */
    struct tir_value (*advance)(struct att_recurrence *r, const struct tir_value *raw,
                                struct tir_value *state);
    /* Loads the numbers that all tokens share; may be NULL. */
    void (*begin)(struct att_recurrence *r);
};

/** Builds the kernel of a recurrence whose v, dtype, vectors and functions are set. The grid is
 * parts of a state x value heads x sequences. */
void att_recurrence_build(struct att_recurrence *r, const struct tir_machine *m,
                          struct att_kernel *out);

/** Returns the address of a token's head in q or k. */
struct tir_value att_recurrence_key(struct att_recurrence *r, struct att_tensor t,
                                    struct tir_value token);
/** Returns the address of the wave's value elements of a token's value head in v or out. */
struct tir_value att_recurrence_value(struct att_recurrence *r, struct att_tensor t,
                                      struct tir_value token);

/** Returns the slot (i32) to which the state after token `step` (i32) of the sequence is
 * written. */
struct tir_value att_recurrence_slot(struct att_recurrence *r, struct tir_value step);

/** Returns the slot of the state after token `step` (i32) of the sequence's previous call. */
struct tir_value att_recurrence_slot_in(struct att_recurrence *r, struct tir_value step);

/** Returns the address (i64) of the value head's state in slot `slot` (i32). */
struct tir_value att_recurrence_state(struct att_recurrence *r, struct tir_value slot);

/** Returns the address (i64) of element `element` (i32) of a token's row in `t`. An element has
 * `size` bytes. */
struct tir_value att_recurrence_element(struct att_recurrence *r, struct att_tensor t, int size,
                                        struct tir_value token, struct tir_value element);

/** Returns the product of the state with a key, 1 x K: a number for each value element, rows x
 * 1. */
struct tir_value att_recurrence_product(struct att_recurrence *r, struct tir_value state,
                                        struct tir_value key);

/** Returns the state with its elements multiplied by `a`: one number, a key's 1 x K, or a
 * value's rows x 1. */
struct tir_value att_recurrence_scaled(struct att_recurrence *r, struct tir_value state,
                                       struct tir_value a);

#endif
