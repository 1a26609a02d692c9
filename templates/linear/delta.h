/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares a token of the gated delta rule: S = exp(g) S, S += k (beta (v - S k))^T and
 * out = S q. The ops that run it share it; where q, k and v come from is their own.
 */
#ifndef TEMPLATES_LINEAR_DELTA_H
#define TEMPLATES_LINEAR_DELTA_H

#include "templates/linear/recurrence.h"

struct att_delta {
    struct att_recurrence r;  /* first: its functions are given this */
    struct tir_value a, bias; /* exp(a_log), 1 x 1; dt_bias, 1 x 1 or 1 x K as the decay */
    bool late; /* true: q is divided by its length after the state has advanced. It takes fewer
                * registers until then, and its sum of squares is not computed meanwhile */
};

/** The update that a token makes to a state: S = exp(g) S + k u^T. */
struct att_delta_update {
    struct tir_value u; /* rows x 1 */
    struct tir_value k; /* 1 x K */
    struct tir_value g; /* natural logarithm of the decay: 1 x 1, or 1 x K by channel */
};

/** True if each element of a key has a decay. */
bool att_delta_has_channels(const struct att_variant *v);

/** Loads the gate from which a token's decay is computed; zeros where `there` (i1) is false. */
struct tir_value att_delta_load_gate(struct att_recurrence *r, struct tir_value token,
                                     struct tir_value there);
/** Loads the number from which a token's beta is computed; zero where `there` (i1) is false. */
struct tir_value att_delta_load_beta(struct att_recurrence *r, struct tir_value token,
                                     struct tir_value there);
/** Loads the numbers that all tokens of the head share: exp(a_log) and dt_bias. `r` is the first
 * member of a struct att_delta. */
void att_delta_load_head(struct att_recurrence *r);

/** Vectors of one token as loads return them. The elements of q and k are in the order of
 * memory. */
struct att_delta_token {
    struct tir_value q, k, v, gate, beta;
};

/** Advances the state by a token. Returns the output, rows x 1, and in `did` the update that the
 * token made. */
struct tir_value att_delta_advance(struct att_delta *d, const struct att_delta_token *t,
                                   struct tir_value *state, struct att_delta_update *did);

#endif
