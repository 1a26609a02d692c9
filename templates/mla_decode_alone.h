/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares what the files share whose waves have a SIMD to themselves:
 * mla_decode_alone.c says what the stages and phases are.
 */
#ifndef TEMPLATES_MLA_DECODE_ALONE_H
#define TEMPLATES_MLA_DECODE_ALONE_H

#include "templates/mla_decode.h"

enum alone_phase { M1, BEGIN, C1, M2, C2 };
enum alone_stage { A_PAGES, A_FIND, A_COPY, A_WAIT, A_SCORES, A_VALUES, A_N_STAGES };
enum { GROUP = 0, ENTRIES, QUERIES /* of copies to LDS */, LATENT = 512 };

/** The number of a stage in this kernel's loop: only pairs have A_FIND, and where a round's block
 * is all that LDS has beside the next one, it arrives, is scored and multiplied in one. */
static inline uint8_t mla_alone_stage(const struct mla *s, enum alone_stage stage)
{
    if (s->serial && stage > A_WAIT)
        return stage == A_N_STAGES ? A_WAIT + 1 : A_WAIT;
    return (uint8_t)(stage - (stage > A_FIND && !s->pairs));
}

static inline void mla_alone_at(struct mla *s, enum alone_stage stage, enum alone_phase phase)
{
    s->d.b.stage = mla_alone_stage(s, stage);
    s->d.b.phase = (uint8_t)phase;
}

/** Sets where a block has arrived: a pair waits for it where its scores begin. */
static inline void mla_alone_arrival(struct mla *s)
{
    mla_alone_at(s, s->pairs ? A_SCORES : A_WAIT, s->pairs ? M1 : M2);
}

/** Returns which half of a block's keys a wave of a pair has, 0 or 1; i32. */
static inline struct tir_value mla_alone_half(struct mla *s)
{
    return tir_shr(&s->d.b, s->d.wave, tir_i32(&s->d.b, (int)s->wave_bits - 1));
}

/* mla_decode_alone.c */

/** Returns how a pair's weights of a block are held for their product with c, keys x columns. */
struct tir_layout mla_alone_weights(const struct mla *s);

/** Returns how `keys` keys of a block lie in LDS, or as many rows of a part of them. */
struct tir_layout mla_alone_map(const struct mla *s, unsigned keys, unsigned width);
/** Returns the LDS address of a part of block `block` (i32), of which a round has one or two. */
struct tir_value mla_alone_place(struct mla *s, const struct part *p, struct tir_value block);

/** Returns how waves split the columns. */
struct tir_waves mla_alone_waves(const struct mla *s);
/** Members of att_source. */
struct tir_value mla_alone_first_key(void *family, struct tir_value block);
struct tir_value mla_alone_scores(void *family, const struct att_block *block);
void mla_alone_await_values(void *family);
struct tir_value mla_alone_values(void *family, const struct att_block *block, unsigned part);

/* mla_decode_gather.c */

/** Returns the type of rows that a wave copies, i32 of each. */
struct tir_type mla_gather_rows(struct mla *s);
/** Copies rows at these addresses, i64, to where the wave has rows of a block. */
void mla_gather_copy(struct mla *s, int group, struct tir_value block, struct tir_value rows);
/** Allocates what lists need of LDS. */
void mla_gather_take_lds(struct mla *s);
/** att_source.fetch_keys of a list of slots, and att_source.entries. */
void mla_gather_fetch(struct mla *s, struct att_block *block);
struct tir_value mla_gather_entries(void *family, const struct att_block *block);

#endif
