/* SPDX-License-Identifier: Apache-2.0
 *
 * The work tiles of a workgroup of `prefill`: one tile by its place in the grid, or one after the
 * other in a persistent kernel. Also the choice of further kernels, with other tiles of the table,
 * for launches with few work tiles or few keys.
 */
#include "ir/bits.h"
#include "templates/workgroup/grid.h"
#include "templates/prefill/prefill.h"
#include "templates/workgroup/barrier.h"
#include "templates/workgroup/scalar.h"

/* Indices of a work tile in the launch, i32 scalars. A layer has one work tile of each head, or KV
 * head with prefill_shares_heads(), in each sequence: the tiles with equal indices. */
struct tile_number {
    struct tir_value in_layer;  /* index of the work tile in its layer */
    struct tir_value per_layer; /* number of work tiles of a layer */
    struct tir_value layer;     /* index of the layer */
};

/* Returns the number (i32) of work tiles that a sequence has in a layer: query heads, or KV heads
 * with prefill_shares_heads(). */
static struct tir_value count_heads(struct prefill *p)
{
    return p->work.gqa.id ? p->work.kv_heads : tir_arg(&p->b, ARG_HEADS, TIR_I32);
}

/* Sets the index of the head, or of the KV head with prefill_shares_heads(), in p->work. */
static void set_head(struct prefill *p, struct tir_value index)
{
    *(p->work.gqa.id ? &p->work.kv_head : &p->work.head) = index;
}

/*
 * Sets sequence and head of work tile t in p->work. The grid is heads x sequences x layers. The
 * last layer is first unless the tile has field `ascending`: with a causal mask it has the most
 * keys. Within a layer the heads of a KV head are on the same XCD, whose L2 then holds their keys.
 */
static void find_sequence_and_head(struct prefill *p, const struct tile_number *t)
{
    struct tir_builder *b = &p->b;
    const struct tir_value heads = count_heads(p);
    const struct tir_value item =
        att_xcd_item(b, t->in_layer, tir_mul(b, t->layer, t->per_layer), t->per_layer);
    p->work.sequence = tir_div(b, item, heads);
    set_head(p, tir_sub(b, item, tir_mul(b, p->work.sequence, heads)));
}

/* Returns the number (i32) of layers: the work tiles of one head of the longest sequence, or of one
 * KV head with prefill_shares_heads(). */
static struct tir_value count_layers(struct prefill *p)
{
    struct tir_builder *const b = &p->b;
    const int rows = (int)prefill_queries(p), waves = (int)p->tile->waves;
    const struct tir_value most = tir_arg(b, ARG_MAX_SEQLEN_Q, TIR_I32);
    if (p->work.gqa.id)
        return tir_shr(b, att_plus(b, prefill_count_wave_tiles(p, most), waves - 1),
                       tir_i32(b, (int)tir_bits(p->tile->waves)));
    return tir_div(b, att_plus(b, most, rows - 1), tir_i32(b, rows));
}

/* True if an XCD works on all tiles of a head before tiles of the next head. With a causal mask the
 * longest tiles are first instead. In a persistent kernel this order takes scalar registers that D
 * 128 does not have free. */
static bool takes_whole_heads(const struct prefill *p)
{
    const bool persistent = prefill_workgroups(p) != 0;
    return p->v->mask != ATT_MASK_CAUSAL && !att_has_mask_rows(p->v) &&
           (!persistent || p->tile->own[PREFILL_WHOLE_HEADS]);
}

/* Sets sequence and head in p->work, and t->layer, for work tile t. The work tiles of a head follow
 * each other on an XCD, whose L2 then holds the keys of few heads at any GQA ratio. */
static void find_tile_of_head(struct prefill *p, struct tile_number *t)
{
    struct tir_builder *b = &p->b;
    const struct tir_value heads = count_heads(p), layers = count_layers(p);
    const struct tir_value order = tir_add(b, tir_mul(b, t->layer, t->per_layer), t->in_layer);
    const struct tir_value item =
        att_xcd_item(b, order, tir_i32(b, 0), tir_mul(b, t->per_layer, layers));
    const struct tir_value in_layer = tir_div(b, item, layers);
    p->work.sequence = tir_div(b, item, tir_mul(b, layers, heads));
    set_head(p, tir_sub(b, in_layer, tir_mul(b, p->work.sequence, heads)));
    t->layer = tir_sub(b, item, tir_mul(b, in_layer, layers));
}

/* Returns the index (i32) of work tile t among the work tiles of its head or KV head. Layer 0 has
 * the last one unless the tile has field `ascending`. */
static struct tir_value tile_of_head(struct prefill *p, const struct tile_number *t)
{
    const struct tir_value last = att_plus(&p->b, count_layers(p), -1);
    return p->tile->ascending ? t->layer : tir_sub(&p->b, last, t->layer);
}

/* Sets what set_head() leaves open for work tile t: work.head and work.row0 with
 * prefill_shares_heads(), else work.kv_head. */
static void find_other_head(struct prefill *p, const struct tile_number *t)
{
    struct tir_builder *b = &p->b;
    if (p->work.gqa.id)
        prefill_find_wave_tiles(p, tile_of_head(p, t));
    else
        p->work.kv_head = p->v->gqa ? tir_div(b, p->work.head, tir_i32(b, p->v->gqa))
                                    : tir_div(b, p->work.head, tir_arg(b, ARG_GQA, TIR_I32));
}

/* Returns the number of workgroups in a launch of a persistent kernel; 0: the kernel is not
 * persistent, and has a workgroup for each work tile. PREFILL_PERSISTENT decides for kernels
 * without a mask and with a causal one. Work tiles of windows and chunks take about the same time.
 * Their kernels are persistent if a workgroup fills a compute unit and the loop leaves registers
 * free. Tiles for waves of 32 lanes, and tiles that compute offsets anew, leave none. If a causal
 * tile has two workgroups per unit, they run one after the other, which distributes the tiles more
 * evenly. */
int prefill_workgroups(const struct prefill *p)
{
    enum { FULL = 8 /* waves of a workgroup that fills a compute unit */ };
    const struct att_variant *const v = p->v;
    const bool plain = !v->paged && !att_scales_scores(v);
    const bool fills = p->tile->waves >= FULL && !p->tile->own[PREFILL_SIDE];
    int each = p->tile->own[PREFILL_PERSISTENT];
    if (att_hides_early(v))
        each = fills && !p->tile->own[PREFILL_KEY_GROUPS] && !p->tile->own[PREFILL_FRESH_OFFSETS];
    else if (v->mask == ATT_MASK_NONE)
        each = each > 0;
    else if (v->mask != ATT_MASK_CAUSAL)
        each = 0;
    return plain ? each * (int)p->m->cus : 0;
}

/* True if each of the last work tiles is split into two halves of its queries, for two workgroups.
 * The last tiles of a causal launch are its shortest and are not split. Kernels with all scalar
 * registers in use do not split either. */
bool prefill_splits_last_tiles(const struct prefill *p)
{
    const bool full =
        att_transposes_8_bytes(p->m) && (prefill_bytes(p) == 1 || p->v->head_dim > 128);
    return prefill_workgroups(p) && p->v->mask == ATT_MASK_NONE && !full;
}

struct tir_value prefill_is_spare(struct prefill *p)
{
    struct tir_builder *b = &p->b;
    const int half = (int)prefill_queries(p) / 2, waves = (int)p->tile->waves / 2;
    return tir_and(b, tir_cmp_le(b, tir_sub(b, p->work.q_len, p->work.row0), tir_i32(b, half)),
                   tir_cmp_ge(b, tir_wave_id(b), tir_i32(b, waves)));
}

bool prefill_fills_registers(const struct prefill *p)
{
    const bool persistent = prefill_workgroups(p) && att_transposes_8_bytes(p->m);
    const bool lse = p->v->lse && p->v->mask == ATT_MASK_CAUSAL;
    const bool full = p->v->head_dim == 120 || (lse && p->v->head_dim == 128);
    const bool wide_keys = p->v->head_dim > 128 && p->v->head_dim_v <= 128;
    return persistent && (prefill_bytes(p) == 1 || full || wide_keys);
}

/* Loads the index of the first token of a sequence to range[0], and of the token after its last one
 * to range[1]. `array`: the argument with the first token of each sequence (i32). `at` (i32): byte
 * offset of the sequence's element. */
static void load_tokens(struct prefill *p, const char *array, struct tir_value at,
                        struct tir_value range[2])
{
    struct tir_builder *b = &p->b;
    const struct tir_value base = tir_arg(b, array, TIR_I64);
    range[0] = tir_scalar_load(b, base, at, TIR_I32);
    range[1] = tir_scalar_load(b, base, att_plus(b, at, 4), TIR_I32);
}

/* Sets p->work to work tile t. A persistent kernel issues all loads at once; they arrive during the
 * division by the GQA ratio. */
static void locate(struct prefill *p, struct tile_number *t)
{
    struct tir_builder *b = &p->b;
    const bool persistent = prefill_workgroups(p) != 0;
    struct tir_value q[2], k[2];
    if (takes_whole_heads(p))
        find_tile_of_head(p, t);
    else
        find_sequence_and_head(p, t);
    if (!persistent)
        find_other_head(p, t);
    const struct tir_value at = tir_shl(b, p->work.sequence, tir_i32(b, 2));
    load_tokens(p, ARG_CU_SEQLENS_Q, at, q);
    if (p->v->paged)
        k[0] = k[1] = tir_scalar_load(b, tir_arg(b, ARG_KV_LENS, TIR_I64), at, TIR_I32);
    else
        load_tokens(p, ARG_CU_SEQLENS_K, at, k);
    if (persistent) {
        find_other_head(p, t);
        const struct tir_value loaded[] = {p->work.kv_head, q[0], q[1], k[0], k[1]};
        tir_anchor_all(b, loaded, sizeof(loaded) / sizeof(loaded[0]));
    }
    p->work.q_begin = q[0];
    p->work.q_len = tir_sub(b, q[1], q[0]);
    p->work.kv_begin = k[0];
    p->work.kv_len = p->v->paged ? k[1] : tir_sub(b, k[1], k[0]);
    p->work.offset = tir_sub(b, p->work.kv_len, p->work.q_len);
    if (!p->work.gqa.id)
        p->work.row0 = att_times(b, tile_of_head(p, t), (int)prefill_queries(p));
}

/* Returns the indices of the work tile at the workgroup's place in the grid. */
static struct tile_number grid_tile(struct prefill *p)
{
    struct tir_builder *const b = &p->b;
    const struct tir_value batch = tir_arg(b, ARG_BATCH, TIR_I32);
    const struct tir_value heads = tir_arg(b, ARG_HEADS, TIR_I32);
    const struct tir_value per_layer = tir_mul(b, heads, batch);
    const struct tir_value before = tir_mul(b, tir_block_id(b, 1), heads);
    const struct tir_value in_layer = tir_add(b, before, tir_block_id(b, 0));
    if (!p->work.gqa.id)
        return (struct tile_number){in_layer, per_layer, tir_block_id(b, 2)};
    return (struct tile_number){tir_add(b, tir_mul(b, tir_block_id(b, 2), per_layer), in_layer),
                                tir_mul(b, count_heads(p), batch), tir_i32(b, 0)};
}

/* Returns the index (i32) of the layer of the workgroup's first work tile `first`. Divides the
 * tile's number only if the grid has no dimension of layers. */
static struct tir_value find_first_layer(struct prefill *p, const struct tile_number *first)
{
    struct tir_builder *const b = &p->b;
    const struct tir_type type = tir_typeof(b->f, first->layer);
    struct tir_value layer = first->layer;
    const struct tir_value divides = tir_cmp_ge(b, first->in_layer, first->per_layer);
    struct tir_if branch = tir_begin_if(b, divides, true, &type, 1);
    const struct tir_value other = tir_div(b, first->in_layer, first->per_layer);
    tir_else(b, &branch, &other);
    tir_end_if(b, &branch, &layer);
    return layer;
}

/* Loads the arguments before the loop over work tiles. In the loop, each use would wait for a
 * load. */
static void read_arguments(struct prefill *p)
{
    struct tir_builder *const b = &p->b;
    const struct att_tensor tensors[] = {ATT_HEADS(Q), ATT_HEADS(OUT), ATT_HEADS(K), ATT_HEADS(V)};
    const bool fp8 = p->v->q_dtype == ATT_Q_DTYPE_FP8;
    tir_arg(b, ARG_CU_SEQLENS_Q, TIR_I64);
    tir_arg(b, p->v->paged ? ARG_KV_LENS : ARG_CU_SEQLENS_K, TIR_I64);
    if (!p->v->gqa)
        tir_arg(b, ARG_GQA, TIR_I32);
    if (att_hides_early(p->v))
        att_reach(b, p->v);
    if (p->v->mask == ATT_MASK_WINDOW)
        tir_arg(b, ARG_WINDOW_RIGHT, TIR_I32);
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

enum { N_FIELDS = 8 /* members of p->work that the loop over work tiles carries */ };

/* Sets field[] to pointers to the members of p->work that the loop over work tiles carries. */
static void work_fields(struct prefill *p, struct tir_value *field[N_FIELDS])
{
    struct tir_value *const all[N_FIELDS] = {&p->work.sequence, &p->work.head,    &p->work.kv_head,
                                             &p->work.row0,     &p->work.q_begin, &p->work.q_len,
                                             &p->work.kv_begin, &p->work.kv_len};
    for (int i = 0; i < N_FIELDS; i++)
        field[i] = all[i];
}

/* Copies the carried members of p->work to at[]. */
static void get_work(struct prefill *p, struct tir_value at[N_FIELDS])
{
    struct tir_value *field[N_FIELDS];
    work_fields(p, field);
    for (int i = 0; i < N_FIELDS; i++)
        at[i] = *field[i];
}

/* Sets p->work from the carried members at[]. */
static void set_work(struct prefill *p, const struct tir_value at[N_FIELDS])
{
    struct tir_value *field[N_FIELDS];
    work_fields(p, field);
    for (int i = 0; i < N_FIELDS; i++)
        *field[i] = at[i];
    p->work.offset = tir_sub(&p->b, p->work.kv_len, p->work.q_len);
}

/* The next work tile of a workgroup of a persistent kernel. */
struct next_tile {
    struct tir_value exists;       /* i1: true if the workgroup has a next tile */
    struct tir_value number;       /* i32: index of the tile among all work tiles of the launch */
    struct tir_value at[N_FIELDS]; /* members of prefill.work for the tile: work_fields() */
    /* i32: number of the workgroup's queries of the tile, and index in the tile of the first one;
     * no value: all queries. */
    struct tir_value rows, first;
};

/* Returns the work tile of a workgroup in the round that begins with tile `begun` (i32), of `all`
 * (i32) tiles. `at` (i32): the workgroup's place in the round. The halves of a split tile are for
 * two workgroups of one XCD. */
static struct next_tile choose_tile(struct prefill *p, struct tir_value begun, struct tir_value at,
                                    struct tir_value all)
{
    struct tir_builder *const b = &p->b;
    struct next_tile next = {.number = tir_add(b, begun, at)};
    if (prefill_splits_last_tiles(p)) {
        const int rows = (int)prefill_queries(p), xcds = (int)p->m->xcds;
        const struct tir_value one = tir_i32(b, 1), groups = tir_arg(b, ARG_WORKGROUPS, TIR_I32);
        const struct tir_value halves =
            tir_cmp_le(b, tir_sub(b, all, begun), tir_sar(b, groups, one));
        const struct tir_value xcd = tir_and(b, at, tir_i32(b, xcds - 1));
        const struct tir_value pair = tir_and(b, tir_shr(b, at, one), tir_i32(b, -xcds));
        const struct tir_value second =
            tir_and(b, tir_shr(b, at, tir_i32(b, (int)tir_bits(p->m->xcds))), one);
        const struct tir_value number = tir_add(b, begun, tir_add(b, pair, xcd));
        next.number = tir_select(b, halves, number, next.number);
        next.rows = tir_select(b, halves, tir_i32(b, rows / 2), tir_i32(b, rows));
        next.first = tir_select(b, halves, att_times(b, second, rows / 2), tir_i32(b, 0));
    }
    next.exists = tir_and(b, tir_cmp_lt(b, begun, all), tir_cmp_lt(b, next.number, all));
    return next;
}

/* Sets next->at to the members of prefill.work for work tile next->number. `per_layer` (i32):
 * number of work tiles of a layer. p->work does not change. */
static void find_next(struct prefill *p, struct next_tile *next, struct tir_value per_layer)
{
    struct tir_builder *const b = &p->b;
    struct tir_value now[N_FIELDS];
    get_work(p, now);
    const struct tir_value valid = tir_select(b, next->exists, next->number, tir_i32(b, 0));
    const struct tir_value layer = tir_div(b, valid, per_layer);
    const struct tir_value in_layer = tir_sub(b, valid, tir_mul(b, layer, per_layer));
    locate(p, &(struct tile_number){in_layer, per_layer, layer});
    if (next->rows.id) { /* without a mask q_len only limits the queries */
        p->work.row0 = tir_add(b, p->work.row0, next->first);
        p->work.q_len = tir_min(b, p->work.q_len, tir_add(b, p->work.row0, next->rows));
    }
    get_work(p, next->at);
    set_work(p, now);
}

/* Begins a branch that workgroups with a next work tile take, and issues there the copies of that
 * tile's Q and first tile of K. Returns the branch. */
static struct tir_if begin_fetch_ahead(struct prefill *p, const struct next_tile *next)
{
    struct tir_value now[N_FIELDS];
    get_work(p, now);
    const struct tir_if there = att_begin_if(&p->b, next->exists);
    set_work(p, next->at);
    prefill_fetch(p);
    set_work(p, now);
    return there;
}

/* True if two waves copy the same part of K. Then a barrier is needed between work tiles: a work
 * tile without queries has no barrier, so one wave could be a work tile later than the other. */
static bool shares_copies(const struct prefill *p)
{
    const unsigned least = p->tile->waves * tir_lanes(p->m) * p->tile->copy_bytes;
    for (unsigned i = 0; i < p->k.n_panels; i++)
        if (p->tile->keys * prefill_groups(p) * p->k.panels[i].width * prefill_bytes(p) < least)
            return true;
    return false;
}

/* Builds the work on the work tile in p->work. `next`: the work tile after it; NULL: there is none.
 * `attend` builds the attention of a work tile. */
static void work_on_tile(struct prefill *p, const struct next_tile *next,
                         void (*attend)(struct prefill *))
{
    struct tir_builder *const b = &p->b;
    const bool ahead = next && prefill_fetches_ahead(p);
    struct tir_if exists, some = att_begin_if(b, tir_cmp_lt(b, p->work.row0, p->work.q_len));
    attend(p);
    if (ahead) {
        exists = begin_fetch_ahead(p, next);
        prefill_finish(p, &p->staging.o_beside_q);
        tir_else(b, &exists, NULL);
    }
    prefill_finish(p, &p->staging.o);
    if (ahead)
        tir_end_if(b, &exists, NULL);
    tir_else(b, &some, NULL);
    if (ahead) {
        if (shares_copies(p))
            prefill_await_keys(p);
        exists = begin_fetch_ahead(p, next);
        tir_end_if(b, &exists, NULL);
    }
    tir_end_if(b, &some, NULL);
}

/*
 * Builds the loop of a persistent kernel over all work tiles. Every second round is in reverse
 * order within an XCD, so that a workgroup with the longest tile gets the shortest one next. If
 * each tile has a workgroup of its own, the argument `workgroups` is INT32_MAX, and there is one
 * round.
 */
static void walk_all(struct prefill *p, void (*attend)(struct prefill *))
{
    struct tir_builder *const b = &p->b;
    const struct tir_value groups = tir_arg(b, ARG_WORKGROUPS, TIR_I32);
    struct tile_number first = grid_tile(p);
    const struct tir_value order =
        tir_add(b, tir_mul(b, first.layer, first.per_layer), first.in_layer);
    const struct tir_value all = tir_mul(b, first.per_layer, count_layers(p));
    /* With several heads in a work tile, the grid may have workgroups after the last tile: it
     * counts tiles of one head. */
    const bool shares = p->work.gqa.id != 0;
    struct tir_value there = {0}, number = order;
    if (shares) {
        there = tir_cmp_lt(b, order, all);
        number = first.in_layer = tir_select(b, there, order, tir_i32(b, 0));
    }
    first.layer = find_first_layer(p, &first);
    first.in_layer = tir_sub(b, number, tir_mul(b, first.layer, first.per_layer));
    locate(p, &first);
    if (shares)
        p->work.row0 = tir_select(b, there, p->work.row0, p->work.q_len);
    if (prefill_fetches_ahead(p))
        prefill_fetch(p);
    struct tir_value carried[1 + N_FIELDS] = {order};
    get_work(p, carried + 1);
    struct tir_loop loop = tir_begin_for(b, tir_i32(b, 0), all, groups, carried, 1 + N_FIELDS);
    set_work(p, carried + 1);

    const int xcds = (int)p->m->xcds;
    const struct tir_value xcd = tir_and(b, carried[0], tir_i32(b, xcds - 1));
    const struct tir_value most = att_plus(b, groups, -xcds);
    const struct tir_value back = tir_sub(b, tir_add(b, att_times(b, xcd, 2), most), carried[0]);
    const struct tir_value begun = tir_add(b, loop.index, groups);
    struct next_tile next = choose_tile(p, begun, back, all);
    if (prefill_fetches_ahead(p))
        find_next(p, &next, first.per_layer);
    work_on_tile(p, &next, attend);
    /* Waits for other waves: the next Q overwrites rows of O in LDS that these may still read.
     * Copies of K after the last key may be in flight. */
    if (!prefill_fetches_ahead(p) && p->staging.bytes) {
        tir_wait(b, PREFILL_COPIES_OF_K, 0);
        att_lds_barrier(b);
    }
    if (!prefill_fetches_ahead(p))
        find_next(p, &next, first.per_layer);
    carried[0] = back;
    for (int i = 0; i < N_FIELDS; i++)
        carried[1 + i] = next.at[i];
    carried[4] =
        /* without a next tile, row0 is q_len: no query is left */
        tir_select(b, next.exists, carried[4], carried[6]);
    tir_end_for(b, &loop, carried, 1 + N_FIELDS);
}

/* Builds the work on tile t in a kernel that is not persistent and whose tiles have several heads.
 * t->in_layer is the number of work tiles of the launch before t. The grid counts tiles of one
 * head, so it may have workgroups after the last tile. */
static void walk_shared(struct prefill *p, struct tile_number *t, void (*attend)(struct prefill *))
{
    struct tir_builder *const b = &p->b;
    const struct tir_value all = tir_mul(b, t->per_layer, count_layers(p));
    struct tir_if there = tir_begin_if(b, tir_cmp_lt(b, t->in_layer, all), false, NULL, 0);
    t->layer = tir_div(b, t->in_layer, t->per_layer);
    t->in_layer = tir_sub(b, t->in_layer, tir_mul(b, t->layer, t->per_layer));
    locate(p, t);
    work_on_tile(p, NULL, attend);
    tir_end_if(b, &there, NULL);
}

void prefill_walk_tiles(struct prefill *p, void (*attend)(struct prefill *))
{
    const bool reads = prefill_workgroups(p) && !prefill_has_halves(p);
    /* Tiles with halves of K and V have no scalar registers to keep the arguments in. */
    if (reads)
        read_arguments(p);
    prefill_find_heads(p);
    if (prefill_workgroups(p)) {
        walk_all(p, attend);
        return;
    }
    struct tile_number only = grid_tile(p);
    if (p->work.gqa.id) {
        walk_shared(p, &only, attend);
        return;
    }
    locate(p, &only);
    work_on_tile(p, NULL, attend);
}

/* True if row t of the tile table has half of the usual queries, for launches with fewer work tiles
 * than compute units. Up to head_dim 128 the tile's waves split the keys. Above 128 the tile has
 * one wave per SIMD, and takes heads wider than half of its own head_dim. */
static bool takes_fewer_queries(const struct att_variant *v, const struct att_tile *t,
                                const struct tir_machine *m)
{
    enum { SPLIT = 128 };
    struct att_tile first;
    if (t->own[PREFILL_KEY_GROUPS])
        return true;
    return t->own[PREFILL_WORKGROUPS] && v->head_dim_v > SPLIT &&
           t->head_dim_v < 2 * v->head_dim_v && att_find_tile(v, m, &first, NULL) &&
           first.rows * first.waves > t->rows * t->waves;
}

/* True if row t of the tile table is a second kernel for launches of few keys. The variant's first
 * tile then has more keys than t, 64, and with PREFILL_TAIL_REST a long first iteration. */
static bool is_for_few_keys(const struct att_variant *v, const struct att_tile *t,
                            const struct tir_machine *m)
{
    enum { LONG = 64 /* keys of a tile whose first iteration is long */ };
    struct att_tile first;
    if (v->mask != ATT_MASK_NONE || !att_find_tile(v, m, &first, NULL))
        return false;
    return first.keys == LONG && t->keys < LONG &&
           prefill_with_tile(v, m, &first).value.tail == PREFILL_TAIL_REST;
}

/* The most keys of a launch that runs without key groups. The merge of key groups takes as long as
 * two iterations of KEYS_OF_TILE keys, so key groups are faster from four iterations on. */
enum { KEYS_OF_TILE = 64, MOST_UNSPLIT_KEYS = 3 * KEYS_OF_TILE };

/* Returns the n-th row (from 0) of the tile table among those for launches of few work tiles; NULL:
 * there are at most n. Sets keys[0] and keys[1] to the least and the most keys of such a launch. */
static const struct att_tile *find_few(const struct att_variant *v, const struct tir_machine *m,
                                       unsigned n, int keys[2])
{
    keys[1] = 0;
    for (unsigned i = 0; i < PREFILL_N_TILES && keys[1] < INT32_MAX; i++) {
        const struct att_tile *const t = &prefill_tiles[i];
        if (!takes_fewer_queries(v, t, m) || !prefill_fits(v, t, m, NULL))
            continue;
        const int least = t->own[PREFILL_KEY_GROUPS] ? MOST_UNSPLIT_KEYS + 1 : 0;
        keys[0] = keys[1] ? keys[1] + 1 : least;
        keys[1] = t->own[PREFILL_MOST_KEYS] ? t->own[PREFILL_MOST_KEYS] : INT32_MAX;
        if (!n--)
            return t;
    }
    return NULL;
}

/* Returns the row of the tile table for launches of few keys; NULL: there is none. */
static const struct att_tile *find_few_keys(const struct att_variant *v,
                                            const struct tir_machine *m)
{
    for (unsigned i = 0; i < PREFILL_N_TILES; i++) {
        if (is_for_few_keys(v, &prefill_tiles[i], m) && prefill_fits(v, &prefill_tiles[i], m, NULL))
            return &prefill_tiles[i];
    }
    return NULL;
}

/* True if row t of the tile table, with half of the usual queries, is a second kernel for planned
 * work. Its waves split the keys, or its workgroups share a compute unit and queries see a
 * window. */
static bool halves_planned_tiles(const struct att_variant *v, const struct att_tile *t)
{
    return t->own[PREFILL_KEY_GROUPS] || (prefill_residents(t) > 1 && v->mask == ATT_MASK_WINDOW);
}

/* Sets *second to the second kernel of a planned kernel, for plans whose tiles have at most half of
 * the usual rows. With key groups an item has twice the keys, so a tile has half as many partials.
 * Returns false if n is not 0, or the variant has no second kernel. */
static bool planned_second(const struct att_variant *v, const struct tir_machine *m, unsigned n,
                           struct att_second *second)
{
    for (unsigned i = 0; !n && i < PREFILL_N_TILES; i++) {
        const struct att_tile *const t = &prefill_tiles[i];
        if (!halves_planned_tiles(v, t) || !prefill_fits(v, t, m, NULL))
            continue;
        const unsigned groups = t->own[PREFILL_KEY_GROUPS] ? t->own[PREFILL_KEY_GROUPS] : 1;
        *second = (struct att_second){
            .tile = i + 1,
            .calls = {.rows = {{ARG_TILE_ROWS, 1, (int)(t->rows * t->waves / groups)}}, .count = 1},
        };
        return true;
    }
    return false;
}

/* Limits of keys up to which tiles whose workgroups share a compute unit are faster. SHORT: keys of
 * a window, or of a prompt if prefers_large_tiles() is true and a launch has at most one large tile
 * for each compute unit. PROMPT: keys of any other prompt. COPIED: keys of a window over pages that
 * are copied, if prefers_large_tiles() is true and a launch has more tiles. With head_dim 64 over
 * tensors, either kind of tile takes as long for windows of 512 keys. Without transposing LDS
 * reads, and with head_dim 128 over pages, that is so for 256 keys (modelled). */
enum { SHORT = 256, PROMPT = 512, COPIED = 512 };

/* True if large tiles (one workgroup fills a compute unit) are faster for launches of few tiles and
 * keys. Then each compute unit has at most one tile, and nothing hides a prologue. With head_dim 64
 * and transposing LDS reads, waves of large tiles copy 64 keys at once. */
static bool prefers_large_tiles(const struct att_variant *v, const struct tir_machine *m)
{
    enum { NARROW = 64 /* columns */ };
    return v->head_dim <= NARROW && v->head_dim_v <= NARROW && att_transposes_8_bytes(m);
}

/* Sets second->also[0] to calls with more large tiles than compute units, whose argument `arg` is
 * `first` to `last`. ARG_TILES counts two tiles for a large one. */
static void add_large_launches(struct att_second *second, const struct tir_machine *m,
                               const char *arg, int first, int last)
{
    second->also[0] = (struct att_box){
        .rows = {{ARG_TILES, 2 * m->cus + 1, INT32_MAX}, {arg, first, last}}, .count = 2};
}

/* True if the first tile of the variant copies pages to LDS without registers. */
static bool copies_pages(const struct att_variant *v, const struct tir_machine *m)
{
    struct att_tile first;
    return v->paged && att_find_tile(v, m, &first, NULL) &&
           prefill_with_tile(v, m, &first).source.kind == PREFILL_PAGE_COPIES;
}

/* Sets second->calls to the calls in which a query sees few keys, and second->tile to 0 (not yet
 * chosen). Returns false if the variant has no such calls. In these calls, the prologue and
 * epilogue of a work tile take long compared with its products. With workgroups that share a
 * compute unit, such calls take 0.57 to 0.9 times the cycles (modelled). Wider heads with a window
 * over tensors have persistent kernels, which are as fast for any window. */
static bool find_short_calls(const struct att_variant *v, const struct tir_machine *m,
                             struct att_second *second)
{
    /* AFTER: most keys after a query's position that a window has; NARROW: most columns of a narrow
     * head */
    enum { AFTER = 128, NARROW = 64 };
    const bool narrow = v->head_dim <= NARROW && v->head_dim_v <= NARROW;
    const bool large = prefers_large_tiles(v, m);
    *second = (struct att_second){.tile = 0};
    if (v->mask == ATT_MASK_WINDOW) {
        second->calls = (struct att_box){
            .rows = {{ARG_WINDOW_LEFT, 0, SHORT - 1}, {ARG_WINDOW_RIGHT, 0, AFTER}}, .count = 2};
        if (large && copies_pages(v, m)) {
            add_large_launches(second, m, ARG_WINDOW_LEFT, SHORT, COPIED - 1);
            second->also[0].rows[second->also[0].count++] = second->calls.rows[1];
        }
        return narrow || v->paged;
    }
    if (v->mask != ATT_MASK_CAUSAL)
        return false;
    const int most = !narrow ? MOST_UNSPLIT_KEYS : large ? SHORT : PROMPT;
    second->calls = (struct att_box){.rows = {{ARG_MAX_SEQLEN_K, 0, most}}, .count = 1};
    if (large)
        add_large_launches(second, m, ARG_MAX_SEQLEN_K, SHORT + 1, PROMPT);
    /* longer prompts also, if they have many tiles: with few tiles they have key groups */
    if (!narrow && !att_transposes_8_bytes(m))
        second->also[0] =
            (struct att_box){.rows = {{ARG_TILES, m->cus + 1, INT32_MAX},
                                      {ARG_MAX_SEQLEN_K, MOST_UNSPLIT_KEYS + 1, PROMPT}},
                             .count = 2};
    return true;
}

/* Sets *second to the kernel for calls in which a query sees few keys. Returns false if the variant
 * has no such calls, or no tile whose workgroups share a compute unit. */
static bool short_second(const struct att_variant *v, const struct tir_machine *m,
                         struct att_second *second)
{
    if (!find_short_calls(v, m, second))
        return false;
    for (unsigned i = 0; i < PREFILL_N_TILES && !second->tile; i++) {
        const struct att_tile *const t = &prefill_tiles[i];
        if (prefill_residents(t) > 1 && prefill_fits(v, t, m, NULL))
            second->tile = i + 1;
    }
    return second->tile != 0;
}

/* Sets *second to the n-th further kernel, from 0: att_template.second. Returns false if there are
 * only n. If find_few_keys() finds a tile, there is one further kernel, for calls with few keys.
 * Otherwise the first kernels are for launches with at most as many work tiles as compute units.
 * The last kernel is for calls in which a query sees few keys. A planned kernel has at most one:
 * planned_second(). */
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
        return (!n || find_few(v, m, n - 1, keys)) && short_second(v, m, second);
    *second = (struct att_second){
        .tile = (unsigned)(t - prefill_tiles) + 1,
        .calls = {.rows = {{ARG_TILES, 0, m->cus}, {ARG_MAX_SEQLEN_K, keys[0], keys[1]}},
                  .count = 2},
    };
    return true;
}
