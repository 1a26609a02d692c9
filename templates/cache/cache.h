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

/** The type of the scales of rows that contain them. */
enum att_row_scale { ATT_ROW_F32, ATT_ROW_E8M0, ATT_ROW_FP8 };

/** The format of rows that begin with elements of fp8 or e2m1. A run of these elements shares a
 * scale. Some rows end with 64 elements of the op's dtype. */
struct att_row_format {
    int bits;                 /* bits of an element with a scale: 8 is fp8, 4 is e2m1 */
    int scaled;               /* number of elements of a row that have a scale */
    int run;                  /* number of adjacent elements that share a scale */
    enum att_row_scale scale; /* type of a scale */
    int copies;               /* number of adjacent copies of each scale */
    int scales;    /* byte of a row where its scales begin; ATT_AFTER_ROWS: after a page's rows */
    int rotated;   /* byte of a row where the last 64 elements begin; ATT_OWN_PLANE: the tensor of
                      V has them; 0: they have scales too */
    bool in_value; /* the last 64 elements are a part of key and value; false: of the key only */
    int bytes;     /* bytes of a row in the tensor of K, without scales after a page's rows */
    float least;   /* lower limit of a scale before it is rounded to its type */
    const struct att_row_format
        *second; /* format of rows of a second source; NULL: the same format */
};

enum { ATT_AFTER_ROWS = -1, ATT_OWN_PLANE = -2 };

/** Returns the format of a variant's rows. NULL: their elements have one type, and any scales are
 * in a tensor. */
const struct att_row_format *att_row_format(const struct att_variant *v);

/** Returns the bytes of a scale of such rows. */
static inline int att_row_scale_bytes(const struct att_row_format *rows)
{
    return rows->scale == ATT_ROW_F32 ? 4 : 1;
}

/** Returns the largest magnitude of an element before it is multiplied by its scale. */
float att_row_largest(const struct att_row_format *rows, const struct tir_machine *m);

/** K or V of a cache, of one head. */
struct att_cache {
    struct tir_builder *b;
    bool value;                        /* this is V, not K; SHUFFLE orders them differently */
    bool shuffle;                      /* the layout is SHUFFLE or SHUFFLE_K */
    bool columns;                      /* this is V of SHUFFLE_K */
    bool packed;                       /* elements are fp8 with scales, as `rows` says */
    const struct att_row_format *rows; /* att_row_format() */
    struct tir_value plane;            /* i64: address of the tensor of last elements, if
                                          rows->rotated is ATT_OWN_PLANE */
    struct tir_value plane_page_stride, plane_token_stride; /* i64 bytes in `plane` */
    enum att_kv_scale scaling;
    unsigned dtype;        /* type of the elements: enum tir_dtype */
    int size, x, dim;      /* bytes of an element; elements in 16 bytes; columns of a row */
    int column;            /* index of the element of a packed row that is column 0 */
    int widest;            /* most columns of a panel */
    float largest;         /* largest finite number of the dtype, if it is scaled */
    struct tir_value base; /* i64: address of this head's elements */
    struct tir_value page_stride, token_stride; /* i64 bytes; token_stride for NHD only */
    struct att_paging pages;
    struct tir_value block_stride; /* i32 bytes between x elements of K, or between elements of V;
                                      SHUFFLE only */
    int page_size;                 /* tokens of a page; 0: not known at compile time */
    struct tir_value scales;       /* i64: address of the scales of this head, or of the tensor */
    struct tir_value scale_page_stride; /* i64 bytes, from a page or a sequence to the next */
};

/** Sizes of kv_layout scales_last and planes. */
enum {
    ATT_MIXED_FP8 = 448,    /* elements of fp8 in a row, a byte each */
    ATT_MIXED_ROW = 576,    /* bytes of a row of scales_last without its scales */
    ATT_MIXED_SCALES = 8,   /* bytes of a row's scales in scales_last, after all rows of a page */
    ATT_MIXED_ROTATED = 64, /* elements of 16 bits in a row */
    ATT_PLANE_ROW = 512,    /* bytes of a row of planes: 448 of fp8, 7 scales twice, 50 unused */
};

/** Returns the value of kv_layout as a description has it. */
static inline const char *att_layout_name(const struct att_variant *v)
{
    return att_fields[ATT_KV_LAYOUT].values[v->kv_layout].name;
}

/** True if rows of the cache have scales between their elements, or after a page's rows. */
bool att_is_packed(const struct att_variant *v);
/** True if rows are of kv_layout scales_last or planes: 448 elements of fp8 and 64 of the op's
 * dtype. */
bool att_is_mixed(const struct att_variant *v);
/** True if rows with scales have 512 elements that are key and value. */
bool att_is_pooled(const struct att_variant *v);

/** True if all rows of a head share one scale, of the tensor or of the sequence's head (kv_scale
 * tensor, head), which att_cache_tensor_scale() loads. */
bool att_shares_scale(const struct att_variant *v);

/** True if a tensor has a scale for each row, or for each page (kv_scale token, block). */
bool att_scales_rows(const struct att_variant *v);

/* Returns the bytes of `elements` elements in rows of format `rows`. */
static inline int att_row_bytes(const struct att_row_format *rows, int elements)
{
    return elements * rows->bits / 8;
}

/** Returns a cache of only the last 64 elements of packed rows. They are of type `dtype` unless
 * they have scales too. A kernel that moves both parts passes it as V, and the other part as K. */
struct att_cache att_cache_rotated(const struct att_cache *c, unsigned dtype);

/** Returns the variant's cache of V if `value`, else of K, for head `head` (i32). Reads the
 * arguments k or v, their strides and scales in the builder's current stage and phase. The builder
 * must outlive the cache. */
struct att_cache att_cache(struct tir_builder *b, const struct att_variant *v,
                           const struct tir_machine *m, bool value, struct tir_value head);

/** Adds the offset of sequence `sequence` (i32) to the address of the scales. Does nothing unless
 * sequences have scales of their own (kv_scale head). */
void att_cache_of_sequence(struct att_cache *c, struct tir_value sequence);

/** True if the variant's cache is one that every op serves: dtype and scale agree, and so do page
 * size and layout. If not, the reason is in `why`. */
bool att_cache_check(const struct att_variant *v, struct att_why *why);

/** Like att_cache_check(), for an op whose rows are key and value. These may be of kv_layout
 * scales_last, planes, or another layout of att_is_pooled(). */
bool att_latent_check(const struct att_variant *v, struct att_why *why);

/** Returns the type of the cache's elements: enum tir_dtype. */
unsigned att_cache_dtype(const struct att_variant *v);
/** True if the cache has the layout SHUFFLE or SHUFFLE_K. */
bool att_is_shuffled(const struct att_variant *v);

/** A tile of tokens x columns, all numbers powers of two. `lanes` lanes share a row, with columns /
 * lanes adjacent columns each, for `run` rows. Further waves have further rows, and `passes`
 * repeats all of that for further rows. */
struct att_token_tile {
    unsigned cols, lanes, run, passes;
};

/** Returns the layout of tile `t` over `waves` waves. Sets *rows to the number of tokens. */
struct tir_layout att_token_layout(const struct tir_machine *m, const struct att_token_tile *t,
                                   unsigned waves, unsigned *rows);

/**
 * The spread of rows of K or V over a workgroup that copies them to or from the cache. A lane has
 * elements that are stored as 16 bytes, or of V in SHUFFLE 64 elements of x tokens. A head dim is
 * divided into panels of power-of-two width on the same lanes: 192 is 128 + 64. With scales per
 * page in SHUFFLE, 496 is seven panels of 64, one of 32 and one of 16 columns.
 */
enum { ATT_CACHE_PANELS = 9, ATT_CACHE_DIM_MAX = 512, ATT_CACHE_PANEL = 128 };
struct att_cache_tiles {
    unsigned n;                              /* number of panels */
    int first[ATT_CACHE_PANELS];             /* first column of each panel */
    struct tir_type panel[ATT_CACHE_PANELS]; /* type of each panel: rows x width */
    struct tir_type column;                  /* type of a slot for each row: i64, rows x 1, in
                                                the layout of the panels' rows */
};

/** True if rows in SHUFFLE are so long that x of them exceed the registers. The call then limits
 * panels to ATT_CACHE_PANEL columns, and the caller must process them one after the other. */
bool att_cache_narrow_panels(struct att_cache *c);

/** Returns the fewest rows, a power of two, that a workgroup of `waves` waves processes at once. */
unsigned att_cache_least_rows(const struct att_cache *c, unsigned waves);
/** Returns panels of `dtype` with `rows` rows each, spread over `waves` waves. `rows` is a power of
 * two and at least att_cache_least_rows(). */
struct att_cache_tiles att_cache_tiles(const struct att_cache *c, unsigned dtype, unsigned waves,
                                       unsigned rows);

/** Returns panel i of `t` as tiles with a single panel. */
struct att_cache_tiles att_cache_panel(const struct att_cache_tiles *t, unsigned i);

/** Returns the number of elements that a lane has in all panels. */
unsigned att_cache_lane_elements(const struct att_cache *c, const struct att_cache_tiles *t);

/** True if a lane has registers for `passes` passes of K and V with `waves_per_simd` waves on a
 * SIMD; if not, the reason is in `why`. */
bool att_cache_fits_passes(const struct att_variant *v, const struct tir_machine *m,
                           unsigned passes, unsigned waves_per_simd, struct att_why *why);

/** Returns the number of elements of V in SHUFFLE that a lane has for the fewest rows. In f32 each
 * takes a register. */
unsigned att_cache_run_elements(const struct att_variant *v, const struct tir_machine *m);

/** True if att_cache_tiles() serves the variant's head dims; if not, the reason is in `why`. */
bool att_cache_check_dims(const struct att_variant *v, struct att_why *why);

/** True if a family that moves rows of a cache serves the variant's fields, head dims and tile; if
 * not, the reason is in `why`. It is the member `check` of such a template. */
bool att_cache_check_tile(const struct att_variant *v, const struct tir_machine *m,
                          struct att_why *why);

/** Returns the byte offsets (i64) of rows from the cache's base. `page` and `token` (index within
 * the page) are i64 tiles or scalars of one type. */
struct tir_value att_cache_row(const struct att_cache *c, struct tir_value page,
                               struct tir_value token);

/** Returns the byte offsets (i64) of the rows of slots, page * P + token, an i64 tile. A negative
 * slot has an offset so low that it stays negative within the row, so that the row is never
 * written. */
struct tir_value att_cache_slot_row(const struct att_cache *c, struct tir_value slot);

/** Stores `a`, of the cache's dtype, as columns from `first` on of the rows at byte offsets `row`
 * (Mx1). If x columns of a lane are in adjacent registers, a store has 16 bytes. In K of SHUFFLE it
 * has as many columns as `first` is a multiple of. V of SHUFFLE takes a store for each element; see
 * att_cache_store_runs(). */
void att_cache_store(const struct att_cache *c, struct tir_value row, int first,
                     struct tir_value a);

/** Returns a scalar i1 for this wave: true if att_cache_store_runs() can write the slots `slot`
 * (Mx1 i64). In each aligned group of x rows, all slots must be negative, or consecutive from a
 * multiple of x on. It is always false except for V in SHUFFLE. */
struct tir_value att_cache_has_runs(const struct att_cache *c, struct tir_value slot);

/** Like att_cache_store(), for V in SHUFFLE if att_cache_has_runs() is true. A store of 16 bytes
 * writes x rows that are adjacent in a lane's registers. */
void att_cache_store_runs(const struct att_cache *c, struct tir_value row, int first,
                          struct tir_value a);

/** Stores all panels a[] of rows, of the cache's dtype, to slots `slot` (Mx1 i64), with the widest
 * possible stores. */
void att_cache_store_slots(const struct att_cache *c, const struct att_cache_tiles *t,
                           struct tir_value slot, const struct tir_value *a);

/** Loads columns from `first` on of the rows at byte offsets `row` as a tile of type `t`; the rows
 * must exist. For V in SHUFFLE, x rows that are consecutive in a page must be the lowest register
 * bits of `t`: see att_cache_load_type(). */
struct tir_value att_cache_load(const struct att_cache *c, struct tir_value row, int first,
                                struct tir_type t);

/** Returns type `t`, of the cache's dtype, with its registers in the best order for
 * att_cache_load(). */
struct tir_type att_cache_load_type(const struct att_cache *c, struct tir_type t);

/* Scales: element = stored number * scale. */

/** Returns the byte offsets (i64) from c->scales of the scales of tokens `token` in pages
 * `page`. */
struct tir_value att_cache_scale_at(const struct att_cache *c, struct tir_value page,
                                    struct tir_value token);
/** Returns the byte offsets (i64) from c->scales of the scales of slots. A negative slot has a
 * negative offset. */
struct tir_value att_cache_scale_row(const struct att_cache *c, struct tir_value slot);
/** Returns where the scales of packed rows begin, as byte offsets from the cache's base (Mx1 i64).
 * `slot` is Mx1 i64; a negative slot has a negative offset. */
struct tir_value att_packed_scale_row(const struct att_cache *c, struct tir_value slot);
/** Loads the scales of a panel of packed rows, of type `t`, from column `first` on. `row` is the
 * result of att_packed_scale_row(). The scales are in the order of split_blocks() of a tile of type
 * `t`, as att_cache_dequantise() requires. */
struct tir_value att_packed_load_scales(const struct att_cache *c, struct tir_value row, int first,
                                        struct tir_type t);
/** Quantises panel `x` (f32) of packed rows, from column `first` on, and stores its scales. `row`
 * is the result of att_packed_scale_row(). Returns the elements to store. */
struct tir_value att_packed_quantise(const struct att_cache *c, struct tir_value row, int first,
                                     struct tir_value x);
/** Elements of packed rows as they are stored, and the stored scales of their runs. */
struct att_packed {
    struct tir_value
        elements;            /* rows x columns of fp8, or of the bytes of e2m1: att_e2m1_bytes() */
    struct tir_value scales; /* a row for each run, in the order of split_blocks() */
};
/** Quantises x (f32), rows x whole runs, to packed elements and their scales. */
struct att_packed att_pack(const struct att_cache *c, struct tir_value x);
/** The scales of runs, stored, and the factors (f32) by which elements are multiplied. */
struct att_run_scales {
    struct tir_value stored, inverse;
};
/** Returns the scales of runs of packed rows whose largest magnitudes are `absmax` (f32). */
struct att_run_scales att_run_scales(const struct att_cache *c, struct tir_value absmax);
/** Returns elements `a` of packed rows in `dtype`. `scale` is the result of
 * att_packed_load_scales(). */
struct tir_value att_unpack(const struct att_cache *c, struct tir_value a, struct tir_value scale,
                            unsigned dtype);
/** Returns stored scales of packed rows as f32. */
struct tir_value att_packed_decode(const struct att_cache *c, struct tir_value stored);
/** Returns the type of stored scales: TIR_F32, TIR_I8 for e8m0, or TIR_FP8. */
unsigned att_packed_scale_dtype(const struct att_cache *c);
/** Loads the scales (Mx1 f32) at byte offsets `row` of att_cache_scale_row(). The rows must exist.
 * Not for a scale that all rows share. */
struct tir_value att_cache_load_scales(const struct att_cache *c, struct tir_value row);
/** Stores `scale` (Mx1 f32) at byte offsets `row` of att_cache_scale_row(). Not for a scale that
 * all rows share. */
void att_cache_store_scales(const struct att_cache *c, struct tir_value row,
                            struct tir_value scale);
/** Returns the scale (scalar f32) that all rows share, if att_shares_scale() is true. */
struct tir_value att_cache_tensor_scale(const struct att_cache *c);

/** Loads the scale (f32) of a sequence and KV head from the tensor whose address is the argument
 * `name`. The tensor has the strides of the cache's scales, which are of kind head. `sequence` and
 * `head` are indices (i32). */
struct tir_value att_cache_head_scale(const struct att_cache *c, const char *name,
                                      struct tir_value sequence, struct tir_value head);

/** Returns the largest |x| of each row of an f32 tile, Mx1 f32. */
struct tir_value att_absmax(struct tir_builder *b, struct tir_value x);

/** Returns the scale absmax / largest, which makes `absmax` (f32) the largest number of the
 * dtype. */
struct tir_value att_cache_scale_of(const struct att_cache *c, struct tir_value absmax);

/** Returns 1 / max(scale, 1e-12), the factor by which numbers are multiplied before they are
 * stored. */
struct tir_value att_cache_inverse(const struct att_cache *c, struct tir_value scale);

/** Returns rows `x` (f32) times `inverse`, rounded to the nearest even number of the cache's dtype.
 * Numbers beyond the largest become the largest; a scale per token or page, computed from x, leaves
 * none. `inverse` is a scalar f32, Mx1, or no value: x is not scaled. */
struct tir_value att_cache_quantise(const struct att_cache *c, struct tir_value x,
                                    struct tir_value inverse);

/** Returns stored numbers `a` times `scale` in `dtype`, rounded once. `scale` is a scalar f32, Mx1,
 * or no value, or for packed rows the result of att_packed_load_scales(). */
struct tir_value att_cache_dequantise(const struct att_cache *c, struct tir_value a,
                                      struct tir_value scale, unsigned dtype);

#endif
