/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * The header of a hook: a C file that a description names in `logits:` and that changes logits.
 * Such a file defines attn_logits(). attnc compiles it for the GPU and inlines it in the
 * kernel, which calls it for every score. attnc also compiles it for the host, so that a reference
 * can call the same function.
 *
 * A hook is compiled freestanding: it may use Clang's builtins (__builtin_exp2f, ...) but no
 * library. Signed integers wrap.
 */
#ifndef ATTN_HOOK_H
#define ATTN_HOOK_H

/* Marks memory of the GPU; nothing on the host. */
#ifdef __AMDGCN__
#    define ATTN_DEVICE __attribute__((address_space(1)))
#else
#    define ATTN_DEVICE
#endif

/**
 * Returns the score that replaces `logit` before the softmax; -__builtin_inff() masks the key.
 * Kernels also call it for masked keys, and for queries and keys past the end of the sequence. They
 * ignore these results. The function must not read `arg` for a `query` >= q_len or a `key` >=
 * kv_len.
 *
 * logit   scale * q . k, after soft_cap if there is one
 * query   row among the sequence's queries, from 0
 * key     row among the sequence's keys, from 0; the query's own key is query + kv_len - q_len
 * head    query head, from 0
 * q_len   number of queries of the sequence
 * kv_len  number of keys of the sequence
 * arg     the launch's hook_arg: device memory of the caller, read only, or null
 */
float attn_logits(float logit, int query, int key, int head, int q_len, int kv_len,
                  const ATTN_DEVICE void *arg);

#endif
