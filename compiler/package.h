/* SPDX-License-Identifier: Apache-2.0
 *
 * Adds the kernels of a build to a pack, with the fields of their variants as dispatch keys.
 */
#ifndef COMPILER_PACKAGE_H
#define COMPILER_PACKAGE_H

#include "compiler/driver.h"

struct attnc_pack_writer;

/** Adds all kernels of a build, which must have succeeded, to a pack. Returns false on failure:
 * attnc_pack_writer_error() has the message. */
bool attnc_package(struct attnc_pack_writer *w, const struct attnc_description *desc,
                   const struct attnc_build_result *built);

/** Returns the number of entries of a pack with the kernels of `desc`, as `attnc list` prints them.
 * A kernel for several ranges of calls has an entry for each. */
size_t attnc_count_entries(const struct attnc_description *desc);

#endif
