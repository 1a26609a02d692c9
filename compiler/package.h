/* SPDX-License-Identifier: Apache-2.0
 *
 * From built kernels to the pack writer: the place where fields of a description become a
 * dispatch key.
 */
#ifndef COMPILER_PACKAGE_H
#define COMPILER_PACKAGE_H

#include "compiler/driver.h"

struct attnc_pack_writer;

/**
 * Adds every kernel of a build that succeeded to a pack. False: see attnc_pack_writer_error().
 */
bool attnc_package(struct attnc_pack_writer *w, const struct attnc_description *desc,
                   const struct attnc_build_result *built);

#endif
