/* SPDX-License-Identifier: Apache-2.0 */
/* Tests when libattn has rows of 584 bytes converted to 16 bits, and the memory for them. */

#include "runtime/attn.h"
#include "tests/unit_test.h"

enum { ROW_BYTES = 1024, UNITS = 256 };

static struct attn_mla_decode_desc layer(enum attn_kv_layout layout, int32_t heads)
{
    return (struct attn_mla_decode_desc){
        .size = sizeof(struct attn_mla_decode_desc),
        .head_dim = 512,
        .head_dim_v = 512,
        .heads = heads,
        .q_len = 1,
        .sparse = ATTN_SPARSE_SLOTS,
        .cache = {.dtype = ATTN_FP8, .layout = layout, .page_size = 64},
    };
}

static struct attn_mla_decode_gather_shape prompt(int32_t queries, int32_t entries, int32_t rows)
{
    return (struct attn_mla_decode_gather_shape){.size =
                                                     sizeof(struct attn_mla_decode_gather_shape),
                                                 .queries = queries,
                                                 .entries = entries,
                                                 .rows = rows,
                                                 .compute_units = UNITS,
                                                 .target = "gfx950"};
}

static struct attn_mla_decode_gather choose(struct attn_mla_decode_desc d,
                                            struct attn_mla_decode_gather_shape s)
{
    struct attn_mla_decode_gather found = {-1, 1};
    assert_int_equal(attn_mla_decode_gather_plan(&d, &s, &found), ATTN_OK);
    return found;
}

TEST(prompts_convert_their_rows)
{
    for (int heads = 8; heads <= 128; heads *= 2) {
        const enum attn_kv_layout layouts[] = {ATTN_KV_SCALES_LAST, ATTN_KV_PLANES};
        for (int i = 0; i < 2; i++) {
            const struct attn_mla_decode_gather g =
                choose(layer(layouts[i], heads), prompt(2048, 1279, 10240));
            assert_int_equal(g.rows, 10240);
            assert_int_equal(g.bytes, 10240 * ROW_BYTES);
        }
    }
}

TEST(a_few_queries_over_many_rows_do_not)
{
    const struct attn_mla_decode_desc d = layer(ATTN_KV_SCALES_LAST, 128);
    assert_int_equal(choose(d, prompt(64, 1152, 1 << 20)).rows, 0);
    assert_int_equal(choose(d, prompt(64, 1152, 1 << 20)).bytes, 0);
    assert_int_equal(choose(d, prompt(2048, 1, 256)).rows, 0); /* a launch takes longer */
    assert_int_equal(choose(d, prompt(0, 1279, 10240)).rows, 0);
    struct attn_mla_decode_gather_shape many = prompt(256, 640, 10240);
    assert_int_equal(choose(d, many).rows, 10240);
    many.launches = 8;
    assert_int_equal(choose(d, many).rows, 0);
}

/* Rows of e2m1 are converted with rows of 528 bytes beside them, in two launches, and without. */
TEST(rows_of_e2m1_and_mxfp8_are_converted)
{
    const enum attn_kv_layout layouts[] = {ATTN_KV_PACKED_FP4, ATTN_KV_PACKED_MXFP4,
                                           ATTN_KV_PACKED_MXFP8};
    for (int i = 0; i < 3; i++) {
        struct attn_mla_decode_desc d = layer(layouts[i], 16);
        struct attn_mla_decode_gather_shape s = prompt(2048, 1279, 10240);
        assert_int_equal(choose(d, s).rows, 10240);
        d.two_sources = true;
        s.launches = 2;
        assert_int_equal(choose(d, s).rows, 10240);
        assert_int_equal(choose(d, prompt(16, 640, 1 << 16)).rows, 0);
    }
}

/* A call whose kernel converts each row as both forms saves more. So rows are converted for fewer
 * queries than with same_rows. */
TEST(rows_of_both_forms_are_converted_sooner)
{
    struct attn_mla_decode_desc d = layer(ATTN_KV_PACKED_FP4, 16);
    int32_t least[2] = {0, 0};
    for (int same = 0; same < 2; same++) {
        d.two_sources = true;
        d.same_rows = same;
        for (int32_t queries = 1; !least[same] && queries < 4096; queries += 16)
            least[same] = choose(d, prompt(queries, 1279, 10240)).rows ? queries : 0;
    }
    assert_true(least[0] > 0 && least[0] <= least[1]);
}

TEST(other_rows_do_not)
{
    assert_int_equal(choose(layer(ATTN_KV_NHD, 128), prompt(2048, 1279, 10240)).rows, 0);
    assert_int_equal(choose(layer(ATTN_KV_PACKED, 128), prompt(2048, 1279, 10240)).rows, 0);
}

TEST(room_is_a_limit)
{
    struct attn_mla_decode_gather_shape s = prompt(2048, 1279, 10240);
    s.bytes_most = 10240 * ROW_BYTES;
    assert_int_equal(choose(layer(ATTN_KV_SCALES_LAST, 128), s).rows, 10240);
    s.bytes_most--;
    assert_int_equal(choose(layer(ATTN_KV_SCALES_LAST, 128), s).rows, 0);
}

TEST(unknown_targets_have_the_costs_of_gfx942)
{
    const struct attn_mla_decode_desc d = layer(ATTN_KV_SCALES_LAST, 128);
    const char *const names[] = {NULL, "gfx90a", "gfx942"};
    for (int entries = 1; entries < 100; entries++) {
        int32_t rows[3];
        for (int i = 0; i < 3; i++) {
            struct attn_mla_decode_gather_shape s = prompt(512, entries, 1000);
            s.target = names[i];
            rows[i] = choose(d, s).rows;
        }
        assert_int_equal(rows[0], rows[2]);
        assert_int_equal(rows[1], rows[2]);
    }
}

TEST(the_most_queries_and_entries_save_the_most_time)
{
    struct attn_mla_decode_gather_shape s = prompt(1 << 24, 1 << 24, 1 << 24);
    s.compute_units = 1;
    assert_int_equal(choose(layer(ATTN_KV_SCALES_LAST, 128), s).rows, 1 << 24);
}

TEST(wrong_numbers_are_errors)
{
    const struct attn_mla_decode_desc d = layer(ATTN_KV_SCALES_LAST, 128);
    const struct attn_mla_decode_gather_shape good = prompt(1, 1, 1);
    struct attn_mla_decode_gather g;
    struct attn_mla_decode_gather_shape s = good;
    assert_int_equal(attn_mla_decode_gather_plan(NULL, &s, &g), ATTN_BAD_ARGUMENT);
    assert_int_equal(attn_mla_decode_gather_plan(&d, NULL, &g), ATTN_BAD_ARGUMENT);
    assert_int_equal(attn_mla_decode_gather_plan(&d, &s, NULL), ATTN_BAD_ARGUMENT);
    int32_t *const counts[] = {&s.queries, &s.entries, &s.rows, &s.launches};
    for (int i = 0; i < 4; i++) {
        s = good;
        *counts[i] = -1;
        assert_int_equal(attn_mla_decode_gather_plan(&d, &s, &g), ATTN_BAD_ARGUMENT);
        *counts[i] = (1 << 24) + 1;
        assert_int_equal(attn_mla_decode_gather_plan(&d, &s, &g), ATTN_BAD_ARGUMENT);
    }
    s = good;
    s.compute_units = 0;
    assert_int_equal(attn_mla_decode_gather_plan(&d, &s, &g), ATTN_BAD_ARGUMENT);
    const struct attn_mla_decode_desc none = layer(ATTN_KV_SCALES_LAST, 0);
    assert_int_equal(attn_mla_decode_gather_plan(&none, &good, &g), ATTN_BAD_ARGUMENT);
}

int main(void) { return run_unit_tests(); }
