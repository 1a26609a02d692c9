/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_ATTNC_TUNE_PARAMETERS_H
#define TOOLS_ATTNC_TUNE_PARAMETERS_H

#include <stdbool.h>

/** A parameter of the timing model: a row of targets/facts/. */
struct tune_parameter {
    const char *name;
    double value, low, high; /* the range that sources leave */
    bool open;               /* unresolved (U) with a range */
    bool fitted;             /* fitted by us (F) with a range */
};

/** The parameters of a target; a row without a name ends them. */
const struct tune_parameter *tune_parameters(const char *target);

#endif
