/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests attnc tune from the user's side: the result does not depend on the number of jobs, nothing
 * is measured twice, and nothing is lost when it is killed.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <sqlite3.h>

#include "tests/compiler/command.h"
#include "tests/unit_test.h"

#define SWEEP "tune d.yaml --shapes shapes --tiles 3 --verify 1 --cache cache "

static void write_inputs(void)
{
    write_file("d.yaml", "targets: [gfx950]\n"
                         "kernels:\n"
                         "  - { op: decode, head_dim: 64, gqa: 8, page_size: 16 }\n");
    write_file("shapes", "# steps\n"
                         "decode batch=1,k=64,heads=8,kv_heads=1\n"
                         "decode batch=4,k=96,heads=8,kv_heads=1 # more\n");
}

/* Checks that the page has the times of all candidates. */
static void expect_page(const char *path)
{
    char *data = page_data(path);
    assert_non_null(strstr(data, "\"text\": \"batch=4,k=96,heads=8,kv_heads=1\""));
    unsigned tiles = 0;
    for (const char *at = data; (at = strstr(at, "\"dropped\": ")); at++)
        tiles++;
    assert_int_equal(tiles, 3);
    free(data);
}

/* Checks that each shape's tiles, `tiles` in total, are sorted from fastest to slowest. */
static void expect_fastest_first(const char *line, unsigned tiles)
{
    struct run r = run(line);
    unsigned seen = 0;
    double before = 0, us;
    for (char *next = (char *)r.out.data, *at; (at = strsep(&next, "\n"));) {
        const bool is_tile = sscanf(at, " %lf us", &us) == 1;
        assert_true(!is_tile || us >= before);
        before = is_tile ? us : 0;
        seen += is_tile;
    }
    assert_int_equal(seen, tiles);
    end_run(&r);
}

TEST(a_sweep_is_deterministic_and_measures_once)
{
    write_inputs();
    expect(SWEEP "-o one.attnpack -j 1", 0, "geometric mean; 0 slower\n6 measured, 0 known", "");
    expect(SWEEP "-o two.attnpack -j 2", 0, "6 measured, 0 known", "");
    expect_same("one.attnpack", "two.attnpack");
    expect_same("one.yaml", "two.yaml");
    save_csv("one.sqlite", "one.csv");
    save_csv("two.sqlite", "two.csv");
    expect_same("one.csv", "two.csv");
    expect(SWEEP "-o one.attnpack", 0, "0 measured, 6 known", "");
    expect(SWEEP "-o one.attnpack --report r.html", 0, "0 measured, 6 known", "");
    expect_page("r.html");
    expect(SWEEP "-o one.attnpack --json", 0, "\"known\": 6,", "");
    expect("build d.yaml --tuning one.yaml --cache cache -o built.attnpack -q", 0, "", "");
    expect_same("one.attnpack", "built.attnpack");
    /* A kernel that is in two descriptions is measured once. */
    write_file("e.yaml", "targets: [gfx950]\n"
                         "kernels: [{ op: decode, head_dim: 64, gqa: 8, page_size: 16 }]\n");
    expect(SWEEP "e.yaml -o one.attnpack", 0, "decode on gfx950: 2 pairs", "");
    expect_same("one.attnpack", "two.attnpack");
    expect("tune --show --db one.sqlite", 0, "  model gfx950: batch=4,k=96,heads=8,kv_heads=1\n",
           "");
    expect_fastest_first("tune --show --db one.sqlite", 6);
}

#define FIT "tune d.yaml --shapes shapes --cache cache --corners 2 --defaults "
#define TABLE "defaults: 1\ntarget: gfx950\nknobs:\n"
#define ROW(knob, value) \
    "  - { kernels: prefill tile_head_dim=64, knob: " knob ", value: " value " }\n"

/* Without the priority of memory phases, which is the rule, this kernel is 2 % slower. A row that
 * another one hides gains nothing, and a row for no kernel stays. */
TEST(fitted_knobs_are_kept_if_they_gain)
{
    write_file("d.yaml", "targets: [gfx942, gfx950]\n"
                         "kernels: [{ op: prefill, head_dim: 64, mask: none }]\n");
    write_file("shapes", "prefill batch=1,q=256,heads=1,kv_heads=1\n");
    write_file("worse.yaml", TABLE ROW("memory_priority", "0"));
    write_file("better.yaml", TABLE ROW("memory_priority", "1") ROW("memory_priority", "0"));
    write_file("unused.yaml",
               TABLE "  - { kernels: prefill tile_head_dim=88, knob: loop_at, value: 3 }\n");
    expect(FIT "worse.yaml --check", 1, "stale", "1 rows of worse.yaml do not gain");
    expect(FIT "worse.yaml --rules", 0, "1 kernels, the table changes 1; rules alone take 0.", "");
    expect(FIT "worse.yaml --revise", 0, "drop", "");
    expect_file("worse.yaml",
                "# Fitted knobs of kernels, which no rule finds. `attnc tune --defaults` writes "
                "this file: docs/tuning.md.\n"
                "# The first row that names a kernel's knob decides. Gain and range: % of the "
                "modelled time of a launch.\n"
                "defaults: 1\ntarget: gfx950\nknobs: []\n");
    expect(FIT "better.yaml --check", 1, "good", "1 rows of better.yaml");
    expect(FIT "better.yaml --revise", 0, "drop", "");
    expect(FIT "better.yaml --check", 0, "", "");
    expect(FIT "unused.yaml --revise", 0, "unknown", "");
    expect("build d.yaml --defaults unused.yaml --cache cache -o a.attnpack -q", 0, "", "");
    expect("build d.yaml --defaults worse.yaml --cache cache -o b.attnpack -q", 0, "", "");
    expect_same("a.attnpack", "b.attnpack");
    write_file("wrong.yaml", TABLE ROW("late_eights", "4"));
    expect("build d.yaml --defaults wrong.yaml -o c.attnpack -q", 1, "", "wrong.yaml:4:");
    expect(FIT "wrong.yaml", 1, "", "no fitted knob 'late_eights'");
    expect("tune --defaults worse.yaml", 1, "", "usage: attnc tune DESC...");
    expect(FIT "worse.yaml --corners 1", 1, "", "--corners");
}

/* Few long sequences are split, and the time of their combine launch counts. A second run takes
 * times from the database and decides the same. */
TEST(splits_are_found)
{
    write_inputs();
    write_file("shapes", "decode batch=1,k=4096,heads=8,kv_heads=1,lists=*\n"
                         "decode batch=512,k=16,heads=8,kv_heads=1,lists=*\n"
                         "decode batch=5,k=2000,heads=8,kv_heads=1,lists=*\n");
    const char line[] = "tune d.yaml --shapes shapes --tiles 1 --verify 1 --cache cache ";
    char text[256];
    snprintf(text, sizeof(text), "%s-o s.attnpack", line);
    /* 15 pairs: each of three calls has five numbers of lists. */
    expect(text, 0, "batch=1,k=4096,heads=8,kv_heads=1: 256 lists, added up", "");
    expect(text, 0, "batch=512,k=16,heads=8,kv_heads=1: ", "");
    expect(text, 0, "decode on gfx950: 15 pairs", "");
    size_t size;
    char *yaml = read_file("s.yaml", &size);
    assert_non_null(yaml);
    assert_non_null(strstr(yaml, "splits:\n  - key: gfx950 decode"));
    assert_non_null(strstr(yaml, "    call: batch=1,k=4096,heads=8,kv_heads=1\n    lists: 256\n"));
    const char *const call =
        strstr(yaml, "    call: batch=5,k=2000,heads=8,kv_heads=1\n    lists: ");
    assert_non_null(call);
    const char *const how = strstr(call, "\n    one_launch: true\n    merge_rate: 16\n");
    const char *const next = strstr(call, "  - key: ");
    assert_true(how && (!next || how < next));
    assert_non_null(strstr(yaml, "gfx950 combine"));
    free(yaml);
    snprintf(text, sizeof(text), "%s-o s.attnpack --json", line);
    expect(text, 0, "\"splits\": [", "");
    expect(text, 0, "\"merge_rate\": 16", "");
    expect(text, 0, "\"measured\": 0,", "");
    expect("build d.yaml --tuning s.yaml --cache cache -o built.attnpack -q", 0, "", "");
    expect_same("s.attnpack", "built.attnpack");
    /* The pack has another plan kernel, and a decode kernel that combines its partial results. */
    expect("list built.attnpack", 0, "one_launch", "");
    expect("tune --show --db s.sqlite", 0, "lists=256,merge_rate=1\n", "");
}

/* Workgroups can share a list, so half as many lists as compute units is also tried. */
TEST(shared_lists_may_be_few)
{
    write_file("latent.yaml",
               "targets: [gfx950]\n"
               "kernels: [{ op: mla_decode, head_dim: 576, head_dim_v: 512, gqa: 128, "
               "page_size: 64 }]\n");
    write_file("shapes", "mla_decode batch=1,k=8192,lists=*\n");
    expect("tune latent.yaml --shapes shapes --tiles 1 --verify 1 --cache cache -o m.attnpack", 0,
           "mla_decode on gfx950: 6 pairs", "");
}

/* Plans of lists of slots may have units of 32 keys, which are tried. Plans of pages may not. */
TEST(short_units_are_tried)
{
    static const char *const kinds[] = {"slots", "none"};
    write_file("shapes", "mla_decode batch=1,k=96,lists=*\n");
    for (int i = 0; i < 2; i++) {
        char text[256];
        snprintf(text, sizeof(text),
                 "targets: [gfx950]\n"
                 "kernels: [{ op: mla_decode, head_dim: 512, head_dim_v: 512, gqa: 16, "
                 "page_size: 64, one_launch: true, sparse: %s }]\n",
                 kinds[i]);
        write_file("units.yaml", text);
        snprintf(text, sizeof(text),
                 "tune units.yaml --shapes shapes --tiles 1 --verify 1 --cache cache -o "
                 "%s.attnpack",
                 kinds[i]);
        expect(text, 0, "mla_decode on gfx950: ", "");
        snprintf(text, sizeof(text), "tune --show --db %s.sqlite", kinds[i]);
        struct run r = run(text);
        assert_int_equal(r.status, 0);
        assert_int_equal(!strstr((char *)r.out.data, ",unit_keys=32\n"), i);
        end_run(&r);
    }
}

/* The plans of a shape with unit_keys have units of these keys, and its split has them. */
TEST(units_of_a_shape_stay)
{
    write_file("shapes", "mla_decode batch=1,k=96,unit_keys=32,lists=*\n");
    write_file("given.yaml", "targets: [gfx950]\n"
                             "kernels: [{ op: mla_decode, head_dim: 512, head_dim_v: 512, gqa: 16, "
                             "page_size: 64, one_launch: true, sparse: slots }]\n");
    expect("tune given.yaml --shapes shapes --tiles 1 --verify 1 --cache cache -o kept.attnpack", 0,
           "mla_decode on gfx950: ", "");
    size_t size;
    char *yaml = read_file("kept.yaml", &size);
    assert_non_null(yaml);
    assert_non_null(strstr(yaml, "call: batch=1,k=96,unit_keys=32"));
    const char *last = strstr(yaml, "splits:\n");
    assert_non_null(last);
    unsigned splits = 0;
    for (; (last = strstr(last, "    lists: ")); last++) {
        const bool cut = strncmp(last, "    lists: 0\n", 13) != 0;
        const char *const end = strstr(last, "  - key: "), *const unit =
                                                               strstr(last, "unit_keys: 32");
        assert_int_equal(unit && (!end || unit < end), cut);
        splits += cut;
    }
    assert_true(splits > 0);
    free(yaml);
}

TEST(slips_are_named)
{
    write_inputs();
    expect("tune d.yaml", 1, "", "-o says where the pack goes");
    expect("tune d.yaml -o t.attnpack --parameters hbmns=1", 1, "",
           "--parameters: 'hbmns=1' is no NAME=VALUE of the model");
    expect("tune d.yaml -o t.attnpack --parameters hbm_ns=400,hbm_ns=4ms", 1, "",
           "--parameters: 'hbm_ns=4ms' is no NAME=VALUE of the model");
    expect("tune d.yaml -o t.attnpack --parameters hbm_ns=400,hbm_ns=500", 1, "",
           "--parameters: hbm_ns is given twice");
    expect("tune -o x.attnpack", 1, "", "usage: attnc tune");
    expect(SWEEP "-o x.attnpack --budget soon", 1, "", "expected --budget to be 1 to");
    write_file("shapes", "decode batch=1 k=2\n");
    expect(SWEEP "-o x.attnpack", 1, "", "shapes:1: expected an op and a shape");
    write_file("shapes", "\ndecade batch=1\n");
    expect(SWEEP "-o x.attnpack", 1, "", "shapes:2: there is no op 'decade'");
    write_file("shapes", "# nothing\n");
    expect(SWEEP "-o x.attnpack", 1, "", "shapes: no shape; a line is");
    write_file("shapes", "prefill batch=1,q=64\n");
    expect(SWEEP "-o x.attnpack", 1, "", "shapes: no shape is for any of the kernels");
    expect(SWEEP "-o x.attnpack --only nothing*", 1, "", "whose name matches nothing*");
    write_file("shapes", "decode bitch=1\n");
    expect(SWEEP "-o x.attnpack", 1, "", "did you mean 'batch'");
    expect("tune --show --db none.sqlite", 2, "", "none.sqlite");
    assert_false(exists("x.attnpack"));
}

/* Runs SWEEP with outputs killed.*, and kills it after the given milliseconds. */
static void run_and_kill(unsigned milliseconds)
{
    const pid_t pid = fork();
    if (pid == 0) {
        setpgid(0, 0);
        if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr))
            _exit(126);
        execl(command_path, command_path, "tune", "d.yaml", "--shapes", "shapes", "--tiles", "3",
              "--verify", "1", "--cache", "cache", "-o", "killed.attnpack", (char *)NULL);
        _exit(127);
    }
    setpgid(pid, pid);
    const struct timespec t = {.tv_sec = milliseconds / 1000,
                               .tv_nsec = milliseconds % 1000 * 1000000L};
    nanosleep(&t, NULL);
    kill(-pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* Checks that the database is valid and has no fewer rows than before. Returns their number. */
static unsigned expect_rows(const char *path, unsigned before)
{
    char line[256];
    unsigned rows = 0;
    if (!exists(path))
        return before;
    snprintf(line, sizeof(line), "tune --csv --db %s", path);
    struct run r = run(line);
    assert_int_equal(r.status, 0);
    for (const char *at = (char *)r.out.data; (at = strchr(at, '\n')); at++)
        rows++;
    end_run(&r);
    assert_true(rows >= before);
    return rows;
}

TEST(killed_at_any_moment_it_goes_on)
{
    const char *kills = getenv("ATTNC_TEST_KILLS"); /* 50 for the long test: docs/tuning.md */
    unsigned random = 12345, rows = 0;
    struct timespec begin, end;
    write_inputs();
    clock_gettime(CLOCK_MONOTONIC, &begin);
    expect(SWEEP "-o whole.attnpack", 0, "6 measured", "");
    clock_gettime(CLOCK_MONOTONIC, &end);
    const unsigned whole =
        (unsigned)((end.tv_sec - begin.tv_sec) * 1000 + (end.tv_nsec - begin.tv_nsec) / 1000000);
    for (int i = kills ? atoi(kills) : 6; i > 0; i--) {
        random = random * 1664525u + 1013904223u;
        run_and_kill((random >> 8) % (whole / 2 + 1));
        rows = expect_rows("killed.sqlite", rows);
    }
    expect(SWEEP "-o killed.attnpack", 0, "measured", "");
    expect_same("whole.attnpack", "killed.attnpack");
    expect_same("whole.yaml", "killed.yaml");
    save_csv("whole.sqlite", "whole.csv");
    save_csv("killed.sqlite", "killed.csv");
    expect_same("whole.csv", "killed.csv");
}

/* A tuning file may set a knob that no row of a table has; the kernel is built and correct. */
TEST(workgroups_in_another_order_are_right)
{
    write_file("p.yaml", "targets: [gfx950]\n"
                         "kernels: [{ op: prefill, head_dim: 64, mask: causal }]\n");
    write_file("t.yaml", "tuning: 1\n"
                         "kernels:\n"
                         "  - key: gfx950 prefill dtype=bf16 q_dtype=same qkv_scale=tensor "
                         "head_dim=64 head_dim_v=64 gqa=any "
                         "mask=causal sinks=false soft_cap=false lse=false logits=none paged=false "
                         "page_size=any page_table=blocks kv_dtype=same kv_layout=nhd "
                         "kv_scale=none tile=auto\n"
                         "    tile: rows=32 keys=64 panel=64 waves=8 copy_bytes=16 hoist_vgprs=4 "
                         "memory_priority=1 late_power=1 ascending=1\n");
    expect("build p.yaml --tuning t.yaml -o p.attnpack -q --cache cache", 0, "", "");
    expect("list p.attnpack", 0, "prefill_bf16_d64_tile", "");
    expect("verify p.attnpack --device sim --shapes 4", 0, "4 shapes, 0 failed", "");
}

static void write_prefill(void)
{
    write_file("p.yaml", "targets: [gfx942]\nkernels: [{ op: prefill, head_dim: 128 }]\n");
}

/* If a launch exceeds the budget, nothing is compared, and the pack is the untuned one. */
TEST(a_spent_budget_leaves_the_build)
{
    write_prefill();
    write_file("shapes", "prefill batch=2,q=16384,heads=64,kv_heads=8\n");
    expect("tune p.yaml --shapes shapes --cache cache --budget 1 -o b.attnpack", 3,
           "0 keys measured, 0 in part, 1 left to the build", "; the budget is 1 s");
    expect("build p.yaml --cache cache -q -o plain.attnpack", 0, "", "");
    expect_same("b.attnpack", "plain.attnpack");
}

/* For all sizes but the tuned one, the pack has the kernels of a build without tuning. */
TEST(other_calls_keep_their_kernels)
{
    write_prefill();
    write_file("shapes", "prefill batch=1,q=512,heads=32,kv_heads=8\n");
    expect("tune p.yaml --shapes shapes --cache cache --tiles 12 --verify 1 -o t.attnpack --json",
           0, "\"slower\": 0,", "");
    size_t size;
    char *yaml = read_file("t.yaml", &size);
    const char *const box = strstr(yaml, "      - { tiles: [91, 181], max_seqlen_q: [363, 724], "
                                         "max_seqlen_k: [363, 724] }\n");
    assert_non_null(box);
    assert_non_null(strstr(box, "    tile: auto\n"));
    free(yaml);
    expect("build p.yaml --cache cache -q -o plain.attnpack", 0, "", "");
    expect("build p.yaml --tuning t.yaml --cache cache -q -o built.attnpack", 0, "", "");
    expect_same("t.attnpack", "built.attnpack");
    struct run r = run("list plain.attnpack");
    for (char *next = (char *)r.out.data, *line; (line = strsep(&next, "\n"));) {
        char name[64];
        if (sscanf(line, "%63[a-z0-9_]", name) == 1)
            expect("list t.attnpack", 0, name, "");
    }
    end_run(&r);
}

/* Shapes at the edges of the calls of two further kernels: a wrong value would name another kernel
 * than libattn takes. */
TEST(values_are_what_libattn_sees)
{
    write_prefill();
    write_file("shapes", "prefill batch=2,q=1280,then_q=1100,heads=8,kv_heads=2\n"
                         "prefill batch=1,q=1100,then_q=1280,heads=8,kv_heads=2\n"
                         "prefill batch=1,q=100,k=192,heads=8,kv_heads=2\n"
                         "prefill batch=1,q=100,k=193,heads=8,kv_heads=2\n");
    expect("tune p.yaml --shapes shapes --cache cache --tiles 1 --verify 1 -o v.attnpack", 0,
           "4 pairs of key and shape", "");
    struct run r = run("tune --csv --db v.sqlite");
    unsigned first = 0, few_tiles = 0, short_prompts = 0;
    for (char *next = (char *)r.out.data, *line; (line = strsep(&next, "\n"));) {
        const unsigned row = strstr(line, ",model gfx942,") != NULL;
        if (strstr(line, "key_groups="))
            few_tiles += row;
        else if (strstr(line, "workgroups=2"))
            short_prompts += row;
        else
            first += row;
    }
    end_run(&r);
    assert_int_equal(first, 4); /* each shape */
    assert_int_equal(few_tiles, 4);
    assert_int_equal(short_prompts, 4);
    /* The ranges of these kernels' calls are of values that libattn computes from arguments. */
    write_file("h.yaml", "targets: [gfx942]\n"
                         "kernels: [{ op: head_product, head_dim: 512, head_dim_v: 128 }]\n");
    write_file("shapes", "head_product tokens=64\nhead_product tokens=512\n");
    expect("tune h.yaml --shapes shapes --cache cache --tiles 1 --verify 1 -o head.attnpack", 0,
           "2 pairs of key and shape", "");
}

/* Some ops have no numbers of heads in their shapes, or only one. The model's heads supply what is
 * missing. */
TEST(a_models_heads_go_where_they_belong)
{
    write_file("c.json", "{\"model_type\": \"llama\", \"num_attention_heads\": 32, "
                         "\"num_key_value_heads\": 8, \"hidden_size\": 4096, \"head_dim\": 128, "
                         "\"num_hidden_layers\": 32, \"torch_dtype\": \"bfloat16\"}");
    const char *const globs[][2] = {{"combine*", "parts=4,heads=4"},
                                    {"cache_gather*", "tokens=4096,kv_heads=1"},
                                    {"cache_copy*", "pairs=64,kv_heads=1,head_dim=128"},
                                    {"plan*", "batch=64,heads=4,kv_heads=1"}};
    for (size_t i = 0; i < sizeof(globs) / sizeof(globs[0]); i++) {
        char line[256];
        snprintf(
            line, sizeof(line),
            "tune --model c.json --tp 8 --target gfx942 --only %s --tiles 2 --verify 1 --cache "
            "cache -o m.attnpack",
            globs[i][0]);
        expect(line, 0, " 0 failed", "");
        expect("tune --show --db m.sqlite", 0, globs[i][1], "");
    }
}

/* Failed launches are reported, and the other results are written. */
TEST(a_failed_launch_fails_the_run)
{
    write_inputs();
    write_file("shapes", "decode batch=1,k=64,heads=8,kv_heads=1\n"
                         "decode batch=1,k=64,heads=8,kv_heads=2\n");
    expect(SWEEP "-o f.attnpack", 1, " 3 failed", "warning: a launch failed: gfx950 decode");
    assert_true(exists("f.attnpack") && exists("f.yaml"));
    expect(SWEEP "-o f.attnpack", 1, "0 measured, 6 known", "warning: a launch failed");
}

TEST(stale_keys_are_refused)
{
    write_inputs();
    write_file("t.yaml", "tuning: 2\nkernels:\n"
                         "  - key: gfx942 decode head_dim=64 gqa=8 page_size=16\n    tile: auto\n"
                         "  - key: gfx950 decode head_dim=96 gqa=8 page_size=16\n    tile: auto\n"
                         "  - key: gfx950 decode head_dim=64 gqa=8 page_size=16 wings=2\n"
                         "    tile: auto\n");
    const char line[] = "build d.yaml --tuning t.yaml --cache cache -q -o t.attnpack";
    expect(line, 1, "", "t.yaml:5:5: error: no kernel has this key: no description does");
    expect(line, 1, "", "t.yaml:7:5: error: no kernel has this key: decode has no field 'wings'");
    expect(line, 1, "", "t.yaml:3:5");
    assert_false(exists("t.attnpack"));
    expect("build d.yaml --tuning t.yaml --cache cache -q -o t.attnpack --allow-stale", 0, "", "");
    expect("build d.yaml --cache cache -q -o plain.attnpack", 0, "", "");
    expect_same("t.attnpack", "plain.attnpack");
}

/* Databases of version 0, whose keys include every field, are migrated. */
TEST(an_old_database_is_read)
{
    sqlite3 *db;
    write_inputs();
    expect(SWEEP "-o one.attnpack", 0, "6 measured", "");
    assert_int_equal(sqlite3_open("one.sqlite", &db), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(db,
                     "UPDATE results SET key='gfx950 decode dtype=bf16 q_dtype=same q_scale=tensor "
                     "head_dim=64 head_dim_v=64 gqa=8 q_len=1 mask=causal sinks=false "
                     "soft_cap=false lse=false one_launch=false logits=none page_size=16 "
                     "page_table=blocks kv_dtype=same kv_layout=nhd kv_scale=none tile=auto';"
                     "PRAGMA user_version=0",
                     NULL, NULL, NULL),
        SQLITE_OK);
    sqlite3_close(db);
    expect("tune --merge one.sqlite --db merged.sqlite", 0, "", "");
    expect("tune --show --db merged.sqlite", 0, "gfx950 decode head_dim=64 gqa=8 page_size=16\n",
           "");
    expect(SWEEP "-o one.attnpack", 0, "0 measured, 6 known", "");
    assert_int_equal(sqlite3_open("one.sqlite", &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "PRAGMA user_version=2", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    expect(SWEEP "-o one.attnpack", 2, "", "one.sqlite: a database of a later attnc");
}

int main(int argc, char **argv)
{
    command_path = argc == 2 ? realpath(argv[1], NULL) : NULL; /* tests change the directory */
    if (!command_path)
        return 1;
    return run_unit_tests_between(setup, teardown);
}
