/* SPDX-License-Identifier: Apache-2.0 */
/* Buffer resources, their range checks and addresses, for plain and format accesses. */
#ifndef HIPSIM_EXEC_MUBUF_H
#define HIPSIM_EXEC_MUBUF_H

#include "mem.h"

#define SRC_ADDR 0
#define SRC_DATA 1
#define SRC_RSRC 2
#define SRC_SOFFSET 3

/* The fields of a buffer resource, with the soffset operand of the instruction. */
struct buffer_resource {
    uint64_t base;
    uint32_t stride;
    uint64_t num_records;
    uint32_t soffset;
    uint16_t select; /* source of each component, three bits each; for format accesses */
    uint8_t num_format, data_format;
    uint8_t index_stride; /* indices that are interleaved in a swizzled buffer, 8 to 64 */
    bool add_tid, swizzled;
    bool within_stride; /* GFX12: the offset must also be less than the stride */
    bool by_index;      /* gfx1201: num_records counts indices, with and without idxen */
    bool unlimited;     /* gfx1201: num_records is no limit unless it is 0 */
};

/* The number that num_records limits: byte offset, index, none, or byte offset that includes stride
 * * index (gfx1250). */
enum buffer_range { RANGE_BYTES, RANGE_RECORDS, RANGE_PRIVATE, RANGE_LINEAR };

struct buffer_access {
    struct buffer_resource resource;
    uint64_t lanes;
    /* byte offset in a record: vgpr_offset + inst_offset, modulo 2^32 */
    uint64_t offset[WAVE_LANES];
    uint64_t index[WAVE_LANES];
    uint64_t linear[WAVE_LANES]; /* byte offset in the buffer: stride * index + offset */
    enum buffer_range range;
};

/** Reads the resource and the lanes' offsets to *b. `formatted`: the resource's bits have their
 * meaning for format accesses. False after a report. */
bool buffer_begin(struct wave *w, const struct inst *in, bool formatted, struct buffer_access *b);

/** Returns the lanes of the mask `lanes` whose bytes [first, first + bytes) of the access are in
 * range of the resource. */
uint64_t buffer_in_range(const struct buffer_access *b, uint64_t lanes, unsigned first,
                         unsigned bytes);

/** Resolves bytes [first, first + bytes) of the access for the lanes in m->lanes. After the call
 * for the last part, the observer has one access of all bytes, at the addresses of the first part.
 * False after a report. */
bool buffer_part(struct wave *w, const struct inst *in, const struct buffer_access *b,
                 unsigned first, unsigned bytes, struct lane_mem *m);

/** Counts the instruction as a memory operation in flight. */
void buffer_issue(struct wave *w, const struct inst *in);

#endif
