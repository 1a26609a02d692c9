/* SPDX-License-Identifier: Apache-2.0
 *
 * Links a relocatable object to a code object, without another program. The output equals the
 * output of `ld.lld -shared` for one object from LLVM, address by address;
 * tests/targets/test_link.c compares both. LLD's library is not used, since it would reset LLVM's
 * options, which are global to the process. Source of the relocations: LLVM's AMDGPUUsage,
 * "Relocation Records".
 */
#include "targets/link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "targets/codegen.h"
#include "targets/elf_image.h"

/* Relocation types R_AMDGPU_* of the same names. */
enum relocation {
    R_ABS32_LO = 1,
    R_ABS32_HI = 2,
    R_ABS64 = 3,
    R_REL32 = 4,
    R_REL64 = 5,
    R_ABS32 = 6,
    R_REL32_LO = 10,
    R_REL32_HI = 11,
    R_RELATIVE64 = 13,
};

/* Stores the message `sentence` in l->why and returns false. */
static bool fail(const struct link *l, const char *sentence)
{
    snprintf(l->why, TGT_WHY, "%s", sentence);
    return false;
}

/* The functions from here on read the relocatable object. */

/* Sets *rank to the kind of output section that an input section becomes. Returns false if the
 * section is left out. */
static bool rank_of(const Elf64_Shdr *h, const char *name, enum link_rank *rank)
{
    if ((h->sh_type != SHT_PROGBITS && h->sh_type != SHT_NOTE) || h->sh_flags & SHF_EXCLUDE ||
        !strcmp(name, ".note.GNU-stack"))
        return false;
    if (!(h->sh_flags & SHF_ALLOC))
        *rank = LINK_UNMAPPED;
    else if (h->sh_flags & SHF_EXECINSTR)
        *rank = LINK_CODE;
    else if (h->sh_flags & SHF_WRITE)
        *rank = LINK_RELRO;
    else
        *rank = h->sh_type == SHT_NOTE ? LINK_NOTE : LINK_READ;
    return true;
}

/* True if an input section has variables: writable data other than constants that the loader
 * relocates. */
static bool has_variables(const Elf64_Shdr *h, const char *name)
{
    return h->sh_flags & SHF_ALLOC && h->sh_flags & SHF_WRITE && h->sh_size &&
           strncmp(name, ".data.rel.ro", 12) != 0;
}

/* Adds an input section, called `name`, to the output sections unless it is left out. Returns false
 * with a message if it is invalid. */
static bool add_input(struct link *l, Elf_Scn *scn, const Elf64_Shdr *h, const char *name)
{
    struct link_section s = {.name = name, .header = *h, .input = elf_ndxscn(scn)};
    if (has_variables(h, name))
        return fail(l, "the object has variables; a kernel's data are constants");
    if (!rank_of(h, name, &s.rank))
        return true;
    if (h->sh_addralign > LINK_PAGE)
        return fail(l, "a section of the object is aligned to more than a page");
    const Elf_Data *data = elf_rawdata(scn, NULL);
    if (!data || data->d_size != h->sh_size || (h->sh_size && !data->d_buf))
        return fail(l, "a section of the object is cut off");
    s.data = data->d_buf;
    l->moved[s.input] = l->n_sections;
    l->sections[l->n_sections++] = s;
    return true;
}

/* Sets the symbols of the link and their names from the symbol table `scn` with header `h`, and
 * counts exported symbols. Returns false with a message on an error. */
static bool read_symbols(struct link *l, Elf *object, Elf_Scn *scn, const Elf64_Shdr *h)
{
    Elf_Scn *strings = elf_getscn(object, h->sh_link);
    const Elf_Data *symbols = elf_getdata(scn, NULL);
    const Elf_Data *names = strings ? elf_rawdata(strings, NULL) : NULL;
    if (!symbols || !symbols->d_buf || !names || !names->d_buf || !names->d_size ||
        ((const char *)names->d_buf)[names->d_size - 1])
        return fail(l, "the object's symbols cannot be read");
    l->symbols = symbols->d_buf;
    l->n_symbols = symbols->d_size / sizeof(Elf64_Sym);
    l->names = names->d_buf;
    l->names_size = names->d_size;
    for (size_t i = 0; i < l->n_symbols; i++) {
        if (!link_exports(l, &l->symbols[i]))
            continue;
        l->n_exported++;
        l->exported_names += strlen(l->names + l->symbols[i].st_name) + 1;
    }
    return true;
}

/* Reads an input section. `names` is the number of the section with the names of sections. Returns
 * false with a message on an error. */
static bool read_section(struct link *l, Elf *object, Elf_Scn *s, size_t names)
{
    const Elf64_Shdr *h = elf64_getshdr(s);
    const char *name = h ? elf_strptr(object, names, h->sh_name) : NULL;
    if (!name)
        return fail(l, "a section of the object has no name");
    if (h->sh_type == SHT_SYMTAB && !read_symbols(l, object, s, h))
        return false;
    return add_input(l, s, h, name);
}

/* Reads all sections and symbols of a relocatable object for AMDGPU. Returns false with a message
 * on an error. */
static bool read_object(struct link *l, Elf *object)
{
    size_t names;
    const Elf64_Ehdr *e = object ? elf64_getehdr(object) : NULL;
    if (!e || e->e_machine != EM_AMDGPU || e->e_type != ET_REL ||
        elf_getshdrnum(object, &l->n_inputs) || elf_getshdrstrndx(object, &names))
        return fail(l, "this is no relocatable object for AMDGPU");
    l->sections = calloc(1 + l->n_inputs + LINK_MOST_MADE, sizeof(*l->sections));
    l->moved = calloc(l->n_inputs + 1, sizeof(*l->moved));
    if (!l->sections || !l->moved)
        return fail(l, "out of memory");
    l->n_sections = 1;
    for (Elf_Scn *s = elf_nextscn(object, NULL); s; s = elf_nextscn(object, s))
        if (!read_section(l, object, s, names))
            return false;
    return (l->n_symbols && link_find(l, LINK_CODE)) || fail(l, "the object has no code");
}

Elf64_Sym link_move_symbol(const struct link *l, const Elf64_Sym *s)
{
    Elf64_Sym moved = *s;
    if (s->st_shndx == SHN_UNDEF || s->st_shndx >= l->n_inputs)
        return moved;
    const size_t to = l->moved[s->st_shndx];
    moved.st_shndx = (Elf64_Section)to;
    moved.st_value += l->sections[to].header.sh_addr;
    return moved;
}

/* The functions from here on check and apply relocations. */

/* A function that for_relocations() calls for a relocation of an output section. */
typedef bool visit_fn(struct link *, const struct link_section *, const Elf64_Rela *);

/* Calls `visit` for each relocation of an input section that is in the output. Returns false if a
 * call returned false. */
static bool for_relocations(struct link *l, Elf *object, visit_fn *visit)
{
    for (Elf_Scn *s = elf_nextscn(object, NULL); s; s = elf_nextscn(object, s)) {
        const Elf64_Shdr *h = elf64_getshdr(s);
        if (h->sh_type != SHT_RELA || h->sh_info >= l->n_inputs || !l->moved[h->sh_info])
            continue;
        const Elf_Data *data = elf_getdata(s, NULL);
        const Elf64_Rela *rela = data ? data->d_buf : NULL;
        const size_t n = rela ? data->d_size / sizeof(*rela) : 0;
        for (size_t r = 0; r < n; r++)
            if (!visit(l, &l->sections[l->moved[h->sh_info]], &rela[r]))
                return false;
    }
    return true;
}

/* Returns the number of bytes that a relocation of type `type` changes. */
static unsigned bytes_of(unsigned type) { return type == R_ABS64 || type == R_REL64 ? 8 : 4; }

/* True if the loader must apply the relocation, since it contains the address at which the image is
 * loaded. */
static bool is_relative(const struct link_section *s, const Elf64_Rela *r)
{
    return ELF64_R_TYPE(r->r_info) == R_ABS64 && s->header.sh_flags & SHF_ALLOC;
}

/* True if the symbol is defined in the output. If not, a message names it. */
static bool check_symbol(const struct link *l, const Elf64_Sym *s)
{
    if (s->st_shndx == SHN_ABS || (s->st_shndx < l->n_inputs && l->moved[s->st_shndx]))
        return true;
    snprintf(l->why, TGT_WHY, "undefined symbol: %s",
             s->st_name < l->names_size ? l->names + s->st_name : "");
    return false;
}

/* Checks type, place and symbol of a relocation, and counts it if the loader applies it. Returns
 * false with a message on an error. A visit_fn. */
static bool check_relocation(struct link *l, const struct link_section *s, const Elf64_Rela *r)
{
    const unsigned type = ELF64_R_TYPE(r->r_info);
    const size_t size = s->header.sh_size;
    if ((type < R_ABS32_LO || type > R_ABS32) && type != R_REL32_LO && type != R_REL32_HI) {
        snprintf(l->why, TGT_WHY, "%s has a relocation of the unknown type %u", s->name, type);
        return false;
    }
    if (r->r_offset > size || size - r->r_offset < bytes_of(type) ||
        ELF64_R_SYM(r->r_info) >= l->n_symbols)
        return fail(l, "a relocation is outside of its section");
    l->n_relative += is_relative(s, r);
    return check_symbol(l, &l->symbols[ELF64_R_SYM(r->r_info)]);
}

/* Applies a relocation to l->file, or adds it to LINK_RELA_DYN if the loader must apply it. Returns
 * false with a message on an error. A visit_fn. */
static bool relocate(struct link *l, const struct link_section *s, const Elf64_Rela *r)
{
    const unsigned type = ELF64_R_TYPE(r->r_info);
    const uint64_t place = s->header.sh_addr + r->r_offset;
    uint64_t value =
        link_move_symbol(l, &l->symbols[ELF64_R_SYM(r->r_info)]).st_value + (uint64_t)r->r_addend;
    if (is_relative(s, r)) {
        Elf64_Rela *table = (Elf64_Rela *)(l->file + link_find(l, LINK_RELA_DYN)->header.sh_offset);
        table[l->n_relative++] =
            (Elf64_Rela){place, ELF64_R_INFO(0, R_RELATIVE64), (Elf64_Sxword)value};
        return true;
    }
    if (type == R_REL32 || type == R_REL64 || type == R_REL32_LO || type == R_REL32_HI)
        value -= place;
    if ((type == R_ABS32 && value > UINT32_MAX) ||
        (type == R_REL32 && (int64_t)value != (int32_t)value))
        return fail(l, "a relocation does not fit into 32 bits");
    if (type == R_ABS32_HI || type == R_REL32_HI)
        value >>= 32;
    memcpy(l->file + s->header.sh_offset + r->r_offset, &value, bytes_of(type));
    return true;
}

/* The functions from here on write the output file. */

/* Adds the sections that the linker makes, and checks all relocations. Returns false with a message
 * on an error. */
static bool add_made(struct link *l, Elf *object)
{
    for (enum link_rank r = LINK_DYNSYM; r <= LINK_DYNSTR; r++)
        link_add_made(l, r);
    link_add_made(l, LINK_DYNAMIC);
    link_add_made(l, LINK_PADDING);
    for (enum link_rank r = LINK_SYMTAB; r <= LINK_STRTAB; r++)
        link_add_made(l, r);
    if (!for_relocations(l, object, check_relocation))
        return false;
    if (l->n_relative)
        link_add_made(l, LINK_RELA_DYN);
    return true;
}

/* Lays out and writes the output file to l->file, and applies the relocations. Returns false with a
 * message on an error. */
static bool write_file(struct link *l, Elf *object)
{
    link_lay_out(l);
    l->file = calloc(1, l->size);
    if (!l->file)
        return fail(l, "out of memory");
    link_write_file(l, elf64_getehdr(object));
    link_write_tables(l);
    l->n_relative = 0;
    return for_relocations(l, object, relocate);
}

bool tgt_link(const struct tgt_blob *object, struct tgt_blob *code_object, char why[TGT_WHY])
{
    struct link l = {.why = why};
    Elf *elf = tgt_open_elf(object->data, object->size);
    const bool ok = read_object(&l, elf) && add_made(&l, elf) && write_file(&l, elf);
    if (ok)
        *code_object = (struct tgt_blob){l.file, l.size};
    else
        free(l.file);
    free(l.sections);
    free(l.moved);
    elf_end(elf);
    return ok;
}
