/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface between the core and the checks. The core names no check: it calls the functions of
 * all checks in parts.h. For each check it has one pointer per launch and one per workgroup, which
 * only that check reads.
 */
#ifndef HIPSIM_CHECK_H
#define HIPSIM_CHECK_H

#include "access.h"

struct straight;

/* A check: the functions that the core calls. A function may be NULL. */
struct check {
    uint32_t kinds; /* enum check_bits: the check runs in launches that have any of these */

    /** Classifies `in`, which has just been decoded. Called once per instruction, for every
     * launch's checks. */
    void (*decoded)(enum gfx_target target, struct inst *in);

    /**
     * Begins a launch of the workgroups [first, last) and returns the check's state of the launch.
     * *watches is true on entry. A check that has nothing to do sets it to false; no other function
     * is called then. NULL with *watches true means out of memory and refuses the launch.
     */
    void *(*launch_begin)(const struct launch *l, uint64_t first, uint64_t last, bool *watches);
    void (*launch_end)(struct launch *l, void *launch_state);

    /** Creates the state for the workgroups that a host thread runs one after the other.
     * group_begin() is called when each of them starts. NULL without memory. */
    void *(*group_create)(const struct launch *l, void *launch_state);
    void (*group_destroy)(void *state);
    void (*group_begin)(void *state, const struct workgroup *wg);

    /** Called before the wave executes `in`. False if the check has stopped the wave. */
    bool (*fetched)(void *state, struct wave *w, const struct inst *in);
    /** Called for the first `n` instructions of `s`, where fetched() would be called for each.
     * Returns how many of them precede the first one with a finding, which only fetched() reports.
     * NULL: fetched() is called for each instruction. */
    unsigned (*fetched_straight)(void *state, struct wave *w, const struct straight *s, unsigned n);
    /** Called when mem_resolve() has allowed an access of `bytes` bytes per lane, before the bytes
     * change. False if the check has stopped the wave. */
    bool (*accessed)(void *state, struct wave *w, const struct inst *in, const struct lane_mem *m,
                     unsigned bytes, enum mem_direction direction);
    /** Called when the wave executes an instruction that invalidates caches or writes them back. */
    void (*cache)(void *state, struct wave *w, const struct inst *in);
    /** Called after `in` if a check has set w->wg->unsettled while it executed. */
    void (*settle)(void *state, struct wave *w, const struct inst *in);
    /** Called when the workgroup's barrier has opened. */
    void (*barrier)(void *state, struct workgroup *wg);
    /** For reports: sets *offset to the code offset of the load from which undefined sources of
     * `in` come. False if the check has not recorded it. */
    bool (*origin)(void *state, const struct wave *w, const struct inst *in, uint64_t *offset);
    /** grid_arrive() is called when the wave arrives at a grid barrier, grid_pass() when it has
     * passed it. */
    void (*grid_arrive)(void *state, struct wave *w);
    void (*grid_pass)(void *state, struct wave *w);
};

/* The functions from here on are calls from the core, each to all checks that watch the launch. */

/* The states of the checks for a launch; NULL for checks that do not watch it. */
struct check_launch {
    void *state[CHECKS_MAX];
    bool watches[CHECKS_MAX];
};

void checks_decoded(enum gfx_target target, struct inst *in);
/** Calls launch_begin() of all checks for the workgroups [first, last). False without memory;
 * checks_launch_end() must not be called then. */
bool checks_launch_begin(struct check_launch *c, const struct launch *l, uint64_t first,
                         uint64_t last);
void checks_launch_end(struct check_launch *c, struct launch *l);
/** Sets wg->check to the states that group_create() of the checks returns. False without memory;
 * checks_group_destroy() frees the states that were created. */
bool checks_group_create(const struct check_launch *c, struct workgroup *wg);
void checks_group_destroy(struct workgroup *wg);
void checks_group_begin(struct workgroup *wg);
bool checks_accessed(struct wave *w, const struct inst *in, const struct lane_mem *m,
                     unsigned bytes, enum mem_direction direction);
void checks_cache(struct wave *w, const struct inst *in);
void checks_settle(struct wave *w, const struct inst *in);
void checks_barrier(struct workgroup *wg);
/** Sets *offset to the code offset of the load from which undefined sources of `in` come. False if
 * no check has recorded it. */
bool checks_origin(const struct wave *w, const struct inst *in, uint64_t *offset);
void checks_grid_arrive(struct wave *w);
void checks_grid_pass(struct wave *w);

#endif
