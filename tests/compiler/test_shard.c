/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests shards: for any number of shards, their results together equal the result of one run.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/compiler/command.h"
#include "tests/unit_test.h"

#define SWEEP "tune d.yaml --shapes shapes --tiles 3 --verify 1 --cache cache "

static const char description[] =
    "targets: [gfx950]\n"
    "kernels:\n"
    "  - { op: decode, head_dim: 64, gqa: [1, 8], page_size: [16, 32] }\n";

TEST(a_build_in_shares)
{
    char line[256];
    write_file("d.yaml", description);
    expect("build d.yaml -o whole.attnpack --cache cache -q", 0, "", "");
    for (int i = 1; i <= 3; i++) {
        snprintf(line, sizeof(line), "build d.yaml -o x.attnpack --cache cache -q --shard %d/3", i);
        expect(line, 0, "", "");
    }
    assert_false(exists("x.attnpack"));
    expect("join x.3of3.attnpack x.1of3.attnpack x.2of3.attnpack -o x.attnpack", 0, "", "");
    expect_same("whole.attnpack", "x.attnpack");
    write_file("list", "x.1of3.attnpack\nx.2of3.attnpack\nx.3of3.attnpack\n");
    expect("join @list -o y.attnpack --json", 0, "\"kernels\": 4", "");
    expect_same("whole.attnpack", "y.attnpack");
    expect("join x.attnpack x.1of3.attnpack x.2of3.attnpack x.3of3.attnpack -o z.attnpack", 1, "",
           "two kernels are called");
    expect("join d.yaml -o z.attnpack", 1, "", "d.yaml");
    assert_false(exists("z.attnpack"));
}

TEST(shares_of_a_verification_are_all_of_it)
{
    write_file("d.yaml", description);
    expect("build d.yaml -o x.attnpack --cache cache -q --target gfx950", 0, "", "");
    int kernels = 0;
    for (int i = 1; i <= 2; i++) {
        char line[256];
        snprintf(line, sizeof(line),
                 "verify x.attnpack --device sim --shapes 1 --json --shard %d/2", i);
        struct run r = run(line);
        assert_int_equal(r.status, 0);
        for (const char *at = (char *)r.out.data; (at = strstr(at, "\"kernel\":")); at++)
            kernels++;
        end_run(&r);
    }
    assert_int_equal(kernels, 4);
}

TEST(slips_are_named)
{
    write_file("d.yaml", description);
    expect("build d.yaml -o x --shard 3/2", 1, "", "build: --shard is I/N");
    expect("build d.yaml -o x --shard 0/2", 1, "", "build: --shard is I/N");
    expect("build d.yaml -o x --shard 1/2x", 1, "", "build: --shard is I/N");
    expect("verify d.yaml --shard two", 1, "", "verify: --shard is I/N");
    expect("join -o x", 1, "", "usage: attnc join");
}

/* A run without a shard option takes its shard from the variables of Slurm or MPI. */
TEST(ranks_take_their_share)
{
    static const struct {
        const char *variables, *file;
    } cases[] = {
        {"OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4", "x.3of4.attnpack"},
        {"PMI_RANK=0 PMI_SIZE=4", "x.1of4.attnpack"},
        {"SLURM_PROCID=3 SLURM_NTASKS=4", "x.4of4.attnpack"},
        {"SLURM_PROCID=0 SLURM_NTASKS=1", "x.attnpack"},
        {"SLURM_ARRAY_TASK_ID=7 SLURM_ARRAY_TASK_MIN=3 SLURM_ARRAY_TASK_MAX=9 "
         "SLURM_ARRAY_TASK_STEP=2 SLURM_PROCID=0 SLURM_NTASKS=1",
         "x.3of4.attnpack"},
        {"SLURM_ARRAY_TASK_ID=1 SLURM_ARRAY_TASK_MIN=0 SLURM_ARRAY_TASK_MAX=1 SLURM_PROCID=1 "
         "SLURM_NTASKS=2",
         "x.4of4.attnpack"},
        {"OMPI_COMM_WORLD_RANK=9 OMPI_COMM_WORLD_SIZE=4", "x.attnpack"},
        {"SLURM_PROCID=one SLURM_NTASKS=4", "x.attnpack"},
    };
    write_file("d.yaml", description);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char line[512];
        snprintf(line, sizeof(line),
                 "env %s %s build d.yaml -o x.attnpack --cache cache -q --shard auto",
                 cases[i].variables, command_path);
        assert_int_equal(system(line), 0);
        if (!exists(cases[i].file))
            fail_msg("%s: %s is not there", cases[i].variables, cases[i].file);
        remove(cases[i].file);
    }
}

TEST(a_build_file_makes_the_same_pack)
{
    write_file("d.yaml", description);
    expect("build d.yaml -o whole.attnpack --cache cache -q --target gfx950", 0, "", "");
    expect("build d.yaml -o n.ninja --emit=ninja --target gfx950", 0, "", "");
    assert_int_equal(system("ninja -f n.ninja -j 2 >log"), 0);
    expect_same("whole.attnpack", "n.attnpack");
}

TEST(a_sweep_in_shares_is_the_same_sweep)
{
    char line[512];
    write_file("d.yaml", "targets: [gfx950]\n"
                         "kernels: [{ op: decode, head_dim: 64, gqa: [1, 8], page_size: 16 }]\n");
    write_file("shapes", "decode batch=1,k=64,heads=8\ndecode batch=4,k=96,heads=8\n");
    expect(SWEEP "-o one.attnpack", 0, "12 measured", "");
    expect("tune --merge one.sqlite --db whole.sqlite", 0, "", "");
    for (int shards = 2; shards <= 8; shards++) {
        char all[256] = "";
        for (int i = 1; i <= shards; i++) {
            snprintf(line, sizeof(line), SWEEP "-o s%d.attnpack --shard %d/%d", shards, i, shards);
            expect(line, 0, "share ", "");
            snprintf(all + strlen(all), sizeof(all) - strlen(all), " s%d.%dof%d.sqlite", shards,
                     shards - i + 1, shards);
        }
        snprintf(line, sizeof(line), "tune --db s%d.sqlite --merge%s", shards, all);
        expect(line, 0, "", "");
        snprintf(line, sizeof(line), "cp s%d.sqlite merged%d.sqlite", shards, shards);
        assert_int_equal(system(line), 0);
        snprintf(line, sizeof(line), SWEEP "-o s%d.attnpack", shards);
        expect(line, 0, "0 measured, 12 known", "");
        snprintf(line, sizeof(line), "s%d.attnpack", shards);
        expect_same("one.attnpack", line);
        snprintf(line, sizeof(line), "s%d.yaml", shards);
        expect_same("one.yaml", line);
        snprintf(line, sizeof(line), "s%d.sqlite", shards);
        save_csv("one.sqlite", "one.csv");
        save_csv(line, "s.csv");
        expect_same("one.csv", "s.csv");
        snprintf(line, sizeof(line), "tune --merge s%d.sqlite --db again%d.sqlite", shards, shards);
        expect(line, 0, "", "");
        snprintf(line, sizeof(line), "again%d.sqlite", shards);
        expect_same("whole.sqlite", line);
    }
    expect_same("merged2.sqlite", "merged8.sqlite");
}

int main(int argc, char **argv)
{
    command_path = argc == 2 ? realpath(argv[1], NULL) : NULL; /* tests change the directory */
    if (!command_path)
        return 1;
    return run_unit_tests_between(setup, teardown);
}
