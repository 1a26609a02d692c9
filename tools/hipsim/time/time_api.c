/* SPDX-License-Identifier: Apache-2.0 */
/* Implements hipsim_time.h: options and the last report, for the whole process. */
#include "time_api.h"

#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "decode.h"
#include "gfx_part.h"
#include "sized.h"
#include "time_launch.h"

static struct {
    pthread_mutex_t lock;
    bool enabled;
    /* True: `last` has the report of a launch. */
    bool timed;
    struct hipsim_time_report last;
    struct hipsim_time_options options;
    char *parameters, *trace_path, *annotate_path; /* copies of the texts of `options` */
} state = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Sets the reason why `text` is invalid. Returns false. */
static bool refuse(char *why, size_t why_size, const char *text, const char *what)
{
    if (why && why_size)
        snprintf(why, why_size, "%s: %s", text, what);
    return false;
}

/* True if the list `list` sets the parameter whose name begins at `text`, of `length` bytes, before
 * that position too. */
static bool is_set_before(const char *list, const char *text, size_t length)
{
    for (; list < text; list += strcspn(list, ",") + 1)
        if (strcspn(list, "=") == length && strncmp(list, text, length) == 0)
            return true;
    return false;
}

/* Sets the parameters that `text` lists: "name=value,name=value". On failure false, with a sentence
 * in `why`. */
static bool set_parameters(struct time_params *params, const char *text, char *why, size_t why_size)
{
    for (const char *list = text; text && *text;) {
        char name[64], *end;
        size_t length = strcspn(text, "=,");
        if (text[length] != '=' || length >= sizeof(name))
            return refuse(why, why_size, "a timing parameter is written name=value", text);
        memcpy(name, text, length);
        name[length] = '\0';
        if (is_set_before(list, text, length))
            return refuse(why, why_size, "a timing parameter is given twice", name);
        double value = strtod(text + length + 1, &end);
        if (end == text + length + 1 || (*end && *end != ',') || !(value >= 0) || isinf(value))
            return refuse(why, why_size, "a timing parameter is a number from 0 on", text);
        if (!time_params_set(params, name, value))
            return refuse(why, why_size, "there is no such timing parameter", name);
        text = *end ? end + 1 : end;
    }
    return true;
}

/* Sets *to to a copy of the text, or to NULL. False without memory. */
static bool copy(char **to, const char *text)
{
    *to = text ? strdup(text) : NULL;
    return !text || *to;
}

/* Turns the timing model off and frees its settings. */
static void forget(void)
{
    free(state.parameters);
    free(state.trace_path);
    free(state.annotate_path);
    state.parameters = state.trace_path = state.annotate_path = NULL;
    state.enabled = false;
}

bool hipsim_time_enable(const struct hipsim_time_options *options, char *why, size_t why_size)
{
    struct time_params params = time_params_default(GFX942);
    struct hipsim_time_options own = {.size = sizeof(own)};
    if (options && !sized_copy(&own, sizeof(own), options, options->size))
        return refuse(why, why_size, "timing", "the options have no size");
    if (!set_parameters(&params, own.parameters, why, why_size))
        return false;
    pthread_mutex_lock(&state.lock);
    forget();
    bool ok = true;
    if (options) {
        state.options = own;
        ok = copy(&state.parameters, own.parameters) && copy(&state.trace_path, own.trace_path) &&
             copy(&state.annotate_path, own.annotate_path);
        state.enabled = ok;
    }
    pthread_mutex_unlock(&state.lock);
    return ok || refuse(why, why_size, "timing", "out of memory");
}

bool hipsim_time_last(struct hipsim_time_report *report)
{
    pthread_mutex_lock(&state.lock);
    const bool timed =
        state.timed && sized_copy(report, report->size, &state.last, sizeof(state.last));
    pthread_mutex_unlock(&state.lock);
    return timed;
}

int time_run(struct launch *launch, bool always, double *microseconds)
{
    *microseconds = -1;
    pthread_mutex_lock(&state.lock);
    if (!state.enabled && !always) {
        pthread_mutex_unlock(&state.lock);
        return engine_run(launch);
    }
    /* Times one launch at a time, since the output files belong to the process. Options that are
     * not set are zero, which selects the defaults. */
    struct time_config config = {
        .params = time_params_of_part(launch->part ? launch->part
                                                   : gfx_part_of(code_target(launch->code))),
        .samples = launch->sample ? (uint32_t)launch->sample : state.options.samples,
        .samples_only = launch->sample || state.options.samples_only,
        .trace_path = state.trace_path,
        .annotate_path = state.annotate_path,
    };
    set_parameters(&config.params, state.parameters, NULL, 0);
    struct hipsim_time_report report = {0};
    int error = time_launch_run(launch, &config, &report);
    if (error == 0 && report.workgroups) {
        state.last = report;
        state.timed = true;
        *microseconds = report.us_at_power;
    }
    pthread_mutex_unlock(&state.lock);
    return error;
}

/* Appends formatted text to `text`, of `size` bytes, at position *used, and advances *used. Like
 * snprintf()'s result, *used may exceed size. */
static void add(char *text, size_t size, int *used, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static void add(char *text, size_t size, int *used, const char *format, ...)
{
    size_t at = (size_t)*used < size ? (size_t)*used : size;
    va_list args;
    va_start(args, format);
    *used += vsnprintf(size ? text + at : NULL, size - at, format, args);
    va_end(args);
}

/* Appends the parts of the waves' time to the report, by cause. */
static void add_stalls(const struct hipsim_time_report *r, char *text, size_t size, int *used)
{
    uint64_t total = r->issue_cycles;
    for (unsigned i = 0; i < HIPSIM_STALL_COUNT; i++)
        total += r->stall_cycles[i];
    if (!total)
        return;
    add(text, size, used, "  wave time: issue %.1f %%",
        100.0 * (double)r->issue_cycles / (double)total);
    for (unsigned i = 1; i < HIPSIM_STALL_COUNT; i++)
        if (r->stall_cycles[i] * 1000 >= total)
            add(text, size, used, ", %s %.1f %%", hipsim_stall_name((enum hipsim_stall)i),
                100.0 * (double)r->stall_cycles[i] / (double)total);
    add(text, size, used, "\n");
}

int hipsim_time_format(const struct hipsim_time_report *report, char *text, size_t size)
{
    struct hipsim_time_report own = {.size = sizeof(own)}, *r = &own;
    int used = 0;
    if (!sized_copy(r, sizeof(own), report, report->size))
        return -1;
    add(text, size, &used, "%s on %s, modelled, not measured\n", r->kernel, r->target);
    add(text, size, &used,
        "  %.0f cycles: %.2f us at %.0f MHz (maximum clock), %.2f us at "
        "%.0f MHz (power-limited clock), %.1f us of them launch\n",
        r->cycles, r->us_at_max, r->max_mhz, r->us_at_power, r->power_mhz, r->launch_us);
    add(text, size, &used,
        "  %.1f %% of the matrix roofline (%.1f %% in the hottest loop), "
        "%.1f %% of the peak memory bandwidth, %.3f MB beyond L2\n",
        100 * r->matrix_fraction, 100 * r->matrix_duty, 100 * r->memory_fraction,
        r->memory_bytes / 1e6);
    add(text, size, &used,
        "  %llu workgroups, %u per compute unit, %u waves per SIMD, idle "
        "%.1f %%",
        (unsigned long long)r->workgroups, r->workgroups_per_cu, r->waves_per_simd, 100 * r->tail);
    if (!r->together)
        add(text, size, &used, "; L2 lines shared by %.1f workgroups", r->l2_sharers);
    add(text, size, &used, "\n");
    add(text, size, &used, "  %llu workgroups timed%s%s\n", (unsigned long long)r->sampled,
        r->together                  ? ", all of them, on all compute units at once"
        : r->sampled < r->workgroups ? ", the others follow from them"
                                     : "",
        r->complete ? "" : "; those not timed were NOT executed, their results are missing");
    if (r->loop_bound > 0)
        add(text, size, &used,
            "  hottest loop: %.0f cycles per iteration, lower bound %.0f "
            "(%.1f %%)\n",
            r->loop_cycles, r->loop_bound, 100 * r->loop_bound / r->loop_cycles);
    add_stalls(r, text, size, &used);
    return used;
}
