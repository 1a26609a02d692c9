/* SPDX-License-Identifier: Apache-2.0
 *
 * This file reads the shapes that are tuned for: from a file, or the ones that each op in
 * tools/verify/ names.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/read_file.h"
#include "tools/attnc/cli/command.h"
#include "tools/attnc/cli/output.h"
#include "tools/attnc/trace/trace.h"
#include "tools/attnc/tune/tune.h"

/* All ops that can be verified. */
static const struct verify_op *const ops[] = {
#define OP(op) &verify_##op,
#include "ops/ops.def"
};

int tune_shape_number(const struct tune_shape *s, const char *name)
{
    const struct verify_op *op = trace_find_op(s->op);
    int sizes[VERIFY_DIMENSIONS] = {0};
    trace_parse_shape(op, s->text, sizes);
    return trace_dimension(op, sizes, name);
}

/* Adds the shape in a line, an op and its sizes, to `shapes`. `path` and `number`, the line's
 * number, are for messages. Returns an exit_code after a message. */
static int parse_line(char *line, unsigned number, const char *path, struct tune_shapes *shapes)
{
    struct tune_shape *grown = realloc(shapes->rows, (shapes->count + 1) * sizeof(*shapes->rows));
    if (!grown)
        return complain(EXIT_ENVIRONMENT, "out of memory");
    shapes->rows = grown;
    struct tune_shape *s = &grown[shapes->count];
    *s = (struct tune_shape){0};
    char extra;
    int sizes[VERIFY_DIMENSIONS];
    if (sscanf(line, "%39s %127s %c", s->op, s->text, &extra) != 2)
        return complain(EXIT_USER, "%s:%u: expected an op and a shape, \"prefill batch=1,q=512\"",
                        path, number);
    static const char open[] = "lists=*";
    char *lists = strstr(s->text, open);
    if (lists && (lists == s->text || lists[-1] == ',') && !lists[sizeof(open) - 1]) {
        s->any_lists = true;
        lists[lists == s->text ? 0 : -1] = '\0';
    }
    const struct verify_op *op = trace_find_op(s->op);
    if (!op)
        return complain(EXIT_USER, "%s:%u: there is no op '%s'", path, number, s->op);
    const int code = trace_parse_shape(op, s->text, sizes);
    if (code != EXIT_GOOD)
        return complain(code, "%s:%u: not a shape of %s", path, number, s->op);
    shapes->count++;
    return EXIT_GOOD;
}

/* Adds the shapes in a file's text, in which '#' begins a comment. Returns an exit_code after a
 * message with `path`. */
static int parse_text(char *text, const char *path, struct tune_shapes *shapes)
{
    unsigned number = 0;
    int code = EXIT_GOOD;
    for (char *next = text, *line; code == EXIT_GOOD && (line = strsep(&next, "\n"));) {
        line[strcspn(line, "#\r")] = '\0';
        number++;
        while (isspace((unsigned char)*line))
            line++;
        if (*line)
            code = parse_line(line, number, path, shapes);
    }
    return code;
}

/* Adds the shapes for which each op is tuned by default: member `tuned` of struct verify_op.
 * Returns an exit_code after a message. */
static int take_usual(struct tune_shapes *shapes)
{
    int code = EXIT_GOOD;
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        for (unsigned k = 0; k < VERIFY_TUNED && ops[i]->tuned[k] && code == EXIT_GOOD; k++) {
            char
                line[sizeof(((struct tune_shape *)0)->op) + sizeof(((struct tune_shape *)0)->text)];
            snprintf(line, sizeof(line), "%s %s", ops[i]->op, ops[i]->tuned[k]);
            code = parse_line(line, k + 1, "attnc", shapes);
        }
    }
    return code;
}

int tune_read_shapes(const char *path, struct tune_shapes *shapes)
{
    enum { MOST = 1 << 20 };
    char *text;
    size_t size;
    *shapes = (struct tune_shapes){0};
    if (!path)
        return take_usual(shapes);
    note_input(path);
    if (!attnc_read_file(path, MOST, &text, &size))
        return complain(EXIT_ENVIRONMENT, "%s: %s", path, strerror(errno));
    char *const end = realloc(text, size + 1);
    if (end)
        (text = end)[size] = '\0';
    const int code =
        end ? parse_text(text, path, shapes) : complain(EXIT_ENVIRONMENT, "out of memory");
    free(text);
    if (code == EXIT_GOOD && !shapes->count)
        return complain(EXIT_USER,
                        "%s: no shape; a line is an op and a shape, \"prefill "
                        "batch=1,q=512\"",
                        path);
    return code;
}

/* True if these heads suit the key's kernels, by head_dim and GQA ratio. */
static bool has_heads(const struct tune_key *key, const struct tune_heads *h)
{
    const struct att_variant *const v = &key->variant;
    const bool sized = v->op->takes & ATT_BIT(HEAD_DIM);
    return (!sized || h->head_dim == v->head_dim) && (!v->gqa || h->heads == v->gqa * h->kv_heads);
}

/* Returns the model's heads that suit the key. Without any it returns the heads of a typical rank,
 * about 32 query heads; zeros if the op has no GQA ratio. */
static struct tune_heads find_heads(const struct tune_key *key, const struct tune_heads *heads,
                                    size_t count)
{
    enum { USUAL = 32 };
    const int gqa = key->variant.gqa;
    for (size_t i = 0; i < count; i++) {
        if (has_heads(key, &heads[i]))
            return heads[i];
    }
    if (!(key->variant.op->takes & ATT_BIT(GQA)))
        return (struct tune_heads){0};
    const int ratio = gqa ? gqa : 4;
    /* Latent attention: all heads share a key. */
    const bool latent = key->variant.op->takes & ATT_BIT(SPARSE);
    const int kv = ratio < USUAL && !latent ? USUAL / ratio : 1;
    return (struct tune_heads){.heads = ratio * kv, .kv_heads = kv};
}

/* Adds a launch value to a shape, if libattn can choose kernels of the op by it and it is
 * positive. */
static void add_value(struct tune_shape *s, const char *arg, int64_t value)
{
    const char *name = attnc_launch_value(s->op, arg);
    if (name && value > 0 && s->value_count < TUNE_VALUES)
        s->values[s->value_count++] = (struct tune_launch_value){.arg = name, .value = value};
}

/* Adds the launch values of ops without queries: rows, pairs and tokens. */
static void add_counts(struct tune_shape *s, const struct verify_op *op, const int *sizes)
{
    const int tokens = trace_dimension(op, sizes, "tokens");
    add_value(s, "rows", trace_dimension(op, sizes, "rows"));
    add_value(s, "pairs", trace_dimension(op, sizes, "pairs"));
    add_value(s, "tokens", tokens);
    if (!strcmp(s->op, "cache_gather") || !strcmp(s->op, "indexer_gather"))
        add_value(s, "max_seqlen_k", tokens);
}

/* Adds the launch values of prefill. "tiles" is the number of tiles of 128 queries, of all
 * sequences and heads. */
static void add_prefill(struct tune_shape *s, const struct verify_op *op, const int *sizes)
{
    enum { TILE_QUERIES = 128 };
    const int first_q = trace_dimension(op, sizes, "q"),
              then_q = trace_dimension(op, sizes, "then_q");
    const int first_k = trace_dimension(op, sizes, "k") ? trace_dimension(op, sizes, "k") : first_q;
    const int q = then_q > first_q ? then_q : first_q, k = then_q > first_k ? then_q : first_k;
    const int64_t batch = trace_dimension(op, sizes, "batch") * (then_q ? 2 : 1);
    const int64_t tiles = (q + TILE_QUERIES - 1) / TILE_QUERIES;
    add_value(s, "tiles", batch * trace_dimension(op, sizes, "heads") * tiles);
    add_value(s, "max_seqlen_q", q);
    add_value(s, "max_seqlen_k", k);
}

void tune_find_values(struct tune_shape *s)
{
    const struct verify_op *op = trace_find_op(s->op);
    int sizes[VERIFY_DIMENSIONS];
    if (trace_parse_shape(op, s->text, sizes) != EXIT_GOOD)
        return;
    const int lists = trace_dimension(op, sizes, "lists"),
              batch = trace_dimension(op, sizes, "batch");
    const int kv_heads = trace_dimension(op, sizes, "kv_heads");
    s->value_count = 0;
    if (attnc_launch_value(s->op, "tiles")) {
        add_prefill(s, op, sizes);
        return;
    }
    add_value(s, "batch", batch);
    if (batch) /* for decode; other ops have lists only with a plan */
        add_value(s, "workgroups", lists ? lists : (int64_t)batch * (kv_heads ? kv_heads : 1));
    add_counts(s, op, sizes);
    add_value(s, "heads", trace_dimension(op, sizes, "heads"));
}

/* Appends ",NAME=NUMBER" to a shape's text, if the op has the dimension, the text lacks it, and
 * `number` is positive. */
static void add_dimension(struct tune_shape *s, const char *name, int number)
{
    const struct verify_op *const op = trace_find_op(s->op);
    char word[48];
    const int word_length = snprintf(word, sizeof(word), ",%s=", name);
    const bool first = !strncmp(s->text, word + 1, (size_t)word_length - 1);
    const size_t length = strlen(s->text);
    unsigned i = 0;
    while (i < VERIFY_DIMENSIONS && op->dimensions[i].name && strcmp(op->dimensions[i].name, name))
        i++;
    if (number > 0 && i < VERIFY_DIMENSIONS && op->dimensions[i].name && !first &&
        !strstr(s->text, word))
        snprintf(s->text + length, sizeof(s->text) - length, "%s%d", word, number);
}

/* Adds the shape `row` to a key, with the heads `h` unless it names some. `lists` is its number of
 * work lists if the row leaves that open (lists=*); 0: none. */
static void add_shape(struct tune_key *key, const struct tune_shape *row, struct tune_heads h,
                      int lists)
{
    struct tune_shape *s = &key->shapes[key->shape_count++];
    *s = *row;
    if (!strstr(s->text, "heads=")) {
        add_dimension(s, "heads", h.heads);
        add_dimension(s, "kv_heads", h.kv_heads);
    }
    if (!(key->variant.op->takes & ATT_BIT(HEAD_DIM)))
        add_dimension(s, "head_dim", h.head_dim);
    if (s->any_lists) {
        memcpy(s->call, s->text, sizeof(s->call));
        s->lists = lists;
        if (attnc_split_takes_units(&key->variant))
            s->unit_keys = tune_shape_number(s, "unit_keys"); /* 0 if left out */
    }
    const size_t length = strlen(s->text);
    if (s->lists)
        snprintf(s->text + length, sizeof(s->text) - length, ",lists=%d", lists);
    tune_find_values(s);
}

bool tune_choose_shapes(const struct tune_shapes *all, const struct tune_heads *heads,
                        size_t head_count, struct tune_key *key)
{
    key->shapes = calloc(all->count * TUNE_SPLITS + 1, sizeof(*key->shapes));
    if (!key->shapes)
        return false;
    const struct tune_heads h = find_heads(key, heads, head_count);
    for (size_t i = 0; i < all->count; i++) {
        const struct tune_shape *row = &all->rows[i];
        if (strcmp(row->op, key->variant.op->name))
            continue;
        add_shape(key, row, h, row->any_lists && key->split_count ? key->splits[0] : 0);
        for (unsigned n = 1; row->any_lists && n < key->split_count; n++)
            add_shape(key, row, h, key->splits[n]);
    }
    return true;
}
