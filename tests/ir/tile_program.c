/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes and runs the programs on tiles of tile_program.h.
 */
#include "ir/interp.h"
#include "ir/spread.h"
#include "tests/ir/tile_program.h"

uint8_t tile_in[BYTES], tile_out[BYTES];

const unsigned tile_dtypes[TILE_DTYPES] = {TIR_I8, TIR_FP8, TIR_I16, TIR_BF16, TIR_F32};

struct tir_layout tile_layout(unsigned order)
{
    uint32_t images[4] = {TIR_RC(0, 1), TIR_RC(0, 2), TIR_RC(1, 0), TIR_RC(2, 0)};
    struct tir_layout l = {
        .reg_bits = 4,
        .lane_bits = 6,
        .basis = {[4] = TIR_RC(0, 4),
                  TIR_RC(0, 8),
                  TIR_RC(0, 16),
                  TIR_RC(0, 32),
                  TIR_RC(4, 0),
                  TIR_RC(8, 0)},
    };
    for (unsigned i = 0; i < 4; i++) {
        const unsigned pick = i + order % (4 - i);
        order /= 4 - i;
        l.basis[i] = images[pick];
        images[pick] = images[i];
    }
    return l;
}

struct tile_program tile_program(void)
{
    struct tile_program p = {.f = tir_func_create("k", &test_machine, 1)};
    assert_non_null(p.f);
    p.b = tir_at_end(p.f, p.f->body);
    p.in = tir_arg(&p.b, "in", TIR_I64);
    p.out = tir_arg(&p.b, "out", TIR_I64);
    return p;
}

struct tir_view tile_view(struct tile_program *p, struct tir_value base, int size)
{
    return (struct tir_view){tir_make_rsrc(&p->b, base, tir_i32(&p->b, BYTES)),
                             tir_i32(&p->b, COLS * size), tir_i32(&p->b, 0)};
}

int tile_element(unsigned dtype) { return (int)tir_dtype_bits(dtype) / 8; }

struct tir_value tile_load(struct tile_program *p, struct tir_type t)
{
    return tir_tile_load(&p->b, tile_view(p, p->in, tile_element(t.dtype)), tir_i32(&p->b, 0), t);
}

void tile_keep(struct tile_program *p, struct tir_value tile)
{
    const struct tir_type t = tir_typeof(p->f, tile);
    struct tir_view to = tile_view(p, p->out, tile_element(t.dtype));
    to.byte = tir_i32(&p->b, p->written);
    tir_tile_store(&p->b, to, tir_i32(&p->b, 0), tile);
    p->written += t.rows * t.cols * tile_element(t.dtype);
}

void tile_interpret(struct tir_func *f, uint8_t *out)
{
    const uint64_t kernarg[] = {(uintptr_t)tile_in, (uintptr_t)out};
    interpret_once(f, "building", kernarg, 2, BYTES);
}

void tile_run(struct tile_program *p)
{
    static uint8_t lowered[BYTES];
    assert_true(p->written <= BYTES);
    tir_return(&p->b);
    tile_interpret(p->f, tile_out);
    tir_lower_tiles(p->f, &(struct tir_schedule){0});
    tile_interpret(p->f, lowered);
    for (int i = 0; i < BYTES; i++)
        if (tile_out[i] != lowered[i])
            fail_msg("byte %d is %02x as a tile and %02x in registers", i, tile_out[i], lowered[i]);
    tir_func_destroy(p->f);
}

int tile_fill(void **state)
{
    (void)state;
    for (int i = 0; i < BYTES; i++)
        tile_in[i] = (uint8_t)(i ^ i >> 8);
    return 0;
}

struct tile_program tile_begin(unsigned dtype, unsigned order, struct tir_type *t)
{
    struct tile_program p = tile_program();
    const struct tir_layout l = tile_layout(order);
    *t = tir_tile(p.f, dtype, ROWS, COLS, &l);
    return p;
}
