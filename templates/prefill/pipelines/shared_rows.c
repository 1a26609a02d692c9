/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows that prefill's tables have in common, from scores to rounded weights. A table says in
 * which stage and phase each list begins.
 */
#include "templates/prefill/pipelines/pipelines.h"

/* Rows of the mask, and of the rescale check of scores if it precedes the weights. */
const struct pipe_row prefill_rows_mask[] = {
    {&att_mask, 0, 0, .unless = ATT_HAS(MASK_BYTES)},
    {&att_mask_bytes, 0, 0, .needs = ATT_HAS(MASK_BYTES)},
    {&att_check_scores, 0, 0, .needs = ATT_HAS(CHECK_SCORES)},
    {0}};

/* Rows that compute exponents of the weights from scores, and their powers. */
const struct pipe_row prefill_rows_exponents[] = {
    {&att_check_previous, 0, 0, .needs = ATT_HAS(CHECK_PREVIOUS)},
    {&att_exponent, 0, 0, .part = 0},
    {&att_exp2, 0, 0, .part = 0},
    {0}};

/* Rows from powers to rounded weights, for C1. The check of the weights is at the beginning of M2,
 * the next phase, or in C1 if l is in rows of O. */
const struct pipe_row prefill_rows_weights[] = {
    {&att_sum, 0, 0, .unless = ATT_HAS(SUM_PRODUCT)},
    {&att_round, 0, 0, .unless = ATT_HAS(FP8_WEIGHTS)},
    {&att_round_fp8, 0, 0, .needs = ATT_HAS(FP8_WEIGHTS)},
    {&att_check_weights, 0, 0, .needs = ATT_HAS(CHECK_WEIGHTS) | ATT_HAS(SUM_ROWS)},
    {&att_check_weights, 0, 1, .needs = ATT_HAS(CHECK_WEIGHTS), .unless = ATT_HAS(SUM_ROWS)},
    {0}};
