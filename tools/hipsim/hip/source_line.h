/* SPDX-License-Identifier: Apache-2.0 */
/* Source lines of a code object that was compiled with -g or -gline-tables-only. */
#ifndef HIPSIM_SOURCE_LINE_H
#define HIPSIM_SOURCE_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct source_lines;

/** Keeps a copy of an ELF image that has a line table. NULL if it has none, or no memory. */
struct source_lines *source_lines_create(const void *image, size_t size);
void source_lines_destroy(struct source_lines *lines);

/** Writes "file:line" for a virtual address. False if the table has no line for it. Any thread. */
bool source_lines_find(struct source_lines *lines, uint64_t address, char *text, size_t size);

#endif
