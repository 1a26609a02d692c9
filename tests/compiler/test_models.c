/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests attnc describe on the configs of published models (models.txt): the heads of every rank,
 * the kernels, and everything that is missing. Every resulting description must build.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/compiler/command.h"
#include "tests/unit_test.h"

enum { MAX_LINES = 40, LEAST_MODELS = 200 };

/* Most kernels of all models; entries of the table of pairs of field values; a number that the
 * chosen kernels have to exceed. */
enum { MAX_KERNELS = 2000, PAIR_TABLE = 1 << 14, LEAST_KERNELS = 250 };

/* A record of models.txt; its lines are parts of the text. */
struct model {
    const char *name, *config, *ranks, *refused;
    const char *kernels[MAX_LINES], *missing[MAX_LINES], *says[MAX_LINES], *layers[MAX_LINES];
    size_t kernel_count, missing_count, says_count, layers_count;
};

static char *table, *table_copy; /* models.txt, cut into lines while it is read */
static const char *cache;        /* folder of the kernels that packs have */

static bool take(const char *line, const char *key, const char **value)
{
    const size_t length = strlen(key);
    if (strncmp(line, key, length) != 0)
        return false;
    *value = line + length;
    return true;
}

/* Reads the next record and advances *at past it. False: the end. */
static bool next_model(char **at, struct model *m)
{
    *m = (struct model){0};
    while (*at && **at) {
        char *line = *at, *end = strchr(line, '\n');
        const char *value;
        if (m->name && strncmp(line, "model ", 6) == 0)
            return true;
        if (end)
            *end = '\0';
        *at = end ? end + 1 : NULL;
        if (take(line, "  kernel ", &value)) {
            assert_true(m->kernel_count < MAX_LINES);
            m->kernels[m->kernel_count++] = value;
        } else if (take(line, "  says ", &value)) {
            assert_true(m->says_count < MAX_LINES);
            m->says[m->says_count++] = value;
        } else if (take(line, "  layers ", &value)) {
            assert_true(m->layers_count < MAX_LINES);
            m->layers[m->layers_count++] = value;
        } else if (take(line, "  missing ", &value)) {
            assert_true(m->missing_count < MAX_LINES);
            m->missing[m->missing_count++] = value;
        } else if (!take(line, "model ", &m->name) && !take(line, "  config ", &m->config) &&
                   !take(line, "  refused ", &m->refused)) {
            take(line, "  ranks ", &m->ranks);
        }
    }
    return m->name != NULL;
}

static size_t count_of(const char *text, const char *word)
{
    size_t count = 0;
    for (; (text = strstr(text, word)) != NULL; text += strlen(word))
        count++;
    return count;
}

/* Returns the numbers of ranks that the table covers: up to 8, or 16. */
static const char *rank_counts(const struct model *m)
{
    return count_of(m->ranks, " ") == 4 ? "1,2,4,8,16" : "1,2,4,8";
}

/* Checks the description's lines for 1, 2, 4 ... ranks. m->ranks has the heads and KV heads of a
 * rank for each number of ranks, such as "32/8 16/4 - 4/1". "-": this number of ranks is not
 * possible. */
static void check_ranks(const struct model *m, const char *description)
{
    char copy[128], *state, *word = copy;
    snprintf(copy, sizeof(copy), "%s", m->ranks);
    word = strtok_r(copy, " ", &state);
    for (int tp = 1; tp <= 8 || word; tp *= 2, word = strtok_r(NULL, " ", &state)) {
        long heads, kv_heads;
        char line[100];
        assert_non_null(word);
        assert_true(tp <= 16);
        snprintf(line, sizeof(line), "#   TP %d: ", tp);
        if (sscanf(word, "%ld/%ld", &heads, &kv_heads) == 2)
            snprintf(line, sizeof(line), "#   TP %d: %ld query heads and %ld key/value heads a", tp,
                     heads, kv_heads);
        else
            assert_string_equal(word, "-");
        const bool wanted = word[0] != '-';
        if ((strstr(description, line) != NULL) != wanted)
            fail_msg("%s: expected%s '%s'\n%s", m->name, wanted ? "" : " no", line, description);
    }
}

/* Writes the sentence in which a description says which keys a query sees. */
static void write_seen(const char *seen, bool both, char *text, size_t size)
{
    long number;
    const char *sides = both ? " on each side" : "";
    if (sscanf(seen, "window=%ld", &number) == 1)
        snprintf(text, size, "a window of %ld keys%s", number, sides);
    else if (sscanf(seen, "chunk=%ld", &number) == 1)
        snprintf(text, size, "chunks of %ld keys", number);
    else
        snprintf(text, size, both ? "all keys, no causal mask" : "all keys up to the query's own");
}

/* Writes the comment that a line of layers describes. */
static void write_layers(const char *line, char *text, size_t size)
{
    long count, heads, kv_heads, dim, dim_v, rotary;
    char seen[32], scale[32], keys[80], values[40] = "", rotates[40] = "";
    const bool both = strstr(line, " both") != NULL;
    assert_int_equal(sscanf(line, "%ld %31s %ld/%ld %ld/%ld %ld %31s", &count, seen, &heads,
                            &kv_heads, &dim, &dim_v, &rotary, scale),
                     8);
    write_seen(seen, both, keys, sizeof(keys));
    if (dim_v != dim)
        snprintf(values, sizeof(values), " (values %ld)", dim_v);
    if (rotary)
        snprintf(rotates, sizeof(rotates), ", %ld rotate", rotary);
    snprintf(text, size,
             "\n# %ld layers: %s%s%s; %ld query heads, %ld key/value heads of %ld%s%s; scale %s\n",
             count, keys, strstr(line, " sinks") ? ", sinks" : "", rotary ? "" : ", no rotation",
             heads, kv_heads, dim, values, rotates, scale);
}

/* Checks that exactly the table's kinds of layers are described. */
static void check_layers(const struct model *m, const char *description)
{
    for (size_t i = 0; i < m->layers_count; i++) {
        char text[300];
        write_layers(m->layers[i], text, sizeof(text));
        if (!strstr(description, text))
            fail_msg("%s: expected '%s'\n%.2000s", m->name, text, description);
    }
    if (m->layers_count && count_of(description, " layers: ") != m->layers_count)
        fail_msg("%s: expected %zu kinds of layers\n%.2000s", m->name, m->layers_count,
                 description);
}

static void check_comments(const struct model *m, const char *description)
{
    for (size_t i = 0; i < m->says_count; i++) {
        if (!strstr(description, m->says[i]))
            fail_msg("%s: expected '%s'\n%s", m->name, m->says[i], description);
    }
}

static void check_refusal(const struct model *m)
{
    struct run r = run("describe model.json -o model.yaml");
    const char *said = (char *)r.err.data;
    if (r.status != 1 || !strstr(said, m->refused))
        fail_msg("%s: exit code %d, expected '%s'\n%s", m->name, r.status, m->refused, said);
    for (size_t i = 0; i < m->missing_count; i++) {
        if (!strstr(said, m->missing[i]))
            fail_msg("%s: nothing is said of '%s'\n%s", m->name, m->missing[i], said);
    }
    assert_false(exists("model.yaml"));
    end_run(&r);
}

/* Checks that exactly what the table lists is missing, on the terminal and in the file. */
static void check_missing(const struct model *m, const char *description, const char *said)
{
    for (size_t i = 0; i < m->missing_count; i++) {
        if (!strstr(said, m->missing[i]) || !strstr(description, m->missing[i]))
            fail_msg("%s: nothing is said of '%s'\n%s", m->name, m->missing[i], said);
    }
    if (count_of(said, ": missing: ") != m->missing_count ||
        count_of(description, "# MISSING: ") != m->missing_count)
        fail_msg("%s: expected %zu sentences on what is missing\n%s", m->name, m->missing_count,
                 said);
}

/* True if a line for this target has the op and every field. */
static bool has_kernel(const char *variants, const char *target, const char *kernel)
{
    char first[64];
    snprintf(first, sizeof(first), "%s %.*s ", target, (int)strcspn(kernel, " "), kernel);
    for (const char *line = variants; *line;) {
        char copy[1024], words[256], *state;
        const size_t length = strcspn(line, "\n");
        snprintf(copy, sizeof(copy), "%.*s ", (int)length, line);
        snprintf(words, sizeof(words), "%s", kernel + strcspn(kernel, " "));
        bool found = strncmp(copy, first, strlen(first)) == 0;
        for (char *word = strtok_r(words, " ", &state); word && found;
             word = strtok_r(NULL, " ", &state)) {
            char whole[80];
            snprintf(whole, sizeof(whole), " %s ", word);
            found = strstr(copy, whole) != NULL;
        }
        if (found)
            return true;
        line += length + (line[length] == '\n');
    }
    return false;
}

static void check_kernels(const struct model *m)
{
    static const char *const targets[] = {"gfx942", "gfx950"};
    struct run r = run("build model.yaml --emit=variants");
    if (r.status != 0)
        fail_msg("%s: its description is not accepted\n%s", m->name, (char *)r.err.data);
    for (size_t i = 0; i < m->kernel_count; i++) {
        for (int t = 0; t < 2; t++) {
            if (!has_kernel((char *)r.out.data, targets[t], m->kernels[i]))
                fail_msg("%s on %s: no kernel '%s'\n%s", m->name, targets[t], m->kernels[i],
                         (char *)r.out.data);
        }
    }
    end_run(&r);
}

TEST(every_model_is_described_whole_or_says_what_is_missing)
{
    struct model m;
    size_t count = 0;
    for (char *at = table; next_model(&at, &m); count++) {
        size_t size;
        assert_true(m.config && (m.ranks || m.refused));
        char describe[80];
        write_file("model.json", m.config);
        remove("model.yaml");
        if (m.refused) {
            check_refusal(&m);
            continue;
        }
        snprintf(describe, sizeof(describe), "describe model.json --tp %s -o model.yaml",
                 rank_counts(&m));
        struct run r = run(describe);
        if (r.status != (m.missing_count ? 3 : 0))
            fail_msg("%s: exit code %d\n%s", m.name, r.status, (char *)r.err.data);
        char *description = read_file("model.yaml", &size);
        assert_non_null(description);
        check_ranks(&m, description);
        check_layers(&m, description);
        check_comments(&m, description);
        check_missing(&m, description, (char *)r.err.data);
        check_kernels(&m);
        free(description);
        end_run(&r);
    }
    assert_true(count >= LEAST_MODELS);
}

/* True for models whose kernels of rope_decode the test builds. Other models have the same kernels,
 * or kernels with more registers. */
static bool has_whole_steps(const struct model *m)
{
    return !strcmp(m->name, "Llama-3.1-70B") || !strcmp(m->name, "gpt-oss-120b");
}

/* Writes the description of a model, for as many ranks as the table has, to a file of its name. */
static void describe_for_build(const struct model *m)
{
    char describe[200];
    write_file("model.json", m->config);
    snprintf(describe, sizeof(describe), "describe model.json --tp %s -o %s.yaml%s",
             has_whole_steps(m) ? "8" : rank_counts(m), m->name,
             has_whole_steps(m) ? "" : " --separate");
    struct run r = run(describe);
    end_run(&r);
}

/* The kernels that the descriptions of all models expand to, in the lines of --emit=variants. */
struct kernels {
    char *lines[MAX_KERNELS];
    /* Numbers of the pairs of field values that each kernel has, and how many these are. */
    unsigned *pairs[MAX_KERNELS], pair_counts[MAX_KERNELS];
    size_t count;
    bool covered[PAIR_TABLE]; /* pairs that a chosen kernel has */
    char *names[PAIR_TABLE];  /* text of each pair; NULL: no pair has this number */
    size_t used;              /* number of pairs in the table */
};

/* Returns the number of a pair of field values of an op: its place in the table. */
static unsigned number_pair(struct kernels *k, const char *op, const char *a, const char *b)
{
    char text[256];
    unsigned hash = 5381;
    const int length = snprintf(text, sizeof(text), "%s %s %s", op, a, b);
    assert_true(length < (int)sizeof(text));
    for (const char *at = text; *at; at++)
        hash = hash * 33 + (unsigned char)*at;
    for (hash %= PAIR_TABLE; k->names[hash]; hash = (hash + 1) % PAIR_TABLE) {
        if (!strcmp(k->names[hash], text))
            return hash;
    }
    k->names[hash] = strdup(text);
    assert_true(++k->used < PAIR_TABLE);
    return hash;
}

/* Adds the kernel of a line "gfx950 OP FIELD=VALUE ...". */
static void add_kernel(struct kernels *k, char *line)
{
    char copy[1024], *words[MAX_LINES], *state;
    unsigned count = 0, pairs = 0;
    snprintf(copy, sizeof(copy), "%s", line);
    for (char *word = strtok_r(copy, " ", &state); word; word = strtok_r(NULL, " ", &state)) {
        assert_true(count < MAX_LINES);
        words[count++] = word;
    }
    assert_true(count >= 2 && k->count < MAX_KERNELS);
    k->pairs[k->count] = calloc((size_t)count * count, sizeof(unsigned));
    /* From the op on, each word with itself as well: a kernel without fields has a pair. */
    for (unsigned i = 1; i < count; i++)
        for (unsigned j = i; j < count; j++)
            k->pairs[k->count][pairs++] = number_pair(k, words[1], words[i], words[j]);
    k->pair_counts[k->count] = pairs;
    k->lines[k->count++] = line;
}

/* Returns the number of pairs of kernel `n` that no chosen kernel has. */
static unsigned new_pairs(const struct kernels *k, size_t n)
{
    unsigned found = 0;
    for (unsigned i = 0; i < k->pair_counts[n]; i++)
        found += !k->covered[k->pairs[n][i]];
    return found;
}

/* Writes kernel `n` as an entry of a description, and marks its pairs as covered. */
static void choose(struct kernels *k, size_t n, FILE *f)
{
    char copy[1024], *state;
    snprintf(copy, sizeof(copy), "%s", k->lines[n]);
    strtok_r(copy, " ", &state);
    fprintf(f, "  - {op: %s", strtok_r(NULL, " ", &state));
    for (char *word = strtok_r(NULL, " ", &state); word; word = strtok_r(NULL, " ", &state)) {
        const int name = (int)strcspn(word, "=");
        fprintf(f, ", %.*s: %s", name, word, word + name + 1);
    }
    fputs("}\n", f);
    for (unsigned i = 0; i < k->pair_counts[n]; i++)
        k->covered[k->pairs[n][i]] = true;
}

/* Writes a description of kernels that together have each pair of field values of an op. Takes the
 * kernel with the most new pairs, until none has one. Returns the number of kernels. */
static size_t write_covering(struct kernels *k, const char *path)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("targets: gfx950\nkernels:\n", f);
    for (size_t chosen = 0;; chosen++) {
        size_t best = 0;
        for (size_t n = 1; n < k->count; n++) {
            if (new_pairs(k, n) > new_pairs(k, best))
                best = n;
        }
        if (!new_pairs(k, best)) {
            fclose(f);
            return chosen;
        }
        choose(k, best, f);
    }
}

static void free_kernels(struct kernels *k)
{
    for (size_t i = 0; i < k->count; i++)
        free(k->pairs[i]);
    for (size_t i = 0; i < PAIR_TABLE; i++)
        free(k->names[i]);
}

/*
 * Builds kernels of all models that together have each pair of field values of an op. Compiling all
 * of them takes more than twice as long. One target suffices to show that the compiler can make the
 * shapes that the reader accepts.
 */
TEST(all_descriptions_build)
{
    static struct kernels k;
    struct model m;
    static char args[1 << 14] = "build";
    char *next, build[200];
    size_t length = strlen(args);
    for (char *at = table_copy; next_model(&at, &m);) {
        if (m.refused)
            continue;
        describe_for_build(&m);
        length += (size_t)snprintf(args + length, sizeof(args) - length, " %s.yaml", m.name);
        assert_true(length < sizeof(args) - 1000);
    }
    snprintf(args + length, sizeof(args) - length, " --target gfx950 --emit=variants");
    struct run r = run(args);
    assert_int_equal(r.status, 0);
    for (char *line = strtok_r((char *)r.out.data, "\n", &next); line;
         line = strtok_r(NULL, "\n", &next))
        add_kernel(&k, line);
    const size_t chosen = write_covering(&k, "cover.yaml");
    printf("%zu of %zu kernels have all %zu pairs of field values\n", chosen, k.count, k.used);
    assert_true(chosen > LEAST_KERNELS);
    snprintf(build, sizeof(build), "build cover.yaml --cache %s -q -o all.attnpack", cache);
    expect(build, 0, "", "");
    free_kernels(&k);
    end_run(&r);
}

/* An engine with one pool for all layers makes pages of attention as large as a linear layer's
 * state. */
TEST(pages_of_hybrid_models_are_described)
{
    static const char *const models[] = {
        "{\"model_type\":\"qwen3_next\",\"hidden_size\":2048,\"num_attention_heads\":16,"
        "\"num_key_value_heads\":2,\"num_hidden_layers\":4,\"head_dim\":256}",
        "{\"model_type\":\"nemotron_h\",\"hidden_size\":4096,\"num_attention_heads\":32,"
        "\"num_key_value_heads\":8,\"num_hidden_layers\":4,\"hybrid_override_pattern\":\"M-M*\"}",
    };
    static const int pages[] = {272, 544, 2048};
    const struct model wanted = {.name = "pages", .kernel_count = 2};
    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]) * 3; i++) {
        char words[100], decode[40], prefill[60];
        struct model m = wanted;
        write_file("model.json", models[i / 3]);
        snprintf(words, sizeof(words), "describe model.json --tp 1,8 --page-size %d -o model.yaml",
                 pages[i % 3]);
        expect(words, 0, "", "");
        snprintf(decode, sizeof(decode), "decode page_size=%d", pages[i % 3]);
        snprintf(prefill, sizeof(prefill), "prefill paged=true page_size=%d", pages[i % 3]);
        m.kernels[0] = decode;
        m.kernels[1] = prefill;
        check_kernels(&m);
    }
}

/* Describes a hybrid model with drafts, and checks its kernels. */
static void check_drafts(const char *config, const char *options, int status, const char *missing,
                         const char *const kernels[], size_t count)
{
    char words[100];
    struct model m = {.name = "drafts", .kernel_count = count};
    memcpy(m.kernels, kernels, count * sizeof(kernels[0]));
    write_file("model.json", config);
    snprintf(words, sizeof(words), "describe model.json --tp 8 -o model.yaml %s", options);
    expect(words, status, "", missing);
    check_kernels(&m);
}

/* Up to 8 tokens of a sequence are verified in one launch of a gated delta layer. */
TEST(drafts_of_hybrid_models_are_described)
{
    static const char heads[] = "\"hidden_size\":4096,\"num_attention_heads\":32,"
                                "\"num_key_value_heads\":8,\"num_hidden_layers\":4,";
    static const char *const delta[] = {
        "gated_delta_step drafts=true",       "conv1d tree=true",
        "gated_delta tree=true replay=false", "gated_delta tree=false replay=true",
        "decode q_len=8 mask=custom",         "decode q_len=8 mask=causal"};
    static const char *const mamba[] = {"conv1d tree=true", "ssd tree=true", "ssd tree=false"};
    char next[300], nemotron[300], jamba[300];
    size_t size;
    snprintf(next, sizeof(next), "{\"model_type\":\"qwen3_next\",%s\"head_dim\":256}", heads);
    snprintf(nemotron, sizeof(nemotron),
             "{\"model_type\":\"nemotron_h\",%s\"hybrid_override_pattern\":\"M-M*\"}", heads);
    snprintf(jamba, sizeof(jamba), "{\"model_type\":\"jamba\",%s\"attn_layer_period\":4}", heads);
    check_drafts(next, "--draft-tokens 7 --draft-tree", 0, "", delta, 6);
    check_drafts(nemotron, "--draft-tokens 7 --draft-tree", 0, "", mamba, 3);
    check_drafts(jamba, "--draft-tokens 7 --draft-tree", 3,
                 "trees of drafts in Mamba1: selective_scan verifies chains", mamba, 1);
    check_drafts(next, "--draft-tokens 8", 0, "", delta + 3, 1);
    char *const description = read_file("model.yaml", &size);
    assert_true(strstr(description, "op: gated_delta_step") != NULL);
    assert_null(strstr(description, "drafts:"));
    assert_null(strstr(description, "tree:"));
    free(description);
}

/* Sizes of linear layers that are wrong are faults or gaps, named by their setting. */
TEST(wrong_sizes_of_linear_layers_are_named)
{
    static const struct {
        const char *type, *settings;
        int status;
        const char *said;
    } cases[] = {
        {"qwen3_next", "\"linear_num_key_heads\":3", 3, "value heads are no multiple of its heads"},
        {"qwen3_next", "\"linear_num_key_heads\":\"3\"", 1, "linear_num_key_heads"},
        {"qwen3_next", "\"linear_num_value_heads\":9999999", 3,
         "linear_num_value_heads is out of range"},
        {"qwen3_next", "\"linear_key_head_dim\":96", 3, "gated delta net: "},
        {"qwen3_next", "\"linear_conv_kernel_dim\":9", 3, "the short convolution: "},
        {"qwen3_next", "\"output_gate_type\":\"tanh\"", 1, "expected sigmoid, silu or swish"},
        {"qwen3_next", "\"linear_allow_neg_eigval\":true", 3, "betas from 0 to 2"},
        {"qwen3_next", "\"linear_new\":1", 3, "linear_new: 1, a setting that attnc does not know"},
        {"kimi_linear", "\"linear_attn_config\":{\"kda_layers\":[1,2,3],\"head_dim\":128}", 3,
         "Kimi delta attention: linear_attn_config.num_heads is not there"},
        {"kimi_linear",
         "\"linear_attn_config\":{\"kda_layers\":[1,2,3],\"head_dim\":128,\"num_heads\":16,"
         "\"gate_lower_bound\":5}",
         1, "linear_attn_config.gate_lower_bound is positive"},
        {"bamba", "\"attn_layer_indices\":[3],\"mamba_d_head\":\"wide\"", 1,
         "mamba_d_head is 'wide', expected a number, or auto"},
        {"bamba", "\"attn_layer_indices\":[3],\"mamba_d_head\":\"auto\",\"mamba_n_heads\":96", 3,
         "the elements of a head are not there"},
        {"bamba", "\"attn_layer_indices\":[3],\"mamba_hidden_act\":\"gelu\"", 3,
         "an activation that is not silu"},
        {"minimax", "\"attn_type_list\":[0,0,0,1],\"group_norm_size\":7", 1,
         "7 groups of the norm do not divide 16 heads of 128"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char config[600];
        snprintf(config, sizeof(config),
                 "{\"model_type\":\"%s\",\"hidden_size\":2048,\"num_attention_heads\":16,"
                 "\"num_key_value_heads\":2,\"num_hidden_layers\":4,\"head_dim\":128,%s}",
                 cases[i].type, cases[i].settings);
        write_file("model.json", config);
        expect("describe model.json", cases[i].status, "", cases[i].said);
    }
}

int main(int argc, char **argv)
{
    size_t size;
    command_path = argc == 4 ? realpath(argv[1], NULL) : NULL; /* tests change the directory */
    table = argc == 4 ? read_file(argv[2], &size) : NULL;
    table_copy = argc == 4 ? read_file(argv[2], &size) : NULL;
    cache = argc == 4 ? argv[3] : NULL;
    if (!command_path || !table || !table_copy)
        return 1;
    int failed = run_unit_tests_between(setup, teardown);
    free(command_path);
    free(table);
    free(table_copy);
    return failed;
}
