/* SPDX-License-Identifier: Apache-2.0
 *
 * A HIP library over the simulator that makes times as unsteady as a real machine's. It comes
 * before hipsim on the library path, overrides launches and events, and leaves all else to hipsim.
 * A launch takes the time of the timing model, which is kept after the first launch. The
 * environment variable SHAKY lists what is wrong:
 *
 *   noise=P      times vary by a normal deviate of P percent, and every 16th is three times as long
 *   drift=P      the clock gets slower by P percent with every hundred launches
 *   fault=N      the N-th launch, from 1, and all after it fail
 *   hang=N       the N-th event that is waited for never comes
 *   execute=N    every launch of at most N workgroups is executed, and all in whole; else only the
 *                first of a kernel and grid is, and of that a sample, which is enough for times
 *
 * SHAKY_PARAMETERS changes parameters of the timing model, for a GPU that differs from it.
 */
#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/hipsim/time/hipsim_time.h"

#define EXPORT __attribute__((visibility("default")))
enum { KNOWN = 4096, LAUNCH_FAILURE = 719, SUCCESS = 0 };

struct known {
    void *function;
    unsigned grid;
    double us;
};

static struct known known[KNOWN];
static size_t known_count;
static double clock_us; /* time of the only stream, in us */
static unsigned long launches, waits;
static uint64_t random_state = 88172645463325252u;

/* Calls a function of hipsim's library, so that the linker keeps the dependency. Programs then find
 * the functions of hipsim that this library does not define. */
int hipInit(unsigned flags);
EXPORT int shaky_init(void);
EXPORT int shaky_init(void) { return hipInit(0); }

static void *next(const char *name) { return dlsym(RTLD_NEXT, name); }

static double setting(const char *name)
{
    const char *all = getenv("SHAKY"), *at = all ? strstr(all, name) : NULL;
    return at ? atof(at + strlen(name)) : 0;
}

/* Returns a random number of at least 0 and below 1: xorshift64 (Marsaglia). */
static double uniform(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (double)(random_state >> 11) / 9007199254740992.0;
}

/* Returns about a standard normal deviate: the sum of twelve uniform numbers, less 6. */
static double deviate(void)
{
    double sum = -6;
    for (int i = 0; i < 12; i++)
        sum += uniform();
    return sum;
}

typedef int launch_function(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                            unsigned, void *, void **, void **);

static launch_function *real_launch(void)
{
    void *address = next("hipModuleLaunchKernel");
    launch_function *f;
    memcpy(&f, &address, sizeof(address));
    return f;
}

static int synchronize(void)
{
    int (*f)(void);
    void *address = next("hipDeviceSynchronize");
    memcpy(&f, &address, sizeof(address));
    return f();
}

/* Returns the modelled time of the last launch, in microseconds; 0 if there is none. */
static double modelled(void)
{
    struct hipsim_time_report report = {.size = sizeof(report)};
    bool (*last)(struct hipsim_time_report *);
    void *address = next("hipsim_time_last");
    memcpy(&last, &address, sizeof(address));
    return last(&report) ? report.us_at_power : 0;
}

static bool enabled; /* the timing model is on */

EXPORT bool hipsim_time_enable(const struct hipsim_time_options *options, char *why, size_t size)
{
    bool (*f)(const struct hipsim_time_options *, char *, size_t);
    void *address = next("hipsim_time_enable");
    memcpy(&f, &address, sizeof(address));
    enabled = true;
    return f(options, why, size);
}

/* Enables the timing model unless the program has done so. */
static void enable(void)
{
    const struct hipsim_time_options options = {.size = sizeof(options),
                                                .samples_only = !setting("execute="),
                                                .parameters = getenv("SHAKY_PARAMETERS")};
    if (!enabled)
        hipsim_time_enable(&options, NULL, 0);
}

static double shake(double us)
{
    us *= 1 + setting("drift=") / 100 * (double)launches / 100;
    us *= 1 + setting("noise=") / 100 * deviate();
    return setting("noise=") > 0 && launches % 16 == 15 ? 3 * us : us;
}

EXPORT int hipModuleLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned bx,
                                 unsigned by, unsigned bz, unsigned lds, void *stream,
                                 void **parameters, void **extra)
{
    const unsigned grid = x * 31 + y * 17 + z;
    size_t i = 0;
    launches++;
    if (setting("fault=") > 0 && launches >= (unsigned long)setting("fault="))
        return LAUNCH_FAILURE;
    while (i < known_count && (known[i].function != function || known[i].grid != grid))
        i++;
    const bool is_known = i < known_count;
    if (!is_known || (double)x * y * z <= setting("execute=")) {
        enable();
        const int error =
            real_launch()(function, x, y, z, bx, by, bz, lds, stream, parameters, extra);
        if (error)
            return error;
        if (synchronize())
            return LAUNCH_FAILURE;
    }
    if (!is_known && known_count < KNOWN)
        known[known_count++] = (struct known){function, grid, modelled()};
    else if (!is_known)
        return LAUNCH_FAILURE;
    clock_us += shake(known[i].us);
    return SUCCESS;
}

EXPORT int hipEventCreate(void **event)
{
    *event = calloc(1, sizeof(double));
    return SUCCESS;
}

EXPORT int hipEventDestroy(void *event)
{
    free(event);
    return SUCCESS;
}

EXPORT int hipEventRecord(void *event, void *stream)
{
    (void)stream;
    *(double *)event = clock_us;
    return SUCCESS;
}

EXPORT int hipEventSynchronize(void *event)
{
    (void)event;
    waits++;
    while (setting("hang=") > 0 && waits >= (unsigned long)setting("hang="))
        pause();
    return SUCCESS;
}

EXPORT int hipEventElapsedTime(float *milliseconds, void *start, void *stop)
{
    *milliseconds = (float)((*(double *)stop - *(double *)start) / 1000);
    return SUCCESS;
}

/* The flush of the cache: nothing is cached between launches here. */
EXPORT int hipMemsetAsync(void *to, int value, size_t size, void *stream)
{
    (void)to, (void)value, (void)size, (void)stream;
    return SUCCESS;
}
