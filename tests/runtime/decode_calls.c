/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the kernels, the layer and the call that tests of decode share. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/runtime/decode_calls.h"

static const char *or(const char *given, const char *otherwise)
{
    return given ? given : otherwise;
}

/* Adds a kernel to a pack. */
static void add(struct attnc_pack_writer *w, const struct decode_kernel *k)
{
    const struct attnc_pack_pair key[] = {
        {"dtype", "bf16"},
        {"gqa", or(k->gqa, "any")},
        {"head_dim", "128"},
        {"head_dim_v", "128"},
        {"kv_dtype", or(k->kv_dtype, "same")},
        {"kv_layout", or(k->kv_layout, "nhd")},
        {"kv_scale", or(k->kv_scale, "none")},
        {"logits", "none"},
        {"lse", "false"},
        {"mask", or(k->mask, "causal")},
        {"one_launch", or(k->one_launch, "false")},
        {"page_size", or(k->page_size, "any")},
        {"page_table", or(k->page_table, "blocks")},
        {"q_dtype", or(k->q_dtype, "same")},
        {"q_len", or(k->q_len, "1")},
        {"q_scale", or(k->q_scale, "tensor")},
        {"sinks", "false"},
        {"soft_cap", "false"},
    };
    static const struct attnc_pack_kernarg kernargs[] = {
        {"k", AT_K, ATTN_KIND_I64},
        {"k_page_stride", AT_K_PAGE, ATTN_KIND_I64},
        {"k_token_stride", AT_K_TOKEN, ATTN_KIND_I64},
        {"k_head_stride", AT_K_HEAD, ATTN_KIND_I64},
        {"v_page_stride", AT_V_PAGE, ATTN_KIND_I64},
        {"scale_page_stride", AT_SCALE_PAGE, ATTN_KIND_I64},
        {"scale_head_stride", AT_SCALE_HEAD, ATTN_KIND_I64},
        {"block_table_stride", AT_TABLE_STRIDE, ATTN_KIND_I64},
        {"page_size", AT_PAGE_SIZE, ATTN_KIND_I32},
        {"page_shift", AT_PAGE_SHIFT, ATTN_KIND_I32},
        {"max_seqlen_q", AT_Q_LEN, ATTN_KIND_I32},
        {"window_right", AT_RIGHT, ATTN_KIND_I32},
    };
    add_small(w, (struct attnc_pack_kernel){
                     .name = k->name,
                     .op = "decode",
                     .key = key,
                     .key_count = COUNT(key),
                     .kernargs = kernargs,
                     .kernarg_count = COUNT(kernargs),
                     .kernarg_size = AT_SIZE,
                 });
}

struct bench decode_open(const struct decode_kernel *kernels, size_t count, uint32_t flags)
{
    struct attnc_pack_writer *w = attnc_pack_writer_create();
    for (size_t i = 0; i < count; i++)
        add(w, &kernels[i]);
    return open_writer(w, flags);
}

struct attn_decode_desc decode_desc(void)
{
    return (struct attn_decode_desc){
        .size = sizeof(struct attn_decode_desc),
        .dtype = ATTN_BF16,
        .head_dim = 128,
        .heads = 8,
        .kv_heads = 2,
        .mask = ATTN_MASK_CAUSAL,
        .cache = {.page_size = 16},
    };
}

_Alignas(16) uint16_t decode_tensor[8];
const int32_t decode_lens[3] = {40, 0, 16};
const int32_t decode_table[3][4] = {{5, 0, 2, -1}, {-1, -1, -1, -1}, {9, -1, -1, -1}};

struct attn_decode_args decode_args(void)
{
    return (struct attn_decode_args){
        .size = sizeof(struct attn_decode_args),
        .stream = FAKE_STREAM,
        .q = decode_tensor,
        .out = decode_tensor,
        .cache = {.k = decode_tensor, .v = decode_tensor, .page_count = 10},
        .pages = {.kv_lens = decode_lens, .block_table = decode_table[0], .entries = 4},
        .batch = 3,
        .tokens = 3,
    };
}
