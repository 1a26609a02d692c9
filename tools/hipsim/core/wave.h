/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a running kernel: dispatch, workgroup, wave.
 *
 * Ownership: the caller owns `struct launch` and everything it points to during engine_run(); the
 * engine owns workgroups and waves. One host thread at a time accesses a wave and its workgroup.
 *
 * Validity: each register has a mask of the lanes (VGPR, AGPR) or bits (SGPR) that hold a defined
 * value. As in memcheck, a program may move undefined values and compute with them; the masks
 * follow the data. A store, an address or a branch that uses an undefined value is an error. The
 * result of an operation is valid in the lanes in which all sources are valid. A write of half a
 * register makes the lane as valid as the written half; bits.h tracks single bits. A store of
 * several dwords may include undefined ones that were only moved since they were loaded: compilers
 * copy padding like that.
 */
#ifndef HIPSIM_WAVE_H
#define HIPSIM_WAVE_H

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "inst.h"

/* Lanes of a register row. Waves of 32 lanes use the lower half of it. */
#define WAVE_LANES 64
#define VGPR_FILE 1024 /* the most VGPRs that a wave of any target has */
#define AGPR_FILE 256
#define NAMED_BARRIERS 16 /* maximum number in a workgroup (CDNA5 ISA, 5.6.2) */
#define WAVE_TRAIL 256    /* instructions in which reports look for the writer of a register */

/* 64-bit apertures of the flat address space, above all host addresses. */
#define SHARED_APERTURE UINT64_C(0x0001000000000000)
#define PRIVATE_APERTURE UINT64_C(0x0002000000000000)
#define APERTURE_BYTES UINT64_C(0x100000000)

/* A bit for each row of targets/targets.def. */
enum gfx_target {
#include "gfx_targets.inc"
};

/* MODE register, in the layout of hwreg(HW_REG_MODE). */
enum mode_bits {
    MODE_ROUND_F32 = 0x3, /* 0 nearest even, 1 +inf, 2 -inf, 3 zero */
    MODE_ROUND_F16_F64 = 0xc,
    MODE_DENORM_F32 = 0x30, /* bit 4: keep input denormals, bit 5: keep output denormals */
    MODE_DENORM_F16_F64 = 0xc0,
    MODE_DX10_CLAMP = 1 << 8,
    MODE_IEEE = 1 << 9,
    MODE_FP16_OVFL = 1 << 23,
    MODE_GPR_IDX_EN = 1 << 27, /* M0[7:0] is the index, M0[15:12] selects the operands */
    MODE_VSKIP = 1 << 28,      /* vector instructions are skipped */
};

#define MODE_CSP_SHIFT 29 /* stack depth of s_cbranch_g_fork, three bits */

enum wave_state {
    WAVE_RUNNING,
    WAVE_AT_BARRIER,
    WAVE_AT_GRID_BARRIER,  /* or at a cluster's */
    WAVE_AT_NAMED_BARRIER, /* gfx1250 */
    WAVE_HALTED,
    WAVE_ENDED,
    WAVE_FAULTED
};

/* Counters of outstanding operations. GFX12 splits the first two: WAIT_VM is LOADcnt and WAIT_LGKM
 * DScnt there. */
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

/* One outstanding memory operation and the registers that it writes. */
struct pending {
    uint8_t kind;      /* enum opnd_kind of the destination, OPND_NONE for a store */
    uint8_t unordered; /* scalar memory: may return out of order, so only a count of 0 waits for
                        * it */
    uint8_t slot;      /* index in wave->kept, see wait.h */
    bool held;         /* it has executed, but the registers still have their old values */
    bool sets_scc;     /* its end makes SCC readable */
    uint16_t first, count;
    uint32_t number;               /* value of `issued` before it */
    uint32_t lds_first, lds_bytes; /* loads to LDS: the bytes in flight */
    uint64_t lanes;                /* EXEC at issue */
    uint64_t arrival;              /* clock of the wave at which the data arrive */
    const struct inst *in;
};

#define PENDING_MAX 64

/* The memory access of an instruction. Handlers fill it in while launch->observer is set. */
struct mem_access {
    enum { ACCESS_NONE, ACCESS_GLOBAL, ACCESS_LDS, ACCESS_SCRATCH, ACCESS_SCALAR } space;
    bool is_store; /* atomics: both this and `is_load` */
    bool is_load;
    uint8_t bytes;             /* per lane */
    uint64_t lanes;            /* lanes that access memory */
    uint64_t addr[WAVE_LANES]; /* LDS: byte offset; scalar: lane 0 only */
};

/* The cache lines of global memory that a copy of gfx1250's tensor data mover touches, in the
 * copy's order. A launch has one record, and therefore one host thread. Readers set `n` to 0. */
struct tensor_lines {
    uint64_t *line;   /* numbers of lines of 128 bytes */
    uint32_t n, room; /* lines; allocated entries of `line` */
    uint32_t mask;    /* workgroups of the cluster that request the same lines; 0: no multicast */
    bool early;       /* the request has the early timeout */
    bool failed;      /* there was no memory for all lines */
};

struct wave {
    /* Registers as rows of 64 lanes; 64-bit operands are two rows, low first. */
    uint32_t (*v)[WAVE_LANES];
    uint32_t (*a)[WAVE_LANES];
    alignas(64) uint32_t sgpr[SGPR_FILE];
    uint32_t s_valid[SGPR_FILE];  /* bit per bit: a lane mask is valid lane by lane */
    uint64_t s_copied[SGPR_FILE]; /* all ones or 0, see v_copied */
    uint32_t (*bits)[WAVE_LANES]; /* VGPRs, then AGPRs; NULL while no lane is partial */
    bool copies;                  /* copied or partial lanes exist */
    uint8_t scc;
    uint8_t scc_valid;
    uint8_t state; /* enum wave_state */
    uint8_t priority;
    uint32_t mode; /* enum mode_bits */
    uint32_t trapsts;
    uint64_t pc;          /* address of the next instruction */
    uint64_t clock;       /* clocks of its instructions and waits so far; orders the waves of a
                           * workgroup and decides when data arrive */
    uint64_t matrix_free; /* end of the last matrix instruction, on `clock` */
    uint64_t tick;        /* launch->timed: modelled clock of the last issue */
    uint64_t executed;    /* number of instructions */
    uint32_t trail[WAVE_TRAIL]; /* code offsets in dwords of the last instructions; number n is at
                                 * n % WAVE_TRAIL */
    uint32_t id;                /* index in the workgroup */
    uint64_t lanes;             /* EXEC at launch: the lanes that a partial wave has */
    uint64_t all;               /* the lanes of a whole wave */
    /* gfx1250, S_SET_VGPR_MSB: two upper bits of the VGPR numbers of src0, src1, src2 and the
     * destination, from bit 0 on. */
    uint8_t vgpr_msb;
    bool signalled; /* gfx1250: it has signalled the workgroup's barrier and not waited yet */
    uint64_t signalled_at; /* number of the barrier's openings at the time of that signal */
    uint64_t cluster_seen; /* gfx1250: openings of the cluster's barrier that it has waited for */
    uint64_t named_seen;   /* gfx1250: openings of barrier `named` that it has waited for */
    uint8_t named;         /* gfx1250: number of the named barrier that it has joined; 0: none */

    /* WAVE_AT_GRID_BARRIER: the barrier, and its count of openings at arrival. */
    const struct grid_barrier *grid_barrier;
    uint64_t grid_opened;

    bool acted;               /* the wave has stored to global memory or LDS */
    bool went_round;          /* the wave has taken an s_cbranch_execz */
    uint64_t skipped_barrier; /* lanes that were inactive at the wave's last barrier */
    uint64_t barrier_at;      /* code offset of that barrier */

    uint8_t npending[WAIT_COUNTERS]; /* entries of `pending` */
    uint32_t issued[WAIT_COUNTERS];  /* number of operations so far */
    uint16_t outstanding;            /* sum of npending */
    /* The last read of a register before the wait for its load. */
    struct stale_read {
        bool any;  /* there was such a read */
        char file; /* 'v', 'a', 's' */
        uint16_t reg;
        uint64_t read, load; /* code offsets of the two instructions */
    } stale;
    uint64_t busy[VGPR_FILE / 64]; /* rows that an outstanding operation writes, from v[0] on */
    uint64_t busy_s[SGPR_FILE / 64];
    bool scc_busy;                        /* an outstanding operation has sets_scc */
    uint64_t last_arrival[WAIT_COUNTERS]; /* clock: arrival of the last ordered operation */
    struct kept *kept;                    /* wait.h */
    uint64_t kept_used[2];                /* bit per slot */
    uint8_t keeping;                      /* slot of the load that is executing */
    uint16_t held;                        /* number of operations with `held` set */

    uint8_t *scratch;       /* private segments: 64 * launch->private_bytes, lane by lane */
    uint8_t *scratch_valid; /* one byte per byte: 1 defined */
    struct workgroup *wg;
    struct launch *launch;
    struct mem_access access; /* of a tensor copy: its last piece */
    uint64_t tensor_bytes;    /* bytes of global memory that a tensor copy accesses; 0: no copy */
    struct spin *spin;        /* NULL: the wave is not watched */

    /* A bit per lane. A wave only clears the registers that its target has. */
    uint64_t v_valid[VGPR_FILE], a_valid[AGPR_FILE];
    /* Lanes with an undefined value from memory that was only moved since. */
    uint64_t v_copied[VGPR_FILE], a_copied[AGPR_FILE];
    /* Partial lanes, see bits.h. */
    uint64_t v_part[VGPR_FILE], a_part[AGPR_FILE];
    struct pending pending[WAIT_COUNTERS][PENDING_MAX];
};

/* State of an LDS byte. LDS_IN_FLIGHT: a load to it was issued and not waited for. LDS_LATE: that
 * load may not have arrived for every wave. LDS_STALE: it is undefined, because the wave that
 * stored it had read a register before its s_waitcnt. */
enum lds_state { LDS_DEFINED = 1, LDS_IN_FLIGHT = 2, LDS_LATE = 4, LDS_STALE = 8 };

#define WAVES_MAX 32 /* per workgroup: it has 1024 work-items at most */

/* Maximum number of checks. */
enum { CHECKS_MAX = 5 };

struct workgroup {
    struct launch *launch;
    uint32_t id[3];
    uint64_t index; /* dispatch order: x fastest */
    /* Launches of clusters: number of its cluster, position of the cluster in the grid of clusters,
     * and position in the cluster. */
    uint64_t cluster;
    uint32_t cluster_id[3], in_cluster[3];
    struct named_barrier {
        /* Waves that must signal to open it, and signals since then. Both have 7 bits and wrap
         * (CDNA5 ISA, S_BARRIER_LEAVE and S_BARRIER_SIGNAL). */
        uint8_t members : 7, signals : 7;
        uint64_t opened;         /* number of openings */
        uint64_t signal_clock;   /* the largest clock of a wave when it signalled; 0: no signal */
        uint64_t opened_clock;   /* the clock at which it last opened */
    } named[NAMED_BARRIERS + 1]; /* gfx1250: by number; entry 0 is unused */
    struct wave **waves;
    uint32_t nwaves;
    uint32_t lds_bytes;
    uint8_t *lds;           /* lds_bytes, plus padding outside of any access */
    uint8_t *lds_valid;     /* one byte per byte: enum lds_state bits */
    uint32_t lds_in_flight; /* number of outstanding loads to LDS, all waves */
    struct late_lds **late; /* wait.h: the first `nlate` are LDS_LATE, by arrival; the others are
                             * free */
    uint32_t nlate;
    struct stale_read stale; /* by the wave that last stored an LDS_STALE byte */
    void *check[CHECKS_MAX]; /* states of the checks (check.h); NULL: the check does not watch */
    bool unsettled;          /* call checks_settle() after the current instruction */
    uint8_t fetches;         /* bit per check that watches and has fetched() */
    uint32_t at_barrier;     /* number of waves at the workgroup's own barrier */
    uint64_t barriers;       /* openings so far of its own and of named barriers: the epoch */
    uint64_t opened;         /* number of openings of the workgroup's own barrier */
    uint64_t signal_clock; /* gfx1250: the largest clock of a wave when it signalled that barrier */
    uint64_t opened_clock; /* the clock at which that barrier last opened */
};

/* Classes of faults. Tests expect one of them, and users can disable a class. */
enum fault_kind {
    FAULT_NONE,
    FAULT_DECODE,   /* unknown instruction or operand, or pc outside the code */
    FAULT_REGISTER, /* register outside the kernel's allocation */
    FAULT_MEMORY,   /* out of bounds, unmapped, use after free */
    FAULT_ALIGN,
    FAULT_UNINIT, /* undefined value reaches a store, an address or a branch */
    FAULT_WAIT,   /* register read or overwritten before its s_waitcnt */
    FAULT_HAZARD, /* missing wait states */
    FAULT_STRICT, /* violates a rule of LLVM, but hardware is known to tolerate it */
    FAULT_RACE,
    FAULT_BARRIER, /* different numbers of barriers */
    FAULT_DIVERGE, /* lanes skipped a barrier */
    FAULT_STALE,   /* a scalar load of what its cache may have old */
    FAULT_FENCE,   /* a load of what another workgroup has not written back */
    FAULT_HINT,    /* correct, but slow */
    FAULT_DEADLOCK,
    FAULT_BUDGET,
    FAULT_TRAP, /* s_trap, or an operation that the simulator does not support */
    FAULT_KINDS,
};

struct fault {
    enum fault_kind kind;
    uint32_t workgroup[3];
    uint32_t wave;
    uint64_t lanes; /* lanes at fault, as a bit mask; 0: no lane in particular */
    uint64_t pc;
    int64_t offset;  /* pc - address of the kernel's entry, in bytes */
    char text[2048]; /* the whole report, several lines */
};

/* A finding of a check that did not stop the launch. */
struct finding {
    struct fault fault;
    struct finding *next;
};

struct counters {
    uint64_t instructions, salu, valu, mfma, vmem, smem, lds, branch, workgroups, waves;
    /* Global memory accessed by instructions; neighbouring lanes at one address count once. */
    uint64_t load_bytes, store_bytes;
};

/*
 * Called after every executed instruction. Calls for one wave come in program order. Between waves
 * of a workgroup only shared instructions (memory, barriers, messages) are ordered. Several host
 * threads call at once, one per workgroup.
 */
struct observer {
    void *ctx;
    void (*workgroup_begin)(void *ctx, struct workgroup *wg);
    void (*inst)(void *ctx, const struct wave *w, const struct inst *in,
                 const struct mem_access *access);
    void (*workgroup_end)(void *ctx, struct workgroup *wg);
};

/* Bits of launch->checks. */
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
    CHECK_FENCE = 1 << FAULT_FENCE, /* needs CHECK_RACE */
    CHECK_HINT = 1 << FAULT_HINT,   /* performance hints, not part of the checks */
    CHECK_ALL = CHECK_MEMORY | CHECK_ALIGN | CHECK_UNINIT | CHECK_WAIT | CHECK_HAZARD |
                CHECK_STRICT | CHECK_RACE | CHECK_BARRIER | CHECK_DIVERGE | CHECK_STALE |
                CHECK_FENCE,
    CHECK_DEFAULT = CHECK_ALL & ~(CHECK_STRICT | CHECK_FENCE),
    /* Findings that stop a launch by default. Hardware continues after the others, and some
     * hand-written kernels rely on it: waves that advance together, LDS data that arrive in
     * time. */
    CHECK_HALTS = CHECK_MEMORY | CHECK_ALIGN | CHECK_UNINIT,
};

enum wave_order {
    ORDER_BY_CLOCK, /* as if the waves ran in parallel */
    ORDER_SEEDED,   /* pseudo-random from launch->seed */
};

/* The minimum distance between an instruction and the arrival of data that it used without a wait.
 * Upper bits: clocks; lower MARGIN_OFFSET_BITS: code offset of the instruction. All ones: none. */
typedef uint64_t arrival_margin;
enum { MARGIN_OFFSET_BITS = 40 };

/* Separate margins for data from LDS and for vector memory loads, to registers or to LDS. */
enum margin_of { MARGIN_LDS, MARGIN_VECTOR, MARGINS };

struct arrival_margins {
    arrival_margin before; /* uses before the arrival */
    arrival_margin after;  /* uses after the arrival */
};

struct code;      /* decode.h */
struct race_page; /* check_race.h */
struct memory;    /* the simulated address space; owned and defined by the memory side */

/* A barrier of global wave sync, which waves signal, or of a cluster, which workgroups signal. */
struct grid_barrier {
    uint32_t left;        /* signals that are missing, minus 1: the signal at 0 opens it */
    uint64_t opened;      /* number of openings */
    uint64_t opened_tick; /* of a cluster, if launch->timed: clock of the latest opening */
};
enum { GRID_BARRIERS = 64 };

struct gfx_part; /* gfx_part.h */

/* One dispatch. Zero-initialise, fill in, pass to engine_run(). */
struct launch {
    struct code *code;
    const char *kernel;  /* name for reports */
    uint64_t entry_pc;   /* address of the kernel's symbol, to which reports are relative */
    uint32_t entry_skip; /* bytes from entry_pc to a wave's first instruction */
    uint32_t grid[3];    /* work-items */
    uint32_t block[3];   /* work-items per workgroup, product 1 .. 1024 */

    /* Registers. User SGPRs are equal in all waves; the engine adds the system SGPRs. */
    uint32_t user_sgpr[32];
    uint32_t nuser_sgpr;
    bool sgpr_workgroup_id[3];
    bool sgpr_workgroup_info;
    bool sgpr_private_offset; /* the wave's private segment offset is in an SGPR: before
                               * architected scratch */
    uint32_t nvgpr;           /* architectural VGPRs allocated (accum_offset if AGPRs are used) */
    uint32_t nagpr;
    uint32_t nsgpr; /* 0: all */
    uint32_t mode;  /* initial MODE */

    uint32_t lds_bytes;     /* static and dynamic */
    uint32_t lds_limit;     /* per compute unit; 0: unknown */
    uint32_t private_bytes; /* per work-item */

    struct memory *memory;
    uint32_t checks; /* enum check_bits */
    enum wave_order order;
    uint64_t seed;
    uint64_t budget;     /* the most instructions per wave; 0: no limit */
    uint32_t threads;    /* host threads, 0: one per core */
    uint32_t latency;    /* factor of the latencies of loads; 0: 1 */
    uint32_t keep_going; /* enum check_bits: findings that do not stop the launch, see
                          * wave_finding() */
    bool cooperative;    /* all workgroups are resident together, on one host thread */
    uint32_t cluster[3]; /* gfx1250: workgroups of a cluster by dimension; 0: there are none. Those
                          * of a cluster have consecutive numbers, and run on one host thread */
    uint32_t named_barriers; /* gfx1250: number of named barriers of a workgroup */
    bool may_wait;           /* a deadlock before any store ends the launch early, with `polls` set:
                          * the caller runs it again */
    struct grid_barrier grid_barrier[GRID_BARRIERS]; /* private to the engine */
    struct grid_barrier *cluster_barrier;            /* by cluster; private to the engine */
    const struct gfx_part *part; /* for the timing model; NULL: the target's first part */
    bool follows;                /* true: another kernel of the same graph launch ran before */
    bool timed;                  /* the timing model steps the waves */
    const struct observer *observer;
    struct tensor_lines *tensor; /* lines of the latest copy; NULL: not recorded */
    void (*trap)(struct wave *w, const struct inst *in);    /* s_trap; NULL faults */
    void (*sendmsg)(struct wave *w, const struct inst *in); /* s_sendmsg; NULL ignores */
    /* True suppresses the finding: it is not reported, and the launch goes on. Called once per
     * place of the code, from any thread. NULL: nothing is suppressed. */
    bool (*suppress)(const struct launch *launch, const struct fault *fault);
    const void *suppress_ctx;

    /* Called at the end of the launch for every page of global memory it has accessed. Needs
     * CHECK_RACE. May be NULL. */
    void (*touched)(void *ctx, const struct race_page *page);
    void *touched_ctx;

    /* Limits the launch to workgroups [first, first + count) of the grid; count 0: all of them. */
    uint64_t first_workgroup, count_workgroup;
    /* Workgroups of the grid that run; 0: all. Cooperative launches run all. */
    uint64_t sample;

    /* Results. */
    struct counters counters;
    struct fault fault;            /* kind FAULT_NONE if the dispatch has completed */
    uint64_t findings;             /* number of findings that did not stop the launch */
    uint64_t found[FAULT_KINDS];   /* number of findings by kind */
    uint64_t suppressed;           /* number of suppressed findings */
    struct finding *first_finding; /* the first finding of each kind at each place of the code, in
                                    * the order found; launch_forget_findings() frees them */
    struct arrival_margins margins[MARGINS];
    bool race_incomplete; /* the race check had no room for all accesses */
    bool stored;          /* a wave has stored to global memory */
    bool polls;           /* the deadlock may resolve (see may_wait): run the launch again */
    void *engine;         /* the engine that runs the launch */
};

/** True if workgroups of the launch wait for each other, and so are resident together. */
static inline bool launch_is_resident(const struct launch *l)
{
    return l->cooperative || l->cluster[0];
}

/* True if a host thread has reported a fault. Atomic, since other threads may report one now. */
static inline bool launch_faulted(const struct launch *l)
{
    return __atomic_load_n(&l->fault.kind, __ATOMIC_RELAXED) != FAULT_NONE;
}

/* Records a store to global memory. Atomic, since threads run workgroups in parallel. */
static inline void launch_stores(struct launch *l)
{
    if (!__atomic_load_n(&l->stored, __ATOMIC_RELAXED))
        __atomic_store_n(&l->stored, true, __ATOMIC_RELAXED);
}

static inline uint64_t sgpr_read64(const struct wave *w, unsigned reg)
{
    return w->sgpr[reg] | (uint64_t)w->sgpr[reg + 1] << 32;
}

static inline void sgpr_write64(struct wave *w, unsigned reg, uint64_t value, bool valid)
{
    w->sgpr[reg] = (uint32_t)value;
    w->sgpr[reg + 1] = (uint32_t)(value >> 32);
    w->s_valid[reg] = w->s_valid[reg + 1] = valid ? UINT32_MAX : 0;
}

static inline uint64_t wave_exec(const struct wave *w) { return sgpr_read64(w, SGPR_EXEC); }

static inline uint64_t sgpr_valid64(const struct wave *w, unsigned reg)
{
    return w->s_valid[reg] | (uint64_t)w->s_valid[reg + 1] << 32;
}

/* Returns the lanes of VCC or EXEC. */
static inline uint64_t wave_mask(const struct wave *w, unsigned reg)
{
    return sgpr_read64(w, reg) & w->all;
}

/* True if it is known whether VCC or EXEC is zero: all lanes are defined, or one defined lane is
 * set. */
static inline bool mask_known(const struct wave *w, unsigned reg)
{
    const uint64_t valid = sgpr_valid64(w, reg) | ~w->all;
    return valid == UINT64_MAX || (wave_mask(w, reg) & valid) != 0;
}

/*
 * Stops the dispatch: marks the wave and records the first fault with kernel, workgroup, wave, pc,
 * raw dwords and disassembly. The caller should return soon; its wave does not run again. `lanes`
 * are the lanes at fault, 0 if no lane in particular.
 */
void wave_fault(struct wave *w, const struct inst *in, enum fault_kind kind, uint64_t lanes,
                const char *format, ...) __attribute__((format(printf, 5, 6)));

/*
 * Reports a finding that need not stop a launch: any check but misalignment. If launch->keep_going
 * has the kind, counts it, records it once per place of the code and returns true. The handler then
 * continues with the present values, and zeros for memory that does not exist. If launch->suppress
 * accepts the finding, returns true and records nothing. Otherwise stops the dispatch like
 * wave_fault() and returns false.
 */
bool wave_finding(struct wave *w, const struct inst *in, enum fault_kind kind, uint64_t lanes,
                  const char *format, ...) __attribute__((format(printf, 5, 6)));

/*
 * Counts the finding and returns true if `in` already had one of this kind and the launch goes on.
 * Callers then skip formatting a report that nobody would see.
 */
bool wave_found_before(struct wave *w, const struct inst *in, enum fault_kind kind);

/* Frees launch->first_finding and what follows it. */
void launch_forget_findings(struct launch *launch);

/*
 * Records that `in` has issued a memory operation counted by `counter`. It writes `count` registers
 * of `kind` from `first` on (OPND_NONE and 0 for stores). The handler has already written the data.
 * An instruction that reads the registers before the data arrive, or before an s_waitcnt has waited
 * for them, still gets the old values.
 */
void wave_issue(struct wave *w, const struct inst *in, enum wait_counter counter,
                enum opnd_kind kind, unsigned first, unsigned count, bool unordered);

/* Issues an operation that KMcnt counts and that sets SCC (gfx1250). */
void wave_issue_scc(struct wave *w, const struct inst *in);

/* Reports `in`, which uses SCC, if an operation that sets SCC is outstanding. False: the wave has
 * stopped. */
bool wave_check_scc(struct wave *w, const struct inst *in);

const char *fault_name(enum fault_kind kind);

/*
 * Called by the engine before `in` while operations are outstanding. Delivers the data that have
 * arrived. If `in` reads a register that an outstanding operation writes, its result is undefined
 * (`WAIT_STALE`). That is an error only if the result is used, since kernels do read and discard
 * such values. A store, an address or a branch with such a register is an error at once. So is
 * overwriting it, except by a later load of the same kind.
 */
enum wait_verdict { WAIT_FINE, WAIT_STALE, WAIT_FAULTED };
enum wait_verdict wave_check_wait(struct wave *w, const struct inst *in);

/* Marks the results of `in`, which has just executed, as undefined. */
void wave_undefine_results(struct wave *w, const struct inst *in);

/* Issues a load to LDS bytes [first, first + bytes) like wave_issue(). Returns the clock of
 * arrival. */
uint64_t wave_issue_to_lds(struct wave *w, const struct inst *in, uint32_t first, uint32_t bytes);

/* Waits until at most `left` operations of `counter` are outstanding (s_waitcnt). Retires the ones
 * that must have returned by then. */
void wave_wait(struct wave *w, enum wait_counter counter, unsigned left);

/* True if operation `number` of `counter` may still be outstanding. */
bool wave_outstanding(const struct wave *w, enum wait_counter counter, uint32_t number);

/* Returns the value of the counter: the number of operations that have not returned. */
unsigned wave_count(const struct wave *w, enum wait_counter counter);

#endif
