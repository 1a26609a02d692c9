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
    char name[128];    /* what HIP calls it */
    char target[16];   /* "gfx942" */
    char library[256]; /* the file of the HIP runtime */
    int hip_version;   /* hipRuntimeGetVersion() */
    bool simulated;    /* the library is hipsim, under whatever name it was found */
};

/** Says which GPU a device is; asks the HIP library that is loaded, not the environment. */
void gpu_identify(const struct attn_device *device, struct gpu_identity *id);

/** A GPU for verification: libattn's device, and HIP's memory functions from the same library. */
struct gpu {
    const char *target; /* "gfx942" */
    struct attn_device *device;
    struct gpu_identity id;
    char title[480]; /* the identity in a line */
    int (*hipMalloc)(void **p, size_t size);
    int (*hipFree)(void *p);
    int (*hipMemcpy)(void *to, const void *from, size_t size, int kind);
    int (*hipDeviceSynchronize)(void);
    const char *(*hipGetErrorName)(int error);
};

/**
 * Opens the first GPU of this target: `simulator` is the path of a simulator's HIP library, or NULL
 * for the HIP runtime of the machine. `checks` is the simulator's option of that name; each finding
 * of them ends its launch. False: a sentence in `why`.
 */
bool gpu_open(struct gpu *gpu, const char *simulator, const char *checks, const char *target,
              struct attn_pack *pack, char *why, size_t why_size);
void gpu_close(struct gpu *gpu);

/** Sets the function pointer at `slot` to a function of a library that dlopen() gave. False where
 * it has none of this name. */
bool gpu_find_function(void *library, const char *name, void *slot);

/** The simulator that was built or installed beside this program; false where there is none. */
bool gpu_find_simulator(char *path, size_t size);

/** One line of the table. */
struct verify_row {
    const char *kernel;
    const char *shape;
    double relative, relative_bound;
    double largest, largest_bound; /* of the element that comes closest to its bound */
    char fault[400];               /* why it fails, "": it passes */
    bool elsewhere; /* by the pack's table these arguments are another kernel's: no row at all */
};

/** Notes why a kernel fails, unless there is a reason already. */
void verify_fail(struct verify_row *row, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** Notes a reason behind one that there may be already. */
void verify_fail_too(struct verify_row *row, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** A walk over the kernels of one target. */
struct verify_run {
    const struct attn_pack *pack;
    struct gpu *gpu;
    const struct verify_schema *schema; /* of the kernel that is verified */
    uint64_t seed;
    const char *hooks;     /* directory of users' logits functions, or NULL */
    int name_width;        /* of the table's first column */
    size_t rows, failures; /* counted by verify_report() */
    size_t enough;         /* rows after which the kernel needs no more; 0: it needs all */
    double worst;          /* the largest error as a part of its bound, by verify_report() */

    /** Called for each row; `row->fault` says whether it failed. */
    void (*print)(const struct verify_run *run, const struct verify_row *row);
};

/** Verifies the n-th kernel of the pack on all shapes that are for it, or on `shapes` of them where
 * that is not 0. A kernel without any has a row that says so. */
void verify_kernel(struct verify_run *run, uint32_t n, const struct attn_kernel_info *info,
                   size_t shapes);

/** Counts a row and hands it to run->print, unless it is another kernel's. */
void verify_report(struct verify_run *run, const struct verify_row *row);

/** Has the kernel fewer rows than --shapes asks for? */
bool verify_wants_more(const struct verify_run *run);

/** A row for a kernel that no shape can be made for. */
void verify_report_fault(struct verify_run *run, const char *kernel, const char *fault);

struct device_memory;

/**
 * Does a lookup give this kernel, or one of the same key among which calls choose, or an error that
 * verify_launch() will report?
 */
bool verify_takes(const struct verify_run *run, const void *desc, const char *kernel);

/**
 * Looks the run's op up, launches it with arguments that lie in `m`, and waits. False: the row says
 * what failed, or that the pack's table gives these arguments to another kernel.
 */
bool verify_launch(const struct verify_run *run, struct device_memory *m, const void *desc,
                   const void *args, struct verify_row *row);

/** Did what was copied to and from `m` arrive? Else the row says why not. */
bool verify_copied(const struct device_memory *m, struct verify_row *row);

/** The value of a field of the n-th kernel's key, or "". */
const char *verify_field(const struct attn_pack *pack, uint32_t n, const char *field);

/** Is a field of the n-th kernel's key "true"? */
bool verify_flag(const struct attn_pack *pack, uint32_t n, const char *field);

/** The number of a field's value among `count` names, 0 where it is none of them. */
int verify_number_of(const struct attn_pack *pack, uint32_t n, const char *field,
                     const char *const *names, int count);

/** verify_number_of() with the names as further arguments. */
#define VERIFY_NUMBER_OF(pack, n, field, ...)                            \
    verify_number_of(pack, n, field, (const char *const[]){__VA_ARGS__}, \
                     sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))

#endif
