/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of attnc tune. A sweep is a list of keys. A key is a kernel of a description whose tile
 * is open. It has candidates, the tiles that its kernel may have, and shapes, on which candidates
 * are timed.
 * The plain build's kernel is the one that attnc build makes without a tuning file. The first
 * candidates of a key are the plain build's kernels.
 */
#ifndef TOOLS_ATTNC_TUNE_TUNE_H
#define TOOLS_ATTNC_TUNE_TUNE_H

#include "compiler/driver.h"
#include "compiler/tuning.h"
#include "compiler/tuning_key.h"
#include "tools/attnc/cli/shard.h"
#include "tools/attnc/tune/db.h"

/** Bytes of a shape's text, most launch values of a shape, bytes of a hash's text, most numbers of
 * work lists. */
enum { TUNE_SHAPE_TEXT = 128, TUNE_VALUES = 8, TUNE_SOURCE = 33, TUNE_SPLITS = 6 };

/** A value that libattn has on the host at a launch. A tuning file may choose kernels by it. */
struct tune_launch_value {
    const char *arg; /* name, from attnc_launch_value() */
    int64_t value;
};

/** A shape on which a key's candidates are timed. */
struct tune_shape {
    char op[40];
    char text[TUNE_SHAPE_TEXT]; /* sizes such as "batch=1,q=512" */
    /* The values by which libattn may choose a kernel for this shape. */
    struct tune_launch_value values[TUNE_VALUES];
    unsigned value_count;
    /* 1 + the index of the candidate that libattn chooses from a plain build; 0: not known. */
    unsigned own;
    /* True: the shape has "lists=*", and the sweep tries several numbers of work lists. */
    bool any_lists;
    /* Number of work lists, if the shape comes from "lists=*"; 0: none. */
    int lists;
    /* Costs of the plan's launch, and keys of its units; 0: the planner's defaults. */
    int item_cost, merge_rate, unit_keys;
    /* The text without its lists, if the shape comes from "lists=*"; otherwise "". */
    char call[TUNE_SHAPE_TEXT];
};

/** The shapes that are tuned for, of all ops. */
struct tune_shapes {
    struct tune_shape *rows;
    size_t count;
};

/** A tile that a key's kernel may have, with its kernel and times. */
struct tune_candidate {
    struct att_variant variant;
    /* The compiled kernel, owned; NULL: it is not compiled yet, or it does not compile. */
    struct attnc_kernel *kernel;
    bool tried; /* true: the candidate's compilation was tried */
    /* The tile, as att_tile_text() writes it. */
    char tile[ATT_TILE_TEXT_MAX];
    /* Hash of the kernel and of the timing model, in hexadecimal digits. */
    char source[TUNE_SOURCE];
    /* Hash of the machine code, without the timing model, in hexadecimal digits. */
    char code[TUNE_SOURCE];
    /* The reason for which the candidate is no longer timed; NULL: it is timed. */
    const char *dropped;
    /* Modelled times by shape; `runs` 0: not timed. */
    struct tune_value *times;
    /* Times on a GPU by shape; NULL: none. */
    struct tune_value *measured;
};

/** A kernel whose tile is chosen, known by target, op and dispatch key. */
struct tune_key {
    struct att_variant variant; /* variant without a tile */
    /* Target, op and dispatch key, as attnc_key_text() writes them. */
    char text[ATT_TEXT_MAX];
    /* The candidates; the plain build's kernels come first. */
    struct tune_candidate *candidates;
    /* Number of candidates, and of the plain build's kernels among them. */
    size_t candidate_count, own_count;
    /* Variants of the plain build's kernels. */
    struct attnc_description own;
    struct tune_shape *shapes;
    size_t shape_count;
    /* Shapes after the first shape_count in `shapes`: calls with other costs of the plan. */
    size_t late_count;
    /* Shapes that were timed in the last round after which slower candidates were dropped; 0:
     * none. */
    size_t halved;
    size_t left; /* launches that the budget left out */
    /* Begun: candidates besides the plain build's were timed. Whole: every launch was timed. */
    bool begun, whole;
    /* True: times on a GPU decide, not modelled ones. */
    bool on_gpu;
    /* Numbers of work lists that "lists=*" tries; 0: no lists. */
    int splits[TUNE_SPLITS];
    unsigned split_count;
    /* True: no description has the key; it was added to compare splits. */
    bool extra;
};

/** Head counts of one rank of the model that is tuned for; heads 0: any number. */
struct tune_heads {
    int heads, kv_heads, head_dim;
};

/** A sweep: its keys, its options and its counts. */
struct tune_sweep {
    struct tune_key *keys;
    size_t key_count;
    struct tune_db *db;
    const struct attnc_build_options *build; /* options by which candidates are compiled */
    /* Most launches that are timed at once. */
    unsigned jobs;
    /* Shapes on which each winner is verified; 0: all that attnc verify has. */
    size_t verify_shapes;
    /* Changes of the timing model, in the form of --parameters; NULL: none. */
    const char *parameters;
    /* Directory of the users' logits functions; NULL: none. */
    const char *hooks;
    /* Times of steady_seconds(); deadline 0: no budget. */
    double started, deadline;
    unsigned max_kernels; /* most kernels that a key gets */
    size_t max_tiles;     /* most candidates that a key gets */
    /* The share of the launches that --shard gives to this process. */
    struct shard shard;
    uint64_t model; /* hash of hipsim's library, which contains the timing model */
    bool gpu_races; /* true: the best candidates race on a GPU */
    /* Candidates, the fastest by the model, that race on a GPU. */
    unsigned finalists;
    /* Longest time of a race on a GPU, and of a launch until it counts as hung, in seconds. */
    double race_seconds, patience;
    /* Bytes that are overwritten before each launch of a race, so that caches are cold. */
    size_t flush;
    char gpu[160];          /* name of the GPU that was opened last; "": none */
    const char *gpu_target; /* target that the GPU was opened for; NULL: none yet */
    size_t place;           /* number of the present key, counted from 1, for messages */
    /* Launches that were timed, that the database had, that the budget left out, and that failed;
     * candidates with wrong results, and candidates that were not timed since they spill or do not
     * compile. */
    size_t measured, known, skipped, failed, wrong, pruned;
    /* Keys whose chosen kernels failed tune_check(). */
    size_t refused;
};

/** Reads the shapes in the file `path`, lines such as "prefill batch=1,q=512". If `path` is NULL,
 * takes the default shapes of all ops. A file without a shape is an error. Returns an exit_code
 * after a message. */
int tune_read_shapes(const char *path, struct tune_shapes *shapes);

/** Sets key->shapes to the shapes of the key's op, with heads that suit the key, and with their
 * launch values. Returns false if memory is exhausted. */
bool tune_choose_shapes(const struct tune_shapes *all, const struct tune_heads *heads,
                        size_t head_count, struct tune_key *key);

/** Adds a key for each variant of a description that has a choice of tiles. Returns false if memory
 * is exhausted. */
bool tune_add_keys(struct tune_sweep *sweep, const struct attnc_description *desc);

/** Adds the key of a variant, unless the sweep has it or there is no choice of tiles. Returns false
 * if memory is exhausted. */
bool tune_add_key(struct tune_sweep *sweep, const struct att_variant *v);

/** Adds the keys that are needed to compare splits, if a shape has lists=*: a key's sibling with
 * one_launch, and its combine kernel. Sets the numbers of lists to try. Returns false if memory is
 * exhausted. */
bool tune_add_split_keys(struct tune_sweep *sweep, const struct tune_shapes *shapes);

/** Adds to each combine key the shapes of the combine launches that split calls of other keys need.
 * Returns false if memory is exhausted. */
bool tune_add_combine_shapes(struct tune_sweep *sweep);

/** Adds the fastest split of each call with lists=* to `tuning`, which already has the chosen
 * kernels. Returns false if memory is exhausted. */
bool tune_choose_splits(const struct tune_sweep *sweep, struct attnc_tuning *tuning);

/** Times each split call of `tuning`, with its chosen kernels, under other costs of the planner
 * that give another plan. Stores faster costs in the split. Returns false if the database cannot be
 * written. */
bool tune_choose_costs(struct tune_sweep *sweep, struct attnc_tuning *tuning);

/** Sizes of the plan for a shape with work lists. With q_tile the queries of a sequence are cut
 * into tiles, whose keys a causal mask limits. */
struct tune_plan {
    int tiles; /* sequences; with q_tile, tiles of queries */
    /* Split-KV partials of all sequences; 0: no sequence is cut. */
    int parts;
    uint64_t hash; /* hash of the plan's tensors */
};
/** Returns the plan's sizes and hash for a shape; zeros if it has no lists or no plan can be
 * made. */
struct tune_plan tune_plan_shape(const struct tune_shape *s);

/** Sets *out to the shape of the combine launch that adds the partials of the split shape `s`.
 * Returns false if no sequence of `s` is cut. */
bool tune_find_combine(const struct tune_shape *s, struct tune_shape *out);

/** Returns the sweep's key with the dispatch key of a variant; NULL if there is none. */
struct tune_key *tune_find_key(const struct tune_sweep *sweep, const struct att_variant *v);

/** Sets s->values to the values that libattn has on the host at a launch of the shape. Lengths of
 * single sequences are not among them. */
void tune_find_values(struct tune_shape *s);

/** Returns the size of a shape's dimension, such as "batch"; 0 if its op has no such dimension. */
int tune_shape_number(const struct tune_shape *s, const char *name);

/** Compiles candidates `first` to `end` - 1 of a key, unless that was tried before. Drops
 * candidates that do not compile or spill. Returns false if memory is exhausted. */
bool tune_compile(struct tune_sweep *sweep, struct tune_key *key, size_t first, size_t end);

/** Frees the keys of a sweep and closes its database. */
void tune_sweep_free(struct tune_sweep *sweep);

/** A launch of a candidate on a shape, to be timed by the model. */
struct tune_item {
    struct tune_key *key;
    size_t candidate, shape;
    const char *parameters;   /* changes of the timing model; NULL: none */
    struct tune_value *value; /* receives the launch's time */
};

/** True if this share of --shard times the key on this shape. */
bool tune_is_ours(const struct tune_sweep *sweep, const struct tune_key *key, size_t shape);

/** Times the launches by the model, or reads their times from the database. Returns false if the
 * database cannot be written. */
bool tune_time_items(struct tune_sweep *sweep, const struct tune_item *items, size_t count);

/** Returns the seconds after which a launch that has not ended is stopped. It then counts as hung,
 * or as left out if the budget has ended. */
double tune_launch_patience(const struct tune_sweep *sweep);

/** Writes the device of a modelled time, as the database has it: "model gfx950" and the changed
 * parameters, or their hash if the text is long. */
void tune_name_device(const struct tune_key *key, const char *parameters, char device[160]);

/** True if the budget of the sweep is spent. */
bool tune_is_late(const struct tune_sweep *sweep);

/** Times every winner of `tuning` again, with the plain build's kernel and the best other candidate
 * as rivals. Each open parameter of the model is set to both ends of its range. If a rival wins
 * there, the row's `open` gets the parameter's name. Returns false on failure. */
bool tune_find_open(struct tune_sweep *sweep, struct attnc_tuning *tuning);

/** Checks that `list` has settings NAME=VALUE of the timing model, each once. Returns an exit_code
 * after a message. */
int tune_check_parameters(const char *list);

/** Fits the open and fitted parameters of the timing model to GPU times in the database, and prints
 * the fit. Returns an exit_code after a message. */
int tune_calibrate(struct tune_sweep *sweep);

/** True if the shape is in a box of this choice, so that its kernel gets the shape. False if
 * `choice` is NULL. */
bool tune_takes(const struct att_choice *choice, const struct tune_shape *s);

/** Returns the index of the candidate that libattn chooses for a shape from a plain build: the
 * first, or another of the plain build's kernels. */
size_t tune_own_candidate(const struct tune_key *key, const struct tune_shape *s);

/** Returns the row of a tuning that has a shape of the key; NULL if there is none. */
const struct attnc_tuned *tune_find_row(const struct tune_key *key, const struct attnc_tuning *t,
                                        const struct tune_shape *s);

/** Returns the index of the candidate that libattn chooses for a shape under a tuning;
 * candidate_count if the row's tile is no candidate. */
size_t tune_chosen_candidate(const struct tune_key *key, const struct attnc_tuning *t,
                             const struct tune_shape *s);

/** Returns the time in us of the kernel that a shape gets under a tuning; 0: not timed. `shape` is
 * an index. */
double tune_chosen_time(const struct tune_key *key, const struct attnc_tuning *t, size_t shape);

/** Returns the time in us of the kernel that a shape gets from a plain build; 0: not timed. `shape`
 * is an index. */
double tune_own_time(const struct tune_key *key, size_t shape);

/** Makes the description of one key: its variant, and each kernel that the tuning adds to it.
 * Returns false if memory is exhausted or the pack format cannot hold all these kernels. The caller
 * frees `out` with attnc_description_free() also after a failure. */
bool tune_describe(const struct tune_key *key, struct attnc_tuning *t,
                   struct attnc_description *out);

/** Times the candidates of a key on its shapes by the model, except launches that the database has.
 * Of a large key only the most promising candidates are timed on all shapes. Stops at `until`, a
 * time of steady_seconds(); 0: no limit. Returns false on failure. */
bool tune_measure(struct tune_sweep *sweep, struct tune_key *key, double until);

/** Races candidates of a key on the machine's GPU, on each shape: the plain build's kernel and
 * sweep->finalists others that are fastest by the model. Their times then replace modelled ones in
 * the choice. Returns false on failure. */
bool tune_measure_gpu(struct tune_sweep *sweep, struct tune_key *key);

/** Times a candidate on a shape on the machine's GPU, or takes the time from the database. `shape`
 * may be one of the late ones. Returns false if the database cannot be written. */
bool tune_time_gpu(struct tune_sweep *sweep, struct tune_key *key, size_t candidate, size_t shape,
                   struct tune_value *value);

/** Returns a candidate's times by shape: on a GPU if the key has such, otherwise modelled. */
const struct tune_value *tune_times(const struct tune_key *key, size_t candidate);

struct attn_pack;

/** Returns a pack in memory with only this candidate, open until the process ends. Returns NULL on
 * failure. */
struct attn_pack *tune_open_candidate(const struct tune_key *key, size_t candidate);

/** The outcome of a verification. */
enum tune_verdict_kind { TUNE_RIGHT, TUNE_WRONG, TUNE_UNVERIFIED /* the budget is spent */ };

/** Verifies a candidate, or takes the verdict from the database. Drops a candidate that is wrong or
 * that the budget leaves unverified. */
enum tune_verdict_kind tune_verify(struct tune_sweep *sweep, struct tune_key *key,
                                   struct tune_candidate *c);

/** Replaces the rows of a key in `out` by its verified winners. The calls of the key are cut into
 * boxes around its shapes. A box gets the fastest candidate that is nowhere slower than the plain
 * build's kernel, if it gains enough. Other calls are left to the plain build. Returns false if
 * memory is exhausted. */
bool tune_choose(struct tune_sweep *sweep, struct tune_key *key, struct attnc_tuning *out);

/** Sets `own` of each shape: which of the plain build's kernels libattn chooses for it. Needed
 * because libattn may choose by values that it computes at a launch. Returns false if the database
 * cannot be written. */
bool tune_find_own(struct tune_sweep *sweep, struct tune_key *key);

/** Builds a key as `attnc build --tuning` would, and dispatches each shape by libattn. If libattn
 * chooses another kernel than the tuning, or a slower one than a plain build, the key's rows are
 * removed. A message then says why. Returns false on failure. */
bool tune_check(struct tune_sweep *sweep, struct tune_key *key, struct attnc_tuning *tuning);

/** Writes the tuning file; called after each key whose rows have changed. Returns an exit_code
 * after a message. */
typedef int tune_write_fn(void *context);

/** Sweeps one key after the other until all launches are timed or the budget is spent, and collects
 * the winners in `tuning`. A share of --shard only times. Returns an exit_code after a message. */
int tune_run(struct tune_sweep *sweep, struct attnc_tuning *tuning, tune_write_fn *write,
             void *context);

/** Prints the numbers of keys, tiles and launches of a sweep, and the estimated time, to standard
 * error. */
void tune_print_estimate(const struct tune_sweep *sweep);

/** Prints the result of a sweep as a table, or with `json` as a JSON object. */
void tune_print_summary(const struct tune_sweep *sweep, const struct attnc_tuning *tuning,
                        bool json);

/** Returns the number of launches that the budget has left out, with all launches of keys that were
 * not reached. */
size_t tune_count_left(const struct tune_sweep *sweep);

/** Writes an HTML page about a sweep to `path`. Returns an exit_code after a message. */
int tune_write_report(const struct tune_sweep *sweep, const struct attnc_tuning *tuning,
                      const char *path);

/* The declarations from here on are of defaults.c, which fits knobs of a target. */

enum { TUNE_FIT_CORNERS = 64 /* most corners of a fit */ };

/** The modes of tune_fit(), which works on a table of fitted knobs. */
enum tune_fit_mode {
    TUNE_FIT,        /* fits the values of rows, finds new rows, and writes the table */
    TUNE_FIT_REVISE, /* removes rows whose values no longer gain, and writes the table */
    TUNE_FIT_CHECK,  /* evaluates a sample of rows again; an error if one no longer gains */
    TUNE_FIT_RULES,  /* compares the times of kernels built with and without the table */
};

/** The options of attnc tune --defaults. */
struct tune_fit_options {
    enum tune_fit_mode mode;
    const char *path; /* path of the table */
    /* Number of corners: combinations of ends of the ranges of the model's open parameters. */
    unsigned corners;
    unsigned sample;    /* rows that TUNE_FIT_CHECK evaluates; 0: all */
    unsigned long seed; /* seed of the corners and of the sample */
};

struct attnc_fitted;

/** Adds the kernels of a description whose op has fitted knobs, each as a key with one shape.
 * Returns false if memory is exhausted. */
bool tune_fit_add(struct tune_sweep *sweep, const struct attnc_description *desc,
                  const struct tune_shapes *shapes);

/** Fits, revises, checks or compares a table by the kernels of the sweep, as the options say, and
 * prints the result. Returns an exit_code after a message. */
int tune_fit(struct tune_sweep *sweep, struct attnc_fitted *table,
             const struct tune_fit_options *o);

#endif
