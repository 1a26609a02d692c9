/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file declares a template: one op family, its algorithm and what it accepts. The front end
 * and the tests iterate over att_templates[]; nothing outside templates/ knows a family by name.
 */
#ifndef ATT_TEMPLATE_H
#define ATT_TEMPLATE_H

#include <stdbool.h>
#include <stdint.h>

#include "ir/passes.h"
#include "op_names.h"
#include "templates/variant.h"

struct pipeline;
struct tir_func;

/* Why a variant cannot be built: a sentence, and the field that it is about. */
struct att_why {
    enum att_field field; /* ATT_FIELD_COUNT: the combination as a whole */
    char text[200];
};

/* Fills `why`; returns false, so that a check reads `return att_reject(why, ATT_HEAD_DIM, ...)`. */
bool att_reject(struct att_why *why, enum att_field field, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* One dimension of the grid: ceil(argument / divide) * times. */
struct att_grid {
    const char *arg; /* a name of op_args.def, which is made from ops/, or NULL for 1 */
    int divide;
    int times;
};

/* The kernel that a template makes of a variant. */
struct att_kernel {
    struct tir_func *func;        /* owned by the caller: tir_func_destroy() */
    struct tir_schedule schedule; /* for the pass pipeline */
    struct att_grid grid[3];
    /* The most workgroups of a row of the grid, if the sequences are about as long as the longest;
     * they then process the items of a larger grid. 0: no limit. */
    uint16_t workgroups_most;
    char tuning[128]; /* the tile, for `attnc list`: "q=256 kv=32 waves=8 ..." */
};

enum { ATT_OWN_MAX = 17 };

/**
 * A row of a template's tile table: one way to cut a variant's work. A knob that a family does not
 * have is 0. The first row that fits is taken, unless the variant names another (field `tile`).
 */
struct att_tile {
    int16_t head_dim, head_dim_v; /* the largest that it is for */
    uint16_t rows;                /* prefill: queries of a wave; decode: queries x heads */
    uint16_t keys;                /* keys of a block, a tile of the loop over keys */
    uint16_t keys_by_row;         /* decode: `keys` where pages or scales are looked up key by
                                     key */
    uint16_t panel;               /* prefill: the widest slice of K that is read at once */
    uint8_t waves;                /* of a workgroup */
    uint8_t waves_per_simd;       /* waves on a SIMD, of all workgroups; 0 in prefill, which has
                                     waves / 4 */
    uint8_t copy_bytes;           /* bytes a lane that direct-to-LDS loads must take, or 0 */
    uint8_t hoist_vgprs;          /* vector registers that hoisted values may occupy through a
                                     loop: tir_schedule.hoist_vgprs */
    uint8_t memory_priority;      /* tir_schedule.memory_priority */
    bool late_power;   /* some exponentials run during the next iteration's first product */
    bool late_maximum; /* the maximum is checked during the product, and applied after it */
    bool whole_keys;   /* prefill: no panel of K is read under the product */
    bool ascending;    /* prefill: workgroups of the first queries come first, not of the last */
    bool plain;        /* only without what takes registers of its own: hook, soft cap, pages */
    bool exact;        /* prefill: only for heads of just this size, causal or without a mask */
    uint16_t own[ATT_OWN_MAX]; /* knobs of one family only, in the order of att_template.own */
    const char *why;           /* the reason for the row: what decided on it */
};

/**
 * A knob: a member of struct att_tile, or a name of att_template.own, that may take other values
 * than the rows of the table give it. Candidates are the rows, and the rows with one or more
 * members changed; see att_find_tile().
 */
enum { ATT_KNOB_VALUES = 6 };
struct att_knob {
    const char *member;
    uint8_t count;
    int16_t values[ATT_KNOB_VALUES];
};

/** A candidate that some calls use instead of the first tile that fits: the calls in the box
 * `calls`, and in the boxes `also` that are not empty. */
enum { ATT_SECOND_ALSO = 2 };
struct att_second {
    unsigned tile;
    struct att_box calls, also[ATT_SECOND_ALSO];
};

struct att_template {
    const char *name;        /* what a description's `op` says: "prefill" */
    const char *description; /* one line for `attnc help ops` */
    att_field_set takes;     /* the fields of its key: OP_TAKES_<op>, made from ops/ */

    /* True if this variant is possible on this target; else `why` says why not. Called once per
     * variant, from any thread. */
    bool (*check)(const struct att_variant *v, const struct tir_machine *m, struct att_why *why);

    /* The tile table. A family without a choice has none, which counts as one row. */
    const struct att_tile *tiles;
    unsigned n_tiles;
    const struct att_knob *knobs;
    unsigned n_knobs;
    const char *own[ATT_OWN_MAX]; /* names of att_tile.own, or NULL */
    struct att_renamed {
        const char *before, *now;
    } renamed; /* a knob's former name, which files must not have, and its name now; NULL: none */

    /* Sets the knobs of a row's tile that follow from the row and the machine. The target's fitted
     * rows come after it. NULL: the rows of the table say all. */
    void (*rules)(const struct att_variant *v, const struct tir_machine *m, struct att_tile *t);
    /* The knobs that fitted rows may set, and values worth a try. */
    const struct att_knob *fitted;
    unsigned n_fitted;

    /* Its software pipelines, with NULL after the last; NULL: the family has none. */
    const struct pipeline *const *pipelines;

    /* True if this tile fits the variant on this target; else `why` has the numbers that decide:
     * LDS, registers, matrix instructions. */
    bool (*fits)(const struct att_variant *v, const struct att_tile *t, const struct tir_machine *m,
                 struct att_why *why);

    /* Sets all of `second` to the n-th further kernel, which is built besides the first tile that
     * fits. False: there are only n. No call may be in the boxes of two. NULL: there is none. */
    bool (*second)(const struct att_variant *v, const struct tir_machine *m, unsigned n,
                   struct att_second *second);

    /* Writes the algorithm as tile IR, with the tile of att_find_tile(). `check` was true. */
    void (*build)(const struct att_variant *v, const struct tir_machine *m, struct att_kernel *k);
};

/* A family's tables as members of its att_template. */
#define ATT_TILES(table, choices)                                                        \
    .tiles = (table), .n_tiles = sizeof(table) / sizeof((table)[0]), .knobs = (choices), \
    .n_knobs = sizeof(choices) / sizeof((choices)[0])

/** Finds the tile of a variant: the candidate that its field `tile` names, or its `spare_tile`, or
 * the first row that fits. Candidate n, from 1, is row (n - 1) % n_tiles. The quotient's digits,
 * one for each knob with its count + 1 as radix, number the knobs' values; digit 0 keeps the
 * row's. False, with the reason in `why` unless that is NULL, if no tile fits. */
bool att_find_tile(const struct att_variant *v, const struct tir_machine *m, struct att_tile *tile,
                   struct att_why *why);

/** Checks that a tile fits a compute unit: the waves of a workgroup against the wave slots of
 * the four SIMDs. It is the member `fits` of families without other limits, and a part of the
 * others'. */
bool att_fits_waves(const struct att_variant *v, const struct att_tile *t,
                    const struct tir_machine *m, struct att_why *why);

/** Checks that a variant has a tile. It is the member `check` of families without other limits. */
bool att_check_tile(const struct att_variant *v, const struct tir_machine *m, struct att_why *why);

/** Begins the kernel of a variant: an empty function of its name, for att_kernel.func. */
struct tir_func *att_begin_kernel(const struct att_variant *v, const struct tir_machine *m,
                                  unsigned waves, unsigned waves_per_simd);

/** Returns how many candidates a family has, including those that do not fit. */
unsigned att_count_tiles(const struct att_template *t);

/** Returns a row of the table with its knobs: by rule, then by the fitted rows of the variant or of
 * the target. */
struct att_tile att_row_tile(const struct att_variant *v, const struct tir_machine *m,
                             unsigned row);

/** Set, or read, a member of a tile by its name in att_tile_text(). False: the family has no
 * such member. */
bool att_set_knob(const struct att_template *op, struct att_tile *t, const char *name, int value);
bool att_get_knob(const struct att_template *op, const struct att_tile *t, const char *name,
                  int *value);

/** True if a fitted row is for a variant whose tile has its knobs by rule. */
bool att_is_fitted_by(const struct att_variant *v, const struct att_tile *t, const char *kernels);

/** Checks that a fitted row names an op, a fitted knob of it, and words that its tiles or keys
 * have. False, with a sentence in `why`, if not. */
bool att_check_fitted(const struct tir_fitted *row, struct att_why *why);

/** Returns the candidate that has the values in `text`, which att_tile_text() wrote, and is made
 * from this row of the table; 0: a knob lacks its value. */
unsigned att_find_candidate(const struct att_variant *v, const struct tir_machine *m, unsigned row,
                            const char *text);

/** True if no knob in `text`, words "knob=value", has a former name; else `why` has the new one. */
bool att_check_knob_names(const struct att_template *op, const char *text, struct att_why *why);

/** Returns how many knobs candidate n changes. */
unsigned att_count_changed(const struct att_template *t, unsigned n);

/** A tile as one line, "rows=32 keys=64 ...", without members that are 0. This text identifies a
 * tile for good; its number does not, since tables grow and change. */
enum { ATT_TILE_TEXT_MAX = 256 };
void att_tile_text(const struct att_template *op, const struct att_tile *t,
                   char text[ATT_TILE_TEXT_MAX]);

/* Every family, NULL at the end. */
extern const struct att_template *const att_templates[];

/** Returns the dtype of the variant's q, k and v: TIR_BF16 or TIR_F16. */
unsigned att_dtype(const struct att_variant *v);

#endif
