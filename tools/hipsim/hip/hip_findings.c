/* SPDX-License-Identifier: Apache-2.0 */
#include "hip_findings.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hip_rules.h"

static const char *const check_names[FAULT_KINDS] = {
    [FAULT_NONE] = "none",         [FAULT_DECODE] = "decode",   [FAULT_REGISTER] = "register",
    [FAULT_MEMORY] = "memory",     [FAULT_ALIGN] = "align",     [FAULT_UNINIT] = "uninit",
    [FAULT_WAIT] = "wait",         [FAULT_HAZARD] = "hazard",   [FAULT_STRICT] = "strict",
    [FAULT_RACE] = "race",         [FAULT_BARRIER] = "barrier", [FAULT_DIVERGE] = "diverge",
    [FAULT_STALE] = "stale",       [FAULT_FENCE] = "fence",     [FAULT_HINT] = "hint",
    [FAULT_DEADLOCK] = "deadlock", [FAULT_BUDGET] = "budget",   [FAULT_TRAP] = "trap",
};

/* Findings of one kernel in all of its launches. */
struct tally {
    char *kernel;
    /* number of findings by kind, with repetitions and those that ended a launch */
    uint64_t findings[FAULT_KINDS];
    /* Number of places in the code with a finding, by kind. */
    uint64_t places[FAULT_KINDS];
    uint64_t suppressed; /* number of suppressed findings, with repetitions */
    struct tally *next;
};

/* Rules and files of new options, until hip_findings_settle(). NULL: that option stays. */
struct prepared {
    struct rules *rules;
    FILE *json, *learned;
};

/* The rules, files and counts of the process. */
static struct {
    pthread_mutex_t lock;
    /* rules in use; rules that were replaced, which running launches may still use */
    struct rules *rules, *retired;
    /* File of option json, and file of rules that option write_suppress requests; NULL: none. */
    FILE *json, *learned;
    char json_path[OPTION_TEXT], learned_path[OPTION_TEXT], rules_path[OPTION_TEXT];
    struct prepared next;
    struct tally *first;
    _Atomic int status; /* exit status of the program if it has findings */
} state = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The functions from here on follow the options for findings. */

/* Creates the file `path`, unless `path` equals `current`. On failure false, with a sentence in
 * `why`. */
static bool open_file(const char *path, const char *current, FILE **file, char *why, size_t size)
{
    *file = NULL;
    if (!*path || strcmp(path, current) == 0)
        return true;
    *file = fopen(path, "w");
    if (!*file)
        snprintf(why, size, "%s: %s", path, strerror(errno));
    return *file != NULL;
}

/* Makes `file`, which has the path `path`, the file `*old` of the path `old_path`. Closes the old
 * file. Nothing happens if the paths are equal. */
static void replace_file(FILE **old, FILE *file, char *old_path, const char *path)
{
    if (strcmp(old_path, path) == 0)
        return;
    if (*old)
        fclose(*old);
    *old = file;
    strcpy(old_path, path);
}

bool hip_findings_prepare(const struct options *options, char *why, size_t why_size)
{
    pthread_mutex_lock(&state.lock);
    struct prepared *const p = &state.next;
    bool ok = true;
    if (*options->suppress && strcmp(options->suppress, state.rules_path) != 0) {
        p->rules = rules_read(options->suppress, why, why_size);
        ok = p->rules != NULL;
    }
    ok = ok && open_file(options->json, state.json_path, &p->json, why, why_size) &&
         open_file(options->write_suppress, state.learned_path, &p->learned, why, why_size);
    pthread_mutex_unlock(&state.lock);
    return ok;
}

/* Frees what is prepared. The caller has locked the state. */
static void discard(struct prepared *p)
{
    rules_destroy(p->rules);
    if (p->json)
        fclose(p->json);
    if (p->learned)
        fclose(p->learned);
}

void hip_findings_settle(const struct options *options, bool ok)
{
    pthread_mutex_lock(&state.lock);
    struct prepared *const p = &state.next;
    if (!ok) {
        discard(p);
    } else {
        if (strcmp(options->suppress, state.rules_path) != 0) {
            rules_destroy(state.retired);
            state.retired = state.rules;
            state.rules = p->rules;
            strcpy(state.rules_path, options->suppress);
        }
        replace_file(&state.json, p->json, state.json_path, options->json);
        replace_file(&state.learned, p->learned, state.learned_path, options->write_suppress);
    }
    *p = (struct prepared){0};
    pthread_mutex_unlock(&state.lock);
}

/* The functions from here on write findings as JSON, one object per line. */

/* Writes the text as a JSON string. */
static void put_string(FILE *file, const char *text)
{
    fputc('"', file);
    for (; *text; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            fprintf(file, "\\%c", c);
        else if (c == '\n')
            fputs("\\n", file);
        else if (c < 0x20)
            fprintf(file, "\\u%04x", c);
        else
            fputc(c, file);
    }
    fputc('"', file);
}

/* Writes the source lines of a finding as JSON. */
static void put_source(FILE *file, const struct finding_place *place)
{
    fputs(",\"source\":[", file);
    for (unsigned i = 0; i < place->nsource; i++) {
        fputs(i ? ",{\"line\":" : "{\"line\":", file);
        put_string(file, place->source[i].text);
        fputs(",\"function\":", file);
        put_string(file, place->source[i].function);
        fputc('}', file);
    }
    fputc(']', file);
}

/* Writes a finding at once, since the program may crash later. */
static void write_json(const struct hipsim_report *report, const struct finding_place *place)
{
    FILE *file = state.json;

    if (!file)
        return;
    fputs("{\"check\":", file);
    put_string(file, report->kind);
    if (report->kernel) {
        fputs(",\"kernel\":", file);
        put_string(file, report->kernel);
    }
    if (place) {
        fprintf(file,
                ",\"pc\":\"entry%+" PRId64 "\",\"workgroup\":[%u,%u,%u],\"wave\":%u,"
                "\"lanes\":\"0x%" PRIx64 "\"",
                place->offset, report->workgroup[0], report->workgroup[1], report->workgroup[2],
                report->wave, report->lanes);
        put_source(file, place);
    }
    fputs(",\"text\":", file);
    put_string(file, report->text);
    fputs("}\n", file);
    fflush(file);
}

void hip_findings_note(const struct hipsim_report *report)
{
    pthread_mutex_lock(&state.lock);
    write_json(report, NULL);
    pthread_mutex_unlock(&state.lock);
}

/* The functions from here on handle reports. */

/* Returns the place of a finding, with its source lines in source[]. */
static struct finding_place place_of(const struct ihipModule_t *module, const char *kernel,
                                     const struct fault *fault,
                                     struct source_place source[SOURCE_PLACES])
{
    struct finding_place place = {
        .check = check_names[fault->kind],
        .kernel = kernel ? kernel : "",
        .offset = fault->offset,
        .source = source,
    };

    if (module->lines)
        place.nsource =
            source_lines_find(module->lines, fault->pc - (uintptr_t)module->code->base, source);
    return place;
}

/* True if a rule suppresses the finding. The engine's threads call it once for each place. */
static bool is_suppressed(const struct launch *launch, const struct fault *fault)
{
    struct source_place source[SOURCE_PLACES];

    pthread_mutex_lock(&state.lock);
    const struct rules *rules = state.rules;
    pthread_mutex_unlock(&state.lock);
    if (!rules)
        return false;
    const struct finding_place place =
        place_of(launch->suppress_ctx, launch->kernel, fault, source);
    return rules_match(rules, &place);
}

void hip_findings_watch(struct launch *launch, const struct ihipModule_t *module)
{
    pthread_mutex_lock(&state.lock);
    launch->suppress = state.rules ? is_suppressed : NULL;
    pthread_mutex_unlock(&state.lock);
    launch->suppress_ctx = module;
}

/* Writes the text of a finding with its source lines to `text`, of `size` bytes. */
static void write_text(char *text, size_t size, const struct fault *fault,
                       const struct finding_place *place)
{
    size_t used = (size_t)snprintf(text, size, "%s", fault->text);

    for (unsigned i = 0; i < place->nsource && used < size; i++) {
        const struct source_place *s = &place->source[i];
        used +=
            (size_t)snprintf(text + used, size - used, "\n  %s %s%s%s", i ? "inlined at" : "source",
                             s->text, *s->function ? " in " : "", s->function);
    }
}

/* Returns the kernel's counts of findings. They are created at the first finding. NULL: no
 * memory. */
static struct tally *tally_of(const char *kernel)
{
    struct tally **end = &state.first;

    while (*end && strcmp((*end)->kernel, kernel) != 0)
        end = &(*end)->next;
    if (*end)
        return *end;
    struct tally *tally = calloc(1, sizeof(*tally));
    if (tally && !(tally->kernel = strdup(kernel))) {
        free(tally);
        tally = NULL;
    }
    *end = tally;
    return tally;
}

void hip_findings_report(const struct launch *launch, const struct ihipModule_t *module,
                         const struct fault *fault)
{
    char text[sizeof(fault->text) + SOURCE_PLACES * sizeof(struct source_place)];
    struct source_place source[SOURCE_PLACES];
    const struct finding_place place = place_of(module, launch->kernel, fault, source);
    struct hipsim_report report = {
        .kind = place.check,
        .kernel = launch->kernel,
        .wave = fault->wave,
        .lanes = fault->lanes,
        .pc = fault->pc,
        .text = text,
    };

    write_text(text, sizeof(text), fault, &place);
    memcpy(report.workgroup, fault->workgroup, sizeof(report.workgroup));
    pthread_mutex_lock(&state.lock);
    write_json(&report, &place);
    if (state.learned) {
        rules_write(state.learned, &place);
        fflush(state.learned);
    }
    struct tally *tally = tally_of(place.kernel);
    if (tally)
        tally->places[fault->kind]++;
    pthread_mutex_unlock(&state.lock);
    hip_report(&report);
}

void hip_findings_between(const char *operation, const char *text)
{
    const struct finding_place place = {.check = check_names[FAULT_RACE], .kernel = operation};
    const struct hipsim_report report = {.kind = place.check, .kernel = operation, .text = text};

    pthread_mutex_lock(&state.lock);
    const bool suppressed = rules_match(state.rules, &place);
    struct tally *tally = tally_of(operation);
    if (tally && suppressed)
        tally->suppressed++;
    if (tally && !suppressed) {
        tally->findings[FAULT_RACE]++;
        tally->places[FAULT_RACE]++;
    }
    if (!suppressed)
        write_json(&report, NULL);
    if (!suppressed && state.learned) {
        fprintf(state.learned, "check=race kernel=%s\n", operation);
        fflush(state.learned);
    }
    pthread_mutex_unlock(&state.lock);
    if (suppressed)
        return;
    hip_note_findings(1);
    hip_report(&report);
}

void hip_findings_count(const struct launch *launch)
{
    const bool ended = launch->fault.kind != FAULT_NONE;

    if (!launch->findings && !launch->suppressed && !ended)
        return;
    pthread_mutex_lock(&state.lock);
    struct tally *tally = tally_of(launch->kernel ? launch->kernel : "");
    if (tally) {
        for (unsigned kind = 0; kind < FAULT_KINDS; kind++)
            tally->findings[kind] += launch->found[kind];
        if (ended)
            tally->findings[launch->fault.kind]++;
        tally->suppressed += launch->suppressed;
    }
    pthread_mutex_unlock(&state.lock);
}

/* The functions from here on sum up findings at the end of the process. */

/* Prints the findings of a kernel as text. */
static void print_tally(FILE *file, const struct tally *t)
{
    const char *separator = "";

    fprintf(file, "hipsim:   kernel %s: ", t->kernel);
    for (unsigned kind = 0; kind < FAULT_KINDS; kind++) {
        if (!t->findings[kind])
            continue;
        fprintf(file, "%s%s %" PRIu64 " at %" PRIu64 " place%s", separator, check_names[kind],
                t->findings[kind], t->places[kind], t->places[kind] == 1 ? "" : "s");
        separator = ", ";
    }
    if (t->suppressed)
        fprintf(file, "%s%" PRIu64 " suppressed", separator, t->suppressed);
    fputc('\n', file);
}

/* Writes the findings of a kernel as JSON. */
static void json_tally(FILE *file, const struct tally *t)
{
    const char *separator = "";

    fputs("{\"summary\":{\"kernel\":", file);
    put_string(file, t->kernel);
    fputs(",\"checks\":{", file);
    for (unsigned kind = 0; kind < FAULT_KINDS; kind++) {
        if (!t->findings[kind])
            continue;
        fprintf(file, "%s\"%s\":{\"findings\":%" PRIu64 ",\"places\":%" PRIu64 "}", separator,
                check_names[kind], t->findings[kind], t->places[kind]);
        separator = ",";
    }
    fprintf(file, "},\"suppressed\":%" PRIu64 "}}\n", t->suppressed);
}

/* Returns the number of findings that no rule has suppressed. With `print`, prints the summary. */
static uint64_t sum_up(bool print)
{
    uint64_t findings = 0, places = 0, suppressed = 0, hints = 0;

    for (const struct tally *t = state.first; t; t = t->next) {
        suppressed += t->suppressed;
        hints += t->findings[FAULT_HINT];
        for (unsigned kind = 0; kind < FAULT_KINDS; kind++) {
            findings += t->findings[kind];
            places += t->places[kind];
        }
    }
    for (const struct tally *t = state.first; state.json && t; t = t->next)
        json_tally(state.json, t);
    if (!print || !(findings + suppressed))
        return findings - hints;
    fprintf(stderr, "hipsim: %" PRIu64 " findings at %" PRIu64 " places, %" PRIu64 " suppressed\n",
            findings, places, suppressed);
    for (const struct tally *t = state.first; t; t = t->next)
        print_tally(stderr, t);
    return findings - hints;
}

/* Records the exit status of the process. */
static void note_status(int status, void *unused)
{
    (void)unused;
    atomic_store(&state.status, status);
}

void hip_findings_start(void) { on_exit(note_status, NULL); }

/* Prints the summary at the end of the process. A library's destructor runs after the program's own
 * ones, which may still launch kernels. */
__attribute__((destructor)) static void finish(void)
{
    const struct options options = hip_options();
    const uint64_t findings = sum_up(options.summary && !hip_reports_go_elsewhere());

    if (state.json)
        fclose(state.json);
    if (state.learned)
        fclose(state.learned);
    if (!findings || !options.exitcode || atomic_load(&state.status))
        return;
    fflush(NULL);
    _exit((int)options.exitcode);
}
