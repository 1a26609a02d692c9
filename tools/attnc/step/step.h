/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of attnc step. layers.c and groups.c list the calls of each kind of layer. kernels.c
 * compiles the kernels, measure.c times them, and print.c prints the times.
 * A step consists of kinds of layers, and a kind of stages. A stage has ways, and a way is one or
 * more launches.
 */
#ifndef TOOLS_ATTNC_STEP_STEP_H
#define TOOLS_ATTNC_STEP_STEP_H

#include "tools/attnc/bench/bench.h"
#include "tools/attnc/describe/describe_kernels.h"
#include "tools/attnc/tune/tune.h"

/** The most fields of a call, launches of a way, ways of a stage, stages and kinds of layers,
 * packs, and keys of a sequence. */
enum {
    STEP_FIELDS = 14,
    STEP_LAUNCHES = 3,
    STEP_WAYS = 9,
    STEP_STAGES = 12,
    STEP_KINDS = MODEL_MAX_GROUPS + MODEL_MAX_SHARES + MODEL_RECURRENCES,
    STEP_PACKS = 64,
    STEP_MOST_KEYS = 1 << 20, /* keys of a sequence; attnc trace has the same limit */
};

/** The sizes of one step, and what of the deployment decides its calls. */
struct step_load {
    /* Ranks of tensor parallelism that share the heads. */
    long ranks;
    long batch;   /* sequences of the batch */
    long context; /* keys of each sequence, its new tokens included */
    long queries; /* new tokens of each sequence */
    /* Tokens in a page of the KV cache; 0: kernels for any page size, timed with 16. */
    long page_size;
    /* True: beside pooled rows of e2m1, the rows of the window are fp8. */
    bool fp8_windows;
    const char *target;
};

/** A call of one op. The fields select its kernel among the variants of the model's description
 * that have the op. */
struct step_call {
    const char *op;
    struct {
        enum att_field field;
        int value;
    } fields[STEP_FIELDS];
    unsigned field_count;
    char shape[TUNE_SHAPE_TEXT]; /* sizes of the call, in the form of attnc trace's --shape */
};

/** A launch and its time. */
struct step_launch {
    struct step_call call;
    /* Name of the kernel that libattn chooses; "": not timed yet. */
    char kernel[ATT_NAME_MAX];
    /* Time in us: by the model without launch overhead, on a GPU with it. */
    double us;
    double cycles; /* modelled clock cycles; 0: unknown */
    double bytes;  /* fewest bytes of memory that it needs; 0: unknown */
    /* Shares of the matrix and the memory roofline that `us` reaches, 0 to 1; 0: unknown. */
    double matrix, memory;
};

/** One way to compute a stage. */
struct step_way {
    const char *name;
    /* The launches in their order; the second is combine if a plan splits the keys. */
    struct step_launch launches[STEP_LAUNCHES];
    unsigned count;
    bool whole; /* true: the launches also do the work of the previous stage */
    /* True: a plan splits the keys, into as many lists as libattn chooses. */
    bool split;
    /* Shape of a short sequence for the same kernels, to look the op up without large inputs. */
    char probe[TUNE_SHAPE_TEXT];
    char plan[TUNE_SHAPE_TEXT]; /* shape of the plan launch that it needs; "": none */
    char fault[200];            /* why it has no time; "": it has one */
};

/** One step of a layer's computation. An engine should launch the fastest of its ways. */
struct step_stage {
    /* Name in the table of ways, such as "Attention"; NULL if there is only one way. */
    const char *name;
    struct step_way ways[STEP_WAYS];
    /* Number of ways, and the index of the fastest. */
    unsigned count, best;
    bool idle; /* true: the fastest way of the next stage does this stage's work */
};

/** A kind of layer: layers of the model whose launches are the same. */
struct step_kind {
    char name[64];
    /* Number of such layers, and heads on this rank. For linear layers value heads and key
     * heads. */
    long layers, heads, kv_heads;
    bool linear; /* true: a recurrence, not softmax attention */
    struct step_stage stages[STEP_STAGES];
    unsigned count;
};

/** A launch of plan, for all kinds of layers that need a plan of its shape. */
struct step_plan {
    struct step_launch launch;
    const char *kind; /* name of the first kind of layer that needs it */
};

/** A step of the model: its sizes, its kinds of layers and its plans. */
struct step {
    struct step_load load;
    char gpu[160]; /* name of the GPU if launches were measured; "": they were modelled */
    /* Overhead in us of the first launch of a graph, and of each other launch; 0 on a GPU, whose
     * times include it. */
    double launch_us, node_us;
    struct step_kind kinds[STEP_KINDS];
    unsigned kind_count;
    struct step_plan plans[STEP_KINDS]; /* each is launched once in a step */
    unsigned plan_count;
};

/** Fills s->kinds with all kinds of layers of the model and their calls. On failure returns false,
 * with a sentence in `why`. */
bool step_list_layers(const struct model *m, struct step *s, char why[200]);

/** The kernels of the model's description. A pack for each dispatch key is compiled when it is
 * first used. */
struct step_kernels {
    struct attnc_description description;
    struct attnc_tuning tuning;
    struct attnc_build_options build;
    struct {
        struct att_variant variant;
        struct attn_pack *pack; /* kernels of the variant's key; NULL: `fault` has the reason */
        void *bytes;            /* the pack's bytes, owned */
        char fault[200];
    } packs[STEP_PACKS];
    unsigned pack_count;
};

/** Returns the description's variant for `target` that has the call's op and fields; NULL if there
 * is none. */
const struct att_variant *step_find_variant(const struct step_kernels *k, const char *target,
                                            const struct step_call *call);

/** Returns a pack with all kernels of the key of `v`, valid until step_free_kernels(). On failure
 * returns NULL, with a sentence in `fault`. */
struct attn_pack *step_open_kernels(struct step_kernels *k, const struct att_variant *v,
                                    char fault[200]);
/** Closes all packs and frees the description and the tuning. */
void step_free_kernels(struct step_kernels *k);

/** The device on which launches are timed, and the method. */
struct step_device {
    bool hip; /* true: on the machine's GPU; false: by the timing model */
    struct bench_options bench;
};

/** Numbers of stages and plans with a time, and without one. */
struct step_count {
    unsigned timed, failed;
};

/** Times all ways of all stages, chooses the fastest of each, and times the plans that these need.
 * Reports on standard error the stages in which no way works. */
struct step_count step_measure(struct step *s, struct step_kernels *k,
                               const struct step_device *device);

/** Returns the fastest way of a stage; NULL if no way works or the next stage does its work. */
const struct step_way *step_best_way(const struct step_stage *stage);

/** Returns the time of a way in us, with the overhead of each launch inside a graph. */
double step_way_us(const struct step *s, const struct step_way *way);

/** Returns the time in us of one layer inside the step's graph: the sum over its stages. */
double step_layer_us(const struct step *s, const struct step_kind *kind);

/** Returns the time in us of the step as one graph: all layers, the plans, and the start of the
 * graph. */
double step_whole_us(const struct step *s);

/** Prints a table for each kind of layer and one for the step. */
void step_print(const struct step *s, const struct model *m);
/** Prints the times of step_print() as a JSON object. */
void step_print_json(const struct step *s, const struct model *m);

#endif
