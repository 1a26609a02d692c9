/* SPDX-License-Identifier: Apache-2.0
 *
 * The layouts of K, V and scores, and the use of LDS, for a tile of `prefill` (a row of its table).
 * This file also checks whether a tile fits, and whether prefill can be built for a variant.
 */
#include <assert.h>

#include "ir/address_map.h"
#include "ir/bits.h"
#include "ir/spread.h"
#include "templates/prefill/item_rows.h"
#include "templates/prefill/pipelines/pipelines.h"
#include "templates/prefill/prefill.h"
#include "templates/workgroup/lds_map.h"

/* The most scores (queries times keys) that a wave computes at once in planned kernels with a
 * custom mask. A plan's items are short. With masked tiles of 64 keys their loops begin later, and
 * they take up to 5 % longer (modelled). With a mask of blocks tiles that are copied to LDS
 * directly take 11 to 29 % longer. Other tiles of 64 keys take 10 to 20 % less time than tiles of
 * 32. */
enum { PLANNED_SCORES = 32 * 32 };

/* The most values of V per lane, if each value has a scale beside it: in SHUFFLE layout with a
 * scale per token. */
enum { SCALED_VALUES = 32 };

/* True if no field of a cache is set, since K and V are plain tensors. False: a field is set; the
 * reason is in `why`. */
static bool check_plain(const struct att_variant *v, struct att_why *why)
{
    static const enum att_field of_cache[] = {ATT_PAGE_SIZE, ATT_PAGE_TABLE, ATT_KV_DTYPE,
                                              ATT_KV_LAYOUT, ATT_KV_SCALE};
    for (size_t i = 0; i < sizeof(of_cache) / sizeof(of_cache[0]); i++)
        if (att_get(v, of_cache[i]) != att_fields[of_cache[i]].dflt)
            return att_reject(why, of_cache[i], "%s is for a cache: it wants paged: true",
                              att_fields[of_cache[i]].name);
    return true;
}

/* Returns n, rounded up to a power of two. */
static unsigned ceiling(unsigned n) { return n > 1 ? 2 * ceiling((n + 1) / 2) : 1; }

/* Adds panel n to p->k.panels. `vector`: number of neighbouring elements of the panel that a lane
 * has. */
static void add_panel(struct prefill *p, struct prefill_panel n, unsigned vector)
{
    n.k = tir_contract_rows(prefill_mma(p), n.width, vector);
    p->k.panels[p->k.n_panels++] = n;
}

/* True if copies of K and V to LDS leave padding columns unchanged, so that these can be written
 * once before the loop. */
static bool leaves_columns(const struct prefill *p)
{
    return p->tile->copy_bytes >= 16 && p->tile->whole_keys && !p->v->paged &&
           prefill_bytes(p) == 2 && prefill_side(p) == 32;
}

/* True if K is one panel, whose width is head_dim rounded up to a power of two. Products use only
 * the columns that they need, and copies leave the padding in LDS unchanged. */
static bool is_padded(const struct prefill *p)
{
    const unsigned dim = (unsigned)p->v->head_dim;
    return leaves_columns(p) && ceiling(dim) > dim && ceiling(dim) <= p->tile->panel;
}

/* Divides the head dim into panels p->k.panels. Sets n_panels to 0 if the tile's panels are too
 * narrow. */
static void find_panels(struct prefill *p)
{
    unsigned width = 256;
    const unsigned dim = (unsigned)p->v->head_dim;
    if (is_padded(p)) {
        add_panel(p, (struct prefill_panel){.width = ceiling(dim)}, 16 / prefill_bytes(p));
        return;
    }
    /* Elements of K that a lane reads at once: 16 bytes, or the whole operand of an instruction if
     * that is longer. For a narrow rest of the head dim: `narrow` elements. */
    unsigned vector = tir_mma_in_regs(prefill_mma(p)) > 16 / prefill_bytes(p)
                          ? tir_mma_in_regs(prefill_mma(p))
                          : 16 / prefill_bytes(p);
    const unsigned groups = 1u << (prefill_mma(p)->a.lane_bits - tir_bits(prefill_mma(p)->m));
    const unsigned narrow =
        prefill_bytes(p) == 2 && !p->v->paged ? tir_mma_in_regs(prefill_mma(p)) : vector;
    /* Each panel needs registers, for page numbers in particular. Head dims that would have three
     * or more panels get one wider panel for the rest. */
    const bool many = dim > 104 || dim % (groups * narrow);
    const bool few = p->v->paged || (dim > 80 && dim % 16 && many);
    for (unsigned first = 0; first < dim; first += width) {
        const unsigned rest = dim - first;
        if (rest < groups * vector)
            vector = narrow;
        const unsigned lanes = groups * vector;
        const unsigned least = first && few && lanes < rest ? ceiling(rest) : lanes;
        while (width > p->tile->panel || (width > rest && width > least))
            width /= 2;
        if (p->k.n_panels == PREFILL_MAX_PANELS) {
            p->k.n_panels = 0;
            return;
        }
        const unsigned repeated = width > rest ? width - rest : 0;
        add_panel(p, (struct prefill_panel){first - repeated, width, .repeated = repeated}, vector);
    }
}

struct tir_waves prefill_waves(const struct prefill *p)
{
    return (struct tir_waves){.cols = (uint8_t)tir_bits(p->tile->waves / prefill_groups(p))};
}

struct tir_layout prefill_scores_layout(const struct prefill *p)
{
    return tir_mma_result(prefill_mma(p), p->tile->keys, prefill_queries(p), prefill_waves(p));
}

/* True if V has columns of ones in its padding, so that rows of O^T are l. */
static bool has_sum_rows(const struct prefill *p)
{
    const bool ones = leaves_columns(p) || (prefill_transposes_v(p) && !p->v->paged);
    return ones && prefill_bytes(p) == 2 && prefill_side(p) == 32 && !p->v->lse &&
           p->v->head_dim_v % (int)prefill_side(p);
}

/* Sets p->value.tail to PREFILL_TAIL_REST if that is faster. Eight rows of O^T cost half as much as
 * another block of 32 rows. Without columns of ones in V, however, the VALU has to sum l. For
 * smaller head dims the VALU is busy, and tiles of 32 keys would wait for LDS reads. */
static void find_rest(struct prefill *p)
{
    enum { ROWS = 8, KEYS = 64, LEAST = 80, LEAST_V = 104 };
    const struct att_variant *const v = p->v;
    const bool fits = prefill_transposes_v(p) && prefill_bytes(p) == 2 && prefill_side(p) == 32 &&
                      prefill_groups(p) == 1 && p->tile->keys >= KEYS && p->tile->late_maximum &&
                      prefill_unrolls(p);
    const bool rest = fits && v->head_dim >= LEAST && v->head_dim_v >= LEAST_V &&
                      v->head_dim_v % (int)prefill_side(p) == ROWS && prefill_rest_product(p) >= 0;
    if (rest)
        p->value.tail = PREFILL_TAIL_REST;
}

/* Returns the number of tiles that the pipeline needs in LDS, rounded up to a power of two.
 * `buffer`: PREFILL_LDS_K or PREFILL_LDS_V. */
static unsigned ceiling_of_depth(const struct prefill *p, unsigned buffer)
{
    return p->plan.depth[buffer] ? ceiling(p->plan.depth[buffer]) : 1;
}

/* Sets the numbers of tiles of K and V in LDS: the pipeline's need, rounded up to a power of two,
 * since a tile's place is its index modulo that number. K has at least two, and so has V of a cache
 * that is not stored transposed. */
static void find_depths(struct prefill *p)
{
    if (!prefill_plan(p, p->refused))
        return;
    const unsigned own = p->tile->own[PREFILL_K_BUFFERS];
    const bool sliced = p->k.n_panels > 1 && !p->tile->whole_keys && !prefill_is_one_wave(p);
    const unsigned least = own ? own : sliced ? 4 : 2;
    p->k.tiles = ceiling_of_depth(p, PREFILL_LDS_K);
    p->k.tiles = least > p->k.tiles ? least : p->k.tiles;
    p->value.tiles = ceiling_of_depth(p, PREFILL_LDS_V);
    if (p->v->paged && !prefill_transposes_v(p))
        p->value.tiles = 2;
}

/* Sets p->value.room and p->k.room: the bytes in LDS of all tiles of V, and of all tiles of K's
 * first panel. */
static void find_rooms(struct prefill *p)
{
    p->value.room = p->value.tiles * prefill_v_bytes(p);
    p->k.room = p->k.n_panels ? p->k.tiles * prefill_k_bytes(p, &p->k.panels[0]) : 0;
}

/* Divides K into panels, chooses p->value.tail, and sets the numbers of tiles of K and V in LDS. */
static void choose_layouts(struct prefill *p)
{
    find_rest(p);
    if (p->value.tail == PREFILL_TAIL_NONE && has_sum_rows(p))
        p->value.tail = PREFILL_TAIL_SUM;
    find_panels(p);
    find_depths(p);
    find_rooms(p);
}

/* Returns the bytes of LDS that K and V take. */
static unsigned key_bytes(const struct prefill *p)
{
    /* The second halves of K and V begin with the second LDS segment, and take as many bytes as the
     * first halves. */
    unsigned bytes = p->value.room + p->k.room;
    if (prefill_has_halves(p))
        return p->m->lds_segment_bytes + bytes;
    for (unsigned i = 1; i < p->k.n_panels; i++)
        bytes += p->k.tiles * prefill_k_bytes(p, &p->k.panels[i]);
    return bytes;
}

/* Returns the bytes of LDS that a workgroup takes. */
static unsigned lds_bytes(const struct prefill *p)
{
    const unsigned rows = p->staging.home == PREFILL_OWN_ROOM  ? p->staging.bytes
                          : p->staging.home == PREFILL_NO_ROOM ? p->staging.item_bytes
                                                               : 0;
    return key_bytes(p) + rows;
}

/* Returns the most bytes of LDS that a workgroup may take. */
static unsigned lds_limit(const struct prefill *p)
{
    return p->m->lds_bytes / prefill_residents(p->tile);
}

/* Returns the LDS map of half of the columns of O. The map swizzles rows that would begin at the
 * same bank. */
static struct tir_layout half_of_out(const struct prefill *p)
{
    enum { CHUNK = 16 / PREFILL_OUT_BYTES };
    const unsigned columns = prefill_dv(p) / 2, bytes = columns * PREFILL_OUT_BYTES;
    const unsigned together = bytes < p->m->lds_bank_bytes ? p->m->lds_bank_bytes / bytes : 1;
    return att_lds_swizzled(prefill_queries(p), columns, CHUNK, tir_bits(together),
                            tir_bits(columns / CHUNK));
}

/* Sets the place of O in LDS to V's buffer, through which two halves of the columns pass one after
 * the other. O of the workgroup's last work tile passes through Q's place, also in halves, so that
 * lanes use the same offsets. */
static void place_halves(struct prefill *p)
{
    const unsigned half = prefill_queries(p) * prefill_dv(p) / 2 * PREFILL_OUT_BYTES;
    p->staging.o = p->staging.o_beside_q =
        (struct prefill_out_place){.lds = half_of_out(p), .parts = 2};
    p->staging.o_beside_q.in_v = true;
    p->staging.o.step = half;
    p->value.room = half > p->value.room ? half : p->value.room;
    p->staging.bytes = p->staging.bytes > 2 * half ? p->staging.bytes : 2 * half;
}

/* Sets the place of O in LDS to the place of Q, of `q` bytes, whose rows are in registers once the
 * loop begins. A persistent kernel copies the next Q there, so it needs other room for O. Without
 * room, neither Q nor O passes through LDS. */
static void place_out(struct prefill *p, unsigned q)
{
    p->staging.o.parts = 1;
    p->staging.o.lds = att_lds_rows(p->m, prefill_queries(p), prefill_dv(p), PREFILL_OUT_BYTES);
    const unsigned o = att_lds_bytes(&p->staging.o.lds, PREFILL_OUT_BYTES), most = lds_limit(p);
    /* Bytes that alignment of the buffers to 16 bytes may take. */
    const unsigned slack = 16 * (p->k.n_panels + 1);
    p->staging.bytes = q > o ? q : o;
    /* With halves of K and V, loading the next Q ahead would spill scalar registers. */
    const bool persistent = prefill_workgroups(p) != 0 && !prefill_has_halves(p);
    if (persistent && key_bytes(p) + slack + q + o <= most) {
        p->staging.o_beside_q = p->staging.o;
        p->staging.o_beside_q.at = q;
        p->staging.bytes = q + o;
    } else if (persistent) {
        place_halves(p);
    }
    if (prefill_is_one_wave(p) && p->value.room < p->staging.bytes)
        p->value.room = p->staging.bytes;
    const bool in_v = prefill_groups(p) > 1 || prefill_is_one_wave(p);
    p->staging.home = in_v && p->staging.bytes <= p->value.room ? PREFILL_V_ROOM : PREFILL_OWN_ROOM;
    if (lds_bytes(p) + slack > most)
        p->staging = (struct prefill_staging){.o = p->staging.o};
}

/* Sets the places in K's LDS buffer for the merge of key groups: for O, in as few parts as fit, and
 * for m and l. */
static void place_merge(struct prefill *p)
{
    const unsigned words = 2 * prefill_queries(p) * sizeof(float); /* bytes of m and l */
    const unsigned before = p->k.room;
    if (prefill_groups(p) == 1)
        return;
    for (p->merge_parts = 1; p->merge_parts <= PREFILL_MERGE_PARTS; p->merge_parts *= 2) {
        const unsigned merge = prefill_merge_bytes(p) + words;
        p->k.room = merge > before ? merge : before;
        if (lds_bytes(p) <= lds_limit(p))
            return;
    }
}

/* Sets the places of Q and O to the buffers of K and V, for kernels without other room in LDS.
 * Before the loop Q passes through them in as many parts as needed, after the loop O in halves. */
static void place_rows_in_keys(struct prefill *p)
{
    const unsigned room = key_bytes(p), queries = prefill_queries(p);
    unsigned part = 0, used = 0;
    for (unsigned i = 0; i < p->k.n_panels; i++) {
        struct prefill_panel *n = &p->k.panels[i];
        const unsigned bytes = prefill_q_bytes(p, n);
        if (bytes > room)
            return;
        if (used + bytes > room) {
            part++;
            used = 0;
        }
        n->q_at = used;
        n->q_part = part;
        used += bytes;
    }
    p->staging.o = (struct prefill_out_place){.lds = half_of_out(p), .parts = 2};
    if (queries * prefill_dv(p) / 2 * PREFILL_OUT_BYTES > room)
        return;
    p->staging.home = PREFILL_KV_ROOM;
    p->staging.bytes = room;
}

/* Sets the places in LDS of an item's rows of Q and O: after the buffers of K and V, or for O in
 * these buffers. */
static void place_item_rows(struct prefill *p)
{
    const unsigned taken = key_bytes(p) + 16 * (p->k.n_panels + 1), most = lds_limit(p);
    prefill_plan_item_rows(p, taken < most ? most - taken : 0, key_bytes(p));
}

/* Sets the places of Q and O in LDS, if they pass through LDS. A load of Q to registers would have
 * a row per lane and touch 32 cache lines. A copy to LDS of 16 bytes per lane touches 4 rows. */
static void place_rows(struct prefill *p)
{
    if (p->v->planned) {
        place_item_rows(p);
        return;
    }
    if (prefill_is_one_wave(p) && tir_lane_copy(p->m, 0)->bytes < 16) {
        place_rows_in_keys(p);
        return;
    }
    if (p->tile->copy_bytes < 16 && !prefill_is_one_wave(p))
        return;
    unsigned bytes = 0;
    for (unsigned i = 0; i < p->k.n_panels; i++) {
        struct prefill_panel *n = &p->k.panels[i];
        n->q_at = bytes;
        bytes += prefill_q_bytes(p, n);
    }
    place_out(p, bytes);
}

enum { WIDE = 64 };

/* Returns the number of rows, and of columns, of a tile's matrix instruction. */
static unsigned side_of(const struct att_tile *t)
{
    return t->own[PREFILL_SIDE] ? t->own[PREFILL_SIDE] : t->rows;
}

/* Returns the index in tir_machine.mma of the matrix instruction with `rows` rows and columns for
 * operands of `dtype`; below 0: none. `keys` is the number of keys of a tile: below 32 the
 * instruction has k = 16. fp8 tiles of 64 keys or more take an instruction with k = 64 if there is
 * one, since it has twice the rate. */
static int find_product(const struct tir_machine *m, unsigned rows, unsigned keys, unsigned dtype)
{
    const bool enough = dtype == TIR_FP8 && keys >= WIDE;
    const int wide = enough ? tir_find_mma(m, rows, rows, WIDE, dtype) : -1;
    return wide >= 0 ? wide : tir_find_mma(m, rows, rows, keys < 32 ? 16 : 0, dtype);
}

struct prefill prefill_with_tile(const struct att_variant *v, const struct tir_machine *m,
                                 const struct att_tile *t)
{
    struct prefill p = {
        .v = v,
        .m = m,
        .tile = t,
        .shape.dtype = v->q_dtype == ATT_Q_DTYPE_FP8 ? TIR_FP8 : att_dtype(v),
        .source.kind = v->paged ? PREFILL_PAGES : PREFILL_TENSOR,
    };
    p.shape.product = find_product(m, side_of(t), t->keys, p.shape.dtype);
    if (p.shape.product < 0)
        return p;
    choose_layouts(&p);
    if (prefill_copies_pages(&p)) {
        p.source.kind = PREFILL_PAGE_COPIES;
        /* Plans again, from other rows of the pipeline's table with the same number of tiles. */
        prefill_plan(&p, p.refused);
        find_rooms(&p);
    }
    place_rows(&p);
    place_merge(&p);
    return p;
}

/* True if the tile of p, which has halves of K and V, fits the variant and the machine; if not, the
 * reason is in `why`. */
static bool fits_halves(const struct prefill *p, struct att_why *why)
{
    const unsigned segment = p->m->lds_segment_bytes;
    if (p->m->lds_bytes < 2 * segment || p->k.room + p->value.room > segment)
        return att_reject(why, ATT_TILE, "the tile has no LDS segments for halves of K and V");
    const bool same = p->k.n_panels == 2 && !p->k.panels[1].repeated &&
                      p->k.panels[0].width == p->k.panels[1].width;
    return (same && prefill_moves_tensors(p) && p->staging.home == PREFILL_OWN_ROOM) ||
           att_reject(why, ATT_TILE,
                      "the tile is for K and V in two equal halves that the tensor mover copies");
}

/* Returns the least number of vector registers that a wave needs: for Q, O, the scores of a tile,
 * and V of a tile as an operand. */
static unsigned registers(const struct prefill *p)
{
    const unsigned q = (unsigned)p->v->head_dim, o = prefill_dv(p);
    return (p->tile->rows * (q / 2 + o + p->tile->keys) + p->tile->keys * o / 2) / tir_lanes(p->m);
}

/* True if a kernel of the tile has registers for the variant's cache, soft cap and hook, and
 * products beside which to convert int8. If not, the reason is in `why`. */
static bool has_room_beside(const struct att_variant *v, const struct att_tile *t,
                            const struct tir_machine *m, struct att_why *why)
{
    enum { NARROW = 128, CAPPED = 160, QUERIES = 256, WIDE_HEAD = 256 };
    if (t->rows * t->waves >= QUERIES && t->head_dim_v > NARROW && v->paged)
        return att_reject(why, ATT_TILE,
                          "the tile has no registers for V of a cache in two halves");
    if (t->own[PREFILL_FRESH_OFFSETS] && att_scales_scores(v) && v->head_dim_v > CAPPED)
        return att_reject(why, ATT_TILE, "the tile has no registers for a hook or a soft cap");
    /* For heads up to WIDE_HEAD, kernels with eight waves have registers for pages. With four
     * waves, LLVM copies 40 registers in an iteration, or adds waits. */
    const bool eight = t->head_dim <= WIDE_HEAD && !t->own[PREFILL_FP8];
    if (!eight || t->own[PREFILL_WORKGROUPS] != 1 || !v->paged)
        return true;
    if (att_transposes_8_bytes(m) || att_is_shuffled(v))
        return att_reject(why, ATT_TILE, "the tile has no registers for addresses of pages");
    return v->kv_dtype != ATT_KV_DTYPE_INT8 ||
           att_reject(why, ATT_TILE, "the tile has nothing to hide the conversion of int8 beside");
}

/* True unless the tile has 64 keys and a tile of 32 keys is faster; the reason is in `why`.
 * Modelled launches of 1,024 keys with a mask and more than 96 columns take 2 to 14 % longer with
 * 64 keys. */
static bool is_worth_its_keys(const struct att_variant *v, const struct att_tile *t,
                              struct att_why *why)
{
    enum { KEYS = 64, COLUMNS = 96, LONG = 104 };
    const bool wide = v->head_dim > COLUMNS || v->head_dim_v > COLUMNS;
    return t->keys < KEYS || t->head_dim != LONG || !wide || v->mask == ATT_MASK_NONE ||
           att_reject(why, ATT_TILE, "the tile takes more than %d columns only without a mask",
                      COLUMNS);
}

/* True if a tile whose workgroups share a compute unit has registers for the variant; if not, the
 * reason is in `why`. */
static bool fits_beside_others(const struct prefill *p, struct att_why *why)
{
    enum { NARROW = 64 /* most columns of q and k */ };
    const struct att_variant *const v = p->v;
    if (v->head_dim != p->tile->head_dim || v->head_dim_v != p->tile->head_dim_v)
        return att_reject(why, ATT_TILE, "the tile is for head_dim %d", p->tile->head_dim);
    if (att_scales_scores(v))
        return att_reject(why, ATT_TILE, "the tile has no registers for a hook or a soft cap");
    const bool wide = v->head_dim > NARROW && !v->planned;
    const bool loads = p->source.kind == PREFILL_PAGES;
    return !loads || !(wide || att_is_shuffled(v) || att_scales_rows(v)) ||
           att_reject(why, ATT_TILE, "the tile has no registers for pages that are no copies");
}

/* True if registers and LDS suffice for all workgroups of a compute unit, and head_dim_v is a
 * multiple of a store's rows of O^T. If not, the reason is in `why`. */
static bool has_capacity(const struct prefill *p, struct att_why *why)
{
    const unsigned most = lds_limit(p);
    if (lds_bytes(p) > most)
        return att_reject(why, ATT_TILE, "the tile needs %u bytes of LDS, %s has %u", lds_bytes(p),
                          p->m->name, most);
    /* Waves of 32 lanes can store half of a block of rows. */
    const int step = (int)prefill_block_rows(p) / (p->m->lane_bits < TIR_WAVE_BITS ? 2 : 1);
    if (p->v->head_dim_v % step)
        return att_reject(why, ATT_HEAD_DIM_V,
                          "head_dim_v %d beside head_dim %d is not a multiple of %d",
                          p->v->head_dim_v, p->v->head_dim, step);
    const unsigned have = tir_wave_vgprs(p->m, p->tile->waves / 4 * prefill_residents(p->tile));
    if (registers(p) > have)
        return att_reject(why, ATT_TILE, "the tile needs %u vector registers, a wave has %u",
                          registers(p), have);
    return true;
}

/* True if a wave of 32 lanes has registers for the addresses of the variant's custom mask, or there
 * is no such mask. If not, the reason is in `why`. A lane has an address for each pair of
 * a query and a key. With 256 VGPRs a wave and more than 64 columns of Q, addresses for 32 keys
 * spill (LLVM 22.1). */
static bool has_room_for_mask(const struct att_variant *v, const struct att_tile *t,
                              const struct tir_machine *m, struct att_why *why)
{
    enum { FEW_VGPRS = 256, COLUMNS = 64, KEYS = 16 };
    return m->wave_vgprs > FEW_VGPRS || v->mask != ATT_MASK_CUSTOM || v->head_dim <= COLUMNS ||
           t->keys <= KEYS ||
           att_reject(why, ATT_TILE,
                      "the tile has no registers for the addresses of a custom mask");
}

/* True if tile t suits the number of lanes of the machine's waves, and these have registers for the
 * variant's head dims and mask. If not, the reason is in `why`. It is always true for waves of 64
 * lanes. Waves of 32 lanes need a tile with PREFILL_SIDE. */
static bool fits_waves(const struct att_variant *v, const struct att_tile *t,
                       const struct tir_machine *m, struct att_why *why)
{
    enum { WIDEST = 256 };
    const bool wide = v->head_dim > WIDEST;
    if (m->lane_bits == TIR_WAVE_BITS)
        return true;
    if (!has_room_for_mask(v, t, m, why))
        return false;
    if (wide || v->head_dim_v > WIDEST)
        return att_reject(why, wide ? ATT_HEAD_DIM : ATT_HEAD_DIM_V,
                          "waves of %s have no registers for heads of more than %d", m->name,
                          WIDEST);
    return t->own[PREFILL_SIDE] ||
           att_reject(why, ATT_TILE, "the tile is for waves of 64 lanes, %s has 32", m->name);
}

/* True if the variant's steps can use several matrix instructions for a wave's queries; if not, the
 * reason is in `why`. With several instructions, halves of a head_dim_v that is no power of two are
 * not in consecutive registers. For rows of items there is no code. */
static bool fits_several(const struct att_variant *v, struct att_why *why)
{
    if (v->planned)
        return att_reject(why, ATT_TILE, "the tile has no rows of items");
    return !(v->head_dim_v & (v->head_dim_v - 1)) ||
           att_reject(why, ATT_TILE, "the tile has no parts of head_dim_v %d", v->head_dim_v);
}

/* True if the tile is for the element type of q, k and v, and has registers for a soft cap or hook
 * on scores. If not, the reason is in `why`. */
static bool fits_numbers(const struct att_variant *v, const struct att_tile *t, struct att_why *why)
{
    enum { FEW_ROWS = 16 /* queries of a wave that leave registers for hooks */ };
    if ((v->q_dtype == ATT_Q_DTYPE_FP8) != t->own[PREFILL_FP8])
        return att_reject(why, ATT_TILE, "the tile is for q, k and v of %s",
                          t->own[PREFILL_FP8] ? "fp8" : "dtype");
    const bool full = t->own[PREFILL_FP8] && t->waves > 4 && t->rows > FEW_ROWS;
    return !full || !att_scales_scores(v) ||
           att_reject(why, ATT_TILE, "the tile has no registers for a hook or a soft cap");
}

/* True if the variant has exactly the head size of tile t, which has field `exact`, and a mask that
 * leaves registers free. If not, the reason is in `why`. Waves of 32 lanes have none for a
 * window, and over pages a window's kernel has other tiles. */
static bool is_exact(const struct att_variant *v, const struct att_tile *t,
                     const struct tir_machine *m, struct att_why *why)
{
    const bool window = v->mask == ATT_MASK_WINDOW && !v->paged && m->lane_bits == TIR_WAVE_BITS;
    const bool even = v->mask == ATT_MASK_NONE || v->mask == ATT_MASK_CAUSAL || window;
    return (even && v->head_dim == t->head_dim && v->head_dim_v == t->head_dim_v) ||
           att_reject(why, ATT_TILE, "the tile is for head_dim %d with mask causal, window or none",
                      t->head_dim);
}

/* True unless the tile is for waves of 32 lanes and the machine's have 64. The reason is in `why`,
 * unless an earlier tile has set one or `why` is NULL. */
static bool is_for_lanes(const struct att_tile *t, const struct tir_machine *m, struct att_why *why)
{
    if (!t->own[PREFILL_SIDE] || m->lane_bits < TIR_WAVE_BITS)
        return true;
    if (why && why->text[0])
        return false;
    return att_reject(why, ATT_TILE, "the tile is for waves of 32 lanes, %s has 64", m->name);
}

bool prefill_fits(const struct att_variant *v, const struct att_tile *t,
                  const struct tir_machine *m, struct att_why *why)
{
    if (!is_for_lanes(t, m, why))
        return false;
    if (v->head_dim > t->head_dim || v->head_dim_v > t->head_dim_v)
        return att_reject(why, ATT_HEAD_DIM,
                          "prefill has no tile for head_dim %d with head_dim_v %d", v->head_dim,
                          v->head_dim_v);
    if (!fits_waves(v, t, m, why))
        return false;
    if (t->copy_bytes > tir_lane_copy(m, 0)->bytes)
        return att_reject(why, ATT_TILE, "copies %d bytes a lane to LDS, %s %d", t->copy_bytes,
                          m->name, tir_lane_copy(m, 0)->bytes);
    if (t->plain && (v->logits || v->soft_cap))
        return att_reject(why, ATT_TILE, "the tile has no registers for a hook or a soft cap");
    if (v->tile && t->panel > v->head_dim && t->panel < 256)
        return att_reject(why, ATT_TILE, "panels are as wide as the head dim already");
    if (att_is_shuffled(v) && att_scales_rows(v) &&
        t->keys * t->head_dim_v > SCALED_VALUES * (int)tir_lanes(m) * t->waves)
        return att_reject(why, ATT_TILE, "the tile has no registers for a scale beside each value");
    if (!has_room_beside(v, t, m, why))
        return false;
    const unsigned side = side_of(t);
    /* Number of elements in a column of S^T that two registers of a wave have. */
    const unsigned together = 256u / side;
    const unsigned late = t->own[PREFILL_LATE_EIGHTHS] ? t->own[PREFILL_LATE_EIGHTHS] : 4;
    if (side < (unsigned)t->rows && !fits_several(v, why))
        return false;
    if (t->late_power && t->keys * (late & -late) % (8 * together))
        return att_reject(why, ATT_TILE, "%u/8 of %d keys is no such part of a lane's scores", late,
                          t->keys);
    const bool masked = v->mask == ATT_MASK_BLOCKS ? t->copy_bytes > 0 : v->mask == ATT_MASK_CUSTOM;
    if (masked && v->planned && t->rows * t->keys > PLANNED_SCORES)
        return att_reject(
            why, ATT_TILE,
            "takes too long for items of a mask in memory: %u scores a wave, above %d",
            t->rows * t->keys, PLANNED_SCORES);
    if (t->exact && !is_exact(v, t, m, why))
        return false;
    if (!fits_numbers(v, t, why))
        return false;
    if (!is_worth_its_keys(v, t, why))
        return false;
    const struct prefill p = prefill_with_tile(v, m, t);
    if (p.shape.product < 0)
        return att_reject(why, ATT_TILE, "%s has no matrix instruction with %d rows", m->name,
                          t->rows);
    if (t->plain && v->paged && p.source.kind != PREFILL_PAGE_COPIES)
        return att_reject(why, ATT_TILE, "the tile has no registers for pages that are no copies");
    if (prefill_residents(t) > 1 && !fits_beside_others(&p, why))
        return false;
    if (!p.k.n_panels)
        return att_reject(why, ATT_TILE, "head_dim %d has more than %d panels of %d columns",
                          v->head_dim, PREFILL_MAX_PANELS, t->panel);
    if (p.refused[0])
        return att_reject(why, ATT_TILE, "%s", p.refused);
    if (prefill_has_halves(&p) && !fits_halves(&p, why))
        return false;
    return has_capacity(&p, why);
}

/* True if prefill has tiles for head dim `dim`. Above 128, dims that are multiples of 8 and not of
 * 16 have no tile. */
static bool is_a_size(int dim) { return dim >= 64 && dim <= 512 && !(dim % (dim < 128 ? 8 : 16)); }

/* True if tiles and loads exist for the variant's head dims; if not, the reason is in `why`. */
static bool check_dims(const struct att_variant *v, struct att_why *why)
{
    static const char sizes[] = "64 to 128 by 8, or 144 to 512 by 16";
    const int dim = v->head_dim, dim_v = v->head_dim_v;
    const bool fp8 = v->q_dtype == ATT_Q_DTYPE_FP8;
    /* Number of elements in 16 bytes. */
    const int step = fp8 ? 16 : 128 / (int)tir_dtype_bits(att_cache_dtype(v));
    const char *const what = v->paged ? "a cache" : "fp8";
    if ((v->paged || fp8) && dim % step)
        return att_reject(why, ATT_HEAD_DIM, "head_dim %d of %s is not a multiple of %d", dim, what,
                          step);
    if ((v->paged || fp8) && dim_v % step)
        return att_reject(why, ATT_HEAD_DIM_V, "head_dim_v %d of %s is not a multiple of %d", dim_v,
                          what, step);
    if (!is_a_size(dim))
        return att_reject(why, ATT_HEAD_DIM, "head_dim %d is not %s", dim, sizes);
    if (!is_a_size(dim_v))
        return att_reject(why, ATT_HEAD_DIM_V, "head_dim_v %d is not %s", dim_v, sizes);
    return true;
}

/* True if the variant's scales, mask and cache suit its q_dtype; only fp8 has limits. If not, the
 * reason is in `why`. */
static bool check_fp8(const struct att_variant *v, struct att_why *why)
{
    if (v->q_dtype != ATT_Q_DTYPE_FP8)
        return v->qkv_scale == ATT_QKV_SCALE_TENSOR ||
               att_reject(why, ATT_QKV_SCALE, "qkv_scale is for q_dtype fp8");
    if (v->mask == ATT_MASK_CUSTOM)
        return att_reject(why, ATT_MASK, "with q_dtype fp8 there is no custom mask");
    if (!v->paged)
        return true;
    if (v->qkv_scale == ATT_QKV_SCALE_KV_HEAD && v->kv_scale != ATT_KV_SCALE_HEAD)
        return att_reject(why, ATT_QKV_SCALE, "qkv_scale kv_head is for a cache of kv_scale head");
    if (v->kv_dtype != ATT_KV_DTYPE_FP8)
        return att_reject(why, ATT_Q_DTYPE, "q_dtype fp8 is for a cache of kv_dtype fp8");
    if (v->kv_scale != ATT_KV_SCALE_NONE && !att_shares_scale(v))
        return att_reject(why, ATT_KV_SCALE,
                          "q_dtype fp8 is for a cache whose rows have no scales of their own: "
                          "kv_scale none, tensor or head");
    return true;
}

/* True if field planned suits the other fields of the variant; if not, the reason is in `why`. */
static bool check_planned(const struct att_variant *v, struct att_why *why)
{
    if (!v->planned)
        return !v->one_launch || att_reject(why, ATT_ONE_LAUNCH,
                                            "one_launch is for work lists: it wants planned: true");
    if (!v->paged)
        return att_reject(why, ATT_PLANNED, "planned is for a cache: it wants paged: true");
    return v->qkv_scale != ATT_QKV_SCALE_HEAD ||
           att_reject(why, ATT_QKV_SCALE,
                      "planned is for a scale of all queries, or one of each KV head");
}

bool prefill_check(const struct att_variant *v, const struct tir_machine *m, struct att_why *why)
{
    if (!check_planned(v, why))
        return false;
    if (v->kv_layout == ATT_KV_LAYOUT_PACKED)
        return att_reject(why, ATT_KV_LAYOUT, "rows of kv_layout packed are not read by this op");
    if (!(v->paged ? att_cache_check(v, why) : check_plain(v, why)) || !check_fp8(v, why))
        return false;
    if (!check_dims(v, why))
        return false;
    return att_check_tile(v, m, why);
}
