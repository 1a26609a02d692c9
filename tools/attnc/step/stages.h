/* SPDX-License-Identifier: Apache-2.0
 *
 * Stages that several kinds of layers have, and the kinds of layers that groups.c lists. layers.c
 * lists the others.
 */
#ifndef TOOLS_ATTNC_STEP_STAGES_H
#define TOOLS_ATTNC_STEP_STAGES_H

#include "tools/attnc/step/step.h"

enum { STEP_DECODE_QUERIES = 64 }; /* maximum of a sequence's new tokens for decode */

/** Adds a field that the call's kernel has to have. */
void step_add_field(struct step_call *c, enum att_field field, int value);

/** Adds the fields head_dim and head_dim_v to a call. */
void step_add_dims(struct step_call *c, long head_dim, long head_dim_v);

/** Adds a launch to a way, after its others. Returns its call. */
struct step_call *step_add_launch(struct step_way *w, const char *op);

/** Adds a way to a stage, with one launch of `op`. Returns the way. */
struct step_way *step_add_way(struct step_stage *stage, const char *name, const char *op);

/** Adds a stage with one way of one launch. Returns the call of `op` that it makes. */
struct step_call *step_add_call(struct step_kind *k, const char *op);

/** Returns the tokens in a page of the cache. */
long step_page_size(const struct step_load *l);

/** The attention of a layer on a rank: sizes, and which keys a query sees. */
struct step_attention {
    const char *op; /* "decode" or "mla_decode" */
    const struct step_load *load;
    const struct step_call *rope; /* the launch before it, which rope_decode includes; NULL: none */
    long head_dim, head_dim_v, heads, kv_heads;
    long batch;   /* sequences of the launch; over lists each query is one */
    long queries; /* new tokens of a sequence */
    long keys;    /* keys of a sequence, or entries of a list */
    long page;    /* tokens in a page; 0: as many as the cache's */
    long window;  /* tokens; 0: none */
    long product; /* elements of a head after the product with W_UV in the launch; 0: no product */
    enum att_mask mask;
    enum att_sparse sparse;
    bool sinks;
};

/** Adds the stage of attention with every way that libattn has: keys split by a plan or not, parts
 * added up in the same launch or by combine. */
void step_add_attention(struct step_kind *k, const struct step_attention *a);

/** Adds one way of decode. `split`: a plan splits the keys. `one_launch`: parts are added up in the
 * same launch. With `whole` the launch does the work of the stage before it too: as rope_decode, or
 * as the latent decode that ends with the product of this stage. */
void step_add_decode(struct step_stage *stage, const struct step_attention *a, const char *name,
                     bool whole, bool split, bool one_launch);

/** Adds the launch for `tokens` tokens that rotates q and k, with their norms, and writes keys and
 * values. Returns its call. */
const struct step_call *step_add_rope(struct step_kind *k, const struct model *m,
                                      const struct model_group *g, const struct step_load *l,
                                      long tokens);

/** Returns the keys in a page of an indexer that has one for each `pool` tokens; at least 1. */
long step_pool_page(const struct step_load *l, long pool);

/** Adds the norm of an indexer's inputs, `heads` rows of a token, and the launch that makes a key
 * of each `pool` tokens. */
void step_add_pooled_keys(struct step_kind *k, const struct step_load *l, long pool, long heads);

/** A choice among the keys of an indexer. */
struct step_index {
    long rows;       /* choices: one for each query, and for each of its KV heads if these choose */
    long keys;       /* of a row's sequence */
    long scored;     /* keys that a row scores; with `listed` only keys in blocks */
    long page;       /* keys in a page of the indexer's cache */
    long top_k;      /* keys that a row chooses */
    long top_blocks; /* blocks of keys that it chooses; 0: none */
    bool listed;     /* only keys of blocks that an earlier layer chose are scored */
    bool only_blocks; /* true: nothing reads the chosen keys, so their lists are not merged */
};

/** Adds to `k` the stage in which the indexer of `x` chooses keys. Its ways are a launch over whole
 * rows and, if libattn cuts rows, one over parts with the launches that merge them. */
void step_add_index(struct step_kind *k, const struct step_load *l, const struct step_index *x);

/** Adds the launch that rotates an indexer's `heads` queries of each token, and writes the tokens'
 * keys. */
void step_add_index_queries(struct step_kind *k, const struct step_load *l,
                            const struct step_index *x, long heads);

/** Lists of the groups that were chosen for each query. */
struct step_lists {
    long keys;     /* tokens of a sequence */
    long ratio;    /* tokens of a group */
    long groups;   /* in a list */
    long kv_heads; /* lists of a query */
};

/** Adds chosen_lists for `tokens` queries. */
void step_add_lists(struct step_kind *k, long tokens, const struct step_lists *x);

/** Adds the layers that attend to rows of groups beside a window: a kind for each share of
 * m->pooled. */
void step_list_rows(const struct model *m, struct step *s);

/** Adds the layers that attend to groups of keys that an indexer chooses: m->choice. */
void step_list_choice(const struct model *m, struct step *s);

#endif
