/* SPDX-License-Identifier: Apache-2.0 */
#include "worker.h"

#include <stdlib.h>
#include <string.h>

#include "spin.h"

/* Allocates memory aligned to 64 bytes. NULL: no memory. */
static void *allocate(size_t bytes)
{
    void *p = NULL;
    return posix_memalign(&p, 64, bytes ? bytes : 64) == 0 ? p : NULL;
}

struct counters worker_counters(const struct worker *k)
{
    struct counters c = k->counters;
    for (uint32_t f = 0; f <= ROW_KINDS; f++) {
        const uint64_t n = k->kinds[f];
        c.salu += f & ROW_SALU ? n : 0;
        c.valu += f & ROW_VALU ? n : 0;
        c.mfma += f & ROW_MFMA ? n : 0;
        c.vmem += f & ROW_VMEM ? n : 0;
        c.smem += f & ROW_SMEM ? n : 0;
        c.lds += f & ROW_LDS ? n : 0;
        c.branch += f & ROW_BRANCH ? n : 0;
    }
    return c;
}

void worker_free(struct worker *k)
{
    for (uint32_t i = 0; k->waves && i < k->nwaves; i++)
        free(k->waves[i].bits);
    free(k->waves);
    free(k->list);
    free(k->rows);
    free(k->scratch);
    free(k->scratch_valid);
    free(k->kept);
    free(k->late);
    free(k->wg.late);
    free(k->wg.lds);
    free(k->wg.lds_valid);
    spin_free(k->spin);
    checks_group_destroy(&k->wg);
}

/* Allocates the memory of a worker, as worker.h says. The 64 bytes after LDS let a lane kernel read
 * a whole vector at the end of LDS. */
bool worker_init(struct worker *k, struct engine *e)
{
    const struct launch *l = e->launch;
    uint32_t items = l->block[0] * l->block[1] * l->block[2];
    size_t nrows = (size_t)l->nvgpr + l->nagpr;
    size_t scratch = (size_t)l->private_bytes * WAVE_LANES;
    const uint32_t lanes = code_isa(l->code)->lanes;
    *k = (struct worker){.engine = e, .nwaves = (items + lanes - 1) / lanes, .lanes = lanes};
    k->code = code_slots(l->code);
    k->waves = allocate(k->nwaves * sizeof(*k->waves));
    for (uint32_t i = 0; k->waves && i < k->nwaves; i++)
        k->waves[i].bits = NULL;
    k->list = calloc(k->nwaves, sizeof(*k->list));
    k->rows = allocate(k->nwaves * nrows * WAVE_LANES * sizeof(uint32_t));
    k->scratch = allocate(k->nwaves * scratch);
    k->scratch_valid = allocate(k->nwaves * scratch);
    k->kept = allocate(k->nwaves * KEPT_SLOTS * sizeof(*k->kept));
    const size_t late = l->lds_bytes ? k->nwaves * LATE_LOADS : 0;
    k->late = allocate(late * sizeof(*k->late));
    k->wg.late = allocate(late * sizeof(*k->wg.late));
    k->wg.lds = allocate((size_t)l->lds_bytes + 64);
    k->wg.lds_valid = allocate((size_t)l->lds_bytes + 64);
    k->wg.launch = e->launch;
    const bool watched = checks_group_create(&e->checks, &k->wg);
    if (!k->waves || !k->list || !k->rows || !k->scratch || !k->scratch_valid || !k->kept ||
        !k->late || !k->wg.late || !k->wg.lds || !k->wg.lds_valid || !watched) {
        worker_free(k);
        return false;
    }
    for (size_t i = 0; i < late; i++)
        k->wg.late[i] = k->late + i;
    k->wg.waves = k->list;
    k->wg.lds_bytes = l->lds_bytes;
    return true;
}

/*
 * Sets the trap temporaries in which GFX12 has the workgroup's number (CDNA5 ISA, 3.5.3): x in
 * TTMP9, y and z in TTMP7, the wave's number in TTMP8. In a cluster they have the cluster's number,
 * and TTMP6 has the workgroup's position in the cluster and its size (2.3.1).
 */
static void init_ttmps(struct wave *w)
{
    const uint32_t *n = w->launch->cluster, *at = w->wg->in_cluster;
    const uint32_t *id = n[0] ? w->wg->cluster_id : w->wg->id;
    uint32_t place = 0;
    for (unsigned d = 0; n[0] && d < 3; d++)
        place |= at[d] << 4 * d | (n[d] - 1) << (12 + 4 * d);
    if (n[0])
        place |= (n[0] * n[1] * n[2] - 1) << 24;
    const struct {
        unsigned reg;
        uint32_t value;
    } set[] = {
        {SGPR_TTMP0 + 6, place},
        {SGPR_TTMP0 + 7, (id[1] & 0xffff) | id[2] << 16},
        {SGPR_TTMP0 + 8, w->id << 25 | 1u << 30},
        {SGPR_TTMP0 + 9, id[0]},
    };
    for (size_t i = 0; i < sizeof(set) / sizeof(set[0]); i++) {
        w->sgpr[set[i].reg] = set[i].value;
        w->s_valid[set[i].reg] = UINT32_MAX;
    }
}

/* Sets the SGPRs: user SGPRs, then the system SGPRs, in the order of the AMDGPU ABI. */
static void init_sgprs(struct wave *w)
{
    const struct launch *l = w->launch;
    unsigned n = 0;
    for (; n < l->nuser_sgpr; n++) {
        w->sgpr[n] = l->user_sgpr[n];
        w->s_valid[n] = UINT32_MAX;
    }
    for (unsigned d = 0; d < 3; d++) {
        if (!l->sgpr_workgroup_id[d])
            continue;
        w->sgpr[n] = w->wg->id[d];
        w->s_valid[n++] = UINT32_MAX;
    }
    if (l->sgpr_workgroup_info) { /* the term of ordered appends, bits 16:6, is undefined */
        w->sgpr[n] = (uint32_t)(w->id == 0) << 31 | w->wg->nwaves;
        w->s_valid[n++] = ~(0x7ffu << 6);
    }
    if (l->sgpr_private_offset)
        w->s_valid[n++] = UINT32_MAX;
    sgpr_write64(w, SGPR_FLAT_SCRATCH, (uint64_t)(uintptr_t)w->scratch, true);
    sgpr_write64(w, SGPR_EXEC, w->lanes, true);
    if (w->all != UINT64_MAX)
        init_ttmps(w);
}

/* Sets extent[] to the workgroup's work-items by dimension; the last workgroup of a dimension may
 * be partial. */
static void group_extent(const struct workgroup *wg, uint32_t extent[3])
{
    const struct launch *l = wg->launch;
    for (unsigned d = 0; d < 3; d++) {
        uint32_t left = l->grid[d] - wg->id[d] * l->block[d];
        extent[d] = left < l->block[d] ? left : l->block[d];
    }
}

/* Sets v0 of the wave's `lanes` lanes to the work-item's id: x, y and z, of 10 bits each. */
static void init_lanes(struct wave *w, uint32_t lanes)
{
    uint32_t extent[3];
    group_extent(w->wg, extent);
    uint32_t items = extent[0] * extent[1] * extent[2];
    w->lanes = 0;
    for (uint32_t lane = 0; lane < lanes; lane++) {
        uint32_t item = w->id * lanes + lane;
        uint32_t x = item % extent[0], y = item / extent[0] % extent[1];
        uint32_t z = item / extent[0] / extent[1];
        if (item < items)
            w->lanes |= UINT64_C(1) << lane;
        if (w->launch->nvgpr)
            w->v[0][lane] = item < items ? x | y << 10 | z << 20 : 0;
    }
    w->v_valid[0] = UINT64_MAX;
}

/* Sets the wave to its initial state. Masks of VGPRs are cleared for the registers that GFX9 can
 * name and for the `rows` allocated ones. */
static void clear_wave(struct wave *w, size_t rows)
{
    const size_t first = offsetof(struct wave, v_valid), n = rows > 256 ? rows : 256;
    memset(w, 0, first);
    memset(w->v_valid, 0, n * sizeof(*w->v_valid));
    memset(w->v_copied, 0, n * sizeof(*w->v_copied));
    memset(w->v_part, 0, n * sizeof(*w->v_part));
    memset(w->a_valid, 0, sizeof(w->a_valid));
    memset(w->a_copied, 0, sizeof(w->a_copied));
    memset(w->a_part, 0, sizeof(w->a_part));
}

/* Sets the initial registers and state of a wave. */
static void init_wave(struct worker *k, struct wave *w, uint32_t id)
{
    const struct launch *l = k->engine->launch;
    size_t nrows = (size_t)l->nvgpr + l->nagpr;
    size_t scratch = (size_t)l->private_bytes * WAVE_LANES;
    uint32_t (*bits)[WAVE_LANES] = w->bits;
    clear_wave(w, nrows);
    w->bits = bits;
    uint32_t *rows = k->rows + id * nrows * WAVE_LANES;
    memset(rows, 0, nrows * WAVE_LANES * sizeof(uint32_t));
    w->v = (uint32_t (*)[WAVE_LANES])rows;
    w->a = w->v + l->nvgpr;
    w->scratch = k->scratch + id * scratch;
    w->scratch_valid = k->scratch_valid + id * scratch;
    memset(w->scratch_valid, 0, scratch);
    w->wg = &k->wg;
    w->launch = k->engine->launch;
    w->id = id;
    w->kept = k->kept + id * KEPT_SLOTS;
    w->keeping = NO_SLOT;
    w->mode = l->mode;
    w->pc = l->entry_pc + l->entry_skip;
    w->all = k->lanes == WAVE_LANES ? UINT64_MAX : UINT32_MAX;
    init_lanes(w, k->lanes);
    init_sgprs(w);
}

/* Sets the position of workgroup wg->index in the grid of `groups` workgroups by dimension. The
 * workgroups of a cluster have consecutive numbers. */
static void place(struct workgroup *wg, const uint32_t *groups)
{
    const uint32_t *n = wg->launch->cluster;
    uint64_t index = wg->index, inside = 0;
    const uint32_t one[3] = {1, 1, 1};
    if (n[0]) {
        const uint32_t size = n[0] * n[1] * n[2];
        wg->cluster = index / size;
        inside = index % size;
        index = wg->cluster;
    } else {
        n = one;
    }
    for (unsigned d = 0; d < 3; d++) {
        const uint32_t clusters = groups[d] / n[d];
        wg->cluster_id[d] = (uint32_t)(d < 2 ? index % clusters : index);
        wg->in_cluster[d] = (uint32_t)(inside % n[d]);
        wg->id[d] = wg->cluster_id[d] * n[d] + wg->in_cluster[d];
        index /= clusters;
        inside /= n[d];
    }
}

void worker_begin(struct worker *k, uint64_t index)
{
    struct workgroup *wg = &k->wg;
    const uint32_t *groups = k->engine->groups;
    wg->index = index;
    k->random = wg->launch->seed ^ index << 32; /* the same on every host thread */
    place(wg, groups);
    memset(wg->named, 0, sizeof(wg->named));
    wg->at_barrier = 0;
    wg->barriers = wg->opened = 0;
    wg->signal_clock = wg->opened_clock = 0;
    wg->lds_in_flight = wg->lds_arrivals = 0;
    wg->nlate = 0;
    memset(wg->lds, 0, wg->lds_bytes);
    memset(wg->lds_valid, 0, wg->lds_bytes);
    uint32_t extent[3];
    group_extent(wg, extent);
    wg->nwaves = (extent[0] * extent[1] * extent[2] + k->lanes - 1) / k->lanes;
    for (uint32_t i = 0; i < wg->nwaves; i++) {
        k->list[i] = &k->waves[i];
        init_wave(k, &k->waves[i], i);
    }
    checks_group_begin(wg);
}
