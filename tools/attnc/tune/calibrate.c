/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc tune --calibrate: fits parameters of the timing model to launches that a GPU has measured.
 * Free to change are the parameters that no source decides, and the ones that were fitted before.
 * Each step changes only the parameter, to one of a few values, that brings the model closest. So
 * few parameters change. A parameter that has changed is tried again with values nearer to the
 * present one.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/attnc/cli/command.h"
#include "tools/attnc/tune/tune.h"

/* Most measured launches and parameters; values tried of a parameter in a step; steps; bytes of a
 * text of parameters. */
enum { MOST_PAIRS = 48, MOST_PARAMETERS = 128, TRIES = 5, STEPS = 8, TEXT = 2048 };

/* Least decrease of the mean square error for which a step is taken, as a fraction. */
static const double WORTH = 0.05;
static const double EXACT = 1e-8; /* mean square error above the noise's at which the fit ends */

/* A launch of one candidate on one shape that a GPU has measured. */
struct pair {
    struct tune_item item;
    /* Measured time in us. */
    double us;
};

/* The fit for one target. Arrays are in the order of `parameters`. */
struct fit {
    struct tune_sweep *sweep;
    const struct tgt_parameter *parameters;
    double values[MOST_PARAMETERS];
    /* Changed: the value is not the model's own. Idle: no value of it changes a modelled time. */
    bool changed[MOST_PARAMETERS], idle[MOST_PARAMETERS];
    unsigned taken[MOST_PARAMETERS]; /* steps that have changed it */
    struct pair pairs[MOST_PAIRS];
    size_t count;
    /* Mean square of the half widths of the measurements' intervals, in units of the natural
     * logarithm. */
    double noise;
};

/* True if the fit may change the parameter: it has a range, and its tag in targets/facts/ is U
 * (unknown) or F (fitted). */
static bool is_free(const struct tgt_parameter *p)
{
    return p->low < p->high && (p->tag == TGT_TAG_U || p->tag == TGT_TAG_F);
}

/* Collects the measured launches of the target's kernels from the database, at most MOST_PAIRS, and
 * their noise. */
static void find_pairs(struct fit *f, const char *target)
{
    struct tune_sweep *s = f->sweep;
    for (size_t k = 0; k < s->key_count; k++) {
        struct tune_key *key = &s->keys[k];
        if (strcmp(key->variant.target, target) || !key->shape_count)
            continue;
        for (size_t c = 0; c < key->candidate_count; c++) {
            for (size_t i = 0; i < key->shape_count && f->count < MOST_PAIRS; i++) {
                const struct tune_id id = {key->text, "", key->shapes[i].text,
                                           key->candidates[c].tile, key->candidates[c].code};
                struct tune_value v;
                if (!key->candidates[c].kernel || !tune_db_find_measured(s->db, &id, &v) ||
                    v.us_low <= 0)
                    continue;
                const double half = log(v.us_high / v.us_low) / 2;
                f->noise += half * half;
                f->pairs[f->count++] = (struct pair){{key, c, i, NULL, NULL}, v.us};
            }
        }
    }
}

/* Writes all changed parameters in the form of --parameters, and parameter `p` with the value
 * `value`. MOST_PARAMETERS for `p`: only the changed ones. */
static void write_parameters(const struct fit *f, size_t p, double value, char text[TEXT])
{
    size_t at = 0;
    text[0] = '\0';
    for (size_t i = 0; f->parameters[i].name && at < TEXT; i++) {
        if (f->changed[i] || i == p)
            at += (size_t)snprintf(text + at, TEXT - at, "%s%s=%.6g", at ? "," : "",
                                   f->parameters[i].name, i == p ? value : f->values[i]);
    }
}

/* Sets errors[t], for each t below `count`, to the mean square of log(modelled / measured time)
 * with the parameters in texts[t]. Returns false on failure. */
static bool find_errors(struct fit *f, char texts[][TEXT], size_t count, double *errors)
{
    struct tune_item *items = calloc(count * f->count + 1, sizeof(*items));
    struct tune_value *values = calloc(count * f->count + 1, sizeof(*values));
    bool good = items && values;
    for (size_t t = 0; good && t < count; t++) {
        for (size_t i = 0; i < f->count; i++) {
            struct tune_item *item = &items[t * f->count + i];
            *item = f->pairs[i].item;
            item->parameters = texts[t][0] ? texts[t] : NULL;
            item->value = &values[t * f->count + i];
        }
    }
    good = good && tune_time_items(f->sweep, items, count * f->count);
    for (size_t t = 0; good && t < count; t++) {
        errors[t] = 0;
        for (size_t i = 0; i < f->count; i++) {
            const double us = values[t * f->count + i].us;
            const double error = us > 0 ? log(us / f->pairs[i].us) : 10;
            errors[t] += error * error / (double)f->count;
        }
    }
    free(items);
    free(values);
    return good;
}

/* Returns the value number `number`, of TRIES, to try for parameter `p`. Values cover the whole
 * range at first, then an interval around the present value that halves with each change. */
static double try_value(const struct fit *f, size_t p, unsigned number)
{
    const struct tgt_parameter *row = &f->parameters[p];
    const double range = row->high - row->low, part = (double)number / (TRIES - 1);
    const double width = range / (double)(1u << (f->taken[p] < 16 ? f->taken[p] : 16));
    const double value =
        f->taken[p] ? f->values[p] + (part - 0.5) * width : row->low + part * range;
    return value < row->low ? row->low : value > row->high ? row->high : value;
}

/* Takes the best change of one parameter, if it is worth a step. *changed says whether there is
 * one, *error gets its mean square error. Returns false if memory is exhausted or the database
 * cannot be written. */
static bool step(struct fit *f, double *error, bool *changed)
{
    char (*texts)[TEXT] = calloc(MOST_PARAMETERS * TRIES, sizeof(*texts));
    double *errors = calloc(MOST_PARAMETERS * TRIES, sizeof(*errors));
    size_t count = 0, best = 0;
    size_t of[MOST_PARAMETERS * TRIES];
    for (size_t p = 0; texts && f->parameters[p].name; p++) {
        for (unsigned t = 0; t < TRIES && is_free(&f->parameters[p]) && !f->idle[p]; t++) {
            of[count] = p;
            write_parameters(f, p, try_value(f, p, t), texts[count++]);
        }
    }
    const bool good = texts && errors && find_errors(f, texts, count, errors);
    for (size_t i = 0; good && i < count; i += TRIES) {
        f->idle[of[i]] = true;
        for (unsigned t = 0; t < TRIES; t++) {
            f->idle[of[i]] = f->idle[of[i]] && errors[i + t] == *error;
            best = errors[i + t] < errors[best] ? i + t : best;
        }
    }
    *changed = good && count && errors[best] < *error * (1 - WORTH);
    if (*changed) {
        const size_t p = of[best];
        f->values[p] = try_value(f, p, (unsigned)(best % TRIES));
        f->changed[p] = true;
        f->taken[p]++;
        *error = errors[best];
    }
    free(texts);
    free(errors);
    return good;
}

/* Prints the errors before and after the fit, and the changed parameters. `before` and `after` are
 * mean squares. */
static void print_fit(const struct fit *f, const char *target, double before, double after)
{
    char text[TEXT];
    write_parameters(f, MOST_PARAMETERS, 0, text);
    printf("%s: %zu measurements; root mean square of log(model / measured) %.4f before, %.4f "
           "after\n",
           target, f->count, sqrt(before), sqrt(after));
    printf("  --parameters %s\n", text[0] ? text : "(nothing changes)");
    for (size_t i = 0; f->parameters[i].name; i++) {
        if (f->changed[i])
            printf("  %-24s %10.6g was %g, range %g to %g, %s\n", f->parameters[i].name,
                   f->values[i], f->parameters[i].value, f->parameters[i].low,
                   f->parameters[i].high, f->parameters[i].tag == TGT_TAG_U ? "U" : "F");
    }
}

/* Reads the first setting NAME=VALUE of a comma-separated list. *which gets the parameter's index
 * in `rows`. Returns the address of the next setting; NULL if the text is no setting. */
static const char *read_setting(const struct tgt_parameter *rows, const char *text, size_t *which,
                                double *value)
{
    const size_t name = strcspn(text, "=,"), length = strcspn(text, ",");
    size_t i = 0;
    char *end = NULL;
    while (rows[i].name && (strncmp(rows[i].name, text, name) != 0 || strlen(rows[i].name) != name))
        i++;
    *which = i;
    *value = text[name] == '=' ? strtod(text + name + 1, &end) : 0;
    if (!rows[i].name || !end || end == text + name + 1 || end != text + length || !(*value >= 0) ||
        isinf(*value))
        return NULL;
    return text + length + (text[length] == ',');
}

int tune_check_parameters(const char *list)
{
    /* All targets have parameters of the same names. */
    const struct tgt_parameter *const rows = tgt_find("gfx942")->parameters;
    bool seen[MOST_PARAMETERS] = {false};
    for (const char *text = list; text && *text;) {
        size_t which;
        double value;
        const char *const next = read_setting(rows, text, &which, &value);
        if (!next)
            return complain(EXIT_USER, "tune: --parameters: '%.*s' is no NAME=VALUE of the model",
                            (int)strcspn(text, ","), text);
        if (seen[which])
            return complain(EXIT_USER, "tune: --parameters: %s is given twice", rows[which].name);
        seen[which] = true;
        text = next;
    }
    return EXIT_GOOD;
}

/* Sets the parameters that the user gives with --parameters, for example results of attnc probes,
 * before the fit. */
static void begin_with(struct fit *f, const char *text)
{
    while (text && *text) {
        size_t which;
        double value;
        text = read_setting(f->parameters, text, &which, &value);
        if (text) {
            f->values[which] = value;
            f->changed[which] = true;
        }
    }
}

/* Fits the parameters of a target and prints the result. Adds the number of measured launches to
 * *measured. Returns false on failure. */
static bool fit_target(struct tune_sweep *sweep, const char *target, size_t *measured)
{
    struct fit *f = calloc(1, sizeof(*f));
    char start[1][TEXT];
    double before = 0, after;
    if (!f)
        return false;
    *f = (struct fit){.sweep = sweep, .parameters = tgt_find(target)->parameters};
    for (size_t i = 0; f->parameters[i].name; i++)
        f->values[i] = f->parameters[i].value;
    begin_with(f, sweep->parameters);
    write_parameters(f, MOST_PARAMETERS, 0, start[0]);
    find_pairs(f, target);
    f->noise /= f->count ? (double)f->count : 1;
    *measured += f->count;
    bool good = !f->count || find_errors(f, start, 1, &before);
    after = before;
    bool changed = f->count > 0;
    for (unsigned i = 0; i < STEPS && good && changed && after > f->noise + EXACT; i++)
        good = step(f, &after, &changed);
    if (good && f->count)
        print_fit(f, target, before, after);
    free(f);
    return good;
}

int tune_calibrate(struct tune_sweep *sweep)
{
    size_t measured = 0;
    const char *last = "";
    for (size_t k = 0; k < sweep->key_count; k++) {
        struct tune_key *const key = &sweep->keys[k];
        if (key->shape_count && !tune_compile(sweep, key, 0, key->candidate_count))
            return complain(EXIT_ENVIRONMENT, "out of memory");
    }
    for (size_t k = 0; k < sweep->key_count; k++) {
        const char *target = sweep->keys[k].variant.target;
        bool done = false;
        for (size_t i = 0; i < k; i++)
            done = done || !strcmp(sweep->keys[i].variant.target, target);
        last = target;
        if (!done && !fit_target(sweep, target, &measured))
            return complain(EXIT_ENVIRONMENT, "the calibration has stopped");
    }
    if (!measured)
        return complain(EXIT_USER,
                        "the database has no measurement of these kernels (%s); attnc tune "
                        "--device hip makes some",
                        last);
    return EXIT_GOOD;
}
