/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds values in maps of a YAML document by key, and reads numbers. Errors have the place of their
 * node.
 */
#ifndef COMPILER_YAML_MAP_H
#define COMPILER_YAML_MAP_H

#include "compiler/yaml.h"

/** Returns the id of the value whose key is `name` in the map `map`. Returns 0 if the map lacks the
 * key or the node is no map. */
uint32_t attnc_yaml_get(const struct attnc_yaml *y, uint32_t map, const char *name);

/** Returns the text of the scalar whose key is `name` in the map `map`. Returns NULL if there is no
 * such scalar. */
const char *attnc_yaml_get_text(const struct attnc_yaml *y, uint32_t map, const char *name);

/** True if the node `map` is a map whose keys are all in `names`, which NULL ends. If not, an error
 * is in `d`. */
bool attnc_yaml_check_keys(const struct attnc_yaml *y, uint32_t map, const char *const names[],
                           struct attnc_diag *d);

/** Reads the scalar `id` as a decimal whole number to *number. Returns false after an error in
 * `d`. */
bool attnc_yaml_read_number(const struct attnc_yaml *y, uint32_t id, int64_t *number,
                            struct attnc_diag *d);
/** Reads the scalar `id` as a number in C's notation to *number. Returns false after an error in
 * `d`. */
bool attnc_yaml_read_real(const struct attnc_yaml *y, uint32_t id, double *number,
                          struct attnc_diag *d);

#endif
