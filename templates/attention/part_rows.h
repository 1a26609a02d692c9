/* SPDX-License-Identifier: Apache-2.0
 *
 * The sum of partial attention outputs of some rows: with o_k the output over one part of the keys,
 * normalised, and lse_k the natural log of its denominator,
 *
 *   out = sum_k e^(lse_k - LSE) o_k,  LSE = log(sum_k e^lse_k [+ e^sink])
 *
 * A part with an lse of +-infinity saw no key: it adds nothing, and its output is not used, even if
 * it is NaN. If no part saw a key, out is 0 and LSE is -infinity.
 */
#ifndef TEMPLATES_ATTENTION_PART_ROWS_H
#define TEMPLATES_ATTENTION_PART_ROWS_H

#include "ir/builder.h"
#include "templates/workgroup/scalar.h"

enum {
    /* Most panels into which a row of the head dim is divided: 192 is 128 + 64. */
    ATT_PART_PANELS = 2,
    ATT_PARTS_MOST = 8,  /* most parts whose loads a wave has in flight */
    ATT_PARTS_WAVES = 16 /* most waves that share the parts of a row */
};

/** The spread of a row's D elements over lanes: panels of f32, whose widths are powers of two. */
struct att_part_type {
    unsigned n; /* number of panels of a row */
    /* Index in the row of the first column of each panel. */
    int first[ATT_PART_PANELS];
    /* o: type of each panel, rows x width; row: type of one number for each row, rows x 1. */
    struct tir_type o[ATT_PART_PANELS], row;
};

/** The rows of the output that a workgroup computes: heads of a token, or tokens of a head. The
 * caller sets all members but `type`. */
struct att_part_rows {
    struct tir_builder *b;
    const struct tir_machine *m;
    /* Number of elements of a row, D. */
    unsigned head_dim;
    unsigned waves;     /* number of waves of the workgroup */
    unsigned row_bits;  /* log2 of the number of rows that a lane has in registers */
    unsigned at_once;   /* number of parts of a list that a wave loads at once */
    unsigned out_dtype; /* enum tir_dtype of the output */
    bool tokens;        /* true: rows are tokens of one head; false: heads of one token */
    /* True: each wave has all of the rows; false: the rows are divided among the waves. */
    bool lone;
    /* True: the kernel's code has no sinks, or writes no LSE; false: the argument may be NULL,
     * which is tested when the kernel runs. */
    bool no_sinks, no_lse;
    struct att_part_type type;    /* panels of a row, set by att_parts_choose_type() */
    struct tir_value token, head; /* i32: indices of the token and the head of the first row */
    struct tir_value n_rows;      /* i32: number of rows that exist, from the first one on */
};

/** A partial sum of each row: lse (f32, rows x 1), o (f32 panels) and l (f32, rows x 1). Its output
 * is o / l, and its denominator is e^lse * l. A part as loaded has no `l`, which counts as 1. The
 * sinks have no `o`. */
struct att_part_state {
    struct tir_value lse, o[ATT_PART_PANELS], l;
};

/** A list of partial results to add up: rows of the arguments partial_out [row, head, D] and
 * partial_lse [row, head]. */
struct att_part_list {
    struct tir_value count; /* i32: number of parts, at least 1 */
    /* i64: address of the list's entries (i32) in reduce_partial_map, each the row index of a part;
     * no value: part n is row `first` + n * `step`. */
    struct tir_value map;
    struct tir_value first; /* i32: index of the row of part 0, without `map` */
    /* i32: number of rows from a part to the next, without `map`; no value: 1. */
    struct tir_value step;
    struct tir_value token; /* i32: index in each part of the token that is added up; no value: 0 */
};

/** Returns the number of adjacent elements of a row's widest panel that a lane has: 16 bytes of
 * f32, or of the 16-bit output. */
unsigned att_parts_per_lane(const struct att_part_rows *r);
/** Returns the number of elements of a row that a lane has, over all panels. */
unsigned att_parts_elements(const struct att_part_rows *r);
/** Returns the number of waves that share a row. */
unsigned att_parts_row_waves(const struct att_part_rows *r);
/** Returns the number of rows in one register of a wave; if several waves share a row, in one
 * register of all these waves. */
unsigned att_parts_wave_rows(const struct att_part_rows *r);

/** Divides a row into panels whose widths are powers of two, and sets r->type to their tiles. */
void att_parts_choose_type(struct att_part_rows *r);

/** Returns the address (i64) of element 0 of the first row in tensor `t`, whose elements have
 * `size` bytes. */
struct tir_value att_parts_place(struct att_part_rows *r, struct att_tensor t, int size);
/** Returns the bytes (i32) from a row to the next in tensor `t`: from token to token if rows are
 * tokens, else from head to head. Its elements have `size` bytes. */
struct tir_value att_parts_step(struct att_part_rows *r, struct att_tensor t, int size);

/** Replaces +infinity by -infinity in lse[], the lse of n parts as loaded from memory. Either
 * infinity marks a part without keys. */
void att_parts_read_lse(struct att_part_rows *r, struct tir_value *lse, unsigned n);
/** Loads the sinks of the rows, rows x 1 of f32; zeros if there are no sinks. */
struct tir_value att_parts_load_sinks(struct att_part_rows *r);
/** Returns the sinks (rows x 1) as a state: lse is the sink, so that exp(sink) joins the
 * denominator. Without sinks, lse is -infinity. */
struct att_part_state att_parts_sink_state(struct att_part_rows *r, struct tir_value sink);
/** Returns the sum of the n partial results s[]. s[0] must have o and l. */
struct att_part_state att_parts_add_states(struct att_part_rows *r, const struct att_part_state *s,
                                           unsigned n);
/** Returns the sum of the parts of list `l` and of the sinks. The list has at least one part. */
struct att_part_state att_parts_add_list(struct att_part_rows *r, const struct att_part_list *l);
/** Returns the bytes of LDS that att_parts_write_shared() uses. */
unsigned att_parts_shared_bytes(const struct att_part_rows *r);
/** Adds the parts of list `l` and the sinks, and writes the result. All waves have the same rows
 * (r->lone), and each adds an equal share of the parts; of up to r->at_once parts each adds all.
 * `wave` (i32): index of the wave. `lds` (i32): LDS address of att_parts_shared_bytes() bytes. All
 * waves must call it. */
void att_parts_write_shared(struct att_part_rows *r, const struct att_part_list *l,
                            struct tir_value wave, struct tir_value lds);

/** Writes out = o / l and LSE = lse + log l of `sum`. For a sum without any key out is 0 and LSE
 * -infinity. */
void att_parts_finish(struct att_part_rows *r, struct att_part_state sum);
/** Writes the results of rows that have no part: out is 0, and LSE is the sink, or -infinity
 * without sinks. */
void att_parts_finish_empty(struct att_part_rows *r);

#endif
