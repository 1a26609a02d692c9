/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc describe: writes the description of the kernels that serve a model, from its config.json
 * (Hugging Face layout). Users build or edit the description. What attnc lacks for the model is a
 * comment in it, and a message.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "compiler/read_file.h"
#include "compiler/yaml.h"
#include "targets/tgt.h"
#include "tools/attnc/cli/command.h"
#include "tools/attnc/describe/describe_entry.h"
#include "tools/attnc/describe/describe_kernels.h"
#include "tools/attnc/describe/describe_model.h"
#include "tools/attnc/describe/report_gaps.h"
#include "tools/attnc/cli/output.h"

/* Most ranks of tensor parallelism and most draft tokens. */
enum { MAX_RANKS = 1024, MAX_DRAFT_TOKENS = 63 };

static struct {
    const char *output, *ranks, *page_size, *kv_dtype, *kv_scale, *kv_layout, *draft_tokens;
    bool draft_tree, separate, json;
} args;

static const struct option_row options[] = {
    {"output", 'o', "FILE", "where to write the description (default: standard output)",
     &args.output, NULL},
    {"tp", 0, "N[,N]", "ranks of tensor parallelism, which share the heads (default: 1)",
     &args.ranks, NULL},
    {"page-size", 0, "N|any", "tokens in a page of the engine's cache (default: 16)",
     &args.page_size, NULL},
    {"kv-dtype", 0, "TYPE", "element type of the cache (default: same)", &args.kv_dtype, NULL},
    {"kv-scale", 0, "KIND", "which elements of the cache share a scale (default: none)",
     &args.kv_scale, NULL},
    {"kv-layout", 0, "ORDER", "order inside a page of the cache (default: nhd)", &args.kv_layout,
     NULL},
    {"draft-tokens", 0, "N",
     "speculative tokens of a step (default: 3 where the model drafts, "
     "else 0)",
     &args.draft_tokens, NULL},
    {"draft-tree", 0, NULL, "the speculative tokens may be a tree: add kernels that verify it",
     NULL, &args.draft_tree},
    {"separate", 0, NULL,
     "leave out kernels that have the steps beside decode in its launch, or two of them in one",
     NULL, &args.separate},
    {"json", 0, NULL, "print what was read and what is missing as a JSON object; needs -o", NULL,
     &args.json},
    {0},
};

/* Reads the argument of --tp, numbers of ranks with commas. Returns an exit_code after a
 * message. */
static int read_ranks(struct deployment *d)
{
    char list[128];
    if (snprintf(list, sizeof(list), "%s", args.ranks ? args.ranks : "1") >= (int)sizeof(list))
        return complain(EXIT_USER, "describe: --tp is too long");
    for (char *rest = list, *word; (word = strsep(&rest, ",")) != NULL;) {
        if (d->rank_count == MAX_TENSOR_PARALLEL)
            return complain(EXIT_USER, "describe: --tp takes at most %d numbers",
                            MAX_TENSOR_PARALLEL);
        int code = read_number("describe", "tp", word, 1, MAX_RANKS, &d->ranks[d->rank_count++]);
        if (code != EXIT_GOOD)
            return code;
    }
    return EXIT_GOOD;
}

/* Reads the options about the deployment, and checks that its cache is possible. Returns an
 * exit_code after a message. */
static int read_deployment(struct deployment *d)
{
    char why[200];
    *d = (struct deployment){
        .page_size = args.page_size ? args.page_size : "16",
        .kv_dtype = args.kv_dtype ? args.kv_dtype : "same",
        .kv_scale = args.kv_scale ? args.kv_scale : "none",
        .kv_layout = args.kv_layout ? args.kv_layout : "nhd",
        .draft_tokens = -1,
        .draft_tree = args.draft_tree,
        .one_launch = true,
        .whole = !args.separate,
    };
    int code = read_ranks(d);
    if (code == EXIT_GOOD)
        code = read_number("describe", "draft-tokens", args.draft_tokens, 0, MAX_DRAFT_TOKENS,
                           &d->draft_tokens);
    if (code == EXIT_GOOD && !check_deployment(d, why))
        code = complain(EXIT_USER, "describe: the cache: %s", why);
    return code;
}

/* Adds a gap for each number of ranks that cannot share the heads. Returns false if none can. */
static bool check_ranks(struct model *m, const struct deployment *d)
{
    bool any = false;
    for (unsigned i = 0; i < d->rank_count; i++) {
        bool good = true;
        for (unsigned g = 0; g < m->group_count; g++) {
            struct rank_heads r;
            if (share_heads(&m->groups[g], d->ranks[i], &r))
                continue;
            model_lacks(m, "TP %ld: %ld query heads and %ld key/value heads cannot be shared out",
                        d->ranks[i], m->groups[g].heads, m->groups[g].kv_heads);
            good = false;
        }
        any = any || good;
    }
    return any;
}

/* Prints a description: comments about the model, the targets, the defaults and the text `body` of
 * the kernels. */
static void print_description(const struct model *m, const struct deployment *d, const char *body,
                              FILE *out)
{
    print_model(m, d, out);
    print_settings(m, out);
    fputs("targets: [", out);
    const char *separator = "";
    for (const struct tgt *const *t = tgt_all; *t; t++) {
        if (!entry_is_tuned(*t))
            continue;
        fprintf(out, "%s%s", separator, (*t)->machine.name);
        separator = ", ";
    }
    fprintf(out, "]\ndefaults: { dtype: %s }\nkernels:\n%s", m->fp16 ? "fp16" : "bf16", body);
}

/* Prints the model and the number of entries as a JSON object. */
static void print_json(const struct model *m, const struct deployment *d, unsigned entries)
{
    struct json j = {.out = stdout};
    json_begin_object(&j, NULL);
    model_json(&j, m, d);
    json_integer(&j, "entries", entries);
    json_string(&j, "output", args.output);
    json_end(&j);
}

/* Writes the description of a model, and reports what attnc lacks. `path` is the model's file, for
 * messages. Returns an exit_code. */
static int describe(struct model *m, struct deployment *d, const char *path)
{
    char *body = NULL, *text = NULL;
    size_t body_size, size;
    if (m->group_count == 0) {
        report_gaps(m, path);
        return complain(EXIT_USER, "%s: no layer has softmax attention", path);
    }
    if (!check_ranks(m, d)) {
        report_gaps(m, path);
        return complain(EXIT_USER, "%s: no rank can have whole heads", path);
    }
    if (d->draft_tokens < 0)
        d->draft_tokens = m->draft_tokens > 0 ? 3 : 0;
    if (d->draft_tree && d->draft_tokens < 2)
        return complain(EXIT_USER, "describe: --draft-tree needs --draft-tokens of 2 or more");
    FILE *out = open_memstream(&body, &body_size);
    if (!out)
        return complain(EXIT_ENVIRONMENT, "out of memory");
    const unsigned entries = write_kernels(m, d, out);
    fclose(out);
    out = body ? open_memstream(&text, &size) : NULL;
    if (!out) {
        free(body);
        return complain(EXIT_ENVIRONMENT, "out of memory");
    }
    print_description(m, d, body, out);
    fclose(out);
    int code = entries ? write_output(args.output ? args.output : "-", text, size)
                       : complain(EXIT_USER, "%s: no kernel of the model can be built", path);
    const int gaps = report_gaps(m, path);
    if (code == EXIT_GOOD && args.json)
        print_json(m, d, entries);
    free(body);
    free(text);
    return code == EXIT_GOOD ? gaps : code;
}

/* Parses a config.json, `size` bytes, and writes the model's description. `path` is for messages.
 * Returns an exit_code. */
static int parse_and_describe(const char *bytes, size_t size, const char *path,
                              struct deployment *deployment)
{
    struct attnc_diag d = {.file = path, .text = bytes, .size = size};
    struct attnc_yaml y;
    struct model m = {0};
    char why[MODEL_WHY];
    int code = EXIT_USER;
    const bool parsed = attnc_yaml_parse(&y, bytes, size, &d);
    attnc_diag_print(&d, stderr);
    if (parsed && model_read(&m, &y, why))
        code = describe(&m, deployment, path);
    else if (parsed)
        complain(EXIT_USER, "%s: %s", path, why);
    model_free(&m);
    attnc_yaml_free(&y);
    attnc_diag_clear(&d);
    return code;
}

/* Returns "`given`/config.json", written to `path`, if `given` is a directory; otherwise
 * `given`. */
static const char *config_path(const char *given, char path[PATH_MAX])
{
    struct stat st;
    if (stat(given, &st) != 0 || !S_ISDIR(st.st_mode))
        return given;
    snprintf(path, PATH_MAX, "%s/config.json", given);
    return path;
}

/* Runs `attnc describe`. */
static int run(int argc, char **argv)
{
    char path[PATH_MAX], *bytes;
    size_t size;
    struct deployment d;
    if (argc != 1)
        return complain(EXIT_USER, "usage: attnc describe CONFIG_JSON [-o FILE] [OPTION]...");
    if (args.json && (!args.output || strcmp(args.output, "-") == 0))
        return complain(EXIT_USER, "describe: --json needs -o FILE: both write to standard output");
    const char *config = config_path(argv[0], path);
    note_input(config);
    int code = read_deployment(&d);
    if (code == EXIT_GOOD)
        code = check_output(args.output);
    if (code != EXIT_GOOD)
        return code;
    if (!attnc_read_file(config, ATTNC_MAX_BYTES, &bytes, &size))
        return complain(EXIT_ENVIRONMENT, "%s: %s", config, strerror(errno));
    code = parse_and_describe(bytes, size, strcmp(config, "-") ? config : "<stdin>", &d);
    free(bytes);
    return code;
}

const struct command command_describe = {
    .name = "describe",
    .usage = "CONFIG_JSON [-o FILE] [OPTION]...",
    .summary = "Write the description of the kernels that a model needs, from its config.json",
    .options = options,
    .details =
        "CONFIG_JSON is a file in the Hugging Face layout, a model's directory with config.json\n"
        "in it, or - for standard input. The description has what every step launches: rotation\n"
        "and cache write, prefill, decode, work lists, combine, index arrays; one entry for each\n"
        "kind of layer. With --tp 1,8 it serves ranks of both sizes; where there are more ranks\n"
        "than key/value heads, ranks have copies of a head.\n"
        "\n"
        "A comment in the file and a line on standard error name what the model needs and attnc\n"
        "lacks, and every setting whose name concerns attention and that attnc does not know; the\n"
        "exit code is 3 then. Comments give the scale that a call has to pass.\n",
    .run = run,
};
