/* SPDX-License-Identifier: Apache-2.0
 *
 * This file prints the times of a step: a table for each kind of layer and one for the step, or the
 * same as a JSON object.
 */
#include <stdio.h>
#include <string.h>

#include "tools/attnc/cli/json.h"
#include "tools/attnc/step/step.h"

/* Share of a roofline below which a launch is bound by latency. */
static const double BOUND = 0.5;

/* Returns what bounds a launch by the model: "HBM", "matrix" or "latency"; NULL if there is no
 * model's figure. */
static const char *bound_of(const struct step_launch *l)
{
    const double most = l->memory > l->matrix ? l->memory : l->matrix;
    if (most <= 0)
        return NULL;
    return most < BOUND ? "latency" : l->memory > l->matrix ? "HBM" : "matrix";
}

/* Returns the overhead in us of launch `n` of a layer that is a graph by itself: of the graph's
 * start for n = 0, else of a node. */
static double overhead(const struct step *s, unsigned n) { return n ? s->node_us : s->launch_us; }

/* Returns the time in us of a layer that is a graph by itself. */
static double layer_alone_us(const struct step *s, const struct step_kind *k)
{
    return step_layer_us(s, k) + s->launch_us - s->node_us;
}

/* Returns 100 times `part` / `whole`; 0 if `whole` is 0. */
static double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

/* The functions from here on print tables. */

/* Prints the line of launch `n` of a layer. `whole` is the layer's time in us. */
static void print_launch(const struct step *s, const struct step_launch *l, unsigned n,
                         double whole)
{
    const char *bound = bound_of(l);
    const double us = l->us + overhead(s, n);
    printf("  %-18s %9.2f %5.1f%% %7.2f", l->call.op, us, percent(us, whole), overhead(s, n));
    if (!s->gpu[0])
        printf(" %9.0f %5.1f%% %5.1f%%  %-7s", l->cycles, 100 * l->memory, 100 * l->matrix,
               bound ? bound : "-");
    printf("  %s\n", l->kernel);
}

/* True if way `i` of the stage is the one that an engine should launch. No way is if the next
 * stage's way does the work. */
static bool is_taken(const struct step_stage *stage, unsigned i)
{
    return !stage->idle && !stage->ways[i].fault[0] && i == stage->best;
}

/* Prints the time of each way of a stage in a graph; nothing if there is only one way. */
static void print_ways(const struct step *s, const struct step_stage *stage)
{
    if (stage->count < 2)
        return;
    printf("  %s, us in a graph:", stage->name);
    for (unsigned i = 0; i < stage->count; i++) {
        const struct step_way *w = &stage->ways[i];
        printf("%s %s ", i ? "," : "", w->name);
        if (w->fault[0])
            printf("none");
        else
            printf("%.2f%s", step_way_us(s, w), is_taken(stage, i) ? " (taken)" : "");
    }
    printf(".\n");
}

/* Prints the table of one layer of a kind: its launches, its time, and the ways of each stage. */
static void print_kind(const struct step *s, const struct step_kind *k)
{
    const double whole = layer_alone_us(s, k);
    unsigned n = 0;
    printf("\n%s: %ld layer%s, %ld %s heads, %ld %s head%s\n", k->name, k->layers,
           k->layers == 1 ? "" : "s", k->heads, k->linear ? "value" : "query", k->kv_heads,
           k->linear ? "key" : "key/value", k->kv_heads == 1 ? "" : "s");
    printf("  %-18s %9s %6s %7s", "OP", "US", "SHARE", "LAUNCH");
    if (!s->gpu[0])
        printf(" %9s %6s %6s  %-7s", "CYCLES", "HBM", "MATRIX", "BOUND");
    printf("  KERNEL\n");
    for (unsigned i = 0; i < k->count; i++) {
        const struct step_way *best = step_best_way(&k->stages[i]);
        for (unsigned j = 0; best && j < best->count; j++)
            print_launch(s, &best->launches[j], n++, whole);
        if (!best && !k->stages[i].idle)
            printf("  %-18s %9s\n", k->stages[i].ways[0].launches[0].call.op, "-");
    }
    const double launches = s->launch_us + (n ? n - 1 : 0) * s->node_us;
    printf("  %-18s %9.2f %5.1f%% %7.2f\n", "layer", whole, 100.0, launches);
    for (unsigned i = 0; i < k->count; i++)
        print_ways(s, &k->stages[i]);
}

/* Prints a line of the step's table: `times` layers or launches of `us` us each, and their share of
 * `whole`, the step's time in us. */
static void print_total(const char *name, long times, double us, double whole)
{
    printf("  %-44s %7ld %9.2f %11.2f %5.1f%%\n", name, times, us, (double)times * us,
           percent((double)times * us, whole));
}

void step_print(const struct step *s, const struct model *m)
{
    const struct step_load *l = &s->load;
    const double whole = step_whole_us(s);
    printf("%s on %s, %s: TP %ld, batch %ld, %ld keys, %ld quer%s each\n",
           m->architecture[0] ? m->architecture
           : m->type[0]       ? m->type
                              : "A model",
           l->target, s->gpu[0] ? "measured" : "modelled", l->ranks, l->batch, l->context,
           l->queries, l->queries == 1 ? "y" : "ies");
    if (s->gpu[0])
        printf("Device: %s\n", s->gpu);
    for (unsigned i = 0; i < s->kind_count; i++)
        print_kind(s, &s->kinds[i]);
    printf("\nStep in one graph\n  %-44s %7s %9s %11s %6s\n", "", "TIMES", "US EACH", "US",
           "SHARE");
    for (unsigned i = 0; i < s->kind_count; i++)
        print_total(s->kinds[i].name, s->kinds[i].layers, step_layer_us(s, &s->kinds[i]), whole);
    for (unsigned i = 0; i < s->plan_count; i++) {
        char name[80];
        snprintf(name, sizeof(name), "plan, %s", s->plans[i].kind);
        print_total(name, 1, s->plans[i].launch.us + s->node_us, whole);
    }
    if (s->launch_us > s->node_us)
        print_total("start of the graph", 1, s->launch_us - s->node_us, whole);
    printf("  %-44s %7s %9s %11.2f %5.1f%%\n", "step", "", "", whole, 100.0);
}

/* The functions from here on print JSON. */

/* Writes a launch as a JSON object. `launch_us` is its overhead, `whole` the time of its layer or
 * step, both in us. */
static void launch_json(struct json *j, const struct step_launch *l, double launch_us, double whole)
{
    json_begin_object(j, NULL);
    json_string(j, "op", l->call.op);
    json_string(j, "kernel", l->kernel);
    json_string(j, "shape", l->call.shape);
    json_real(j, "us", l->us + launch_us);
    json_real(j, "launch_us", launch_us);
    json_real(j, "share", percent(l->us + launch_us, whole) / 100);
    json_real(j, "cycles", l->cycles);
    json_real(j, "least_bytes", l->bytes);
    json_real(j, "memory_share", l->memory);
    json_real(j, "matrix_share", l->matrix);
    json_string(j, "bound", bound_of(l));
    json_end(j);
}

/* Writes each way of a stage as a JSON object; nothing if there is only one way. */
static void ways_json(struct json *j, const struct step *s, const struct step_stage *stage)
{
    for (unsigned i = 0; stage->count > 1 && i < stage->count; i++) {
        const struct step_way *w = &stage->ways[i];
        json_begin_object(j, NULL);
        json_string(j, "stage", stage->name);
        json_string(j, "way", w->name);
        json_integer(j, "launches", w->count);
        if (w->fault[0])
            json_null(j, "graph_us");
        else
            json_real(j, "graph_us", step_way_us(s, w));
        json_flag(j, "taken", is_taken(stage, i));
        json_string(j, "fault", w->fault[0] ? w->fault : NULL);
        json_end(j);
    }
}

/* Writes a kind of layer as a JSON object: its sizes, times, launches and ways. */
static void kind_json(struct json *j, const struct step *s, const struct step_kind *k)
{
    unsigned n = 0;
    json_begin_object(j, NULL);
    json_string(j, "kind", k->name);
    json_integer(j, "layers", k->layers);
    json_integer(j, "heads", k->heads);
    json_integer(j, "kv_heads", k->kv_heads);
    json_real(j, "us", layer_alone_us(s, k));
    json_real(j, "graph_us", step_layer_us(s, k));
    json_begin_list(j, "launches");
    for (unsigned i = 0; i < k->count; i++) {
        const struct step_way *best = step_best_way(&k->stages[i]);
        for (unsigned w = 0; best && w < best->count; w++, n++)
            launch_json(j, &best->launches[w], overhead(s, n), layer_alone_us(s, k));
    }
    json_end(j);
    json_begin_list(j, "ways");
    for (unsigned i = 0; i < k->count; i++)
        ways_json(j, s, &k->stages[i]);
    json_end(j);
    json_end(j);
}

void step_print_json(const struct step *s, const struct model *m)
{
    const struct step_load *l = &s->load;
    const double whole = step_whole_us(s);
    struct json j = {.out = stdout};
    json_begin_object(&j, NULL);
    json_string(&j, "architecture", m->architecture);
    json_string(&j, "model_type", m->type);
    json_string(&j, "target", l->target);
    json_string(&j, "device", s->gpu[0] ? "hip" : "model");
    json_string(&j, "gpu", s->gpu[0] ? s->gpu : NULL);
    json_integer(&j, "tp", l->ranks);
    json_integer(&j, "batch", l->batch);
    json_integer(&j, "context", l->context);
    json_integer(&j, "queries", l->queries);
    json_real(&j, "launch_us", s->launch_us);
    json_real(&j, "graph_node_us", s->node_us);
    json_begin_list(&j, "layers");
    for (unsigned i = 0; i < s->kind_count; i++)
        kind_json(&j, s, &s->kinds[i]);
    json_end(&j);
    json_begin_list(&j, "plans");
    for (unsigned i = 0; i < s->plan_count; i++)
        launch_json(&j, &s->plans[i].launch, s->node_us, whole);
    json_end(&j);
    json_real(&j, "step_us", whole);
    json_begin_list(&j, "missing");
    for (unsigned i = 0; i < m->gaps.count; i++)
        json_string(&j, NULL, m->gaps.texts[i]);
    json_end(&j);
    json_end(&j);
}
