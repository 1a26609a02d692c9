/* SPDX-License-Identifier: Apache-2.0
 *
 * mla_decode as verification and trace see it: a descriptor of decode with one kv head and a cache
 * that has no V, and what that lacks.
 */
#ifndef TOOLS_VERIFY_LATENT_H
#define TOOLS_VERIFY_LATENT_H

#include <stdint.h>

#include "runtime/attn.h"

/** What a descriptor of mla_decode has beyond one of decode. */
struct latent_kind {
    enum attn_sparse sparse;
    enum attn_dtype q_dtype; /* 0: dtype */
};

/** That of the n-th kernel; all zero for an op without it. */
struct latent_kind latent_kind(const struct attn_pack *pack, uint32_t n);

/** A descriptor and arguments of decode as those of mla_decode: K is the cache. */
struct attn_mla_decode_desc latent_desc(const struct attn_decode_desc *d,
                                        const struct latent_kind *kind);
/** q_scale is on the device, for q of fp8. */
struct attn_mla_decode_args latent_args(const struct attn_decode_args *a, const float *q_scale);

#endif
