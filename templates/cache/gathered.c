/* SPDX-License-Identifier: Apache-2.0 */
#include "templates/cache/gathered.h"

#include "op_names.h"
#include "templates/workgroup/scalar.h"

enum { INT = 4 };

struct tir_value att_gathered_entry(struct tir_builder *b, const char *list, struct tir_value index)
{
    const struct tir_value base = tir_arg(b, list, TIR_I64);
    const struct tir_value at = att_wide_times(b, index, INT);
    return tir_scalar_load(b, tir_add(b, base, at), tir_i32(b, 0), TIR_I32);
}

/* Returns seq_starts[sequence], the index (i32) of the first token of `sequence` that is gathered;
 * 0 if the argument is NULL. */
static struct tir_value start_of(struct tir_builder *b, struct tir_value sequence)
{
    const struct tir_type t = tir_scalar(TIR_I32);
    const struct tir_value list = tir_arg(b, ARG_SEQ_STARTS, TIR_I64);
    struct tir_if given = tir_begin_if(b, tir_cmp_ne(b, list, tir_i64(b, 0)), false, &t, 1);
    struct tir_value start = att_gathered_entry(b, ARG_SEQ_STARTS, sequence);
    tir_else(b, &given, &start);
    start = tir_i32(b, 0);
    tir_end_if(b, &given, &start);
    return start;
}

struct att_gathered att_gathered(struct tir_builder *b, struct tir_value sequence)
{
    struct att_gathered g;
    g.row = att_gathered_entry(b, ARG_CU_SEQLENS_K, sequence);
    const struct tir_value next = att_gathered_entry(b, ARG_CU_SEQLENS_K, att_plus(b, sequence, 1));
    g.start = start_of(b, sequence);
    g.end = tir_add(b, g.start, tir_sub(b, next, g.row));
    return g;
}
