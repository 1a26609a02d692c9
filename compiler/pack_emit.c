/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a pack as a C header, or as an ELF object of the host, for engines that embed their
 * kernels in their binary.
 */
#include <ctype.h>
#include <gelf.h>
#include <libelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "compiler/pack_writer.h"

#if defined(__x86_64__)
#    define HOST_MACHINE EM_X86_64
#elif defined(__aarch64__)
#    define HOST_MACHINE EM_AARCH64
#else
#    error "name the ELF machine of this host"
#endif

/* True if `name` is an identifier of C. */
static bool is_identifier(const char *name)
{
    if (!isalpha((unsigned char)*name) && *name != '_')
        return false;
    for (; *name; name++) {
        if (!isalnum((unsigned char)*name) && *name != '_')
            return false;
    }
    return true;
}

bool attnc_pack_to_header(const void *pack, size_t size, const char *name, void **out,
                          size_t *out_size)
{
    if (!is_identifier(name))
        return false;
    char *text = NULL;
    FILE *f = open_memstream(&text, out_size);
    if (!f)
        return false;
    fprintf(f,
            "/* Written by attnc: a pack for attn_pack_open_memory(). */\n"
            "#ifndef ATTN_PACK_%s_H\n#define ATTN_PACK_%s_H\n\n#include <stddef.h>\n\n"
            "static const size_t attn_pack_%s_size = %zu;\n"
            "static const unsigned char attn_pack_%s[%zu] __attribute__((aligned(%d))) = {\n",
            name, name, name, size, name, size, ATTN_PACK_CODE_ALIGN);
    const uint8_t *bytes = pack;
    for (size_t i = 0; i < size; i++)
        fprintf(f, "%u%s", bytes[i], i % 24 == 23 ? ",\n" : ",");
    fprintf(f, "\n};\n\n#endif\n");
    bool ok = !ferror(f);
    if (fclose(f) || !ok) {
        free(text);
        return false;
    }
    *out = text;
    return true;
}

/* The string table of an ELF file: names of sections and symbols, each with a NUL. */
struct names {
    char text[512];
    size_t size;
};

/* Appends the concatenation of prefix, name and suffix to the table of names; returns its byte
 * offset. */
static uint32_t add_name(struct names *n, const char *prefix, const char *name, const char *suffix)
{
    uint32_t offset = n->size;
    n->size +=
        snprintf(n->text + n->size, sizeof(n->text) - n->size, "%s%s%s", prefix, name, suffix) + 1;
    return offset;
}

/* A section of an ELF file: the fields of its header, and `size` bytes of contents. */
struct section {
    uint32_t name, type, link, info;
    uint64_t flags, align, entry_size;
    Elf_Type data_type;
    void *data;
    size_t size;
};

/* Adds a section to an ELF file. Returns false on an error of libelf. */
static bool add_section(Elf *elf, const struct section *s)
{
    Elf_Scn *scn = elf_newscn(elf);
    Elf_Data *data = scn ? elf_newdata(scn) : NULL;
    GElf_Shdr header;
    if (!data || !gelf_getshdr(scn, &header))
        return false;
    data->d_buf = s->data;
    data->d_size = s->size;
    data->d_align = s->align;
    data->d_type = s->data_type;
    data->d_version = EV_CURRENT;
    header.sh_name = s->name;
    header.sh_type = s->type;
    header.sh_flags = s->flags;
    header.sh_link = s->link;
    header.sh_info = s->info;
    header.sh_addralign = s->align;
    header.sh_entsize = s->entry_size;
    return gelf_update_shdr(scn, &header) != 0;
}

/* Writes a relocatable file with these sections, whose numbers begin at 1. Section 4 must be the
 * string table. Returns false on an error. */
static bool write_sections(Elf *elf, const struct section *sections, size_t count)
{
    if (!gelf_newehdr(elf, ELFCLASS64))
        return false;
    for (size_t i = 0; i < count; i++) {
        if (!add_section(elf, &sections[i]))
            return false;
    }
    GElf_Ehdr header;
    if (!gelf_getehdr(elf, &header))
        return false;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_type = ET_REL;
    header.e_machine = HOST_MACHINE;
    header.e_version = EV_CURRENT;
    header.e_shstrndx = 4;
    return gelf_update_ehdr(elf, &header) && elf_update(elf, ELF_C_WRITE) > 0;
}

/* Writes an object file with sections 1 to 5: the pack, its size, the symbols of both, the names,
 * and the mark for a non-executable stack. */
static bool write_elf(Elf *elf, void *pack, size_t size, const char *name)
{
    struct names n = {.size = 1};
    uint64_t pack_size = size;
    Elf64_Sym symbols[3] = {[1] = {.st_shndx = 1, .st_size = size}};
    for (int i = 1; i < 3; i++) {
        symbols[i].st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT);
        symbols[i].st_other = STV_HIDDEN;
    }
    symbols[1].st_name = add_name(&n, "attn_pack_", name, "");
    symbols[2].st_name = add_name(&n, "attn_pack_", name, "_size");
    symbols[2].st_size = sizeof(pack_size);
    symbols[2].st_shndx = 2;
    uint32_t rodata = add_name(&n, "", ".rodata", "");
    uint32_t symtab = add_name(&n, "", ".symtab", "");
    uint32_t strtab = add_name(&n, "", ".strtab", "");
    uint32_t stack = add_name(&n, "", ".note.GNU-stack", "");
    const struct section sections[] = {
        {.name = rodata,
         .type = SHT_PROGBITS,
         .flags = SHF_ALLOC,
         .align = ATTN_PACK_CODE_ALIGN,
         .data_type = ELF_T_BYTE,
         .data = pack,
         .size = size},
        {.name = rodata,
         .type = SHT_PROGBITS,
         .flags = SHF_ALLOC,
         .align = 8,
         .data_type = ELF_T_XWORD,
         .data = &pack_size,
         .size = sizeof(pack_size)},
        {.name = symtab,
         .type = SHT_SYMTAB,
         .link = 4,
         .info = 1,
         .align = 8,
         .entry_size = sizeof(Elf64_Sym),
         .data_type = ELF_T_SYM,
         .data = symbols,
         .size = sizeof(symbols)},
        {.name = strtab,
         .type = SHT_STRTAB,
         .align = 1,
         .data_type = ELF_T_BYTE,
         .data = n.text,
         .size = n.size},
        {.name = stack,
         .type = SHT_PROGBITS,
         .align = 1,
         .data_type = ELF_T_BYTE,
         .data = "",
         .size = 0},
    };
    return write_sections(elf, sections, sizeof(sections) / sizeof(sections[0]));
}

/* Reads the whole file `fd` to *out, which the caller frees. The detour is needed because libelf
 * writes only to files. Returns false on an error. */
static bool read_back(int fd, void **out, size_t *out_size)
{
    off_t size = lseek(fd, 0, SEEK_END);
    uint8_t *bytes = size > 0 ? malloc(size) : NULL;
    if (!bytes)
        return false;
    for (off_t done = 0; done < size;) {
        ssize_t got = pread(fd, bytes + done, size - done, done);
        if (got <= 0) {
            free(bytes);
            return false;
        }
        done += got;
    }
    *out = bytes;
    *out_size = size;
    return true;
}

bool attnc_pack_to_object(const void *pack, size_t size, const char *name, void **out,
                          size_t *out_size)
{
    enum { NAME_MAX_LENGTH = 128 };
    if (!is_identifier(name) || strlen(name) > NAME_MAX_LENGTH ||
        elf_version(EV_CURRENT) == EV_NONE)
        return false;
    int fd = memfd_create("attn_pack", MFD_CLOEXEC);
    if (fd < 0)
        return false;
    Elf *elf = elf_begin(fd, ELF_C_WRITE, NULL);
    bool ok = elf && write_elf(elf, (void *)pack, size, name);
    if (elf)
        elf_end(elf);
    ok = ok && read_back(fd, out, out_size);
    close(fd);
    return ok;
}
