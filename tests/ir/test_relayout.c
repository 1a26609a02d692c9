/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests every kind of change between random layouts. A tile is loaded in one layout, changed, and
 * stored in the other. Memory must be the same, in the interpreter at both levels of the IR.
 */
#include "ir/interp.h"
#include "ir/spread.h"
#include "tests/ir/fixture.h"

enum { MAX_BYTES = 64 * 1024, ROUNDS = 150 };

static uint8_t in[MAX_BYTES], out[MAX_BYTES];
static uint32_t random_state = 2463534242;

static uint32_t random_below(uint32_t n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return random_state % n;
}

static int fill(void **state)
{
    (void)state;
    for (int i = 0; i < MAX_BYTES; i++)
        in[i] = (uint8_t)(i * 31 ^ i >> 8);
    return 0;
}

/* The shape of a test's tiles. */
struct shape {
    unsigned row_bits, col_bits, wave_bits, reg_bits;
};

static struct tir_machine plain; /* the test machine without lane swaps */

/* Returns a layout with bits dealt at random to registers, lanes and waves, some of them combined.
 * If there are more inputs than bits, some inputs repeat elements. */
static struct tir_layout random_layout(const struct shape *s, bool mixed)
{
    const unsigned n = s->row_bits + s->col_bits;
    uint32_t image[TIR_LAYOUT_MAX_BITS] = {0};
    struct tir_layout l = {
        .reg_bits = (uint8_t)s->reg_bits, .lane_bits = 6, .wave_bits = (uint8_t)s->wave_bits};
    for (unsigned i = 0; i < n; i++)
        image[i] = i < s->row_bits ? TIR_RC(1u << i, 0) : TIR_RC(0, 1u << (i - s->row_bits));
    for (unsigned i = 0; mixed && i + 1 < n; i++) /* triangular: still a bijection */
        if (random_below(3) == 0)
            image[i] ^= image[i + 1 + random_below(n - i - 1)];
    const unsigned places = (unsigned)tir_layout_bits(&l);
    assert_true(places >= n);
    for (unsigned i = 0; i < places; i++) {
        const unsigned k = i + random_below(places - i);
        l.basis[i] = image[k];
        image[k] = image[i];
    }
    return l;
}

struct program {
    struct tir_func *f;
    struct tir_builder b;
    struct tir_value from, to;
    struct tir_layout layouts[2];
};

static struct tir_view view(struct program *p, struct tir_value base, unsigned cols, int size)
{
    return (struct tir_view){tir_make_rsrc(&p->b, base, tir_i32(&p->b, MAX_BYTES)),
                             tir_i32(&p->b, (int)cols * size), tir_i32(&p->b, 0)};
}

static struct program begin(const struct tir_machine *m, const struct shape *s)
{
    struct program p = {.f = tir_func_create("k", m, 1u << s->wave_bits)};
    p.b = tir_at_end(p.f, p.f->body);
    p.from = tir_arg(&p.b, "in", TIR_I64);
    p.to = tir_arg(&p.b, "out", TIR_I64);
    return p;
}

static void interpret(struct tir_func *f, const char *when)
{
    const uint64_t kernarg[] = {(uintptr_t)in, (uintptr_t)out};
    interpret_once(f, when, kernarg, 2, sizeof(out));
}

/* Loads a tile, changes its layout and stores it. For truth values, an odd number means true. */
static void copy_by_relayout(struct program *p, const struct shape *s, unsigned dtype)
{
    const bool truth = dtype == TIR_I1;
    const unsigned memory = truth ? TIR_I32 : dtype;
    const unsigned rows = 1u << s->row_bits, cols = 1u << s->col_bits;
    const int size = (int)tir_dtype_bits(memory) / 8;
    const struct tir_type t = tir_tile(p->f, memory, rows, cols, &p->layouts[0]);
    struct tir_builder *b = &p->b;
    struct tir_value v = tir_tile_load(b, view(p, p->from, cols, size), tir_i32(b, 0), t);
    if (truth)
        v = tir_cmp_ne(b, tir_and(b, v, tir_int_like(b, v, 1)), tir_int_like(b, v, 0));
    v = tir_relayout(b, v, &p->layouts[1]);
    if (truth)
        v = tir_zext(b, v, TIR_I32);
    tir_tile_store(b, view(p, p->to, cols, size), tir_i32(b, 0), v);
    tir_return(b);
}

static void check_copied(const struct shape *s, unsigned dtype, const char *when)
{
    const unsigned bits = dtype == TIR_I1 ? 32 : tir_dtype_bits(dtype);
    const size_t n = ((size_t)1 << (s->row_bits + s->col_bits)) * bits / 8;
    for (size_t i = 0; i < n; i++) {
        const uint8_t want = dtype != TIR_I1 ? in[i] : (uint8_t)(i % 4 ? 0 : in[i] & 1);
        if (out[i] != want)
            fail_msg("%s: byte %zu of %ux%u of %u bits is %02x, not %02x", when, i,
                     1u << s->row_bits, 1u << s->col_bits, bits, out[i], want);
    }
}

static void check_round(const struct tir_machine *m, const struct shape *s, unsigned dtype,
                        bool mixed)
{
    struct program p = begin(m, s);
    p.layouts[0] = random_layout(s, mixed);
    p.layouts[1] = random_layout(s, mixed);
    copy_by_relayout(&p, s, dtype);
    interpret(p.f, "as a tile");
    check_copied(s, dtype, "as a tile");
    tir_lower_tiles(p.f, &(struct tir_schedule){0});
    interpret(p.f, "in registers");
    check_copied(s, dtype, "in registers");
    tir_func_destroy(p.f);
}

static const unsigned dtypes[] = {TIR_I1, TIR_I8, TIR_BF16, TIR_F32, TIR_I64};

TEST(every_element_arrives)
{
    plain = test_machine;
    plain.has_lane_swap = false;
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct shape s = {.wave_bits = random_below(3), .reg_bits = random_below(5)};
        const unsigned n = s.reg_bits + 6 + s.wave_bits;
        s.row_bits = random_below(n + 1);
        s.col_bits = n - s.row_bits;
        check_round(i % 2 ? &test_machine : &plain, &s, dtypes[i % 5], i % 3 == 0);
    }
}

/* Changes within a wave: the test also checks the kind of the moves. */
TEST(every_element_arrives_within_a_wave)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct shape s = {.reg_bits = random_below(5)};
        const unsigned n = s.reg_bits + 6;
        s.row_bits = random_below(n + 1);
        s.col_bits = n - s.row_bits;
        check_round(i % 2 ? &test_machine : &plain, &s, dtypes[i % 5], i % 3 == 0);
    }
}

TEST(elements_that_lanes_repeat_arrive)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct shape s = {.wave_bits = random_below(2), .reg_bits = random_below(4)};
        const unsigned n = s.reg_bits + 6 + s.wave_bits, spare = 1 + random_below(n < 4 ? n : 4);
        s.row_bits = random_below(n - spare + 1);
        s.col_bits = n - spare - s.row_bits;
        check_round(i % 2 ? &test_machine : &plain, &s, dtypes[i % 5], i % 3 == 0);
    }
}

static unsigned count(const struct tir_func *f, enum tir_opcode o)
{
    unsigned n = 0;
    for (uint32_t i = 0; i < f->body->n_ops; i++)
        n += tir_op(f, f->body->ops[i])->opcode == o;
    return n;
}

/* If a register bit and lane bit 4 or 5 are exchanged, one v_permlane*_swap serves two
   registers. */
TEST(halves_are_swapped_by_one_instruction)
{
    for (unsigned bit = 4; bit < 6; bit++) {
        const struct shape s = {.reg_bits = 2, .row_bits = 2, .col_bits = 6};
        struct program p = begin(&test_machine, &s);
        struct tir_spread own = tir_spread(&test_machine, 1);
        tir_spread_rows(&own, TIR_REGS, 2);
        tir_spread_cols(&own, TIR_LANES, 6);
        p.layouts[0] = p.layouts[1] = tir_spread_layout(&own);
        p.layouts[1].basis[1] = p.layouts[0].basis[2 + bit];
        p.layouts[1].basis[2 + bit] = p.layouts[0].basis[1];
        copy_by_relayout(&p, &s, TIR_F32);
        tir_lower_tiles(p.f, &(struct tir_schedule){0});
        assert_int_equal(count(p.f, TIR_lane_swap), 4);
        assert_int_equal(count(p.f, TIR_select) + count(p.f, TIR_lane_gather), 0);
        interpret(p.f, "in registers");
        check_copied(&s, TIR_F32, "in registers");
        tir_func_destroy(p.f);
    }
}

/* Rows and columns are reduced over several waves; each wave has a part of them. */
TEST(waves_reduce_together)
{
    static float tiles[MAX_BYTES / 4];
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct shape s = {.wave_bits = 1 + random_below(2), .reg_bits = random_below(4)};
        const unsigned n = s.reg_bits + 6 + s.wave_bits;
        s.row_bits = 1 + random_below(n - 1);
        s.col_bits = n - s.row_bits;
        const unsigned rows = 1u << s.row_bits, cols = 1u << s.col_bits;
        struct program p = begin(i % 2 ? &test_machine : &plain, &s);
        struct tir_builder *b = &p.b;
        p.layouts[0] = random_layout(&s, false);
        const struct tir_type t = tir_tile(p.f, TIR_I32, rows, cols, &p.layouts[0]);
        const struct tir_value a = tir_tile_load(b, view(&p, p.from, cols, 4), tir_i32(b, 0), t);
        const struct tir_value top = tir_broadcast(b, tir_col_max(b, a), t);
        const struct tir_value sum = tir_broadcast(b, tir_row_sum(b, a), t);
        tir_tile_store(b, view(&p, p.to, cols, 4), tir_i32(b, 0), tir_sub(b, sum, top));
        tir_return(b);
        interpret(p.f, "as a tile");
        memcpy(tiles, out, sizeof(out));
        tir_lower_tiles(p.f, &(struct tir_schedule){0});
        interpret(p.f, "in registers");
        assert_memory_equal(tiles, out, sizeof(out));
        tir_func_destroy(p.f);
    }
}

/* A pipelined loop has barriers only at its own places. */
TEST(pipelined_ops_do_not_cross_waves)
{
    const struct shape s = {.reg_bits = 0, .wave_bits = 1, .row_bits = 1, .col_bits = 6};
    struct program p = begin(&test_machine, &s);
    struct tir_spread own = tir_spread(&test_machine, 2);
    tir_spread_cols(&own, TIR_LANES, 6);
    tir_spread_rows(&own, TIR_WAVES, 1);
    p.layouts[0] = p.layouts[1] = tir_spread_layout(&own);
    p.layouts[1].basis[6] = p.layouts[0].basis[0];
    p.layouts[1].basis[0] = p.layouts[0].basis[6];
    p.b.stage = 1;
    copy_by_relayout(&p, &s, TIR_F32);
    char *const text = findings(p.f);
    assert_non_null(strstr(text, "crosses waves, with barriers, inside of a pipelined loop"));
    free(text);
    tir_func_destroy(p.f);
}

int main(void) { return run_unit_tests_after(fill); }
