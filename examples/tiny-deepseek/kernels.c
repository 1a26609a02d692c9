/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the kernels: everything that is fixed for the layer. */
#include <stdio.h>

#include "parts.h"

extern const unsigned char attn_pack_tiny_deepseek[]; /* kernels.yaml, in this program */
extern const size_t attn_pack_tiny_deepseek_size;

static struct attn_cache_desc cache_of(const struct shape *s)
{
    return (struct attn_cache_desc){
        .page_size = s->page,
        .dtype = s->fp8 ? ATTN_FP8 : ATTN_BF16,
        .scale = s->fp8 ? ATTN_KV_SCALE_TENSOR : ATTN_KV_SCALE_NONE,
    };
}

static void look_up_rotations(struct kernels *k, const struct shape *s)
{
    const struct attn_qk_rmsnorm_desc norm = {
        .size = sizeof(norm),
        .dtype = ATTN_BF16,
        .width = s->q_lora,
        .width_kv = LATENT,
    };
    struct attn_mla_rope_cache_desc rotate = {
        .size = sizeof(rotate),
        .dtype = ATTN_BF16,
        .head_dim = ROW,
        .head_dim_v = LATENT,
        .heads = s->heads,
        .rope = ATTN_ROPE_GPTJ,
        .cache = cache_of(s),
    };
    ATTN(attn_qk_rmsnorm_lookup(k->device, &norm, &k->norm));
    rotate.keep_kv = true;
    ATTN(attn_mla_rope_cache_lookup(k->device, &rotate, &k->rotate));
    rotate.keep_kv = false;
    rotate.product_dim = s->index_heads ? 0 : s->nope;
    ATTN(attn_mla_rope_cache_lookup(k->device, &rotate, &k->rotate_step));
}

static void look_up_product(struct kernels *k, const struct shape *s, int from, int to, bool shared,
                            struct attn_op **op)
{
    const struct attn_head_product_desc desc = {
        .size = sizeof(desc),
        .dtype = ATTN_BF16,
        .head_dim = from,
        .head_dim_v = to,
        .heads = s->heads,
        .shared = shared,
    };
    ATTN(attn_head_product_lookup(k->device, &desc, op));
}

static void look_up_prefill(struct kernels *k, const struct shape *s)
{
    struct attn_prefill_desc prefill = {
        .size = sizeof(prefill),
        .dtype = ATTN_BF16,
        .head_dim = key_dim(s),
        .head_dim_v = s->value,
        .heads = s->heads,
        .kv_heads = s->heads,
        .mask = ATTN_MASK_CAUSAL,
        .lse = true,
    };
    const struct attn_combine_desc merge = {
        .size = sizeof(merge),
        .dtype = ATTN_BF16,
        .head_dim = s->value,
        .heads = s->heads,
        .partials = ATTN_PARTIALS_PAIR,
    };
    const struct attn_cache_gather_desc gather = {
        .size = sizeof(gather),
        .dtype = ATTN_BF16,
        .head_dim = LATENT,
        .head_dim_v = ROPE,
        .kv_heads = 1,
        .cache = cache_of(s),
    };
    ATTN(attn_prefill_lookup(k->device, &prefill, &k->prefill));
    prefill.mask = ATTN_MASK_NONE;
    ATTN(attn_prefill_lookup(k->device, &prefill, &k->chunk));
    ATTN(attn_combine_lookup(k->device, &merge, &k->merge));
    ATTN(attn_cache_gather_lookup(k->device, &gather, &k->gather));
    look_up_product(k, s, LATENT, s->nope, true, &k->keys);
    look_up_product(k, s, LATENT, s->value, true, &k->values);
}

static void look_up_step(struct kernels *k, const struct shape *s)
{
    const struct attn_mla_decode_desc decode = {
        .size = sizeof(decode),
        .dtype = ATTN_BF16,
        .head_dim = ROW,
        .head_dim_v = LATENT,
        .heads = s->heads,
        .q_len = QUERIES,
        .mask = ATTN_MASK_CAUSAL,
        .one_launch = true,
        .product_dim = s->value,
        .cache = cache_of(s),
    };
    const struct attn_plan_desc plan = {.size = sizeof(plan)};
    ATTN(attn_plan_lookup(k->device, &plan, &k->plan));
    ATTN(attn_mla_decode_lookup(k->device, &decode, &k->decode));
}

static void look_up_sparse(struct kernels *k, const struct shape *s)
{
    const enum attn_index_keys keys = s->mxfp4 ? ATTN_INDEX_KEYS_MXFP4 : ATTN_INDEX_KEYS_FP8;
    const struct attn_indexer_rope_cache_desc rotate = {
        .size = sizeof(rotate),
        .dtype = ATTN_BF16,
        .heads = s->index_heads,
        .rope = ATTN_ROPE_NEOX,
        .layer_norm = true,
        .index_keys = keys,
        .layout = ATTN_KV_SHUFFLE,
    };
    const struct attn_indexer_topk_desc choose = {
        .size = sizeof(choose),
        .top_k = s->chosen,
        .heads = s->index_heads,
        .paged = true,
        .layout = ATTN_KV_SHUFFLE,
        .index_keys = keys,
        .planned = true,
    };
    const struct attn_topk_desc join = {.size = sizeof(join), .top_k = s->chosen, .planned = true};
    const struct attn_mla_decode_desc sparse = {
        .size = sizeof(sparse),
        .dtype = ATTN_BF16,
        .head_dim = ROW,
        .head_dim_v = LATENT,
        .heads = s->heads,
        .mask = ATTN_MASK_CAUSAL,
        .cache = cache_of(s),
        .sparse = ATTN_SPARSE_SLOTS,
    };
    ATTN(attn_indexer_rope_cache_lookup(k->device, &rotate, &k->index_rotate));
    ATTN(attn_indexer_topk_lookup(k->device, &choose, &k->choose));
    ATTN(attn_topk_lookup(k->device, &join, &k->join));
    ATTN(attn_mla_decode_lookup(k->device, &sparse, &k->sparse));
    look_up_product(k, s, s->nope, LATENT, false, &k->absorb);
    look_up_product(k, s, LATENT, s->value, false, &k->raise);
}

enum { OPS = 17 }; /* the last six need an indexer */

static void list_ops(const struct kernels *k, struct attn_op *ops[OPS])
{
    struct attn_op *const all[OPS] = {
        k->norm,  k->rotate,       k->rotate_step, k->keys, k->values, k->prefill,
        k->chunk, k->merge,        k->gather,      k->plan, k->decode, k->absorb,
        k->raise, k->index_rotate, k->choose,      k->join, k->sparse,
    };
    memcpy(ops, all, sizeof(all));
}

void kernels_open(struct kernels *k, const struct shape *s)
{
    ATTN(attn_pack_open_memory(attn_pack_tiny_deepseek, attn_pack_tiny_deepseek_size, &k->pack));
    ATTN(attn_device_open(&k->pack, 1, NULL, &k->device));
    look_up_rotations(k, s);
    look_up_prefill(k, s);
    look_up_step(k, s);
    if (s->index_heads)
        look_up_sparse(k, s);
    struct attn_device_info device = {.size = sizeof(device)};
    ATTN(attn_device_describe(k->device, &device));
    printf("%s: %s\n", s->name, device.name);
    struct attn_op *ops[OPS];
    list_ops(k, ops);
    for (int i = 0; i < OPS && ops[i]; i++) {
        struct attn_op_info info = {.size = sizeof(info)};
        ATTN(attn_op_describe(ops[i], &info));
        printf("  %s: %s\n", info.kernel.name, info.why);
    }
}

void kernels_close(struct kernels *k)
{
    struct attn_op *ops[OPS];
    list_ops(k, ops);
    for (int i = 0; i < OPS && ops[i]; i++)
        attn_op_destroy(ops[i]);
    attn_device_close(k->device);
    attn_pack_close(k->pack);
}
