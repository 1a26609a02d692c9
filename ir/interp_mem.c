/* SPDX-License-Identifier: Apache-2.0
 *
 * This file interprets memory ops. Global memory is the host's memory. LDS is an array that records
 * which bytes have been written.
 */
#include <string.h>

#include "ir/address_map.h"
#include "ir/arith.h"
#include "ir/bits.h"
#include "ir/interp_state.h"

/* Returns the type of value `v`. */
static struct tir_type type_of(const struct interp *x, struct tir_value v)
{
    return tir_typeof(x->f, v);
}

/* Returns the bytes of one element in memory; types of less than 8 bits occupy one. */
static unsigned bytes_of(unsigned dtype)
{
    return tir_dtype_bits(dtype) < 8 ? 1 : tir_dtype_bits(dtype) / 8;
}

/* Reads one element of type `dtype` at a host address. */
static int64_t read_host(uint64_t address, unsigned dtype)
{
    int64_t v = 0;
    memcpy(&v, (const void *)(uintptr_t)address, bytes_of(dtype)); /* little-endian host */
    return tir_is_int(dtype) ? tir_wrap(dtype, v) : v;
}

/* Writes one element of type `dtype` to a host address. */
static void write_host(uint64_t address, unsigned dtype, int64_t v)
{
    memcpy((void *)(uintptr_t)address, &v, bytes_of(dtype));
}

/* The functions from here on access LDS. */

/* True if `bytes` bytes at byte `address` are inside the LDS allocation; reports a failure if
 * not. */
static bool in_lds(struct interp *x, int64_t address, unsigned bytes)
{
    return (address >= 0 && address + bytes <= (int64_t)x->f->lds_bytes) ||
           interp_fail(x, "LDS byte %lld of %u", (long long)address, x->f->lds_bytes);
}

/* Reads one element at byte `address` of LDS; reports a failure if any byte of it was never
 * written. */
static int64_t read_lds(struct interp *x, int64_t address, unsigned dtype)
{
    const unsigned bytes = bytes_of(dtype);
    int64_t v = 0;
    if (!in_lds(x, address, bytes))
        return 0;
    for (unsigned i = 0; i < bytes; i++)
        if (!x->lds_written[address + i])
            interp_fail(x, "reads LDS byte %lld, which nobody wrote", (long long)address + i);
    memcpy(&v, x->lds + address, bytes);
    return tir_is_int(dtype) ? tir_wrap(dtype, v) : v;
}

/* Copies `n` bytes to byte `address` of LDS and marks them as written. */
static void write_lds_bytes(struct interp *x, int64_t address, const void *bytes, unsigned n)
{
    if (!in_lds(x, address, n))
        return;
    memcpy(x->lds + address, bytes, n);
    memset(x->lds_written + address, 1, n);
}

/* A byte offset in a buffer resource, which has a host address and a size in bytes. */
struct place {
    uint64_t base;
    uint64_t bytes, offset;
};

/* Returns the base and size in bytes of the buffer resource in operand 0 of `op`, as `wave` holds
 * it. */
static struct place buffer_place(struct interp *x, const struct tir_op *op, unsigned wave)
{
    const int64_t *const rsrc = interp_value(x, op->operands[0]) + 2 * wave;
    return (struct place){.base = (uint64_t)rsrc[0], .bytes = (uint64_t)rsrc[1]};
}

/* Reads one element of buffer place `p`; an element beyond the buffer's end reads as 0. */
static int64_t read_buffer(struct place p, unsigned dtype)
{
    return p.offset + bytes_of(dtype) <= p.bytes ? read_host(p.base + p.offset, dtype) : 0;
}

/* Writes one element to buffer place `p`; a write beyond the buffer's end is dropped. */
static void write_buffer(struct place p, unsigned dtype, int64_t v)
{
    if (p.offset + bytes_of(dtype) <= p.bytes)
        write_host(p.base + p.offset, dtype, v);
}

/* Returns the place of element (row, col) of a wave's tile in a buffer. Operands: rsrc, row0,
 * row_stride, byte0. Offsets wrap at 32 bits. */
static struct place tile_place(struct interp *x, const struct tir_op *op, unsigned wave,
                               unsigned row, unsigned col, unsigned dtype)
{
    struct place p = buffer_place(x, op, wave);
    const uint64_t row0 = (uint64_t)interp_scalar(x, op, 1, wave);
    const uint64_t stride = (uint64_t)interp_scalar(x, op, 2, wave);
    const uint64_t byte0 = (uint64_t)interp_scalar(x, op, 3, wave);
    p.offset = (uint32_t)(byte0 + (row0 + row) * stride + (uint64_t)col * bytes_of(dtype));
    return p;
}

/* Returns element `row` of a wave's row_addr: the row's own byte offset. Operands: base, row_addr,
 * byte. */
static int64_t own_address(struct interp *x, const struct tir_op *op, unsigned wave, unsigned row)
{
    const struct tir_type t = type_of(x, op->operands[1]);
    return interp_value(x, op->operands[1])[interp_element(t, wave, row, 0)];
}

/* Returns the host address of the element at packed row and column `rc` of a gathered or scattered
 * tile, with elements of `bytes` bytes. */
static uint64_t row_address(struct interp *x, const struct tir_op *op, unsigned wave, uint32_t rc,
                            unsigned bytes)
{
    const int64_t apart = op->imm[0] ? op->imm[0] : bytes;
    return (uint64_t)(own_address(x, op, wave, tir_rc_row(rc)) + interp_scalar(x, op, 0, wave) +
                      interp_scalar(x, op, 2, wave) + tir_rc_col(rc) * apart);
}

/* The element index in an LDS buffer that each bit of the row and of the column contributes.
 * Address maps are linear, so the index of an element is the xor of its bits' contributions. */
struct lds_map {
    const struct tir_layout *map;
    uint32_t row[16], col[16];
};

/* Returns, for each bit of a row or column of tile `t`, the index bits that it flips in the address
 * map numbered `layout`. */
static struct lds_map lds_map(const struct interp *x, int64_t layout, struct tir_type t)
{
    struct lds_map m = {.map = x->f->layouts[layout]};
    const struct tir_layout bits = tir_row_major(t.rows, t.cols);
    const unsigned n_cols = tir_bits(t.cols);
    uint32_t index[TIR_LAYOUT_MAX_BITS];
    tir_layout_solve(m.map, &bits, index);
    for (unsigned i = 0; i < bits.reg_bits; i++)
        *(i < n_cols ? &m.col[i] : &m.row[i - n_cols]) = index[i];
    return m;
}

/* Returns the LDS byte offset of element (`row`, `col`) under address map `m`. */
static int64_t lds_element(const struct lds_map *m, unsigned row, unsigned col, unsigned dtype)
{
    uint32_t index = 0;
    for (int i = 0; row >> i; i++)
        index ^= row >> i & 1 ? m->row[i] : 0;
    for (int i = 0; col >> i; i++)
        index ^= col >> i & 1 ? m->col[i] : 0;
    return tir_lds_address(m->map, index, bytes_of(dtype));
}

/* Loads or stores element `e` of a wave's tile of type `t`. `map` is NULL for ops that do not touch
 * LDS. */
static void run_tile_element(struct interp *x, const struct tir_op *op, struct tir_type t,
                             const struct lds_map *map, unsigned wave, size_t e)
{
    const uint32_t rc = interp_rc(x, t, wave, e);
    const unsigned row = tir_rc_row(rc), col = tir_rc_col(rc), bytes = bytes_of(t.dtype);
    const size_t i = interp_index(x, t, wave, e);
    int64_t *const d = op->n_results ? interp_value(x, op->result) : NULL;
    switch (op->opcode) {
    case TIR_tile_load:
        d[i] = read_buffer(tile_place(x, op, wave, row, col, t.dtype), t.dtype);
        break;
    case TIR_tile_store:
        write_buffer(tile_place(x, op, wave, row, col, t.dtype), t.dtype,
                     interp_value(x, op->operands[4])[i]);
        break;
    case TIR_tile_gather: d[i] = read_host(row_address(x, op, wave, rc, bytes), t.dtype); break;
    case TIR_tile_fetch: {
        struct place p = buffer_place(x, op, wave);
        p.offset = (uint32_t)(own_address(x, op, wave, row) + (int64_t)(col * bytes) + op->imm[0]);
        d[i] = read_buffer(p, t.dtype);
        break;
    }
    case TIR_tile_scatter:
        if (own_address(x, op, wave, row) >= 0)
            write_host(row_address(x, op, wave, rc, bytes), t.dtype,
                       interp_value(x, op->operands[3])[i]);
        break;
    case TIR_tile_lds_load: {
        const bool there = !op->imm[1] || col < op->imm[1];
        const int64_t at = there ? lds_element(map, row, col + (unsigned)op->imm[2], t.dtype)
                                 : (int64_t)bytes << map->map->pad_shift; /* the first padding */
        d[i] = read_lds(x, interp_scalar(x, op, 0, wave) + at, t.dtype);
        break;
    }
    default: /* tile_lds_store */
        write_lds_bytes(x, interp_scalar(x, op, 0, wave) + lds_element(map, row, col, t.dtype),
                        &interp_value(x, op->operands[1])[i], bytes);
    }
}

/* Copies with the first wave only, since the result does not depend on which lane copies what. */
static void run_copy_to_lds(struct interp *x, const struct tir_op *op)
{
    const struct tir_type t = tir_unpack_type(op->imm[1]);
    const struct tir_layout *const map = x->f->layouts[op->imm[2]];
    const unsigned wave = (unsigned)__builtin_ctz(x->active);
    for (unsigned index = 0; index < 1u << map->reg_bits; index++) {
        const uint32_t rc = tir_layout_apply(map, index, 0, 0);
        const int64_t v =
            read_buffer(tile_place(x, op, wave, tir_rc_row(rc), tir_rc_col(rc), t.dtype), t.dtype);
        write_lds_bytes(
            x, interp_scalar(x, op, 4, wave) + tir_lds_address(map, index, bytes_of(t.dtype)), &v,
            bytes_of(t.dtype));
    }
}

/* Copies rows at 64-bit or 32-bit row addresses to LDS, element by element, for one wave. */
static void run_gather_to_lds(struct interp *x, const struct tir_op *op, unsigned wave)
{
    const struct tir_type t = tir_unpack_type(op->imm[1]), rows = type_of(x, op->operands[1]);
    const struct tir_layout *const map = x->f->layouts[op->imm[2]];
    for (unsigned index = 0; index < 1u << map->reg_bits; index++) {
        const uint32_t rc = tir_layout_apply(map, index, 0, 0);
        const uint64_t row = tir_unsigned(rows.dtype, own_address(x, op, wave, tir_rc_row(rc)));
        const uint64_t column = (uint64_t)(tir_rc_col(rc) * bytes_of(t.dtype));
        const uint64_t own =
            (uint64_t)(interp_scalar(x, op, 0, wave) + interp_scalar(x, op, 2, wave) + op->imm[4]);
        const int64_t v = read_host(own + row + column, t.dtype);
        write_lds_bytes(x,
                        interp_scalar(x, op, 3, wave) + op->imm[3] + op->imm[4] +
                            tir_lds_address(map, index, bytes_of(t.dtype)),
                        &v, bytes_of(t.dtype));
    }
}

/* Copies rows of bytes to LDS like the tensor data mover: rows past the given count read as 0, and
 * padding may follow each span. */
static void run_tensor_to_lds(struct interp *x, const struct tir_op *op, unsigned wave)
{
    const int64_t bytes = op->imm[2], span = op->imm[3], pad = op->imm[4];
    for (int64_t row = 0; row < op->imm[1]; row++) {
        const uint64_t from =
            (uint64_t)(interp_scalar(x, op, 0, wave) + row * interp_scalar(x, op, 1, wave));
        for (int64_t i = 0; i < bytes; i++) {
            const bool there = row < interp_scalar(x, op, 2, wave);
            const uint8_t byte = there ? (uint8_t)read_host(from + (uint64_t)i, TIR_I8) : 0;
            const int64_t at = row * bytes + i;
            write_lds_bytes(x, interp_scalar(x, op, 3, wave) + at + (pad ? at / span * pad : 0),
                            &byte, 1);
        }
    }
}

/* Runs `op` if it moves tiles between memory and LDS or registers; returns false for all other
 * ops. */
static bool run_tile_memory(struct interp *x, const struct tir_op *op)
{
    struct tir_type t;
    switch (op->opcode) {
    case TIR_copy_to_lds: run_copy_to_lds(x, op); return true;
    case TIR_gather_to_lds:
        for (unsigned w = 0; w < x->f->waves; w++)
            if (interp_runs(x, w))
                run_gather_to_lds(x, op, w);
        return true;
    case TIR_tensor_to_lds:
        for (unsigned w = 0; w < x->f->waves; w++)
            if (interp_runs(x, w))
                run_tensor_to_lds(x, op, w);
        return true;
    case TIR_tile_load:
    case TIR_tile_gather:
    case TIR_tile_fetch:
    case TIR_tile_lds_load: t = type_of(x, op->result); break;
    case TIR_tile_store:
    case TIR_tile_scatter:
    case TIR_tile_lds_store: t = type_of(x, op->operands[op->n_operands - 1]); break;
    default: return false;
    }
    const bool lds = op->opcode == TIR_tile_lds_load || op->opcode == TIR_tile_lds_store;
    struct tir_type there = t;
    while (op->opcode == TIR_tile_lds_load && there.cols <= op->imm[2])
        there.cols *= 2;
    const struct lds_map map = lds ? lds_map(x, op->imm[0], there) : (struct lds_map){0};
    const size_t n = interp_wave_elements(x, t);
    for (unsigned w = 0; w < x->f->waves; w++)
        for (size_t e = 0; interp_runs(x, w) && e < n && !x->failed; e++)
            run_tile_element(x, op, t, &map, w, e);
    return true;
}

/* The functions from here on run ops after lower_tiles, lane by lane. */

/* Returns a lane's element of an operand that has one element a lane. */
static int64_t lane_operand(struct interp *x, const struct tir_op *op, unsigned operand,
                            unsigned lane)
{
    return interp_value(x, op->operands[operand])[lane];
}

/* Returns the place that a lane accesses. Operands `lane_operand_at` and the next one contain the
 * lane's and the scalar byte offset. */
static struct place lane_place(struct interp *x, const struct tir_op *op, unsigned lane_operand_at,
                               unsigned lane, int64_t offset)
{
    const unsigned wave = lane / interp_lanes(x);
    struct place p = buffer_place(x, op, wave);
    const uint64_t own =
        tir_unsigned(TIR_I32, lane_operand(x, op, lane_operand_at, lane)) + (uint64_t)offset;
    const uint64_t scalar = tir_unsigned(TIR_I32, interp_scalar(x, op, lane_operand_at + 1, wave));
    /* The range check covers the offsets of the lane and the instruction, not the scalar one. */
    p.base += scalar;
    p.offset = own;
    return p;
}

/* Runs a buffer load or store for one lane. */
static void run_buffer(struct interp *x, const struct tir_op *op, unsigned lane)
{
    const bool load = op->opcode == TIR_buffer_load;
    const struct tir_value v = load ? op->result : op->operands[3];
    const struct tir_type t = type_of(x, v);
    struct place p = lane_place(x, op, 1, lane, op->imm[0]);
    int64_t *e = interp_value(x, v) + (size_t)lane * t.count;
    for (unsigned i = 0; i < t.count; i++, e++, p.offset += bytes_of(t.dtype)) {
        if (load)
            *e = read_buffer(p, t.dtype);
        else
            write_buffer(p, t.dtype, *e);
    }
}

/* Copies a lane's bytes from a buffer to LDS, at the address of its wave plus the lane's share. */
static void run_buffer_to_lds(struct interp *x, const struct tir_op *op, unsigned lane)
{
    const unsigned bytes = (unsigned)op->imm[1];
    struct place p = lane_place(x, op, 2, lane, op->imm[2] + op->imm[3]);
    const int64_t to = interp_scalar(x, op, 1, lane / interp_lanes(x)) +
                       (int64_t)(lane % interp_lanes(x) * bytes) + op->imm[3];
    for (unsigned i = 0; i < bytes; i++, p.offset++) {
        const uint8_t byte = (uint8_t)read_buffer(p, TIR_I8);
        write_lds_bytes(x, to + i, &byte, 1);
    }
}

/* Copies a lane's bytes from a global address to LDS, at the address of its wave plus the lane's
 * share. */
static void run_global_to_lds(struct interp *x, const struct tir_op *op, unsigned lane)
{
    const unsigned bytes = (unsigned)op->imm[1], wave = lane / interp_lanes(x);
    const unsigned offset_dtype = type_of(x, op->operands[2]).dtype;
    const uint64_t at = (uint64_t)interp_scalar(x, op, 0, wave) +
                        tir_unsigned(offset_dtype, lane_operand(x, op, 2, lane)) +
                        (uint64_t)op->imm[3];
    const int64_t to = interp_scalar(x, op, 1, wave) + op->imm[2] + op->imm[3] +
                       (int64_t)(lane % interp_lanes(x) * bytes);
    for (unsigned i = 0; i < bytes; i++) {
        const uint8_t byte = (uint8_t)read_host(at + i, TIR_I8);
        write_lds_bytes(x, to + i, &byte, 1);
    }
}

/* Runs a global load or store for one lane; a masked store does nothing in lanes whose mask is
 * 0. */
static void run_global(struct interp *x, const struct tir_op *op, unsigned lane)
{
    const bool load = op->opcode == TIR_global_load, masked = op->opcode == TIR_global_store_if;
    const unsigned base = masked;
    const struct tir_value v = load ? op->result : op->operands[base + 2];
    const struct tir_type t = type_of(x, v);
    const unsigned offset_dtype = type_of(x, op->operands[base + 1]).dtype;
    uint64_t at = (uint64_t)interp_scalar(x, op, base, lane / interp_lanes(x)) +
                  tir_unsigned(offset_dtype, lane_operand(x, op, base + 1, lane)) +
                  (uint64_t)op->imm[0];
    int64_t *e = interp_value(x, v) + (size_t)lane * t.count;
    if (masked && !lane_operand(x, op, 0, lane))
        return;
    for (unsigned i = 0; i < t.count; i++, e++, at += bytes_of(t.dtype)) {
        if (load)
            *e = read_host(at, t.dtype);
        else
            write_host(at, t.dtype, *e);
    }
}

/* Runs an LDS read or write for one lane. */
static void run_lds(struct interp *x, const struct tir_op *op, unsigned lane)
{
    const bool load = op->opcode == TIR_lds_read;
    const struct tir_value v = load ? op->result : op->operands[1];
    const struct tir_type t = type_of(x, v);
    int64_t at = lane_operand(x, op, 0, lane) + op->imm[0];
    int64_t *e = interp_value(x, v) + (size_t)lane * t.count;
    for (unsigned i = 0; i < t.count; i++, e++, at += bytes_of(t.dtype)) {
        if (load)
            *e = read_lds(x, at, t.dtype);
        else
            write_lds_bytes(x, at, e, bytes_of(t.dtype));
    }
}

/* Performs the transposing read of the result's type for one lane. Lane t of a block receives n
 * elements, element t mod n of n lanes each. Consecutive elements come from the lanes of a run. The
 * runs of lanes 0 to n - 1, n to 2n - 1, and so on are neighbours; the next elements come from the
 * runs after them. Sources: CDNA4 ISA, DS_READ_B64_TR_B16 and _B8; CDNA5 ISA, 11.2.4. */
static void run_lds_read_tr(struct interp *x, const struct tir_op *op, unsigned lane)
{
    const struct tir_type type = type_of(x, op->result);
    const unsigned n = type.count, bits = tir_dtype_bits(type.dtype);
    const struct tir_copy *const read = tir_transposing_read(x->f->machine, n * bits / 8, bits);
    const unsigned run = read->run_lanes, runs = read->block_lanes / n,
                   t = lane % read->block_lanes;
    for (unsigned e = 0; e < n; e++) {
        const unsigned from = lane - t + (e / run * runs + t / n) * run + e % run;
        interp_value(x, op->result)[(size_t)lane * n + e] =
            read_lds(x, lane_operand(x, op, 0, from) + op->imm[0] + bits / 8 * (t % n), type.dtype);
    }
}

/* Accesses elements at an address for each lane, in tiles or vecs, one wave after the other. */
static bool run_lds_elements(struct interp *x, const struct tir_op *op, unsigned wave)
{
    const bool load = op->opcode == TIR_lds_gather, add = op->opcode == TIR_lds_add_if;
    if (!load && !add && op->opcode != TIR_lds_scatter_if)
        return false;
    const struct tir_value v = load ? op->result : op->operands[2];
    const struct tir_type t = type_of(x, v);
    const size_t n = interp_wave_elements(x, t);
    for (size_t k = 0; k < n && !x->failed; k++) {
        const size_t i = interp_index(x, t, wave, k);
        if (!load && !interp_value(x, op->operands[0])[i])
            continue;
        const int64_t at = interp_value(x, op->operands[!load])[i] + op->imm[0];
        int64_t *const e = &interp_value(x, v)[i];
        const int64_t sum = add ? *e + read_lds(x, at, t.dtype) : *e;
        if (load)
            *e = read_lds(x, at, t.dtype);
        else
            write_lds_bytes(x, at, &sum, bytes_of(t.dtype));
    }
    return true;
}

/* Runs `op` for one lane if it accesses memory by lanes; returns false for all other ops. */
static bool run_lane_memory(struct interp *x, const struct tir_op *op, unsigned lane)
{
    switch (op->opcode) {
    case TIR_buffer_load:
    case TIR_buffer_store: run_buffer(x, op, lane); return true;
    case TIR_buffer_to_lds: run_buffer_to_lds(x, op, lane); return true;
    case TIR_global_to_lds: run_global_to_lds(x, op, lane); return true;
    case TIR_global_load:
    case TIR_global_store:
    case TIR_global_store_if: run_global(x, op, lane); return true;
    case TIR_lds_read:
    case TIR_lds_write: run_lds(x, op, lane); return true;
    case TIR_lds_read_tr: run_lds_read_tr(x, op, lane); return true;
    default: return false;
    }
}

/* Counts an arrival. Workgroups run one after the other, so earlier stores are already visible. */
static void run_arrive(struct interp *x, const struct tir_op *op, unsigned wave)
{
    const uint64_t address = (uint64_t)interp_scalar(x, op, 0, wave);
    const int64_t before = read_host(address, TIR_I32), n = interp_scalar(x, op, 1, wave);
    write_host(address, TIR_I32, before >= n - 1 ? 0 : before + 1);
    interp_value(x, op->result)[wave] = before;
}

/* Adds operand 1 to the i32 in memory at operand 0; the result is the value before the addition. */
static void run_atomic_add(struct interp *x, const struct tir_op *op, unsigned wave)
{
    const uint64_t address = (uint64_t)interp_scalar(x, op, 0, wave);
    const int64_t before = read_host(address, TIR_I32);
    write_host(address, TIR_I32, before + interp_scalar(x, op, 1, wave));
    interp_value(x, op->result)[wave] = before;
}

/* Waits for n arrivals. No other wave can run meanwhile, so this wave gives up if one is
   missing. */
static void run_await(struct interp *x, const struct tir_op *op, unsigned wave)
{
    const uint64_t address = (uint64_t)interp_scalar(x, op, 0, wave);
    const int64_t is = read_host(address, TIR_I32), left = is >> TIR_LEFT_BIT;
    const bool all = !is || (is & TIR_ARRIVED) == interp_scalar(x, op, 1, wave);
    if (!all)
        write_host(address, TIR_I32, is + (1 << TIR_LEFT_BIT));
    interp_value(x, op->result)[wave] = all ? left : -1;
}

/* Runs `op` for one wave if it accesses counters in memory; returns false for all other ops. */
static bool run_counter(struct interp *x, const struct tir_op *op, unsigned wave)
{
    switch (op->opcode) {
    case TIR_arrive: run_arrive(x, op, wave); return true;
    case TIR_atomic_add: run_atomic_add(x, op, wave); return true;
    case TIR_await: run_await(x, op, wave); return true;
    default: return false;
    }
}

bool interp_memory(struct interp *x, const struct tir_op *op)
{
    if (run_tile_memory(x, op))
        return true;
    for (unsigned w = 0; w < x->f->waves; w++) {
        if (!interp_runs(x, w))
            continue;
        if (run_lds_elements(x, op, w))
            continue;
        if (run_counter(x, op, w))
            continue;
        if (op->opcode == TIR_scalar_load) {
            interp_value(x, op->result)[w] = read_host(
                (uint64_t)(interp_scalar(x, op, 0, w) + interp_scalar(x, op, 1, w) + op->imm[0]),
                type_of(x, op->result).dtype);
            continue;
        }
        for (unsigned lane = w * interp_lanes(x); lane < (w + 1) * interp_lanes(x) && !x->failed;
             lane++)
            if (!run_lane_memory(x, op, lane))
                return false;
    }
    return true;
}
