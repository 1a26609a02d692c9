/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the update of a state by one token of the gated delta rule: S = exp(g) S, S +=
 * k (beta (v - S k))^T and out = S q. The ops that run it share it; each op loads q, k and v
 * itself.
 */
#ifndef TEMPLATES_LINEAR_DELTA_H
#define TEMPLATES_LINEAR_DELTA_H

#include "templates/linear/recurrence.h"

/* A recurrence of the gated delta rule under construction. */
struct att_delta {
    /* The first member, since functions of the recurrence have its address. */
    struct att_recurrence r;
    /* f32: exp(a_log) of the value head, 1 x 1; its dt_bias, 1 x 1, or 1 x head_dim if each element
     * of a key has a decay. */
    struct tir_value a, bias;
    /* True: q is divided by its length after the state has advanced, since the load's 16-bit q
     * takes fewer registers until then. False: q is divided before. */
    bool late;
};

/** The update that a token makes to the state S of a value head: S = exp(g) S + k u^T. */
struct att_delta_update {
    struct tir_value u; /* f32, a number for each of the wave's value elements: rows x 1 */
    struct tir_value k; /* f32: the token's key, 1 x head_dim */
    /* f32: natural logarithm of the decay, 1 x 1, or 1 x head_dim if each element of a key has a
     * decay. */
    struct tir_value g;
};

/** True if each element of a key has a decay of its own, and false if a token has one decay for a
 * value head. */
bool att_delta_has_channels(const struct att_variant *v);

/** Issues the load of the gate from which the decay of token `token` (i32 row) is computed. Returns
 * zeros if `there` (i1) is false. */
struct tir_value att_delta_load_gate(struct att_recurrence *r, struct tir_value token,
                                     struct tir_value there);
/** Issues the load of the number from which the beta of token `token` (i32 row) is computed.
 * Returns zero if `there` (i1) is false. */
struct tir_value att_delta_load_beta(struct att_recurrence *r, struct tir_value token,
                                     struct tir_value there);
/** Loads exp(a_log) and dt_bias of the value head, which all of its tokens share. `r` is the first
 * member of a struct att_delta. */
void att_delta_load_head(struct att_recurrence *r);

/** The vectors of one token as loads return them, in the dtype of memory. Elements of q and k are
 * in the order of memory. */
struct att_delta_token {
    struct tir_value q, k, v, gate, beta;
};

/** Advances *state by token `t`. Returns the token's output, an f32 for each of the wave's value
 * elements (rows x 1). Sets *did to the update of the state. */
struct tir_value att_delta_advance(struct att_delta *d, const struct att_delta_token *t,
                                   struct tir_value *state, struct att_delta_update *did);

#endif
