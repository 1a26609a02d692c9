/* SPDX-License-Identifier: Apache-2.0
 *
 * Internal interface of the linker behind tgt_link(): the sections of a code object, from the input
 * object to the output file. Only targets/link*.c include it.
 */
#ifndef ATTNC_TARGETS_LINK_H
#define ATTNC_TARGETS_LINK_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The kinds of output sections, in file order. The loader maps the kinds up to LINK_READ for
 * reading, LINK_CODE for executing, and the kinds from LINK_RELRO on for writing. It does not map
 * LINK_UNMAPPED and later ones. */
enum link_rank {
    LINK_NOTE,
    LINK_DYNSYM,
    LINK_GNU_HASH,
    LINK_HASH,
    LINK_DYNSTR,
    LINK_RELA_DYN,
    LINK_READ, /* other constants of the input object */
    LINK_CODE,
    LINK_RELRO, /* constants that the loader relocates */
    LINK_DYNAMIC,
    LINK_PADDING, /* fills the last page of the writable segment */
    LINK_UNMAPPED,
    LINK_SYMTAB,
    LINK_SHSTRTAB,
    LINK_STRTAB,
};

/* A section of the output file. */
struct link_section {
    enum link_rank rank;
    const char *name;
    Elf64_Shdr header; /* the section's header in the output file */
    /* contents in the input object; NULL: the linker makes them, or the section has no bytes in the
     * file */
    const uint8_t *data;
    size_t input; /* number of the section in the input object; 0: the linker makes it */
};

/* The state of a link: input object, output sections, and output file. */
struct link {
    struct link_section *sections; /* output sections in file order; [0] is the null section */
    size_t n_sections;
    size_t *moved;   /* number of the output section by number of the input section; 0: left out */
    size_t n_inputs; /* number of input sections */
    const Elf64_Sym *symbols; /* symbols of the input object */
    size_t n_symbols;
    const char *names; /* string table of `symbols`; its last byte is NUL */
    size_t names_size;
    size_t n_exported;     /* number of symbols that the loader sees */
    size_t exported_names; /* bytes of the exported symbols' names, with NULs */
    size_t n_relative;     /* number of relocations in which the loader adds the image's address */
    uint8_t *file;         /* the output file */
    size_t size;           /* bytes of `file` */
    char *why;             /* message of a failure, TGT_WHY bytes */
};

/* Number of sections that the linker makes, at most; bytes of a page of memory. */
enum { LINK_MOST_MADE = 10, LINK_PAGE = 4096 };

/* Appends an empty section of this kind, which the linker makes, to l->sections. The array has room
 * for it. */
void link_add_made(struct link *l, enum link_rank rank);

/* Sorts the output sections, sets their sizes, file offsets and addresses, and sets l->size. */
void link_lay_out(struct link *l);

/* Writes the ELF header, program and section headers, the contents of input sections, symbols and
 * names to l->file. `object` is the input's ELF header. link_write_tables() writes the rest. */
void link_write_file(struct link *l, const Elf64_Ehdr *object);

/* Returns the first output section of this kind, or NULL. */
struct link_section *link_find(const struct link *l, enum link_rank rank);

/* True if the input symbol is a dynamic symbol, which the loader sees. */
bool link_exports(const struct link *l, const Elf64_Sym *s);

/* Returns a copy of the input symbol `s` with the section number and the address that it has in the
 * output file. */
Elf64_Sym link_move_symbol(const struct link *l, const Elf64_Sym *s);

/* Sets the sizes of the sections that the loader reads: dynamic symbols, hash tables, dynamic
 * section. Call it before addresses are assigned. */
void link_size_tables(struct link *l);

/* Writes the sections that the loader reads, except LINK_RELA_DYN, to l->file. Call it after
 * addresses are assigned. */
void link_write_tables(struct link *l);

#endif
