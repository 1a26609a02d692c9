/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The timing model's interface, exported by the library that exports HIP. All figures are modelled,
 * not measured: they compare kernels with each other within this one model.
 * tools/hipsim/docs/timing.md describes it.
 */
#ifndef HIPSIM_TIME_H
#define HIPSIM_TIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HIPSIM_API __attribute__((visibility("default")))

/* Why a wave did not issue an instruction. */
enum hipsim_stall {
    HIPSIM_STALL_NONE,
    HIPSIM_STALL_DEPENDENCY, /* the wave's previous instruction, such as s_nop, has not ended */
    HIPSIM_STALL_VALU,       /* the VALU port is busy */
    HIPSIM_STALL_MATRIX,     /* the matrix unit is busy */
    HIPSIM_STALL_SHADOW,     /* a matrix instruction blocks the VALU port */
    HIPSIM_STALL_RESULT,     /* the result of a matrix instruction is not ready */
    HIPSIM_STALL_SCALAR,     /* the scalar or branch port is busy */
    /* the memory port is busy, or the LDS queue of the SIMD pair is full */
    HIPSIM_STALL_LDS_QUEUE,
    HIPSIM_STALL_VMEM_QUEUE, /* the L1's queue is full */
    HIPSIM_STALL_COUNTER,    /* a counter of operations in flight is at its maximum */
    HIPSIM_STALL_WAIT_LDS,   /* s_waitcnt lgkmcnt waits */
    HIPSIM_STALL_WAIT_VMEM,  /* s_waitcnt vmcnt waits */
    HIPSIM_STALL_BARRIER,
    HIPSIM_STALL_FETCH, /* an instruction cache miss, or a refill after a branch */
    HIPSIM_STALL_SLEEP,
    HIPSIM_STALL_COUNT,
};

/** Returns the short name of a stall, such as "vmem wait". */
HIPSIM_API const char *hipsim_stall_name(enum hipsim_stall stall);

struct hipsim_time_options {
    size_t size; /* sizeof(struct hipsim_time_options), set by the caller */
    /** Most workgroups that are timed; the figures of others are extrapolated. 0: 8. */
    uint32_t samples;
    /** Executes only the sampled workgroups, for grids too large to execute. The output of the
     *  other workgroups is then missing. */
    bool samples_only;
    /** Parameters to change, such as "trans_cycles=8,hbm_ns=400". NULL: none. */
    const char *parameters;
    /** Path of a trace of the first sampled workgroups, for Perfetto or Chrome's about:tracing. It
     * has one track per wave and counters of the units. NULL: none. */
    const char *trace_path;
    /** Path of a file for the disassembly with cycles and stalls per line. NULL: none. */
    const char *annotate_path;
};

/** Times all launches from now on; NULL ends timing. False if `parameters` names an unknown
 * parameter or the size is missing. `why`, of `why_size` bytes, gets a sentence then; it may be
 * NULL. */
HIPSIM_API bool hipsim_time_enable(const struct hipsim_time_options *options, char *why,
                                   size_t why_size);

enum { HIPSIM_TIME_XCDS = 8, HIPSIM_TIME_PARTS = 64 };

/* Figures of a timed launch, all modelled. */
struct hipsim_time_report {
    size_t size; /* sizeof(struct hipsim_time_report), set by the caller */
    char kernel[128];
    char target[16];
    uint64_t workgroups;
    uint64_t sampled;           /* number of timed workgroups */
    bool complete;              /* true: all workgroups were executed */
    bool together;              /* true: all workgroups were timed, on all compute units at once */
    uint32_t workgroups_per_cu; /* workgroups that a compute unit holds at once (occupancy) */
    uint32_t waves_per_simd;
    /* cycles of the launch on the device, without launch overhead */
    double cycles;
    double workgroup_cycles; /* cycles of the first timed workgroup */
    /* microseconds of launch overhead, which both times below include */
    double launch_us;
    double max_mhz, us_at_max; /* highest clock in MHz; microseconds of the launch at it */
    /* clock of the power law in MHz; microseconds of the launch at it */
    double power_mhz, us_at_power;
    /* part of the hottest loop's time in which the matrix units are busy, 0 to 1 */
    double matrix_duty;
    /* part of the device's matrix roofline that the whole launch reaches, 0 to 1 */
    double matrix_fraction;
    /* part of the peak HBM bandwidth that the launch reaches at the power clock, 0 to 1 */
    double memory_fraction;
    double memory_gb_per_s; /* HBM bandwidth in GB/s that kernels attain in the model */
    double memory_bytes;    /* bytes that are transferred from or to MALL or HBM */
    /* bytes that instructions access; lanes at one address count once */
    double load_bytes, store_bytes;
    /* workgroups of an XCD that read the same lines, on average; 0 if `together` */
    double l2_sharers;
    /* part of the compute units' time that is idle: 1 - busy / (compute units * cycles), 0 to 1 */
    double tail;
    /* Used workgroup slots of each XCD as a fraction, 0 to 1, in equal parts of the launch's time.
     * All 0 for more than 2^22 workgroups. */
    uint32_t xcds;
    float taken[HIPSIM_TIME_XCDS][HIPSIM_TIME_PARTS];
    /* least clocks per iteration that the hottest loop could have; 0: no loop */
    double loop_bound;
    double loop_cycles; /* modelled clocks per iteration of the hottest loop; 0: no loop */
    /* cycles in which waves of the timed workgroups issue, summed over the waves */
    uint64_t issue_cycles;
    uint64_t stall_cycles[HIPSIM_STALL_COUNT];
    /* part of the timed workgroups' clocks in which a SIMD's VALU port is busy, without matrix
     * instructions; 0 to 1 */
    double valu_busy;
    double lds_conflict; /* part of the LDS banks' busy clocks that conflicts cause, 0 to 1 */
    double l2_hit;       /* part of the L2's transfers that need no line of MALL or HBM, 0 to 1 */
    double hbm_bytes;    /* bytes of `memory_bytes` that HBM transfers rather than the MALL */
};

/** Copies the report of the process's last timed launch to *report, as far as report->size allows.
 * Members that this library lacks become 0. False if there is no such launch, or the size is
 * missing. */
HIPSIM_API bool hipsim_time_last(struct hipsim_time_report *report);

/** Writes a report as text of about a dozen lines, to `text` of `size` bytes. Returns the value
 * that snprintf() would return; -1 if the report's size is missing. */
HIPSIM_API int hipsim_time_format(const struct hipsim_time_report *report, char *text, size_t size);

#ifdef __cplusplus
}
#endif

#endif
