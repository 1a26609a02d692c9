/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel lookup: finds the kernels in packs that match a dispatch key. */
#ifndef ATTN_LOOKUP_H
#define ATTN_LOOKUP_H

#include "runtime/device.h"
#include "runtime/family.h"

enum { ATTN_MATCHES_MAX = ATTN_PACK_MATCHES_MAX }; /* most kernels of a key */

/* The kernels of one pack that a search has found, all with the same dispatch key. Kernels with
 * conditions on calls come first. */
struct attn_matches {
    uint32_t pack;                      /* index of the pack in attn_device.packs */
    uint32_t count;                     /* number of kernels */
    uint32_t numbers[ATTN_MATCHES_MAX]; /* numbers of the kernels in the pack */
    const struct attn_pack_record *records[ATTN_MATCHES_MAX];
    /* for each field of the key, index of the choice that the kernels have */
    uint8_t chosen[ATTN_KEY_FIELDS];
};

/* Finds the kernels of op `op` for a key. Returns ATTN_OK or an error. The message of
 * ATTN_NO_KERNEL names the nearest kernel and the fields in which it differs. */
int attn_find_kernels(const struct attn_device *device, const char *op, const struct attn_key *key,
                      struct attn_matches *matches);

/* Writes to `why`, `size` bytes, "exact", or the fields in which the kernels are more general than
 * the key's first choices. */
void attn_explain(const struct attn_key *key, const struct attn_matches *matches, char *why,
                  size_t size);

#endif
