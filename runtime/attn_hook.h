/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * For C files that a description names in `logits:`. Such a file defines attn_logits(); attnc
 * compiles it for the target and inlines it into the kernel, once per score. It also compiles for
 * the host, so that a reference can call the same function.
 *
 * It is compiled freestanding: only Clang's builtins (__builtin_exp2f, ...), no library. Signed
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
 * Returns the score that replaces `logit` before the softmax. -__builtin_inff() masks it. Kernels
 * also call it for masked keys, and for queries and keys past the end of the sequence, and ignore
 * the result. It must not read `arg` at a `query` >= q_len or a `key` >= kv_len.
 *
 * logit   scale * q . k, after soft_cap if there is one
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
