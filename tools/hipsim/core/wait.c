/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory operations in flight: the wait counters, the arrival of data in registers, and the check
 * that no register is used before its s_waitcnt.
 *
 * A load reads memory at issue. Its registers have the old values until the data arrive some
 * hundred clocks later, or until an s_waitcnt has waited for them. Hand-written kernels rely on
 * both. Correct programs cannot observe the difference, so instruction handlers write the
 * destination at once, and the old values are saved. A load becomes *held* only if an instruction
 * uses its registers before the arrival. The old and new values are then exchanged, and the new
 * ones are written at the clock of arrival.
 *
 * Each wave has a clock that counts the issue costs of its instructions and its waits for data. It
 * is coarse, and does not depend on the timing model.
 */
#include <assert.h>
#include <string.h>

#include "decode.h"
#include "wait.h"

/*
 * Clocks from issue to arrival without contention. LDS: 50 to 70 are measured (gfx942.def,
 * lds_latency). AITER's gfx942 dq_convert kernels store data 56 clocks after they have read them,
 * across a barrier. Its gfx950 MLA kernels read old values 48 clocks after the fifth of six 128-bit
 * reads. Vector memory: a value between L2 and HBM. Scalars: a miss of the scalar cache.
 */
enum { LDS_LATENCY = 50, VECTOR_LATENCY = 500, SCALAR_LATENCY = 200 };

/* Returns the index of a register in the unified file, in which a[i] is v[nvgpr + i]. `kind` is an
 * enum opnd_kind. */
static unsigned row_of(const struct wave *w, unsigned kind, unsigned reg)
{
    return kind == OPND_AGPR ? w->launch->nvgpr + reg : reg;
}

/* True if the operand kind is a vector register. */
static bool is_vector(unsigned kind) { return kind == OPND_VGPR || kind == OPND_AGPR; }

/* True if the operation in flight writes a register of the operand. */
static bool overlaps(const struct wave *w, const struct pending *p, const struct opnd *o)
{
    if (p->kind == OPND_NONE || (p->kind == OPND_SGPR) != (o->kind == OPND_SGPR))
        return false;
    const unsigned first = row_of(w, p->kind, p->first), other = row_of(w, o->kind, o->reg);
    return first < other + o->dwords && other < first + p->count;
}

/* Marks the registers that the operation in flight writes. */
static void mark_busy(struct wave *w, const struct pending *p)
{
    uint64_t *bits = p->kind == OPND_SGPR ? w->busy_s : w->busy;
    w->scc_busy |= p->sets_scc;
    const unsigned first = p->kind == OPND_NONE ? 0 : row_of(w, p->kind, p->first);
    for (unsigned r = first; r < first + p->count; r++)
        bits[r / 64] |= UINT64_C(1) << r % 64;
}

/* True if an operation in flight writes a register of the operand. */
static bool operand_busy(const struct wave *w, const struct opnd *o)
{
    if (!o->dwords || (!is_vector(o->kind) && o->kind != OPND_SGPR))
        return false;
    const uint64_t *bits = o->kind == OPND_SGPR ? w->busy_s : w->busy;
    const unsigned first = row_of(w, o->kind, o->reg), shift = first % 64;
    uint64_t word = bits[first / 64] >> shift;
    if (shift + o->dwords > 64)
        word |= bits[first / 64 + 1] << (64 - shift);
    return word & UINT64_MAX >> (64 - o->dwords);
}

/* The functions from here on delay the delivery of results. */

/* Returns a free slot for kept data. NO_SLOT: none. */
static unsigned free_slot(const struct wave *w)
{
    for (unsigned i = 0; i < KEPT_SLOTS / 64; i++)
        if (~w->kept_used[i])
            return 64 * i + (unsigned)__builtin_ctzll(~w->kept_used[i]);
    return NO_SLOT;
}

void wave_keep(struct wave *w, const struct inst *in)
{
    const struct opnd *d = &in->dst;
    const unsigned slot = free_slot(w);
    w->keeping = (uint8_t)slot;
    if (slot == NO_SLOT)
        return;
    struct kept *k = &w->kept[slot];
    if (d->kind == OPND_SGPR) {
        memcpy(k->s, w->sgpr + d->reg, d->dwords * sizeof(*k->s));
        memcpy(k->s_valid, w->s_valid + d->reg, d->dwords * sizeof(*k->s_valid));
        memcpy(k->s_copied, w->s_copied + d->reg, d->dwords * sizeof(*k->s_copied));
        return;
    }
    const bool agpr = d->kind == OPND_AGPR;
    memcpy(k->row, agpr ? w->a + d->reg : w->v + d->reg, d->dwords * sizeof(*k->row));
    memcpy(k->valid, (agpr ? w->a_valid : w->v_valid) + d->reg, d->dwords * sizeof(*k->valid));
    memcpy(k->copied, (agpr ? w->a_copied : w->v_copied) + d->reg, d->dwords * sizeof(*k->copied));
}

/* Copies the bits `bits` of *from to *to; with `swap`, exchanges them. */
static void put_word(uint32_t *to, uint32_t *from, uint32_t bits, bool swap)
{
    const uint32_t old = *to;
    *to = (old & ~bits) | (*from & bits);
    if (swap)
        *from = (*from & ~bits) | (old & bits);
}

/* Copies the lanes of a mask. `swap`: exchanges them. */
static void put_mask(uint64_t *to, uint64_t *from, uint64_t lanes, bool swap)
{
    const uint64_t old = *to;
    *to = (old & ~lanes) | (*from & lanes);
    if (swap)
        *from = (*from & ~lanes) | (old & lanes);
}

/* Returns a mask of the bits that the load `in` writes in its last register: one half, or all. */
static uint32_t last_bits(const struct wave *w, const struct inst *in)
{
    if (!(in->row->flags & ROW_PARTIAL) || code_isa(w->launch->code)->whole_loads)
        return UINT32_MAX;
    return strstr(in->row->name, "d16_hi") ? 0xffff0000 : 0x0000ffff;
}

/* Writes the saved values of load `p` to its registers; with `swap`, exchanges the two. */
static void put(struct wave *w, const struct pending *p, bool swap)
{
    struct kept *k = &w->kept[p->slot];
    if (p->kind == OPND_SGPR) {
        for (unsigned i = 0; i < p->count; i++) {
            put_word(&w->sgpr[p->first + i], &k->s[i], UINT32_MAX, swap);
            put_word(&w->s_valid[p->first + i], &k->s_valid[i], UINT32_MAX, swap);
            put_mask(&w->s_copied[p->first + i], &k->s_copied[i], UINT64_MAX, swap);
        }
        return;
    }
    const struct opnd d = {.kind = p->kind, .reg = p->first};
    struct reg_rows r = reg_rows(w, &d);
    for (unsigned i = 0; i < p->count; i++) {
        const uint32_t bits = swap || i + 1u < p->count ? UINT32_MAX : last_bits(w, p->in);
        unsigned l;
        FOR_LANES(l, p->lanes)
        put_word(&r.row[i][l], &k->row[i][l], bits, swap);
        put_mask(&r.valid[i], &k->valid[i], p->lanes, swap);
        put_mask(&r.copied[i], &k->copied[i], p->lanes, swap);
        r.part[i] &= ~p->lanes; /* lanes become defined or undefined as a whole */
    }
}

/* Restores the old values of load `p`'s registers and saves the new ones until the arrival. */
static void hold(struct wave *w, struct pending *p)
{
    put(w, p, true);
    p->held = true;
    w->held++;
}

/* Returns the held load that arrives first; NULL if there is none. */
static struct pending *next_held(struct wave *w)
{
    struct pending *next = NULL;
    for (unsigned c = 0; c < WAIT_COUNTERS; c++) {
        for (unsigned i = 0; i < w->npending[c]; i++) {
            struct pending *p = &w->pending[c][i];
            if (p->held && (!next || p->arrival < next->arrival))
                next = p;
        }
    }
    return next;
}

/* Writes the data that have arrived until the wave's clock to their registers. */
static void deliver(struct wave *w)
{
    while (w->held) {
        struct pending *p = next_held(w);
        if (p->arrival > w->clock)
            return;
        put(w, p, false);
        p->held = false;
        w->held--;
    }
}

/* Holds the loads that write registers of `o` and have not arrived, since an instruction uses `o`
 * now. */
static void hold_loads_of(struct wave *w, const struct opnd *o)
{
    for (unsigned c = 0; c < WAIT_COUNTERS; c++) {
        for (unsigned i = 0; i < w->npending[c]; i++) {
            struct pending *p = &w->pending[c][i];
            if (!p->held && p->slot != NO_SLOT && p->arrival > w->clock && overlaps(w, p, o))
                hold(w, p);
        }
    }
}

/* Holds `load` if an earlier load to one of its registers is held. */
static void hold_above(struct wave *w, struct pending *load)
{
    const struct opnd o = {.kind = load->kind, .reg = load->first, .dwords = (uint8_t)load->count};
    for (unsigned c = 0; c < WAIT_COUNTERS; c++) {
        for (unsigned i = 0; i < w->npending[c]; i++) {
            if (w->pending[c][i].held && overlaps(w, &w->pending[c][i], &o)) {
                hold(w, load);
                return;
            }
        }
    }
}

/* The functions from here on keep counters. */

/* Returns the clocks of the transfer of `dwords` dwords per lane. */
static unsigned transfer_clocks(const struct wave *w, const struct inst *in,
                                enum wait_counter counter, unsigned dwords)
{
    if (in->row->flags & ROW_SMEM)
        return 0;
    if (counter != WAIT_LGKM)
        return 4 * dwords; /* vector memory: 64 bytes per clock (l1_bytes_per_clk) */
    return code_isa(w->launch->code)->lds_clocks[dwords];
}

/* Returns the assumed latency of the operation in clocks. */
static unsigned latency_of(const struct inst *in, enum wait_counter counter)
{
    if (in->row->flags & ROW_SMEM || counter == WAIT_KM)
        return SCALAR_LATENCY;
    return counter == WAIT_LGKM ? LDS_LATENCY : VECTOR_LATENCY;
}

/* Returns the clock at which the data arrive. Operations of a counter that are not `unordered`
 * arrive one after the other. */
static uint64_t arrival_of(struct wave *w, const struct inst *in, enum wait_counter counter,
                           unsigned dwords, bool unordered)
{
    const unsigned transfer = transfer_clocks(w, in, counter, dwords);
    uint64_t *last = &w->last_arrival[counter];
    const uint32_t factor = w->launch->latency ? w->launch->latency : 1;
    const uint64_t arrival = w->clock + (uint64_t)latency_of(in, counter) * factor;
    if (unordered)
        return arrival + transfer;
    *last = (arrival > *last ? arrival : *last) + transfer;
    return *last;
}

/* Waits until the counter can count one more operation. */
static void make_room(struct wave *w, enum wait_counter counter)
{
    wave_wait(w, counter, code_isa(w->launch->code)->counter_max[counter] - 1u);
    if (w->npending[counter] == PENDING_MAX)
        wave_wait(w, counter, 0);
}

void wave_make_room(struct wave *w, const struct inst *in)
{
    const struct op_row *row = in->row;
    make_room(w, wave_counter(in, (enum wait_counter)(row->wait - 1)));
    if (row->wait_also)
        make_room(w, wave_counter(in, (enum wait_counter)(row->wait_also - 1)));
}

/* Adds an operation in flight to its counter, and returns it. `unordered`: it may return before
 * earlier ones. */
static struct pending *issue(struct wave *w, const struct inst *in, enum wait_counter count_in,
                             bool unordered, unsigned dwords)
{
    const enum wait_counter counter = wave_counter(in, count_in);
    assert(w->npending[counter] < PENDING_MAX); /* wave_make_room() */
    struct pending *p = &w->pending[counter][w->npending[counter]++];
    *p = (struct pending){
        .kind = OPND_NONE,
        .unordered = unordered,
        .slot = NO_SLOT,
        .number = w->issued[counter]++,
        .in = in,
        .lanes = wave_exec(w),
        .arrival = arrival_of(w, in, counter, dwords, unordered),
    };
    w->outstanding++;
    return p;
}

void wave_issue(struct wave *w, const struct inst *in, enum wait_counter counter,
                enum opnd_kind kind, unsigned first, unsigned count, bool unordered)
{
    struct pending *p = issue(w, in, counter, unordered, count);
    if (kind == OPND_NONE)
        return;
    p->kind = (uint8_t)kind;
    p->first = (uint16_t)first;
    p->count = (uint16_t)count;
    mark_busy(w, p);
    if (w->keeping == NO_SLOT)
        return;
    p->slot = w->keeping;
    w->kept_used[p->slot / 64] |= UINT64_C(1) << p->slot % 64;
    w->keeping = NO_SLOT;
    if (w->held)
        hold_above(w, p);
}

void wave_issue_scc(struct wave *w, const struct inst *in)
{
    struct pending *p = issue(w, in, WAIT_KM, true, 0);
    p->sets_scc = true;
    mark_busy(w, p);
}

uint64_t wave_issue_to_lds(struct wave *w, const struct inst *in, uint32_t first, uint32_t bytes)
{
    struct pending *p = issue(w, in, WAIT_VM, false, bytes / WAVE_LANES / 4);
    p->lds_first = first;
    p->lds_bytes = bytes;
    return p->arrival;
}

/* Returns a mask of the operations that must have returned if at most `left` are in flight. Of
 * ordered operations these are all but the last `left`. Unordered ones have certainly returned only
 * if `left` is 0. */
static uint64_t returned(const struct wave *w, enum wait_counter counter, unsigned left)
{
    const struct pending *queue = w->pending[counter];
    unsigned n = w->npending[counter], ordered = 0;
    uint64_t gone = 0;

    for (unsigned i = 0; i < n; i++)
        ordered += !queue[i].unordered;
    for (unsigned i = 0; i < n; i++) {
        const bool stays = queue[i].unordered ? left > 0 : ordered <= left;
        ordered -= !queue[i].unordered;
        gone |= (uint64_t)!stays << i;
    }
    return gone;
}

/* Removes the operations of the mask `gone` from a counter's queue. */
static void retire(struct wave *w, enum wait_counter counter, uint64_t gone)
{
    struct pending *queue = w->pending[counter];
    unsigned kept = 0;

    for (unsigned i = 0; i < w->npending[counter]; i++) {
        if (!(gone >> i & 1)) {
            queue[kept++] = queue[i];
            continue;
        }
        if (queue[i].slot != NO_SLOT)
            w->kept_used[queue[i].slot / 64] &= ~(UINT64_C(1) << queue[i].slot % 64);
        if (queue[i].lds_bytes)
            lds_waited(w, &queue[i]);
        w->wg->lds_arrivals -= queue[i].arrives;
    }
    w->npending[counter] = (uint8_t)kept;
}

void wave_wait(struct wave *w, enum wait_counter counter, unsigned left)
{
    if (w->npending[counter] <= left)
        return;
    const uint64_t gone = returned(w, counter, left);
    if (!gone)
        return;
    for (uint64_t rest = gone; rest; rest &= rest - 1) {
        const struct pending *p = &w->pending[counter][__builtin_ctzll(rest)];
        if (p->arrival > w->clock)
            w->clock = p->arrival;
    }
    deliver(w);
    retire(w, counter, gone);
    w->outstanding = (uint16_t)(w->outstanding - __builtin_popcountll(gone));
    memset(w->busy, 0, sizeof(w->busy));
    memset(w->busy_s, 0, sizeof(w->busy_s));
    w->scc_busy = false;
    for (unsigned c = 0; c < WAIT_COUNTERS; c++)
        for (unsigned i = 0; i < w->npending[c]; i++)
            mark_busy(w, &w->pending[c][i]);
}

bool wave_outstanding(const struct wave *w, enum wait_counter counter, uint32_t number)
{
    for (unsigned i = 0; i < w->npending[counter]; i++)
        if (w->pending[counter][i].number == number)
            return true;
    return false;
}

unsigned wave_count(const struct wave *w, enum wait_counter counter)
{
    unsigned n = 0;
    for (unsigned i = 0; i < w->npending[counter]; i++)
        n += w->pending[counter][i].arrival > w->clock;
    return n;
}

/* The functions from here on check that a result was waited for. */

/* Returns an operation in flight that writes a register of the operand. NULL: none. */
static const struct pending *find_pending(const struct wave *w, const struct opnd *o)
{
    for (unsigned c = 0; c < WAIT_COUNTERS; c++)
        for (unsigned i = 0; i < w->npending[c]; i++)
            if (overlaps(w, &w->pending[c][i], o))
                return &w->pending[c][i];
    return NULL;
}

/* True if the data of `in` arrive in `o` after the data of all loads in flight to its registers.
 * Loads of one counter return in order (except scalar ones). AITER's gfx950 kernels overwrite, and
 * so discard, loaded data like this. */
static bool returns_after(const struct wave *w, const struct inst *in, const struct opnd *o)
{
    const struct op_row *row = in->row;
    if (!row->wait || row->flags & ROW_SMEM || o != &in->dst)
        return false;
    const unsigned counter = wave_counter(in, (enum wait_counter)(row->wait - 1));
    for (unsigned c = 0; c < WAIT_COUNTERS; c++) {
        for (unsigned i = 0; i < w->npending[c]; i++) {
            const struct pending *p = &w->pending[c][i];
            if (overlaps(w, p, o) && (c != counter || p->unordered))
                return false;
        }
    }
    return true;
}

/* True if the load `in` writes one half of register `o`, and the earlier load that writes the other
 * half returns first. */
static bool kept_half(const struct wave *w, const struct inst *in, const struct opnd *o)
{
    return in->row->flags & ROW_PARTIAL && o->kind == in->dst.kind && o->reg == in->dst.reg &&
           returns_after(w, in, &in->dst);
}

enum { STORED = 1 }; /* index of a store's data among its sources */

/* Returns the mask of the bits that `in` reads of source `o`. A store of 16 or 8 bits reads one
 * half of its data. */
static uint32_t bits_used(const struct inst *in, const struct opnd *o)
{
    static const char *const halves[] = {"_b16", "_b8", "_short", "_byte"};
    const char *name = in->row->name;
    if (!(in->row->flags & ROW_STORE) || in->row->flags & ROW_LOAD || o != &in->src[STORED])
        return UINT32_MAX;
    if (strstr(name, "d16_hi"))
        return 0xffff0000;
    const char *end = strrchr(name, '_');
    for (unsigned i = 0; end && i < sizeof(halves) / sizeof(*halves); i++)
        if (!strcmp(end, halves[i]))
            return 0x0000ffff;
    return UINT32_MAX;
}

/* True if `in` reads one half of register `o`, and the loads in flight write only the other. Such
 * loads and stores access 16 bits (RDNA4 ISA, 11.4). With ECC the loads write whole registers. */
static bool other_half(const struct wave *w, const struct inst *in, const struct opnd *o)
{
    const uint32_t used = bits_used(in, o);
    if (used == UINT32_MAX)
        return false;
    for (unsigned c = 0; c < WAIT_COUNTERS; c++)
        for (unsigned i = 0; i < w->npending[c]; i++)
            if (overlaps(w, &w->pending[c][i], o) &&
                (w->pending[c][i].count > 1 || last_bits(w, w->pending[c][i].in) & used))
                return false;
    return true;
}

/* Lowers *least to the margin of these clocks and this code offset. */
static void note_margin(arrival_margin *least, uint64_t clocks, uint64_t offset)
{
    const arrival_margin margin = clocks << MARGIN_OFFSET_BITS | offset;
    arrival_margin old = __atomic_load_n(least, __ATOMIC_RELAXED);
    while (margin < old && !__atomic_compare_exchange_n(least, &old, margin, true, __ATOMIC_RELAXED,
                                                        __ATOMIC_RELAXED))
        ;
}

void wave_note_margin(struct wave *w, enum margin_of which, uint64_t arrival, uint64_t offset)
{
    struct arrival_margins *m = &w->launch->margins[which];
    if (arrival > w->clock)
        note_margin(&m->before, arrival - w->clock, offset);
    else
        note_margin(&m->after, w->clock - arrival, offset);
}

/* Records the clocks between a use of `o` without a wait and the arrival of its data. */
static void note_margins(struct wave *w, const struct inst *in, const struct opnd *o)
{
    for (unsigned i = 0; i < w->npending[WAIT_LGKM]; i++) {
        const struct pending *p = &w->pending[WAIT_LGKM][i];
        if (!(p->in->row->flags & ROW_SMEM) && overlaps(w, p, o))
            wave_note_margin(w, MARGIN_LDS, p->arrival, in->offset);
    }
    for (unsigned i = 0; i < w->npending[WAIT_VM]; i++)
        if (overlaps(w, &w->pending[WAIT_VM][i], o))
            wave_note_margin(w, MARGIN_VECTOR, w->pending[WAIT_VM][i].arrival, in->offset);
}

static const char register_files[] = {[OPND_VGPR] = 'v', [OPND_AGPR] = 'a', [OPND_SGPR] = 's'};

/* Records that the instruction read the operand before its data arrived. */
static void note_stale(struct wave *w, const struct inst *in, const struct opnd *o)
{
    const struct pending *p = find_pending(w, o);
    w->stale = (struct stale_read){
        .any = true,
        .file = register_files[o->kind],
        .reg = o->reg,
        .read = in->offset,
        .load = p ? p->in->offset : in->offset,
    };
}

enum wait_verdict wave_check_wait(struct wave *w, const struct inst *in)
{
    const struct opnd *written[2] = {&in->dst, &in->dst2};
    const bool checks = w->launch->checks & CHECK_WAIT;
    enum wait_verdict verdict = WAIT_FINE;

    if (w->held)
        deliver(w);
    for (unsigned i = 0; i < 2; i++) {
        if (!operand_busy(w, written[i]))
            continue;
        hold_loads_of(w, written[i]);
        if (returns_after(w, in, written[i]))
            continue;
        note_margins(w, in, written[i]);
        if (!checks)
            continue;
        note_stale(w, in, written[i]);
        if (!wave_finding(w, in, FAULT_WAIT, 0, "%c%u is overwritten while a load is outstanding",
                          register_files[written[i]->kind], written[i]->reg))
            return WAIT_FAULTED;
    }
    for (unsigned i = 0; i < in->nsrc; i++) {
        const struct opnd *o = &in->src[i];
        if (o->kind == OPND_SPECIAL && o->reg == SPECIAL_SCC && !wave_check_scc(w, in))
            return WAIT_FAULTED;
        if (!operand_busy(w, o) || other_half(w, in, o))
            continue;
        hold_loads_of(w, o);
        if (kept_half(w, in, o))
            continue;
        note_margins(w, in, o);
        if (!checks)
            continue;
        note_stale(w, in, o);
        if (!(in->row->flags & (ROW_VMEM | ROW_LDS | ROW_SMEM | ROW_BRANCH)))
            verdict = WAIT_STALE;
        else if (!wave_finding(w, in, FAULT_WAIT, 0, "%c%u is used while a load is outstanding",
                               register_files[o->kind], o->reg))
            return WAIT_FAULTED;
    }
    return verdict;
}

bool wave_check_scc(struct wave *w, const struct inst *in)
{
    return !w->scc_busy || !(w->launch->checks & CHECK_WAIT) ||
           wave_finding(w, in, FAULT_WAIT, 0,
                        "SCC is used while the barrier operation that sets it is outstanding");
}
