/* SPDX-License-Identifier: Apache-2.0
 *
 * First half of the description reader: reads the file and its three top-level keys, and applies
 * defaults and merge keys to each kernel entry. expand.c makes variants from the result.
 */
#include "compiler/description.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/expand.h"
#include "compiler/nearest.h"
#include "compiler/read_file.h"
#include "pack/pack_format.h"
#include "targets/tgt.h"

enum { MAX_TARGETS = 16, MAX_MERGE_DEPTH = 8 };

static const struct att_loc nowhere;

struct reader {
    struct attnc_yaml yaml;
    struct attnc_expander x;
    struct attnc_diag *d;
    /* targets of kernels without a key `targets`; NULL at the end */
    const struct tgt *targets[MAX_TARGETS + 1];
    bool
        targets_given; /* true: the caller gave `targets`; keys `targets` of the file are ignored */
    struct attnc_setting defaults, kernels; /* the file's top-level keys `defaults` and `kernels` */
    bool misspelt;              /* true: an unknown top-level key was reported with a suggestion */
    struct attnc_settings base; /* the settings in the map `defaults` */
};

/* Returns the line and column of node `id` in the description. */
static struct att_loc at(const struct reader *r, uint32_t id) { return r->yaml.nodes[id].at; }

/* Returns the text of the map key at node `key`. Returns NULL if the key is no scalar, which is an
 * error. */
static const char *key_text(struct reader *r, uint32_t key)
{
    const struct attnc_yaml_node *n = attnc_yaml_node(&r->yaml, key);
    if (n->kind == ATTNC_YAML_SCALAR)
        return attnc_yaml_text(&r->yaml, n);
    attnc_diag_error(r->d, at(r, key), "expected a name before the ':'");
    return NULL;
}

/* Stores the node ids of a key and its value in `slot`. If the slot is taken, reports that the map
 * has the key `name` twice. */
static void set(struct reader *r, struct attnc_setting *slot, uint32_t key, uint32_t value,
                const char *name)
{
    if (slot->key) {
        attnc_diag_error(r->d, at(r, key), "%s is given twice, first in line %u", name,
                         at(r, slot->key).line);
        return;
    }
    *slot = (struct attnc_setting){.key = key, .value = value};
}

/* Reports the unknown key `name` and suggests a similar field. Records that field in s->misspelt,
 * so that it is not also reported as missing. */
static void report_unknown_field(struct reader *r, uint32_t key, const char *name,
                                 struct attnc_settings *s)
{
    struct attnc_nearest nearest = attnc_nearest_to(name);
    attnc_nearest_offer(&nearest, "op");
    attnc_nearest_offer(&nearest, "targets");
    attnc_nearest_offer(&nearest, "where");
    for (int f = 0; f < ATT_FIELD_COUNT; f++)
        attnc_nearest_offer(&nearest, att_fields[f].name);
    for (int f = 0; nearest.name && f < ATT_FIELD_COUNT; f++)
        s->misspelt |= (att_field_set)!strcmp(nearest.name, att_fields[f].name) << f;
    if (nearest.name)
        attnc_diag_error(r->d, at(r, key), "unknown field '%.40s'; did you mean '%s'?", name,
                         nearest.name);
    else
        attnc_diag_error(r->d, at(r, key), "unknown field '%.40s'; `attnc help fields` lists them",
                         name);
}

/* Returns the member of `s` for the key called `name`, or NULL if kernels have no such key. */
static struct attnc_setting *find_slot(struct attnc_settings *s, const char *name)
{
    if (strcmp(name, "op") == 0)
        return &s->op;
    if (strcmp(name, "targets") == 0)
        return &s->targets;
    if (strcmp(name, "where") == 0)
        return &s->where;
    for (int f = 0; f < ATT_FIELD_COUNT; f++) {
        if (strcmp(att_fields[f].name, name) == 0)
            return &s->fields[f];
    }
    return NULL;
}

/* Copies a setting to a slot, unless the slot is taken. `defaults` is true if the setting comes
 * from the key `defaults` of the description. */
static void fill_slot(struct attnc_setting *slot, const struct attnc_setting *from, bool defaults)
{
    if (slot->key || !from->key)
        return;
    *slot = *from;
    slot->from_defaults = defaults;
}

/* Copies from `from` to `into` each setting that `into` lacks; `defaults` as in fill_slot(). */
static void fill(struct attnc_settings *into, const struct attnc_settings *from, bool defaults)
{
    into->misspelt |= from->misspelt;
    fill_slot(&into->op, &from->op, defaults);
    fill_slot(&into->targets, &from->targets, defaults);
    fill_slot(&into->where, &from->where, defaults);
    for (int f = 0; f < ATT_FIELD_COUNT; f++)
        fill_slot(&into->fields[f], &from->fields[f], defaults);
}

static bool collect(struct reader *r, uint32_t id, unsigned depth, struct attnc_settings *s);

/* Adds to `s` the settings of the map or maps `id` that a merge key names: `<<: *base` or `<<: [*a,
 * *b]`. Settings that `s` has take precedence, then earlier maps over later ones. */
static bool merge(struct reader *r, uint32_t id, unsigned depth, struct attnc_settings *s)
{
    const struct attnc_yaml_node *n = attnc_yaml_node(&r->yaml, id);
    bool list = n->kind == ATTNC_YAML_LIST;
    uint32_t source = list ? n->first : id;
    for (; source; source = list ? r->yaml.nodes[source].next : 0) {
        struct attnc_settings merged;
        if (!collect(r, source, depth + 1, &merged))
            return false;
        fill(s, &merged, false);
    }
    return true;
}

/* Reads the settings of the map `id` to `s`; `depth` counts the merges that lead to it. Returns
 * false if reading cannot continue. */
static bool collect(struct reader *r, uint32_t id, unsigned depth, struct attnc_settings *s)
{
    const struct attnc_yaml_node *map = attnc_yaml_node(&r->yaml, id);
    *s = (struct attnc_settings){.at = at(r, id)};
    if (map->kind != ATTNC_YAML_MAP) {
        attnc_diag_error(r->d, s->at, "expected a map of fields");
        return true;
    }
    if (depth > MAX_MERGE_DEPTH) {
        attnc_diag_error(r->d, s->at, "merge keys nested deeper than %d", MAX_MERGE_DEPTH);
        return true;
    }
    struct attnc_setting merges = {0};
    for (uint32_t key = map->first; key;) {
        uint32_t value = r->yaml.nodes[key].next;
        const char *name = key_text(r, key);
        struct attnc_setting *slot = name ? find_slot(s, name) : NULL;
        if (name && strcmp(name, "<<") == 0)
            slot = &merges;
        if (!attnc_spend(&r->x, 1, at(r, key)))
            return false;
        if (slot)
            set(r, slot, key, value, name);
        else if (name)
            report_unknown_field(r, key, name, s);
        key = r->yaml.nodes[value].next;
    }
    return !merges.key || merge(r, merges.value, depth, s);
}

void attnc_list_targets(char *text, size_t size)
{
    size_t length = 0;
    text[0] = '\0';
    for (const struct tgt *const *t = tgt_all; *t && length < size; t++)
        length += (size_t)snprintf(text + length, size - length, "%s%s (%s)",
                                   t == tgt_all ? ""
                                   : t[1]       ? ", "
                                                : " and ",
                                   (*t)->machine.name, (*t)->product);
}

/* Reports that `name`, at node `id`, is no target, and lists the targets. */
static void report_unknown_target(struct reader *r, uint32_t id, const char *name)
{
    char all[256];
    attnc_list_targets(all, sizeof(all));
    attnc_diag_error(r->d, at(r, id), "unknown target '%.40s'; there are %s", name, all);
}

/* Adds the target that node `id` names to a NULL-terminated list of *count targets, unless it is in
 * the list. */
static bool add_target(struct reader *r, uint32_t id, const struct tgt **list, size_t *count)
{
    const struct attnc_yaml_node *n = attnc_yaml_node(&r->yaml, id);
    if (n->kind != ATTNC_YAML_SCALAR) {
        attnc_diag_error(r->d, at(r, id), "expected the name of a target");
        return false;
    }
    const char *name = attnc_yaml_text(&r->yaml, n);
    const struct tgt *t = tgt_find(name);
    if (!t) {
        report_unknown_target(r, id, name);
        return false;
    }
    for (size_t i = 0; i < *count; i++) {
        if (list[i] == t)
            return true;
    }
    assert(*count < MAX_TARGETS);
    list[(*count)++] = t;
    list[*count] = NULL;
    return true;
}

/* Reads a target or a list of targets to `list`, which ends with NULL. */
static bool read_targets(struct reader *r, uint32_t id, const struct tgt **list)
{
    const struct attnc_yaml_node *n = attnc_yaml_node(&r->yaml, id);
    size_t count = 0;
    list[0] = NULL;
    if (n->kind != ATTNC_YAML_LIST)
        return add_target(r, id, list, &count);
    bool good = true;
    for (uint32_t child = n->first; child; child = r->yaml.nodes[child].next)
        good = add_target(r, child, list, &count) && good;
    if (!n->first) {
        attnc_diag_error(r->d, at(r, id), "an empty list of targets");
        return false;
    }
    return good;
}

/* Reads the top-level key `targets` to *targets, `defaults` and `kernels` to `r`, and reports any
 * other key. A kernel's field at this level is a common mistake and has its own message. */
static void read_top_key(struct reader *r, uint32_t key, uint32_t value,
                         struct attnc_setting *targets)
{
    const char *name = key_text(r, key);
    if (!name)
        return;
    struct attnc_settings none = {0};
    if (strcmp(name, "targets") == 0) {
        set(r, targets, key, value, name);
    } else if (strcmp(name, "defaults") == 0) {
        set(r, &r->defaults, key, value, name);
    } else if (strcmp(name, "kernels") == 0) {
        set(r, &r->kernels, key, value, name);
    } else if (find_slot(&none, name)) {
        attnc_diag_error(r->d, at(r, key), "%s belongs into defaults or a kernel", name);
    } else {
        struct attnc_nearest nearest = attnc_nearest_to(name);
        attnc_nearest_offer(&nearest, "targets");
        attnc_nearest_offer(&nearest, "defaults");
        attnc_nearest_offer(&nearest, "kernels");
        r->misspelt = r->misspelt || nearest.name;
        if (nearest.name)
            attnc_diag_error(r->d, at(r, key), "unknown key '%.40s'; did you mean '%s'?", name,
                             nearest.name);
        else
            attnc_diag_error(r->d, at(r, key),
                             "unknown key '%.40s'; a description has targets, defaults and kernels",
                             name);
    }
}

/* Returns the node id of a key that only a model's config.json has: `attnc describe` reads such
 * files. Returns 0 if the file has no such key, or if it has kernels. */
static uint32_t find_model_key(const struct reader *r, const struct attnc_yaml_node *top)
{
    static const char *const names[] = {"model_type", "architectures", "hidden_size",
                                        "num_attention_heads"};
    uint32_t found = 0;
    for (uint32_t key = top->first; key;) {
        const struct attnc_yaml_node *n = attnc_yaml_node(&r->yaml, key);
        const char *name = n->kind == ATTNC_YAML_SCALAR ? attnc_yaml_text(&r->yaml, n) : "";
        if (strcmp(name, "kernels") == 0)
            return 0;
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !found; i++)
            found = strcmp(name, names[i]) == 0 ? key : 0;
        key = r->yaml.nodes[r->yaml.nodes[key].next].next;
    }
    return found;
}

/* Reads the top-level keys and the settings in `defaults`. Returns false after an error that ends
 * the reading. */
static bool read_top(struct reader *r)
{
    if (r->yaml.count < 2) {
        attnc_diag_error(
            r->d, nowhere,
            "no kernels: the file is empty; `attnc help fields` says what a kernel can be");
        return false;
    }
    const struct attnc_yaml_node *top = attnc_yaml_node(&r->yaml, 1);
    if (top->kind != ATTNC_YAML_MAP) {
        attnc_diag_error(r->d, top->at, "expected a map with targets, defaults and kernels");
        return false;
    }
    const uint32_t model_key = find_model_key(r, top);
    if (model_key) {
        attnc_diag_error(r->d, at(r, model_key),
                         "a model's config.json, not a description; `attnc describe %s -o "
                         "model.yaml` makes one of it",
                         r->d->file);
        return false;
    }
    struct attnc_setting targets = {0};
    for (uint32_t key = top->first; key;) {
        uint32_t value = r->yaml.nodes[key].next;
        read_top_key(r, key, value, &targets);
        key = r->yaml.nodes[value].next;
    }
    if (targets.key && !r->targets_given)
        read_targets(r, targets.value, r->targets);
    if (r->defaults.key && !collect(r, r->defaults.value, 0, &r->base))
        return false;
    if (!r->kernels.key) {
        if (!r->misspelt)
            attnc_diag_error(r->d, nowhere, "no kernels: a description has a list `kernels:`");
        return false;
    }
    return true;
}

/* Reads node `id`, an entry of `kernels`, and adds its variants. Returns false if reading cannot
 * continue. */
static bool read_kernel(struct reader *r, uint32_t id)
{
    struct attnc_settings s;
    if (attnc_yaml_node(&r->yaml, id)->kind != ATTNC_YAML_MAP) {
        attnc_diag_error(r->d, at(r, id), "expected a kernel: a map of fields");
        return true;
    }
    if (!collect(r, id, 0, &s))
        return false;
    fill(&s, &r->base, true);

    const struct tgt *own[MAX_TARGETS + 1];
    const struct tgt *const *targets = r->targets;
    if (s.targets.key && !r->targets_given) {
        read_targets(r, s.targets.value, own);
        targets = own;
    }
    /* Without a target this checks the names and values of the entry and adds no variant. */
    const size_t errors_before = r->d->errors;
    const bool good = attnc_expand(&r->x, &s, targets);
    if (!s.targets.key && !targets[0] && errors_before == 0)
        attnc_diag_error(r->d, s.at, "no targets for this kernel");
    return good;
}

/* Reads the list of kernels, expands each, and warns of defaults that no kernel uses. */
static void read_kernels(struct reader *r)
{
    const struct attnc_yaml_node *list = attnc_yaml_node(&r->yaml, r->kernels.value);
    if (list->kind != ATTNC_YAML_LIST || !list->first) {
        attnc_diag_error(r->d, at(r, r->kernels.value), "expected kernels to be a list of kernels");
        return;
    }
    for (uint32_t id = list->first; id; id = r->yaml.nodes[id].next) {
        if (!read_kernel(r, id))
            return;
    }
    for (int f = 0; f < ATT_FIELD_COUNT; f++) {
        const struct attnc_setting *given = &r->base.fields[f];
        if (given->key && !(r->x.used >> f & 1) && r->d->errors == 0)
            attnc_diag_warning(r->d, at(r, given->key), "no kernel uses this default");
    }
}

/* Sets the reader's targets to `names`, which ends with NULL. If `names` is NULL, the file's
 * targets apply. */
static void take_targets(struct reader *r, const char *const *names)
{
    size_t count = 0;
    for (; names && *names; names++) {
        const struct tgt *t = tgt_find(*names);
        assert(t && count < MAX_TARGETS);
        r->targets[count++] = t;
    }
    r->targets_given = count > 0;
}

bool attnc_read_description_bytes(const char *bytes, size_t size, const char *directory,
                                  const struct attnc_read_options *options,
                                  struct attnc_description *out, struct attnc_diag *d)
{
    d->text = bytes;
    d->size = size;
    struct reader r = {.d = d};
    r.x = (struct attnc_expander){
        .yaml = &r.yaml,
        .d = d,
        .templates = options->templates ? options->templates : att_templates,
        .directory = directory,
        .out = out,
    };
    take_targets(&r, options->targets);
    if (attnc_yaml_parse(&r.yaml, bytes, size, d) && read_top(&r))
        read_kernels(&r);
    attnc_yaml_free(&r.yaml);
    attnc_expander_free(&r.x);
    if (d->errors == 0 && !d->no_memory)
        return true;
    out->count = 0;
    return false;
}

bool attnc_read_description(const char *path, const struct attnc_read_options *options,
                            struct attnc_description *out, struct attnc_diag *d)
{
    *out = (struct attnc_description){0};
    bool standard_input = strcmp(path, "-") == 0;
    *d = (struct attnc_diag){.file = standard_input ? "<stdin>" : path};
    if (!attnc_read_file(path, ATTNC_MAX_BYTES, &out->bytes, &out->size)) {
        if (errno == ENOMEM)
            return attnc_diag_no_memory(d);
        attnc_diag_error(d, nowhere, "%s", strerror(errno));
        d->unreadable = true;
        return false;
    }
    if (out->size >= strlen(ATTN_PACK_MAGIC) &&
        memcmp(out->bytes, ATTN_PACK_MAGIC, strlen(ATTN_PACK_MAGIC)) == 0) {
        attnc_diag_error(d, nowhere, "a pack, not a description; `attnc list` shows what it holds");
        return false;
    }
    char directory[PATH_MAX] = ".";
    const char *slash = standard_input ? NULL : strrchr(path, '/');
    if (slash)
        snprintf(directory, sizeof(directory), "%.*s", slash == path ? 1 : (int)(slash - path),
                 path);
    return attnc_read_description_bytes(out->bytes, out->size, directory, options, out, d);
}

void attnc_description_free(struct attnc_description *desc)
{
    free(desc->variants);
    free(desc->seconds);
    for (size_t i = 0; i < desc->path_count; i++)
        free(desc->paths[i]);
    free(desc->paths);
    free(desc->bytes);
    *desc = (struct attnc_description){0};
}
