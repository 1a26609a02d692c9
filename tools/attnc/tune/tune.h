/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc tune: what its parts share. A sweep is a list of keys; each has candidates, the tiles that
 * its kernel may have, and shapes, on which every candidate is timed.
 */
#ifndef TOOLS_ATTNC_TUNE_TUNE_H
#define TOOLS_ATTNC_TUNE_TUNE_H

#include "compiler/driver.h"
#include "compiler/tuning.h"
#include "compiler/tuning_key.h"
#include "tools/attnc/shard.h"
#include "tools/attnc/tune/db.h"

enum { TUNE_SHAPE_TEXT = 128, TUNE_VALUES = 4, TUNE_SOURCE = 33, TUNE_SPLITS = 6 };

/** A launch value that a tuning file may choose by. */
struct tune_launch_value {
    const char *arg; /* attnc_launch_value() */
    int64_t value;
};

struct tune_shape {
    char op[40];
    char text[TUNE_SHAPE_TEXT]; /* "batch=1,q=512" */
    struct tune_launch_value values[TUNE_VALUES];
    unsigned value_count;
    bool any_lists;             /* "lists=*": how keys are split is to be found */
    int lists;                  /* where it was: of this shape */
    int item_cost, merge_rate;  /* of its plan; 0: the usual ones */
    char call[TUNE_SHAPE_TEXT]; /* where it was: the shape without them; else empty */
};

struct tune_shapes {
    struct tune_shape *rows;
    size_t count;
};

struct tune_candidate {
    struct att_variant variant;
    const struct attnc_kernel *kernel; /* NULL: it did not compile */
    char tile[ATT_TILE_TEXT_MAX];
    char source[TUNE_SOURCE];    /* hash of the kernel and of the timing model */
    char code[TUNE_SOURCE];      /* of the kernel alone */
    const char *dropped;         /* why it is out of the race, or NULL */
    struct tune_value *times;    /* one per shape of the key, on the model; runs 0: not measured */
    struct tune_value *measured; /* the same on a GPU, or NULL */
};

struct tune_key {
    struct att_variant variant; /* its tile is open */
    char text[ATT_TEXT_MAX];
    struct tune_candidate *candidates; /* the first is what a build takes by itself */
    size_t candidate_count;
    struct tune_shape *shapes;
    size_t shape_count;
    size_t late_count;             /* shapes behind these, with other costs of the planner */
    struct attnc_description desc; /* the candidates' variants, as they were built */
    struct attnc_build_result built;
    bool on_gpu;             /* what was measured there decides */
    int splits[TUNE_SPLITS]; /* counts of lists that are tried where these are open; 0: none */
    unsigned split_count;
    bool extra; /* of no description: splits are compared with it */
};

/** Heads of a rank of the model that is tuned for; heads 0: any. */
struct tune_heads {
    int heads, kv_heads, head_dim;
};

struct tune_sweep {
    struct tune_key *keys;
    size_t key_count;
    struct tune_db *db;
    unsigned jobs;
    size_t verify_shapes;          /* of each winner; 0: all */
    const char *parameters;        /* of the timing model, or NULL */
    const char *hooks;             /* where users' logits functions are, or NULL */
    double deadline;               /* of steady_seconds(); 0: none */
    unsigned max_kernels;          /* of a key */
    size_t max_tiles;              /* of a key */
    struct shard shard;            /* measures only what is its own */
    uint64_t model;                /* hash of the timing model */
    double race_seconds, patience; /* of a race on a GPU; of a launch until it counts as hung */
    size_t flush;                  /* bytes that are overwritten before each launch there */
    char gpu[160];                 /* the name of the one that was opened last */
    size_t measured, known, skipped, failed, wrong, pruned;
};

/** The file's lines, "prefill batch=1,q=512"; a path of NULL: a list that fits any key. Returns an
 * exit code after a message. */
int tune_read_shapes(const char *path, struct tune_shapes *shapes);

/** The shapes that are for a key, with what libattn will know of them at a launch. */
bool tune_choose_shapes(const struct tune_shapes *all, const struct tune_heads *heads,
                        size_t head_count, struct tune_key *key);

/** Fills keys of `sweep` with the variants of a description that have a choice of tiles. */
bool tune_add_keys(struct tune_sweep *sweep, const struct attnc_description *desc);

/** Adds a key, unless the sweep has it or there is nothing to choose. False: out of memory. */
bool tune_add_key(struct tune_sweep *sweep, const struct att_variant *v);

/** Adds the keys that splits need if shapes leave the lists open: the sibling of each key that adds
 * up parts in the kernel, and the combine kernel that does so apart. */
bool tune_add_split_keys(struct tune_sweep *sweep, const struct tune_shapes *shapes);

/** Gives combine keys the shapes that follow the others' split shapes. */
bool tune_add_combine_shapes(struct tune_sweep *sweep);

/** Adds the fastest split of each open call to `tuning`, whose kernels are chosen. False: out of
 * memory. */
bool tune_choose_splits(const struct tune_sweep *sweep, struct attnc_tuning *tuning);

/** Times the calls whose keys are split with other costs of the planner, those that make another
 * plan, by the kernels that were chosen; splits get what is faster. False: the database cannot be
 * written. */
bool tune_choose_costs(struct tune_sweep *sweep, struct attnc_tuning *tuning);

/** The plan of a shape with lists. */
struct tune_plan {
    int parts;     /* partial rows of all its sequences; 0: nothing is cut */
    uint64_t hash; /* of the plan; the same for equal ones */
};
struct tune_plan tune_plan_shape(const struct tune_shape *s);

/** The combine launch behind a shape; false: nothing was cut. */
bool tune_find_combine(const struct tune_shape *s, struct tune_shape *out);

/** A key by its variant; NULL: the sweep does not have it. */
struct tune_key *tune_find_key(const struct tune_sweep *sweep, const struct att_variant *v);

/** Notes what libattn sees of a shape on the host: lengths of single sequences it does not. */
void tune_find_values(struct tune_shape *s);

/** A number of a shape by name. */
int tune_shape_number(const struct tune_shape *s, const char *name);

/** Compiles every candidate; those that fail or spill are dropped. */
bool tune_compile(struct tune_sweep *sweep, const struct attnc_build_options *options);

void tune_sweep_free(struct tune_sweep *sweep);

/** A launch to be timed. */
struct tune_item {
    struct tune_key *key;
    size_t candidate, shape;
    const char *parameters;   /* of the timing model, or NULL */
    struct tune_value *value; /* where the time goes */
};

/** Does this share measure the key on this shape? */
bool tune_is_ours(const struct tune_sweep *sweep, const struct tune_key *key, size_t shape);

/** Times these, or takes them from the database. False when it could not be written. */
bool tune_time_items(struct tune_sweep *sweep, const struct tune_item *items, size_t count);

/**
 * Times every winner of `tuning` again, beside the key's first candidate and the best other, with
 * each parameter of the model that sources leave open at both ends of its range. The row of a
 * winner that would not win there gets the parameters' names. False: the database cannot be
 * written.
 */
bool tune_find_open(struct tune_sweep *sweep, struct attnc_tuning *tuning);

/** Are these settings of the timing model, each once? Returns an exit code after a message. */
int tune_check_parameters(const char *list);

/** Fits the model's open and fitted parameters to what the database has of GPUs, and prints them.
 * Returns an exit code after a message. */
int tune_calibrate(struct tune_sweep *sweep);

/** The row of a tuning file that a shape of a key takes; NULL: it has none for the key. */
const struct attnc_tuned *tune_find_row(const struct tune_key *key, const struct attnc_tuning *t,
                                        const struct tune_shape *s);

/** Times what the database does not have; false when it could not be written. */
bool tune_measure(struct tune_sweep *sweep);

/** Races the first candidate and the `finalists` fastest on the model on the machine's GPU, for
 * each key and shape. What was measured there then decides. False: the database cannot be
 * written. */
bool tune_measure_gpu(struct tune_sweep *sweep, unsigned finalists);

/** Times a candidate on the machine's GPU on a shape, also a late one, or takes the time from the
 * database. False: the database cannot be written. */
bool tune_time_gpu(struct tune_sweep *sweep, struct tune_key *key, size_t candidate, size_t shape,
                   struct tune_value *value);

/** The times of a candidate that decide: measured, or modelled. */
const struct tune_value *tune_times(const struct tune_key *key, size_t candidate);

/** A pack in memory with the candidate alone, for the rest of this process's life; NULL: no
 * memory. */
struct attn_pack;
struct attn_pack *tune_open_candidate(const struct tune_key *key, size_t candidate);

/** Verifies a candidate, or takes the verdict from the database. True: it is right. */
bool tune_verify(struct tune_sweep *sweep, struct tune_key *key, struct tune_candidate *c);

/**
 * Cuts the calls of a key into boxes and gives each the candidate that is fastest on its shapes and
 * on none of them slower than the first candidate. Adds the result to `out`; every kernel of it is
 * verified. False: out of memory.
 */
bool tune_choose(struct tune_sweep *sweep, struct tune_key *key, struct attnc_tuning *out);

/** Writes the page about a sweep. Returns an exit code after a message. */
int tune_write_report(const struct tune_sweep *sweep, const struct attnc_tuning *tuning,
                      const char *path);

/** The candidate of a key that a shape takes under a choice; the count of candidates: none. */
size_t tune_chosen_candidate(const struct tune_key *key, const struct attnc_tuning *t,
                             const struct tune_shape *s);

/** The time of a key's shape under a choice, us; for the summary. */
double tune_chosen_time(const struct tune_key *key, const struct attnc_tuning *t, size_t shape);

#endif
