/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints a model that was read from its config.json, as comments of a description and as JSON.
 */
#ifndef TOOLS_ATTNC_DESCRIBE_MODEL_H
#define TOOLS_ATTNC_DESCRIBE_MODEL_H

#include <stdio.h>

#include "tools/attnc/describe/describe_kernels.h"
#include "tools/attnc/cli/json.h"

/** Writes comments: layers by kind with their heads, scale and rotation, norm, and what is missing.
 */
void print_model(const struct model *m, const struct deployment *d, FILE *out);

/** Writes the settings that were read and those that have no effect, each as one comment. */
void print_settings(const struct model *m, FILE *out);

/** Adds the members of print_model to the JSON object that is open. */
void model_json(struct json *j, const struct model *m, const struct deployment *d);

#endif
