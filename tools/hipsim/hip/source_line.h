/* SPDX-License-Identifier: Apache-2.0 */
/* Source lines of a code object that was compiled with -g or -gline-tables-only. */
#ifndef HIPSIM_SOURCE_LINE_H
#define HIPSIM_SOURCE_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct source_lines;

/* One source line of an address's chain of inlined calls. places[0] is the instruction's own line.
 * Each next entry is the call through which the entry before it was inlined. */
struct source_place {
    char text[256];    /* "file:line" */
    char function[96]; /* function that contains the line; "": unknown */
};

#define SOURCE_PLACES 8

/** Copies an ELF image that has a line table. NULL if it has none, or without memory. */
struct source_lines *source_lines_create(const void *image, size_t size);
void source_lines_destroy(struct source_lines *lines);

/** Stores the virtual addresses at which code of line `line` of any file begins, at most `most`.
 * Returns their number. Any thread may call it. */
unsigned source_lines_addresses(struct source_lines *lines, unsigned line, uint64_t *addresses,
                                unsigned most);

/** Stores the source lines of a virtual address, the innermost first. Returns how many; 0 if the
 * table has none. Any thread may call it. */
unsigned source_lines_find(struct source_lines *lines, uint64_t address,
                           struct source_place places[SOURCE_PLACES]);

#endif
