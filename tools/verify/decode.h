/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares what making calls of decode and mla_decode (decode.c) and comparing their
 * results (decode_compare.c) share.
 */
#ifndef TOOLS_VERIFY_DECODE_H
#define TOOLS_VERIFY_DECODE_H

#include "tools/reference/decode.h"
#include "tools/verify/paged.h"

enum { INFO = 8 }; /* integers of a work item: struct attn_decode_plan */

/** A call's own data, call->own. */
struct own {
    int32_t *qo;      /* [batch + 1] */
    int32_t *cached;  /* [batch]: tokens of each sequence in the cache */
    int32_t *kv_lens; /* [batch]: keys of each sequence: its tokens, or the entries of its list of
                         slots */
    int64_t *mask_indptr;
    struct page_lists pages;
    struct page_lists slots, blocks; /* for lists: the slot of each key; the operands' lists with
                                        BLOCKS */
    uint8_t *there;                  /* by slot: true if it holds a key */
    uint8_t *seen;                   /* of a shard: the mask that causality implies */
    struct paged cache;
    double *q, *sinks; /* copies for the reference */
    struct attn_decode_plan_sizes sizes;
    struct attn_decode_plan plan;
    int32_t items;
};

static inline bool is_latent(const struct call *c) { return c->op == &verify_mla_decode; }

/* Members of descriptors and arguments, and tensors, that decode and mla_decode both have. */
#define DESC(c, name) (*(is_latent(c) ? &(c)->desc.mla_decode.name : &(c)->desc.decode.name))
#define ARG(c, name) (*(is_latent(c) ? &(c)->args.mla_decode.name : &(c)->args.decode.name))
#define OPERAND(c, name) call_operand(c, is_latent(c) ? MLA_DECODE_##name : DECODE_##name)

static inline int kv_heads(const struct call *c)
{
    return is_latent(c) ? 1 : c->desc.decode.kv_heads;
}

static inline bool at_once(const struct call *c) { return DESC(c, one_launch); }

static inline bool is_sharded(const struct call *c)
{
    return is_latent(c) && c->desc.mla_decode.sharded;
}

static inline bool is_split(const struct call *c) { return ARG(c, work_lists) > 0; }

/** True if each query and head has a scale of its own. Otherwise decode_attention() includes the
 * scale. */
static inline bool has_q_scales(const struct call *c)
{
    return !is_latent(c) && c->desc.decode.q_scale == ATTN_Q_SCALE_TOKEN;
}

/** Returns the lists by which the kernel finds its keys: pages or slots. */
const struct page_lists *decode_lists(const struct call *c);

/** Returns the scale of a query and head, or 1 if there is none. */
double decode_q_scale(struct call *c, int64_t token, int64_t head);

/** Returns the call as a problem for the reference. */
struct ref_attention decode_attention(struct call *c);

/** The member `compare` of both ops. */
void decode_compare(struct call *c);

#endif
