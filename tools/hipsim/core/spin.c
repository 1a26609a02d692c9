/* SPDX-License-Identifier: Apache-2.0 */
#include "spin.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "memory_share.h"

/* Most bytes that a time slice's instruction may change: WRITES_MAX pieces of WRITE_BYTES bytes. */
enum { WRITES_MAX = 4 * WAVE_LANES, WRITE_BYTES = 16 };

/* State of a wave when it took a backward branch. */
struct snapshot {
    bool saved, repeats;
    uint64_t pc, changes;
    uint64_t executed; /* value of w->executed at that branch */
    uint64_t begun;    /* value of w->executed at the start of the time slice */
    uint64_t period;   /* instructions from that branch to the next one with the same state */
    uint64_t visits,
        /* visits: branches since the state was saved; limit: visits after which it is saved again
         * (Brent's algorithm) */
        limit;
    uint32_t sgpr[SGPR_FILE], mode;
    uint8_t scc;
    uint32_t *rows;
};

/* Changes to memory in a time slice, and the snapshots of its waves. */
struct spin {
    uint64_t changes; /* number of changes to memory in this time slice */
    uint32_t nwrites;
    /* Bytes that the running instruction may change, before it executes. */
    struct {
        const uint8_t *at;
        uint8_t bytes, old[WRITE_BYTES];
    } writes[WRITES_MAX];
    size_t row_bytes; /* bytes of all vector registers of a wave */
    uint32_t *rows;
    struct snapshot snapshot[WAVES_MAX];
};

/* Allocates the state that finds endless waiting. NULL: no memory. */
static struct spin *spin_new(const struct worker *k)
{
    const struct launch *l = k->wg.launch;
    struct spin *s = calloc(1, sizeof(*s));
    if (!s)
        return NULL;
    s->row_bytes = ((size_t)l->nvgpr + l->nagpr) * WAVE_LANES * sizeof(uint32_t);
    s->rows = malloc(k->nwaves * s->row_bytes + 1);
    if (!s->rows) {
        free(s);
        return NULL;
    }
    for (uint32_t i = 0; i < k->nwaves; i++)
        s->snapshot[i].rows = s->rows + i * (s->row_bytes / sizeof(uint32_t));
    return s;
}

void spin_free(struct spin *s)
{
    if (s)
        free(s->rows);
    free(s);
}

void spin_watch(struct worker *k)
{
    if (!k->spin)
        k->spin = spin_new(k);
    if (!k->spin)
        return;
    k->spin->changes = 0;
    for (uint32_t i = 0; i < k->wg.nwaves; i++) {
        struct snapshot *snapshot = &k->spin->snapshot[i];
        snapshot->saved = snapshot->repeats = false;
        snapshot->visits = 0;
        snapshot->limit = 1;
        snapshot->begun = k->waves[i].executed;
        k->waves[i].spin = k->spin;
    }
}

void spin_leave(struct worker *k)
{
    for (uint32_t i = 0; i < k->wg.nwaves; i++)
        k->waves[i].spin = NULL;
}

bool spin_waits(struct worker *k)
{
    const struct spin *s = k->waves[0].spin; /* NULL: not watched */
    if (!s || s->changes)
        return false;
    for (uint32_t i = 0; i < k->wg.nwaves; i++) {
        if (k->waves[i].state == WAVE_RUNNING && !s->snapshot[i].repeats)
            return false;
    }
    for (uint32_t i = 0; i < k->wg.nwaves; i++)
        k->waves[i].executed = s->snapshot[i].begun;
    return true;
}

/* True if the wave's registers are the same as at the snapshot, and memory has not changed
 * since. */
static bool is_as_seen(const struct spin *s, const struct snapshot *snapshot, const struct wave *w)
{
    return snapshot->saved && snapshot->pc == w->pc && snapshot->changes == s->changes &&
           snapshot->scc == w->scc && snapshot->mode == w->mode &&
           !memcmp(snapshot->sgpr, w->sgpr, sizeof(snapshot->sgpr)) &&
           !memcmp(snapshot->rows, w->v, s->row_bytes);
}

void spin_went_back(struct worker *k, struct wave *w)
{
    struct spin *s = k->spin;
    struct snapshot *snapshot = &s->snapshot[w->id];
    if (snapshot->repeats || w->held) /* data held back would change registers when they arrive */
        return;
    if (is_as_seen(s, snapshot, w)) {
        snapshot->period = w->executed - snapshot->executed;
        snapshot->repeats = true;
        return;
    }
    if (snapshot->saved && ++snapshot->visits < snapshot->limit)
        return;
    snapshot->limit *= 2;
    snapshot->visits = 0;
    snapshot->saved = true;
    snapshot->pc = w->pc;
    snapshot->changes = s->changes;
    snapshot->executed = w->executed;
    snapshot->scc = w->scc;
    snapshot->mode = w->mode;
    memcpy(snapshot->sgpr, w->sgpr, sizeof(snapshot->sgpr));
    memcpy(snapshot->rows, w->v, s->row_bytes);
}

void spin_changed(struct spin *s) { s->changes++; }

void spin_may_write(struct spin *s, const struct lane_mem *m, unsigned bytes)
{
    unsigned l;
    if (bytes > WRITE_BYTES) {
        spin_changed(s);
        return;
    }
    FOR_LANES(l, m->lanes)
    {
        if (s->nwrites == WRITES_MAX) {
            spin_changed(s);
            return;
        }
        s->writes[s->nwrites].at = m->ptr[l];
        s->writes[s->nwrites].bytes = (uint8_t)bytes;
        memcpy(s->writes[s->nwrites++].old, m->ptr[l], bytes);
    }
}

void spin_settle(struct spin *s)
{
    bool changed = false;
    for (uint32_t i = 0; i < s->nwrites; i++)
        changed |= memcmp(s->writes[i].at, s->writes[i].old, s->writes[i].bytes) != 0;
    s->nwrites = 0;
    if (changed)
        spin_changed(s);
}

bool spin_others_run(uint32_t own)
{
    if (hipsim_mem_is_shared())
        return true;
    DIR *tasks = opendir("/proc/self/task");
    if (!tasks)
        return true;
    uint32_t n = 0;
    for (const struct dirent *task; (task = readdir(tasks)) != NULL;)
        n += task->d_name[0] != '.';
    closedir(tasks);
    return n > own;
}

/* Returns the host's monotonic time in seconds. */
static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Returns the wave that a report names: a polling one, or else one that waits at a barrier. */
static struct wave *waiting_wave(const struct worker *k)
{
    struct wave *blocked = NULL;
    for (uint32_t i = 0; i < k->wg.nwaves; i++) {
        struct wave *w = k->wg.waves[i];
        if (w->state == WAVE_RUNNING)
            return w;
        if (w->state != WAVE_ENDED)
            blocked = w;
    }
    return blocked;
}

bool spin_deadlock(const struct worker *k, double since)
{
    const struct engine *e = k->engine;
    struct launch *l = e->launch;
    const bool again = l->may_wait && !__atomic_load_n(&l->stored, __ATOMIC_RELAXED);
    const bool others = !again && spin_others_run(e->started);
    if (others && seconds() - since < SPIN_SECONDS) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        return false;
    }
    struct wave *w = waiting_wave(k);
    if (w && w->state == WAVE_RUNNING) {
        l->polls = again;
        const struct snapshot *snapshot = &k->spin->snapshot[w->id];
        wave_fault(w, NULL, FAULT_DEADLOCK, 0,
                   "all waves wait: wave %u goes round a loop of %llu instructions at entry+%lld, "
                   "and %s changes what it reads",
                   w->id, (unsigned long long)snapshot->period,
                   (long long)(snapshot->pc - w->launch->entry_pc),
                   others ? "for a minute nobody" : "no wave that can run");
    } else if (w) {
        wave_fault(w, NULL, FAULT_DEADLOCK, 0, "all waves wait: wave %u is blocked", w->id);
    }
    return true;
}
