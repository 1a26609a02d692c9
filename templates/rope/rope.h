/* SPDX-License-Identifier: Apache-2.0
 *
 * Types and functions that the files of the `rope_qk_norm_cache` template share. `mla_rope_cache`
 * holds and rotates its heads by them too.
 */
#ifndef TEMPLATES_ROPE_ROPE_H
#define TEMPLATES_ROPE_ROPE_H

#include "ir/builder.h"
#include "templates/cache/cache.h"
#include "templates/workgroup/scalar.h"
#include "templates/variant.h"

enum {
    ROPE_ELEM = 2,       /* bytes of bf16 and fp16 */
    ROPE_FEW_PIECES = 4, /* the most pieces of a head with elements of one byte */
    ROPE_MAX_PIECES = 6,
    ROPE_MAX_SPANS = 24,
    ROPE_MAX_PARTS = ROPE_MAX_SPANS + ROPE_MAX_PIECES,
};

/** Members of att_tile.own: elements of a head in a lane. */
enum { ROPE_ELEMENTS };

/** Consecutive elements of a head, held by one tile of heads x elements. */
struct rope_span {
    int first;              /* first element in the head */
    struct tir_type heads;  /* type as loaded: GPT-J pairs are dwords */
    struct tir_type vector; /* type of one head's weights or cosines: the same columns */
};

/** The registers of a tile of heads. Rotated pairs are in pieces of power-of-two width: parts 2i
 * and 2i + 1 are the two elements of the pairs of piece i. They are spans 2i and 2i + 1 of memory
 * or, packed, both in span i. Parts that are not rotated follow. */
struct rope_shape {
    unsigned dim; /* elements of a head */
    unsigned n_spans, n_parts, n_pieces;
    unsigned n_rotated; /* number of rotated pieces, which come first */
    bool packed;        /* the two elements of a pair are neighbours in memory (GPT-J) */
    bool many;          /* more than ROPE_FEW_PIECES pieces */
    struct rope_span spans[ROPE_MAX_SPANS];
};

/** A tile of heads in parts, all of one kind: f32, or the form stored in memory. */
struct rope_parts {
    struct tir_value v[ROPE_MAX_PARTS];
};

struct rope {
    const struct att_variant *v;
    const struct tir_machine *m;
    struct tir_builder b;
    unsigned dtype;
    bool narrow_q; /* q is stored as elements of one byte */
    bool even;     /* unrotated parts have the widths of pieces, so that registers are alike */
    bool by_pages; /* k and v have a scale per page */
    int waves;     /* waves of a workgroup, a power of two */
    int elements;  /* elements of a head that a lane has, if pieces are wide enough */
    int rows;      /* heads of a tile */
    struct rope_shape rotated, values, gates;
    struct tir_value wave;          /* i32: number in the workgroup */
    struct tir_value keeps_vectors; /* i1, uniform over the workgroup: vectors are in LDS */
    struct tir_value gathers;       /* i1, uniform over the workgroup: values of several tokens are
                                       stored at a time */
    struct att_cache cache[2];      /* k, v */
    struct tir_value token;         /* i32: row of q, k and v */
    struct tir_value slot;          /* i64: slot of the cache; negative: the token is not stored */
    struct tir_value position[3];   /* i64: of the token; three values if mrope is used */
    struct tir_value cos[ROPE_MAX_PIECES], sin[ROPE_MAX_PIECES]; /* 1 x the piece's pairs */
    struct tir_value inverse; /* 1 / the page's scales: rows x 1, one for each head of the tile */
};

/** A tensor [token, head, head_dim] with elements of `size` bytes. */
struct rope_tensor {
    int size;
    struct tir_value base, token_stride; /* i64, i64 bytes */
    struct tir_value head_stride;        /* i32 bytes */
};

/** A tensor [head, head_dim], or a part of each of its heads, that every token uses. */
struct rope_vectors {
    const char *tensor;    /* name of its argument, or NULL */
    int first, stride;     /* elements: start of a head; elements to the next head, 0: all heads are
                              the same */
    struct tir_value lds;  /* i32: address of its copy in LDS */
    struct tir_value rows; /* i32: heads in LDS, in whole tiles */
};

/** The tensors with heads of a token. A gate follows each head of q. */
enum rope_part { ROPE_Q, ROPE_K, ROPE_V, ROPE_GATE, ROPE_SOURCES };

/** The heads of q, k, v or a gate that a wave loads, rotates and stores: numbers `first` to
 * `end` - 1 of `all` heads, i32. */
struct rope_source {
    const char *squares, *share;      /* norm full: arguments of the given sum of squares and of its
                                         count */
    struct rope_tensor in, out;       /* size 0: no tensor */
    struct rope_vectors weight, bias; /* a norm per head has one weight, [head_dim] */
    const struct rope_shape *shape;
    struct tir_value weights[ROPE_MAX_SPANS]; /* of a norm per head: the same for all heads */
    struct tir_value all, first, end;
    struct tir_value base; /* i64: address of the token in `in` */
};

/* tile.c */

/** Returns the variant's rotary dim; 0 if nothing rotates. */
int rope_rotary_dim(const struct att_variant *v);
/** Sets p->rows and the shapes of tiles from the variant and p->elements, before anything is
 * built. */
void rope_choose_shapes(struct rope *p);
/** Returns the number of elements of a tile that a lane has. */
unsigned rope_lane_elements(const struct rope *p, const struct rope_shape *s);

/** Converts elements to f32. */
struct tir_value rope_to_f32(struct rope *p, struct tir_value x);
/** Returns x (f32 from memory) with every NaN replaced by one whose low 16 bits are 0. Its
 * results with 16-bit data can then be rounded without a check for NaN. */
struct tir_value rope_short_nan(struct rope *p, struct tir_value x);
/** Returns x, a vector for one head, repeated for every head of a tile, in the layout of `like`. */
struct tir_value rope_repeat(struct rope *p, struct tir_value x, struct tir_value like);

/** Converts spans in the form of memory (`raw`, n_spans of them) to parts in f32. */
struct rope_parts rope_unpack(struct rope *p, const struct rope_shape *s,
                              const struct tir_value *raw);
/** Converts parts to `dtype`, in place. */
void rope_convert(struct rope *p, const struct rope_shape *s, struct rope_parts *x, unsigned dtype);
/** Joins elements of 16 or 8 bits to dwords or words: `low` becomes the low half, `high` the high
 * half. */
struct tir_value rope_join(struct rope *p, struct tir_value low, struct tir_value high);
/** Converts parts, already of the stored dtype, to spans in the form of memory: raw[]. */
void rope_pack(struct rope *p, const struct rope_shape *s, const struct rope_parts *x,
               struct tir_value *raw);

/** Loads spans of the heads from `row` on, or with `vector` of one head. `end` heads begin at
 * `base`, `stride` bytes apart. */
void rope_load(struct rope *p, const struct rope_shape *s, struct tir_value base,
               struct tir_value end, struct tir_value stride, struct tir_value row, bool vector,
               struct tir_value *raw);
/** Stores spans of heads, with elements of `size` bytes. Heads from `end` on are not written. */
void rope_store(struct rope *p, const struct rope_shape *s, struct tir_value base,
                struct tir_value end, struct tir_value stride, int size, struct tir_value row,
                const struct tir_value *raw);

/** Reads the addresses and strides of s->in, s->out and, for keys and values, of the cache. */
void rope_open_source(struct rope *p, struct rope_source *s, enum rope_part part);
/** True if the destinations of k, v and the gate are read token by token, with a wait. Biases,
 * scales of tokens and the sums of a full norm leave few scalar registers. Arguments read before
 * the token loop occupy them all through it. */
bool rope_opens_late(const struct rope *p);
/** Sets s->out to the tensor to which k, or v if `value`, is also written (keep_kv), if the
 * variant has one. */
void rope_open_kept(struct rope *p, struct rope_source *s, bool value);
/** Reads the address and the strides of `t`, a tensor [token, head, element] with elements of
 * `size` bytes. */
struct rope_tensor rope_open_tensor(struct rope *p, struct att_tensor t, int size);
/** Returns the address of the token's first head, i64. */
struct tir_value rope_token_base(struct rope *p, const struct rope_tensor *t);

/* vectors.c */

/** Copies biases and the weights of a full norm to LDS, if that pays. Every wave takes part. */
void rope_keep_vectors(struct rope *p, struct rope_source of[ROPE_SOURCES]);
/** Returns the vectors of a tile's heads from `row` on, as parts in f32: from LDS, or from
 * memory if they are not there. */
struct rope_parts rope_load_vectors(struct rope *p, const struct rope_source *s,
                                    const struct rope_vectors *t, struct tir_value row);

/* norm.c */

/** Loads the weights [head_dim], which all heads share, to s->weights; nothing if the norm has
 * none. */
void rope_load_weights(struct rope *p, struct rope_source *s);
/** Multiplies each head by its own 1 / rms and by the weights of rope_load_weights(). */
void rope_normalise_heads(struct rope *p, const struct rope_source *s, struct rope_parts *x);
/** Returns 1 / rms of the token, a scalar f32, from the caller's sum of squares over the heads of
 * all ranks. No value without norm full. */
struct tir_value rope_given_inverse_rms(struct rope *p, const struct rope_source *s);
/** Multiplies the heads from `row` on by `inverse`, 1 / rms of the token, and by their weights. */
void rope_normalise_all(struct rope *p, const struct rope_source *s, struct tir_value row,
                        struct tir_value inverse, struct rope_parts *x);

/* rotate.c */

/** Loads cos and sin of the token's position to p->cos and p->sin, in f32. */
void rope_find_angles(struct rope *p);
/** Loads the token's position, or its three with mrope. Without mrope, this and the next two
 * functions are the steps of rope_find_angles(). */
void rope_load_positions(struct rope *p);
/** Loads cos and sin of the position to p->cos and p->sin, in the type of the table cos_sin. */
void rope_load_angles(struct rope *p);
/** Converts p->cos and p->sin, as loaded, to f32. */
void rope_widen_angles(struct rope *p);
/** Returns the dtype of the table cos_sin: enum tir_dtype. */
unsigned rope_angle_dtype(const struct rope *p);
/** Rotates the pairs of a tile of heads (f32) in place by p->cos and p->sin. */
void rope_rotate(struct rope *p, struct rope_parts *x);

/* visit.c */

/** Issues the loads of a source's tile of heads from `row` on. */
void rope_fetch(struct rope *p, const struct rope_source *s, struct tir_value row,
                struct tir_value *raw);
/** Transforms the heads of q and stores them to their tensor, in fp8 with narrow_q, else in the
 * op's dtype. `first` is the loaded first tile of heads. */
void rope_visit_q(struct rope *p, const struct rope_source *s, const struct tir_value *first);
/** Stores the second half of each head of q to the tensor of gates. Only its bias is added. */
void rope_visit_gate(struct rope *p, const struct rope_source *q, const struct rope_source *gate);
/** Applies bias, norm and rotation to q and k before they are stored; v only gets its bias.
 * `inverse` is 1 / rms of norm full. */
void rope_transform(struct rope *p, const struct rope_source *s, struct tir_value inverse,
                    struct tir_value row, struct rope_parts *x);
/** Sets p->slot to the token's slot; to -1 if the call has no slot_mapping and caches nothing. */
void rope_load_slot(struct rope *p);
/** Stores keys or values of the token in their tensor and slot. rope_visit_pages() handles a slot
 * in a page whose scale is computed. `first` is the first tile. */
void rope_visit_kv(struct rope *p, const struct rope_source *s, const struct tir_value *first,
                   bool value);

/* pages.c */

/** Stores keys or values of the tokens `first` .. `end` - 1 in pages whose scales are computed
 * here, run by run. Every wave takes part. */
void rope_visit_pages(struct rope *p, struct rope_source *of, enum rope_part part,
                      struct tir_value first, struct tir_value end);

/* runs.c */

/** True if values are stored several tokens at a time: for V in SHUFFLE, if a lane has room for
 * x tokens. */
bool rope_gathers_values(const struct rope *p);
/** Stores values of a workgroup's tokens, `first` to `end`, i32, in the cache and, with keep_kv, in
 * their tensor. Every wave takes part. */
void rope_visit_values(struct rope *p, struct rope_source *s, struct tir_value first,
                       struct tir_value end);

/* store.c */

/** Addresses of the token's slot in the cache of k or of v. */
struct rope_slot {
    struct att_cache cache;
    struct tir_value at;           /* i64: byte offset of the first head */
    struct tir_value head_stride;  /* i64 bytes */
    struct tir_value scales;       /* i64: address of the first head's scale */
    struct tir_value scale_stride; /* i32 bytes between the scales of two heads */
};

/** Returns the type of one number of `dtype` for each head of a tile, rows x 1. */
struct tir_type rope_head_column(struct rope *p, const struct rope_shape *s, unsigned dtype);
/** Returns the largest |x| of each head of a tile, rows x 1 of f32. */
struct tir_value rope_absmax(struct rope *p, const struct rope_shape *s,
                             const struct rope_parts *x);

/** Returns the token's slot in the cache of k, or of v if `value`. */
struct rope_slot rope_open_slot(struct rope *p, bool value);
/** Stores the heads of a tile from `row` on in the token's slot, if it has one. `x` is quantised
 * for caches with scales; `raw` is x in the op's dtype for others. */
void rope_write_cache(struct rope *p, const struct rope_source *s, const struct rope_slot *t,
                      struct tir_value row, const struct rope_parts *x,
                      const struct tir_value *raw);
/** Stores the heads of a tile from `row` on to slot t, already in the dtype of the cache:
 * stored[]. */
void rope_store_slot(struct rope *p, const struct rope_source *s, const struct rope_slot *t,
                     struct tir_value row, const struct tir_value *stored);
/** Stores `scale`, rows x 1 f32, as the scales of the heads from `row` on in slot t. */
void rope_store_scales(struct rope *p, const struct rope_source *s, const struct rope_slot *t,
                       struct tir_value row, struct tir_value scale);
/** Stores the heads of a tile from `row` on, in the op's dtype, in a tensor at the token's row. */
void rope_write_dense(struct rope *p, const struct rope_source *s, const struct rope_tensor *t,
                      struct tir_value row, const struct tir_value *raw);

#endif
