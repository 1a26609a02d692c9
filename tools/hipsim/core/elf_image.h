/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares a validated view of an AMDGPU ELF file, for the loader. */
#ifndef HIPSIM_ELF_IMAGE_H
#define HIPSIM_ELF_IMAGE_H

#include <gelf.h>

#include "code_object.h"

struct elf_image {
    Elf *elf;
    GElf_Ehdr header;
    size_t nsegments;
    uint64_t span;       /* bytes from virtual address 0 to the end of the last segment */
    uint64_t text_begin; /* virtual addresses of the executable segments */
    uint64_t text_end;
    const uint8_t *bytes;
    size_t size;
    char *why; /* buffer for the sentence of a failure */
    size_t why_size;
};

/** Checks class, machine, ABI version, target and segments. The bytes are borrowed and must be
 *  aligned to 8. Call elf_image_close() whatever the result. */
enum code_object_status elf_image_open(struct elf_image *image, enum gfx_target target);
void elf_image_close(struct elf_image *image);

/** Copies the loadable segments to `base`, which has image->span zeroed bytes. */
void elf_image_copy(const struct elf_image *image, uint8_t *base);

/** Applies the dynamic relocations to the copy at `base`. */
enum code_object_status elf_image_relocate(const struct elf_image *image, uint8_t *base);

/** Finds the bytes of the metadata note; NULL if there is none. */
const void *elf_image_metadata(const struct elf_image *image, size_t *size);

/** Calls visit() for every defined symbol of the dynamic symbol table (or, in objects without
 *  one, of the symbol table) whose bytes lie inside the image. Stops when it returns false. */
void elf_image_symbols(const struct elf_image *image,
                       bool (*visit)(void *ctx, const char *name, const GElf_Sym *symbol),
                       void *ctx);

#endif
