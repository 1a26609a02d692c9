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
    ROPE_FEW_PIECES = 4, /* as many as elements of a byte may have */
    ROPE_MAX_PIECES = 6,
    ROPE_MAX_SPANS = 24,
    ROPE_MAX_PARTS = ROPE_MAX_SPANS + ROPE_MAX_PIECES,
};

/** Members of att_tile.own: elements of a head that a lane has. */
enum { ROPE_ELEMENTS };

/** Neighbouring elements of a head, held by one tile of heads x elements. */
struct rope_span {
    int first;              /* element of the head */
    struct tir_type heads;  /* as it is loaded: GPT-J pairs as dwords */
    struct tir_type vector; /* one head's weights, cosines: the same columns */
};

/** The registers of a tile of heads. The pairs that rotate are in pieces of power-of-two width:
 * parts 2i and 2i + 1 are the two elements of those in piece i, which are spans 2i and 2i + 1 of
 * memory or, packed, both in span i. What does not rotate follows. */
struct rope_shape {
    unsigned dim; /* elements of a head */
    unsigned n_spans, n_parts, n_pieces;
    unsigned n_turning; /* pieces that do rotate: the first */
    bool packed;
    bool many; /* pieces */
    struct rope_span spans[ROPE_MAX_SPANS];
};

/** A tile of heads by parts, each of them alike: f32, or what memory is to have. */
struct rope_parts {
    struct tir_value v[ROPE_MAX_PARTS];
};

struct rope {
    const struct att_variant *v;
    const struct tir_machine *m;
    struct tir_builder b;
    unsigned dtype;
    bool narrow_q; /* q goes to elements of a byte */
    bool even;     /* what does not rotate is in pieces as what does: their registers are alike */
    bool by_pages; /* k and v have a scale per page */
    int waves;     /* of a workgroup, a power of two */
    int elements;  /* of a head, of a lane, where pieces allow */
    int rows;      /* heads a tile */
    struct rope_shape rotated, values, gates;
    struct tir_value wave;          /* i32, of the workgroup */
    struct tir_value keeps_vectors; /* i1, uniform over the workgroup: they are in LDS */
    struct tir_value gathers;       /* i1, likewise: values go several tokens at a time */
    struct att_cache cache[2];      /* k, v */
    struct tir_value token;         /* i32 */
    struct tir_value slot;          /* i64, negative: nowhere */
    struct tir_value cos[ROPE_MAX_PIECES], sin[ROPE_MAX_PIECES]; /* 1 x the piece's pairs */
    struct tir_value inverse; /* of the scales of a page: a head column */
};

/** A tensor [token, head, head_dim] of elements of `size` bytes. */
struct rope_tensor {
    int size;
    struct tir_value base, token_stride; /* i64, i64 bytes */
    struct tir_value head_stride;        /* i32 bytes */
};

/** A tensor [head, head_dim], or a part of each head of one, that every token meets. */
struct rope_vectors {
    const char *tensor;    /* its argument, or NULL */
    int first, stride;     /* elements: where a head begins; to the next, 0: those of a head */
    struct tir_value lds;  /* i32: its copy there */
    struct tir_value rows; /* i32: heads that this has, whole tiles */
};

/** The tensors that a token has heads in; a gate follows each head of q. */
enum rope_part { ROPE_Q, ROPE_K, ROPE_V, ROPE_GATE, ROPE_SOURCES };

/** One of these: the heads of this wave, from `first` to `end`, of `all`. */
struct rope_source {
    const char *squares, *share;      /* norm full: the given sum, and what it counts */
    struct rope_tensor in, out;       /* size 0: there is none */
    struct rope_vectors weight, bias; /* a norm per head has one weight, [head_dim] */
    const struct rope_shape *shape;
    struct tir_value weights[ROPE_MAX_SPANS]; /* of a norm per head: alike for all */
    struct tir_value all, first, end;
    struct tir_value base; /* i64: of the token in `in` */
};

/* tile.c */

/** The variant's; 0 where nothing rotates. */
int rope_rotary_dim(const struct att_variant *v);
/** Sets rows and the shapes; before anything is built. */
void rope_choose_shapes(struct rope *p);
/** Elements of a tile that a lane holds. */
unsigned rope_lane_elements(const struct rope *p, const struct rope_shape *s);

struct tir_value rope_to_f32(struct rope *p, struct tir_value x);
/** f32 from memory, of which a NaN gets a zero low half: what is computed from it and from 16-bit
 * data is then rounded without a check. */
struct tir_value rope_short_nan(struct rope *p, struct tir_value x);
/** A vector for every head of a tile that is held like `like`. */
struct tir_value rope_repeat(struct rope *p, struct tir_value x, struct tir_value like);

/** Spans as they are in memory (`raw`, n_spans of them) as parts in f32. */
struct rope_parts rope_unpack(struct rope *p, const struct rope_shape *s,
                              const struct tir_value *raw);
void rope_convert(struct rope *p, const struct rope_shape *s, struct rope_parts *x, unsigned dtype);
/** The parts as memory has them, span by span. */
void rope_pack(struct rope *p, const struct rope_shape *s, const struct rope_parts *x,
               struct tir_value *raw);

/** Spans of the heads from `row` on, or with `vector` of one of them; `end` heads lie at `base`,
 * `stride` bytes apart. */
void rope_load(struct rope *p, const struct rope_shape *s, struct tir_value base,
               struct tir_value end, struct tir_value stride, struct tir_value row, bool vector,
               struct tir_value *raw);
/** Stores spans of heads, of elements of `size` bytes; heads from `end` on are not written. */
void rope_store(struct rope *p, const struct rope_shape *s, struct tir_value base,
                struct tir_value end, struct tir_value stride, int size, struct tir_value row,
                const struct tir_value *raw);

/** Reads the arguments of `in`, `out` and, of keys and values, of the cache. */
void rope_open_source(struct rope *p, struct rope_source *s, enum rope_part part);
/** Biases, scales of tokens and the sums of a full norm leave few scalar registers: what is open
 * before the loop over tokens takes them all along. Where k, v and the gate go is opened token by
 * token then, and is waited for. */
bool rope_opens_late(const struct rope *p);
/** Opens the tensor to which k or v are also written, if the variant has one. */
void rope_open_kept(struct rope *p, struct rope_source *s, bool value);
/** Reads the arguments of `t`, which has heads. */
struct rope_tensor rope_open_tensor(struct rope *p, struct att_tensor t, int size);
/** Address of the token's first head, i64. */
struct tir_value rope_token_base(struct rope *p, const struct rope_tensor *t);

/* vectors.c */

/** Copies biases and the weights of a full norm to LDS, where that pays. Every wave takes part. */
void rope_keep_vectors(struct rope *p, struct rope_source of[ROPE_SOURCES]);
/** Loads the vectors of the heads from `row` on. */
struct rope_parts rope_load_vectors(struct rope *p, const struct rope_source *s,
                                    const struct rope_vectors *t, struct tir_value row);

/* norm.c */

/** Weights [head_dim], for every head of a tile; nothing where the norm has none of these. */
void rope_load_weights(struct rope *p, struct rope_source *s);
void rope_normalise_heads(struct rope *p, const struct rope_source *s, struct rope_parts *x);
/** With norm full the sum of squares runs over the heads of all ranks: the caller has it. 1 / rms
 * of the token, a scalar f32, or no value. */
struct tir_value rope_given_inverse_rms(struct rope *p, const struct rope_source *s);
void rope_normalise_all(struct rope *p, const struct rope_source *s, struct tir_value row,
                        struct tir_value inverse, struct rope_parts *x);

/* rotate.c */

/** Sets cos and sin of the token. */
void rope_find_angles(struct rope *p);
void rope_rotate(struct rope *p, struct rope_parts *x);

/* visit.c */

/** Issues the loads of a source's tile of heads from `row` on. */
void rope_fetch(struct rope *p, const struct rope_source *s, struct tir_value row,
                struct tir_value *raw);
/** The heads of q, whose first tile is `first`: to their tensor, and to fp8 if wanted. */
void rope_visit_q(struct rope *p, const struct rope_source *s, const struct tir_value *first);
/** Stores the second half of each head of q to the tensor of gates. Only its bias is added. */
void rope_visit_gate(struct rope *p, const struct rope_source *q, const struct rope_source *gate);
/** Bias, norm and rotation of q and k before they are stored; v has its bias added only. `inverse`:
 * 1 / rms of norm full. */
void rope_transform(struct rope *p, const struct rope_source *s, struct tir_value inverse,
                    struct tir_value row, struct rope_parts *x);
/** Sets the token's slot: -1 without slots, where nothing is cached. */
void rope_load_slot(struct rope *p);
/** Keys or values of the token to the tensor and the slot that they have; the slot of a page whose
 * scale is found is left to rope_visit_pages(). `first`: the first tile. */
void rope_visit_kv(struct rope *p, const struct rope_source *s, const struct tir_value *first,
                   bool value);

/* pages.c */

/** Keys or values of the tokens `first` .. `end` - 1, where pages have scales that are found here:
 * those of whole runs. Every wave takes part. */
void rope_visit_pages(struct rope *p, struct rope_source *of, enum rope_part part,
                      struct tir_value first, struct tir_value end);

/* runs.c */

/** Are values best taken several tokens at a time? */
bool rope_gathers_values(const struct rope *p);
/** Values of a workgroup's tokens, from `first` to `end`, i32, into the cache and, if they are
 * kept, to their tensor. Every wave takes its part. */
void rope_visit_values(struct rope *p, struct rope_source *s, struct tir_value first,
                       struct tir_value end);

/* store.c */

/** The slot of the token in k or v. */
struct rope_slot {
    struct att_cache cache;
    struct tir_value at;           /* i64: byte offset of the first head */
    struct tir_value head_stride;  /* i64 bytes */
    struct tir_value scales;       /* i64: address of the first head's scale */
    struct tir_value scale_stride; /* i32 bytes from a head's scale to the next */
};

/** One number for each head of a tile. */
struct tir_type rope_head_column(struct rope *p, const struct rope_shape *s, unsigned dtype);
/** The largest |x| of each of its heads. */
struct tir_value rope_absmax(struct rope *p, const struct rope_shape *s,
                             const struct rope_parts *x);

struct rope_slot rope_open_slot(struct rope *p, bool value);
/** A tile of heads into the slot, if the token has one: x as it is stored without quantisation is
 * `raw`, in the op's own dtype. */
void rope_write_cache(struct rope *p, const struct rope_source *s, const struct rope_slot *t,
                      struct tir_value row, const struct rope_parts *x,
                      const struct tir_value *raw);
/** Writes a tile of heads to a tensor. */
void rope_write_dense(struct rope *p, const struct rope_source *s, const struct rope_tensor *t,
                      struct tir_value row, const struct tir_value *raw);

#endif
