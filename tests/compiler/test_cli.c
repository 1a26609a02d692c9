/* SPDX-License-Identifier: Apache-2.0
 *
 * The attnc command as its user meets it: exit codes, messages, and what happens to the output.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compiler/process.h"

enum { MAX_ARGS = 16 };

static char *attnc; /* the command under test */

struct run {
    struct tgt_blob out, err;
    int status;
};

/* Runs `attnc ARGS`, separated by single spaces. */
static struct run run(const char *args)
{
    char copy[1024];
    const char *argv[MAX_ARGS + 2] = {attnc};
    size_t count = 1;
    assert_true(snprintf(copy, sizeof(copy), "%s", args) < (int)sizeof(copy));
    for (char *state, *word = strtok_r(copy, " ", &state); word;
         word = strtok_r(NULL, " ", &state)) {
        assert_true(count <= MAX_ARGS);
        argv[count++] = word;
    }
    struct run r;
    assert_true(attnc_run_process(argv, &r.out, &r.err, &r.status));
    return r;
}

static void end_run(struct run *r)
{
    tgt_blob_free(&r->out);
    tgt_blob_free(&r->err);
}

/* Runs and expects this exit code, and these words on standard output and standard error. */
static void expect(const char *args, int status, const char *out, const char *err)
{
    struct run r = run(args);
    if (r.status != status || !strstr((char *)r.out.data, out) || !strstr((char *)r.err.data, err))
        fail_msg("attnc %s: expected %d, '%s', '%s'; saw %d\n--- out\n%.2000s\n--- err\n%.2000s",
                 args, status, out, err, r.status, (char *)r.out.data, (char *)r.err.data);
    end_run(&r);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    (void)st, (void)kind, (void)where;
    return remove(path);
}

/* Every test works in a fresh directory. */
static int setup(void **state)
{
    char *dir = strdup("/tmp/attnc-test-XXXXXX");
    *state = dir;
    return mkdtemp(dir) && chdir(dir) == 0 ? 0 : -1;
}

static int teardown(void **state)
{
    int failed = chdir("/") != 0 || nftw(*state, remove_one, 8, FTW_DEPTH | FTW_PHYS) != 0;
    free(*state);
    return failed;
}

static void write_file(const char *name, const char *text)
{
    FILE *out = fopen(name, "w");
    assert_non_null(out);
    fputs(text, out);
    fclose(out);
}

static char *read_file(const char *name, size_t *size)
{
    FILE *in = fopen(name, "rb");
    if (!in)
        return NULL;
    char *bytes = NULL;
    FILE *copy = open_memstream(&bytes, size);
    for (int c; (c = fgetc(in)) != EOF;)
        fputc(c, copy);
    fclose(in);
    fclose(copy);
    return bytes;
}

static bool exists(const char *name)
{
    struct stat st;
    return stat(name, &st) == 0;
}

static const char good[] = "targets: [gfx942, gfx950]\n"
                           "kernels: [{ op: prefill, head_dim: 64 }]\n";

static void help_explains_everything(void **state)
{
    (void)state;
    expect("help", 0, "Usage: attnc COMMAND", "");
    expect("--help", 0, "Usage: attnc COMMAND", "");
    expect("", 1, "Usage: attnc COMMAND", "");
    expect("help fields", 0, "head_dim: integer, 1 to 1024 elements, required", "");
    expect("help ops", 0, "prefill: ", "");
    expect("help targets", 0, "gfx950", "");
    expect("help passes", 0, "lower_tiles", "");
    expect("help mask", 0, "causal", "");
    expect("help prefill", 0, "takes: dtype head_dim", "");
    expect("help list", 0, "Usage: attnc list PACK", "");
    expect("help feilds", 1, "", "did you mean 'fields'?");
    expect("version", 0, "LLVM 22", "");
    expect("--version", 0, "LLVM 22", "");
    expect("version x", 1, "", "unexpected operand 'x'");
}

static void every_command_has_help(void **state)
{
    (void)state;
    static const char *const names[] = {
#define COMMAND(name) #name,
#include "tools/attnc/commands.def"
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char args[64], usage[64];
        snprintf(args, sizeof(args), "%s --help", names[i]);
        snprintf(usage, sizeof(usage), "Usage: attnc %s ", names[i]);
        expect(args, 0, usage, "");
    }
}

static void slips_on_the_command_line_are_named(void **state)
{
    (void)state;
    write_file("d.yaml", good);
    expect("biuld d.yaml", 1, "", "unknown command 'biuld'; did you mean 'build'?");
    expect("build d.yaml --outptu x", 1, "", "unknown option '--outptu'; did you mean '--output'?");
    expect("build d.yaml -z", 1, "", "unknown option '-z'");
    expect("build d.yaml -o", 1, "", "--output needs an argument: FILE");
    expect("build d.yaml --quiet=yes -o x", 1, "", "--quiet takes no argument");
    expect("build", 1, "", "usage: attnc build DESC");
    expect("build d.yaml", 1, "", "-o says where the pack goes");
    expect("build d.yaml -o x -j 0", 1, "", "expected --jobs to be 1 to 64, saw '0'");
    expect("build d.yaml -o x -j 2x", 1, "", "expected --jobs");
    expect("build d.yaml -o x --emit=pakc", 1, "", "--emit cannot be 'pakc'; did you mean 'pack'?");
    expect("build d.yaml -o x --target gfx924", 1, "", "did you mean 'gfx942'?");
    expect("build d.yaml -o x --target ,", 1, "", "--target names no target");
    expect("build d.yaml -o x --print lower_tile", 1, "", "did you mean 'lower_tiles'?");
    expect("build d.yaml -o x --stop-after lower_tiles", 1, "", "--stop-after needs --emit=ir");
    expect("build d.yaml -o x --only nothing*", 1, "", "no kernel's name matches 'nothing*'");
    expect("list", 1, "", "usage: attnc list PACK");
    expect("list d.yaml", 1, "", "d.yaml: ");
    expect("list missing.pack", 2, "", "missing.pack");
    expect("extract d.yaml", 1, "", "usage: attnc extract");
    assert_false(exists("x"));
}

static void variants_are_printed_without_compiling(void **state)
{
    (void)state;
    write_file("d.yaml", good);
    expect("build d.yaml --emit=variants", 0, "gfx942 prefill dtype=bf16 head_dim=64", "");
    expect("build d.yaml --emit variants --target=gfx950", 0, "gfx950 prefill", "");
    expect("build d.yaml --emit=variants --only *gfx950 -o v.txt", 0, "", "");
    size_t size;
    char *text = read_file("v.txt", &size);
    assert_non_null(text);
    assert_memory_equal(text, "gfx950 prefill ", 15);
    free(text);
}

/* A model's config.json becomes a description that builds what it says. */
static void a_models_config_becomes_a_description(void **state)
{
    (void)state;
    write_file("qwen3.json", "{ \"architectures\": [\"Qwen3ForCausalLM\"], \"head_dim\": 128,\n"
                             "  \"num_attention_heads\": 32, \"num_key_value_heads\": 8,\n"
                             "  \"hidden_size\": 4096, \"torch_dtype\": \"bfloat16\",\n"
                             "  \"sliding_window\": 4096, \"use_sliding_window\": false }\n");
    write_file("deepseek.json", "{ \"num_attention_heads\": 128, \"num_key_value_heads\": 128,\n"
                                "  \"hidden_size\": 7168, \"qk_nope_head_dim\": 128,\n"
                                "  \"qk_rope_head_dim\": 64, \"v_head_dim\": 128 }\n");
    write_file("oss.json", "{ \"model_type\": \"gpt_oss\", \"hidden_size\": 4096,\n"
                           "  \"num_attention_heads\": 64, \"num_key_value_heads\": 8,\n"
                           "  \"sliding_window\": 128, \"torch_dtype\": \"float16\" }\n");
    expect("describe qwen3.json -o q.yaml", 0, "", "");
    expect("build q.yaml --emit=variants", 0,
           "gfx950 prefill dtype=bf16 head_dim=128 head_dim_v=128 gqa=4 mask=causal", "");
    expect("build q.yaml --emit=variants", 0,
           "gfx942 decode dtype=bf16 head_dim=128 head_dim_v=128 gqa=4 q_len=1 mask=causal", "");
    expect("describe deepseek.json -o d.yaml", 0, "", "");
    expect("build d.yaml --emit=variants", 0,
           "gfx942 prefill dtype=bf16 head_dim=192 head_dim_v=128 gqa=1 mask=causal", "");
    expect("describe oss.json -o o.yaml", 0, "", "");
    expect("build o.yaml --emit=variants", 0,
           "gfx942 prefill dtype=fp16 head_dim=64 head_dim_v=64 gqa=8 mask=window sinks=true", "");
    expect("describe q.yaml", 1, "", "not a model's config.json?");
    write_file("broken.json", "{ \"head_dim\": [1, }");
    expect("describe broken.json", 1, "", "broken.json:1:");
    expect("describe missing.json", 2, "", "missing.json: No such file");
}

/* A description with errors leaves an older output alone and makes none where there was none. */
static void errors_touch_no_output(void **state)
{
    (void)state;
    write_file("bad.yaml", "targets: [gfx942]\nkernels: [{ op: prefill, head_dim: 72 }]\n");
    write_file("old.pack", "old");
    expect("build bad.yaml -o old.pack --no-cache", 1, "",
           "bad.yaml:2:36: error: head_dim 72 is not a multiple of ");
    expect("build bad.yaml -o fresh.pack --no-cache", 1, "", "error");
    size_t size;
    char *text = read_file("old.pack", &size);
    assert_string_equal(text, "old");
    free(text);
    assert_false(exists("fresh.pack"));
    write_file("d.yaml", good);
    expect("build d.yaml -o none/such/x.pack --no-cache", 2, "", "none/such/x.pack: No such file");
    expect("build missing.yaml -o fresh.pack", 1, "", "missing.yaml: error: No such file");
}

static void a_pack_is_built_listed_and_extracted(void **state)
{
    (void)state;
    write_file("d.yaml", good);
    write_file("again.yaml", "targets: gfx942\nkernels: [{ op: prefill, head_dim: 64 }]\n");
    expect("build d.yaml again.yaml -o one.pack --cache c", 0, "",
           "[2/2]"); /* the kernel of both is built once */
    expect("build d.yaml -o two.pack --cache c -j 1", 0, "", "2 kernels, ");
    expect("build d.yaml -o three.pack --cache c", 0, "", "0 compiled, 2 from the cache");
    expect("build d.yaml -o four.pack --no-cache --quiet", 0, "", "");
    size_t size, other_size;
    char *one = read_file("one.pack", &size);
    for (int i = 0; i < 3; i++) {
        static const char *const names[] = {"two.pack", "three.pack", "four.pack"};
        char *other = read_file(names[i], &other_size);
        assert_int_equal(other_size, size);
        assert_memory_equal(other, one, size);
        free(other);
    }
    free(one);
    expect("list one.pack", 0, "prefill_bf16_d64_gfx942", "");
    expect("list one.pack --json", 0, "\"head_dim\": \"64\"", "");
    expect("extract one.pack prefill_bf16_d64_gfx942 -o k.co", 0, "", "");
    expect("extract one.pack prefill_bf16_d64_gfx943 -o k2.co", 1, "",
           "did you mean 'prefill_bf16_d64_gfx942'?");
    assert_false(exists("k2.co"));
    char *elf = read_file("k.co", &size);
    assert_memory_equal(elf, "\177ELF", 4);
    free(elf);
}

static void every_step_can_be_looked_at(void **state)
{
    (void)state;
    write_file("d.yaml", good);
    expect("build d.yaml --only *942 --emit=ir --stop-after=lower_pipeline -q", 0, "mma", "");
    expect("build d.yaml --only *942 --emit=llvm -q", 0, "amdgpu_kernel void @prefill", "");
    expect("build d.yaml --only *942 --emit=asm -q", 0, "v_mfma_f32_", "");
    expect("build d.yaml --only *942 --emit=asm --print=lower_tiles -q -o a.s", 0, "",
           "// after lower_tiles");
    expect("build d.yaml --only *942 --emit=obj -q -o k.o", 0, "", "");
    expect("build d.yaml --emit=co -q -o all", 0, "", "");
    expect("build d.yaml --emit=header -q -o qwen-3.h", 0, "", "");
    expect("build d.yaml --emit=object --name 3 -q -o k.o", 1, "", "'3' is not a C identifier");
    assert_true(exists("all/prefill_bf16_d64_gfx942.co"));
    assert_true(exists("all/prefill_bf16_d64_gfx950.co"));
    size_t size;
    char *header = read_file("qwen-3.h", &size);
    assert_non_null(strstr(header, "attn_pack_qwen_3"));
    free(header);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* Usage: test_cli ATTNC */
int main(int argc, char **argv)
{
    attnc = argc == 2 ? realpath(argv[1], NULL) : NULL; /* tests change the directory */
    if (!attnc)
        return 1;
    const struct CMUnitTest tests[] = {
        TEST(help_explains_everything),
        TEST(every_command_has_help),
        TEST(slips_on_the_command_line_are_named),
        TEST(variants_are_printed_without_compiling),
        TEST(a_models_config_becomes_a_description),
        TEST(errors_touch_no_output),
        TEST(a_pack_is_built_listed_and_extracted),
        TEST(every_step_can_be_looked_at),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(attnc);
    return failed;
}
