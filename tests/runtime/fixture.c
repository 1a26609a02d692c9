/* SPDX-License-Identifier: Apache-2.0 */
/* This file binds made packs to the fake HIP runtime. */
#include "tests/runtime/fixture.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

const char *fake_path(void) { return FAKEHIP_PATH; }

const char *fake5_path(void) { return FAKEHIP5_PATH; }

struct attn_device_options fake_options(void)
{
    return (struct attn_device_options){
        .size = sizeof(struct attn_device_options),
        .hip_library = fake_path(),
    };
}

struct fakehip *fake_reset(void)
{
    static void *library; /* stays */
    if (!library)
        library = dlopen(fake_path(), RTLD_NOW);
    struct fakehip *(*state)(void);
    void *address = library ? dlsym(library, "fakehip_state") : NULL;
    if (!address)
        abort();
    memcpy(&state, &address, sizeof(address));
    struct fakehip *f = state();
    memset(f, 0, sizeof(*f));
    f->device_count = 1;
    f->fail_with = 999;
    return f;
}

struct bench open_bench(const struct made *kernels, size_t count)
{
    struct bench b;
    size_t size;
    b.bytes = make_pack(kernels, count, &size);
    assert_int_equal(attn_pack_open_memory(b.bytes, size, &b.pack), ATTN_OK);
    const struct attn_device_options o = fake_options();
    assert_int_equal(attn_device_open(&b.pack, 1, &o, &b.device), ATTN_OK);
    return b;
}

void close_bench(struct bench *b)
{
    attn_device_close(b->device);
    attn_pack_close(b->pack);
    free(b->bytes);
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
        .total_q = 300,
        .total_k = 300,
        .max_seqlen_q = 200,
        .max_seqlen_k = 200,
    };
}

void says(const char *text)
{
    if (!strstr(attn_last_error(), text))
        fail_msg("\"%s\" does not say \"%s\"", attn_last_error(), text);
}
