/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests tuning files: errors have their place, written files can be read again, and the file's
 * kernels replace the kernel of a description.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/boxes.h"
#include "compiler/pack_writer.h"
#include "compiler/package.h"
#include "compiler/second.h"
#include "compiler/tuning.h"
#include "compiler/tuning_key.h"
#include "targets/tgt.h"
#include "tests/unit_test.h"

#define KEY "gfx950 decode head_dim=64 gqa=1 page_size=16"
/* KEY in the form of version 1 of tuning files, which name all fields. */
#define LONG_KEY                                                                                  \
    "gfx950 decode dtype=bf16 q_dtype=same q_scale=tensor head_dim=64 head_dim_v=64 gqa=1 "       \
    "q_len=1 "                                                                                    \
    "mask=causal sinks=false soft_cap=false lse=false one_launch=false logits=none page_size=16 " \
    "page_table=blocks "                                                                          \
    "kv_dtype=same kv_layout=nhd kv_scale=none tile=auto"
#define FIRST "rows=16 keys=64 keys_by_row=32 waves=4 waves_per_simd=2"
#define SECOND "rows=32 keys=64 keys_by_row=32 waves=4 waves_per_simd=2"
#define HEAD "tuning: 2\nkernels:\n"
#define ROW(tile) "  - key: " KEY "\n    tile: " tile "\n"

#define OTHER_KEY "gfx950 decode head_dim=64 gqa=1 page_size=32"
#define SPLIT_ROW(key, call, lists) "  - key: " key "\n    call: " call "\n    lists: " lists "\n"
/* A key whose plans may have units of fewer than 64 keys. */
#define UNITS_KEY "gfx950 mla_decode head_dim=512 head_dim_v=512 gqa=16 page_size=32 sparse=slots"
#define AUTO(key) "  - key: " key "\n    tile: auto\n"
#define SPLIT(call, lists) "splits:\n" SPLIT_ROW(KEY, call, lists)

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

TEST(errors_say_what_is_wrong)
{
    expect_error("", "empty");
    expect_error("tuning: 3\nkernels: []\n", "tuning: 2', or 1");
    expect_error("tuning: 0\nkernels: []\n", "tuning: 2");
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
    expect_error(HEAD ROW(FIRST) SPLIT("batch=4,k=9", "64") "    unit_keys: 48\n",
                 "unit_keys is 16, 32 or 64");
    static const char *const keys[] = {KEY, "gfx950 prefill head_dim=64 page_size=16 planned=true",
                                       UNITS_KEY " kv_dtype=fp8"};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        char text[1024];
        snprintf(text, sizeof(text),
                 HEAD AUTO("%s") "splits:\n" SPLIT_ROW("%s", "batch=4,k=9", "64") //
                 "    unit_keys: 16\n",
                 keys[i], keys[i]);
        expect_error(text, "unit_keys is for mla_decode with sparse slots");
    }
    expect_error(HEAD "  - key: gfx950 plan tile=auto\n    tile: x\n" SPLIT("batch=4,k=9", "64"),
                 "a split whose key no kernel has");
}

TEST(a_written_file_reads_back_equal)
{
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

TEST(splits_are_read_again)
{
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
    assert_false(strstr(text, "merge_rate") || strstr(text, "unit_keys")); /* 0: left out */
    free(text);
    assert_int_equal(r.t.split_count, 1);
    assert_string_equal(r.t.splits[0].key, KEY);
    assert_string_equal(r.t.splits[0].call, "batch=4,k=96");
    assert_int_equal(r.t.splits[0].lists, 512);
    assert_int_equal(r.t.splits[0].item_cost, 8);
    assert_int_equal(r.t.splits[0].merge_rate, 0);
    assert_true(r.t.splits[0].one_launch);
    end(&r);
    r = read_text(HEAD AUTO(UNITS_KEY) "splits:\n" SPLIT_ROW(UNITS_KEY, "batch=4,k=96", "9") //
                  "    unit_keys: 32\n",
                  true);
    assert_int_equal(r.t.splits[0].unit_keys, 32);
    end(&r);
}

/* The kernel for all other calls gets the splits, and the kernels that these need are built too. */
TEST(splits_bring_their_kernels)
{
    struct reading r = read_text(
        HEAD ROW(FIRST) ROW(SECOND) "    calls: [{ batch: [3, 9] }]\n" SPLIT(
            "batch=4,k=96,heads=8,kv_heads=2", "512") "    one_launch: true\n  - key: " KEY
                                                      "\n    call: q=1,batch=1,k=90\n    lists: "
                                                      "64\n    merge_rate: 16\n",
        true);
    struct attnc_description desc = describe();
    assert_true(attnc_tuning_apply(&r.t, &desc, &r.d));
    assert_int_equal(desc.count, 5);
    const struct att_choice *c = desc.variants[0].choice;
    assert_int_equal(c->split_count, 2);
    const struct att_split first = {4, 96, 8, 2, 512, 0, 0, 0, true},
                           second = {1, 90, 0, 0, 64, 0, 16, 0, false};
    assert_memory_equal(&c->splits[0], &first, sizeof(first));
    assert_memory_equal(&c->splits[1], &second, sizeof(second));
    assert_int_equal(desc.variants[1].choice->split_count, 0);
    assert_true(desc.variants[3].one_launch);
    assert_int_equal(desc.variants[3].page_size, 16);
    assert_string_equal(desc.variants[4].op->name, "combine");
    assert_int_equal(desc.variants[4].partials, ATT_PARTIALS_CSR);
    assert_true(attnc_tuning_apply(&r.t, &desc, &r.d)); /* the second time adds no kernel */
    assert_int_equal(desc.count, 5);
    attnc_description_free(&desc);
    end(&r);
}

TEST(a_key_gets_its_kernels)
{
    struct reading r =
        read_text(HEAD ROW(FIRST) ROW(SECOND) "    calls: [{ batch: [3, 9] }]\n", true);
    struct attnc_description desc = describe();
    char name[ATT_NAME_MAX];
    assert_true(attnc_tuning_apply(&r.t, &desc, &r.d));
    assert_int_equal(desc.count, 3);
    assert_int_equal(desc.variants[0].choice->count, 0);
    assert_int_equal(desc.variants[1].choice->boxes[0].rows[0].max, 9);
    assert_string_equal(desc.variants[1].choice->boxes[0].rows[0].arg, "batch");
    assert_null(desc.variants[2].choice); /* the file has no row for it */
    att_variant_name(&desc.variants[1], name);
    assert_string_equal(name, "decode_bf16_d64_g1_p16_tile2_gfx950");
    attnc_description_free(&desc);
    end(&r);
}

TEST(a_key_names_fields)
{
    char text[ATT_TEXT_MAX], why[ATTNC_KEY_WHY];
    static const char *const same[] = {LONG_KEY, KEY,
                                       "gfx950 decode page_size=16 gqa=1 head_dim=64",
                                       KEY " kv_dtype=bf16 head_dim_v=64"};
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
        assert_true(attnc_key_normalise(same[i], text, why));
        assert_string_equal(text, KEY);
    }
    assert_true(attnc_key_normalise(KEY " logits=alibi lse=true page_table=indices", text, why));
    assert_string_equal(text, "gfx950 decode head_dim=64 gqa=1 lse=true logits=alibi page_size=16 "
                              "page_table=indices");
    static const char *const wrong[][2] = {
        {"gfx950 nothing", "no op 'nothing'"},
        {"gfx950", "no op ''"},
        {"", "no target ''"},
        {"gfx9 decode head_dim=64", "no target 'gfx9'"},
        {"gfx950 decode gqa=1", "decode needs head_dim"},
        {KEY " paged=true", "decode has no field 'paged'"},
        {KEY " gqa=1", "gqa is given twice"},
        {KEY " lse", "'lse' is not FIELD=VALUE"},
        {KEY " lse=maybe", "lse has no value 'maybe'"},
        {KEY " mask=some", "mask has no value 'some'"},
        {KEY " q_len=65", "q_len has no value '65'"},
        {KEY " q_len=2x", "q_len has no value '2x'"},
        {KEY " tile=3", "no tile but auto"},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_false(attnc_key_normalise(wrong[i][0], text, why));
        if (!strstr(why, wrong[i][1]))
            fail_msg("%s: expected '%s', saw '%s'", wrong[i][0], wrong[i][1], why);
    }
}

/* Each kernel gets the splits of its own key. */
TEST(splits_stay_with_their_key)
{
    struct reading r = read_text(
        HEAD ROW(FIRST) "  - key: " OTHER_KEY "\n    tile: " FIRST "\n" SPLIT("batch=4,k=96", "512")
            SPLIT_ROW(OTHER_KEY, "batch=5,k=97", "64") SPLIT_ROW(OTHER_KEY, "batch=6,k=98", "32"),
        true);
    struct attnc_description desc = describe();
    assert_true(attnc_tuning_apply(&r.t, &desc, &r.d));
    const struct att_choice *const first = desc.variants[0].choice, *const other =
                                                                        desc.variants[1].choice;
    assert_int_equal(first->split_count, 1);
    assert_int_equal(first->splits[0].batch, 4);
    assert_int_equal(other->split_count, 2);
    assert_int_equal(other->splits[0].batch, 5);
    assert_int_equal(other->splits[1].batch, 6);
    attnc_description_free(&desc);
    end(&r);
}

/* A pack has each number of a split, in the format of pack_format.h. */
TEST(splits_reach_the_pack)
{
    struct reading r = read_text(HEAD AUTO(UNITS_KEY) "splits:\n" //
                                 SPLIT_ROW(UNITS_KEY, "batch=4,k=96,heads=8,kv_heads=2",
                                           "512") "    one_launch: true\n    item_cost: 7\n    "
                                                  "merge_rate: 16\n    unit_keys: 32\n",
                                 true);
    struct attnc_description desc =
        describe_text("targets: [gfx950]\n"
                      "kernels: [{ op: mla_decode, head_dim: 512, head_dim_v: 512, gqa: 16, "
                      "page_size: 32, sparse: slots }]\n");
    assert_true(attnc_tuning_apply(&r.t, &desc, &r.d));
    struct attnc_build_result built = {.count = desc.count};
    built.kernels = calloc(desc.count, sizeof(*built.kernels));
    uint8_t code[] = {1};
    for (size_t i = 0; i < desc.count; i++) {
        struct attnc_kernel *const k = &built.kernels[i];
        snprintf(k->name, sizeof(k->name), "kernel_%zu", i);
        k->facts.workgroup_size = 64;
        k->code = (struct tgt_blob){.data = code, .size = sizeof(code)};
    }
    struct attnc_pack_writer *const w = attnc_pack_writer_create();
    void *bytes;
    size_t size;
    if (!attnc_package(w, &desc, &built) || !attnc_pack_writer_finish(w, &bytes, &size))
        fail_msg("%s", attnc_pack_writer_error(w));
    const struct attn_pack_split split = {.batch = 4,
                                          .keys = 96,
                                          .heads = 8,
                                          .kv_heads = 2,
                                          .lists = 512,
                                          .item_cost = 7,
                                          .merge_rate = 16,
                                          .one_launch = 1,
                                          .unit_keys = 32};
    assert_non_null(memmem(bytes, size, &split, sizeof(split)));
    free(bytes);
    attnc_pack_writer_destroy(w);
    free(built.kernels);
    attnc_description_free(&desc);
    end(&r);
}

/* A later field changes no key of version 1; files are written in version 2. */
TEST(an_old_file_is_read)
{
    struct reading r =
        read_text("tuning: 1\nkernels:\n  - key: " LONG_KEY "\n    tile: " SECOND
                  "\nsplits:\n  - key: " LONG_KEY "\n    call: batch=4,k=96\n    lists: 512\n",
                  true);
    struct attnc_description desc = describe();
    assert_true(attnc_tuning_apply(&r.t, &desc, &r.d));
    assert_true(attnc_tuning_check_matched(&r.t, NULL, &r.d));
    assert_int_equal(desc.variants[0].tile, 2);
    assert_int_equal(desc.variants[0].choice->split_count, 1);
    attnc_description_free(&desc);
    end(&r);
}

/* Keys that no description has are errors, unless their target was not built. */
TEST(a_stale_key_is_refused)
{
    static const char *const targets[] = {"gfx950", NULL};
    struct reading r =
        read_text(HEAD "  - key: gfx950 nothing\n    tile: rows=16\n"
                       "  - key: gfx950 decode head_dim=80\n    tile: rows=16\n"
                       "  - key: gfx942 decode head_dim=80\n    tile: rows=16\n" ROW(FIRST),
                  true);
    struct attnc_description desc = describe();
    assert_true(attnc_tuning_apply(&r.t, &desc, &r.d));
    assert_int_equal(r.d.errors, 0);
    assert_false(attnc_tuning_check_matched(&r.t, targets, &r.d));
    assert_int_equal(r.d.errors, 2);
    assert_non_null(strstr(r.d.messages[0].text, "there is no op 'nothing'; --allow-stale"));
    assert_int_equal(r.d.messages[0].at.line, 3);
    assert_non_null(strstr(r.d.messages[1].text, "no description does"));
    assert_false(attnc_tuning_check_matched(&r.t, NULL, &r.d));
    assert_int_equal(r.d.errors, 3);
    attnc_description_free(&desc);
    end(&r);
}

/* True if a call is within the ranges of values of one of the kernel's boxes. */
static bool takes(const struct att_variant *v, int64_t tiles, int64_t keys, int64_t batch)
{
    for (unsigned b = 0; v->choice && b < v->choice->count; b++) {
        const struct att_box *const box = &v->choice->boxes[b];
        bool in = true;
        for (unsigned i = 0; i < box->count; i++) {
            const struct att_when *const w = &box->rows[i];
            const int64_t value = !strcmp(w->arg, "tiles")          ? tiles
                                  : !strcmp(w->arg, "max_seqlen_k") ? keys
                                                                    : batch;
            in = in && value >= w->min && value <= w->max;
        }
        if (in)
            return true;
    }
    return false;
}

/* A tuned kernel takes its own calls; other calls keep the kernels of a build without the file. */
TEST(tuned_calls_are_cut_out_of_a_second_kernels)
{
    static const char plain[] = "targets: [gfx942]\nkernels: [{ op: prefill, head_dim: 128 }]\n";
    static const int64_t calls[][3] = {{16, 512, 1},  {16, 512, 4},   {16, 300, 2},   {16, 193, 2},
                                       {16, 1024, 2}, {304, 1024, 2}, {305, 1024, 2}, {16, 192, 2},
                                       {16, 1025, 2}, {9999, 512, 2}};
    struct reading r =
        read_text(HEAD "  - key: gfx942 prefill head_dim=128\n"
                       "    tile: rows=32 keys=32 panel=256 waves=8 hoist_vgprs=8 whole_keys=1\n"
                       "    calls: [{ max_seqlen_k: [300, 1024], batch: [2, 3] }]\n"
                       "  - key: gfx942 prefill head_dim=128\n    tile: auto\n",
                  true);
    struct attnc_description before = describe_text(plain), after = describe_text(plain);
    const bool applied = attnc_tuning_apply(&r.t, &after, &r.d);
    if (!applied)
        fail_msg("%s", r.d.messages[0].text);
    assert_true(attnc_add_seconds(&before, &r.d) && attnc_add_seconds(&after, &r.d));
    assert_int_equal(before.count, 3);
    assert_int_equal(after.count, 4);
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        const int64_t *const c = calls[i];
        const bool tuned = c[1] >= 300 && c[1] <= 1024 && c[2] >= 2 && c[2] <= 3;
        assert_true(takes(&after.variants[0], c[0], c[1], c[2]) == tuned);
        for (int k = 1; k < 3; k++) {
            const bool second = takes(&before.variants[k], c[0], c[1], c[2]);
            assert_true(takes(&after.variants[k + 1], c[0], c[1], c[2]) == (second && !tuned));
        }
    }
    assert_int_equal(after.variants[1].tile, 0);
    assert_int_equal(after.variants[1].choice->count, 0);
    attnc_description_free(&before);
    attnc_description_free(&after);
    end(&r);
}

/* A tuned kernel and a second kernel with the same tile become one, for the calls of both. */
TEST(a_tuned_second_kernel_is_built_once)
{
    static const char plain[] = "targets: [gfx942]\nkernels: [{ op: prefill, head_dim: 128 }]\n";
    struct attnc_diag d = {.file = "test.yaml"};
    struct attnc_description before = describe_text(plain), after = describe_text(plain);
    assert_true(attnc_add_seconds(&before, &d));
    const struct att_variant *const second = &before.variants[1];
    struct att_tile tile;
    char text[ATT_TILE_TEXT_MAX], file[1024];
    assert_true(att_find_tile(second, &tgt_find("gfx942")->machine, &tile, NULL));
    att_tile_text(second->op, &tile, text);
    snprintf(file, sizeof(file),
             HEAD "  - key: gfx942 prefill head_dim=128\n    tile: %s\n"
                  "    calls: [{ batch: [7, 8] }]\n"
                  "  - key: gfx942 prefill head_dim=128\n    tile: auto\n",
             text);
    struct reading r = read_text(file, true);
    assert_true(attnc_tuning_apply(&r.t, &after, &r.d) && attnc_add_seconds(&after, &r.d));
    assert_int_equal(after.count, 3);
    const struct att_variant *const v = &after.variants[0];
    assert_int_equal(v->tile, second->tile);
    assert_true(takes(v, 9999, 1, 7) && takes(v, 16, 512, 7) && takes(v, 16, 512, 9));
    assert_false(takes(v, 9999, 1, 9));
    for (unsigned a = 0; a < v->choice->count; a++)
        for (unsigned b = 0; b < a; b++)
            assert_false(attnc_boxes_meet(&v->choice->boxes[a], &v->choice->boxes[b]));
    attnc_description_free(&before);
    attnc_description_free(&after);
    attnc_diag_clear(&d);
    end(&r);
}

/* Checks that a second kernel is for launches of few tiles or of few keys. 193 to
 * 512 keys of head_dim 128 on gfx942 are few only with more tiles than compute units. 257 to 512
 * keys of head_dim 64 on gfx950 are few only with more than twice as many tiles. */
static void expect_second(const struct att_variant *v)
{
    const struct att_box *const box = &v->choice->boxes[0], *const more = &v->choice->boxes[1];
    const bool keys = v->head_dim == 128 && !strcmp(box->rows[0].arg, "max_seqlen_k");
    const bool window = v->mask == ATT_MASK_WINDOW && v->head_dim == 64;
    const bool narrow = v->head_dim == 64 && !window && !strcmp(v->target, "gfx950");
    const bool has_more = narrow || (keys && !strcmp(v->target, "gfx942"));
    assert_int_equal(v->choice->count, has_more ? 2 : 1);
    if (keys)
        assert_int_equal(box->rows[0].max, 192);
    if (narrow)
        assert_int_equal(box->rows[0].max, 256);
    if (has_more) {
        assert_string_equal(more->rows[0].arg, "tiles");
        assert_int_equal(more->rows[0].min, narrow ? 513 : 305);
        assert_int_equal(more->rows[1].min, narrow ? 257 : 193);
        assert_int_equal(more->rows[1].max, 512);
    }
    if (window) {
        assert_int_equal(box->count, 2);
        assert_string_equal(box->rows[0].arg, "window_left");
        assert_int_equal(box->rows[0].max, 255);
    } else if (v->head_dim == 64 || keys) {
        assert_int_equal(box->count, 1);
        assert_string_equal(box->rows[0].arg, "max_seqlen_k");
    } else {
        assert_int_equal(box->count, 2);
        assert_string_equal(box->rows[0].arg, "tiles");
        assert_int_equal(box->rows[0].max, strcmp(v->target, "gfx950") ? 304 : 256);
    }
}

/* A key has a second kernel for few tiles or keys after its first, unless the tile is chosen. */
TEST(a_key_has_a_second_kernel)
{
    struct attnc_diag d = {.file = "test.yaml"};
    struct attnc_description desc = describe_text(
        "targets: [gfx942, gfx950]\n"
        "kernels:\n"
        "  - { op: prefill, head_dim: [128, 64] }\n"
        "  - { op: prefill, head_dim: 128, mask: none, tile: [5, 11], where: possible }\n"
        "  - { op: prefill, head_dim: [128, 64], mask: window }\n");
    const size_t count = desc.count;
    assert_true(attnc_add_seconds(&desc, &d));
    assert_int_equal(desc.count, count + 10);
    for (size_t i = 0; i < desc.count; i++) {
        const struct att_variant *const v = &desc.variants[i];
        if (!v->choice)
            continue;
        assert_true(i && (!v[-1].tile || v[-1].choice) && v[-1].head_dim == v->head_dim && v->tile);
        expect_second(v);
    }
    attnc_description_free(&desc);
    attnc_diag_clear(&d);
}

/* On gfx942 fp8 launches with few tiles have a kernel for few keys and one for more. */
TEST(fp8_has_a_kernel_for_few_keys_of_few_queries)
{
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

TEST(a_tile_of_the_past_is_an_error)
{
    struct reading r = read_text(HEAD ROW("rows=48 keys=7"), true);
    struct attnc_description desc = describe();
    assert_false(attnc_tuning_apply(&r.t, &desc, &r.d));
    assert_non_null(strstr(r.d.messages[0].text, "no tile 'rows=48 keys=7' that fits"));
    attnc_description_free(&desc);
    end(&r);
}

TEST(a_knob_s_former_name_is_an_error)
{
    static const struct {
        const char *op, *key, *fields, *before, *now;
    } cases[] = {
        {"prefill", "head_dim=128", "head_dim: 128", "alone", "workgroups"},
        {"mla_decode", "head_dim=576 head_dim_v=512 gqa=16 page_size=64",
         "head_dim: 576, head_dim_v: 512, gqa: 16, page_size: 64", "alone", "one_wave"},
        {"topk", "top_k=512", "top_k: 512", "turns", "steps"},
        {"ssd_prefill", "head_dim=128 head_dim_v=64 act=silu",
         "head_dim: 128, head_dim_v: 64, act: silu", "turns", "shared_lds"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[300], says[200];
        snprintf(text, sizeof(text), HEAD "  - key: gfx950 %s %s\n    tile: waves=4 %s=1\n",
                 cases[i].op, cases[i].key, cases[i].before);
        struct reading r = read_text(text, true);
        snprintf(text, sizeof(text), "targets: [gfx950]\nkernels: [{ op: %s, %s }]\n", cases[i].op,
                 cases[i].fields);
        struct attnc_description desc = describe_text(text);
        snprintf(says, sizeof(says), "%s's knob '%s' is named '%s' now; run attnc tune again",
                 cases[i].op, cases[i].before, cases[i].now);
        assert_false(attnc_tuning_apply(&r.t, &desc, &r.d));
        assert_string_equal(r.d.messages[0].text, says);
        attnc_description_free(&desc);
        end(&r);
    }
}

/* Candidates after the rows of the table are rows with changed knobs. attnc_find_candidate() finds
 * each by its text. */
TEST(knobs_make_candidates)
{
    struct attnc_description desc = describe();
    const struct att_variant *v = &desc.variants[0];
    assert_true(att_count_tiles(v->op) > 4 * v->op->n_tiles);
    assert_int_equal(attnc_find_candidate(v, FIRST), 1);
    const int changed = attnc_find_candidate(v, "rows=16 keys=32 keys_by_row=32 waves=4 "
                                                "waves_per_simd=2");
    assert_true(changed > (int)v->op->n_tiles);
    assert_int_equal(attnc_find_candidate(v, "rows=16"), 0);
    attnc_description_free(&desc);
}

int main(void) { return run_unit_tests(); }
