/* SPDX-License-Identifier: Apache-2.0
 *
 * Verification of kernels against references in double precision: the functions that all files of
 * this folder share. <op>.c has the shapes, inputs and error bounds of one op. `attnc verify`
 * chooses the device and verifies each kernel of a pack.
 */
#ifndef TOOLS_VERIFY_VERIFY_H
#define TOOLS_VERIFY_VERIFY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/attn.h"

struct verify_schema;

/** The identity of a GPU, as reports print it. */
struct gpu_identity {
    char name[128];    /* name of the GPU from HIP */
    char target[16];   /* such as "gfx942" */
    char library[256]; /* file name of the HIP runtime */
    int hip_version;   /* hipRuntimeGetVersion() */
    bool simulated;    /* true: the library is hipsim, under any name */
};

/** Sets `id` to the identity of a device. Asks the loaded HIP library, not the environment. */
void gpu_identify(const struct attn_device *device, struct gpu_identity *id);

/** A GPU for verification: libattn's device, and HIP's memory functions from the same library. */
struct gpu {
    const char *target; /* such as "gfx942" */
    struct attn_device *device;
    struct gpu_identity id;
    char title[480]; /* the identity in one line, for the heading of the table of results */
    int (*hipMalloc)(void **p, size_t size);
    int (*hipFree)(void *p);
    int (*hipMemcpy)(void *to, const void *from, size_t size, int kind);
    int (*hipDeviceSynchronize)(void);
    const char *(*hipGetErrorName)(int error);
};

/** The choice of the GPU to open. */
struct gpu_choice {
    const char *target;    /* such as "gfx942" */
    const char *simulator; /* path of a simulator's HIP library; NULL: the machine's HIP runtime */
    /* setting `checks` of the simulator, such as "on"; a finding ends the launch */
    const char *checks;
    /* the GPU model to simulate, such as "mi308x"; NULL: the target's first model in
     * tools/hipsim/core/gfx_parts.def */
    const char *part;
    unsigned threads; /* host threads of the simulator; 0: one per core */
};

/** Opens the first GPU of the target with the kernels of `pack`. Returns false and writes a
 * sentence to `why` on failure. */
bool gpu_open(struct gpu *gpu, const struct gpu_choice *choice, struct attn_pack *pack, char *why,
              size_t why_size);
/** Closes the device of a GPU. */
void gpu_close(struct gpu *gpu);

/** Sets the function pointer at `slot` to the function `name` of a library from dlopen(). Returns
 * false if the library lacks the function. */
bool gpu_find_function(void *library, const char *name, void *slot);

/** Writes the path of the simulator that was built or installed beside this program to `path`.
 * Returns false if there is none. */
bool gpu_find_simulator(char *path, size_t size);

/** One line of the table of results: a kernel on a shape. */
struct verify_row {
    /* Names of the kernel and of the shape. */
    const char *kernel;
    const char *shape;
    /* Root of the sum of squared errors of all elements, and its bound; both divided by the norm of
     * the expected values. */
    double relative, relative_bound;
    /* Absolute error of the element that is closest to its bound, and the bound of that element. */
    double largest, largest_bound;
    char fault[400]; /* reasons why the row fails; "": it passes */
    /* true: the pack's table selects another kernel for these arguments, so the row is not
     * printed */
    bool elsewhere;
};

/** Sets the reason why a row fails, unless the row has a reason already. */
void verify_fail(struct verify_row *row, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** Appends a reason to the reasons why a row fails. */
void verify_fail_too(struct verify_row *row, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** The state of a run that verifies the kernels of a target. */
struct verify_run {
    const struct attn_pack *pack;
    struct gpu *gpu;
    const struct verify_schema *schema; /* schema of the op of the current kernel */
    uint64_t seed;                      /* seed of the inputs' random numbers */
    /* directory with the sources of users' logits functions; NULL: none was given */
    const char *hooks;
    /* Widths of the table's first two columns in characters: names of kernels, names of shapes. */
    int name_width, shape_width;
    unsigned threads;      /* threads that compare results; 0: one per core */
    size_t rows, failures; /* lines printed, and lines that failed; counted by verify_report() */
    size_t enough;         /* rows after which a kernel is done; 0: all shapes run */
    /* One in `every` of a kernel's shapes runs, from the shape at place `turn` (modulo `every`) on.
     * Others run if none of these chooses the kernel. 0 or 1: all shapes run. */
    size_t every, turn;
    double worst; /* largest error relative to its bound, set by verify_report() */

    /** Prints a row. The row failed if row->fault is not "". */
    void (*print)(const struct verify_run *run, const struct verify_row *row);
};

/** Verifies the n-th kernel of the pack on its shapes, or on the first `shapes` of them if that is
 * not 0. A kernel without a shape gets a row that says so. */
void verify_kernel(struct verify_run *run, uint32_t n, const struct attn_kernel_info *info,
                   size_t shapes);

/** Returns the name of a stage that calls of kernel `n` have and no kernel of the pack has. The op
 * of kernel `n` is `op`. Returns NULL if there is none; otherwise the kernel cannot be verified. */
const char *verify_lacks(const struct attn_pack *pack, uint32_t n, const char *op);

/** Returns the characters of the longest name of a shape of `op`; 1, for the name "-", if the op
 * has no reference. */
size_t verify_shape_width(const char *op);

/** Counts a row and passes it to run->print. Does nothing if row->elsewhere is true. */
void verify_report(struct verify_run *run, const struct verify_row *row);

/** True if the kernel has fewer rows than --shapes requests. */
bool verify_wants_more(const struct verify_run *run);

/** Reports a row for a kernel for which no shape can be made. */
void verify_report_fault(struct verify_run *run, const char *kernel, const char *fault);

struct device_memory;

/**
 * True if a lookup of `desc` finds `kernel`, or another kernel with the same key. Each call then
 * selects one of them. Also true if the lookup fails: verify_launch() then reports the error.
 */
bool verify_takes(const struct verify_run *run, const void *desc, const char *kernel);

/** Looks up the op of run->schema, launches it with `args`, whose pointers lead to memory in `m`,
 * and waits. Returns false with the reason in `row` if a call failed. Unless `aside` is true, it
 * also returns false if the pack's table selects another kernel. */
bool verify_launch(const struct verify_run *run, struct device_memory *m, const void *desc,
                   const void *args, bool aside, struct verify_row *row);

/** True if all copies to and from `m` succeeded. Otherwise `row` gets the error. */
bool verify_copied(const struct device_memory *m, struct verify_row *row);

/** Returns the value of a field of the n-th kernel's dispatch key; "" if the key lacks the
 * field. */
const char *verify_field(const struct attn_pack *pack, uint32_t n, const char *field);

/** True if a field of the n-th kernel's dispatch key is "true". */
bool verify_flag(const struct attn_pack *pack, uint32_t n, const char *field);

/** Returns the index in `names` of the value of a field of the n-th kernel's dispatch key; 0 if the
 * value is none of the `count` names. */
int verify_number_of(const struct attn_pack *pack, uint32_t n, const char *field,
                     const char *const *names, int count);

/** Calls verify_number_of() with the names as further arguments. */
#define VERIFY_NUMBER_OF(pack, n, field, ...)                            \
    verify_number_of(pack, n, field, (const char *const[]){__VA_ARGS__}, \
                     sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))

#endif
