/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc trace for combine kernels: every token has the same number of parts.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/attnc/command.h"
#include "tools/attnc/trace.h"

enum dimension { TOKENS, PARTS, HEADS };

/* Sizes of what is loaded and stored. */
struct sizes {
    size_t rows, elements; /* of parts; of out */
};

static void prepare_lists(struct trace_run *run, struct attn_combine_args *a, struct sizes n,
                          int dim)
{
    const int parts = run->shape[PARTS];
    a->partial_out = trace_random(run, "f32", n.rows * dim);
    a->partial_lse = trace_random(run, "f32", n.rows);
    a->splits = parts;
    a->reduce_tiles = a->total_q;
    a->reduce_indptr = trace_steps(run, (size_t)a->total_q + 1, 0, parts);
    a->reduce_partial_map = trace_steps(run, (size_t)a->total_q * parts, 0, 1);
    int32_t *tokens = malloc(2 * (size_t)a->total_q * sizeof(*tokens));
    for (int i = 0; tokens && i < 2 * a->total_q; i++)
        tokens[i] = i / 2 + i % 2;
    a->reduce_final_map =
        device_copy(&run->memory, tokens, 2 * (size_t)a->total_q * sizeof(*tokens));
    free(tokens);
    run->least_bytes += (double)n.rows * (dim + 1) * sizeof(float);
    if (!strcmp(verify_field(run->pack, run->n, "partials"), "csr"))
        run->least_bytes += 4.0 * a->total_q * (3 + parts);
}

static void prepare_pair(struct trace_run *run, struct attn_combine_args *a, struct sizes n,
                         int dim)
{
    const char *dtype = verify_field(run->pack, run->n, "dtype");
    a->prefix = trace_random(run, dtype, n.elements);
    a->suffix = trace_random(run, dtype, n.elements);
    a->prefix_lse = trace_random(run, "f32", n.elements / dim);
    a->suffix_lse = trace_random(run, "f32", n.elements / dim);
    run->least_bytes += 2.0 * n.elements * (2 + 4.0 / dim);
}

static int prepare(struct trace_run *run)
{
    const int *s = run->shape;
    struct attn_combine_desc desc = verify_combine_desc(run->pack, run->n);
    const bool pair = desc.partials == ATTN_PARTIALS_PAIR;
    const int dim = desc.head_dim, size = desc.out_dtype == ATTN_FP8 ? 1 : 2;
    desc.heads = s[HEADS];
    const struct sizes n = {
        .rows = (size_t)s[TOKENS] * (pair ? 1 : s[PARTS]) * s[HEADS],
        .elements = (size_t)s[TOKENS] * s[HEADS] * dim,
    };
    const int code = trace_check_elements((double)n.rows * dim);
    if (code != EXIT_GOOD)
        return code;
    struct attn_combine_args *a = run->args;
    *a = (struct attn_combine_args){
        .size = sizeof(*a),
        .total_q = s[TOKENS],
        .out = trace_room(run, n.elements, size),
        .lse = trace_room(run, n.elements / dim, sizeof(float)),
        .out_scale = trace_random(run, "f32", 1),
    };
    run->least_bytes = (double)n.elements * (size + 4.0 / dim);
    if (pair)
        prepare_pair(run, a, n, dim);
    else
        prepare_lists(run, a, n, dim);
    return trace_lookup(run, &desc);
}

const struct trace_family trace_combine = {
    .op = "combine",
    .args_size = sizeof(struct attn_combine_args),
    .dimensions =
        {
            [TOKENS] = {"tokens", 64, 1 << 20, "query tokens"},
            [PARTS] = {"parts", 4, 4096, "parts of each; a pair has two"},
            [HEADS] = {"heads", 8, 1024, "query heads"},
        },
    .prepare = prepare,
};
