/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_ATTNC_TUNE_MODEL_H
#define TOOLS_ATTNC_TUNE_MODEL_H

#include "tools/attnc/describe/model_config.h"
#include "tools/attnc/tune/tune.h"

/** The kernels and heads of one rank of a model. */
struct tune_model {
    char *text; /* the description of its kernels, YAML; the caller frees it */
    size_t size;
    /* Head counts of each group of layers. */
    struct tune_heads heads[MODEL_MAX_GROUPS];
    size_t head_count;
};

/** Reads the config.json at `path`, in Hugging Face's layout, into *m. Returns an exit_code after a
 * message; call model_free() also after a failure. */
int tune_parse_model(const char *path, struct model *m);

/** Reads the config.json at `path` and describes the kernels of one of `ranks` ranks. Returns an
 * exit_code after a message. */
int tune_read_model(const char *path, long ranks, struct tune_model *out);

#endif
