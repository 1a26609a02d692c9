/* SPDX-License-Identifier: Apache-2.0
 *
 * The keys and values of prefill: tiles of K and V come from tensors or pages to LDS, and from
 * there to the products. Attention asks for them through prefill_source.
 */
#include "ir/bits.h"
#include "templates/workgroup/lds_map.h"
#include "templates/prefill/prefill.h"

/* ---- Places in memory ---- */

static void locate_rows(struct prefill *p)
{
    struct tir_builder *b = &p->b;
    p->k_base = prefill_head_base(p, ATT_HEADS(K), p->kv_begin, p->kv_head, p->bytes);
    p->v_base = prefill_head_base(p, ATT_HEADS(V), p->kv_begin, p->kv_head, p->bytes);
    p->k_stride = att_stride(b, ARG_K_TOKEN_STRIDE, (int)p->bytes);
    p->v_stride = att_stride(b, ARG_V_TOKEN_STRIDE, (int)p->bytes);
}

static void locate_pages(struct prefill *p)
{
    struct tir_builder *b = &p->b;
    p->first_seen = tir_i32(b, 0);
    if (att_hides_early(p->v))
        p->first_seen = att_first_seen(b, p->v, p->attention.at.reach, prefill_first_position(p));
    p->pages = att_pages(b, p->v, p->sequence, p->kv_len, p->first_seen);
    if (p->page_copies)
        return;
    for (unsigned i = 0; i < p->n_panels; i++) {
        struct panel *n = &p->panels[i];
        n->paged = att_paged_tile(b, &p->k_cache, p->kv, n->width, n->first, NULL);
    }
    const struct tir_type by_two = prefill_v_registers(p, p->kv, false);
    for (unsigned i = 0; i < prefill_v_parts(p); i++)
        p->paged_v[i] =
            att_paged_tile(b, &p->v_cache, p->kv, prefill_v_width(p), prefill_v_first(p, i),
                           p->by_columns ? tir_layout_of(b->f, by_two) : NULL);
}

void prefill_locate_keys(struct prefill *p)
{
    if (p->v->paged)
        locate_pages(p);
    else
        locate_rows(p);
}

static struct tir_value first_key(struct prefill *p, struct tir_value tile)
{
    return tir_add(&p->b, p->first, att_times(&p->b, tile, (int)(p->kv * p->groups)));
}

/* Adds `of_each` for each group before the wave's own. */
static struct tir_value of_group(struct prefill *p, struct tir_value from, int of_each)
{
    return p->groups == 1 ? from : tir_add(&p->b, from, att_times(&p->b, p->group, of_each));
}

/* The first key of the wave's group: a block has a tile for each group. */
static struct tir_value own_key(struct prefill *p, struct tir_value tile)
{
    return of_group(p, first_key(p, tile), (int)p->kv);
}

/* The rows of K or V of one tile of keys. The base moves with the tile in 64 bits, so that a
 * sequence may span more than 4 GiB. */
static struct tir_view key_rows(struct prefill *p, struct tir_value key, struct tir_value base,
                                struct tir_value stride64, unsigned rows, int row, int byte)
{
    struct tir_builder *b = &p->b;
    /* No key is below 0: two instructions less, which tell where phases are short. */
    const struct tir_value wide = p->padded ? tir_zext(b, key, TIR_I64) : att_wide(b, key);
    const struct tir_value at = tir_add(b, base, tir_mul(b, wide, stride64));
    /* The last block may have none for a group: less than 0, which is none too. A maximum here
     * would be v_med3 with the minimum, and the buffer no longer uniform. */
    const struct tir_value there = tir_min(b, tir_sub(b, p->kv_len, key), tir_i32(b, (int)rows));
    struct tir_value stride = tir_convert(b, stride64, TIR_I32);
    if (p->tile->own[PREFILL_FRESH_OFFSETS])
        stride = tir_materialize(b, stride);
    return att_view(b, at, there, stride, row, byte);
}

/* ---- K ---- */

/* Tiles take turns in `n` buffers of so many bytes, a power of two of them. */
static struct tir_value turn(struct prefill *p, struct tir_value buffer, struct tir_value tile,
                             unsigned n, unsigned bytes)
{
    struct tir_builder *b = &p->b;
    const struct tir_value which = tir_and(b, tile, tir_i32(b, (int)n - 1));
    return tir_add(b, buffer, att_times(b, which, (int)bytes));
}

static struct tir_value k_buffer(struct prefill *p, const struct panel *n, struct tir_value tile)
{
    return turn(p, n->buffer, tile, p->k_buffers, n->lds_bytes);
}

/* The page numbers of a tile of K, and of V. Pages of tiles past the end are those of the last. */
static void find_k_pages(struct prefill *p, struct tir_value tile)
{
    if (p->page_copies) {
        p->k_page = prefill_find_page(p, tile);
        return;
    }
    for (unsigned i = 0; i < p->n_panels; i++)
        p->panels[i].pages =
            att_page_numbers(&p->b, &p->pages, &p->panels[i].paged, first_key(p, tile));
}

static void copy_k(struct prefill *p, struct tir_value tile, bool in_loop)
{
    struct tir_builder *b = &p->b;
    const struct tir_value key = first_key(p, tile);
    for (unsigned i = 0; i < p->n_panels; i++) {
        struct panel *n = &p->panels[i];
        if (in_loop)
            prefill_place(p, i ? PREFILL_FETCH_MORE_K : PREFILL_FETCH_K);
        if (p->page_copies) {
            const struct prefill_page_copy copy = {
                &p->k_cache,          p->k_page,   n->first,           n->width,
                k_buffer(p, n, tile), &n->lds_all, PREFILL_COPIES_OF_K};
            prefill_copy_page(p, &copy, tile);
            continue;
        }
        if (p->v->paged) {
            n->fetched = att_paged_load(b, &p->pages, &n->paged, key, n->pages);
            continue;
        }
        const unsigned keys = p->kv * p->groups;
        const struct tir_layout l = tir_mma_left(p->mma, keys, &n->k, prefill_waves(p));
        const struct tir_type t = tir_tile(b->f, p->dtype, keys, n->width, &l);
        const struct tir_view k =
            key_rows(p, key, p->k_base, p->k_stride, keys, p->v->head_dim * (int)p->bytes,
                     (int)(n->first * p->bytes));
        tir_copy_to_lds(b, PREFILL_COPIES_OF_K, k, tir_i32(b, 0), k_buffer(p, n, tile), t,
                        &n->lds_all);
    }
}

static void place_k(struct prefill *p, struct tir_value tile)
{
    struct tir_builder *b = &p->b;
    if (!p->v->paged || p->page_copies) {
        tir_wait(b, PREFILL_COPIES_OF_K, 0);
        return;
    }
    for (unsigned i = 0; i < p->n_panels; i++) {
        const struct panel *n = &p->panels[i];
        const struct tir_value k = att_paged_elements(b, &n->paged, n->fetched, p->dtype);
        tir_tile_lds_store(b, k_buffer(p, n, tile), k, &n->lds);
    }
    prefill_place(p, PREFILL_AWAIT_K);
    tir_wait(b, TIR_LDS_WRITES, 0);
}

/* S^T = K Q^T, raw: the scale is folded into the exponent. */
static struct tir_value compute_scores(struct prefill *p, struct tir_value tile)
{
    struct tir_builder *b = &p->b;
    struct tir_value k[PREFILL_MAX_PANELS];
    for (unsigned i = 0; i < p->n_panels; i++) {
        prefill_place(p, i ? PREFILL_READ_MORE_K : PREFILL_READ_K);
        const struct panel *n = &p->panels[i];
        const struct tir_layout l = tir_mma_left(p->mma, p->kv, &n->k, prefill_waves(p));
        const struct tir_type t = tir_tile(b->f, p->dtype, p->kv, n->width, &l);
        const unsigned of_each = tir_lds_address(&n->lds_all, p->kv * n->width, p->bytes);
        const struct tir_value at = of_group(p, k_buffer(p, n, tile), (int)of_each);
        k[i] = tir_tile_lds_load_first(b, at, t, &n->lds, n->used > n->there ? n->there : 0);
    }
    prefill_place(p, PREFILL_SCORES);
    struct tir_value s = tir_splat(b, tir_f32(b, 0.0f), p->scores);
    for (unsigned i = 0; i < p->n_panels; i++)
        s = p->panels[i].used < p->panels[i].width
                ? tir_mma_first(b, p->instr, k[i], p->panels[i].q, s, p->panels[i].used)
                : tir_mma(b, p->instr, k[i], p->panels[i].q, s);
    return tir_named(b, "s", s);
}

/* ---- V ---- */

static struct tir_value v_buffer(struct prefill *p, struct tir_value tile)
{
    return p->by_columns ? p->v_buffer : turn(p, p->v_buffer, tile, 2, p->v_bytes);
}

/* Returns where the tile of this wave's group is in it. */
static struct tir_value own_v_buffer(struct prefill *p, struct tir_value tile)
{
    const unsigned all = p->v_bytes / p->groups, first = p->kv * p->dv;
    const unsigned of_each = p->by_columns ? all : tir_lds_address(&p->v_lds_all, first, p->bytes);
    return of_group(p, v_buffer(p, tile), (int)of_each);
}

/* Starts V of a tile on its way; the value stays empty where it goes to LDS by itself. */
static void fetch_v(struct prefill *p, struct tir_value tile)
{
    struct tir_builder *b = &p->b;
    struct tir_value key = first_key(p, tile);
    if (p->page_copies) {
        const struct prefill_page_copy copy = {
            &p->v_cache,   p->v_page,          0, p->dv, v_buffer(p, tile),
            &p->v_lds_all, PREFILL_COPIES_OF_V};
        prefill_copy_page(p, &copy, tile);
        return;
    }
    for (unsigned i = 0; p->v->paged && i < prefill_v_parts(p); i++)
        p->fetched_v[i] = att_paged_load(b, &p->pages, &p->paged_v[i], key, p->v_pages);
    if (p->v->paged)
        return;
    const int row = p->v->head_dim_v * (int)p->bytes;
    const unsigned keys = p->by_columns ? p->kv : p->kv * p->groups;
    if (p->by_columns)
        key = own_key(p, tile);
    const struct tir_view v = key_rows(p, key, p->v_base, p->v_stride, keys, row, 0);
    const struct tir_type t = prefill_v_registers(p, keys, false);
    if (p->by_columns)
        p->fetched_v[0].bits = tir_tile_load(b, v, tir_i32(b, 0), t);
    else
        tir_copy_to_lds(b, PREFILL_COPIES_OF_V, v, tir_i32(b, 0), v_buffer(p, tile), t,
                        &p->v_lds_all);
}

/* Parts of V, keys x a half of dv, side by side. */
static struct tir_value join_v(struct prefill *p, struct tir_value part[2])
{
    if (prefill_v_parts(p) == 1)
        return part[0];
    return tir_join_blocks(&p->b, tir_stack(&p->b, part[0], part[1]), p->kv);
}

static struct tir_layout turned_layout(struct prefill *p)
{
    const struct tir_layout l = *tir_layout_of(p->b.f, prefill_v_registers(p, p->kv, true));
    if (prefill_v_parts(p) == 1)
        return l;
    const struct tir_layout both = tir_layout_stack(&l, p->kv);
    return tir_layout_join_blocks(&both, p->kv, prefill_v_width(p));
}

static void place_v(struct prefill *p, struct tir_value tile)
{
    struct tir_builder *b = &p->b;
    struct tir_value v = p->fetched_v[0].bits, part[2];
    if (!v.id) {
        tir_wait(b, PREFILL_COPIES_OF_V, 0);
        return;
    }
    if (p->v->paged) {
        prefill_place(p, PREFILL_CLEAR_V);
        for (unsigned i = 0; i < prefill_v_parts(p); i++)
            part[i] = att_paged_elements(b, &p->paged_v[i], p->fetched_v[i], p->dtype);
        v = prefill_clear_unseen(p, join_v(p, part), first_key(p, tile));
        prefill_place(p, PREFILL_PLACE_V);
    }
    if (p->by_columns && !p->v_cache.shuffle) {
        const struct tir_layout turned = turned_layout(p);
        v = tir_relayout(b, v, &turned);
    }
    tir_tile_lds_store(b, own_v_buffer(p, tile), v, &p->v_lds);
}

void prefill_copy_first_keys(struct prefill *p)
{
    const struct tir_value first = tir_i32(&p->b, 0);
    if (p->page_copies)
        find_k_pages(p, first);
    copy_k(p, first, false);
}

void prefill_await_keys(struct prefill *p)
{
    tir_wait(&p->b, PREFILL_COPIES_OF_K, 0);
    tir_barrier(&p->b);
}

/* ---- The source of attention's keys and values ---- */

static struct tir_value key_of_block(void *family, struct tir_value index)
{
    return own_key(family, index);
}

static void fetch_keys(void *family, struct att_block *block)
{
    struct prefill *const p = family;
    if (p->v->paged) {
        prefill_place(p, PREFILL_FIND_K_PAGES);
        find_k_pages(p, block->index);
    }
    prefill_place(p, PREFILL_FETCH_K);
    copy_k(p, block->index, true);
    prefill_place(p, PREFILL_PLACE_K);
    place_k(p, block->index);
    if (p->v->paged) {
        prefill_place(p, PREFILL_FIND_V_PAGES);
        if (p->page_copies)
            p->v_page = prefill_find_page(p, block->index);
        else
            p->v_pages =
                att_page_numbers(&p->b, &p->pages, &p->paged_v[0], first_key(p, block->index));
    }
    prefill_place(p, PREFILL_AWAIT_K);
    if (p->v->mask == ATT_MASK_CUSTOM)
        block->mask = att_load_mask(&p->attention, first_key(p, block->index));
    tir_barrier(&p->b);
}

static struct tir_value scores(void *family, const struct att_block *block)
{
    return compute_scores(family, block->index);
}

static void fetch_values(void *family, const struct att_block *block)
{
    struct prefill *const p = family;
    prefill_place(p, PREFILL_FETCH_V);
    fetch_v(p, block->index);
}

static void place_values(void *family, const struct att_block *block)
{
    struct prefill *const p = family;
    prefill_place(p, PREFILL_PLACE_V);
    place_v(p, block->index);
}

static void await_values(void *family)
{
    struct prefill *const p = family;
    prefill_place(p, PREFILL_AWAIT_V);
    tir_wait(&p->b, TIR_LDS_WRITES, 0);
    tir_barrier(&p->b);
}

static void have_v(struct prefill *p)
{
    prefill_place(p, PREFILL_HAVE_V);
    tir_wait(&p->b, TIR_LDS_WRITES, 0);
}

static struct tir_value values(void *family, const struct att_block *block)
{
    struct prefill *const p = family;
    prefill_place(p, PREFILL_READ_V);
    const struct tir_value v = prefill_read_v(p, own_v_buffer(p, block->index));
    have_v(p);
    return v;
}

/* The first product takes what is read in the phase before it, or in the same where that is one of
 * memory, at whose end all parts are awaited. */
static struct tir_value part_of_values(void *family, const struct att_block *block, unsigned part)
{
    struct prefill *const p = family;
    prefill_place(p, part ? PREFILL_READ_MORE_V : PREFILL_READ_V);
    const struct tir_value v = prefill_read_part_of_v(p, own_v_buffer(p, block->index), part);
    if (!prefill_is_alone(p) && (part + 1) * p->v_keys == p->kv)
        have_v(p);
    return v;
}

static struct tir_value rest_of_values(void *family, const struct att_block *block)
{
    struct prefill *const p = family;
    prefill_place(p, PREFILL_READ_V);
    return prefill_read_rest(p, own_v_buffer(p, block->index));
}

const struct att_source prefill_source = {
    .rest_of_values = rest_of_values,
    .part_of_values = part_of_values,
    .first_key = key_of_block,
    .fetch_keys = fetch_keys,
    .scores = scores,
    .fetch_values = fetch_values,
    .place_values = place_values,
    .await_values = await_values,
    .values = values,
};
