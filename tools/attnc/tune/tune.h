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
#include "tools/attnc/cli/shard.h"
#include "tools/attnc/tune/db.h"

enum { TUNE_SHAPE_TEXT = 128, TUNE_VALUES = 8, TUNE_SOURCE = 33, TUNE_SPLITS = 6 };

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
    unsigned own;   /* 1 + the candidate that libattn selects from a build without a tuning file;
                     * 0: not known */
    bool any_lists; /* "lists=*": the sweep tries several numbers of work lists */
    int lists;      /* work lists of this shape, if it comes from "lists=*" */
    int item_cost, merge_rate;  /* costs of its plan; 0: the planner's defaults */
    char call[TUNE_SHAPE_TEXT]; /* the shape without its lists, if from "lists=*"; else empty */
};

struct tune_shapes {
    struct tune_shape *rows;
    size_t count;
};

struct tune_candidate {
    struct att_variant variant;
    struct attnc_kernel *kernel; /* owned; NULL: it was not compiled, or did not compile */
    bool tried;                  /* its compilation was tried */
    char tile[ATT_TILE_TEXT_MAX];
    char source[TUNE_SOURCE];    /* hash of the kernel and of the timing model */
    char code[TUNE_SOURCE];      /* hash of the kernel, without the timing model */
    const char *dropped;         /* why it is out of the race, or NULL */
    struct tune_value *times;    /* one per shape of the key, on the model; runs 0: not measured */
    struct tune_value *measured; /* the same on a GPU, or NULL */
};

struct tune_key {
    struct att_variant variant; /* its tile is open */
    char text[ATT_TEXT_MAX];
    struct tune_candidate *candidates; /* the first ones are what a build makes by itself */
    size_t candidate_count, own_count; /* all, and what a build makes */
    struct attnc_description own;      /* variants of the first `own_count` candidates */
    struct tune_shape *shapes;
    size_t shape_count;
    size_t late_count; /* further entries of `shapes` after shape_count: other planner costs */
    size_t halved;     /* the last round after which the worse half was dropped; 0: none */
    size_t left;       /* launches that the budget has left out */
    bool begun, whole; /* some tile other than a build's own was timed; all tiles were */
    bool on_gpu;       /* times measured on a GPU decide, not modelled ones */
    int splits[TUNE_SPLITS]; /* numbers of work lists that are tried for "lists=*" */
    unsigned split_count;
    bool extra; /* no description has the key: it was added to compare splits */
};

/** Heads of a rank of the model that is tuned for; heads 0: any. */
struct tune_heads {
    int heads, kv_heads, head_dim;
};

struct tune_sweep {
    struct tune_key *keys;
    size_t key_count;
    struct tune_db *db;
    const struct attnc_build_options *build; /* how candidates are compiled */
    unsigned jobs;
    size_t verify_shapes;          /* of each winner; 0: all */
    const char *parameters;        /* of the timing model, as --parameters; NULL: defaults */
    const char *hooks;             /* directory of users' logits functions, or NULL */
    double started, deadline;      /* of steady_seconds(); deadline 0: none */
    unsigned max_kernels;          /* of a key */
    size_t max_tiles;              /* of a key */
    struct shard shard;            /* the share of the launches that this process measures */
    uint64_t model;                /* hash of the timing model */
    bool gpu_races;                /* --device hip */
    unsigned finalists;            /* fastest candidates of the model that race on a GPU */
    double race_seconds, patience; /* of a race on a GPU; of a launch until it counts as hung */
    size_t flush;                  /* bytes that are overwritten before each launch there */
    char gpu[160];                 /* name of the GPU that was opened last */
    const char *gpu_target;        /* target that this GPU was opened for; NULL: none yet */
    size_t place;                  /* number of the current key, from 1, for messages */
    size_t measured, known, skipped, failed, wrong, pruned;
    size_t refused; /* keys whose result was slower than a build, or another than was chosen */
};

/** Reads the shapes in a file, lines such as "prefill batch=1,q=512". If `path` is NULL, the
 * default shapes of all ops are taken. A file without a shape is an error. Returns an exit code
 * after a message. */
int tune_read_shapes(const char *path, struct tune_shapes *shapes);

/** Chooses the shapes for a key, with the numbers that libattn knows at a launch. */
bool tune_choose_shapes(const struct tune_shapes *all, const struct tune_heads *heads,
                        size_t head_count, struct tune_key *key);

/** Fills keys of `sweep` with the variants of a description that have a choice of tiles. */
bool tune_add_keys(struct tune_sweep *sweep, const struct attnc_description *desc);

/** Adds a key, unless the sweep has it or there is nothing to choose. Returns false if memory is
 * exhausted. */
bool tune_add_key(struct tune_sweep *sweep, const struct att_variant *v);

/** Adds the keys that splits need if shapes leave the lists open: the sibling of each key whose
 * kernel also sums the parts, and the combine kernel. */
bool tune_add_split_keys(struct tune_sweep *sweep, const struct tune_shapes *shapes);

/** Adds to combine keys the shapes of the combine launches that split shapes of other keys need.
 * Returns false if memory is exhausted. */
bool tune_add_combine_shapes(struct tune_sweep *sweep);

/** Adds the fastest split of each open call to `tuning`, whose kernels are chosen. Returns false if
 * memory is exhausted. */
bool tune_choose_splits(const struct tune_sweep *sweep, struct attnc_tuning *tuning);

/** Times the calls with split keys under other costs of the planner, if these make another plan.
 * The kernels are the chosen ones. Stores faster costs in the splits. Returns false if the database
 * cannot be written. */
bool tune_choose_costs(struct tune_sweep *sweep, struct attnc_tuning *tuning);

/** The planner's result for a shape with work lists. With q_tile, a tile of queries has the keys
 * that a causal mask shows it. */
struct tune_plan {
    int tiles;     /* sequences, or with q_tile tiles of queries */
    int parts;     /* partial rows of all its sequences; 0: nothing is cut */
    uint64_t hash; /* of the plan; the same for equal ones */
};
/** Returns the sizes and the hash of the plan for a shape. */
struct tune_plan tune_plan_shape(const struct tune_shape *s);

/** Finds the combine launch that follows a shape; returns false if the shape is not split. */
bool tune_find_combine(const struct tune_shape *s, struct tune_shape *out);

/** Returns a key by its variant; NULL if the sweep does not have it. */
struct tune_key *tune_find_key(const struct tune_sweep *sweep, const struct att_variant *v);

/** Sets s->values to the numbers of the shape that libattn has on the host at a launch. Lengths of
 * single sequences are not among them. */
void tune_find_values(struct tune_shape *s);

/** Returns the number of a shape's dimension, such as "batch". */
int tune_shape_number(const struct tune_shape *s, const char *name);

/** Compiles candidates [first, end) of a key that were not compiled yet. Drops candidates that fail
 * to compile or spill. Returns false if memory is exhausted. */
bool tune_compile(struct tune_sweep *sweep, struct tune_key *key, size_t first, size_t end);

/** Frees the keys and measurements of a sweep. */
void tune_sweep_free(struct tune_sweep *sweep);

/** A launch to be timed. */
struct tune_item {
    struct tune_key *key;
    size_t candidate, shape;
    const char *parameters;   /* of the timing model, or NULL */
    struct tune_value *value; /* receives the time */
};

/** True if this share measures the key on this shape. */
bool tune_is_ours(const struct tune_sweep *sweep, const struct tune_key *key, size_t shape);

/** Times the items, or reads their times from the database. Returns false if the database cannot be
 * written. */
bool tune_time_items(struct tune_sweep *sweep, const struct tune_item *items, size_t count);

/** Returns the seconds after which a launch that has not ended is stopped. It counts as hung, or as
 * left out if the budget has ended by then. */
double tune_launch_patience(const struct tune_sweep *sweep);

/** Writes the device of a modelled time: "model gfx950" and the changed parameters, or the hash of
 * these if they are many. */
void tune_name_device(const struct tune_key *key, const char *parameters, char device[160]);

/** True if the time of the sweep's budget is spent. */
bool tune_is_late(const struct tune_sweep *sweep);

/** Times every winner of `tuning` again, beside the key's first candidate and the best other. Each
 * uncertain parameter of the model is set to both ends of its range. If a winner would not win
 * there, its row gets the parameter's name. Returns false if the database cannot be written. */
bool tune_find_open(struct tune_sweep *sweep, struct attnc_tuning *tuning);

/** Checks that these are settings of the timing model, each once. Returns an exit code after a
 * message. */
int tune_check_parameters(const char *list);

/** Fits the timing model's open and fitted parameters to GPU times in the database, and prints
 * them.
 * Returns an exit code after a message. */
int tune_calibrate(struct tune_sweep *sweep);

/** True if a kernel with this choice of calls takes the shape; a choice of NULL has none. */
bool tune_takes(const struct att_choice *choice, const struct tune_shape *s);

/** Returns the candidate that libattn selects for a shape from a build without a tuning file: the
 * first, or a second kernel of the key. */
size_t tune_own_candidate(const struct tune_key *key, const struct tune_shape *s);

/** Returns the row of a tuning file that applies to a shape of a key; NULL if there is none. */
const struct attnc_tuned *tune_find_row(const struct tune_key *key, const struct attnc_tuning *t,
                                        const struct tune_shape *s);

/** Returns the candidate that a shape gets under a tuning file, dispatched as libattn does it; the
 * count of candidates if the file's tile is none of them. */
size_t tune_chosen_candidate(const struct tune_key *key, const struct attnc_tuning *t,
                             const struct tune_shape *s);

/** Returns the measured time, us, of the kernel that the tuning file selects for a shape of the
 * key; 0: not measured. */
double tune_chosen_time(const struct tune_key *key, const struct attnc_tuning *t, size_t shape);

/** Returns the measured time, us, of the kernel that a build without a tuning file selects for a
 * shape of the key; 0: not measured. */
double tune_own_time(const struct tune_key *key, size_t shape);

/** Makes the description of one key: its variant and each kernel that the tuning file adds to it.
 * Returns false if memory is exhausted, or if the pack format cannot contain all these kernels. The
 * caller frees `out` with attnc_description_free(), also after false. */
bool tune_describe(const struct tune_key *key, struct attnc_tuning *t,
                   struct attnc_description *out);

/** Times on hipsim the candidates of a key on its shapes, except those that the database has. Of a
 * large key it times only the most promising. Stops at `until`, in seconds of steady_seconds(); 0:
 * no deadline. Returns false when the database cannot be written. */
bool tune_measure(struct tune_sweep *sweep, struct tune_key *key, double until);

/** Times two kernels of a key on the machine's GPU, on each shape: the default build's, and the one
 * that hipsim times fastest. GPU times then replace modelled ones in the choice. Returns false when
 * the database cannot be written. */
bool tune_measure_gpu(struct tune_sweep *sweep, struct tune_key *key);

/** Times a candidate on the machine's GPU on a shape, also a late one, or takes the time from the
 * database. Returns false if the database cannot be written. */
bool tune_time_gpu(struct tune_sweep *sweep, struct tune_key *key, size_t candidate, size_t shape,
                   struct tune_value *value);

/** Returns the times of a candidate, one per shape: measured if there are any, else modelled. */
const struct tune_value *tune_times(const struct tune_key *key, size_t candidate);

struct attn_pack;

/** Returns a pack in memory that has only the candidate; it is never closed. Returns NULL if memory
 * is exhausted. */
struct attn_pack *tune_open_candidate(const struct tune_key *key, size_t candidate);

/** Opens a pack of a build's own kernels of the key, among which libattn chooses. */
struct attn_pack *tune_open_own(const struct tune_key *key);

enum tune_verdict_kind { TUNE_RIGHT, TUNE_WRONG, TUNE_UNVERIFIED /* the budget is spent */ };

/** Verifies a candidate, or takes the verdict from the database. One that is wrong, or that the
 * budget leaves unverified, is dropped. */
enum tune_verdict_kind tune_verify(struct tune_sweep *sweep, struct tune_key *key,
                                   struct tune_candidate *c);

/** Cuts the calls of a key into boxes around its shapes. A box gets the fastest candidate that is
 * slower than a plain build's kernel on none of its shapes, if it gains enough. Replaces the key's
 * rows in `out`, whose kernels are all verified. All other calls are left to the build. Returns
 * false if memory is exhausted. */
bool tune_choose(struct tune_sweep *sweep, struct tune_key *key, struct attnc_tuning *out);

/** Finds which kernel of a plain build libattn takes for each shape, if the key has several.
 * libattn may choose by values that it computes at a launch. Returns false if the database cannot
 * be written. */
bool tune_find_own(struct tune_sweep *sweep, struct tune_key *key);

/** Builds a key as `attnc build --tuning` would and lets libattn dispatch each shape. If it takes
 * another kernel than was chosen, or a slower one than without tuning, the key gets no row and a
 * message is printed. Returns false if memory is exhausted, or if the database cannot be
 * written. */
bool tune_check(struct tune_sweep *sweep, struct tune_key *key, struct attnc_tuning *tuning);

/** Called after each key whose rows in the tuning have changed. Returns an exit code. */
typedef int tune_write_fn(void *context);

/** Sweeps one key after the other, until all is measured or the budget spent, and leaves the result
 * in `tuning`. A share of a sweep only measures. Returns an exit code after a message. */
int tune_run(struct tune_sweep *sweep, struct attnc_tuning *tuning, tune_write_fn *write,
             void *context);

/** Prints the size of a sweep to standard error: keys, tiles, launches, and the estimated time. */
void tune_print_estimate(const struct tune_sweep *sweep);

/** Prints what was found: a table, or with `json` a JSON object. */
void tune_print_summary(const struct tune_sweep *sweep, const struct attnc_tuning *tuning,
                        bool json);

/** Returns the number of launches that the budget has left out, keys not reached
 * included. */
size_t tune_count_left(const struct tune_sweep *sweep);

/** Writes the page about a sweep. Returns an exit code after a message. */
int tune_write_report(const struct tune_sweep *sweep, const struct attnc_tuning *tuning,
                      const char *path);

/* defaults.c: fitted knobs of a target */

enum { TUNE_FIT_CORNERS = 64 /* at most */ };

enum tune_fit_mode {
    TUNE_FIT,        /* finds values and rows, and writes the table */
    TUNE_FIT_REVISE, /* keeps the rows whose values still gain, and writes the table */
    TUNE_FIT_CHECK,  /* derives a sample of rows again; an error if one loses */
    TUNE_FIT_RULES,  /* compares the table with the rules alone */
};

struct tune_fit_options {
    enum tune_fit_mode mode;
    const char *path;   /* path of the table */
    unsigned corners;   /* combinations of extremes of the model's open parameters, on which a row
                         * may lose */
    unsigned sample;    /* rows that are checked; 0: all */
    unsigned long seed; /* of corners and sample */
};

struct attnc_fitted;

/** Adds the kernels of a description that have fitted knobs, each with one shape that it takes.
 * Returns false if memory is exhausted. */
bool tune_fit_add(struct tune_sweep *sweep, const struct attnc_description *desc,
                  const struct tune_shapes *shapes);

/** Fits, revises, checks or compares a table by the kernels of the sweep, and prints what it found.
 * Returns an exit code after a message. */
int tune_fit(struct tune_sweep *sweep, struct attnc_fitted *table,
             const struct tune_fit_options *o);

#endif
