/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests which kernels `attnc describe` writes for weights of fp8 and for rows of pooled keys.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/compiler/command.h"
#include "tests/unit_test.h"

/* The configuration lists modules whose weights keep their type. It names kv_b_proj or whole
 * attention. */
TEST(describe_chooses_fp8_weights_by_names_of_modules)
{
    static const struct {
        const char *kept;
        bool fp8;
    } cases[] = {{"\"lm_head\"", true},
                 {"\"model.layers.0.self_attn.kv_a_proj_with_mqa\"", true},
                 {"\"model.layers.0.self_attn.kv_b_proj\"", false},
                 {"\"model.layers.0.self_attn\"", false},
                 {"\"re:.*self_attn.*\"", false}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[800];
        snprintf(text, sizeof(text),
                 "{ \"model_type\": \"deepseek_v3\", \"num_hidden_layers\": 4,\n"
                 "  \"hidden_size\": 7168, \"num_attention_heads\": 16, \"kv_lora_rank\": 512,\n"
                 "  \"q_lora_rank\": 1536, \"qk_nope_head_dim\": 128,\n"
                 "  \"qk_rope_head_dim\": 64, \"v_head_dim\": 128,\n"
                 "  \"quantization_config\": { \"quant_method\": \"fp8\",\n"
                 "    \"weight_block_size\": [128, 128], \"modules_to_not_convert\": [%s] } }\n",
                 cases[i].kept);
        write_file("weights.json", text);
        expect("describe weights.json --tp 8 -o w.yaml", 0, "", "");
        expect("build w.yaml --emit=variants", 0,
               cases[i].fp8 ? "weights=fp8_block product_dim" : "weights=same product_dim", "");
    }
}

/* The cache's rows of groups are e2m1, and its rows of the window have 528 bytes. The kernels write
 * both forms, and every list names rows of two tensors. */
TEST(describe_names_rows_of_e2m1)
{
    static const char *const layouts[] = {"packed_fp4", "packed_mxfp4"};
    write_file(
        "e2m1.json",
        "{ \"model_type\": \"deepseek_v41_text\", \"num_hidden_layers\": 3, \"hidden_size\": "
        "5120,\n"
        "  \"num_attention_heads\": 64, \"num_key_value_heads\": 1, \"head_dim\": 512,\n"
        "  \"qk_rope_head_dim\": 64, \"q_lora_rank\": 1280, \"sliding_window\": 128,\n"
        "  \"compress_ratios\": [0, 2, 2], \"kv_source_layer_ids\": [1],\n"
        "  \"index_source_layer_ids\": [1], \"index_n_heads\": 32, \"index_head_dim\": 128,\n"
        "  \"index_topk\": 512 }\n");
    for (unsigned i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
        char command[160], both[80], main_rows[80];
        snprintf(command, sizeof(command),
                 "describe e2m1.json --tp 8 --kv-dtype fp8 --kv-layout %s -o e.yaml", layouts[i]);
        snprintf(both, sizeof(both), "kv_layout: [%s, packed_mxfp8]", layouts[i]);
        snprintf(main_rows, sizeof(main_rows), "sparse=slots kv_dtype=fp8 kv_layout=%s",
                 layouts[i]);
        expect(command, 0, "", "");
        *strstr(command, " -o") = '\0';
        expect(command, 0, both, "");
        expect(command, 0, "two_sources: true\n    one_launch: [false, true]", "");
        expect("build e.yaml --emit=variants", 0, main_rows, "");
        expect("build e.yaml --emit=variants", 0, "kv_layout=packed_mxfp8 rope=gptj", "");
        expect("build e.yaml --emit=variants", 0, "cache_gather", "");
    }
    expect("describe e2m1.json --kv-dtype fp8 --kv-layout packed_mxfp8", 0,
           "kv_layout: packed_mxfp8\n    sparse: slots\n    two_sources: true", "");
    expect("describe e2m1.json --kv-layout packed_fp4", 1, "",
           "describe: the cache: kv_layout packed_fp4 is rows of 512 elements");
}

/* Pages that have whole tiles of 16 keys get the kernels of tiles, in every op that writes or reads
 * keys. A group of 4 tokens has one key, so such pages have a multiple of 64 tokens. */
TEST(describe_stores_keys_of_groups_in_tiles)
{
    static const char *const pages[][2] = {{"32", "nhd"}, {"64", "shuffle"}};
    static const char *const ops[] = {
        "compress dtype=bf16 head_dim=128 kv_dtype=fp8 kv_layout=%s",
        "indexer_rope_cache dtype=bf16 kv_layout=%s",
        "indexer_topk paged=true kv_layout=%s",
    };
    (void)state;
    write_file("groups.json",
               "{ \"model_type\": \"deepseek_v4\", \"num_hidden_layers\": 2,\n"
               "  \"hidden_size\": 4096, \"num_attention_heads\": 64,\n"
               "  \"num_key_value_heads\": 1, \"head_dim\": 512, \"qk_rope_head_dim\": 64,\n"
               "  \"q_lora_rank\": 1024, \"sliding_window\": 128,\n"
               "  \"layer_types\": [\"compressed_sparse_attention\", \"sliding_attention\"],\n"
               "  \"compress_rates\": { \"compressed_sparse_attention\": 4 },\n"
               "  \"index_n_heads\": 64, \"index_head_dim\": 128, \"index_topk\": 512 }\n");
    for (unsigned i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
        char text[120];
        snprintf(text, sizeof(text), "describe groups.json --tp 8 --page-size %s -o g.yaml",
                 pages[i][0]);
        expect(text, 0, "", "");
        for (unsigned j = 0; j < sizeof(ops) / sizeof(ops[0]); j++) {
            snprintf(text, sizeof(text), ops[j], pages[i][1]);
            expect("build g.yaml --emit=variants", 0, text, "");
        }
    }
}

/* Keys of bf16, each the mean of 4 tokens, are stored in tiles by the same rule. */
TEST(describe_stores_keys_of_16_bits_in_tiles)
{
    static const char *const pages[][2] = {{"32", "nhd"}, {"64", "shuffle"}};
    (void)state;
    write_file("means.json",
               "{ \"model_type\": \"qwen4_exp_text\", \"hidden_size\": 2560,\n"
               "  \"num_hidden_layers\": 1, \"num_attention_heads\": 24,\n"
               "  \"num_key_value_heads\": 2, \"head_dim\": 256,\n"
               "  \"layer_types\": [\"full_attention\"], \"partial_rotary_factor\": 0.25,\n"
               "  \"indexer_budget\": 2048, \"indexer_compress_ratio\": 4,\n"
               "  \"indexer_head_dim\": 128, \"indexer_n_heads\": 4,\n"
               "  \"indexer_kv_heads\": 1 }\n");
    for (unsigned i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
        char text[120];
        snprintf(text, sizeof(text), "describe means.json --tp 8 --page-size %s -o m.yaml",
                 pages[i][0]);
        expect(text, 0, "", "");
        snprintf(text, sizeof(text), "head_dim=128 kv_dtype=same kv_layout=%s", pages[i][1]);
        expect("build m.yaml --emit=variants", 0, text, "");
        snprintf(text, sizeof(text), "indexer_topk paged=true kv_layout=%s", pages[i][1]);
        expect("build m.yaml --emit=variants", 0, text, "");
    }
}

/* Pages of lists divide the cache's pages, and blocks of 128 tokens or groups of 4. */
TEST(describe_divides_pages_of_lists)
{
    static const struct {
        const char *file, *page, *comment, *kernel;
    } cases[] = {
        {"blocks", "64", "pages of 64 tokens: group_entries 2", "logits=none page_size=64"},
        {"blocks", "48", "pages of 16 tokens: group_entries 8", "logits=none page_size=16"},
        {"blocks", "256", "pages of 128 tokens: group_entries 1", "paged=true page_size=128"},
        {"fours", "64", "pages of 4 tokens: group_entries 1", "same_rows=false page_size=4"},
        {"fours", "6", "pages of 2 tokens: group_entries 2", "same_rows=false page_size=2"},
        {"fours", "3", "pages of 1 token: group_entries 4", "same_rows=false page_size=1"},
    };
    (void)state;
    write_file("blocks.json",
               "{ \"model_type\": \"minimax_m3\", \"hidden_size\": 2048,\n"
               "  \"num_hidden_layers\": 2,\n"
               "  \"num_attention_heads\": 16, \"num_key_value_heads\": 4, \"head_dim\": 128,\n"
               "  \"rotary_dim\": 64, \"sparse_attention_config\": {\n"
               "    \"use_sparse_attention\": true, \"sparse_index_dim\": 128,\n"
               "    \"sparse_num_index_heads\": 4, \"sparse_topk_blocks\": 16,\n"
               "    \"sparse_block_size\": 128, \"sparse_attention_freq\": [0, 1] } }\n");
    write_file("fours.json",
               "{ \"model_type\": \"glm5_next_text\", \"hidden_size\": 2048,\n"
               "  \"num_hidden_layers\": 1, \"num_attention_heads\": 16, \"kv_lora_rank\": 512,\n"
               "  \"num_key_value_heads\": 16, \"q_lora_rank\": 1536, \"qk_nope_head_dim\": 256,\n"
               "  \"qk_rope_head_dim\": 0, \"v_head_dim\": 256, \"mla_use_nope\": true,\n"
               "  \"index_topk\": 2048, \"index_n_heads\": 32, \"index_head_dim\": 128,\n"
               "  \"index_kpool\": 4, \"layer_types\": [\"deepseek_sparse_attention\"] }\n");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char command[100];
        snprintf(command, sizeof(command), "describe %s.json --tp 4 --page-size %s", cases[i].file,
                 cases[i].page);
        expect(command, 0, cases[i].comment, "");
        strcat(command, " -o l.yaml");
        expect(command, 0, "", "");
        expect("build l.yaml --emit=variants", 0, cases[i].kernel, "");
    }
    expect("describe blocks.json --tp 4 --page-size 256 --kv-layout shuffle -o l.yaml", 3, "",
           "a page of 256 tokens in kv_layout shuffle cannot be read as pages of 128");
    size_t size;
    char *const text = read_file("l.yaml", &size);
    assert_non_null(strstr(text, "op: indexer_topk"));
    assert_null(strstr(text, "op: chosen_lists")); /* no attention would read them */
    free(text);
}

/* The configuration has an element type of kernels, or another one, beside which a note says that
 * kernels are of bf16. */
TEST(describe_notes_element_types_without_kernels)
{
    static const struct {
        const char *dtype, *defaults;
        bool note;
    } cases[] = {{"bfloat16", "defaults: { dtype: bf16", false},
                 {"float16", "defaults: { dtype: fp16", false},
                 {"float32", "defaults: { dtype: bf16", true}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[300];
        snprintf(text, sizeof(text),
                 "{ \"model_type\": \"llama\", \"num_hidden_layers\": 4, \"hidden_size\": 4096,\n"
                 "  \"num_attention_heads\": 32, \"torch_dtype\": \"%s\" }\n",
                 cases[i].dtype);
        write_file("dtype.json", text);
        struct run r = run("describe dtype.json");
        assert_int_equal(r.status, 0);
        assert_non_null(strstr((char *)r.out.data, cases[i].defaults));
        assert_int_equal(strstr((char *)r.out.data, "# NOTE: the model's dtype") != NULL,
                         cases[i].note);
        end_run(&r);
    }
}

/* A long text in a list of settings has "..." and its closing quote. */
TEST(describe_shortens_texts_of_settings)
{
    write_file("long.json", "{ \"model_type\": \"llama\", \"num_hidden_layers\": 4,\n"
                            "  \"architectures\": [\"LlamaForSequenceClassificationOfTexts\"] }\n");
    expect("describe long.json", 0, "architectures [\"LlamaForSequenceCl...\"]", "");
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    command_path = realpath(argv[1], NULL); /* tests change the directory */
    return run_unit_tests_between(setup, teardown);
}
