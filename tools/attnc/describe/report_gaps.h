/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_ATTNC_REPORT_GAPS_H
#define TOOLS_ATTNC_REPORT_GAPS_H

#include "tools/attnc/describe/model_config.h"

/** Prints a message for each of the model's gaps: what the model needs and attnc lacks. `path` is
 * the model's file. Returns EXIT_PARTIAL if there is a gap, else EXIT_GOOD. */
int report_gaps(const struct model *m, const char *path);

#endif
