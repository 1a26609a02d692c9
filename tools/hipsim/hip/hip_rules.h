/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file declares rules that suppress findings. A file has one rule a line, a list of
 * `key=value` separated by blanks.
 * |    check=race kernel=mla_* pc=entry+1024
 * |    check=uninit source=*fp16.h:*
 * A finding is suppressed if all keys of one line match it. `kernel` and `source` are patterns of
 * fnmatch(3). `source` is compared with "file:line" of the instruction and of every call through
 * which it was inlined. It extends to the end of the line, since paths may contain blanks. Empty
 * lines and lines that begin with # are ignored.
 */
#ifndef HIPSIM_HIP_RULES_H
#define HIPSIM_HIP_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "source_line.h"

/* The place of a finding, which is compared with rules. */
struct finding_place {
    const char *check;
    const char *kernel;
    int64_t offset; /* bytes from the kernel's entry to the instruction */
    const struct source_place *source;
    unsigned nsource;
};

struct rules;

/** Reads a file of rules. NULL, with a sentence in `why`, if the file cannot be read or has a wrong
 * line. */
struct rules *rules_read(const char *path, char *why, size_t why_size);
void rules_destroy(struct rules *rules);

/** True if a rule suppresses a finding at this place. `rules` may be NULL. Any thread may call
 * it. */
bool rules_match(const struct rules *rules, const struct finding_place *place);

/** Writes the rule that suppresses exactly this place. */
void rules_write(FILE *file, const struct finding_place *place);

#endif
