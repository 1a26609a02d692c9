/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The timing model's interface, exported by the library that exports HIP. Everything here is
 * modelled, never measured: it compares kernels on one model. docs/timing.md describes it.
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
    HIPSIM_STALL_DEPENDENCY, /* the previous instruction of the wave: s_nop and the like */
    HIPSIM_STALL_VALU,       /* VALU port taken */
    HIPSIM_STALL_MATRIX,     /* matrix unit taken */
    HIPSIM_STALL_SHADOW,     /* VALU port closed by a matrix instruction */
    HIPSIM_STALL_RESULT,     /* result of a matrix instruction */
    HIPSIM_STALL_SCALAR,     /* scalar or branch port */
    HIPSIM_STALL_LDS_QUEUE,  /* memory port, or the LDS queue of the SIMD pair is full */
    HIPSIM_STALL_VMEM_QUEUE, /* the queue of the L1 is full */
    HIPSIM_STALL_COUNTER,    /* as many outstanding operations as the counter can count */
    HIPSIM_STALL_WAIT_LDS,   /* s_waitcnt lgkmcnt */
    HIPSIM_STALL_WAIT_VMEM,  /* s_waitcnt vmcnt */
    HIPSIM_STALL_BARRIER,
    HIPSIM_STALL_FETCH, /* instruction cache miss, branch refill */
    HIPSIM_STALL_SLEEP,
    HIPSIM_STALL_COUNT,
};

/** Short name, "vmem wait". */
HIPSIM_API const char *hipsim_stall_name(enum hipsim_stall stall);

struct hipsim_time_options {
    /** Workgroups that are executed in time, at most; the others follow from them. 0: 8. */
    uint32_t samples;
    /** Execute only the sampled workgroups: what the others would have written is missing. For
     *  studies of grids too large to execute. */
    bool samples_only;
    /** Changes to the parameters, "trans_cycles=8,hbm_ns=400". NULL: none. */
    const char *parameters;
    /** Write a trace of the first sampled workgroups to this file, for Perfetto or Chrome's
     *  about:tracing: a track per wave, counters of the units. NULL: none. */
    const char *trace_path;
    /** Write the disassembly with cycles and stalls per line to this file. NULL: none. */
    const char *annotate_path;
};

/** Times the launches from now on; NULL stops. False with a sentence in `why` (may be NULL) when
 *  `parameters` names something unknown. */
HIPSIM_API bool hipsim_time_enable(const struct hipsim_time_options *options, char *why,
                                   size_t why_size);

enum { HIPSIM_TIME_XCDS = 8, HIPSIM_TIME_PARTS = 64 };

/* One timed launch. All figures are modelled. */
struct hipsim_time_report {
    char kernel[128];
    char target[16];
    uint64_t workgroups;
    uint64_t sampled;           /* of them executed in time */
    bool complete;              /* all workgroups were executed */
    bool together;              /* and all in time, on all compute units at once */
    uint32_t workgroups_per_cu; /* occupancy */
    uint32_t waves_per_simd;
    double cycles;           /* of the launch on the device, without launch overhead */
    double workgroup_cycles; /* of the first sample */
    double launch_us;        /* overhead, part of both times */
    double max_mhz, us_at_max;
    double power_mhz, us_at_power;  /* the clock of the power law */
    double matrix_duty;             /* of the hottest loop's time: matrix units busy */
    double matrix_fraction;         /* of the device's matrix roofline, whole launch */
    double memory_fraction;         /* of the peak HBM bandwidth, at the power clock */
    double memory_gb_per_s;         /* what the model attains of HBM: first loads, and stores */
    double memory_bytes;            /* that reach MALL or HBM */
    double load_bytes, store_bytes; /* that instructions asked for; lanes at one address once */
    double l2_sharers;              /* workgroups of an XCD that read the same lines; 0: together */
    double tail;                    /* 1 - busy / (compute units * cycles) */
    /* Over the time of the launch, cut into equal parts: how much of each XCD's room for workgroups
     * was taken, 0 to 1. All 0 beyond 2^22 workgroups. */
    uint32_t xcds;
    float taken[HIPSIM_TIME_XCDS][HIPSIM_TIME_PARTS];
    double loop_bound;     /* of the hottest loop, clocks per iteration; 0: no loop */
    double loop_cycles;    /* modelled clocks per iteration of it */
    uint64_t issue_cycles; /* wave cycles of the samples */
    uint64_t stall_cycles[HIPSIM_STALL_COUNT];
};

/** The last timed launch of the process. False if there is none. */
HIPSIM_API bool hipsim_time_last(struct hipsim_time_report *report);

/** Writes a report as text, a dozen lines. Returns what snprintf() would. */
HIPSIM_API int hipsim_time_format(const struct hipsim_time_report *report, char *text, size_t size);

#ifdef __cplusplus
}
#endif

#endif
