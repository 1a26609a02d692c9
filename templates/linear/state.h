/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the part of a recurrent state that a wave has in registers: `rows` of the
 * head_dim_v value elements by all head_dim elements of a key, f32, whatever the order in memory. A
 * key is a row of 1 x head_dim, and a value a column of rows x 1.
 *
 * In registers a state of the order K_FOURS has the elements of a key in another order: element k
 * is column k / 4 + (k % 4) head_dim / 4. Keys have to be converted by att_state_keys() before they
 * are combined with it.
 */
#ifndef TEMPLATES_LINEAR_STATE_H
#define TEMPLATES_LINEAR_STATE_H

#include "templates/variant.h"
#include "templates/workgroup/scalar.h"

/** The part of a value head's state [head_dim_v, head_dim] that one wave holds, and the types of
 * tiles that are combined with it. */
struct att_state {
    enum att_state_layout order; /* order of a state's elements in memory */
    unsigned dtype;              /* enum tir_dtype of a state's element in memory */
    int size;                    /* bytes of a state's element in memory */
    int key, value; /* head_dim and head_dim_v: number of elements of a key, and of a value */
    unsigned rows;  /* number of value elements of the wave's part */
    struct tir_type memory; /* type in which the wave loads and stores its part */
    struct tir_type tile;   /* type of the part in registers: f32, rows x head_dim */
    /* Types of f32 operands in the layout of `tile`: keys: a key, 1 x head_dim; values: a value,
     * rows x 1; one: a number, 1 x 1. */
    struct tir_type keys, values, one;
};

/** Returns the dtype of a state's elements in memory: enum tir_dtype. */
unsigned att_state_dtype(const struct att_variant *v);

/** Returns the bytes of a state's element in memory. */
int att_state_size(const struct att_variant *v);

/** Returns the least number of value elements (rows of a state) that a wave must have, so that each
 * of its lanes holds a part. */
unsigned att_state_least_rows(const struct att_variant *v, const struct tir_machine *m);

/** Returns the description of a part of a state with `key` elements of a key and `value` value
 * elements: `rows` value elements of the state. The order in memory determines the layout in
 * registers. */
struct att_state att_state(struct tir_builder *b, const struct att_variant *v, int key, int value,
                           unsigned rows);

/** Returns the description of a part of a state with `key` elements of a key and `value` value
 * elements: `rows` value elements of the state. In registers the part has layout *tile, rows x key.
 * Such a layout is the transpose of the layout of a matrix product's result, key x rows. */
struct att_state att_state_of_layout(struct tir_builder *b, const struct att_variant *v, int key,
                                     int value, unsigned rows, const struct tir_layout *tile);

/** Returns the address (i64) of the state of value head `value_head` (i32) in slot `slot` (i32) of
 * the argument `state`, the pool. */
struct tir_value att_state_at(struct tir_builder *b, const struct att_state *s,
                              struct tir_value slot, struct tir_value value_head);

/** Loads the part of the state at address `base` (i64) whose first value element is `first` (i32),
 * as f32. Returns zeros if `there` (i1) is false. */
struct tir_value att_state_load(struct tir_builder *b, const struct att_state *s,
                                struct tir_value base, struct tir_value first,
                                struct tir_value there);
/** Stores `a` (f32), a part of a state. The place is given by `base` and `first` as in
 * att_state_load(). Stores nothing if `there` (i1) is false. */
void att_state_store(struct tir_builder *b, const struct att_state *s, struct tir_value base,
                     struct tir_value first, struct tir_value there, struct tir_value a);

/** Returns the tile type of a key, 1 x head_dim elements of `dtype` (enum tir_dtype), in the order
 * of memory. */
struct tir_type att_state_raw_keys(struct tir_builder *b, const struct att_state *s,
                                   unsigned dtype);

/** Issues the load of a key, 1 x head_dim elements of `dtype` (enum tir_dtype), from address `base`
 * (i64). The result has the order of memory. Returns zeros if `there` (i1) is false. */
struct tir_value att_state_load_keys(struct tir_builder *b, const struct att_state *s,
                                     struct tir_value base, unsigned dtype, struct tir_value there);
/** Returns `raw`, the result of att_state_load_keys(), as f32 in the layout of att_state.keys. */
struct tir_value att_state_keys(struct tir_builder *b, const struct att_state *s,
                                struct tir_value raw);

/** Stores `keys`, of type att_state.keys, at address `base` (i64) in the order of memory. Stores
 * nothing where `there` (i1) is false. */
void att_state_store_keys(struct tir_builder *b, const struct att_state *s, struct tir_value base,
                          struct tir_value there, struct tir_value keys);

/** Issues the load of adjacent elements of `dtype` (enum tir_dtype) from address `base` (i64), one
 * for each of the part's value elements: rows x 1. Returns zeros if `there` (i1) is false. */
struct tir_value att_state_load_values(struct tir_builder *b, const struct att_state *s,
                                       struct tir_value base, unsigned dtype,
                                       struct tir_value there);
/** Stores `a`, rows x 1, as adjacent elements at address `base` (i64). Stores nothing where `there`
 * (i1) is false. */
void att_state_store_values(struct tir_builder *b, struct tir_value base, struct tir_value there,
                            struct tir_value a);

/** Stores the one element `a` at address `base` (i64). Stores nothing where `there` (i1) is
 * false. */
void att_state_store_one(struct tir_builder *b, struct tir_value base, struct tir_value there,
                         struct tir_value a);

/** Loads one element of `dtype` (enum tir_dtype) from address `base` (i64), 1 x 1. Returns zero
 * where `there` (i1) is false. */
struct tir_value att_state_load_one(struct tir_builder *b, const struct att_state *s,
                                    struct tir_value base, unsigned dtype, struct tir_value there);

/** Returns `a` repeated in the shape of the state, rows x head_dim. `a` is a key (1 x head_dim), a
 * value (rows x 1), or one number. */
struct tir_value att_state_spread(struct tir_builder *b, const struct att_state *s,
                                  struct tir_value a);

#endif
