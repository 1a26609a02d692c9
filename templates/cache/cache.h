/* SPDX-License-Identifier: Apache-2.0
 *
 * The paged KV cache: where its elements and scales are, and how rows are stored and loaded.
 *
 *   NHD      K, V [page, token, head, D], any strides
 *   SHUFFLE  K [page, head, D/x, P, x], V [page, head, P/x, D, x], x elements being 16 bytes
 *   SHUFFLE_K  K the same, V [page, head, D, P]
 *
 * Tokens are rows of tiles. A row has an i64 byte offset from the cache's base to its element 0. A
 * cache may thus be larger than 4 GiB. Elements of a row of V in SHUFFLE are 16 bytes apart. In K
 * of SHUFFLE each x elements are adjacent, and P * 16 bytes from the next x. In V of SHUFFLE_K
 * elements are P elements apart; x tokens from a multiple of x on are adjacent, as in SHUFFLE.
 */
#ifndef TEMPLATES_CACHE_CACHE_H
#define TEMPLATES_CACHE_CACHE_H

#include "ir/builder.h"
#include "templates/cache/paging.h"
#include "templates/template.h"

/** The type of a scale in cache rows that contain their scales: f32, e8m0 (a power of 2 in a byte),
 * or fp8. */
enum att_row_scale { ATT_ROW_F32, ATT_ROW_E8M0, ATT_ROW_FP8 };

/** The format of cache rows that begin with elements of fp8 or e2m1 and contain, or are followed
 * by, their scales. A run of these elements shares a scale. Some rows end with 64 elements of the
 * op's dtype. */
struct att_row_format {
    int bits;                 /* bits of an element that has a scale: 8 (fp8) or 4 (e2m1) */
    int scaled;               /* number of elements at a row's start that have a scale */
    int run;                  /* number of adjacent elements that share a scale */
    enum att_row_scale scale; /* type of each scale */
    int copies;               /* number of adjacent copies of each scale in memory */
    /* Byte offset in a row of the first scale; ATT_AFTER_ROWS: scales are after all rows of a
     * page. */
    int scales;
    /* Byte offset in a row of the last 64 elements; ATT_OWN_PLANE: they are in the tensor of
     * argument v; 0: they have scales like the others. */
    int rotated;
    /* True: the last 64 elements are a part of key and value; false: of the key only. */
    bool in_value;
    /* Bytes of a row in the tensor of argument k, without scales that are after a page's rows. */
    int bytes;
    float least; /* lower limit of a scale before it is rounded to its type */
    /* Format of the rows of a second source without same_rows; NULL: the same format. */
    const struct att_row_format *second;
};

/** Values of att_row_format.scales and of att_row_format.rotated that are no byte offsets. */
enum { ATT_AFTER_ROWS = -1, ATT_OWN_PLANE = -2 };

/** Returns the format of the rows of a variant's cache. NULL: all elements have one type, and
 * scales, if any, are in a tensor. */
const struct att_row_format *att_row_format(const struct att_variant *v);

/** Returns the bytes of a scale in rows of format `rows`. */
static inline int att_row_scale_bytes(const struct att_row_format *rows)
{
    return rows->scale == ATT_ROW_F32 ? 4 : 1;
}

/** Returns the largest magnitude of a stored element of format `rows` on machine `m`, before the
 * element is multiplied by its scale. */
float att_row_largest(const struct att_row_format *rows, const struct tir_machine *m);

/** K or V of a paged cache, at one KV head. */
struct att_cache {
    struct tir_builder *b;
    /* True: the cache of V; false: of K. SHUFFLE orders their elements differently. */
    bool value;
    bool shuffle; /* true: the layout is SHUFFLE or SHUFFLE_K; false: NHD */
    bool columns; /* true: the cache of V in SHUFFLE_K; false: any other */
    /* True: rows are of format `rows`: fp8 or e2m1 with scales in the cache; false: elements have
     * one type. */
    bool packed;
    const struct att_row_format *rows; /* result of att_row_format(); NULL: not `packed` */
    /* i64: address of the tensor that has the rows' last 64 elements, if rows->rotated is
     * ATT_OWN_PLANE; else no value. */
    struct tir_value plane;
    /* i64: bytes in `plane` from a page, and from a token, to the next. */
    struct tir_value plane_page_stride, plane_token_stride;
    /* Kind of the scales that are outside of rows: kv_scale of the variant, or none for packed
     * rows. */
    enum att_kv_scale scaling;
    unsigned dtype; /* enum tir_dtype of the stored elements */
    /* size: bytes of an element of `dtype`; x: number of elements in 16 bytes; dim: number of
     * columns of a row. */
    int size, x, dim;
    /* For packed rows: index in the row of the element that is column 0 of this cache (see
     * att_cache_rotated()); 0: the row's first element. Always 0 for other rows. */
    int column;
    int widest; /* most columns of a panel in att_cache_tiles() */
    /* Largest magnitude of a stored element, from which scales are computed. */
    float largest;
    struct tir_value base; /* i64: address of element 0 of this head in page 0 */
    /* i64: bytes from a page, and from a token, to the next; token_stride has no value for
     * SHUFFLE. */
    struct tir_value page_stride, token_stride;
    /* Number of tokens of a page, with the constants for a division of slots by this number. */
    struct att_paging pages;
    /* i32, for SHUFFLE and SHUFFLE_K. For K: bytes from x adjacent elements of a row to the next x.
     * For V: bytes from an element of a row to the next element. */
    struct tir_value block_stride;
    /* Number of tokens of a page; 0: it is an argument of the kernel. */
    int page_size;
    /* i64: address of the scales of this head, or of the scale of the whole tensor; no value: no
     * scales outside of the rows. */
    struct tir_value scales;
    /* i64: bytes of scales from a page to the next, or with kv_scale head from a sequence to the
     * next; with kv_scale tensor no value. */
    struct tir_value scale_page_stride;
};

/** Sizes of cache rows with kv_layout scales_last or planes. */
enum {
    ATT_MIXED_FP8 = 448, /* number of fp8 elements of a row, a byte each */
    ATT_MIXED_ROW = 576, /* bytes of a row with scales_last, without the row's scales */
    /* Bytes of the scales of a row with scales_last; they are after all rows of a page. */
    ATT_MIXED_SCALES = 8,
    ATT_MIXED_ROTATED = 64, /* number of 16-bit elements of a row, the rotated ones */
    ATT_PLANE_ROW = 512,    /* bytes of a row with planes: 448 of fp8, 7 scales twice, 50 unused */
};

/** Returns the name of the variant's kv_layout, as it is in a description. */
static inline const char *att_layout_name(const struct att_variant *v)
{
    return att_fields[ATT_KV_LAYOUT].values[v->kv_layout].name;
}

/** True if the cache's rows contain their scales, or if scales are after all rows of a page. */
bool att_is_packed(const struct att_variant *v);
/** True if rows contain scales, and have 512 elements that are a part of key and value. */
bool att_is_pooled(const struct att_variant *v);

/** True if elements of the cache are e2m1. */
bool att_has_e2m1_rows(const struct att_variant *v);

/** True if all rows of a head share one scale, which att_cache_tensor_scale() loads. It is the
 * scale of the tensor (kv_scale tensor), or of a sequence and head (kv_scale head). */
bool att_shares_scale(const struct att_variant *v);

/** True if the scales of rows are in a tensor, one for each row (kv_scale token) or for each page
 * (kv_scale block). */
bool att_scales_rows(const struct att_variant *v);

/* Returns the bytes that `elements` elements take in rows of format `rows`, without scales. */
static inline int att_row_bytes(const struct att_row_format *rows, int elements)
{
    return elements * rows->bits / 8;
}

/** Returns the part of cache `c` that has only the last 64 elements of packed rows. They are of
 * type `dtype` unless they have scales too. A kernel that moves both parts passes it as V, and the
 * other part as K. */
struct att_cache att_cache_rotated(const struct att_cache *c, unsigned dtype);

/** Returns the variant's cache of V if `value`, else of K, for KV head `head` (i32). Reads the
 * arguments k or v, their strides and scales in the builder's current stage and phase. The builder
 * must outlive the cache. */
struct att_cache att_cache(struct tir_builder *b, const struct att_variant *v,
                           const struct tir_machine *m, bool value, struct tir_value head);

/** Adds the offset of sequence `sequence` (i32, index) to c->scales. Does nothing unless each
 * sequence has scales of its own (kv_scale head). */
void att_cache_of_sequence(struct att_cache *c, struct tir_value sequence);

/** True if ops that copy or read a cache can serve the variant's cache: its dtype and scale suit
 * each other, and so do its page size and layout. If not, the reason is in `why`. */
bool att_cache_check(const struct att_variant *v, struct att_why *why);

/** True if the variant's cache suits an op whose rows are both key and value. Like
 * att_cache_check(), but kv_layout may also be one for which att_is_pooled() is true. If not, the
 * reason is in `why`. */
bool att_latent_check(const struct att_variant *v, struct att_why *why);

/** Returns enum tir_dtype of the elements of the variant's cache, as stored. */
unsigned att_cache_dtype(const struct att_variant *v);
/** True if the cache has the layout SHUFFLE or SHUFFLE_K. */
bool att_is_shuffled(const struct att_variant *v);

/** A tile of tokens x columns of a cache that a workgroup copies. All numbers are powers of two.
 * `cols`: number of columns. `lanes`: number of lanes that share a row. `run`: number of rows of
 * which a lane has cols / lanes adjacent columns. Other waves have other rows. `passes`: number of
 * times that all of this is repeated for further rows. */
struct att_token_tile {
    unsigned cols, lanes, run, passes;
};

/** Returns the layout of tile `t` over `waves` waves. Sets *rows to the number of tokens that all
 * waves have in all passes. */
struct tir_layout att_token_layout(const struct tir_machine *m, const struct att_token_tile *t,
                                   unsigned waves, unsigned *rows);

/** Most panels of a row; most columns of a row; columns of a panel if att_cache_narrow_panels() has
 * divided rows. */
enum { ATT_CACHE_PANELS = 9, ATT_CACHE_DIM_MAX = 512, ATT_CACHE_PANEL = 128 };
/** The spread of rows of K or V over a workgroup that copies them to or from the cache. A lane has
 * 16 bytes of adjacent elements, or for V in SHUFFLE 64 elements of x tokens. A head dim is divided
 * into panels of power-of-two width on the same lanes: 192 is 128 + 64. With scales per page in
 * SHUFFLE, 496 is seven panels of 64, one of 32 and one of 16 columns. */
struct att_cache_tiles {
    unsigned n;                              /* number of panels of a row */
    int first[ATT_CACHE_PANELS];             /* index of the first column of each panel */
    struct tir_type panel[ATT_CACHE_PANELS]; /* type of each panel: rows x width of the panel */
    /* Type of a slot (i64) for each row: rows x 1, in the layout of the panels' rows. */
    struct tir_type column;
};

/** True if rows of c in SHUFFLE are so long that x of them exceed the registers. The call then sets
 * c->widest to ATT_CACHE_PANEL columns, and the caller must process panels one after the other. */
bool att_cache_narrow_panels(struct att_cache *c);

/** Returns the fewest rows, a power of two, that a workgroup of `waves` waves processes at once. */
unsigned att_cache_least_rows(const struct att_cache *c, unsigned waves);
/** Returns panels of `dtype` with `rows` rows each, spread over `waves` waves. `rows` is a power of
 * two and at least att_cache_least_rows(). */
struct att_cache_tiles att_cache_tiles(const struct att_cache *c, unsigned dtype, unsigned waves,
                                       unsigned rows);

/** Returns panel i of `t` as tiles with a single panel. */
struct att_cache_tiles att_cache_panel(const struct att_cache_tiles *t, unsigned i);

/** Returns the number of elements that one lane has in all panels of `t`. */
unsigned att_cache_lane_elements(const struct att_cache *c, const struct att_cache_tiles *t);

/** True if a lane has registers for `passes` passes over rows of K and V, with `waves_per_simd`
 * waves on a SIMD. If not, the reason is in `why`. */
bool att_cache_fits_passes(const struct att_variant *v, const struct tir_machine *m,
                           unsigned passes, unsigned waves_per_simd, struct att_why *why);

/** Returns the number of elements of V in SHUFFLE that a lane has if the workgroup has the fewest
 * rows. In f32 each element occupies a register. */
unsigned att_cache_run_elements(const struct att_variant *v, const struct tir_machine *m);

/** True if att_cache_tiles() serves the variant's head dims; if not, the reason is in `why`. */
bool att_cache_check_dims(const struct att_variant *v, struct att_why *why);

/** True if an op that moves rows of a cache can serve the variant's fields, head dims and tile; if
 * not, the reason is in `why`. The function is att_template.check of these ops. */
bool att_cache_check_tile(const struct att_variant *v, const struct tir_machine *m,
                          struct att_why *why);

/** Returns the byte offsets (i64) from c->base of rows. `page`: page numbers. `token`: indices
 * within the page. Both are i64 tiles or scalars of one type. */
struct tir_value att_cache_row(const struct att_cache *c, struct tir_value page,
                               struct tir_value token);

/** Returns the byte offsets (i64) from c->base of the rows of `slot`, slots page * P + token in an
 * i64 tile. P is the tokens of a page. A negative slot has an offset so low that all offsets within
 * the row are negative, and the row is never written. */
struct tir_value att_cache_slot_row(const struct att_cache *c, struct tir_value slot);

/** Stores `a`, of the cache's dtype, as columns from `first` on of the rows at byte offsets `row`
 * (rows x 1, i64). If a lane has x columns in adjacent registers, a store has 16 bytes. For K of
 * SHUFFLE, a store has at most as many columns as the largest power of two that divides `first`.
 * For V of SHUFFLE each element is a store of its own, unless att_cache_store_runs() is used. */
void att_cache_store(const struct att_cache *c, struct tir_value row, int first,
                     struct tir_value a);

/** Returns a scalar i1, which may differ between waves: true if att_cache_store_runs() can write to
 * the slots `slot` (rows x 1, i64). In each aligned group of x rows, all slots must be negative, or
 * consecutive from a multiple of x on. Always false except for V in SHUFFLE. */
struct tir_value att_cache_has_runs(const struct att_cache *c, struct tir_value slot);

/** Stores `a` like att_cache_store(), for V in SHUFFLE if att_cache_has_runs() is true. A store of
 * 16 bytes writes x rows that are adjacent in a lane's registers. */
void att_cache_store_runs(const struct att_cache *c, struct tir_value row, int first,
                          struct tir_value a);

/** Stores all panels a[] of rows, of the cache's dtype, to slots `slot` (rows x 1, i64), with the
 * widest possible stores. */
void att_cache_store_slots(const struct att_cache *c, const struct att_cache_tiles *t,
                           struct tir_value slot, const struct tir_value *a);

/** Loads columns from `first` on of the rows at byte offsets `row` (i64) as a tile of type `t`; the
 * rows must exist. For V in SHUFFLE, x rows that are consecutive in a page must be the lowest
 * register bits of `t`: see att_cache_load_type(). */
struct tir_value att_cache_load(const struct att_cache *c, struct tir_value row, int first,
                                struct tir_type t);

/** Returns type `t`, of the cache's dtype, with its register bits in the order with which
 * att_cache_load() needs the fewest loads. */
struct tir_type att_cache_load_type(const struct att_cache *c, struct tir_type t);

/* Functions for scales: an element's value is its stored number times its scale. */

/** Returns the byte offset (i64) from c->scales of the scale of each row. `page`: page numbers.
 * `token`: indices within the page. Both are i64 tiles or scalars of one type. */
struct tir_value att_cache_scale_at(const struct att_cache *c, struct tir_value page,
                                    struct tir_value token);
/** Returns the byte offsets (i64) from c->scales of the scales of slots `slot` (i64). A negative
 * slot has a negative offset. */
struct tir_value att_cache_scale_row(const struct att_cache *c, struct tir_value slot);
/** Returns the byte offsets (rows x 1, i64) from c->base at which the scales of packed rows begin.
 * `slot` is rows x 1 of i64; a negative slot has a negative offset. */
struct tir_value att_packed_scale_row(const struct att_cache *c, struct tir_value slot);
/** Loads the scales (f32) of a panel of packed rows. The panel has type `t` and begins with column
 * `first`. `row` is the result of att_packed_scale_row(). The result has a row for each run, in the
 * order of rows of tir_split_blocks() of a tile of type `t`. */
struct tir_value att_packed_load_scales(const struct att_cache *c, struct tir_value row, int first,
                                        struct tir_type t);
/** Quantises panel `x` (f32) of packed rows, whose first column is `first`, and stores its scales.
 * `row` is the result of att_packed_scale_row(). Returns the elements to store. */
struct tir_value att_packed_quantise(const struct att_cache *c, struct tir_value row, int first,
                                     struct tir_value x);
/** Elements of packed rows as they are stored, and the stored scales of their runs. */
struct att_packed {
    /* Rows x columns of fp8, or the bytes of e2m1 that att_e2m1_bytes() returns. */
    struct tir_value elements;
    /* Stored scales, a row for each run, in the order of tir_split_blocks(). */
    struct tir_value scales;
};
/** Quantises `x` (f32, rows x a number of whole runs) to packed elements and their scales. */
struct att_packed att_pack(const struct att_cache *c, struct tir_value x);
/** Scales of runs of packed rows: `stored` in the type of the cache, and `inverse`, the factors
 * (f32) by which elements are multiplied before they are stored. */
struct att_run_scales {
    struct tir_value stored, inverse;
};
/** Returns the scales of runs of packed rows. `absmax` (f32) is the largest magnitude of each run.
 */
struct att_run_scales att_run_scales(const struct att_cache *c, struct tir_value absmax);
/** Returns stored elements `a` of packed rows times their scales, in `dtype`. `scale` is the result
 * of att_packed_load_scales(). */
struct tir_value att_unpack(const struct att_cache *c, struct tir_value a, struct tir_value scale,
                            unsigned dtype);
/** Returns `stored`, scales of packed rows as they are stored, as f32. */
struct tir_value att_packed_decode(const struct att_cache *c, struct tir_value stored);
/** Returns the enum tir_dtype of a stored scale of packed rows: TIR_F32, TIR_I8 for e8m0, or
 * TIR_FP8. */
unsigned att_packed_scale_dtype(const struct att_cache *c);
/** Loads the scales (rows x 1, f32) at byte offsets `row`, the result of att_cache_scale_row(). The
 * rows must exist. Not for a scale that all rows share. */
struct tir_value att_cache_load_scales(const struct att_cache *c, struct tir_value row);
/** Stores `scale` (rows x 1, f32) at byte offsets `row`, the result of att_cache_scale_row(). Not
 * for a scale that all rows share. */
void att_cache_store_scales(const struct att_cache *c, struct tir_value row,
                            struct tir_value scale);
/** Returns the scale (scalar f32) that all rows share, if att_shares_scale() is true. */
struct tir_value att_cache_tensor_scale(const struct att_cache *c);

/** Loads the scale (f32 scalar) of a sequence and KV head from the tensor whose address is the
 * argument `name`. The tensor has the strides of the cache's scales with kv_scale head. `sequence`
 * and `head` are indices (i32). */
struct tir_value att_cache_head_scale(const struct att_cache *c, const char *name,
                                      struct tir_value sequence, struct tir_value head);

/** Returns the largest magnitude of each row of the f32 tile `x`: rows x 1, f32. */
struct tir_value att_absmax(struct tir_builder *b, struct tir_value x);

/** Returns the scale absmax / c->largest (f32), by which a number of magnitude `absmax` (f32) is
 * divided to become the largest stored number. */
struct tir_value att_cache_scale_of(const struct att_cache *c, struct tir_value absmax);

/** Returns 1 / max(scale, 1e-12), the factor (f32) by which numbers are multiplied before they are
 * stored. */
struct tir_value att_cache_inverse(const struct att_cache *c, struct tir_value scale);

/** Returns rows `x` (f32) times `inverse`, rounded to the nearest number of the cache's dtype, ties
 * to even. Numbers beyond the dtype's largest become the largest. With a scale per token or page,
 * which is computed from x, there are none. `inverse` is a scalar f32, rows x 1, or no value: x is
 * not scaled. */
struct tir_value att_cache_quantise(const struct att_cache *c, struct tir_value x,
                                    struct tir_value inverse);

/** Returns stored numbers `a` times `scale` in `dtype`, rounded once. `scale` is a scalar f32, rows
 * x 1, or no value (1). For packed rows it is the result of att_packed_load_scales(). */
struct tir_value att_cache_dequantise(const struct att_cache *c, struct tir_value a,
                                      struct tir_value scale, unsigned dtype);

#endif
