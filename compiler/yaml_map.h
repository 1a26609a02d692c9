/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds values in maps of a YAML document by key, and reads numbers. Errors have the place of their
 * node.
 */
#ifndef COMPILER_YAML_MAP_H
#define COMPILER_YAML_MAP_H

#include "compiler/yaml.h"

/** Returns the node of a map's value, or 0 if the map lacks it. */
uint32_t attnc_yaml_get(const struct attnc_yaml *y, uint32_t map, const char *name);

/** Returns the text of a map's scalar value, or NULL. */
const char *attnc_yaml_get_text(const struct attnc_yaml *y, uint32_t map, const char *name);

/** Checks that a node is a map whose keys are all in `names`, which NULL ends. Returns false after
 * an error in `d`. */
bool attnc_yaml_check_keys(const struct attnc_yaml *y, uint32_t map, const char *const names[],
                           struct attnc_diag *d);

/** Read a scalar as a decimal whole number, and as any number in C's notation. Returns false after
 * an error in `d`. */
bool attnc_yaml_read_number(const struct attnc_yaml *y, uint32_t id, int64_t *number,
                            struct attnc_diag *d);
bool attnc_yaml_read_real(const struct attnc_yaml *y, uint32_t id, double *number,
                          struct attnc_diag *d);

#endif
