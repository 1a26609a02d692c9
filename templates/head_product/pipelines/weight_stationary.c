/* SPDX-License-Identifier: Apache-2.0
 *
 * A wave keeps its rows of w in registers, and tiles of x pass through LDS. Each SIMD has a wave of
 * both roles: one multiplies while the other stores its last results, reads its first panel of x
 * and copies its part of a later tile. A tile is copied two tiles early. The second role is a phase
 * later, and has its part in LDS before the first role reads it. With four places both roles have
 * read a tile before another one replaces it.
 *
 *     weight_stationary: head_product of one x for all heads
 *     w is read once; one role stores and copies while the other multiplies
 *     MEMORY  memory    lower priority[1], store out[1], read x[0], x to LDS[0],
 *                       raise priority[0], x here[0]
 *     MATRIX  matrix    read x, products[0]
 *     LDS               x of a workgroup (written 2 early)
 *     waves             two halves, the second one group of phases later
 */
#include "templates/head_product/pipelines/pipelines.h"

/* Stages (MULTIPLY, STORE) and phases of the steps. */
enum { MULTIPLY, STORE };
enum { MEMORY, MATRIX };

static const struct pipe_phase phases[] = {
    {"MEMORY", PIPE_MEMORY, .open = 0}, {"MATRIX", PIPE_MATRIX, .open = 0}, {0}};

static const struct pipe_buffer buffers[] = {
    {"x", 0, PIPE_WORKGROUP, .early = HEAD_PRODUCT_AHEAD, .early_wait = 1}, {0}};

static const struct pipe_row rows[] = {{&head_product_read_first, MULTIPLY, MEMORY, .part = 0},
                                       {&head_product_copy, MULTIPLY, MEMORY, .part = 0},
                                       {&head_product_raise, MULTIPLY, MEMORY, .part = 0},
                                       {&pipe_await, MULTIPLY, MEMORY, .part = 0},
                                       {&head_product_multiply, MULTIPLY, MATRIX, .part = 0},
                                       {&head_product_lower, STORE, MEMORY, .part = 0},
                                       {&head_product_store, STORE, MEMORY, .part = 0},
                                       {0}};

static const char *const features[] = {NULL};

/* The pipeline's table. An operand is read from LDS 10 MFMAs of 16 clocks before its use: 160
 * clocks. The VALU reads a result 4 MFMAs after the MFMA that computes it, when the matrix pipe has
 * written it. 16 registers keep LDS addresses of x through the loop. */
const struct pipeline head_product_weight_stationary = {
    .name = "weight_stationary",
    .when = "head_product of one x for all heads",
    .why = "w is read once; one role stores and copies while the other multiplies",
    .phases = phases,
    .buffers = buffers,
    .slots = head_product_slots,
    .rows = rows,
    .features = features,
    .spread = {TIR_COVER_EVEN, .read_ahead = 10, .result_after = 4, .hoist_vgprs = 16},
    .roles = 2,
    .shift_early = 1,
};

const struct pipeline *const head_product_pipelines[] = {&head_product_weight_stationary,
                                                         &head_product_panel_ring, NULL};
