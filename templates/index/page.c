/* SPDX-License-Identifier: Apache-2.0 */
#include "templates/index/page.h"

#include "ir/bits.h"
#include "templates/index/score.h"
#include "templates/workgroup/scalar.h"

enum {
    TILE = 16 /* number of keys that SHUFFLE interleaves, in chunks of CHUNK bytes */,
    CHUNK = 16 /* adjacent bytes of a key in SHUFFLE */,
    FLOAT = 4 /* bytes of a scale */
};

/* Returns `v`, of any shape, times `n`. */
static struct tir_value times(struct tir_builder *b, struct tir_value v, int n)
{
    return tir_mul(b, v, tir_int_like(b, v, n));
}

struct tir_value att_index_key_byte(struct tir_builder *b, struct tir_value token, int bytes,
                                    bool shuffle)
{
    if (!shuffle)
        return times(b, token, bytes);
    const struct tir_value tile = tir_shr(b, token, tir_int_like(b, token, tir_bits(TILE)));
    const struct tir_value own = tir_and(b, token, tir_int_like(b, token, TILE - 1));
    return tir_add(b, times(b, tile, TILE * bytes), times(b, own, CHUNK));
}

struct tir_value att_index_scale_byte(const struct att_paging *p, struct tir_value token, int bytes)
{
    struct tir_builder *const b = p->b;
    struct tir_value keys = att_times(b, att_page_tokens(p), bytes);
    const struct tir_type t = tir_typeof(b->f, token);
    if (t.kind != TIR_SCALAR)
        keys = tir_splat(b, keys, t);
    return tir_add(b, keys, times(b, token, FLOAT));
}

struct att_cache att_index_keys(struct tir_builder *b, struct tir_value base, bool shuffle)
{
    return (struct att_cache){
        .b = b,
        .shuffle = shuffle,
        .dtype = TIR_FP8,
        .size = 1,
        .x = CHUNK,
        .dim = ATT_INDEX_DIM,
        .base = base,
        .block_stride = tir_i32(b, TILE * CHUNK),
    };
}
