/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules that suppress findings: a file of lines, each a list of `key=value` separated by blanks.
 *
 *     check=race kernel=mla_* pc=entry+1024
 *     check=uninit source=*fp16.h:*
 *
 * A finding is suppressed if all keys of one line match it. `kernel` and `source` are patterns of
 * fnmatch(3); `source` is matched against "file:line" of the instruction and of every call that it
 * was inlined through, and takes the rest of the line, since paths may contain blanks. Empty lines
 * and those that begin with # are ignored.
 */
#ifndef HIPSIM_HIP_RULES_H
#define HIPSIM_HIP_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "source_line.h"

/* The place of a finding, with which rules are compared. */
struct finding_place {
    const char *check;
    const char *kernel;
    int64_t offset; /* of the instruction from the kernel's entry */
    const struct source_place *source;
    unsigned nsource;
};

struct rules;

/** Reads a file of rules. NULL with a sentence in `why` if it cannot be read or has a wrong
 * line. */
struct rules *rules_read(const char *path, char *why, size_t why_size);
void rules_destroy(struct rules *rules);

/** Does a rule suppress what was found there? `rules` may be NULL. Any thread. */
bool rules_match(const struct rules *rules, const struct finding_place *place);

/** Writes the rule that suppresses exactly this place. */
void rules_write(FILE *file, const struct finding_place *place);

#endif
