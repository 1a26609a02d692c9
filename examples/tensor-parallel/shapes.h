/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes of gpt-oss-20b's attention, divided between two ranks. */
#ifndef SHAPES_H
#define SHAPES_H

#include <stdbool.h>
#include <stdint.h>

enum {
    RANKS = 2,
    LAYERS = 2,         /* one with a window and one without */
    HEADS = 64 / RANKS, /* query heads of a rank */
    KV_HEADS = 8 / RANKS,
    DIM = 64,
    QUERY = HEADS * DIM, /* elements per token on a rank */
    KEY = KV_HEADS * DIM,
    QKV = QUERY + 2 * KEY,
    WINDOW = 128, /* keys that a query sees in a layer with a window, including its own */
    BATCH = 5,
    PAGE = 16,
    PAGES = 24, /* most pages of a sequence */
    LONGEST = PAGE * PAGES,
    TOKENS = BATCH * LONGEST
};

static const double rope_base = 150000;

/* True for layers with a window: gpt-oss begins with one, and every other layer has one. */
static inline bool has_window(int layer) { return layer % 2 == 0; }

#endif
