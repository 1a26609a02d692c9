/* SPDX-License-Identifier: Apache-2.0
 *
 * Internal interface of tgt_link(): the sections of a code object, from input object to output
 * file.
 */
#ifndef ATTNC_TARGETS_LINK_H
#define ATTNC_TARGETS_LINK_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Sections in file order: first the sections that the loader maps for reading, executing and
 * writing, then the unmapped ones. */
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
    LINK_PADDING, /* fills the last page */
    LINK_UNMAPPED,
    LINK_SYMTAB,
    LINK_SHSTRTAB,
    LINK_STRTAB,
};

/* A section of the output file. */
struct link_section {
    enum link_rank rank;
    const char *name;
    Elf64_Shdr header;   /* as it will be in the output file */
    const uint8_t *data; /* contents in the input object; NULL: made by the linker, or no bytes in
                          * the file */
    size_t input;        /* section number in the input object; 0: made by the linker */
};

/* A link in progress: input object, output sections, and output file. */
struct link {
    struct link_section *sections; /* in file order; [0] is the null section */
    size_t n_sections;
    size_t *moved; /* output section number by input section number; 0: left out */
    size_t n_inputs;
    const Elf64_Sym *symbols; /* symbols of the input object */
    size_t n_symbols;
    const char *names; /* string table of `symbols`; ends in a 0 */
    size_t names_size;
    size_t n_exported;     /* number of symbols that the loader sees */
    size_t exported_names; /* bytes of exported names */
    size_t n_relative;     /* number of relative relocations: the loader adds the image's address to
                        * each */
    uint8_t *file;         /* the output file's bytes, and their number */
    size_t size;
    char *why; /* TGT_WHY bytes */
};

/* Most sections that the linker makes, and bytes of a page of memory. */
enum { LINK_MOST_MADE = 10, LINK_PAGE = 4096 };

/* Appends an empty section of this rank, which the linker makes. The caller has reserved room in
 * `sections`. */
void link_add_made(struct link *l, enum link_rank rank);

/* Sorts the sections; assigns sizes, file offsets and addresses; computes the file's size. */
void link_lay_out(struct link *l);

/* Writes the headers, the input's sections and the names: all that the loader's tables do not
 * contain. */
void link_write_file(struct link *l, const Elf64_Ehdr *object);

/* Returns the first section of a rank, or NULL. */
struct link_section *link_find(const struct link *l, enum link_rank rank);

/* True if the loader sees the symbol. Such symbols count in n_exported. */
bool link_exports(const struct link *l, const Elf64_Sym *s);

/* Returns a copy of an input symbol whose section number and address are converted from the input
 * object to the output file. */
Elf64_Sym link_move_symbol(const struct link *l, const Elf64_Sym *s);

/* Sets the sizes of the tables that a loader reads. Call before addresses are assigned. */
void link_size_tables(struct link *l);

/* Writes the tables that a loader reads, except LINK_RELA_DYN, into the file. Call after addresses
 * are assigned. */
void link_write_tables(struct link *l);

#endif
