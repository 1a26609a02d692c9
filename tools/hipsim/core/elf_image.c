/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens AMDGPU ELF files with libelf, which reads the tables. It does not check section headers, so
 * this file checks every offset into the image or into device memory.
 *
 * Numbers are from LLVM's AMDGPUUsage, "ELF Code Object": header, note and relocation records.
 */
#include "elf_image.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define OSABI_AMDGPU_HSA 64
#define MACHINE_AMDGPU 224
#define NOTE_METADATA 32
#define MAX_SPAN (UINT64_C(1) << 28)

/* Values of e_ident[EI_ABIVERSION] for code object versions 4 and 6. */
enum { ABI_V4 = 2, ABI_V6 = 4 };

/* Fields of e_flags and their values. */
enum flags {
    FLAG_MACH = 0xff,
    FLAG_XNACK = 0x300, /* field of e_flags: 0x100 any, 0x200 off, 0x300 on */
    FLAG_XNACK_ON = 0x300,
    FLAG_SRAMECC = 0xc00,
    FLAG_SRAMECC_OFF = 0x800,
};

/* Types of dynamic relocations. */
enum relocation {
    R_NONE = 0,
    R_ABS32_LO = 1,
    R_ABS32_HI = 2,
    R_ABS64 = 3,
    R_REL32 = 4,
    R_REL64 = 5,
    R_ABS32 = 6,
    R_RELATIVE64 = 13
};

/* Values of EF_AMDGPU_MACH that are not in `isas`: value, name, targets that can run the code (enum
 * gfx_target bits). Only names that users are likely to meet are listed; messages print other
 * values as numbers. */
static const struct {
    uint32_t value;
    const char *name;
    unsigned runs_on;
} machines[] = {
    {0x05f, "gfx9-4-generic", GFX942 | GFX950},
    {0x030, "gfx908", 0},
    {0x03f, "gfx90a", 0},
    {0x040, "gfx940", 0},
    {0x04b, "gfx941", 0},
    {0x036, "gfx1030", 0},
    {0x041, "gfx1100", 0},
    {0x048, "gfx1200", 0},
    {0x051, "gfx9-generic", 0},
};

const char *gfx_name(enum gfx_target target) { return isa_of(target)->name; }

static enum code_object_status refuse(const struct elf_image *image, enum code_object_status status,
                                      const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Writes a sentence to image->why. Returns `status`. */
static enum code_object_status refuse(const struct elf_image *image, enum code_object_status status,
                                      const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(image->why, image->why_size, format, args);
    va_end(args);
    return status;
}

/* Checks that the code of the image is for the target. */
static enum code_object_status check_target(const struct elf_image *image, enum gfx_target target)
{
    uint32_t flags = image->header.e_flags;
    const char *name = NULL;
    unsigned runs_on = 0;

    for (unsigned i = 0; i < ISAS; i++) {
        if (isas[i].machine != (flags & FLAG_MACH))
            continue;
        name = isas[i].name;
        runs_on = isas[i].target;
    }
    for (size_t i = 0; !name && i < sizeof(machines) / sizeof(*machines); i++) {
        if (machines[i].value != (flags & FLAG_MACH))
            continue;
        name = machines[i].name;
        runs_on = machines[i].runs_on;
    }
    if (!name)
        return refuse(image, CODE_OBJECT_OTHER_TARGET,
                      "the code object is for AMDGPU machine 0x%x, the simulated GPU is a %s",
                      flags & FLAG_MACH, gfx_name(target));
    if (!(runs_on & target))
        return refuse(image, CODE_OBJECT_OTHER_TARGET,
                      "the code object is for %s, the simulated GPU is a %s", name,
                      gfx_name(target));
    if ((flags & FLAG_XNACK) == FLAG_XNACK_ON && !isa_of(target)->gfx12)
        return refuse(image, CODE_OBJECT_OTHER_TARGET,
                      "the code object needs xnack+, the simulated GPU is %s%s", gfx_name(target),
                      isa_of(target)->features);
    if ((flags & FLAG_SRAMECC) == FLAG_SRAMECC_OFF)
        return refuse(image, CODE_OBJECT_OTHER_TARGET,
                      "the code object needs sramecc-, the simulated GPU is %s%s", gfx_name(target),
                      isa_of(target)->features);
    return CODE_OBJECT_OK;
}

/* Checks the ELF header: a code object for the target. */
static enum code_object_status check_header(struct elf_image *image, enum gfx_target target)
{
    const unsigned char *ident = image->bytes;

    if (image->size < sizeof(Elf64_Ehdr) || memcmp(ident, ELFMAG, SELFMAG) != 0)
        return refuse(image, CODE_OBJECT_INVALID, "the image is not an ELF file");
    if (ident[EI_CLASS] != ELFCLASS64 || ident[EI_DATA] != ELFDATA2LSB)
        return refuse(image, CODE_OBJECT_INVALID, "the ELF file is not 64-bit little-endian");
    elf_version(EV_CURRENT);
    image->elf = elf_memory((char *)(uintptr_t)image->bytes, image->size);
    if (!image->elf || !gelf_getehdr(image->elf, &image->header))
        return refuse(image, CODE_OBJECT_INVALID, "the ELF header is corrupt: %s", elf_errmsg(-1));
    if (image->header.e_machine != MACHINE_AMDGPU)
        return refuse(image, CODE_OBJECT_INVALID,
                      "the ELF file is for machine %u, not for AMDGPU (224)",
                      image->header.e_machine);
    if (ident[EI_OSABI] != OSABI_AMDGPU_HSA)
        return refuse(image, CODE_OBJECT_INVALID, "the ELF file's OS ABI is %u, not AMDGPU HSA",
                      ident[EI_OSABI]);
    if (ident[EI_ABIVERSION] < ABI_V4 || ident[EI_ABIVERSION] > ABI_V6)
        return refuse(image, CODE_OBJECT_INVALID,
                      "the ELF ABI version is %u: code object versions 4, 5 and 6 are supported",
                      ident[EI_ABIVERSION]);
    if (image->header.e_type != ET_DYN)
        return refuse(image, CODE_OBJECT_INVALID,
                      "the ELF file is not linked (a shared object is needed)");
    return check_target(image, target);
}

/* Checks the program header number `index`. */
static enum code_object_status check_segment(struct elf_image *image, size_t index)
{
    GElf_Phdr segment;

    if (!gelf_getphdr(image->elf, (int)index, &segment))
        return refuse(image, CODE_OBJECT_INVALID, "program header %zu is missing", index);
    if (segment.p_type != PT_LOAD && segment.p_type != PT_NOTE)
        return CODE_OBJECT_OK;
    if (segment.p_offset > image->size || segment.p_filesz > image->size - segment.p_offset)
        return refuse(image, CODE_OBJECT_INVALID,
                      "the image is truncated: segment %zu ends at %" PRIu64 " of %zu bytes", index,
                      segment.p_offset + segment.p_filesz, image->size);
    if (segment.p_type == PT_NOTE)
        return CODE_OBJECT_OK;
    if (segment.p_filesz > segment.p_memsz || segment.p_memsz > MAX_SPAN ||
        segment.p_vaddr > MAX_SPAN - segment.p_memsz)
        return refuse(image, CODE_OBJECT_INVALID,
                      "segment %zu has an absurd address or size (0x%" PRIx64 ", %" PRIu64 " B)",
                      index, segment.p_vaddr, segment.p_memsz);
    if (segment.p_vaddr + segment.p_memsz > image->span)
        image->span = segment.p_vaddr + segment.p_memsz;
    if (segment.p_flags & PF_X) {
        if (image->text_end == 0 || segment.p_vaddr < image->text_begin)
            image->text_begin = segment.p_vaddr;
        if (segment.p_vaddr + segment.p_filesz > image->text_end)
            image->text_end = segment.p_vaddr + segment.p_filesz;
    }
    return CODE_OBJECT_OK;
}

/* Sets *found to the first section of a type. False if there is none. */
static bool find_section(const struct elf_image *image, uint32_t type, GElf_Shdr *found)
{
    Elf_Scn *section = NULL;

    while ((section = elf_nextscn(image->elf, section)))
        if (gelf_getshdr(section, found) && found->sh_type == type)
            return true;
    return false;
}

/* Checks the section headers, from which symbols and relocations are found. Without them no kernel
 * would be found, and addresses in data would not be relocated. */
static enum code_object_status check_sections(const struct elf_image *image)
{
    GElf_Shdr section;
    size_t count;

    if (elf_getshdrnum(image->elf, &count) != 0 || count == 0)
        return refuse(image, CODE_OBJECT_INVALID,
                      "the code object has no section headers, by which its symbols are found");
    if (!find_section(image, SHT_DYNSYM, &section) && !find_section(image, SHT_SYMTAB, &section))
        return refuse(image, CODE_OBJECT_INVALID, "the code object has no table of symbols");
    return CODE_OBJECT_OK;
}

enum code_object_status elf_image_open(struct elf_image *image, enum gfx_target target)
{
    enum code_object_status status = check_header(image, target);

    if (status == CODE_OBJECT_OK)
        status = check_sections(image);
    if (status != CODE_OBJECT_OK)
        return status;
    if (elf_getphdrnum(image->elf, &image->nsegments) != 0 || image->nsegments == 0)
        return refuse(image, CODE_OBJECT_INVALID, "the ELF file has no program headers");
    for (size_t i = 0; i < image->nsegments; i++) {
        status = check_segment(image, i);
        if (status != CODE_OBJECT_OK)
            return status;
    }
    if (image->span == 0)
        return refuse(image, CODE_OBJECT_INVALID, "the ELF file has nothing to load");
    if (image->text_begin & 3)
        return refuse(image, CODE_OBJECT_INVALID, "the code is not aligned to 4 bytes");
    return CODE_OBJECT_OK;
}

void elf_image_close(struct elf_image *image)
{
    if (image->elf)
        elf_end(image->elf);
    image->elf = NULL;
}

void elf_image_copy(const struct elf_image *image, uint8_t *base)
{
    for (size_t i = 0; i < image->nsegments; i++) {
        GElf_Phdr segment;
        if (gelf_getphdr(image->elf, (int)i, &segment) && segment.p_type == PT_LOAD)
            memcpy(base + segment.p_vaddr, image->bytes + segment.p_offset, segment.p_filesz);
    }
}

/* Returns the contents of a section that is inside the file. NULL if the section has no bytes. */
static const void *section_bytes(const struct elf_image *image, const GElf_Shdr *section)
{
    if (section->sh_type == SHT_NOBITS || section->sh_offset > image->size ||
        section->sh_size > image->size - section->sh_offset)
        return NULL;
    return image->bytes + section->sh_offset;
}

/* The functions from here on read symbols. */

/* The dynamic symbol table of an image, and its strings. */
struct symbol_table {
    const uint8_t *symbols;
    uint64_t count;
    const char *strings;
    uint64_t strings_size;
};

/* Sets *table to the image's symbols. False if it has none. */
static bool symbol_table(const struct elf_image *image, struct symbol_table *table)
{
    GElf_Shdr symbols, strings;

    if (!find_section(image, SHT_DYNSYM, &symbols) && !find_section(image, SHT_SYMTAB, &symbols))
        return false;
    Elf_Scn *linked = elf_getscn(image->elf, symbols.sh_link);
    if (!linked || !gelf_getshdr(linked, &strings))
        return false;
    const uint8_t *entries = section_bytes(image, &symbols);
    const char *names = section_bytes(image, &strings);
    if (!entries || !names)
        return false;
    *table =
        (struct symbol_table){entries, symbols.sh_size / sizeof(Elf64_Sym), names, strings.sh_size};
    return true;
}

/* Reads the symbol number `index`. False if it is outside of the table. */
static bool read_symbol(const struct symbol_table *table, uint64_t index, Elf64_Sym *symbol,
                        const char **name)
{
    if (index >= table->count)
        return false;
    memcpy(symbol, table->symbols + index * sizeof(*symbol), sizeof(*symbol));
    if (symbol->st_name >= table->strings_size)
        return false;
    *name = table->strings + symbol->st_name;
    return memchr(*name, 0, table->strings_size - symbol->st_name) != NULL;
}

void elf_image_symbols(const struct elf_image *image,
                       bool (*visit)(void *ctx, const char *name, const GElf_Sym *symbol),
                       void *ctx)
{
    struct symbol_table table;

    if (!symbol_table(image, &table))
        return;
    for (uint64_t i = 1; i < table.count; i++) {
        Elf64_Sym symbol;
        const char *name;
        if (!read_symbol(&table, i, &symbol, &name) || symbol.st_shndx == SHN_UNDEF)
            continue;
        if (symbol.st_value > image->span || symbol.st_size > image->span - symbol.st_value)
            continue;
        if (!visit(ctx, name, &symbol))
            return;
    }
}

/* The functions from here on apply relocations. */

/* Applies a relocation to the image that is loaded at `base`. */
static enum code_object_status relocate_one(const struct elf_image *image,
                                            const struct symbol_table *table, uint8_t *base,
                                            const Elf64_Rela *rela)
{
    uint32_t type = (uint32_t)ELF64_R_TYPE(rela->r_info);
    uint64_t value = (uintptr_t)base + (uint64_t)rela->r_addend;
    uint64_t place = (uintptr_t)base + rela->r_offset;
    unsigned bytes = type == R_RELATIVE64 || type == R_ABS64 || type == R_REL64 ? 8 : 4;

    if (type == R_NONE)
        return CODE_OBJECT_OK;
    if (rela->r_offset > image->span || bytes > image->span - rela->r_offset)
        return refuse(image, CODE_OBJECT_INVALID, "a relocation lies outside the loaded image");
    if (type != R_RELATIVE64) {
        Elf64_Sym symbol;
        const char *name;
        if (!read_symbol(table, ELF64_R_SYM(rela->r_info), &symbol, &name))
            return refuse(image, CODE_OBJECT_INVALID, "a relocation names no symbol");
        if (symbol.st_shndx == SHN_UNDEF)
            return refuse(image, CODE_OBJECT_INVALID, "symbol %.200s is not defined", name);
        value += symbol.st_value;
    }
    switch (type) {
    case R_RELATIVE64:
    case R_ABS64:
    case R_ABS32_LO:
    case R_ABS32: break;
    case R_ABS32_HI: value >>= 32; break;
    case R_REL32:
    case R_REL64: value -= place; break;
    default:
        return refuse(image, CODE_OBJECT_INVALID, "relocation type %u is not a dynamic one", type);
    }
    memcpy(base + rela->r_offset, &value, bytes);
    return CODE_OBJECT_OK;
}

enum code_object_status elf_image_relocate(const struct elf_image *image, uint8_t *base)
{
    struct symbol_table table = {0};
    Elf_Scn *section = NULL;
    GElf_Shdr header;

    symbol_table(image, &table);
    while ((section = elf_nextscn(image->elf, section))) {
        /* Only dynamic relocations apply at load time. Relocations of debug sections are for the
         * linker. */
        if (!gelf_getshdr(section, &header) || header.sh_type != SHT_RELA ||
            !(header.sh_flags & SHF_ALLOC))
            continue;
        const uint8_t *bytes = section_bytes(image, &header);
        if (!bytes)
            return refuse(image, CODE_OBJECT_INVALID, "the relocations lie outside the file");
        for (uint64_t i = 0; i < header.sh_size / sizeof(Elf64_Rela); i++) {
            Elf64_Rela rela;
            memcpy(&rela, bytes + i * sizeof(rela), sizeof(rela));
            enum code_object_status status = relocate_one(image, &table, base, &rela);
            if (status != CODE_OBJECT_OK)
                return status;
        }
    }
    return CODE_OBJECT_OK;
}

/* The functions from here on read notes. */

/* Returns the size rounded up to a multiple of 4. */
static uint64_t pad4(uint64_t size) { return (size + 3) & ~UINT64_C(3); }

/* Returns the metadata in a note section, and sets *found to their size. NULL: none. */
static const void *metadata_in(const uint8_t *notes, uint64_t size, size_t *found)
{
    while (size >= sizeof(Elf64_Nhdr)) {
        Elf64_Nhdr note;
        memcpy(&note, notes, sizeof(note));
        uint64_t name = sizeof(note), content = name + pad4(note.n_namesz);
        if (content + note.n_descsz > size)
            return NULL;
        if (note.n_type == NOTE_METADATA && note.n_namesz == 7 &&
            memcmp(notes + name, "AMDGPU", 7) == 0) {
            *found = note.n_descsz;
            return notes + content;
        }
        uint64_t step = content + pad4(note.n_descsz);
        if (step > size)
            return NULL;
        notes += step;
        size -= step;
    }
    return NULL;
}

const void *elf_image_metadata(const struct elf_image *image, size_t *size)
{
    for (size_t i = 0; i < image->nsegments; i++) {
        GElf_Phdr segment;
        if (!gelf_getphdr(image->elf, (int)i, &segment) || segment.p_type != PT_NOTE)
            continue;
        const void *found = metadata_in(image->bytes + segment.p_offset, segment.p_filesz, size);
        if (found)
            return found;
    }
    return NULL;
}
