/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels, a layer and a call of decode that the tests of libattn share.
 */
#ifndef TESTS_RUNTIME_DECODE_CALLS_H
#define TESTS_RUNTIME_DECODE_CALLS_H

#include "tests/runtime/fixture.h"

/** Fields of a decode kernel's description; each has a default. */
struct decode_kernel {
    const char *name;
    const char *gqa;        /* NULL: "any" */
    const char *page_size;  /* NULL: "any" */
    const char *q_len;      /* NULL: "1" */
    const char *mask;       /* NULL: "causal" */
    const char *kv_dtype;   /* NULL: "same" */
    const char *kv_scale;   /* NULL: "none" */
    const char *kv_layout;  /* NULL: "nhd" */
    const char *q_dtype;    /* NULL: "same" */
    const char *q_scale;    /* NULL: "tensor" */
    const char *page_table; /* NULL: "blocks" */
    const char *one_launch; /* NULL: "false" */
};

/** Byte offsets of the arguments in these kernels' kernarg segment. */
enum {
    AT_K = 0,
    AT_K_PAGE = 8,
    AT_K_TOKEN = 16,
    AT_K_HEAD = 24,
    AT_V_PAGE = 32,
    AT_SCALE_PAGE = 40,
    AT_SCALE_HEAD = 48,
    AT_TABLE_STRIDE = 56,
    AT_PAGE_SIZE = 64,
    AT_PAGE_SHIFT = 68,
    AT_Q_LEN = 72,
    AT_RIGHT = 76,
    AT_SIZE = 80
};

/** Opens a device with a pack of these kernels. `flags` is attn_device_options.flags. */
struct bench decode_open(const struct decode_kernel *kernels, size_t count, uint32_t flags);

/** Returns a layer's descriptor: bf16, head_dim 128, 8 heads over 2, pages of 16. */
struct attn_decode_desc decode_desc(void);

/** Returns a call with three sequences, of 3, 0 and 1 pages of a cache of 10. */
struct attn_decode_args decode_args(void);

/** The tensors of decode_args(): memory of q, out and the cache; the number of keys of each
 * sequence; the page tables. */
extern uint16_t decode_tensor[8];
extern const int32_t decode_lens[3], decode_table[3][4];

#endif
