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
    int32_t *cached;  /* [batch]: tokens of each sequence */
    int32_t *kv_lens; /* [batch]: its keys: the same, or the entries of its list of slots */
    int64_t *mask_indptr;
    struct page_lists pages;
    struct page_lists slots, blocks; /* of lists: each key's; what the operands have with BLOCKS */
    uint8_t *there;                  /* of slots */
    uint8_t *seen;                   /* of a shard: a mask that says what causality does */
    struct paged cache;
    double *q, *sinks; /* for the reference */
    struct attn_decode_plan_sizes sizes;
    struct attn_decode_plan plan;
    int32_t items;
};

static inline bool is_latent(const struct call *c) { return c->op == &verify_mla_decode; }

/* Members of descriptors and arguments, and tensors, that both ops have. */
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

/** Has each query and head a scale of its own? Else decode_attention() has it. */
static inline bool has_q_scales(const struct call *c)
{
    return !is_latent(c) && c->desc.decode.q_scale == ATTN_Q_SCALE_TOKEN;
}

/** The lists by which the kernel finds its keys: of pages, or of slots. */
const struct page_lists *decode_lists(const struct call *c);

/** The scale of a query and head, 1 where they have none of their own. */
double decode_q_scale(struct call *c, int64_t token, int64_t head);

/** The attention of a call for the reference. */
struct ref_attention decode_attention(struct call *c);

/** `compare` of both ops. */
void decode_compare(struct call *c);

#endif
