/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the shapes, flags and data that the files of prefill's verification share.
 * prefill.c makes calls, prefill_data.c their inputs, prefill_compare.c compares results.
 */
#ifndef TOOLS_VERIFY_PREFILL_H
#define TOOLS_VERIFY_PREFILL_H

#include "tools/verify/paged.h"

/* Largest number of sequences in a shape's list. */
enum { SEQUENCES_MAX = 12 };

/** Properties of a shape: bits of call.flags. */
enum {
    HUGE_LOGIT = 1 << 0, /* the last query points in the direction of the sequence's first key */
    PACKED = 1 << 1,     /* q, k and v are slices of the rows of one tensor */
    /* q and out, and pages, extend beyond 4 GiB, with the largest allowed token stride. Tensors k
     * and v do not, since all four would not fit a GPU of 16 GiB (FAR_KEYS). */
    FAR = 1 << 2,
    FAR_KEYS = 1 << 13, /* k and v, or the pages of a cache, extend beyond 4 GiB */
    PADDED = 1 << 3,    /* q and out have rows after the last sequence */
    LONG = 1 << 4,      /* a long call; only kernels without special features run it */
    OWN_SCALE = 1 << 5, /* scale differs from 1 / sqrt(head_dim) */
    IN_ORDER = 1 << 6,  /* pages are consecutive */
    LATE = 1 << 8,      /* the last key has 2^40 or 2^100 times the weight of each other key */
    /* only for persistent kernels: several work tiles for each workgroup; many tiles are empty */
    PERSISTENT = 1 << 7,
    SINGLE_TILES = 1 << 9, /* only for persistent kernels: as many work tiles as workgroups */
    PLANNED = 1 << 10,     /* only for kernels with a plan */
    /* only for custom masks: a few of the first trace.prefix keys are hidden too */
    PREFIX = 1 << 11,
    /* only for queries of fp8: the first key has about 2^12 times the weight of each other key */
    SLIGHT = 1 << 12,
};

/** A row of the table of shapes: queries and keys of each sequence, and numbers of heads for
 * kernels that take any ratio. */
struct shape {
    struct verify_shape is;
    int ratio;    /* query heads of a KV head */
    int kv_heads; /* KV heads */
    int repeat;   /* number of times that the call repeats the list of sequences */
    int count;    /* number of entries of `sequences` */
    struct {
        int q, k; /* q: number of query tokens; k: number of keys */
    } sequences[SEQUENCES_MAX];
    struct {
        int heads;            /* query heads */
        int page_size;        /* tokens of a page */
        int growth;           /* log2 of the growth of weights in 64 keys; 0: random keys */
        int window;           /* keys of a window or chunk; 0: all, or chunks of 8,192 */
        int chunk_q, chunk_k; /* query tokens and keys of one more sequence; 0: there is none */
        int prefix;           /* first keys, which a custom mask shows to all queries; 0: none */
        /* Members of a plan: number of work lists, query tokens of a tile, costs in keys; 0:
         * the plan's default. */
        int lists, q_tile, item_cost, merge_rate;
    } trace; /* members that the user of `attnc trace` sets, and some rows of the table */
};

/** The data of a prefill call, in call->own. */
struct own {
    int32_t *cu_q, *cu_k;       /* [batch + 1]: first token of each sequence in q, and in k and v */
    int32_t *kv_lens;           /* [batch]: keys of each sequence */
    int64_t *mask_indptr;       /* [batch + 1]: first byte of each sequence in the call's mask */
    int64_t *seen_indptr;       /* [batch + 1]: first byte of each sequence in a custom mask */
    uint8_t *seen;              /* a mask of blocks as a custom mask; NULL: the call has none */
    struct page_lists lists;    /* pages of each sequence */
    double *q, *k, *v, *sinks;  /* q, k, v and sinks as doubles without gaps, for the reference */
    int32_t *dense_q, *dense_k; /* cu_q and cu_k of the reference's copies */
    struct attn_decode_plan_sizes sizes; /* sizes of the plan's tensors in a planned call */
    struct attn_decode_plan plan;
};

/** Returns the cache of the call. */
static inline struct paged prefill_cache(struct call *c)
{
    return paged_of(c, PREFILL_K_CACHE, &c->desc.prefill.cache, false);
}

/** Returns the number of work items of a planned call; 0: it is not planned. */
static inline int32_t prefill_items(const struct call *c)
{
    const struct own *own = c->own;
    return c->desc.prefill.planned ? own->plan.work_indptr[c->args.prefill.work_lists] : 0;
}

/** Returns the bytes of a query's row in a mask of blocks, for a sequence of `keys` keys: 4 for a
 * count, and a bit for each 64 keys. */
static inline int64_t prefill_row_bytes(int64_t keys) { return 4 * (1 + (keys + 2047) / 2048); }

/** Returns the scale of a head of sequence `s` of q, k or v. `number` is the number of the operand
 * of scales; the scale is 1 if the call lacks the operand. */
double prefill_descale(struct call *c, unsigned number, int64_t s, int64_t head);

/** Fills the tensors of a call: struct verify_op.fill. */
void prefill_fill(struct call *c);

/** Compares the results of a call with the reference: struct verify_op.compare. */
void prefill_compare(struct call *c);

#endif
