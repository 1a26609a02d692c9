/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages of P tokens, at most 65536: in which one a token or a slot lies, and where. P is a constant
 * of the kernel or an argument, which is a power of two for an op whose key has page_size.
 *
 * LLVM makes a multiplication of a division by a constant. By an argument it is one here, of
 * numbers below 2^31: floor(n / P) = floor(2 n M / 2^(32 + s)) with s = ceil(log2 P) and
 * M = ceil(2^(31 + s) / P), since M P = 2^(31 + s) + e with e < P, so that n e < 2^(31 + s)
 * (Granlund and Montgomery, Division by Invariant Integers using Multiplication, PLDI 1994,
 * theorem 4.2).
 *
 * A slot is below 2^44, as it has 16 bytes or more of 2^48. Where P is no power of two it is
 * divided in 32 bits as by hand, in two digits of base 2^14: the upper is below 2^30, and so is
 * what is left of it, less than P <= 2^16, beside the lower one.
 */
#ifndef TEMPLATES_CACHE_PAGING_H
#define TEMPLATES_CACHE_PAGING_H

#include "ir/builder.h"
#include "templates/template.h"

struct att_paging {
    struct tir_builder *b;
    int size;               /* P; 0: it is an argument */
    bool power;             /* P is a power of two */
    struct tir_value shift; /* i32: log2 of P, rounded up */
    struct tir_value magic; /* i32, unsigned: M, if P is an argument that need not be a power of
                               two */
};

/** Returns pages of the variant's page_size; if that is 0, the size is an argument. */
struct att_paging att_paging(struct tir_builder *b, const struct att_variant *v);
/** Returns pages whose size is an argument, for an op without a field page_size. */
struct att_paging att_paging_by_argument(struct tir_builder *b, bool power);
/** Returns pages with the tokens of a list's entry: 1 for lists of slots, 64 for lists of
 * blocks. */
struct att_paging att_paging_of_lists(struct tir_builder *b, const struct att_variant *v);

/** Returns P, the tokens of a page, an i32. */
struct tir_value att_page_tokens(const struct att_paging *p);

/* Tokens of a sequence: i32 of any shape, not negative. */

/** Returns token / P. */
struct tir_value att_page_of(const struct att_paging *p, struct tir_value token);
/** Returns token mod P. */
struct tir_value att_page_place(const struct att_paging *p, struct tir_value token);
/** Returns page * P. */
struct tir_value att_page_first(const struct att_paging *p, struct tir_value page);

/** The page and token of a slot of a cache, page * P + token: i64 of any shape. A negative slot
 * becomes slot 0, or for a power of two counts back from page 0. */
struct att_slot {
    struct tir_value page, token; /* i64 */
};
struct att_slot att_slot_of(const struct att_paging *p, struct tir_value slot);

#endif
