/* SPDX-License-Identifier: Apache-2.0
 *
 * This file times the launches of a step, each in a child process, and chooses the fastest way of
 * each stage.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tools/attnc/cli/child_call.h"
#include "tools/attnc/cli/command.h"
#include "tools/attnc/cli/progress.h"
#include "tools/attnc/step/step.h"
#include "tools/attnc/trace/trace.h"

/* Seconds after which a child that finds a split counts as hung. */
enum { SPLIT_SECONDS = 300 };

double step_way_us(const struct step *s, const struct step_way *way)
{
    double us = 0;
    for (unsigned i = 0; i < way->count; i++)
        us += way->launches[i].us + s->node_us;
    return us;
}

const struct step_way *step_best_way(const struct step_stage *stage)
{
    const bool works = stage->count && !stage->idle;
    const struct step_way *best = works ? &stage->ways[stage->best] : NULL;
    return best && !best->fault[0] ? best : NULL;
}

double step_layer_us(const struct step *s, const struct step_kind *kind)
{
    double us = 0;
    for (unsigned i = 0; i < kind->count; i++) {
        const struct step_way *best = step_best_way(&kind->stages[i]);
        us += best ? step_way_us(s, best) : 0;
    }
    return us;
}

double step_whole_us(const struct step *s)
{
    double us = s->launch_us - s->node_us;
    for (unsigned i = 0; i < s->kind_count; i++)
        us += (double)s->kinds[i].layers * step_layer_us(s, &s->kinds[i]);
    for (unsigned i = 0; i < s->plan_count; i++)
        us += s->plans[i].launch.us + s->node_us;
    return us;
}

/* A step while its launches are timed. */
struct work {
    struct step *step;
    struct step_kernels *kernels;
    const struct step_device *device;
    /* Launches begun and launches in all, for the progress bar. Launches of combine and plan are
     * added to `total` when they turn out to be necessary. */
    size_t done, total;
};

/* Sets the times of `l` from the timing model, without the launch overhead. Returns false, with the
 * reason in `fault`, on failure. */
static bool model_launch(const struct bench_pair *pair, struct step_launch *l, char fault[200])
{
    struct bench_model m;
    if (!bench_model(pair, &m, fault))
        return false;
    const double us = m.us - m.launch_us;
    snprintf(l->kernel, sizeof(l->kernel), "%s", m.kernel);
    l->us = us;
    l->cycles = m.cycles;
    l->bytes = m.work.bytes;
    l->matrix = us > 0 ? m.matrix_fraction * m.us / us : 0;
    l->memory = us > 0 ? m.memory_fraction * m.us / us : 0;
    return true;
}

/* Measures a launch on the GPU and sets the time of `l`. Returns false, with the reason in `fault`,
 * on failure. */
static bool measure_launch(struct work *w, const struct bench_pair *pair, struct step_launch *l,
                           char fault[200])
{
    struct bench_measured m;
    if (!bench_measure(pair, &w->device->bench, &m, fault))
        return false;
    snprintf(l->kernel, sizeof(l->kernel), "%s", m.kernel);
    snprintf(w->step->gpu, sizeof(w->step->gpu), "%s", m.device);
    l->us = m.figure.us;
    l->bytes = m.work.bytes;
    return true;
}

/* Times the launch `l` on its shape, on the GPU or by the model. `pack` has its key's kernels.
 * Returns false, with the reason in `fault`, on failure. */
static bool time_launch(struct work *w, struct attn_pack *pack, struct step_launch *l,
                        char fault[200])
{
    const struct bench_pair pair = {pack, l->call.shape};
    char label[ATT_NAME_MAX];
    snprintf(label, sizeof(label), "%s %s", l->call.op, l->call.shape);
    show_progress(w->done++, w->total, label);
    return w->device->hip ? measure_launch(w, &pair, l, fault) : model_launch(&pair, l, fault);
}

/* The arguments of call_split(). */
struct split_call {
    struct attn_pack *pack;
    /* a shape that the key's kernels are made for, as trace_open_any() takes it */
    const char *shape;
    const struct step_load *load;
    /* The most keys that a query sees; 0: no limit. */
    int window;
    bool hip; /* true: on the machine's GPU; false: on the simulator */
};

/* Returns the new tokens of all sequences; 0, which libattn reads as many, if they exceed an
 * int32. */
static int32_t tokens_of(const struct step_load *l)
{
    const long tokens = l->batch * l->queries;
    return tokens <= INT32_MAX ? (int32_t)tokens : 0;
}

/* Calls attn_decode_choose_split() for the batch, in a child process. `context` is a struct
 * split_call; fills the struct attn_decode_split `answer`. Returns an exit_code. */
static int call_split(void *context, void *answer)
{
    const struct split_call *c = context;
    struct attn_decode_split *split = answer;
    const struct attn_decode_step step = {.size = sizeof(step),
                                          .batch = (int32_t)c->load->batch,
                                          .kv_len = (int32_t)c->load->context,
                                          .tokens = tokens_of(c->load),
                                          .window = c->window};
    struct trace_session t;
    const int code = trace_open_any(&t, c->pack, c->shape, &(struct trace_gpu){.real = c->hip});
    if (code != EXIT_GOOD)
        return code;
    split->size = sizeof(*split);
    if (attn_decode_choose_split(t.run.op, &step, split))
        return complain(EXIT_USER, "%s", attn_last_error());
    return EXIT_GOOD; /* nothing is closed: the child process ends */
}

/* Appends ",NAME=NUMBER" to a shape; nothing if `number` is not positive. */
static void add_number(char shape[TUNE_SHAPE_TEXT], const char *name, int number)
{
    const size_t length = strlen(shape);
    if (number > 0)
        snprintf(shape + length, TUNE_SHAPE_TEXT - length, ",%s=%d", name, number);
}

/* Returns a call's op and shape; the numbers of a split are left 0. */
static struct tune_shape shape_of(const struct step_call *call)
{
    struct tune_shape shape = {0};
    snprintf(shape.op, sizeof(shape.op), "%s", call->op);
    snprintf(shape.text, sizeof(shape.text), "%s", call->shape);
    return shape;
}

/* Adds the split that libattn chooses to the shape of a way's first launch. *combine becomes the
 * shape of the combine launch that adds the parts; its op is "" if no sequence is split or decode
 * adds them itself. `v` is the way's variant. Returns false, with the reason in way->fault, on
 * failure. */
static bool split_way(struct work *w, struct step_way *way, struct attn_pack *pack,
                      const struct att_variant *v, struct tune_shape *combine)
{
    struct step_call *call = &way->launches[0].call;
    const struct tune_shape whole = shape_of(call);
    struct split_call context = {.pack = pack,
                                 .shape = way->probe,
                                 .load = &w->step->load,
                                 .window = tune_shape_number(&whole, "window"),
                                 .hip = w->device->hip};
    struct attn_decode_split split = {.size = sizeof(split)};
    *combine = (struct tune_shape){0};
    if (!child_call(call_split, &context, &split, sizeof(split), SPLIT_SECONDS, way->fault))
        return false;
    if (!split.lists) {
        snprintf(way->fault, sizeof(way->fault), "the tuning has no plan for this batch");
        return false;
    }
    add_number(call->shape, "lists", split.lists);
    add_number(call->shape, "q_tile", split.q_tile);
    add_number(call->shape, "item_cost", split.item_cost);
    add_number(call->shape, "merge_rate", split.merge_rate);
    add_number(call->shape, "unit_keys", split.unit_keys);
    struct tune_shape shape = shape_of(call);
    shape.lists = split.lists;
    shape.item_cost = split.item_cost;
    shape.merge_rate = split.merge_rate;
    shape.unit_keys = split.unit_keys;
    if (!v->one_launch && !tune_find_combine(&shape, combine))
        combine->op[0] = '\0';
    return true;
}

/* Writes the shape of the plan that a call needs: the call's shape without page_size, and with
 * "keys" in place of "k". */
static void write_plan(const struct step_call *call, char plan[TUNE_SHAPE_TEXT])
{
    static const char *const names[][2] = {
        {"batch", "batch"},
        {"k", "keys"},
        {"q", "q"},
        {"q_tile", "q_tile"},
        {"heads", "heads"},
        {"kv_heads", "kv_heads"},
        {"lists", "lists"},
        {"window", "window"},
        {"item_cost", "item_cost"},
        {"merge_rate", "merge_rate"},
        {"unit_keys", "unit_keys"},
    };
    const struct tune_shape shape = shape_of(call);
    plan[0] = '\0';
    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        add_number(plan, names[i][1], tune_shape_number(&shape, names[i][0]));
    memmove(plan, plan + 1, strlen(plan)); /* drops the first comma */
}

/* Adds the combine launch of `shape` to a way and times it. `v` is the variant of the way's first
 * launch. Returns false, with the reason in way->fault, on failure. */
static bool time_combine(struct work *w, struct step_way *way, const struct att_variant *v,
                         const struct tune_shape *shape)
{
    struct att_variant combine;
    struct step_launch *l = &way->launches[way->count++];
    l->call.op = "combine";
    snprintf(l->call.shape, sizeof(l->call.shape), "%s", shape->text);
    w->total++;
    if (!attnc_split_combine(v, &combine)) {
        snprintf(way->fault, sizeof(way->fault), "no combine kernel");
        return false;
    }
    struct attn_pack *pack = step_open_kernels(w->kernels, &combine, way->fault);
    return pack && time_launch(w, pack, l, way->fault);
}

/* Times the second and later launches of a way without a plan. Returns false, with the reason in
 * way->fault, on failure. */
static bool time_rest(struct work *w, struct step_way *way)
{
    for (unsigned i = 1; !way->split && i < way->count; i++) {
        struct step_launch *l = &way->launches[i];
        const struct att_variant *v = step_find_variant(w->kernels, w->step->load.target, &l->call);
        struct attn_pack *pack = v ? step_open_kernels(w->kernels, v, way->fault) : NULL;
        w->total++;
        if (!v)
            snprintf(way->fault, sizeof(way->fault), "the model's description has no %s",
                     l->call.op);
        if (!pack || !time_launch(w, pack, l, way->fault))
            return false;
    }
    return true;
}

/* Times all launches of a way. Returns false, with the reason in way->fault, if a launch has no
 * time. */
static bool time_way(struct work *w, struct step_way *way)
{
    struct step_launch *l = &way->launches[0];
    const struct att_variant *v = step_find_variant(w->kernels, w->step->load.target, &l->call);
    struct tune_shape combine = {0};
    if (!v) {
        snprintf(way->fault, sizeof(way->fault), "the model's description has no such kernel");
        return false;
    }
    struct attn_pack *pack = step_open_kernels(w->kernels, v, way->fault);
    if (!pack || (way->split && !split_way(w, way, pack, v, &combine)))
        return false;
    if (way->split)
        write_plan(&l->call, way->plan);
    return time_launch(w, pack, l, way->fault) &&
           (!combine.op[0] || time_combine(w, way, v, &combine)) && time_rest(w, way);
}

/* Times all ways of a stage and chooses the fastest. `before` is the previous stage, or NULL. A way
 * that also does the work of `before` is credited with the time of `before`. Returns false if no
 * way works. */
static bool time_stage(struct work *w, struct step_stage *before, struct step_stage *stage)
{
    const struct step_way *const other = before ? step_best_way(before) : NULL;
    const double saved = other ? step_way_us(w->step, other) : 0;
    double least = INFINITY;
    for (unsigned i = 0; i < stage->count; i++) {
        struct step_way *way = &stage->ways[i];
        double us = time_way(w, way) ? step_way_us(w->step, way) : INFINITY;
        if (us < INFINITY)
            way->fault[0] = '\0';
        if (way->whole)
            us -= saved;
        if (us < least) {
            least = us;
            stage->best = i;
        }
    }
    if (before)
        before->idle = least < INFINITY && stage->ways[stage->best].whole;
    return least < INFINITY;
}

/* Times a plan of this shape, unless an earlier kind of layer has needed the same one. `kind` is
 * the name of the layer's kind. Returns false after a message. */
static bool time_plan(struct work *w, const char *kind, const char *shape)
{
    struct step *s = w->step;
    struct step_launch *l = &s->plans[s->plan_count].launch;
    char fault[200] = "the model's description has no plan";
    for (unsigned i = 0; i < s->plan_count; i++) {
        if (!strcmp(s->plans[i].launch.call.shape, shape))
            return true;
    }
    l->call = (struct step_call){.op = "plan", .field_count = 1};
    l->call.fields[0].field = ATT_Q_TILES;
    l->call.fields[0].value = strstr(shape, "q_tile=") != NULL;
    snprintf(l->call.shape, sizeof(l->call.shape), "%s", shape);
    s->plans[s->plan_count++].kind = kind;
    w->total++;
    const struct att_variant *v = step_find_variant(w->kernels, s->load.target, &l->call);
    struct attn_pack *pack = v ? step_open_kernels(w->kernels, v, fault) : NULL;
    if (pack && time_launch(w, pack, l, fault))
        return true;
    clear_progress();
    complain(EXIT_PARTIAL, "plan: %s", fault);
    s->plan_count--;
    return false;
}

/* Times the plans that the best ways need. Adds to the counts of timed and failed launches. */
static void time_plans(struct work *w, struct step_count *count)
{
    for (unsigned i = 0; i < w->step->kind_count; i++) {
        const struct step_kind *k = &w->step->kinds[i];
        for (unsigned n = 0; n < k->count; n++) {
            const struct step_way *best = step_best_way(&k->stages[n]);
            count->failed += best && best->plan[0] && !time_plan(w, k->name, best->plan);
        }
    }
    count->timed += w->step->plan_count;
}

/* Times the stages of a kind of layer, and reports the ones without a working way. Adds to the
 * counts. */
static void time_kind(struct work *w, struct step_kind *k, struct step_count *count)
{
    for (unsigned i = 0; i < k->count; i++) {
        struct step_stage *stage = &k->stages[i];
        const struct step_way *first = &stage->ways[0];
        if (time_stage(w, i ? &k->stages[i - 1] : NULL, stage)) {
            count->timed++;
            continue;
        }
        count->failed++;
        clear_progress();
        complain(EXIT_PARTIAL, "%s: %s: %s", k->name, first->launches[0].call.op, first->fault);
    }
}

struct step_count step_measure(struct step *s, struct step_kernels *k,
                               const struct step_device *device)
{
    struct work w = {.step = s, .kernels = k, .device = device};
    struct step_count count = {0};
    for (unsigned i = 0; i < s->kind_count; i++) {
        for (unsigned n = 0; n < s->kinds[i].count; n++)
            w.total += s->kinds[i].stages[n].count;
    }
    for (unsigned i = 0; i < s->kind_count; i++)
        time_kind(&w, &s->kinds[i], &count);
    time_plans(&w, &count);
    clear_progress();
    return count;
}
