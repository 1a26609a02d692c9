/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file declares the interface between the core and the checks. The core knows no check by
 * name: it calls the functions of all checks in parts.h. For each check it keeps one pointer per
 * launch and one per workgroup, which only that check reads.
 */
#ifndef HIPSIM_CHECK_H
#define HIPSIM_CHECK_H

#include "access.h"

struct straight;

/* A check. Any function may be NULL. */
struct check {
    uint32_t kinds; /* enum check_bits; the check runs in launches with any of them */

    /** Classifies `in`, which has just been decoded. Called once, whatever the launch checks. */
    void (*decoded)(enum gfx_target target, struct inst *in);

    /**
     * Begins a launch of the workgroups [first, last) and returns the check's state of the launch.
     * *watches is true on entry; set it to false if there is nothing to check, and no function
     * below is called. NULL with *watches true means out of memory and refuses the launch.
     */
    void *(*launch_begin)(const struct launch *l, uint64_t first, uint64_t last, bool *watches);
    void (*launch_end)(struct launch *l, void *launch_state);

    /** Creates the state for the workgroups that a host thread runs one after the other; NULL
     *  without memory. group_begin() is called when the next workgroup starts. */
    void *(*group_create)(const struct launch *l, void *launch_state);
    void (*group_destroy)(void *state);
    void (*group_begin)(void *state, const struct workgroup *wg);

    /** Called before the wave executes `in`. Returns false if the wave was stopped. */
    bool (*fetched)(void *state, struct wave *w, const struct inst *in);
    /** Called in place of fetched() for the first `n` instructions of `s`. Returns the number of
     *  instructions before the first one with a finding, which it does not report; fetched() does.
     *  NULL: fetched() is called for each instruction. */
    unsigned (*fetched_straight)(void *state, struct wave *w, const struct straight *s, unsigned n);
    /** Called when mem_resolve() has allowed an access, before the bytes change. Returns false if
     *  the wave was stopped. */
    bool (*accessed)(void *state, struct wave *w, const struct inst *in, const struct lane_mem *m,
                     unsigned bytes, enum mem_direction direction);
    /** Called when the wave executes an instruction that empties caches or writes them back. */
    void (*cache)(void *state, struct wave *w, const struct inst *in);
    /** Called after `in` if a check has set w->wg->unsettled during its execution. */
    void (*settle)(void *state, struct wave *w, const struct inst *in);
    /** Called when the workgroup's barrier has opened. */
    void (*barrier)(void *state, struct workgroup *wg);
    /** Sets *offset to the code offset of the load that undefined sources of `in` come from; for
     *  reports. Returns false if the check does not know it. */
    bool (*origin)(void *state, const struct wave *w, const struct inst *in, uint64_t *offset);
    /** Called when the wave arrives at a grid barrier, and when it has passed it. */
    void (*grid_arrive)(void *state, struct wave *w);
    void (*grid_pass)(void *state, struct wave *w);
};

/* -- the core's side: each call goes to all checks that watch the launch ---------------------- */

/* The checks' states of a launch; NULL for checks that do not watch it. */
struct check_launch {
    void *state[CHECKS_MAX];
    bool watches[CHECKS_MAX];
};

void checks_decoded(enum gfx_target target, struct inst *in);
/** Calls launch_begin() of all checks. False without memory; checks_launch_end() is then not
 *  needed. */
bool checks_launch_begin(struct check_launch *c, const struct launch *l, uint64_t first,
                         uint64_t last);
void checks_launch_end(struct check_launch *c, struct launch *l);
/** Sets wg->check to the states that group_create() of the checks returns. False without memory;
 * checks_group_destroy() frees what was created. */
bool checks_group_create(const struct check_launch *c, struct workgroup *wg);
void checks_group_destroy(struct workgroup *wg);
void checks_group_begin(struct workgroup *wg);
bool checks_accessed(struct wave *w, const struct inst *in, const struct lane_mem *m,
                     unsigned bytes, enum mem_direction direction);
void checks_cache(struct wave *w, const struct inst *in);
void checks_settle(struct wave *w, const struct inst *in);
void checks_barrier(struct workgroup *wg);
/** Sets *offset to the code offset of the load that undefined sources of `in` come from. False if
 *  no check knows it. */
bool checks_origin(const struct wave *w, const struct inst *in, uint64_t *offset);
void checks_grid_arrive(struct wave *w);
void checks_grid_pass(struct wave *w);

#endif
