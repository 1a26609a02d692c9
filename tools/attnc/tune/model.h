/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_ATTNC_TUNE_MODEL_H
#define TOOLS_ATTNC_TUNE_MODEL_H

#include "tools/attnc/describe/model_config.h"
#include "tools/attnc/tune/tune.h"

/** A rank of a model. */
struct tune_model {
    char *text; /* the description of its kernels; the caller frees it */
    size_t size;
    struct tune_heads heads[MODEL_MAX_GROUPS];
    size_t head_count;
};

/** Reads a config.json in the Hugging Face layout. Returns an exit code after a message; free the
 * model in any case. */
int tune_parse_model(const char *path, struct model *m);

/** Reads a config.json and describes a rank's kernels. Returns an exit code after a message. */
int tune_read_model(const char *path, long ranks, struct tune_model *out);

#endif
