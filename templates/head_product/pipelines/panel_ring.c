/* SPDX-License-Identifier: Apache-2.0
 *
 * head_product of a few tokens, where LDS does not take all of a long contraction: panels of w and
 * of x pass through a ring of places. stream.c unrolls the loop by hand, since the last waits must
 * not count copies that are never issued. This table documents that loop, and derives the number of
 * places of the ring. A barrier precedes each panel. After it the panel is in LDS, and all waves
 * have read the previous panel, whose place the next copy uses.
 *
 *     panel_ring: head_product of 64 tokens and a contraction of 512, on MI300X; unrolled by hand
 *     copies are in flight for three panels, and one barrier a panel is enough
 *     MEET    memory    w here[0], x here[0], LDS free[0], barrier[0]
 *     MULTIPLY matrix   panel to LDS[0], read w and x[0], products[0]
 *     LDS               w of a workgroup (written 3 early), x of a workgroup (written 3 early)
 *     waves             all run the same phase
 */
#include "templates/head_product/pipelines/pipelines.h"

/* The only stage, of all steps: a panel of x and w. The second enum has the phases. */
enum { PANEL };
enum { MEET, MULTIPLY };

static const struct pipe_phase phases[] = {
    {"MEET", PIPE_MEMORY, .open = 0}, {"MULTIPLY", PIPE_MATRIX, .open = 0}, {0}};

static const struct pipe_buffer buffers[] = {
    {"w", 0, PIPE_WORKGROUP, .early = HEAD_PRODUCT_RING - 1},
    {"x", 1, PIPE_WORKGROUP, .early = HEAD_PRODUCT_RING - 1},
    {0}};

/* Bits of pipe_op.reads and pipe_op.writes: the operands w and x in registers, which one step reads
 * and the next multiplies. */
enum { SLOT_W_X = 1 };
static const struct pipe_slot slots[] = {{"w and x", 0}, {0}};

/* The steps of the table. None has a function that builds it, since stream.c unrolls the loop by
 * hand. */
static const struct pipe_op copy = {"panel to LDS", .lds_writes = 3, .flags = PIPE_ASYNC};
static const struct pipe_op read = {"read w and x", .writes = SLOT_W_X, .lds_reads = 3};
static const struct pipe_op products = {"products", .reads = SLOT_W_X, .flags = PIPE_PRODUCT};

static const struct pipe_row rows[] = {
    {&pipe_await, PANEL, MEET, .part = 0},   {&pipe_await, PANEL, MEET, .part = 1},
    {&pipe_release, PANEL, MEET, .part = 0}, {&pipe_barrier, PANEL, MEET, .part = 0},
    {&copy, PANEL, MULTIPLY, .part = 0},     {&read, PANEL, MULTIPLY, .part = 0},
    {&products, PANEL, MULTIPLY, .part = 0}, {0}};

static const char *const features[] = {NULL};

const struct pipeline head_product_panel_ring = {
    .name = "panel_ring",
    .when = "head_product of 64 tokens and a contraction of 512, on MI300X; unrolled by hand",
    .why = "copies are in flight for three panels, and one barrier a panel is enough",
    .phases = phases,
    .buffers = buffers,
    .slots = slots,
    .rows = rows,
    .features = features,
    .roles = 1,
};
