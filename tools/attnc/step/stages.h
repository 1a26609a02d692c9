/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the stages that several kinds of layers have, and the kinds of layers that
 * groups.c lists. layers.c lists the other kinds.
 */
#ifndef TOOLS_ATTNC_STEP_STAGES_H
#define TOOLS_ATTNC_STEP_STAGES_H

#include "tools/attnc/step/step.h"

enum { STEP_DECODE_QUERIES = 64 }; /* most new tokens of a sequence for decode and mla_decode */

/** Requires that the call's kernel has this value of a field. */
void step_add_field(struct step_call *c, enum att_field field, int value);

/** Requires that the call's kernel has these head dims. */
void step_add_dims(struct step_call *c, long head_dim, long head_dim_v);

/** Adds a launch of `op` to a way, after the launches that it has. Returns the launch's call, whose
 * fields and shape the caller sets. */
struct step_call *step_add_launch(struct step_way *w, const char *op);

/** Adds a way called `name` to a stage, with one launch of `op`. Returns the way. */
struct step_way *step_add_way(struct step_stage *stage, const char *name, const char *op);

/** Adds a stage with a single way, a launch of `op`. Returns the launch's call. */
struct step_call *step_add_call(struct step_kind *k, const char *op);

/** Returns the tokens in a page of the KV cache. */
long step_page_size(const struct step_load *l);

/** The attention of a layer on one rank: its sizes, and which keys a query sees. */
struct step_attention {
    const char *op; /* "decode" or "mla_decode" */
    const struct step_load *load;
    /* The launch before it, whose work rope_decode includes; NULL: none. */
    const struct step_call *rope;
    long head_dim, head_dim_v, heads, kv_heads;
    long batch;   /* sequences of the launch; with sparse lists, each query counts as one */
    long queries; /* new tokens of a sequence */
    long keys;    /* keys of a sequence; with sparse lists, entries of a list */
    long page;    /* tokens in a page; 0: step_page_size() */
    long window;  /* tokens that a query sees; 0: no window */
    /* Elements of a head after a product with W_UV in the same launch; 0: no product. */
    long product;
    enum att_mask mask;
    enum att_sparse sparse;
    bool sinks;
};

/** Adds the stage of attention with every way that libattn has. Keys are split by a plan or not,
 * and the split-KV partials are added in the same launch or by combine. */
void step_add_attention(struct step_kind *k, const struct step_attention *a);

/** Adds a way of decode called `name`. `split`: a plan splits the keys. `one_launch`: the launch
 * also adds the split-KV partials. With `whole` the launch does the work of the previous stage too:
 * as rope_decode, or as mla_decode with a product. */
void step_add_decode(struct step_stage *stage, const struct step_attention *a, const char *name,
                     bool whole, bool split, bool one_launch);

/** Adds a launch of rope_qk_norm_cache for `tokens` tokens. It normalises and rotates q and k, and
 * writes keys and values to the cache. Returns its call. */
const struct step_call *step_add_rope(struct step_kind *k, const struct model *m,
                                      const struct model_group *g, const struct step_load *l,
                                      long tokens);

/** Returns the keys in a page of an indexer that has one key for `pool` tokens; at least 1. */
long step_pool_page(const struct step_load *l, long pool);

/** Adds a launch that normalises the inputs of an indexer, `heads` rows for each new token. Adds a
 * launch of compress after it, which makes a key from each `pool` tokens. */
void step_add_pooled_keys(struct step_kind *k, const struct step_load *l, long pool, long heads);

/** The choice of an indexer among its keys, for the new tokens of a step. */
struct step_index {
    long rows; /* choices that are made: one for each query, or for each query and KV head */
    long keys; /* keys of the sequence of a row */
    /* Keys that a row scores; fewer than `keys` if `listed`. */
    long scored;
    long page;       /* keys in a page of the indexer's cache */
    long top_k;      /* keys that a row chooses */
    long top_blocks; /* blocks of keys that a row chooses; 0: none */
    bool listed;     /* true: only keys in blocks that an earlier layer has chosen are scored */
    /* True: only the chosen blocks are read, so that no launch merges the lists of keys. */
    bool only_blocks;
};

/** Adds the stage in which an indexer chooses keys. One way is a launch over whole rows. If libattn
 * cuts rows, another is a launch over their parts and the launches that merge the parts. */
void step_add_index(struct step_kind *k, const struct step_load *l, const struct step_index *x);

/** Adds a launch of indexer_rope_cache. It rotates an indexer's `heads` queries of each new token,
 * and writes the tokens' keys to its cache. */
void step_add_index_queries(struct step_kind *k, const struct step_load *l,
                            const struct step_index *x, long heads);

/** Sizes of the lists of chosen groups that attention reads. */
struct step_lists {
    long keys;     /* tokens of a sequence */
    long ratio;    /* tokens in a group */
    long groups;   /* groups in a list */
    long kv_heads; /* lists of each query */
};

/** Adds a launch of chosen_lists for `tokens` queries. If lists exceed what attnc trace can make
 * inputs for, shorter lists are timed. */
void step_add_lists(struct step_kind *k, long tokens, const struct step_lists *x);

/** Adds the layers that attend to pooled rows beside a window: a kind for each share in
 * m->pooled. */
void step_list_rows(const struct model *m, struct step *s);

/** Adds the layers that attend to groups of keys which an indexer chooses, as one kind:
 * m->choice. */
void step_list_choice(const struct model *m, struct step *s);

#endif
