/* SPDX-License-Identifier: Apache-2.0
 *
 * mla_decode: passes over an item with more rows than the tile has columns. If one workgroup did
 * all passes, it would read the keys from HBM in each pass, since the L2 would have replaced them.
 * So one workgroup for each pass works on the same list. These workgroups are neighbours on one XCD
 * and read the same keys at the same time. One loads them from HBM, and the others from the L2.
 * With passes the device is full without a split of the keys.
 */
#include "ir/bits.h"
#include "templates/workgroup/grid.h"
#include "templates/mla_decode/mla_decode.h"
#include "templates/workgroup/scalar.h"

/* Returns the number of rows of Q in a pass. */
static unsigned pass_rows(const struct mla *s)
{
    return s->d.row_columns ? s->d.row_columns : s->d.columns;
}

/* Returns how many workgroups share a work list: one for each pass over the rows of Q. Kernels that
 * add partials in the same launch count the workgroups of each partial. For these kernels the
 * result is 1, and a workgroup does all passes. */
unsigned mla_sharers(const struct mla *s)
{
    const struct att_variant *const v = s->d.v;
    const unsigned rows = (unsigned)(v->gqa * v->q_len); /* 0: gqa is an argument of the kernel */
    const bool shared = !v->one_launch && rows > pass_rows(s);
    return shared ? (rows + pass_rows(s) - 1) / pass_rows(s) : 1;
}

struct mla_passes mla_find_passes(struct mla *s)
{
    struct tir_builder *const b = &s->d.b;
    const int n = (int)mla_sharers(s), columns = (int)pass_rows(s);
    struct tir_value pass = tir_i32(b, 0);
    if (n > 1)
        s->d.list = att_shared_list(b, n, tir_arg(b, ARG_WORKGROUPS, TIR_I32), &pass);
    return (struct mla_passes){.first = att_times(b, pass, columns),
                               .step = tir_i32(b, n * columns)};
}
