/* SPDX-License-Identifier: Apache-2.0 */
/* This file has the shapes of gpt-oss-20b's attention, shared by two ranks. */
#ifndef SHAPES_H
#define SHAPES_H

#include <stdbool.h>
#include <stdint.h>

enum {
    RANKS = 2,
    LAYERS = 2,         /* of each kind one */
    HEADS = 64 / RANKS, /* of a rank */
    KV_HEADS = 8 / RANKS,
    DIM = 64,
    QUERY = HEADS * DIM, /* elements of a token on a rank */
    KEY = KV_HEADS * DIM,
    QKV = QUERY + 2 * KEY,
    WINDOW = 128, /* keys that a query of a layer with a window sees, its own among them */
    BATCH = 5,
    PAGE = 16,
    PAGES = 24, /* that a sequence may have */
    LONGEST = PAGE * PAGES,
    TOKENS = BATCH * LONGEST
};

static const double rope_base = 150000;

/* gpt-oss begins with a window, and every other layer has one. */
static inline bool has_window(int layer) { return layer % 2 == 0; }

#endif
