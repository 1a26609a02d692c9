/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares packs that tests make: prefill kernels whose code is a line of text. */
#ifndef TESTS_RUNTIME_PACKS_H
#define TESTS_RUNTIME_PACKS_H

#include "compiler/pack_writer.h"
#include "runtime/attn.h"

/* The fields of a made kernel; zero and NULL stand for the defaults in brackets. */
struct made {
    const char *name;      /* ["prefill_<target>_d<head_dim>"] */
    const char *target;    /* ["gfx942"] */
    const char *head_dim;  /* ["128"], also head_dim_v */
    const char *gqa;       /* ["any"] */
    const char *mask;      /* ["causal"] */
    const char *lse;       /* ["false"] */
    const char *symbol;    /* ["kernel"] */
    const char *code;      /* [its name] */
    const char *extra_arg; /* one more kernel argument, after the others */
    bool extra_narrow;     /* it has 4 bytes */
    const struct attnc_pack_when *when;
    size_t when_count;
    const struct attn_pack_split *splits;
    size_t split_count;
    uint16_t workgroups_most;
};

enum { MADE_KERNARG_SIZE = 56 };

/* The offsets of the made kernels' arguments: q, k, out, total_q, scale, q_token_stride. */
enum {
    MADE_Q = 0,
    MADE_K = 8,
    MADE_OUT = 16,
    MADE_TOTAL_Q = 24,
    MADE_SCALE = 28,
    MADE_Q_STRIDE = 32,
    MADE_LEFT = 40,
    MADE_RIGHT = 44,
    MADE_EXTRA = 48
};

/* Adds a kernel with grid (ceil(max_seqlen_q / 128) * 2, heads, batch) and 256 work items. */
void add_made(struct attnc_pack_writer *w, const struct made *m);

/* A pack of these; free() it. Fails the test where the writer refuses. */
void *make_pack(const struct made *kernels, size_t count, size_t *size);

/* A pack of `count` kernels that differ in gqa, mask and head_dim. */
void *make_large_pack(size_t count, size_t *size);

/* A call that a kernel of add_made() covers: bf16, head_dim 128, 8 heads over 2, causal. */
struct attn_prefill_desc plain_desc(void);

/* Two sequences, 300 queries in all; the tensors are an array that nobody reads. */
struct attn_prefill_args plain_args(void);

/* Recomputes every checksum, so that what is checked behind them is reached. */
void reseal(void *pack, size_t size);

#endif
