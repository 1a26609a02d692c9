/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the knobs of a tile. They come from the family's rules, then from the first fitted row all
 * of whose words the key has.
 */
#include <string.h>

#include "tests/templates/kernel.h"

extern const struct att_template att_template_decode, att_template_prefill,
    att_template_rope_decode;

static const struct tir_fitted no_rows[] = {{0}};

static struct att_variant prefill_of(const char *target, int dim)
{
    const struct setting settings[] = {{ATT_HEAD_DIM, dim}, {0}};
    return variant_of(&att_template_prefill, target, settings);
}

static int knob_of(const struct att_variant *v, const char *name)
{
    struct att_tile tile;
    int value = -1;
    assert_true(att_find_tile(v, &tgt_find(v->target)->machine, &tile, NULL));
    assert_true(att_get_knob(v->op, &tile, name, &value));
    return value;
}

TEST(rules_decide_without_rows)
{
    struct att_variant v = prefill_of("gfx950", 64);
    v.fitted = no_rows;
    assert_int_equal(knob_of(&v, "memory_priority"), 1);
    assert_int_equal(knob_of(&v, "hoist_vgprs"), 4);
    v = prefill_of("gfx942", 64);
    v.fitted = no_rows;
    assert_int_equal(knob_of(&v, "memory_priority"), 0);
    assert_int_equal(knob_of(&v, "hoist_vgprs"), 8);
    v = prefill_of("gfx942", 256);
    v.fitted = no_rows;
    assert_int_equal(knob_of(&v, "hoist_vgprs"), 16);
}

static struct att_variant decode_of(const struct att_template *op, const char *target, int layout)
{
    const struct setting settings[] = {
        {ATT_HEAD_DIM, 128}, {ATT_GQA, 8}, {ATT_PAGE_SIZE, 16}, {ATT_KV_LAYOUT, layout}, {0}};
    return variant_of(op, target, settings);
}

/* The tuning files choose tiles of 32 keys for targets where these are faster than 64 keys. */
TEST(decode_has_the_keys_of_its_target)
{
    const struct att_template *const decode = &att_template_decode;
    struct att_variant v = decode_of(decode, "gfx942", ATT_KV_LAYOUT_NHD);
    assert_int_equal(knob_of(&v, "keys"), 32);
    v = decode_of(decode, "gfx950", ATT_KV_LAYOUT_NHD);
    assert_int_equal(knob_of(&v, "keys"), 64);
    v = decode_of(decode, "gfx950", ATT_KV_LAYOUT_SHUFFLE);
    assert_int_equal(knob_of(&v, "keys"), 32);
    const struct setting step[] = {{ATT_HEAD_DIM, 128}, {ATT_GQA, 8}, {ATT_PAGE_SIZE, 16}, {0}};
    v = variant_of(&att_template_rope_decode, "gfx942", step);
    assert_int_equal(knob_of(&v, "keys"), 32);
}

TEST(the_first_row_decides)
{
    static const struct tir_fitted rows[] = {
        {"decode tile_head_dim=64", "hoist_vgprs", 2, 0, 0, 0},
        {"prefill tile_head_dim=88", "hoist_vgprs", 3, 0, 0, 0},
        {"prefill tile_head_dim=64 mask=none", "hoist_vgprs", 5, 0, 0, 0},
        {"prefill tile_head_dim=64", "hoist_vgprs", 6, 0, 0, 0},
        {"prefill tile_head_dim=64", "hoist_vgprs", 7, 0, 0, 0},
        {"prefill", "late_eighths", 2, 0, 0, 0},
        {0},
    };
    struct att_variant v = prefill_of("gfx950", 64);
    v.fitted = rows;
    assert_int_equal(knob_of(&v, "hoist_vgprs"), 6);
    assert_int_equal(knob_of(&v, "late_eighths"), 2);
    v.mask = ATT_MASK_NONE;
    assert_int_equal(knob_of(&v, "hoist_vgprs"), 5);
}

TEST(words_are_of_tile_and_key)
{
    const struct att_variant v = prefill_of("gfx950", 72);
    struct att_tile tile;
    assert_true(att_find_tile(&v, &tgt_find(v.target)->machine, &tile, NULL));
    static const struct {
        const char *kernels;
        bool has;
    } cases[] = {
        {"prefill", true},
        {"prefill head_dim=72", true},
        {"prefill head_dim=7", false},
        {"prefill head_dim=64|72", true},
        {"prefill head_dim=72|80", true},
        {"prefill head_dim=64|80", false},
        {"prefill tile_head_dim=120 tile_head_dim_v=128 plain=1 exact=0", true},
        {"prefill tile_head_dim=72", false},
        {"prefill plain=0", false},
        {"prefill exact=1", false},
        {"prefill key_groups=0 copy_bytes=16", true},
        {"prefill mask=causal sinks=false dtype=bf16", true},
        {"prefill mask=none|window", false},
        {"prefill gqa=8", false},
        {"prefill nonsense=1", false},
        {"prefill nonsense", false},
        {"decode", false},
        {"prefil", false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (att_is_fitted_by(&v, &tile, cases[i].kernels) != cases[i].has)
            fail_msg("%s: expected %d", cases[i].kernels, cases[i].has);
}

TEST(a_candidate_keeps_its_row_s_knobs)
{
    static const struct tir_fitted rows[] = {{"prefill", "late_eighths", 2, 0, 0, 0}, {0}};
    struct att_variant v = prefill_of("gfx950", 64);
    const struct tir_machine *const m = &tgt_find(v.target)->machine;
    char text[ATT_TILE_TEXT_MAX];
    v.fitted = rows;
    v.tile = 1;
    struct att_tile tile;
    assert_true(att_find_tile(&v, m, &tile, NULL));
    att_tile_text(v.op, &tile, text);
    assert_non_null(strstr(text, "hoist_vgprs=4"));
    assert_non_null(strstr(text, "late_eighths=2"));
    assert_int_equal(att_find_candidate(&v, m, 0, text), 1);
    *strstr(text, "hoist_vgprs=4 ") = '\0';
    strcat(text, "hoist_vgprs=12 memory_priority=1 late_power=1 late_eighths=2");
    v.tile = (int)att_find_candidate(&v, m, 0, text);
    assert_true(v.tile > 1);
    assert_int_equal(knob_of(&v, "hoist_vgprs"), 12);
    assert_int_equal(knob_of(&v, "late_eighths"), 2);
}

TEST(words_that_nobody_has_are_refused)
{
    static const struct {
        struct tir_fitted row;
        const char *text;
    } cases[] = {
        {{"prefill tile_head_dim=64 mask=none plain=1", "hoist_vgprs", 1, 0, 0, 0}, NULL},
        {{"prefil", "hoist_vgprs", 1, 0, 0, 0}, "'prefil' names no op"},
        {{"topk", "waves", 1, 0, 0, 0}, "'topk' names no op"},
        {{"prefill", "hoist", 1, 0, 0, 0}, "no fitted knob 'hoist'"},
        {{"prefill", "rows", 16, 0, 0, 0}, "no fitted knob 'rows'"},
        {{"prefill gqb=1", "hoist_vgprs", 1, 0, 0, 0}, "no 'gqb'"},
        {{"prefill q_len=1", "hoist_vgprs", 1, 0, 0, 0}, "no 'q_len'"},
        {{"prefill workgroups=1", "hoist_vgprs", 1, 0, 0, 0}, NULL},
        {{"prefill mask=none alone=1", "hoist_vgprs", 1, 0, 0, 0},
         "prefill's knob 'alone' is named 'workgroups' now"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct att_why why = {.text = ""};
        assert_true(att_check_fitted(&cases[i].row, &why) == !cases[i].text);
        if (cases[i].text && !strstr(why.text, cases[i].text))
            fail_msg("%s: %s", cases[i].row.kernels, why.text);
    }
}

/* Every row names a family and knobs of it. A wrong name would have no effect, and nobody would
 * notice. */
TEST(rows_of_targets_name_knobs)
{
    struct att_why why = {.text = ""};
    for (int t = 0; tgt_all[t]; t++)
        for (const struct tir_fitted *row = tgt_all[t]->machine.fitted; row->kernels; row++)
            if (!att_check_fitted(row, &why))
                fail_msg("%s: %s: %s", tgt_all[t]->machine.name, row->kernels, why.text);
}

int main(void) { return run_unit_tests(); }
