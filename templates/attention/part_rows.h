/* SPDX-License-Identifier: Apache-2.0
 *
 * The sum of partial attention outputs of some rows: with o_k the output over one part of the keys,
 * normalised, and lse_k the natural log of its denominator,
 *
 *   out = sum_k e^(lse_k - LSE) o_k,  LSE = log(sum_k e^lse_k [+ e^sink])
 *
 * A part with an lse of +-infinity saw no key: it counts for nothing and its output is not used,
 * whatever is there. Where that is true of all parts, out is 0 and LSE -infinity.
 */
#ifndef TEMPLATES_ATTENTION_PART_ROWS_H
#define TEMPLATES_ATTENTION_PART_ROWS_H

#include "ir/builder.h"
#include "templates/workgroup/scalar.h"

enum {
    ATT_PART_PANELS = 2, /* of a head dim: 192 is 128 + 64 */
    ATT_PARTS_MOST = 8,  /* parts in flight in a wave, at most */
    ATT_PARTS_WAVES = 16 /* waves that share the parts of a row, at most */
};

/** D elements of some rows as panels of power-of-two width, f32; and a number for each row. */
struct att_part_type {
    unsigned n;                              /* panels */
    int first[ATT_PART_PANELS];              /* first column of each */
    struct tir_type o[ATT_PART_PANELS], row; /* panels: rows x width; rows x 1 */
};

/** Rows that are summed: heads of a token, or tokens of a head. The caller sets all but `type`. */
struct att_part_rows {
    struct tir_builder *b;
    const struct tir_machine *m;
    unsigned head_dim;
    unsigned waves;               /* of the workgroup */
    unsigned row_bits;            /* log2 of the rows that a lane has */
    unsigned at_once;             /* parts in flight in a wave, with lists */
    unsigned out_dtype;           /* of out */
    bool tokens;                  /* rows are tokens of a head */
    bool lone;                    /* each wave has rows of its own, and no LDS is shared */
    bool no_sinks, no_lse;        /* the kernel has none; else their pointers say so */
    struct att_part_type type;    /* set by att_parts_choose_type() */
    struct tir_value token, head; /* of the first row */
    struct tir_value n_rows;      /* rows from the first one on that exist */
};

/** A partial sum of each row: O = o / l with the denominator e^lse * l. The state of a
 * single part has no `l`, which counts as 1. The state of the sinks has no `o`. */
struct att_part_state {
    struct tir_value lse, o[ATT_PART_PANELS], l;
};

/** Parts as rows of partial_out [row, head, D] and partial_lse [row, head]. */
struct att_part_list {
    struct tir_value count; /* i32: parts */
    struct tir_value map;   /* i64: address of the list's entries in reduce_partial_map, each the
                               row of a part; none: rows are `first` + number * `step` */
    struct tir_value first; /* i32: row of the first part */
    struct tir_value step;  /* i32: rows from a part to the next; none: 1 */
    struct tir_value token; /* i32: the summed token's number in the list; none: the first */
};

/** Returns the elements of a row's widest panel that a lane has: 16 bytes. */
unsigned att_parts_per_lane(const struct att_part_rows *r);
/** Returns the elements of a row that a lane has. */
unsigned att_parts_elements(const struct att_part_rows *r);
/** Returns the waves that share a row. */
unsigned att_parts_row_waves(const struct att_part_rows *r);

/** Divides a row into panels whose widths are powers of two, and sets r->type to their tiles. */
void att_parts_choose_type(struct att_part_rows *r);

/** Returns the address (i64) in `t` of the element 0 of the first row; elements have `size`
 * bytes. */
struct tir_value att_parts_place(struct att_part_rows *r, struct att_tensor t, int size);
/** Returns the bytes from a row to the next in `t`, whose elements have `size` bytes; i32. */
struct tir_value att_parts_step(struct att_part_rows *r, struct att_tensor t, int size);

/** Replaces the lse of n parts as they are in memory: +infinity becomes -infinity. */
void att_parts_read_lse(struct att_part_rows *r, struct tir_value *lse, unsigned n);
/** Loads the sinks of the rows, rows x 1 of f32; 0 if there are none. */
struct tir_value att_parts_load_sinks(struct att_part_rows *r);
/** Returns sinks as a state: their lse is the sink, so exp(sink) joins the denominator. Without
 * sinks, lse is -infinity. */
struct att_part_state att_parts_sink_state(struct att_part_rows *r, struct tir_value sink);
/** Returns the sum of n states. The first one has o and l. */
struct att_part_state att_parts_add_states(struct att_part_rows *r, const struct att_part_state *s,
                                           unsigned n);
/** Returns the sum of a list's parts, one at least, and of the sinks. */
struct att_part_state att_parts_add_list(struct att_part_rows *r, const struct att_part_list *l);
/** Returns the bytes of LDS that att_parts_write_shared() takes. */
unsigned att_parts_shared_bytes(const struct att_part_rows *r);
/** Adds a list's parts and the sinks, and writes the result. Each wave adds an equal share of the
 * parts, so `r->lone` is set and all waves have the same rows. `wave`: i32, the wave's number in
 * the workgroup. `lds`: i32, LDS address. All waves call it. */
void att_parts_write_shared(struct att_part_rows *r, const struct att_part_list *l,
                            struct tir_value wave, struct tir_value lds);

/** Writes out = o / l and LSE = lse + log l; a sum of nothing gives 0 and -infinity. */
void att_parts_finish(struct att_part_rows *r, struct att_part_state sum);
/** Writes the results of rows without any part: out is 0, and LSE is the sink, or -infinity
 * without sinks. */
void att_parts_finish_empty(struct att_part_rows *r);

#endif
