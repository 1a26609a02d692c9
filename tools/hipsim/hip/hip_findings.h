/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file declares what the process does with findings: reports with source lines, suppression by
 * rules, and counts per kernel. It writes a JSON file, a file of rules and the summary at the end,
 * and sets the exit status.
 */
#ifndef HIPSIM_HIP_FINDINGS_H
#define HIPSIM_HIP_FINDINGS_H

#include "hip.h"

/** Applies the options suppress, write_suppress and json: reads the first file and opens the
 * others. On failure returns false with a sentence in `why` and changes nothing. */
bool hip_findings_configure(const struct options *options, char *why, size_t why_size);

/** Makes the end of the process print the summary and set the exit status. */
void hip_findings_start(void);

/** Makes a launch check the rules for each place with a finding. `module` is the kernel's and
 * outlives the launch. */
void hip_findings_watch(struct launch *launch, const struct ihipModule_t *module);

/** Reports a finding, or the fault that ended a launch. */
void hip_findings_report(const struct launch *launch, const struct ihipModule_t *module,
                         const struct fault *fault);

/** Reports a race between operations of streams. `operation` is the later one. */
void hip_findings_between(const char *operation, const char *text);

/** Adds a finished launch's findings to the counts of its kernel. */
void hip_findings_count(const struct launch *launch);

/** Reports something that concerns no place in a kernel: kinds "api" and "note". */
void hip_findings_note(const struct hipsim_report *report);

#endif
