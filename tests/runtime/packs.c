/* SPDX-License-Identifier: Apache-2.0 */
/* Makes packs for tests. */
#include "tests/runtime/packs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const char *or(const char *given, const char *otherwise)
{
    return given ? given : otherwise;
}

static void check(bool ok, struct attnc_pack_writer *w)
{
    if (ok)
        return;
    fprintf(stderr, "pack writer: %s\n", attnc_pack_writer_error(w));
    abort();
}

static const struct attnc_pack_factor x[] = {{"max_seqlen_q", 128}, {NULL, 2}};
static const struct attnc_pack_factor y[] = {{"heads", 3}};
static const struct attnc_pack_factor z[] = {{"batch", 1}};

/* Adds a kernel whose key is not sorted, since the writer sorts it. */
void add_made(struct attnc_pack_writer *w, const struct made *m)
{
    const char *target = or(m->target, "gfx942");
    const char *head_dim = or(m->head_dim, "128");
    char name[128];
    snprintf(name, sizeof(name), "prefill_%s_d%s", target, head_dim);
    const struct attnc_pack_pair key[] = {
        {"sinks", "false"},         {"dtype", "bf16"},
        {"head_dim", head_dim},     {"head_dim_v", head_dim},
        {"gqa", or(m->gqa, "any")}, {"mask", or(m->mask, "causal")},
        {"soft_cap", "false"},      {"lse", or(m->lse, "false")},
        {"logits", "none"},         {"paged", "false"},
        {"page_size", "any"},       {"page_table", "blocks"},
        {"kv_dtype", "same"},       {"kv_layout", "nhd"},
        {"kv_scale", "none"},       {"q_dtype", "same"},
        {"qkv_scale", "tensor"},    {"planned", "false"},
        {"one_launch", "false"},
    };
    const struct attnc_pack_kernarg kernargs[] = {
        {"q", MADE_Q, ATTN_KIND_I64},
        {"k", MADE_K, ATTN_KIND_I64},
        {"out", MADE_OUT, ATTN_KIND_I64},
        {"tokens", MADE_TOKENS, ATTN_KIND_I32},
        {"scale", MADE_SCALE, ATTN_KIND_F32},
        {"q_token_stride", MADE_Q_STRIDE, ATTN_KIND_I64},
        {"window_left", MADE_LEFT, ATTN_KIND_I32},
        {"window_right", MADE_RIGHT, ATTN_KIND_I32},
        {m->extra_arg, MADE_EXTRA, m->extra_narrow ? ATTN_KIND_I32 : ATTN_KIND_I64},
    };
    const struct attnc_pack_kernel k = {
        .name = or(m->name, name),
        .symbol = or(m->symbol, "kernel"),
        .op = "prefill",
        .target = target,
        .tuning = "q=128 kv=64",
        .provenance = "made by a test",
        .key = key,
        .key_count = COUNT(key),
        .kernargs = kernargs,
        .kernarg_count = COUNT(kernargs) - !m->extra_arg,
        .kernarg_size = MADE_KERNARG_SIZE,
        .grid = {x, y, z},
        .grid_count = {COUNT(x), COUNT(y), COUNT(z)},
        .when = m->when,
        .when_count = m->when_count,
        .splits = m->splits,
        .split_count = m->split_count,
        .workgroups_most = m->workgroups_most,
        .workgroup = {256, 1, 1},
        .lds_static = 65536,
        .lds_dynamic = 512,
        .vgprs = 200,
        .sgprs = 60,
        .occupancy = 2,
        .mfma_duty = 901,
        .code_bytes = 4000,
        .code = or(m->code, or(m->name, name)),
        .code_size = strlen(or(m->code, or(m->name, name))),
    };
    check(attnc_pack_writer_add(w, &k), w);
}

static void *finish(struct attnc_pack_writer *w, size_t *size)
{
    void *bytes;
    check(attnc_pack_writer_finish(w, &bytes, size), w);
    attnc_pack_writer_destroy(w);
    return bytes;
}

void *make_pack(const struct made *kernels, size_t count, size_t *size)
{
    struct attnc_pack_writer *w = attnc_pack_writer_create();
    for (size_t i = 0; i < count; i++)
        add_made(w, &kernels[i]);
    return finish(w, size);
}

void *make_large_pack(size_t count, size_t *size)
{
    static const char *const masks[] = {"causal", "none", "window"};
    struct attnc_pack_writer *w = attnc_pack_writer_create();
    for (size_t i = 0; i < count; i++) {
        char name[64], head_dim[32], gqa[32];
        snprintf(name, sizeof(name), "prefill_%zu", i);
        snprintf(gqa, sizeof(gqa), "%zu", 1 + i / 3 % 16);
        snprintf(head_dim, sizeof(head_dim), "%zu", 16 * (1 + i / 48));
        const struct made m = {
            .name = name,
            .head_dim = head_dim,
            .gqa = gqa,
            .mask = masks[i % 3],
        };
        add_made(w, &m);
    }
    return finish(w, size);
}

struct attn_prefill_desc plain_desc(void)
{
    return (struct attn_prefill_desc){
        .size = sizeof(struct attn_prefill_desc),
        .dtype = ATTN_BF16,
        .head_dim = 128,
        .heads = 8,
        .kv_heads = 2,
        .mask = ATTN_MASK_CAUSAL,
    };
}

struct attn_prefill_args plain_args(void)
{
    static _Alignas(16) uint16_t tensor[8];
    static const int32_t cu[] = {0, 100, 300};
    return (struct attn_prefill_args){
        .size = sizeof(struct attn_prefill_args),
        .q = tensor,
        .k = tensor,
        .v = tensor,
        .out = tensor,
        .cu_seqlens_q = cu,
        .cu_seqlens_k = cu,
        .batch = 2,
        .tokens = 300,
        .total_k = 300,
        .max_seqlen_q = 200,
        .max_seqlen_k = 200,
    };
}

static void reseal_records(uint8_t *pack, const struct attn_pack_header *h)
{
    const uint64_t start = h->sections[ATTN_PACK_KERNELS].offset;
    const uint64_t end = start + h->sections[ATTN_PACK_KERNELS].size;
    if (start % 8)
        return;
    for (uint64_t at = start; at + sizeof(struct attn_pack_kernel) <= end;) {
        struct attn_pack_kernel *k = (void *)(pack + at);
        if (k->size < sizeof(*k) || k->size % 8 || k->size > end - at)
            return;
        k->checksum = XXH3_64bits(&k->checksum + 1, k->size - sizeof(k->checksum));
        at += k->size;
    }
}

void reseal(void *pack, size_t size)
{
    struct attn_pack_header *h = pack;
    for (int s = 0; s < ATTN_PACK_SECTIONS; s++) {
        /* A copy: records that overlap the header overwrite its sections. */
        const struct attn_pack_section section = h->sections[s];
        if (section.offset > size || section.size > size - section.offset)
            continue;
        if (s == ATTN_PACK_KERNELS)
            reseal_records(pack, h);
        h->sections[s].checksum = XXH3_64bits((uint8_t *)pack + section.offset, section.size);
    }
    h->checksum = XXH3_64bits(h, offsetof(struct attn_pack_header, checksum));
}
