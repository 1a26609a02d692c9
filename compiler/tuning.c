/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads, writes and applies tuning files:
 *
 *     tuning: 2
 *     kernels:
 *       - key: gfx950 prefill head_dim=128 lse=true
 *         tile: rows=32 keys=64 ...
 *         calls:
 *           - { batch: [1, 2], max_seqlen_q: [1, 1448] }
 *       - key: gfx950 prefill head_dim=128 lse=true
 *         tile: auto
 *
 * Files of version 1 can be read as well. Their keys have every field that an op had then, with
 * defaults, and the last kernel of a key has a tile.
 */
#include "compiler/tuning.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/boxes.h"
#include "compiler/kernel_args.h"
#include "compiler/read_file.h"
#include "compiler/tuning_key.h"
#include "compiler/yaml_map.h"
#include "targets/tgt.h"

/* Versions of the file format: the oldest that is read, and the one that is written. */
enum { OLDEST = 1, FORMAT = 2 };

static const struct att_loc nowhere;

const char *attnc_launch_value(const char *op, const char *name)
{
    const struct attnc_kernel_arg *const a = attnc_find_kernel_arg(op, name);
    return a && a->dtype == TIR_I32 ? a->name : NULL;
}

struct attnc_tuned *attnc_tuning_add(struct attnc_tuning *t, const char *key, const char *tile)
{
    if (t->count == t->cap) {
        const size_t cap = t->cap ? 2 * t->cap : 32;
        struct attnc_tuned *grown = realloc(t->rows, cap * sizeof(*grown));
        if (!grown)
            return NULL;
        t->rows = grown;
        t->cap = cap;
    }
    struct attnc_tuned *row = &t->rows[t->count++];
    *row = (struct attnc_tuned){.key = strdup(key), .tile = strdup(tile)};
    return row->key && row->tile ? row : NULL;
}

/* Frees the texts, boxes and splits of a row. */
static void free_row(struct attnc_tuned *row)
{
    free(row->key);
    free(row->tile);
    free(row->open);
    free(row->choice.boxes);
    free(row->choice.splits);
}

void attnc_tuning_remove(struct attnc_tuning *t, const char *key)
{
    size_t kept = 0;
    for (size_t i = 0; i < t->count; i++) {
        if (strcmp(t->rows[i].key, key))
            t->rows[kept++] = t->rows[i];
        else
            free_row(&t->rows[i]);
    }
    t->count = kept;
}

/* Removes all splits. */
static void remove_splits(struct attnc_tuning *t)
{
    for (size_t i = 0; i < t->split_count; i++) {
        free(t->splits[i].key);
        free(t->splits[i].call);
    }
    t->split_count = 0;
}

struct attnc_split *attnc_tuning_add_split(struct attnc_tuning *t, const struct attnc_split *split)
{
    struct attnc_split *grown = realloc(t->splits, (t->split_count + 1) * sizeof(*grown));
    if (!grown)
        return NULL;
    t->splits = grown;
    struct attnc_split *s = &grown[t->split_count];
    *s = *split;
    s->key = strdup(split->key);
    s->call = strdup(split->call);
    t->split_count += s->key && s->call;
    if (s->key && s->call)
        return s;
    free(s->key);
    free(s->call);
    return NULL;
}

struct att_box *attnc_choice_add(struct att_choice *choice)
{
    struct att_box *grown = realloc(choice->boxes, (choice->count + 1) * sizeof(*grown));
    if (!grown)
        return NULL;
    choice->boxes = grown;
    grown[choice->count] = (struct att_box){0};
    return &grown[choice->count++];
}

void attnc_tuning_free(struct attnc_tuning *t)
{
    for (size_t i = 0; i < t->count; i++)
        free_row(&t->rows[i]);
    remove_splits(t);
    free(t->rows);
    free(t->splits);
    free(t->bytes);
    *t = (struct attnc_tuning){0};
}

/* The functions from here on read tuning files, with this state. */

struct reader {
    struct attnc_yaml yaml;
    struct attnc_diag *d;
    struct attnc_tuning *t;
};

/* Returns the node id of the value of key `name` in a map, 0 if it is absent. */
static uint32_t get(const struct reader *r, uint32_t map, const char *name)
{
    return attnc_yaml_get(&r->yaml, map, name);
}

/* Returns the text of the value of key `name` in a map, NULL if it is absent. */
static const char *get_text(const struct reader *r, uint32_t map, const char *name)
{
    return attnc_yaml_get_text(&r->yaml, map, name);
}

/* Returns the line and column of node `id` in the file. */
static struct att_loc place(const struct reader *r, uint32_t id) { return r->yaml.nodes[id].at; }

/* Checks that a map has no other keys than `names`. */
static bool check_keys(struct reader *r, uint32_t map, const char *const names[])
{
    return attnc_yaml_check_keys(&r->yaml, map, names, r->d);
}

/* Reads the whole number at node `id`. Returns false after an error. */
static bool read_number(struct reader *r, uint32_t id, int64_t *number)
{
    return attnc_yaml_read_number(&r->yaml, id, number, r->d);
}

/* Reads one range of a launch argument, "batch: [1, 8]", from node `key` and the node after it, and
 * appends it to `box`. */
static void read_range(struct reader *r, uint32_t key, const char *op, struct att_box *box)
{
    const struct attnc_yaml_node *k = attnc_yaml_node(&r->yaml, key);
    const uint32_t value = r->yaml.nodes[key].next;
    const struct attnc_yaml_node *v = attnc_yaml_node(&r->yaml, value);
    const char *name = k->kind == ATTNC_YAML_SCALAR ? attnc_yaml_text(&r->yaml, k) : "";
    struct att_when row = {.arg = attnc_launch_value(op, name)};
    const uint32_t low = v->kind == ATTNC_YAML_LIST ? v->first : 0;
    const uint32_t high = low ? r->yaml.nodes[low].next : 0;
    if (!row.arg)
        attnc_diag_error(r->d, place(r, key), "'%.40s' is no whole number that %s gets at a call",
                         name, op);
    else if (!high || r->yaml.nodes[high].next)
        attnc_diag_error(r->d, place(r, value), "expected [LEAST, MOST]");
    else if (box->count == ATT_WHEN_MAX)
        attnc_diag_error(r->d, place(r, key), "at most %d ranges", ATT_WHEN_MAX);
    else if (read_number(r, low, &row.min) && read_number(r, high, &row.max) && row.min > row.max)
        attnc_diag_error(r->d, place(r, value), "the range ends before it begins");
    else
        box->rows[box->count++] = row;
}

/* Reads the list of boxes of launch arguments at node `list` to `choice`. Returns false only if
 * memory is exhausted. */
static bool read_calls(struct reader *r, uint32_t list, const char *op, struct att_choice *choice)
{
    const struct attnc_yaml_node *n = attnc_yaml_node(&r->yaml, list);
    if (n->kind != ATTNC_YAML_LIST || !n->first)
        attnc_diag_error(r->d, n->at, "expected a list of {argument: [LEAST, MOST]}");
    for (uint32_t id = n->kind == ATTNC_YAML_LIST ? n->first : 0; id; id = r->yaml.nodes[id].next) {
        const struct attnc_yaml_node *map = attnc_yaml_node(&r->yaml, id);
        struct att_box *box = attnc_choice_add(choice);
        if (!box)
            return attnc_diag_no_memory(r->d);
        if (map->kind != ATTNC_YAML_MAP || !map->first)
            attnc_diag_error(r->d, place(r, id), "expected {argument: [LEAST, MOST]}");
        for (uint32_t key = map->kind == ATTNC_YAML_MAP ? map->first : 0; key;
             key = r->yaml.nodes[r->yaml.nodes[key].next].next)
            read_range(r, key, op, box);
    }
    return true;
}

/* Reads the entry of `kernels` at node `id`. Returns false only if memory is exhausted. */
static bool read_kernel(struct reader *r, uint32_t id)
{
    static const char *const names[] = {"key", "tile", "calls", "open", NULL};
    if (!check_keys(r, id, names))
        return true;
    const char *key = get_text(r, id, "key"), *tile = get_text(r, id, "tile");
    const char *open = get_text(r, id, "open");
    char op[64];
    if (!key || !tile || sscanf(key, "%*s %63s", op) != 1) {
        attnc_diag_error(r->d, place(r, id),
                         "a kernel has a key, \"gfx950 prefill ...\", and a "
                         "tile");
        return true;
    }
    char normal[ATT_TEXT_MAX], why[ATTNC_KEY_WHY];
    const bool known = attnc_key_normalise(key, normal, why);
    struct attnc_tuned *row = attnc_tuning_add(r->t, known ? normal : key, tile);
    if (!row)
        return attnc_diag_no_memory(r->d);
    row->at = place(r, id);
    row->open = open ? strdup(open) : NULL;
    const uint32_t calls = get(r, id, "calls");
    if (calls && !strcmp(tile, ATTNC_AUTO))
        attnc_diag_error(r->d, place(r, calls), "tile auto is for all other calls: it has none");
    return !calls || read_calls(r, calls, op, &row->choice);
}

/* True if two rows of one key could both be for the same call: their boxes overlap, or neither has
 * boxes. */
static bool clash(const struct attnc_tuned *a, const struct attnc_tuned *b)
{
    if (!a->choice.count && !b->choice.count)
        return true;
    for (unsigned i = 0; i < a->choice.count; i++) {
        for (unsigned k = 0; k < b->choice.count; k++) {
            if (attnc_boxes_meet(&a->choice.boxes[i], &b->choice.boxes[k]))
                return true;
        }
    }
    return false;
}

/* Reports rows of one key whose calls overlap, and keys without a row for all other calls. */
static void check_choices(struct reader *r)
{
    const struct attnc_tuning *t = r->t;
    for (size_t i = 0; i < t->count; i++) {
        unsigned others = 0;
        for (size_t k = 0; k < t->count; k++) {
            if (strcmp(t->rows[i].key, t->rows[k].key))
                continue;
            others += !t->rows[k].choice.count;
            if (k < i && clash(&t->rows[k], &t->rows[i]))
                attnc_diag_error(r->d, t->rows[i].at,
                                 "calls of this kernel are also those of the one in line %u",
                                 t->rows[k].at.line);
        }
        if (!others)
            attnc_diag_error(r->d, t->rows[i].at,
                             "no kernel of this key is without calls: all others have none");
    }
}

/* Reads the optional number `name`, 0 to `most`, of a split's map to *number. */
static void read_split_number(struct reader *r, uint32_t map, const char *name, int64_t most,
                              int64_t *number)
{
    const uint32_t id = get(r, map, name);
    if (id && read_number(r, id, number) && (*number < 0 || *number > most))
        attnc_diag_error(r->d, place(r, id), "%s is 0 to %lld", name, (long long)most);
}

/* Reads the optional keys of a unit, 16, 32 or 64, of the map of a split to *keys; 0: left out.
 * Refuses them if plans for the kernel of the dispatch key `key` take none; NULL: no key. */
static void read_unit(struct reader *r, uint32_t map, const char *key, int64_t *keys)
{
    const uint32_t id = get(r, map, "unit_keys");
    struct att_variant v;
    char copy[ATT_TEXT_MAX], why[ATTNC_KEY_WHY];
    if (!id || !read_number(r, id, keys))
        return;
    if (*keys != 16 && *keys != 32 && *keys != 64)
        attnc_diag_error(r->d, place(r, id), "unit_keys is 16, 32 or 64");
    else if (key && attnc_key_variant(key, copy, &v, why) && !attnc_split_takes_units(&v))
        attnc_diag_error(r->d, place(r, id),
                         "unit_keys is for mla_decode with sparse slots and a cache in the dtype "
                         "of q");
}

/* True if the tuning has a row whose dispatch key is `key`. */
static bool has_kernel(const struct attnc_tuning *t, const char *key)
{
    size_t i = 0;
    while (i < t->count && strcmp(t->rows[i].key, key))
        i++;
    return i < t->count;
}

/* Reads the entry of `splits` at node `id`. Returns false only if memory is exhausted. */
static bool read_split(struct reader *r, uint32_t id)
{
    static const char *const names[] = {"key",       "call",       "lists",     "one_launch",
                                        "item_cost", "merge_rate", "unit_keys", NULL};
    enum { COST_MAX = 256 };
    if (!check_keys(r, id, names))
        return true;
    char normal[ATT_TEXT_MAX], why[ATTNC_KEY_WHY];
    const char *one = get_text(r, id, "one_launch"), *key = get_text(r, id, "key");
    const size_t errors = r->d->errors;
    struct att_split call;
    struct attnc_split s = {
        .key = key && attnc_key_normalise(key, normal, why) ? normal : (char *)key,
        .call = (char *)get_text(r, id, "call"),
        .one_launch = one && !strcmp(one, "true"),
    };
    read_split_number(r, id, "lists", INT32_MAX, &s.lists);
    read_split_number(r, id, "item_cost", COST_MAX, &s.item_cost);
    read_split_number(r, id, "merge_rate", COST_MAX, &s.merge_rate);
    read_unit(r, id, s.key, &s.unit_keys);
    if (!s.key || !s.call || !get(r, id, "lists"))
        attnc_diag_error(r->d, place(r, id), "a split has a key, a call and its lists");
    else if (!attnc_split_call(s.call, &call))
        attnc_diag_error(r->d, place(r, id), "a split's call is \"batch=4,k=8192,heads=32,...\"");
    else if (!has_kernel(r->t, s.key))
        attnc_diag_error(r->d, place(r, id), "a split whose key no kernel has");
    return r->d->errors > errors || attnc_tuning_add_split(r->t, &s) || attnc_diag_no_memory(r->d);
}

/* Reads the list `splits` and copies the splits of each key to the key's row. Returns false only if
 * memory is exhausted. */
static bool read_splits(struct reader *r)
{
    const uint32_t splits = get(r, 1, "splits");
    const struct attnc_yaml_node *list = splits ? attnc_yaml_node(&r->yaml, splits) : NULL;
    if (list && list->kind != ATTNC_YAML_LIST)
        return attnc_diag_error(r->d, place(r, splits), "expected a list of splits"), true;
    for (uint32_t id = list ? list->first : 0; id; id = r->yaml.nodes[id].next) {
        if (!read_split(r, id))
            return false;
    }
    return attnc_tuning_link(r->t) || attnc_diag_no_memory(r->d);
}

/* Reads the top level of a tuning file: version, kernels and splits. Returns false only if memory
 * is exhausted. */
static bool read_document(struct reader *r)
{
    static const char *const names[] = {"tuning", "kernels", "splits", NULL};
    int64_t format = 0;
    if (r->yaml.count < 2)
        return attnc_diag_error(r->d, nowhere, "an empty file"), true;
    if (!check_keys(r, 1, names))
        return true;
    const uint32_t version = get(r, 1, "tuning"), kernels = get(r, 1, "kernels");
    if (!version || !read_number(r, version, &format) || format < OLDEST || format > FORMAT) {
        attnc_diag_error(r->d, place(r, 1), "expected 'tuning: %d', or %d", FORMAT, OLDEST);
        return true;
    }
    const struct attnc_yaml_node *list = attnc_yaml_node(&r->yaml, kernels);
    if (!kernels || list->kind != ATTNC_YAML_LIST)
        return attnc_diag_error(r->d, place(r, 1), "expected a list of kernels"), true;
    for (uint32_t id = list->first; id; id = r->yaml.nodes[id].next) {
        if (!read_kernel(r, id))
            return false;
    }
    check_choices(r);
    return read_splits(r);
}

bool attnc_tuning_read_bytes(const char *bytes, size_t size, struct attnc_tuning *t,
                             struct attnc_diag *d)
{
    d->text = bytes;
    d->size = size;
    struct reader r = {.d = d, .t = t};
    if (attnc_yaml_parse(&r.yaml, bytes, size, d))
        read_document(&r);
    attnc_yaml_free(&r.yaml);
    return d->errors == 0 && !d->no_memory;
}

bool attnc_tuning_read(const char *path, struct attnc_tuning *t, struct attnc_diag *d)
{
    *t = (struct attnc_tuning){0};
    *d = (struct attnc_diag){.file = path};
    if (!attnc_read_file(path, ATTNC_MAX_BYTES, &t->bytes, &t->size)) {
        if (errno == ENOMEM)
            return attnc_diag_no_memory(d);
        attnc_diag_error(d, nowhere, "%s", strerror(errno));
        d->unreadable = true;
        return false;
    }
    return attnc_tuning_read_bytes(t->bytes, t->size, t, d);
}

/* The functions from here on write tuning files. */

/* Writes one box of launch arguments as an item of the list `calls`. */
static void write_box(const struct att_box *box, FILE *out)
{
    fputs("      - {", out);
    for (unsigned i = 0; i < box->count; i++)
        fprintf(out, "%s %s: [%lld, %lld]", i ? "," : "", box->rows[i].arg,
                (long long)box->rows[i].min, (long long)box->rows[i].max);
    fputs(" }\n", out);
}

void attnc_tuning_write(const struct attnc_tuning *t, FILE *out)
{
    fprintf(out,
            "# Written by attnc tune, read by attnc build --tuning: docs/tuning.md.\n"
            "tuning: %d\nkernels:%s\n",
            FORMAT, t->count ? "" : " []");
    for (size_t i = 0; i < t->count; i++) {
        const struct attnc_tuned *row = &t->rows[i];
        fprintf(out, "  - key: %s\n    tile: %s\n", row->key, row->tile);
        if (row->open)
            fprintf(out, "    open: %s\n", row->open);
        if (row->choice.count)
            fputs("    calls:\n", out);
        for (unsigned k = 0; k < row->choice.count; k++)
            write_box(&row->choice.boxes[k], out);
    }
    fputs(t->split_count ? "splits:\n" : "", out);
    for (size_t i = 0; i < t->split_count; i++) {
        const struct attnc_split *s = &t->splits[i];
        fprintf(out, "  - key: %s\n    call: %s\n    lists: %lld\n    one_launch: %s\n", s->key,
                s->call, (long long)s->lists, s->one_launch ? "true" : "false");
        if (s->item_cost)
            fprintf(out, "    item_cost: %lld\n", (long long)s->item_cost);
        if (s->merge_rate)
            fprintf(out, "    merge_rate: %lld\n", (long long)s->merge_rate);
        if (s->unit_keys)
            fprintf(out, "    unit_keys: %lld\n", (long long)s->unit_keys);
    }
}

/* The functions from here on apply a tuning to a description. */

int attnc_find_candidate(const struct att_variant *v, const char *tile)
{
    const struct tgt *target = tgt_find(v->target);
    struct att_variant candidate = *v;
    for (unsigned row = 0; row < v->op->n_tiles; row++) {
        char text[ATT_TILE_TEXT_MAX];
        struct att_tile t;
        candidate.tile = (int)att_find_candidate(v, &target->machine, row, tile);
        if (!candidate.tile || !att_find_tile(&candidate, &target->machine, &t, NULL))
            continue;
        att_tile_text(v->op, &t, text);
        if (!strcmp(text, tile))
            return candidate.tile;
    }
    return 0;
}

/* A description under construction. */
struct grown {
    struct attnc_description desc;
    size_t cap;
    struct attnc_diag *d;
};

/* Appends a variant to the description; returns false if memory is exhausted. */
static bool add_variant(struct grown *g, const struct att_variant *v)
{
    if (g->desc.count == g->cap) {
        const size_t cap = g->cap ? 2 * g->cap : 32;
        struct att_variant *variants = realloc(g->desc.variants, cap * sizeof(*variants));
        if (!variants)
            return attnc_diag_no_memory(g->d);
        g->desc.variants = variants;
        g->cap = cap;
    }
    g->desc.variants[g->desc.count++] = *v;
    return true;
}

/* Marks the rows whose key is the key of `v` as matched. */
static void match(struct attnc_tuning *t, const struct att_variant *v)
{
    char key[ATT_TEXT_MAX];
    attnc_key_text(v, key);
    for (size_t i = 0; i < t->count; i++)
        t->rows[i].matched = t->rows[i].matched || !strcmp(t->rows[i].key, key);
}

/* Adds to `g` the kernels that the tuning has for the key of `v`. Adds `v` itself if the tuning has
 * none or the variant names a tile. Returns false only if memory is exhausted. */
static bool add_tuned(const struct attnc_tuning *t, const struct att_variant *v, struct grown *g)
{
    char key[ATT_TEXT_MAX];
    struct att_why why = {.text = ""};
    attnc_key_text(v, key);
    if (v->tile || v->choice || !has_kernel(t, key))
        return add_variant(g, v);
    for (size_t i = 0; i < t->count; i++) {
        const struct attnc_tuned *row = &t->rows[i];
        if (strcmp(row->key, key))
            continue;
        struct att_variant tuned = *v;
        const bool own = !strcmp(row->tile, ATTNC_AUTO);
        tuned.tile = own ? 0 : attnc_find_candidate(v, row->tile);
        tuned.choice = &row->choice;
        if (!att_check_knob_names(v->op, row->tile, &why))
            attnc_diag_error(g->d, row->at, "%s; run attnc tune again", why.text);
        else if (!tuned.tile && !own)
            attnc_diag_error(g->d, row->at,
                             "%s on %s has no tile '%.200s' that fits; run attnc tune again",
                             v->op->name, v->target, row->tile);
        else if (!add_variant(g, &tuned))
            return false;
    }
    return true;
}

/* True if a variant of `g` has the key of `v`, with any tile. */
static bool has_key(const struct grown *g, const struct att_variant *v)
{
    char text[ATT_TEXT_MAX], other[ATT_TEXT_MAX];
    attnc_key_text(v, text);
    for (size_t i = 0; i < g->desc.count; i++) {
        attnc_key_text(&g->desc.variants[i], other);
        if (!strcmp(text, other))
            return true;
    }
    return false;
}

/* Adds the kernels that the splits of variant `number` of `g` need and `g` lacks. Returns false
 * only if memory is exhausted. */
static bool add_needed(const struct attnc_tuning *t, size_t number, struct grown *g)
{
    const struct att_variant v = g->desc.variants[number];
    bool alone = false, apart = false;
    for (unsigned i = 0; v.choice && i < v.choice->split_count; i++) {
        alone = alone || v.choice->splits[i].one_launch;
        apart = apart || (v.choice->splits[i].lists && !v.choice->splits[i].one_launch);
    }
    struct att_variant sibling, combine;
    return (!alone || !attnc_split_sibling(&v, &sibling) || has_key(g, &sibling) ||
            add_tuned(t, &sibling, g)) &&
           (!apart || !attnc_split_combine(&v, &combine) || has_key(g, &combine) ||
            add_tuned(t, &combine, g));
}

/* Marks the rows for the key of `v`, and for the keys of the kernels that its splits may need, as
 * matched. */
static void match_all(struct attnc_tuning *t, const struct att_variant *v)
{
    struct att_variant other;
    if (v->tile)
        return;
    match(t, v);
    if (v->op->takes & ATT_BIT(ONE_LAUNCH)) {
        if (attnc_split_sibling(v, &other))
            match(t, &other);
        if (attnc_split_combine(v, &other))
            match(t, &other);
    }
}

bool attnc_tuning_apply(struct attnc_tuning *t, struct attnc_description *desc,
                        struct attnc_diag *d)
{
    const size_t errors = d->errors;
    struct grown g = {.desc = *desc, .d = d};
    g.desc.variants = NULL;
    g.desc.count = 0;
    bool good = true;
    for (size_t i = 0; good && i < desc->count; i++) {
        match_all(t, &desc->variants[i]);
        good = add_tuned(t, &desc->variants[i], &g);
    }
    const size_t own = g.desc.count;
    for (size_t i = 0; good && i < own; i++)
        good = add_needed(t, i, &g);
    free(desc->variants);
    *desc = g.desc;
    return good && d->errors == errors;
}

/* True if the target, the first word of `key`, is in the list `targets`, which ends with NULL. */
static bool is_of(const char *key, const char *const *targets)
{
    const size_t length = strcspn(key, " ");
    for (; *targets; targets++) {
        if (strlen(*targets) == length && !strncmp(*targets, key, length))
            return true;
    }
    return false;
}

bool attnc_tuning_check_matched(const struct attnc_tuning *t, const char *const *targets,
                                struct attnc_diag *d)
{
    bool good = true;
    for (size_t i = 0; i < t->count; i++) {
        const struct attnc_tuned *row = &t->rows[i];
        char normal[ATT_TEXT_MAX], why[ATTNC_KEY_WHY];
        const bool possible = attnc_key_normalise(row->key, normal, why);
        if (row->matched || (possible && targets && !is_of(row->key, targets)))
            continue;
        good = false;
        attnc_diag_error(d, row->at, "no kernel has this key: %s; --allow-stale passes over it",
                         possible ? "no description does" : why);
    }
    return good;
}
