/* SPDX-License-Identifier: Apache-2.0 */
/* Binds generated packs to the fake HIP runtime. */
#include "tests/runtime/fixture.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
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

static struct fakehip *fake_state(void)
{
    static void *library; /* loaded permanently */
    if (!library)
        library = dlopen(fake_path(), RTLD_NOW);
    struct fakehip *(*state)(void);
    void *address = library ? dlsym(library, "fakehip_state") : NULL;
    if (!address)
        abort();
    memcpy(&state, &address, sizeof(address));
    return state();
}

struct fakehip *fake_reset(void)
{
    struct fakehip *f = fake_state();
    memset(f, 0, sizeof(*f));
    f->device_count = 1;
    f->fail_with = 999;
    return f;
}

static struct bench open_bytes(void *bytes, size_t size, uint32_t flags)
{
    struct bench b = {.bytes = bytes};
    struct attn_device_options o = fake_options();
    o.flags = flags;
    assert_int_equal(attn_pack_open_memory(b.bytes, size, &b.pack), ATTN_OK);
    assert_int_equal(attn_device_open(&b.pack, 1, &o, &b.device), ATTN_OK);
    return b;
}

struct bench open_bench(const struct made *kernels, size_t count)
{
    size_t size;
    void *const bytes = make_pack(kernels, count, &size);
    return open_bytes(bytes, size, 0);
}

void add_small(struct attnc_pack_writer *w, struct attnc_pack_kernel k)
{
    static const struct attnc_pack_factor x[] = {{"workgroups", 1}};
    k.symbol = "kernel";
    k.target = "gfx942";
    k.grid[0] = x;
    k.grid_count[0] = COUNT(x);
    k.workgroup[0] = 256;
    k.workgroup[1] = k.workgroup[2] = 1;
    k.occupancy = 1;
    k.code = k.name;
    k.code_size = strlen(k.name);
    k.code_bytes = 4;
    if (!attnc_pack_writer_add(w, &k))
        fail_msg("%s", attnc_pack_writer_error(w));
}

struct bench open_writer(struct attnc_pack_writer *w, uint32_t flags)
{
    void *bytes;
    size_t size;
    assert_true(attnc_pack_writer_finish(w, &bytes, &size));
    attnc_pack_writer_destroy(w);
    return open_bytes(bytes, size, flags);
}

void close_bench(struct bench *b)
{
    attn_device_close(b->device);
    attn_pack_close(b->pack);
    free(b->bytes);
    assert_int_equal(fake_state()->strays, 0); /* since fake_reset() */
}

void says(const char *text)
{
    if (!strstr(attn_last_error(), text))
        fail_msg("\"%s\" does not say \"%s\"", attn_last_error(), text);
}

void refused(int status, int code, const char *text)
{
    assert_int_equal(status, text ? code : ATTN_OK);
    if (text)
        says(text);
}

int64_t i64_at(const struct fakehip *f, size_t offset)
{
    int64_t v;
    memcpy(&v, f->kernargs + offset, sizeof(v));
    return v;
}

int32_t i32_at(const struct fakehip *f, size_t offset)
{
    int32_t v;
    memcpy(&v, f->kernargs + offset, sizeof(v));
    return v;
}

float f32_at(const struct fakehip *f, size_t offset)
{
    float v;
    memcpy(&v, f->kernargs + offset, sizeof(v));
    return v;
}

void *read_file(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    *size = (size_t)ftell(f);
    rewind(f);
    void *bytes = malloc(*size);
    assert_int_equal(fread(bytes, 1, *size, f), *size);
    fclose(f);
    return bytes;
}
