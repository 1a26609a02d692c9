/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the trace of a modelled compute unit for Perfetto and Chrome's about:tracing, and the
 * disassembly with cycles per line. A microsecond of the trace is one modelled clock. Each wave has
 * a track. Counters show the load of the units in percent, in windows of 64 clocks. Counters of the
 * whole device show the occupancy of each XCD.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "decode.h"
#include "row.h"
#include "time_launch.h"

#define WINDOW 64
#define TEXT 256

/* Units whose load the trace shows. */
enum track_counter { BUSY_MATRIX, BUSY_VALU, BUSY_LDS, BUSY_VMEM, BUSY_COUNT };

/* Busy clocks, or bytes, that are 100 % of a window. */
static const double capacity[BUSY_COUNT] = {
    [BUSY_MATRIX] = 4 * WINDOW,
    [BUSY_VALU] = 4 * WINDOW,
    [BUSY_LDS] = WINDOW * 128.0,
    [BUSY_VMEM] = WINDOW * 64.0,
};

struct time_trace {
    FILE *file;
    struct time_code *code;
    bool failed;
    bool any;
    /* Number of windows in `busy`. */
    uint64_t windows;
    double (*busy)[BUSY_COUNT]; /* busy clocks or bytes, by window */
    uint64_t named[16];         /* a bit per track whose name was written */
};

/* Appends formatted text to the file; sets t->failed on an error. */
static void put(struct time_trace *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void put(struct time_trace *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (vfprintf(t->file, format, args) < 0)
        t->failed = true;
    va_end(args);
}

/* Writes a JSON string. Escapes only quotes, backslashes and control characters, since all text is
 * ASCII. */
static void put_string(struct time_trace *t, const char *text)
{
    fputc('"', t->file);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', t->file);
        fputc((unsigned char)*text < ' ' ? ' ' : *text, t->file);
    }
    fputc('"', t->file);
}

struct time_trace *time_trace_open(const char *path, const char *kernel, struct time_code *code)
{
    struct time_trace *t = calloc(1, sizeof(*t));
    if (!t)
        return NULL;
    t->code = code;
    t->file = fopen(path, "w");
    if (!t->file) {
        free(t);
        return NULL;
    }
    put(t, "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"what\":\"hipsim, modelled: 1 us is 1 "
           "clock\"},\"traceEvents\":[\n"
           "{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":");
    put_string(t, kernel ? kernel : "kernel");
    put(t, "}}");
    return t;
}

/* Writes the name of the event's track when it has its first event. */
static void name_track(struct time_trace *t, const struct time_event *e)
{
    uint64_t *word = &t->named[e->slot / 64 % 16], bit = UINT64_C(1) << e->slot % 64;
    if (*word & bit)
        return;
    *word |= bit;
    put(t,
        ",\n{\"ph\":\"M\",\"pid\":1,\"tid\":%u,\"name\":\"thread_name\",\"args\":{\"name\":"
        "\"SIMD %u, workgroup %" PRIu64 ", wave %u\"}}",
        e->slot, e->slot % 4, e->wg->index, e->wave->id);
}

/* Adds `amount` to the windows of the clocks [from, to), in proportion to their overlap. */
static void add_busy(struct time_trace *t, enum track_counter counter, uint64_t from, uint64_t to,
                     double amount)
{
    uint64_t need = to / WINDOW + 1;
    if (need > t->windows) {
        uint64_t size = need * 2;
        void *larger = realloc(t->busy, size * sizeof(*t->busy));
        if (!larger) {
            t->failed = true;
            return;
        }
        t->busy = larger;
        memset(t->busy + t->windows, 0, (size - t->windows) * sizeof(*t->busy));
        t->windows = size;
    }
    double length = to > from ? (double)(to - from) : 1;
    for (uint64_t w = from / WINDOW; w <= to / WINDOW; w++) {
        uint64_t a = w * WINDOW, b = a + WINDOW;
        a = a > from ? a : from;
        b = b < to ? b : to;
        t->busy[w][counter] += to > from ? (b > a ? amount * (double)(b - a) / length : 0) : amount;
    }
}

/* Adds the event's clocks to the busy time of its unit. */
static void count_busy(struct time_trace *t, const struct time_event *e)
{
    switch ((enum time_unit)e->op->unit) {
    case UNIT_MATRIX:
        add_busy(t, BUSY_MATRIX, e->issued, e->issued + e->op->matrix, e->op->matrix);
        break;
    case UNIT_VALU:
        add_busy(t, BUSY_VALU, e->issued, e->issued + e->op->issue, e->op->issue);
        break;
    case UNIT_LDS: add_busy(t, BUSY_LDS, e->issued, e->done, (double)e->lanes_bytes); break;
    case UNIT_VMEM: add_busy(t, BUSY_VMEM, e->issued, e->done, (double)e->lanes_bytes); break;
    default: break;
    }
}

/* Writes the stall and the execution of an instruction as events. */
static void on_event(void *ctx, const struct time_event *e)
{
    struct time_trace *t = ctx;
    char text[TEXT];
    name_track(t, e);
    if (e->issued > e->ready) {
        put(t,
            ",\n{\"ph\":\"X\",\"pid\":1,\"tid\":%u,\"cat\":\"stall\",\"ts\":%" PRIu64
            ",\"dur\":%" PRIu64 ",\"name\":",
            e->slot, e->ready, e->issued - e->ready);
        put_string(t, hipsim_stall_name(e->cause));
        put(t, "}");
    }
    code_text(t->code->code, e->in->offset, text, sizeof(text));
    size_t mnemonic = strcspn(text, " ");
    put(t,
        ",\n{\"ph\":\"X\",\"pid\":1,\"tid\":%u,\"cat\":\"%s\",\"ts\":%" PRIu64
        ",\"dur\":%u,\"name\":\"%.*s\",\"args\":{\"pc\":\"0x%" PRIx64 "\",\"text\":",
        e->slot, time_unit_name(e->op->unit), e->issued, (unsigned)t->code->p->issue_period,
        (int)mnemonic, text, e->in->offset);
    put_string(t, text);
    put(t, ",\"result after\":%" PRIu64 "}}", e->done - e->issued);
    count_busy(t, e);
}

struct time_sink time_trace_sink(struct time_trace *t)
{
    return (struct time_sink){.ctx = t, .event = on_event};
}

/* Writes the busy percentage of each unit by window, where it changes. */
static void put_counters(struct time_trace *t)
{
    static const char *const names[BUSY_COUNT] = {"MFMA %", "VALU %", "LDS %", "VMEM %"};
    for (unsigned c = 0; c < BUSY_COUNT; c++) {
        double before = -1;
        for (uint64_t w = 0; w < t->windows; w++) {
            double percent = 100 * t->busy[w][c] / capacity[c];
            if (percent == before)
                continue;
            put(t,
                ",\n{\"ph\":\"C\",\"pid\":1,\"name\":\"%s\",\"ts\":%" PRIu64
                ",\"args\":{\"busy\":%.1f}}",
                names[c], w * WINDOW, percent);
            before = percent;
        }
    }
}

/* Writes the occupancy of the device's XCDs, as a second process of the trace. */
static void put_device(struct time_trace *t, const struct hipsim_time_report *r)
{
    put(t, ",\n{\"ph\":\"M\",\"pid\":2,\"name\":\"process_name\",\"args\":{\"name\":\"device: room "
           "for "
           "workgroups that is taken\"}}");
    for (unsigned x = 0; x < r->xcds && x < HIPSIM_TIME_XCDS; x++) {
        for (unsigned i = 0; i < HIPSIM_TIME_PARTS; i++)
            put(t,
                ",\n{\"ph\":\"C\",\"pid\":2,\"name\":\"XCD %u "
                "%%\",\"ts\":%.0f,\"args\":{\"taken\":%.1f}}",
                x, r->cycles * i / HIPSIM_TIME_PARTS, 100.0 * (double)r->taken[x][i]);
        put(t,
            ",\n{\"ph\":\"C\",\"pid\":2,\"name\":\"XCD %u %%\",\"ts\":%.0f,\"args\":{\"taken\":0}}",
            x, r->cycles);
    }
}

bool time_trace_close(struct time_trace *t, const struct hipsim_time_report *report)
{
    put_counters(t);
    if (report)
        put_device(t, report);
    put(t, "\n]}\n");
    bool ok = !t->failed && !ferror(t->file);
    ok = fclose(t->file) == 0 && ok;
    free(t->busy);
    free(t);
    return ok;
}

/* Returns the cause with the most stalled clocks of a line. */
static enum hipsim_stall worst(const struct time_line *line)
{
    unsigned most = HIPSIM_STALL_NONE;
    for (unsigned i = 0; i < HIPSIM_STALL_COUNT; i++)
        if (line->stall[i] > line->stall[most])
            most = i;
    return (enum hipsim_stall)most;
}

bool time_annotate(const struct time_code *code, const char *kernel, const char *path)
{
    FILE *f = fopen(path, "w");
    if (!f)
        return false;
    uint64_t n = code_size(code->code) / 4, total = 0;
    for (uint64_t i = 0; i < n; i++)
        total += code->lines[i].clocks;
    fprintf(f,
            "; %s: modelled wave clocks of the sampled workgroups, %" PRIu64 " in all\n"
            "; share, clocks and stall are per line; clocks per execution in brackets\n"
            ";  share      clocks      [each]   executed  worst stall\n",
            kernel, total);
    bool gap = false;
    for (uint64_t i = 0; i < n; i++) {
        const struct time_line *line = &code->lines[i];
        if (!line->count) {
            gap = true;
            continue;
        }
        char text[TEXT], stall[64] = "";
        if (gap)
            fputs("\n", f);
        enum hipsim_stall cause = worst(line);
        if (line->stall[cause])
            snprintf(stall, sizeof(stall), "%s %.0f%%", hipsim_stall_name(cause),
                     100.0 * (double)line->stall[cause] / (double)line->clocks);
        fprintf(f, "%7.3f%% %11" PRIu64 " %11.1f %10" PRIu64 "  %-20s %06" PRIx64 "  %s\n",
                total ? 100.0 * (double)line->clocks / (double)total : 0.0, line->clocks,
                (double)line->clocks / (double)line->count, line->count, stall, i * 4,
                code_text(code->code, i * 4, text, sizeof(text)));
        i += code_inst(code->code, i * 4)->size / 4 - 1u;
        gap = false;
    }
    bool ok = !ferror(f);
    return fclose(f) == 0 && ok;
}
