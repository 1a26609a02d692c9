/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the attnc command from the user's side: exit codes, messages, and effects on the output.
 */
#include <stdlib.h>
#include <string.h>

#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "compiler/process.h"
#include "compiler/yaml.h"
#include "tests/compiler/command.h"
#include "tests/unit_test.h"

static const char good[] = "targets: [gfx942, gfx950]\n"
                           "kernels: [{ op: prefill, head_dim: 80 }]\n";

/* Runs attnc with `args` once, since pages of ops take seconds. Expects each of `texts`, which ends
 * with NULL, in its output. */
static void expect_all(const char *args, const char *const *texts)
{
    struct run r = run(args);
    assert_int_equal(r.status, 0);
    for (; *texts; texts++)
        if (!strstr((char *)r.out.data, *texts))
            fail_msg("attnc %s: expected '%s'; saw\n%.2000s", args, *texts, (char *)r.out.data);
    end_run(&r);
}

/* The test `limits` reads the page of `attnc help limits`. */
TEST(help_explains_everything)
{
    expect("help", 0, "Usage: attnc COMMAND", "");
    expect("--help", 0, "Usage: attnc COMMAND", "");
    expect("", 1, "Usage: attnc COMMAND", "");
    expect("help fields", 0, "head_dim: integer, 1 to 1024 elements, required", "");
    expect("help ops", 0, "prefill: ", "");
    expect("help targets", 0, "gfx950", "");
    expect("help passes", 0, "lower_tiles", "");
    expect("help mask", 0, "causal", "");
    expect("help ops", 0, "takes: dtype q_dtype qkv_scale head_dim", "");
    expect_all(
        "help prefill",
        (const char *const[]){
            "`head_dim`: gfx942: 64 to 128 by 8, 144 to 512 by 16; gfx950: ",
            "    - with an 8-bit cache: gfx942: 64 to 512 by 16; gfx950: ",
            "int8 with kv_scale tensor and paged\n",
            "q_dtype fp8 with paged, except with kv_dtype fp8: q_dtype fp8 is for a cache of ",
            NULL});
    expect("help rope_qk_norm_cache", 0, "    - at most 2 times head_dim\n", "");
    expect_all("help prefill --call",
               (const char *const[]){"Set at run time:\n    heads: 1 to 65535; ",
                                     "\n    q: q_dtype read, strides of token", NULL});
    expect_all("help mla_decode",
               (const char *const[]){"`head_dim`: 256, 320, 512, 576\n",
                                     "mask custom with sharded: shards are of causal masks", NULL});
    expect("help cache_write", 0, "`page_size`: any, 1 to 65536", "");
    expect("help metadata", 0, "taken by: metadata", "");
    expect("help metadata --call", 0, "block_table: i32 read", "");
    expect("help combine --call", 0, "- splits is not positive", "");
    expect("help indexer_topk", 0, "`kv_layout`: nhd; shuffle with paged", "");
    expect("help list", 0, "Usage: attnc list PACK", "");
    expect("help attention", 1, "", "did you mean 'prefill', 'decode' or 'mla_decode'?");
    expect("help feilds", 1, "", "did you mean 'fields'?");
    expect("version", 0, "LLVM 22", "");
    expect("--version", 0, "LLVM 22", "");
    expect("version x", 1, "", "unexpected operand 'x'");
}

TEST(every_command_has_help)
{
    static const char *const names[] = {
#define COMMAND(name) #name,
#include "tools/attnc/cli/commands.def"
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char name[32], args[64], usage[64];
        snprintf(name, sizeof(name), "%s", names[i]);
        for (char *c = name; *c; c++)
            *c = *c == '_' ? '-' : *c; /* on_gpu is `attnc on-gpu` */
        snprintf(args, sizeof(args), "%s --help", name);
        snprintf(usage, sizeof(usage), "Usage: attnc %s ", name);
        expect(args, 0, usage, "");
    }
}

TEST(slips_on_the_command_line_are_named)
{
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
    expect("build d.yaml -o x --emit=7", 1, "", "`attnc help build` lists the kinds");
    expect("build d.yaml -o x --cache-limit 3X", 1, "", "expected --cache-limit to be a size like");
    expect("verify x.attnpack --shapes 0", 1, "", "expected --shapes to be 1 to");
    expect("verify x.attnpack --seed -1", 1, "", "expected --seed to be 0 to");
    expect("tune d.yaml -o x --kernels 13", 1, "", "expected --kernels to be 1 to 12, saw '13'");
    expect("7", 1, "", "unknown command '7'; `attnc help` lists them");
    expect("build d.yaml -o x --emit=pakc", 1, "", "--emit cannot be 'pakc'; did you mean 'pack'?");
    expect("build d.yaml -o x --target gfx90a", 1, "",
           "unknown target 'gfx90a'; there are gfx942 (MI300X), gfx950 (MI355X), gfx1250 (MI455X) "
           "and gfx1201 (RX 9070 XT)");
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

TEST(variants_are_printed_without_compiling)
{
    write_file("d.yaml", good);
    expect("build d.yaml --emit=variants", 0,
           "gfx942 prefill dtype=bf16 q_dtype=same qkv_scale=tensor head_dim=80", "");
    expect("build d.yaml --emit variants --target=gfx950", 0, "gfx950 prefill", "");
    expect("build d.yaml --emit=variants --only *gfx950 -o v.txt", 0, "", "");
    size_t size;
    char *text = read_file("v.txt", &size);
    assert_non_null(text);
    assert_memory_equal(text, "gfx950 prefill ", 15);
    free(text);
}

/* The description of a small config. test_models.c describes the configs of published models. */
TEST(a_models_config_becomes_a_description)
{
    static const char qwen[] =
        "{ \"model_type\": \"qwen3_moe\", \"head_dim\": 128, \"num_hidden_layers\": 94,\n"
        "  \"num_attention_heads\": 64, \"num_key_value_heads\": 4, \"hidden_size\": 4096,\n"
        "  \"torch_dtype\": \"float16\", \"sliding_window\": 4096,\n"
        "  \"use_sliding_window\": false }\n";
    write_file("config.json", qwen);
    expect("describe config.json -o q.yaml", 0, "", "");
    expect("build q.yaml --emit=variants", 0,
           "gfx942 decode dtype=fp16 q_dtype=same q_scale=tensor head_dim=128 head_dim_v=128 "
           "gqa=16 q_len=1 "
           "mask=causal",
           "");
    expect("describe . --tp 8", 0, "# A model (model_type qwen3_moe), 94 layers", "");
    expect("describe . --tp 8", 0, "TP 8: 8 query heads and 1 key/value heads a rank (copies)", "");
    expect("describe config.json --tp 2,8", 0, "gqa: [16, 8]", "");
    expect("describe config.json --tp 3", 1, "", "missing: TP 3: 64 query heads and 4 key/value");
    expect("describe config.json --tp 1,3", 3, "# MISSING: TP 3:", "missing: TP 3:");
    expect("describe config.json --tp 0", 1, "", "expected --tp to be 1 to 1024, saw '0'");
    expect("describe config.json --tp ,", 1, "", "expected --tp to be 1 to 1024, saw ''");
    expect("describe config.json --tp 1,,2", 1, "", "expected --tp to be 1 to 1024, saw ''");
    expect("describe config.json --draft-tokens 7", 0, "q_len: 8", "");
    expect("describe config.json --draft-tokens 2 --draft-tree", 0, "mask: [causal, custom]", "");
    expect("describe config.json --draft-tree", 1, "",
           "--draft-tree needs --draft-tokens of 2 or more");
    expect("describe config.json --draft-tokens 64", 1, "",
           "expected --draft-tokens to be 0 to 63");
    expect("describe config.json --kv-dtype fp8 --kv-scale token --kv-layout shuffle -o f.yaml", 0,
           "", "");
    expect("build f.yaml --emit=variants", 0, "kv_dtype=fp8 kv_layout=shuffle kv_scale=token", "");
    expect("describe config.json --kv-scale token", 1, "",
           "describe: the cache: a cache of 16-bit numbers has no scale");
    expect("describe config.json --page-size 48", 0, "page_size: 48", "");
    expect("describe config.json --page-size 36 --kv-layout shuffle", 1, "",
           "page_size 36 is no multiple of the 8 tokens");
    expect("describe config.json --kv-dtype fp9", 1, "", "unknown kv_dtype 'fp9'");
    write_file(
        "latent.json",
        "{ \"model_type\": \"deepseek_v3\", \"num_hidden_layers\": 4, \"hidden_size\": 7168,\n"
        "  \"num_attention_heads\": 16, \"kv_lora_rank\": 512, \"q_lora_rank\": 1536,\n"
        "  \"qk_nope_head_dim\": 128, \"qk_rope_head_dim\": 64, \"v_head_dim\": 128 }\n");
    expect("describe latent.json --draft-tokens 3 --draft-tree", 0, "mask: [causal, custom]", "");
    expect("describe latent.json --kv-dtype fp8 --kv-layout packed -o l.yaml", 0, "", "");
    expect("build l.yaml --emit=variants", 0,
           "page_table=blocks kv_dtype=fp8 kv_layout=packed kv_scale=none", "");
    expect("describe latent.json --kv-dtype fp8 --kv-scale e8m0 --kv-layout packed", 0,
           "kv_scale: e8m0", "");
    expect("describe latent.json --kv-layout packed", 1, "",
           "the cache: packed rows have 512 + 64");
}

/* Rows of the cache are key and value. Scales are after a page's rows (scales_last) or in the rows
 * (planes). */
TEST(describe_names_the_layout_of_pooled_rows)
{
    write_file(
        "rows.json",
        "{ \"model_type\": \"deepseek_v4\", \"num_hidden_layers\": 2, \"hidden_size\": 4096,\n"
        "  \"num_attention_heads\": 64, \"num_key_value_heads\": 1, \"head_dim\": 512,\n"
        "  \"qk_rope_head_dim\": 64, \"q_lora_rank\": 1024, \"sliding_window\": 128,\n"
        "  \"compress_ratios\": [0, 128] }\n");
    expect("describe rows.json --tp 8 --kv-dtype fp8 --kv-layout scales_last -o r.yaml", 0, "", "");
    expect("build r.yaml --emit=variants", 0, "kv_dtype=fp8 kv_layout=scales_last", "");
    expect("build r.yaml --emit=variants", 0, "two_sources=true", "");
    expect("build r.yaml --emit=variants", 0, "cache_gather", "");
    expect("describe rows.json --kv-layout scales_last", 1, "", "describe: the cache: ");
    expect("describe rows.json --tp 8 --kv-dtype fp8 --kv-layout planes -o p.yaml", 0, "", "");
    expect("build p.yaml --emit=variants", 0, "kv_dtype=fp8 kv_layout=planes", "");
    expect("build p.yaml --emit=variants", 0, "two_sources=true", "");
    expect("build p.yaml --emit=variants", 0, "cache_gather", "");
}

/* A setting is missing or does not fit the others. The message names the setting. */
static void a_config_that_lacks_something_is_told_what(void)
{
    static const struct {
        const char *config, *sentence;
    } cases[] = {
        {"{ 'num_hidden_layers': 2, 'num_attention_heads': 32, 'num_key_value_heads': 7,\n"
         "  'head_dim': 64 }",
         "32 query heads (num_attention_heads) are no multiple of 7 key/value heads "
         "(num_key_value_heads)"},
        {"{ 'model_type': 'qwen3', 'num_attention_heads': 32, 'head_dim': 64 }",
         "num_hidden_layers is not there"},
        {"{ 'model_type': 'qwen3', 'num_hidden_layers': 2, 'head_dim': 64 }",
         "num_attention_heads is not there"},
        {"{ 'model_type': 'mistral', 'num_hidden_layers': 2, 'num_attention_heads': 32 }",
         "neither head_dim nor hidden_size is there"},
        {"{ 'model_type': 'mistral', 'num_hidden_layers': 2, 'num_attention_heads': 32,\n"
         "  'hidden_size': 4097 }",
         "hidden_size 4097 is no multiple of 32 heads, and head_dim is not there"},
        {"{ 'model_type': 'deepseek_v2', 'num_hidden_layers': 2, 'num_attention_heads': 16,\n"
         "  'kv_lora_rank': 512, 'qk_nope_head_dim': 128, 'qk_rope_head_dim': 64 }",
         "v_head_dim is not there, or 0, which latent attention (kv_lora_rank) needs"},
        {"{ 'model_type': 'llama', 'layer_types': ['full_attention'], 'num_hidden_layers': 2 }",
         "layer_types has 1 entries, the model 2 layers"},
        {"{ 'model_type': 'llama', 'num_key_value_heads': [8, 8, 8] }",
         "num_key_value_heads has 3 entries, the model 32 layers"},
        {"{ 'model_type': 'llama', 'head_dim': '128' }",
         "head_dim is \"128\", expected a number, or a list of them"},
        {"{ 'model_type': 'llama', 'attention_bias': [true] }",
         "attention_bias is [...], expected true or false"},
        {"{ 'model_type': 'deepseek_v41', 'num_hidden_layers': 2, 'num_attention_heads': 64,\n"
         "  'num_key_value_heads': 1, 'head_dim': 512, 'sliding_window': 128,\n"
         "  'compress_ratios': [0, 2],\n"
         "  'kv_source_layer_ids': [1], 'index_source_layer_ids': [0] }",
         "layer 0 chooses rows, but its compress ratio is 0"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[400];
        snprintf(text, sizeof(text), "%s", cases[i].config);
        for (char *c = text; *c; c++)
            *c = *c == '\'' ? '"' : *c;
        write_file("lacks.json", text);
        expect("describe lacks.json", 1, "", cases[i].sentence);
    }
}

TEST(what_is_no_config_is_refused)
{
    write_file("broken.json", "{ \"head_dim\": [1, }");
    expect("describe broken.json", 1, "", "broken.json:1:");
    expect("describe missing.json", 2, "", "missing.json: No such file");
    write_file("list.json", "[1, 2]");
    expect("describe list.json", 1, "", "expected a map of settings");
    write_file("d.yaml", good);
    expect("describe d.yaml", 1, "", "not a model's config.json: it has neither num_hidden_layers");
    expect("verify d.yaml", 1, "", "d.yaml: text, not a pack; `attnc build` makes a pack");
    expect("list d.yaml", 1, "", "d.yaml: text, not a pack");
    write_file("part.json", "{ \"num_hidden_layers\": 2, \"n_head\": 32.5, \"head_dim\": 64.0 }");
    expect("describe part.json", 1, "", "part.json: n_head is '32.5', no whole number");
    write_file("part.json", "{ \"num_hidden_layers\": 2, \"n_head\": 32.0, \"head_dim\": 64.0,\n"
                            "  \"sliding_window\": 1e99 }");
    expect("describe part.json", 1, "", "sliding_window is '1e99', no whole number");
    write_file("part.json", "{ \"model_type\": \"llama\", \"num_hidden_layers\": 2, \"n_head\": "
                            "32.0, \"head_dim\": 64.0 }");
    expect("describe part.json", 0, "32 query heads and 32 key/value heads", "");
    write_file("mamba.json", "{ \"model_type\": \"bamba\", \"num_hidden_layers\": 1,\n"
                             "  \"num_attention_heads\": 8, \"head_dim\": 64,\n"
                             "  \"layer_types\": [\"mamba\"] }");
    expect("describe mamba.json", 1, "", "no layer has softmax attention");
    a_config_that_lacks_something_is_told_what();
    write_file("new.json", "{ \"model_type\": \"new\", \"num_hidden_layers\": 2,\n"
                           "  \"num_attention_heads\": 8, \"head_dim\": 64,\n"
                           "  \"layer_types\": [\"attention\", \"dream\"] }");
    expect("describe new.json", 3, "# MISSING: knowledge of model_type 'new'",
           "missing: 1 layers of kind 'dream', which is not known");
    write_file("circle.yaml", "model_type: llama\nrope_scaling: &x\n  attn: *x\n"
                              "head_list: &l [*l, *l]\n");
    expect("describe circle.yaml", 3, "",
           "missing: head_list: [*, *], a setting that attnc does not");
    write_file("unread.json", "{ \"model_type\": \"llama\", \"attn_wobble\": 4,\n"
                              "  \"rope_scaling\": { \"wobble\": true } }");
    expect("describe unread.json", 3,
           "# MISSING: attn_wobble: 4, a setting that attnc does not know",
           "missing: rope_scaling.wobble: true, a setting that attnc does not know");
}

/* A description with errors leaves an old output unchanged and creates none. */
TEST(errors_touch_no_output)
{
    write_file("bad.yaml", "targets: [gfx942]\nkernels: [{ op: prefill, head_dim: 66 }]\n");
    write_file("old.pack", "old");
    expect("build bad.yaml -o old.pack --no-cache", 1, "",
           "bad.yaml:2:36: error: head_dim 66 is not 64 to 128 by 8, ");
    expect("build bad.yaml -o fresh.pack --no-cache", 1, "", "error");
    size_t size;
    char *text = read_file("old.pack", &size);
    assert_string_equal(text, "old");
    free(text);
    assert_false(exists("fresh.pack"));
    write_file("d.yaml", good);
    expect("build d.yaml -o none/such/x.pack --no-cache", 2, "", "none/such/x.pack: No such file");
    expect("build missing.yaml -o fresh.pack", 2, "", "missing.yaml: error: No such file");
}

/* The output's name means the input: another spelling of it, a symbolic link or a hard link. */
TEST(no_output_replaces_an_input)
{
    static const char config[] = "{\"num_attention_heads\": 8, \"head_dim\": 64}\n";
    static const char hook[] = "float attn_logits(float x) { return x; }\n";
    static const char hooked[] =
        "targets: gfx942\nkernels: [{ op: prefill, head_dim: 80, logits: hook.c }]\n";
    write_file("d.yaml", good);
    write_file("c.json", config);
    write_file("hook.c", hook);
    write_file("hooked.yaml", hooked);
    assert_int_equal(symlink("d.yaml", "symbolic.yaml"), 0);
    assert_int_equal(link("d.yaml", "hard.yaml"), 0);
    static const char *const outputs[] = {"d.yaml", "./d.yaml", "symbolic.yaml", "hard.yaml"};
    for (size_t i = 0; i < sizeof(outputs) / sizeof(outputs[0]); i++) {
        char args[64];
        snprintf(args, sizeof(args), "build d.yaml -o %s --no-cache", outputs[i]);
        expect(args, 1, "", "is an input of this command");
    }
    expect_file("d.yaml", good);
    expect("build hooked.yaml -o hook.c --no-cache", 1, "", "hook.c: is an input");
    expect_file("hook.c", hook);
    expect("describe c.json -o c.json", 1, "", "c.json: is an input");
    expect_file("c.json", config);
    expect("build d.yaml -o p.pack -q --cache cache", 0, "", "");
    size_t before, after;
    char *bytes = read_file("p.pack", &before), *same;
    expect("extract p.pack prefill_bf16_d80_gfx942 -o p.pack", 1, "", "p.pack: is an input");
    expect("trace p.pack prefill_bf16_d80_gfx942 -o p.pack", 1, "", "p.pack: is an input");
    expect("trace p.pack prefill_bf16_d80_gfx942 --annotate p.pack", 1, "", "p.pack: is an input");
    expect("trace p.pack prefill_bf16_d80_gfx942 -o t --annotate ./t", 1, "", "./t: is another");
    expect("build d.yaml -o x.pack --depfile x.pack", 1, "", "x.pack: is another output");
    expect("tune d.yaml -o x.pack --tuning x.pack", 1, "", "x.pack: is another output");
    expect("tune d.yaml -o x.pack --db x.pack", 1, "", "x.pack: is another output");
    expect("trace p.pack prefill_bf16_d80_gfx942 -o none/t.json", 2, "", "none/t.json: No such");
    expect("trace p.pack prefill_bf16_d80_gfx942 -o .", 2, "", ".: Is a directory");
    expect("trace p.pack prefill_bf16_d80_gfx942 --annotate .", 2, "", ".: Is a directory");
#define SMALL "--shape batch=1,heads=1,kv_heads=1,q=64,k=64 "
    expect("trace p.pack prefill_bf16_d80_gfx942 " SMALL "-o /dev/full", 2, "",
           "/dev/full: No space left on device");
    expect("trace p.pack prefill_bf16_d80_gfx942 " SMALL "--annotate /dev/full", 2, "",
           "/dev/full: No space left on device");
    same = read_file("p.pack", &after);
    assert_int_equal(before, after);
    assert_memory_equal(bytes, same, before);
    free(bytes);
    free(same);
}

/* An output that would have the same bytes keeps its modification time, which build systems
 * compare. */
TEST(an_output_with_the_same_bytes_is_left_alone)
{
    write_file("d.yaml", good);
    const struct timespec long_ago[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    struct stat st;
    expect("build d.yaml -o p.pack -q --cache cache", 0, "", "");
    assert_int_equal(utimensat(AT_FDCWD, "p.pack", long_ago, 0), 0);
    expect("build d.yaml -o p.pack -q --cache cache", 0, "", "");
    assert_int_equal(stat("p.pack", &st), 0);
    assert_int_equal(st.st_mtime, 1000);
    expect("build d.yaml -o p.pack -q --cache cache --only *942", 0, "", "");
    assert_int_equal(stat("p.pack", &st), 0);
    assert_int_not_equal(st.st_mtime, 1000);
}

/* One run reports all independent errors, and none that follows from another. */
TEST(independent_errors_are_found_together)
{
    write_file("d.yaml", "targets: [gfx942]\nkernels:\n"
                         "  - { op: decode, head_dim: 128, gqa: 300, page_size: 70000 }\n"
                         "  - { op: decode, head_dim: 520, page_size: 70000 }\n"
                         "  - { op: decode, head_dim: 128, kv_dtype: fp9, kv_scale: token }\n"
                         "  - { op: decode, head_dim: 128, gqa: 0 }\n");
    struct run r = run("build d.yaml -o p.pack --no-cache");
    const char *err = (char *)r.err.data;
    assert_int_equal(r.status, 1);
    assert_non_null(strstr(err, "d.yaml:3:39: error: expected gqa to be 1 to 256 or any, saw 300"));
    assert_non_null(strstr(err, "d.yaml:3:55: error: expected page_size to be 1 to 65536 or any"));
    assert_non_null(strstr(err, "d.yaml:4:29: error: head_dim 520 is not"));
    assert_non_null(strstr(err, "d.yaml:4:45: error: expected page_size to be 1 to 65536 or any"));
    assert_non_null(strstr(err, "d.yaml:5:44: error: unknown kv_dtype 'fp9'"));
    assert_null(strstr(err, "has no scale")); /* a scale is only needed for the intended kv_dtype */
    assert_non_null(strstr(err, "d.yaml:6:39: error: expected gqa to be 1 to 256 or any, saw 0"));
    assert_non_null(strstr(err, "attnc: 6 errors in 1 file; nothing was built"));
    end_run(&r);
}

TEST(a_combination_is_named)
{
    write_file("d.yaml",
               "targets: [gfx942]\nkernels:\n"
               "  - { op: decode, head_dim: 128, kv_dtype: [same, fp8], kv_scale: token }\n");
    expect("build d.yaml -o p.pack --no-cache", 1, "", "in the combination decode_bf16_d128_");
    write_file("e.yaml", "targets: [gfx942]\nkernels:\n"
                         "  - { op: prefill, head_dim: [66, 64], lse: [false, true] }\n");
    struct run r = run("build e.yaml -o p.pack --no-cache");
    assert_null(strstr((char *)r.err.data, "in the combination")); /* 66 is wrong by itself */
    end_run(&r);
}

TEST(a_file_that_is_no_description_is_told_apart)
{
    write_file("d.yaml", good);
    write_file("kernel.yaml", "targets: [gfx942]\nkernel: [{ op: prefill, head_dim: 80 }]\n");
    struct run r = run("build kernel.yaml -o x");
    assert_non_null(strstr((char *)r.err.data, "unknown key 'kernel'; did you mean 'kernels'?"));
    assert_null(strstr((char *)r.err.data, "no kernels"));
    end_run(&r);
    write_file("typo.yaml", "targets: [gfx942]\nkernels: [{ op: prefill, head_dmi: 64 }]\n");
    r = run("build typo.yaml -o x");
    assert_non_null(strstr((char *)r.err.data, "did you mean 'head_dim'?"));
    assert_null(strstr((char *)r.err.data, "prefill needs head_dim"));
    end_run(&r);
    write_file("open.yaml", "targets: [gfx942]\nkernels:\n  - op: [prefill\n    head_dim: 80\n");
    expect("build open.yaml -o x", 1, "", "the '[' of line 3, column 9, is open here");
    write_file("broken.json", "{ \"targets\": [\"gfx942\", }");
    expect("build broken.json -o x", 1, "", "not JSON: ");
    expect("build d.yaml -o p.pack -q --cache cache", 0, "", "");
    expect("build p.pack -o x", 1, "", "p.pack: error: a pack, not a description; `attnc list`");
    expect("trace d.yaml x", 1, "", "d.yaml: ");
    expect("trace p.pack prefill_bf16_d80_gfx924", 1, "",
           "did you mean 'prefill_bf16_d80_gfx942'?");
    expect("trace p.pack prefill_bf16_d80_gfx942 --shape bacth=2", 1, "", "did you mean 'batch'?");
    expect("trace p.pack prefill_bf16_d80_gfx942 --shape batch=1,q=64,batch=2", 1, "",
           "--shape: batch is given twice");
    expect("trace p.pack prefill_bf16_d80_gfx942 --shape q=64 --parameters hbm_ns=1,hbm_ns=2", 1,
           "", "a timing parameter is given twice: hbm_ns");
    expect("trace p.pack prefill_bf16_d80_gfx942 --shape q=64 --parameters hbm_ns=-1", 1, "",
           "a timing parameter is a number from 0 on: hbm_ns=-1");
    expect("trace p.pack prefill_bf16_d80_gfx942 --shape q=64 --parameters hbm=1", 1, "",
           "there is no such timing parameter: hbm");
}

static size_t count_bytes(const char *text, size_t size, char c)
{
    size_t count = 0;
    for (size_t i = 0; i < size; i++)
        count += text[i] == c;
    return count;
}

/* Runs attnc and expects JSON on standard output: a YAML parser reads it, and its brackets
 * balance. */
static void expect_json(const char *args, int status, const char *word)
{
    struct run r = run(args);
    const char *out = (char *)r.out.data;
    if (r.status != status || !strstr(out, word))
        fail_msg("attnc %s: expected %d, '%s'; saw %d\n%.2000s\n%.2000s", args, status, word,
                 r.status, out, (char *)r.err.data);
    struct attnc_yaml y;
    struct attnc_diag d = {.file = "out", .text = out, .size = r.out.size};
    assert_true(out[0] == '{' || out[0] == '[');
    assert_true(attnc_yaml_parse(&y, out, r.out.size, &d));
    assert_int_equal(count_bytes(out, r.out.size, '{'), count_bytes(out, r.out.size, '}'));
    attnc_yaml_free(&y);
    attnc_diag_clear(&d);
    end_run(&r);
}

TEST(every_command_speaks_json)
{
    write_file("d.yaml", good);
    write_file("bad.yaml", "targets: [gfx942]\nkernels: [{ op: prefill, head_dim: \"7\\\"2\" }]\n");
    write_file("c.json", "{ \"model_type\": \"llama\", \"num_hidden_layers\": 2,\n"
                         "  \"num_attention_heads\": 8, \"head_dim\": 64 }");
    expect_json("build d.yaml -o p.pack --json --cache c -q", 0, "\"compiled\": 2");
    expect_json("build d.yaml -o p.pack --json --cache c -q", 0, "\"cached\": 2");
    expect_json("build bad.yaml -o x --json -q", 1, "saw '7\\\"2'");
    expect("build d.yaml --emit=variants --json", 1, "", "--json needs -o FILE");
    expect_json("describe c.json -o c.yaml --json", 0, "\"kv_heads\": 8");
    expect("describe c.json --json", 1, "", "--json needs -o FILE");
    expect_json("list p.pack --json", 0, "\"head_dim\": \"80\"");
    expect_json("extract p.pack prefill_bf16_d80_gfx950 -o k.co --json", 0, "\"bytes\": ");
    expect("extract p.pack prefill_bf16_d80_gfx950 -o - --json", 1, "", "both write to standard");
    expect_json("version --json", 0, "\"product\": \"MI300X\"");
    expect_json("help --json", 0, "\"name\": \"cache_gather\"");
    expect_json("cache --cache c --json", 0, "\"kernels\": 2");
    setenv("HIP_VISIBLE_DEVICES", "7", 1); /* for the machine's GPUs; the simulated one is not
                                            * affected */
    expect_json("trace p.pack *gfx942 --shape batch=1,heads=1,kv_heads=1,q=64 --json", 0,
                "\"stall_cycles\": {");
    unsetenv("HIP_VISIBLE_DEVICES");
}

TEST(packs_are_compared)
{
    write_file("d.yaml", good);
    expect("build d.yaml -o a.pack -q --cache cache", 0, "", "");
    expect("build d.yaml -o b.pack -q --cache cache --only *950", 0, "", "");
    expect("diff a.pack a.pack", 0, "0 kernels differ, 2 are the same", "");
    expect("diff a.pack b.pack", 1, "- prefill_bf16_d80_gfx942\n1 kernels differ, 1 are", "");
    expect("diff b.pack a.pack", 1, "+ prefill_bf16_d80_gfx942\n", "");
    expect_json("diff a.pack b.pack --json", 1, "\"change\": \"removed\"");
    /* Without a pass, a kernel has the same name and other code. */
    expect("build d.yaml -o c.pack -q --no-cache --disable opt_schedule", 0, "", "");
    expect("diff a.pack c.pack", 1, "~ prefill_bf16_d80_gfx942:", "");
    expect("diff a.pack d.yaml", 1, "", "d.yaml: ");
}

/* The tile is part of a kernel's name, not of its dispatch key. */
TEST(packs_are_compared_by_key)
{
    static const char *const names[] = {"auto", "8", "9"};
    for (int i = 0; i < 3; i++) {
        char text[128], command[64];
        snprintf(text, sizeof(text),
                 "targets: [gfx942]\nkernels: [{ op: prefill, head_dim: 80, tile: %s }]\n",
                 names[i]);
        write_file("tile.yaml", text);
        snprintf(command, sizeof(command), "build tile.yaml -o %s.pack -q --cache cache", names[i]);
        expect(command, 0, "", "");
    }
    expect("diff auto.pack 8.pack", 1, "+ prefill_bf16_d80_tile8_gfx942\n2 kernels differ, 0 ", "");
    expect("diff auto.pack 8.pack --by-key", 0, "0 kernels differ, 1 are the same", "");
    expect("diff 8.pack 9.pack --by-key", 1, "8_gfx942 -> prefill_bf16_d80_tile9_gfx942: code", "");
    expect_json("diff 8.pack 9.pack --by-key --json", 1, "\"new_name\": \"prefill_bf16_d80_tile9");
    write_file("wide.yaml", "targets: [gfx942]\nkernels: [{ op: prefill, head_dim: 96 }]\n");
    expect("build wide.yaml -o wide.pack -q --cache cache", 0, "", "");
    expect("diff wide.pack auto.pack --by-key", 1, "2 kernels differ, 0 are the same", "");
}

/* The page is self-contained and has the launches and hot loops of every kernel. */
TEST(a_report_is_one_page)
{
    write_file("d.yaml", good);
    expect("build d.yaml -o a.pack -q --cache cache", 0, "", "");
    expect("report a.pack -o a.html --no-verify -j 2", 0, "", "");
    char *data = page_data("a.html");
    assert_non_null(strstr(data, "\"verification\": null"));
    assert_non_null(strstr(data, "\"q\": 1024"));
    assert_non_null(strstr(data, "\"prefill_bf16_d80_gfx950\": [["));
    assert_non_null(strstr(strstr(data, "\"listings\""), "v_mfma_f32_"));
    free(data);
    expect("report a.pack a.pack -o two.html --no-verify --no-trace", 0, "", "");
    expect("report a.pack -o a.pack", 1, "", "a.pack: is an input");
    expect("report d.yaml", 1, "", "d.yaml: ");
    write_file("v.json", "{\"failed\": 0}");
    expect("report a.pack -o v.html --verified v.json --no-trace", 0, "", "");
    data = page_data("v.html");
    assert_non_null(strstr(data, "\"verification\": {\"failed\": 0}"));
    free(data);
    expect("report a.pack --verified d.yaml --no-trace", 1, "", "not what `attnc verify --json`");
}

/* Rows with long names of shapes have their numbers below the headings. */
TEST(columns_are_as_wide_as_names)
{
    write_file("d.yaml", "targets: [gfx942]\nkernels: [{ op: chosen_lists }]\n");
    expect("build d.yaml -o a.pack -q", 0, "", "");
    struct run r = run("verify a.pack --device sim --shapes 3");
    assert_int_equal(r.status, 0);
    ptrdiff_t verdict = 0;
    int rows = 0;
    for (const char *line = (const char *)r.out.data; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        const char *const end = line + strcspn(line, "\n"), *const word = strstr(line, "VERDICT");
        if (word && word < end)
            verdict = word - line;
        if (end - line < 4 || strncmp(end - 4, "  ok", 4))
            continue;
        assert_int_equal(end - 2 - line, verdict);
        rows++;
    }
    assert_int_equal(rows, 3);
    end_run(&r);
}

static long largest_bytes;

static int find_largest(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    (void)path, (void)where;
    if (kind == FTW_F && st->st_size > largest_bytes)
        largest_bytes = (long)st->st_size;
    return 0;
}

TEST(the_cache_is_kept_small)
{
    write_file("d.yaml", good);
    expect("cache --cache c", 0, "c: 0 kernels, 0.0 MiB", "");
    expect("build d.yaml -o p.pack -q --cache c", 0, "", "");
    write_file("c/notes", "not a kernel");
    expect("cache --cache c", 0, "c: 2 kernels", "");
    /* The kernel for gfx942 is used again, so that a limit removes the other one. */
    const struct timespec pause = {.tv_nsec = 20000000};
    nanosleep(&pause, NULL);
    expect("build d.yaml -o p.pack -q --cache c --only *942", 0, "", "");
    /* The limit of the cache has room for one of the kernels, but not for both. */
    largest_bytes = 0;
    assert_int_equal(nftw("c", find_largest, 8, FTW_PHYS), 0);
    char limited[64];
    snprintf(limited, sizeof(limited), "cache --cache c --limit %ld", largest_bytes);
    expect(limited, 0, "1 kernel, ", "");
    expect("build d.yaml -o p.pack --cache c --only *942", 0, "", "0 compiled, 1 from the cache");
    expect("build d.yaml -o p.pack --cache c --cache-limit 0", 0, "", "1 compiled, 1 from");
    expect("cache --cache c", 0, "c: 0 kernels", "");
    expect("build d.yaml -o p.pack -q --cache c", 0, "", "");
    expect("cache --cache c --clear", 0, "0 kernels, 0.0 MiB; 2 removed", "");
    expect("cache --limit 3X", 1, "", "expected --limit to be a size like 512M or 2G, saw '3X'");
    expect_file("c/notes", "not a kernel");
}

/* The depfile lists what a pack depends on, including hooks and their includes. */
TEST(a_depfile_names_every_input)
{
    write_file("d.yaml", "targets: gfx950\n"
                         "kernels: [{ op: prefill, head_dim: 80, logits: hook.c }]\n");
    write_file("slope.h", "#define SLOPE 2.0f\n");
    write_file("hook.c", "#include <attn_hook.h>\n#include \"slope.h\"\n"
                         "float attn_logits(float logit, int query, int key, int head, int q_len,\n"
                         "                  int kv_len, const ATTN_DEVICE void *arg)\n"
                         "{ return logit * SLOPE; }\n");
    expect("build d.yaml -o p.pack -q --no-cache --depfile p.d", 0, "", "");
    size_t size;
    char *rule = read_file("p.d", &size);
    assert_non_null(rule);
    assert_memory_equal(rule, "p.pack: \\\n d.yaml \\\n", 20);
    assert_non_null(strstr(rule, "hook.c"));
    assert_non_null(strstr(rule, "slope.h"));
    assert_non_null(strstr(rule, "attn_hook.h"));
    free(rule);
    expect("build d.yaml --emit=asm --depfile p.d", 1, "", "--depfile needs -o FILE");
    expect("build d.yaml -o p.pack --depfile hook.c", 1, "", "hook.c: is an input");
}

TEST(shells_complete_every_option)
{
    expect("completion bash", 0, "build) words='--help --output --jobs --target", "");
    expect("completion zsh", 0, "'(-j --jobs)'{-j,--jobs}'[kernels to compile at once", "");
    expect("completion fish", 0, "-n '__fish_seen_subcommand_from verify' -l json", "");
    expect("completion", 1, "", "usage: attnc completion bash|zsh|fish");
    expect("completion fihs", 1, "", "did you mean 'fish'?");
}

/* Kernels in the cache stay valid with another libattn, since libattn compiles nothing. Any other
 * library may take part in compiling, so kernels are compiled again if one more is loaded. */
TEST(another_libattn_compiles_nothing)
{
    write_file("d.yaml", "targets: gfx942\nkernels: [{ op: prefill, head_dim: 80 }]\n");
    expect("build d.yaml -o p.pack -q --cache c", 0, "", "");
    char copy[PATH_MAX + 64];
    snprintf(copy, sizeof(copy), "mkdir lib && cp %.*s/../../runtime/libattn.so.0 lib",
             (int)(strrchr(command_path, '/') - command_path), command_path);
    assert_int_equal(system(copy), 0);
    setenv("LD_LIBRARY_PATH", "lib", 1);
    expect("build d.yaml -o p.pack --cache c", 0, "", "0 compiled, 1 from the cache");
    unsetenv("LD_LIBRARY_PATH");
    setenv("LD_PRELOAD", "libanl.so.1", 1);
    expect("build d.yaml -o p.pack --cache c", 0, "", "1 compiled, 0 from the cache");
    unsetenv("LD_PRELOAD");
}

TEST(a_pack_is_built_listed_and_extracted)
{
    write_file("d.yaml", good);
    write_file("again.yaml", "targets: gfx942\nkernels: [{ op: prefill, head_dim: 80 }]\n");
    expect("build d.yaml again.yaml -o one.pack --cache c", 0, "",
           "[2/2]"); /* a kernel of both descriptions is built once */
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
    expect("list one.pack", 0, "prefill_bf16_d80_gfx942", "");
    expect("list one.pack --json", 0, "\"head_dim\": \"80\"", "");
    expect("extract one.pack prefill_bf16_d80_gfx942 -o k.co", 0, "", "");
    expect("extract one.pack prefill_bf16_d80_gfx943 -o k2.co", 1, "",
           "did you mean 'prefill_bf16_d80_gfx942'?");
    assert_false(exists("k2.co"));
    char *elf = read_file("k.co", &size);
    assert_memory_equal(elf, "\177ELF", 4);
    free(elf);
}

TEST(every_step_can_be_looked_at)
{
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
    assert_true(exists("all/prefill_bf16_d80_gfx942.co"));
    assert_true(exists("all/prefill_bf16_d80_gfx950.co"));
    size_t size;
    char *header = read_file("qwen-3.h", &size);
    assert_non_null(strstr(header, "attn_pack_qwen_3"));
    free(header);
}

/* Runs a shell command line with `%s` replaced by attnc, and returns its exit status. */
static int shell(const char *line, char *err, size_t size)
{
    char text[4096];
    const char *argv[] = {"/bin/sh", "-c", text, NULL};
    struct tgt_blob out, said;
    int status;
    snprintf(text, sizeof(text), line, command_path);
    assert_true(attnc_run_process(argv, &out, &said, &status));
    snprintf(err, size, "%s", (char *)said.data);
    tgt_blob_free(&out);
    tgt_blob_free(&said);
    return status;
}

TEST(a_reader_that_goes_away_has_read_enough)
{
    char err[400];
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    close(ends[0]);
    assert_int_equal(dup2(ends[1], 9), 9);
    assert_int_equal(shell("%s help >&9", err, sizeof(err)), 141);
    assert_string_equal(err, "");
    close(ends[1]);
    close(9);
    assert_int_equal(shell("%s help >/dev/full", err, sizeof(err)), 2);
    assert_string_equal(err, "attnc: cannot write to standard output\n");
}

/* Usage: test_cli ATTNC */
int main(int argc, char **argv)
{
    command_path = argc == 2 ? realpath(argv[1], NULL) : NULL; /* tests change the directory */
    if (!command_path)
        return 1;
    int failed = run_unit_tests_between(setup, teardown);
    free(command_path);
    return failed;
}
