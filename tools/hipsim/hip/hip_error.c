/* SPDX-License-Identifier: Apache-2.0 */
/* The frame of API calls: initialisation, failure injection, last errors, reports, names of
 * errors. */
#include "hip.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hip_counters.h"
#include "hip_debug.h"
#include "hip_findings.h"
#include "hip_patch.h"
#include "hip_refused.h"
#include "sized.h"

/* The state of the library in this process. */
static struct {
    pthread_mutex_t lock;
    pthread_once_t once;
    hipError_t startup; /* result of the initialisation */
    struct options options;
    bool frozen; /* true: devices exist */
    bool environment_read;
    char startup_why[400];
    /* Callback of hipsim_set_report(), and its argument; NULL: reports are printed. */
    void (*report)(void *ctx, const struct hipsim_report *report);
    void *report_ctx;
    pthread_mutex_t print_lock;
    _Atomic uint64_t calls;
    _Atomic uint64_t findings;
    _Atomic uint64_t calls_to_failure; /* HIP calls until one fails; 0: none will fail */
    /* Error of the call that fails. */
    _Atomic int failure;
} runtime = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .print_lock = PTHREAD_MUTEX_INITIALIZER,
    .once = PTHREAD_ONCE_INIT,
};

static _Thread_local struct hip_thread this_thread;

struct hip_thread *hip_thread(void) { return &this_thread; }

/* Sets the call that fails, and its error, from the options. */
static void arm(const struct options *options)
{
    atomic_store(&runtime.failure, (int)options->fail_error);
    atomic_store(&runtime.calls_to_failure, options->fail_call);
}

/* Applies the options that need files, a debugger or a test of their text. If one fails, none is
 * applied, and `why` gets a sentence. */
static bool apply(const struct options *options, char *why, size_t why_size)
{
    const bool ok = hip_patch_configure(options, why, why_size) &&
                    hip_findings_prepare(options, why, why_size) &&
                    hip_counters_prepare(options, why, why_size) &&
                    hip_debug_configure(options, why, why_size); /* the last that can fail, since it
                                                                    is not undone */
    hip_findings_settle(options, ok);
    hip_counters_settle(options, ok);
    return ok;
}

/* Reads the environment variable HIPSIM, once. The caller has locked the state. On failure false,
 * with a sentence in `why`. */
static bool read_environment(char *why, size_t why_size)
{
    if (runtime.environment_read)
        return true;
    runtime.environment_read = true;
    runtime.options = options_default();
    const char *text = getenv("HIPSIM");
    if (text && (!options_parse(&runtime.options, text, false, why, why_size) ||
                 !apply(&runtime.options, why, why_size))) {
        runtime.startup = hipErrorInitializationError;
        return false;
    }
    if (runtime.options.fail_call)
        arm(&runtime.options);
    return true;
}

/* Reads the environment at the first call of the process. */
static void start(void)
{
    pthread_mutex_lock(&runtime.lock);
    read_environment(runtime.startup_why, sizeof(runtime.startup_why));
    runtime.frozen = true;
    struct options options = runtime.options;
    bool usable = runtime.startup == hipSuccess;
    hip_findings_start();
    pthread_mutex_unlock(&runtime.lock);
    if (!usable)
        return;
    if (options.memory_gib && options.devices)
        hipsim_mem_expect(options.devices * options.memory_gib << 30);
    if (!hipsim_mem_init() || !hip_devices_create(&options)) {
        snprintf(runtime.startup_why, sizeof(runtime.startup_why),
                 "the simulated memory cannot be reserved: %s", strerror(errno));
        runtime.startup = hipErrorOutOfMemory;
    }
}

/* True if the current call is the one that must fail. */
static bool is_to_fail(void)
{
    uint64_t left = atomic_load(&runtime.calls_to_failure);

    while (left != 0)
        if (atomic_compare_exchange_weak(&runtime.calls_to_failure, &left, left - 1))
            return left == 1;
    return false;
}

/* Makes every call fail for the reason of the failed initialisation, which the first one
 * reports. */
static hipError_t fail_startup(void)
{
    static _Atomic bool said;

    return atomic_exchange(&said, true) ? runtime.startup
                                        : hip_fail(runtime.startup, "%s", runtime.startup_why);
}

hipError_t hip_enter(const char *name)
{
    struct hip_thread *thread = hip_thread();

    thread->call = name;
    thread->entry_error = hipSuccess;
    pthread_once(&runtime.once, start);
    atomic_fetch_add(&runtime.calls, 1);
    if (runtime.startup != hipSuccess)
        thread->entry_error = fail_startup();
    else if (is_to_fail())
        thread->entry_error = (hipError_t)atomic_load(&runtime.failure);
    return thread->entry_error;
}

hipError_t hip_entry_error(void) { return hip_thread()->entry_error; }

hipError_t hip_leave(hipError_t error)
{
    /* "not ready" is an answer, not a failure */
    if (error != hipSuccess && error != hipErrorNotReady)
        hip_thread()->last_error = error;
    return error;
}

struct options hip_options(void)
{
    pthread_mutex_lock(&runtime.lock);
    struct options options = runtime.options;
    pthread_mutex_unlock(&runtime.lock);
    return options;
}

/* The functions from here on report errors. */

void hip_report(const struct hipsim_report *report)
{
    pthread_mutex_lock(&runtime.lock);
    void (*callback)(void *, const struct hipsim_report *) = runtime.report;
    void *ctx = runtime.report_ctx;
    pthread_mutex_unlock(&runtime.lock);
    if (callback) {
        callback(ctx, report);
        return;
    }
    pthread_mutex_lock(&runtime.print_lock);
    fprintf(stderr, "hipsim: %s\n", report->text);
    pthread_mutex_unlock(&runtime.print_lock);
}

bool hip_reports_go_elsewhere(void)
{
    pthread_mutex_lock(&runtime.lock);
    const bool elsewhere = runtime.report != NULL;
    pthread_mutex_unlock(&runtime.lock);
    return elsewhere;
}

hipError_t hip_fail(hipError_t error, const char *format, ...)
{
    char text[1400];
    va_list args;
    int used =
        snprintf(text, sizeof(text), "%s: ", hip_thread()->call ? hip_thread()->call : "HIP");

    va_start(args, format);
    vsnprintf(text + used, sizeof(text) - (size_t)used, format, args);
    va_end(args);
    struct hipsim_report report = {.kind = "api", .text = text};
    hip_findings_note(&report);
    hip_report(&report);
    return error;
}

/* Returns the error for calls that are not simulated. `say`: with a message. */
static hipError_t not_supported(bool say)
{
    return say ? hip_fail(hipErrorNotSupported, "not simulated") : hipErrorNotSupported;
}

int hip_refuse(const char *name, bool say)
{
    return hip_leave(hip_enter(name) == hipSuccess ? not_supported(say) : hip_entry_error());
}

/* The functions from here on are hipsim's own interface. */

HIPSIM_API bool hipsim_configure(const char *text, char *why, size_t why_size)
{
    /* Value of fail_call if the text does not set `fail`. If it does, calls are counted from 0
     * again, even if the number is the same as before. */
    const uint64_t not_named = UINT64_MAX;
    char unused[400];

    if (!why) {
        why = unused;
        why_size = sizeof(unused);
    }
    pthread_mutex_lock(&runtime.lock);
    bool ok = read_environment(why, why_size);
    struct options changed = runtime.options;
    changed.fail_call = not_named;
    if (ok)
        ok = options_parse(&changed, text, runtime.frozen, why, why_size) &&
             apply(&changed, why, why_size);
    if (ok && changed.fail_call != not_named)
        arm(&changed);
    if (ok)
        runtime.options = changed;
    pthread_mutex_unlock(&runtime.lock);
    return ok;
}

HIPSIM_API void hipsim_set_report(void (*report)(void *ctx, const struct hipsim_report *report),
                                  void *ctx)
{
    pthread_mutex_lock(&runtime.lock);
    runtime.report = report;
    runtime.report_ctx = ctx;
    pthread_mutex_unlock(&runtime.lock);
}

HIPSIM_API void hipsim_fail_call(uint64_t nth, int error)
{
    atomic_store(&runtime.failure, error);
    atomic_store(&runtime.calls_to_failure, nth);
}

HIPSIM_API uint64_t hipsim_call_count(void) { return atomic_load(&runtime.calls); }

void hip_note_findings(uint64_t findings) { atomic_fetch_add(&runtime.findings, findings); }

HIPSIM_API uint64_t hipsim_findings(void) { return atomic_load(&runtime.findings); }

HIPSIM_API bool hipsim_last_launch(struct hipsim_launch_stats *stats)
{
    const struct hip_thread *thread = hip_thread();

    return thread->has_launched &&
           sized_copy(stats, stats->size, &thread->stats, sizeof(thread->stats));
}

HIPSIM_API uint64_t hipsim_live_bytes(int device)
{
    return device < 0 ? 0 : hipsim_mem_in_use((unsigned)device);
}

/* The functions from here on give the errors' names and texts as HIP does. */

static const struct {
    hipError_t error;
    const char *name;
    const char *text;
} errors[] = {
#define HIP_ERROR(name, text) {name, #name, text},
#include "hip_errors.def"
};

#define ERRORS (sizeof(errors) / sizeof(*errors))

HIP_EXPORT const char *hipGetErrorName(hipError_t error)
{
    for (size_t i = 0; i < ERRORS; i++)
        if (errors[i].error == error)
            return errors[i].name;
    return "hipErrorUnknown";
}

HIP_EXPORT const char *hipGetErrorString(hipError_t error)
{
    for (size_t i = 0; i < ERRORS; i++)
        if (errors[i].error == error)
            return errors[i].text;
    return "unknown error";
}

/* hipDrvGetErrorName() and hipDrvGetErrorString() accept errors that are out of range. */
HIP_EXPORT hipError_t hipDrvGetErrorName(hipError_t error, const char **text)
{
    if (!text)
        return hipErrorInvalidValue;
    *text = hipGetErrorName(error);
    return hipSuccess;
}

HIP_EXPORT hipError_t hipDrvGetErrorString(hipError_t error, const char **text)
{
    if (!text)
        return hipErrorInvalidValue;
    *text = hipGetErrorString(error);
    return hipSuccess;
}

HIP_EXPORT hipError_t hipGetLastError(void)
{
    if (hip_enter("hipGetLastError") != hipSuccess)
        return hip_entry_error();
    hipError_t last = hip_thread()->last_error;
    hip_thread()->last_error = hipSuccess;
    return last;
}

HIP_EXPORT hipError_t hipExtGetLastError(void) { return hipGetLastError(); }

HIP_EXPORT hipError_t hipPeekAtLastError(void)
{
    if (hip_enter("hipPeekAtLastError") != hipSuccess)
        return hip_entry_error();
    return hip_thread()->last_error;
}
