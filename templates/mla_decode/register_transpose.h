/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions that the pipelines of gfx942 with one wave per SIMD share: weights of 16 bits
 * (register_transpose.c) and of fp8 (dv_split.c).
 */
#ifndef TEMPLATES_MLA_DECODE_REGISTER_TRANSPOSE_H
#define TEMPLATES_MLA_DECODE_REGISTER_TRANSPOSE_H

#include "templates/mla_decode/mla_decode.h"

/** The part of a block that one copy moves to LDS: `rows` rows from `row` on, `cols` columns from
 * `col` of `part` on. */
struct mla_copy_piece {
    const struct part *part;
    unsigned row, rows, col, cols;
};

/* register_transpose.c */

/** Returns layout l of the product with c, its rows permuted to columns of the latent as LDS is
 * read: a lane reads 4 neighbours, and 32 lanes 128. */
struct tir_layout mla_transpose_columns(const struct tir_layout *l);
/** Adds the panels of Q to mla.query. */
void mla_transpose_add_panels(struct mla *s);
/** Issues the copies of piece c of block f to LDS. `group`: the copies' queue. */
void mla_transpose_copy(struct mla *s, const struct mla_flight *f, struct mla_copy_piece c,
                        int group);
/** Reads a panel of K of the current block from LDS: mla_form.read_panel. */
struct tir_value mla_transpose_read_panel(struct mla *s, const struct panel *n);

/** Allocates LDS for blocks, in two parts: mla_form.take_lds. */
void mla_transpose_take_lds(struct mla *s);
/** Issues the loads of Q while the first block is in flight: mla_form.load_q. */
void mla_transpose_load_q(struct mla *s);
/** Builds the code before the loop over an item's keys: mla_form.begin_pass. */
void mla_transpose_begin_pass(struct mla *s);

#endif
