/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows that prefill's tables have in common, from scores to rounded weights. A table says in
 * which stage and phase each list begins.
 */
#include "templates/prefill/pipelines/pipelines.h"

/* Rows that apply the mask, and rows of the rescale check if the check compares scores. */
const struct pipe_row prefill_rows_mask[] = {
    {&att_mask, 0, 0, .unless = ATT_HAS(MASK_BYTES)},
    {&att_mask_bytes, 0, 0, .needs = ATT_HAS(MASK_BYTES)},
    {&att_check_scores, 0, 0, .needs = ATT_HAS(CHECK_SCORES)},
    {0}};

/* Rows that compute the weights: exponents from scores, and powers of two of the exponents. */
const struct pipe_row prefill_rows_exponents[] = {
    {&att_check_previous, 0, 0, .needs = ATT_HAS(CHECK_PREVIOUS)},
    {&att_exponent, 0, 0, .part = 0},
    {&att_exp2, 0, 0, .part = 0},
    {0}};

/* Rows of phase C1 that sum the powers and round them to weights. The rescale check of weights is
 * at the beginning of the next phase, M2, or in C1 if rows of O are l. */
const struct pipe_row prefill_rows_weights[] = {
    {&att_sum, 0, 0, .unless = ATT_HAS(SUM_PRODUCT)},
    {&att_round, 0, 0, .unless = ATT_HAS(FP8_WEIGHTS)},
    {&att_round_fp8, 0, 0, .needs = ATT_HAS(FP8_WEIGHTS)},
    {&att_check_weights, 0, 0, .needs = ATT_HAS(CHECK_WEIGHTS) | ATT_HAS(SUM_ROWS)},
    {&att_check_weights, 0, 1, .needs = ATT_HAS(CHECK_WEIGHTS), .unless = ATT_HAS(SUM_ROWS)},
    {0}};
