/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of tgt_link(): sections of a code object on their way from an object to a file.
 */
#ifndef ATTNC_TARGETS_LINK_H
#define ATTNC_TARGETS_LINK_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Sections in the order of the file: first those that the loader maps to read, to run and to write,
 * then those that it leaves alone. */
enum link_rank {
    LINK_NOTE,
    LINK_DYNSYM,
    LINK_GNU_HASH,
    LINK_HASH,
    LINK_DYNSTR,
    LINK_RELA_DYN,
    LINK_READ,
    LINK_CODE,
    LINK_RELRO, /* constant once the loader has relocated it */
    LINK_DYNAMIC,
    LINK_PADDING, /* to the end of the last page */
    LINK_UNMAPPED,
    LINK_SYMTAB,
    LINK_SHSTRTAB,
    LINK_STRTAB,
};

struct link_section {
    enum link_rank rank;
    const char *name;
    Elf64_Shdr header;   /* of the file; sh_name and sh_link are set as it is written */
    const uint8_t *data; /* the object's; NULL: made by the linker, or nothing in the file */
    size_t input;        /* its number in the object; 0: made by the linker */
};

struct link {
    struct link_section *sections; /* in the order of the file; [0] is the null section */
    size_t n_sections;
    size_t *moved; /* by a section's number in the object: its number in the file; 0: left out */
    size_t n_inputs;
    const Elf64_Sym *symbols; /* the object's */
    size_t n_symbols;
    const char *names; /* of symbols; ends in a 0 */
    size_t names_size;
    size_t n_exported; /* symbols that the loader sees */
    size_t exported_names;
    size_t n_relative; /* addresses that the loader adds the image's own to */
    uint8_t *file;
    size_t size;
    char *why; /* TGT_WHY bytes */
};

enum { LINK_MOST_MADE = 10, LINK_PAGE = 4096 };

/* Adds a section that the linker makes, of no size yet; both tables have room for it. */
void link_add_made(struct link *l, enum link_rank rank);

/* Sections in their order, with sizes, places and addresses; then the file's size. */
void link_lay_out(struct link *l);

/* Writes headers, sections as the object has them, and names; all that the loader does not read. */
void link_write_file(struct link *l, const Elf64_Ehdr *object);

/* The first section of a rank, or NULL. */
struct link_section *link_find(const struct link *l, enum link_rank rank);

/* Is the symbol seen by the loader? Such symbols count in n_exported. */
bool link_exports(const struct link *l, const Elf64_Sym *s);

/* A symbol of the object, as the file's sections have it. */
Elf64_Sym link_move_symbol(const struct link *l, const Elf64_Sym *s);

/* Sizes of the tables that a loader reads; before addresses are given. */
void link_size_tables(struct link *l);

/* Writes these tables, but for LINK_RELA_DYN, into the file; after addresses are given. */
void link_write_tables(struct link *l);

#endif
