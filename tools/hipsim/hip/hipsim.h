/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hipsim's own interface, which the library exports beside HIP.
 *
 * A program that knows the simulator calls these functions. Any program can be configured with the
 * environment variable HIPSIM, which has a text for hipsim_configure(). It is read once, at the
 * first HIP call. All functions may be called from any thread.
 */
#ifndef HIPSIM_H
#define HIPSIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HIPSIM_API __attribute__((visibility("default")))

/**
 * Sets options, for example "target=gfx950,checks=off,seed=3". Later texts override earlier ones.
 * Target, devices and memory can only be set before the first call that needs a device. If a key or
 * a value is unknown, the result is false and nothing changes; `why`, of `why_size` bytes, gets a
 * sentence (NULL: it does not). options.def lists the keys.
 */
HIPSIM_API bool hipsim_configure(const char *text, char *why, size_t why_size);

/* A finding of a check, or the reason of a failed call. The pointers are valid during the callback
 * only. */
struct hipsim_report {
    const char *kind;   /* name of a check; "api" for a refused call; "note" for a remark */
    const char *kernel; /* name of the kernel; NULL for "api" */
    uint32_t workgroup[3];
    uint32_t wave;
    uint64_t lanes;   /* mask of the lanes at fault; 0: no lane in particular */
    uint64_t pc;      /* address of the instruction */
    const char *text; /* the whole report, one line or more */
};

/** Sets a callback that receives every report; NULL: reports go to standard error. It is called in
 * the thread of the HIP call and must not make HIP calls. `ctx` is passed to it. */
HIPSIM_API void hipsim_set_report(void (*report)(void *ctx, const struct hipsim_report *report),
                                  void *ctx);

/* The least time between the use of loaded data without a wait and their arrival. With other
 * latencies the kernel would use other values. */
struct hipsim_margin {
    bool any;
    uint32_t clocks; /* clocks between the use and the arrival */
    int64_t offset;  /* byte offset of the instruction from the start of the code */
};

/* Figures of a finished kernel launch. */
struct hipsim_launch_stats {
    size_t size;        /* sizeof(struct hipsim_launch_stats), set by the caller */
    const char *kernel; /* name of the kernel, valid as long as its module */
    uint32_t grid[3];   /* work-items by dimension */
    uint32_t block[3];
    uint32_t lds_bytes;
    uint32_t vgprs, agprs, sgprs, private_bytes;
    uint64_t workgroups, waves;
    uint64_t instructions, salu, valu, mfma, vmem, smem, lds, branch;
    double microseconds; /* modelled time in microseconds */
    int device;
    /* least times of uses of registers before, and after, data from LDS arrived */
    struct hipsim_margin lds_before, lds_after;
    uint64_t findings; /* findings at which the launch did not halt, with repetitions */
    /* Margins of vector memory: least times of uses of registers and LDS bytes before the arrival,
     * and of registers after it. */
    struct hipsim_margin vector_before, vector_after;
};

/** Sets *stats to the calling thread's last launch. False if it has launched nothing. */
HIPSIM_API bool hipsim_last_launch(struct hipsim_launch_stats *stats);

/** Returns the modelled time at which device `device`'s last submitted work ends, in microseconds
 * from the start of the program. Negative if there is no such device. */
HIPSIM_API double hipsim_device_time(int device);

/** Makes the n-th HIP call from now on (1: the next one), in any thread, fail with `error` and
 * without effect. 0 cancels that. */
HIPSIM_API void hipsim_fail_call(uint64_t nth, int error);

/**
 * Returns the number of findings so far in launches that continued (option halt), with repetitions.
 * Each place is reported once. Such launches return hipSuccess, so a program that must fail on
 * findings calls this before it ends.
 */
HIPSIM_API uint64_t hipsim_findings(void);

/** Returns the number of HIP calls so far. */
HIPSIM_API uint64_t hipsim_call_count(void);

/** Returns the bytes of live allocations on device `device`, for tests that search leaks. 0 for a
 * negative number. */
HIPSIM_API uint64_t hipsim_live_bytes(int device);

#ifdef __cplusplus
}
#endif

#endif
