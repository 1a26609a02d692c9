/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests random tables of a small family. A table that the checker accepts computes what the loop
 * computes without a pipeline, after lower_pipeline has rotated it.
 *
 * The family reads a tile of words in each iteration and passes it through LDS, so that other waves
 * have its words. It makes two values of the tile, and folds both into the values that the loop
 * carries.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ir/address_map.h"
#include "ir/interp.h"
#include "ir/spread.h"
#include "ir/verify.h"
#include "targets/tgt.h"
#include "templates/pipeline/pipeline.h"
#include "templates/workgroup/scalar.h"

enum { WAVES = 2, ROWS = 16, COLS = 8, WORDS = ROWS * COLS, TILES = 9, TABLES = 20000 };
enum { S_DATA, S_WORDS, S_TWICE, S_SUM, S_STATE };
enum { N_STAGES = 5, N_PHASES = 4 };

struct toy {
    struct tir_builder b;
    const struct pipe_plan *plan;
    struct tir_type loaded, shared;
    struct tir_layout map;
    struct tir_value tile, buffer, data, words, twice, sum, state;
};

static struct tir_value place_of(struct toy *t)
{
    struct tir_builder *const b = &t->b;
    const unsigned depth = t->plan->depth[0] ? t->plan->depth[0] : 1;
    const struct tir_value n = tir_i32(b, (int)depth);
    const struct tir_value which = tir_sub(b, t->tile, tir_mul(b, tir_div(b, t->tile, n), n));
    return tir_add(b, t->buffer, att_times(b, which, 4 * WORDS));
}

static struct tir_view words_of(struct toy *t, const char *arg, struct tir_value tile)
{
    struct tir_builder *const b = &t->b;
    const struct tir_value there = tir_cmp_lt(b, tile, tir_arg(b, "batch", TIR_I32));
    const struct tir_value rows = tir_select(b, there, tir_i32(b, ROWS), tir_i32(b, 0));
    const struct tir_value base =
        tir_add(b, tir_arg(b, arg, TIR_I64), tir_zext(b, att_times(b, tile, 4 * WORDS), TIR_I64));
    return att_view(b, base, rows, tir_i32(b, 4 * COLS), 4 * COLS, 0);
}

static void build_load(void *context)
{
    struct toy *const t = context;
    t->data = tir_tile_load(&t->b, words_of(t, "q", t->tile), tir_i32(&t->b, 0), t->loaded);
}

static void build_store(void *context)
{
    struct toy *const t = context;
    tir_tile_lds_store(&t->b, place_of(t), t->data, &t->map);
}

static void build_read(void *context)
{
    struct toy *const t = context;
    t->words = tir_tile_lds_load(&t->b, place_of(t), t->shared, &t->map);
}

static void build_twice(void *context)
{
    struct toy *const t = context;
    t->twice = tir_add(&t->b, t->words, t->words);
}

static void build_sum(void *context)
{
    struct toy *const t = context;
    struct tir_builder *const b = &t->b;
    t->sum = tir_add(b, tir_mul(b, t->sum, tir_int_like(b, t->sum, 5)), t->twice);
}

/* Uses the sum of the previous tile or of this one, depending on the table's order. */
static void build_state(void *context)
{
    struct toy *const t = context;
    struct tir_builder *const b = &t->b;
    t->state = tir_add(b, tir_mul(b, t->state, tir_int_like(b, t->state, 3)),
                       tir_xor(b, t->words, t->sum));
}

static const struct pipe_op load = {"load", build_load, 0, 1u << S_DATA, .flags = 0};
static const struct pipe_op store = {"store", build_store, 1u << S_DATA, 0, .lds_writes = 1};
static const struct pipe_op read_words = {"read", build_read, 0, 1u << S_WORDS, .lds_reads = 1};
static const struct pipe_op twice = {"twice", build_twice, 1u << S_WORDS, 1u << S_TWICE,
                                     .flags = PIPE_PRODUCT};
static const struct pipe_op sum = {"sum", build_sum, 1u << S_TWICE | 1u << S_SUM, 1u << S_SUM,
                                   .flags = 0};
static const struct pipe_op state = {
    "state", build_state, 1u << S_WORDS | 1u << S_SUM | 1u << S_STATE, 1u << S_STATE, .flags = 0};

static const struct pipe_slot slots[] = {{"data", 0}, {"words", 0}, {"twice", 0},
                                         {"sum", 1},  {"state", 1}, {0}};
static const struct pipe_buffer buffers[] = {{"words", 0, .scope = PIPE_WORKGROUP}, {0}};

static uint64_t random_state = 88172645463325252u;

static unsigned random_below(unsigned n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (unsigned)(random_state >> 33) % n;
}

/* Makes a random table. Stages increase along the chain, so that many tables pass. */
static void random_table(struct pipeline *p, struct pipe_phase phases[N_PHASES + 1],
                         struct pipe_row rows[16])
{
    static const struct pipe_op *const chain[] = {&load,         &store,      &pipe_await_stores,
                                                  &pipe_barrier, &read_words, &twice,
                                                  &sum,          &state,      &pipe_release};
    enum { CHAIN = sizeof(chain) / sizeof(chain[0]) };
    unsigned stage = 0;
    memset(phases, 0, (N_PHASES + 1) * sizeof(phases[0]));
    for (unsigned i = 0; i < N_PHASES; i++)
        phases[i] = (struct pipe_phase){
            .name = "P", .kind = i % 2, .open = i + 1 < N_PHASES && random_below(4) == 0};
    for (unsigned i = 0; i < CHAIN; i++) {
        stage += random_below(3) == 0 && stage + 1 < N_STAGES;
        rows[i] =
            (struct pipe_row){chain[i], (uint8_t)stage, (uint8_t)random_below(N_PHASES), .part = 0};
    }
    if (random_below(2)) { /* the state may use the previous tile's sum */
        const struct pipe_row r = rows[6];
        rows[6] = rows[7];
        rows[7] = r;
    }
    rows[CHAIN] = (struct pipe_row){.op = NULL};
    *p = (struct pipeline){.name = "random",
                           .phases = phases,
                           .buffers = buffers,
                           .slots = slots,
                           .rows = rows,
                           .roles = (uint8_t)(1 + random_below(2))};
}

static struct tir_layout words_layout(const struct tir_machine *m, bool rows_to_waves)
{
    struct tir_spread s = tir_spread(m, WAVES);
    if (rows_to_waves) {
        tir_spread_cols(&s, TIR_LANES, 3);
        tir_spread_rows(&s, TIR_LANES, 3);
        tir_spread_rows(&s, TIR_WAVES, 1);
    } else {
        tir_spread_rows(&s, TIR_LANES, 4);
        tir_spread_cols(&s, TIR_LANES, 2);
        tir_spread_cols(&s, TIR_WAVES, 1);
    }
    return tir_spread_layout(&s);
}

static void build_toy(struct toy *t, const struct pipe_plan *plan)
{
    const struct tir_machine *const m = &tgt_find("gfx950")->machine;
    struct tir_func *const f = tir_func_create("toy", m, WAVES);
    const struct tir_layout a = words_layout(m, true), c = words_layout(m, false);
    *t = (struct toy){.b = tir_at_end(f, f->body),
                      .plan = plan,
                      .loaded = tir_tile(f, TIR_I32, ROWS, COLS, &a),
                      .shared = tir_tile(f, TIR_I32, ROWS, COLS, &c),
                      .map = tir_row_major(ROWS, COLS)};
    struct tir_builder *const b = &t->b;
    t->buffer = tir_lds_buffer(b, 8 * 4 * WORDS, 16);
    const struct tir_value n = tir_arg(b, "batch", TIR_I32);
    struct tir_value carried[] = {tir_splat(b, tir_i32(b, 1), t->shared),
                                  tir_splat(b, tir_i32(b, 7), t->shared)};
    struct tir_loop loop = tir_begin_for(b, tir_i32(b, 0), n, tir_i32(b, 1), carried, 2);
    t->tile = loop.index;
    t->sum = carried[0];
    t->state = carried[1];
    pipe_build(b, plan, t);
    carried[0] = t->sum;
    carried[1] = t->state;
    tir_end_for(b, &loop, carried, 2);
    for (int i = 0; i < 2; i++) {
        const struct tir_value base =
            tir_add(b, tir_arg(b, "out", TIR_I64), tir_i64(b, i * 4 * WORDS));
        const struct tir_view out =
            att_view(b, base, tir_i32(b, ROWS), tir_i32(b, 4 * COLS), 4 * COLS, 0);
        tir_tile_store(b, out, tir_i32(b, 0), carried[i]);
    }
    tir_return(b);
}

static int64_t argument(const char *name, const int32_t *in, int32_t *out, int n)
{
    if (!strcmp(name, "q"))
        return (int64_t)(intptr_t)in;
    return !strcmp(name, "out") ? (int64_t)(intptr_t)out : n;
}

static void run(const struct tir_func *f, const int32_t *in, int32_t *out, int n)
{
    uint64_t kernarg[4] = {0};
    char why[TIR_WHY];
    memset(out, 0x55, 2 * WORDS * sizeof(out[0]));
    for (unsigned i = 0; i < f->n_args; i++) {
        const int64_t v = argument(f->args[i].name, in, out, n);
        memcpy((char *)kernarg + f->args[i].offset, &v, f->args[i].dtype == TIR_I64 ? 8 : 4);
    }
    if (!tir_interpret(f, kernarg, sizeof(kernarg), (const unsigned[]){1, 1, 1}, why))
        fail_msg("%s", why);
}

static void rotated_loops_compute_the_same(void **unused)
{
    static int32_t in[TILES * WORDS], plain[2 * WORDS], rotated[2 * WORDS];
    unsigned passed = 0;
    (void)unused;
    for (int i = 0; i < TILES * WORDS; i++)
        in[i] = (int32_t)((uint32_t)i * 0x9e3779b1u >> (i % 20));
    for (int i = 0; i < TABLES; i++) {
        struct pipe_phase phases[N_PHASES + 1];
        struct pipe_row rows[16];
        struct pipeline p;
        struct pipe_plan plan;
        char why[PIPE_WHY] = "";
        random_table(&p, phases, rows);
        if (!pipe_resolve(&p, &(struct pipe_variant){.has = 0}, &plan, why)) {
            assert_true(strlen(why) > 20);
            continue;
        }
        struct toy t;
        const int n = 1 + (int)random_below(TILES);
        build_toy(&t, &plan);
        run(t.b.f, in, plain, n);
        struct tir_schedule schedule = pipe_schedule(&plan);
        schedule.loop.unroll = (uint8_t)(1 + random_below(2));
        assert_true(tir_verify(t.b.f, "building", stderr));
        tir_lower_pipeline(t.b.f, &schedule);
        assert_true(tir_verify(t.b.f, "lower_pipeline", stderr));
        run(t.b.f, in, rotated, n);
        assert_memory_equal(plain, rotated, sizeof(plain));
        tir_func_destroy(t.b.f);
        passed++;
    }
    printf("%u of %d tables pass\n", passed, TABLES);
    assert_true(passed > TABLES / 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rotated_loops_compute_the_same)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
