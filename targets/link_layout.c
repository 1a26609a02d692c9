/* SPDX-License-Identifier: Apache-2.0
 *
 * Assigns file offsets and addresses to a code object's sections as LLD does. Writes headers,
 * contents of input sections, symbols and names.
 */
#include "targets/link.h"

#include <stdlib.h>
#include <string.h>

enum { SEGMENTS = 8 }; /* number of program headers */

/* The sections that the linker makes, by kind. `entry` is the bytes of an entry, 0: no entries.
 * `link` is the kind of the section to which entries refer. */
static const struct made {
    const char *name;
    Elf64_Word type;
    Elf64_Xword flags, alignment, entry;
    enum link_rank link; /* LINK_NOTE: entries refer to no section */
} made[] = {
    [LINK_DYNSYM] = {".dynsym", SHT_DYNSYM, SHF_ALLOC, 8, sizeof(Elf64_Sym), LINK_DYNSTR},
    [LINK_GNU_HASH] = {".gnu.hash", SHT_GNU_HASH, SHF_ALLOC, 8, 0, LINK_DYNSYM},
    [LINK_HASH] = {".hash", SHT_HASH, SHF_ALLOC, 4, 4, LINK_DYNSYM},
    [LINK_DYNSTR] = {".dynstr", SHT_STRTAB, SHF_ALLOC, 1, 0, LINK_NOTE},
    [LINK_RELA_DYN] = {".rela.dyn", SHT_RELA, SHF_ALLOC, 8, sizeof(Elf64_Rela), LINK_DYNSYM},
    [LINK_DYNAMIC] = {".dynamic", SHT_DYNAMIC, SHF_ALLOC | SHF_WRITE, 8, sizeof(Elf64_Dyn),
                      LINK_DYNSTR},
    [LINK_PADDING] = {".relro_padding", SHT_NOBITS, SHF_ALLOC | SHF_WRITE, 1, 0, LINK_NOTE},
    [LINK_SYMTAB] = {".symtab", SHT_SYMTAB, 0, 8, sizeof(Elf64_Sym), LINK_STRTAB},
    [LINK_SHSTRTAB] = {".shstrtab", SHT_STRTAB, 0, 1, 0, LINK_NOTE},
    [LINK_STRTAB] = {".strtab", SHT_STRTAB, 0, 1, 0, LINK_NOTE},
};

void link_add_made(struct link *l, enum link_rank rank)
{
    const struct made *m = &made[rank];
    l->sections[l->n_sections++] = (struct link_section){
        .rank = rank,
        .name = m->name,
        .header = {.sh_type = m->type,
                   .sh_flags = m->flags,
                   .sh_addralign = m->alignment,
                   .sh_entsize = m->entry},
    };
}

struct link_section *link_find(const struct link *l, enum link_rank rank)
{
    for (size_t i = 1; i < l->n_sections; i++)
        if (l->sections[i].rank == rank)
            return &l->sections[i];
    return NULL;
}

/* Compares two output sections by kind, then by their order in the input object, for qsort(). */
static int by_rank(const void *a, const void *b)
{
    const struct link_section *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return (x->input > y->input) - (x->input < y->input);
}

/* Sorts the output sections by kind and updates l->moved. */
static void sort_sections(struct link *l)
{
    qsort(l->sections + 1, l->n_sections - 1, sizeof(*l->sections), by_rank);
    for (size_t i = 1; i < l->n_sections; i++)
        if (l->sections[i].input)
            l->moved[l->sections[i].input] = i;
}

/* Sets the sizes of the sections with symbols and names that are not loaded. */
static void size_names(struct link *l)
{
    Elf64_Xword size = 1;
    for (size_t i = 1; i < l->n_sections; i++)
        size += strlen(l->sections[i].name) + 1;
    link_find(l, LINK_SHSTRTAB)->header.sh_size = size;
    link_find(l, LINK_STRTAB)->header.sh_size = l->names_size;
    link_find(l, LINK_SYMTAB)->header.sh_size = l->n_symbols * sizeof(Elf64_Sym);
}

/* Rounds `n` up to a multiple of `alignment`; an alignment of 0 returns `n`. */
static uint64_t align_to(uint64_t n, uint64_t alignment)
{
    return alignment ? (n + alignment - 1) / alignment * alignment : n;
}

/* Returns the number of the segment for sections of this kind, 0 to 2. A segment has the sections
 * with equal access rights, which the loader maps together. */
static unsigned segment_of(enum link_rank rank)
{
    return rank < LINK_CODE ? 0 : rank == LINK_CODE ? 1 : 2;
}

/* Assigns file offsets and addresses to the sections that the loader maps, and returns the file
 * offset after them. A segment begins on a new page in memory, and in the file directly after the
 * previous segment. Address and file offset are equal modulo a page. */
static uint64_t place_mapped(struct link *l)
{
    uint64_t at = sizeof(Elf64_Ehdr) + SEGMENTS * sizeof(Elf64_Phdr), address = at;
    unsigned segment = 0;
    for (size_t i = 1; i < l->n_sections && l->sections[i].rank < LINK_UNMAPPED; i++) {
        struct link_section *s = &l->sections[i];
        if (segment_of(s->rank) != segment)
            address = align_to(address, LINK_PAGE) + at % LINK_PAGE;
        segment = segment_of(s->rank);
        s->header.sh_addr = align_to(address, s->header.sh_addralign);
        s->header.sh_offset = at += s->header.sh_addr - address;
        if (s->rank == LINK_PADDING)
            s->header.sh_size = align_to(s->header.sh_addr, LINK_PAGE) - s->header.sh_addr;
        address = s->header.sh_addr + s->header.sh_size;
        at += s->header.sh_type == SHT_NOBITS ? 0 : s->header.sh_size;
    }
    return at;
}

void link_lay_out(struct link *l)
{
    sort_sections(l);
    link_size_tables(l);
    size_names(l);
    uint64_t at = place_mapped(l);
    for (size_t i = 1; i < l->n_sections; i++) {
        Elf64_Shdr *h = &l->sections[i].header;
        if (l->sections[i].rank < LINK_UNMAPPED)
            continue;
        h->sh_offset = at = align_to(at, h->sh_addralign);
        at += h->sh_size;
    }
    l->size = align_to(at, 8) + l->n_sections * sizeof(Elf64_Shdr);
}

/* The functions from here on write the output file. */

/* Returns a program header of type `type` with flags `flags` for the sections of kinds `from` to
 * `to`. */
static Elf64_Phdr segment(const struct link *l, Elf64_Word type, Elf64_Word flags,
                          Elf64_Xword alignment, enum link_rank from, enum link_rank to)
{
    Elf64_Phdr p = {.p_type = type, .p_flags = flags, .p_align = alignment};
    bool any = false;
    for (size_t i = 1; i < l->n_sections; i++) {
        const struct link_section *s = &l->sections[i];
        if (s->rank < from || s->rank > to)
            continue;
        const Elf64_Shdr *h = &s->header;
        if (!any) {
            p.p_offset = h->sh_offset;
            p.p_vaddr = p.p_paddr = h->sh_addr;
        }
        any = true;
        p.p_memsz = h->sh_addr + h->sh_size - p.p_vaddr;
        p.p_filesz = h->sh_offset + (h->sh_type == SHT_NOBITS ? 0 : h->sh_size) - p.p_offset;
    }
    return p;
}

/* Writes the program headers to l->file. */
static void write_segments(const struct link *l)
{
    const uint64_t size = SEGMENTS * sizeof(Elf64_Phdr), at = sizeof(Elf64_Ehdr);
    Elf64_Phdr read = segment(l, PT_LOAD, PF_R, LINK_PAGE, LINK_NOTE, LINK_READ);
    /* the segment includes the ELF and program headers */
    read.p_filesz = read.p_memsz += read.p_offset;
    read.p_offset = read.p_vaddr = read.p_paddr = 0;
    const Elf64_Phdr all[SEGMENTS] = {
        {PT_PHDR, PF_R, at, at, at, size, size, 8},
        read,
        segment(l, PT_LOAD, PF_R | PF_X, LINK_PAGE, LINK_CODE, LINK_CODE),
        segment(l, PT_LOAD, PF_R | PF_W, LINK_PAGE, LINK_RELRO, LINK_PADDING),
        segment(l, PT_DYNAMIC, PF_R | PF_W, 8, LINK_DYNAMIC, LINK_DYNAMIC),
        segment(l, PT_GNU_RELRO, PF_R, 1, LINK_RELRO, LINK_PADDING),
        {.p_type = PT_GNU_STACK, .p_flags = PF_R | PF_W},
        segment(l, PT_NOTE, PF_R, 4, LINK_NOTE, LINK_NOTE),
    };
    memcpy(l->file + at, all, size);
}

/* Returns the number of the output section of this kind, 0 if there is none. */
static Elf64_Word number_of(const struct link *l, enum link_rank rank)
{
    const struct link_section *s = link_find(l, rank);
    return s ? (Elf64_Word)(s - l->sections) : 0;
}

/* Writes the contents of input sections and the names of all sections to l->file, and completes the
 * section headers. */
static void write_sections(struct link *l)
{
    char *names = (char *)l->file + link_find(l, LINK_SHSTRTAB)->header.sh_offset;
    Elf64_Word named = 1;
    for (size_t i = 1; i < l->n_sections; i++) {
        struct link_section *s = &l->sections[i];
        if (s->data)
            memcpy(l->file + s->header.sh_offset, s->data, s->header.sh_size);
        strcpy(names + named, s->name);
        s->header.sh_name = named;
        named += (Elf64_Word)strlen(s->name) + 1;
        if (!s->input && made[s->rank].link != LINK_NOTE)
            s->header.sh_link = number_of(l, made[s->rank].link);
    }
}

/* Writes all symbols of the input object, and their names, to l->file. Sets sh_info of the symbol
 * tables to the index of the first global symbol. */
static void write_symtab(const struct link *l)
{
    Elf64_Shdr *h = &link_find(l, LINK_SYMTAB)->header;
    Elf64_Sym *out = (Elf64_Sym *)(l->file + h->sh_offset);
    h->sh_info = (Elf64_Word)l->n_symbols;
    for (size_t i = l->n_symbols; i-- > 0;) {
        out[i] = link_move_symbol(l, &l->symbols[i]);
        if (ELF64_ST_BIND(out[i].st_info) != STB_LOCAL)
            h->sh_info = (Elf64_Word)i;
    }
    memcpy(l->file + link_find(l, LINK_STRTAB)->header.sh_offset, l->names, l->names_size);
    link_find(l, LINK_DYNSYM)->header.sh_info = 1;
}

void link_write_file(struct link *l, const Elf64_Ehdr *object)
{
    Elf64_Ehdr e = *object; /* keeps machine, flags and ABI of the object */
    e.e_type = ET_DYN;
    e.e_phoff = sizeof(e);
    e.e_phentsize = sizeof(Elf64_Phdr);
    e.e_phnum = SEGMENTS;
    e.e_shnum = (Elf64_Half)l->n_sections;
    e.e_shoff = l->size - l->n_sections * sizeof(Elf64_Shdr);
    e.e_shstrndx = (Elf64_Half)number_of(l, LINK_SHSTRTAB);
    memcpy(l->file, &e, sizeof(e));
    write_segments(l);
    write_sections(l);
    write_symtab(l);
    for (size_t i = 0; i < l->n_sections; i++)
        memcpy(l->file + e.e_shoff + i * sizeof(Elf64_Shdr), &l->sections[i].header,
               sizeof(Elf64_Shdr));
}
