/* SPDX-License-Identifier: Apache-2.0
 *
 * Reduces what the kernel descriptor of LLVM's object claims (AMDGPUUsage, "Kernel Descriptor"):
 * the number of registers, and the workgroup's indices in SGPRs. LLVM has all three indices written
 * at the start of a wave, even if the attributes of the kernel say that some are not read.
 *
 * LLVM claims all registers that a wave can have at the occupancy that the LDS permits, even if the
 * code uses fewer. Then another kernel's waves get no registers on the same SIMD.
 */
#include "targets/descriptor.h"

#include <gelf.h>
#include <stdio.h>
#include <string.h>

#include "targets/elf_image.h"

/* Byte offsets of the words compute_pgm_rsrc3, 1 and 2 in a kernel descriptor, and the descriptor's
 * size in bytes. */
enum { RSRC3 = 44, RSRC1 = 48, RSRC2 = 52, DESCRIPTOR_BYTES = 64 };
/* Bits of compute_pgm_rsrc2. Each has the hardware write a value to an SGPR at the start of a wave:
 * SCRATCH the offset in scratch memory, ID_X the workgroup's index in x (the next two bits: y, z),
 * GROUP_SIZE the workgroup's size. The SGPRs are in the order x, y, z, size, offset. */
enum { SCRATCH = 1 << 0, ID_X = 1 << 7, GROUP_SIZE = 1 << 10 };
/* FIELD is the mask of the register counts in both words. From gfx90a on the low bits of
 * compute_pgm_rsrc1 count VGPRs and AGPRs in units of 8, minus 1. The low bits of compute_pgm_rsrc3
 * count the VGPRs before the first AGPR in units of 4, minus 1. */
enum { FIELD = 63, EIGHT = 8, FOUR = 4 };

/* True if `symbol` is the name of the kernel's descriptor: "kernel.kd". */
static bool is_descriptor(const char *symbol, const char *kernel)
{
    const size_t n = strlen(kernel);
    return symbol && !strncmp(symbol, kernel, n) && !strcmp(symbol + n, ".kd");
}

/* Returns the byte offset in the object of the kernel descriptor that `sym` names. Returns 0 if the
 * object does not contain all of its bytes. */
static size_t place_of(Elf *elf, const struct tgt_blob *object, const GElf_Sym *sym)
{
    GElf_Shdr h;
    Elf_Scn *const section = elf_getscn(elf, sym->st_shndx);
    if (!section || !gelf_getshdr(section, &h) || h.sh_type != SHT_PROGBITS ||
        h.sh_offset > object->size || h.sh_size > object->size - h.sh_offset ||
        h.sh_size < DESCRIPTOR_BYTES || sym->st_value > h.sh_size - DESCRIPTOR_BYTES)
        return 0;
    return h.sh_offset + sym->st_value;
}

/* Returns the byte offset in the object of the descriptor of `kernel`, by the symbol table `table`
 * with header `h`. 0: the table has no such symbol. */
static size_t find_in_table(Elf *elf, const struct tgt_blob *object, Elf_Scn *table,
                            const GElf_Shdr *h, const char *kernel)
{
    Elf_Data *const data = elf_getdata(table, NULL);
    const size_t count = data && h->sh_entsize ? h->sh_size / h->sh_entsize : 0;
    GElf_Sym sym;
    for (size_t n = 0; n < count; n++)
        if (gelf_getsym(data, (int)n, &sym) &&
            is_descriptor(elf_strptr(elf, h->sh_link, sym.st_name), kernel))
            return place_of(elf, object, &sym);
    return 0;
}

/* Returns the byte offset in the object of the descriptor of `kernel`; 0 if it is absent. */
static size_t find(const struct tgt_blob *object, const char *kernel)
{
    Elf *const elf = tgt_open_elf(object->data, object->size);
    size_t at = 0;
    GElf_Shdr h;
    for (Elf_Scn *s = elf_nextscn(elf, NULL); s && !at; s = elf_nextscn(elf, s))
        if (gelf_getshdr(s, &h) && h.sh_type == SHT_SYMTAB)
            at = find_in_table(elf, object, s, &h, kernel);
    elf_end(elf);
    return at;
}

/* Reduces the number of registers to the VGPRs that the code uses. */
static void trim_registers(uint8_t *descriptor)
{
    uint32_t rsrc1, rsrc3;
    memcpy(&rsrc1, descriptor + RSRC1, sizeof(rsrc1));
    memcpy(&rsrc3, descriptor + RSRC3, sizeof(rsrc3));
    const uint32_t used = ((rsrc3 & FIELD) + 1) * FOUR, eights = (used + EIGHT - 1) / EIGHT;
    if (eights <= (rsrc1 & FIELD))
        rsrc1 = (rsrc1 & ~(uint32_t)FIELD) | (eights - 1);
    memcpy(descriptor + RSRC1, &rsrc1, sizeof(rsrc1));
}

/* Removes the workgroup indices from dimension `dims` on, unless other SGPRs follow them. */
static void trim_workgroup_ids(uint8_t *descriptor, unsigned dims)
{
    uint32_t rsrc2;
    memcpy(&rsrc2, descriptor + RSRC2, sizeof(rsrc2));
    for (unsigned d = dims; d < 3 && !(rsrc2 & (SCRATCH | GROUP_SIZE)); d++)
        rsrc2 &= ~((uint32_t)ID_X << d);
    memcpy(descriptor + RSRC2, &rsrc2, sizeof(rsrc2));
}

bool tgt_trim_descriptor(struct tgt_blob *object, const char *kernel, bool registers, unsigned dims,
                         char why[TGT_WHY])
{
    const size_t at = find(object, kernel);
    if (!at) {
        snprintf(why, TGT_WHY, "%s: no descriptor of such a kernel in the object", kernel);
        return false;
    }
    if (registers)
        trim_registers(object->data + at);
    trim_workgroup_ids(object->data + at, dims);
    return true;
}
