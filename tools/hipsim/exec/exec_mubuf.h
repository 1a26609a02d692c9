/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares buffer resources, range checks and addresses, for plain and format
 * accesses. */
#ifndef HIPSIM_EXEC_MUBUF_H
#define HIPSIM_EXEC_MUBUF_H

#include "mem.h"

#define SRC_ADDR 0
#define SRC_DATA 1
#define SRC_RSRC 2
#define SRC_SOFFSET 3

struct buffer_resource {
    uint64_t base;
    uint32_t stride;
    uint64_t num_records;
    uint32_t soffset;
    uint16_t select; /* format accesses: source of each component, three bits each */
    uint8_t num_format, data_format;
    uint8_t index_stride; /* swizzled: number of indices, 8 to 64 */
    bool add_tid, swizzled;
    bool within_stride; /* GFX12: the offset must be less than the stride, too */
    bool by_index;      /* gfx1201: num_records counts indices, also without idxen */
    bool unlimited;     /* gfx1201: num_records is no limit unless it is 0 */
};

/* The numbers that num_records limits: byte offsets, indices, none, or linear offsets (gfx1250). */
enum buffer_range { RANGE_BYTES, RANGE_RECORDS, RANGE_PRIVATE, RANGE_LINEAR };

struct buffer_access {
    struct buffer_resource resource;
    uint64_t lanes;
    uint64_t offset[WAVE_LANES]; /* vgpr_offset + inst_offset, modulo 2^32 */
    uint64_t index[WAVE_LANES];
    uint64_t linear[WAVE_LANES]; /* stride * index + offset */
    enum buffer_range range;
};

/** Reads the resource and the lanes' offsets; `formatted` selects the interpretation for format
 *  accesses. False after a report. */
bool buffer_begin(struct wave *w, const struct inst *in, bool formatted, struct buffer_access *b);

/** Returns the lanes of `lanes` with bytes [first, first + bytes) in range of the resource. */
uint64_t buffer_in_range(const struct buffer_access *b, uint64_t lanes, unsigned first,
                         unsigned bytes);

/** Resolves bytes [first, first + bytes) of the access for m->lanes. The observer gets one access,
 *  at the addresses of the first part. False after a report. */
bool buffer_part(struct wave *w, const struct inst *in, const struct buffer_access *b,
                 unsigned first, unsigned bytes, struct lane_mem *m);

/** Counts the instruction as an outstanding memory operation. */
void buffer_issue(struct wave *w, const struct inst *in);

#endif
