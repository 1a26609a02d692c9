/* SPDX-License-Identifier: Apache-2.0 */
/* Source lines of a code object that was compiled with -g or -gline-tables-only. */
#ifndef HIPSIM_SOURCE_LINE_H
#define HIPSIM_SOURCE_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct source_lines;

/* One line of the chain of an address: where the instruction comes from, then the call that this
 * was inlined through, and so on outwards. */
struct source_place {
    char text[256];    /* "file:line" */
    char function[96]; /* the function that contains the line; empty if it is not known */
};

#define SOURCE_PLACES 8

/** Keeps a copy of an ELF image that has a line table. NULL if it has none, or no memory. */
struct source_lines *source_lines_create(const void *image, size_t size);
void source_lines_destroy(struct source_lines *lines);

/** The source lines of a virtual address, innermost first; returns how many, 0 if the table has
 *  none for it. Any thread. */
unsigned source_lines_find(struct source_lines *lines, uint64_t address,
                           struct source_place places[SOURCE_PLACES]);

#endif
