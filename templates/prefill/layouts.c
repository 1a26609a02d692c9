/* SPDX-License-Identifier: Apache-2.0
 *
 * This file derives the sizes and the LDS layouts of Q, K, V and O of a prefill kernel from its
 * variant and tile. Nothing here is stored, so that no copy can be out of date.
 */
#include "ir/address_map.h"
#include "ir/bits.h"
#include "templates/prefill/prefill.h"
#include "templates/workgroup/lds_map.h"

/* Returns `bytes`, rounded up to a multiple of 16. */
static unsigned round_up(unsigned bytes) { return (bytes + 15) & ~15u; }

/* ---- Panels of Q and K: columns, LDS maps, bytes ---- */

unsigned prefill_valid(const struct prefill *p, const struct prefill_panel *n)
{
    const unsigned left = (unsigned)p->v->head_dim - n->first;
    return left < n->width ? left : n->width;
}

unsigned prefill_multiplied(const struct prefill *p, const struct prefill_panel *n)
{
    const unsigned valid = prefill_valid(p, n), vector = 16 / prefill_bytes(p);
    const unsigned step = vector << (prefill_mma(p)->a.lane_bits - tir_bits(prefill_mma(p)->m));
    return valid < n->width ? (valid + step - 1) / step * step : n->width;
}

bool prefill_is_padded(const struct prefill *p, const struct prefill_panel *n)
{
    return prefill_multiplied(p, n) > prefill_valid(p, n);
}

/* Returns the LDS map of a tile of K or V that the tensor data mover writes. Rows have `cols`
 * elements, and `apart` bytes of padding after each. */
static struct tir_layout moved_rows(const struct prefill *p, unsigned cols, unsigned apart)
{
    struct tir_layout map = tir_row_major(p->tile->keys, cols);
    tir_map_pad(&map, cols, apart / prefill_bytes(p));
    return map;
}

/* Bytes of padding after a row of K and of V in LDS. With the padding, a read uses every bank once.
 * An LDS read of K covers 16 bytes of 16 rows, and a transposing read of V 32 bytes of 8 rows. */
enum { K_APART = 16, V_APART = 32 };

struct tir_layout prefill_k_lds(const struct prefill *p, const struct prefill_panel *n,
                                unsigned groups)
{
    if (prefill_moves_tensors(p))
        return moved_rows(p, n->width, K_APART);
    return att_lds_rows(p->m, p->tile->keys * groups, n->width, prefill_bytes(p));
}

unsigned prefill_k_bytes(const struct prefill *p, const struct prefill_panel *n)
{
    const struct tir_layout all = prefill_k_lds(p, n, prefill_groups(p));
    const unsigned bytes = att_lds_bytes(&all, prefill_bytes(p));
    return prefill_is_padded(p, n) ? bytes + prefill_k_lds(p, n, 1).pad * prefill_bytes(p) : bytes;
}

struct tir_layout prefill_q_lds(const struct prefill *p, const struct prefill_panel *n)
{
    return att_lds_rows(p->m, prefill_queries(p), n->width, prefill_bytes(p));
}

unsigned prefill_q_bytes(const struct prefill *p, const struct prefill_panel *n)
{
    const struct tir_layout l = prefill_q_lds(p, n);
    return round_up(att_lds_bytes(&l, prefill_bytes(p)));
}

/* ---- Tiles of V: parts of keys, LDS maps, bytes ---- */

unsigned prefill_v_part_keys(const struct prefill *p)
{
    /* fewest keys of a part; the next part of V is read during a part's product */
    enum { LEAST = 16 };
    const bool in_parts = prefill_is_one_wave(p) ? !prefill_transposes_v(p) && !p->v->paged
                                                 : prefill_reads_before_check(p);
    const unsigned keys = prefill_mma(p)->k > LEAST ? prefill_mma(p)->k : LEAST;
    return in_parts && keys < p->tile->keys ? keys : p->tile->keys;
}

struct tir_contraction prefill_v_contraction(const struct prefill *p)
{
    const struct tir_layout s = prefill_scores_layout(p);
    return tir_contract_acc(&s, tir_bits(prefill_mma(p)->n));
}

struct tir_layout prefill_v_lds(const struct prefill *p)
{
    const unsigned bytes = prefill_bytes(p);
    if (prefill_moves_tensors(p))
        return moved_rows(p, prefill_v_columns(p), V_APART);
    if (!prefill_transposes_v(p))
        return att_lds_rows(p->m, p->tile->keys, prefill_dv(p), bytes);
    const struct tir_contraction k = prefill_v_contraction(p);
    struct tir_layout l = att_lds_columns(p->m, p->tile->keys, prefill_dv(p), bytes, &k);
    if (p->value.tail != PREFILL_TAIL_NONE)
        tir_map_pad(&l, 1u << l.reg_bits, 16 / bytes);
    return l;
}

struct tir_layout prefill_v_copied(const struct prefill *p)
{
    const unsigned keys = p->tile->keys * prefill_groups(p);
    return prefill_transposes_v(p) || prefill_moves_tensors(p)
               ? prefill_v_lds(p)
               : att_lds_rows(p->m, keys, prefill_dv(p), prefill_bytes(p));
}

unsigned prefill_v_bytes(const struct prefill *p)
{
    const struct tir_layout copied = prefill_v_copied(p);
    const unsigned bytes = att_lds_bytes(&copied, prefill_bytes(p)) *
                           (prefill_transposes_v(p) ? prefill_groups(p) : 1);
    if (p->value.tail == PREFILL_TAIL_NONE)
        return bytes;
    return bytes + prefill_v_lds(p).pad * prefill_bytes(p);
}

int prefill_rest_product(const struct prefill *p)
{
    /* rows and columns of the result, and length of the sum, of the instruction */
    enum { SIZE = 16 };
    return tir_find_mma(p->m, SIZE, SIZE, SIZE, (uint8_t)p->shape.dtype);
}

/* ---- O on its way between key groups ---- */

struct tir_layout prefill_merge_lds(const struct prefill *p)
{
    return att_lds_rows(p->m, prefill_queries(p), prefill_dv(p) / p->merge_parts, sizeof(float));
}

unsigned prefill_merge_bytes(const struct prefill *p)
{
    const struct tir_layout l = prefill_merge_lds(p);
    return round_up(att_lds_bytes(&l, sizeof(float)));
}
