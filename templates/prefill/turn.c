/* SPDX-License-Identifier: Apache-2.0
 *
 * This file chooses the work of a workgroup of `prefill`: a tile of queries, or one in each turn.
 */
#include "ir/bits.h"
#include "templates/workgroup/grid.h"
#include "templates/prefill/prefill.h"
#include "templates/workgroup/scalar.h"

/* A piece of work: place `place` of `places`, heads x sequences, in a layer of tiles of queries. */
struct turn {
    struct tir_value place, places, layer;
};

/*
 * The grid is heads x sequences x tiles of queries, the last tiles first unless the tile says
 * `ascending`: those see the most keys of a causal mask, and the whole launch starts with them.
 * Within a layer of tiles, the heads that share a KV head go to the same XCD, whose L2 then holds
 * their keys.
 */
static void find_sequence_and_head(struct prefill *p, const struct turn *t)
{
    struct tir_builder *b = &p->b;
    const struct tir_value heads = tir_arg(b, ARG_HEADS, TIR_I32);
    const struct tir_value item =
        att_xcd_item(b, t->place, tir_mul(b, t->layer, t->places), t->places);
    p->work.sequence = tir_div(b, item, heads);
    p->work.head = tir_sub(b, item, tir_mul(b, p->work.sequence, heads));
}

static struct tir_value count_layers(struct prefill *p)
{
    const int rows = (int)prefill_queries(p);
    const struct tir_value most = tir_arg(&p->b, ARG_MAX_SEQLEN_Q, TIR_I32);
    return tir_div(&p->b, att_plus(&p->b, most, rows - 1), tir_i32(&p->b, rows));
}

/* Does an XCD take all tiles of a head before the next one? Not with a causal mask, whose launch
 * begins with the longest tiles; nor in turns of D 128, whose loop has all scalar registers. */
static bool takes_whole_heads(const struct prefill *p)
{
    const bool turns = prefill_workgroups(p) != 0;
    return p->v->mask != ATT_MASK_CAUSAL && (!turns || p->tile->own[PREFILL_WHOLE_HEADS]);
}

/* An XCD takes all tiles of a head before those of the next: its L2 then holds the keys of few
 * heads, whatever the GQA ratio is. */
static void find_tile_of_head(struct prefill *p, struct turn *t)
{
    struct tir_builder *b = &p->b;
    const struct tir_value heads = tir_arg(b, ARG_HEADS, TIR_I32), layers = count_layers(p);
    const struct tir_value order = tir_add(b, tir_mul(b, t->layer, t->places), t->place);
    const struct tir_value item =
        att_xcd_item(b, order, tir_i32(b, 0), tir_mul(b, t->places, layers));
    const struct tir_value place = tir_div(b, item, layers);
    p->work.sequence = tir_div(b, item, tir_mul(b, layers, heads));
    p->work.head = tir_sub(b, place, tir_mul(b, p->work.sequence, heads));
    t->layer = tir_sub(b, item, tir_mul(b, place, layers));
}

static void find_kv_head(struct prefill *p)
{
    struct tir_builder *b = &p->b;
    p->work.kv_head = p->v->gqa ? tir_div(b, p->work.head, tir_i32(b, p->v->gqa))
                                : tir_div(b, p->work.head, tir_arg(b, ARG_GQA, TIR_I32));
}

/* Turns are for tiles that take about as long as each other, where nothing else takes registers. A
 * compute unit has room for one workgroup. Of two that it gets one after the other the second one
 * begins anew, but a causal mask's tiles are dealt out more evenly. */
int prefill_workgroups(const struct prefill *p)
{
    const struct att_variant *const v = p->v;
    const int wanted = p->tile->own[PREFILL_PERSISTENT];
    const bool even = v->mask == ATT_MASK_NONE || v->mask == ATT_MASK_CAUSAL;
    const bool plain = !v->paged && !att_scales_scores(v);
    const int each = v->mask == ATT_MASK_NONE && wanted > 1 ? 1 : wanted;
    return even && plain ? each * (int)p->m->cus : 0;
}

/* Not of causal tiles, of which the shortest are left, and not where scalar registers are full. */
bool prefill_halves_tiles(const struct prefill *p)
{
    const bool full = p->m->has_lds_read_tr && (p->shape.bytes == 1 || p->v->head_dim > 128);
    return prefill_workgroups(p) && p->v->mask == ATT_MASK_NONE && !full;
}

struct tir_value prefill_is_spare(struct prefill *p)
{
    struct tir_builder *b = &p->b;
    const int half = (int)prefill_queries(p) / 2, waves = (int)p->shape.waves / 2;
    return tir_and(b, tir_cmp_le(b, tir_sub(b, p->work.q_len, p->work.row0), tir_i32(b, half)),
                   tir_cmp_ge(b, tir_wave_id(b), tir_i32(b, waves)));
}

bool prefill_has_full_turns(const struct prefill *p)
{
    const bool turns = prefill_workgroups(p) && p->m->has_lds_read_tr;
    const bool lse = p->v->lse && p->v->mask == ATT_MASK_CAUSAL;
    const bool full = p->v->head_dim == 120 || (lse && p->v->head_dim == 128);
    const bool wide_keys = p->v->head_dim > 128 && p->v->head_dim_v <= 128;
    return turns && (p->shape.bytes == 1 || full || wide_keys);
}

/* The first and one-past-last token of a sequence. */
static void load_tokens(struct prefill *p, const char *array, struct tir_value at,
                        struct tir_value range[2])
{
    struct tir_builder *b = &p->b;
    const struct tir_value base = tir_arg(b, array, TIR_I64);
    range[0] = tir_scalar_load(b, base, at, TIR_I32);
    range[1] = tir_scalar_load(b, base, att_plus(b, at, 4), TIR_I32);
}

/* The places and numbers of a turn's queries and keys. In turns all that is loaded is asked for at
 * once, and arrives while the head is divided. */
static void locate(struct prefill *p, struct turn *t)
{
    struct tir_builder *b = &p->b;
    const bool turns = prefill_workgroups(p) != 0;
    struct tir_value q[2], k[2];
    if (takes_whole_heads(p))
        find_tile_of_head(p, t);
    else
        find_sequence_and_head(p, t);
    if (!turns)
        find_kv_head(p);
    const struct tir_value at = tir_shl(b, p->work.sequence, tir_i32(b, 2));
    load_tokens(p, ARG_CU_SEQLENS_Q, at, q);
    if (p->v->paged)
        k[0] = k[1] = tir_scalar_load(b, tir_arg(b, ARG_KV_LENS, TIR_I64), at, TIR_I32);
    else
        load_tokens(p, ARG_CU_SEQLENS_K, at, k);
    if (turns) {
        find_kv_head(p);
        const struct tir_value asked[] = {p->work.kv_head, q[0], q[1], k[0], k[1]};
        tir_anchor_all(b, asked, sizeof(asked) / sizeof(asked[0]));
    }
    p->work.q_begin = q[0];
    p->work.q_len = tir_sub(b, q[1], q[0]);
    p->work.kv_begin = k[0];
    p->work.kv_len = p->v->paged ? k[1] : tir_sub(b, k[1], k[0]);
    p->work.offset = tir_sub(b, p->work.kv_len, p->work.q_len);
    const int rows = (int)prefill_queries(p);
    const struct tir_value last = att_plus(b, count_layers(p), -1);
    p->work.row0 = att_times(b, p->tile->ascending ? t->layer : tir_sub(b, last, t->layer), rows);
}

/* The place of a workgroup in the grid's layer of tiles, of how many. */
static struct turn find_turn(struct prefill *p)
{
    struct tir_builder *const b = &p->b;
    const struct tir_value batch = tir_arg(b, ARG_BATCH, TIR_I32);
    const struct tir_value heads = tir_arg(b, ARG_HEADS, TIR_I32);
    const struct tir_value places = tir_mul(b, heads, batch);
    const struct tir_value before = tir_mul(b, tir_block_id(b, 1), heads);
    const struct tir_value place = tir_add(b, before, tir_block_id(b, 0));
    return (struct turn){place, places, tir_block_id(b, 2)};
}

/* The layer of the first turn: the grid knows it where it has layers. */
static struct tir_value find_first_layer(struct prefill *p, const struct turn *first)
{
    struct tir_builder *const b = &p->b;
    const struct tir_type type = tir_typeof(b->f, first->layer);
    struct tir_value layer = first->layer;
    const struct tir_value divides = tir_cmp_ge(b, first->place, first->places);
    struct tir_if branch = tir_begin_if(b, divides, true, &type, 1);
    const struct tir_value other = tir_div(b, first->place, first->places);
    tir_else(b, &branch, &other);
    tir_end_if(b, &branch, &layer);
    return layer;
}

/* Arguments that every turn needs are read once: inside of the loop each use of one would wait. */
static void read_arguments(struct prefill *p)
{
    struct tir_builder *const b = &p->b;
    const struct att_tensor tensors[] = {ATT_HEADS(Q), ATT_HEADS(OUT), ATT_HEADS(K), ATT_HEADS(V)};
    const bool fp8 = p->v->q_dtype == ATT_Q_DTYPE_FP8;
    tir_arg(b, ARG_CU_SEQLENS_Q, TIR_I64);
    tir_arg(b, p->v->paged ? ARG_KV_LENS : ARG_CU_SEQLENS_K, TIR_I64);
    if (!p->v->gqa)
        tir_arg(b, ARG_GQA, TIR_I32);
    for (unsigned i = 0; i < (p->v->paged ? 2 : 4); i++) {
        tir_arg(b, tensors[i].arg, TIR_I64);
        tir_arg(b, tensors[i].token_stride, TIR_I64);
        tir_arg(b, tensors[i].head_stride, TIR_I64);
    }
    if (fp8)
        tir_arg(b, ARG_Q_DESCALE, TIR_I64);
    if (fp8 && !p->v->paged) {
        tir_arg(b, ARG_K_DESCALE, TIR_I64);
        tir_arg(b, ARG_V_DESCALE, TIR_I64);
    }
}

/* A turn hands so many members of its place to the next one. */
enum { N_FIELDS = 8 };

static void place_fields(struct prefill *p, struct tir_value *field[N_FIELDS])
{
    struct tir_value *const all[N_FIELDS] = {&p->work.sequence, &p->work.head,    &p->work.kv_head,
                                             &p->work.row0,     &p->work.q_begin, &p->work.q_len,
                                             &p->work.kv_begin, &p->work.kv_len};
    for (int i = 0; i < N_FIELDS; i++)
        field[i] = all[i];
}

static void get_place(struct prefill *p, struct tir_value at[N_FIELDS])
{
    struct tir_value *field[N_FIELDS];
    place_fields(p, field);
    for (int i = 0; i < N_FIELDS; i++)
        at[i] = *field[i];
}

static void set_place(struct prefill *p, const struct tir_value at[N_FIELDS])
{
    struct tir_value *field[N_FIELDS];
    place_fields(p, field);
    for (int i = 0; i < N_FIELDS; i++)
        *field[i] = at[i];
    p->work.offset = tir_sub(&p->b, p->work.kv_len, p->work.q_len);
}

/* A turn that comes, if `there` says so. */
struct next_turn {
    struct tir_value there, number, at[N_FIELDS]; /* the second: of its tile */
    struct tir_value rows, first; /* so many of the tile from that one on; none: all of it */
};

/* Chooses what the workgroup at place `at` does in a turn that begins with this tile. Two that have
 * the halves of a tile are neighbours of an XCD. */
static struct next_turn choose_tile(struct prefill *p, struct tir_value begun, struct tir_value at,
                                    struct tir_value all)
{
    struct tir_builder *const b = &p->b;
    struct next_turn next = {.number = tir_add(b, begun, at)};
    if (prefill_halves_tiles(p)) {
        const int rows = (int)prefill_queries(p);
        const struct tir_value one = tir_i32(b, 1), groups = tir_arg(b, ARG_WORKGROUPS, TIR_I32);
        const struct tir_value halves =
            tir_cmp_le(b, tir_sub(b, all, begun), tir_sar(b, groups, one));
        const struct tir_value xcd = tir_and(b, at, tir_i32(b, ATT_XCDS - 1));
        const struct tir_value pair = tir_and(b, tir_shr(b, at, one), tir_i32(b, -ATT_XCDS));
        const struct tir_value second =
            tir_and(b, tir_shr(b, at, tir_i32(b, (int)tir_bits(ATT_XCDS))), one);
        const struct tir_value number = tir_add(b, begun, tir_add(b, pair, xcd));
        next.number = tir_select(b, halves, number, next.number);
        next.rows = tir_select(b, halves, tir_i32(b, rows / 2), tir_i32(b, rows));
        next.first = tir_select(b, halves, att_times(b, second, rows / 2), tir_i32(b, 0));
    }
    next.there = tir_and(b, tir_cmp_lt(b, begun, all), tir_cmp_lt(b, next.number, all));
    return next;
}

/* Finds the tile of a turn; p stays where it is. */
static void find_next(struct prefill *p, struct next_turn *next, struct tir_value places)
{
    struct tir_builder *const b = &p->b;
    struct tir_value now[N_FIELDS];
    get_place(p, now);
    const struct tir_value valid = tir_select(b, next->there, next->number, tir_i32(b, 0));
    const struct tir_value layer = tir_div(b, valid, places);
    const struct tir_value place = tir_sub(b, valid, tir_mul(b, layer, places));
    locate(p, &(struct turn){place, places, layer});
    if (next->rows.id) { /* without a mask nothing else asks where the sequence ends */
        p->work.row0 = tir_add(b, p->work.row0, next->first);
        p->work.q_len = tir_min(b, p->work.q_len, tir_add(b, p->work.row0, next->rows));
    }
    get_place(p, next->at);
    set_place(p, now);
}

/* Is there a next turn whose Q comes while this one ends? Then it is asked for. */
static struct tir_if begin_ahead(struct prefill *p, const struct next_turn *next)
{
    struct tir_value now[N_FIELDS];
    get_place(p, now);
    const struct tir_if there = tir_begin_if(&p->b, next->there, false, NULL, 0);
    set_place(p, next->at);
    prefill_fetch(p);
    set_place(p, now);
    return there;
}

/* Do two waves copy the same part of K? In turns without rows, which have no barrier, one of them
 * could then be a turn behind the other. */
static bool shares_copies(const struct prefill *p)
{
    const unsigned least = p->shape.waves * TIR_WAVE_LANES * p->tile->copy_bytes;
    for (unsigned i = 0; i < p->k.n_panels; i++)
        if (p->shape.keys * p->shape.groups * p->k.panels[i].width * p->shape.bytes < least)
            return true;
    return false;
}

/* One turn, with a next one or none. */
static void take_turn(struct prefill *p, const struct next_turn *next,
                      void (*attend)(struct prefill *))
{
    struct tir_builder *const b = &p->b;
    const bool ahead = next && prefill_fetches_ahead(p);
    struct tir_if there,
        some = tir_begin_if(b, tir_cmp_lt(b, p->work.row0, p->work.q_len), false, NULL, 0);
    attend(p);
    if (ahead) {
        there = begin_ahead(p, next);
        prefill_finish(p, &p->staging.o_beside_q);
        tir_else(b, &there, NULL);
    }
    prefill_finish(p, &p->staging.o);
    if (ahead)
        tir_end_if(b, &there, NULL);
    tir_else(b, &some, NULL);
    if (ahead) {
        if (shares_copies(p))
            prefill_await_keys(p);
        there = begin_ahead(p, next);
        tir_else(b, &there, NULL);
        tir_end_if(b, &there, NULL);
    }
    tir_end_if(b, &some, NULL);
}

/*
 * The workgroups of the launch go through all work, in its order. Every other time they go
 * backwards, XCD by XCD: who had the heaviest tile then gets the lightest. Where each tile has a
 * workgroup, their number is INT32_MAX, so that there is one turn.
 */
static void take_all(struct prefill *p, void (*attend)(struct prefill *))
{
    struct tir_builder *const b = &p->b;
    const struct tir_value groups = tir_arg(b, ARG_WORKGROUPS, TIR_I32);
    struct turn first = find_turn(p);
    const struct tir_value order = tir_add(b, tir_mul(b, first.layer, first.places), first.place);
    const struct tir_value all = tir_mul(b, first.places, count_layers(p));
    first.layer = find_first_layer(p, &first);
    first.place = tir_sub(b, order, tir_mul(b, first.layer, first.places));
    locate(p, &first);
    if (prefill_fetches_ahead(p))
        prefill_fetch(p);
    struct tir_value carried[1 + N_FIELDS] = {order};
    get_place(p, carried + 1);
    struct tir_loop loop = tir_begin_for(b, tir_i32(b, 0), all, groups, carried, 1 + N_FIELDS);
    set_place(p, carried + 1);

    const struct tir_value xcd = tir_and(b, carried[0], tir_i32(b, ATT_XCDS - 1));
    const struct tir_value most = att_plus(b, groups, -ATT_XCDS);
    const struct tir_value back = tir_sub(b, tir_add(b, att_times(b, xcd, 2), most), carried[0]);
    const struct tir_value begun = tir_add(b, loop.index, groups);
    struct next_turn next = choose_tile(p, begun, back, all);
    if (prefill_fetches_ahead(p))
        find_next(p, &next, first.places);
    take_turn(p, &next, attend);
    if (!prefill_fetches_ahead(p))
        find_next(p, &next, first.places);
    carried[0] = back;
    for (int i = 0; i < N_FIELDS; i++)
        carried[1 + i] = next.at[i];
    carried[4] = tir_select(b, next.there, carried[4], carried[6]); /* no row of it is there */
    tir_end_for(b, &loop, carried, 1 + N_FIELDS);
}

void prefill_take_turns(struct prefill *p, void (*attend)(struct prefill *))
{
    if (prefill_workgroups(p)) {
        read_arguments(p);
        take_all(p, attend);
        return;
    }
    struct turn only = find_turn(p);
    locate(p, &only);
    take_turn(p, NULL, attend);
}

/* True for tiles with half of the queries, which are for launches that would leave compute units
 * without any. Up to D 128 their waves split the keys. Beyond that they have one wave per SIMD, and
 * heads of less than twice the width. */
static bool takes_fewer_queries(const struct att_variant *v, const struct att_tile *t,
                                const struct tir_machine *m)
{
    enum { SPLIT = 128 };
    struct att_tile first;
    if (t->own[PREFILL_KEY_GROUPS])
        return true;
    return t->own[PREFILL_ONE_WAVE] && v->head_dim_v > SPLIT && t->head_dim_v < 2 * v->head_dim_v &&
           att_find_tile(v, m, &first, NULL) && first.rows * first.waves > t->rows * t->waves;
}

/* Eight rows of O^T of their own want tiles of 64 keys, whose first round is long: launches of few
 * keys have a second kernel with the next tile of 32. */
static bool is_for_few_keys(const struct att_variant *v, const struct att_tile *t,
                            const struct tir_machine *m)
{
    enum { LONG_ROUND = 64 };
    struct att_tile first;
    if (v->mask != ATT_MASK_NONE || !att_find_tile(v, m, &first, NULL))
        return false;
    return first.keys == LONG_ROUND && t->keys < LONG_ROUND &&
           prefill_with_tile(v, m, &first).value.tail == PREFILL_TAIL_REST;
}

/* The n-th tile that launches of few queries take, and its first and last number of keys: a row
 * for few keys leaves more of them to the next one. The sum of groups takes as long as two rounds
 * of the loop, so there must be four of these. */
static const struct att_tile *find_few(const struct att_variant *v, const struct tir_machine *m,
                                       unsigned n, int keys[2])
{
    enum { ROUND = 64 };
    struct att_why why;
    keys[1] = 0;
    for (unsigned i = 0; i < PREFILL_N_TILES && keys[1] < INT32_MAX; i++) {
        const struct att_tile *const t = &prefill_tiles[i];
        if (!takes_fewer_queries(v, t, m) || !prefill_fits(v, t, m, &why))
            continue;
        const int least = t->own[PREFILL_KEY_GROUPS] ? 3 * ROUND + 1 : 0;
        keys[0] = keys[1] ? keys[1] + 1 : least;
        keys[1] = t->own[PREFILL_MOST_KEYS] ? t->own[PREFILL_MOST_KEYS] : INT32_MAX;
        if (!n--)
            return t;
    }
    return NULL;
}

static const struct att_tile *find_few_keys(const struct att_variant *v,
                                            const struct tir_machine *m)
{
    struct att_why why;
    for (unsigned i = 0; i < PREFILL_N_TILES; i++) {
        if (is_for_few_keys(v, &prefill_tiles[i], m) && prefill_fits(v, &prefill_tiles[i], m, &why))
            return &prefill_tiles[i];
    }
    return NULL;
}

/* A second kernel with groups of keys takes tiles that fill no more than its rows: a part of such a
 * tile has twice the keys, and there are half as many parts. */
static bool planned_second(const struct att_variant *v, const struct tir_machine *m, unsigned n,
                           struct att_second *second)
{
    struct att_why why;
    for (unsigned i = 0; !n && i < PREFILL_N_TILES; i++) {
        const struct att_tile *const t = &prefill_tiles[i];
        if (!t->own[PREFILL_KEY_GROUPS] || !prefill_fits(v, t, m, &why))
            continue;
        const int rows = (int)(t->rows * t->waves / t->own[PREFILL_KEY_GROUPS]);
        *second = (struct att_second){
            .tile = i + 1,
            .calls = {.rows = {{ARG_TILE_ROWS, 1, rows}}, .count = 1},
        };
        return true;
    }
    return false;
}

/* Second kernels with groups of keys are for launches that have no more tiles than compute
 * units. */
bool prefill_second(const struct att_variant *v, const struct tir_machine *m, unsigned n,
                    struct att_second *second)
{
    enum { FEW_KEYS = 1024 };
    int keys[2];
    if (v->planned)
        return planned_second(v, m, n, second);
    const struct att_tile *t = find_few_keys(v, m);
    if (t) {
        *second = (struct att_second){
            .tile = (unsigned)(t - prefill_tiles) + 1,
            .calls = {.rows = {{ARG_MAX_SEQLEN_K, 0, FEW_KEYS}}, .count = 1},
        };
        return !n;
    }
    t = find_few(v, m, n, keys);
    if (!t)
        return false;
    *second = (struct att_second){
        .tile = (unsigned)(t - prefill_tiles) + 1,
        .calls = {.rows = {{ARG_TILES, 0, m->cus}, {ARG_MAX_SEQLEN_K, keys[0], keys[1]}},
                  .count = 2},
    };
    return true;
}
