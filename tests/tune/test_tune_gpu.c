/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests attnc tune --device hip on the simulator with a bad clock: the model's winner wins, a fault
 * or a hang costs only the kernel that caused it, and measurements are stored beside the model's.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/compiler/command.h"
#include "tests/unit_test.h"

#define TUNE                                                                                   \
    "tune d.yaml --shapes shapes --tiles 4 --verify 1 --cache cache --device hip --seconds 1 " \
    "--flush 1 "

static const char *shaky; /* library path: the folder of the shaky library, then hipsim's */

static void start(const char *settings)
{
    write_file("d.yaml", "targets: [gfx950]\n"
                         "kernels: [{ op: decode, head_dim: 64, gqa: 8, page_size: 16 }]\n");
    write_file("shapes", "decode batch=1,k=256,heads=8\n");
    setenv("LD_LIBRARY_PATH", shaky, 1);
    setenv("HIPSIM", "target=gfx950", 1);
    setenv("SHAKY", settings, 1);
}

/* Copies the tile of a tuning file's first row to `tile`. */
static void read_winner(const char *path, char tile[200])
{
    size_t size;
    char *text = read_file(path, &size);
    assert_non_null(text);
    const char *at = strstr(text, "    tile: ");
    assert_non_null(at);
    snprintf(tile, 200, "%.*s", (int)strcspn(at, "\n"), at);
    free(text);
}

static unsigned count_lines(const char *db, const char *word)
{
    char line[128];
    unsigned count = 0;
    snprintf(line, sizeof(line), "tune --csv --db %s", db);
    struct run r = run(line);
    assert_int_equal(r.status, 0);
    for (const char *at = (char *)r.out.data; (at = strstr(at, word)); at++)
        count++;
    end_run(&r);
    return count;
}

TEST(noise_and_drift_change_no_winner)
{
    char still[200], shaken[200];
    start("");
    expect(TUNE "-o still.attnpack", 0, "times as fast as a build on the GPU", "");
    assert_true(count_lines("still.sqlite", "MI355X") >= 3);
    assert_true(count_lines("still.sqlite", "model gfx950") >= 3);
    start("noise=1,drift=5");
    expect(TUNE "-o shaken.attnpack", 0, "times as fast as a build on the GPU", "");
    read_winner("still.yaml", still);
    read_winner("shaken.yaml", shaken);
    assert_string_equal(still, shaken);
    expect(TUNE "-o shaken.attnpack", 0, "\n0 measured", "");
}

/* The second launch of each process and all after it fail. A tile that fails drops out of the race
 * and has a row in the database. A tile that is left wins. */
TEST(a_fault_costs_who_is_to_blame)
{
    start("fault=2");
    expect(TUNE "-o faulty.attnpack", 1, "failed", "warning: a launch failed");
    assert_true(count_lines("faulty.sqlite", "hipErrorLaunchFailure") >= 1);
    assert_true(exists("faulty.attnpack"));
}

TEST(a_hang_ends)
{
    start("hang=20");
    expect(TUNE "--patience 2 --finalists 1 -o hung.attnpack", 1, "failed", "hung for");
    assert_true(count_lines("hung.sqlite", "hung for") >= 1);
}

/* Workgroups of this GPU cost twice what the model says. The fit finds this cost, or other
 * parameters with the same times of these launches. */
TEST(the_model_is_fitted_to_a_gpu)
{
    double before, after;
    start("");
    expect("tune d.yaml --shapes shapes --tiles 1 --calibrate --db none.sqlite --cache cache "
           "--tuning none.yaml",
           1, "", "the database has no measurement");
    setenv("SHAKY_PARAMETERS", "workgroup_cycles=15000", 1);
    expect("tune d.yaml --shapes shapes --tiles 1 --verify 1 --cache cache --device hip "
           "--seconds 1 --flush 1 -o fit.attnpack",
           0, "GPU", "");
    unsetenv("SHAKY_PARAMETERS");
    struct run r = run("tune d.yaml --shapes shapes --tiles 1 --calibrate --db fit.sqlite "
                       "--cache cache --tuning fit.yaml");
    assert_int_equal(r.status, 0);
    const char *at = strstr((char *)r.out.data, "measured) ");
    assert_non_null(at);
    assert_int_equal(sscanf(at, "measured) %lf before, %lf after", &before, &after), 2);
    assert_true(before > 0.05);
    assert_true(after < before / 5);
    assert_non_null(strstr((char *)r.out.data, "--parameters "));
    end_run(&r);
}

/* Winners are timed at both ends of an open parameter's range, and the file can be read again. */
TEST(open_parameters_are_tried)
{
    start("");
    unsetenv("LD_LIBRARY_PATH");
    expect("tune d.yaml --shapes shapes --tiles 2 --verify 1 --cache cache --sensitivity "
           "-o open.attnpack",
           0, "times as fast as a build on the model", "");
    assert_true(count_lines("open.sqlite", "model gfx950 barrier_cycles=4,") >= 2);
    assert_true(count_lines("open.sqlite", "model gfx950 barrier_cycles=64,") >= 2);
    expect("build d.yaml --tuning open.yaml --cache cache -q -o again.attnpack", 0, "", "");
}

/* Each of two shares races the tiles that it has timed. With the merged database tuning needs no
 * GPU and chooses the same tile. */
TEST(shares_race_on_their_own)
{
    char one[200], all[200];
    start("");
    write_file("shapes", "decode batch=1,k=256,heads=8\ndecode batch=2,k=64,heads=8\n");
    expect(TUNE "-o one.attnpack", 0, "2 pairs of key and shape", "");
    expect(TUNE "-o all.attnpack --shard 1/2", 0, "share 1 of 2", "");
    expect(TUNE "-o all.attnpack --shard 2/2", 0, "share 2 of 2", "");
    expect("tune --db all.sqlite --merge all.1of2.sqlite all.2of2.sqlite", 0, "", "");
    assert_int_equal(count_lines("all.sqlite", "MI355X"), count_lines("one.sqlite", "MI355X"));
    unsetenv("LD_LIBRARY_PATH");
    expect(TUNE "-o all.attnpack", 0, "\n0 measured", "what the database has of one decides");
    read_winner("one.yaml", one);
    read_winner("all.yaml", all);
    assert_string_equal(one, all);
}

int main(int argc, char **argv)
{
    command_path = argc == 3 ? realpath(argv[1], NULL) : NULL; /* tests change the directory */
    if (!command_path)
        return 1;
    shaky = argv[2];
    return run_unit_tests_between(setup, teardown);
}
