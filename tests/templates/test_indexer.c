/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the kernels of the sparse indexer. They compile for every target without spilling, and a
 * variant that exceeds LDS is refused. Results are tested by `attnc verify`.
 */
#include "targets/tgt.h"
#include "tests/templates/kernel.h"

extern const struct att_template att_template_topk, att_template_indexer_topk,
    att_template_indexer_logits, att_template_indexer_rope_cache;

TEST_IN("selections", selections_fit_their_registers)
{
    static const int sizes[] = {1, 512, 1024, 2048, 4096};
    for (int t = 0; tgt_all[t]; t++)
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            struct att_variant v;
            att_variant_init(&v, &att_template_topk, tgt_all[t]->machine.name);
            att_set(&v, ATT_TOP_K, sizes[i]);
            compile_kernel(&v, 0);
        }
}

static void check_scores(const struct att_template *op, bool paged)
{
    static const int heads[] = {8, 64, 128};
    FOR_LARGE_WAVES(t)
    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        struct att_variant v;
        att_variant_init(&v, op, tgt_all[t]->machine.name);
        att_set(&v, ATT_INDEX_HEADS, heads[i]);
        att_set(&v, ATT_PAGED, paged);
        compile_kernel(&v, 0);
    }
}

TEST_IN("logits", logits_fit_their_registers)
{
    check_scores(&att_template_indexer_logits, false);
    check_scores(&att_template_indexer_logits, true);
}

TEST_IN("scores", scores_fit_their_registers) { check_scores(&att_template_indexer_topk, false); }

TEST_IN("scores of pages", scores_of_pages_fit_their_registers)
{
    check_scores(&att_template_indexer_topk, true);
}

struct level {
    int heads, paged, small, listed, top_blocks;
};

static void check_levels(const struct level *levels, size_t n)
{
    FOR_LARGE_WAVES(t)
    for (size_t i = 0; i < n; i++) {
        struct att_variant v;
        att_variant_init(&v, &att_template_indexer_topk, tgt_all[t]->machine.name);
        att_set(&v, ATT_TOP_K, 512);
        att_set(&v, ATT_INDEX_HEADS, levels[i].heads);
        att_set(&v, ATT_PAGED, levels[i].paged);
        att_set(&v, ATT_SMALL_PAGES, levels[i].small);
        att_set(&v, ATT_LISTED, levels[i].listed);
        att_set(&v, ATT_TOP_BLOCKS, levels[i].top_blocks);
        compile_kernel(&v, 0);
    }
}

/* With top_blocks the selections of keys and of blocks are both live, beside q and its weights. */
TEST_IN("levels", levels_fit_their_registers)
{
    static const struct level levels[] = {
        {64, 1, 0, 0, 2048}, {64, 1, 0, 1, 0}, {64, 1, 1, 0, 256}};
    check_levels(levels, sizeof(levels) / sizeof(levels[0]));
}

TEST_IN("levels of 128 heads", levels_of_128_heads_fit_their_registers)
{
    static const struct level levels[] = {
        {128, 0, 0, 0, 256}, {128, 1, 1, 1, 0}, {128, 1, 1, 0, 256}};
    check_levels(levels, sizeof(levels) / sizeof(levels[0]));
}

TEST_IN("selections", heads_fit_their_registers)
{
    for (int t = 0; tgt_all[t]; t++)
        for (int kind = 0; kind < 4; kind++) {
            struct att_variant v;
            att_variant_init(&v, &att_template_indexer_rope_cache, tgt_all[t]->machine.name);
            att_set(&v, ATT_ROPE, kind & 1 ? ATT_ROPE_GPTJ : ATT_ROPE_NEOX);
            att_set(&v, ATT_LAYER_NORM, 1);
            att_set(&v, ATT_KV_LAYOUT, kind >> 1);
            compile_kernel(&v, 0);
        }
}

TEST_IN("selections", a_selection_beyond_lds_is_refused)
{
    struct att_variant v;
    struct att_why why = {.text = ""};
    att_variant_init(&v, &att_template_indexer_topk, "gfx942");
    att_set(&v, ATT_TOP_K, 4096);
    att_set(&v, ATT_TOP_BLOCKS, 4096);
    expect_refused(&v, ATT_TOP_K, "top_k 4096 takes 78944 bytes of LDS, gfx942 has 65536");
    assert_true(att_template_indexer_topk.check(&v, &tgt_find("gfx950")->machine, &why));
}

TEST_IN("selections", keys_of_mxfp4_are_for_gfx950)
{
    static const struct att_template *const templates[] = {
        &att_template_indexer_rope_cache, &att_template_indexer_topk, &att_template_indexer_logits};
    for (size_t i = 0; i < sizeof(templates) / sizeof(templates[0]); i++) {
        struct att_variant v;
        struct att_why why = {.text = ""};
        att_variant_init(&v, templates[i], "gfx942");
        att_set(&v, ATT_ROPE, ATT_ROPE_NEOX);
        att_set(&v, ATT_PAGED, 1);
        att_set(&v, ATT_INDEX_KEYS, ATT_INDEX_KEYS_MXFP4);
        expect_refused(&v, ATT_INDEX_KEYS,
                       "index_keys mxfp4 is for targets that multiply fp4, and gfx942 does not");
        assert_true(templates[i]->check(&v, &tgt_find("gfx950")->machine, &why));
    }
    struct att_variant v;
    att_variant_init(&v, &att_template_indexer_topk, "gfx950");
    att_set(&v, ATT_INDEX_KEYS, ATT_INDEX_KEYS_MXFP4);
    expect_refused(&v, ATT_INDEX_KEYS, "index_keys mxfp4 is for pages: paged is false");
}

TEST_IN("selections", keys_of_fp8_take_16_elements_a_lane)
{
    struct att_variant v;
    att_variant_init(&v, &att_template_indexer_topk, "gfx1201");
    expect_refused(&v, ATT_INDEX_KEYS,
                   "a lane of gfx1201 multiplies 8 elements of fp8, and loads chunks of 16");
}

TEST_IN("selections", keys_are_in_layouts_that_the_indexer_reads)
{
    static const int layouts[] = {ATT_KV_LAYOUT_PACKED, ATT_KV_LAYOUT_SHUFFLE_K};
    struct att_variant v;
    att_variant_init(&v, &att_template_indexer_topk, "gfx942");
    att_set(&v, ATT_SMALL_PAGES, 1);
    expect_refused(&v, ATT_SMALL_PAGES, "small_pages is set, paged is false");
    att_set(&v, ATT_SMALL_PAGES, 0);
    att_set(&v, ATT_KV_LAYOUT, ATT_KV_LAYOUT_SHUFFLE);
    expect_refused(&v, ATT_KV_LAYOUT, "kv_layout shuffle is for pages: paged is false");
    att_set(&v, ATT_PAGED, 1);
    for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
        att_set(&v, ATT_KV_LAYOUT, layouts[i]);
        expect_refused(&v, ATT_KV_LAYOUT, "the indexer's keys are nhd or shuffle");
    }
}

TEST_IN("mxfp4", scores_of_mxfp4_fit_their_registers)
{
    static const int heads[] = {8, 32, 64, 128};
    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++)
        for (int kind = 0; kind < 8; kind++) {
            struct att_variant v;
            att_variant_init(
                &v, kind & 1 ? &att_template_indexer_topk : &att_template_indexer_logits, "gfx950");
            att_set(&v, ATT_INDEX_HEADS, heads[i]);
            att_set(&v, ATT_PAGED, 1);
            att_set(&v, ATT_INDEX_KEYS, ATT_INDEX_KEYS_MXFP4);
            att_set(&v, ATT_SMALL_PAGES, kind >> 1 & 1);
            att_set(&v, ATT_KV_LAYOUT, kind >> 2);
            compile_kernel(&v, 0);
        }
}

/* Queries of 16 bits take twice the registers of queries of fp8. */
TEST_IN("16 bits", scores_of_16_bits_fit_their_registers)
{
    static const int heads[] = {4, 64, 128};
    FOR_LARGE_WAVES(t)
    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        struct att_variant v;
        att_variant_init(&v, &att_template_indexer_topk, tgt_all[t]->machine.name);
        att_set(&v, ATT_INDEX_HEADS, heads[i]);
        att_set(&v, ATT_PAGED, i != 1);
        att_set(&v, ATT_INDEX_KEYS, i == 1 ? ATT_INDEX_KEYS_FP16 : ATT_INDEX_KEYS_BF16);
        compile_kernel(&v, 0);
    }
}

int main(int argc, char **argv) { return run_test_group(argc, argv); }
