/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hipsim's own interface, exported by the same library that exports HIP.
 *
 * A program that knows it runs on the simulator calls these; one that does not can be configured
 * with the environment variable HIPSIM, which holds the same text as hipsim_configure() takes and
 * is read once, at the first HIP call. All functions may be called from any thread.
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
 * Target, devices and memory can only be set before the first call that needs a device. Returns
 * false and writes a sentence to `why` (may be NULL) if a key or a value is not understood; then
 * nothing is changed. options.def lists the keys.
 */
HIPSIM_API bool hipsim_configure(const char *text, char *why, size_t why_size);

/* A finding of a check, or the reason of a failed call. Pointers are valid during the callback. */
struct hipsim_report {
    const char *kind;   /* a check's name, "api" for a refused call, "note" for what is no error */
    const char *kernel; /* NULL for "api" */
    uint32_t workgroup[3];
    uint32_t wave;
    uint64_t lanes;
    uint64_t pc;
    const char *text; /* the whole report, one or more lines */
};

/** Receives every report instead of standard error. NULL: standard error again. Called in the
 *  thread that made the HIP call, which must not make others from inside. */
HIPSIM_API void hipsim_set_report(void (*report)(void *ctx, const struct hipsim_report *report),
                                  void *ctx);

/* The margin between a use and the arrival of data that the kernel had not waited for: with other
 * latencies it would use other values. */
struct hipsim_margin {
    bool any;
    uint32_t clocks; /* the least between the use and the arrival */
    int64_t offset;  /* of the instruction, in bytes from the start of the code */
};

/* One finished kernel launch. */
struct hipsim_launch_stats {
    size_t size;        /* sizeof(struct hipsim_launch_stats), set by the caller */
    const char *kernel; /* valid as long as its module */
    uint32_t grid[3];   /* work-items */
    uint32_t block[3];
    uint32_t lds_bytes;
    uint32_t vgprs, agprs, sgprs, private_bytes;
    uint64_t workgroups, waves;
    uint64_t instructions, salu, valu, mfma, vmem, smem, lds, branch;
    double microseconds; /* modelled */
    int device;
    struct hipsim_margin lds_before, lds_after; /* uses of registers before, after LDS data came */
    uint64_t findings; /* what the checks found and did not halt at, counting repetitions */
    /* Uses of registers before and after data of vector memory came, and of LDS bytes before. */
    struct hipsim_margin vector_before, vector_after;
};

/** Copies figures of the calling thread's last launch to `stats`, as far as its size goes; members
 *  that this library does not have become 0. Returns false if there is no launch, or no size. */
HIPSIM_API bool hipsim_last_launch(struct hipsim_launch_stats *stats);

/** Modelled time of a device: when its last submitted work ends, in microseconds from the start of
 *  the program. Negative if there is no such device. */
HIPSIM_API double hipsim_device_time(int device);

/** Makes the n-th HIP call from now (1: the next one), by any thread, fail with `error` and do
 *  nothing. 0 disarms. */
HIPSIM_API void hipsim_fail_call(uint64_t nth, int error);

/**
 * Returns the number of findings so far in launches that went on (option halt), counting
 * repetitions; reports are made once per place. Such launches return hipSuccess: a program that
 * must fail on findings asks here before it ends.
 */
HIPSIM_API uint64_t hipsim_findings(void);

/** HIP calls made so far. */
HIPSIM_API uint64_t hipsim_call_count(void);

/** Allocations that are live on a device, and their bytes: to find leaks in tests. */
HIPSIM_API uint64_t hipsim_live_bytes(int device);

#ifdef __cplusplus
}
#endif

#endif
