/* SPDX-License-Identifier: Apache-2.0
 *
 * The sum of a list's parts by all waves of a workgroup. Each wave adds some consecutive parts of
 * the same rows, and stores its sum in LDS. The first wave adds these sums. If a list has no more
 * parts than one wave loads at once, each wave adds all parts, and the first one writes the result.
 * The loads of the other waves then fill the caches for the first.
 */
#include "templates/attention/part_rows.h"

#include <math.h>

#include "ir/address_map.h"
#include "ir/bits.h"
#include "templates/workgroup/barrier.h"

enum { FLOAT = 4, VALUES = 2 + ATT_PART_PANELS };

/* Returns the bytes of LDS for the partial sum of one wave: O, l and lse of the rows. */
static int state_bytes(const struct att_part_rows *r)
{
    unsigned columns = 2;
    for (unsigned k = 0; k < r->type.n; k++)
        columns += r->type.o[k].cols;
    return (int)(columns * r->type.row.rows) * FLOAT;
}

unsigned att_parts_shared_bytes(const struct att_part_rows *r)
{
    return r->waves * (unsigned)state_bytes(r);
}

/* Sets member[] to pointers to lse, l and the panels of O in *s, and types[] to their types.
 * Returns their number. */
static unsigned list_members(const struct att_part_rows *r, struct att_part_state *s,
                             struct tir_value *member[VALUES], struct tir_type types[VALUES])
{
    unsigned n = 0;
    member[n] = &s->lse;
    types[n++] = r->type.row;
    member[n] = &s->l;
    types[n++] = r->type.row;
    for (unsigned k = 0; k < r->type.n; k++) {
        member[n] = &s->o[k];
        types[n++] = r->type.o[k];
    }
    return n;
}

/* Stores *s in LDS from address `at` (i32) on, or with `load` sets *s from LDS. */
static void exchange(struct att_part_rows *r, struct tir_value at, bool load,
                     struct att_part_state *s)
{
    struct tir_value *member[VALUES];
    struct tir_type types[VALUES];
    const unsigned n = list_members(r, s, member, types);
    int byte = 0;
    for (unsigned i = 0; i < n; i++) {
        const struct tir_layout map = tir_row_major(types[i].rows, types[i].cols);
        const struct tir_value place = att_plus(r->b, at, byte);
        if (load)
            *member[i] = tir_tile_lds_load(r->b, place, types[i], &map);
        else
            tir_tile_lds_store(r->b, place, *member[i], &map);
        byte += (int)(types[i].rows * types[i].cols) * FLOAT;
    }
}

/* Returns the part of list `l` that wave `wave` (i32, index) adds. All waves have equally many
 * consecutive parts, except that the last waves may have fewer. */
static struct att_part_list share_of(struct att_part_rows *r, const struct att_part_list *l,
                                     struct tir_value wave)
{
    struct tir_builder *b = r->b;
    struct att_part_list own = *l;
    const struct tir_value round = att_plus(b, l->count, (int)r->waves - 1);
    const struct tir_value each = tir_shr(b, round, tir_i32(b, (int)tir_bits(r->waves)));
    const struct tir_value first = tir_mul(b, wave, each);
    own.count = tir_min(b, tir_sub(b, l->count, first), each);
    if (l->map.id)
        own.map = tir_add(b, l->map, att_wide_times(b, first, FLOAT));
    else
        own.first = tir_add(b, l->first, first);
    return own;
}

/* Returns the sum of this wave's parts, the list `own`, without sinks. If the wave has no parts,
 * lse is -infinity and the other members are 0. */
static struct att_part_state add_own(struct att_part_rows *r, const struct att_part_list *own)
{
    struct tir_builder *b = r->b;
    struct att_part_state sum;
    struct tir_value *member[VALUES], values[VALUES];
    struct tir_type types[VALUES];
    const unsigned n = list_members(r, &sum, member, types);
    const struct tir_value has = tir_cmp_gt(b, own->count, tir_i32(b, 0));
    struct tir_if some = tir_begin_if(b, has, false, types, n);
    sum = att_parts_add_list(r, own);
    for (unsigned i = 0; i < n; i++)
        values[i] = *member[i];
    tir_else(b, &some, values);
    for (unsigned i = 0; i < n; i++)
        values[i] = tir_splat(b, tir_f32(b, i ? 0.0f : -INFINITY), types[i]);
    tir_end_if(b, &some, values);
    for (unsigned i = 0; i < n; i++)
        *member[i] = values[i];
    return sum;
}

/* Adds the sums of all waves, which are in LDS from address `lds` (i32) on, and the sinks `sink`
 * of att_parts_load_sinks(). Writes out and LSE. */
static void finish_shared(struct att_part_rows *r, struct tir_value lds, struct tir_value sink)
{
    struct att_part_state s[ATT_PARTS_WAVES + 1];
    for (unsigned i = 0; i < r->waves; i++)
        exchange(r, att_plus(r->b, lds, (int)i * state_bytes(r)), true, &s[i]);
    s[r->waves] = att_parts_sink_state(r, sink);
    att_parts_finish(r, att_parts_add_states(r, s, r->waves + 1));
}

/* Adds a share of list `l` in each wave. Then the first wave adds the shares and writes out and
 * LSE. The loads of the parts cover the time of the sinks' load, which is issued before them.
 * `wave` (i32): this wave's index. `lds` (i32): LDS address of att_parts_shared_bytes() bytes. */
static void write_shares(struct att_part_rows *r, const struct att_part_list *l,
                         struct tir_value wave, struct tir_value lds)
{
    struct tir_builder *b = r->b;
    struct att_part_rows own = *r;
    own.no_sinks = true; /* finish_shared() adds the sinks once */
    const struct att_part_list share = share_of(r, l, wave);
    const struct tir_value sink = att_parts_load_sinks(r);
    struct att_part_state sum = add_own(&own, &share);
    exchange(r, tir_add(b, lds, att_times(b, wave, state_bytes(r))), false, &sum);
    att_lds_barrier(b);
    struct tir_if first = att_begin_if(b, tir_cmp_eq(b, wave, tir_i32(b, 0)));
    finish_shared(r, lds, sink);
    tir_end_if(b, &first, NULL);
}

void att_parts_write_shared(struct att_part_rows *r, const struct att_part_list *l,
                            struct tir_value wave, struct tir_value lds)
{
    struct tir_builder *b = r->b;
    const struct tir_value one_batch = tir_cmp_le(b, l->count, tir_i32(b, (int)r->at_once));
    struct tir_if few = att_begin_if(b, one_batch);
    const struct att_part_state sum = att_parts_add_list(r, l);
    struct tir_if first = att_begin_if(b, tir_cmp_eq(b, wave, tir_i32(b, 0)));
    att_parts_finish(r, sum);
    tir_end_if(b, &first, NULL);
    tir_else(b, &few, NULL);
    write_shares(r, l, wave, lds);
    tir_end_if(b, &few, NULL);
}
