/* SPDX-License-Identifier: Apache-2.0
 *
 * This file implements the builder's matrix products of tiles. `instr` is an index in the machine's
 * list of matrix instructions. */
#include "ir/builder.h"

#include <assert.h>

static const struct tir_type no_type;

struct tir_value tir_mma(struct tir_builder *b, int instr, struct tir_value a, struct tir_value c,
                         struct tir_value acc)
{
    return tir_mma_first(b, instr, a, c, acc, 0);
}

struct tir_value tir_mma_halves(struct tir_builder *b, int instr, struct tir_value a,
                                struct tir_value c, struct tir_value acc)
{
    assert(instr >= 0 && (unsigned)instr < b->f->machine->n_mma);
    return tir_build(b, TIR_mma_halves, no_type, (struct tir_value[]){a, c, acc}, 3,
                     &(int64_t){instr});
}

struct tir_value tir_mma_first(struct tir_builder *b, int instr, struct tir_value a,
                               struct tir_value c, struct tir_value acc, unsigned k)
{
    assert(instr >= 0 && (unsigned)instr < b->f->machine->n_mma);
    return tir_build(b, TIR_mma, no_type, (struct tir_value[]){a, c, acc}, 3,
                     (int64_t[]){instr, k, 0, 0});
}

struct tir_value tir_mma_in_agprs(struct tir_builder *b, int instr, struct tir_value a,
                                  struct tir_value c, struct tir_value acc)
{
    assert(instr >= 0 && (unsigned)instr < b->f->machine->n_mma);
    return tir_build(b, TIR_mma, no_type, (struct tir_value[]){a, c, acc}, 3,
                     (int64_t[]){instr, 0, 1, 0});
}

struct tir_value tir_mma_by_rows(struct tir_builder *b, int instr, struct tir_value a,
                                 struct tir_value c, struct tir_value acc)
{
    assert(instr >= 0 && (unsigned)instr < b->f->machine->n_mma);
    return tir_build(b, TIR_mma, no_type, (struct tir_value[]){a, c, acc}, 3,
                     (int64_t[]){instr, 0, 0, 1});
}

/* Creates a scaled product. Operands are a, c, the accumulator, and the scales of a and of c. */
static struct tir_value mma_scaled(struct tir_builder *b, int instr,
                                   const struct tir_value operands[5], bool in_agprs)
{
    assert(instr >= 0 && b->f->machine->mma[instr].scaled);
    return tir_build(b, TIR_mma_scaled, no_type, operands, 5, (int64_t[]){instr, in_agprs});
}

struct tir_value tir_mma_scaled(struct tir_builder *b, int instr, struct tir_value a,
                                struct tir_value c, struct tir_value acc, struct tir_value left,
                                struct tir_value right)
{
    return mma_scaled(b, instr, (struct tir_value[]){a, c, acc, left, right}, false);
}

struct tir_value tir_mma_scaled_in_agprs(struct tir_builder *b, int instr, struct tir_value a,
                                         struct tir_value c, struct tir_value acc,
                                         struct tir_value left, struct tir_value right)
{
    return mma_scaled(b, instr, (struct tir_value[]){a, c, acc, left, right}, true);
}
