/* SPDX-License-Identifier: Apache-2.0
 *
 * The paged KV cache: where its elements and scales lie, and how rows get into it and out of it.
 *
 *   NHD      K, V [page, token, head, D], any strides
 *   SHUFFLE  K [page, head, D/x, P, x], V [page, head, P/x, D, x], x elements being 16 bytes
 *   SHUFFLE_K  K the same, V [page, head, D, P]
 *
 * Tokens are rows of tiles. A row's address is an i64 byte offset of its element 0 from the cache's
 * base, so a cache may be larger than 4 GiB; in V's SHUFFLE layout its next elements are 16 bytes
 * apart, in K's every x of them a page's length apart. V of SHUFFLE_K has its elements a page's
 * length apart, and is in all else like SHUFFLE: x tokens from a multiple of x on are 16 bytes.
 */
#ifndef TEMPLATES_CACHE_CACHE_H
#define TEMPLATES_CACHE_CACHE_H

#include "ir/builder.h"
#include "templates/cache/paging.h"
#include "templates/template.h"

/** K or V of a cache, as one head of it. */
struct att_cache {
    struct tir_builder *b;
    bool value;          /* V: SHUFFLE orders it by token */
    bool shuffle;        /* SHUFFLE_K too */
    bool columns;        /* V of SHUFFLE_K */
    bool packed;         /* latent rows: see ATT_PACKED_SCALES */
    int run, scale_size; /* packed: elements that share a scale, bytes of it: 1 is e8m0, else f32 */
    enum att_kv_scale scaling;
    unsigned dtype;        /* of the elements: enum tir_dtype */
    int size, x, dim;      /* bytes of an element; elements in 16 bytes, of a row */
    int widest;            /* columns that a panel may have, ATT_CACHE_DIM_MAX unless set */
    float largest;         /* finite number of the dtype, where it is scaled */
    struct tir_value base; /* i64: of this head */
    struct tir_value page_stride, token_stride; /* i64 bytes; the latter of NHD only */
    struct att_paging pages;
    struct tir_value block_stride; /* i32 bytes from x elements of K to the next, or from an element
                                      of V to the next; SHUFFLE only */
    int page_size;                 /* tokens, where it is known */
    struct tir_value scales;       /* i64: of this head, or of the tensor */
    struct tir_value scale_page_stride; /* i64 bytes */
};

/** Rows of kv_layout packed: where the scales of the fp8, and what follows, begin. */
enum { ATT_PACKED_SCALES = 512, ATT_PACKED_ROTATED = 528 };

/** The rotated elements of packed rows, as a cache of their own: V, where K are the latents. */
struct att_cache att_cache_rotated(const struct att_cache *c, unsigned dtype);

/** The variant's cache: the arguments k or v, their strides and scales, for head `head` (i32). The
 * builder must outlive it. Its stage and phase are those of each call. */
struct att_cache att_cache(struct tir_builder *b, const struct att_variant *v,
                           const struct tir_machine *m, bool value, struct tir_value head);

/** Checks that every op with a cache needs: dtype against scale, page size against layout. */
bool att_cache_check(const struct att_variant *v, struct att_why *why);

/** dtype of what the cache holds. */
unsigned att_cache_dtype(const struct att_variant *v);
/** Is the cache SHUFFLE or SHUFFLE_K? */
bool att_is_shuffled(const struct att_variant *v);

/**
 * A tile of tokens x columns, powers of two all: `lanes` share a row, each with columns / lanes
 * side by side, of `run` rows; waves follow each other in rows, and `passes` repeats the whole for
 * further rows.
 */
struct att_token_tile {
    unsigned cols, lanes, run, passes;
};

/** Its layout; *rows becomes the number of tokens. */
struct tir_layout att_token_layout(const struct tir_machine *m, const struct att_token_tile *t,
                                   unsigned waves, unsigned *rows);

/**
 * The spread of rows of K or V over a workgroup that copies them into the cache or out of it: a
 * lane has 16 bytes of what is stored or, of V in SHUFFLE, x tokens and 64 elements. A head dim is
 * cut into panels of power-of-two width on the same lanes: 192 is 128 + 64, and 496 with scales per
 * page in SHUFFLE seven of 64, 32 and 16.
 */
enum { ATT_CACHE_PANELS = 9, ATT_CACHE_DIM_MAX = 512, ATT_CACHE_PANEL = 128 };
struct att_cache_tiles {
    unsigned n;
    int first[ATT_CACHE_PANELS];             /* column */
    struct tir_type panel[ATT_CACHE_PANELS]; /* rows x width */
    struct tir_type column;                  /* i64, rows x 1, beside all of them */
};

/** Returns whether rows in SHUFFLE are so long that x of them would not fit the registers: their
 * panels then have ATT_CACHE_PANEL columns at most, and are to be taken one after the other. */
bool att_cache_narrow_panels(struct att_cache *c);

/** The fewest rows that a workgroup of so many waves takes; a power of two. */
unsigned att_cache_least_rows(const struct att_cache *c, unsigned waves);
/** Panels of `dtype` with `rows` rows, a power of two of at least that. */
struct att_cache_tiles att_cache_tiles(const struct att_cache *c, unsigned dtype, unsigned waves,
                                       unsigned rows);

/** Panel i alone. */
struct att_cache_tiles att_cache_panel(const struct att_cache_tiles *t, unsigned i);

/** Elements of all panels that a lane holds. */
unsigned att_cache_lane_elements(const struct att_cache *c, const struct att_cache_tiles *t);

/** Has a lane registers for so many passes of K and V, with so many waves on a SIMD? */
bool att_cache_fits_passes(const struct att_variant *v, unsigned passes, unsigned waves_per_simd,
                           struct att_why *why);

/** Elements of V in SHUFFLE that a lane holds of the fewest rows, f32 being a register each. */
unsigned att_cache_run_elements(const struct att_variant *v);

/** The head dims that these tiles cover. */
bool att_cache_check_dims(const struct att_variant *v, struct att_why *why);

/** `check` of a family that moves rows of a cache: its fields, its head dims, and a tile. */
bool att_cache_check_tile(const struct att_variant *v, const struct tir_machine *m,
                          struct att_why *why);

/** Addresses of rows: `page` and `token` (within the page) are i64 tiles or scalars of one type. */
struct tir_value att_cache_row(const struct att_cache *c, struct tir_value page,
                               struct tir_value token);

/** Addresses of slots, page * P + token: an i64 tile. Those below 0 get an address far below 0, as
 * does what is added to it: such rows are never written. */
struct tir_value att_cache_slot_row(const struct att_cache *c, struct tir_value slot);

/**
 * Writes columns first.. of rows at these addresses (Mx1). `a` has the cache's dtype, and x columns
 * of a lane are best neighbours in registers: one store then takes 16 bytes, or of K in SHUFFLE as
 * many as `first` is a multiple of. V in SHUFFLE takes one store for each element; see
 * att_cache_store_runs().
 */
void att_cache_store(const struct att_cache *c, struct tir_value row, int first,
                     struct tir_value a);

/**
 * Scalar i1 of this wave: can att_cache_store_runs() write these slots (Mx1 i64)? In each aligned
 * group of x rows all slots are below 0, or they follow each other from a multiple of x on. Always
 * false but for V in SHUFFLE.
 */
struct tir_value att_cache_has_runs(const struct att_cache *c, struct tir_value slot);

/** att_cache_store() of V in SHUFFLE where att_cache_has_runs(): x rows of a lane that are
 * neighbours in its registers go to one 16-byte store. */
void att_cache_store_runs(const struct att_cache *c, struct tir_value row, int first,
                          struct tir_value a);

/** Writes all panels of rows, in the cache's dtype, to their slots (Mx1 i64), as fast as these
 * allow. */
void att_cache_store_slots(const struct att_cache *c, const struct att_cache_tiles *t,
                           struct tir_value slot, const struct tir_value *a);

/** Reads what att_cache_store() writes, into a tile of type t; rows must be there. Of V in SHUFFLE
 * rows of a group of x follow each other in a page, and are the lowest of t's registers: see
 * att_cache_load_type(). */
struct tir_value att_cache_load(const struct att_cache *c, struct tir_value row, int first,
                                struct tir_type t);

/** t, of the cache's dtype, with its registers in the order in which they are best loaded. */
struct tir_type att_cache_load_type(const struct att_cache *c, struct tir_type t);

/* Scales: element = stored * scale. */

/** Addresses of the scales of tokens of pages, and of slots; as above. */
struct tir_value att_cache_scale_at(const struct att_cache *c, struct tir_value page,
                                    struct tir_value token);
struct tir_value att_cache_scale_row(const struct att_cache *c, struct tir_value slot);
/** Scales of a panel of packed rows, which are at att_cache_slot_row(), from column `first` on:
 * those of the runs that split_blocks() of a tile of type `t` has as rows, as
 * att_cache_dequantise() takes them. */
struct tir_value att_packed_load_scales(const struct att_cache *c, struct tir_value row, int first,
                                        struct tir_type t);
/** Quantises a panel of f32, and writes its scales to these rows. */
struct tir_value att_packed_quantise(const struct att_cache *c, struct tir_value row, int first,
                                     struct tir_value x);
/** Scales of packed rows as they are stored, and the way back to f32. */
struct tir_value att_packed_encode(const struct att_cache *c, struct tir_value scale);
struct tir_value att_packed_decode(const struct att_cache *c, struct tir_value stored);
/** The type in which they are stored: TIR_F32 or TIR_I8. */
unsigned att_packed_scale_dtype(const struct att_cache *c);
/** Loads the scales of rows that are there, Mx1 f32; not for a scale per tensor. */
struct tir_value att_cache_load_scales(const struct att_cache *c, struct tir_value row);
void att_cache_store_scales(const struct att_cache *c, struct tir_value row,
                            struct tir_value scale);
/** The scale of a whole tensor, a scalar f32. */
struct tir_value att_cache_tensor_scale(const struct att_cache *c);

/** The largest |x| of each row, Mx1 f32; of an f32 tile. */
struct tir_value att_absmax(struct tir_builder *b, struct tir_value x);

/** The scale under which a number as large as `absmax` (f32) just fits: absmax / largest; e8m0: the
 * least power of 2 that is no less, and at least 2^-39. */
struct tir_value att_cache_scale_of(const struct att_cache *c, struct tir_value absmax);

/** 1 / max(scale, 1e-12), as quantising multiplies with. */
struct tir_value att_cache_inverse(const struct att_cache *c, struct tir_value scale);

/** Rows of f32 as the cache holds them: x * inverse, rounded to nearest even; what is beyond the
 * largest number becomes it. With a scale per token or page, which is that of x, nothing is.
 * `inverse` is a scalar f32, Mx1, or no value: x is not scaled. */
struct tir_value att_cache_quantise(const struct att_cache *c, struct tir_value x,
                                    struct tir_value inverse);

/** The way back, in `dtype`: stored * scale, rounded once. `scale` as `inverse` above; of packed
 * rows att_packed_load_scales(). */
struct tir_value att_cache_dequantise(const struct att_cache *c, struct tir_value a,
                                      struct tir_value scale, unsigned dtype);

#endif
