/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the data and helpers that the verification of decode, rope_decode and
 * mla_decode shares. decode.c makes calls, rope_decode.c new tokens of rope_decode,
 * decode_compare.c compares results.
 */
#ifndef TOOLS_VERIFY_DECODE_H
#define TOOLS_VERIFY_DECODE_H

#include "tools/reference/decode.h"
#include "tools/verify/paged.h"

enum { INFO = 8 }; /* number of integers of a work item in struct attn_decode_plan */

/** The data of a call, in call->own. */
struct own {
    int32_t *qo;     /* [batch + 1]: first query token of each sequence */
    int32_t *cached; /* [batch]: tokens of each sequence in the cache */
    /* [batch]: number of keys of each sequence: its tokens, or the entries of its list of slots */
    int32_t *kv_lens;
    int64_t *mask_indptr; /* [batch + 1]: first byte of each sequence in the custom mask */
    struct page_lists pages;
    /* For sparse lists: slots has the slot of each key; blocks has the lists of blocks that the
     * kernel reads with ATTN_SPARSE_BLOCKS. */
    struct page_lists slots, blocks;
    uint8_t *there; /* for each entry of the sparse lists: 1 if it names a key */
    /* Custom mask that causality implies for a rank's shard of the keys; NULL: keys are not
     * sharded. */
    uint8_t *seen;
    struct paged cache;
    double *q, *sinks;                   /* q and sinks as doubles, for the reference */
    struct attn_decode_plan_sizes sizes; /* sizes of the plan's tensors, from libattn */
    struct attn_decode_plan plan;
    int32_t items; /* number of work items of the plan */
};

/* True if the op is latent decode (MLA). */
static inline bool is_latent(const struct call *c) { return c->op == &verify_mla_decode; }

/** True if the op is rope_decode: decode preceded by norm, rotation and the cache write. */
static inline bool is_step(const struct call *c) { return c->op == &verify_rope_decode; }

/* Access to members of descriptors and arguments, and to tensors, that decode and rope_decode both
 * have. */
#define PLAIN_DESC(c, name) (*(is_step(c) ? &(c)->desc.rope_decode.name : &(c)->desc.decode.name))
#define PLAIN_ARG(c, name) (*(is_step(c) ? &(c)->args.rope_decode.name : &(c)->args.decode.name))
#define PLAIN_OPERAND(c, name) call_operand(c, is_step(c) ? ROPE_DECODE_##name : DECODE_##name)

/* Access to members and tensors that decode, rope_decode and mla_decode all have. */
#define DESC(c, name) (*(is_latent(c) ? &(c)->desc.mla_decode.name : &PLAIN_DESC(c, name)))
#define ARG(c, name) (*(is_latent(c) ? &(c)->args.mla_decode.name : &PLAIN_ARG(c, name)))
#define OPERAND(c, name) \
    (is_latent(c) ? call_operand(c, MLA_DECODE_##name) : PLAIN_OPERAND(c, name))

/* Access to tensors that decode and mla_decode have and rope_decode lacks. */
#define SEPARATE_OPERAND(c, name) call_operand(c, is_latent(c) ? MLA_DECODE_##name : DECODE_##name)

/* Returns the number of KV heads, 1 for latent decode. */
static inline int kv_heads(const struct call *c)
{
    return is_latent(c) ? 1 : PLAIN_DESC(c, kv_heads);
}

/** True if the kernel rounds its weights to fp8. decode has 16-bit weights for every type of q. */
static inline bool has_weights_fp8(const struct call *c)
{
    return is_latent(c) && c->desc.mla_decode.q_dtype == ATTN_FP8 &&
           DESC(c, cache).layout == ATTN_KV_NHD;
}

/** True if the caller passes custom masks. */
static inline bool has_masks(struct call *c)
{
    return !is_step(c) && SEPARATE_OPERAND(c, CUSTOM_MASK)->given;
}

/** True if the kernel adds up partial results of split keys in the same launch, without combine. */
static inline bool at_once(const struct call *c) { return DESC(c, one_launch); }

/* True if the keys are sharded over ranks. */
static inline bool is_sharded(const struct call *c)
{
    return is_latent(c) && c->desc.mla_decode.sharded;
}

/** True if a plan splits the keys of the call. */
static inline bool is_split(const struct call *c) { return ARG(c, work_lists) > 0; }

/** True if queries have different scales by head and by token or sequence. Otherwise the one scale
 * of q is included in decode_attention(). */
static inline bool has_q_scales(const struct call *c)
{
    return !is_latent(c) && !is_step(c) && c->desc.decode.q_scale != ATTN_Q_SCALE_TENSOR;
}

/** Returns the lists through which the kernel finds its keys: of pages, or of slots. */
const struct page_lists *decode_lists(const struct call *c);

/** Returns the scale of a query token and head; 1 if queries have no scale. */
double decode_q_scale(struct call *c, int64_t token, int64_t head);

/** Returns the call's keys, sinks, scale and mask as input of the reference. */
struct ref_attention decode_attention(struct call *c);

/** Compares a call's results with the reference. It is struct verify_op.compare of all three
 * ops. */
void decode_compare(struct call *c);

/* Functions of rope_decode.c, for the new tokens of rope_decode. */

/** Sets the arguments that rope_decode has and decode lacks. */
void rope_decode_size(struct call *c);
/** Fills the tensors that rope_decode has and decode lacks. */
void rope_decode_fill(struct call *c);
/** Returns the number of new tokens of sequence s whose keys are in the cache after the launch. */
int rope_decode_cached(const struct call *c, int s);
/** Returns q after norm and rotation in double precision, not rounded: [tokens, heads, head_dim].
 * The memory is freed with the call. */
double *rope_decode_queries(struct call *c);
/** Compares the rows that a launch added to the cache. */
void rope_decode_compare_cache(struct call *c);
/** Replaces the new tokens' rows in `k` and `v` by the cache's rows after the launch. `k` and `v`
 * have the rows of sequence s for a KV head, in the order of ref_decode_gather(). */
void rope_decode_replace(struct call *c, int s, int kv_head, double *k, double *v);

/* Functions of value_product.c, for the product of mla_decode with W_UV. For calls without this
 * product they do nothing, or return 0. */

/** Sets the alignment and the strides of W_UV. */
void value_product_place(struct call *c);
/** Fills W_UV, and sets product_tickets to 0. */
void value_product_fill(struct call *c);
/** Compares product_out with W_UV times `out` as the launch wrote it. */
void value_product_compare(struct call *c);
/** Returns the bytes of W_UV, its scales and product_out. */
double value_product_bytes(const struct call *c);

#endif
