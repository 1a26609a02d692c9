/* SPDX-License-Identifier: Apache-2.0
 *
 * This table documents the loop over keys in which the indexer computes scores. An iteration
 * computes a group of 32 keys. Each wave has keys of its own, which go from memory to registers.
 * The loop is unrolled by hand (index/score.c), since selection has barriers and its number of
 * passes depends on the scores. Keys of 2 or 4 groups are in flight; the table shows 2. All steps
 * are woven between the MFMAs of a group. Scales are loaded when selection has used the older ones
 * in their register.
 *
 *     key_stream: indexer_topk and indexer_logits; unrolled by hand
 *     no wave shares keys: no LDS, and the sums of a group run beside the next products
 *     GROUP   matrix    scale and select[5], relu and sum[4], products[3], load scales[3],
 *                       load keys[2], find page[0]
 *     LDS               not used
 *     waves             all run the same phase
 */
#include "templates/index/pipelines/pipelines.h"

/* Stages of the steps on a group of keys: number of iterations after the one in which the group's
 * page is found. A key group's loads are in flight for one iteration and more. */
enum { PAGES, KEYS = 2, SCORES, SUMS, SELECTION };
/* The only phase of an iteration, which works on one group of keys per stage. */
enum { GROUP };

static const struct pipe_phase phases[] = {{"GROUP", PIPE_MATRIX, .branches = 1}, {0}};

/* Values that steps pass to each other, a bit for each. */
enum { PAGE = 1, KEY = 2, SCALE = 4, PRODUCT = 8, SUM = 16 };
static const struct pipe_slot slots[] = {{"page", 0},     {"keys", 0}, {"scales", 0},
                                         {"products", 0}, {"sums", 0}, {0}};

/* The steps of the table. Each has the name of what it builds, the values that it reads and makes,
 * and no function: index/score.c unrolls the loop by hand. */
static const struct pipe_op find_page = {"find page", .writes = PAGE};
static const struct pipe_op load_keys = {"load keys", .reads = PAGE, .writes = KEY};
static const struct pipe_op load_scales = {"load scales", .reads = PAGE, .writes = SCALE};
static const struct pipe_op products = {"products", .reads = KEY, .writes = PRODUCT,
                                        .flags = PIPE_PRODUCT};
static const struct pipe_op sum = {"relu and sum", .reads = PRODUCT, .writes = SUM};
static const struct pipe_op take = {"scale and select", .reads = SUM | SCALE, .flags = PIPE_BRANCH};

static const struct pipe_row rows[] = {{&find_page, PAGES, GROUP, .part = 0},
                                       {&load_keys, KEYS, GROUP, .part = 0},
                                       {&products, SCORES, GROUP, .part = 0},
                                       {&load_scales, SCORES, GROUP, .part = 0},
                                       {&sum, SUMS, GROUP, .part = 0},
                                       {&take, SELECTION, GROUP, .part = 0},
                                       {0}};

/* The table has no rows that depend on a variant's features. */
static const char *const features[] = {NULL};

const struct pipeline att_index_key_stream = {
    .name = "key_stream",
    .when = "indexer_topk and indexer_logits; unrolled by hand",
    .why = "no wave shares keys: no LDS, and the sums of a group run beside the next products",
    .phases = phases,
    .slots = slots,
    .rows = rows,
    .features = features,
    .roles = 1,
};

const struct pipeline *const att_index_pipelines[] = {&att_index_key_stream, NULL};
