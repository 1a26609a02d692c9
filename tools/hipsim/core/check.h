/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file declares how checks observe the core. The core knows no check by name: it tells those
 * of parts.h what happens, and holds for each a pointer per launch and per workgroup, which only
 * the check reads.
 */
#ifndef HIPSIM_CHECK_H
#define HIPSIM_CHECK_H

#include "access.h"

/* A check. Any function may be NULL. */
struct check {
    uint32_t kinds; /* enum check_bits: it runs in launches that have one of them */

    /** `in` has just been decoded: the place to classify it. Called once, in any launch. */
    void (*decoded)(enum gfx_target target, struct inst *in);

    /**
     * A launch of the workgroups [first, last) begins. The result is the check's state of the
     * launch. *watches is true when called; false says that there is nothing to observe, and then
     * nothing below is called. NULL while *watches: memory is short, and the launch is refused.
     */
    void *(*launch_begin)(const struct launch *l, uint64_t first, uint64_t last, bool *watches);
    void (*launch_end)(struct launch *l, void *launch_state);

    /** State of the workgroups that run one after the other on a host thread; NULL without memory.
     *  group_begin() is called when another one of them starts. */
    void *(*group_create)(const struct launch *l, void *launch_state);
    void (*group_destroy)(void *state);
    void (*group_begin)(void *state, const struct workgroup *wg);

    /** The wave is about to execute `in`. False: it has been stopped. */
    bool (*fetched)(void *state, struct wave *w, const struct inst *in);
    /** mem_resolve() has allowed an access; the bytes are as they were. False: stopped. */
    bool (*accessed)(void *state, struct wave *w, const struct inst *in, const struct lane_mem *m,
                     unsigned bytes, enum mem_direction direction);
    /** `in` has run, and a check has set w->wg->unsettled on the way. */
    void (*settle)(void *state, struct wave *w, const struct inst *in);
    /** The workgroup's barrier has opened. */
    void (*barrier)(void *state, struct workgroup *wg);
    /** For reports: the offset of the load that the undefined sources of `in` come from. */
    bool (*origin)(void *state, const struct wave *w, const struct inst *in, uint64_t *offset);
    /** The wave is at a barrier of the whole grid; it has passed it. */
    void (*grid_arrive)(void *state, struct wave *w);
    void (*grid_pass)(void *state, struct wave *w);
};

/* -- the core's side: each call goes to all checks that watch ---------------------------------- */

/* The checks' states of a launch; NULL for those that do not watch. */
struct check_launch {
    void *state[CHECKS_MAX];
    bool watches[CHECKS_MAX];
};

void checks_decoded(enum gfx_target target, struct inst *in);
/** False without memory; nothing is left to end then. */
bool checks_launch_begin(struct check_launch *c, const struct launch *l, uint64_t first,
                         uint64_t last);
void checks_launch_end(struct check_launch *c, struct launch *l);
/** Fills wg->check. False without memory; checks_group_destroy() frees what there is. */
bool checks_group_create(const struct check_launch *c, struct workgroup *wg);
void checks_group_destroy(struct workgroup *wg);
void checks_group_begin(struct workgroup *wg);
bool checks_fetched(struct wave *w, const struct inst *in);
bool checks_accessed(struct wave *w, const struct inst *in, const struct lane_mem *m,
                     unsigned bytes, enum mem_direction direction);
void checks_settle(struct wave *w, const struct inst *in);
void checks_barrier(struct workgroup *wg);
/** False if no check knows. */
bool checks_origin(const struct wave *w, const struct inst *in, uint64_t *offset);
void checks_grid_arrive(struct wave *w);
void checks_grid_pass(struct wave *w);

#endif
