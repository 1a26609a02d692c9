/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a running kernel: dispatch, workgroup, wave.
 *
 * Ownership: the caller owns `struct launch` and everything that it points to during engine_run();
 * the engine owns workgroups and waves. One host thread at a time accesses a wave and its
 * workgroup.
 *
 * Defined values: each register has a mask of the lanes (VGPR, AGPR) or bits (SGPR) that have a
 * defined value. As in memcheck, a program may move undefined values and compute with them; the
 * masks are computed along with the data. A store, an address or a branch that uses an undefined
 * value is an error. The result of an operation is defined in the lanes in which all sources are. A
 * write of half a register makes the lane as defined as the written half; bits.h records single
 * bits. A store of several dwords may include undefined ones that were only moved since they were
 * loaded: compilers copy padding like that.
 */
#ifndef HIPSIM_WAVE_H
#define HIPSIM_WAVE_H

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "inst.h"

/* Lanes of a register row. Waves of 32 lanes use its lower half. */
#define WAVE_LANES 64
#define VGPR_FILE 1024 /* most VGPRs that a wave of any target has */
#define AGPR_FILE 256
#define NAMED_BARRIERS 16 /* most named barriers of a workgroup (CDNA5 ISA, 5.6.2) */
#define WAVE_TRAIL 256    /* last instructions in which reports search a register's writer */

/* Addresses of the apertures for LDS and private memory in the flat address space, above all host
 * addresses. */
#define SHARED_APERTURE UINT64_C(0x0001000000000000)
#define PRIVATE_APERTURE UINT64_C(0x0002000000000000)
#define APERTURE_BYTES UINT64_C(0x100000000)

/* The targets: a bit for each row of targets/targets.def. */
enum gfx_target {
#include "gfx_targets.inc"
};

/* Bits of the MODE register, in the layout of hwreg(HW_REG_MODE). */
enum mode_bits {
    MODE_ROUND_F32 = 0x3, /* 0: nearest even, 1: up, 2: down, 3: toward zero */
    MODE_ROUND_F16_F64 = 0xc,
    MODE_DENORM_F32 = 0x30, /* bit 4 keeps input denormals, bit 5 keeps output denormals */
    MODE_DENORM_F16_F64 = 0xc0,
    MODE_DX10_CLAMP = 1 << 8,
    MODE_IEEE = 1 << 9,
    MODE_FP16_OVFL = 1 << 23,
    MODE_GPR_IDX_EN = 1 << 27, /* M0[7:0] is the index, M0[15:12] selects the operands */
    MODE_VSKIP = 1 << 28,      /* vector instructions are skipped */
};

#define MODE_CSP_SHIFT 29 /* first of three bits with the stack depth of s_cbranch_g_fork */

enum wave_state {
    WAVE_RUNNING,
    WAVE_AT_BARRIER,
    WAVE_AT_GRID_BARRIER,  /* waits at a barrier of the grid or of the wave's cluster */
    WAVE_AT_NAMED_BARRIER, /* gfx1250 only */
    WAVE_HALTED,
    WAVE_ENDED,
    WAVE_FAULTED
};

/* Counters of operations in flight. GFX12 splits the first two: WAIT_VM is LOADcnt there, and
 * WAIT_LGKM DScnt. */
enum wait_counter {
    WAIT_VM,
    WAIT_LGKM,
    WAIT_EXP,
    WAIT_STORE,
    WAIT_KM,
    WAIT_ASYNC,
    WAIT_TENSOR,
    WAIT_COUNTERS
};

/* A memory operation in flight and the registers that it writes. */
struct pending {
    uint8_t kind; /* enum opnd_kind of the destination; OPND_NONE: a store */
    /* true: the operation may return out of order, as scalar memory does, so only a count of 0
     * waits for it */
    uint8_t unordered;
    uint8_t slot;  /* index of the operation's entry in wave->kept (wait.h); NO_SLOT: none */
    bool held;     /* true: the operation has executed, but registers have their old values */
    bool sets_scc; /* true: SCC can be read when the operation has returned */
    bool arrives;  /* true: it ends with an arrival at an LDS barrier that no wave has seen yet */
    uint8_t phase; /* the barrier's phase before the arrival */
    uint16_t first, count;
    uint32_t number;               /* value of wave->issued before the operation */
    uint32_t lds_first, lds_bytes; /* loads to LDS: first byte and number of bytes */
    uint32_t barrier;              /* byte address of the barrier in LDS */
    uint64_t lanes;                /* value of EXEC at issue */
    uint64_t arrival;              /* clock of the wave at which the data arrive */
    const struct inst *in;
};

#define PENDING_MAX 64

/* The memory access of an instruction. Instruction handlers set it while there is an observer. */
struct mem_access {
    enum { ACCESS_NONE, ACCESS_GLOBAL, ACCESS_LDS, ACCESS_SCRATCH, ACCESS_SCALAR } space;
    bool is_store; /* true: a store; atomics are a load too */
    bool is_load;
    uint8_t bytes;  /* bytes per lane */
    uint64_t lanes; /* mask of the lanes that access memory */
    /* address by lane; for LDS a byte offset; scalar accesses use lane 0 */
    uint64_t addr[WAVE_LANES];
};

/* Cache lines of global memory that a copy of gfx1250's tensor data mover accesses, in the copy's
 * order. A launch has one record, and therefore one host thread. Whoever reads the lines sets `n`
 * to 0. */
struct tensor_lines {
    uint64_t *line;   /* addresses divided by 128 */
    uint32_t n, room; /* number of lines; number of allocated entries */
    /* workgroups of the cluster that request the same lines, a bit each; 0: no multicast */
    uint32_t mask;
    bool early;  /* true: the request has the early timeout */
    bool failed; /* true: memory was short, so lines are missing */
};

struct wave {
    /* Registers as rows of 64 lanes. An operand of 64 bits is two rows, the low one first. */
    uint32_t (*v)[WAVE_LANES];
    uint32_t (*a)[WAVE_LANES];
    alignas(64) uint32_t sgpr[SGPR_FILE];
    /* mask of the defined bits of each register; in a lane mask each bit is a lane */
    uint32_t s_valid[SGPR_FILE];
    uint64_t s_copied[SGPR_FILE]; /* all ones or 0, with the meaning of v_copied */
    /* defined bits of partial lanes: rows of VGPRs, then of AGPRs; NULL: no lane is partial */
    uint32_t (*bits)[WAVE_LANES];
    bool copies; /* true: there are copied or partial lanes */
    uint8_t scc;
    uint8_t scc_valid;
    uint8_t state; /* enum wave_state */
    uint8_t priority;
    uint32_t mode; /* enum mode_bits */
    uint32_t trapsts;
    uint64_t pc; /* address of the next instruction */
    /* clocks of the wave's instructions and waits so far; orders the waves of a workgroup and
     * decides when data arrive */
    uint64_t clock;
    uint64_t matrix_free; /* value of `clock` at which the last matrix instruction ends */
    uint64_t tick;        /* modelled clock of the last issue, if launch->timed */
    uint64_t executed;    /* number of executed instructions */
    /* code offsets in dwords of the last instructions; instruction number n is at n % WAVE_TRAIL */
    uint32_t trail[WAVE_TRAIL];
    uint32_t id; /* index of the wave in its workgroup */
    /* value of EXEC at launch: the lanes that exist in a partial wave */
    uint64_t lanes;
    uint64_t all; /* mask of the lanes of a whole wave */
    /* gfx1250, S_SET_VGPR_MSB: bits 9:8 of the VGPR numbers of src0, src1, src2 and the
     * destination, two bits each from bit 0 on. */
    uint8_t vgpr_msb;
    /* true: the wave has signalled the workgroup's barrier and has not waited since; GFX12 only */
    bool signalled;
    uint64_t signalled_at; /* number of the barrier's openings at that signal */
    /* number of openings of the cluster's barrier for which the wave has waited; gfx1250 only */
    uint64_t cluster_seen;
    /* number of openings of barrier `named` for which the wave has waited; gfx1250 only */
    uint64_t named_seen;
    /* number of the named barrier that the wave has joined; 0: none; gfx1250 only */
    uint8_t named;

    /* The barrier at which the wave waits in state WAVE_AT_GRID_BARRIER, and its number of openings
     * when the wave arrived. */
    const struct grid_barrier *grid_barrier;
    uint64_t grid_opened;

    bool acted;               /* true: the wave has stored to global memory or LDS */
    bool went_round;          /* true: the wave has taken an s_cbranch_execz */
    uint64_t skipped_barrier; /* mask of the lanes that were inactive at the wave's last barrier */
    uint64_t barrier_at;      /* code offset of that barrier */

    uint8_t npending[WAIT_COUNTERS]; /* number of entries of `pending` */
    uint32_t issued[WAIT_COUNTERS];  /* number of operations so far, by counter */
    uint16_t outstanding;            /* sum of npending */
    /* The last read of a register before the wait for its load. */
    struct stale_read {
        bool any;  /* true: there was such a read */
        char file; /* register file: 'v', 'a' or 's' */
        uint16_t reg;
        uint64_t read, load; /* code offsets of the read and of the load */
    } stale;
    /* a bit per row that an operation in flight writes, from v[0] on */
    uint64_t busy[VGPR_FILE / 64];
    uint64_t busy_s[SGPR_FILE / 64];
    bool scc_busy; /* true: an operation in flight has sets_scc */
    /* clock at which the last ordered operation arrives, by counter */
    uint64_t last_arrival[WAIT_COUNTERS];
    struct kept *kept;     /* saved registers of loads in flight, see wait.h */
    uint64_t kept_used[2]; /* a bit per used entry of `kept` */
    uint8_t keeping;       /* index in `kept` for the load that is executing */
    uint16_t held;         /* number of operations with `held` set */

    uint8_t *scratch;       /* private segments: 64 * launch->private_bytes bytes, lane by lane */
    uint8_t *scratch_valid; /* a byte for each byte of scratch; 1: defined */
    struct workgroup *wg;
    struct launch *launch;
    /* access of the current instruction; for a tensor copy its last batch */
    struct mem_access access;
    uint64_t tensor_bytes; /* bytes of global memory that a tensor copy accesses; 0: no copy */
    struct spin *spin;     /* record of spin.h; NULL: the wave is not watched */

    /* Masks of the defined lanes of each register. A wave only clears the registers that its target
     * has. */
    uint64_t v_valid[VGPR_FILE], a_valid[AGPR_FILE];
    /* Masks of the lanes with an undefined value from memory that was only moved since. */
    uint64_t v_copied[VGPR_FILE], a_copied[AGPR_FILE];
    /* Masks of the partial lanes, see bits.h. */
    uint64_t v_part[VGPR_FILE], a_part[AGPR_FILE];
    struct pending pending[WAIT_COUNTERS][PENDING_MAX];
};

/* State of an LDS byte. LDS_IN_FLIGHT: no wait has been made for a load to it. LDS_LATE: that load
 * may not have arrived for every wave. LDS_STALE: the byte is undefined, because the wave that
 * stored it had read a register before its s_waitcnt. */
enum lds_state { LDS_DEFINED = 1, LDS_IN_FLIGHT = 2, LDS_LATE = 4, LDS_STALE = 8 };

#define WAVES_MAX 32 /* most waves of a workgroup, which has at most 1024 work-items */

/* Most checks of a launch. */
enum { CHECKS_MAX = 5 };

struct workgroup {
    struct launch *launch;
    uint32_t id[3];
    uint64_t index; /* index of the workgroup in dispatch order, in which x is fastest */
    /* Launches of clusters: the number of its cluster, the cluster's position in the grid of
     * clusters, and the workgroup's position in the cluster. */
    uint64_t cluster;
    uint32_t cluster_id[3], in_cluster[3];
    struct named_barrier {
        /* Waves that must signal to open the barrier, and signals since its last opening. Both have
         * 7 bits and wrap (CDNA5 ISA, S_BARRIER_LEAVE and S_BARRIER_SIGNAL). */
        uint8_t members : 7, signals : 7;
        uint64_t opened;         /* number of openings */
        uint64_t signal_clock;   /* largest clock of a wave when it signalled; 0: no signal */
        uint64_t opened_clock;   /* clock of the last opening */
    } named[NAMED_BARRIERS + 1]; /* named barriers by number; entry 0 is unused; gfx1250 only */
    struct wave **waves;
    uint32_t nwaves;
    uint32_t lds_bytes;
    uint8_t *lds;           /* lds_bytes bytes, and padding that no access reaches */
    uint8_t *lds_valid;     /* a byte for each byte of LDS: enum lds_state bits */
    uint32_t lds_in_flight; /* number of loads to LDS in flight, of all waves */
    uint32_t lds_arrivals;  /* number of operations in flight with `arrives` set, of all waves */
    /* loads to LDS (wait.h): the first `nlate` are LDS_LATE, ordered by arrival; the others are
     * free */
    struct late_lds **late;
    uint32_t nlate;
    struct stale_read stale; /* early read of the wave that last stored an LDS_STALE byte */
    void *check[CHECKS_MAX]; /* states of the checks (check.h); NULL: the check does not watch */
    /* true: checks_settle() must be called after the current instruction */
    bool unsettled;
    uint8_t fetches;     /* a bit per check that watches and has fetched() */
    uint32_t at_barrier; /* number of waves at the workgroup's own barrier */
    /* number of openings of the workgroup's and of named barriers: the epoch of the race check */
    uint64_t barriers;
    uint64_t opened;       /* number of openings of the workgroup's own barrier */
    uint64_t signal_clock; /* largest clock of a wave when it signalled the barrier; GFX12 only */
    uint64_t opened_clock; /* clock at which that barrier last opened */
};

/* Classes of faults. A test expects one of them, and users can disable a class. */
enum fault_kind {
    FAULT_NONE,
    FAULT_DECODE,   /* an unknown instruction or operand, or a pc outside of the code */
    FAULT_REGISTER, /* a register outside of the kernel's allocation */
    FAULT_MEMORY,   /* an access out of bounds, to unmapped or to freed memory */
    FAULT_ALIGN,
    FAULT_UNINIT, /* an undefined value is stored, or used as an address or by a branch */
    FAULT_WAIT,   /* a register is read or overwritten before its s_waitcnt */
    FAULT_HAZARD, /* wait states are missing */
    FAULT_STRICT, /* a rule of LLVM is violated, but hardware is known to tolerate it */
    FAULT_RACE,
    FAULT_BARRIER, /* waves execute different numbers of barriers */
    FAULT_DIVERGE, /* lanes skip a barrier */
    FAULT_STALE,   /* a scalar load reads data that its cache may have an old copy of */
    FAULT_FENCE,   /* a load reads data that another workgroup has not written back */
    FAULT_HINT,    /* the kernel is correct but slow */
    FAULT_DEADLOCK,
    FAULT_BUDGET,
    FAULT_TRAP, /* s_trap, or an operation that the simulator does not support */
    FAULT_KINDS,
};

struct fault {
    enum fault_kind kind;
    uint32_t workgroup[3];
    uint32_t wave;
    uint64_t lanes; /* mask of the lanes at fault; 0: no lane in particular */
    uint64_t pc;
    int64_t offset;  /* pc minus the address of the kernel's entry, in bytes */
    char text[2048]; /* the whole report, of several lines */
};

/* A finding of a check that did not stop the launch. */
struct finding {
    struct fault fault;
    struct finding *next;
};

struct counters {
    uint64_t instructions, salu, valu, mfma, vmem, smem, lds, branch, workgroups, waves;
    /* Bytes of global memory that instructions access. Neighbouring lanes at one address count
     * once. */
    uint64_t load_bytes, store_bytes;
};

/*
 * Functions that are called after every executed instruction. Calls for one wave are in program
 * order. Between waves of a workgroup only shared instructions (memory, barriers, messages) are
 * ordered. Several host threads call at once, each for its workgroups.
 */
struct observer {
    void *ctx;
    void (*workgroup_begin)(void *ctx, struct workgroup *wg);
    void (*inst)(void *ctx, const struct wave *w, const struct inst *in,
                 const struct mem_access *access);
    void (*workgroup_end)(void *ctx, struct workgroup *wg);
};

/* The checks, as bits of launch->checks. */
enum check_bits {
    CHECK_MEMORY = 1 << FAULT_MEMORY,
    CHECK_ALIGN = 1 << FAULT_ALIGN,
    CHECK_UNINIT = 1 << FAULT_UNINIT,
    CHECK_WAIT = 1 << FAULT_WAIT,
    CHECK_HAZARD = 1 << FAULT_HAZARD,
    CHECK_STRICT = 1 << FAULT_STRICT,
    CHECK_RACE = 1 << FAULT_RACE,
    CHECK_BARRIER = 1 << FAULT_BARRIER,
    CHECK_DIVERGE = 1 << FAULT_DIVERGE,
    CHECK_STALE = 1 << FAULT_STALE,
    CHECK_FENCE = 1 << FAULT_FENCE, /* CHECK_FENCE needs CHECK_RACE */
    CHECK_HINT = 1 << FAULT_HINT,   /* performance hints, which are not part of CHECK_ALL */
    CHECK_ALL = CHECK_MEMORY | CHECK_ALIGN | CHECK_UNINIT | CHECK_WAIT | CHECK_HAZARD |
                CHECK_STRICT | CHECK_RACE | CHECK_BARRIER | CHECK_DIVERGE | CHECK_STALE |
                CHECK_FENCE,
    CHECK_DEFAULT = CHECK_ALL & ~(CHECK_STRICT | CHECK_FENCE),
    /* Findings that stop a launch by default. Hardware continues after the others. Some
     * hand-written kernels rely on that: on waves that advance together, or LDS data that arrive in
     * time. */
    CHECK_HALTS = CHECK_MEMORY | CHECK_ALIGN | CHECK_UNINIT,
};

enum wave_order {
    ORDER_BY_CLOCK, /* as if the waves ran in parallel */
    ORDER_SEEDED,   /* pseudo-random, from launch->seed */
};

/* The least number of clocks between an instruction and the arrival of data that it used without a
 * wait. The lower MARGIN_OFFSET_BITS are the instruction's code offset, the upper bits the clocks.
 * All ones: none. */
typedef uint64_t arrival_margin;
enum { MARGIN_OFFSET_BITS = 40 };

/* Kind of loads that a margin is for: from LDS, or from vector memory, to registers or to LDS. */
enum margin_of { MARGIN_LDS, MARGIN_VECTOR, MARGINS };

struct arrival_margins {
    arrival_margin before; /* least of uses before the arrival */
    arrival_margin after;  /* least of uses after the arrival */
};

struct code;      /* decode.h */
struct race_page; /* check_race.h */

/* A barrier of global wave sync, which waves signal, or of a cluster, which workgroups signal. */
struct grid_barrier {
    uint32_t left;        /* number of missing signals minus 1; a signal at 0 opens the barrier */
    uint64_t opened;      /* number of openings */
    uint64_t opened_tick; /* clock of the latest opening; for clusters, if launch->timed */
};
enum { GRID_BARRIERS = 64 };

struct gfx_part; /* gfx_part.h */

/* One dispatch. Zero-initialise it, set the members, and pass it to engine_run(). */
struct launch {
    struct code *code;
    const char *kernel;  /* name of the kernel, for reports */
    uint64_t entry_pc;   /* address of the kernel's symbol; reports count offsets from it */
    uint32_t entry_skip; /* bytes from entry_pc to a wave's first instruction */
    uint32_t grid[3];    /* work-items by dimension */
    uint32_t block[3];   /* work-items per workgroup by dimension, with a product of 1 to 1024 */

    /* Registers at the start. User SGPRs are the same in all waves; the engine adds the system
     * SGPRs. */
    uint32_t user_sgpr[32];
    uint32_t nuser_sgpr;
    bool sgpr_workgroup_id[3];
    bool sgpr_workgroup_info;
    /* true: an SGPR has the wave's offset of private memory, as before architected scratch */
    bool sgpr_private_offset;
    /* allocated architectural VGPRs (accum_offset if the kernel has AGPRs) */
    uint32_t nvgpr;
    uint32_t nagpr;
    uint32_t nsgpr; /* allocated SGPRs; 0: all */
    uint32_t mode;  /* initial value of the MODE register */

    uint32_t lds_bytes;     /* bytes of LDS, static and dynamic */
    uint32_t lds_limit;     /* bytes of LDS of a compute unit; 0: unknown */
    uint32_t private_bytes; /* bytes of private memory per work-item */

    uint32_t checks; /* checks that run (enum check_bits) */
    enum wave_order order;
    uint64_t seed;
    uint64_t budget;  /* most instructions of a wave; 0: no limit */
    uint32_t threads; /* host threads; 0: one per core */
    uint32_t latency; /* factor of the latencies of loads; 0 means 1 */
    /* findings that do not stop the launch (enum check_bits), see wave_finding() */
    uint32_t keep_going;
    bool cooperative; /* true: all workgroups are resident together, on one host thread */
    /* workgroups of a cluster by dimension; 0: no clusters; gfx1250 only. A cluster's workgroups
     * have consecutive numbers and run on one host thread */
    uint32_t cluster[3];
    uint32_t named_barriers; /* named barriers of a workgroup; gfx1250 only */
    /* true: a deadlock before any store ends the launch and sets `polls`, so that the caller can
     * run it again later */
    bool may_wait;
    /* barriers of global wave sync; only the engine accesses them */
    struct grid_barrier grid_barrier[GRID_BARRIERS];
    /* barriers by cluster; only the engine accesses them */
    struct grid_barrier *cluster_barrier;
    const struct gfx_part *part; /* GPU model for the timing model; NULL: the target's first part */
    bool follows;                /* true: another kernel of the same graph launch has run before */
    bool timed;                  /* true: the timing model steps the waves */
    const struct observer *observer;
    struct tensor_lines *tensor; /* cache lines of the latest tensor copy; NULL: not recorded */
    /* called at s_trap; NULL: s_trap faults */
    void (*trap)(struct wave *w, const struct inst *in);
    /* called at s_sendmsg; NULL: no effect */
    void (*sendmsg)(struct wave *w, const struct inst *in);
    /* True suppresses the finding: it is not reported, and the launch continues. Called once per
     * place of the code, from any thread. NULL: nothing is suppressed. */
    bool (*suppress)(const struct launch *launch, const struct fault *fault);
    const void *suppress_ctx;

    /* Called at the end of the launch for every page of global memory that it has accessed. Needs
     * CHECK_RACE. NULL: not called. */
    void (*touched)(void *ctx, const struct race_page *page);
    void *touched_ctx;

    /* Limits the launch to workgroups [first, first + count) of the grid. count 0: all. */
    uint64_t first_workgroup, count_workgroup;
    /* Number of workgroups of the grid that run; 0: all. Cooperative launches always run all. */
    uint64_t sample;

    /* Results of the launch. */
    struct counters counters;
    /* the first fault; its kind is FAULT_NONE if the dispatch has completed */
    struct fault fault;
    uint64_t findings;           /* number of findings that did not stop the launch */
    uint64_t found[FAULT_KINDS]; /* number of findings by kind */
    uint64_t suppressed;         /* number of suppressed findings */
    /* the first finding of each kind at each place of the code, in the order in which they were
     * found; launch_forget_findings() frees them */
    struct finding *first_finding;
    struct arrival_margins margins[MARGINS];
    bool race_incomplete; /* true: the race check had no room for all accesses */
    bool stored;          /* true: a wave has stored to global memory */
    /* true: the deadlock may end later (see may_wait), so run the launch again */
    bool polls;
    void *engine; /* engine that runs the launch */
};

/** True if the launch's workgroups wait for each other, so that all must be resident together. */
static inline bool launch_is_resident(const struct launch *l)
{
    return l->cooperative || l->cluster[0];
}

/* True if a host thread has reported a fault. The read is atomic, since other threads may report
 * one. */
static inline bool launch_faulted(const struct launch *l)
{
    return __atomic_load_n(&l->fault.kind, __ATOMIC_RELAXED) != FAULT_NONE;
}

/* Records a store to global memory. The write is atomic, since threads run workgroups in
 * parallel. */
static inline void launch_stores(struct launch *l)
{
    if (!__atomic_load_n(&l->stored, __ATOMIC_RELAXED))
        __atomic_store_n(&l->stored, true, __ATOMIC_RELAXED);
}

static inline uint64_t sgpr_read64(const struct wave *w, unsigned reg)
{
    return w->sgpr[reg] | (uint64_t)w->sgpr[reg + 1] << 32;
}

/* Writes a pair of SGPRs. `valid`: all bits are defined. */
static inline void sgpr_write64(struct wave *w, unsigned reg, uint64_t value, bool valid)
{
    w->sgpr[reg] = (uint32_t)value;
    w->sgpr[reg + 1] = (uint32_t)(value >> 32);
    w->s_valid[reg] = w->s_valid[reg + 1] = valid ? UINT32_MAX : 0;
}

/* Returns EXEC, the mask of active lanes. */
static inline uint64_t wave_exec(const struct wave *w) { return sgpr_read64(w, SGPR_EXEC); }

/* Returns the mask of the defined bits of a pair of SGPRs. */
static inline uint64_t sgpr_valid64(const struct wave *w, unsigned reg)
{
    return w->s_valid[reg] | (uint64_t)w->s_valid[reg + 1] << 32;
}

/* Returns the lane mask in VCC or EXEC (`reg`). */
static inline uint64_t wave_mask(const struct wave *w, unsigned reg)
{
    return sgpr_read64(w, reg) & w->all;
}

/* True if it is defined whether VCC or EXEC (`reg`) is zero: all lanes are defined, or one defined
 * lane is set. */
static inline bool mask_known(const struct wave *w, unsigned reg)
{
    const uint64_t valid = sgpr_valid64(w, reg) | ~w->all;
    return valid == UINT64_MAX || (wave_mask(w, reg) & valid) != 0;
}

/*
 * Stops the dispatch: marks the wave, and records the first fault with kernel, workgroup, wave, pc,
 * dwords and disassembly. The caller should return soon; its wave does not run again. `lanes` is
 * the mask of lanes at fault, 0 if no lane in particular.
 */
void wave_fault(struct wave *w, const struct inst *in, enum fault_kind kind, uint64_t lanes,
                const char *format, ...) __attribute__((format(printf, 5, 6)));

/*
 * Reports a finding of a check, which need not stop a launch (misalignment always does). If
 * launch->keep_going has the kind, counts it, records it once per place of the code and returns
 * true. The instruction then continues with the present values, and zeros for memory that does not
 * exist. If launch->suppress returns true for the finding, returns true and records nothing.
 * Otherwise stops the dispatch like wave_fault() and returns false.
 */
bool wave_finding(struct wave *w, const struct inst *in, enum fault_kind kind, uint64_t lanes,
                  const char *format, ...) __attribute__((format(printf, 5, 6)));

/*
 * True if `in` already had a finding of this kind and the launch continues; counts the finding
 * then. Callers need not compose a report that nobody would see.
 */
bool wave_found_before(struct wave *w, const struct inst *in, enum fault_kind kind);

/* Frees the list launch->first_finding. */
void launch_forget_findings(struct launch *launch);

/*
 * Counts the memory operation `in` in `counter`. It writes `count` registers of `kind` from number
 * `first` on (OPND_NONE and 0 for stores), which must already have the data. An instruction that
 * reads the registers before the data arrive, or before an s_waitcnt has waited for them, still
 * reads the old values. `unordered`: it may return out of order.
 */
void wave_issue(struct wave *w, const struct inst *in, enum wait_counter counter,
                enum opnd_kind kind, unsigned first, unsigned count, bool unordered);

/* Counts an operation in KMcnt that sets SCC when it returns (GFX12). */
void wave_issue_scc(struct wave *w, const struct inst *in);

/* Reports `in`, which uses SCC, if an operation in flight sets SCC. False if the report stops the
 * wave. */
bool wave_check_scc(struct wave *w, const struct inst *in);

const char *fault_name(enum fault_kind kind);

/*
 * Called by the engine before `in` while operations are in flight. Delivers the data that have
 * arrived. If `in` reads a register that an operation in flight writes, its result is undefined
 * (`WAIT_STALE`). That is an error only if the result is used, since kernels do read and discard
 * such values. A store, an address or a branch with such a register is an error at once. So is a
 * write to it, except by a later load of the same kind.
 */
enum wait_verdict { WAIT_FINE, WAIT_STALE, WAIT_FAULTED };
enum wait_verdict wave_check_wait(struct wave *w, const struct inst *in);

/* Makes the results of `in`, which has just executed, undefined. */
void wave_undefine_results(struct wave *w, const struct inst *in);

/* Counts a load to LDS bytes [first, first + bytes), as wave_issue() does. Returns the clock at
 * which its data arrive. */
uint64_t wave_issue_to_lds(struct wave *w, const struct inst *in, uint32_t first, uint32_t bytes);

/* Waits until at most `left` operations of `counter` are in flight (s_waitcnt). Ends the operations
 * that must have returned then. */
void wave_wait(struct wave *w, enum wait_counter counter, unsigned left);

/* True if the operation with number `number` (wave->issued before it) of `counter` may still be in
 * flight. */
bool wave_outstanding(const struct wave *w, enum wait_counter counter, uint32_t number);

/* Returns the value of the counter: its number of operations in flight. */
unsigned wave_count(const struct wave *w, enum wait_counter counter);

#endif
