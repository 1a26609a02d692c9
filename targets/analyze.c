/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a kernel back from its code object, and computes in which share of its hot loop the matrix
 * pipe is busy.
 *
 * The bound of the loop's time is first order: it ignores memory, barriers and waits. w waves share
 * a SIMD, and their MFMAs cannot overlap each other. An MFMA has a shadow, in which vector
 * instructions of other waves issue; packed f32 instructions cannot. One iteration of a wave has M
 * clocks of MFMAs and P packed instructions. Its other vector instructions take U issue slots of 4
 * clocks, and the shadow has S such slots. Then
 *
 *     T = w M + 4 max(0, w U - w S) + 4 w P,      duty = w M / T
 *
 * (model and shadow: ROCm/gfx950-gluon-tutorials, mfma_coissue_scheduling.md; real kernels reach 93
 * to 96 % of the bound).
 */
#include "targets/analyze.h"

#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "targets/elf_image.h"

/* A code object of `size` bytes in memory, and the name of the function to find. */
struct image {
    const uint8_t *data;
    size_t size;
    Elf *elf;
    const char *name;
};

/* Sets *code and *size to the bytes of the function `sym`. Returns false if its section or the code
 * object does not contain all of them. */
static bool bytes_of_symbol(const struct image *i, const GElf_Sym *sym, const uint8_t **code,
                            size_t *size)
{
    GElf_Shdr header;
    Elf_Scn *section = elf_getscn(i->elf, sym->st_shndx);
    if (!section || !gelf_getshdr(section, &header) || header.sh_type != SHT_PROGBITS)
        return false;
    uint64_t start = sym->st_value - header.sh_addr;
    if (sym->st_value < header.sh_addr || start > header.sh_size ||
        sym->st_size > header.sh_size - start || header.sh_offset > i->size ||
        header.sh_size > i->size - header.sh_offset)
        return false;
    *code = i->data + header.sh_offset + start;
    *size = sym->st_size;
    return true;
}

/* Sets *code and *size to the bytes of the function i->name by the symbol table `table` with header
 * `header`. Returns false if the table lacks it. */
static bool find_in_table(const struct image *i, Elf_Scn *table, const GElf_Shdr *header,
                          const uint8_t **code, size_t *size)
{
    Elf_Data *data = elf_getdata(table, NULL);
    size_t count = data && header->sh_entsize ? header->sh_size / header->sh_entsize : 0;
    for (size_t n = 0; n < count; n++) {
        GElf_Sym sym;
        if (!gelf_getsym(data, (int)n, &sym) || GELF_ST_TYPE(sym.st_info) != STT_FUNC)
            continue;
        const char *symbol = elf_strptr(i->elf, header->sh_link, sym.st_name);
        if (symbol && strcmp(symbol, i->name) == 0)
            return bytes_of_symbol(i, &sym, code, size);
    }
    return false;
}

/* Sets *code and *size to the bytes of the function i->name by the dynamic symbols. Returns false
 * if there is no such function. */
static bool find_in_image(const struct image *i, const uint8_t **code, size_t *size)
{
    for (Elf_Scn *s = elf_nextscn(i->elf, NULL); s; s = elf_nextscn(i->elf, s)) {
        GElf_Shdr header;
        if (gelf_getshdr(s, &header) && header.sh_type == SHT_DYNSYM &&
            find_in_table(i, s, &header, code, size))
            return true;
    }
    return false;
}

/* Returns in how many of 1,000 clocks of the loop MFMAs run, by the bound in the header of this
 * file; 0 for an empty loop. */
static unsigned duty_permille(const struct tgt_loop_facts *f, const struct tgt *t)
{
    unsigned exposed = f->valu_slots > f->shadow_slots ? f->valu_slots - f->shadow_slots : 0;
    unsigned stalls = t->pk_f32_stalls_mfma ? f->packed : 0;
    unsigned clocks = f->mfma_cycles + 4 * exposed + 4 * stalls;
    return clocks ? (unsigned)(1000ull * f->mfma_cycles / clocks) : 0;
}

/* Disassembles a kernel, checks the distances after its WMMAs, and counts the instructions of its
 * hot loop. On failure returns false with a sentence in `why`. */
static bool analyze_code(const uint8_t *bytes, size_t size, const struct tgt *t,
                         struct tgt_kernel_facts *facts, char why[TGT_WHY])
{
    struct tgt_code code;
    struct tgt_range loop;
    if (!tgt_disassemble(bytes, size, t, &code, why))
        return false;
    bool ok = tgt_check_gaps(&code, t, why);
    if (ok && tgt_find_hot_loop(&code, &loop)) {
        ok = tgt_count(&code, loop, t, &facts->loop, why);
        facts->mfma_duty = duty_permille(&facts->loop, t);
    }
    free(code.insts);
    return ok;
}

bool tgt_find_code(const void *code_object, size_t object_size, const char *name,
                   const uint8_t **code, size_t *size, char why[TGT_WHY])
{
    struct image i = {.data = code_object, .size = object_size, .name = name};
    i.elf = tgt_open_elf(code_object, object_size);
    bool found = i.elf && find_in_image(&i, code, size);
    size_t sections = 0;
    const bool bare = i.elf && (elf_getshdrnum(i.elf, &sections) || !sections);
    elf_end(i.elf);
    if (!found && bare)
        snprintf(why, TGT_WHY, "%s: the code object has no section headers", name);
    else if (!found)
        snprintf(why, TGT_WHY, "%s: no such function in the code object", name);
    return found;
}

bool tgt_analyze(const void *code_object, size_t size, const char *name, const struct tgt *t,
                 struct tgt_kernel_facts *facts, char why[TGT_WHY])
{
    struct tgt_kernel_facts f = {0};
    const uint8_t *code;
    size_t code_bytes;
    if (!tgt_read_metadata(code_object, size, name, &f, why) ||
        !tgt_find_code(code_object, size, name, &code, &code_bytes, why) ||
        !analyze_code(code, code_bytes, t, &f, why))
        return false;
    f.code_bytes = (unsigned)code_bytes;
    const unsigned lanes = tir_lanes(&t->machine);
    f.occupancy =
        tgt_occupancy(t, f.vgprs + f.agprs, f.lds_bytes, (f.workgroup_size + lanes - 1) / lanes);
    *facts = f;
    return true;
}
