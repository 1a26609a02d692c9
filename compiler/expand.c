/* SPDX-License-Identifier: Apache-2.0
 *
 * Expands an entry of `kernels`: reads the values of its fields, forms all combinations, drops
 * equal variants, and applies the template's check to each variant.
 */
#include "compiler/expand.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "compiler/nearest.h"
#include "compiler/op_words.h"
#include "compiler/refuse.h"
#include "targets/tgt.h"

enum {
    TABLE_SIZE = 2 * ATTNC_MAX_VARIANTS,
    MAX_WORK = 1 << 20,
    /* most characters of a hook file's stem, which becomes part of kernel names */
    HOOK_NAME_MAX = 48,
};

/* One value of a field. */
struct attnc_choice {
    struct att_loc at; /* place of the value in the description */
    int value;         /* number, enum value or flag; 0 for a file */
    const char *path;  /* path of the file, if the field is a file; NULL: no file */
};

/* The values of one field: `count` elements of x->choices from `first` on. The current combination
 * has element `first` + `next`. */
struct dimension {
    enum att_field field;
    size_t first, count, next;
};

bool attnc_spend(struct attnc_expander *x, size_t n, struct att_loc at)
{
    if (n <= MAX_WORK - x->work) {
        x->work += n;
        return true;
    }
    attnc_diag_error(x->d, at, "aliases and lists come to more than %d values here", MAX_WORK);
    return false;
}

/* True if the scalar `n`, with the text `text`, has no value: it is empty, "~" or "null" without
 * quotes. */
static bool is_null(const struct attnc_yaml_node *n, const char *text)
{
    return n->plain && (!*text || strcmp(text, "~") == 0 || strcasecmp(text, "null") == 0);
}

/* Reads a whole number within the field's bounds, or the field's word for 0, to c->value. Returns
 * false after an error. */
static bool read_int(struct attnc_expander *x, const struct att_field_info *info, const char *text,
                     struct attnc_choice *c)
{
    if (info->zero && strcmp(text, info->zero) == 0) {
        c->value = 0;
        return true;
    }
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (end == text || *end) {
        attnc_diag_error(x->d, c->at, "expected %s to be a number%s%s%s, saw '%.40s'", info->name,
                         info->zero ? " or '" : "", info->zero ? info->zero : "",
                         info->zero ? "'" : "", text);
        return false;
    }
    const int least = info->zero && info->min == 0 ? 1 : info->min; /* the field has a word for 0 */
    if (errno || value < least || value > info->max) {
        attnc_diag_error(x->d, c->at, "expected %s to be %d to %d%s%s, saw %.40s", info->name,
                         least, info->max, info->zero ? " or " : "", info->zero ? info->zero : "",
                         text);
        return false;
    }
    c->value = (int)value;
    return true;
}

/* Reads the name of an enum value to c->value. Returns false after an error, which proposes the
 * nearest name. */
static bool read_enum(struct attnc_expander *x, const struct att_field_info *info, const char *text,
                      struct attnc_choice *c)
{
    struct attnc_nearest nearest = attnc_nearest_to(text);
    char all[256] = "";
    for (int i = 0; i < info->value_count; i++) {
        if (strcmp(info->values[i].name, text) == 0) {
            c->value = i;
            return true;
        }
        attnc_nearest_offer(&nearest, info->values[i].name);
        size_t at = strlen(all);
        snprintf(all + at, sizeof(all) - at, "%s%s", i ? ", " : "", info->values[i].name);
    }
    if (nearest.name)
        attnc_diag_error(x->d, c->at, "unknown %s '%.40s'; did you mean '%s'?", info->name, text,
                         nearest.name);
    else
        attnc_diag_error(x->d, c->at, "unknown %s '%.40s'; it is one of %s", info->name, text, all);
    return false;
}

/* Reads "true" or "false" to c->value, as 1 or 0. Returns false after an error. */
static bool read_flag(struct attnc_expander *x, const struct att_field_info *info, const char *text,
                      struct attnc_choice *c)
{
    c->value = strcasecmp(text, "true") == 0;
    if (c->value || strcasecmp(text, "false") == 0)
        return true;
    attnc_diag_error(x->d, c->at, "expected %s to be true or false, saw '%.40s'", info->name, text);
    return false;
}

/* Finds the stem of a hook's path, "alibi" in "hooks/alibi.c": *stem and its *length. Returns false
 * after an error if the stem is no name. Engines look kernels up by it. */
static bool check_stem(struct attnc_expander *x, const char *path, struct att_loc at,
                       const char **stem, size_t *length)
{
    const char *slash = strrchr(path, '/');
    *stem = slash ? slash + 1 : path;
    *length = strcspn(*stem, ".");
    bool good = *length > 0 && *length <= HOOK_NAME_MAX && strcmp(*stem + *length, ".c") == 0 &&
                !(*length == 4 && strncmp(*stem, "none", 4) == 0);
    for (size_t i = 0; good && i < *length; i++)
        good = isalnum((unsigned char)(*stem)[i]) || (*stem)[i] == '_';
    if (!good)
        attnc_diag_error(x->d, at,
                         "expected a file NAME.c with up to %d letters, digits and '_', saw "
                         "'%.60s'",
                         HOOK_NAME_MAX, *stem);
    return good;
}

/* Sets c->path to a copy of `path`, which the description owns once for all uses. Two files with
 * the same stem are an error, because their kernels would have the same dispatch key. */
static bool keep_path(struct attnc_expander *x, const char *path, struct attnc_choice *c)
{
    struct attnc_description *out = x->out;
    const char *stem, *other;
    size_t length, other_length;
    if (!check_stem(x, path, c->at, &stem, &length))
        return false;
    for (size_t i = 0; i < out->path_count; i++) {
        const char *slash = strrchr(out->paths[i], '/');
        other = slash ? slash + 1 : out->paths[i];
        other_length = strcspn(other, ".");
        if (strcmp(out->paths[i], path) == 0) {
            c->path = out->paths[i];
            return true;
        }
        if (length == other_length && strncmp(stem, other, length) == 0) {
            attnc_diag_error(x->d, c->at, "%s and %s have the same name; a kernel is found by it",
                             path, out->paths[i]);
            return false;
        }
    }
    char **grown = realloc(out->paths, (out->path_count + 1) * sizeof(*grown));
    if (!grown)
        return attnc_diag_no_memory(x->d);
    out->paths = grown;
    char *copy = strdup(path);
    if (!copy)
        return attnc_diag_no_memory(x->d);
    out->paths[out->path_count++] = copy;
    c->path = copy;
    return true;
}

/* Reads the path of a file, relative to the description's directory, to c->path. "none" is NULL. A
 * file that cannot be read is an error. */
static bool read_file(struct attnc_expander *x, const char *text, struct attnc_choice *c)
{
    if (strcmp(text, "none") == 0)
        return true;
    char path[PATH_MAX];
    bool relative = text[0] != '/' && x->directory[0] && strcmp(x->directory, ".") != 0;
    int n = snprintf(path, sizeof(path), "%s%s%s", relative ? x->directory : "",
                     relative ? "/" : "", text);
    struct stat st;
    if (n >= (int)sizeof(path))
        errno = ENAMETOOLONG;
    else if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        errno = EISDIR;
    else if (access(path, R_OK) == 0)
        return keep_path(x, path, c);
    attnc_diag_error(x->d, c->at, "%.200s: %s", path, strerror(errno));
    return false;
}

/* Reads node `n` as one value of field `f`, by the field's kind. Returns false after an error. */
static bool read_value(struct attnc_expander *x, enum att_field f, const struct attnc_yaml_node *n,
                       struct attnc_choice *c)
{
    const struct att_field_info *info = &att_fields[f];
    if (n->kind != ATTNC_YAML_SCALAR) {
        attnc_diag_error(x->d, c->at, "expected %s to be a value or a list of values, saw a %s",
                         info->name, n->kind == ATTNC_YAML_MAP ? "map" : "list inside the list");
        return false;
    }
    const char *text = attnc_yaml_text(x->yaml, n);
    if (is_null(n, text)) {
        if (info->kind == ATT_KIND_FILE)
            return true;
        attnc_diag_error(x->d, c->at, "%s has no value", info->name);
        return false;
    }
    switch (info->kind) {
    case ATT_KIND_ENUM: return read_enum(x, info, text, c);
    case ATT_KIND_INT: return read_int(x, info, text, c);
    case ATT_KIND_FLAG: return read_flag(x, info, text, c);
    default: return read_file(x, text, c);
    }
}

/* Reads node `id` as a value of field `f` and appends it to x->choices. Returns false after an
 * error. */
static bool add_choice(struct attnc_expander *x, enum att_field f, uint32_t id)
{
    if (x->choice_count == x->choice_cap) {
        size_t cap = x->choice_cap ? x->choice_cap * 2 : 64;
        struct attnc_choice *grown = realloc(x->choices, cap * sizeof(*grown));
        if (!grown)
            return attnc_diag_no_memory(x->d);
        x->choices = grown;
        x->choice_cap = cap;
    }
    struct attnc_choice c = {.at = x->yaml->nodes[id].at};
    if (!attnc_spend(x, 1, c.at) || !read_value(x, f, attnc_yaml_node(x->yaml, id), &c))
        return false;
    x->choices[x->choice_count++] = c;
    return true;
}

/* Reads node `id`, a value or a list of values of field `f`, to x->choices and *dim. Reports each
 * wrong value and then returns false. */
static bool read_choices(struct attnc_expander *x, enum att_field f, uint32_t id,
                         struct dimension *dim)
{
    const struct attnc_yaml_node *n = attnc_yaml_node(x->yaml, id);
    *dim = (struct dimension){.field = f, .first = x->choice_count};
    bool good = true;
    if (n->kind == ATTNC_YAML_LIST) {
        for (uint32_t child = n->first; child; child = x->yaml->nodes[child].next)
            good = add_choice(x, f, child) && good;
        if (!n->first) {
            attnc_diag_error(x->d, x->yaml->nodes[id].at, "an empty list of %s gives no kernel",
                             att_fields[f].name);
            good = false;
        }
    } else {
        good = add_choice(x, f, id);
    }
    dim->count = x->choice_count - dim->first;
    return good;
}

/* Returns the place of the variant in the hash table x->table, or the free place for it. */
static uint32_t *find_place(struct attnc_expander *x, const struct att_variant *v)
{
    char text[ATT_TEXT_MAX];
    att_variant_text(v, text);
    size_t i = XXH3_64bits(text, strlen(text)) % TABLE_SIZE;
    while (x->table[i] && !att_variant_same(&x->out->variants[x->table[i] - 1], v))
        i = (i + 1) % TABLE_SIZE;
    return &x->table[i];
}

/* Adds the variant unless it is a duplicate or its template refuses it. The refusal is an error,
 * except with `where: possible`; `together` as in attnc_report_refusal(). Returns false if memory
 * or a limit is exhausted. */
static bool add_variant(struct attnc_expander *x, const struct att_variant *v,
                        const struct tgt *target, bool together)
{
    struct attnc_description *out = x->out;
    uint32_t *place = find_place(x, v);
    if (*place)
        return true;
    struct att_why why = {.field = ATT_FIELD_COUNT};
    if (!v->op->check(v, &target->machine, &why)) {
        if (x->leaves_out) {
            x->left_out++;
            return true;
        }
        attnc_report_refusal(x->d, v, &target->machine, &why, together);
        if (why.field < ATT_FIELD_COUNT)
            attnc_report_others(x->d, v, &target->machine, ATT_FIELD(why.field));
        return true;
    }
    if (out->count == ATTNC_MAX_VARIANTS) {
        attnc_diag_error(x->d, v->at, "more than %d kernels in one description",
                         ATTNC_MAX_VARIANTS);
        return false;
    }
    if (out->count == x->variant_cap) {
        size_t cap = x->variant_cap ? x->variant_cap * 2 : 64;
        struct att_variant *grown = realloc(out->variants, cap * sizeof(*grown));
        if (!grown)
            return attnc_diag_no_memory(x->d);
        out->variants = grown;
        x->variant_cap = cap;
    }
    out->variants[out->count++] = *v;
    *place = (uint32_t)out->count;
    return true;
}

/* Advances to the next combination of values; the last of the `count` dimensions changes fastest.
 * Returns false after the last combination. */
static bool advance(struct dimension *dims, size_t count)
{
    for (size_t i = count; i-- > 0;) {
        if (++dims[i].next < dims[i].count)
            return true;
        dims[i].next = 0;
    }
    return false;
}

/* Returns the variant of `op` for `target` with the current value of each of `count` dimensions.
 * `at` is the place of the op in the description. */
static struct att_variant combine(const struct attnc_expander *x, const struct att_template *op,
                                  struct att_loc at, const struct tgt *target,
                                  const struct dimension *dims, size_t count)
{
    struct att_variant v;
    att_variant_init(&v, op, target->machine.name);
    v.at = at;
    for (size_t i = 0; i < count; i++) {
        const struct attnc_choice *c = &x->choices[dims[i].first + dims[i].next];
        if (att_fields[dims[i].field].kind == ATT_KIND_FILE)
            att_set_file(&v, dims[i].field, c->path);
        else
            att_set(&v, dims[i].field, c->value);
        v.loc[dims[i].field] = c->at;
    }
    att_variant_resolve(&v);
    return v;
}

/* Adds a variant of `op` for `target` for each combination of the `count` dimensions; `product` is
 * the number of combinations. */
static bool add_product(struct attnc_expander *x, const struct att_template *op, struct att_loc at,
                        const struct tgt *target, struct dimension *dims, size_t count,
                        size_t product)
{
    do {
        const struct att_variant v = combine(x, op, at, target, dims, count);
        if (!attnc_spend(x, 1, at) || !add_variant(x, &v, target, product > 1))
            return false;
    } while (advance(dims, count));
    return true;
}

/*
 * Reads the values of the fields that `op` takes to `dims`, *count elements. Returns ATT_BIT() of
 * each field that is missing, has a wrong value, or is given but not a field of the op. Such fields
 * get no dimension.
 */
static att_field_set read_fields(struct attnc_expander *x, const struct attnc_settings *s,
                                 const struct att_template *op, struct att_loc at,
                                 struct dimension *dims, size_t *count)
{
    att_field_set wrong = 0;
    x->choice_count = 0;
    *count = 0;
    for (int f = 0; f < ATT_FIELD_COUNT; f++) {
        const struct attnc_setting *set = &s->fields[f];
        bool taken = op->takes >> f & 1;
        if (taken && set->value) {
            x->used |= ATT_FIELD(f);
            if (read_choices(x, f, set->value, &dims[*count]))
                (*count)++;
            else
                wrong |= ATT_FIELD(f);
        } else if (taken && att_fields[f].required) {
            if (!(s->misspelt >> f & 1))
                attnc_diag_error(x->d, at, "%s needs %s", op->name, att_fields[f].name);
            wrong |= ATT_FIELD(f);
        } else if (!taken && set->value && !set->from_defaults) {
            attnc_diag_error(x->d, x->yaml->nodes[set->key].at, "%s does not take %s", op->name,
                             att_fields[f].name);
            wrong |= ATT_FIELD(f);
        }
    }
    return wrong;
}

/* Adds the variants of `op` for all `targets`, and reports wrong fields. Returns false if expansion
 * cannot continue. */
static bool expand_op(struct attnc_expander *x, const struct attnc_settings *s,
                      const struct att_template *op, struct att_loc at,
                      const struct tgt *const *targets)
{
    struct dimension dims[ATT_FIELD_COUNT];
    size_t count;
    const att_field_set wrong = read_fields(x, s, op, at, dims, &count);
    if (wrong) {
        for (; *targets && !x->d->no_memory; targets++) {
            const struct att_variant v = combine(x, op, at, *targets, dims, count);
            attnc_report_others(x->d, &v, &(*targets)->machine, wrong);
        }
        return !x->d->no_memory;
    }
    size_t product = 1;
    for (size_t i = 0; i < count; i++) {
        /* no overflow: both are at most MAX_WORK, and the product is checked each time */
        product *= dims[i].count;
        if (product > ATTNC_MAX_VARIANTS) {
            attnc_diag_error(x->d, at, "the product of these lists is more than %d kernels",
                             ATTNC_MAX_VARIANTS);
            return true;
        }
    }
    size_t n = 0;
    for (x->left_out = 0; targets[n]; n++) {
        if (!add_product(x, op, at, targets[n], dims, count, product))
            return false;
    }
    if (n == 0 || x->left_out < n * product)
        return true;
    attnc_diag_error(x->d, at, "no combination of these values is possible");
    x->leaves_out = false;
    return add_product(x, op, at, targets[0], dims, count, product);
}

/* Reads the key `where` to x->leaves_out. Its only word is "possible"; returns false after an error
 * for another one. */
static bool read_where(struct attnc_expander *x, const struct attnc_setting *where)
{
    x->leaves_out = false;
    if (!where->value)
        return true;
    const struct attnc_yaml_node *n = attnc_yaml_node(x->yaml, where->value);
    x->leaves_out =
        n->kind == ATTNC_YAML_SCALAR && strcmp(attnc_yaml_text(x->yaml, n), "possible") == 0;
    if (!x->leaves_out)
        attnc_diag_error(x->d, x->yaml->nodes[where->value].at, "expected where to be 'possible'");
    return x->leaves_out;
}

/* Returns the op that node `id` names. Returns NULL after an error, which suggests similar ops. */
static const struct att_template *find_template(struct attnc_expander *x, uint32_t id)
{
    const struct attnc_yaml_node *n = attnc_yaml_node(x->yaml, id);
    struct att_loc at = x->yaml->nodes[id].at;
    if (n->kind != ATTNC_YAML_SCALAR) {
        attnc_diag_error(x->d, at, "expected op to be a name");
        return NULL;
    }
    const char *name = attnc_yaml_text(x->yaml, n);
    for (const struct att_template *const *t = x->templates; *t; t++) {
        if (strcmp((*t)->name, name) == 0)
            return *t;
    }
    char ops[160];
    if (attnc_suggest_ops(x->templates, name, ops, sizeof(ops)))
        attnc_diag_error(x->d, at, "unknown op '%.40s'; did you mean %s?", name, ops);
    else
        attnc_diag_error(x->d, at, "unknown op '%.40s'; `attnc help ops` lists them", name);
    return NULL;
}

bool attnc_expand(struct attnc_expander *x, const struct attnc_settings *s,
                  const struct tgt *const *targets)
{
    if (!x->table) {
        x->table = calloc(TABLE_SIZE, sizeof(*x->table));
        if (!x->table)
            return attnc_diag_no_memory(x->d);
    }
    if (!s->op.value) {
        attnc_diag_error(x->d, s->at, "a kernel without op");
        return true;
    }
    const struct attnc_yaml_node *n = attnc_yaml_node(x->yaml, s->op.value);
    bool list = n->kind == ATTNC_YAML_LIST;
    uint32_t id = list ? n->first : s->op.value;
    if (!id)
        attnc_diag_error(x->d, x->yaml->nodes[s->op.value].at, "an empty list of op");
    for (; id; id = list ? x->yaml->nodes[id].next : 0) {
        const struct att_template *op = find_template(x, id);
        if (!attnc_spend(x, 1, s->at))
            return false;
        if (!read_where(x, &s->where))
            return true;
        if (op && !expand_op(x, s, op, x->yaml->nodes[id].at, targets))
            return false;
    }
    return true;
}

void attnc_expander_free(struct attnc_expander *x)
{
    free(x->choices);
    free(x->table);
    x->choices = NULL;
    x->table = NULL;
}
