/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc verify for rope_qk_norm_cache kernels: the shapes, and what is done with each.
 */
#include <stdlib.h>

#include "tools/verify/call.h"
#include "tools/verify/rope.h"
#include "tools/reference/rope_qk_norm_cache.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* The head counts are those of models, whole or as one of several ranks has them. */
static const struct rope_case shapes[] = {
    {"one token", 0, 32, 4, 1, 16, ROPE_PLAIN},
    {"one kv head", ROPE_PACKED, 12, 1, 5, 16, ROPE_LLAMA3},
    {"in place", ROPE_PACKED | ROPE_IN_PLACE, 6, 1, 7, 64, ROPE_YARN},
    {"gaps", ROPE_PACKED | ROPE_GAPS, 10, 2, 13, 16, ROPE_PLAIN},
    {"prefill", ROPE_PACKED | ROPE_IN_ORDER, 16, 8, 70, 64, ROPE_LLAMA3},
    {"slots < 0", ROPE_SKIPS | ROPE_GAPS, 5, 1, 11, 1, ROPE_PLAIN},
    {"no cache", ROPE_NO_CACHE | ROPE_GAPS, 3, 2, 6, 16, ROPE_YARN},
    {"far position", ROPE_FAR_TABLE | ROPE_PACKED, 40, 8, 3, 32, ROPE_YARN},
    {"beyond 4 GiB", ROPE_FAR_CACHE | ROPE_SKIPS, 16, 2, 6, 16, ROPE_PLAIN},
    {"wide", ROPE_PACKED, 96, 8, 2, 1024, ROPE_PLAIN},
    {"many tokens", ROPE_PACKED | ROPE_IN_ORDER, 2, 1, 523, 16, ROPE_PLAIN},
    {"many, gaps", ROPE_SKIPS | ROPE_GAPS, 1, 3, 270, 32, ROPE_PLAIN},
};

static size_t packed_bytes(const struct rope_problem *p)
{
    return (size_t)(p->q.token_stride * p->q.tokens) * sizeof(uint16_t);
}

static void download(struct rope_problem *p)
{
    struct device_memory *m = &p->memory;
    if (p->desc.gate)
        tensor_download(&p->gate, m);
    if (p->args.slot_mapping)
        cache_download(&p->cache, m);
    if (!rope_q_in_place(p))
        tensor_download(&p->q_out, m);
    if (p->shape->flags & ROPE_IN_PLACE) {
        tensor_download(&p->q, m);
        return;
    }
    if (p->desc.keep_kv) {
        tensor_download(&p->k_out, m);
        if (p->args.v)
            tensor_download(&p->v_out, m);
    }
}

static void run_problem(struct rope_problem *p)
{
    if (!verify_launch(p->run, &p->memory, &p->desc, &p->args, p->row))
        return;
    download(p);
    if (!verify_copied(&p->memory, p->row))
        return;
    rope_compare(p);
    rope_check_surroundings(p);
}

static void destroy(struct rope_problem *p)
{
    struct tensor *all[] = {
        &p->q,    &p->k,        &p->v,        &p->gate_in, &p->q_out,  &p->k_out,  &p->v_out,
        &p->gate, &p->q_weight, &p->k_weight, &p->q_bias,  &p->k_bias, &p->v_bias,
    };
    device_free(&p->memory);
    for (size_t i = 0; i < COUNT(all); i++)
        tensor_free(all[i]);
    cache_free(&p->cache);
    cache_free(&p->untouched);
    free(p->positions);
    free(p->slots);
    free(p->angles);
    free(p->q_squares);
    free(p->k_squares);
    free(p->before);
}

/* A page of a SHUFFLE cache has the tokens that take 16 bytes, or more. */
static int page_size(const struct attn_cache_desc *desc, int size)
{
    const int least = desc->layout != ATTN_KV_SHUFFLE                       ? 1
                      : desc->dtype == ATTN_FP8 || desc->dtype == ATTN_INT8 ? 16
                                                                            : 8;
    return size < least ? least : size;
}

static void verify_shape(struct verify_run *run, const struct attn_kernel_info *info, size_t i,
                         const struct attn_rope_qk_norm_cache_desc *desc,
                         const struct precision *precision)
{
    const struct rope_case *shape = &shapes[i];
    struct verify_row row = {.kernel = info->name, .shape = shape->name};
    struct rope_problem p = {
        .run = run,
        .shape = shape,
        .precision = precision,
        .desc = *desc,
        .row = &row,
        .q_precision = find_cache_precision(desc->q_out_dtype, info->target),
        .args = {.size = sizeof(p.args), .tokens = shape->tokens, .eps = 1e-6f},
        .memory = {.gpu = run->gpu},
    };
    p.desc.heads = shape->heads;
    p.desc.kv_heads = shape->kv_heads;
    p.desc.cache.page_size = page_size(&p.desc.cache, shape->page_size);
    uint64_t random = run->seed * 1000003 + i;
    rope_set_inputs(&p, info->target, &random);
    rope_upload_inputs(&p);
    rope_upload_outputs(&p);
    if (shape->flags & ROPE_IN_PLACE) {
        p.before = verify_allocate(packed_bytes(&p), 1);
        device_read(&p.memory, p.before, p.q.device, packed_bytes(&p));
    }
    run_problem(&p);
    destroy(&p);
    verify_report(run, &row);
}

struct attn_rope_qk_norm_cache_desc verify_rope_qk_norm_cache_desc(const struct attn_pack *pack,
                                                                   uint32_t n)
{
    const struct precision *precision = find_precision(verify_field(pack, n, "dtype"));
    const enum attn_dtype dtype = precision ? precision->dtype : 0;
    return (struct attn_rope_qk_norm_cache_desc){
        .size = sizeof(struct attn_rope_qk_norm_cache_desc),
        .dtype = dtype,
        .q_out_dtype = VERIFY_NUMBER_OF(pack, n, "out_dtype", "same", "fp8") ? ATTN_FP8 : dtype,
        .head_dim = atoi(verify_field(pack, n, "head_dim")),
        .rope = VERIFY_NUMBER_OF(pack, n, "rope", "none", "neox", "gptj"),
        .rotary_dim = atoi(verify_field(pack, n, "rotary_dim")),
        .mrope = VERIFY_NUMBER_OF(pack, n, "mrope", "none", "sections", "interleaved"),
        .cos_sin_short = VERIFY_NUMBER_OF(pack, n, "cos_sin", "f32", "same"),
        .norm = VERIFY_NUMBER_OF(pack, n, "norm", "none", "rms", "gemma_rms", "full"),
        .bias = verify_flag(pack, n, "bias"),
        .gate = verify_flag(pack, n, "gate"),
        .keep_kv = verify_flag(pack, n, "keep_kv"),
        .cache = verify_cache_desc(pack, n),
    };
}

static void verify(struct verify_run *run, uint32_t n, const struct attn_kernel_info *info)
{
    const struct precision *precision = find_precision(verify_field(run->pack, n, "dtype"));
    const struct attn_rope_qk_norm_cache_desc desc = verify_rope_qk_norm_cache_desc(run->pack, n);
    if (!precision || desc.head_dim > REF_ROPE_DIM_MAX) {
        verify_report_fault(run, info->name, "the reference does not cover its dtype or head_dim");
        return;
    }
    for (size_t i = 0; i < COUNT(shapes) && verify_wants_more(run); i++)
        verify_shape(run, info, i, &desc, precision);
}

const struct verify_op verify_rope_qk_norm_cache = {
    .op = "rope_qk_norm_cache",
    .verify = verify,
};
