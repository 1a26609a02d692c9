/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages of P tokens, at most 65536: which page has a token or a slot, and where in that page. P is
 * a constant of the kernel or an argument. An argument is a power of two for an op whose key has
 * page_size.
 *
 * LLVM replaces a division by a constant by a multiplication. This file does the same for a
 * division of numbers n < 2^31 by an argument: floor(n / P) = floor(2 n M / 2^(32 + s)) with s =
 * ceil(log2 P) and M = ceil(2^(31 + s) / P). The reason is M P = 2^(31 + s) + e with e < P, so that
 * n e < 2^(31 + s) (Granlund and Montgomery, Division by Invariant Integers using Multiplication,
 * PLDI 1994, theorem 4.2).
 *
 * A slot is below 2^44, since a row has 16 bytes or more of 2^48 bytes of memory. If P is no power
 * of two, a slot is divided by long division in 32 bits, as two digits of base 2^14. The upper
 * digit is below 2^30. Its remainder is below P <= 2^16, so the remainder together with the lower
 * digit is below 2^30 too.
 */
#ifndef TEMPLATES_CACHE_PAGING_H
#define TEMPLATES_CACHE_PAGING_H

#include "ir/builder.h"
#include "templates/template.h"

/** The number P of tokens of a page, and constants for a division by P by shift or
 * multiplication. */
struct att_paging {
    struct tir_builder *b;
    /* P, the number of tokens of a page; 0: it is an argument of the kernel. */
    int size;
    bool power;             /* true: P is known to be a power of two; false: it may be any number */
    struct tir_value shift; /* i32: log2 of P, rounded up to an integer */
    /* i32, unsigned: multiplier M = ceil(2^(31 + s) / P) with s = `shift`, if P is an argument that
     * may be no power of two; else no value. */
    struct tir_value magic;
};

/** Returns the paging of the variant's page_size. If that is 0, the size is an argument. */
struct att_paging att_paging(struct tir_builder *b, const struct att_variant *v);
/** Returns the paging of a size that is an argument, for an op without a field page_size. `power`:
 * the argument is a power of two. */
struct att_paging att_paging_by_argument(struct tir_builder *b, bool power);
/** Returns the paging whose pages are the tokens of a list's entry: 1 token for lists of slots, 64
 * for lists of blocks. */
struct att_paging att_paging_of_lists(struct tir_builder *b, const struct att_variant *v);

/** Returns the number P (i32) of tokens of a page. */
struct tir_value att_page_tokens(const struct att_paging *p);

/* The next three functions have tokens or pages of one sequence as parameters: indices, i32 of any
 * shape, not negative. P: number of tokens of a page. */

/** Returns the index of the page that has token `token`: token / P. */
struct tir_value att_page_of(const struct att_paging *p, struct tir_value token);
/** Returns the token's index in its page, token mod P. */
struct tir_value att_page_place(const struct att_paging *p, struct tir_value token);
/** Returns the first token of a page, page * P. */
struct tir_value att_page_first(const struct att_paging *p, struct tir_value page);

/** A slot, page * P + token, as page number and index in that page. */
struct att_slot {
    /* i64 of any shape: page number, and index of the token in the page. */
    struct tir_value page, token;
};
/** Returns page and token of `slot` (i64). A negative slot is treated as slot 0, or if P is a power
 * of two, as a slot before page 0. */
struct att_slot att_slot_of(const struct att_paging *p, struct tir_value slot);

#endif
