/* SPDX-License-Identifier: Apache-2.0 */
#include "templates/cache/paging.h"

#include "ir/bits.h"
#include "templates/workgroup/scalar.h"

enum { DIGIT = 14 /* bits of a slot that one step of the long division divides */ };

struct att_paging att_paging(struct tir_builder *b, const struct att_variant *v)
{
    if (!v->page_size)
        return att_paging_by_argument(b, v->op->takes & ATT_BIT(PAGE_SIZE));
    const bool power = tir_is_power(v->page_size);
    const unsigned below = tir_bits_floor((unsigned)v->page_size);
    return (struct att_paging){.b = b,
                               .size = v->page_size,
                               .power = power,
                               .shift = tir_i32(b, (int)(power ? below : below + 1))};
}

struct att_paging att_paging_by_argument(struct tir_builder *b, bool power)
{
    struct att_paging p = {.b = b, .power = power, .shift = tir_arg(b, ARG_PAGE_SHIFT, TIR_I32)};
    if (!power)
        p.magic = tir_arg(b, ARG_PAGE_MAGIC, TIR_I32);
    return p;
}

struct att_paging att_paging_of_lists(struct tir_builder *b, const struct att_variant *v)
{
    const int bits = v->sparse == ATT_SPARSE_BLOCKS ? 6 : 0;
    return (struct att_paging){.b = b, .size = 1 << bits, .power = true, .shift = tir_i32(b, bits)};
}

/* Returns `scalar` (i32) converted to the dtype of `v` and repeated in its shape. */
static struct tir_value like(const struct att_paging *p, struct tir_value scalar,
                             struct tir_value v)
{
    const unsigned dtype = tir_typeof(p->b->f, v).dtype;
    if (tir_typeof(p->b->f, scalar).dtype != dtype)
        scalar = tir_convert(p->b, scalar, dtype);
    return att_like(p->b, scalar, v);
}

struct tir_value att_page_tokens(const struct att_paging *p)
{
    struct tir_builder *b = p->b;
    if (p->size)
        return tir_i32(b, p->size);
    return p->power ? tir_shl(b, tir_i32(b, 1), p->shift) : tir_arg(b, ARG_PAGE_SIZE, TIR_I32);
}

struct tir_value att_page_of(const struct att_paging *p, struct tir_value token)
{
    struct tir_builder *b = p->b;
    const struct tir_value shift = like(p, p->shift, token);
    if (p->power)
        return tir_shr(b, token, shift);
    if (p->size)
        return tir_div(b, token, tir_int_like(b, token, p->size));
    const struct tir_value twice = tir_shl(b, token, tir_int_like(b, token, 1));
    const struct tir_value both =
        tir_mul(b, tir_zext(b, twice, TIR_I64), tir_zext(b, like(p, p->magic, token), TIR_I64));
    const struct tir_value high = tir_shr(b, both, tir_int_like(b, both, 32));
    return tir_shr(b, tir_convert(b, high, TIR_I32), shift);
}

struct tir_value att_page_first(const struct att_paging *p, struct tir_value page)
{
    if (p->power)
        return tir_shl(p->b, page, like(p, p->shift, page));
    return tir_mul(p->b, page, like(p, att_page_tokens(p), page));
}

struct tir_value att_page_place(const struct att_paging *p, struct tir_value token)
{
    struct tir_builder *b = p->b;
    if (!p->power)
        return tir_sub(b, token, att_page_first(p, att_page_of(p, token)));
    const struct tir_value most = tir_add(b, att_page_tokens(p), tir_i32(b, -1));
    return tir_and(b, token, like(p, most, token));
}

/* Returns `slot` (i64), with 0 in place of negative slots. A comparison would need scalar registers
 * for each of many rows. */
static struct tir_value not_below_zero(struct tir_builder *b, struct tir_value slot)
{
    const struct tir_value sign = tir_sar(b, slot, tir_int_like(b, slot, 63));
    return tir_and(b, slot, tir_xor(b, sign, tir_int_like(b, slot, -1)));
}

struct att_slot att_slot_of(const struct att_paging *p, struct tir_value slot)
{
    struct tir_builder *b = p->b;
    struct att_slot s;
    if (p->power) {
        s.page = tir_sar(b, slot, like(p, p->shift, slot));
        s.token = tir_sub(b, slot, att_page_first(p, s.page));
        return s;
    }
    const struct tir_value own = not_below_zero(b, slot);
    const struct tir_value upper =
        tir_convert(b, tir_shr(b, own, tir_int_like(b, own, DIGIT)), TIR_I32);
    const struct tir_value digit = tir_int_like(b, upper, DIGIT);
    const struct tir_value lower =
        tir_and(b, tir_convert(b, own, TIR_I32), tir_int_like(b, upper, (1 << DIGIT) - 1));
    const struct tir_value first = att_page_of(p, upper);
    const struct tir_value rest =
        tir_or(b, tir_shl(b, tir_sub(b, upper, att_page_first(p, first)), digit), lower);
    const struct tir_value second = att_page_of(p, rest);
    s.page = tir_zext(b, tir_add(b, tir_shl(b, first, digit), second), TIR_I64);
    s.token = tir_zext(b, tir_sub(b, rest, att_page_first(p, second)), TIR_I64);
    return s;
}
