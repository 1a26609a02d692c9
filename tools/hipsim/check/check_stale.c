/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stale check: a scalar load of bytes that have changed since the workgroup's earlier scalar
 * load of them.
 *
 * The scalar cache holds the lines that it has loaded. Vector stores, atomics and other workgroups
 * change memory but not this cache, until s_dcache_inv invalidates it (CDNA3 ISA, "Scalar Memory
 * Operations": the cache is not coherent with vector memory). The check has a copy of the bytes
 * that scalar loads of the workgroup have returned, and compares it with memory at the next load.
 * Only a value that has changed is a finding. The hardware's cache may have dropped the line
 * meanwhile; the program cannot rely on that.
 */
#include "check_stale.h"

#include <stdlib.h>
#include <string.h>

#include "decode.h"

#define LINE 64u    /* bytes of a line of the scalar cache */
#define LINES 1024u /* recorded lines, by address: four times the 16 KB of the cache */

/* Bytes of a cache line that scalar loads of the workgroup have returned. */
struct line {
    uint64_t address; /* address of the line */
    uint64_t loaded;  /* bytes of `copy` that are set, a bit each */
    uint64_t at;      /* code offset of the last load */
    uint32_t epoch;   /* epoch of the entry, which is empty in every other epoch */
    uint8_t copy[LINE];
};

struct stale {
    uint32_t epoch; /* number of invalidations of the cache, plus 1 */
    struct line lines[LINES];
};

/* Allocates the state of the check for one worker. NULL: no memory. */
static void *create(const struct launch *l, void *launch_state)
{
    (void)l;
    (void)launch_state;
    return calloc(1, sizeof(struct stale));
}

/* Makes all entries empty. */
static void empty(struct stale *s)
{
    if (++s->epoch)
        return;
    memset(s, 0, sizeof(*s));
    s->epoch = 1;
}

/* Empties the modelled scalar cache when a workgroup begins. */
static void begin(void *state, const struct workgroup *wg)
{
    (void)wg;
    empty(state);
}

/* Empties the modelled scalar cache at s_dcache_inv. */
static void cache(void *state, struct wave *w, const struct inst *in)
{
    (void)w;
    if (strncmp(in->row->name, "s_dcache_inv", strlen("s_dcache_inv")) == 0)
        empty(state);
}

/* Returns the entry of the line at `address`. Empties it first if it has another line. */
static struct line *line_of(struct stale *s, uint64_t address)
{
    struct line *line = &s->lines[address / LINE % LINES];
    if (line->epoch != s->epoch || line->address != address) {
        line->epoch = s->epoch;
        line->address = address;
        line->loaded = 0;
    }
    return line;
}

/* Compares `bytes` bytes of memory at `p` with the line's copy from byte `at` on, and updates the
 * copy. Returns the number of bytes that have changed since the workgroup's last scalar load of
 * them. */
static unsigned refresh(struct line *line, unsigned at, const uint8_t *p, unsigned bytes)
{
    unsigned changed = 0;
    for (unsigned i = 0; i < bytes; i++) {
        const uint64_t bit = UINT64_C(1) << (at + i);
        changed += (line->loaded & bit) && line->copy[at + i] != p[i];
        line->copy[at + i] = p[i];
        line->loaded |= bit;
    }
    return changed;
}

/* True for loads that the scalar cache may serve. A load with glc bypasses it. */
static bool is_cached(const struct inst *in, const struct lane_mem *m, enum mem_direction direction)
{
    return in->row->flags & ROW_SMEM && direction == MEM_READ && m->space == MEM_GLOBAL && !in->sc0;
}

/* Reports a scalar load that gets old data from the scalar cache. False after a fault. */
static bool accessed(void *state, struct wave *w, const struct inst *in, const struct lane_mem *m,
                     unsigned bytes, enum mem_direction direction)
{
    const uint64_t entry = w->launch->entry_pc - code_address(w->launch->code);
    unsigned changed = 0;
    uint64_t since = 0;
    if (!m->lanes || !is_cached(in, m, direction))
        return true;
    for (unsigned done = 0; done < bytes;) {
        const uint64_t address = m->addr[0] + done;
        const unsigned at = (unsigned)(address % LINE);
        const unsigned n = bytes - done < LINE - at ? bytes - done : LINE - at;
        struct line *line = line_of(state, address - at);
        const unsigned differ = refresh(line, at, m->ptr[0] + done, n);
        since = differ ? line->at : since;
        changed += differ;
        line->at = in->offset;
        done += n;
    }
    return !changed ||
           wave_finding(w, in, FAULT_STALE, 0,
                        "%u of the %u bytes at 0x%llx have changed since the workgroup loaded them "
                        "at entry%+lld; without s_dcache_inv the scalar cache may return the old "
                        "ones",
                        changed, bytes, (unsigned long long)m->addr[0], (long long)(since - entry));
}

const struct check check_stale = {
    .kinds = CHECK_STALE,
    .group_create = create,
    .group_destroy = free,
    .group_begin = begin,
    .accessed = accessed,
    .cache = cache,
};
