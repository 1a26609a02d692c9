/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the sections that the loader of a code object reads: dynamic symbols, their two hash
 * tables, and the dynamic section. Formats: System V ABI, "Dynamic Linking"; .gnu.hash as glibc
 * reads it.
 */
#include "targets/link.h"

#include <string.h>

/* Constants of .gnu.hash: bits of a word of the Bloom filter; shift for its second bit; 32-bit
 * words of the header. */
enum { BLOOM_BITS = 64, BLOOM_SHIFT = 26, GNU_HASH_HEADER = 4 };

bool link_exports(const struct link *l, const Elf64_Sym *s)
{
    const unsigned visibility = ELF64_ST_VISIBILITY(s->st_other);
    return ELF64_ST_BIND(s->st_info) != STB_LOCAL && s->st_shndx != SHN_UNDEF &&
           visibility != STV_HIDDEN && visibility != STV_INTERNAL && s->st_name < l->names_size;
}

/* Gives .gnu.hash one bucket and leaves the symbols unsorted, since a code object has two
 * symbols. */
void link_size_tables(struct link *l)
{
    const size_t n = l->n_exported;
    const size_t tags = 7 + (l->n_relative ? 4 : 0);
    link_find(l, LINK_DYNSYM)->header.sh_size = (1 + n) * sizeof(Elf64_Sym);
    link_find(l, LINK_GNU_HASH)->header.sh_size = (GNU_HASH_HEADER + 2 + 1 + n) * sizeof(uint32_t);
    link_find(l, LINK_HASH)->header.sh_size = (2 + 2 * (1 + n)) * sizeof(uint32_t);
    link_find(l, LINK_DYNSTR)->header.sh_size = 1 + l->exported_names;
    link_find(l, LINK_DYNAMIC)->header.sh_size = tags * sizeof(Elf64_Dyn);
    if (l->n_relative)
        link_find(l, LINK_RELA_DYN)->header.sh_size = l->n_relative * sizeof(Elf64_Rela);
}

/* Returns the hash of a symbol's name for DT_GNU_HASH. */
static uint32_t hash_gnu(const char *name)
{
    uint32_t h = 5381;
    for (; *name; name++)
        h = h * 33 + (uint8_t)*name;
    return h;
}

/* Returns the hash of a symbol's name for DT_HASH. */
static uint32_t hash_sysv(const char *name)
{
    uint32_t h = 0;
    for (; *name; name++) {
        h = (h << 4) + (uint8_t)*name;
        h = (h ^ (h >> 24 & 0xf0)) & 0x0fffffff;
    }
    return h;
}

/* Returns the first byte in l->file of the output section of this kind. */
static uint8_t *table(const struct link *l, enum link_rank rank)
{
    return l->file + link_find(l, rank)->header.sh_offset;
}

/* The tables of dynamic symbols in l->file. */
struct tables {
    Elf64_Sym *symbols; /* dynamic symbols: .dynsym */
    char *names;        /* names of dynamic symbols: .dynstr */
    /* .gnu.hash: numbers of buckets, of the first symbol and of Bloom words, shift; Bloom word;
     * bucket; hashes */
    uint32_t *gnu;
    /* .hash: numbers of buckets and of symbols; buckets; for each symbol the next of its bucket */
    uint32_t *sysv;
    /* number of symbols written, and of all symbols; both with the null symbol */
    size_t n, count;
    size_t named; /* bytes of names written */
};

/* Writes the dynamic symbol for the input symbol `s`, its name and its entries in both hash
 * tables. */
static void write_symbol(const struct link *l, struct tables *t, const Elf64_Sym *s)
{
    const char *name = l->names + s->st_name;
    const size_t length = strlen(name) + 1;
    const uint32_t gnu = hash_gnu(name);
    t->symbols[t->n] = link_move_symbol(l, s);
    t->symbols[t->n].st_name = (Elf64_Word)t->named;
    memcpy(t->names + t->named, name, length);
    t->named += length;

    uint64_t bloom;
    memcpy(&bloom, t->gnu + GNU_HASH_HEADER, sizeof(bloom));
    bloom |= 1ull << gnu % BLOOM_BITS | 1ull << (gnu >> BLOOM_SHIFT) % BLOOM_BITS;
    memcpy(t->gnu + GNU_HASH_HEADER, &bloom, sizeof(bloom));
    /* The lowest bit of a hash marks the last symbol of a bucket. */
    const uint32_t ends = t->n + 1 == t->count;
    t->gnu[GNU_HASH_HEADER + 3 + t->n - 1] = (gnu & ~1u) | ends;

    uint32_t *bucket = t->sysv + 2 + hash_sysv(name) % t->count;
    t->sysv[2 + t->count + t->n] = *bucket;
    *bucket = (uint32_t)t->n++;
}

/* Writes all dynamic symbols, their names and both hash tables. */
static void write_symbols(const struct link *l)
{
    struct tables t = {
        .symbols = (Elf64_Sym *)table(l, LINK_DYNSYM),
        .names = (char *)table(l, LINK_DYNSTR),
        .gnu = (uint32_t *)table(l, LINK_GNU_HASH),
        .sysv = (uint32_t *)table(l, LINK_HASH),
        .n = 1,
        .count = 1 + l->n_exported,
        .named = 1,
    };
    t.gnu[0] = 1; /* number of buckets */
    t.gnu[1] = 1; /* number of the first hashed symbol */
    t.gnu[2] = 1; /* number of Bloom words */
    t.gnu[3] = BLOOM_SHIFT;
    t.gnu[GNU_HASH_HEADER + 2] = t.count > 1; /* first symbol of the bucket, if any */
    t.sysv[0] = t.sysv[1] = (uint32_t)t.count;
    for (size_t i = 0; i < l->n_symbols; i++)
        if (link_exports(l, &l->symbols[i]))
            write_symbol(l, &t, &l->symbols[i]);
}

/* Writes the dynamic section, which names the other tables. */
static void write_dynamic(const struct link *l)
{
    Elf64_Dyn *d = (Elf64_Dyn *)table(l, LINK_DYNAMIC);
    const Elf64_Shdr *rela = l->n_relative ? &link_find(l, LINK_RELA_DYN)->header : NULL;
    if (rela) {
        *d++ = (Elf64_Dyn){DT_RELA, {rela->sh_addr}};
        *d++ = (Elf64_Dyn){DT_RELASZ, {rela->sh_size}};
        *d++ = (Elf64_Dyn){DT_RELAENT, {sizeof(Elf64_Rela)}};
        *d++ = (Elf64_Dyn){DT_RELACOUNT, {l->n_relative}};
    }
    *d++ = (Elf64_Dyn){DT_SYMTAB, {link_find(l, LINK_DYNSYM)->header.sh_addr}};
    *d++ = (Elf64_Dyn){DT_SYMENT, {sizeof(Elf64_Sym)}};
    *d++ = (Elf64_Dyn){DT_STRTAB, {link_find(l, LINK_DYNSTR)->header.sh_addr}};
    *d++ = (Elf64_Dyn){DT_STRSZ, {link_find(l, LINK_DYNSTR)->header.sh_size}};
    *d++ = (Elf64_Dyn){DT_GNU_HASH, {link_find(l, LINK_GNU_HASH)->header.sh_addr}};
    *d++ = (Elf64_Dyn){DT_HASH, {link_find(l, LINK_HASH)->header.sh_addr}};
    *d = (Elf64_Dyn){DT_NULL, {0}};
}

void link_write_tables(struct link *l)
{
    write_symbols(l);
    write_dynamic(l);
}
