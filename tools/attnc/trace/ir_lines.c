/* SPDX-License-Identifier: Apache-2.0
 *
 * This file finds the tile IR op that an instruction comes from. A code object that was built with
 * -g has the IR's text in a section. Its debug information (DWARF) names a line of that text for
 * each instruction.
 */
#include "tools/attnc/trace/ir_lines.h"

#include <elfutils/libdw.h>
#include <errno.h>
#include <gelf.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attn.h"
#include "targets/codegen.h"
#include "tools/attnc/cli/command.h"

/* Column of the op in a listing; hexadecimal digits of an offset. */
enum { OP_COLUMN = 110, ADDRESS_DIGITS = 6 };

/* The IR of one kernel. */
struct ir_lines {
    void *image;
    Elf *elf;
    Dwarf *dwarf;
    Dwarf_Die unit;
    /* Virtual address of the kernel's first instruction; 0: not found. */
    uint64_t kernel;
    const char *text, *limit; /* begin and end of the IR's text */
};

/* Returns the value of the symbol `name` in the symbol table `section`; 0 if it is absent. */
static uint64_t symbol_value(Elf *elf, Elf_Scn *section, const char *name)
{
    GElf_Shdr header;
    GElf_Sym symbol;
    Elf_Data *const data = elf_getdata(section, NULL);
    if (!data || !gelf_getshdr(section, &header))
        return 0;
    for (int i = 0; gelf_getsym(data, i, &symbol); i++) {
        const char *const s = elf_strptr(elf, header.sh_link, symbol.st_name);
        if (s && !strcmp(s, name))
            return symbol.st_value;
    }
    return 0;
}

/* Finds the kernel's address and the IR's text. Returns false if one is absent. */
static bool read_sections(struct ir_lines *l, const char *kernel)
{
    size_t names;
    if (elf_getshdrstrndx(l->elf, &names))
        return false;
    for (Elf_Scn *s = NULL; (s = elf_nextscn(l->elf, s));) {
        GElf_Shdr header;
        if (!gelf_getshdr(s, &header))
            return false;
        const char *const name = elf_strptr(l->elf, names, header.sh_name);
        const Elf_Data *const data = elf_getdata(s, NULL);
        if (header.sh_type == SHT_DYNSYM)
            l->kernel = symbol_value(l->elf, s, kernel);
        if (name && data && data->d_size && !strcmp(name, TGT_IR_SECTION)) {
            l->text = data->d_buf;
            l->limit = l->text + data->d_size;
        }
    }
    return l->kernel && l->text;
}

/* Finds the debug information of the unit that has the kernel. Returns false if there is none. */
static bool read_dwarf(struct ir_lines *l)
{
    Dwarf_CU *cu = NULL;
    l->dwarf = dwarf_begin_elf(l->elf, DWARF_C_READ, NULL);
    if (!l->dwarf)
        return false;
    while (dwarf_get_units(l->dwarf, cu, &cu, NULL, NULL, &l->unit, NULL) == 0)
        if (dwarf_haspc(&l->unit, l->kernel) == 1)
            return true;
    return false;
}

/* Frees what open_lines() has opened. */
static void close_lines(struct ir_lines *l)
{
    dwarf_end(l->dwarf);
    elf_end(l->elf);
    free(l->image);
}

/* Opens the IR of kernel `n`. Returns false, with nothing to close, if the kernel was built without
 * -g. */
static bool open_lines(struct ir_lines *l, const struct attn_pack *pack, uint32_t n)
{
    struct attn_kernel_info info = {.size = sizeof(info)};
    *l = (struct ir_lines){0};
    if (attn_pack_kernel(pack, n, &info) != ATTN_OK)
        return false;
    size_t size = info.object_bytes;
    l->image = malloc(size);
    elf_version(EV_CURRENT);
    if (l->image && attn_pack_kernel_code(pack, n, l->image, size, &size) == ATTN_OK)
        l->elf = elf_memory(l->image, size);
    if (l->elf && read_sections(l, info.name) && read_dwarf(l))
        return true;
    close_lines(l);
    return false;
}

/* Returns the number of the IR line that the instruction at `offset` from the kernel's start comes
 * from, counted from 1; 0: none. */
static int find_line(struct ir_lines *l, uint64_t offset)
{
    int number = 0;
    const Dwarf_Line *const line = dwarf_getsrc_die(&l->unit, l->kernel + offset);
    return line && dwarf_lineno((Dwarf_Line *)line, &number) == 0 ? number : 0;
}

/* Prints IR line `number`, counted from 1, after IR_LINE_MARK, such as "%89.p = exp2 %88". */
static void print_op(const struct ir_lines *l, int number, FILE *out)
{
    const char *at = l->text;
    for (int i = 1; i < number && at; i++) {
        at = memchr(at, '\n', (size_t)(l->limit - at));
        at = at ? at + 1 : NULL;
    }
    if (!at || at >= l->limit)
        return;
    while (at < l->limit && *at == ' ')
        at++;
    const char *const end = memchr(at, '\n', (size_t)(l->limit - at));
    fprintf(out, IR_LINE_MARK "%d: %.*s", number, (int)((end ? end : l->limit) - at), at);
}

/* Reads the instruction's offset from a line of the listing. Returns false if it has none. */
static bool read_offset(const char *text, uint64_t *offset)
{
    for (const char *at = text; *text != ';' && *at; at++) {
        if (at > text && at[-1] == ' ' && strspn(at, "0123456789abcdef") == ADDRESS_DIGITS &&
            at[ADDRESS_DIGITS] == ' ' && at[ADDRESS_DIGITS + 1] == ' ') {
            *offset = strtoull(at, NULL, 16);
            return true;
        }
    }
    return false;
}

/* Copies a listing, and appends to each instruction the IR op that it comes from. Returns false on
 * an input or output error. */
static bool copy_lines(struct ir_lines *l, FILE *in, FILE *out)
{
    char text[512];
    while (fgets(text, sizeof(text), in)) {
        uint64_t offset;
        const int length = (int)strcspn(text, "\n");
        const int line = read_offset(text, &offset) ? find_line(l, offset) : 0;
        fprintf(out, "%-*.*s", line ? OP_COLUMN : 0, length, text);
        if (line)
            print_op(l, line, out);
        fputc('\n', out);
    }
    return !ferror(in) && !ferror(out);
}

int add_ir_lines(const struct attn_pack *pack, uint32_t n, const char *path)
{
    struct ir_lines l;
    char *text = NULL;
    size_t size = 0;
    if (!open_lines(&l, pack, n))
        return EXIT_GOOD;
    FILE *file = fopen(path, "r"), *const copy = open_memstream(&text, &size);
    bool good = file && copy && copy_lines(&l, file, copy);
    if (file)
        fclose(file);
    if (copy)
        good = fclose(copy) == 0 && good;
    file = good ? fopen(path, "w") : NULL;
    good = file && fwrite(text, 1, size, file) == size;
    if (file)
        good = fclose(file) == 0 && good;
    free(text);
    close_lines(&l);
    return good ? EXIT_GOOD : complain(EXIT_ENVIRONMENT, "%s: %s", path, strerror(errno));
}
