/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares what the verification of decode, rope_decode and mla_decode shares. decode.c
 * makes calls, rope_decode.c new tokens of rope_decode, decode_compare.c compares results.
 */
#ifndef TOOLS_VERIFY_DECODE_H
#define TOOLS_VERIFY_DECODE_H

#include "tools/reference/decode.h"
#include "tools/verify/paged.h"

enum { INFO = 8 }; /* integers of a work item: struct attn_decode_plan */

/** A call's own data, call->own. */
struct own {
    int32_t *qo;      /* [batch + 1]: first query token of each sequence */
    int32_t *cached;  /* [batch]: tokens of each sequence in the cache */
    int32_t *kv_lens; /* [batch]: keys of each sequence: its tokens, or the entries of its list of
                         slots */
    int64_t *mask_indptr; /* [batch + 1]: first byte of each sequence in the custom mask */
    struct page_lists pages;
    /* With sparse lists: the slot of each key; with BLOCKS also the operands' lists of blocks. */
    struct page_lists slots, blocks;
    uint8_t *there; /* by slot: true if it holds a key */
    /* For a shard of the keys: the custom mask that causality implies; NULL: no shard. */
    uint8_t *seen;
    struct paged cache;
    double *q, *sinks;                   /* q and sinks as doubles, for the reference */
    struct attn_decode_plan_sizes sizes; /* sizes of the plan, as libattn gives them */
    struct attn_decode_plan plan;
    int32_t items; /* number of work items of the plan */
};

/* True if the op is latent decode (MLA). */
static inline bool is_latent(const struct call *c) { return c->op == &verify_mla_decode; }

/** True if the op is rope_decode: decode preceded by norm, rotation and the cache write. */
static inline bool is_step(const struct call *c) { return c->op == &verify_rope_decode; }

/* Members of descriptors and arguments, and tensors, that decode and rope_decode both have. */
#define PLAIN_DESC(c, name) (*(is_step(c) ? &(c)->desc.rope_decode.name : &(c)->desc.decode.name))
#define PLAIN_ARG(c, name) (*(is_step(c) ? &(c)->args.rope_decode.name : &(c)->args.decode.name))
#define PLAIN_OPERAND(c, name) call_operand(c, is_step(c) ? ROPE_DECODE_##name : DECODE_##name)

/* Members and tensors that decode, rope_decode and mla_decode have. */
#define DESC(c, name) (*(is_latent(c) ? &(c)->desc.mla_decode.name : &PLAIN_DESC(c, name)))
#define ARG(c, name) (*(is_latent(c) ? &(c)->args.mla_decode.name : &PLAIN_ARG(c, name)))
#define OPERAND(c, name) \
    (is_latent(c) ? call_operand(c, MLA_DECODE_##name) : PLAIN_OPERAND(c, name))

/* Tensors of decode and mla_decode that rope_decode lacks. */
#define SEPARATE_OPERAND(c, name) call_operand(c, is_latent(c) ? MLA_DECODE_##name : DECODE_##name)

/* Returns the number of KV heads, 1 for latent decode. */
static inline int kv_heads(const struct call *c)
{
    return is_latent(c) ? 1 : PLAIN_DESC(c, kv_heads);
}

/** True if the caller passes custom masks. */
static inline bool has_masks(struct call *c)
{
    return !is_step(c) && SEPARATE_OPERAND(c, CUSTOM_MASK)->given;
}

/** True if the kernel adds split-KV partials in the same launch, without combine. */
static inline bool at_once(const struct call *c) { return DESC(c, one_launch); }

/* True if the keys are sharded over ranks. */
static inline bool is_sharded(const struct call *c)
{
    return is_latent(c) && c->desc.mla_decode.sharded;
}

/** True if a plan splits the keys of the call. */
static inline bool is_split(const struct call *c) { return ARG(c, work_lists) > 0; }

/** True if the scales of queries differ by token or by sequence, and by head. Otherwise
 * decode_attention() includes the scale. */
static inline bool has_q_scales(const struct call *c)
{
    return !is_latent(c) && !is_step(c) && c->desc.decode.q_scale != ATTN_Q_SCALE_TENSOR;
}

/** Returns the lists by which the kernel finds its keys: pages or slots. */
const struct page_lists *decode_lists(const struct call *c);

/** Returns the scale of a query and head, or 1 if there is none. */
double decode_q_scale(struct call *c, int64_t token, int64_t head);

/** Returns the call as input of the reference. */
struct ref_attention decode_attention(struct call *c);

/** Compares a call's results with the reference: struct verify_op.compare of all three ops. */
void decode_compare(struct call *c);

/* rope_decode.c: the new tokens. */

/** Sets sizes, and values of tensors, that rope_decode has and decode has not. */
void rope_decode_size(struct call *c);
void rope_decode_fill(struct call *c);
/** Returns the number of new tokens of sequence s whose keys are in the cache after the launch. */
int rope_decode_cached(const struct call *c, int s);
/** Returns q after norm and rotation, not rounded: [tokens, heads, head_dim], freed with the
 * call. */
double *rope_decode_queries(struct call *c);
/** Compares the rows that a launch added to the cache. */
void rope_decode_compare_cache(struct call *c);
/** Replaces the new tokens' rows of `k` and `v` by what the launch left in the cache. They hold
 * sequence s for a KV head, in rows as of ref_decode_gather(). */
void rope_decode_replace(struct call *c, int s, int kv_head, double *k, double *v);

/* value_product.c: the product of mla_decode with W_UV. For calls without it these functions do
 * nothing, and return 0. */

/** Sets the alignment and the strides of W_UV. */
void value_product_place(struct call *c);
/** Fills W_UV, and sets product_tickets to 0. */
void value_product_fill(struct call *c);
/** Compares product_out with W_UV times `out` as the launch wrote it. */
void value_product_compare(struct call *c);
/** Returns the bytes of the weights and of product_out. */
double value_product_bytes(const struct call *c);

#endif
