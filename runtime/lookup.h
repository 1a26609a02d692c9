/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares the search for a kernel: a key in, the records that fit it out. */
#ifndef ATTN_LOOKUP_H
#define ATTN_LOOKUP_H

#include "runtime/device.h"
#include "runtime/family.h"

enum { ATTN_MATCHES_MAX = ATTN_PACK_MATCHES_MAX };

/* The kernels of one pack that share the key that was found: those with conditions first. */
struct attn_matches {
    uint32_t pack;
    uint32_t count;
    uint32_t numbers[ATTN_MATCHES_MAX];
    const struct attn_pack_record *records[ATTN_MATCHES_MAX];
    uint8_t chosen[ATTN_KEY_FIELDS]; /* per field of the key: which choice the kernels have */
};

/* ATTN_NO_KERNEL says which fields had no match, and what the nearest kernel is. */
int attn_find_kernels(const struct attn_device *device, const char *op, const struct attn_key *key,
                      struct attn_matches *matches);

/* "exact", or which fields are covered by a more general kernel. */
void attn_explain(const struct attn_key *key, const struct attn_matches *matches, char *why,
                  size_t size);

#endif
