/* SPDX-License-Identifier: Apache-2.0 */
#include "time_device.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "decode.h"

#define NEVER UINT64_MAX
#define CLUSTER_MOST 16 /* most workgroups of a cluster */

/* A compute unit of the device. */
struct unit {
    struct time_cu *cu;
    uint64_t next; /* clock at which the unit issues next */
    unsigned xcd;
    uint64_t *started; /* clock at which the workgroup started, by slot */
    /* with clusters: clock from which the slot is free, by slot; NEVER: in use */
    uint64_t *free;
    uint64_t *index; /* index of the workgroup in the grid, by slot */
    unsigned used;   /* with clusters: number of slots in use */
};

/* The compute units of a device and the workgroups that they start. */
struct device {
    const struct time_device_setup *setup;
    const struct time_params *p;
    struct time_shared common, *shared; /* memory levels of the device, and of each L2 */
    unsigned xcds;
    unsigned gang; /* workgroups that start together: those in a cluster; 1: no clusters */
    struct unit *units;
    unsigned nunits;
    unsigned *heap;           /* compute units as a heap; the one that issues next is on top */
    uint64_t *next_workgroup; /* number of the next workgroup, or cluster, to start, by XCD */
    uint64_t *dispatched;     /* clock at which the XCD can start another workgroup, by XCD */
    /* Clocks for which slots are in use, summed; clock at which the last workgroup has ended;
     * clocks of workgroup 0. */
    double busy, end, first;
    struct time_busy *over_time;
};

/* True if unit a has its next step before unit b. */
static bool sooner(const struct device *d, unsigned a, unsigned b)
{
    const struct unit *x = &d->units[a], *y = &d->units[b];
    return x->next != y->next ? x->next < y->next : a < b;
}

/* Moves the unit at heap index i down to its place. */
static void sift(struct device *d, unsigned i)
{
    for (;;) {
        unsigned least = i;
        for (unsigned child = 2 * i + 1; child <= 2 * i + 2 && child < d->nunits; child++)
            if (sooner(d, d->heap[child], d->heap[least]))
                least = child;
        if (least == i)
            return;
        const unsigned unit = d->heap[i];
        d->heap[i] = d->heap[least];
        d->heap[least] = unit;
        i = least;
    }
}

/* Orders the heap by the next step of each unit. */
static void order_all(struct device *d)
{
    for (unsigned i = 0; i < d->nunits; i++) {
        d->heap[i] = i;
        d->units[i].next = time_cu_next(d->units[i].cu);
    }
    for (unsigned i = d->nunits; i-- > 0;)
        sift(d, i);
}

/* Starts the next workgroup of the unit's XCD in slot `slot`, at clock `at` or later. Does nothing
 * if none is left. False after a fault. */
static bool start_next(struct device *d, struct unit *u, unsigned slot, uint64_t at)
{
    const uint64_t index = d->next_workgroup[u->xcd];
    if (index >= d->setup->workgroups)
        return true;
    d->next_workgroup[u->xcd] += d->xcds;
    if (at < d->dispatched[u->xcd])
        at = d->dispatched[u->xcd];
    d->dispatched[u->xcd] = at + (uint64_t)d->p->dispatch_cycles;
    u->started[slot] = at;
    u->index[slot] = index;
    return time_cu_start(u->cu, slot, index, at);
}

/* The functions from here on start clusters. */

/* Returns a free slot of the unit; it must have one. */
static unsigned free_slot_of(const struct unit *u)
{
    unsigned s = 0;
    while (u->free[s] == NEVER)
        s++;
    return s;
}

/* Lists a unit of the XCD, and a free slot of it, for each workgroup of a cluster. Units with the
 * fewest workgroups are first. Each workgroup has a work-group processor of its own (CDNA5 ISA,
 * 2.3). False if too few units have a free slot. */
static bool find_gang(const struct device *d, unsigned xcd, struct unit **unit, unsigned *slot)
{
    unsigned n = 0;
    for (unsigned used = 0; used < d->setup->resident; used++) {
        for (unsigned i = xcd; i < d->nunits && n < d->gang; i += d->xcds) {
            if (d->units[i].used != used)
                continue;
            unit[n] = &d->units[i];
            slot[n++] = free_slot_of(&d->units[i]);
        }
    }
    return n == d->gang;
}

/* Starts the XCD's next clusters as long as enough slots are free. False after a fault. */
static bool start_clusters(struct device *d, unsigned xcd)
{
    struct unit *unit[CLUSTER_MOST];
    unsigned slot[CLUSTER_MOST];
    uint64_t *const next = &d->next_workgroup[xcd];
    for (; *next * d->gang < d->setup->workgroups; *next += d->xcds) {
        if (!find_gang(d, xcd, unit, slot))
            return true;
        uint64_t at = d->dispatched[xcd];
        for (unsigned i = 0; i < d->gang; i++)
            at = unit[i]->free[slot[i]] > at ? unit[i]->free[slot[i]] : at;
        d->dispatched[xcd] = at + d->gang * (uint64_t)d->p->dispatch_cycles;
        for (unsigned i = 0; i < d->gang; i++) {
            unit[i]->free[slot[i]] = NEVER;
            unit[i]->used++;
            unit[i]->started[slot[i]] = at;
            unit[i]->index[slot[i]] = *next * d->gang + i;
            if (!time_cu_start(unit[i]->cu, slot[i], unit[i]->index[slot[i]], at))
                return false;
        }
    }
    return true;
}

/* Marks a slot as free from clock `at` on, and starts the clusters for which there is room. False
 * after a fault. */
static bool free_slot(struct device *d, struct unit *u, unsigned slot, uint64_t at)
{
    u->free[slot] = at;
    u->used--;
    if (!start_clusters(d, u->xcd))
        return false;
    order_all(d);
    return true;
}

/* The functions from here on model a launch. */

/* Ends the workgroup in a slot at clock `at` and starts the slot's next one. False after a fault.
 * `idle`: it stored nothing. */
static bool end_group(struct device *d, struct unit *u, unsigned slot, bool idle, uint64_t at)
{
    const double extra = idle ? d->setup->idle_extra : d->setup->extra;
    const double took = (double)(at - u->started[slot]);
    if (u->index[slot] == 0)
        d->first = took;
    d->busy += took + extra;
    d->end = fmax(d->end, (double)at + extra);
    time_busy_add(d->over_time, u->xcd, (double)u->started[slot], (double)at + extra);
    const uint64_t free = at + (uint64_t)extra;
    return d->gang > 1 ? free_slot(d, u, slot, free) : start_next(d, u, slot, free);
}

/* Executes steps of all units in the order of their clocks. False after a fault. */
static bool run(struct device *d)
{
    order_all(d);
    for (;;) {
        struct unit *u = &d->units[d->heap[0]];
        const uint64_t now = u->next;
        if (now == NEVER)
            return true;
        struct time_step step;
        if (!time_cu_step(u->cu, &step))
            return false;
        if (step.ended < d->setup->resident &&
            !end_group(d, u, step.ended, step.idle, now + (uint64_t)d->p->issue_period))
            return false;
        if (step.resume) {
            for (unsigned i = 0; i < d->nunits; i++)
                if (!time_cu_grid_opened(d->units[i].cu, now, step.resume))
                    return false;
            order_all(d);
            continue;
        }
        if (step.settled) {
            for (unsigned i = 0; i < d->nunits; i++)
                time_cu_recheck(d->units[i].cu);
            order_all(d);
            continue;
        }
        if (d->gang > 1 && step.ended < d->setup->resident)
            continue; /* free_slot() has ordered the units */
        u->next = time_cu_next(u->cu);
        sift(d, 0);
    }
}

/* Adds a compute unit to the device. False without memory. */
static bool add_unit(struct device *d, struct launch *launch, struct time_code *code)
{
    struct unit *u = &d->units[d->nunits];
    u->xcd = d->nunits % d->xcds;
    const struct time_cu_setup setup = {
        .mhz = d->p->max_mhz,
        .warm_code = d->setup->warm_code,
        .sink = d->nunits ? NULL : d->setup->sink,
        .shared = &d->shared[u->xcd * time_l2s(d->p) / d->xcds],
        .with = d->nunits ? d->units[0].cu : NULL,
    };
    u->started = calloc(d->setup->resident, sizeof(*u->started));
    u->index = calloc(d->setup->resident, sizeof(*u->index));
    u->free = calloc(d->setup->resident, sizeof(*u->free));
    d->nunits++;
    if (!u->started || !u->index || !u->free)
        return false;
    u->cu = time_cu_create(launch, code, &setup, d->setup->resident);
    return u->cu != NULL;
}

/* Returns the number of compute units that have workgroups. A cluster's workgroups are on one
 * XCD. */
static unsigned count_units(const struct device *d)
{
    const uint64_t cus = (uint64_t)d->p->cus, groups = d->setup->workgroups;
    if (d->gang == 1)
        return (unsigned)(groups < cus ? groups : cus);
    const uint64_t clusters = groups / d->gang;
    const uint64_t each = (clusters + d->xcds - 1) / d->xcds * d->gang;
    return (unsigned)(each * d->xcds < cus ? each * d->xcds : cus);
}

/* Starts as many workgroups as there are slots, evenly over the compute units of each XCD. False
 * after a fault. */
static bool start_all(struct device *d)
{
    for (unsigned x = 0; d->gang > 1 && x < d->xcds; x++)
        if (!start_clusters(d, x))
            return false;
    for (unsigned slot = 0; d->gang == 1 && slot < d->setup->resident; slot++)
        for (unsigned i = 0; i < d->nunits; i++)
            if (!start_next(d, &d->units[i], slot, 0))
                return false;
    return true;
}

/* Creates the compute units of the device. False without memory. */
static bool build(struct device *d, struct launch *launch, struct time_code *code)
{
    const uint32_t *const n = launch->cluster;
    d->gang = n[0] ? n[0] * n[1] * n[2] : 1;
    d->xcds = (unsigned)d->p->xcds;
    const unsigned units = count_units(d);
    d->shared = calloc(d->xcds, sizeof(*d->shared));
    d->next_workgroup = calloc(d->xcds, sizeof(*d->next_workgroup));
    d->dispatched = calloc(d->xcds, sizeof(*d->dispatched));
    d->units = calloc(units, sizeof(*d->units));
    d->heap = calloc(units, sizeof(*d->heap));
    if (!d->shared || !d->next_workgroup || !d->dispatched || !d->units || !d->heap ||
        !time_shared_init(&d->common, d->p, d->p->max_mhz, false))
        return false;
    for (unsigned x = 0; x < d->xcds; x++) {
        d->shared[x] = d->common;
        d->next_workgroup[x] = x;
        if (x >= time_l2s(d->p))
            continue;
        if (!time_shared_init(&d->shared[x], d->p, d->p->max_mhz, true))
            return false;
    }
    while (d->nunits < units)
        if (!add_unit(d, launch, code))
            return false;
    return start_all(d);
}

/* Frees the compute units and their shared state. */
static void release(struct device *d)
{
    for (unsigned i = d->nunits; i-- > 0;) {
        time_cu_destroy(d->units[i].cu);
        free(d->units[i].started);
        free(d->units[i].index);
        free(d->units[i].free);
    }
    for (unsigned x = 0; d->shared && x < time_l2s(d->p); x++)
        time_shared_free(&d->shared[x], true);
    time_shared_free(&d->common, false);
    free(d->shared);
    free(d->next_workgroup);
    free(d->dispatched);
    free(d->units);
    free(d->heap);
}

bool time_device_run(struct launch *launch, struct time_code *code,
                     const struct time_device_setup *setup, struct time_device_result *result)
{
    struct device d = {.setup = setup, .p = code->p, .over_time = &result->over_time};
    const struct observer *observer = launch->observer;
    *result = (struct time_device_result){0};
    time_begin(launch);
    bool ok = build(&d, launch, code) && run(&d);
    launch->counters = (struct counters){0};
    for (unsigned i = 0; i < d.nunits && d.units[i].cu; i++) {
        struct time_cu_result one;
        ok = time_cu_finish(d.units[i].cu, ok, &one);
        time_cu_result_add(&result->sum, &one);
        /* The extra clocks of a workgroup are before its stores. */
        d.end = fmax(d.end, (double)one.clocks + (one.drain ? setup->extra : 0));
    }
    const double slots = d.p->cus * setup->resident;
    result->clocks = d.end;
    result->busy = d.end > 0 ? d.busy / slots / d.end : 0;
    result->first = d.first;
    release(&d);
    time_end(launch, observer, ok);
    return ok;
}

/* The functions from here on find whether workgroups communicate. */

/* True if the instruction may observe another workgroup. It is a load of device scope (a scalar
 * load with glc), or an atomic that returns the old value. */
static bool is_communication(const struct inst *in)
{
    if (in->row && in->row->flags & ROW_SMEM && in->row->flags & ROW_LOAD)
        return in->sc0;
    if (!in->row || !(in->row->flags & ROW_VMEM) || in->lds)
        return false;
    const bool returns = in->dst.kind != OPND_NONE;
    return returns && (in->sc1 || strstr(in->row->name, "atomic"));
}

/* Marks the code that can be reached from offset `entry`. False if a branch through a register
 * makes that unknown. */
static bool reach(struct code *code, uint64_t entry, uint8_t *reached, uint64_t *stack)
{
    uint64_t depth = 0;
    stack[depth++] = entry;
    while (depth) {
        for (uint64_t at = stack[--depth];;) {
            const struct inst *in = code_inst(code, at);
            if (!in || !in->row || reached[at / 4])
                break;
            reached[at / 4] = 1;
            const char *name = in->row->name;
            if (in->row->flags & ROW_BRANCH && !time_is_jump(in))
                return false;
            if (time_is_jump(in) && in->target < code_size(code) && !reached[in->target / 4])
                stack[depth++] = in->target;
            if (strcmp(name, "s_branch") == 0 || strncmp(name, "s_endpgm", 8) == 0)
                break;
            at += in->size;
        }
    }
    return true;
}

/* Marks all instructions of the range, since branches through registers may reach any. */
static void reach_all(struct code *code, uint8_t *reached)
{
    const uint64_t n = code_size(code) / 4;
    for (uint64_t i = 0; i < n;) {
        const struct inst *in = code_inst(code, i * 4);
        reached[i] = in && in->row;
        i += in && in->row ? in->size / 4 : 1;
    }
}

bool time_code_communicates(struct code *code, uint64_t entry)
{
    const uint64_t n = code_size(code) / 4 + 1;
    uint8_t *reached = calloc(n, 1);
    uint64_t *stack = calloc(n, sizeof(*stack)), *before = calloc(n + 1, sizeof(*before));
    bool found = false;
    if (reached && stack && before) {
        if (!reach(code, entry, reached, stack))
            reach_all(code, reached);
        for (uint64_t i = 0; i < n; i++) /* number of communicating instructions before each
                                            offset */
            before[i + 1] = before[i] + (reached[i] && is_communication(code_inst(code, i * 4)));
        for (uint64_t i = 0; i < n && !found; i++) {
            const struct inst *in = reached[i] ? code_inst(code, i * 4) : NULL;
            found = in && time_is_jump(in) && in->target <= in->offset &&
                    before[i] > before[in->target / 4];
        }
    }
    free(reached);
    free(stack);
    free(before);
    return found;
}
