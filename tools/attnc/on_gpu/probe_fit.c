/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc probes --fit: finds the parameters of the timing model with which the simulator gives what
 * the probes measured on a GPU. It runs the same loops on the simulator, and changes one parameter
 * at a time until the results agree.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "targets/tgt.h"
#include "tools/attnc/cli/command.h"
#include "tools/attnc/on_gpu/probes.h"

/* Most probes; log2 of a parameter's range divided by the width at which its search ends; rounds
 * over all parameters, and over the two of the clock law; bytes of the text of parameters. */
enum { MOST_PROBES = 64, STEPS = 14, PASSES = 4, LAW_PASSES = 8, TEXT = 2048 };

/* A fit: the measurements by the index of their probe, and the parameters found so far. */
struct fit {
    const struct tgt *target;
    /* Results on the GPU; a median of 0: not measured. */
    struct probe_result measured[MOST_PROBES];
    double values[MOST_PROBES]; /* present value of each probe's parameter */
    /* The last parameters with which each probe was simulated, and the result; "": none. */
    char simulated[MOST_PROBES][TEXT];
    double shown[MOST_PROBES];
    char why[200]; /* the first failure of the simulator; "": none */
};

/* Returns the row of the target's parameters for the one that probe `i` measures; a row without a
 * name if the target lacks it. */
static const struct tgt_parameter *find_row(const struct fit *f, size_t i)
{
    const struct tgt_parameter *row = f->target->parameters;
    while (row->name && strcmp(row->name, probes[i].parameter))
        row++;
    return row;
}

/* Returns the result of probe `which` on the simulator with its parameter set to `value` and the
 * others at f->values. A repeated request takes the stored result. Returns 0 after a failure. */
static double model(struct fit *f, size_t which, double value)
{
    char text[TEXT];
    size_t at = 0;
    for (size_t i = 0; i < probe_count && at < TEXT; i++)
        if (f->measured[i].median > 0)
            at += (size_t)snprintf(text + at, TEXT - at, "%s%s=%.7g", at ? "," : "",
                                   probes[i].parameter, i == which ? value : f->values[i]);
    if (f->why[0])
        return 0;
    if (strcmp(f->simulated[which], text)) {
        strcpy(f->simulated[which], text);
        if (!probe_model(&probes[which], text, &f->shown[which], f->why))
            f->shown[which] = 0;
    }
    return f->shown[which];
}

/* True if `shown`, a simulated result of probe `i`, is within the measured interval, widened by 0.1
 * % of the median. */
static bool agrees(const struct fit *f, size_t i, double shown)
{
    const struct probe_result *m = &f->measured[i];
    const double slack = 0.001 * m->median;
    return shown >= m->low - slack && shown <= m->high + slack;
}

/* A value of a parameter and the simulated result with it. */
struct point {
    double value, shown;
};

/* Returns the simulated result with parameter i set to `value`. */
static struct point try_value(struct fit *f, size_t i, double value)
{
    return (struct point){value, model(f, i, value)};
}

/* Returns the next value to try between two results that enclose the measurement. `part` is its
 * distance from *low divided by the width of the range. A range wider than 2 gets a whole
 * number. */
static double choose_value(const struct point *low, const struct point *high, double part)
{
    const double width = high->value - low->value, next = low->value + width * part;
    const double whole = round(next);
    return width > 2 && whole > low->value && whole < high->value ? whole : next;
}

/* True if the measurement is between two results. */
static bool encloses(const struct point *low, const struct point *high, double measured)
{
    return (low->shown < measured && measured < high->shown) ||
           (high->shown < measured && measured < low->shown);
}

/* True if a result equals the measurement to the digits that a file of results has. */
static bool equals(double shown, double measured)
{
    return fabs(shown - measured) <= 1e-4 + 1e-6 * measured;
}

/* Narrows the range of parameter i until the simulator reproduces the measurement. Every probe is
 * monotonic in its parameter and most are linear. So the next value is the place where the line
 * between the two ends meets the measurement. If the same end is replaced again, the weight of the
 * other is halved (the Illinois method: Dowell and Jarratt, BIT 11, 1971). Returns the best
 * result. */
static struct point search(struct fit *f, size_t i, struct point low, struct point high)
{
    const double measured = f->measured[i].median, least = (high.value - low.value) / (1 << STEPS);
    const bool rises = high.shown > low.shown;
    double of_low = 1, of_high = 1; /* weights of the ends */
    int side = 0; /* end that the last step replaced: -1 low, 1 high; 0: no step yet */
    struct point best = low;
    if (fabs(high.shown - measured) < fabs(low.shown - measured))
        best = high;
    while (encloses(&low, &high, measured) && !equals(best.shown, measured) &&
           high.value - low.value > least && !f->why[0]) {
        const double before = of_low * (measured - low.shown),
                     after = of_high * (high.shown - measured);
        const struct point p =
            try_value(f, i, choose_value(&low, &high, before / (before + after)));
        const bool is_low = (p.shown < measured) == rises;
        of_high = !is_low ? 1 : side < 0 ? of_high / 2 : of_high;
        of_low = is_low ? 1 : side > 0 ? of_low / 2 : of_low;
        *(is_low ? &low : &high) = p;
        side = is_low ? -1 : 1;
        if (fabs(p.shown - measured) < fabs(best.shown - measured))
            best = p;
    }
    return best;
}

/* Returns the best result with a whole number near `found`, since most parameters are whole clocks;
 * `found` if none agrees with the measurement. */
static struct point round_value(struct fit *f, size_t i, struct point found)
{
    const struct tgt_parameter *row = find_row(f, i);
    const double measured = f->measured[i].median, down = floor(found.value);
    const double tries[] = {down, down - 1, down + 1};
    struct point best = found;
    for (size_t t = 0; found.value > down && t < sizeof(tries) / sizeof(tries[0]); t++) {
        if (tries[t] < row->low || tries[t] > row->high)
            continue;
        const struct point p = try_value(f, i, tries[t]);
        const bool better = fabs(p.shown - measured) < fabs(best.shown - measured);
        if (agrees(f, i, p.shown) && (better || best.value == found.value))
            best = p;
        if (equals(p.shown, measured))
            break;
    }
    return best;
}

/* Fits the parameter of probe `i`. Returns false if the value stays the same. */
static bool fit_one(struct fit *f, size_t i)
{
    const struct tgt_parameter *row = find_row(f, i);
    const double measured = f->measured[i].median;
    const struct point before = try_value(f, i, f->values[i]);
    if (agrees(f, i, before.shown))
        return false;
    struct point low = before, high = try_value(f, i, row->high);
    if (!encloses(&low, &high, measured)) {
        low = try_value(f, i, row->low);
        high = encloses(&low, &before, measured) ? before : high;
    }
    const struct point found = round_value(f, i, search(f, i, low, high));
    if (fabs(found.shown - measured) >= fabs(before.shown - measured))
        return false;
    f->values[i] = found.value;
    return true;
}

/* Prints a table of the parameters before and after the fit, then the changed ones in the form of
 * --parameters. */
static void print_fit(struct fit *f)
{
    const char *comma = "";
    printf("%-24s %10s %10s %12s %12s  range\n", "parameter", "was", "is", "measured", "modelled");
    for (size_t i = 0; i < probe_count; i++) {
        const struct tgt_parameter *row = find_row(f, i);
        if (f->measured[i].median <= 0)
            continue;
        const double shown = model(f, i, f->values[i]);
        printf("%-24s %10.5g %10.5g %12.2f %12.2f  %g to %g%s\n", row->name, row->value,
               f->values[i], f->measured[i].median, shown, row->low, row->high,
               row->low >= row->high ? ", no range"
               : agrees(f, i, shown) ? ""
                                     : ", NOT REACHED");
    }
    printf("%s --parameters ", f->target->machine.name);
    for (size_t i = 0; i < probe_count; i++) {
        if (f->measured[i].median <= 0 || f->values[i] == find_row(f, i)->value)
            continue;
        printf("%s%s=%.6g", comma, probes[i].parameter, f->values[i]);
        comma = ",";
    }
    printf("%s\n", *comma ? "" : "(nothing changes)");
}

/* Stores the result in `line`, "PARAMETER MEDIAN LOW HIGH UNIT". Ignores lines of another form,
 * such as error messages. */
static void read_line(struct fit *f, const char *line)
{
    char name[64];
    struct probe_result r = {0};
    if (sscanf(line, "%63s %lf %lf %lf", name, &r.median, &r.low, &r.high) != 4)
        return;
    for (size_t i = 0; i < probe_count; i++) {
        if (strcmp(probes[i].parameter, name) || !find_row(f, i)->name)
            continue;
        f->measured[i] = r;
        f->values[i] = find_row(f, i)->value;
    }
}

/* Fits the parameters of the first `count` probes, one after the other, up to `passes` times or
 * until none changes. */
static void fit_in_turn(struct fit *f, size_t count, unsigned passes)
{
    bool changed = true;
    for (unsigned pass = 0; changed && pass < passes; pass++) {
        changed = false;
        for (size_t i = 0; i < count && !f->why[0]; i++) {
            const struct tgt_parameter *row = find_row(f, i);
            if (f->measured[i].median > 0 && row->low < row->high)
                changed = fit_one(f, i) || changed;
        }
    }
}

/* Reads the output of attnc probes. Sets f->target and the measurements. Returns an exit_code after
 * a message. */
static int read_results(struct fit *f, const char *path)
{
    char line[256], target[16];
    FILE *in = fopen(path, "r");
    if (!in)
        return complain(EXIT_ENVIRONMENT, "%s: cannot be read", path);
    if (fgets(line, sizeof(line), in) && sscanf(line, "probes 1 %15s", target) == 1)
        f->target = tgt_find(target);
    while (f->target && fgets(line, sizeof(line), in))
        read_line(f, line);
    fclose(in);
    return f->target ? EXIT_GOOD
                     : complain(EXIT_USER, "%s: not what `attnc probes -o` writes", path);
}

int probes_fit(const char *file, const char *simulator)
{
    char text[64];
    static struct fit f;
    const int code = read_results(&f, file);
    if (code != EXIT_GOOD)
        return code;
    snprintf(text, sizeof(text), "target=%s,checks=off", f.target->machine.name);
    setenv("HIPSIM", text, 1);
    if (probe_open(simulator, f.target->machine.name, f.why)) {
        /* Parameters influence each other's probes a little, so that all are fitted in several
         * rounds. The two of the clock law interact strongly and are fitted first, without the
         * others. */
        fit_in_turn(&f, 2, LAW_PASSES);
        fit_in_turn(&f, probe_count, PASSES);
        print_fit(&f);
    }
    return f.why[0] ? complain(EXIT_ENVIRONMENT, "%s", f.why) : EXIT_GOOD;
}
