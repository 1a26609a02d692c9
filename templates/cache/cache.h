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

/** The type of the scales of rows that contain them. */
enum att_row_scale { ATT_ROW_F32, ATT_ROW_E8M0, ATT_ROW_FP8 };

/** The format of rows that begin with elements of fp8 or e2m1. A run of these elements shares a
 * scale. Some rows end with 64 elements of the op's dtype. */
struct att_row_format {
    int bits;                 /* of an element with a scale: 8 is fp8, 4 is e2m1 */
    int scaled;               /* elements of a row that have a scale */
    int run;                  /* such elements that share a scale */
    enum att_row_scale scale; /* type of a scale */
    int copies;               /* of each scale, next to each other */
    int scales;    /* byte of a row where its scales begin; ATT_AFTER_ROWS: after a page's rows */
    int rotated;   /* byte of a row where the last 64 elements begin; ATT_OWN_PLANE: the tensor of
                      V has them; 0: they have scales too */
    bool in_value; /* the last 64 elements are a part of key and value; false: of the key only */
    int bytes;     /* of a row in the tensor of K, without scales after a page's rows */
    float least;   /* lower limit of a scale before it is rounded to its type */
    const struct att_row_format *second; /* of rows of a second source; NULL: the same */
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

/** Returns the largest magnitude of an element before its scale. */
float att_row_largest(const struct att_row_format *rows, const struct tir_machine *m);

/** K or V of a cache, for one head. */
struct att_cache {
    struct tir_builder *b;
    bool value;                        /* this is V, not K; SHUFFLE orders them differently */
    bool shuffle;                      /* SHUFFLE, and SHUFFLE_K */
    bool columns;                      /* V of SHUFFLE_K */
    bool packed;                       /* elements are fp8 with scales, as `rows` says */
    const struct att_row_format *rows; /* att_row_format() */
    struct tir_value plane;            /* i64: base of V, where rows->rotated is ATT_OWN_PLANE */
    struct tir_value plane_page_stride, plane_token_stride; /* i64 bytes in `plane` */
    enum att_kv_scale scaling;
    unsigned dtype;        /* of the elements: enum tir_dtype */
    int size, x, dim;      /* bytes of an element; elements in 16 bytes; columns of a row */
    int column;            /* element of a packed row that is column 0 */
    int widest;            /* the most columns of a panel, ATT_CACHE_DIM_MAX unless set */
    float largest;         /* largest finite number of the dtype, if it is scaled */
    struct tir_value base; /* i64: of this head */
    struct tir_value page_stride, token_stride; /* i64 bytes; token_stride for NHD only */
    struct att_paging pages;
    struct tir_value block_stride; /* i32 bytes between x elements of K, or between elements of V;
                                      SHUFFLE only */
    int page_size;                 /* tokens, if known at compile time */
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

/** True if rows of the cache have scales among their elements, or after a page's rows. */
bool att_is_packed(const struct att_variant *v);
/** True if rows are of kv_layout scales_last or planes: 448 elements of fp8 and 64 of dtype. */
bool att_is_mixed(const struct att_variant *v);
/** True if rows with scales have 512 elements that are key and value. */
bool att_is_pooled(const struct att_variant *v);

/** True if all rows of a head share one scale, of the tensor (kv_scale tensor) or of the sequence's
 * head (head): att_cache_tensor_scale(). */
bool att_shares_scale(const struct att_variant *v);

/** True if a tensor has a scale for each row (kv_scale token), or for each page (block). */
bool att_scales_rows(const struct att_variant *v);

/** Returns the bytes of `elements` elements of rows, as their format stores them. */
static inline int att_row_bytes(const struct att_row_format *rows, int elements)
{
    return elements * rows->bits / 8;
}

/** Returns a cache of only the last 64 elements of packed rows. They are of type `dtype` unless
 * they have scales too. A kernel that moves both parts passes it as V, and the other part as K. */
struct att_cache att_cache_rotated(const struct att_cache *c, unsigned dtype);

/** Returns the variant's cache for head `head` (i32): the arguments k or v, their strides and
 * scales. The builder must outlive it. Each call uses the builder's current stage and phase. */
struct att_cache att_cache(struct tir_builder *b, const struct att_variant *v,
                           const struct tir_machine *m, bool value, struct tir_value head);

/** Adds the offset of sequence `sequence` (i32) to the scales' address. Changes nothing unless
 * sequences have scales of their own (kv_scale head). */
void att_cache_of_sequence(struct att_cache *c, struct tir_value sequence);

/** Checks what every op with a cache requires: dtype against scale, and page size against
 * layout. */
bool att_cache_check(const struct att_variant *v, struct att_why *why);

/** Checks the same for an op whose rows are key and value, which may be of scales_last or
 * planes. */
bool att_latent_check(const struct att_variant *v, struct att_why *why);

/** Returns the dtype of the cache's elements. */
unsigned att_cache_dtype(const struct att_variant *v);
/** True if the cache is SHUFFLE or SHUFFLE_K. */
bool att_is_shuffled(const struct att_variant *v);

/**
 * A tile of tokens x columns, all powers of two. `lanes` lanes share a row with columns / lanes
 * adjacent ones each, for `run` rows. Waves continue the rows, and `passes` repeats everything for
 * further rows.
 */
struct att_token_tile {
    unsigned cols, lanes, run, passes;
};

/** Returns the tile's layout. *rows is the number of tokens. */
struct tir_layout att_token_layout(const struct tir_machine *m, const struct att_token_tile *t,
                                   unsigned waves, unsigned *rows);

/**
 * The spread of rows of K or V over a workgroup that copies them to or from the cache. A lane has
 * 16 bytes of the stored form, or of V in SHUFFLE x tokens and 64 elements. A head dim is divided
 * into panels of power-of-two width on the same lanes: 192 is 128 + 64. With scales per page in
 * SHUFFLE, 496 is seven panels of 64, 32 and 16.
 */
enum { ATT_CACHE_PANELS = 9, ATT_CACHE_DIM_MAX = 512, ATT_CACHE_PANEL = 128 };
struct att_cache_tiles {
    unsigned n;
    int first[ATT_CACHE_PANELS];             /* column */
    struct tir_type panel[ATT_CACHE_PANELS]; /* rows x width */
    struct tir_type column;                  /* i64, rows x 1, in the layout of the panels' rows */
};

/** True if rows in SHUFFLE are so long that x of them exceed the registers. Their panels then have
 * at most ATT_CACHE_PANEL columns, and must be processed one after the other. */
bool att_cache_narrow_panels(struct att_cache *c);

/** Returns the fewest rows that a workgroup of `waves` waves processes; a power of two. */
unsigned att_cache_least_rows(const struct att_cache *c, unsigned waves);
/** Returns panels of `dtype` with `rows` rows, a power of two that is at least
 * att_cache_least_rows(). */
struct att_cache_tiles att_cache_tiles(const struct att_cache *c, unsigned dtype, unsigned waves,
                                       unsigned rows);

/** Returns panel i only. */
struct att_cache_tiles att_cache_panel(const struct att_cache_tiles *t, unsigned i);

/** Returns the elements of all panels that a lane holds. */
unsigned att_cache_lane_elements(const struct att_cache *c, const struct att_cache_tiles *t);

/** True if a lane has registers for `passes` passes of K and V with this many waves on a SIMD. */
bool att_cache_fits_passes(const struct att_variant *v, const struct tir_machine *m,
                           unsigned passes, unsigned waves_per_simd, struct att_why *why);

/** Returns the elements of V in SHUFFLE that a lane holds for the fewest rows; f32 takes a register
 * each. */
unsigned att_cache_run_elements(const struct att_variant *v, const struct tir_machine *m);

/** Checks that att_cache_tiles() can hold rows of the variant's head dims. */
bool att_cache_check_dims(const struct att_variant *v, struct att_why *why);

/** Checks the fields, head dims and tile of a family that moves rows of a cache: it is the family's
 * member `check`. */
bool att_cache_check_tile(const struct att_variant *v, const struct tir_machine *m,
                          struct att_why *why);

/** Returns addresses of rows. `page` and `token` (within the page) are i64 tiles or scalars of one
 * type. */
struct tir_value att_cache_row(const struct att_cache *c, struct tir_value page,
                               struct tir_value token);

/** Returns addresses of slots, page * P + token, an i64 tile. Negative slots get an address so low
 * that it stays negative with any offset. Such rows are never written. */
struct tir_value att_cache_slot_row(const struct att_cache *c, struct tir_value slot);

/**
 * Stores columns from `first` on of rows at these addresses (Mx1). `a` has the cache's dtype. If x
 * columns of a lane are adjacent in registers, a store has 16 bytes; for K in SHUFFLE, as many as
 * `first` is a multiple of. V in SHUFFLE takes a store for each element; see
 * att_cache_store_runs().
 */
void att_cache_store(const struct att_cache *c, struct tir_value row, int first,
                     struct tir_value a);

/**
 * Returns a scalar i1 for this wave: true if att_cache_store_runs() can write these slots (Mx1
 * i64). In each aligned group of x rows, all slots must be negative, or consecutive from a multiple
 * of x on. Always false except for V in SHUFFLE.
 */
struct tir_value att_cache_has_runs(const struct att_cache *c, struct tir_value slot);

/** Like att_cache_store(), for V in SHUFFLE if att_cache_has_runs(). A 16-byte store writes x rows
 * that are adjacent in a lane's registers. */
void att_cache_store_runs(const struct att_cache *c, struct tir_value row, int first,
                          struct tir_value a);

/** Stores all panels of rows, in the cache's dtype, to their slots (Mx1 i64), with the widest
 * possible stores. */
void att_cache_store_slots(const struct att_cache *c, const struct att_cache_tiles *t,
                           struct tir_value slot, const struct tir_value *a);

/** Loads what att_cache_store() stores into a tile of type t; the rows must exist. For V in
 * SHUFFLE, a group of x rows is consecutive in a page and in the lowest register bits of t; see
 * att_cache_load_type(). */
struct tir_value att_cache_load(const struct att_cache *c, struct tir_value row, int first,
                                struct tir_type t);

/** Returns t, of the cache's dtype, with its registers in the best order for loads. */
struct tir_type att_cache_load_type(const struct att_cache *c, struct tir_type t);

/* Scales: element = stored number * scale. */

/** Return byte offsets of scales, i64: of tokens of pages, and of slots. A negative slot has a
 * negative offset. */
struct tir_value att_cache_scale_at(const struct att_cache *c, struct tir_value page,
                                    struct tir_value token);
struct tir_value att_cache_scale_row(const struct att_cache *c, struct tir_value slot);
/** Returns where the scales of packed rows begin, as byte offsets from the cache's base (Mx1 i64).
 * `slot` is Mx1 i64; a negative slot has a negative offset. */
struct tir_value att_packed_scale_row(const struct att_cache *c, struct tir_value slot);
/** Loads the scales of a panel of packed rows, from column `first` on. `row` is the result of
 * att_packed_scale_row(). The scales are in the order of split_blocks() of a tile of type `t`, as
 * att_cache_dequantise() requires. */
struct tir_value att_packed_load_scales(const struct att_cache *c, struct tir_value row, int first,
                                        struct tir_type t);
/** Quantises the panel x (f32) of packed rows from column `first` on, and stores its scales at
 * `row`, the result of att_packed_scale_row(). Returns the elements to store. */
struct tir_value att_packed_quantise(const struct att_cache *c, struct tir_value row, int first,
                                     struct tir_value x);
/** Elements of packed rows as they are stored, and the stored scales of their runs. */
struct att_packed {
    struct tir_value
        elements;            /* rows x columns of fp8, or of the bytes of e2m1: att_e2m1_bytes() */
    struct tir_value scales; /* a row for each run, in the order of split_blocks() */
};
/** Quantises x (f32), rows x whole runs. */
struct att_packed att_pack(const struct att_cache *c, struct tir_value x);
/** The scales of runs, stored, and the factors (f32) by which elements are multiplied. */
struct att_run_scales {
    struct tir_value stored, inverse;
};
/** Returns the scales of runs of packed rows whose largest magnitudes are `absmax` (f32). */
struct att_run_scales att_run_scales(const struct att_cache *c, struct tir_value absmax);
/** Dequantises elements of packed rows to `dtype`. `scale` is of att_packed_load_scales(). */
struct tir_value att_unpack(const struct att_cache *c, struct tir_value a, struct tir_value scale,
                            unsigned dtype);
/** Converts stored scales of packed rows to f32. */
struct tir_value att_packed_decode(const struct att_cache *c, struct tir_value stored);
/** Returns the type of stored scales: TIR_F32, TIR_I8 for e8m0, or TIR_FP8. */
unsigned att_packed_scale_dtype(const struct att_cache *c);
/** Loads the scales of existing rows, Mx1 f32; not for a scale per tensor. */
struct tir_value att_cache_load_scales(const struct att_cache *c, struct tir_value row);
/** Stores the scales of rows, Mx1 f32; not for a scale that all rows share. */
void att_cache_store_scales(const struct att_cache *c, struct tir_value row,
                            struct tir_value scale);
/** Returns the scale that all rows share, a scalar f32: att_shares_scale(). */
struct tir_value att_cache_tensor_scale(const struct att_cache *c);

/* Loads the scale (f32) of a sequence and KV head from the tensor whose address is the argument
 * `name`. The tensor has the strides of the cache's scales, which are of kind head. `sequence` and
 * `head` are indices (i32). */
struct tir_value att_cache_head_scale(const struct att_cache *c, const char *name,
                                      struct tir_value sequence, struct tir_value head);

/** Returns the largest |x| of each row, Mx1 f32, for an f32 tile. */
struct tir_value att_absmax(struct tir_builder *b, struct tir_value x);

/** Returns the scale under which `absmax` (f32) is the largest number: absmax / largest. */
struct tir_value att_cache_scale_of(const struct att_cache *c, struct tir_value absmax);

/** Returns 1 / max(scale, 1e-12), the factor for quantising. */
struct tir_value att_cache_inverse(const struct att_cache *c, struct tir_value scale);

/** Quantises rows of f32: x * inverse, rounded to nearest even. Numbers beyond the largest become
 * the largest; with a scale per token or page, computed from x, there are none. `inverse` is a
 * scalar f32, Mx1, or no value: x is not scaled. */
struct tir_value att_cache_quantise(const struct att_cache *c, struct tir_value x,
                                    struct tir_value inverse);

/** Dequantises to `dtype`: stored * scale, rounded once. `scale` has the forms of `inverse` above,
 * or for packed rows of att_packed_load_scales(). */
struct tir_value att_cache_dequantise(const struct att_cache *c, struct tir_value a,
                                      struct tir_value scale, unsigned dtype);

#endif
