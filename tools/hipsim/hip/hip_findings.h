/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Findings of the process: reports with source lines, suppression by rules, and counts per kernel.
 * At its end the process writes a JSON file, a file of rules and the summary, and sets the exit
 * status.
 */
#ifndef HIPSIM_HIP_FINDINGS_H
#define HIPSIM_HIP_FINDINGS_H

#include "hip.h"

/** Reads the file of option suppress and creates the files of write_suppress and json, if the
 * options name other files than before. On failure false, with a sentence in `why`. The caller
 * calls hip_findings_settle() after it. */
bool hip_findings_prepare(const struct options *options, char *why, size_t why_size);

/** Puts into use what hip_findings_prepare() prepared for the same options if `ok`; otherwise
 * discards it. */
void hip_findings_settle(const struct options *options, bool ok);

/** Makes the process print the summary and set the exit status when it ends. */
void hip_findings_start(void);

/** Makes a launch compare each place with a finding to the rules. `module` is the kernel's and must
 * exist during the launch. */
void hip_findings_watch(struct launch *launch, const struct ihipModule_t *module);

/** Reports a finding, or the fault that ended a launch. */
void hip_findings_report(const struct launch *launch, const struct ihipModule_t *module,
                         const struct fault *fault);

/** Reports a race between operations of streams. `operation` is the name of the later one. */
void hip_findings_between(const char *operation, const char *text);

/** Adds a finished launch's findings to the counts of its kernel. */
void hip_findings_count(const struct launch *launch);

/** Passes on a report without a place in a kernel: kinds "api" and "note". */
void hip_findings_note(const struct hipsim_report *report);

#endif
