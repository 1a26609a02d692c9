/* SPDX-License-Identifier: Apache-2.0
 *
 * Verification of kernels: what its parts share. An op's shapes, inputs and bounds are one file,
 * <op>.c. `attnc verify` chooses the device and walks over a pack.
 */
#ifndef TOOLS_VERIFY_VERIFY_H
#define TOOLS_VERIFY_VERIFY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/attn.h"

struct verify_schema;

/** A GPU as reports name it. */
struct gpu_identity {
    char name[128];    /* name from HIP */
    char target[16];   /* such as "gfx942" */
    char library[256]; /* file name of the HIP runtime */
    int hip_version;   /* hipRuntimeGetVersion() */
    bool simulated;    /* true: the library is hipsim, under any name */
};

/** Identifies a device by calls of the loaded HIP library, not by the environment. */
void gpu_identify(const struct attn_device *device, struct gpu_identity *id);

/** A GPU for verification: libattn's device, and HIP's memory functions from the same library. */
struct gpu {
    const char *target; /* such as "gfx942" */
    struct attn_device *device;
    struct gpu_identity id;
    char title[480]; /* the identity in one line, for the head of the table */
    int (*hipMalloc)(void **p, size_t size);
    int (*hipFree)(void *p);
    int (*hipMemcpy)(void *to, const void *from, size_t size, int kind);
    int (*hipDeviceSynchronize)(void);
    const char *(*hipGetErrorName)(int error);
};

/** The GPU to open. */
struct gpu_choice {
    /* Path of the simulator's HIP library; NULL: the machine's HIP runtime. */
    const char *target;
    const char *simulator; /* path of a simulator's HIP library; NULL: the machine's HIP runtime */
    const char *checks;    /* the simulator's checks, such as "on"; a finding ends its launch */
    const char *part;      /* the GPU model to simulate, such as "mi308x"; NULL: the target's first
                            * one in tools/hipsim/core/gfx_parts.def */
};

/** Opens the first GPU of the target, with the kernels of `pack`. Returns false with a sentence in
 * `why` on failure. */
bool gpu_open(struct gpu *gpu, const struct gpu_choice *choice, struct attn_pack *pack, char *why,
              size_t why_size);
/** Closes the device of a GPU. */
void gpu_close(struct gpu *gpu);

/** Sets the function pointer at `slot` to the function `name` of a library from dlopen(). Returns
 * false if it has none. */
bool gpu_find_function(void *library, const char *name, void *slot);

/** Finds the simulator that was built or installed beside this program. Returns false if there is
 * none. */
bool gpu_find_simulator(char *path, size_t size);

/** One line of the table of results. */
struct verify_row {
    const char *kernel;
    const char *shape;
    /* Root of the sum of squared errors of all results, and its bound; both relative to the
     * results' norm. */
    double relative, relative_bound;
    /* Error of the element that is closest to its bound, and that bound; absolute. */
    double largest, largest_bound;
    char fault[400]; /* why it fails; "": it passes */
    bool elsewhere;  /* the pack's table selects another kernel for these arguments, so the row is
                       omitted */
};

/** Sets the reason why a row fails, unless it has one. */
void verify_fail(struct verify_row *row, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** Appends a reason to the reasons why a row fails. */
void verify_fail_too(struct verify_row *row, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** The verification of a target's kernels. */
struct verify_run {
    const struct attn_pack *pack;
    struct gpu *gpu;
    const struct verify_schema *schema; /* of the kernel being verified */
    uint64_t seed;                      /* seed of the inputs' random numbers */
    const char *hooks;                  /* directory of users' logits functions, or NULL */
    int name_width;                     /* width of the table's first column in characters */
    size_t rows, failures; /* lines printed, and lines that failed; counted by verify_report() */
    size_t enough;         /* rows after which a kernel is done; 0: all shapes run */
    double worst;          /* largest error relative to its bound, set by verify_report() */

    /** The callback for each row. `row->fault` says whether the row failed. */
    void (*print)(const struct verify_run *run, const struct verify_row *row);
};

/** Verifies the n-th kernel of the pack on its shapes, or on the first `shapes` of them if that is
 * not 0. A kernel without a shape gets a row that says so. */
void verify_kernel(struct verify_run *run, uint32_t n, const struct attn_kernel_info *info,
                   size_t shapes);

/** Counts a row and passes it to run->print, unless it is another kernel's. */
void verify_report(struct verify_run *run, const struct verify_row *row);

/** True if the kernel has fewer rows than --shapes requests. */
bool verify_wants_more(const struct verify_run *run);

/** Reports a row for a kernel for which no shape can be made. */
void verify_report_fault(struct verify_run *run, const char *kernel, const char *fault);

struct device_memory;

/**
 * True if a lookup selects this kernel or one of the same key among which calls choose. True also
 * for an error, which verify_launch() will report.
 */
bool verify_takes(const struct verify_run *run, const void *desc, const char *kernel);

/** Looks up the run's op, launches it with arguments in `m`, and waits. Returns false if a call
 * failed, or if the pack's table selects another kernel and the launch is not `aside`. The row then
 * has the reason. */
bool verify_launch(const struct verify_run *run, struct device_memory *m, const void *desc,
                   const void *args, bool aside, struct verify_row *row);

/** True if all copies to and from `m` succeeded. Otherwise the row has the failed call. */
bool verify_copied(const struct device_memory *m, struct verify_row *row);

/** Returns the value of a field of the n-th kernel's key, or "". */
const char *verify_field(const struct attn_pack *pack, uint32_t n, const char *field);

/** True if a field of the n-th kernel's key is "true". */
bool verify_flag(const struct attn_pack *pack, uint32_t n, const char *field);

/** Returns the index of a field's value among `count` names; 0 if it is none of them. */
int verify_number_of(const struct attn_pack *pack, uint32_t n, const char *field,
                     const char *const *names, int count);

/** Calls verify_number_of() with the names as further arguments. */
#define VERIFY_NUMBER_OF(pack, n, field, ...)                            \
    verify_number_of(pack, n, field, (const char *const[]){__VA_ARGS__}, \
                     sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))

#endif
