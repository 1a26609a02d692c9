/* SPDX-License-Identifier: Apache-2.0
 *
 * Adds the second kernels of dispatch keys. The calls of a key's tuned kernels are subtracted from
 * the calls of its second kernels. So no call is for two kernels, and the order of a pack's kernels
 * does not matter.
 */
#include "compiler/second.h"

#include <stdlib.h>
#include <string.h>

#include "compiler/boxes.h"
#include "pack/pack_format.h"
#include "targets/tgt.h"

/* A kernel of the new description and the calls that it is for. Without boxes the variant's own
 * choice applies. */
struct row {
    struct att_variant variant;
    struct attnc_boxes boxes;
};

struct rows {
    struct row *rows;
    size_t count, cap;
    struct attnc_diag *d;
};

/* Returns the *count boxes of launch arguments to which a variant is limited. NULL and 0: it is for
 * all calls that no other kernel of its key is for. */
static const struct att_box *boxes_of(const struct att_variant *v, unsigned *count)
{
    *count = v->choice ? v->choice->count : 0;
    return *count ? v->choice->boxes : NULL;
}

/* Sets *second to the n-th (from 0) second kernel of the variant's key. Returns false if the key
 * has at most `n`, or if the variant names a tile or calls. */
static bool find_second(const struct att_variant *v, unsigned n, struct att_second *second)
{
    const struct tgt *const target = tgt_find(v->target);
    unsigned boxes;
    boxes_of(v, &boxes);
    return v->op->second && !v->tile && !boxes && target &&
           v->op->second(v, &target->machine, n, second);
}

/* Appends a row without boxes for a variant. Returns NULL if memory is exhausted. */
static struct row *add_row(struct rows *l, const struct att_variant *v)
{
    if (l->count == l->cap) {
        const size_t cap = l->cap ? 2 * l->cap : 64;
        struct row *const grown = realloc(l->rows, cap * sizeof(*grown));
        if (!grown)
            return NULL;
        l->rows = grown;
        l->cap = cap;
    }
    l->rows[l->count] = (struct row){.variant = *v};
    return &l->rows[l->count++];
}

/* True if two variants have the same dispatch key: they differ at most in their tiles. */
static bool same_key(const struct att_variant *a, const struct att_variant *b)
{
    struct att_variant x = *a, y = *b;
    x.tile = y.tile = 0;
    return att_variant_same(&x, &y);
}

/* Adds a second kernel's calls to `row`, without the calls of the key's tuned kernels, which are
 * rows `first` to `tuned` (excluded). Returns false if memory is exhausted. */
static bool add_calls(const struct rows *l, size_t first, size_t tuned, struct row *row,
                      const struct att_second *second)
{
    const size_t before = row->boxes.count;
    bool good = attnc_boxes_add(&row->boxes, &second->calls);
    for (unsigned i = 0; good && i < ATT_SECOND_ALSO && second->also[i].count; i++)
        good = attnc_boxes_add(&row->boxes, &second->also[i]);
    for (size_t i = first; good && i < tuned; i++) {
        unsigned count;
        const struct att_box *const boxes = boxes_of(&l->rows[i].variant, &count);
        for (unsigned k = 0; good && k < count; k++)
            good = attnc_boxes_cut(&row->boxes, before, &boxes[k]);
    }
    return good;
}

/* Returns the kernel with this tile and with calls of its own among rows `first` to `end`
 * (excluded). NULL: there is none. */
static struct row *find_tile(const struct rows *l, size_t first, size_t end, int tile)
{
    for (size_t i = first; i < end; i++) {
        if (l->rows[i].boxes.count && l->rows[i].variant.tile == tile)
            return &l->rows[i];
    }
    return NULL;
}

/* Adds the second kernels of row `own`. The description's kernels of its key are rows `first` to
 * `tuned` (excluded). Returns false if memory is exhausted. */
static bool add_seconds(struct rows *l, size_t own, size_t first, size_t tuned)
{
    struct att_second second;
    const struct att_variant v = l->rows[own].variant;
    for (unsigned n = 0; find_second(&v, n, &second); n++) {
        struct att_variant beside = v;
        beside.tile = (int)second.tile;
        beside.choice = NULL;
        struct row *row = find_tile(l, first, tuned, beside.tile);
        if (!row && !(row = add_row(l, &beside)))
            return false;
        if (!add_calls(l, first, tuned, row, &second))
            return false;
        if (!row->boxes.count) { /* tuned kernels cover all of its calls */
            free(row->boxes.rows);
            l->count--;
        }
    }
    return true;
}

/* Reports an error if the key of the rows from `first` on has more kernels than libattn
 * considers. */
static void check_count(const struct rows *l, size_t first)
{
    size_t records = 0;
    for (size_t i = first; i < l->count; i++)
        records += l->rows[i].boxes.count ? l->rows[i].boxes.count : 1;
    if (l->rows[first].variant.choice && records > ATTN_PACK_MATCHES_MAX)
        attnc_diag_error(l->d, l->rows[first].variant.at,
                         "%zu kernels or boxes of calls of one key, at most %d fit", records,
                         ATTN_PACK_MATCHES_MAX);
}

/* Adds rows for variants `i` to `end` (excluded), which have one key, and for the key's second
 * kernels. Returns false if memory is exhausted. */
static bool add_key(struct rows *l, const struct attnc_description *desc, size_t i, size_t end)
{
    const size_t first = l->count, tuned = first + (end - i);
    for (; i < end; i++) {
        unsigned count;
        const struct att_box *const boxes = boxes_of(&desc->variants[i], &count);
        struct row *const row = add_row(l, &desc->variants[i]);
        for (unsigned k = 0; row && k < count; k++) {
            if (!attnc_boxes_add(&row->boxes, &boxes[k]))
                return false;
        }
        if (!row)
            return false;
    }
    for (size_t k = first; k < tuned; k++) {
        if (!add_seconds(l, k, first, tuned))
            return false;
    }
    check_count(l, first);
    return true;
}

/* The choices of the new variants and their boxes, in one allocation that becomes
 * attnc_description.seconds. */
struct block {
    struct att_choice *choices;
    struct att_box *boxes;
};

/* Allocates one block for the choices and boxes of all rows. Returns false if memory is
 * exhausted. */
static bool allocate(const struct rows *l, struct block *b)
{
    size_t boxes = 0;
    for (size_t i = 0; i < l->count; i++)
        boxes += l->rows[i].boxes.count;
    b->choices = calloc(1, l->count * sizeof(*b->choices) + boxes * sizeof(*b->boxes));
    b->boxes = (struct att_box *)(b->choices ? b->choices + l->count : NULL);
    return b->choices;
}

/* Replaces the description's variants by the rows. Returns false if memory is exhausted. */
static bool replace(struct attnc_description *desc, const struct rows *l)
{
    struct block b;
    struct att_variant *const all = malloc(l->count * sizeof(*all));
    if (!all || !allocate(l, &b)) {
        free(all);
        return false;
    }
    struct att_box *next = b.boxes;
    for (size_t i = 0; i < l->count; i++) {
        const struct row *const row = &l->rows[i];
        all[i] = row->variant;
        if (!row->boxes.count)
            continue;
        memcpy(next, row->boxes.rows, row->boxes.count * sizeof(*next));
        b.choices[i] = (struct att_choice){.boxes = next, .count = (unsigned)row->boxes.count};
        all[i].choice = &b.choices[i];
        next += row->boxes.count;
    }
    free(desc->variants);
    free(desc->seconds);
    desc->variants = all;
    desc->seconds = b.choices;
    desc->count = l->count;
    return true;
}

bool attnc_add_seconds(struct attnc_description *desc, struct attnc_diag *d)
{
    struct rows l = {.d = d};
    const size_t errors = d->errors;
    bool good = true;
    for (size_t i = 0, end; good && i < desc->count; i = end) {
        for (end = i + 1; end < desc->count && same_key(&desc->variants[i], &desc->variants[end]);)
            end++;
        good = add_key(&l, desc, i, end);
    }
    good = good && (!l.count || replace(desc, &l));
    for (size_t i = 0; i < l.count; i++)
        free(l.rows[i].boxes.rows);
    free(l.rows);
    return good ? d->errors == errors : attnc_diag_no_memory(d);
}
