/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by plain and format accesses: buffer resources, range checks, addresses. */
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
    uint32_t num_records;
    uint32_t soffset;
    uint16_t select; /* three bits per component of a format load */
    uint8_t num_format, data_format;
    uint8_t index_stride;
    bool add_tid, swizzled;
};

struct buffer_access {
    struct buffer_resource resource;
    uint64_t lanes;
    uint64_t offset[WAVE_LANES]; /* vgpr_offset + inst_offset, 32 bits */
    uint64_t index[WAVE_LANES];
    uint64_t linear[WAVE_LANES]; /* stride * index + offset */
    enum { RANGE_BYTES, RANGE_RECORDS, RANGE_PRIVATE } range;
};

/** Reads the resource and the lanes' offsets; `formatted` accesses read it as theirs. False after
 *  a report. */
bool buffer_begin(struct wave *w, const struct inst *in, bool formatted, struct buffer_access *b);

/** Lanes of `lanes` whose bytes [first, first + bytes) are in range of the resource. */
uint64_t buffer_in_range(const struct buffer_access *b, uint64_t lanes, unsigned first,
                         unsigned bytes);

/** Resolves bytes [first, first + bytes) of the access for m->lanes. The observer sees one access,
 *  at the addresses of the first part. False after a report. */
bool buffer_part(struct wave *w, const struct inst *in, const struct buffer_access *b,
                 unsigned first, unsigned bytes, struct lane_mem *m);

/** Counts the instruction as outstanding. */
void buffer_issue(struct wave *w, const struct inst *in);

#endif
