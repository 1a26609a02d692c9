/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the software pipelines that compute the indexer's scores, each in a file of
 * this folder.
 */
#ifndef TEMPLATES_INDEX_PIPELINES_PIPELINES_H
#define TEMPLATES_INDEX_PIPELINES_PIPELINES_H

#include "templates/pipeline/pipeline.h"

/** All of the indexer's pipelines, with NULL after the last one. */
extern const struct pipeline *const att_index_pipelines[];
extern const struct pipeline att_index_key_stream;

#endif
