/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests tables of fitted knobs. Tables that are read and written stay the same, and errors name
 * their line. The tables that a build of attnc compiles in are the ones that it reads.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compiler/fitted.h"
#include "targets/tgt.h"
#include "tests/unit_test.h"

extern const struct att_template att_template_prefill;

static const char *source_root;

#define HEAD "defaults: 1\ntarget: gfx950\nknobs:\n"
#define ROW(words, more) "  - { kernels: prefill " words ", knob: hoist_vgprs, value: 6" more " }\n"

/* Reads a table from a file of this text. */
static bool read_text(const char *text, struct attnc_fitted *f, struct attnc_diag *d)
{
    char path[] = "/tmp/fittedXXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    const bool good = attnc_fitted_read(path, f, d);
    unlink(path);
    return good;
}

static char *write_text(const struct attnc_fitted *f)
{
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    attnc_fitted_write(f, out);
    fclose(out);
    return text;
}

TEST(what_is_written_is_read_again)
{
    static const char text[] = HEAD ROW("tile_head_dim=64|88 mask=none",
                                        ", gain: 0.61, range: [-0.25, 0.9]") ROW("plain=1", "");
    struct attnc_fitted f, again;
    struct attnc_diag d;
    assert_true(read_text(text, &f, &d));
    assert_string_equal(f.target, "gfx950");
    assert_int_equal(f.count, 2);
    assert_string_equal(f.rows[0].kernels, "prefill tile_head_dim=64|88 mask=none");
    assert_string_equal(f.rows[0].knob, "hoist_vgprs");
    assert_int_equal(f.rows[0].value, 6);
    assert_float_equal(f.rows[0].gain, 0.61, 1e-6);
    assert_float_equal(f.rows[0].low, -0.25, 1e-6);
    assert_float_equal(f.rows[0].high, 0.9, 1e-6);
    assert_null(f.rows[2].kernels);
    char *const first = write_text(&f);
    assert_true(read_text(first, &again, &d));
    char *const second = write_text(&again);
    assert_string_equal(first, second);
    free(first);
    free(second);
    attnc_fitted_free(&f);
    attnc_fitted_free(&again);
}

TEST(rows_come_and_go)
{
    struct attnc_fitted f;
    struct attnc_diag d;
    assert_true(read_text(HEAD ROW("plain=0", "") ROW("plain=1", ""), &f, &d));
    assert_true(attnc_fitted_add(&f, 1, &(struct tir_fitted){"prefill", "loop_at", 3, 0, 0, 0}));
    assert_int_equal(f.count, 3);
    assert_string_equal(f.rows[0].kernels, "prefill plain=0");
    assert_string_equal(f.rows[1].knob, "loop_at");
    assert_string_equal(f.rows[2].kernels, "prefill plain=1");
    attnc_fitted_remove(&f, 0);
    assert_int_equal(f.count, 2);
    assert_string_equal(f.rows[0].knob, "loop_at");
    assert_string_equal(f.rows[1].kernels, "prefill plain=1");
    assert_null(f.rows[2].kernels);
    attnc_fitted_free(&f);
}

TEST(errors_have_their_place)
{
    static const struct {
        const char *text, *says;
        unsigned line;
    } cases[] = {
        {"defaults: 2\ntarget: gfx950\nknobs: []\n", "expected 'defaults: 1'", 1},
        {"defaults: 1\nknobs: []\n", "expected the target", 1},
        {"defaults: 1\ntarget: gfx1\nknobs: []\n", "expected the target", 1},
        {"defaults: 1\ntarget: gfx950\n", "expected a list of knobs", 1},
        {HEAD "  - { kernels: prefill, knob: loop_at }\n", "a row has kernels", 4},
        {HEAD ROW("", "") "  - { kernels: prefill, knob: loop_at, value: x }\n", "whole number", 5},
        {HEAD "  - { kernels: prefill, knob: loop_at, value: 256 }\n", "0 to 255", 4},
        {HEAD "  - { kernels: prefill, knob: loop_at, value: -1 }\n", "0 to 255", 4},
        {HEAD "  - { kernels: prefill, knob: keys, value: 32 }\n", "no fitted knob 'keys'", 4},
        {HEAD ROW("pages=1", ""), "no 'pages'", 4},
        {HEAD ROW("", ", gain: much"), "expected a number", 4},
        {HEAD ROW("", ", gain: 1, range: [0]"), "[LEAST, MOST]", 4},
        {HEAD ROW("", ", why: because"), "unknown key 'why'", 4},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct attnc_fitted f;
        struct attnc_diag d;
        assert_false(read_text(cases[i].text, &f, &d));
        assert_int_equal(d.errors, 1);
        if (!strstr(d.messages[0].text, cases[i].says) || d.messages[0].at.line != cases[i].line)
            fail_msg("%zu: line %u: %s", i, d.messages[0].at.line, d.messages[0].text);
        attnc_diag_clear(&d);
        attnc_fitted_free(&f);
    }
}

TEST(a_table_is_for_its_target)
{
    struct attnc_fitted f;
    struct attnc_diag d;
    struct att_variant variants[2];
    assert_true(read_text(HEAD ROW("", ""), &f, &d));
    att_variant_init(&variants[0], &att_template_prefill, "gfx942");
    att_variant_init(&variants[1], &att_template_prefill, "gfx950");
    attnc_fitted_apply(&f, &(struct attnc_description){.variants = variants, .count = 2});
    assert_null(variants[0].fitted);
    assert_ptr_equal(variants[1].fitted, f.rows);
    attnc_fitted_free(&f);
}

TEST(targets_have_the_tables_of_the_tree)
{
    for (int t = 0; tgt_all[t]; t++) {
        struct attnc_fitted f;
        struct attnc_diag d;
        char path[4096];
        snprintf(path, sizeof(path), "%s/targets/tuning/%s.yaml", source_root,
                 tgt_all[t]->machine.name);
        assert_true(attnc_fitted_read(path, &f, &d));
        assert_string_equal(f.target, tgt_all[t]->machine.name);
        const struct tir_fitted *row = tgt_all[t]->machine.fitted;
        for (size_t i = 0; i < f.count; i++, row++) {
            assert_string_equal(row->kernels, f.rows[i].kernels);
            assert_string_equal(row->knob, f.rows[i].knob);
            assert_int_equal(row->value, f.rows[i].value);
            assert_float_equal(row->gain, f.rows[i].gain, 1e-6);
            assert_float_equal(row->low, f.rows[i].low, 1e-6);
            assert_float_equal(row->high, f.rows[i].high, 1e-6);
        }
        assert_null(row->kernels);
        attnc_fitted_free(&f);
    }
}

int main(int argc, char **argv)
{
    source_root = argc > 1 ? argv[1] : ".";
    return run_unit_tests();
}
