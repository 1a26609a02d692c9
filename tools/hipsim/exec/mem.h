/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the executors of memory instructions: the description of an access, the translation of
 * lane addresses to host bytes with all checks, and the moves between registers and memory.
 *
 * An access has three steps. mem_resolve() turns the lanes' addresses into host pointers and
 * reports what is out of bounds, freed, read-only or misaligned; mem_load(), mem_store() or
 * mem_atomic() then moves the data together with its validity; wave_issue() counts it.
 */
#ifndef HIPSIM_MEM_H
#define HIPSIM_MEM_H

#include "access.h"
#include "memory.h"

/* The place of a sub-dword access in its register. */
enum mem_part {
    PART_ALL,  /* loads extend to 32 bits, stores take the low bits */
    PART_LOW,  /* loads write bits 15:0 and keep the rest */
    PART_HIGH, /* loads write bits 31:16; stores take them (bytes: 23:16) */
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
 * Resolves m->addr of m->lanes for an access of `bytes` per lane and notes it for the observer.
 * Lanes that may not access (out of bounds with the check off) move from `lanes` to `dropped`.
 * False: a fault was reported and the instruction must not go on.
 */
bool mem_resolve(struct wave *w, const struct inst *in, struct lane_mem *m, unsigned bytes,
                 enum mem_direction direction);

/** Lanes with an initialised byte in every dword of [first, first + bytes); bytes <= 8. One is
 *  enough: compilers load the last dword of odd arrays and padded structures whole. */
uint64_t mem_written(struct wave *w, struct lane_mem *m, unsigned first, unsigned bytes);

/** Sets the shadow of bytes [first, first + bytes) of each lane: defined for lanes in `valid`. */
void mem_mark(struct wave *w, struct lane_mem *m, unsigned first, unsigned bytes, uint64_t valid);

/** Is any of these bytes of global memory (at most 32) initialised? */
bool mem_holds_data(uint64_t address, unsigned bytes);

/** The initialised bits of lane l's dword at byte `first` of its access. */
uint32_t mem_defined_bits(const struct wave *w, const struct lane_mem *m, unsigned l,
                          unsigned first);

/** Sets the shadow of that dword, byte by byte: a byte with a defined bit counts as defined. */
void mem_mark_bits(struct wave *w, const struct lane_mem *m, unsigned l, unsigned first,
                   uint32_t bits);

/** True if all of `lanes` have a defined value in `o`; else reports an undefined `what`. */
bool mem_defined(struct wave *w, const struct inst *in, const struct opnd *o, uint64_t lanes,
                 const char *what);

/** Reports that `what`, in lanes `bad` of `o`, is undefined. True if the launch goes on. */
bool mem_undefined(struct wave *w, const struct inst *in, const struct opnd *o, uint64_t bad,
                   const char *what);

/** Loads by `arg` into the registers of `o`; dropped lanes read zero. */
void mem_load(struct wave *w, struct lane_mem *m, uint32_t arg, const struct opnd *o);

/** Stores by `arg` from the registers of `o`. Data that goes to global memory is reported when all
 *  that a lane stores is undefined and no padding, or an undefined part of it is no copy from
 *  memory; otherwise it is carried along as undefined. False after a report. */
bool mem_store(struct wave *w, const struct inst *in, struct lane_mem *m, uint32_t arg,
               const struct opnd *o);

/** The atomic of `arg` with the operands `data` and `data2` (may be NULL); the old values go to
 *  `dst` unless it is NULL. False after a report. */
bool mem_atomic(struct wave *w, const struct inst *in, struct lane_mem *m, uint32_t arg,
                const struct opnd *data, const struct opnd *data2, const struct opnd *dst);

/** mem_atomic() as FLAT and MUBUF encode it: a compare-and-swap finds its new value in the first
 *  half of `data` and the comparand in the second. */
bool mem_atomic_split(struct wave *w, const struct inst *in, struct lane_mem *m, uint32_t arg,
                      const struct opnd *data, const struct opnd *dst);

/** One atomic on host memory, atomic between host threads because workgroups run at the same
 *  time. Returns the old value. */
uint64_t mem_modify(void *p, enum atomic_op op, unsigned bytes, uint64_t data, uint64_t data2,
                    uint32_t mode);

/** The value that an atomic leaves in memory. `bytes` is 4 or 8. `mode` is the wave's MODE register
 *  where LDS floating point obeys it, MODE_DENORM_F32 to keep denormals. */
uint64_t atomic_result(enum atomic_op op, unsigned bytes, uint64_t old, uint64_t data,
                       uint64_t data2, uint32_t mode);

/** Loads straight into LDS, lane l to M0 + offset + l * size, and counts it as outstanding. `m` is
 *  the whole access, or `parts` > 1 of one dword each. False after a report. */
bool mem_load_to_lds(struct wave *w, const struct inst *in, struct lane_mem *m, unsigned parts,
                     uint32_t arg);

/**
 * Does M0 send a load to no place of LDS? Triton gives waves that shall not load 0x7fffffff: the
 * machine then drops a buffer load, fetches nothing either, and counts it as outstanding (triton
 * pull request 9679). Other addresses beyond the end are reported, and so are global loads.
 */
bool mem_lds_is_nowhere(const struct wave *w, const struct inst *in);

#endif
