/* SPDX-License-Identifier: Apache-2.0
 *
 * ALiBi (Press et al., arXiv 2108.12409): subtracts slope[head] for every step between query and
 * key, in both directions. The launch's hook_arg points to one float32 slope per query head.
 */
#include <attn_hook.h>

float attn_logits(float logit, int query, int key, int head, int q_len, int kv_len,
                  const ATTN_DEVICE void *arg)
{
    const ATTN_DEVICE float *slopes = arg;
    float distance = (float)(query + kv_len - q_len - key);
    return logit - slopes[head] * __builtin_fabsf(distance);
}
