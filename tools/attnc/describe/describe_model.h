/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares how a model is printed that was read from its config.json: as comments of a
 * description, and as JSON.
 */
#ifndef TOOLS_ATTNC_DESCRIBE_MODEL_H
#define TOOLS_ATTNC_DESCRIBE_MODEL_H

#include <stdio.h>

#include "tools/attnc/describe/describe_kernels.h"
#include "tools/attnc/cli/json.h"

/** Prints the model as comments: its layers by kind, with heads, scale, rotation and norm, and what
 * attnc lacks. */
void print_model(const struct model *m, const struct deployment *d, FILE *out);

/** Prints the settings that were read, and the ones that change no kernel, each list as a
 * comment. */
void print_settings(const struct model *m, FILE *out);

/** Adds the facts that print_model() prints to the open JSON object. */
void model_json(struct json *j, const struct model *m, const struct deployment *d);

#endif
