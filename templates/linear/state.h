/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares a part of a recurrent state in the registers of a wave: `rows` of the V value
 * elements by all K key elements, f32, whatever the order in memory. Keys are rows of 1 x K beside
 * it, values columns of rows x 1.
 *
 * K_FOURS comes to registers with the elements of keys in another order, k / 4 + (k % 4) K / 4:
 * rows beside it have to go through att_state_keys().
 */
#ifndef TEMPLATES_LINEAR_STATE_H
#define TEMPLATES_LINEAR_STATE_H

#include "templates/variant.h"
#include "templates/workgroup/scalar.h"

/** The part of a value head's state [V, K] that one wave holds, and the types of tiles that are
 * combined with it. */
struct att_state {
    enum att_state_layout order;
    unsigned dtype;                    /* in memory */
    int size;                          /* bytes of an element in memory */
    int key, value;                    /* K and V: elements of a key, and of a value */
    unsigned rows;                     /* value elements of the part */
    struct tir_type memory;            /* as it is loaded and stored */
    struct tir_type tile;              /* rows x K, f32 */
    struct tir_type keys, values, one; /* f32: 1 x K, rows x 1, 1 x 1 in the layout of `tile` */
};

/** Returns the least number of value elements (rows of a state [V, K]) that a wave must have, so
 * that each of its lanes holds a part. */
unsigned att_state_least_rows(const struct att_variant *v, const struct tir_machine *m);

/** Returns the description of `rows` value elements of a state of K x V in a wave's registers:
 * their layout there and in memory. */
struct att_state att_state(struct tir_builder *b, const struct att_variant *v, int key, int value,
                           unsigned rows);

/** Describes `rows` value elements of a state of K x V, in registers of the layout `tile`, rows x
 * K: the transpose of an accumulator K x rows. */
struct att_state att_state_of_layout(struct tir_builder *b, const struct att_variant *v, int key,
                                     int value, unsigned rows, const struct tir_layout *tile);

/** Returns the address of the state of a value head in a slot (i32) of the pool `state`. */
struct tir_value att_state_at(struct tir_builder *b, const struct att_state *s,
                              struct tir_value slot, struct tir_value value_head);

/** Loads the part of the state at `base` (i64) whose first value element is `first` (i32); zeros
 * where `there` (i1) is false. */
struct tir_value att_state_load(struct tir_builder *b, const struct att_state *s,
                                struct tir_value base, struct tir_value first,
                                struct tir_value there);
/** Stores a part of a state to the place where att_state_load() loads it; nothing where `there`
 * (i1) is false. */
void att_state_store(struct tir_builder *b, const struct att_state *s, struct tir_value base,
                     struct tir_value first, struct tir_value there, struct tir_value a);

/** Returns the type of 1 x K elements of `dtype` as they lie in memory. */
struct tir_type att_state_raw_keys(struct tir_builder *b, const struct att_state *s,
                                   unsigned dtype);

/** Loads 1 x K elements of `dtype` at `base` as they lie in memory; zeros where `there` (i1) is
 * false. */
struct tir_value att_state_load_keys(struct tir_builder *b, const struct att_state *s,
                                     struct tir_value base, unsigned dtype, struct tir_value there);
/** Converts the result of att_state_load_keys() to f32, in the layout of att_state.keys. */
struct tir_value att_state_keys(struct tir_builder *b, const struct att_state *s,
                                struct tir_value raw);

/** Stores keys of type att_state.keys at `base` in the order of memory; nothing where `there`
 * (i1) is false. */
void att_state_store_keys(struct tir_builder *b, const struct att_state *s, struct tir_value base,
                          struct tir_value there, struct tir_value keys);

/** Loads `rows` x 1 adjacent elements of `dtype` at `base`; zeros where `there` (i1) is false. */
struct tir_value att_state_load_values(struct tir_builder *b, const struct att_state *s,
                                       struct tir_value base, unsigned dtype,
                                       struct tir_value there);
/** Stores `rows` x 1 elements side by side at `base`; nothing where `there` (i1) is false. */
void att_state_store_values(struct tir_builder *b, struct tir_value base, struct tir_value there,
                            struct tir_value a);

/** Stores one element at `base`; nothing where `there` (i1) is false. */
void att_state_store_one(struct tir_builder *b, struct tir_value base, struct tir_value there,
                         struct tir_value a);

/** Loads one element of `dtype` at `base`, 1 x 1; zero where `there` (i1) is false. */
struct tir_value att_state_load_one(struct tir_builder *b, const struct att_state *s,
                                    struct tir_value base, unsigned dtype, struct tir_value there);

/** Returns `a` (keys 1 x K, values rows x 1, or one number) repeated in the shape of the state. */
struct tir_value att_state_spread(struct tir_builder *b, const struct att_state *s,
                                  struct tir_value a);

#endif
