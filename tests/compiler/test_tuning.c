/* SPDX-License-Identifier: Apache-2.0
 *
 * Tuning files: what is wrong with one is said at its place, what is written is read again, and the
 * kernels of a key take the place of the one that a description asks for.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compiler/second.h"
#include "compiler/tuning.h"

#define KEY                                                                                       \
    "gfx950 decode dtype=bf16 q_dtype=same q_scale=tensor head_dim=64 head_dim_v=64 gqa=1 "       \
    "q_len=1 "                                                                                    \
    "mask=causal sinks=false soft_cap=false lse=false one_launch=false logits=none page_size=16 " \
    "page_table=blocks "                                                                          \
    "kv_dtype=same kv_layout=nhd kv_scale=none tile=auto"
#define FIRST "rows=16 keys=64 keys_by_row=32 waves=4 waves_per_simd=2"
#define SECOND "rows=32 keys=64 keys_by_row=32 waves=4 waves_per_simd=2"
#define HEAD "tuning: 1\nkernels:\n"
#define ROW(tile) "  - key: " KEY "\n    tile: " tile "\n"

#define SPLIT(call, lists) "splits:\n  - key: " KEY "\n    call: " call "\n    lists: " lists "\n"

static const char description[] = "targets: [gfx950]\n"
                                  "kernels:\n"
                                  "  - { op: decode, head_dim: 64, gqa: 1, page_size: 16 }\n"
                                  "  - { op: decode, head_dim: 64, gqa: 1, page_size: 32 }\n";

struct reading {
    struct attnc_tuning t;
    struct attnc_diag d;
};

static struct reading read_text(const char *text, bool good)
{
    struct reading r = {.d = {.file = "tuning.yaml"}};
    assert_true(attnc_tuning_read_bytes(text, strlen(text), &r.t, &r.d) == good);
    return r;
}

static void end(struct reading *r)
{
    attnc_diag_clear(&r->d);
    attnc_tuning_free(&r->t);
}

static void expect_error(const char *text, const char *words)
{
    struct reading r = read_text(text, false);
    assert_non_null(strstr(r.d.messages[0].text, words));
    end(&r);
}

static void errors_say_what_is_wrong(void **state)
{
    (void)state;
    expect_error("", "empty");
    expect_error("tuning: 2\nkernels: []\n", "tuning: 1");
    expect_error("tuning: 1\nkernels: 3\n", "list of kernels");
    expect_error("tuning: 1\nkernel: []\n", "unknown key 'kernel'");
    expect_error(HEAD "  - tile: x\n", "a kernel has a key");
    expect_error(HEAD ROW(FIRST) "    calls: [{ heat: [1, 2] }]\n" ROW(SECOND),
                 "'heat' is no whole");
    expect_error(HEAD ROW(FIRST) "    calls: [{ scale: [1, 2] }]\n" ROW(SECOND), "'scale' is no");
    expect_error(HEAD ROW(FIRST) "    calls: [{ batch: 1 }]\n" ROW(SECOND), "[LEAST, MOST]");
    expect_error(HEAD ROW(FIRST) "    calls: [{ batch: [2, 1] }]\n" ROW(SECOND), "ends before");
    expect_error(HEAD ROW(FIRST) "    calls: [{ batch: [1, x] }]\n" ROW(SECOND), "whole number");
    expect_error(HEAD ROW(FIRST) "    calls: []\n" ROW(SECOND), "list of");
    expect_error(HEAD ROW(FIRST) "    calls: [{ batch: [1, 2] }]\n", "without calls");
    expect_error(HEAD ROW(FIRST) ROW(SECOND), "also those of the one in line 3");
    expect_error(HEAD ROW(FIRST) "    calls: [{ batch: [1, 9] }]\n" ROW(
                     SECOND) "    calls: [{ batch: [9, 10], max_seqlen_q: [1, 2] }]\n" ROW("rest"),
                 "also those of");
    expect_error(HEAD ROW(FIRST) "splits: 3\n", "list of splits");
    expect_error(HEAD ROW(FIRST) "splits:\n  - key: k\n    lists: 256\n", "a split has a key");
    expect_error(HEAD ROW(FIRST) "splits:\n  - key: k\n    call: c\n    lists: many\n",
                 "whole number");
    expect_error(HEAD ROW(FIRST) "splits:\n  - key: k\n    list: 256\n", "unknown key 'list'");
    expect_error(HEAD ROW(FIRST) SPLIT("batch=4", "64"), "a split's call is");
    expect_error(HEAD ROW(FIRST) SPLIT("batch=4,k=9,", "64"), "a split's call is");
    expect_error(HEAD ROW(FIRST) SPLIT("batch=4,k=x", "64"), "a split's call is");
    expect_error(HEAD ROW(FIRST) SPLIT("batch=4,k=9", "-1"), "lists is 0 to");
    expect_error(HEAD ROW(FIRST) SPLIT("batch=4,k=9", "64") "    merge_rate: 257\n",
                 "merge_rate is 0 to 256");
    expect_error(HEAD "  - key: gfx950 plan tile=auto\n    tile: x\n" SPLIT("batch=4,k=9", "64"),
                 "a split whose key no kernel has");
}

static void what_is_written_is_read_again(void **state)
{
    (void)state;
    static const char text[] = HEAD ROW(FIRST) "    open: hbm_ns\n" ROW(
        SECOND) "    calls:\n      - { batch: [0, 8], workgroups: [1, 300] }\n      - { batch: [9, "
                "12] }\n";
    struct reading r = read_text(text, true);
    char *written = NULL;
    size_t size;
    FILE *f = open_memstream(&written, &size);
    attnc_tuning_write(&r.t, f);
    fclose(f);
    assert_non_null(strstr(written, text));
    assert_int_equal(r.t.rows[1].choice.boxes[0].count, 2);
    free(written);
    end(&r);
}

static struct attnc_description describe_text(const char *text)
{
    struct attnc_description desc = {0};
    struct attnc_diag d = {.file = "test.yaml"};
    assert_true(attnc_read_description_bytes(text, strlen(text), ".",
                                             &(struct attnc_read_options){0}, &desc, &d));
    attnc_diag_clear(&d);
    return desc;
}

static struct attnc_description describe(void) { return describe_text(description); }

static void splits_are_read_again(void **state)
{
    (void)state;
    struct reading r = read_text(
        HEAD ROW(FIRST) SPLIT("batch=4,k=96", "512") "    one_launch: true\n    item_cost: 8\n",
        true);
    char *text;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    attnc_tuning_write(&r.t, f);
    fclose(f);
    end(&r);
    r = read_text(text, true);
    free(text);
    assert_int_equal(r.t.split_count, 1);
    assert_string_equal(r.t.splits[0].key, KEY);
    assert_string_equal(r.t.splits[0].call, "batch=4,k=96");
    assert_int_equal(r.t.splits[0].lists, 512);
    assert_int_equal(r.t.splits[0].item_cost, 8);
    assert_int_equal(r.t.splits[0].merge_rate, 0);
    assert_true(r.t.splits[0].one_launch);
    end(&r);
}

/* The kernel for all other calls has the splits, and the kernels that these take are built, too. */
static void splits_bring_their_kernels(void **state)
{
    (void)state;
    struct reading r =
        read_text(HEAD ROW(FIRST) ROW(SECOND) "    calls: [{ batch: [3, 9] }]\n" SPLIT(
                      "batch=4,k=96,heads=8,kv_heads=2",
                      "512") "    one_launch: true\n  - key: " KEY
                             "\n    call: q=1,batch=1,k=90\n    lists: 64\n    merge_rate: 16\n",
                  true);
    struct attnc_description desc = describe();
    assert_true(attnc_tuning_apply(&r.t, &desc, &r.d));
    assert_int_equal(desc.count, 5);
    const struct att_choice *c = desc.variants[0].choice;
    assert_int_equal(c->split_count, 2);
    const struct att_split first = {4, 96, 8, 2, 512, 0, 0, true},
                           second = {1, 90, 0, 0, 64, 0, 16, false};
    assert_memory_equal(&c->splits[0], &first, sizeof(first));
    assert_memory_equal(&c->splits[1], &second, sizeof(second));
    assert_int_equal(desc.variants[1].choice->split_count, 0);
    assert_true(desc.variants[3].one_launch);
    assert_int_equal(desc.variants[3].page_size, 16);
    assert_string_equal(desc.variants[4].op->name, "combine");
    assert_int_equal(desc.variants[4].partials, ATT_PARTIALS_CSR);
    assert_true(attnc_tuning_apply(&r.t, &desc, &r.d)); /* once is enough */
    assert_int_equal(desc.count, 5);
    attnc_description_free(&desc);
    end(&r);
}

static void a_key_gets_its_kernels(void **state)
{
    (void)state;
    struct reading r =
        read_text(HEAD ROW(FIRST) ROW(SECOND) "    calls: [{ batch: [3, 9] }]\n", true);
    struct attnc_description desc = describe();
    char name[ATT_NAME_MAX];
    assert_true(attnc_tuning_apply(&r.t, &desc, &r.d));
    assert_int_equal(desc.count, 3);
    assert_int_equal(desc.variants[0].choice->count, 0);
    assert_int_equal(desc.variants[1].choice->boxes[0].rows[0].max, 9);
    assert_string_equal(desc.variants[1].choice->boxes[0].rows[0].arg, "batch");
    assert_null(desc.variants[2].choice); /* the file says nothing of it */
    att_variant_name(&desc.variants[1], name);
    assert_string_equal(name, "decode_bf16_d64_g1_p16_tile2_gfx950");
    attnc_description_free(&desc);
    end(&r);
}

/* A kernel for few tiles stands behind the first one of its key, unless the tile is chosen. */
static void a_key_has_a_second_kernel(void **state)
{
    (void)state;
    struct attnc_diag d = {.file = "test.yaml"};
    struct attnc_description desc = describe_text(
        "targets: [gfx942, gfx950]\n"
        "kernels:\n"
        "  - { op: prefill, head_dim: [128, 64] }\n"
        "  - { op: prefill, head_dim: 128, mask: none, tile: [5, 11], where: possible }\n"
        "  - { op: prefill, head_dim: 128, mask: window }\n");
    const size_t count = desc.count;
    assert_true(attnc_add_seconds(&desc, &d));
    assert_int_equal(desc.count, count + 2);
    for (size_t i = 0; i < desc.count; i++) {
        const struct att_variant *const v = &desc.variants[i];
        if (!v->choice)
            continue;
        assert_true(i && !v[-1].tile && v[-1].head_dim == 128 && v->tile);
        assert_int_equal(v->mask, ATT_MASK_CAUSAL);
        assert_int_equal(v->choice->count, 1);
        assert_int_equal(v->choice->boxes[0].count, 2);
        assert_string_equal(v->choice->boxes[0].rows[0].arg, "tiles");
        assert_int_equal(v->choice->boxes[0].rows[0].max, strcmp(v->target, "gfx950") ? 304 : 256);
    }
    attnc_description_free(&desc);
    attnc_diag_clear(&d);
}

/* On gfx942 launches of fp8 with few tiles have a kernel for few keys and one for more. */
static void fp8_has_a_kernel_for_few_keys_of_few_queries(void **state)
{
    (void)state;
    struct attnc_diag d = {.file = "test.yaml"};
    struct attnc_description desc =
        describe_text("targets: [gfx942, gfx950]\n"
                      "kernels: [{ op: prefill, head_dim: 128, q_dtype: fp8 }]\n");
    assert_true(attnc_add_seconds(&desc, &d));
    int next[2] = {193, 193}; /* key of each target */
    for (size_t i = 0; i < desc.count; i++) {
        const struct att_variant *const v = &desc.variants[i];
        if (!v->choice)
            continue;
        const struct att_when *const keys = &v->choice->boxes[0].rows[1];
        const int target = !strcmp(v->target, "gfx950");
        assert_string_equal(keys->arg, "max_seqlen_k");
        assert_int_equal(keys->min, next[target]);
        assert_int_equal(keys->max, next[target] > 193 || target ? INT32_MAX : 896);
        next[target] = keys->max == INT32_MAX ? 0 : (int)keys->max + 1;
    }
    assert_int_equal(desc.count, 2 + 3);
    assert_int_equal(next[0] + next[1], 0);
    attnc_description_free(&desc);
    attnc_diag_clear(&d);
}

static void a_tile_of_the_past_is_an_error(void **state)
{
    (void)state;
    struct reading r = read_text(HEAD ROW("rows=48 keys=7"), true);
    struct attnc_description desc = describe();
    assert_false(attnc_tuning_apply(&r.t, &desc, &r.d));
    assert_non_null(strstr(r.d.messages[0].text, "no tile 'rows=48 keys=7' that fits"));
    attnc_description_free(&desc);
    end(&r);
}

/* Beyond the rows come rows with members changed; each is found again by what it is. */
static void knobs_make_candidates(void **state)
{
    (void)state;
    struct attnc_description desc = describe();
    const struct att_variant *v = &desc.variants[0];
    assert_true(att_count_tiles(v->op) > 4 * v->op->n_tiles);
    assert_int_equal(attnc_find_candidate(v, FIRST), 1);
    const int turned = attnc_find_candidate(v, "rows=16 keys=32 keys_by_row=32 waves=4 "
                                               "waves_per_simd=2");
    assert_true(turned > (int)v->op->n_tiles);
    assert_int_equal(attnc_find_candidate(v, "rows=16"), 0);
    attnc_description_free(&desc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_say_what_is_wrong),
        cmocka_unit_test(what_is_written_is_read_again),
        cmocka_unit_test(splits_are_read_again),
        cmocka_unit_test(splits_bring_their_kernels),
        cmocka_unit_test(a_key_gets_its_kernels),
        cmocka_unit_test(a_key_has_a_second_kernel),
        cmocka_unit_test(fp8_has_a_kernel_for_few_keys_of_few_queries),
        cmocka_unit_test(a_tile_of_the_past_is_an_error),
        cmocka_unit_test(knobs_make_candidates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
