/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the machine code of every tile of prefill on every target. Results are tested by `attnc
 * verify`.
 */
#include "ir/interp.h"
#include "targets/tgt.h"
#include "templates/prefill/pipelines/pipelines.h"
#include "templates/prefill/prefill.h"
#include "templates/workgroup/scalar.h"
#include "tests/templates/kernel.h"

#include <string.h>

extern const struct att_template att_template_prefill;

static const int head_dims[][2] = {{64, 64},  {128, 128}, {192, 128}, {256, 256},
                                   {128, 64}, {192, 64},  {256, 64},  {512, 512}};
enum { N_DIMS = sizeof(head_dims) / sizeof(head_dims[0]) };

static struct att_variant variant(const char *target, const int dims[2])
{
    struct att_variant v;
    att_variant_init(&v, &att_template_prefill, target);
    att_set(&v, ATT_HEAD_DIM, dims[0]);
    att_set(&v, ATT_HEAD_DIM_V, dims[1]);
    return v;
}

static void check_registers(const struct attnc_kernel *k)
{
    const struct tgt_kernel_facts *f = &k->facts;
    if (f->vgpr_spills || f->sgpr_spills || f->scratch_bytes)
        fail_msg("%s spills: %u VGPR, %u SGPR, %u bytes of scratch", k->name, f->vgpr_spills,
                 f->sgpr_spills, f->scratch_bytes);
    const unsigned room = 256 * 512 / f->workgroup_size;
    if (f->vgprs + f->agprs > room)
        fail_msg("%s takes %u registers: a wave has %u", k->name, f->vgprs + f->agprs, room);
}

/* Checks that a kernel does not spill. Checks that its loop has matrix instructions, does not wait
 * for all loads, and copies at most `copies` registers. */
static void check_facts(const struct attnc_kernel *k, unsigned copies)
{
    const struct tgt_kernel_facts *f = &k->facts;
    const unsigned room = 256 * 512 / f->workgroup_size;

    check_registers(k);
    if (f->loop.waits_vm0)
        fail_msg("%s drains its loads in the loop: vmcnt(0)", k->name);
    if (f->loop.copies > copies + (room > 256 ? 32 : 0)) /* AGPRs' contents pass through VGPRs */
        fail_msg("%s copies %u registers in the loop", k->name, f->loop.copies);
    if (!f->loop.mfma)
        fail_msg("%s: no loop with matrix instructions was found", k->name);
}

static void check_tiles(int mask)
{
    FOR_WIDE_WAVES(t)
    for (int d = 0; d < N_DIMS; d++)
        for (int dtype = ATT_DTYPE_BF16; dtype <= ATT_DTYPE_FP16; dtype++) {
            struct att_variant v = variant(tgt_all[t]->machine.name, head_dims[d]);
            att_set(&v, ATT_DTYPE, dtype);
            att_set(&v, ATT_MASK, mask);
            att_set(&v, ATT_LSE, mask == ATT_MASK_NONE);
            att_set(&v, ATT_SINKS, mask == ATT_MASK_WINDOW);
            struct attnc_kernel k = compile_attention(&v);
            check_facts(&k, 0);
            attnc_kernel_free(&k);
        }
}

TEST_IN("no mask", tiles_fit_their_registers) { check_tiles(ATT_MASK_NONE); }

TEST_IN("causal", causal_tiles_fit_their_registers) { check_tiles(ATT_MASK_CAUSAL); }

TEST_IN("windows", tiles_with_windows_fit_their_registers) { check_tiles(ATT_MASK_WINDOW); }

TEST_IN("head dims", head_dims_between_the_tiles)
{
    static const int dims[][2] = {{72, 72},   {80, 80},   {88, 88},  {96, 96},
                                  {112, 112}, {160, 160}, {192, 96}, {80, 256},
                                  {208, 208}, {320, 320}, {512, 64}, {64, 512}};
    FOR_WIDE_WAVES(t)
    for (size_t d = 0; d < sizeof(dims) / sizeof(dims[0]); d++) {
        struct att_variant v = variant(tgt_all[t]->machine.name, dims[d]);
        struct attnc_kernel k = compile_attention(&v);
        check_facts(&k, 0);
        attnc_kernel_free(&k);
    }
}

/* Returns the tile of the second kernel for calls in which the argument `arg` is at most `most`; 0:
 * there is no such kernel. */
static unsigned row_for(const struct att_variant *v, const struct tir_machine *m, const char *arg,
                        int64_t most)
{
    struct att_second second;
    for (unsigned n = 0; v->op->second(v, m, n, &second); n++)
        for (unsigned i = 0; i < second.calls.count; i++)
            if (!strcmp(second.calls.rows[i].arg, arg) && second.calls.rows[i].max == most)
                return second.tile;
    return 0;
}

/* Compiles the second kernel for queries that see few keys: calls in which `arg` is at most `most`.
 * Checks that a compute unit holds `workgroups` of its workgroups. */
static void check_short(const char *target, const int dims[2], int mask, const char *arg, int most,
                        int workgroups)
{
    const struct tir_machine *const m = &tgt_find(target)->machine;
    struct att_variant v = variant(target, dims);
    att_set(&v, ATT_MASK, mask);
    att_set(&v, ATT_LSE, 1);
    const unsigned row = row_for(&v, m, arg, most);
    assert_int_not_equal(row, 0);
    att_set(&v, ATT_TILE, (int)row);
    struct attnc_kernel k = compile_attention(&v);
    assert_int_equal(k.facts.occupancy, workgroups); /* waves of a SIMD: one of each workgroup */
    check_facts(&k, 0);
    attnc_kernel_free(&k);
    att_set(&v, ATT_SOFT_CAP, 1);
    assert_int_equal(row_for(&v, m, arg, most), 0);
}

/* With head_dim 64 four workgroups share a compute unit of gfx950. Launches of prompts with at most
 * a tile for each compute unit have large tiles there from 257 keys on. Wider heads with a window
 * have no such kernel: theirs is persistent. */
TEST_IN("no mask", queries_of_few_keys_share_compute_units)
{
    FOR_WIDE_WAVES(t)
    {
        const char *const name = tgt_all[t]->machine.name;
        const bool four = !strcmp(name, "gfx950");
        const int *const narrow = head_dims[0], *const wide = head_dims[1];
        check_short(name, narrow, ATT_MASK_WINDOW, "window_left", 255, four ? 4 : 3);
        check_short(name, narrow, ATT_MASK_CAUSAL, "max_seqlen_k", four ? 256 : 512, four ? 4 : 3);
        check_short(name, wide, ATT_MASK_CAUSAL, "max_seqlen_k", 192, 2);
    }
}

/* True if the kernel of the variant on machine m is persistent. */
static bool is_persistent(const struct att_variant *v, const struct tir_machine *m)
{
    struct att_tile tile;
    assert_true(att_find_tile(v, m, &tile, NULL));
    const struct prefill p = prefill_with_tile(v, m, &tile);
    assert_int_equal(prefill_workgroups(&p) % m->cus, 0);
    return prefill_workgroups(&p) != 0;
}

/* True if work tiles of the variant on machine m have several heads. */
static bool shares_heads(const struct att_variant *v, const struct tir_machine *m)
{
    struct att_tile tile;
    assert_true(att_find_tile(v, m, &tile, NULL));
    const struct prefill p = prefill_with_tile(v, m, &tile);
    return prefill_shares_heads(&p);
}

/* Kernels for windows and chunks are persistent, with a workgroup for each compute unit. Exceptions
 * are tiles that compute offsets anew, and scores with a soft cap. */
TEST_IN("no mask", windows_and_chunks_are_persistent)
{
    FOR_WIDE_WAVES(t)
    {
        const struct tir_machine *const m = &tgt_all[t]->machine;
        for (int i = 0; i < 2 * N_DIMS; i++) {
            struct att_variant v = variant(m->name, head_dims[i / 2]);
            att_set(&v, ATT_MASK, i & 1 ? ATT_MASK_WINDOW : ATT_MASK_CHUNK);
            const bool narrow = v.head_dim <= 192 && v.head_dim_v <= 128;
            assert_int_equal(is_persistent(&v, m), narrow);
            att_set(&v, ATT_SOFT_CAP, 1);
            assert_false(is_persistent(&v, m));
        }
    }
}

/* Work tiles of windows and chunks have several heads, over tensors and over pages. Items of a plan
 * have all heads of a KV head as rows. Padded panels have no columns for the gather of Q. */
TEST_IN("no mask", work_tiles_of_windows_and_chunks_share_heads)
{
    FOR_WIDE_WAVES(t)
    {
        const struct tir_machine *const m = &tgt_all[t]->machine;
        for (int i = 0; i < 4 * N_DIMS; i++) {
            struct att_variant v = variant(m->name, head_dims[i / 4]);
            assert_false(shares_heads(&v, m));
            att_set(&v, ATT_PAGED, i & 1);
            att_set(&v, ATT_MASK, i & 2 ? ATT_MASK_WINDOW : ATT_MASK_CHUNK);
            assert_true(shares_heads(&v, m));
            if (i & 1) {
                att_set(&v, ATT_PLANNED, 1);
                assert_false(shares_heads(&v, m));
            }
        }
        struct att_variant padded = variant(m->name, (const int[2]){72, 72});
        att_set(&padded, ATT_MASK, ATT_MASK_WINDOW);
        assert_int_equal(shares_heads(&padded, m), !strcmp(m->name, "gfx942"));
    }
}

enum { N_WAVES = 8, N_LANES = 64, N_FOUND = 4 /* numbers that store_wave_tiles() stores */ };

/* Stores numbers of each wave to argument `out`: the head and the first token of its wave tile, the
 * tokens of the tile, and the number of KV heads. The tile is work tile `tile` of KV head
 * `kv_head`. */
static void store_wave_tiles(struct prefill *p, int kv_head, int tile)
{
    struct tir_builder *const b = &p->b;
    prefill_find_heads(p);
    p->work.kv_head = tir_i32(b, kv_head);
    prefill_find_wave_tiles(p, tir_i32(b, tile));
    const struct tir_value wave = tir_wave_id(b);
    const struct tir_value past = att_times(b, wave, (int)p->tile->rows);
    struct tir_value all[N_FOUND] = {prefill_own_head(p)};
    all[1] = tir_add(b, prefill_first_row(p), past);
    all[2] = prefill_tile_tokens(p);
    all[3] = p->work.kv_heads;
    struct tir_layout l = {.lane_bits = 6};
    for (unsigned i = 0; i < 6; i++)
        l.basis[i] = TIR_RC(0, 1u << i);
    const struct tir_type type = tir_tile(b->f, TIR_I32, 1, N_LANES, &l);
    const int bytes = N_LANES * (int)sizeof(int32_t);
    const struct tir_view out = att_view(
        b, tir_arg(b, "out", TIR_I64), tir_i32(b, N_WAVES * N_FOUND), tir_i32(b, bytes), bytes, 0);
    for (int i = 0; i < N_FOUND; i++) {
        const struct tir_value row = att_plus(b, att_times(b, wave, N_FOUND), i);
        tir_tile_store(b, out, row, tir_splat(b, all[i], type));
    }
    tir_return(b);
}

/* Runs store_wave_tiles() in the interpreter, with `gqa` query heads of each KV head. */
static void find_wave_tiles(int gqa, int kv_head, int tile, int32_t found[][N_FOUND][N_LANES])
{
    const struct tir_machine *const m = &tgt_find("gfx942")->machine;
    const int32_t heads = gqa * (kv_head + 1);
    struct att_variant v = variant(m->name, head_dims[1]);
    struct att_tile t;
    att_set(&v, ATT_MASK, ATT_MASK_WINDOW);
    assert_true(att_find_tile(&v, m, &t, NULL));
    struct prefill p = prefill_with_tile(&v, m, &t);
    struct tir_func *const f = tir_func_create("test", m, N_WAVES);
    p.b = tir_at_end(f, f->body);
    store_wave_tiles(&p, kv_head, tile);
    uint8_t kernarg[64] = {0};
    for (uint32_t i = 0; i < f->n_args; i++) {
        uint8_t *const at = kernarg + f->args[i].offset;
        if (f->args[i].dtype == TIR_I64)
            memcpy(at, &(void *){found}, sizeof(void *));
        else
            memcpy(at, strcmp(f->args[i].name, ARG_GQA) ? &heads : &gqa, sizeof(heads));
    }
    char why[TIR_WHY];
    if (!tir_interpret(f, kernarg, sizeof(kernarg), (const unsigned[]){1, 1, 1}, why))
        fail_msg("%s", why);
    tir_func_destroy(f);
}

/* All wave tiles of a KV head follow each other, heads inner, at any GQA ratio. With
 * 5 heads a tile has at most 96 tokens. */
TEST_IN("no mask", wave_tiles_of_a_kv_head_follow_each_other)
{
    static const int ratios[] = {1, 2, 3, 5, 7, 8, 12, 16, 255, 257, 500, 16384};
    for (unsigned i = 0; i < sizeof(ratios) / sizeof(ratios[0]); i++) {
        /* The last tile has the last head. */
        const int gqa = ratios[i], tiles[] = {0, 1, 2, 3, 4, 22, 39, (gqa - 1) / N_WAVES};
        for (unsigned k = 0; k < sizeof(tiles) / sizeof(tiles[0]); k++) {
            const int kv_head = 2, first = tiles[k] * N_WAVES;
            int32_t found[N_WAVES][N_FOUND][N_LANES];
            find_wave_tiles(gqa, kv_head, tiles[k], found);
            for (int n = 0; n < N_WAVES; n++) {
                const int last = first + N_WAVES - 1;
                assert_int_equal(found[n][0][0], kv_head * gqa + (first + n) % gqa);
                assert_int_equal(found[n][1][0], (first + n) / gqa * 32);
                assert_int_equal(found[n][2][0], (last / gqa - first / gqa + 1) * 32);
                assert_int_equal(found[n][3][0], kv_head + 1);
            }
        }
    }
}

/* Windows over pages have a kernel for up to 256 keys. On gfx950 it takes up to 512 keys if pages
 * are copied and head_dim is 64. A launch of these has more tiles than compute units. */
TEST_IN("no mask", windows_over_pages_have_a_kernel_for_few_keys)
{
    FOR_WIDE_WAVES(t)
    {
        const struct tir_machine *const m = &tgt_all[t]->machine;
        const bool copies = !strcmp(m->name, "gfx950");
        for (int page = 0; page <= 16; page += 16) {
            struct att_second second;
            struct att_variant v = variant(m->name, head_dims[0]);
            att_set(&v, ATT_MASK, ATT_MASK_WINDOW);
            att_set(&v, ATT_PAGED, 1);
            att_set(&v, ATT_PAGE_SIZE, page);
            assert_int_not_equal(row_for(&v, m, "window_left", 255), 0);
            assert_true(v.op->second(&v, m, 0, &second));
            assert_int_equal(second.also[0].count, copies && page ? 3 : 0);
            if (second.also[0].count)
                assert_int_equal(second.also[0].rows[1].max, 511);
        }
    }
}

/* Every size is compiled or refused with a sentence, and none aborts: panels and LDS follow the
   size. */
TEST_IN("head dims", every_head_dim_is_decided)
{
    FOR_WIDE_WAVES(t)
    for (int dim = 1; dim <= 528; dim++) {
        struct att_variant v = variant(tgt_all[t]->machine.name, (const int[2]){dim, dim});
        struct att_why why = {.text = ""};
        const bool taken = v.op->check(&v, &tgt_all[t]->machine, &why);
        assert_true(taken || strlen(why.text) > 10);
        assert_true(!taken || (dim >= 64 && dim <= 512 && dim % (dim < 128 ? 8 : 16) == 0));
    }
}

/* Every accepted pair of sizes can be built. */
TEST_IN("head dims", every_pair_of_head_dims_makes_sound_tiles)
{
    unsigned taken = 0;
    FOR_WIDE_WAVES(t)
    for (int dim = 64; dim <= 512; dim += dim < 256 ? 8 : 64)
        for (int dim_v = 64; dim_v <= 512; dim_v += dim_v < 256 ? 8 : 64) {
            const struct tir_machine *m = &tgt_all[t]->machine;
            struct att_variant v = variant(m->name, (const int[2]){dim, dim_v});
            struct att_why why = {.text = ""};
            struct att_kernel k;
            if (!v.op->check(&v, m, &why))
                continue;
            v.op->build(&v, m, &k);
            if (!tir_verify(k.func, "building", stderr))
                fail_msg("head_dim %d, head_dim_v %d", dim, dim_v);
            tir_func_destroy(k.func);
            taken++;
        }
    assert_true(taken > 300);
}

TEST_IN("head dims", soft_cap_fits_too)
{
    FOR_WIDE_WAVES(t)
    for (int d = 0; d < N_DIMS; d++) {
        struct att_variant v = variant(tgt_all[t]->machine.name, head_dims[d]);
        att_set(&v, ATT_SOFT_CAP, 1);
        struct attnc_kernel k = compile_attention(&v);
        check_facts(&k, 0);
        attnc_kernel_free(&k);
    }
}

/* Returns the name of the phase in which a kernel of the variant copies K to LDS. */
static const char *phase_of_copies(const struct att_variant *v)
{
    const struct tir_machine *const m = &tgt_find(v->target)->machine;
    struct att_tile tile;
    assert_true(att_find_tile(v, m, &tile, NULL));
    const struct prefill p = prefill_with_tile(v, m, &tile);
    for (unsigned i = 0; i < p.plan.n_rows; i++)
        if (p.plan.row[i].op == &prefill_issue_k && !p.plan.row[i].part)
            return p.plan.of->phases[p.plan.row[i].phase].name;
    fail_msg("%s copies no K", v->target);
    return NULL;
}

/* A soft cap of wide heads follows the copies of K, which would lengthen its phase. */
TEST_IN("head dims", keys_are_copied_before_a_soft_cap)
{
    static const char *const targets[] = {"gfx942", "gfx950"};
    for (int t = 0; t < 2; t++)
        for (int cap = 0; cap < 2; cap++)
            for (int d = 64; d <= 128; d += 64) {
                struct att_variant v = variant(targets[t], (int[]){d, d});
                att_set(&v, ATT_SOFT_CAP, cap);
                assert_string_equal(phase_of_copies(&v), cap && d == 128 ? "EDGE" : "M2");
            }
}

/* Checks kernels of pages in a layout. LLVM widens row addresses by copies: a few are allowed. */
static void check_paged_tiles(int layout)
{
    FOR_WIDE_WAVES(t)
    for (int d = 0; d < N_DIMS; d++)
        for (int scale = ATT_KV_SCALE_NONE; scale <= ATT_KV_SCALE_BLOCK; scale++) {
            struct att_variant v = variant(tgt_all[t]->machine.name, head_dims[d]);
            att_set(&v, ATT_PAGED, 1);
            att_set(&v, ATT_KV_LAYOUT, layout);
            att_set(&v, ATT_KV_SCALE, scale);
            att_set(&v, ATT_KV_DTYPE, scale ? ATT_KV_DTYPE_FP8 : ATT_KV_DTYPE_SAME);
            struct attnc_kernel k = compile_attention(&v);
            /* SHUFFLE V has a scale beside each value, so a part of O is kept in AGPRs. */
            const bool beside = layout == ATT_KV_LAYOUT_SHUFFLE && scale == ATT_KV_SCALE_TOKEN;
            check_facts(&k, beside && head_dims[d][0] == 512 ? 32 : 4);
            attnc_kernel_free(&k);
        }
}

TEST_IN("pages", paged_tiles_fit_too) { check_paged_tiles(ATT_KV_LAYOUT_NHD); }

TEST_IN("shuffled pages", shuffled_tiles_fit_too) { check_paged_tiles(ATT_KV_LAYOUT_SHUFFLE); }

/* Checks that pages copied through registers leave room for tiles of 32 keys, and direct copies for
   64. */
static void check_copies(const char *target, int page_size, enum att_kv_dtype kv, bool copied)
{
    struct att_variant v = variant(target, head_dims[1]);
    att_set(&v, ATT_PAGED, 1);
    att_set(&v, ATT_PLANNED, 1);
    att_set(&v, ATT_PAGE_SIZE, page_size);
    att_set(&v, ATT_KV_DTYPE, kv);
    att_set(&v, ATT_KV_SCALE, kv ? ATT_KV_SCALE_TENSOR : ATT_KV_SCALE_NONE);
    struct attnc_kernel k = compile_attention(&v);
    check_facts(&k, 4);
    if (!strstr(k.tuning, "kv=64") == copied)
        fail_msg("%s of %d tokens on %s: %s", k.name, page_size, target, k.tuning);
    attnc_kernel_free(&k);
}

TEST_IN("causal plans", pages_are_copied_where_a_wave_has_one)
{
    check_copies("gfx950", 16, ATT_KV_DTYPE_SAME, true);
    check_copies("gfx950", 8, ATT_KV_DTYPE_SAME, true);
    check_copies("gfx950", 4, ATT_KV_DTYPE_SAME, false);
    check_copies("gfx950", 0, ATT_KV_DTYPE_SAME, false);
    check_copies("gfx950", 24, ATT_KV_DTYPE_SAME, true);
    check_copies("gfx950", 20, ATT_KV_DTYPE_SAME, false);
    check_copies("gfx950", 16, ATT_KV_DTYPE_FP8, false);
    check_copies("gfx942", 16, ATT_KV_DTYPE_SAME, false);
}

static void check_planned_tiles(int mask)
{
    FOR_WIDE_WAVES(t)
    for (int d = 0; d < N_DIMS; d++) {
        struct att_variant v = variant(tgt_all[t]->machine.name, head_dims[d]);
        att_set(&v, ATT_PAGED, 1);
        att_set(&v, ATT_PLANNED, 1);
        att_set(&v, ATT_ONE_LAUNCH, mask == ATT_MASK_CAUSAL);
        att_set(&v, ATT_PAGE_SIZE, 16);
        att_set(&v, ATT_MASK, mask);
        struct attnc_kernel k = compile_attention(&v);
        check_facts(&k, 4);
        attnc_kernel_free(&k);
    }
}

TEST_IN("plans", planned_tiles_fit_too)
{
    check_planned_tiles(ATT_MASK_NONE);
    check_planned_tiles(ATT_MASK_WINDOW);
}

TEST_IN("causal plans", causal_planned_tiles_fit_too) { check_planned_tiles(ATT_MASK_CAUSAL); }

TEST_IN("pages", caches_that_cannot_be_say_why)
{
    static const struct {
        bool paged;
        enum att_field field;
        int value;
    } odd[] = {
        {false, ATT_KV_DTYPE, ATT_KV_DTYPE_FP8},       {false, ATT_PAGE_SIZE, 16},
        {false, ATT_KV_LAYOUT, ATT_KV_LAYOUT_SHUFFLE}, {true, ATT_KV_DTYPE, ATT_KV_DTYPE_INT8},
        {true, ATT_KV_SCALE, ATT_KV_SCALE_TOKEN},      {true, ATT_KV_DTYPE, ATT_KV_DTYPE_FP16},
    };
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        struct att_variant v = variant("gfx942", head_dims[1]);
        struct att_why why = {.text = ""};
        att_set(&v, ATT_PAGED, odd[i].paged);
        att_set(&v, odd[i].field, odd[i].value);
        assert_false(v.op->check(&v, &tgt_find("gfx942")->machine, &why));
        assert_true(strlen(why.text) > 10);
    }
}

static struct att_variant fp8_variant(const char *target, const int dims[2])
{
    struct att_variant v = variant(target, dims);
    att_set(&v, ATT_Q_DTYPE, ATT_Q_DTYPE_FP8);
    return v;
}

/* Hooks and soft caps have one wave per SIMD, with 512 registers. */
TEST_IN("fp8", fp8_tiles_fit_too)
{
    static const int dims[][2] = {{64, 64}, {96, 96}, {128, 128}, {192, 128}};
    FOR_WIDE_WAVES(t)
    for (size_t d = 0; d < sizeof(dims) / sizeof(dims[0]); d++)
        for (int mask = ATT_MASK_NONE; mask <= ATT_MASK_WINDOW; mask++)
            for (int paged = 0; paged < 2; paged++) {
                struct att_variant v = fp8_variant(tgt_all[t]->machine.name, dims[d]);
                att_set(&v, ATT_MASK, mask);
                att_set(&v, ATT_LSE, mask == ATT_MASK_NONE);
                att_set(&v, ATT_SINKS, mask == ATT_MASK_WINDOW);
                att_set(&v, ATT_PAGED, paged);
                att_set(&v, ATT_KV_DTYPE, paged ? ATT_KV_DTYPE_FP8 : ATT_KV_DTYPE_SAME);
                struct attnc_kernel k = compile_attention(&v);
                check_facts(&k, paged ? 4 : 0);
                attnc_kernel_free(&k);
            }
}

TEST_IN("fp8", fp8_that_cannot_be_says_why)
{
    static const struct {
        int dims[2];
        bool paged;
        enum att_field field;
        int value;
        const char *text;
    } odd[] = {
        {{128, 128}, false, ATT_MASK, ATT_MASK_CUSTOM, "with q_dtype fp8 there is no custom mask"},
        {{72, 64}, false, ATT_LSE, 0, "head_dim 72 of fp8 is not a multiple of 16"},
        {{64, 72}, false, ATT_LSE, 0, "head_dim_v 72 of fp8 is not a multiple of 16"},
        {{128, 128}, false, ATT_KV_DTYPE, ATT_KV_DTYPE_FP8, "kv_dtype is for a cache"},
        {{128, 128}, true, ATT_LSE, 0, "q_dtype fp8 is for a cache of kv_dtype fp8"},
        {{256, 256}, false, ATT_LSE, 0, "no tile for head_dim 256"},
    };
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        struct att_variant v = fp8_variant("gfx950", odd[i].dims);
        struct att_why why = {.text = ""};
        att_set(&v, ATT_PAGED, odd[i].paged);
        att_set(&v, odd[i].field, odd[i].value);
        assert_false(v.op->check(&v, &tgt_find("gfx950")->machine, &why));
        if (!strstr(why.text, odd[i].text))
            fail_msg("%s, not %s", why.text, odd[i].text);
    }
    struct att_variant v = variant("gfx950", head_dims[1]);
    struct att_why why = {.text = ""};
    att_set(&v, ATT_QKV_SCALE, ATT_QKV_SCALE_HEAD);
    assert_false(v.op->check(&v, &tgt_find("gfx950")->machine, &why));
    assert_string_equal(why.text, "qkv_scale is for q_dtype fp8");
}

/* The matrix pipe's duty for bf16, D 128, is at least its first-order bound. */
TEST_IN("causal", matrix_pipe_is_kept_busy)
{
    static const struct {
        const char *target;
        unsigned permille;
    } floors[] = {{"gfx942", 880}, {"gfx950", 850}};
    for (int i = 0; i < 2; i++) {
        struct att_variant v = variant(floors[i].target, head_dims[1]);
        struct attnc_kernel k = compile_attention(&v);
        if (k.facts.mfma_duty < floors[i].permille)
            fail_msg("%s: duty %u permille is below %u", k.name, k.facts.mfma_duty,
                     floors[i].permille);
        attnc_kernel_free(&k);
    }
}

TEST_IN("plans", plans_of_no_cache_say_why)
{
    struct att_why why = {.text = ""};
    struct att_variant v = variant("gfx950", head_dims[1]);
    att_set(&v, ATT_PLANNED, 1);
    assert_false(v.op->check(&v, &tgt_find("gfx950")->machine, &why));
    assert_non_null(strstr(why.text, "paged: true"));
    att_set(&v, ATT_PAGED, 1);
    assert_true(v.op->check(&v, &tgt_find("gfx950")->machine, &why));
    att_set(&v, ATT_Q_DTYPE, ATT_Q_DTYPE_FP8);
    att_set(&v, ATT_KV_DTYPE, ATT_KV_DTYPE_FP8);
    att_set(&v, ATT_QKV_SCALE, ATT_QKV_SCALE_HEAD);
    assert_false(v.op->check(&v, &tgt_find("gfx950")->machine, &why));
    assert_non_null(strstr(why.text, "a scale of all queries"));
    att_set(&v, ATT_QKV_SCALE, ATT_QKV_SCALE_KV_HEAD);
    assert_false(v.op->check(&v, &tgt_find("gfx950")->machine, &why));
    assert_string_equal(why.text, "qkv_scale kv_head is for a cache of kv_scale head");
    att_set(&v, ATT_KV_SCALE, ATT_KV_SCALE_HEAD);
    assert_true(v.op->check(&v, &tgt_find("gfx950")->machine, &why));
}

TEST_IN("head dims", unsupported_head_dims_say_why)
{
    static const int odd[][2] = {{60, 60}, {520, 520}, {128, 100}, {320, 72}};
    for (int i = 0; i < 4; i++) {
        struct att_variant v = variant("gfx942", odd[i]);
        struct att_why why = {.text = ""};
        assert_false(v.op->check(&v, &tgt_find("gfx942")->machine, &why));
        assert_true(strlen(why.text) > 10);
    }
}

/* The tensor data mover copies elements of 16 bits only. LDS reads transpose V of 16 and of 8
 * bits. */
TEST_IN("halves", only_16_bits_are_moved)
{
    const struct tir_machine *const m = &tgt_find("gfx1250")->machine;
    const struct att_variant v = variant("gfx1250", (int[]){128, 128});
    struct att_tile tile;
    assert_true(att_find_tile(&v, m, &tile, NULL));
    struct prefill p = {.v = &v, .m = m, .tile = &tile, .shape.dtype = TIR_BF16};
    assert_true(prefill_moves_tensors(&p) && !prefill_transposes_v(&p));
    p.shape.dtype = TIR_FP8;
    assert_true(!prefill_moves_tensors(&p) && !prefill_transposes_v(&p));
}

/* The tile with halves of K and V is for variants that it has steps for, and for targets whose LDS
 * has several segments. */
TEST_IN("halves", pairs_of_simds_read_halves_at_once)
{
    static const struct {
        const char *target;
        int dim;
        struct setting more;
        unsigned halves;
    } cases[] = {
        {"gfx1250", 128, {ATT_MASK, ATT_MASK_NONE}, 1},
        {"gfx1250", 128, {ATT_MASK, ATT_MASK_CAUSAL}, 1},
        {"gfx1250", 128, {ATT_LSE, 1}, 1},
        {"gfx1250", 128, {ATT_DTYPE, ATT_DTYPE_FP16}, 1},
        {"gfx1250", 128, {ATT_MASK, ATT_MASK_WINDOW}, 0},
        {"gfx1250", 128, {ATT_SOFT_CAP, 1}, 0},
        {"gfx1250", 64, {ATT_MASK, ATT_MASK_CAUSAL}, 0},
        {"gfx950", 128, {ATT_MASK, ATT_MASK_CAUSAL}, 0},
    };
    enum { PERSISTENT = 1, HALVES = 14, ONE_MEMORY = 1 << 18 };
    assert_string_equal(att_template_prefill.own[HALVES], "halves");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct att_variant v = variant(cases[i].target, (int[]){cases[i].dim, cases[i].dim});
        att_set(&v, cases[i].more.field, cases[i].more.value);
        struct att_tile tile;
        assert_true(att_find_tile(&v, &tgt_find(v.target)->machine, &tile, NULL));
        if (tile.own[HALVES] != cases[i].halves)
            fail_msg("case %zu: halves is %u", i, tile.own[HALVES]);
        if (!cases[i].halves)
            continue;
        assert_int_equal(tile.own[PERSISTENT], 2);
        struct attnc_kernel k = compile_attention(&v);
        check_registers(&k);
        attnc_kernel_free(&k);
        struct tir_machine whole = tgt_find(v.target)->machine;
        whole.lds_segment_bytes = ONE_MEMORY;
        assert_true(att_find_tile(&v, &whole, &tile, NULL));
        assert_int_equal(tile.own[HALVES], 0);
    }
}

int main(int argc, char **argv) { return run_test_group(argc, argv); }
