/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file declares a template: one op family, its algorithm, and the variants that it accepts.
 * The front end and the tests iterate over att_templates[]; nothing outside templates/ knows a
 * family by name.
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

/** The reason for which a variant cannot be built: a sentence, and the field that it is about. */
struct att_why {
    /* Field that the sentence is about; ATT_FIELD_COUNT: the combination of all fields. */
    enum att_field field;
    char text[200]; /* the sentence, with a final NUL */
};

/** Writes the sentence of `format` and its arguments, as printf() does, and `field` to `why`.
 * Does not write if `why` is NULL. Returns false, so that a check can end with `return
 * att_reject(why, ATT_HEAD_DIM, ...)`. */
bool att_reject(struct att_why *why, enum att_field field, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Number of workgroups in one dimension of the grid: ceil(argument / divide) * times. A `divide` or
 * `times` of 0 counts as 1. */
struct att_grid {
    /* Name of an integer argument in op_args.def, which is generated from ops/; NULL: 1 in place of
     * the argument. */
    const char *arg;
    int divide;
    int times;
};

/** The kernel that a template builds for a variant. */
struct att_kernel {
    struct tir_func *func;        /* owned by the caller: tir_func_destroy() */
    struct tir_schedule schedule; /* options of the IR scheduler for the kernel */
    /* Grid of a launch: x, y and z. */
    struct att_grid grid[3];
    /* Most workgroups of a launch whose sequences are about equally long. A larger grid becomes
     * this number of workgroups in x, and each has several work tiles. 0: no limit. */
    uint16_t workgroups_most;
    char tuning[128]; /* text on the tile, for `attnc list`: "q=256 kv=32 waves=8 ..." */
};

enum { ATT_OWN_MAX = 17 }; /* most knobs of a family in att_tile.own */

/**
 * A row of a template's tile table: one way to divide a variant's work. A knob that a family does
 * not have is 0. A variant uses the first row that fits, unless its field `tile` names another one.
 */
struct att_tile {
    /* Largest head_dim and head_dim_v, in elements, that the row serves. */
    int16_t head_dim, head_dim_v;
    /* Prefill: number of queries of a wave; decode: number of rows of Q of a pass, one for each
     * query and head. */
    uint16_t rows;
    uint16_t keys; /* number of keys of a tile of the loop over keys */
    /* decode: number of keys of a tile, in place of `keys`, if pages or scales are looked up key by
     * key */
    uint16_t keys_by_row;
    uint16_t panel; /* prefill: most columns of K that are read from LDS at once */
    uint8_t waves;  /* number of waves of a workgroup */
    /* Number of waves on a SIMD, of all workgroups; 0 in prefill: waves / 4 of each workgroup that
     * shares the compute unit. */
    uint8_t waves_per_simd;
    /* Bytes that a lane of a direct-to-LDS load copies, which the machine must support; 0: any
     * number. */
    uint8_t copy_bytes;
    /* Number of vector registers that hoisted values may occupy through a loop:
     * tir_schedule.hoist_vgprs. */
    uint8_t hoist_vgprs;
    uint8_t memory_priority; /* priority of a wave in memory phases: tir_schedule.memory_priority */
    /* True: some exponentials of a tile are computed beside the first product of the next
     * iteration. */
    bool late_power;
    /* True: exponentials use the maximum of earlier tiles, and the rescale check runs beside the
     * second product, P V; false: the check precedes the exponentials. */
    bool late_maximum;
    /* Prefill: true: a wave reads the whole tile of K from LDS before the first product, and no
     * panel of K during that product. */
    bool whole_keys;
    /* Prefill: true: workgroups of the first queries are launched first; false: workgroups of the
     * last queries are. */
    bool ascending;
    /* True: the row serves only variants without hook, soft cap and pages, which need registers. */
    bool plain;
    /* Prefill: true: the row serves only heads of exactly this size: causal, with a window or
     * without a mask. */
    bool exact;
    uint16_t own[ATT_OWN_MAX]; /* values of the family's own knobs, named by att_template.own */
    const char *why; /* reason for which the row exists; only readers of the table use it */
};

/**
 * A knob: a member of struct att_tile, or a name of att_template.own, that may have other values
 * than in the rows of the table. A candidate is a row, or a row with one or more knobs changed; see
 * att_find_tile().
 */
enum { ATT_KNOB_VALUES = 6 };
struct att_knob {
    const char *member;              /* name, as att_tile_text() writes it */
    uint8_t count;                   /* number of `values` */
    int16_t values[ATT_KNOB_VALUES]; /* values that replace the row's own value */
};

/** A second kernel of a variant, besides the kernel with the first tile that fits. It serves calls
 * in the box `calls`, and calls in boxes of `also` that are not empty. */
enum { ATT_SECOND_ALSO = 2 };
struct att_second {
    unsigned tile; /* number of the candidate, from 1 */
    struct att_box calls, also[ATT_SECOND_ALSO];
};

/** A template: the description of one op family, its checks and its code. */
struct att_template {
    const char *name;        /* name of the op in descriptions, such as "prefill" */
    const char *description; /* meaning of the op, one line for `attnc help ops` */
    att_field_set takes; /* fields of the op's dispatch key: OP_TAKES_<op>, generated from ops/ */

    /* True if this variant can be built for this target; if not, the reason is in `why`, unless
     * that is NULL. Called once for each variant, from any thread. */
    bool (*check)(const struct att_variant *v, const struct tir_machine *m, struct att_why *why);

    /* The tile table and its number of rows. In a family without tiles the table is NULL and
     * n_tiles 0. */
    const struct att_tile *tiles;
    unsigned n_tiles;
    /* The knobs that `attnc tune` may change in rows of the table; NULL: none. */
    const struct att_knob *knobs;
    unsigned n_knobs;
    /* Names of the knobs in att_tile.own; NULL: the family has no knob of that index. */
    const char *own[ATT_OWN_MAX];
    struct att_renamed {
        const char *before, *now;
        /* a knob's former name, which is an error in files, and its present name; NULL: none */
    } renamed;

    /* Sets the knobs of a row's tile that follow from the row and the machine. The target's fitted
     * rows are applied afterwards. NULL: the table has all knobs. */
    void (*rules)(const struct att_variant *v, const struct tir_machine *m, struct att_tile *t);
    /* The knobs that fitted rows (struct tir_fitted) may set, with the values that `attnc tune
     * --defaults` tries; NULL: none. */
    const struct att_knob *fitted;
    unsigned n_fitted;

    /* The family's software pipelines, with NULL after the last one; NULL: the family has none. */
    const struct pipeline *const *pipelines;

    /* True if this tile fits the variant on this target; if not, `why` has the numbers of LDS,
     * registers or matrix instructions that exclude it, unless it is NULL. */
    bool (*fits)(const struct att_variant *v, const struct att_tile *t, const struct tir_machine *m,
                 struct att_why *why);

    /* True if this tile, which fits, takes all vector registers of a wave, so that its kernel
     * spills. att_find_tile() prefers other rows. NULL: no tile does. */
    bool (*fills)(const struct att_variant *v, const struct att_tile *t,
                  const struct tir_machine *m);

    /* Sets *second to the n-th further kernel (from 0), which is built besides the first tile that
     * fits. Returns false if there are at most n. No call may be in the boxes of two kernels. NULL:
     * the family has no further kernels. */
    bool (*second)(const struct att_variant *v, const struct tir_machine *m, unsigned n,
                   struct att_second *second);

    /* Builds the kernel as tile IR, with the tile of att_find_tile(). check() has returned true. */
    void (*build)(const struct att_variant *v, const struct tir_machine *m, struct att_kernel *k);
};

/* Initialises the members of an att_template for its tile table and its knobs. Both arguments are
 * arrays. */
#define ATT_TILES(table, choices)                                                        \
    .tiles = (table), .n_tiles = sizeof(table) / sizeof((table)[0]), .knobs = (choices), \
    .n_knobs = sizeof(choices) / sizeof((choices)[0])

/** Sets *tile to the tile of a variant. This is candidate v->tile or v->spare_tile, if one of them
 * is not 0. Else it is the first row that fits and for which att_fills() is false; if there is
 * none, the first row that fits. Candidate n, from 1, is row (n - 1) % n_tiles. The quotient of
 * this division has a digit for each knob, with the knob's count + 1 as radix. A digit is the
 * number of the knob's value, and digit 0 selects the row's value. Returns false if no tile fits;
 * the reason is in `why` unless that is NULL. */
bool att_find_tile(const struct att_variant *v, const struct tir_machine *m, struct att_tile *tile,
                   struct att_why *why);

/** True if tile `t` takes all vector registers of a wave: the member `fills` of v->op. */
bool att_fills(const struct att_variant *v, const struct att_tile *t, const struct tir_machine *m);

/** True if a tile fits a compute unit: the four SIMDs have slots for all waves of a workgroup. If
 * not, the reason is in `why`. The function is the member `fits` of families without other limits,
 * and is called by `fits` of other families. */
bool att_fits_waves(const struct att_variant *v, const struct att_tile *t,
                    const struct tir_machine *m, struct att_why *why);

/** True for every variant. The function is the member `check` of families without limits. */
bool att_check_none(const struct att_variant *v, const struct tir_machine *m, struct att_why *why);

/** True if a variant has a tile; if not, the reason is in `why`. The function is the member `check`
 * of families without other limits. */
bool att_check_tile(const struct att_variant *v, const struct tir_machine *m, struct att_why *why);

/** Returns an empty function with the variant's kernel name, for att_kernel.func. `waves` is the
 * number of waves of a workgroup, `waves_per_simd` of a SIMD. */
struct tir_func *att_begin_kernel(const struct att_variant *v, const struct tir_machine *m,
                                  unsigned waves, unsigned waves_per_simd);

/** Returns the number of candidates of a family (rows of its table and their changed knobs),
 * including candidates that do not fit. */
unsigned att_count_tiles(const struct att_template *t);

/** Returns row `row` (index) of the table with all its knobs set: by the family's rules, and then
 * by the fitted rows of the variant or of the target. */
struct att_tile att_row_tile(const struct att_variant *v, const struct tir_machine *m,
                             unsigned row);

/** Set member `name` of a tile to `value`, or read it into *value. `name` is the member's name in
 * att_tile_text(). Return false if the family has no such member. */
bool att_set_knob(const struct att_template *op, struct att_tile *t, const char *name, int value);
bool att_get_knob(const struct att_template *op, const struct att_tile *t, const char *name,
                  int *value);

/** True if a fitted row with the words `kernels` applies to a variant whose tile `t` has the knobs
 * that the rules set. */
bool att_is_fitted_by(const struct att_variant *v, const struct att_tile *t, const char *kernels);

/** True if a fitted row names an op, a fitted knob of that op, and words that its tiles or keys
 * have; if not, a sentence is in `why`. */
bool att_check_fitted(const struct tir_fitted *row, struct att_why *why);

/** Returns the number of the candidate that is row `row` of the table with the knobs in `text`,
 * which att_tile_text() wrote. Returns 0 if a knob lacks its value. */
unsigned att_find_candidate(const struct att_variant *v, const struct tir_machine *m, unsigned row,
                            const char *text);

/** True if no knob in `text`, words "knob=value", has a former name; if not, the new name is in
 * `why`. */
bool att_check_knob_names(const struct att_template *op, const char *text, struct att_why *why);

/** Returns the number of knobs that candidate `n` (from 1) changes in its row of the table. */
unsigned att_count_changed(const struct att_template *t, unsigned n);

/** Writes a tile as one line, "rows=32 keys=64 ...", without members that are 0. This text
 * identifies a tile in files. The number of a tile does not, since tables change. */
enum { ATT_TILE_TEXT_MAX = 256 };
void att_tile_text(const struct att_template *op, const struct att_tile *t,
                   char text[ATT_TILE_TEXT_MAX]);

/* The templates of all families, with NULL after the last one. */
extern const struct att_template *const att_templates[];

/** Returns the element type that field `dtype` of the variant selects: TIR_BF16 or TIR_F16. */
unsigned att_dtype(const struct att_variant *v);

#endif
