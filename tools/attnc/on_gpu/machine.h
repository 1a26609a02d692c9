/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares facts about the machine that measured something: its GPU, as HIP and the
 * kernel driver describe it, and its host.
 */
#ifndef TOOLS_ATTNC_MACHINE_H
#define TOOLS_ATTNC_MACHINE_H

#include <stdbool.h>

#include "tools/attnc/cli/json.h"
#include "tools/verify/verify.h"

/** Facts about the first GPU that HIP lists. */
struct machine_gpu {
    struct gpu_identity id;
    int hip_driver;    /* hipDriverGetVersion(); 0: not reported */
    int compute_units; /* as HIP reports them: a partition of the GPU has fewer than the chip */
    int engine_khz;    /* highest clock of the compute units in kHz; 0: not reported */
    int memory_khz;    /* highest clock of the memory in kHz; 0: not reported */
    char pci[32];      /* PCI address in lower case, such as "0000:05:00.0"; "": not reported */
};

/** Fills *gpu with facts about this machine's first GPU, in a child process. If `simulator`, the
 * path of hipsim, is not NULL, the GPU is a simulated one of `target`. On failure returns false,
 * with a sentence in `why`. */
bool machine_find_gpu(const char *simulator, const char *target, struct machine_gpu *gpu,
                      char why[200]);

/** Writes the members "gpu", "driver" and "host" into the open JSON object. */
void machine_write(struct json *j, const struct machine_gpu *gpu);

#endif
