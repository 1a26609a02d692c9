/* SPDX-License-Identifier: Apache-2.0 */
/* An AMDGPU ELF file that has been checked, for the loader. */
#ifndef HIPSIM_ELF_IMAGE_H
#define HIPSIM_ELF_IMAGE_H

#include <gelf.h>

#include "code_object.h"

struct elf_image {
    Elf *elf;
    GElf_Ehdr header;
    size_t nsegments;
    uint64_t span;       /* bytes from virtual address 0 to the last segment's end */
    uint64_t text_begin; /* virtual addresses of the executable segments: begin and end */
    uint64_t text_end;
    const uint8_t *bytes;
    size_t size;
    char *why; /* buffer for a sentence on failure */
    size_t why_size;
};

/** Checks class, machine, ABI version, target and segments of image->bytes. The caller owns these
 * bytes, which must be aligned to 8. Call elf_image_close() in any case. */
enum code_object_status elf_image_open(struct elf_image *image, enum gfx_target target);
void elf_image_close(struct elf_image *image);

/** Copies the loadable segments to `base`, which has room for image->span bytes, all zero. */
void elf_image_copy(const struct elf_image *image, uint8_t *base);

/** Applies the dynamic relocations to the segments that elf_image_copy() has copied to `base`. */
enum code_object_status elf_image_relocate(const struct elf_image *image, uint8_t *base);

/** Returns the bytes of the metadata note, and sets *size to their number. NULL if there is
 * none. */
const void *elf_image_metadata(const struct elf_image *image, size_t *size);

/** Calls visit() for every defined symbol of the dynamic symbol table whose bytes are inside the
 * image. Objects without that table have their symbol table read. Ends when visit() returns
 * false. */
void elf_image_symbols(const struct elf_image *image,
                       bool (*visit)(void *ctx, const char *name, const GElf_Sym *symbol),
                       void *ctx);

#endif
