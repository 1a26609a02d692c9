/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc trace for topk kernels: rows of one length, of random scores.
 */
#include "tools/attnc/command.h"
#include "tools/attnc/trace.h"

enum dimension { ROWS, COLUMNS, SPLITS };

static int prepare(struct trace_run *run)
{
    const int *s = run->shape;
    const struct attn_topk_desc desc = verify_topk_desc(run->pack, run->n);
    const size_t scores = (size_t)s[ROWS] * (size_t)s[COLUMNS];
    const size_t lists = (size_t)s[ROWS] * (size_t)s[SPLITS];
    const int fault = trace_check_elements((double)s[ROWS] * s[COLUMNS]);
    if (fault)
        return fault;
    struct attn_topk_args *a = run->args;
    *a = (struct attn_topk_args){
        .size = sizeof(*a),
        .rows = s[ROWS],
        .columns = s[COLUMNS],
        .splits = s[SPLITS],
        .scores_row_stride = s[COLUMNS],
        .scores = trace_random(run, "f32", scores),
        .indices = trace_room(run, lists * (size_t)desc.top_k, sizeof(int32_t)),
    };
    run->least_bytes = 4.0 * (double)scores + 4.0 * (double)lists * desc.top_k;
    return trace_lookup(run, &desc);
}

const struct trace_family trace_topk = {
    .op = "topk",
    .args_size = sizeof(struct attn_topk_args),
    .dimensions =
        {
            [ROWS] = {"rows", 304, 1 << 16, "of scores"},
            [COLUMNS] = {"columns", 65536, 1 << 24, "of each"},
            [SPLITS] = {"splits", 1, 65535, "parts that each is cut into"},
        },
    .prepare = prepare,
};
