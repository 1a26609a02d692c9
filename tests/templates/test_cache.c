/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests kernels that move keys and values, for caches of every kind on every target. They compile
 * without spilling, and store 16 bytes at once where the layout has them. Results are tested by
 * `attnc verify`.
 */
#include "compiler/pipeline.h"
#include "ir/ir.h"
#include "templates/cache/cache.h"
#include "tests/templates/kernel.h"

#include <string.h>

extern const struct att_template att_template_cache_write, att_template_cache_gather,
    att_template_cache_copy;

static const int layouts[] = {ATT_KV_LAYOUT_NHD, ATT_KV_LAYOUT_SHUFFLE, ATT_KV_LAYOUT_SHUFFLE_K};
enum { KINDS = 5 * 3 * 4 };

static struct att_variant variant(const struct att_template *op, const char *target, int head_dim,
                                  int kind)
{
    struct att_variant v;
    att_variant_init(&v, op, target);
    att_set(&v, ATT_HEAD_DIM, head_dim);
    att_set(&v, ATT_HEAD_DIM_V, head_dim);
    att_set(&v, ATT_KV_DTYPE, kind % 5);
    att_set(&v, ATT_KV_LAYOUT, layouts[kind / 5 % 3]);
    att_set(&v, ATT_KV_SCALE, kind / 15);
    return v;
}

/* Compiles every kind of cache that the op takes. */
static void check_caches(const struct att_template *op, const char *target)
{
    unsigned built = 0;
    for (int kind = 0; kind < KINDS; kind++) {
        const struct att_variant v = variant(op, target, 64, kind);
        struct att_why why = {.text = ""};
        if (!op->check(&v, &tgt_find(target)->machine, &why)) {
            assert_true(strlen(why.text) > 10);
            continue;
        }
        compile_kernel(&v, 0);
        built++;
    }
    assert_true(built >= 18);
}

static const int head_dims[] = {80, 128, 192, 256, 496, 512};
enum { N_DIMS = sizeof(head_dims) / sizeof(head_dims[0]), N_NARROW = 4 };

/* Compiles `n` head dims with the fields that need the most registers: bytes, adjacent tokens, and
 * scales that the kernel computes. A page size of 0 means a kernel for any page size. */
static void check_head_dims(const struct att_template *op, enum att_kv_scale scale, int page_size,
                            const int *dims, unsigned n)
{
    const int kind = ATT_KV_DTYPE_FP8 + 5 * ATT_KV_LAYOUT_SHUFFLE + 15 * (int)scale;
    FOR_LARGE_WAVES(t)
    for (unsigned d = 0; d < n; d++) {
        struct att_variant v = variant(op, tgt_all[t]->machine.name, dims[d], kind);
        v.page_size = page_size;
        compile_kernel(&v, 0);
    }
}

static void check_caches_of_gfx9(const struct att_template *op)
{
    FOR_WIDE_WAVES(t)
    check_caches(op, tgt_all[t]->machine.name);
}

static void check_caches_of_gfx12(const struct att_template *op)
{
    FOR_LARGE_WAVES(t)
    if (tgt_all[t]->machine.lane_bits != TIR_WAVE_BITS)
        check_caches(op, tgt_all[t]->machine.name);
}

TEST_IN("write", writes_fit_their_registers) { check_caches_of_gfx9(&att_template_cache_write); }

TEST_IN("write in short waves", writes_of_short_waves_fit_their_registers)
{
    check_caches_of_gfx12(&att_template_cache_write);
}

TEST_IN("gather", gathers_fit_their_registers) { check_caches_of_gfx9(&att_template_cache_gather); }

TEST_IN("gather in short waves", gathers_of_short_waves_fit_their_registers)
{
    check_caches_of_gfx12(&att_template_cache_gather);
}

TEST_IN("written head dims", written_head_dims_fit_their_registers)
{
    check_head_dims(&att_template_cache_write, ATT_KV_SCALE_TOKEN, 0, head_dims, N_DIMS);
}

/* A page of 16 tokens is written by one wave, so each lane has many elements. */
TEST_IN("written small pages", written_small_pages_fit_their_registers)
{
    check_head_dims(&att_template_cache_write, ATT_KV_SCALE_BLOCK, 16, head_dims, N_NARROW);
}

TEST_IN("wide rows in small pages", written_small_pages_of_wide_rows_fit_their_registers)
{
    check_head_dims(&att_template_cache_write, ATT_KV_SCALE_BLOCK, 16, head_dims + N_NARROW,
                    N_DIMS - N_NARROW);
}

TEST_IN("written large pages", written_large_pages_fit_their_registers)
{
    check_head_dims(&att_template_cache_write, ATT_KV_SCALE_BLOCK, 1024, head_dims, N_NARROW);
}

TEST_IN("wide rows in large pages", written_large_pages_of_wide_rows_fit_their_registers)
{
    check_head_dims(&att_template_cache_write, ATT_KV_SCALE_BLOCK, 1024, head_dims + N_NARROW,
                    N_DIMS - N_NARROW);
}

TEST_IN("gathered head dims", gathered_head_dims_fit_their_registers)
{
    check_head_dims(&att_template_cache_gather, ATT_KV_SCALE_TOKEN, 0, head_dims, N_DIMS);
}

TEST_IN("gathered head dims", wide_rows_and_copies_fit_their_registers)
{
    FOR_LARGE_WAVES(t)
    {
        const char *target = tgt_all[t]->machine.name;
        const struct att_variant wide = variant(&att_template_cache_write, target, 512,
                                                ATT_KV_DTYPE_INT8 + 15 * ATT_KV_SCALE_TOKEN);
        compile_kernel(&wide, 0);
        struct att_variant copy;
        att_variant_init(&copy, &att_template_cache_copy, target);
        compile_kernel(&copy, 0);
    }
}

TEST_IN("layouts", every_head_dim_has_layouts)
{
    static const struct att_template *const ops[] = {&att_template_cache_write,
                                                     &att_template_cache_gather};
    unsigned built = 0;
    for (int o = 0; o < 2; o++)
        for (int dim = 16; dim <= ATT_CACHE_DIM_MAX + 8; dim += 8)
            for (int kind = 0; kind < KINDS; kind++) {
                struct att_variant v = variant(ops[o], "gfx942", dim, kind);
                built += build_or_refuse(&v);
                v.head_dim_v = 128;
                built += build_or_refuse(&v);
            }
    assert_true(built > 2000);
}

/* With these head dims, panels have a width that 64 lanes do not divide evenly. */
TEST_IN("layouts", odd_head_dims_fit_their_registers)
{
    static const int dims[] = {72, 120, 272, 304, 496};
    const int shuffle = ATT_KV_DTYPE_FP8 + 5 * ATT_KV_LAYOUT_SHUFFLE + 15 * ATT_KV_SCALE_TENSOR;
    for (unsigned d = 0; d < sizeof(dims) / sizeof(dims[0]); d++) {
        const struct att_variant write = variant(&att_template_cache_write, "gfx942", dims[d], 0);
        const struct att_variant gather = variant(&att_template_cache_gather, "gfx942", dims[d], 0);
        compile_kernel(&write, 0);
        compile_kernel(&gather, 0);
    }
    const struct att_variant v = variant(&att_template_cache_write, "gfx950", 144, shuffle);
    compile_kernel(&v, 0);
}

/* The wider of K and V is processed in several steps by the tokens of a workgroup. In one step a
 * lane would hold 1,024 of its elements if the narrower has 16 columns. Above 256 columns it is
 * also processed panel by panel. */
TEST_IN("layouts", widths_far_apart_fit_their_registers)
{
    static const int dims[][2] = {{256, 16}, {16, 256}, {256, 48}, {128, 16}, {496, 16}, {16, 496}};
    static const struct att_template *const ops[] = {&att_template_cache_write,
                                                     &att_template_cache_gather};
    static const int kinds[] = {ATT_KV_DTYPE_SAME + 5 * ATT_KV_LAYOUT_SHUFFLE,
                                ATT_KV_DTYPE_FP8 + 5 * ATT_KV_LAYOUT_SHUFFLE +
                                    15 * ATT_KV_SCALE_TOKEN};
    for (unsigned d = 0; d < sizeof(dims) / sizeof(dims[0]); d++)
        for (unsigned k = 0; k < 4; k++) {
            struct att_variant v =
                variant(ops[k / 2], d % 2 ? "gfx950" : "gfx942", dims[d][0], kinds[k % 2]);
            v.head_dim_v = dims[d][1];
            compile_kernel(&v, 0);
        }
}

/* Counts an instruction in the kernel's assembly. */
static unsigned count_in_assembly(const struct att_variant *v, const char *mnemonic)
{
    static const struct attnc_compile_options options = {.stage = ATTNC_STAGE_ASM};
    const struct tgt_blob no_hooks = {0};
    struct attnc_kernel k;
    char why[ATTNC_WHY] = "";
    if (!attnc_compile(v, &no_hooks, &options, stderr, &k, why))
        fail_msg("%s", why);
    unsigned n = 0;
    for (const char *at = (const char *)k.code.data; (at = strstr(at, mnemonic)); at++)
        n++;
    attnc_kernel_free(&k);
    return n;
}

/* If the kernel computes the scale from a row's largest number, no number can exceed the dtype. */
TEST_IN("layouts", only_a_given_scale_needs_saturation)
{
    static const int dtypes[] = {ATT_KV_DTYPE_FP8, ATT_KV_DTYPE_INT8};
    static const char *const clamps[] = {"v_med3_f32", "v_med3_i32"};
    for (int i = 0; i < 2; i++) {
        struct att_variant v = variant(&att_template_cache_write, "gfx950", 128, dtypes[i]);
        v.kv_scale = ATT_KV_SCALE_TENSOR;
        assert_true(count_in_assembly(&v, clamps[i]) >= 16);
        v.kv_scale = ATT_KV_SCALE_TOKEN;
        assert_int_equal(count_in_assembly(&v, clamps[i]), 0);
    }
}

static void check_refused(enum att_field field, int value, enum att_field also, int also_value)
{
    struct att_variant v;
    struct att_why why = {.text = ""};
    att_variant_init(&v, &att_template_cache_write, "gfx942");
    att_set(&v, ATT_HEAD_DIM, 128);
    att_set(&v, ATT_HEAD_DIM_V, 128);
    att_set(&v, field, value);
    att_set(&v, also, also_value);
    assert_false(v.op->check(&v, &tgt_find("gfx942")->machine, &why));
    assert_true(strlen(why.text) > 10);
}

TEST_IN("layouts", what_no_cache_is_like_says_why)
{
    check_refused(ATT_HEAD_DIM, 68, ATT_PAGE_SIZE, 16);
    check_refused(ATT_HEAD_DIM, 72, ATT_KV_DTYPE, ATT_KV_DTYPE_FP8);
    check_refused(ATT_HEAD_DIM_V, 1024, ATT_PAGE_SIZE, 16);
    check_refused(ATT_PAGE_SIZE, 36, ATT_KV_LAYOUT, ATT_KV_LAYOUT_SHUFFLE);
    check_refused(ATT_PAGE_SIZE, 4, ATT_KV_LAYOUT, ATT_KV_LAYOUT_SHUFFLE);
    check_refused(ATT_KV_DTYPE, ATT_KV_DTYPE_INT8, ATT_KV_SCALE, ATT_KV_SCALE_NONE);
    check_refused(ATT_KV_DTYPE, ATT_KV_DTYPE_FP16, ATT_KV_SCALE, ATT_KV_SCALE_NONE);
    check_refused(ATT_KV_DTYPE, ATT_KV_DTYPE_SAME, ATT_KV_SCALE, ATT_KV_SCALE_TENSOR);
}

int main(int argc, char **argv) { return run_test_group(argc, argv); }
