/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions that the pipelines of gfx942 with one wave per SIMD share: weights of 16 bits
 * (register_transpose.c) and of fp8 (dv_split.c).
 */
#ifndef TEMPLATES_MLA_DECODE_REGISTER_TRANSPOSE_H
#define TEMPLATES_MLA_DECODE_REGISTER_TRANSPOSE_H

#include "templates/mla_decode/mla_decode.h"

/** The piece of a block that one copy moves to LDS: in part `part` of the block, `rows` rows from
 * row `row` on, and `cols` columns from column `col` on. */
struct mla_copy_piece {
    const struct part *part;
    unsigned row, rows, col, cols;
};

/* Functions of register_transpose.c: panels, copies and Q of these pipelines. */

/** Returns layout l of an operand or a result whose rows are columns of the latent, permuted into
 * the order of LDS reads. A lane reads 4 neighbours, and 32 lanes 128. */
struct tir_layout mla_transpose_columns(const struct tir_layout *l);
/** Sets s->query.panel: panels of the instruction of K Q^T, 16 contiguous bytes per lane. */
void mla_transpose_add_panels(struct mla *s);
/** Issues the copies to LDS of piece c of block f. `group`: the copies' queue, MLA_COPIES_FIRST or
 * MLA_COPIES_LAST. */
void mla_transpose_copy(struct mla *s, const struct mla_flight *f, struct mla_copy_piece c,
                        int group);
/** Reads panel n of K from LDS for the current block: mla_form.read_panel. */
struct tir_value mla_transpose_read_panel(struct mla *s, const struct panel *n);

/** Allocates LDS for three blocks, each with the latent's part and the rotated part. */
void mla_transpose_take_lds(struct mla *s);
/** Loads Q to registers while the first block is in flight: mla_form.load_q. */
void mla_transpose_load_q(struct mla *s);
/** Sets members of s->d.attention, and the distance of cache rows, before the loop:
 * mla_form.begin_pass. */
void mla_transpose_begin_pass(struct mla *s);

#endif
