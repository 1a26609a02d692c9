/* SPDX-License-Identifier: Apache-2.0 */
/* This file has the formats of cache rows that contain fp8 elements and have scales for runs. */
#include "templates/cache/cache.h"

enum format { PACKED_F32, PACKED_E8M0, SCALES_LAST, PLANES, PACKED_FP4 };

/* bits, fp8, run, scale_size, copies, scales, rotated, in_value, least */
static const struct att_row_format formats[] = {
    [PACKED_F32] = {8, 512, 128, 4, 1, 512, 528, false, 1e-12f},
    [PACKED_E8M0] = {8, 512, 32, 1, 1, 512, 528, false, 1e-12f},
    [SCALES_LAST] = {8, 448, 64, 1, 1, ATT_AFTER_ROWS, 448, true, 1e-4f},
    [PLANES] = {8, 448, 64, 1, 2, 448, ATT_OWN_PLANE, true, 1e-4f},
    [PACKED_FP4] = {4, 512, 16, 1, 1, ATT_FP4_SCALES, 0, true, 0x1p-6f},
};

const struct att_row_format *att_row_format(const struct att_variant *v)
{
    const bool e8m0 = v->kv_scale == ATT_KV_SCALE_E8M0;
    switch (v->kv_layout) {
    case ATT_KV_LAYOUT_PACKED: return &formats[e8m0 ? PACKED_E8M0 : PACKED_F32];
    case ATT_KV_LAYOUT_SCALES_LAST: return &formats[SCALES_LAST];
    case ATT_KV_LAYOUT_PLANES: return &formats[PLANES];
    case ATT_KV_LAYOUT_PACKED_FP4: return &formats[PACKED_FP4];
    default: return NULL;
    }
}

bool att_is_packed(const struct att_variant *v) { return att_row_format(v); }

bool att_is_mixed(const struct att_variant *v)
{
    return v->kv_layout == ATT_KV_LAYOUT_SCALES_LAST || v->kv_layout == ATT_KV_LAYOUT_PLANES;
}
