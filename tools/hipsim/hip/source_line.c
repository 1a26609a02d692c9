/* SPDX-License-Identifier: Apache-2.0 */
/* DWARF line tables, read with elfutils' libdw when a report asks for a line, not before. */
#include "source_line.h"

#include <elfutils/libdw.h>
#include <gelf.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct source_lines {
    pthread_mutex_t lock; /* libdw reads units on demand */
    char *image;
    Elf *elf;
    Dwarf *dwarf; /* NULL until it is asked for, and where the tables are broken */
};

static bool has_line_table(Elf *elf)
{
    size_t names;
    Elf_Scn *section = NULL;

    if (elf_getshdrstrndx(elf, &names) != 0)
        return false;
    while ((section = elf_nextscn(elf, section))) {
        GElf_Shdr header;
        const char *name =
            gelf_getshdr(section, &header) ? elf_strptr(elf, names, header.sh_name) : NULL;
        if (name && strcmp(name, ".debug_line") == 0)
            return true;
    }
    return false;
}

struct source_lines *source_lines_create(const void *image, size_t size)
{
    struct source_lines *lines = calloc(1, sizeof(*lines));

    if (!lines)
        return NULL;
    pthread_mutex_init(&lines->lock, NULL);
    elf_version(EV_CURRENT);
    lines->image = malloc(size ? size : 1);
    if (lines->image) {
        memcpy(lines->image, image, size);
        lines->elf = elf_memory(lines->image, size);
    }
    if (lines->elf && has_line_table(lines->elf))
        return lines;
    source_lines_destroy(lines);
    return NULL;
}

void source_lines_destroy(struct source_lines *lines)
{
    if (!lines)
        return;
    dwarf_end(lines->dwarf);
    elf_end(lines->elf);
    free(lines->image);
    pthread_mutex_destroy(&lines->lock);
    free(lines);
}

/* The unit by its ranges; -gline-tables-only may leave out the index that dwarf_addrdie() reads. */
static bool find_unit(Dwarf *dwarf, uint64_t address, Dwarf_Die *unit)
{
    Dwarf_CU *cu = NULL;

    while (dwarf_get_units(dwarf, cu, &cu, NULL, NULL, unit, NULL) == 0)
        if (dwarf_haspc(unit, address) == 1)
            return true;
    return false;
}

bool source_lines_find(struct source_lines *lines, uint64_t address, char *text, size_t size)
{
    Dwarf_Die unit;
    int number = 0;
    const char *path = NULL;

    pthread_mutex_lock(&lines->lock);
    if (!lines->dwarf)
        lines->dwarf = dwarf_begin_elf(lines->elf, DWARF_C_READ, NULL);
    Dwarf_Line *line = lines->dwarf && find_unit(lines->dwarf, address, &unit)
                           ? dwarf_getsrc_die(&unit, address)
                           : NULL;
    if (line && dwarf_lineno(line, &number) == 0 && number > 0)
        path = dwarf_linesrc(line, NULL, NULL);
    if (path)
        snprintf(text, size, "%s:%d", path, number);
    pthread_mutex_unlock(&lines->lock);
    return path != NULL;
}
