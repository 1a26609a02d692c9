/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc trace for plan kernels: one sequence may be longer than the others.
 */
#include <stdlib.h>

#include "tools/attnc/command.h"
#include "tools/attnc/trace.h"

enum dimension { BATCH, KEYS, LONGEST, Q, PAGE, HEADS, KV_HEADS, LISTS, WINDOW };

static const int32_t *make_lengths(struct trace_run *run)
{
    const int *s = run->shape;
    const size_t size = (size_t)s[BATCH] * sizeof(int32_t);
    int32_t *lengths = malloc(size);
    for (int i = 0; lengths && i < s[BATCH]; i++)
        lengths[i] = i == 0 && s[LONGEST] ? s[LONGEST] : s[KEYS];
    const int32_t *device = device_copy(&run->memory, lengths, size);
    free(lengths);
    return device;
}

static int prepare(struct trace_run *run)
{
    const int *s = run->shape;
    const struct attn_plan_desc desc = {.size = sizeof(desc)};
    struct attn_plan_args *a = run->args;
    a->size = sizeof(*a);
    a->shape = (struct attn_decode_plan_shape){
        .size = sizeof(a->shape),
        .batch = s[BATCH],
        .q_len = s[Q],
        .page_size = s[PAGE],
        .heads = s[HEADS],
        .kv_heads = s[KV_HEADS],
        .lists = s[LISTS],
        .window = s[WINDOW],
    };
    struct attn_decode_plan_sizes sizes;
    if (attn_decode_plan_sizes(&a->shape, &sizes))
        return complain(EXIT_USER, "--shape: %s", attn_last_error());
    a->lengths.kv_lens = make_lengths(run);
    a->plan = (struct attn_decode_plan){
        .work_indptr = trace_room(run, (size_t)s[LISTS] + 1, sizeof(int32_t)),
        .work_info = trace_room(run, 8 * (size_t)sizes.work_items, sizeof(int32_t)),
        .reduce_indptr = trace_room(run, (size_t)s[BATCH] + 1, sizeof(int32_t)),
        .reduce_final_map = trace_room(run, 2 * (size_t)s[BATCH], sizeof(int32_t)),
        .reduce_partial_map = trace_room(run, (size_t)sizes.partials, sizeof(int32_t)),
    };
    return trace_lookup(run, &desc);
}

const struct trace_family trace_plan = {
    .op = "plan",
    .args_size = sizeof(struct attn_plan_args),
    .dimensions =
        {
            [BATCH] = {"batch", 64, 1 << 16, "sequences"},
            [KEYS] = {"keys", 4096, 1 << 24, "of each"},
            [LONGEST] = {"longest", 0, 1 << 24, "of the first; keys where left out"},
            [Q] = {"q", 1, 64, "query tokens of each"},
            [PAGE] = {"page", 16, 65536, "tokens in a page"},
            [HEADS] = {"heads", 64, 1024, "query heads"},
            [KV_HEADS] = {"kv_heads", 8, 1024, "key/value heads"},
            [LISTS] = {"lists", 304, 1 << 16, "workgroups of the launch that is planned"},
            [WINDOW] = {"window", 0, 1 << 24, "keys that a query sees; left out: all"},
        },
    .prepare = prepare,
};
