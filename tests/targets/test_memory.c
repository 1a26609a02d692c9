/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares kernels whose lanes exchange values, directly and through memory, with C. They run on
 * the simulator's engine.
 */
#include "tests/targets/run.h"

#include <string.h>

static const struct tir_type f32 = {.kind = TIR_VEC, .dtype = TIR_F32, .count = 1};
static const struct tir_type i32 = {.kind = TIR_VEC, .dtype = TIR_I32, .count = 1};
static const struct tir_type no_type = {0};

/* The functions from here on test moves across lanes. */

TEST(lane_xor_reaches_every_lane)
{
    for (const struct tgt *const *t = tgt_all; *t; t++) {
        const unsigned lanes = tir_lanes(&(*t)->machine), some = (lanes - 1) / 3;
        for (unsigned first = 1; first + some <= lanes; first += some) {
            static struct values v;
            struct kernel k = kernel_create((*t)->machine.name, 1, 1);
            struct tir_value a = unknown(&k, f32);
            for (unsigned mask = first; mask < first + some; mask++)
                keep(&k, make(&k, TIR_lane_xor, f32, &a, 1, mask, 0, 0));
            for (unsigned lane = 0; lane < tir_lanes(&(*t)->machine); lane++)
                v.in[0][lane].u[0] = 1000 + lane;
            compile_and_run(&k, &v, NULL, 0);
            for (unsigned mask = first; mask < first + some; mask++)
                for (unsigned lane = 0; lane < tir_lanes(&(*t)->machine); lane++)
                    assert_int_equal(v.out[mask - first][lane].u[0], 1000 + (lane ^ mask));
        }
    }
}

/* V_PERMLANE32_SWAP_B32 swaps the upper half of its first operand with the lower half of its
 * second; V_PERMLANE16_SWAP_B32 the odd rows of 16 with the even ones (CDNA4 ISA manual, VOP1). */
TEST(lane_swap_exchanges_halves)
{
    for (unsigned half = 16; half <= 32; half += 16) {
        static struct values v;
        struct kernel k = kernel_create("gfx950", 1, 1);
        struct tir_value ab[2] = {unknown(&k, i32), unknown(&k, i32)};
        keep(&k, make(&k, TIR_lane_swap, i32, ab, 2, half, 0, 0));
        keep(&k, make(&k, TIR_lane_swap, i32, ab, 2, half, 1, 0));
        for (unsigned lane = 0; lane < 64; lane++) {
            v.in[0][lane].u[0] = lane;
            v.in[1][lane].u[0] = 100 + lane;
        }
        compile_and_run(&k, &v, NULL, 0);
        for (unsigned lane = 0; lane < 64; lane++) {
            bool odd = lane & half;
            assert_int_equal(v.out[0][lane].u[0], odd ? 100 + lane - half : lane);
            assert_int_equal(v.out[1][lane].u[0], odd ? 100 + lane : lane + half);
        }
    }
}

TEST(lane_gather_reads_the_given_lane)
{
    static struct values v;
    struct kernel k = kernel_create("gfx942", 1, 1);
    struct tir_value operands[2] = {unknown(&k, i32), unknown(&k, tir_vec(TIR_F32, 2))};
    keep(&k, make(&k, TIR_lane_gather, tir_vec(TIR_F32, 2), operands, 2, 0, 0, 0));
    struct tir_value first = make(&k, TIR_first_lane, tir_scalar(TIR_I32), operands, 1, 0, 0, 0);
    keep(&k, make(&k, TIR_splat, i32, &first, 1, 0, 0, 0));
    for (unsigned lane = 0; lane < 64; lane++) {
        v.in[0][lane].u[0] = 4 * (lane * 7 + 3);
        v.in[1][lane].u[0] = lane;
        v.in[1][lane].u[1] = 100 + lane;
    }
    compile_and_run(&k, &v, NULL, 0);
    for (unsigned lane = 0; lane < 64; lane++) {
        assert_int_equal(v.out[0][lane].u[0], (lane * 7 + 3) % 64);
        assert_int_equal(v.out[0][lane].u[1], 100 + (lane * 7 + 3) % 64);
        assert_int_equal(v.out[1][lane].u[0], 12);
    }
}

/* The functions from here on test counts and sums over lanes. */

static void check_lanes(const char *target)
{
    static struct values v;
    struct kernel k = kernel_create(target, 1, 1);
    const struct tir_value a = unknown(&k, i32);
    const struct tir_value odd =
        tir_cmp_ne(&k.b, tir_and(&k.b, a, tir_int_like(&k.b, a, 1)), tir_int_like(&k.b, a, 0));
    const struct tir_value n = tir_lane_count(&k.b, odd);
    keep(&k, tir_lanes_below(&k.b, odd));
    keep(&k, tir_lane_sum_below(&k.b, a));
    keep(&k, tir_splat(&k.b, n, i32));
    keep(&k, tir_splat(&k.b, tir_lane_read(&k.b, a, tir_sub(&k.b, n, tir_i32(&k.b, 7))), i32));
    keep(&k, tir_splat(&k.b,
                       tir_convert(&k.b, tir_shr(&k.b, tir_lane_mask(&k.b, odd), tir_i64(&k.b, 30)),
                                   TIR_I32),
                       i32));
    int odds = 0, sum = 0;
    uint64_t lanes = 0;
    for (unsigned l = 0; l < 64; l++) {
        v.in[0][l].i[0] = (int)(l * l % 29) - 4;
        odds += v.in[0][l].i[0] & 1;
        lanes |= (uint64_t)(v.in[0][l].i[0] & 1) << l;
    }
    compile_and_run(&k, &v, NULL, 0);
    for (unsigned l = 0, below = 0; l < 64; l++) {
        assert_int_equal(v.out[0][l].i[0], below);
        assert_int_equal(v.out[1][l].i[0], sum);
        assert_int_equal(v.out[2][l].i[0], odds);
        assert_int_equal(v.out[3][l].i[0], v.in[0][odds - 7].i[0]);
        assert_int_equal(v.out[4][l].i[0], (int32_t)(lanes >> 30));
        below += v.in[0][l].i[0] & 1;
        sum += v.in[0][l].i[0];
    }
}

TEST(lanes_count_and_sum_lower_lanes)
{
    check_lanes("gfx942");
    check_lanes("gfx950");
}

/* The functions from here on test accesses to memory. */

/* Builds a histogram of 5 bins over lanes with bit 0 set. Then each lane stores to its own element
 * and reads another's. */
TEST(lds_elements_have_addresses_of_their_own)
{
    static struct values v;
    struct kernel k = kernel_create("gfx942", 1, 1);
    k.f->lds_bytes = 512;
    struct tir_builder *b = &k.b;
    const struct tir_value a = unknown(&k, i32), lane = tir_lane_id(b);
    const struct tir_value odd =
        tir_cmp_ne(b, tir_and(b, a, tir_int_like(b, a, 1)), tir_int_like(b, a, 0));
    const struct tir_value own = tir_shl(b, lane, tir_int_like(b, lane, 2));
    const struct tir_value flip = tir_xor(b, own, tir_int_like(b, lane, 252));
    const struct tir_value bin =
        tir_shl(b, tir_rem(b, lane, tir_int_like(b, lane, 5)), tir_int_like(b, lane, 2));
    tir_lds_scatter_if(b, tir_cmp_eq(b, lane, lane), own, tir_int_like(b, lane, 100));
    tir_wait(b, TIR_LDS_ORDER, 0);
    tir_lds_add_if(b, odd, bin, a);
    tir_wait(b, TIR_LDS_WRITES, 0);
    keep(&k, tir_lds_gather(b, own, TIR_I32));
    tir_wait(b, TIR_LDS_ORDER, 0);
    tir_lds_scatter_if(b, odd, flip, a);
    tir_wait(b, TIR_LDS_WRITES, 0);
    keep(&k, tir_lds_gather(b, own, TIR_I32));
    int bins[64];
    for (unsigned l = 0; l < 64; l++) {
        v.in[0][l].i[0] = (int)(l * 7 % 31);
        bins[l] = 100;
    }
    for (unsigned l = 0; l < 64; l++)
        bins[l % 5] += v.in[0][l].i[0] & 1 ? v.in[0][l].i[0] : 0;
    compile_and_run(&k, &v, NULL, 0);
    for (unsigned l = 0; l < 64; l++) {
        const int there = v.in[0][63 - l].i[0];
        assert_int_equal(v.out[0][l].i[0], bins[l]);
        assert_int_equal(v.out[1][l].i[0], there & 1 ? there : bins[l]);
    }
}

/* After all of three arrivals the counter is as before them, so that the next three can use it. */
TEST(the_last_arrival_resets_the_counter)
{
    static const char *const targets[] = {"gfx942", "gfx950"};
    for (int t = 0; t < 2; t++) {
        static struct values v;
        struct kernel k = kernel_create(targets[t], 1, 1);
        const struct tir_value in = tir_arg(&k.b, "in", TIR_I64);
        for (int i = 0; i < 5; i++)
            keep(&k, tir_splat(&k.b, tir_arrive(&k.b, in, tir_i32(&k.b, 3)), i32));
        tir_acquire(&k.b);
        compile_and_run(&k, &v, NULL, 0);
        for (unsigned l = 0; l < 64; l++)
            for (int i = 0; i < 5; i++)
                assert_int_equal(v.out[i][l].i[0], i % 3);
    }
}

/* Every add sees a different value. An await returns at once if the counter is 0 or all have
 * arrived, and returns how many have left. If an arrival is missing, it leaves after the given
 * number of polls and is counted. */
TEST(await_sees_all_arrivals_or_leaves)
{
    enum { LEFT = 1 << 16 };
    static const char *const targets[] = {"gfx942", "gfx950"};
    for (int t = 0; t < 2; t++) {
        static struct values v;
        struct kernel k = kernel_create(targets[t], 1, 1);
        struct tir_builder *const b = &k.b;
        const struct tir_value in = tir_arg(b, "in", TIR_I64);
        const struct tir_value one = tir_i32(b, 1), three = tir_i32(b, 3);
        keep(&k, tir_splat(b, tir_await(b, in, three, 1000000000, 0), i32));
        for (int i = 0; i < 2; i++)
            keep(&k, tir_splat(b, tir_atomic_add(b, in, one, i), i32));
        for (unsigned sleep = 0; sleep < 2; sleep++)
            keep(&k, tir_splat(b, tir_await(b, in, three, 4, sleep), i32));
        keep(&k, tir_splat(b, tir_atomic_add(b, in, one, true), i32));
        keep(&k, tir_splat(b, tir_await(b, in, three, 1000000000, 2), i32));
        keep(&k, tir_splat(b, tir_atomic_add(b, in, tir_i32(b, -3 - 2 * LEFT), false), i32));
        keep(&k, tir_splat(b, tir_await(b, in, three, 1000000000, 2), i32));
        compile_and_run(&k, &v, NULL, 0);
        static const int expected[] = {0, 0, 1, -1, -1, 2 + 2 * LEFT, 2, 3 + 2 * LEFT, 0};
        for (unsigned l = 0; l < 64; l++)
            for (int i = 0; i < 9; i++)
                assert_int_equal(v.out[i][l].i[0], expected[i]);
    }
}

TEST(buffers_end_at_the_size_of_their_resource)
{
    static struct values v;
    struct kernel k = kernel_create("gfx950", 1, 1);
    struct tir_value lane = tir_lane_id(&k.b);
    struct tir_value at = tir_mul(&k.b, lane, tir_int_like(&k.b, lane, 16));
    struct tir_value in = tir_arg(&k.b, "in", TIR_I64), out = tir_arg(&k.b, "out", TIR_I64);
    struct tir_value bytes = tir_arg(&k.b, "bytes", TIR_I32), zero = tir_i32(&k.b, 0);
    struct tir_value operands[4] = {tir_make_rsrc(&k.b, in, bytes), at, zero};
    operands[3] = make(&k, TIR_buffer_load, i32, operands, 3, 4, 0, 0);
    keep(&k, operands[3]);
    operands[0] = tir_make_rsrc(&k.b, out, tir_i32(&k.b, 2048));
    operands[2] = tir_i32(&k.b, 1024 + 512);
    make(&k, TIR_buffer_store, no_type, operands, 4, 8, 0, 0);
    for (unsigned i = 0; i < 64; i++)
        v.in[0][i].u[1] = 1 + i;
    const struct setting s = {"bytes", 16 * 20 + 8};
    compile_and_run(&k, &v, &s, 1);
    for (unsigned i = 0; i < 64; i++)
        assert_int_equal(v.out[0][i].u[0], i <= 20 ? 1 + i : 0);
    for (unsigned i = 0; i < 64; i++) /* 32 lanes fit between 1536 and 2048 */
        assert_int_equal(v.out[1][i].u[2], i < 32 ? 0xaaaaaaaa : i - 32 <= 20 ? 1 + i - 32 : 0);
}

/* Lane i's bytes land at base + i * bytes, from any address in memory. */
TEST(loads_to_lds_land_in_lane_order)
{
    for (const struct tgt *const *t = tgt_all; *t; t++) {
        static struct values v;
        const unsigned bytes = tir_lane_copy(&(*t)->machine, 0)->bytes;
        struct kernel k = kernel_create((*t)->machine.name, 2, 1);
        k.f->lds_bytes = 8192;
        struct tir_value lane = tir_lane_id(&k.b), wave = tir_wave_id(&k.b);
        struct tir_value other = tir_xor(&k.b, lane, tir_int_like(&k.b, lane, 5));
        struct tir_value from = tir_mul(&k.b, other, tir_int_like(&k.b, lane, 16));
        struct tir_value base =
            tir_add(&k.b, tir_i32(&k.b, 1024), tir_mul(&k.b, wave, tir_i32(&k.b, 2048)));
        struct tir_value rsrc =
            tir_make_rsrc(&k.b, tir_arg(&k.b, "in", TIR_I64), tir_i32(&k.b, sizeof(v.in)));
        struct tir_value copy[4] = {rsrc, base, from, tir_mul(&k.b, wave, tir_i32(&k.b, 1024))};
        make(&k, TIR_buffer_to_lds, no_type, copy, 4, 0, bytes, 2048);
        make(&k, TIR_waitcnt, no_type, NULL, 0, 0, -1, 0);
        make(&k, TIR_barrier, no_type, NULL, 0, 0, 0, 0);
        struct tir_value at = tir_mul(&k.b, lane, tir_int_like(&k.b, lane, bytes));
        keep(&k, make(&k, TIR_lds_read, i32, &at, 1, 1024 + 2048, 0, 0)); /* loaded by wave 1 */
        for (unsigned i = 0; i < tir_lanes(&(*t)->machine); i++)
            v.in[3][i].u[0] = 500 + i; /* 2048 from the op and 1024 from the wave */
        compile_and_run(&k, &v, NULL, 0);
        for (unsigned i = 0; i < tir_lanes(&(*t)->machine); i++)
            assert_int_equal(v.out[0][i].u[0], 500 + (i ^ 5));
    }
}

/* Loads `bytes` from an address per lane, of 32 bits or 64 (`wide`). An offset of `both` bytes is
 * added in memory and in LDS. An earlier LDS read is waited for as if the gather were absent. */
static void check_gather(const char *target, int bytes, int both)
{
    for (unsigned wide = 0; wide < 2; wide++) {
        static struct values v;
        struct kernel k = kernel_create(target, 1, 1);
        k.f->lds_bytes = 4096;
        struct tir_value lane = tir_lane_id(&k.b), in = tir_arg(&k.b, "in", TIR_I64);
        struct tir_value at = tir_mul(&k.b, lane, tir_int_like(&k.b, lane, bytes));
        struct tir_value write[2] = {at, lane};
        make(&k, TIR_lds_write, no_type, write, 2, 0, 0, 0);
        make(&k, TIR_waitcnt, no_type, NULL, 0, -1, 0, 0);
        struct tir_value early = make(&k, TIR_lds_read, i32, &at, 1, 0, 0, 0);
        struct tir_value other = tir_xor(&k.b, lane, tir_int_like(&k.b, lane, 5));
        struct tir_value from = tir_mul(&k.b, other, tir_int_like(&k.b, lane, 16));
        if (wide)
            from = tir_convert(&k.b, from, TIR_I64);
        struct tir_value copy[3] = {tir_add(&k.b, in, tir_i64(&k.b, 3 * sizeof(v.in[0]))),
                                    tir_i32(&k.b, 1024), from};
        const int64_t imm[TIR_MAX_IMM] = {0, bytes, 2048, both};
        tir_build(&k.b, TIR_global_to_lds, no_type, copy, 3, imm);
        keep(&k, early);
        make(&k, TIR_waitcnt, no_type, NULL, 0, 0, -1, 0);
        keep(&k, make(&k, TIR_lds_read, i32, &at, 1, 1024 + 2048 + both, 0, 0));
        for (unsigned i = 0; i < 64; i++)
            v.in[3][i].u[both / 4] = 500 + i;
        compile_and_run(&k, &v, NULL, 0);
        for (unsigned i = 0; i < 64; i++) {
            assert_int_equal(v.out[0][i].u[0], i);
            assert_int_equal(v.out[1][i].u[0], 500 + (i ^ 5));
        }
    }
}

/* Gathers land in the order of lanes. */
TEST(gathers_to_lds_land_in_lane_order)
{
    check_gather("gfx950", 16, 0);
    check_gather("gfx950", 4, 8);
    check_gather("gfx942", 4, 0);
}

/* Writes the bytes of type t per lane and reads them back transposed. */
static void read_transposed(const char *target, struct values *v, struct tir_type t)
{
    struct kernel k = kernel_create(target, 1, 1);
    const int bytes = (int)(t.count * tir_dtype_bits(t.dtype) / 8);
    k.f->lds_bytes = 1024;
    struct tir_value lane = tir_lane_id(&k.b);
    struct tir_value at = tir_mul(&k.b, lane, tir_int_like(&k.b, lane, bytes));
    struct tir_value write[2] = {at, unknown(&k, t)};
    make(&k, TIR_lds_write, no_type, write, 2, 64, 0, 0);
    make(&k, TIR_wait, no_type, NULL, 0, -1, 0, 0);
    keep(&k, make(&k, TIR_lds_read_tr, t, &at, 1, 64, 0, 0));
    compile_and_run(&k, v, NULL, 0);
}

/* Within each block of 16 lanes: element e of lane l is element l mod 4 of the 8 bytes at lane 4 e
 * + l / 4 (CDNA4 ISA manual, DS_READ_B64_TR_B16). For bytes it is element l mod 8 of lane 2 e + l
 * / 8. */
TEST(transposing_read_exchanges_elements_and_lanes)
{
    static struct values v;
    for (unsigned l = 0; l < 64; l++)
        for (unsigned e = 0; e < 4; e++)
            v.in[0][l].h[e] = (uint16_t)(4 * l + e);
    read_transposed("gfx950", &v, tir_vec(TIR_BF16, 4));
    for (unsigned l = 0; l < 64; l++)
        for (unsigned e = 0; e < 4; e++) {
            unsigned source = (l & 48) + 4 * e + l % 16 / 4;
            assert_int_equal(v.out[0][l].h[e], 4 * source + l % 4);
        }
    for (unsigned l = 0; l < 64; l++)
        for (unsigned e = 0; e < 8; e++)
            v.in[0][l].b[e] = (uint8_t)(8 * l + e + (l >> 5));
    read_transposed("gfx950", &v, tir_vec(TIR_FP8, 8));
    for (unsigned l = 0; l < 64; l++)
        for (unsigned e = 0; e < 8; e++) {
            unsigned source = (l & 48) + 2 * e + l % 16 / 8;
            assert_int_equal(v.out[0][l].b[e], (uint8_t)(8 * source + l % 8 + (l >> 5)));
        }
}

/* Element e of lane l is element l mod 8 of another lane: of 16 bits, of lane e of the same 8; of 8
 * bits, of lane 8 (e / 4) + 4 (l / 8) + e mod 4 of the same 16 (CDNA5 ISA, 10.9.2 and 11.2.4). */
TEST(transposing_read_of_waves_of_32_lanes)
{
    static struct values v;
    for (unsigned l = 0; l < 32; l++)
        for (unsigned e = 0; e < 8; e++)
            v.in[0][l].h[e] = (uint16_t)(8 * l + e);
    read_transposed("gfx1250", &v, tir_vec(TIR_BF16, 8));
    for (unsigned l = 0; l < 32; l++)
        for (unsigned e = 0; e < 8; e++)
            assert_int_equal(v.out[0][l].h[e], 8 * (l / 8 * 8 + e) + l % 8);
    for (unsigned l = 0; l < 32; l++)
        for (unsigned e = 0; e < 8; e++)
            v.in[0][l].b[e] = (uint8_t)(8 * l + e);
    read_transposed("gfx1250", &v, tir_vec(TIR_FP8, 8));
    for (unsigned l = 0; l < 32; l++)
        for (unsigned e = 0; e < 8; e++) {
            const unsigned source = (l & 16) + 8 * (e / 4) + 4 * (l / 8 % 2) + e % 4;
            assert_int_equal(v.out[0][l].b[e], 8 * source + l % 8);
        }
}

int main(void) { return run_unit_tests(); }
