/* SPDX-License-Identifier: Apache-2.0
 *
 * The splits of a tuning file: the best split-KV division for decode calls. Splits become a table
 * of the key's kernel in the pack, and may need kernels that the description lacks.
 */
#include "compiler/tuning.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/tuning_key.h"
#include "targets/tgt.h"

bool attnc_split_call(const char *call, struct att_split *out)
{
    *out = (struct att_split){0};
    const struct {
        const char *name;
        int *number;
    } numbers[] = {{"batch", &out->batch},
                   {"k", &out->keys},
                   {"heads", &out->heads},
                   {"kv_heads", &out->kv_heads}};
    for (const char *at = call; *at;) {
        char name[32];
        int value, length = 0;
        if (sscanf(at, "%31[a-z_]=%9d%n", name, &value, &length) != 2 || value < 0 ||
            (at[length] && (at[length] != ',' || !at[length + 1])))
            return false;
        for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
            if (!strcmp(numbers[i].name, name))
                *numbers[i].number = value;
        }
        at += length + (at[length] == ',');
    }
    return out->batch > 0 && out->keys > 0;
}

bool attnc_split_takes_units(const struct att_variant *v)
{
    return v->sparse == ATT_SPARSE_SLOTS && v->kv_dtype == ATT_KV_DTYPE_SAME &&
           v->kv_layout == ATT_KV_LAYOUT_NHD;
}

/* Replaces the splits of a row by the splits that the tuning has for its key. A row with boxes of
 * calls gets none. Returns false if memory is exhausted. */
static bool link_row(const struct attnc_tuning *t, struct attnc_tuned *row)
{
    struct att_choice *c = &row->choice;
    free(c->splits);
    c->splits = NULL;
    c->split_count = 0;
    for (size_t i = 0; !c->count && i < t->split_count; i++) {
        const struct attnc_split *s = &t->splits[i];
        struct att_split split;
        if (strcmp(s->key, row->key) || !attnc_split_call(s->call, &split))
            continue;
        struct att_split *grown = realloc(c->splits, (c->split_count + 1) * sizeof(*grown));
        if (!grown)
            return false;
        split.lists = (int)s->lists;
        split.item_cost = (int)s->item_cost;
        split.merge_rate = (int)s->merge_rate;
        split.unit_keys = (int)s->unit_keys;
        split.one_launch = s->one_launch;
        c->splits = grown;
        grown[c->split_count++] = split;
    }
    return true;
}

bool attnc_tuning_link(struct attnc_tuning *t)
{
    for (size_t i = 0; i < t->count; i++) {
        if (!link_row(t, &t->rows[i]))
            return false;
    }
    return true;
}

/* True if the variant's template accepts it. */
static bool is_possible(const struct att_variant *v)
{
    struct att_why why = {.text = ""};
    return v->op->check(v, &tgt_find(v->target)->machine, &why);
}

bool attnc_split_sibling(const struct att_variant *v, struct att_variant *sibling)
{
    *sibling = *v;
    sibling->tile = 0;
    sibling->choice = NULL;
    sibling->one_launch = true;
    return !v->one_launch && v->op->takes & ATT_BIT(ONE_LAUNCH) && is_possible(sibling);
}

bool attnc_split_combine(const struct att_variant *v, struct att_variant *combine)
{
    att_variant_init(combine, attnc_find_op("combine"), v->target);
    combine->dtype = v->dtype;
    combine->head_dim = v->head_dim_v;
    combine->partials = ATT_PARTIALS_CSR;
    att_variant_resolve(combine);
    return !v->one_launch && is_possible(combine);
}
