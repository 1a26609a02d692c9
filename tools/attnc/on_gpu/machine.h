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
    int hip_driver;    /* hipDriverGetVersion(); 0: not reported */
    int compute_units; /* as HIP reports them: fewer than the chip has if it is partitioned */
    int engine_khz;    /* highest clock of the compute units in kHz; 0: not reported */
    int memory_khz;    /* highest clock of the memory in kHz; 0: not reported */
    char pci[32];      /* "0000:05:00.0"; "": not said */
};

/** Sets *gpu to the facts of the machine's first GPU, in a child process. With a path `simulator`
 * it is the simulator's GPU of `target`. Returns false with a sentence in `why` on failure. */
bool machine_find_gpu(const char *simulator, const char *target, struct machine_gpu *gpu,
                      char why[200]);

/** Writes the members "gpu", "driver" and "host" into an open object. */
void machine_write(struct json *j, const struct machine_gpu *gpu);

#endif
