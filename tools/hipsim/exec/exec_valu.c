/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executes vector instructions. Sources are read as rows of lanes, and the modifiers of the
 * encoding apply: DPP, SDWA, abs, neg, op_sel, denormal flush. The op row's lane kernel computes
 * the result, to which clamp, omod and flush apply. It is written to the lanes that EXEC enables.
 * This file is compiled once per host instruction set (lanes.h).
 */
#include <fenv.h>

#ifdef __SSE2__
#    include <immintrin.h>
#endif

#include "exec_cross.h"
#include "lanes.h"

/* Widest operand of a lane kernel: V_CVT_SCALEF32_PK32_F32_FP6 writes 32 registers. */
#define MAX_DST_ROWS 32
#define MAX_SRC_ROWS 4

void LOCAL(fix_nan32)(struct lanes *x, unsigned nsrc)
{
    for (unsigned i = 0; i < WAVE_LANES; i++) {
        if (!nan32(x->d[i]))
            continue;
        const float product = nsrc > 1 ? as_f32(x->s[0][i]) * as_f32(x->s[1][i]) : 0;
        uint32_t r = DEFAULT_NAN32;
        if (nsrc > 2 && product == product && nan32(x->s[2][i]))
            r = x->s[2][i] | quiet32(x);
        for (unsigned k = nsrc > 2 ? 2 : nsrc; k-- > 0;)
            r = nan32(x->s[k][i]) ? x->s[k][i] | quiet32(x) : r;
        x->d[i] = r;
    }
}

void LOCAL(fix_nan64)(struct lanes *x, unsigned nsrc)
{
    for (unsigned i = 0; i < WAVE_LANES; i++) {
        if (!nan64(row64(x->d, i)))
            continue;
        const double product = nsrc > 1 ? as_f64(row64(x->s[0], i)) * as_f64(row64(x->s[1], i)) : 0;
        uint64_t r = DEFAULT_NAN64;
        if (nsrc > 2 && product == product && nan64(row64(x->s[2], i)))
            r = row64(x->s[2], i) | quiet64(x);
        for (unsigned k = nsrc > 2 ? 2 : nsrc; k-- > 0;)
            r = nan64(row64(x->s[k], i)) ? row64(x->s[k], i) | quiet64(x) : r;
        set_row64(x->d, i, r);
    }
}

/* Sets each lane of the row to all ones or 0, by its bit of the mask. */
static inline void mask_to_row(uint64_t mask, uint32_t *row)
{
    uint32_t low = (uint32_t)mask, high = (uint32_t)(mask >> 32);
    for (unsigned i = 0; i < 32; i++)
        row[i] = 0u - (low >> i & 1);
    for (unsigned i = 0; i < 32; i++)
        row[32 + i] = 0u - (high >> i & 1);
}

/* Returns the sign bits (bit 31) of a row's lanes as a lane mask. */
static inline uint64_t row_to_mask(const uint32_t *row)
{
    uint64_t mask = 0;
#if defined(__AVX2__)
    for (unsigned i = 0; i < WAVE_LANES; i += 8) {
        __m256 v = _mm256_loadu_ps((const float *)(const void *)(row + i));
        mask |= (uint64_t)(unsigned)_mm256_movemask_ps(v) << i;
    }
#else
    for (unsigned i = 0; i < WAVE_LANES; i++)
        mask |= (uint64_t)(row[i] >> 31) << i;
#endif
    return mask;
}

/* Sets all lanes of the row to the value. */
static inline void broadcast(uint32_t value, uint32_t *row)
{
    for (unsigned i = 0; i < WAVE_LANES; i++)
        row[i] = value;
}

/* Returns the values of a source, one row per dword. `tmp` is used for values that are not in
 * vector registers. */
static inline const uint32_t *fetch_rows(const struct wave *w, const struct opnd *o, uint32_t *tmp)
{
    if (o->kind == OPND_VGPR)
        return w->v[o->reg];
    if (o->kind == OPND_AGPR)
        return w->a[o->reg];
    if (o->type == T_MASK) {
        mask_to_row(o->kind == OPND_SGPR ? sgpr_read64(w, o->reg) : src_scalar(w, o), tmp);
        return tmp;
    }
    uint64_t value = src_scalar(w, o);
    broadcast((uint32_t)value, tmp);
    if (o->dwords == 2)
        broadcast((uint32_t)(value >> 32), tmp + WAVE_LANES);
    return tmp;
}

/* Returns the mask of lanes in which the source is defined. */
static inline uint64_t fetch_valid(const struct wave *w, const struct opnd *o)
{
    if (o->kind == OPND_VGPR && o->dwords == 1)
        return w->v_valid[o->reg];
    if (o->type == T_MASK)
        return o->kind == OPND_SGPR ? sgpr_valid64(w, o->reg) : UINT64_MAX;
    return src_valid(w, o);
}

/* Returns the lanes in which dword `r` of a source is defined. `all` is the result for sources
 * whose dwords share one mask. */
static inline uint64_t dword_valid(const struct wave *w, const struct opnd *o, unsigned r,
                                   uint64_t all)
{
    if (o->kind == OPND_VGPR)
        return w->v_valid[o->reg + r];
    if (o->kind == OPND_SGPR && o->type != T_MASK)
        return w->s_valid[o->reg + r] == UINT32_MAX ? UINT64_MAX : 0;
    return all;
}

/* True if MODE flushes denormal sources (`bit` 0) or results (`bit` 1) of a type. */
static inline bool flushes(const struct wave *w, uint16_t type, unsigned bit)
{
    switch (TYPE_CLASS(type)) {
    case CLASS_F32:
    case CLASS_PK_F32: return !(w->mode >> (4 + bit) & 1);
    case CLASS_F16:
    case CLASS_PK_F16:
    case CLASS_F64: return !(w->mode >> (6 + bit) & 1);
    default: return false;
    }
}

/* Copies rows. Subnormal numbers of the type become zeros of the same sign. */
static void flush_rows(uint16_t type, const uint32_t *from, uint32_t *to)
{
    switch (TYPE_CLASS(type)) {
    case CLASS_PK_F32:
        EACH_LANE
        {
            uint32_t u = from[WAVE_LANES + i];
            to[WAVE_LANES + i] = u & 0x7f800000 ? u : u & 0x80000000;
        }
        /* fall through */
    case CLASS_F32: EACH_LANE to[i] = from[i] & 0x7f800000 ? from[i] : from[i] & 0x80000000; break;
    case CLASS_PK_F16:
        EACH_LANE
        {
            uint32_t u = from[i];
            u = u & 0x7c000000 ? u : u & 0x8000ffff;
            to[i] = u & 0x7c00 ? u : u & 0xffff8000;
        }
        break;
    case CLASS_F16: EACH_LANE to[i] = from[i] & 0x7c00 ? from[i] : from[i] & 0xffff8000; break;
    case CLASS_F64:
        EACH_LANE
        {
            uint64_t u = row64(from, i);
            set_row64(to, i, u & UINT64_C(0x7ff0000000000000) ? u : u & UINT64_C(1) << 63);
        }
        break;
    default: break;
    }
}

/* Returns the sign bits in a dword of a type. Packed types have two: they occur in VOP2 encodings,
 * such as v_dot2c and v_pk_fmac. */
static uint32_t sign_bits(uint16_t type)
{
    switch (TYPE_CLASS(type)) {
    case CLASS_F16:
    case CLASS_BF16:
    case CLASS_INT16: return 0x8000;
    case CLASS_PK_F16:
    case CLASS_PK_BF16: return 0x80008000;
    default: return 0x80000000;
    }
}

/* Copies the rows of operand `o` from `from` to `to`, with its abs and neg applied. */
static void sign_rows(const struct opnd *o, const uint32_t *from, uint32_t *to)
{
    uint32_t sign = sign_bits(o->type);
    uint32_t keep = o->abs ? ~sign : ~0u, flip = o->neg ? sign : 0;
    unsigned top = o->dwords == 2 ? WAVE_LANES : 0;
    if (top && to != from)
        memcpy(to, from, WAVE_LANES * sizeof(*to));
    EACH_LANE to[top + i] = (from[top + i] & keep) ^ flip;
}

/* Applies the modifiers of VOP3P to rows `from` of source `k`. op_sel and op_sel_hi select the
 * source's half for the low and high result; neg_lo and neg_hi negate it. Returns `to`, or `from`
 * if nothing changes. */
static const uint32_t *pack_rows(const struct inst *in, unsigned k, const uint32_t *from,
                                 uint32_t *to)
{
    const struct opnd *o = &in->src[k];
    bool low = in->op_sel >> k & 1, high = in->op_sel_hi >> k & 1;
    bool neg_lo = in->neg_lo >> k & 1, neg_hi = in->neg_hi >> k & 1;
    enum type_class class = TYPE_CLASS(o->type);
    if (class == CLASS_PK_INT16)
        neg_lo = neg_hi = false;
    if (!low && high && !neg_lo && !neg_hi)
        return from;
    if (class == CLASS_PK_F32) {
        const uint32_t *l = from + (low ? WAVE_LANES : 0), *h = from + (high ? WAVE_LANES : 0);
        uint32_t fl = neg_lo ? 0x80000000 : 0, fh = neg_hi ? 0x80000000 : 0;
        EACH_LANE
        {
            uint32_t a = l[i] ^ fl, b = h[i] ^ fh;
            to[i] = a;
            to[WAVE_LANES + i] = b;
        }
        return to;
    }
    unsigned sl = low ? 16 : 0, sh = high ? 16 : 0;
    uint32_t flip = (neg_lo ? 0x8000u : 0) | (neg_hi ? 0x80000000u : 0);
    EACH_LANE to[i] = ((from[i] >> sl & 0xffff) | (from[i] >> sh) << 16) ^ flip;
    return to;
}

/* True if the type has two numbers. */
static bool is_packed(uint16_t type)
{
    enum type_class class = TYPE_CLASS(type);
    return class == CLASS_PK_F16 || class == CLASS_PK_BF16 || class == CLASS_PK_INT16 ||
           class == CLASS_PK_F32;
}

/* True if the type has 16 bits. */
static bool is_half(uint16_t type)
{
    enum type_class class = TYPE_CLASS(type);
    return class == CLASS_F16 || class == CLASS_BF16 || class == CLASS_INT16;
}

/* Applies all modifiers of source `k`, with registers `rows`. Returns `rows`, or `tmp` with the
 * changed values. */
static const uint32_t *prepare(const struct wave *w, const struct inst *in, unsigned k,
                               const uint32_t *rows, uint32_t *tmp)
{
    const struct opnd *o = &in->src[k];
    if (in->form & FORM_SDWA && k < 2 && (o->sel != SDWA_DWORD || o->sext))
        rows = sdwa_select(o, rows, tmp);
    if (in->encoding == ENC_VOP3P && is_packed(o->type) && !(in->row->flags & ROW_OP_SEL))
        rows = pack_rows(in, k, rows, tmp);
    if (in->op_sel >> k & 1 && in->encoding == ENC_VOP3 && is_half(o->type) &&
        !(in->row->flags & ROW_OP_SEL)) {
        EACH_LANE tmp[i] = rows[i] >> 16;
        rows = tmp;
    }
    if ((o->neg || o->abs) && in->encoding != ENC_VOP3P) {
        sign_rows(o, rows, tmp);
        rows = tmp;
    }
    if (!(in->row->flags & ROW_NO_FLUSH) && flushes(w, o->type, 0)) {
        flush_rows(o->type, rows, tmp);
        rows = tmp;
    }
    return rows;
}

/* Returns the f32 bits `u`, scaled by omod's factor and clamped to [0, 1] if `clamp`. Scaling
 * changes -0 to +0. A clamped NaN becomes 0 if `nan_to_zero` (DX10_CLAMP). */
static inline uint32_t modify32(uint32_t u, float scale, bool clamp, bool nan_to_zero)
{
    const bool nan = nan32(u);
    const float f = as_f32(u) * scale;
    const uint32_t scaled = f == 0 ? 0 : f32_bits(f);
    const uint32_t r = (scale == 1.0f) | nan ? u : scaled;
    const uint32_t bound = f > 0.0f ? (f < 1.0f ? r : 0x3f800000) : 0;
    return clamp ? (nan & !nan_to_zero ? r : bound) : r;
}

/* Returns an f16 after scaling and clamping. `nan_to_zero`: a clamped NaN is 0. */
static inline uint32_t modify16(uint32_t h, float scale, bool clamp, bool nan_to_zero,
                                enum rounding mode)
{
    const bool nan = (h & 0x7fff) > 0x7c00;
    const float f = f16_to_f32(h) * scale;
    const uint32_t scaled = f == 0 ? 0 : f32_to_f16(f, mode);
    const uint32_t r = (scale == 1.0f) | nan ? h : scaled;
    const uint32_t bound = f > 0.0f ? (f < 1.0f ? r : 0x3c00) : 0;
    return clamp ? (nan & !nan_to_zero ? r : bound) : r;
}

/* Returns an f64 after scaling and clamping. `nan_to_zero`: a clamped NaN is 0. */
static inline uint64_t modify64(uint64_t u, double scale, bool clamp, bool nan_to_zero)
{
    const bool nan = nan64(u);
    const double f = as_f64(u) * scale;
    const uint64_t scaled = f == 0 ? 0 : f64_bits(f);
    const uint64_t r = (scale == 1.0) | nan ? u : scaled;
    const uint64_t bound = f > 0.0 ? (f < 1.0 ? r : f64_bits(1.0)) : 0;
    return clamp ? (nan & !nan_to_zero ? r : bound) : r;
}

/* Returns the <fenv.h> constant of MODE's rounding for results of a type. */
static int host_rounding(const struct wave *w, uint16_t type)
{
    static const int host[4] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    bool f64 = TYPE_CLASS(type) == CLASS_F64;
    return host[(f64 ? round_f16_mode(w) : round_f32_mode(w)) & 3];
}

/*
 * Applies omod and clamp to float results. The hardware ignores omod in IEEE mode and if output
 * denormals are kept (CDNA3 ISA, "Output modifiers").
 */
static void modify_rows(const struct wave *w, const struct inst *in, uint32_t *d)
{
    static const float scales[4] = {1.0f, 2.0f, 4.0f, 0.5f};
    uint16_t type = in->dst.type;
    bool omod = in->omod && !(w->mode & MODE_IEEE) && flushes(w, type, 1);
    float scale = omod ? scales[in->omod] : 1.0f;
    bool clamp = in->clamp, zero = w->mode & MODE_DX10_CLAMP;
    if (omod && TYPE_CLASS(type) != CLASS_F16) /* modify16() rounds to nearest in any mode */
        fesetround(host_rounding(w, type));
    switch (TYPE_CLASS(type)) {
    case CLASS_PK_F32:
        EACH_LANE d[WAVE_LANES + i] = modify32(d[WAVE_LANES + i], scale, clamp, zero);
        /* fall through */
    case CLASS_F32: EACH_LANE d[i] = modify32(d[i], scale, clamp, zero); break;
    case CLASS_PK_F16:
        EACH_LANE d[i] = modify16(d[i] & 0xffff, 1.0f, clamp, zero, ROUND_NEAREST) |
                         modify16(d[i] >> 16, 1.0f, clamp, zero, ROUND_NEAREST) << 16;
        break;
    case CLASS_F16: {
        const enum rounding mode = round_f16_mode(w);
        EACH_LANE d[i] = (d[i] & 0xffff0000) | modify16(d[i] & 0xffff, scale, clamp, zero, mode);
        break;
    }
    case CLASS_F64:
        EACH_LANE set_row64(d, i, modify64(row64(d, i), (double)scale, clamp, zero));
        break;
    default: break;
    }
    fesetround(FE_TONEAREST);
}

/* Writes the lanes of the mask in `rows` rows. */
static void write_rows(uint32_t *to, const uint32_t *from, unsigned rows, uint64_t mask)
{
    if (mask == UINT64_MAX) {
        memcpy(to, from, (size_t)rows * WAVE_LANES * sizeof(*to));
        return;
    }
    uint32_t select[WAVE_LANES];
    mask_to_row(mask, select);
    for (unsigned r = 0; r < rows; r++) {
        uint32_t *t = to + r * WAVE_LANES;
        const uint32_t *f = from + r * WAVE_LANES;
        EACH_LANE t[i] = (f[i] & select[i]) | (t[i] & ~select[i]);
    }
}

/* Merges results of 16 bits with the old row `old`, in place: op_sel[3] selects the half, and the
 * other half keeps its value. */
static void merge_halves(const struct inst *in, const uint32_t *old, uint32_t *d)
{
    if (in->op_sel & 8) {
        EACH_LANE d[i] = d[i] << 16 | (old[i] & 0xffff);
    } else if (in->row->flags & ROW_PARTIAL || in->form & FORM_HALF) {
        EACH_LANE d[i] = (d[i] & 0xffff) | (old[i] & 0xffff0000);
    }
}

/* Writes a mask of lanes to the SGPRs of the operand. `valid` is the mask of its defined bits. */
static void write_mask(struct wave *w, const struct opnd *o, uint64_t lanes, uint64_t valid)
{
    w->sgpr[o->reg] = (uint32_t)lanes;
    w->s_valid[o->reg] = (uint32_t)valid;
    if (o->dwords == 1) /* a wave of 32 lanes */
        return;
    w->sgpr[o->reg + 1] = (uint32_t)(lanes >> 32);
    w->s_valid[o->reg + 1] = (uint32_t)(valid >> 32);
}

/* Calls the kernel with the host's rounding set to MODE's. Kernels of f16 read MODE themselves. */
static inline void call_kernel(struct lanes *x)
{
    const struct op_row *row = x->in->row;
    lane_fn fn = (lane_fn)row->kernel;
    if (__builtin_expect(!(x->w->mode & 15) || !(row->flags & ROW_ROUNDS), 1)) {
        fn(x);
        return;
    }
    fesetround(host_rounding(x->w, row->dst));
    fn(x);
    fesetround(FE_TONEAREST);
}

/* Writes the result of a compare, or a carry, as a lane mask. `row` has ~0 in lanes that are true.
 * Lanes outside of `lanes` become 0; `valid` is the mask of defined results. */
static void finish_mask(struct wave *w, const struct inst *in, const uint32_t *row, uint64_t lanes,
                        uint64_t valid)
{
    const struct opnd *o = in->row->dst == T_MASK ? &in->dst : &in->dst2;
    uint64_t result = row_to_mask(row) & lanes;
    write_mask(w, o, result, valid | ~lanes);
    if (in->row->flags & ROW_CMPX) {
        struct opnd exec = {.kind = OPND_SGPR, .dwords = 2, .reg = SGPR_EXEC};
        write_mask(w, &exec, result, valid | ~lanes);
    }
}

/* True if an instruction with these ROW_ flags converts a vector; see converted_valid(). */
static bool converts_vector(uint32_t flags) { return flags & ROW_PACKS && flags & ROW_OP_SEL; }

/* Returns the lanes whose result its defined sources determine, although others are undefined.
 * `valid` has a mask per source. Programs build vectors of halves or bytes piece by piece in
 * uninitialised registers. */
static uint64_t decided_lanes(const struct lanes *x, uint32_t flags, const uint64_t *valid)
{
    if (converts_vector(flags))
        return 0; /* converted_valid() */
    if (flags & ROW_PACKS)
        return (valid[0] | valid[1]) & (x->in->nsrc > 2 ? valid[2] : UINT64_MAX);
    if (flags & ROW_SELECTS) {
        uint64_t mask = row_to_mask(x->s[2]);
        return valid[2] & ((mask & valid[1]) | (~mask & valid[0]));
    }
    uint32_t winner = flags & ROW_ZERO_WINS ? 0 : ~0u;
    uint64_t decided = 0;
    for (unsigned k = 0; k < 2; k++) {
        EACH_LANE decided |= (uint64_t)(x->s[k][i] == winner) << i & valid[k];
    }
    return x->in->nsrc > 2 ? decided & valid[2] : decided; /* source 2 is the addend of a product */
}

/* Sets half[0] and half[1] to the lanes in which the low and the high packed f32 result is defined.
 * Each depends on the dwords that op_sel selects. Clang's vectorizer leaves the other result
 * undefined if it needs only one. */
static void packed_valid(const struct wave *w, const struct inst *in, const uint64_t *valid_of,
                         uint64_t *half)
{
    const uint8_t high[2] = {in->op_sel, in->op_sel_hi};
    for (unsigned h = 0; h < 2; h++) {
        half[h] = sgpr_valid64(w, SGPR_EXEC);
        for (unsigned k = 0; k < in->nsrc; k++) {
            const struct opnd *o = &in->src[k];
            half[h] &= dword_valid(w, o, o->dwords == 2 && high[h] >> k & 1, valid_of[k]);
        }
    }
}

/* Sets part[r] to the lanes in which dword r of the result of a conversion of a vector, source 0,
 * is defined. One defined dword among those that it is made from suffices, with all other sources.
 * Compilers convert one element of a vector and leave the others undefined. */
static void converted_valid(const struct wave *w, const struct inst *in, const uint64_t *valid_of,
                            uint64_t *part)
{
    const struct opnd *o = &in->src[0];
    const unsigned n = in->dst.dwords;
    uint64_t others = sgpr_valid64(w, SGPR_EXEC);
    for (unsigned k = 1; k < in->nsrc; k++)
        others &= valid_of[k];
    for (unsigned r = 0; r < n; r++) {
        const unsigned end = ((r + 1) * o->dwords + n - 1) / n;
        part[r] = 0;
        for (unsigned s = r * o->dwords / n; s < end; s++)
            part[r] |= dword_valid(w, o, s, valid_of[0]);
        part[r] &= others;
    }
}

/* Lane masks that describe an instruction's sources. */
struct fetched {
    uint64_t lanes;                  /* lanes that are written */
    uint64_t known;                  /* lanes whose EXEC bit is defined */
    uint64_t valid;                  /* lanes in which all sources are defined */
    uint64_t low_valid;              /* lanes in which the low dwords of all sources are defined */
    uint64_t valid_of[INST_MAX_SRC]; /* lanes in which each source is defined */
    bool alias;                      /* true: the destination overlaps a source */
};

/* Room for sources that are no registers or have modifiers. */
struct source_rows {
    alignas(64) uint32_t row[3][MAX_SRC_ROWS * WAVE_LANES];
    alignas(64) uint32_t mask[WAVE_LANES];
};

/* Points x->s to the rows of the sources, in registers or in `t`, with all modifiers applied.
 * Returns their lane masks. */
static inline __attribute__((always_inline)) struct fetched fetch_sources(struct lanes *x,
                                                                          struct source_rows *t)
{
    const struct wave *w = x->w;
    const struct inst *in = x->in;
    const uint32_t flags = in->row->flags;
    const uint16_t type = in->row->src[0];
    const unsigned unprepared = FORM_LITERAL | FORM_OUT_MODS | FORM_HALF;
    const bool plain = !(in->form & ~unprepared) && in->encoding != ENC_VOP3P;
    const bool prepares = !plain || (!(flags & ROW_NO_FLUSH) && type && flushes(w, type, 0));
    const uint64_t known = sgpr_valid64(w, SGPR_EXEC);
    struct fetched f = {.lanes = x->exec, .known = known, .valid = known, .low_valid = known};

    for (unsigned k = 0; k < in->nsrc; k++) {
        const struct opnd *o = &in->src[k];
        uint32_t *tmp = k < 3 ? t->row[k] : t->mask;
        x->s[k] = fetch_rows(w, o, tmp);
        uint64_t v = fetch_valid(w, o);
        if (k == 0 && in->form & FORM_DPP)
            x->s[0] = LOCAL(dpp_permute)(w, in, x->s[0], tmp, &f.lanes, &v);
        if (prepares && o->type != T_MASK && k < 3)
            x->s[k] = prepare(w, in, k, x->s[k], tmp);
        f.valid_of[k] = v;
        /* source 3 is the old destination: undefined bytes that the result keeps do not count */
        f.valid &= k == 3 && flags & ROW_DST_IS_SRC ? UINT64_MAX : v;
        f.low_valid &= k == 0 && in->form & FORM_DPP ? v : dword_valid(w, o, 0, v);
        f.alias |= o->kind == in->dst.kind && o->reg < in->dst.reg + in->dst.dwords &&
                   in->dst.reg < o->reg + o->dwords;
    }
    if (__builtin_expect(flags & ROW_DECIDED && f.lanes & ~f.valid, 0)) {
        f.valid |= decided_lanes(x, flags, f.valid_of) & known;
        f.low_valid |= f.valid;
    }
    return f;
}

/* Calls the kernel and writes its result to the destination after clamp, omod, flush, op_sel and
 * SDWA. */
static inline __attribute__((always_inline)) void write_result(struct wave *w, struct lanes *x,
                                                               const struct fetched *f)
{
    const struct inst *in = x->in;
    const struct op_row *row = in->row;
    const uint32_t flags = row->flags;
    alignas(64) uint32_t out[MAX_DST_ROWS * WAVE_LANES];
    uint32_t *dst = dst_rows(w, &in->dst);
    const bool flush = !(flags & ROW_NO_FLUSH) && flushes(w, row->dst, 1);
    /* Bit operations may write over their sources. Float kernels read their sources again if a
     * result is NaN. */
    const bool alias = f->alias && TYPE_CLASS(row->dst) >= CLASS_F16;
    /* op_sel[3] has no effect on results of a whole register, as of v_mad_u32_u16 and
     * v_pack_b32_f16. */
    const bool high = in->form & FORM_OP_SEL && in->op_sel & 8 && is_half(row->dst);
    const bool merge = flags & ROW_PARTIAL || high || in->form & FORM_HALF;
    const bool direct = !alias && !flush && !merge && f->lanes == UINT64_MAX &&
                        !(in->form & (FORM_OUT_MODS | FORM_SDWA));

    x->d = direct ? dst : out;
    call_kernel(x);
    if (direct)
        return;
    if (in->form & FORM_OUT_MODS && !(flags & ROW_INT_CLAMP)) {
        if (flush) /* omod scales the flushed value */
            flush_rows(row->dst, out, out);
        modify_rows(w, in, out);
    }
    if (flush)
        flush_rows(row->dst, out, out);
    if (merge && !(flags & ROW_OP_SEL))
        merge_halves(in, dst, out);
    if (in->form & FORM_SDWA)
        sdwa_merge(in, dst, out);
    write_rows(dst, out, in->dst.dwords, f->lanes);
}

/* Records which lanes of the result are defined. `part`: a mask for each dword of the result, or
 * NULL if they are all defined in the lanes f->valid. */
static inline __attribute__((always_inline)) void track_validity(struct wave *w,
                                                                 const struct inst *in,
                                                                 const struct fetched *f,
                                                                 const uint64_t *part)
{
    const uint32_t flags = in->row->flags;
    const uint64_t lanes = f->lanes;
    uint64_t *valid = (in->dst.kind == OPND_VGPR ? w->v_valid : w->a_valid) + in->dst.reg;

    for (unsigned r = 0; r < in->dst.dwords; r++)
        valid[r] = ((valid[r] & ~lanes) | ((part ? part[r] : f->valid) & lanes)) & f->known;
    if (!(flags & ROW_LOW_ALONE))
        return;
    /* LLVM leaves the high dword of an addend undefined if it only needs the low one of the sum. */
    valid[0] = (valid[0] & ~lanes) | (f->low_valid & lanes);
    /* LLVM also leaves a dword of a 64-bit move undefined if the program does not need it. */
    if (in->nsrc == 1 && !(in->form & FORM_DPP))
        valid[1] = (valid[1] & ~lanes) | (dword_valid(w, &in->src[0], 1, f->valid) & lanes);
}

/* Reads a source of a plain instruction. Sets *rows to its registers, or to `tmp` with the constant
 * in every lane. Returns the lanes in which it is defined. */
static inline uint64_t fetch_plain(const struct wave *w, const struct opnd *o, uint32_t *tmp,
                                   const uint32_t **rows)
{
    *rows = tmp;
    if (o->kind == OPND_VGPR || o->kind == OPND_AGPR) {
        const bool a = o->kind == OPND_AGPR;
        const uint64_t *valid = (a ? w->a_valid : w->v_valid) + o->reg;
        *rows = a ? w->a[o->reg] : w->v[o->reg];
        return valid[0] & valid[o->dwords - 1];
    }
    if (o->kind == OPND_IMM) {
        broadcast((uint32_t)o->imm, tmp);
        if (o->dwords == 2)
            broadcast((uint32_t)(o->imm >> 32), tmp + WAVE_LANES);
        return UINT64_MAX;
    }
    const uint32_t *valid = w->s_valid + o->reg;
    if (o->type == T_MASK)
        mask_to_row(sgpr_read64(w, o->reg), tmp);
    else
        broadcast(w->sgpr[o->reg], tmp);
    if (o->type != T_MASK && o->dwords == 2)
        broadcast(w->sgpr[o->reg + 1], tmp + WAVE_LANES);
    return (valid[0] & valid[o->dwords - 1]) == UINT32_MAX ? UINT64_MAX : 0;
}

/* Calls the kernel of a plain instruction and writes its vector registers. */
static inline void write_plain(struct wave *w, struct lanes *x)
{
    const struct inst *in = x->in;
    alignas(64) uint32_t out[2 * WAVE_LANES];
    uint32_t *dst = dst_rows(w, &in->dst);
    uint64_t *valid = (in->dst.kind == OPND_VGPR ? w->v_valid : w->a_valid) + in->dst.reg;

    x->d = in->plain_aside ? out : dst;
    call_kernel(x);
    if (in->plain_aside)
        memcpy(dst, out, in->dst.dwords * WAVE_LANES * sizeof(*dst));
    valid[0] = valid[in->dst.dwords - 1] = UINT64_MAX;
}

/* Executes a plain instruction if all lanes are active and all sources are defined. False if that
 * is not so; nothing is written then. */
static bool execute_plain(struct wave *w, const struct inst *in)
{
    alignas(64) uint32_t tmp[3][2 * WAVE_LANES];
    uint64_t valid = sgpr_valid64(w, SGPR_EXEC) & wave_exec(w);
    struct lanes x = {.w = w, .in = in, .exec = UINT64_MAX};

    if ((in->plain_mode & ~w->mode) || in->plain_packs || valid != UINT64_MAX)
        return false;
    for (unsigned k = 0; k < in->nsrc; k++) {
        valid &= fetch_plain(w, &in->src[k], tmp[k], &x.s[k]);
        if (in->form & FORM_SRC_MODS && (in->src[k].neg || in->src[k].abs)) {
            sign_rows(&in->src[k], x.s[k], tmp[k]);
            x.s[k] = tmp[k];
        }
    }
    if (valid != UINT64_MAX)
        return false;
    if (in->dst.kind != OPND_SGPR) {
        write_plain(w, &x);
        return true;
    }
    alignas(64) uint32_t mask[WAVE_LANES];
    x.d = mask;
    call_kernel(&x);
    finish_mask(w, in, mask, UINT64_MAX, UINT64_MAX);
    return true;
}

/* Executes any instruction with a lane kernel. */
static __attribute__((noinline)) void execute_any(struct wave *w, const struct inst *in)
{
    const struct op_row *row = in->row;
    struct source_rows rows;
    alignas(64) uint32_t second[WAVE_LANES];
    struct lanes x = {.w = w, .in = in, .exec = wave_exec(w), .d2 = second};
    const struct fetched f = fetch_sources(&x, &rows);
    const bool undefined = f.lanes & ~f.valid;
    const bool packed = undefined && row->dst == T_PKF32 && row->src[0] == T_PKF32;
    const bool converted = undefined && converts_vector(row->flags);
    uint64_t part[MAX_DST_ROWS];

    if (in->dst.kind == OPND_SGPR) { /* a compare: the result is a mask */
        alignas(64) uint32_t mask[WAVE_LANES];
        x.d = mask;
        call_kernel(&x);
        finish_mask(w, in, mask, f.lanes, f.valid);
        return;
    }
    if (__builtin_expect(packed, 0))
        packed_valid(w, in, f.valid_of, part);
    if (__builtin_expect(converted, 0))
        converted_valid(w, in, f.valid_of, part);
    write_result(w, &x, &f);
    track_validity(w, in, &f, packed || converted ? part : NULL);
    if (in->dst2.kind != OPND_NONE)
        finish_mask(w, in, second, f.lanes, f.valid);
}

void LOCAL(exec_lanes)(struct wave *w, const struct inst *in)
{
    if (!in->plain || !execute_plain(w, in))
        execute_any(w, in);
}

/* Copies an operand of one or two registers from `from` to `to`, with its denormals flushed. */
static inline void flush_operand(uint16_t type, const uint32_t *from, uint32_t *to)
{
    if (type != T_F32) {
        flush_rows(type, from, to);
        return;
    }
    EACH_LANE to[i] = from[i] & 0x7f800000 ? from[i] : from[i] & 0x80000000;
}

/* Applies abs, neg and op_sel of a plain instruction to its sources x->s, and flushes their
 * denormals. Points x->s to the changed rows in `tmp`. */
static inline void prepare_defined(struct lanes *x, uint32_t (*tmp)[2 * WAVE_LANES])
{
    const struct inst *in = x->in;
    const bool flushing = in->plain_mode & ~x->w->mode;
    for (unsigned k = 0; k < in->nsrc; k++) {
        const struct opnd *o = &in->src[k];
        if (in->plain_packs && is_packed(o->type)) {
            x->s[k] = pack_rows(in, k, x->s[k], tmp[k]);
        } else if (in->form & FORM_SRC_MODS && (o->neg || o->abs)) {
            sign_rows(o, x->s[k], tmp[k]);
            x->s[k] = tmp[k];
        }
        if (flushing && flushes(x->w, o->type, 0)) {
            flush_operand(o->type, x->s[k], tmp[k]);
            x->s[k] = tmp[k];
        }
    }
}

/* Executes a plain vector instruction of straight-line code, where all sources are defined and all
 * lanes enabled. */
static inline void execute_defined(struct wave *w, const struct inst *in)
{
    alignas(64) uint32_t tmp[3][2 * WAVE_LANES];
    alignas(64) uint32_t out[2 * WAVE_LANES];
    struct lanes x = {.w = w, .in = in, .exec = UINT64_MAX};
    const bool flushing = in->plain_mode & ~w->mode;

    for (unsigned k = 0; k < in->nsrc; k++)
        fetch_plain(w, &in->src[k], tmp[k], &x.s[k]);
    if (flushing || in->plain_packs || in->form & FORM_SRC_MODS)
        prepare_defined(&x, tmp);
    if (in->dst.kind == OPND_SGPR) {
        x.d = out;
        call_kernel(&x);
        finish_mask(w, in, out, UINT64_MAX, UINT64_MAX);
    } else {
        write_plain(w, &x);
        if (flushing && flushes(w, in->row->dst, 1))
            flush_operand(in->row->dst, dst_rows(w, &in->dst), dst_rows(w, &in->dst));
    }
}

void LOCAL(exec_straight)(struct wave *w, const struct inst *const *in, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        if (in[i]->plain)
            execute_defined(w, in[i]);
        else
            in[i]->exec(w, in[i]);
    }
}
