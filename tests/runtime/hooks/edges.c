/* SPDX-License-Identifier: Apache-2.0
 *
 * Half of each score, and no number for queries and keys that there are not.
 */
#include <attn_hook.h>

float attn_logits(float logit, int query, int key, int head, int q_len, int kv_len,
                  const ATTN_DEVICE void *arg)
{
    (void)head, (void)arg;
    return query < q_len && key < kv_len ? logit / 2 : __builtin_nanf("");
}
