/* SPDX-License-Identifier: Apache-2.0 */
/* Reads DWARF line tables with elfutils' libdw, at the first report that needs a line. */
#include "source_line.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <gelf.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An ELF image and its line table. */
struct source_lines {
    pthread_mutex_t lock; /* locked, since libdw reads units when it needs them */
    char *image;
    Elf *elf;
    Dwarf *dwarf; /* NULL before its first use, and if the tables are broken */
};

/* True if the file has the section with the line table. */
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

/* Sets *unit to the compilation unit of an address, by the units' ranges. The index that
 * dwarf_addrdie() reads may be missing with -gline-tables-only. */
static bool find_unit(Dwarf *dwarf, uint64_t address, Dwarf_Die *unit)
{
    Dwarf_CU *cu = NULL;

    while (dwarf_get_units(dwarf, cu, &cu, NULL, NULL, unit, NULL) == 0)
        if (dwarf_haspc(unit, address) == 1)
            return true;
    return false;
}

/* Sets the function's name as in the source; mangled names are long and less clear. */
static void name_function(Dwarf_Die *scope, struct source_place *place)
{
    Dwarf_Attribute attribute;
    const char *name = dwarf_formstring(dwarf_attr_integrate(scope, DW_AT_name, &attribute));

    snprintf(place->function, sizeof(place->function), "%s", name ? name : "");
}

/* Sets *place to the line of the call of an inlined function. */
static bool find_call(Dwarf_Die *unit, Dwarf_Die *inlined, struct source_place *place)
{
    Dwarf_Attribute attribute;
    Dwarf_Word file, line;
    Dwarf_Files *files;
    size_t nfiles;

    if (dwarf_formudata(dwarf_attr(inlined, DW_AT_call_file, &attribute), &file) != 0 ||
        dwarf_formudata(dwarf_attr(inlined, DW_AT_call_line, &attribute), &line) != 0 ||
        dwarf_getsrcfiles(unit, &files, &nfiles) != 0 || file >= nfiles)
        return false;
    const char *path = dwarf_filesrc(files, file, NULL, NULL);
    if (!path)
        return false;
    snprintf(place->text, sizeof(place->text), "%s:%u", path, (unsigned)line);
    return true;
}

/* Follows the scopes of the address outwards. places[0] already has its line. Returns the number of
 * places. */
static unsigned find_chain(Dwarf_Die *unit, uint64_t address,
                           struct source_place places[SOURCE_PLACES])
{
    Dwarf_Die *inner = NULL, *scopes = NULL;
    unsigned found = 1;

    /* For an inlined function, dwarf_getscopes() returns the scopes around its definition. The
     * parents of its entry are the scopes around the place where it was inlined. */
    const int n =
        dwarf_getscopes(unit, address, &inner) > 0 ? dwarf_getscopes_die(&inner[0], &scopes) : 0;
    places[0].function[0] = '\0';
    for (int i = 0; i < n; i++) {
        const int tag = dwarf_tag(&scopes[i]);
        if (tag != DW_TAG_inlined_subroutine && tag != DW_TAG_subprogram)
            continue;
        name_function(&scopes[i], &places[found - 1]);
        if (tag == DW_TAG_subprogram || found == SOURCE_PLACES ||
            !find_call(unit, &scopes[i], &places[found]))
            break;
        places[found++].function[0] = '\0';
    }
    free(scopes);
    free(inner);
    return found;
}

/* Returns the row of an address. Line 0 is for code of no line, such as a trap of many checks. Then
 * it returns the last row before it that has a line, and sets *address to that row's. */
static Dwarf_Line *find_row(Dwarf_Die *unit, uint64_t *address)
{
    Dwarf_Line *line = dwarf_getsrc_die(unit, *address);
    Dwarf_Addr start;
    int number = 0;

    while (line && dwarf_lineno(line, &number) == 0 && number == 0 &&
           dwarf_lineaddr(line, &start) == 0 && start > 0) {
        *address = start - 1;
        line = dwarf_getsrc_die(unit, *address);
    }
    return number > 0 ? line : NULL;
}

/* Reads the tables at the first use. False if they are broken. The caller has locked `lines`. */
static bool read_dwarf(struct source_lines *lines)
{
    if (!lines->dwarf)
        lines->dwarf = dwarf_begin_elf(lines->elf, DWARF_C_READ, NULL);
    return lines->dwarf != NULL;
}

/* Stores the first address of each run of rows that belong to `line`, at most `most`. Returns their
 * number. */
static unsigned runs_of(Dwarf_Lines *rows, size_t nrows, unsigned line, uint64_t *addresses,
                        unsigned most)
{
    unsigned found = 0;
    bool inside = false;

    for (size_t i = 0; i < nrows && found < most; i++) {
        Dwarf_Line *row = dwarf_onesrcline(rows, i);
        Dwarf_Addr address;
        int number;
        const bool is_line = row && dwarf_lineno(row, &number) == 0 && (unsigned)number == line;
        if (is_line && !inside && dwarf_lineaddr(row, &address) == 0)
            addresses[found++] = address;
        inside = is_line;
    }
    return found;
}

unsigned source_lines_addresses(struct source_lines *lines, unsigned line, uint64_t *addresses,
                                unsigned most)
{
    Dwarf_CU *cu = NULL;
    Dwarf_Die unit;
    unsigned found = 0;

    pthread_mutex_lock(&lines->lock);
    while (read_dwarf(lines) &&
           dwarf_get_units(lines->dwarf, cu, &cu, NULL, NULL, &unit, NULL) == 0) {
        Dwarf_Lines *rows;
        size_t nrows;
        if (dwarf_getsrclines(&unit, &rows, &nrows) == 0)
            found += runs_of(rows, nrows, line, addresses + found, most - found);
    }
    pthread_mutex_unlock(&lines->lock);
    return found;
}

unsigned source_lines_find(struct source_lines *lines, uint64_t address,
                           struct source_place places[SOURCE_PLACES])
{
    Dwarf_Die unit;
    int number = 0;
    unsigned found = 0;
    const char *path = NULL;

    pthread_mutex_lock(&lines->lock);
    Dwarf_Line *line = read_dwarf(lines) && find_unit(lines->dwarf, address, &unit)
                           ? find_row(&unit, &address)
                           : NULL;
    if (line && dwarf_lineno(line, &number) == 0)
        path = dwarf_linesrc(line, NULL, NULL);
    if (path) {
        snprintf(places[0].text, sizeof(places[0].text), "%s:%d", path, number);
        found = find_chain(&unit, address, places);
    }
    pthread_mutex_unlock(&lines->lock);
    return found;
}
