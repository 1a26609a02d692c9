/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel lookup: finds the records that match a key. */
#ifndef ATTN_LOOKUP_H
#define ATTN_LOOKUP_H

#include "runtime/device.h"
#include "runtime/family.h"

enum { ATTN_MATCHES_MAX = ATTN_PACK_MATCHES_MAX };

/* The kernels of one pack that have the found key. Kernels with conditions come first. */
struct attn_matches {
    uint32_t pack;
    uint32_t count;
    uint32_t numbers[ATTN_MATCHES_MAX];
    const struct attn_pack_record *records[ATTN_MATCHES_MAX];
    uint8_t chosen[ATTN_KEY_FIELDS]; /* per field of the key: the index of the kernels' choice */
};

/* Finds the kernels for a key. ATTN_NO_KERNEL's message says which fields had no match, and names
 * the nearest kernel. */
int attn_find_kernels(const struct attn_device *device, const char *op, const struct attn_key *key,
                      struct attn_matches *matches);

/* Writes "exact", or which fields a more general kernel covers. */
void attn_explain(const struct attn_key *key, const struct attn_matches *matches, char *why,
                  size_t size);

#endif
