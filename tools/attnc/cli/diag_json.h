/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_ATTNC_DIAG_JSON_H
#define TOOLS_ATTNC_DIAG_JSON_H

#include "compiler/diag.h"
#include "tools/attnc/cli/json.h"

/** Adds the messages about a file to a list: file, line, column, severity, text, note. */
void diag_json(struct json *j, const struct attnc_diag *d);

#endif
