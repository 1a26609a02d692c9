/* SPDX-License-Identifier: Apache-2.0
 *
 * compress: one wave makes the row of one group. pool.c makes the weighted sum of its tokens, row.c
 * normalises, rotates and stores it.
 */
#ifndef TEMPLATES_COMPRESS_COMPRESS_H
#define TEMPLATES_COMPRESS_COMPRESS_H

#include "templates/template.h"
#include "templates/workgroup/scalar.h"

/** Arguments of a tensor that has a row for each token of the call, and of its ring. */
struct compress_source {
    const char *rows, *rows_stride;               /* [tokens, columns] */
    const char *ring, *slot_stride, *ring_stride; /* [slots, ring, columns] */
};
extern const struct compress_source compress_x, compress_scores;

struct compress {
    const struct att_variant *v;
    const struct tir_machine *m;
    struct tir_builder b;
    struct att_tile tile;
    bool shared;              /* the waves of a workgroup share a group */
    struct tir_value lds;     /* i32: LDS of the sums of the waves that share a group */
    int size;                 /* bytes of an element of x */
    struct tir_type row;      /* f32, 1 x head_dim: a lane has neighbouring elements */
    struct tir_type raw;      /* `row` in x's type */
    struct tir_value ratio;   /* i32: tokens of a group */
    struct tir_value overlap; /* i32: 1: a row is made of its own group and the one before it; 0:
                                 of its own group only */
    struct tir_value window;  /* i32: tokens that a row is made of */
    struct tir_value ring;    /* i32: rows of a slot */
    /* The sequence: tokens first to end - 1 of it are in the call, `start` is the row of the first.
     * All i32. */
    struct tir_value start, first, end;
    struct tir_value slot, slot_in; /* i32: slots of the rings that are written, and read */
};

/** Returns the address (i64) of token `token` (i32) of the sequence: in the call, or in row `place`
 * (i32) of the ring that is read. */
struct tir_value compress_row_of(struct compress *c, const struct compress_source *s,
                                 struct tir_value token, struct tir_value place);

/** Returns the address (i64) of row `place` of a slot's ring. */
struct tir_value compress_ring_row(struct compress *c, const struct compress_source *s,
                                   struct tir_value slot, struct tir_value place);

/** Loads the head_dim elements at `base` in x's type: zeros where not `there` (i1). */
struct tir_value compress_load(struct compress *c, struct tir_value base, struct tir_value there);

/** Returns the LDS that waves need which share a group, in bytes. */
unsigned compress_shared_bytes(const struct compress *c);

/** Returns the weighted sum of the tokens of group `group` (i32), of type `row`. With c->shared all
 * waves call it, and have the sum. */
struct tir_value compress_pool(struct compress *c, struct tir_value group);

/** Normalises, rotates and stores the row of group `group`, from the weighted sum z of its
 * tokens. `token` (i32) is the row of the call that has the group's last token. */
void compress_finish(struct compress *c, struct tir_value group, struct tir_value token,
                     struct tir_value z);

#endif
