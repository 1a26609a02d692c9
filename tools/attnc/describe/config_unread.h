/* SPDX-License-Identifier: Apache-2.0
 *
 * Reports the settings of a config.json that concern attention and that attnc has not read. Without
 * this report a description would look complete although a setting was overlooked.
 */
#ifndef TOOLS_ATTNC_CONFIG_UNREAD_H
#define TOOLS_ATTNC_CONFIG_UNREAD_H

#include <stdio.h>

#include "tools/attnc/describe/config_json.h"
#include "tools/attnc/describe/model_layers.h"

/** Receives one sentence about a setting. */
typedef void config_report(void *context, const char *sentence);

/** True if the name of a setting has a word that concerns attention (CONCERNS in
 * config_keys.def). */
bool config_concerns(const char *name);

/** True for the names of maps of encoders and of quantization, whose settings are ignored. */
bool config_is_apart(const char *name);

/** Reports every setting of the model's map that was not read and whose name concerns attention.
 * Left out are null, false, defaults of the class, and settings without effect. `kinds` is by enum
 * layer_kind: true if the model has such layers, whose own settings are left out too. */
void config_report_unread(const struct config *c, const bool kinds[LAYER_KINDS],
                          config_report *report, void *context);

/** Writes settings as "name value, name value": the ones that were read, or with `neutral` the
 * others that change no kernel. `kinds` is by enum layer_kind: true if the model has such
 * layers. */
void config_list(const struct config *c, const bool kinds[LAYER_KINDS], bool neutral, FILE *out);

#endif
