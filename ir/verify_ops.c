/* SPDX-License-Identifier: Apache-2.0
 *
 * This file checks single ops: arity, operand and result types as ops.def defines them, and their
 * relations to each other and to the attrs. */
#include "ir/verify.h"

#include <string.h>

#include "ir/address_map.h"
#include "ir/arith.h"
#include "ir/bits.h"
#include "ir/convert.h"

/* Returns the types of the first three operands of `op` and of its first result. */
static struct tir_op_types types_of(const struct tir_verifier *v, const struct tir_op *op)
{
    struct tir_type t[3] = {{0}};
    for (uint32_t i = 0; i < 3 && i < op->n_operands; i++)
        t[i] = tir_typeof(v->f, op->operands[i]);
    struct tir_op_types r = {.a = t[0], .b = t[1], .c = t[2]};
    if (op->n_results)
        r.d = tir_typeof(v->f, op->result);
    return r;
}

/* Returns the bits of a value of type `t` in one lane. */
static unsigned lane_bits(struct tir_type t)
{
    return (t.kind == TIR_VEC ? t.count : 1) * tir_dtype_bits(t.dtype);
}

/* True if two types differ at most in their data type. */
static bool same_shape(struct tir_type a, struct tir_type b)
{
    a.dtype = b.dtype;
    return tir_type_equal(a, b);
}

/* True if type `t` is of the kind that `letter` of an op's signature denotes. */
static bool matches(struct tir_type t, char letter)
{
    const bool lane = t.kind == TIR_VEC && t.count == 1;
    switch (letter) {
    case 'r': return t.kind == TIR_SCALAR && t.dtype == TIR_RSRC;
    case 'i': return t.kind == TIR_SCALAR && t.dtype == TIR_I32;
    case 'l': return t.kind == TIR_SCALAR && t.dtype == TIR_I64;
    case 'b': return t.kind == TIR_SCALAR && t.dtype == TIR_I1;
    case 'n': return t.kind == TIR_SCALAR && tir_is_int(t.dtype);
    case 's': return t.kind == TIR_SCALAR;
    case 'o': return lane && t.dtype == TIR_I32;
    case 'O': return lane && (t.dtype == TIR_I32 || t.dtype == TIR_I64);
    case 'v': return t.kind == TIR_VEC;
    case 'w': return t.kind == TIR_VEC && lane_bits(t) == 32;
    case 't': return t.kind == TIR_TILE;
    case 'a': return tir_is_int(t.dtype) || tir_is_float(t.dtype);
    case 'z': return tir_is_int(t.dtype);
    case 'f': return t.dtype == TIR_F32 || t.dtype == TIR_F16;
    case 'p': return t.dtype == TIR_I1;
    case 'c': return t.dtype == TIR_I32;
    default: return true;
    }
}

/* Returns what `letter` of an op's signature denotes, for messages. */
static const char *meaning(char letter)
{
    switch (letter) {
    case 'r': return "a buffer resource";
    case 'i': return "a scalar i32";
    case 'l': return "a scalar i64";
    case 'b': return "a scalar i1";
    case 'n': return "a scalar integer";
    case 's': return "a scalar";
    case 'o': return "one i32 a lane";
    case 'O': return "one i32 or i64 a lane";
    case 'v': return "a vec";
    case 'w': return "a vec of 32 bits";
    case 'a': return "a number";
    case 'z': return "an integer";
    case 'f': return "f32 or f16";
    case 'p': return "i1";
    case 'c': return "i32";
    default: return "a tile";
    }
}

bool tir_check_type(struct tir_verifier *v, struct tir_type t)
{
    if (!tir_check(v, t.dtype > TIR_NONE && t.dtype < TIR_N_DTYPES, "type has no dtype"))
        return false;
    if (t.kind == TIR_SCALAR)
        return true;
    if (!tir_check(v, t.dtype != TIR_RSRC, "a buffer resource is a scalar"))
        return false;
    if (t.kind == TIR_VEC)
        return tir_check(v, t.count > 0 && t.count <= TIR_MAX_VEC, "vec of %u elements", t.count);
    if (!tir_check(v, t.kind == TIR_TILE, "type of no kind") ||
        !tir_check(v, !v->f->lowered, "tile after lower_tiles") ||
        !tir_check(v, t.layout < v->f->n_layouts, "tile without a layout"))
        return false;
    const struct tir_layout *const l = tir_layout_of(v->f, t);
    const bool powers = t.rows && t.cols && !(t.rows & (t.rows - 1)) && !(t.cols & (t.cols - 1));
    return tir_check(v, powers, "rows and columns are powers of two") &&
           tir_check(v,
                     l->lane_bits == v->f->machine->lane_bits && 1u << l->wave_bits <= v->f->waves,
                     "layout is not of %u lanes and %u waves", 1u << v->f->machine->lane_bits,
                     v->f->waves) &&
           tir_check(v, tir_layout_covers(l, t.rows, t.cols), "layout does not cover %ux%u", t.rows,
                     t.cols);
}

/* Checks the types of the operands and the result against signature `s`, a letter each. */
static void check_signature(struct tir_verifier *v, const struct tir_op *op, const char *s)
{
    for (uint32_t i = 0; i < op->n_operands && *s && *s != '>'; i++, s++) {
        const struct tir_type t = tir_typeof(v->f, op->operands[i]);
        tir_check(v, matches(t, *s), "operand %u is not %s", i, meaning(*s));
        if (*s == 'a' || *s == 'z' || *s == 'f')
            tir_check(v, tir_type_equal(t, tir_typeof(v->f, op->operands[0])),
                      "operand %u has another type than operand 0", i);
    }
    if (*s == '>' && op->n_results)
        tir_check(v, matches(tir_typeof(v->f, op->result), s[1]), "result is not %s",
                  meaning(s[1]));
}

/* Checks the attribute `rounding` of a conversion to type `t`. */
static void check_rounding(struct tir_verifier *v, int64_t rounding, bool short_nan,
                           struct tir_type t)
{
    const bool half = t.dtype == TIR_F16 || t.dtype == TIR_BF16;
    tir_check(v, rounding >= TIR_NEAREST_EVEN && rounding <= TIR_TOWARD_ZERO,
              "rounding is 0, 1 or 2");
    tir_check(v, rounding != TIR_TOWARD_ZERO || (half && short_nan),
              "rounding toward zero is for 16-bit floats, with short_nan");
}

/* Checks a bitcast between tiles of different element sizes: neighbours of a row in `narrow` are
 * one element of 32 bits in `wide`. */
static void check_joined(struct tir_verifier *v, struct tir_type narrow, struct tir_type wide)
{
    const unsigned bits = tir_dtype_bits(narrow.dtype);
    if (!tir_check(v, bits >= 8 && tir_dtype_bits(wide.dtype) == 32, "elements have no 32 bits"))
        return;
    const unsigned log = bits == 8 ? 2 : 1;
    const struct tir_layout *const l = tir_layout_of(v->f, narrow);
    if (!tir_check(v, narrow.rows == wide.rows && narrow.cols == wide.cols << log,
                   "result has another shape") ||
        !tir_check(v, tir_layout_has_neighbours(l, log), "a lane has no neighbours to join"))
        return;
    const struct tir_layout joined = tir_layout_join_cols(l, log);
    tir_check(v, tir_layout_equal(&joined, tir_layout_of(v->f, wide)), "layouts disagree");
}

/* Checks that a bitcast keeps the bits of each lane. */
static void check_bitcast(struct tir_verifier *v, struct tir_op_types t)
{
    const unsigned from = tir_dtype_bits(t.a.dtype), to = tir_dtype_bits(t.d.dtype);
    if (!tir_check(v, t.a.kind == t.d.kind, "result is of another kind"))
        return;
    if (t.a.kind == TIR_TILE && from != to) {
        check_joined(v, from < to ? t.a : t.d, from < to ? t.d : t.a);
        return;
    }
    tir_check(v, t.a.kind != TIR_TILE || same_shape(t.a, t.d), "result has another shape");
    tir_check(v, lane_bits(t.a) == lane_bits(t.d), "%u bits become %u", lane_bits(t.a),
              lane_bits(t.d));
}

/* Checks convert, zext and bitcast. The first two may change only the element type; zext may not
 * narrow. */
static void check_conversion(struct tir_verifier *v, const struct tir_op *op, struct tir_op_types t)
{
    if (op->opcode == TIR_bitcast) {
        check_bitcast(v, t);
        return;
    }
    tir_check(v, same_shape(t.a, t.d), "result has another shape");
    if (op->opcode == TIR_convert)
        check_rounding(v, op->imm[2], op->imm[0], t.d);
    if (op->opcode == TIR_zext)
        tir_check(v, tir_dtype_bits(t.a.dtype) <= tir_dtype_bits(t.d.dtype), "is no extension");
    else
        tir_check(v, t.a.dtype != TIR_RSRC && t.d.dtype != TIR_RSRC, "is no conversion");
}

/* Checks an op in which waves meet at barriers around LDS. It may not be in a pipelined loop, which
   has barriers at its own places. */
static void check_meeting(struct tir_verifier *v, const struct tir_op *op)
{
    tir_check(v, op->stage == TIR_NO_STAGE,
              "crosses waves, with barriers, inside of a pipelined loop");
}

/* Checks that the result of a reduction or fold has the operand's layout without the dropped axis
 * or the folded rows. */
static void check_reduced(struct tir_verifier *v, const struct tir_op *op, struct tir_op_types t)
{
    const struct tir_layout *const l = tir_layout_of(v->f, t.a);
    const bool by_row = op->opcode == TIR_row_max || op->opcode == TIR_row_sum;
    const bool fold = op->opcode == TIR_col_fold_max || op->opcode == TIR_col_fold_sum;
    unsigned rows = by_row ? t.a.rows : 1;
    const unsigned cols = by_row ? 1 : t.a.cols;
    const struct tir_layout want =
        fold ? tir_layout_fold_rows(l, &rows) : tir_layout_slice(l, by_row);
    if (!tir_check(v, rows, "registers hold mixed row bits, which cannot be folded"))
        return;
    for (int i = 0; !fold && i < l->wave_bits; i++)
        if (by_row ? tir_rc_col(tir_wave_image(l, i)) : tir_rc_row(tir_wave_image(l, i)))
            check_meeting(v, op);
    tir_check(v, t.d.dtype == t.a.dtype, "result has another dtype");
    tir_check(v, t.d.rows == rows && t.d.cols == cols, "result is not %ux%u", rows, cols);
    tir_check(v, tir_layout_equal(tir_layout_of(v->f, t.d), &want),
              "layout is not the operand's without the reduced axis");
}

/* Checks row_dot: two f32 tiles of one layout, and a result of one column. No row may span
 * waves. */
static void check_row_dot(struct tir_verifier *v, const struct tir_op *op, struct tir_op_types t)
{
    const struct tir_layout *const l = tir_layout_of(v->f, t.a);
    const struct tir_layout want = tir_layout_slice(l, 1);
    const struct tir_type c = tir_typeof(v->f, op->operands[1]);
    tir_check(v, t.a.dtype == TIR_F32 && t.d.dtype == TIR_F32, "operands or result are not f32");
    tir_check(v,
              c.dtype == t.a.dtype && c.rows == t.a.rows && c.cols == t.a.cols &&
                  tir_layout_equal(tir_layout_of(v->f, c), l),
              "operands differ in their types");
    for (int i = 0; i < l->wave_bits; i++)
        tir_check(v, !tir_rc_col(tir_wave_image(l, i)), "waves have parts of a row");
    tir_check(v, t.d.rows == t.a.rows && t.d.cols == 1, "result is not %ux1", t.a.rows);
    tir_check(v, tir_layout_equal(tir_layout_of(v->f, t.d), &want),
              "layout is not the operand's without its columns");
}

/* Checks that each bit of the column is the image of one input bit, of a register or a lane. */
static void check_prefix_sum(struct tir_verifier *v, struct tir_op_types t)
{
    const struct tir_layout *const l = tir_layout_of(v->f, t.a);
    const int own = l->reg_bits + l->lane_bits;
    unsigned seen = 0;
    tir_check(v, t.a.dtype == TIR_F32, "operand is not f32");
    for (int i = 0; i < tir_layout_bits(l); i++) {
        const unsigned col = tir_rc_col(l->basis[i]);
        if (!col)
            continue;
        tir_check(v, i < own, "waves have parts of a row");
        tir_check(v, !tir_rc_row(l->basis[i]) && tir_is_power((int)col) && !(seen & col),
                  "a bit of the column is no input bit of its own");
        seen |= col;
    }
}

/* True if `vector`, Mx1 or 1xN, is held so that every lane has the elements for its part of
   `tile`. */
static bool follows(const struct tir_verifier *v, struct tir_type vector, struct tir_type tile)
{
    const struct tir_layout want =
        tir_layout_slice(tir_layout_of(v->f, tile), vector.rows == tile.rows ? 1 : 0);
    struct tir_conversion c;
    return tir_layout_conversion(tir_layout_of(v->f, vector), &want, &c) &&
           c.kind <= TIR_CONVERT_REGISTERS && !c.selects;
}

/* Checks that a vector of one row or one column repeats to the result's shape without moving
 * between lanes. */
static void check_broadcast(struct tir_verifier *v, struct tir_op_types t)
{
    const bool column = t.a.cols == 1 && t.a.rows == t.d.rows;
    const bool row = t.a.rows == 1 && t.a.cols == t.d.cols;
    tir_check(v, t.a.dtype == t.d.dtype, "result has another dtype");
    if (tir_check(v, column || row, "%ux%u does not repeat to %ux%u", t.a.rows, t.a.cols, t.d.rows,
                  t.d.cols))
        tir_check(v, follows(v, t.a, t.d), "layouts differ in more than the repeated axis");
}

/* Checks that index `layout` names an address map that has every element of a tile of type `t`. */
static void check_address_map(struct tir_verifier *v, int64_t layout, struct tir_type t)
{
    if (!tir_check(v, layout >= 0 && layout < (int64_t)v->f->n_layouts, "no such address map"))
        return;
    const struct tir_layout *const map = v->f->layouts[layout];
    uint32_t m[TIR_LAYOUT_MAX_BITS];
    tir_check(v, !map->lane_bits && !map->wave_bits, "address map has lane or wave bits");
    tir_check(v, tir_layout_solve(map, tir_layout_of(v->f, t), m),
              "address map lacks elements of the tile");
}

/* Checks the padding that is read as columns: it holds at least one access, and rows hold whole
   accesses. */
static void check_padding(struct tir_verifier *v, const struct tir_op *op, struct tir_type t)
{
    enum { MAX_ACCESS = 16 };
    if (op->imm[0] < 0 || op->imm[0] >= (int64_t)v->f->n_layouts)
        return;
    const unsigned bytes = tir_dtype_bits(t.dtype) / 8;
    const struct tir_layout *const map = v->f->layouts[op->imm[0]];
    tir_check(v, map->pad * bytes >= MAX_ACCESS, "address map has no padding of %d bytes",
              MAX_ACCESS);
    tir_check(v, op->imm[1] > 0 && op->imm[1] < t.cols && !(op->imm[1] * bytes % MAX_ACCESS),
              "%lld columns are not some of %u, of %d bytes", (long long)op->imm[1], t.cols,
              MAX_ACCESS);
}

/* Checks that bits of the column number select the tile's columns. */
static void check_first_column(struct tir_verifier *v, const struct tir_op *op, struct tir_type t)
{
    uint32_t element;
    if (tir_check(v, op->imm[2] > 0 && op->imm[2] % t.cols == 0 && !op->imm[1],
                  "first column %lld is no multiple of %u", (long long)op->imm[2], t.cols))
        tir_check(v, tir_map_column(v->f->layouts[op->imm[0]], (unsigned)op->imm[2], &element),
                  "address map lacks column %lld", (long long)op->imm[2]);
}

/* Checks that the rows' addresses lie in the lanes that copy these rows to LDS. */
static void check_gathered_rows(struct tir_verifier *v, const struct tir_op *op,
                                struct tir_type rows, struct tir_type shape)
{
    const struct tir_layout lanes = tir_map_lanes(v->f->layouts[op->imm[2]], v->f->machine,
                                                  v->f->waves, tir_dtype_bits(shape.dtype) / 8);
    const struct tir_layout want = tir_layout_slice(&lanes, 1);
    struct tir_conversion c;
    tir_check(v,
              (rows.dtype == TIR_I64 || rows.dtype == TIR_I32) && rows.cols == 1 &&
                  rows.rows == shape.rows &&
                  tir_layout_conversion(tir_layout_of(v->f, rows), &want, &c) &&
                  c.kind <= TIR_CONVERT_REGISTERS && !c.selects,
              "row_addr is not an i64 or i32 of each row as the map has them");
}

/* Checks the constants of a copy by the tensor data mover. The bounds are the descriptor's (CDNA5
 * ISA, 10.11). */
static void check_tensor(struct tir_verifier *v, const int64_t *imm)
{
    enum { MOST_DWORDS = 65535, SPAN = 8, MOST_SPAN = 1024, MOST_PAD = 512 };
    const int64_t rows = imm[1], bytes = imm[2], span = imm[3], pad = imm[4];
    tir_check(v, tir_tensor_copy(v->f->machine), "the machine has no tensor data mover");
    tir_check(v, rows > 0 && rows <= MOST_DWORDS, "rows is 1..%d", MOST_DWORDS);
    tir_check(v, bytes > 0 && bytes % 4 == 0 && bytes / 4 <= MOST_DWORDS,
              "bytes is no multiple of 4, or too large");
    tir_check(v, !pad || (span >= SPAN && span <= MOST_SPAN && !(span & (span - 1))),
              "span is no power of two from %d to %d", SPAN, MOST_SPAN);
    tir_check(v, pad >= 0 && pad <= MOST_PAD && pad % 4 == 0, "pad is no multiple of 4 up to %d",
              MOST_PAD);
}

/* Checks ops that move tiles: between memory, LDS and registers. Checks each op's maps only if
 * its types are right. */
static void check_tile_memory(struct tir_verifier *v, const struct tir_op *op,
                              struct tir_op_types t)
{
    const unsigned before = v->n_findings;
    switch (op->opcode) {
    case TIR_tile_gather:
    case TIR_tile_scatter: {
        const struct tir_type tile =
            op->opcode == TIR_tile_gather ? t.d : tir_typeof(v->f, op->operands[3]);
        if (tir_check(v, t.b.dtype == TIR_I64 && t.b.cols == 1 && t.b.rows == tile.rows,
                      "row_addr is not an i64 of each row"))
            tir_check(v, follows(v, t.b, tile), "row_addr is not laid out like the tile's rows");
        tir_check(v, !op->imm[0] || op->imm[0] >= tir_dtype_bits(tile.dtype) / 8,
                  "elements %lld bytes apart overlap", (long long)op->imm[0]);
        break;
    }
    case TIR_tile_fetch:
        if (tir_check(v, t.b.dtype == TIR_I32 && t.b.cols == 1 && t.b.rows == t.d.rows,
                      "row_addr is not an i32 of each row"))
            tir_check(v, follows(v, t.b, t.d), "row_addr is not laid out like the tile's rows");
        tir_check(v, op->imm[0] >= 0, "offset is below 0");
        break;
    case TIR_tensor_to_lds: check_tensor(v, op->imm); break;
    case TIR_copy_to_lds:
    case TIR_gather_to_lds: {
        const struct tir_type shape = tir_unpack_type(op->imm[1]);
        if (tir_check(v, op->imm[2] >= 0 && op->imm[2] < (int64_t)v->f->n_layouts,
                      "no such address map"))
            tir_check(v, tir_layout_covers(v->f->layouts[op->imm[2]], shape.rows, shape.cols),
                      "address map does not cover %ux%u", shape.rows, shape.cols);
        if (op->opcode == TIR_gather_to_lds && v->n_findings == before)
            check_gathered_rows(v, op, t.b, shape);
        break;
    }
    case TIR_tile_lds_load:
        check_address_map(v, op->imm[0], t.d);
        if (op->imm[1])
            check_padding(v, op, t.d);
        if (op->imm[2])
            check_first_column(v, op, t.d);
        break;
    case TIR_tile_lds_store: check_address_map(v, op->imm[0], t.b); break;
    }
}

/* Checks concat: operands are vecs of the result's element type, whose counts add up to the
 * result's. */
static void check_concat(struct tir_verifier *v, const struct tir_op *op, struct tir_op_types t)
{
    unsigned count = 0;
    for (uint32_t i = 0; i < op->n_operands; i++) {
        const struct tir_type part = tir_typeof(v->f, op->operands[i]);
        tir_check(v, part.kind == TIR_VEC && part.dtype == t.d.dtype,
                  "operand %u is no vec of the result's dtype", i);
        count += part.count;
    }
    tir_check(v, t.d.kind == TIR_VEC && count == t.d.count, "result has %u elements, not %u",
              t.d.count, count);
}

/* Checks constants, arguments and addresses whose value is an attribute of the op. */
static void check_constants(struct tir_verifier *v, const struct tir_op *op, struct tir_op_types t)
{
    const int64_t imm = op->imm[0];
    switch (op->opcode) {
    case TIR_const_int: tir_check(v, tir_is_int(t.d.dtype), "result is no integer"); break;
    case TIR_const_float:
        tir_check(v, tir_is_float(t.d.dtype), "result is no float");
        tir_check(v, imm >= 0 && imm <= UINT32_MAX, "bits of no f32");
        break;
    case TIR_arg:
        if (tir_check(v, imm >= 0 && imm < (int64_t)v->f->n_args, "no such argument"))
            tir_check(v, v->f->args[imm].dtype == t.d.dtype, "argument has another dtype");
        break;
    case TIR_block_id: tir_check(v, imm >= 0 && imm < 3, "no such dimension"); break;
    case TIR_lds_base:
        tir_check(v, imm >= 0 && imm <= (int64_t)v->f->lds_bytes, "beyond the function's LDS");
        break;
    }
}

/* Checks the attributes of waits, barriers between phases, code alignment and wave priority. */
static void check_sync(struct tir_verifier *v, const struct tir_op *op)
{
    const int64_t *const imm = op->imm;
    const struct tir_machine *const m = v->f->machine;
    unsigned vm, lgkm;
    switch (op->opcode) {
    case TIR_wait:
        tir_check(v, imm[0] >= -2 && imm[0] < TIR_COPY_GROUPS && imm[1] >= 0,
                  "no such group or count");
        break;
    case TIR_waitcnt:
        vm = m->counters[tir_lane_copy(m, 0)->counter];
        lgkm = m->counters[tir_lds_counter(m)];
        tir_check(v, imm[0] >= -1 && imm[0] <= vm && imm[1] >= -1 && imm[1] <= lgkm,
                  "vm is -1..%u, lgkm -1..%u", vm, lgkm);
        break;
    case TIR_wait_tensor:
        vm = m->counters[TIR_COUNTER_TENSOR];
        tir_check(v, imm[0] >= 0 && imm[0] <= vm, "most is 0..%u", vm);
        break;
    case TIR_align_code:
        tir_check(v, imm[1] == TIR_FETCH_WORDS || imm[1] == TIR_PAIR_WORDS, "of is 2 or 8");
        tir_check(v, imm[0] >= 0 && imm[0] < imm[1], "words is below `of`");
        break;
    case TIR_set_priority: tir_check(v, imm[0] >= 0 && imm[0] < 4, "level is 0..3"); break;
    case TIR_settle: tir_check(v, imm[0] > 0 && imm[0] <= 20, "states is 1..20"); break;
    case TIR_phase: tir_check(v, imm[0] == 0 || imm[0] == 1, "kind is 0 or 1"); break;
    }
}

/* Checks that `b` ends with a yield whose types are the results' types of v->op. */
static void check_yield(struct tir_verifier *v, const struct tir_op *op, const struct tir_block *b)
{
    if (!b || !b->n_ops)
        return;
    const struct tir_op *const yield = tir_op(v->f, b->ops[b->n_ops - 1]);
    if (yield->opcode != TIR_yield ||
        !tir_check(v, yield->n_operands == op->n_results, "yields %u values for %u results",
                   yield->n_operands, op->n_results))
        return;
    for (uint32_t i = 0; i < op->n_results; i++) {
        const uint32_t id = yield->operands[i].id;
        if (id && id < v->f->n_values)
            tir_check(v,
                      tir_type_equal(tir_typeof(v->f, yield->operands[i]),
                                     tir_typeof(v->f, tir_result(op, i))),
                      "yield %u has another type than the result", i);
    }
}

/* Checks a loop's operands (first, bound, step, initial values) against its block's parameters
 * and its results. */
static void check_for(struct tir_verifier *v, const struct tir_op *op)
{
    const struct tir_block *const body = op->blocks[0];
    if (!tir_check(v, op->n_operands >= 3, "lacks first, bound and step") || !body)
        return;
    const struct tir_type index = tir_typeof(v->f, op->operands[0]);
    tir_check(v, matches(index, 'n'), "index is no scalar integer");
    const uint32_t n = op->n_operands - 3;
    if (!tir_check(v, body->n_params == n + 1 && op->n_results == n,
                   "%u inits, %u parameters, %u results", n, body->n_params, op->n_results))
        return;
    for (uint32_t i = 0; i < 3; i++)
        tir_check(v, tir_type_equal(index, tir_typeof(v->f, op->operands[i])),
                  "operand %u is not of the index's type", i);
    tir_check(v, tir_type_equal(index, tir_typeof(v->f, body->params[0])),
              "the index parameter has another type");
    for (uint32_t i = 0; i < n; i++) {
        const struct tir_type t = tir_typeof(v->f, op->operands[i + 3]);
        tir_check(v,
                  tir_type_equal(t, tir_typeof(v->f, body->params[i + 1])) &&
                      tir_type_equal(t, tir_typeof(v->f, tir_result(op, i))),
                  "carried value %u changes its type", i);
    }
    check_yield(v, op, body);
}

/* Checks that the lanes of a tile hold different elements, since a lane counts or stores only its
   own. */
static void check_own_lanes(struct tir_verifier *v, struct tir_type t)
{
    if (t.kind == TIR_TILE)
        tir_check(v,
                  (unsigned)t.rows * t.cols ==
                      1u << (v->f->machine->lane_bits + tir_layout_of(v->f, t)->reg_bits),
                  "lanes or waves share elements");
    else
        tir_check(v, t.kind == TIR_VEC, "operand is a scalar");
}

/* Checks ops that treat lanes individually: masks, counts of lanes, and LDS accesses by address. */
static void check_lane_op(struct tir_verifier *v, const struct tir_op *op, struct tir_op_types t)
{
    switch (op->opcode) {
    case TIR_lane_mask: tir_check(v, t.a.kind != TIR_SCALAR, "operand is a scalar"); break;
    case TIR_lane_read:
        tir_check(v, t.a.kind != TIR_SCALAR && t.a.dtype == t.d.dtype,
                  "result is not the lane's element");
        break;
    case TIR_lanes_below:
        tir_check(v, same_shape(t.a, t.d), "result has another shape");
        check_own_lanes(v, t.a);
        break;
    case TIR_lane_sum_below: check_own_lanes(v, t.a); break;
    case TIR_lds_gather:
        tir_check(v, tir_dtype_bits(t.d.dtype) == 32 && same_shape(t.a, t.d),
                  "result is not 32 bits for each address");
        check_own_lanes(v, t.a);
        break;
    case TIR_lds_scatter_if:
    case TIR_lds_add_if:
        tir_check(v, same_shape(t.a, t.b) && same_shape(t.a, t.c),
                  "condition, address and value are not of one shape");
        tir_check(v, tir_dtype_bits(t.c.dtype) == 32, "value is not of 32 bits");
        check_own_lanes(v, t.a);
        break;
    }
}

/* Checks ops on registers of a lane, lane permutes, and single accesses to memory or LDS. */
static void check_vec_op(struct tir_verifier *v, const struct tir_op *op, struct tir_op_types t)
{
    const int64_t *const imm = op->imm;
    switch (op->opcode) {
    case TIR_extract:
        tir_check(v, t.a.dtype == t.d.dtype, "result has another dtype");
        tir_check(v, imm[0] >= 0 && imm[0] + t.d.count <= t.a.count, "reaches beyond its operand");
        break;
    case TIR_convert_pair:
        tir_check(v, t.a.dtype == TIR_F32 && t.a.count == 1 && tir_type_equal(t.a, t.b),
                  "operands are not one f32 a lane");
        tir_check(v, t.d.count == 2 && (t.d.dtype == TIR_F16 || t.d.dtype == TIR_BF16),
                  "result is not two 16-bit floats");
        check_rounding(v, imm[1], imm[0], t.d);
        break;
    case TIR_lane_swap:
        tir_check(v, tir_type_equal(t.a, t.b) && tir_type_equal(t.a, t.d), "types differ");
        tir_check(v, (imm[0] == 16 || imm[0] == 32) && (imm[1] == 0 || imm[1] == 1),
                  "half is 16 or 32, which 0 or 1");
        break;
    case TIR_lane_xor:
        tir_check(v, imm[0] > 0 && imm[0] < 1 << v->f->machine->lane_bits, "mask is 1..%d",
                  (1 << v->f->machine->lane_bits) - 1);
        break;
    case TIR_first_lane:
        tir_check(v, (t.a.kind == TIR_TILE || t.a.count == 1) && t.a.dtype == t.d.dtype,
                  "result is not the lane's element");
        break;
    case TIR_global_store_if:
        tir_check(v, t.a.kind == TIR_VEC && t.a.count == 1 && t.a.dtype == TIR_I1,
                  "operand 0 is not one i1 a lane");
        break;
    case TIR_buffer_to_lds:
    case TIR_global_to_lds:
        tir_check(
            v, imm[1] > 0 && imm[1] <= UINT8_MAX && tir_lane_copy(v->f->machine, (unsigned)imm[1]),
            "the machine copies no %lld bytes a lane to LDS", (long long)imm[1]);
        break;
    case TIR_lds_read_tr:
        tir_check(
            v, tir_transposing_read(v->f->machine, lane_bits(t.d) / 8, tir_dtype_bits(t.d.dtype)),
            "the machine has no transposing read of %u bits, %u each", lane_bits(t.d),
            tir_dtype_bits(t.d.dtype));
        break;
    }
}

/* Checks that a relayout changes only the layout and that the compiler can convert it. */
static void check_relayout(struct tir_verifier *v, const struct tir_op *op, struct tir_op_types t)
{
    if (!tir_check(v, t.a.dtype == t.d.dtype && t.a.rows == t.d.rows && t.a.cols == t.d.cols,
                   "result differs in more than its layout"))
        return;
    const struct tir_layout *const from = tir_layout_of(v->f, t.a);
    const struct tir_layout *const to = tir_layout_of(v->f, t.d);
    struct tir_conversion c;
    struct tir_lane_map map;
    struct tir_lane_steps steps;
    if (!tir_check(v, tir_layout_conversion(from, to, &c), "operand lacks elements of the result"))
        return;
    if (c.kind == TIR_CONVERT_LDS)
        check_meeting(v, op);
    else
        tir_check(v, tir_lane_map(from, to, &c, 0, &map) && tir_lane_steps(&map, &steps),
                  "lanes that repeat elements cannot be made others");
}

/* Checks that rows x (blocks width) and (blocks rows) x width hold the same elements. `map`
 * converts the operand's layout to the result's. */
static void check_blocks(struct tir_verifier *v, struct tir_type joined, struct tir_type split,
                         struct tir_layout (*map)(const struct tir_layout *, unsigned, unsigned))
{
    const bool join = map == tir_layout_join_blocks;
    const struct tir_type a = join ? split : joined, d = join ? joined : split;
    const bool shaped = a.dtype == d.dtype && joined.rows && split.cols &&
                        split.rows % joined.rows == 0 &&
                        split.rows / joined.rows * split.cols == joined.cols;
    tir_check(v, shaped, "operand and result are not the same blocks, joined and split");
    if (!shaped)
        return;
    const struct tir_layout want = map(tir_layout_of(v->f, a), joined.rows, split.cols);
    tir_check(v, tir_layout_equal(&want, tir_layout_of(v->f, d)),
              "result does not hold the operand's registers");
}

/* Checks that the result of stack has the operands' layout and one more register bit, the last,
 * which selects the operand. */
static void check_stack(struct tir_verifier *v, struct tir_op_types t)
{
    if (!tir_check(v, tir_type_equal(t.a, t.b), "operand 1 has another type than operand 0"))
        return;
    const struct tir_layout want = tir_layout_stack(tir_layout_of(v->f, t.a), t.a.rows);
    tir_check(v,
              t.d.dtype == t.a.dtype && t.d.rows == 2 * t.a.rows && t.d.cols == t.a.cols &&
                  tir_layout_equal(&want, tir_layout_of(v->f, t.d)),
              "result is not the registers of operand 0 and then those of operand 1");
}

/* Checks that the last register bit of half's operand selects the half, and that the result lacks
 * this bit. */
static void check_half(struct tir_verifier *v, const struct tir_op *op, struct tir_op_types t)
{
    const struct tir_layout *const l = tir_layout_of(v->f, t.a);
    if (!tir_check(v, op->imm[0] == 0 || op->imm[0] == 1, "which is neither 0 nor 1") ||
        !tir_check(v, tir_layout_has_halves(l, t.a.rows),
                   "the last register bit of operand 0 is not that of the middle row"))
        return;
    const struct tir_layout want = tir_layout_half(l);
    tir_check(v,
              t.d.dtype == t.a.dtype && 2 * t.d.rows == t.a.rows && t.d.cols == t.a.cols &&
                  tir_layout_equal(&want, tir_layout_of(v->f, t.d)),
              "result is not half of the registers of operand 0");
}

/* Checks a flip of columns: no wave may need an element of another wave. */
static void check_flip(struct tir_verifier *v, const struct tir_op *op, struct tir_op_types t)
{
    const struct tir_layout *const l = tir_layout_of(v->f, t.a);
    tir_check(v, tir_dtype_bits(t.a.dtype) == 32, "operand 0 is not of 32-bit elements");
    if (!tir_check(v, op->imm[0] > 0 && op->imm[0] < t.a.cols, "cols is not 1..%u", t.a.cols - 1))
        return;
    const int bit = tir_layout_find_bit(l, TIR_RC(0, (unsigned)op->imm[0]));
    tir_check(v, bit >= 0 && bit < l->reg_bits + l->lane_bits,
              "no bit of the register or of the lane stands for %u columns alone",
              (unsigned)op->imm[0]);
}

/* Checks ops on tiles: shapes and layouts of operands and result. Calls one function for each
 * kind. */
static void check_tile_op(struct tir_verifier *v, const struct tir_op *op, struct tir_op_types t)
{
    switch (op->opcode) {
    case TIR_row_index:
    case TIR_col_index: tir_check(v, t.d.dtype == TIR_I32, "result is not i32"); break;
    case TIR_broadcast: check_broadcast(v, t); break;
    case TIR_row_max:
    case TIR_row_sum:
    case TIR_col_max:
    case TIR_col_sum:
    case TIR_col_fold_max:
    case TIR_col_fold_sum: check_reduced(v, op, t); break;
    case TIR_row_dot: check_row_dot(v, op, t); break;
    case TIR_row_prefix_sum: check_prefix_sum(v, t); break;
    case TIR_col_fold_dot: tir_check_fold_dot(v, t); break;
    case TIR_col_fold_top: tir_check_fold_top(v, t); break;
    case TIR_mma:
    case TIR_mma_scaled: tir_check_mma(v, op, t); break;
    case TIR_mma_halves: tir_check_mma_halves(v, op, t); break;
    case TIR_relayout: check_relayout(v, op, t); break;
    case TIR_transpose: {
        const struct tir_layout want = tir_layout_transpose(tir_layout_of(v->f, t.a));
        tir_check(v,
                  t.a.dtype == t.d.dtype && t.a.rows == t.d.cols && t.a.cols == t.d.rows &&
                      tir_layout_equal(&want, tir_layout_of(v->f, t.d)),
                  "result is not the operand with rows and columns exchanged");
        break;
    }
    case TIR_join_blocks: check_blocks(v, t.d, t.a, tir_layout_join_blocks); break;
    case TIR_split_blocks: check_blocks(v, t.a, t.d, tir_layout_split_blocks); break;
    case TIR_stack: check_stack(v, t); break;
    case TIR_half: check_half(v, op, t); break;
    case TIR_col_flip: check_flip(v, op, t); break;
    case TIR_call_hook:
        tir_check(v, op->imm[0] >= 0 && op->imm[0] < (int64_t)v->f->n_hooks, "no such hook");
        tir_check(v, op->n_operands > 0 && tir_type_equal(t.a, t.d),
                  "result has another type than operand 0");
        break;
    default: check_tile_memory(v, op, t);
    }
}

/* Checks how types and attributes of one op depend on each other, once its signature is right. */
static void check_relations(struct tir_verifier *v, const struct tir_op *op)
{
    const struct tir_op_types t = types_of(v, op);
    switch (op->opcode) {
    case TIR_select:
        tir_check(v, t.a.kind == TIR_SCALAR || same_shape(t.a, t.b),
                  "condition is not of the values' shape");
        tir_check(v, tir_type_equal(t.b, t.c), "values have different types");
        break;
    case TIR_convert:
    case TIR_zext:
    case TIR_bitcast: check_conversion(v, op, t); break;
    case TIR_unit_pair: tir_check(v, t.a.dtype == TIR_F32, "operand 0 is not f32"); break;
    case TIR_dot2:
        tir_check(v, t.c.dtype == TIR_F32, "operand 2 is not f32");
        tir_check(v, same_shape(t.a, t.c) && same_shape(t.b, t.c), "operands differ in shape");
        break;
    case TIR_splat:
        tir_check(v, t.a.dtype == t.d.dtype && t.d.kind != TIR_SCALAR,
                  "result is no tile or vec of the operand's dtype");
        break;
    case TIR_concat: check_concat(v, op, t); break;
    case TIR_mfma:
    case TIR_mfma_scaled: tir_check_mfma(v, op, t); break;
    case TIR_for: check_for(v, op); break;
    case TIR_if:
        check_yield(v, op, op->blocks[0]);
        check_yield(v, op, op->blocks[1]);
        break;
    default:
        check_constants(v, op, t);
        check_vec_op(v, op, t);
        check_lane_op(v, op, t);
        check_tile_op(v, op, t);
        check_sync(v, op);
    }
}

void tir_check_op(struct tir_verifier *v)
{
    const struct tir_op *const op = tir_op(v->f, v->op);
    const struct tir_op_info *const info = &tir_ops[op->opcode];
    const uint32_t before = v->n_findings;
    tir_check(v, info->operands < 0 || op->n_operands == (unsigned)info->operands,
              "takes %d operands, has %u", info->operands, op->n_operands);
    if (op->opcode != TIR_for && op->opcode != TIR_if)
        tir_check(v, op->n_results == (info->result_rule != TIR_RESULT_NONE), "has %u results",
                  op->n_results);
    tir_check(v, info->level != TIR_LEVEL_TILE || !v->f->lowered, "tile op after lower_tiles");
    tir_check(v, op->stage < TIR_MAX_STAGES || op->stage == TIR_NO_STAGE, "stage %u", op->stage);
    tir_check(v, op->phase < TIR_MAX_PHASES, "phase %u", op->phase);
    if (v->n_findings != before)
        return;
    if (info->result_rule == TIR_RESULT_SAME || info->result_rule == TIR_RESULT_PRED) {
        struct tir_type want = tir_typeof(v->f, op->operands[info->result_operand]);
        if (info->result_rule == TIR_RESULT_PRED)
            want.dtype = TIR_I1;
        tir_check(v, tir_type_equal(want, tir_typeof(v->f, op->result)),
                  "result type does not follow from operand %u", info->result_operand);
    }
    check_signature(v, op, info->signature);
    if (v->n_findings == before)
        check_relations(v, op);
}
