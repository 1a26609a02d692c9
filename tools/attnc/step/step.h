/* SPDX-License-Identifier: Apache-2.0
 *
 * This file has what the parts of attnc step share. layers.c and groups.c list the calls of each
 * kind of layer. kernels.c compiles what they launch, measure.c times it, print.c shows it.
 */
#ifndef TOOLS_ATTNC_STEP_STEP_H
#define TOOLS_ATTNC_STEP_STEP_H

#include "tools/attnc/bench/bench.h"
#include "tools/attnc/describe/describe_kernels.h"
#include "tools/attnc/tune/tune.h"

enum {
    STEP_FIELDS = 14,
    STEP_LAUNCHES = 3,
    STEP_WAYS = 9,
    STEP_STAGES = 12,
    STEP_KINDS =
        MODEL_MAX_GROUPS + MODEL_MAX_SHARES + MODEL_RECURRENCES, /* a group may have several */
    STEP_PACKS = 64,
    STEP_MOST_KEYS = 1 << 20, /* of a sequence, as shapes of attnc trace have it */
};

/** The batch of one step on one rank. */
struct step_load {
    long ranks;
    long batch;       /* sequences */
    long context;     /* keys of each sequence, the new tokens among them */
    long queries;     /* new tokens of each sequence */
    long page_size;   /* tokens in a page; 0: a kernel for any, on pages of 16 */
    bool fp8_windows; /* rows of windows are fp8 beside main rows of e2m1 */
    const char *target;
};

/** A call of one op: the fields of its kernel that differ within a description, and its shape. */
struct step_call {
    const char *op;
    struct {
        enum att_field field;
        int value;
    } fields[STEP_FIELDS];
    unsigned field_count;
    char shape[TUNE_SHAPE_TEXT]; /* as attnc trace takes it */
};

/** A launch and its time. */
struct step_launch {
    struct step_call call;
    char kernel[ATT_NAME_MAX];
    double us;             /* microseconds: on the model without launch overhead, on a GPU with
                              it */
    double cycles;         /* modelled; 0: not known */
    double bytes;          /* the least that it moves; 0: not known */
    double matrix, memory; /* fractions of the rooflines at `us`; 0: not known */
};

/** One way to compute a stage. */
struct step_way {
    const char *name;
    struct step_launch launches[STEP_LAUNCHES]; /* with a split, the second is combine */
    unsigned count;
    bool whole; /* true: it does the work of the stage before it, too */
    bool split; /* keys are split by a plan, whose number of lists libattn chooses */
    char probe[TUNE_SHAPE_TEXT]; /* a small shape of the kernel, to look its op up */
    char plan[TUNE_SHAPE_TEXT];  /* shape of the plan that it follows; "": none */
    char fault[200];             /* why it has no time; "": it has one */
};

/** One step of a layer; the fastest of its ways is what an engine launches. */
struct step_stage {
    const char *name; /* what its ways compute, for print.c; NULL: there is one way */
    struct step_way ways[STEP_WAYS];
    unsigned count, best;
    bool idle; /* true: the next stage's way does its work */
};

/** Layers whose launches are the same. */
struct step_kind {
    char name[64];
    long layers, heads, kv_heads; /* heads of the rank; of values and keys, if linear */
    bool linear;                  /* a recurrence, not softmax attention */
    struct step_stage stages[STEP_STAGES];
    unsigned count;
};

/** The launch that plans the work of a kind of layer, and of later kinds that have the same
 * plan. */
struct step_plan {
    struct step_launch launch;
    const char *kind; /* name of the first of these kinds */
};

/** All launches of a step. */
struct step {
    struct step_load load;
    char gpu[160];             /* name of the GPU that was measured; "": times are modelled */
    double launch_us, node_us; /* overhead of the first kernel of a graph, and of each other one */
    struct step_kind kinds[STEP_KINDS];
    unsigned kind_count;
    struct step_plan plans[STEP_KINDS]; /* each once a step */
    unsigned plan_count;
};

/** Lists the calls of every kind of layer. Returns false with a sentence in `why` on failure. */
bool step_list_layers(const struct model *m, struct step *s, char why[200]);

/** The kernels of a description, compiled when they are first used. */
struct step_kernels {
    struct attnc_description description;
    struct attnc_tuning tuning;
    struct attnc_build_options build;
    struct {
        struct att_variant variant;
        struct attn_pack *pack; /* pack of the key's kernels; NULL: `fault` has the reason */
        void *bytes;            /* of the pack; owned */
        char fault[200];
    } packs[STEP_PACKS];
    unsigned pack_count;
};

/** Finds the variant of a call in the description; NULL if it has none. */
const struct att_variant *step_find_variant(const struct step_kernels *k, const char *target,
                                            const struct step_call *call);

/** Returns a pack with all kernels of the variant's key, valid until step_free_kernels(). Returns
 * NULL with a sentence in `fault` on failure. */
struct attn_pack *step_open_kernels(struct step_kernels *k, const struct att_variant *v,
                                    char fault[200]);
/** Closes the packs and frees the kernels. */
void step_free_kernels(struct step_kernels *k);

/** The device on which launches are timed. */
struct step_device {
    bool hip; /* on the machine's GPU; else on the timing model */
    struct bench_options bench;
};

/** Launches of a step that were timed, and those that could not be. */
struct step_count {
    unsigned timed, failed;
};

/** Times all ways of all stages, chooses the fastest, and times the plans that these need. A stage
 * without any way that works has no time and is reported on standard error. */
struct step_count step_measure(struct step *s, struct step_kernels *k,
                               const struct step_device *device);

/** Returns the fastest way of a stage; NULL if none has a kernel. */
const struct step_way *step_best_way(const struct step_stage *stage);

/** Returns the time of a way in us, with the overhead of each launch in a graph. */
double step_way_us(const struct step *s, const struct step_way *way);

/** Returns the time of a layer in us, as a part of a step's graph. */
double step_layer_us(const struct step *s, const struct step_kind *kind);

/** Returns the time of a whole step in us: all layers, the plans, and the first launch's
 * overhead. */
double step_whole_us(const struct step *s);

/** Prints a table of each kind of layer and one of the step, or the same as a JSON object. */
void step_print(const struct step *s, const struct model *m);
void step_print_json(const struct step *s, const struct model *m);

#endif
