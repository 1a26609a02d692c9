/* SPDX-License-Identifier: Apache-2.0
 *
 * Each wave has tiles of keys of its own. K and V of a tile are replaced as soon as they have been
 * used: loads of one tile are in flight during the work on another.
 *
 *     register_stream: decode: up to 64 rows of queries for a KV head
 *     no other wave needs K or V: they stay in registers, without LDS and barriers
 *     SCORES  matrix    keep step[2], (new keys[2]), QK[2]
 *     FIND    memory    (find pages[0])
 *     NEXT_K  memory    load K[1], (load mask[1])
 *     SOFTMAX memory    (mask[2]), max[2], exponents[2], exp2.0[2], rescale[2], exp2.1[2]
 *     VALUES  matrix    (new values[2]), sum P[2], scale P[2], round P[2], convert V[2], PV[2]
 *     NEXT_V  memory    load V[1], (find pages[0])
 *     LDS               not used
 *     waves             all run the same phase
 */
#include "templates/decode/pipelines/pipelines.h"

/* Stages (LOOKUP, LOAD, USE) and phases of the steps. */
enum { LOOKUP = DECODE_LOOKUP, LOAD = DECODE_LOAD, USE = DECODE_USE };
enum { SCORES, FIND, NEXT_K, SOFTMAX, VALUES, NEXT_V };

/* Feature bits for pipe_row.needs and pipe_row.unless. */
#define LANE_PAGES (1u << DECODE_HAS_LANE_PAGES)
#define ARRIVALS (1u << DECODE_HAS_ARRIVALS)

static const struct pipe_phase phases[] = {{"SCORES", PIPE_MATRIX, .open = 0},
                                           {"FIND", PIPE_MEMORY, .open = 0},
                                           {"NEXT_K", PIPE_MEMORY, .open = 0},
                                           {"SOFTMAX", PIPE_MEMORY, .open = 0},
                                           {"VALUES", PIPE_MATRIX, .open = 0},
                                           {"NEXT_V", PIPE_MEMORY, .open = 0},
                                           {0}};

/* The pipeline's table. vmcnt counts loads in order. Page numbers in vector registers are therefore
 * loaded before K; otherwise the wait for page numbers would also wait for V. Page numbers in
 * scalar registers are loaded last, so that they need no second register. */
static const struct pipe_row rows[] = {
    {&decode_find_tile, LOOKUP, NEXT_V, .unless = LANE_PAGES},
    {&decode_find_tile, LOOKUP, FIND, .needs = LANE_PAGES},
    {&decode_issue_k, LOAD, NEXT_K, .part = 0},
    {&decode_issue_mask, LOAD, NEXT_K, .needs = ATT_HAS(MASK_BYTES)},
    {&decode_issue_v, LOAD, NEXT_V, .part = 0},
    {&decode_keep_step, USE, SCORES, .part = 0},
    {&decode_new_keys, USE, SCORES, .needs = ARRIVALS},
    {&decode_product_qk, USE, SCORES, .part = 0},
    {&att_mask, USE, SOFTMAX, .unless = ATT_HAS(MASK_BYTES)},
    {&att_mask_bytes, USE, SOFTMAX, .needs = ATT_HAS(MASK_BYTES)},
    {&att_check_scores, USE, SOFTMAX, .part = 0},
    {&att_exponent, USE, SOFTMAX, .part = 0},
    {&att_exp2, USE, SOFTMAX, .part = 0},
    {&att_rescale, USE, SOFTMAX, .part = 0},
    {&att_exp2, USE, SOFTMAX, .part = 1},
    {&decode_new_values, USE, VALUES, .needs = ARRIVALS},
    {&att_sum, USE, VALUES, .part = 0},
    {&decode_scale_p, USE, VALUES, .part = 0},
    {&att_round, USE, VALUES, .part = 0},
    {&decode_convert_v, USE, VALUES, .part = 0},
    {&att_product, USE, VALUES, .part = 0},
    {0}};

const char *const decode_features[] = {"checks scores",  "checks the previous m",
                                       "checks weights", "fp8 weights",
                                       "l in rows of O", "last rows of O",
                                       "custom mask",    "page numbers by lane",
                                       "new tokens",     NULL};

const struct pipeline decode_register_stream = {
    .name = "register_stream",
    .when = "decode: up to 64 rows of queries for a KV head",
    .why = "no other wave needs K or V: they stay in registers, without LDS and barriers",
    .phases = phases,
    .slots = att_slots,
    .rows = rows,
    .features = decode_features,
    .roles = 1,
};

const struct pipeline *const decode_pipelines[] = {&decode_register_stream, NULL};
