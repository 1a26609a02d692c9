/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/ir/program.h"

#include "tests/ir/fixture.h"

enum { MAX_VALUES = 64, MAX_DEPTH = 3 };

/* A stack of values from which the bytes select operands. It shrinks when a block ends. */
struct pool {
    struct tir_value v[MAX_VALUES];
    unsigned n;
};

struct maker {
    const uint8_t *bytes;
    size_t size, at;
    struct tir_builder b;
    struct pool scalars, vecs;
    int depth;
};

static unsigned next(struct maker *m) { return m->at < m->size ? m->bytes[m->at++] : 0; }

static void push(struct pool *p, struct tir_value v)
{
    p->v[p->n < MAX_VALUES ? p->n++ : MAX_VALUES - 1] = v;
}

static struct tir_value pick(struct maker *m, const struct pool *p) { return p->v[next(m) % p->n]; }

/* Selects a pair of values from any pool; shift counts are less than 32, divisors greater than
   0. */
static struct tir_value binary(struct maker *m, const struct pool *p, unsigned which)
{
    struct tir_builder *const b = &m->b;
    const struct tir_value x = pick(m, p), y = pick(m, p);
    const struct tir_value low = tir_and(b, y, tir_int_like(b, y, 31));
    switch (which % 14) {
    case 0: return tir_add(b, x, y);
    case 1: return tir_sub(b, x, y);
    case 2: return tir_mul(b, x, y);
    case 3: return tir_and(b, x, y);
    case 4: return tir_or(b, x, y);
    case 5: return tir_xor(b, x, y);
    case 6: return tir_min(b, x, y);
    case 7: return tir_max(b, x, y);
    case 8: return tir_shl(b, x, low);
    case 9: return tir_shr(b, x, low);
    case 10: return tir_sar(b, x, low);
    case 11: return tir_div(b, x, tir_or(b, y, tir_int_like(b, y, 1)));
    case 12: return tir_rem(b, x, tir_or(b, low, tir_int_like(b, y, 8)));
    default: return tir_select(b, tir_cmp_ult(b, x, y), y, x);
    }
}

/* Returns a small or special constant, so that constants can be folded. */
static int64_t constant(struct maker *m)
{
    static const int32_t special[] = {0, 1, -1, 2, 3, 4, 8, 31, 64, INT32_MAX, INT32_MIN};
    return special[next(m) % (sizeof(special) / sizeof(special[0]))];
}

static struct tir_value lane_op(struct maker *m)
{
    struct tir_builder *const b = &m->b;
    const struct tir_value v[] = {pick(m, &m->vecs), pick(m, &m->vecs)};
    const struct tir_type t = tir_vec(TIR_I32, 1);
    switch (next(m) % 5) {
    case 0: return tir_build(b, TIR_lane_xor, t, v, 1, (int64_t[]){1 + next(m) % 63});
    case 1:
        return tir_build(b, TIR_lane_swap, t, v, 2,
                         (int64_t[]){next(m) & 1 ? 16 : 32, next(m) & 1});
    case 2: return tir_build(b, TIR_lane_gather, t, v, 2, NULL);
    case 3: {
        const struct tir_value pair = tir_build(b, TIR_concat, tir_vec(TIR_I32, 2), v, 2, NULL);
        return tir_build(b, TIR_extract, t, &pair, 1, (int64_t[]){next(m) & 1});
    }
    default: return tir_splat(b, pick(m, &m->scalars), t);
    }
}

static void make_block(struct maker *m);

/* Makes an if; both branches yield one scalar and one vec. */
static void make_if(struct maker *m)
{
    struct tir_builder *const b = &m->b;
    const struct tir_type types[] = {tir_scalar(TIR_I32), tir_vec(TIR_I32, 1)};
    const unsigned scalars = m->scalars.n, vecs = m->vecs.n;
    const struct tir_value cond = tir_cmp_lt(b, pick(m, &m->scalars), pick(m, &m->scalars));
    struct tir_if s = tir_begin_if(b, cond, next(m) & 1, types, 2);
    struct tir_value values[2];
    for (int arm = 0; arm < 2; arm++) {
        make_block(m);
        values[0] = pick(m, &m->scalars);
        values[1] = pick(m, &m->vecs);
        m->scalars.n = scalars;
        m->vecs.n = vecs;
        if (arm == 0)
            tir_else(b, &s, values);
    }
    tir_end_if(b, &s, values);
    push(&m->scalars, values[0]);
    push(&m->vecs, values[1]);
}

/* Makes a loop of at most seven iterations, which carries a scalar and a vec. */
static void make_for(struct maker *m)
{
    struct tir_builder *const b = &m->b;
    const unsigned scalars = m->scalars.n, vecs = m->vecs.n;
    struct tir_value carried[] = {pick(m, &m->scalars), pick(m, &m->vecs)};
    const struct tir_value zero = tir_i32(b, 0), seven = tir_i32(b, 7);
    const struct tir_value bound = tir_and(b, pick(m, &m->scalars), seven);
    const struct tir_value step = tir_i32(b, 1 + (int)(next(m) % 3));
    struct tir_loop loop = tir_begin_for(b, zero, bound, step, carried, 2);
    push(&m->scalars, loop.index);
    push(&m->scalars, carried[0]);
    push(&m->vecs, carried[1]);
    make_block(m);
    carried[0] = pick(m, &m->scalars);
    carried[1] = pick(m, &m->vecs);
    tir_end_for(b, &loop, carried, 2);
    m->scalars.n = scalars;
    m->vecs.n = vecs;
    push(&m->scalars, carried[0]);
    push(&m->vecs, carried[1]);
}

/* Writes LDS, one word for each lane of each wave, and reads another lane's word. */
static void make_lds(struct maker *m)
{
    struct tir_builder *const b = &m->b;
    const struct tir_value lane = tir_lane_id(b);
    const struct tir_value base =
        tir_splat(b, tir_shl(b, tir_wave_id(b), tir_i32(b, 8)), tir_vec(TIR_I32, 1));
    const struct tir_value two = tir_int_like(b, lane, 2);
    const struct tir_value to = tir_add(b, base, tir_shl(b, lane, two));
    const struct tir_value mask = tir_int_like(b, lane, next(m) % 64);
    const struct tir_value from = tir_add(b, base, tir_shl(b, tir_xor(b, lane, mask), two));
    tir_build(b, TIR_lds_write, (struct tir_type){0}, (struct tir_value[]){to, pick(m, &m->vecs)},
              2, (int64_t[]){0});
    push(&m->vecs, tir_build(b, TIR_lds_read, tir_vec(TIR_I32, 1), &from, 1, (int64_t[]){0}));
}

static void make_statement(struct maker *m)
{
    struct tir_builder *const b = &m->b;
    const unsigned kind = next(m);
    switch (kind % 8) {
    case 0: push(&m->scalars, tir_i32(b, (int32_t)constant(m))); break;
    case 1: push(&m->vecs, tir_int_like(b, m->vecs.v[0], constant(m))); break;
    case 2:
    case 3: push(&m->scalars, binary(m, &m->scalars, kind / 8)); break;
    case 4:
    case 5: push(&m->vecs, binary(m, &m->vecs, kind / 8)); break;
    case 6: push(&m->vecs, lane_op(m)); break;
    default:
        if (m->depth < MAX_DEPTH && kind & 8)
            make_if(m);
        else if (m->depth < MAX_DEPTH && kind & 16)
            make_for(m);
        else
            make_lds(m);
    }
}

static void make_block(struct maker *m)
{
    m->depth++;
    for (unsigned n = next(m) % 8 + 1; n > 0; n--)
        make_statement(m);
    m->depth--;
}

struct tir_func *program_of_bytes(const uint8_t *bytes, size_t size)
{
    struct tir_func *const f = tir_func_create("program", &test_machine, 2);
    assert_non_null(f);
    f->lowered = true;
    f->lds_bytes = 512;
    struct maker m = {.bytes = bytes, .size = size, .b = tir_at_end(f, f->body)};
    struct tir_builder *const b = &m.b;
    const struct tir_value in = tir_arg(b, "in", TIR_I64), out = tir_arg(b, "out", TIR_I64);
    const struct tir_value wave = tir_wave_id(b), lane = tir_lane_id(b);
    const struct tir_value two = tir_int_like(b, lane, 2);
    const struct tir_value at = tir_shl(b, lane, two);
    push(&m.vecs, lane);
    push(&m.vecs, tir_build(b, TIR_global_load, tir_vec(TIR_I32, 1), (struct tir_value[]){in, at},
                            2, (int64_t[]){0}));
    push(&m.scalars, wave);
    push(&m.scalars, tir_scalar_load(b, in, tir_i32(b, 4), TIR_I32));
    while (m.at < m.size)
        make_statement(&m);
    const struct tir_value mine =
        tir_mul(b, tir_convert(b, wave, TIR_I64), tir_i64(b, PROGRAM_OUTPUTS * 4));
    const struct tir_value base = tir_add(b, out, mine);
    for (unsigned i = 0; i < 8; i++) {
        const unsigned back = i / 2;
        const struct pool *const p = i % 2 ? &m.vecs : &m.scalars;
        struct tir_value v = p->v[p->n - 1 - back % p->n];
        if (i % 2 == 0)
            v = tir_splat(b, v, tir_vec(TIR_I32, 1));
        tir_build(b, TIR_global_store, (struct tir_type){0}, (struct tir_value[]){base, at, v}, 3,
                  (int64_t[]){64 * 4 * i});
    }
    tir_return(b);
    return f;
}
