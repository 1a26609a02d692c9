/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_ATTNC_DIAG_JSON_H
#define TOOLS_ATTNC_DIAG_JSON_H

#include "compiler/diag.h"
#include "tools/attnc/cli/json.h"

/** Adds a list to `j` with each message about a description: file, line, column, severity, text and
 * note. */
void diag_json(struct json *j, const struct attnc_diag *d);

#endif
