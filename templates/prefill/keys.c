/* SPDX-License-Identifier: Apache-2.0
 *
 * This file has the steps of prefill's loop that load tiles of K and V: from tensors or pages to
 * LDS, and from LDS to the products.
 */
#include "ir/bits.h"
#include "templates/workgroup/lds_map.h"
#include "templates/prefill/pipelines/pipelines.h"
#include "templates/prefill/prefill.h"

/* ---- K and V in memory: addresses, pages, copies by the tensor data mover ---- */

/* Sets the addresses and strides of K and V in p->source for kernels without a cache. */
static void locate_rows(struct prefill *p)
{
    struct tir_builder *b = &p->b;
    p->source.k.base =
        prefill_head_base(p, ATT_HEADS(K), p->work.kv_begin, p->work.kv_head, prefill_bytes(p));
    p->source.v.base =
        prefill_head_base(p, ATT_HEADS(V), p->work.kv_begin, p->work.kv_head, prefill_bytes(p));
    p->source.k.stride = att_stride(b, ARG_K_TOKEN_STRIDE, (int)prefill_bytes(p));
    p->source.v.stride = att_stride(b, ARG_V_TOKEN_STRIDE, (int)prefill_bytes(p));
}

/* Sets the sequence's page table in p->source. If pages pass through registers, also sets the
 * spread of a tile of K and of V over lanes. */
static void locate_pages(struct prefill *p)
{
    struct tir_builder *b = &p->b;
    p->source.first_seen = tir_i32(b, 0);
    if (att_hides_early(p->v))
        p->source.first_seen =
            att_first_seen(b, p->v, p->attention.at.reach, prefill_first_position(p));
    p->source.pages = att_pages(b, p->v, p->work.sequence, p->work.kv_len, p->source.first_seen);
    if (p->source.kind == PREFILL_PAGE_COPIES)
        return;
    for (unsigned i = 0; i < p->k.n_panels; i++) {
        struct prefill_panel *n = &p->k.panels[i];
        n->paged = att_paged_tile(b, &p->source.k.cache, p->tile->keys, n->width, n->first, NULL);
    }
    const struct tir_type by_two = prefill_v_registers(p, p->tile->keys, false);
    for (unsigned i = 0; i < prefill_v_parts(p); i++)
        p->source.paged_v[i] = att_paged_tile(
            b, &p->source.v.cache, p->tile->keys, prefill_v_width(p), prefill_v_first(p, i),
            prefill_transposes_v(p) ? tir_layout_of(b->f, by_two) : NULL);
}

void prefill_locate_keys(struct prefill *p)
{
    if (p->v->paged)
        locate_pages(p);
    else
        locate_rows(p);
}

/* Returns the index (i32) of the first key of iteration `tile` (i32) of the loop over keys. In an
 * iteration each key group has a tile of keys. */
static struct tir_value first_key(struct prefill *p, struct tir_value tile)
{
    return tir_add(&p->b, p->work.first_key,
                   att_times(&p->b, tile, (int)(p->tile->keys * prefill_groups(p))));
}

/* Returns `from` (i32) plus `of_each` times the index of the wave's key group. `of_each`: keys or
 * bytes that each key group has. */
static struct tir_value at_group(struct prefill *p, struct tir_value from, int of_each)
{
    return prefill_groups(p) == 1 ? from
                                  : tir_add(&p->b, from, att_times(&p->b, p->work.group, of_each));
}

/* Returns the index (i32) of the first key of the wave's key group in iteration `tile` (i32). */
static struct tir_value own_key(struct prefill *p, struct tir_value tile)
{
    return at_group(p, first_key(p, tile), (int)p->tile->keys);
}

/* Returns a view of `rows` rows of K or V from key `key` (i32) on, in the tensor at address `base`
 * (i64). Rows have `row` bytes and are `stride64` (i64) bytes apart; the view begins at byte `byte`
 * of a row. The base has 64 bits, so that a sequence may span more than 4 GiB. */
static struct tir_view key_rows(struct prefill *p, struct tir_value key, struct tir_value base,
                                struct tir_value stride64, unsigned rows, int row, int byte)
{
    struct tir_builder *b = &p->b;
    /* Keys are not negative. Zero extension saves two instructions in kernels whose phases are
     * short. */
    const struct tir_value wide = prefill_valid(p, &p->k.panels[0]) < p->k.panels[0].width
                                      ? tir_zext(b, key, TIR_I64)
                                      : att_wide(b, key);
    const struct tir_value at = tir_add(b, base, tir_mul(b, wide, stride64));
    /* A key group without keys in the last block gets a negative number of rows, and reads none. A
     * maximum with 0 would become v_med3, a vector instruction, and the buffer descriptor has to be
     * scalar. */
    const struct tir_value there =
        tir_min(b, tir_sub(b, p->work.kv_len, key), tir_i32(b, (int)rows));
    struct tir_value stride = tir_convert(b, stride64, TIR_I32);
    if (p->tile->own[PREFILL_FRESH_OFFSETS])
        stride = tir_materialize(b, stride);
    return att_view(b, at, there, stride, row, byte);
}

struct tir_value prefill_copying_wave(struct prefill *p)
{
    struct tir_builder *b = &p->b;
    const struct tir_value wave = tir_wave_id(b);
    return prefill_has_halves(p) ? tir_and(b, wave, tir_i32(b, (int)prefill_copying_waves(p) - 1))
                                 : wave;
}

struct tir_value prefill_copied_from(struct prefill *p, unsigned first, unsigned bytes)
{
    struct tir_builder *b = &p->b;
    const struct tir_value at = tir_i64(b, first);
    return prefill_has_halves(p) ? tir_select(b, p->second, tir_i64(b, first + bytes), at) : at;
}

/* Issues a copy by the tensor data mover of the wave's rows of a tile of K or V to LDS. `key`
 * (i32): index of the tile's first key. `to` (i32): LDS address of the tile. The wave copies
 * `bytes` bytes of each row, from byte `first` on. `map` gives the padding after a row in LDS.
 * `queue`: the queue (enum prefill_copies) that counts the copy. */
static void move_rows(struct prefill *p, int queue, const struct prefill_tensor *from,
                      struct tir_value key, unsigned first, unsigned bytes, struct tir_value to,
                      const struct tir_layout *map)
{
    struct tir_builder *b = &p->b;
    const unsigned rows = prefill_copied_rows(p), apart = map->pad * prefill_bytes(p);
    const struct tir_value before = att_times(b, prefill_copying_wave(p), (int)rows);
    const struct tir_value row = tir_add(b, key, before);
    const struct tir_value left = tir_sub(b, p->work.kv_len, row);
    const struct tir_value at = tir_mul(b, att_wide(b, row), from->stride);
    const struct tir_rows r = {
        .base = tir_add(b, tir_add(b, from->base, prefill_copied_from(p, first, bytes)), at),
        .stride = from->stride,
        .there = tir_max(b, left, tir_i32(b, 0)),
        .rows = rows,
        .bytes = bytes};
    tir_tensor_to_lds(b, queue, &r, tir_add(b, to, att_times(b, before, (int)(bytes + apart))),
                      bytes, apart);
}

/* ---- Tiles of K: places in LDS, copies and reads ---- */

/* Returns the LDS address (i32) to which the wave copies panel n of tile `tile` (i32: index) of K.
 * If the tile has halves, n is the first panel, and waves that copy the second half get the second
 * panel's address. */
static struct tir_value k_buffer(struct prefill *p, const struct prefill_panel *n,
                                 struct tir_value tile)
{
    const struct tir_value to =
        prefill_has_halves(p) ? tir_select(&p->b, p->second, n[1].buffer, n[0].buffer) : n->buffer;
    return att_ring_buffer(&p->b, to, tile, p->k.tiles, prefill_k_bytes(p, n));
}

/* Returns the LDS address (i32) of the panel of tile `tile` (i32) of K that the wave multiplies
 * with panel n of Q. */
static struct tir_value k_source(struct prefill *p, const struct prefill_panel *n,
                                 struct tir_value tile)
{
    const struct tir_value from = n->read_from.id ? n->read_from : n->buffer;
    return att_ring_buffer(&p->b, from, tile, p->k.tiles, prefill_k_bytes(p, n));
}

/* Issues the copy to LDS, or the loads to registers, of panel n of tile `tile` (i32: index) of K,
 * whose first key is `key` (i32). If the panels are halves, the call for the first panel copies
 * both, each with half of the waves. The call for the second panel then does nothing. */
static void copy_panel(struct prefill *p, struct prefill_panel *n, struct tir_value tile,
                       struct tir_value key)
{
    struct tir_builder *b = &p->b;
    const struct tir_layout all = prefill_k_lds(p, n, prefill_groups(p));
    if (prefill_has_halves(p) && n != p->k.panels)
        return;
    if (p->source.kind == PREFILL_PAGE_COPIES) {
        const struct prefill_page_copy copy = {&p->source.k.cache, p->now.k_page,        n->first,
                                               n->width,           k_buffer(p, n, tile), &all,
                                               PREFILL_COPIES_OF_K};
        prefill_copy_page(p, &copy, tile);
        return;
    }
    if (p->v->paged) {
        n->fetched = att_paged_load(b, &p->source.pages, &n->paged, key, n->pages);
        return;
    }
    if (prefill_moves_tensors(p)) {
        move_rows(p, PREFILL_COPIES_OF_K, &p->source.k, key, n->first * prefill_bytes(p),
                  n->width * prefill_bytes(p), k_buffer(p, n, tile), &all);
        return;
    }
    const unsigned keys = p->tile->keys * prefill_groups(p);
    const struct tir_layout l = tir_mma_left(prefill_mma(p), keys, &n->k, prefill_waves(p));
    const struct tir_type t = tir_tile(b->f, p->shape.dtype, keys, n->width, &l);
    const struct tir_view k =
        key_rows(p, key, p->source.k.base, p->source.k.stride, keys,
                 p->v->head_dim * (int)prefill_bytes(p), (int)(n->first * prefill_bytes(p)));
    tir_copy_to_lds(b, PREFILL_COPIES_OF_K, k, tir_i32(b, 0), k_buffer(p, n, tile), t, &all);
}

void prefill_copy_first_keys(struct prefill *p)
{
    const struct tir_value tile = tir_i32(&p->b, 0);
    if (p->source.kind == PREFILL_PAGE_COPIES)
        p->now.k_page = prefill_load_page(p, prefill_find_entry(p, tile));
    const struct tir_value key = first_key(p, tile);
    for (unsigned i = 0; i < p->k.n_panels; i++)
        copy_panel(p, &p->k.panels[i], tile, key);
}

void prefill_await_keys(struct prefill *p)
{
    tir_wait(&p->b, PREFILL_COPIES_OF_K, 0);
    tir_barrier(&p->b);
}

/* Reads panel n of tile `tile` (i32) of K from LDS, for the wave's key group. */
static struct tir_value read_panel(struct prefill *p, const struct prefill_panel *n,
                                   struct tir_value tile)
{
    struct tir_builder *b = &p->b;
    const struct tir_layout l =
        tir_mma_left(prefill_mma(p), p->tile->keys, &n->k, prefill_waves(p));
    const struct tir_type t = tir_tile(b->f, p->shape.dtype, p->tile->keys, n->width, &l);
    const struct tir_layout all = prefill_k_lds(p, n, prefill_groups(p)),
                            lds = prefill_k_lds(p, n, 1);
    const unsigned of_each = tir_lds_address(&all, p->tile->keys * n->width, prefill_bytes(p));
    const struct tir_value at = at_group(p, k_source(p, n, tile), (int)of_each);
    return tir_tile_lds_load_first(b, at, t, &lds,
                                   prefill_is_padded(p, n) ? prefill_valid(p, n) : 0);
}

/* ---- Tiles of V: places in LDS, copies and stores ---- */

/* Returns the LDS address (i32) of tile `tile` (i32: index) of V. `buffer` (i32): LDS address of
 * the ring of V's tiles. */
static struct tir_value tile_of_v(struct prefill *p, struct tir_value buffer, struct tir_value tile)
{
    return p->value.tiles == 1
               ? buffer
               : att_ring_buffer(&p->b, buffer, tile, p->value.tiles, prefill_v_bytes(p));
}

/* Returns the LDS address (i32) to which the wave copies tile `tile` (i32: index) of V: all
 * columns, or the half of the columns that this wave copies. */
static struct tir_value v_buffer(struct prefill *p, struct tir_value tile)
{
    struct tir_value to = p->value.buffer;
    if (prefill_has_halves(p))
        to = tir_select(&p->b, p->second, p->value.other, to);
    return tile_of_v(p, to, tile);
}

/* Returns the LDS address (i32) of tile `tile` (i32) of V of the wave's key group. */
static struct tir_value own_v_buffer(struct prefill *p, struct tir_value tile)
{
    const struct tir_layout copied = prefill_v_copied(p);
    const unsigned first = p->tile->keys * prefill_dv(p);
    const unsigned of_each = prefill_transposes_v(p)
                                 ? prefill_v_bytes(p) / prefill_groups(p)
                                 : tir_lds_address(&copied, first, prefill_bytes(p));
    return at_group(p, v_buffer(p, tile), (int)of_each);
}

/* Issues the copy to LDS of tile `tile` (i32) of V, or its loads to now.v_loaded. */
static void fetch_v(struct prefill *p, struct tir_value tile)
{
    struct tir_builder *b = &p->b;
    const struct tir_layout copied = prefill_v_copied(p);
    struct tir_value key = first_key(p, tile);
    const unsigned columns = prefill_v_columns(p);
    if (p->source.kind == PREFILL_PAGE_COPIES) {
        const struct prefill_page_copy copy = {
            &p->source.v.cache, p->now.v_pages, 0, columns, v_buffer(p, tile), &copied,
            PREFILL_COPIES_OF_V};
        prefill_copy_page(p, &copy, tile);
        return;
    }
    for (unsigned i = 0; p->v->paged && i < prefill_v_parts(p); i++)
        p->now.v_loaded[i] =
            att_paged_load(b, &p->source.pages, &p->source.paged_v[i], key, p->now.v_pages);
    if (p->v->paged)
        return;
    if (prefill_moves_tensors(p)) {
        move_rows(p, PREFILL_COPIES_OF_V, &p->source.v, key, 0, columns * prefill_bytes(p),
                  v_buffer(p, tile), &copied);
        return;
    }
    const int row = p->v->head_dim_v * (int)prefill_bytes(p);
    const unsigned keys =
        prefill_transposes_v(p) ? p->tile->keys : p->tile->keys * prefill_groups(p);
    if (prefill_transposes_v(p))
        key = own_key(p, tile);
    const struct tir_view v = key_rows(p, key, p->source.v.base, p->source.v.stride, keys, row, 0);
    const struct tir_type t = prefill_v_registers(p, keys, false);
    if (prefill_transposes_v(p))
        p->now.v_loaded[0].bits = tir_tile_load(b, v, tir_i32(b, 0), t);
    else
        tir_copy_to_lds(b, PREFILL_COPIES_OF_V, v, tir_i32(b, 0), v_buffer(p, tile), t, &copied);
}

/* Returns a tile of V with the columns of part[0] and then of part[1], the prefill_v_parts() parts
 * of its columns. */
static struct tir_value join_v(struct prefill *p, struct tir_value part[2])
{
    if (prefill_v_parts(p) == 1)
        return part[0];
    return tir_join_blocks(&p->b, tir_stack(&p->b, part[0], part[1]), p->tile->keys);
}

/* Returns the layout in registers from which a tile of V is stored to LDS as V^T. */
static struct tir_layout store_layout(struct prefill *p)
{
    const struct tir_layout l = *tir_layout_of(p->b.f, prefill_v_registers(p, p->tile->keys, true));
    if (prefill_v_parts(p) == 1)
        return l;
    const struct tir_layout both = tir_layout_stack(&l, p->tile->keys);
    return tir_layout_join_blocks(&both, p->tile->keys, prefill_v_width(p));
}

/* ---- The steps of the loop that load K, V and masks ---- */

/* Returns the kernel that a pipeline step works on. `context`: the kernel's struct
 * att_attention. */
static struct prefill *family_of(void *context)
{
    return ((struct att_attention *)context)->family;
}

/* Returns the index (i32) of the tile of keys whose step is being built. */
static struct tir_value tile_of(const struct prefill *p) { return p->attention.now.block.index; }

/* Returns the index of the first panel of K that part `part` of a step works on. Part 0 has the
 * first panel, and part 1 all others. */
static unsigned first_panel(unsigned part) { return part ? 1 : 0; }

/* Returns the index after the last panel of K that part `part` of a step works on. Part 0 has the
 * first panel, and part 1 all others. */
static unsigned end_panel(const struct prefill *p, unsigned part)
{
    return part ? p->k.n_panels : 1;
}

/* Sets now.k_entry to the byte offset of the page-table entry for the rows of K that the wave
 * copies. */
static void find_k_entry(void *context)
{
    struct prefill *const p = family_of(context);
    p->now.k_entry = prefill_find_entry(p, tile_of(p));
}

/* Sets now.v_entry to the byte offset of the page-table entry for the rows of V that the wave
 * copies. */
static void find_v_entry(void *context)
{
    struct prefill *const p = family_of(context);
    p->now.v_entry = prefill_find_entry(p, tile_of(p));
}

/* Loads the page numbers for a tile of K: one scalar for the rows that the wave copies directly, or
 * one number per row if K passes through registers. Tiles after the last key get the last tile's
 * pages. */
static void find_k(void *context)
{
    struct prefill *const p = family_of(context);
    if (p->source.kind == PREFILL_PAGE_COPIES) {
        p->now.k_page = prefill_load_page(p, p->now.k_entry);
        return;
    }
    for (unsigned i = 0; i < p->k.n_panels; i++)
        p->k.panels[i].pages = att_page_numbers(&p->b, &p->source.pages, &p->k.panels[i].paged,
                                                first_key(p, tile_of(p)));
}

/* Issues the copies to LDS, or the loads to registers, of the panels of a tile of K that part
 * `part` of the step has: first_panel(). */
static void issue_k(void *context, unsigned part)
{
    struct prefill *const p = family_of(context);
    if (!part)
        p->now.copied_key = first_key(p, tile_of(p));
    for (unsigned i = first_panel(part); i < end_panel(p, part); i++)
        copy_panel(p, &p->k.panels[i], tile_of(p), p->now.copied_key);
}

/* Stores the loaded tile of K in LDS, converted to the products' type. */
static void store_k(void *context)
{
    struct prefill *const p = family_of(context);
    for (unsigned i = 0; i < p->k.n_panels; i++) {
        const struct prefill_panel *n = &p->k.panels[i];
        const struct tir_value k = att_paged_elements(&p->b, &n->paged, n->fetched, p->shape.dtype);
        const struct tir_layout lds = prefill_k_lds(p, n, 1);
        tir_tile_lds_store(&p->b, k_buffer(p, n, tile_of(p)), k, &lds);
    }
}

/* Loads the page numbers for a tile of V: one scalar for the rows that the wave copies directly, or
 * one number per row if V passes through registers. */
static void find_v(void *context)
{
    struct prefill *const p = family_of(context);
    if (p->source.kind == PREFILL_PAGE_COPIES)
        p->now.v_pages = prefill_load_page(p, p->now.v_entry);
    else
        p->now.v_pages = att_page_numbers(&p->b, &p->source.pages, &p->source.paged_v[0],
                                          first_key(p, tile_of(p)));
}

/* Loads the bytes of a custom mask, or the words of a mask of blocks, for the step's tile. */
static void load_mask(void *context)
{
    struct prefill *const p = family_of(context);
    struct att_block *const block = &p->attention.now.block;
    const struct tir_value key = first_key(p, tile_of(p));
    if (p->v->mask == ATT_MASK_BLOCKS)
        block->word = prefill_load_words(p, key);
    else
        block->seen = prefill_load_seen(p, key);
}

/* Sets block.hides to true if the mask from load_mask() may hide a key of the tile. */
static void check_mask(void *context)
{
    struct prefill *const p = family_of(context);
    if (p->v->mask == ATT_MASK_BLOCKS)
        prefill_check_words(p, first_key(p, tile_of(p)));
    else
        prefill_check_seen(p);
}

/* Reads the panels of a tile of K that part `part` of the step has (first_panel()) from LDS. */
static void read_k(void *context, unsigned part)
{
    struct prefill *const p = family_of(context);
    for (unsigned i = first_panel(part); i < end_panel(p, part); i++)
        p->now.k[i] = read_panel(p, &p->k.panels[i], tile_of(p));
}

/* Computes S^T = K Q^T of a tile. The scores are not scaled here: the softmax scale is in the
 * factor by which the exponents are multiplied. */
static void product_qk(void *context)
{
    struct prefill *const p = family_of(context);
    struct tir_builder *b = &p->b;
    struct tir_value s = tir_splat(b, tir_f32(b, 0.0f), p->shape.scores);
    for (unsigned i = 0; i < p->k.n_panels; i++) {
        const struct prefill_panel *const n = &p->k.panels[i];
        const unsigned columns = prefill_multiplied(p, n);
        s = columns < n->width ? tir_mma_first(b, p->shape.product, p->now.k[i], n->q, s, columns)
                               : tir_mma(b, p->shape.product, p->now.k[i], n->q, s);
    }
    p->attention.now.s = tir_named(b, "s", s);
}

/* Issues the copies to LDS, or the loads to registers, of a tile of V. */
static void issue_v(void *context)
{
    struct prefill *const p = family_of(context);
    fetch_v(p, tile_of(p));
}

/* Converts the loaded tile of V of a cache to the products' type, with zeros in rows that no query
 * sees. */
static void clear_v(void *context)
{
    struct prefill *const p = family_of(context);
    struct tir_value part[2];
    for (unsigned i = 0; i < prefill_v_parts(p); i++)
        part[i] =
            att_paged_elements(&p->b, &p->source.paged_v[i], p->now.v_loaded[i], p->shape.dtype);
    p->now.cleared_v = prefill_clear_unseen(p, join_v(p, part), first_key(p, tile_of(p)));
}

/* Stores the loaded tile of V in LDS, as V^T if LDS reads cannot transpose. */
static void store_v(void *context)
{
    struct prefill *const p = family_of(context);
    struct tir_value v = p->v->paged ? p->now.cleared_v : p->now.v_loaded[0].bits;
    if (prefill_transposes_v(p) && !p->source.v.cache.shuffle) {
        const struct tir_layout order = store_layout(p);
        v = tir_relayout(&p->b, v, &order);
    }
    const struct tir_layout lds = prefill_v_lds(p);
    tir_tile_lds_store(&p->b, own_v_buffer(p, tile_of(p)), v, &lds);
}

/* Reads a tile of V, or part `part` (index) of its keys, from LDS to registers, as the left operand
 * of V^T P^T. */
static void read_v(void *context, unsigned part)
{
    struct prefill *const p = family_of(context);
    if (prefill_has_halves(p)) {
        const struct tir_value first = tile_of_v(p, p->value.read_from[0], tile_of(p)),
                               second = tile_of_v(p, p->value.read_from[1], tile_of(p));
        p->attention.now.v =
            tir_stack(&p->b, prefill_v_operand(p, first), prefill_v_operand(p, second));
        return;
    }
    const struct tir_value at = own_v_buffer(p, tile_of(p));
    p->attention.now.v =
        p->attention.value_parts > 1 ? prefill_v_part(p, at, part) : prefill_v_operand(p, at);
}

/* Reads the rows of V^T that PREFILL_TAIL_REST multiplies separately, the last 8, from LDS to
 * registers. */
static void read_v_rest(void *context)
{
    struct prefill *const p = family_of(context);
    p->attention.now.v_rest = prefill_v_rest(p, own_v_buffer(p, tile_of(p)));
}

struct tir_value prefill_key_of_block(void *family, struct tir_value index)
{
    return own_key(family, index);
}

#define K_LDS (1u << PREFILL_LDS_K)
#define V_LDS (1u << PREFILL_LDS_V)

const struct pipe_op prefill_find_k_entry = {"entry of K", .build = find_k_entry};
const struct pipe_op prefill_find_v_entry = {"entry of V", .build = find_v_entry};
const struct pipe_op prefill_find_k = {"find K", .build = find_k, .writes = ATT_SLOT(K_PAGES)};
const struct pipe_op prefill_issue_k = {"K to LDS", .build_part = issue_k, .lds_writes = K_LDS,
                                        .flags = PIPE_ASYNC};
const struct pipe_op prefill_load_k = {"load K", .build_part = issue_k, .reads = ATT_SLOT(K_PAGES),
                                       .writes = ATT_SLOT(K_DATA)};
const struct pipe_op prefill_store_k = {"store K", .build = store_k, .reads = ATT_SLOT(K_DATA),
                                        .lds_writes = K_LDS};
const struct pipe_op prefill_find_v = {"find V", .build = find_v, .writes = ATT_SLOT(V_PAGES)};
const struct pipe_op prefill_load_mask = {"load mask", .build = load_mask,
                                          .writes = ATT_SLOT(MASK)};
const struct pipe_op prefill_check_mask = {"check mask", check_mask, ATT_SLOT(MASK), ATT_SLOT(MASK),
                                           .flags = 0};
const struct pipe_op prefill_read_k = {"read K", .build_part = read_k, .writes = ATT_SLOT(K),
                                       .lds_reads = K_LDS};
const struct pipe_op prefill_product_qk = {"QK", product_qk, ATT_SLOT(K), ATT_SLOT(S),
                                           .flags = PIPE_PRODUCT};
const struct pipe_op prefill_issue_v = {"V to LDS", .build = issue_v, .lds_writes = V_LDS,
                                        .flags = PIPE_ASYNC};
const struct pipe_op prefill_load_v = {"load V", .build = issue_v, .writes = ATT_SLOT(V_DATA)};
const struct pipe_op prefill_load_v_pages = {"load V", issue_v, ATT_SLOT(V_PAGES), ATT_SLOT(V_DATA),
                                             .flags = 0};
const struct pipe_op prefill_clear_v = {"clear V", clear_v, ATT_SLOT(V_DATA), ATT_SLOT(V_READY),
                                        .flags = PIPE_BRANCH};
const struct pipe_op prefill_store_v = {"store V", .build = store_v, .reads = ATT_SLOT(V_DATA),
                                        .lds_writes = V_LDS};
const struct pipe_op prefill_store_v_ready = {"store V", .build = store_v,
                                              .reads = ATT_SLOT(V_READY), .lds_writes = V_LDS};
const struct pipe_op prefill_read_v = {"read V", .build_part = read_v, .writes = ATT_SLOT(V),
                                       .lds_reads = V_LDS};
const struct pipe_op prefill_read_v_rest = {"read V rest", .build = read_v_rest,
                                            .writes = ATT_SLOT(V_REST), .lds_reads = V_LDS};
