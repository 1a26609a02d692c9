/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the code object for a target in an image that a program passes to HIP: a bare ELF file, a
 * Clang offload bundle, or a compressed bundle. Formats: Clang's "ClangOffloadBundler"
 * documentation.
 */
#ifndef HIPSIM_BUNDLE_H
#define HIPSIM_BUNDLE_H

#include "code_object.h"

/* A file or a part of memory that contains code objects. */
struct image {
    const uint8_t *data;
    size_t size;
    uint8_t *owned; /* buffer that image_release() frees; NULL: none */
};

/** Copies an image from memory; its size follows from the image's headers. `image` owns the copy.
 * Never faults, even if the memory ends before the image does. On failure `why`, of `why_size`
 * bytes, gets a sentence. */
enum code_object_status image_from_memory(const void *pointer, struct image *image, char *why,
                                          size_t why_size);

/** Reads a whole file to memory that `image` owns. On failure `why`, of `why_size` bytes, gets a
 * sentence. */
enum code_object_status image_from_file(const char *path, struct image *image, char *why,
                                        size_t why_size);

/** Replaces `image` by the code object in it that fits `target` best. The order is: the target with
 * matching features, the target without features, its generic target. CODE_OBJECT_OTHER_TARGET if a
 * bundle has none of these. */
enum code_object_status image_select(struct image *image, enum gfx_target target, char *why,
                                     size_t why_size);

void image_release(struct image *image);

#endif
