/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares facts about the machine that results come from: its GPU as HIP and the kernel
 * driver name it, and its host.
 */
#ifndef TOOLS_ATTNC_MACHINE_H
#define TOOLS_ATTNC_MACHINE_H

#include <stdbool.h>

#include "tools/attnc/cli/json.h"
#include "tools/verify/verify.h"

/** Facts about the first GPU that HIP reports. */
struct machine_gpu {
    struct gpu_identity id;
    int hip_driver;    /* hipDriverGetVersion(), 0: not said */
    int compute_units; /* that HIP sees: fewer than the chip's where it is partitioned */
    int engine_khz;    /* highest clock of the compute units, 0: not said */
    int memory_khz;    /* highest clock of the memory, 0: not said */
    char pci[32];      /* "0000:05:00.0"; "": not said */
};

/**
 * Sets *gpu to the facts of the machine's first GPU, in a child process. With a path `simulator` it
 * is the simulator's GPU of `target`. False: `why` has a sentence.
 */
bool machine_find_gpu(const char *simulator, const char *target, struct machine_gpu *gpu,
                      char why[200]);

/** Writes the members "gpu", "driver" and "host" into an open object. */
void machine_write(struct json *j, const struct machine_gpu *gpu);

#endif
