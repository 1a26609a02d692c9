/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares what the files of template rope_qk_norm_cache share. Templates mla_rope_cache,
 * rope_decode and indexer_rope_cache load, rotate and store their heads by it too. A tile of heads
 * is rope.rows heads of one token in a wave's registers.
 */
#ifndef TEMPLATES_ROPE_ROPE_H
#define TEMPLATES_ROPE_ROPE_H

#include "ir/builder.h"
#include "templates/cache/cache.h"
#include "templates/workgroup/scalar.h"
#include "templates/variant.h"

enum {
    ROPE_ELEM = 2,       /* bytes of an element of bf16 or fp16 */
    ROPE_FEW_PIECES = 4, /* most pieces of a head whose elements are stored as one byte each */
    ROPE_MAX_PIECES = 6, /* most pieces of a head */
    ROPE_MAX_SPANS = 24, /* most spans of a head */
    ROPE_MAX_PARTS = ROPE_MAX_SPANS + ROPE_MAX_PIECES,
};

/** Index in att_tile.own: number of elements of a head in a lane. */
enum { ROPE_ELEMENTS };

/** Consecutive elements of a head, which one load or store moves: a tile of heads x elements. */
struct rope_span {
    int first; /* index of the span's first element in the head */
    /* Type of a load of the span of all heads of a tile. If the shape is packed, a piece's element
     * is a dword with the two elements of a pair. */
    struct tir_type heads;
    /* Type of the span of one vector for all heads, such as norm weights or cosines: 1 x elements,
     * in the columns of `heads`. */
    struct tir_type vector;
};

/** The division of a tile of heads into columns: in spans, as memory has them, and in parts, as f32
 * arithmetic needs them. Rotated pairs are in pieces of power-of-two width. Parts 2i and 2i + 1 are
 * the first and the second elements of the pairs of piece i. In memory these parts are spans 2i and
 * 2i + 1 or, if packed, span i. Parts of elements that do not rotate follow, one for each span. */
struct rope_shape {
    unsigned dim;                        /* number of elements of a head */
    unsigned n_spans, n_parts, n_pieces; /* numbers of spans, parts and pieces of a head */
    unsigned n_rotated;                  /* number of pieces that are rotated; they come first */
    /* True: a span of a piece has both elements of each pair in one dword, since they are adjacent
     * in memory (GPT-J). False: a piece has two spans. The two elements of a pair are half of the
     * rotated elements apart in memory (NeoX). */
    bool packed;
    bool many; /* true: the head has more than ROPE_FEW_PIECES pieces */
    struct rope_span spans[ROPE_MAX_SPANS];
};

/** The parts of a tile of heads: f32, or the dtype in which they are stored. */
struct rope_parts {
    struct tir_value v[ROPE_MAX_PARTS];
};

/* A kernel with rotated heads under construction: builder, shapes, and the token that is
 * processed. */
struct rope {
    const struct att_variant *v;
    const struct tir_machine *m;
    struct tir_builder b;
    unsigned dtype; /* enum tir_dtype of q, k and v in memory: 16 bits */
    bool narrow_q;  /* true: q is stored as fp8 */
    /* true: elements that do not rotate are in pieces of pairs too, so that all parts have one
     * layout */
    bool even;
    bool by_pages; /* true: the caches of k and v have one scale for each page */
    int waves;     /* number of waves of a workgroup, a power of two */
    int elements;  /* number of elements of a head that a lane has, if pieces are wide enough */
    int rows;      /* number of heads of a tile */
    struct rope_shape rotated, values, gates; /* shapes of heads of q and k, of v, and of gates */
    struct tir_value wave;                    /* i32: index of the wave in the workgroup */
    /* i1, the same in all waves: true if rope_vectors have copies in LDS. */
    struct tir_value keeps_vectors;
    /* i1, the same in all waves: true if v of several tokens is stored at a time */
    struct tir_value gathers;
    struct att_cache cache[2]; /* the caches of k and of v */
    struct tir_value token;    /* i32: row of the token in q, k and v */
    /* i64: the token's slot in the cache; negative: the token is not stored */
    struct tir_value slot;
    /* i64: position of the token; three positions with mrope, else only [0]. */
    struct tir_value position[3];
    /* f32: cosine and sine of each pair's angle at `position`, a tile for each rotated piece: 1 x
     * pairs of the piece. */
    struct tir_value cos[ROPE_MAX_PIECES], sin[ROPE_MAX_PIECES];
    /* f32, rows x 1: 1 / scale of the page for each head of the tile; set if by_pages */
    struct tir_value inverse;
};

/** A tensor [token, head, head_dim] with elements of `size` bytes. */
struct rope_tensor {
    int size;
    /* i64: address of the tensor; distance of two tokens in bytes. */
    struct tir_value base, token_stride;
    struct tir_value head_stride; /* i32: distance of two heads in bytes */
};

/** A bias or the weights of a norm: a tensor [head, head_dim], or a part of each of its heads,
 * which is the same for all tokens. */
struct rope_vectors {
    const char *tensor; /* name of the tensor's argument; NULL: there is no tensor */
    /* first: index of the part's first element in a head. stride: distance of two heads in
     * elements; 0: the number of elements of a head's shape. */
    int first, stride;
    struct tir_value lds;  /* i32: LDS address of the tensor's copy */
    struct tir_value rows; /* i32: number of heads in LDS, a multiple of a tile's heads */
};

/** Indices of the sources of a token's heads. With field gate each head of tensor q is followed by
 * its gate. */
enum rope_part { ROPE_Q, ROPE_K, ROPE_V, ROPE_GATE, ROPE_SOURCES };

/** The heads of q, k, v or gates that a wave loads, transforms and stores: heads `first` to `end` -
 * 1 of `all` heads (i32). */
struct rope_source {
    /* For norm full (over all heads of a token): names of the arguments with the token's sum of
     * squares, and with 1 / number of summed elements. */
    const char *squares, *share;
    /* in: tensor from which heads are loaded. out: tensor to which heads are stored. A `size` of 0:
     * there is no such tensor. */
    struct rope_tensor in, out;
    /* Weights of the norm, and bias; a norm per head has one vector of weights, [head_dim]. */
    struct rope_vectors weight, bias;
    const struct rope_shape *shape; /* spans and pieces into which a head is divided */
    /* Loaded weights of a norm per head: one vector for all heads, in spans. */
    struct tir_value weights[ROPE_MAX_SPANS];
    struct tir_value all, first, end;
    struct tir_value base; /* i64: address of the token's first head in `in` */
};

/* Functions of tile.c: shapes, loads and stores of tiles of heads. */

/** Returns the variant's rotary dim, the number of elements of a head that rotate; 0 if nothing
 * rotates. */
int rope_rotary_dim(const struct att_variant *v);
/** Sets p->rows and the shapes of tiles from the variant and p->elements, before anything is
 * built. */
void rope_choose_shapes(struct rope *p);
/** Returns the number of elements of a tile of heads with shape `s` that a lane has. */
unsigned rope_lane_elements(const struct rope *p, const struct rope_shape *s);

/** Converts the elements of x, of any dtype, to f32. */
struct tir_value rope_to_f32(struct rope *p, struct tir_value x);
/** Returns x (f32 from memory) with every NaN replaced by a NaN whose low 16 bits are 0. Results of
 * x and 16-bit data can then be rounded to 16 bits without a check for NaN. */
struct tir_value rope_short_nan(struct rope *p, struct tir_value x);
/** Returns x, a row for all heads or a column with a number for each head, repeated in the type of
 * `like`. */
struct tir_value rope_repeat(struct rope *p, struct tir_value x, struct tir_value like);

/** Converts the spans raw[] of a tile of heads, as loads return them, to parts in f32. */
struct rope_parts rope_unpack(struct rope *p, const struct rope_shape *s,
                              const struct tir_value *raw);
/** Converts the parts of x, heads of shape `s`, to `dtype` (enum tir_dtype) in place. */
void rope_convert(struct rope *p, const struct rope_shape *s, struct rope_parts *x, unsigned dtype);
/** Returns integers of twice the size of `low` and `high`, whose elements have 16 or 8 bits: `low`
 * is the low half of each integer, `high` the high half. */
struct tir_value rope_join(struct rope *p, struct tir_value low, struct tir_value high);
/** Sets raw[] to the spans that stores take, from the parts of x, which have the stored dtype. */
void rope_pack(struct rope *p, const struct rope_shape *s, const struct rope_parts *x,
               struct tir_value *raw);

/** Issues the loads of the spans raw[] of a tile of heads, from head `row` (i32 index) on. With
 * `vector` it loads only head `row`, in the types rope_span.vector. Head 0 is at address `base`
 * (i64), heads are `stride` (i32) bytes apart, and heads from `end` (i32) on are 0. */
void rope_load(struct rope *p, const struct rope_shape *s, struct tir_value base,
               struct tir_value end, struct tir_value stride, struct tir_value row, bool vector,
               struct tir_value *raw);
/** Stores the spans raw[] of a tile of heads from head `row` (i32 index) on, with elements of
 * `size` bytes. Head 0 is at address `base` (i64), and heads are `stride` (i32) bytes apart. Heads
 * from `end` (i32) on are not written. */
void rope_store(struct rope *p, const struct rope_shape *s, struct tir_value base,
                struct tir_value end, struct tir_value stride, int size, struct tir_value row,
                const struct tir_value *raw);

/** Sets s->in from the arguments, and s->out for q, or p->cache for k and v. */
void rope_open_source(struct rope *p, struct rope_source *s, enum rope_part part);
/** True if the arguments of the outputs of k, v and gates are read for each token, with a wait.
 * Kernels with biases, scales of tokens or the sums of a full norm have few scalar registers left.
 * Arguments that are read before the loop over tokens would occupy scalar registers through the
 * loop. */
bool rope_opens_late(const struct rope *p);
/** Sets s->out to the tensor to which k, or v if `value`, is written besides the cache (field
 * keep_kv). Does nothing if the variant has no such tensor or s->out is set. */
void rope_open_kept(struct rope *p, struct rope_source *s, bool value);
/** Returns tensor `t` [token, head, element] with the address and strides from its arguments.
 * Elements have `size` bytes. */
struct rope_tensor rope_open_tensor(struct rope *p, struct att_tensor t, int size);
/** Returns the address (i64) of the first head of token p->token in tensor `t`. */
struct tir_value rope_token_base(struct rope *p, const struct rope_tensor *t);

/* Functions of vectors.c: biases and norm weights. */

/** Copies the biases and the weights of a full norm to LDS, and sets p->keeps_vectors. Copies
 * nothing if the workgroup has one token or LDS has no room. of[]: the sources, indexed by enum
 * rope_part. Every wave must call it. */
void rope_keep_vectors(struct rope *p, struct rope_source of[ROPE_SOURCES]);
/** Returns the vectors `t` of a tile's heads from head `row` (i32 index) on, as parts in f32. Reads
 * them from LDS, or from memory if LDS has no copy. */
struct rope_parts rope_load_vectors(struct rope *p, const struct rope_source *s,
                                    const struct rope_vectors *t, struct tir_value row);

/* Functions of norm.c: norms of heads. */

/** Issues the loads of the weights [head_dim], which all heads share, into s->weights. Does nothing
 * unless the norm is per head. */
void rope_load_weights(struct rope *p, struct rope_source *s);
/** Multiplies each head of the tile x by its own 1 / rms and by the weights of
 * rope_load_weights(). */
void rope_normalise_heads(struct rope *p, const struct rope_source *s, struct rope_parts *x);
/** Returns 1 / rms of token p->token, a scalar f32, for norm full. The sum of squares over the
 * heads of all ranks is an argument of the kernel. Returns no value for other norms. */
struct tir_value rope_given_inverse_rms(struct rope *p, const struct rope_source *s);
/** Multiplies the tile x of heads, from head `row` (i32 index) on, by the weights of the heads and
 * by `inverse`. `inverse` (scalar f32) is 1 / rms of the token. */
void rope_normalise_all(struct rope *p, const struct rope_source *s, struct tir_value row,
                        struct tir_value inverse, struct rope_parts *x);

/* Functions of rotate.c: angles and rotation. */

/** Loads the position of token p->token, and sets p->cos and p->sin to the cosines and sines (f32)
 * of the position's angles. */
void rope_find_angles(struct rope *p);
/** Issues the loads of p->position of token p->token. Without mrope, this function and the next two
 * are the steps of rope_find_angles(). */
void rope_load_positions(struct rope *p);
/** Issues the loads of cosines and sines of p->position[0] into p->cos and p->sin, in the dtype of
 * the table cos_sin. */
void rope_load_angles(struct rope *p);
/** Converts p->cos and p->sin, as loaded, to f32. */
void rope_widen_angles(struct rope *p);
/** Returns the enum tir_dtype of argument cos_sin, the table of cosines and sines. */
unsigned rope_angle_dtype(const struct rope *p);
/** Rotates the pairs of a tile of heads (f32) in place by p->cos and p->sin. */
void rope_rotate(struct rope *p, struct rope_parts *x);

/* Functions of visit.c: work on the heads of a token. */

/** Issues the loads of the source's tile of heads from head `row` (i32 index) on into raw[], one
 * value for each span. */
void rope_fetch(struct rope *p, const struct rope_source *s, struct tir_value row,
                struct tir_value *raw);
/** Transforms the token's heads of q and stores them in their tensor, as fp8 with narrow_q, else in
 * the op's dtype. `first` is the loaded first tile of heads. */
void rope_visit_q(struct rope *p, const struct rope_source *s, const struct tir_value *first);
/** Adds the gates' bias to the gates, which follow the heads of q, and stores the gates to their
 * own tensor. `q` and `gate` are the two sources. */
void rope_visit_gate(struct rope *p, const struct rope_source *q, const struct rope_source *gate);
/** Applies bias, norm and rotation to the tile x of heads of q or k, and only the bias to heads of
 * v. `row` (i32) is the index of the first head, `inverse` the 1 / rms of norm full. */
void rope_transform(struct rope *p, const struct rope_source *s, struct tir_value inverse,
                    struct tir_value row, struct rope_parts *x);
/** Sets p->slot to the slot of token p->token in the cache. The slot is -1, so that nothing is
 * cached, if argument slot_mapping is NULL. */
void rope_load_slot(struct rope *p);
/** Transforms the token's heads of k, or of v if `value`, and stores them in their tensor and in
 * the token's slot. With p->by_pages, rope_visit_pages() stores them in the cache instead. first[]
 * has the loaded first tile of heads. */
void rope_visit_kv(struct rope *p, const struct rope_source *s, const struct tir_value *first,
                   bool value);

/* Functions of pages.c: caches with one scale for each page. */

/** Stores k or v (`part`) of tokens `first` to `end` - 1 (i32), in pages whose scales are computed
 * here. Runs of tokens of a page are stored one after the other. Every wave must call it. */
void rope_visit_pages(struct rope *p, struct rope_source *of, enum rope_part part,
                      struct tir_value first, struct tir_value end);

/* Functions of runs.c: v of several tokens at once. */

/** True if v of several tokens can be stored together: if V's cache has the SHUFFLE layout, and a
 * lane has room for the tokens that share 16 bytes of it. */
bool rope_gathers_values(const struct rope *p);
/** Stores v of tokens `first` to `end` - 1 (i32) in the cache and, with field keep_kv, in its
 * tensor. Every wave must call it. */
void rope_visit_values(struct rope *p, struct rope_source *s, struct tir_value first,
                       struct tir_value end);

/* Functions of store.c: stores to the cache and to tensors. */

/** Addresses of the token's slot in the cache of k or of v. */
struct rope_slot {
    struct att_cache cache;
    struct tir_value at; /* i64: byte offset of the slot's first head from the cache's first byte */
    struct tir_value head_stride; /* i64: distance of two heads of the slot in bytes */
    /* i64: address of the first head's scale; no value: the slot has no scales of its own */
    struct tir_value scales;
    struct tir_value scale_stride; /* i32: distance of the scales of two heads in bytes */
};

/** Returns the tile type of one number of `dtype` (enum tir_dtype) for each head of a tile, rows x
 * 1. */
struct tir_type rope_head_column(struct rope *p, const struct rope_shape *s, unsigned dtype);
/** Returns the largest |x| of each head of a tile, rows x 1 of f32. */
struct tir_value rope_absmax(struct rope *p, const struct rope_shape *s,
                             const struct rope_parts *x);

/** Returns the addresses of slot p->slot in the cache of k, or of v if `value` is true. */
struct rope_slot rope_open_slot(struct rope *p, bool value);
/** Stores a tile of heads, from head `row` (i32 index) on, in slot `t`, if p->slot is not negative.
 * If the cache has another dtype than the op, `x` (f32) is quantised. Otherwise the spans raw[] are
 * stored. */
void rope_write_cache(struct rope *p, const struct rope_source *s, const struct rope_slot *t,
                      struct tir_value row, const struct rope_parts *x,
                      const struct tir_value *raw);
/** Stores the spans stored[] of a tile of heads, from head `row` (i32 index) on, in slot `t`. The
 * spans have the dtype of the cache. */
void rope_store_slot(struct rope *p, const struct rope_source *s, const struct rope_slot *t,
                     struct tir_value row, const struct tir_value *stored);
/** Stores `scale` (f32, rows x 1) as the scales of the heads from head `row` (i32 index) on in slot
 * `t`. */
void rope_store_scales(struct rope *p, const struct rope_source *s, const struct rope_slot *t,
                       struct tir_value row, struct tir_value scale);
/** Stores the spans raw[] of a tile of heads, from head `row` (i32 index) on, in tensor `t`, in the
 * row of token p->token. The spans have the tensor's dtype. */
void rope_write_dense(struct rope *p, const struct rope_source *s, const struct rope_tensor *t,
                      struct tir_value row, const struct tir_value *raw);

#endif
