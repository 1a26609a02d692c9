/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * This file is for C files that a description names in `logits:`. Such a file defines
 * attn_logits(); attnc compiles it for the target and inlines it into the kernel, once per score.
 * It compiles for the host as well, so that a reference can call the very same function.
 *
 * It is compiled freestanding: no library, but Clang's builtins (__builtin_exp2f, ...). Signed
 * integers wrap.
 */
#ifndef ATTN_HOOK_H
#define ATTN_HOOK_H

#ifdef __AMDGCN__
#    define ATTN_DEVICE __attribute__((address_space(1)))
#else
#    define ATTN_DEVICE
#endif

/**
 * Returns the score that takes the place of `logit` before the softmax. -__builtin_inff() masks it.
 * Kernels call it for keys that the mask hides too, and for queries and keys behind the last ones
 * of the sequence; their result does not count. What it reads from `arg` by `query` or `key` it
 * reads for query < q_len and key < kv_len alone.
 *
 * logit   scale * q . k, after soft_cap where there is one
 * query   row among the sequence's queries, from 0
 * key     row among the sequence's keys, from 0; the query's own key is query + kv_len - q_len
 * head    query head, from 0
 * q_len   queries of the sequence
 * kv_len  keys of the sequence
 * arg     the launch's hook_arg: device memory of the caller, read only, or null
 */
float attn_logits(float logit, int query, int key, int head, int q_len, int kv_len,
                  const ATTN_DEVICE void *arg);

#endif
