/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of attnc verify for rope_qk_norm_cache kernels share.
 */
#ifndef TOOLS_VERIFY_ROPE_H
#define TOOLS_VERIFY_ROPE_H

#include "tools/verify/cache.h"

enum {
    ROPE_PACKED = 1 << 0,    /* q, key and value are parts of one tensor */
    ROPE_IN_PLACE = 1 << 1,  /* and the results go back there */
    ROPE_GAPS = 1 << 2,      /* outputs and cache leave memory between tokens and heads */
    ROPE_SKIPS = 1 << 3,     /* some slots are negative */
    ROPE_NO_CACHE = 1 << 4,  /* no slots, no values */
    ROPE_FAR_TABLE = 1 << 5, /* positions up to 131071 */
    ROPE_FAR_CACHE = 1 << 6, /* pages lie 1 GiB apart */
    ROPE_IN_ORDER = 1 << 7,  /* slots of consecutive tokens are neighbours, as in a prefill */
};

/** How the table of cosines and sines was made: for the kernel these are other numbers only. */
enum rope_table { ROPE_PLAIN, ROPE_YARN, ROPE_LLAMA3 };

/** One of the shapes that every kernel is checked on. */
struct rope_case {
    const char *name;
    unsigned flags;
    int heads, kv_heads, tokens, page_size;
    enum rope_table table;
};

/** A kernel on one of them. */
struct rope_problem {
    struct verify_run *run;
    const struct rope_case *shape;
    const struct precision *precision, *q_precision;
    struct attn_rope_qk_norm_cache_desc desc;
    struct attn_rope_qk_norm_cache_args args;
    struct tensor q, k, v, gate_in;
    struct tensor q_out, k_out, v_out, gate;
    struct tensor q_weight, k_weight, q_bias, k_bias, v_bias;
    struct paged_cache cache, untouched; /* after the launch, before it */
    int64_t *positions;                  /* [3, token] */
    int64_t *slots;
    float *angles; /* [token, rotary_dim]: by which the pairs of a token rotate */
    float *q_squares, *k_squares;
    float q_scale;
    uint8_t *before; /* packed inputs, in place */
    struct device_memory memory;
    struct verify_row *row;
    double error, norm, bounds; /* sums of squares */
    double closest;
};

/* rope_data.c */

/** Random inputs and empty outputs in host memory; desc and shape are set. */
void rope_set_inputs(struct rope_problem *p, const char *target, uint64_t *random);
/** Copies to the device; sets the arguments of the launch. */
void rope_upload_inputs(struct rope_problem *p);
void rope_upload_outputs(struct rope_problem *p);
/** Is q written over itself? */
bool rope_q_in_place(const struct rope_problem *p);

/* rope_compare.c */

/** Compares every result with the reference; its errors go to the row. */
void rope_compare(struct rope_problem *p);
/** Fails if anything else was written; after rope_compare(). */
void rope_check_surroundings(struct rope_problem *p);

#endif
