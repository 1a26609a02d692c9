/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTNC_TARGETS_ELF_IMAGE_H
#define ATTNC_TARGETS_ELF_IMAGE_H

#include <libelf.h>
#include <stddef.h>

/** Opens an ELF file of `size` bytes in memory for reading. The memory must outlive the handle,
 * which the caller closes with elf_end(). Returns NULL if libelf rejects the file. May run on any
 * thread. */
Elf *tgt_open_elf(const void *data, size_t size);

#endif
