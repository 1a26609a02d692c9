/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels of the sparse indexer compile for every target without spilling, and refuse what
 * LDS does not hold. What they compute is `attnc verify`'s business.
 */
#include "compiler/pipeline.h"
#include "templates/template.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

extern const struct att_template att_template_topk, att_template_indexer_topk,
    att_template_indexer_logits, att_template_indexer_rope_cache;

static void compile(const struct att_variant *v)
{
    static const struct attnc_compile_options options = {.stage = ATTNC_STAGE_LINKED};
    const struct tgt_blob no_hooks = {0};
    struct attnc_kernel k;
    char why[ATTNC_WHY] = "";
    if (!attnc_compile(v, &no_hooks, &options, stderr, &k, why))
        fail_msg("%s", why);
    const struct tgt_kernel_facts *f = &k.facts;
    if (f->vgpr_spills || f->sgpr_spills || f->scratch_bytes)
        fail_msg("%s spills: %u VGPR, %u SGPR, %u bytes of scratch", k.name, f->vgpr_spills,
                 f->sgpr_spills, f->scratch_bytes);
    attnc_kernel_free(&k);
}

static void selections_fit_their_registers(void **state)
{
    (void)state;
    static const int sizes[] = {1, 512, 1024, 2048};
    for (int t = 0; tgt_all[t]; t++)
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            struct att_variant v;
            att_variant_init(&v, &att_template_topk, tgt_all[t]->machine.name);
            att_set(&v, ATT_TOP_K, sizes[i]);
            compile(&v);
        }
}

static void scores_fit_their_registers(void **state)
{
    (void)state;
    static const int heads[] = {8, 64, 128};
    for (int t = 0; tgt_all[t]; t++)
        for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++)
            for (int kind = 0; kind < 4; kind++) {
                struct att_variant v;
                att_variant_init(
                    &v, kind & 1 ? &att_template_indexer_topk : &att_template_indexer_logits,
                    tgt_all[t]->machine.name);
                att_set(&v, ATT_INDEX_HEADS, heads[i]);
                att_set(&v, ATT_PAGED, kind >> 1);
                compile(&v);
            }
}

static void levels_fit_their_registers(void **state)
{
    (void)state;
    for (int t = 0; tgt_all[t]; t++)
        for (int listed = 0; listed < 2; listed++) {
            struct att_variant v;
            att_variant_init(&v, &att_template_indexer_topk, tgt_all[t]->machine.name);
            att_set(&v, ATT_TOP_K, 512);
            att_set(&v, ATT_PAGED, 1);
            att_set(&v, ATT_LISTED, listed);
            att_set(&v, ATT_TOP_BLOCKS, listed ? 0 : 2048);
            compile(&v);
        }
}

static void heads_fit_their_registers(void **state)
{
    (void)state;
    for (int t = 0; tgt_all[t]; t++)
        for (int kind = 0; kind < 4; kind++) {
            struct att_variant v;
            att_variant_init(&v, &att_template_indexer_rope_cache, tgt_all[t]->machine.name);
            att_set(&v, ATT_ROPE, kind & 1 ? ATT_ROPE_GPTJ : ATT_ROPE_NEOX);
            att_set(&v, ATT_LAYER_NORM, 1);
            att_set(&v, ATT_KV_LAYOUT, kind >> 1);
            compile(&v);
        }
}

static void a_selection_beyond_lds_is_refused(void **state)
{
    (void)state;
    struct att_variant v;
    struct att_why why = {0};
    att_variant_init(&v, &att_template_topk, "gfx942");
    att_set(&v, ATT_TOP_K, 4096);
    assert_false(att_template_topk.check(&v, &tgt_find("gfx942")->machine, &why));
    assert_string_equal(why.text, "top_k 4096 takes 69824 bytes of LDS, gfx942 has 65536");
    assert_true(att_template_topk.check(&v, &tgt_find("gfx950")->machine, &why));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(selections_fit_their_registers),
        cmocka_unit_test(scores_fit_their_registers),
        cmocka_unit_test(levels_fit_their_registers),
        cmocka_unit_test(heads_fit_their_registers),
        cmocka_unit_test(a_selection_beyond_lds_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
