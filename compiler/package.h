/* SPDX-License-Identifier: Apache-2.0
 *
 * From built kernels to the bytes of a pack: the place where fields of a description become a
 * dispatch key.
 */
#ifndef COMPILER_PACKAGE_H
#define COMPILER_PACKAGE_H

#include "compiler/driver.h"

/**
 * Packs every kernel of a build that succeeded. On success `pack` holds the pack (free with
 * tgt_blob_free()); false with a sentence in `why`.
 */
bool attnc_package(const struct attnc_description *desc, const struct attnc_build_result *built,
                   struct tgt_blob *pack, char why[ATTNC_WHY]);

#endif
