/* SPDX-License-Identifier: Apache-2.0
 *
 * Reports the settings of a config.json that concern attention and that nobody read. Without the
 * report, a description that lacks one of them would look complete.
 */
#ifndef TOOLS_ATTNC_CONFIG_UNREAD_H
#define TOOLS_ATTNC_CONFIG_UNREAD_H

#include <stdio.h>

#include "tools/attnc/describe/config_json.h"
#include "tools/attnc/describe/model_layers.h"

/** Takes one sentence about a setting. */
typedef void config_report(void *context, const char *sentence);

/** True if a setting of this name concerns attention. */
bool config_concerns(const char *name);

/** True for maps of encoders and of quantization, whose settings are not looked at. */
bool config_is_apart(const char *name);

/**
 * Reports every setting of the model's map that nobody read and whose name concerns attention. A
 * value of null, false or the class's default is not reported. Neutral settings are left out, and
 * so are settings of `kinds`, the kinds of layers that the model has.
 */
void config_report_unread(const struct config *c, const bool kinds[LAYER_KINDS],
                          config_report *report, void *context);

/** Writes the settings that were read, or, with `neutral`, those that have no effect on kernels, as
 * "name value, name value". */
void config_list(const struct config *c, const bool kinds[LAYER_KINDS], bool neutral, FILE *out);

#endif
