/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets of lines by sampling: a set contains only the 128-byte lines whose hash ends in two zero
 * bits. These are the same lines for all sets.
 */
#include "time_sharing.h"

#include <math.h>
#include <stdlib.h>

#include "time_memory.h"

#define SAMPLED 4 /* one line in SAMPLED is in the set */
#define LINE 128
#define MAX_SLOTS (UINT64_C(1) << 22)

struct time_lines {
    uint64_t *slots; /* line number + 1, with open addressing; 0: empty */
    uint64_t size, used;
    struct tensor_lines tensor;
};

/* Returns a hash of a line number. */
static uint64_t hash(uint64_t line)
{
    uint64_t h = line * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 29;
}

struct time_lines *time_lines_create(void)
{
    struct time_lines *set = calloc(1, sizeof(*set));
    if (!set)
        return NULL;
    set->size = 1024;
    set->slots = calloc(set->size, sizeof(*set->slots));
    if (set->slots)
        return set;
    free(set);
    return NULL;
}

void time_lines_destroy(struct time_lines *set)
{
    if (set) {
        free(set->slots);
        free(set->tensor.line);
    }
    free(set);
}

struct tensor_lines *time_lines_tensor(struct time_lines *set) { return &set->tensor; }

/* True if the set has the line. Sets *at to its slot, or to the slot where it would be. */
static bool find(const struct time_lines *set, uint64_t line, uint64_t *at)
{
    for (*at = hash(line) / SAMPLED % set->size; set->slots[*at]; *at = (*at + 1) % set->size)
        if (set->slots[*at] == line + 1)
            return true;
    return false;
}

/* Doubles the set's capacity. False if that fails. Above 2 GB of lines, further lines are assumed
 * to be similar and dropped. */
static bool grow(struct time_lines *set)
{
    struct time_lines larger = *set;
    larger.size *= 2;
    if (larger.size > MAX_SLOTS)
        return false;
    larger.slots = calloc(larger.size, sizeof(*larger.slots));
    if (!larger.slots)
        return false;
    for (uint64_t i = 0; i < set->size; i++) {
        uint64_t at;
        if (set->slots[i] && !find(&larger, set->slots[i] - 1, &at))
            larger.slots[at] = set->slots[i];
    }
    free(set->slots);
    *set = larger;
    return true;
}

/* Adds a line to the set if it belongs to the sample. Without memory the line is left out. */
static void add(struct time_lines *set, uint64_t line)
{
    uint64_t at;
    if (hash(line) % SAMPLED || find(set, line, &at))
        return;
    if (set->used * 2 >= set->size) {
        if (!grow(set))
            return;
        find(set, line, &at);
    }
    set->slots[at] = line + 1;
    set->used++;
}

/* Adds the lines that an instruction loads from global memory to the set in `ctx`. */
static void observe(void *ctx, const struct wave *w, const struct inst *in,
                    const struct mem_access *access)
{
    struct time_lines *set = ctx;
    struct tensor_lines *const copy = &set->tensor;
    (void)w;
    (void)in;
    const bool loads = access->space == ACCESS_GLOBAL && access->is_load;
    for (unsigned i = 0; loads && i < copy->n; i++)
        add(set, copy->line[i]);
    const bool copied = copy->n > 0;
    copy->n = 0;
    if (!loads || copied)
        return;
    uint64_t lines[2 * WAVE_LANES];
    unsigned n = time_lines(access->bytes, access->lanes, access->addr, lines);
    for (unsigned i = 0; i < n; i++)
        add(set, lines[i]);
}

struct observer time_lines_observer(struct time_lines *set)
{
    return (struct observer){.ctx = set, .inst = observe};
}

double time_lines_bytes(const struct time_lines *set) { return (double)set->used * SAMPLED * LINE; }

void time_lines_merge(struct time_lines *into, const struct time_lines *from)
{
    for (uint64_t i = 0; i < from->size; i++)
        if (from->slots[i])
            add(into, from->slots[i] - 1);
}

double time_lines_growth(double together, double sum, unsigned n)
{
    if (n < 2 || together <= 0)
        return 1;
    return fmax(0, fmin(1, log(n * together / sum) / log(n)));
}

/* Returns an estimate of the bytes of lines that both sets have. */
static double common_bytes(const struct time_lines *a, const struct time_lines *b)
{
    uint64_t at, n = 0;
    for (uint64_t i = 0; i < a->size; i++)
        n += a->slots[i] && find(b, a->slots[i] - 1, &at);
    return (double)n * SAMPLED * LINE;
}

/* Returns the largest fraction of lines, 0 to 1, that two workgroups `distance` apart have in
 * common. */
static double overlap(struct time_lines *const *lines, unsigned n, unsigned distance)
{
    double most = 0;
    for (unsigned i = 0; i + distance < n; i++)
        if (lines[i]->used)
            most = fmax(most,
                        common_bytes(lines[i], lines[i + distance]) / time_lines_bytes(lines[i]));
    return most;
}

bool time_lines_in_groups(struct time_lines *const *lines, unsigned n)
{
    /* fractions of lines; `few` allows for tables that all workgroups read */
    const double shared = 1.0 / 8, few = 1.0 / 32;
    double near = 0, far = 0;
    for (unsigned d = 1; d < n; d++)
        if (2 * d < n)
            near = fmax(near, overlap(lines, n, d));
        else
            far = fmax(far, overlap(lines, n, d));
    return near >= shared && far < few;
}

double time_lines_group(struct time_lines *const *lines, unsigned n)
{
    struct time_lines *const all = time_lines_create();
    double sum = 0;
    if (!all)
        return 1;
    time_lines_merge(all, lines[0]);
    const double first = time_lines_bytes(all);
    for (unsigned i = 1; i < n; i++) {
        sum += time_lines_bytes(lines[i]);
        time_lines_merge(all, lines[i]);
    }
    const double grown = time_lines_bytes(all) - first;
    time_lines_destroy(all);
    return grown > 0 ? fmax(1, sum / grown) : 1;
}
