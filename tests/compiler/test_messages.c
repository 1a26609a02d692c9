/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests attnc's messages for users' mistakes: the place, what is wrong, what to do.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "pack/pack_format.h"
#include "tests/compiler/command.h"
#include "tests/unit_test.h"

#define PLAIN "targets: [gfx942]\nkernels:\n  - { op: prefill, head_dim: 64 }\n"
#define HOOKED "targets: [gfx942]\nkernels:\n  - { op: prefill, head_dim: 64, logits: h.c }\n"

static const char *simulator; /* directory of the simulator's libraries */

static void build(const char *text, const char *pack)
{
    char line[100];
    write_file("d.yaml", text);
    snprintf(line, sizeof(line), "build d.yaml -o %s --cache cache -q", pack);
    expect(line, 0, "", "");
}

TEST(names_of_other_projects_suggest_ops)
{
    static const char *const cases[][2] = {
        {"mla", "did you mean 'mla_decode' or 'mla_rope_cache'?"},
        {"attention", "did you mean 'prefill', 'decode' or 'mla_decode'?"},
        {"paged_decode", "did you mean 'decode'"},
        {"Flash-Attn", "did you mean 'prefill'?"},
        {"rope_only", "did you mean 'rope_qk_norm_cache'"},
        {"prefil", "did you mean 'prefill'?"},
        {"convolution", "`attnc help ops` lists them"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[200];
        snprintf(text, sizeof(text), "targets: [gfx942]\nkernels: [{ op: %s, head_dim: 64 }]\n",
                 cases[i][0]);
        write_file("d.yaml", text);
        expect("build d.yaml -o x", 1, "", cases[i][1]);
        expect("build d.yaml -o x", 1, "", "d.yaml:2:17: error: unknown op");
    }
}

TEST(a_models_config_is_not_a_description)
{
    write_file("config.json", "{ \"hidden_size\": 4096,\n  \"model_type\": \"llama\" }\n");
    expect("build config.json -o x", 1, "",
           "config.json:1:4: error: a model's config.json, not a description; `attnc describe "
           "config.json -o model.yaml` makes one of it");
    struct run r = run("build config.json -o x");
    assert_null(strstr((char *)r.err.data, "unknown key"));
    end_run(&r);
}

TEST(hooks_are_to_blame_where_they_are)
{
    write_file("d.yaml", HOOKED);
    write_file("h.c", "\nfloat attn_logits(float logit, int query)\n{\n    return logit;\n}\n");
    expect("build d.yaml -o x", 1, "", "d.yaml:3:42: error: h.c does not compile for gfx942");
    expect("build d.yaml -o x", 1, "", "h.c:2:7: error: conflicting types for 'attn_logits'");
    write_file("h.c", "float other(float logit) { return logit; }\n");
    expect("build d.yaml -o x", 1, "", "the hook's file defines no function attn_logits");
    expect("build d.yaml -o x", 1, "", "d.yaml:3:42: error: ");
}

TEST(a_hook_without_its_file_is_left_out)
{
    write_file("h.c", "float attn_logits(float logit, int query, int key, int head, int q_len,\n"
                      "                  int kv_len, const ATTN_DEVICE void *arg)\n"
                      "{\n    return logit * 0.5f;\n}\n");
    build(HOOKED, "h.attnpack");
    build(HOOKED "  - { op: combine, head_dim: 64 }\n", "two.attnpack");
    expect("verify h.attnpack --device sim", 1, "", "--hooks DIR names the folder of h.c");
    expect("verify two.attnpack --device sim --shapes 1", 3,
           "2 of 3 kernels verified, 2 shapes, 0 failed\n1 NOT VERIFIED: they call logits", "");
    expect("verify two.attnpack --device sim --shapes 1 --json", 3, "\"without_hook\": 1", "");
    expect("verify two.attnpack --device sim --shapes 1 --hooks .", 0, "3 of 3 kernels verified",
           "");
}

TEST(a_stage_without_the_others_is_left_out)
{
    static const char entry[] = "targets: [gfx942]\nkernels:\n"
                                "  - { op: gated_delta_prefill, head_dim: 64, stage: %s }\n";
    char text[200];
    snprintf(text, sizeof(text), entry, "outputs");
    build(text, "outputs.attnpack");
    expect("verify outputs.attnpack --device sim --shapes 1", 3,
           "0 of 1 kernels verified, 0 shapes, 0 failed\n1 NOT VERIFIED: their calls have other "
           "stages, which the pack lacks; gated_delta_prefill_bf16_d64_stage_outputs_gfx942 needs "
           "stage: chunks",
           "");
    expect("verify outputs.attnpack --device sim --json", 3, "\"without_stage\": 1", "");
    snprintf(text, sizeof(text), entry, "[chunks, scan, outputs]");
    build(text, "uncut.attnpack");
    expect("verify uncut.attnpack --device sim --shapes 2", 0, "3 of 3 kernels verified, 6 shapes",
           "");
}

/* A refusal names the field that is to blame. */
TEST(templates_name_the_field_that_they_refuse)
{
    static const char *const cases[][2] = {
        {"op: gated_delta_step, head_dim: 128, head_dim_v: 64, gqa: 2, act: silu, out_dtype: fp8",
         "out_dtype fp8 has a scale for 128 elements, a value head has only 64"},
        {"op: gated_delta_step, head_dim: 256, gqa: 3, act: silu",
         "3 value heads of a key head take 48 waves, a workgroup has 2"},
        {"op: rope_decode, head_dim: 256, gqa: 16, q_len: 4, kv_dtype: fp8, tile: 1",
         "tile 1 does not fit: a workgroup has"},
        {"op: gated_delta_prefill, head_dim: 64, stage: sums", "stage sums is for gated_rmsnorm"},
        {"op: decode, head_dim: 512, head_dim_v: 64, kv_dtype: fp8, kv_layout: packed",
         "rows of kv_layout packed are not read by this op"},
        {"op: prefill, paged: true, head_dim: 512, head_dim_v: 64, kv_dtype: fp8, kv_layout: "
         "packed",
         "rows of kv_layout packed are not read by this op"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[200];
        snprintf(text, sizeof(text), "targets: [gfx950]\nkernels:\n  - { %s }\n", cases[i][0]);
        write_file("d.yaml", text);
        expect("build d.yaml --emit=variants", 1, "", cases[i][1]);
    }
}

/* A report names the device of the HIP library that was loaded, whether the library was found by a
 * path, a variable or a default. */
TEST(reports_name_the_device)
{
    char line[600];
    build("targets: [gfx942]\nkernels:\n  - { op: combine, head_dim: 64 }\n", "x.attnpack");
    expect("verify x.attnpack --device sim --shapes 1 --json", 0, "\"simulated\": true", "");
    expect("verify x.attnpack --device sim --shapes 1 --json", 0,
           "{\"target\": \"gfx942\", \"name\": \"AMD Instinct MI300X", "");
    setenv("LD_LIBRARY_PATH", simulator, 1);
    setenv("HIPSIM", "target=gfx942", 1);
    snprintf(line, sizeof(line), "\"hip_library\": \"%s/libamdhip64", simulator);
    for (int i = 0; i < 2; i++) {
        const char *command = i ? "bench x.attnpack --seconds 0.01 --no-model --json"
                                : "verify x.attnpack --shapes 1 --device hip --json";
        expect(command, 0, "\"simulated\": true", "");
        expect(command, 0, line, "");
    }
    unsetenv("HIPSIM");
    unsetenv("LD_LIBRARY_PATH");
    expect("bench x.attnpack --device sim --json", 0,
           "\"device\": \"model\",\n  \"simulated\": true", "");
}

TEST(operands_that_are_missing_are_named)
{
    expect("verify", 1, "", "attnc: verify: no PACK is given\nattnc: usage: attnc verify PACK");
    expect("verify a b", 1, "", "attnc: verify: unexpected operand 'b'\n");
    expect("trace a", 1, "", "trace: no KERNEL is given");
    expect("build", 1, "", "build: no DESC is given");
    expect("diff a", 1, "", "diff: no second PACK is given");
    expect("report a b c", 1, "", "report: unexpected operand 'c'");
    expect("extract a b", 1, "", "extract: -o says where");
    expect("join a", 1, "", "join: -o says where");
}

/* Runs a shell command line with attnc's path in it. Returns its exit code; -1: it did not exit. */
static int shell(const char *format)
{
    char line[1000];
    snprintf(line, sizeof(line), format, command_path);
    const int status = system(line);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(a_pack_comes_through_a_pipe)
{
    build(PLAIN, "x.attnpack");
    assert_int_equal(shell("%s list x.attnpack >a"), 0);
    assert_int_equal(shell("%s list - <x.attnpack >b"), 0);
    expect_same("a", "b");
    assert_int_equal(shell("cat x.attnpack | %s list - >b"), 0);
    expect_same("a", "b");
    assert_int_equal(shell("mkfifo p; cat x.attnpack >p & %s list p >b"), 0);
    expect_same("a", "b");
    assert_int_equal(shell("cat x.attnpack | %s verify - --device sim --shapes 1 >b 2>&1"), 0);
    assert_int_equal(shell("cat x.attnpack | %s report - --no-verify --no-trace -o r.html >b 2>&1"),
                     0);
    assert_true(exists("r.html"));
    assert_int_equal(shell("echo text | %s list - 2>text"), 1);
    expect_file("text", "attnc: <stdin>: text, not a pack; `attnc build` makes a pack of a "
                        "description\n");
    assert_int_equal(shell("%s list - </dev/null 2>empty"), 1);
    expect_file("empty", "attnc: <stdin>: empty, not a pack\n");
}

TEST(long_names_are_names)
{
    char line[400], name[260];
    memset(name, 'a', sizeof(name));
    write_file("d.yaml", PLAIN);
    for (int length = 245; length <= 255; length += 5) {
        name[length] = '\0';
        snprintf(line, sizeof(line), "build d.yaml -o %s --cache cache -q", name);
        expect(line, 0, "", "");
        assert_true(exists(name));
        name[length] = 'a';
    }
    name[256] = '\0';
    snprintf(line, sizeof(line), "build d.yaml -o %s --cache cache", name);
    struct run r = run(line);
    assert_int_equal(r.status, 2);
    assert_non_null(strstr((char *)r.err.data, "File name too long"));
    assert_null(strstr((char *)r.err.data, "[1/")); /* before it compiles */
    end_run(&r);
}

/* Lists the processes whose parent is `pid`. */
static size_t children_of(pid_t pid, pid_t *list, size_t most)
{
    char path[64];
    size_t count = 0;
    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, pid);
    FILE *file = fopen(path, "r");
    while (file && count < most && fscanf(file, "%d", &list[count]) == 1)
        count++;
    if (file)
        fclose(file);
    return count;
}

/* True if the process runs; zombies do not. */
static bool runs(pid_t pid)
{
    char path[64], line[200] = "";
    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    const bool there = file && fgets(line, sizeof(line), file);
    if (file)
        fclose(file);
    const char *state = strrchr(line, ')');
    return there && state && state[2] != 'Z' && state[2] != 'X';
}

static void doze(void) { nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL); }

/* Starts attnc, kills it as soon as it has a child, and waits until the child is gone too. */
static void kill_with_children(const char *const argv[])
{
    pid_t children[16];
    size_t count = 0, left = 1;
    const pid_t pid = fork();
    if (pid == 0) {
        const int null = open("/dev/null", O_WRONLY);
        dup2(null, STDOUT_FILENO);
        dup2(null, STDERR_FILENO);
        execv(command_path, (char *const *)argv);
        _exit(127);
    }
    for (int i = 0; i < 1000 && !(count = children_of(pid, children, 16)); i++)
        doze();
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    assert_true(count > 0);
    for (int i = 0; i < 500 && left; i++) {
        left = 0;
        for (size_t k = 0; k < count; k++)
            left += runs(children[k]);
        doze();
    }
    assert_int_equal(left, 0);
}

TEST(a_killed_command_leaves_nothing_running)
{
    build("targets: [gfx942, gfx950]\nkernels:\n  - { op: prefill, head_dim: 512 }\n",
          "x.attnpack");
    kill_with_children(
        (const char *const[]){"attnc", "verify", "x.attnpack", "--device", "sim", NULL});
    kill_with_children(
        (const char *const[]){"attnc", "build", "d.yaml", "-o", "y", "--no-cache", NULL});
}

TEST(want_of_memory_is_no_error_of_attnc)
{
    struct rlimit before, limit;
    write_file("d.yaml", PLAIN);
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    limit = (struct rlimit){400u << 20, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
    struct run r = run("build d.yaml -o x --no-cache");
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    /* With enough memory there is no message. */
    if (r.status) {
        assert_non_null(strstr((char *)r.err.data, "out of memory"));
        assert_null(strstr((char *)r.err.data, "an error of attnc"));
    }
    end_run(&r);
}

/* Writes b.attnpack, a copy of a.attnpack. Byte `at` has another bit, counted from the file's end
 * if it is negative. */
static void damage_at(long at)
{
    size_t size;
    char *bytes = read_file("a.attnpack", &size);
    assert_non_null(bytes);
    bytes[at < 0 ? (long)size + at : at] ^= 1;
    FILE *file = fopen("b.attnpack", "wb");
    assert_non_null(file);
    fwrite(bytes, 1, size, file);
    fclose(file);
    free(bytes);
}

TEST(a_damaged_kernel_is_not_another_one)
{
    build(PLAIN, "a.attnpack");
    expect("diff a.attnpack a.attnpack", 0, "0 kernels differ", "");
    damage_at(-1000); /* code is the last section */
    expect("diff a.attnpack b.attnpack", 1, "corrupted in the second pack",
           "b.attnpack: pack code: the code object of");
    expect("diff b.attnpack b.attnpack --json", 1, "\"change\": \"corrupted\"", "");
}

TEST(a_damaged_pack_is_named)
{
    build("targets: [gfx942]\nkernels: [{ op: plan }]\n", "a.attnpack");
    damage_at(-1000);
    expect("extract b.attnpack plan_gfx942 -o x.co", 1, "", "attnc: b.attnpack: pack code: the");
    expect("report b.attnpack -o r.html --no-verify --no-trace", 1, "",
           "attnc: b.attnpack: pack code: the");
    struct attn_pack_header header;
    size_t size;
    char *bytes = read_file("a.attnpack", &size);
    assert_non_null(bytes);
    memcpy(&header, bytes, sizeof(header));
    free(bytes);
    damage_at((long)header.sections[ATTN_PACK_KERNELS].offset + 40);
    expect("list b.attnpack", 1, "", "attnc: b.attnpack: pack kernels: kernel 0: corrupted");
    struct run r = run("list b.attnpack --json");
    assert_int_equal(r.status, 1);
    assert_int_equal(r.out.size, 0); /* no beginning of a list */
    end_run(&r);
}

TEST(a_damaged_database_says_what_to_do)
{
    write_file("d.yaml", PLAIN);
    write_file("x.sqlite", "This is no database, though it is a file of some length.\n");
    struct run r = run("tune d.yaml -o x.attnpack --db x.sqlite --budget 1");
    if (!strstr((char *)r.err.data, "unknown command")) { /* built without sqlite3 */
        assert_int_equal(r.status, 2);
        assert_non_null(strstr((char *)r.err.data, "x.sqlite: file is not a database; delete or"));
    }
    end_run(&r);
}

TEST(without_a_gpu_the_library_is_named)
{
    build("targets: [gfx942]\nkernels:\n  - { op: combine, head_dim: 64 }\n", "x.attnpack");
    struct run r = run("verify x.attnpack --device hip --shapes 1");
    if (r.status == 2) {
        const char *said = (char *)r.err.data;
        assert_true(strstr(said, "hipInit of /") || strstr(said, "hipGetDeviceCount of /") ||
                    strstr(said, "cannot be loaded") || strstr(said, "sees 0"));
    }
    end_run(&r);
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    command_path = realpath(argv[1], NULL); /* tests change the directory */
    simulator = realpath(argv[2], NULL);
    return run_unit_tests_between(setup, teardown);
}
