/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the scaled products of gfx950 in the interpreter, at both levels of the IR, against sums in
 * double precision. Formats are the OCP's e4m3 and pairs of e2m1. Scales are of blocks or of a
 * whole operand.
 */
#include <math.h>

#include "ir/interp.h"
#include "ir/matrix.h"
#include "targets/tgt.h"
#include "tests/ir/fixture.h"

enum { SIDE = 64, DEPTH = 256, BLOCKS = DEPTH / 32, MAX_BYTES = 4 * SIDE * DEPTH };

static uint8_t a_in[SIDE * DEPTH], b_in[SIDE * DEPTH];
static uint8_t a_scales[SIDE * BLOCKS], b_scales[SIDE * BLOCKS];
static float out[SIDE * SIDE];

static uint32_t state_of_random = 1;

static uint32_t random_bits(void)
{
    state_of_random = state_of_random * 1664525 + 1013904223;
    return state_of_random >> 16;
}

static int fill(void **state)
{
    (void)state;
    for (int i = 0; i < SIDE * DEPTH; i++) {
        const uint32_t e4m3 = random_bits() & 255;
        a_in[i] = (uint8_t)((e4m3 & 127) == 127 ? 0 : e4m3);
        b_in[i] = random_bits() & 0xf7; /* no NaN of e4m3 */
    }
    for (int i = 0; i < SIDE * BLOCKS; i++) {
        a_scales[i] = (uint8_t)(120 + random_bits() % 15);
        b_scales[i] = (uint8_t)(120 + random_bits() % 15);
    }
    a_scales[5] = 255;
    return 0;
}

static double e4m3(unsigned code)
{
    const int e = code >> 3 & 15, m = code & 7;
    const double v = e ? ldexp(8 + m, e - 10) : ldexp(m, -9);
    return code & 128 ? -v : v;
}

static double e2m1(unsigned code)
{
    const int e = code >> 1 & 3, m = code & 1;
    const double v = e ? ldexp(2 + m, e - 2) : 0.5 * m;
    return code & 8 ? -v : v;
}

static double e8m0(unsigned code) { return code == 255 ? NAN : ldexp(1, (int)code - 127); }

/* One product: how its operands are held, and their formats. */
struct product {
    const struct tir_mma *mma;
    int instr;
    bool pairs;                     /* B is e2m1 */
    bool left_blocks, right_blocks; /* scales of blocks; false: whole[] */
    int whole[2];                   /* scale of the left and the right operand, in the low byte */
    bool swapped;                   /* the blocks of k are in another order in registers */
    struct tir_waves waves;
};

static double expected(const struct product *p, unsigned i, unsigned j, double *size)
{
    double sum = 0;
    *size = 0;
    for (unsigned k = 0; k < DEPTH; k++) {
        const double sa = e8m0(p->left_blocks ? a_scales[i * BLOCKS + k / 32] : p->whole[0] & 255);
        const double sb = e8m0(p->right_blocks ? b_scales[j * BLOCKS + k / 32] : p->whole[1] & 255);
        const double b = p->pairs ? e2m1(b_in[j * (DEPTH / 2) + k / 2] >> (4 * (k % 2)) & 15)
                                  : e4m3(b_in[j * DEPTH + k]);
        const double term = e4m3(a_in[i * DEPTH + k]) * sa * b * sb;
        sum += term;
        *size += fabs(term);
    }
    return sum;
}

static struct tir_value load(struct tir_builder *b, const char *arg, struct tir_type t)
{
    const struct tir_value rsrc = tir_make_rsrc(b, tir_arg(b, arg, TIR_I64), tir_i32(b, MAX_BYTES));
    const struct tir_view view = {rsrc, tir_i32(b, (int)t.cols), tir_i32(b, 0)};
    return tir_tile_load(b, view, tir_i32(b, 0), t);
}

/* Returns the instruction's own order of k, or one with its last block and the registers' first
 * exchanged. */
static struct tir_contraction contraction(const struct product *p, bool right)
{
    struct tir_contraction k = tir_contract_instruction(p->mma, right, DEPTH);
    const unsigned own = (right ? p->mma->b : p->mma->a).reg_bits;
    uint16_t *const last = right && p->pairs ? &k.lane[k.n_lane - 1] : &k.reg[own - 1];
    if (p->swapped) {
        const uint16_t further = k.reg[own];
        k.reg[own] = *last;
        *last = further;
    }
    return k;
}

static struct tir_value scale_of(struct tir_builder *b, const struct product *p, bool right,
                                 const struct tir_layout *operand)
{
    if (!(right ? p->right_blocks : p->left_blocks))
        return tir_i32(b, p->whole[right]);
    struct tir_layout l;
    assert_true(tir_mma_scales(p->mma, right, operand, &l));
    const struct tir_value s =
        load(b, right ? "b_scales" : "a_scales", tir_tile(b->f, TIR_I8, SIDE, BLOCKS, &l));
    return right ? tir_transpose(b, s) : s;
}

static struct tir_func *program(const struct product *p)
{
    static const char *const args[] = {"a", "b", "a_scales", "b_scales", "out"};
    const struct tir_waves w = p->waves;
    struct tir_func *const f =
        tir_func_create("k", &tgt_find("gfx950")->machine, 1u << (w.rows + w.cols));
    struct tir_builder b = tir_at_end(f, f->body);
    for (int i = 0; i < 5; i++)
        tir_arg(&b, args[i], TIR_I64);
    const struct tir_contraction left = contraction(p, false), right = contraction(p, true);
    const struct tir_layout al = tir_mma_left(p->mma, SIDE, &left, w);
    const struct tir_layout bl = tir_mma_right(p->mma, SIDE, &right, w);
    const struct tir_layout dl = tir_mma_result(p->mma, SIDE, SIDE, w);
    const struct tir_value a = load(&b, "a", tir_tile(f, TIR_FP8, SIDE, DEPTH, &al));
    const struct tir_value c = load(&b, "b",
                                    p->pairs ? tir_tile(f, TIR_I8, SIDE, DEPTH / 2, &bl)
                                             : tir_tile(f, TIR_FP8, SIDE, DEPTH, &bl));
    const struct tir_value zero =
        tir_splat(&b, tir_f32(&b, 0), tir_tile(f, TIR_F32, SIDE, SIDE, &dl));
    const struct tir_value d =
        tir_mma_scaled(&b, p->instr, a, tir_transpose(&b, c), zero, scale_of(&b, p, false, &al),
                       scale_of(&b, p, true, &bl));
    const struct tir_value rsrc =
        tir_make_rsrc(&b, tir_arg(&b, "out", TIR_I64), tir_i32(&b, MAX_BYTES));
    tir_tile_store(&b, (struct tir_view){rsrc, tir_i32(&b, SIDE * 4), tir_i32(&b, 0)},
                   tir_i32(&b, 0), d);
    tir_return(&b);
    return f;
}

static void interpret(struct tir_func *f)
{
    const uint64_t kernarg[] = {(uintptr_t)a_in, (uintptr_t)b_in, (uintptr_t)a_scales,
                                (uintptr_t)b_scales, (uintptr_t)out};
    interpret_once(f, "building", kernarg, 5, sizeof(out));
}

static void check(const struct product *p)
{
    struct tir_func *const f = program(p);
    for (int lowered = 0; lowered < 2; lowered++) {
        if (lowered)
            tir_lower_tiles(f, &(struct tir_schedule){0});
        interpret(f);
        for (unsigned i = 0; i < SIDE; i++)
            for (unsigned j = 0; j < SIDE; j++) {
                double size;
                const double want = expected(p, i, j, &size), have = out[i * SIDE + j];
                if (isnan(want) ? !isnan(have) : !(fabs(have - want) <= size * DEPTH * 0x1p-24))
                    fail_msg("%s, level %d: [%u][%u] is %g, not %g", p->mma->name, lowered, i, j,
                             have, want);
            }
    }
    tir_func_destroy(f);
}

static struct product product_of(unsigned side, bool pairs)
{
    const struct tir_machine *const m = &tgt_find("gfx950")->machine;
    struct product p = {.pairs = pairs, .left_blocks = true, .right_blocks = true};
    p.instr = tir_find_mma_scaled(m, side, side, TIR_MX_E4M3, pairs ? TIR_MX_E2M1 : TIR_MX_E4M3);
    assert_true(p.instr >= 0);
    p.mma = &m->mma[p.instr];
    return p;
}

TEST(blocks_of_k_have_their_scales)
{
    for (unsigned side = 16; side <= 32; side *= 2)
        for (int pairs = 0; pairs < 2; pairs++)
            for (int swapped = 0; swapped < 2; swapped++) {
                struct product p = product_of(side, pairs);
                p.swapped = swapped;
                check(&p);
                p.waves = (struct tir_waves){.rows = 1, .cols = 1};
                check(&p);
            }
}

/* The scale is 2^-9, from which a kernel with f16 makes its products. The low byte of -9 is 247. */
TEST(an_operand_may_have_one_scale)
{
    static const int scales[][2] = {{118, 127}, {-9, 6}, {127, 118}};
    for (int i = 0; i < 3; i++) {
        struct product p = product_of(32, false);
        p.left_blocks = p.right_blocks = false;
        memcpy(p.whole, scales[i], sizeof(p.whole));
        check(&p);
    }
    struct product p = product_of(32, true);
    p.left_blocks = false;
    p.whole[0] = 127;
    check(&p);
}

static struct tir_op *product_op(struct tir_func *f, unsigned opcode)
{
    for (uint32_t i = 0; i < f->body->n_ops; i++)
        if (tir_op(f, f->body->ops[i])->opcode == opcode)
            return tir_op(f, f->body->ops[i]);
    fail_msg("no %s", tir_ops[opcode].name);
    return NULL;
}

static void check_text(struct tir_func *f, const char *finding)
{
    char *const text = findings(f);
    if (!strstr(text, finding))
        fail_msg("no \"%s\" in: %s", finding, text);
    free(text);
}

TEST(scales_elsewhere_are_refused)
{
    struct product p = product_of(32, true), plain = product_of(32, true);
    plain.left_blocks = plain.right_blocks = false;
    plain.whole[0] = plain.whole[1] = 127;
    for (unsigned operand = 3; operand < 5; operand++) {
        char text[64];
        struct tir_func *f = program(&p);
        struct tir_op *op = product_op(f, TIR_mma_scaled);
        op->operands[operand] = op->operands[7 - operand]; /* the other operand's scale */
        snprintf(text, sizeof(text), "operand %u is not laid out for", operand);
        check_text(f, text);
        tir_func_destroy(f);
        f = program(&plain);
        op = product_op(f, TIR_mma_scaled);
        op->operands[operand] = product_op(f, TIR_arg)->result; /* an i64 */
        snprintf(text, sizeof(text), "operand %u is neither a scalar i32 nor a tile", operand);
        check_text(f, text);
        tir_func_destroy(f);
    }
}

TEST(an_instruction_takes_bytes_that_there_are)
{
    struct product p = product_of(32, true);
    p.left_blocks = false;
    struct tir_func *const f = program(&p);
    tir_lower_tiles(f, &(struct tir_schedule){0});
    struct tir_op *const op = product_op(f, TIR_mfma_scaled);
    assert_int_equal(tir_typeof(f, op->operands[4]).count, 4);
    op->imm[2] = 4;
    check_text(f, "the scale has no byte 4");
    op->imm[2] = 3;
    op->operands[3] = op->operands[0];
    check_text(f, "a scale is a scalar i32, or 1, 2 or 4 i8 a lane");
    tir_func_destroy(f);
}

TEST(instructions_with_scales_are_for_products_with_scales)
{
    const struct product p = product_of(32, true);
    struct tir_func *const f = program(&p);
    struct tir_op *const op = product_op(f, TIR_mma_scaled);
    op->imm[0] = tir_find_mma(f->machine, 32, 32, 64, TIR_FP8);
    assert_true(op->imm[0] >= 0);
    check_text(f, "mfma_f32_32x32x64_f8f6f4 has no scales");
    op->opcode = TIR_mma;
    op->n_operands = 3;
    op->imm[0] = p.instr;
    check_text(f, "mfma_scale_f32_32x32x64_f8f6f4 blgp:4 takes scales");
    tir_func_destroy(f);
}

/* Both elements of a pair stay together, so A cannot have another order of k within a pair. */
TEST(pairs_stay_together)
{
    const struct product p = product_of(32, true);
    const struct tir_contraction left = contraction(&p, false), right = contraction(&p, true);
    struct tir_layout a = tir_mma_left(p.mma, 32, &left, (struct tir_waves){0}), scales;
    const struct tir_layout b = tir_mma_right(p.mma, 32, &right, (struct tir_waves){0});
    uint32_t of_a[TIR_MAX_K_BITS], of_b[TIR_MAX_K_BITS];
    assert_int_equal(tir_mma_contraction(p.mma, false, &a, of_a), 8);
    assert_int_equal(tir_mma_contraction(p.mma, true, &b, of_b), 8);
    assert_memory_equal(of_a, of_b, 8 * sizeof(of_a[0]));
    assert_true(tir_mma_scales(p.mma, false, &a, &scales));
    const uint32_t first = a.basis[0];
    a.basis[0] = a.basis[5]; /* k 1 and 64 are exchanged */
    a.basis[5] = first;
    assert_int_equal(tir_mma_contraction(p.mma, false, &a, of_a), 8);
    assert_int_not_equal(of_a[0], of_b[0]);
    assert_false(tir_mma_scales(p.mma, false, &a, &scales));
}

/* A machine has products of unequal sides, and one argument apart from each other. */
TEST(products_are_found_by_every_argument)
{
    enum { ROWS = 6 };
    static const struct tir_mma rows[ROWS] = {
        {.m = 32, .n = 16, .k = 8, .in_dtype = TIR_F16},
        {.m = 16, .n = 32, .k = 8, .in_dtype = TIR_F16},
        {.m = 16, .n = 32, .k = 4, .in_dtype = TIR_F16, .by_k = true},
        {.m = 16, .n = 32, .scaled = true, .left_format = TIR_MX_E2M1},
        {.m = 32, .n = 16, .scaled = true, .left_format = TIR_MX_E2M1},
        {.m = 32, .n = 16, .scaled = true, .right_format = TIR_MX_E2M1},
    };
    const struct tir_machine m = {.mma = rows, .n_mma = ROWS};
    assert_int_equal(tir_find_mma(&m, 32, 16, 0, TIR_F16), 0);
    assert_int_equal(tir_find_mma(&m, 16, 32, 0, TIR_F16), 1);
    assert_int_equal(tir_find_mma(&m, 16, 32, 4, TIR_F16), 2);
    assert_int_equal(tir_find_mma(&m, 32, 16, 4, TIR_F16), -1);
    assert_int_equal(tir_find_mma(&m, 16, 32, 8, TIR_BF16), -1);
    assert_int_equal(tir_find_mma_scaled(&m, 16, 32, TIR_MX_E2M1, TIR_MX_E4M3), 3);
    assert_int_equal(tir_find_mma_scaled(&m, 32, 16, TIR_MX_E2M1, TIR_MX_E4M3), 4);
    assert_int_equal(tir_find_mma_scaled(&m, 32, 16, TIR_MX_E4M3, TIR_MX_E2M1), 5);
    assert_int_equal(tir_find_mma_scaled(&m, 16, 32, TIR_MX_E4M3, TIR_MX_E4M3), -1);
}

int main(void) { return run_unit_tests_after(fill); }
