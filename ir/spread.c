/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/spread.h"

#include <string.h>

#include "ir/bits.h"

struct tir_spread tir_spread(const struct tir_machine *m, unsigned waves)
{
    return (struct tir_spread){
        .limit = {TIR_LAYOUT_MAX_BITS, m->lane_bits, (uint8_t)tir_bits(waves)}};
}

unsigned tir_spread_room(const struct tir_spread *s, enum tir_holder of)
{
    return (unsigned)s->limit[of] - s->n[of];
}

/* Adds a bit with the image `image` to registers, lanes or waves (`to`). */
static void give(struct tir_spread *s, enum tir_holder to, uint32_t image)
{
    assert(s->n[to] < s->limit[to]);
    s->image[to][s->n[to]++] = image;
}

void tir_spread_rows(struct tir_spread *s, enum tir_holder to, unsigned bits)
{
    for (unsigned i = 0; i < bits; i++)
        give(s, to, TIR_RC(1u << s->rows++, 0));
}

void tir_spread_cols(struct tir_spread *s, enum tir_holder to, unsigned bits)
{
    for (unsigned i = 0; i < bits; i++)
        give(s, to, TIR_RC(0, 1u << s->cols++));
}

void tir_spread_repeat(struct tir_spread *s, enum tir_holder to, unsigned bits)
{
    for (unsigned i = 0; i < bits; i++)
        give(s, to, 0);
}

/* Returns the number of `bits` bits that still have room in `to`. */
static unsigned fitting(const struct tir_spread *s, enum tir_holder to, unsigned bits)
{
    const unsigned room = tir_spread_room(s, to);
    return bits < room ? bits : room;
}

void tir_spread_fill(struct tir_spread *s, enum tir_holder to, unsigned rows, unsigned cols)
{
    tir_spread_cols(s, to, fitting(s, to, tir_bits(cols) - s->cols));
    tir_spread_rows(s, to, fitting(s, to, tir_bits(rows) - s->rows));
}

struct tir_layout tir_spread_layout(const struct tir_spread *s)
{
    struct tir_layout l = {.reg_bits = s->n[TIR_REGS],
                           .lane_bits = s->limit[TIR_LANES],
                           .wave_bits = s->limit[TIR_WAVES]};
    uint32_t *to = l.basis;
    for (int holder = 0; holder < TIR_N_HOLDERS; holder++) {
        memcpy(to, s->image[holder], s->n[holder] * sizeof(*to));
        to += holder == TIR_REGS ? s->n[holder] : s->limit[holder];
    }
    return l;
}

struct tir_layout tir_spread_one(const struct tir_machine *m)
{
    const struct tir_spread s = tir_spread(m, 1);
    return tir_spread_layout(&s);
}

struct tir_layout tir_spread_chunks(const struct tir_machine *m, unsigned waves, unsigned chunk,
                                    unsigned rows, unsigned cols)
{
    struct tir_spread s = tir_spread(m, waves);
    tir_spread_cols(&s, TIR_REGS, tir_bits(chunk));
    tir_spread_fill(&s, TIR_LANES, rows, cols);
    tir_spread_fill(&s, TIR_WAVES, rows, cols);
    tir_spread_fill(&s, TIR_REGS, rows, cols);
    return tir_spread_layout(&s);
}

struct tir_layout tir_spread_column(const struct tir_machine *m, unsigned waves, unsigned rows)
{
    return tir_spread_chunks(m, waves, 1, rows, 1);
}
