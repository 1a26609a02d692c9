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
    ROPE_ELEM = 2,       /* bytes of an element of bf16 or fp16 */
    ROPE_FEW_PIECES = 4, /* most pieces of a head whose elements are stored as one byte each */
    ROPE_MAX_PIECES = 6,
    ROPE_MAX_SPANS = 24,
    ROPE_MAX_PARTS = ROPE_MAX_SPANS + ROPE_MAX_PIECES,
};

/** Members of att_tile.own: elements of a head in a lane. */
enum { ROPE_ELEMENTS };

/** Consecutive elements of a head, held by one tile of heads x elements. */
struct rope_span {
    int first; /* index of the span's first element in the head */
    /* Type of the span of a tile of heads as loads return it; a GPT-J pair is one dword. */
    struct tir_type heads;
    /* Type of one head's norm weights or cosines, in the columns of `heads`. */
    struct tir_type vector;
};

/** The registers of a tile of heads. Rotated pairs are in pieces of power-of-two width: parts 2i
 * and 2i + 1 are the two elements of the pairs of piece i. They are spans 2i and 2i + 1 of memory
 * or, packed, both in span i. Parts that are not rotated follow. */
struct rope_shape {
    unsigned dim; /* number of elements of a head */
    unsigned n_spans, n_parts, n_pieces;
    unsigned n_rotated; /* number of pieces that are rotated; they come first */
    /* True: the two elements of a pair are neighbours in memory (GPT-J); false: half the rotary dim
     * apart. */
    bool packed;
    bool many; /* true: the head has more than ROPE_FEW_PIECES pieces */
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
    bool narrow_q; /* true: q is stored as fp8 */
    bool even; /* true: unrotated parts have the widths of pieces, so that registers are alike */
    bool by_pages; /* true: the caches of k and v have one scale for each page */
    int waves;     /* number of waves of a workgroup, a power of two */
    int elements;  /* number of elements of a head that a lane has, if pieces are wide enough */
    int rows;      /* number of heads of a tile */
    struct rope_shape rotated, values, gates;
    struct tir_value wave; /* i32: index of the wave in the workgroup */
    /* i1, uniform over the workgroup: rope_vectors have copies in LDS. */
    struct tir_value keeps_vectors;
    struct tir_value gathers;  /* i1, uniform over the workgroup: values of several tokens are
                                       stored at a time */
    struct att_cache cache[2]; /* the caches of k and of v */
    struct tir_value token;    /* i32: row of the token in q, k and v */
    struct tir_value slot;     /* i64: slot of the cache; negative: the token is not stored */
    /* i64: position of the token; three positions with mrope, else only [0]. */
    struct tir_value position[3];
    /* Cosine and sine of each pair's angle, one tile for each rotated piece: 1 x pairs of the
     * piece. */
    struct tir_value cos[ROPE_MAX_PIECES], sin[ROPE_MAX_PIECES];
    struct tir_value inverse; /* f32: 1 / scale of the page for each head of the tile, rows x 1 */
};

/** A tensor [token, head, head_dim] with elements of `size` bytes. */
struct rope_tensor {
    int size;
    /* i64: address of the tensor; bytes from a token to the next. */
    struct tir_value base, token_stride;
    struct tir_value head_stride; /* i32: bytes from a head to the next */
};

/** A tensor [head, head_dim], or a part of each of its heads, that every token uses. */
struct rope_vectors {
    const char *tensor; /* name of the tensor's argument; NULL: there is no tensor */
    /* Elements from the start of a head to its part, and from a head to the next; stride 0: one
     * vector for all heads. */
    int first, stride;
    struct tir_value lds;  /* i32: LDS address of the tensor's copy */
    struct tir_value rows; /* i32: number of heads in LDS, in whole tiles */
};

/** The sources of a token's heads. In tensor q, a gate follows each head of q. */
enum rope_part { ROPE_Q, ROPE_K, ROPE_V, ROPE_GATE, ROPE_SOURCES };

/** The heads of q, k, v or a gate that a wave loads, rotates and stores: numbers `first` to
 * `end` - 1 of `all` heads, i32. */
struct rope_source {
    /* For norm full: names of the arguments with the token's sum of squares, and with 1 / number of
     * summed elements. */
    const char *squares, *share;
    /* Tensors that the heads are loaded from and stored to; size 0: there is no such tensor. */
    struct rope_tensor in, out;
    /* Weights of the norm, and bias; a norm per head has one vector of weights, [head_dim]. */
    struct rope_vectors weight, bias;
    const struct rope_shape *shape;
    /* Loaded weights of a norm per head, the same for all heads. */
    struct tir_value weights[ROPE_MAX_SPANS];
    struct tir_value all, first, end;
    struct tir_value base; /* i64: address of the token's first head in `in` */
};

/* tile.c */

/** Returns the variant's rotary dim, the number of elements of a head that rotate; 0 if nothing
 * rotates. */
int rope_rotary_dim(const struct att_variant *v);
/** Sets p->rows and the shapes of tiles from the variant and p->elements, before anything is
 * built. */
void rope_choose_shapes(struct rope *p);
/** Returns the number of elements of a tile that a lane has. */
unsigned rope_lane_elements(const struct rope *p, const struct rope_shape *s);

/** Converts the elements of x, of any dtype, to f32. */
struct tir_value rope_to_f32(struct rope *p, struct tir_value x);
/** Returns x (f32 from memory) with every NaN replaced by one whose low 16 bits are 0. Its
 * results with 16-bit data can then be rounded without a check for NaN. */
struct tir_value rope_short_nan(struct rope *p, struct tir_value x);
/** Returns x, a vector for one head, repeated for every head of a tile, in the layout of `like`. */
struct tir_value rope_repeat(struct rope *p, struct tir_value x, struct tir_value like);

/** Converts the spans raw[] of a tile of heads, as loads return them, to parts in f32. */
struct rope_parts rope_unpack(struct rope *p, const struct rope_shape *s,
                              const struct tir_value *raw);
/** Converts the parts of x to `dtype` (enum tir_dtype) in place. */
void rope_convert(struct rope *p, const struct rope_shape *s, struct rope_parts *x, unsigned dtype);
/** Returns elements of twice the size, from elements of 16 or 8 bits: `low` is the low half of
 * each, `high` the high half. */
struct tir_value rope_join(struct rope *p, struct tir_value low, struct tir_value high);
/** Converts the parts of x, which have the stored dtype, to the spans raw[] that stores take. */
void rope_pack(struct rope *p, const struct rope_shape *s, const struct rope_parts *x,
               struct tir_value *raw);

/** Loads the spans raw[] of a tile of heads, from head `row` (i32 index) on. With `vector`, loads
 * the spans of that one head. `end` (i32) heads begin at address `base` (i64), `stride` (i32) bytes
 * apart. */
void rope_load(struct rope *p, const struct rope_shape *s, struct tir_value base,
               struct tir_value end, struct tir_value stride, struct tir_value row, bool vector,
               struct tir_value *raw);
/** Stores the spans raw[] of a tile of heads from head `row` (i32 index) on. Elements have `size`
 * bytes. Head 0 is at address `base` (i64), and heads are `stride` (i32) bytes apart. Heads from
 * `end` (i32) on are not written. */
void rope_store(struct rope *p, const struct rope_shape *s, struct tir_value base,
                struct tir_value end, struct tir_value stride, int size, struct tir_value row,
                const struct tir_value *raw);

/** Reads the addresses and strides of s->in, s->out and, for keys and values, of the cache. */
void rope_open_source(struct rope *p, struct rope_source *s, enum rope_part part);
/** True if the destinations of k, v and the gate are read token by token, with a wait. Biases,
 * scales of tokens and the sums of a full norm leave few scalar registers. Arguments read before
 * the token loop occupy them all through it. */
bool rope_opens_late(const struct rope *p);
/** Sets s->out to the tensor to which k is written besides the cache (keep_kv), or v if `value` is
 * true. Without such a tensor s->out does not change. */
void rope_open_kept(struct rope *p, struct rope_source *s, bool value);
/** Reads the address and the strides of `t`, a tensor [token, head, element] with elements of
 * `size` bytes. */
struct rope_tensor rope_open_tensor(struct rope *p, struct att_tensor t, int size);
/** Returns the address (i64) of the first head of token p->token in tensor `t`. */
struct tir_value rope_token_base(struct rope *p, const struct rope_tensor *t);

/* vectors.c */

/** Copies the biases and the weights of a full norm to LDS if that pays, and sets p->keeps_vectors.
 * `of` has the sources by rope_part. Every wave takes part. */
void rope_keep_vectors(struct rope *p, struct rope_source of[ROPE_SOURCES]);
/** Returns the vectors `t` of a tile's heads from head `row` (i32 index) on, as parts in f32. Reads
 * them from LDS, or from memory if LDS has no copy. */
struct rope_parts rope_load_vectors(struct rope *p, const struct rope_source *s,
                                    const struct rope_vectors *t, struct tir_value row);

/* norm.c */

/** Loads the weights [head_dim], which all heads share, to s->weights; nothing if the norm has
 * none. */
void rope_load_weights(struct rope *p, struct rope_source *s);
/** Multiplies each head of the tile x by its own 1 / rms and by the weights of
 * rope_load_weights(). */
void rope_normalise_heads(struct rope *p, const struct rope_source *s, struct rope_parts *x);
/** Returns 1 / rms of the token, a scalar f32. The sum of squares over the heads of all ranks is an
 * argument of the kernel. Returns no value without norm full. */
struct tir_value rope_given_inverse_rms(struct rope *p, const struct rope_source *s);
/** Multiplies the tile x of heads, from head `row` (i32 index) on, by the weights of the heads and
 * by `inverse`. `inverse` (scalar f32) is 1 / rms of the token. */
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

/** Issues the loads of the source's tile of heads from head `row` (i32 index) on. Sets raw[], one
 * value for each span. */
void rope_fetch(struct rope *p, const struct rope_source *s, struct tir_value row,
                struct tir_value *raw);
/** Transforms the heads of q and stores them to their tensor, in fp8 with narrow_q, else in the
 * op's dtype. `first` is the loaded first tile of heads. */
void rope_visit_q(struct rope *p, const struct rope_source *s, const struct tir_value *first);
/** Adds the gates' bias to the gates, which follow the heads of q, and stores the gates to their
 * own tensor. `q` and `gate` are the two sources. */
void rope_visit_gate(struct rope *p, const struct rope_source *q, const struct rope_source *gate);
/** Applies bias, norm and rotation to the tile x of heads of q or k, and only the bias to heads of
 * v. `row` (i32) is the index of the first head, `inverse` the 1 / rms of norm full. */
void rope_transform(struct rope *p, const struct rope_source *s, struct tir_value inverse,
                    struct tir_value row, struct rope_parts *x);
/** Sets p->slot to the token's slot in the cache, or to -1 if the call has no slot_mapping and
 * caches nothing. */
void rope_load_slot(struct rope *p);
/** Stores the token's keys, or its values if `value` is true, in their tensor and in the token's
 * slot. Slots in pages whose scales are computed are left to rope_visit_pages(). first[] has the
 * loaded first tile of heads. */
void rope_visit_kv(struct rope *p, const struct rope_source *s, const struct tir_value *first,
                   bool value);

/* pages.c */

/** Stores keys or values of the tokens `first` .. `end` - 1 in pages whose scales are computed
 * here, run by run. Every wave takes part. */
void rope_visit_pages(struct rope *p, struct rope_source *of, enum rope_part part,
                      struct tir_value first, struct tir_value end);

/* runs.c */

/** True if values of several tokens are stored together: for V of a cache in SHUFFLE, if a lane has
 * room for the tokens that share 16 bytes of it. */
bool rope_gathers_values(const struct rope *p);
/** Stores the values of tokens `first` to `end` - 1 (i32) in the cache and, with keep_kv, in their
 * tensor. Every wave takes part. */
void rope_visit_values(struct rope *p, struct rope_source *s, struct tir_value first,
                       struct tir_value end);

/* store.c */

/** Addresses of the token's slot in the cache of k or of v. */
struct rope_slot {
    struct att_cache cache;
    struct tir_value at;           /* i64: byte offset of the slot's first head in the cache */
    struct tir_value head_stride;  /* i64: bytes from a head of the slot to the next */
    struct tir_value scales;       /* i64: address of the first head's scale */
    struct tir_value scale_stride; /* i32: bytes from the scale of a head to the next head's */
};

/** Returns the type of one number of `dtype` for each head of a tile, rows x 1. */
struct tir_type rope_head_column(struct rope *p, const struct rope_shape *s, unsigned dtype);
/** Returns the largest |x| of each head of a tile, rows x 1 of f32. */
struct tir_value rope_absmax(struct rope *p, const struct rope_shape *s,
                             const struct rope_parts *x);

/** Returns the addresses of slot p->slot in the cache of k, or of v if `value` is true. */
struct rope_slot rope_open_slot(struct rope *p, bool value);
/** Stores a tile of heads, from head `row` (i32 index) on, in slot `t`, if the token has one. For
 * caches with scales `x` is quantised. For others the spans raw[], x in the op's dtype, are
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
/** Stores the spans raw[] of a tile of heads, in the op's dtype, from head `row` (i32 index) on.
 * Tensor `t` gets them in the row of token p->token. */
void rope_write_dense(struct rope *p, const struct rope_source *s, const struct rope_tensor *t,
                      struct tir_value row, const struct tir_value *raw);

#endif
