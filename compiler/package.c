/* SPDX-License-Identifier: Apache-2.0
 *
 * Adds the kernels of a build to a pack: converts variants and kernels to the pack writer's types.
 */
#include "compiler/package.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "compiler/pack_writer.h"
#include "ir/ir.h"
#include "targets/tgt.h"

/* The text of one value of a dispatch key. */
struct spelling {
    char text[ATT_NAME_MAX];
};

/* Writes the fields of a variant's dispatch key to `pairs`, and the texts of their values to
 * `values`. Returns the number of fields. */
static size_t make_key(const struct att_variant *v, struct attnc_pack_pair *pairs,
                       struct spelling *values)
{
    size_t count = 0;
    for (int f = 0; f < ATT_FIELD_COUNT; f++) {
        if (!(v->op->takes >> f & 1) || att_fields[f].role != ATT_ROLE_KEY)
            continue;
        att_format_value(v, f, values[count].text, sizeof(values[count].text));
        pairs[count] = (struct attnc_pack_pair){att_fields[f].name, values[count].text};
        count++;
    }
    return count;
}

/* Returns the kind by which a pack describes the argument's type. */
static enum attn_arg_kind arg_kind(const struct attnc_arg *arg)
{
    switch (arg->dtype) {
    case TIR_I64: return ATTN_KIND_I64;
    case TIR_F32: return ATTN_KIND_F32;
    default: assert(arg->dtype == TIR_I32); return ATTN_KIND_I32;
    }
}

/* Writes the factors of a grid dimension to `factors`. Returns their number, 0 to 2. */
static size_t make_grid(const struct attnc_grid *g, struct attnc_pack_factor factors[2])
{
    size_t count = 0;
    if (g->arg[0])
        factors[count++] = (struct attnc_pack_factor){g->arg, g->divide ? g->divide : 1};
    if (g->times > 1)
        factors[count++] = (struct attnc_pack_factor){NULL, g->times};
    return count;
}

/* Adds the kernel `p` to the pack once for each box of calls in `choice`, with the box as
 * conditions. The records share the code. Without boxes adds it once, for every call. */
static bool add_records(struct attnc_pack_writer *w, struct attnc_pack_kernel *p,
                        const struct att_choice *choice)
{
    char name[ATT_NAME_MAX + 16];
    const char *const first = p->name;
    if (!choice || !choice->count)
        return attnc_pack_writer_add(w, p);
    for (unsigned i = 0; i < choice->count; i++) {
        const struct att_box *box = &choice->boxes[i];
        struct attnc_pack_when rows[ATT_WHEN_MAX];
        for (unsigned r = 0; r < box->count; r++)
            rows[r] =
                (struct attnc_pack_when){box->rows[r].arg, box->rows[r].min, box->rows[r].max};
        snprintf(name, sizeof(name), "%s_calls%u", first, i + 1);
        p->name = i ? name : first;
        p->when = rows;
        p->when_count = box->count;
        if (!attnc_pack_writer_add(w, p))
            return false;
    }
    return true;
}

/* Converts the splits of `choice` to the pack's type and returns their number, at most
 * ATTN_PACK_SPLITS_MAX. */
static size_t make_splits(const struct att_choice *choice, struct attn_pack_split *rows)
{
    const unsigned count = choice ? choice->split_count : 0;
    for (unsigned i = 0; i < count && i < ATTN_PACK_SPLITS_MAX; i++) {
        const struct att_split *s = &choice->splits[i];
        rows[i] = (struct attn_pack_split){
            .batch = s->batch,
            .keys = s->keys,
            .heads = s->heads,
            .kv_heads = s->kv_heads,
            .lists = s->lists,
            .item_cost = (int16_t)s->item_cost,
            .merge_rate = (int16_t)s->merge_rate,
            .one_launch = s->one_launch,
            .unit_keys = s->unit_keys,
        };
    }
    return count;
}

/* Adds the kernel `k` of variant `v` to the pack. */
static bool add_kernel(struct attnc_pack_writer *w, const struct att_variant *v,
                       const struct attnc_kernel *k)
{
    struct attnc_pack_pair pairs[ATT_FIELD_COUNT];
    struct spelling values[ATT_FIELD_COUNT];
    struct attnc_pack_kernarg args[ATTNC_MAX_ARGS];
    struct attnc_pack_factor factors[3][2];
    struct attn_pack_split splits[ATTN_PACK_SPLITS_MAX];
    const struct tgt_kernel_facts *facts = &k->facts;
    struct attnc_pack_kernel p = {
        .name = k->name,
        .symbol = k->name,
        .op = v->op->name,
        .target = v->target,
        .tuning = k->tuning,
        .provenance = ATTNC_PROVENANCE,
        .key = pairs,
        .key_count = make_key(v, pairs, values),
        .kernargs = args,
        .kernarg_count = k->arg_count,
        .kernarg_size = facts->kernarg_bytes,
        .splits = splits,
        .split_count = make_splits(v->choice, splits),
        .workgroups_most = k->workgroups_most,
        .workgroup = {facts->workgroup_size, 1, 1},
        .lds_static = facts->lds_bytes,
        .vgprs = (uint16_t)facts->vgprs,
        .agprs = (uint16_t)facts->agprs,
        .sgprs = (uint16_t)facts->sgprs,
        .spills = (uint16_t)(facts->vgpr_spills + facts->sgpr_spills),
        .scratch = facts->scratch_bytes,
        .occupancy = (uint16_t)facts->occupancy,
        .mfma_duty = facts->loop.mfma ? (uint16_t)facts->mfma_duty : UINT16_MAX,
        .code_bytes = facts->code_bytes,
        .code = k->code.data,
        .code_size = k->code.size,
    };
    for (uint32_t i = 0; i < k->arg_count; i++)
        args[i] =
            (struct attnc_pack_kernarg){k->args[i].name, k->args[i].offset, arg_kind(&k->args[i])};
    for (int i = 0; i < 3; i++) {
        p.grid[i] = factors[i];
        p.grid_count[i] = make_grid(&k->grid[i], factors[i]);
    }
    return add_records(w, &p, v->choice);
}

size_t attnc_count_entries(const struct attnc_description *desc)
{
    size_t entries = 0;
    for (size_t i = 0; i < desc->count; i++) {
        const struct att_choice *const choice = desc->variants[i].choice;
        entries += choice && choice->count ? choice->count : 1;
    }
    return entries;
}

bool attnc_package(struct attnc_pack_writer *w, const struct attnc_description *desc,
                   const struct attnc_build_result *built)
{
    for (size_t i = 0; i < desc->count; i++) {
        if (!add_kernel(w, &desc->variants[i], &built->kernels[i]))
            return false;
    }
    return true;
}
