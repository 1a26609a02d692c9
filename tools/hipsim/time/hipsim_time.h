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

/* Why a wave did not issue. */
enum hipsim_stall {
    HIPSIM_STALL_NONE,
    HIPSIM_STALL_DEPENDENCY, /* the wave's previous instruction, such as s_nop */
    HIPSIM_STALL_VALU,       /* VALU port busy */
    HIPSIM_STALL_MATRIX,     /* matrix unit busy */
    HIPSIM_STALL_SHADOW,     /* VALU port blocked by a matrix instruction */
    HIPSIM_STALL_RESULT,     /* waits for the result of a matrix instruction */
    HIPSIM_STALL_SCALAR,     /* scalar or branch port busy */
    HIPSIM_STALL_LDS_QUEUE,  /* memory port busy, or the SIMD pair's LDS queue full */
    HIPSIM_STALL_VMEM_QUEUE, /* L1 queue full */
    HIPSIM_STALL_COUNTER,    /* counter of outstanding operations at its maximum */
    HIPSIM_STALL_WAIT_LDS,   /* s_waitcnt lgkmcnt */
    HIPSIM_STALL_WAIT_VMEM,  /* s_waitcnt vmcnt */
    HIPSIM_STALL_BARRIER,
    HIPSIM_STALL_FETCH, /* instruction cache miss, or refill after a branch */
    HIPSIM_STALL_SLEEP,
    HIPSIM_STALL_COUNT,
};

/** Returns the short name of a stall, such as "vmem wait". */
HIPSIM_API const char *hipsim_stall_name(enum hipsim_stall stall);

struct hipsim_time_options {
    size_t size; /* sizeof(struct hipsim_time_options), set by the caller */
    /** Maximum number of workgroups that are timed; the others are extrapolated. 0: 8. */
    uint32_t samples;
    /** Executes only the sampled workgroups, for grids too large to execute. The output of the
     *  other workgroups is then missing. */
    bool samples_only;
    /** Changed parameters, such as "trans_cycles=8,hbm_ns=400". NULL: none. */
    const char *parameters;
    /** Trace file of the first sampled workgroups, for Perfetto or Chrome's about:tracing: one
     *  track per wave and counters of the units. NULL: none. */
    const char *trace_path;
    /** File for the disassembly with cycles and stalls per line. NULL: none. */
    const char *annotate_path;
};

/** Times all launches from now on; NULL stops timing. Returns false, with a sentence in `why` (may
 *  be NULL), if `parameters` names an unknown parameter or the size is missing. */
HIPSIM_API bool hipsim_time_enable(const struct hipsim_time_options *options, char *why,
                                   size_t why_size);

enum { HIPSIM_TIME_XCDS = 8, HIPSIM_TIME_PARTS = 64 };

/* One timed launch. All figures are modelled. */
struct hipsim_time_report {
    size_t size; /* sizeof(struct hipsim_time_report), set by the caller */
    char kernel[128];
    char target[16];
    uint64_t workgroups;
    uint64_t sampled;           /* number of workgroups that were timed */
    bool complete;              /* all workgroups were executed */
    bool together;              /* all workgroups were timed, on all compute units at once */
    uint32_t workgroups_per_cu; /* occupancy */
    uint32_t waves_per_simd;
    double cycles;                  /* of the launch on the device, without launch overhead */
    double workgroup_cycles;        /* of the first timed workgroup */
    double launch_us;               /* launch overhead, included in both times */
    double max_mhz, us_at_max;      /* highest clock, and time of the launch at it */
    double power_mhz, us_at_power;  /* clock of the power law, and time of the launch at it */
    double matrix_duty;             /* part of the hottest loop's time in which the matrix units
                                     * are busy */
    double matrix_fraction;         /* part of the device's matrix roofline, whole launch */
    double memory_fraction;         /* part of the peak HBM bandwidth, at the power clock */
    double memory_gb_per_s;         /* attainable HBM bandwidth in the model */
    double memory_bytes;            /* bytes that reach MALL or HBM */
    double load_bytes, store_bytes; /* accessed by instructions; lanes at one address count once */
    double l2_sharers;              /* workgroups of an XCD that read the same lines; 0 if
                                     * `together` */
    double tail;                    /* idle fraction: 1 - busy / (compute units * cycles), 0 to 1 */
    /* Occupancy of each XCD over the launch, which is cut into equal parts: used workgroup slots as
     * a fraction, 0 to 1. All 0 for more than 2^22 workgroups. */
    uint32_t xcds;
    float taken[HIPSIM_TIME_XCDS][HIPSIM_TIME_PARTS];
    double loop_bound;     /* lower bound of the hottest loop, clocks per iteration; 0: no loop */
    double loop_cycles;    /* modelled clocks per iteration of the hottest loop */
    uint64_t issue_cycles; /* cycles in which waves of the timed workgroups issue, summed */
    uint64_t stall_cycles[HIPSIM_STALL_COUNT];
    double valu_busy; /* part of the timed workgroups' clocks in which a SIMD's VALU port is busy,
                          * matrix instructions left out; 0 to 1 */
    double lds_conflict; /* part of the clocks of busy LDS banks that conflicts take, 0 to 1 */
    double l2_hit;       /* part of the L2's transfers that need no line of MALL or HBM, 0 to 1 */
    double hbm_bytes;    /* bytes of `memory_bytes` that HBM transfers, not the MALL */
};

/** Copies the report of the process's last timed launch to `report`, as far as its size goes.
 *  Members that this library does not have become 0. Returns false if there is no such launch, or
 *  no size. */
HIPSIM_API bool hipsim_time_last(struct hipsim_time_report *report);

/** Writes a report as text, a dozen lines. Returns what snprintf() would; -1 if the report has no
 *  size. */
HIPSIM_API int hipsim_time_format(const struct hipsim_time_report *report, char *text, size_t size);

#ifdef __cplusplus
}
#endif

#endif
