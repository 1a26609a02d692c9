/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the code object for a target in an image that a program passes to HIP: a bare ELF file, a
 * Clang offload bundle, or a compressed bundle. Formats: Clang's "ClangOffloadBundler"
 * documentation.
 */
#ifndef HIPSIM_BUNDLE_H
#define HIPSIM_BUNDLE_H

#include "code_object.h"

struct image {
    const uint8_t *data;
    size_t size;
    uint8_t *owned; /* buffer that image_release() frees, or NULL */
};

/** Copies an image of unknown size from memory; `image` owns the copy. The size follows from the
 *  image's headers. Never faults, even if the memory ends early. */
enum code_object_status image_from_memory(const void *pointer, struct image *image, char *why,
                                          size_t why_size);

/** Reads a whole file into memory that `image` owns. On failure `why` holds a sentence. */
enum code_object_status image_from_file(const char *path, struct image *image, char *why,
                                        size_t why_size);

/** Narrows `image` to the code object that fits `target` best: the target itself with matching
 *  features, the target with any features, then its generic target. CODE_OBJECT_OTHER_TARGET if a
 *  bundle has none. */
enum code_object_status image_select(struct image *image, enum gfx_target target, char *why,
                                     size_t why_size);

void image_release(struct image *image);

#endif
