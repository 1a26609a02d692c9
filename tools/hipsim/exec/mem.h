/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Common parts of the memory instructions: the description of an access, checks and translation of
 * lane addresses to host pointers, and moves between registers and memory.
 *
 * An access has three steps. mem_resolve() translates the lanes' addresses to host pointers and
 * reports bytes that are out of bounds, freed, read-only or misaligned. mem_load(), mem_store() or
 * mem_atomic() moves the data, together with which of them are defined. wave_issue() counts the
 * instruction as in flight.
 */
#ifndef HIPSIM_MEM_H
#define HIPSIM_MEM_H

#include "access.h"
#include "memory.h"

/* The bits of a register that an access of less than a dword moves. */
enum mem_part {
    PART_ALL, /* loads extend to 32 bits; stores use the low bits */
    PART_LOW, /* loads write bits 15:0 (mem_kept_bits: the others) */
    /* loads write bits 31:16 (mem_kept_bits: the others); stores use 31:16 (bytes: 23:16) */
    PART_HIGH,
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
    ATOMIC_MIN_NUM_F,
    ATOMIC_MAX_NUM_F,
    ATOMIC_PK_ADD_F16,
    ATOMIC_PK_ADD_BF16,
    ATOMIC_COND_SUB,
    ATOMIC_SUB_CLAMP,
    ATOMIC_ARRIVE, /* arrival at an LDS barrier */
};

/* op_row.arg of a memory instruction: bytes per lane, enum mem_part, whether loads extend the sign,
 * enum atomic_op. */
#define MEM_ARG(bytes, part, sext, atomic) \
    ((uint32_t)(bytes) | (uint32_t)(part) << 8 | (uint32_t)(sext) << 10 | (uint32_t)(atomic) << 16)
#define MEM_BYTES(arg) ((arg) & 0xff)
#define MEM_PART(arg) ((enum mem_part)((arg) >> 8 & 3))
#define MEM_SEXT(arg) ((arg) >> 10 & 1)
#define MEM_ATOMIC(arg) ((enum atomic_op)((arg) >> 16 & 0xff))

/**
 * Sets the host pointers of m->lanes for an access of `bytes` bytes per lane at m->addr, and
 * records it for the observer. Lanes outside of memory move from m->lanes to m->dropped if the
 * launch goes on. False after a report if the instruction must stop.
 */
bool mem_resolve(struct wave *w, const struct inst *in, struct lane_mem *m, unsigned bytes,
                 enum mem_direction direction);

/** Returns the lanes of m->lanes in whose bytes [first, first + bytes) every dword has an
 * initialised byte; `bytes` is at most 8. One byte suffices, since compilers load the last dword of
 * odd arrays and padded structures whole. */
uint64_t mem_written(struct wave *w, struct lane_mem *m, unsigned first, unsigned bytes);

/** Records bytes [first, first + bytes) of each lane's access as defined in the lanes `valid`, and
 * as undefined in the others. */
void mem_mark(struct wave *w, struct lane_mem *m, unsigned first, unsigned bytes, uint64_t valid);

/** True if any of the `bytes` bytes at a global address is initialised; `bytes` is at most 32. */
bool mem_holds_data(uint64_t address, unsigned bytes);

/** Returns a mask of the initialised bits of the dword at byte `first` of lane l's access. */
uint32_t mem_defined_bits(const struct wave *w, const struct lane_mem *m, unsigned l,
                          unsigned first);

/** Records the dword at byte `first` of lane l's access: a byte is initialised if any of its bits
 * in `bits` is set. */
void mem_mark_bits(struct wave *w, const struct lane_mem *m, unsigned l, unsigned first,
                   uint32_t bits);

/** True if `o` is defined in all of `lanes`, a mask. Otherwise reports an undefined value in
 * `what`, words for the message; true if the launch goes on. */
bool mem_defined(struct wave *w, const struct inst *in, const struct opnd *o, uint64_t lanes,
                 const char *what);

/** Sets m->addr to the LDS addresses of m->lanes: the VGPR `o` plus `offset`, modulo 2^32. False
 * after a report that an address is undefined. */
bool mem_lds_addresses(struct wave *w, const struct inst *in, const struct opnd *o, uint32_t offset,
                       struct lane_mem *m);

/** Reports an undefined value in `what`, words for the message. `bad` is the mask of lanes of `o`
 * that have it. True if the launch goes on. */
bool mem_undefined(struct wave *w, const struct inst *in, const struct opnd *o, uint64_t bad,
                   const char *what);

/** Returns the mask of the register bits that a load of `part` keeps: the half that it does not
 * load. 0 if the target's loads write whole registers. */
uint32_t mem_kept_bits(const struct wave *w, enum mem_part part);

/** Records which bits of register `i` of `o` are defined after a load of a part of it, in the mask
 * `lanes`. The load wrote the bits in `loaded` from memory, which is defined in the lanes `valid`.
 * It kept the bits in `kept` and wrote zeros to the others. */
void mem_note_part(struct wave *w, const struct opnd *o, unsigned i, uint64_t lanes, uint64_t valid,
                   uint32_t loaded, uint32_t kept);

/** Loads the access of `m` to the registers of `o`. `arg` is a MEM_ARG(). Dropped lanes read
 * zero. */
void mem_load(struct wave *w, struct lane_mem *m, uint32_t arg, const struct opnd *o);

/** Stores the registers of `o` to the access of `m`; `arg` is a MEM_ARG(). For global memory,
 * reports two kinds of undefined data: a lane's data are all undefined and no padding, or an
 * undefined part is not a copy from memory. Other undefined data are stored as undefined. False
 * after a report. */
bool mem_store(struct wave *w, const struct inst *in, struct lane_mem *m, uint32_t arg,
               const struct opnd *o);

/** True if the atomic finds initialised memory in all lanes of `m`, `bytes` bytes each. Otherwise
 * reports the other lanes; true if the launch goes on. */
bool mem_atomic_finds(struct wave *w, const struct inst *in, struct lane_mem *m, unsigned bytes);

/** Executes the atomic of `arg`, a MEM_ARG(), with the operands `data` and `data2` (may be NULL).
 * Writes the old values to `dst` unless it is NULL. False after a report. */
bool mem_atomic(struct wave *w, const struct inst *in, struct lane_mem *m, uint32_t arg,
                const struct opnd *data, const struct opnd *data2, const struct opnd *dst);

/** Executes an atomic in the encoding of FLAT and MUBUF: the first half of `data` is the new value
 * of a compare-and-swap, the second half the comparand. False after a report. */
bool mem_atomic_split(struct wave *w, const struct inst *in, struct lane_mem *m, uint32_t arg,
                      const struct opnd *data, const struct opnd *dst);

/** Executes an atomic on `bytes` bytes of host memory at `p`, as other host threads may do at the
 * same time. Other parameters as in atomic_result(). Returns the old value. */
uint64_t mem_modify(void *p, enum atomic_op op, unsigned bytes, uint64_t data, uint64_t data2,
                    uint32_t mode);

/** Returns the value that an atomic leaves in memory. `old`, `data` and `data2` have `bytes` bytes,
 * 4 or 8. `mode` says which float denormals are kept, as the MODE register does. */
uint64_t atomic_result(enum atomic_op op, unsigned bytes, uint64_t old, uint64_t data,
                       uint64_t data2, uint32_t mode);

/** Loads to LDS: lane l's `size` bytes go to M0 + offset + l * size. Counts the instruction as in
 * flight. `m` is one access, or an array of `parts` accesses of a dword each. `arg` is a MEM_ARG().
 * False after a report. */
bool mem_load_to_lds(struct wave *w, const struct inst *in, struct lane_mem *m, unsigned parts,
                     uint32_t arg);

/**
 * True if M0 disables a load to LDS. Triton sets M0 to 0x7fffffff in waves that must not load. The
 * machine then drops a buffer load, loads nothing, and counts it as in flight (triton pull request
 * 9679). Other LDS addresses beyond the end are reported, and so are global loads.
 */
bool mem_lds_is_nowhere(const struct wave *w, const struct inst *in);

#endif
