/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTNC_TARGETS_ELF_IMAGE_H
#define ATTNC_TARGETS_ELF_IMAGE_H

#include <libelf.h>
#include <stddef.h>

/** Opens an ELF image in memory for reading; the memory must outlive the handle. Returns NULL if
 * libelf rejects the image. The caller closes the handle with elf_end(). Any thread. */
Elf *tgt_open_elf(const void *data, size_t size);

#endif
