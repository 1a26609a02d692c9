/* SPDX-License-Identifier: Apache-2.0
 *
 * This file is the part of lower_tiles for tiles in memory: global loads and stores through a
 * buffer resource, direct-to-LDS copies, and LDS accesses under a linear address map.
 *
 * A global offset is entirely in the lane's offset, never in the scalar one. The hardware checks
 * only the lane's offset against the buffer's size, and that check makes tails read 0.
 */
#include "ir/address_map.h"
#include "ir/lower_tiles.h"

#include <assert.h>

enum { MAX_ACCESS = 16 /* most bytes that a lane accesses at once */ };

/* Returns the layout of tile `v`. */
static const struct tir_layout *layout(struct tir_expander *x, struct tir_value v)
{
    return tir_layout_of(x->f, tir_typeof(x->f, v));
}

/* Returns the bytes of one element of type `dtype`. */
static unsigned elem_bytes(unsigned dtype) { return tir_dtype_bits(dtype) / 8; }

/* The part of an element's row and column that lane and wave determine, as vecs of i32. The
 * register's part is added later. */
struct place {
    struct tir_value row, col;
};

/* Emits the row and column of the element that the lane and wave hold in register 0 under layout
 * `l`. */
static struct place lane_place(struct tir_expander *x, const struct tir_layout *l)
{
    uint32_t rows[TIR_LAYOUT_MAX_BITS] = {0}, cols[TIR_LAYOUT_MAX_BITS] = {0};
    for (int i = 0; i < l->lane_bits + l->wave_bits; i++) {
        rows[i] = tir_rc_row(l->basis[l->reg_bits + i]);
        cols[i] = tir_rc_col(l->basis[l->reg_bits + i]);
    }
    struct place p;
    p.row = tir_lane_index(x, rows, l->wave_bits);
    p.col = tir_lane_index(x, cols, l->wave_bits);
    return p;
}

/* Returns a vec of one i32 that contains `scalar` in each lane. */
static struct tir_value vec_of(struct tir_expander *x, struct tir_value scalar)
{
    return tir_splat(&x->b, tir_scalar_now(x, scalar), tir_vec(TIR_I32, 1));
}

/* Returns the byte offset of the element in register `reg` of a lane. Operands: rsrc, row0,
 * row_stride, byte0. */
static struct tir_value lane_offset(struct tir_expander *x, const struct tir_op *op,
                                    const struct tir_layout *l, const struct place *p, unsigned reg,
                                    unsigned bytes)
{
    struct tir_builder *b = &x->b;
    const uint32_t own = tir_layout_apply(l, reg, 0, 0);
    struct tir_value row = p->row, col = p->col;
    if (tir_rc_row(own))
        row = tir_xor(b, row, tir_int_like(b, row, tir_rc_row(own)));
    if (tir_rc_col(own))
        col = tir_xor(b, col, tir_int_like(b, col, tir_rc_col(own)));
    row = tir_add(b, row, vec_of(x, op->operands[1]));
    const struct tir_value line = tir_mul(b, row, vec_of(x, op->operands[2]));
    const struct tir_value at = tir_mul(b, col, tir_int_like(b, col, bytes));
    return tir_add(b, tir_add(b, line, at), vec_of(x, op->operands[3]));
}

/* Returns how many consecutive columns one access covers. */
static unsigned access_elements(const struct tir_layout *l, unsigned bytes)
{
    unsigned n = 1u << tir_layout_contiguous(l, 1);
    while (n * bytes > MAX_ACCESS)
        n /= 2;
    return n;
}

void tir_expand_load(struct tir_expander *x, const struct tir_op *op)
{
    const struct tir_type t = tir_typeof(x->f, op->result);
    const struct tir_layout *l = layout(x, op->result);
    const unsigned bytes = elem_bytes(t.dtype), per = access_elements(l, bytes);
    const struct place place = lane_place(x, l);
    struct tir_pieces p = tir_alloc_pieces(x, (1u << l->reg_bits) / per, per);
    const struct tir_value zero = tir_i32(&x->b, 0);
    for (unsigned i = 0; i < p.n; i++) {
        const struct tir_value operands[] = {tir_scalar_now(x, op->operands[0]),
                                             lane_offset(x, op, l, &place, i * per, bytes), zero};
        p.v[i] =
            tir_build(&x->b, TIR_buffer_load, tir_vec(t.dtype, per), operands, 3, &(int64_t){0});
    }
    tir_set_pieces(x, op->result, p);
}

void tir_expand_store(struct tir_expander *x, const struct tir_op *op)
{
    const struct tir_value a = op->operands[4];
    const struct tir_layout *l = layout(x, a);
    const unsigned dtype = tir_typeof(x->f, a).dtype, bytes = elem_bytes(dtype);
    const unsigned per = access_elements(l, bytes), regs = 1u << l->reg_bits;
    const struct place place = lane_place(x, l);
    const struct tir_value zero = tir_i32(&x->b, 0);
    for (unsigned r = 0; r < regs; r += per) {
        const struct tir_value operands[] = {tir_scalar_now(x, op->operands[0]),
                                             lane_offset(x, op, l, &place, r, bytes), zero,
                                             tir_elements(x, a, r, per)};
        tir_build(&x->b, TIR_buffer_store, (struct tir_type){0}, operands, 4, &(int64_t){0});
    }
}

/* Returns the base-2 logarithm of a power of two. */
static unsigned log2u(unsigned v) { return (unsigned)__builtin_ctz(v); }

/* Returns the LDS address at which a wave's part of a round of copies begins: the buffer's address
 * plus the wave's offset, padding included. */
static struct tir_value wave_base(struct tir_expander *x, struct tir_value lds,
                                  const struct tir_layout *map, unsigned wave_first,
                                  unsigned wave_bits, unsigned bytes)
{
    struct tir_builder *b = &x->b;
    if (!wave_bits)
        return lds;
    const int mask = (1 << wave_bits) - 1;
    const struct tir_value wave = tir_and(b, x->wave, tir_i32(b, mask));
    struct tir_value at = tir_mul(b, wave, tir_i32(b, (int)(bytes << wave_first)));
    if (map->pad) {
        /* above 0: 2^apart waves share a span between two paddings */
        const int apart = (int)map->pad_shift - (int)wave_first;
        struct tir_value spans =
            apart > 0 ? tir_shr(b, wave, tir_i32(b, apart)) : tir_shl(b, wave, tir_i32(b, -apart));
        at = tir_add(b, at, tir_mul(b, spans, tir_i32(b, (int)(map->pad * bytes))));
    }
    return tir_add(b, lds, at);
}

/* Returns log2 of a wave's loads that are adjacent in memory and in LDS. The instruction's
 * immediate offset, which applies to both, selects one of them. With wide loads it is one load per
 * row. */
static unsigned run_bits(const struct tir_layout *map, unsigned first, unsigned waves)
{
    enum { MOST = 2 };
    unsigned n = 0;
    for (unsigned bit = first; n < MOST && bit < map->reg_bits - waves; bit++, n++)
        if (map->basis[bit] != TIR_RC(0, 1u << bit) || (map->pad && bit >= map->pad_shift))
            break;
    for (unsigned bit = 0; bit < first; bit++) /* bits below `first` must not be swizzled */
        if (map->basis[bit] != TIR_RC(0, 1u << bit))
            return 0;
    return n;
}

void tir_expand_copy_to_lds(struct tir_expander *x, const struct tir_op *op)
{
    struct tir_func *f = x->f;
    const struct tir_layout *map = f->layouts[op->imm[2]];
    const unsigned bytes = elem_bytes(tir_unpack_type(op->imm[1]).dtype);
    const unsigned width = tir_lane_copy(f->machine, 0)->bytes, vector_bits = log2u(width / bytes);
    const unsigned run_first = vector_bits + f->machine->lane_bits, all_waves = log2u(f->waves);
    const unsigned run = run_bits(map, run_first, all_waves), wave_first = run_first + run;
    const unsigned left = map->reg_bits - wave_first;
    const unsigned wave_bits = all_waves < left ? all_waves : left;
    const struct tir_layout l =
        tir_map_cut(map, vector_bits, f->machine->lane_bits, run, wave_bits);
    const struct place place = lane_place(x, &l);
    const struct tir_value base =
        wave_base(x, tir_scalar_now(x, op->operands[4]), map, wave_first, wave_bits, bytes);
    const struct tir_value zero = tir_i32(&x->b, 0);
    for (unsigned i = 0; i < 1u << (l.reg_bits - vector_bits); i++) {
        const unsigned index = i >> run << (wave_first + wave_bits);
        const int at = (int)tir_lds_address(map, index, bytes);
        const struct tir_value operands[] = {
            tir_scalar_now(x, op->operands[0]),
            at ? tir_add(&x->b, base, tir_i32(&x->b, at)) : base,
            lane_offset(x, op, &l, &place, i >> run << (vector_bits + run), bytes), zero};
        const int64_t both = (int64_t)(i & ((1u << run) - 1)) << run_first;
        tir_build(&x->b, TIR_buffer_to_lds, (struct tir_type){0}, operands, 4,
                  (int64_t[]){op->imm[0], width, 0, both * bytes});
    }
}

/* An LDS access of a tile: the element offset in the buffer for each input bit of the tile's
   layout. */
struct lds_access {
    const struct tir_layout *l, *map;
    /* By input bit of the layout `l`: the bits of the element's index in the buffer that the input
     * bit sets. */
    uint32_t m[TIR_LAYOUT_MAX_BITS];
    uint32_t lane_mask; /* element bits that lanes or waves set */
    uint32_t first;     /* element of the buffer at which the tile begins */
    /* Bytes of an element; elements of one access; the first column that is read from padding, or 0
     * if none is. */
    unsigned bytes, per, columns;
    /* True: the access is a transposing read. */
    bool transposed;
    /* Byte address of the buffer, i32. */
    struct tir_value base;
    /* flipped bits of each lane address computed so far, with PADDED if columns may be read from
     * padding */
    uint32_t known[64];
    struct tir_value address[64];
    unsigned n_known;
};

/*
 * The machine's copy atoms say how many lanes a block has, and how many bytes a lane reads.
 *
 * ds_read_b64_tr_b16 (CDNA4 ISA): in each block of 16 lanes, lane s reads 4 elements. Element e of
 * lane t's result is element t % 4 that lane 4 e + t / 4 read. So the tile's register bits 0, 1
 * select the reading lane, and lane bits 0..3 walk contiguous addresses. For _b8 a lane reads 8
 * elements. Element e of lane t is then element t % 8 that lane 2 e + t / 8 read, with 3 register
 * bits.
 *
 * ds_load_tr16_b128 (CDNA5 ISA, 11.2.4): in each block of 8 lanes, lane s reads 8 elements.
 * Element e of lane t's result is element t % 8 that lane e of the block read. So 3 register bits
 * select the reading lane, lane bits 0..2 walk contiguous addresses, and the other lane bits are
 * free. ds_load_tr8_b64 has blocks of 16 lanes. Element e of lane t is element t % 8 that lane
 * 8 (e / 4) + 4 (t / 8) + e % 4 read: runs of 4 lanes have 4 consecutive elements e.
 */

/* True if 2^lane_bits lanes access adjacent elements, and a lane's registers hold at least
 * `elements`. */
static bool walks(const struct lds_access *a, unsigned lane_bits, unsigned elements)
{
    if (1u << a->l->reg_bits < elements)
        return false;
    for (unsigned i = 0; i < lane_bits; i++)
        if (a->m[a->l->reg_bits + i] != 1u << i)
            return false;
    return true;
}

/* Returns the machine's transposing read for this access, or NULL if there is none. */
static const struct tir_copy *transposing_read(const struct tir_func *f, const struct lds_access *a)
{
    const struct tir_copy *const read = tir_transposing_read(f->machine, 0, 8 * a->bytes);
    return read && walks(a, log2u(read->block_lanes), read->bytes / a->bytes) ? read : NULL;
}

/* Makes the lanes of a block address the elements that the tile has in registers. Lanes of a run
 * select the column that the lowest register bits select in the tile. The next lane bits walk the
 * elements of a column, and the others select the column by the other register bits. The
 * instruction transposes the block back. */
static void transpose_lanes(struct lds_access *a, const struct tir_copy *read)
{
    uint32_t *lane = a->m + a->l->reg_bits;
    a->per = read->bytes / a->bytes;
    const unsigned regs = log2u(a->per), within = log2u(read->block_lanes) - regs;
    const unsigned run = log2u(read->run_lanes);
    for (unsigned i = 0; i < within; i++)
        lane[run + i] = a->per << i;
    for (unsigned i = 0; i < regs; i++)
        lane[i < run ? i : within + i] = a->m[i];
    a->transposed = true;
}

/* Chooses how lanes access tile elements in LDS: the elements per instruction and, for loads, a
 * transposing read. `lds` is the tile's byte address, `map` its address map. */
static struct lds_access lds_access(struct tir_expander *x, struct tir_value lds,
                                    const struct tir_layout *map, const struct tir_layout *l,
                                    unsigned dtype, bool load)
{
    struct lds_access a = {.l = l, .map = map, .bytes = elem_bytes(dtype)};
    const bool solved = tir_layout_solve(a.map, l, a.m);
    assert(solved);
    (void)solved;
    a.per = 1u << tir_low_bits_alone(a.m, l->reg_bits, tir_layout_bits(l));
    while (a.per * a.bytes > MAX_ACCESS || (map->pad && a.per > 1u << map->pad_shift))
        a.per /= 2;
    const struct tir_copy *const read = load ? transposing_read(x->f, &a) : NULL;
    if (read && a.per < tir_unit(dtype, l))
        transpose_lanes(&a, read);
    for (int i = 0; i < l->lane_bits + l->wave_bits; i++)
        a.lane_mask |= a.m[l->reg_bits + i];
    a.base = vec_of(x, lds);
    return a;
}

/* Returns the byte address of element number `index` (a vec) of the buffer, padding included. */
static struct tir_value pad_address(struct tir_expander *x, const struct lds_access *a,
                                    struct tir_value index)
{
    struct tir_builder *b = &x->b;
    struct tir_value at = tir_mul(b, index, tir_int_like(b, index, a->bytes));
    if (!a->map->pad || a->lane_mask >> a->map->pad_shift == 0)
        return at;
    const struct tir_value spans = tir_shr(b, index, tir_int_like(b, index, a->map->pad_shift));
    return tir_add(b, at, tir_mul(b, spans, tir_int_like(b, index, a->map->pad * (int)a->bytes)));
}

enum { PADDED = 1 << 30 };

/* True if some lane reads a column that does not exist. */
static bool reads_padding(const struct lds_access *a, uint32_t own)
{
    const int bits = a->l->lane_bits + a->l->wave_bits;
    for (uint32_t lane = 0; a->columns && lane < 1u << bits; lane++) {
        uint32_t index = own;
        for (int i = 0; i < bits; i++)
            index ^= lane >> i & 1 ? a->m[a->l->reg_bits + i] : 0;
        if (tir_rc_col(tir_layout_apply(a->map, index, 0, 0)) >= a->columns)
            return true;
    }
    return false;
}

/* Returns `at`, or the address of the first padding for lanes whose column does not exist. Whole
 * spans further there is another padding with the same contents. */
static struct tir_value or_padding(struct tir_expander *x, const struct lds_access *a, uint32_t own,
                                   struct tir_value at)
{
    struct tir_builder *b = &x->b;
    uint32_t cols[TIR_LAYOUT_MAX_BITS] = {0};
    for (int i = 0; i < a->l->lane_bits + a->l->wave_bits; i++)
        cols[i] = tir_rc_col(tir_layout_apply(a->map, a->m[a->l->reg_bits + i], 0, 0));
    struct tir_value col = tir_lane_index(x, cols, a->l->wave_bits);
    const uint32_t of_own = tir_rc_col(tir_layout_apply(a->map, own, 0, 0));
    if (of_own)
        col = tir_xor(b, col, tir_int_like(b, col, of_own));
    const struct tir_value beyond = tir_cmp_ge(b, col, tir_int_like(b, col, a->columns));
    return tir_select(b, beyond, tir_int_like(b, at, (int64_t)a->bytes << a->map->pad_shift), at);
}

/* Returns the lane's address for register `reg` and the instruction's immediate offset. Register
 * bits that overlap bits set by lanes are flipped in the address, before the padding. The others go
 * to the offset. */
static struct tir_value lds_address(struct tir_expander *x, struct lds_access *a, unsigned reg,
                                    int64_t *offset)
{
    uint32_t own = a->first;
    for (int i = 0; i < a->l->reg_bits; i++)
        if (reg >> i & 1)
            own ^= a->m[i];
    const bool padded = reads_padding(a, own);
    const uint32_t of_lane = a->lane_mask | (padded ? (1u << a->map->pad_shift) - 1 : 0);
    const uint32_t flip = own & of_lane, key = flip | (padded ? PADDED : 0);
    *offset = tir_lds_address(a->map, own & ~of_lane, a->bytes);
    for (unsigned i = 0; i < a->n_known; i++)
        if (a->known[i] == key)
            return a->address[i];
    struct tir_value index = tir_lane_index(x, a->m + a->l->reg_bits, a->l->wave_bits);
    if (flip)
        index = tir_xor(&x->b, index, tir_int_like(&x->b, index, flip));
    struct tir_value at = pad_address(x, a, index);
    if (padded)
        at = or_padding(x, a, own, at);
    at = tir_add(&x->b, at, a->base);
    assert(a->n_known < 64);
    a->known[a->n_known] = key;
    a->address[a->n_known++] = at;
    return at;
}

struct tir_pieces tir_load_pieces(struct tir_expander *x, struct tir_value lds,
                                  const struct tir_layout *map, const struct tir_layout *l,
                                  unsigned dtype, unsigned columns, unsigned first)
{
    struct lds_access a = lds_access(x, lds, map, l, dtype, true);
    a.columns = columns;
    const bool there = tir_map_column(map, first, &a.first);
    assert(there);
    (void)there;
    struct tir_pieces p = tir_alloc_pieces(x, (1u << l->reg_bits) / a.per, a.per);
    for (unsigned i = 0; i < p.n; i++) {
        int64_t offset;
        const struct tir_value at = lds_address(x, &a, i * a.per, &offset);
        p.v[i] = tir_build(&x->b, a.transposed ? TIR_lds_read_tr : TIR_lds_read,
                           tir_vec(dtype, a.per), &at, 1, &offset);
    }
    return p;
}

void tir_store_pieces(struct tir_expander *x, struct tir_value lds, const struct tir_layout *map,
                      const struct tir_layout *l, unsigned dtype, const struct tir_pieces *v)
{
    struct lds_access a = lds_access(x, lds, map, l, dtype, false);
    for (unsigned r = 0; r < 1u << l->reg_bits; r += a.per) {
        int64_t offset;
        const struct tir_value at = lds_address(x, &a, r, &offset);
        tir_build(&x->b, TIR_lds_write, (struct tir_type){0},
                  (struct tir_value[]){at, tir_take(x, v, dtype, r, a.per)}, 2, &offset);
    }
}

void tir_expand_lds_load(struct tir_expander *x, const struct tir_op *op)
{
    const struct tir_type t = tir_typeof(x->f, op->result);
    tir_set_pieces(x, op->result,
                   tir_load_pieces(x, op->operands[0], x->f->layouts[op->imm[0]],
                                   layout(x, op->result), t.dtype, (unsigned)op->imm[1],
                                   (unsigned)op->imm[2]));
}

void tir_expand_lds_store(struct tir_expander *x, const struct tir_op *op)
{
    const struct tir_value v = op->operands[1];
    const struct tir_pieces a = tir_pieces_of(x, v);
    tir_store_pieces(x, op->operands[0], x->f->layouts[op->imm[0]], layout(x, v),
                     tir_typeof(x->f, v).dtype, &a);
}

void tir_expand_lds_scatter(struct tir_expander *x, const struct tir_op *op)
{
    const struct tir_type t = tir_typeof(x->f, op->operands[2]);
    const unsigned n = 1u << tir_layout_of(x->f, t)->reg_bits;
    for (unsigned i = 0; i < n; i++) {
        struct tir_value operands[3];
        for (unsigned k = 0; k < 3; k++)
            operands[k] = tir_elements(x, op->operands[k], i, 1);
        tir_build(&x->b, op->opcode, (struct tir_type){0}, operands, 3, op->imm);
    }
}
