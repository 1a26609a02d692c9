/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Common parts of the memory instructions: the description of an access, translation of lane
 * addresses to host bytes with all checks, and moves between registers and memory.
 *
 * An access has three steps. mem_resolve() translates the lanes' addresses to host pointers and
 * reports bytes that are out of bounds, freed, read-only or misaligned. mem_load(), mem_store() or
 * mem_atomic() then moves the data together with its validity. wave_issue() counts it.
 */
#ifndef HIPSIM_MEM_H
#define HIPSIM_MEM_H

#include "access.h"
#include "memory.h"

/* Position of a sub-dword access in its register. */
enum mem_part {
    PART_ALL,  /* loads extend to 32 bits, stores use the low bits */
    PART_LOW,  /* loads write bits 15:0 and keep the rest */
    PART_HIGH, /* loads write bits 31:16; stores read them (bytes: 23:16) */
};

enum atomic_op {
    ATOMIC_NONE,
    ATOMIC_ADD,
    ATOMIC_SUB,
    ATOMIC_RSUB,
    ATOMIC_INC,
    ATOMIC_DEC,
    ATOMIC_SMIN,
    ATOMIC_SMAX,
    ATOMIC_UMIN,
    ATOMIC_UMAX,
    ATOMIC_AND,
    ATOMIC_OR,
    ATOMIC_XOR,
    ATOMIC_MSKOR,
    ATOMIC_SWAP,
    ATOMIC_CMPSWAP,
    ATOMIC_CMPSWAP_F,
    ATOMIC_WRAP,
    ATOMIC_CONDXCHG32,
    ATOMIC_ADD_F,
    ATOMIC_MIN_F,
    ATOMIC_MAX_F,
    ATOMIC_PK_ADD_F16,
    ATOMIC_PK_ADD_BF16,
};

/* op_row.arg of a memory row: bytes per lane, register part, sign extension, atomic operation. */
#define MEM_ARG(bytes, part, sext, atomic) \
    ((uint32_t)(bytes) | (uint32_t)(part) << 8 | (uint32_t)(sext) << 10 | (uint32_t)(atomic) << 16)
#define MEM_BYTES(arg) ((arg) & 0xff)
#define MEM_PART(arg) ((enum mem_part)((arg) >> 8 & 3))
#define MEM_SEXT(arg) ((arg) >> 10 & 1)
#define MEM_ATOMIC(arg) ((enum atomic_op)((arg) >> 16 & 0xff))

/**
 * Resolves m->addr of m->lanes for an access of `bytes` per lane and records it for the observer.
 * Lanes that must not access memory (out of bounds with the check off) move from `lanes` to
 * `dropped`. False if a fault was reported and the instruction must stop.
 */
bool mem_resolve(struct wave *w, const struct inst *in, struct lane_mem *m, unsigned bytes,
                 enum mem_direction direction);

/** Returns the lanes with an initialised byte in every dword of bytes [first, first + bytes) of
 *  their access; bytes <= 8.
 *  One byte suffices, since compilers load the last dword of odd arrays and padded structures
 *  whole. */
uint64_t mem_written(struct wave *w, struct lane_mem *m, unsigned first, unsigned bytes);

/** Sets the shadow of bytes [first, first + bytes) of each lane: defined for lanes in `valid`. */
void mem_mark(struct wave *w, struct lane_mem *m, unsigned first, unsigned bytes, uint64_t valid);

/** True if any of the `bytes` bytes at a global address is initialised; bytes <= 32. */
bool mem_holds_data(uint64_t address, unsigned bytes);

/** Returns the initialised bits of lane l's dword at byte `first` of its access. */
uint32_t mem_defined_bits(const struct wave *w, const struct lane_mem *m, unsigned l,
                          unsigned first);

/** Sets the shadow of lane l's dword at byte `first` of its access. A byte counts as initialised if
 *  any of its bits in `bits` is set. */
void mem_mark_bits(struct wave *w, const struct lane_mem *m, unsigned l, unsigned first,
                   uint32_t bits);

/** True if all of `lanes` have a defined value in `o`; otherwise reports an undefined `what`. */
bool mem_defined(struct wave *w, const struct inst *in, const struct opnd *o, uint64_t lanes,
                 const char *what);

/** Reports that `what`, in lanes `bad` of `o`, is undefined. True if the launch goes on. */
bool mem_undefined(struct wave *w, const struct inst *in, const struct opnd *o, uint64_t bad,
                   const char *what);

/** Loads into the registers of `o` as `arg` encodes; dropped lanes read zero. */
void mem_load(struct wave *w, struct lane_mem *m, uint32_t arg, const struct opnd *o);

/** Stores the registers of `o` as `arg` encodes. Reports data for global memory in two cases: all
 *  that a lane stores is undefined and no padding, or an undefined part is not a copy from memory.
 *  Other undefined data are stored as undefined. False after a report. */
bool mem_store(struct wave *w, const struct inst *in, struct lane_mem *m, uint32_t arg,
               const struct opnd *o);

/** Executes the atomic of `arg` with the operands `data` and `data2` (may be NULL). The old values
 *  go to `dst` unless it is NULL. False after a report. */
bool mem_atomic(struct wave *w, const struct inst *in, struct lane_mem *m, uint32_t arg,
                const struct opnd *data, const struct opnd *data2, const struct opnd *dst);

/** Executes an atomic as FLAT and MUBUF encode it: a compare-and-swap has its new value in the
 *  first half of `data` and the comparand in the second. */
bool mem_atomic_split(struct wave *w, const struct inst *in, struct lane_mem *m, uint32_t arg,
                      const struct opnd *data, const struct opnd *dst);

/** Executes one atomic on host memory. It is atomic between host threads, since workgroups run in
 *  parallel. Returns the old value. */
uint64_t mem_modify(void *p, enum atomic_op op, unsigned bytes, uint64_t data, uint64_t data2,
                    uint32_t mode);

/** Returns the value that an atomic leaves in memory. `bytes` is 4 or 8. `mode` is the wave's MODE
 *  register for LDS floating point, MODE_DENORM_F32 to keep denormals. */
uint64_t atomic_result(enum atomic_op op, unsigned bytes, uint64_t old, uint64_t data,
                       uint64_t data2, uint32_t mode);

/** Loads into LDS directly, lane l to M0 + offset + l * size, and counts it as outstanding. `m`
 *  is the whole access, or an array of `parts` > 1 accesses of one dword each. False after a
 *  report. */
bool mem_load_to_lds(struct wave *w, const struct inst *in, struct lane_mem *m, unsigned parts,
                     uint32_t arg);

/**
 * True if M0 disables a load to LDS. Triton sets M0 to 0x7fffffff in waves that must not load. The
 * machine then drops a buffer load, fetches nothing, and counts it as outstanding (triton pull
 * request 9679). Other addresses beyond the end are reported, and so are global loads.
 */
bool mem_lds_is_nowhere(const struct wave *w, const struct inst *in);

#endif
