/* SPDX-License-Identifier: Apache-2.0
 *
 * This file proves that a plan is safe. Every value is made before it is used. No branch splits the
 * work under matrix instructions. No wave reads a tile in LDS before it is there, or writes over
 * one that is still read. The least depth of each buffer follows.
 *
 * Time counts phases: with P phases, row r of tile t runs at (t + stage) P + phase. Waits and
 * barriers end their phase, as lower_pipeline puts them. A wave of role 1 may be one barrier later
 * than a wave of role 0. So two accesses that must be in order need as many barriers between them
 * as there are roles:
 *
 *      read after write    from the wait for a tile to its reads
 *      write after read    from the end of a tile's reads to the write of tile t + depth
 *
 * A read has ended where a later row waits for LDS, or uses the value that was read.
 *
 * The trap: iterations at both ends lack stages, and so the barriers of their rows. The epilogue
 * and drained iterations have no stages lower than the last tile's. The prologue has none higher
 * than the first tile's; it has a barrier after each group instead, except in iterations that
 * pipeline.bare counts. Iterations with these barriers are not checked.
 */
#include "templates/pipeline/pipeline.h"

#include <stdarg.h>
#include <string.h>

/* MAX_DEPTH: most tiles of a buffer. NEVER: time of an event that does not occur. N_SLOTS: most
 * slots (values in registers) of a table. */
enum { MAX_DEPTH = 8, NEVER = -1, N_SLOTS = 32 };

/* A check of a plan in progress. */
struct check {
    struct pipe_plan *plan;
    unsigned n_phases; /* number of phases of an iteration */
    char *why;         /* reason of a refusal, PIPE_WHY bytes */
};

/* Writes the reason of a refusal to c->why. Returns false. */
__attribute__((format(printf, 2, 3))) static bool refuse(const struct check *c, const char *format,
                                                         ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(c->why, PIPE_WHY, format, args);
    va_end(args);
    return false;
}

/* Returns the name of the phase of row *r, for refusals. */
static const char *phase_name(const struct check *c, const struct pipe_row *r)
{
    return c->plan->of->phases[r->phase].name;
}

/* Returns the index of the group of phase `phase` (index). Phases joined by pipe_phase.open are
 * one group. */
static unsigned group_of(const struct pipeline *p, unsigned phase)
{
    unsigned group = 0;
    for (unsigned i = 0; i < phase; i++)
        group += !p->phases[i].open;
    return group;
}

/* True if row *r is a wait or a barrier, which runs at the end of its phase. */
static bool ends_phase(const struct pipe_row *r) { return r->op->kind != PIPE_STEP; }

/* True if row *a runs before row *b in an iteration, in the order of lower_pipeline. */
static bool runs_before(const struct pipe_row *a, const struct pipe_row *b)
{
    if (a->phase != b->phase)
        return a->phase < b->phase;
    if (ends_phase(a) != ends_phase(b))
        return ends_phase(b);
    if (a->stage != b->stage)
        return a->stage > b->stage;
    return a < b;
}

/* Returns the time, in phases, at which row *r runs for tile 0. */
static int time_of(const struct check *c, const struct pipe_row *r)
{
    return (int)(r->stage * c->n_phases + r->phase);
}

/* Returns the time, in phases, at which `write` writes tile 0 to buffer number `buffer`. A row may
 * write a later tile than its own: pipe_buffer.early tiles later. */
static int write_time(const struct check *c, unsigned buffer, const struct pipe_row *write)
{
    return time_of(c, write) - (int)(c->plan->of->buffers[buffer].early * c->n_phases);
}

/* ---- Limits of the pass ---- */

/* Counts the phases. True if the plan has no more rows, phases and stages than lower_pipeline
 * takes; if not, the reason is in c->why. */
static bool check_limits(struct check *c)
{
    const struct pipe_plan *const plan = c->plan;
    while (plan->of->phases[c->n_phases].name)
        c->n_phases++;
    if (!plan->n_rows || c->n_phases > TIR_MAX_PHASES || plan->stages > TIR_MAX_STAGES)
        return refuse(c,
                      "%s has %u rows, %u phases and %u stages; a loop has 1 to %d phases and "
                      "up to %d stages",
                      plan->of->name, plan->n_rows, c->n_phases, plan->stages, TIR_MAX_PHASES,
                      TIR_MAX_STAGES);
    for (unsigned i = 0; i < plan->n_rows; i++)
        if (plan->row[i].phase >= c->n_phases)
            return refuse(c, "%s is in phase %u of %u", plan->row[i].op->name, plan->row[i].phase,
                          c->n_phases);
    if (plan->of->late && (plan->of->roles > 1 || plan->of->bare != PIPE_ALL))
        return refuse(c, "%s has late barriers beside barriers without a row", plan->of->name);
    return true;
}

/* ---- Values in registers ---- */

/* Returns the last row before row `end` (index) that writes slot `slot` (index); NULL if none
 * does. */
static const struct pipe_row *find_writer(const struct pipe_plan *plan, unsigned end, unsigned slot)
{
    for (unsigned i = end; i-- > 0;)
        if (pipe_writes(&plan->row[i]) >> slot & 1)
            return &plan->row[i];
    return NULL;
}

/* True if row *r uses loop-carried slot `slot` (index) in the stage that writes the slot's next
 * value. A row one stage earlier is also valid in a later phase, since it then works on the next
 * tile. If false, the reason is in c->why. */
static bool check_carried(const struct check *c, const struct pipe_row *r, unsigned slot)
{
    const struct pipe_slot *const s = &c->plan->of->slots[slot];
    const struct pipe_row *const w = find_writer(c->plan, c->plan->n_rows, slot);
    if (!w)
        return refuse(c, "%s in %s reads %s, which no row makes", r->op->name, phase_name(c, r),
                      s->name);
    const bool just_made = w->stage == r->stage + 1 && w->phase < r->phase;
    return w->stage == r->stage || just_made ||
           refuse(c,
                  "%s in stage %u, %s reads %s of the tile before, which %s makes in stage %u, "
                  "%s",
                  r->op->name, r->stage, phase_name(c, r), s->name, w->op->name, w->stage,
                  phase_name(c, w));
}

/* True if row i (index) of the plan reads slot `slot` (index) after a row has written it; if not,
 * the reason is in c->why. */
static bool check_read(const struct check *c, unsigned i, unsigned slot)
{
    const struct pipe_row *const r = &c->plan->row[i];
    const struct pipe_slot *const s = &c->plan->of->slots[slot];
    const struct pipe_row *const w = find_writer(c->plan, i, slot);
    if (!w && s->carried)
        return check_carried(c, r, slot);
    if (!w)
        return refuse(c, "%s in %s reads %s, which no row before it makes", r->op->name,
                      phase_name(c, r), s->name);
    for (unsigned k = 0; k < i; k++) {
        const struct pipe_row *const part = &c->plan->row[k];
        if (part->op == w->op && pipe_writes(part) >> slot & 1 && time_of(c, part) > time_of(c, r))
            return refuse(c, "%s in stage %u, %s reads %s, which %s makes later: in stage %u, %s",
                          r->op->name, r->stage, phase_name(c, r), s->name, part->op->name,
                          part->stage, phase_name(c, part));
    }
    return true;
}

/* True if row *r, which changes loop-carried slot `slot` (index), is in one of the last two stages;
 * if not, the reason is in c->why. Earlier stages also run for tiles past the end, so they may load
 * but not change carried values. */
static bool check_write(const struct check *c, const struct pipe_row *r, unsigned slot)
{
    const struct pipe_slot *const s = &c->plan->of->slots[slot];
    return !s->carried || r->stage + 2u >= c->plan->stages ||
           refuse(c, "%s changes %s in stage %u of %u, which runs for tiles past the end",
                  r->op->name, s->name, r->stage, c->plan->stages);
}

/* True if all rows write and read all slots in a valid order; if not, the reason is in c->why. */
static bool check_values(const struct check *c)
{
    for (unsigned i = 0; i < c->plan->n_rows; i++) {
        const struct pipe_row *const r = &c->plan->row[i];
        const uint32_t reads = pipe_reads(r), writes = pipe_writes(r);
        for (uint32_t rest = reads | writes; rest; rest &= rest - 1) {
            const unsigned slot = (unsigned)__builtin_ctz(rest);
            if (reads >> slot & 1 && !check_read(c, i, slot))
                return false;
            if (writes >> slot & 1 && !check_write(c, r, slot))
                return false;
        }
    }
    return true;
}

/* ---- Matrix phases ---- */

/* True if row *r is in a phase of its kind, and has no branch after matrix instructions of its
 * group; if not, the reason is in c->why. */
static bool check_phase(const struct check *c, const struct pipe_row *r)
{
    const struct pipe_plan *const plan = c->plan;
    const bool matrix = plan->of->phases[r->phase].kind == PIPE_MATRIX;
    if (r->op->flags & PIPE_PRODUCT && !matrix)
        return refuse(c, "%s has matrix instructions and is in memory phase %s", r->op->name,
                      phase_name(c, r));
    if (!matrix || plan->of->phases[r->phase].branches || !(r->op->flags & PIPE_BRANCH))
        return true;
    for (unsigned i = 0; i < plan->n_rows; i++) {
        const struct pipe_row *const before = &plan->row[i];
        const bool together = group_of(plan->of, before->phase) == group_of(plan->of, r->phase);
        if (together && before->op->flags & PIPE_PRODUCT && runs_before(before, r))
            return refuse(c, "%s has a branch and is after matrix instructions of %s", r->op->name,
                          phase_name(c, r));
    }
    return true;
}

/* True if check_phase() is true for every row; if not, the reason is in c->why. */
static bool check_phases(const struct check *c)
{
    for (unsigned i = 0; i < c->plan->n_rows; i++)
        if (!check_phase(c, &c->plan->row[i]))
            return false;
    return true;
}

/* ---- LDS ---- */

/* True if phase `phase` (index) ends with a barrier that runs after its row *r, or with any barrier
 * if `r` is NULL. Only barriers of stages `first` to `last` count. With two roles: true unless the
 * phase is open. */
static bool has_barrier(const struct check *c, unsigned phase, const struct pipe_row *r, int first,
                        int last)
{
    const struct pipe_plan *const plan = c->plan;
    if (plan->of->roles > 1)
        return !plan->of->phases[phase].open;
    for (unsigned i = 0; i < plan->n_rows; i++) {
        const struct pipe_row *const m = &plan->row[i];
        if (m->op->kind == PIPE_BARRIER && m->phase == phase && m->stage >= first &&
            m->stage <= last && (!r || runs_before(r, m)))
            return true;
    }
    return false;
}

/* True unless row *r reads LDS after a wait of the same stage and phase. Waits run at the end of
 * their phase, so the read would run before that wait. If false, the reason is in c->why. */
static bool check_read_order(const struct check *c, const struct pipe_row *r)
{
    for (const struct pipe_row *w = c->plan->row; r->op->lds_reads && w < r; w++)
        if (ends_phase(w) && w->stage == r->stage && w->phase == r->phase)
            return refuse(c, "%s in stage %u, %s is after a wait that ends the phase", r->op->name,
                          r->stage, phase_name(c, r));
    return true;
}

enum {
    MANY = -1,
    EARLIEST = 8 /* number of iterations by which a time may precede the tile's first iteration */
};

/* A tile of the loop, given by the numbers of tiles before and after it. MANY: more tiles than the
 * pipeline has stages. */
struct tile {
    int before, after;
};

/* True if iteration `iteration` (index) of the prologue is one that pipeline.bare counts. Such an
 * iteration has only the barriers of rows, and no rows of stages above its index. */
static bool is_bare(const struct check *c, int iteration)
{
    const int last = c->plan->stages - 1;
    return iteration < last && (c->plan->of->bare == PIPE_ALL || iteration < c->plan->of->bare);
}

/* True if a drained iteration after the loop lacks row *r. `of_last` is the stage that the last
 * tile has in the iteration. */
static bool is_drained(const struct check *c, const struct pipe_row *r, int of_last)
{
    return of_last >= c->plan->stages - 1 - c->plan->of->drain && r->stage < of_last;
}

/* Returns the time, in phases, of the barrier of pipeline.barrier_last. It is before the last
 * tile's last stage. Time counts from the tile that has `after` tiles after it. */
static int barrier_time(const struct check *c, int after)
{
    return (c->plan->stages - 1 + after) * (int)c->n_phases - 1;
}

/* Returns the number of barriers that a wave passes after row *from of tile `tile`, at time
 * `start`, up to time `end` (in phases). */
static int count_barriers(const struct check *c, const struct pipe_row *from, int start, int end,
                          struct tile tile)
{
    const int last = c->plan->stages - 1, phases = (int)c->n_phases;
    int n = 0;
    for (int t = start; t < end; t++) {
        /* The sum is positive even if t (in phases) is below 0. */
        const int phase = (t + EARLIEST * phases) % phases;
        const int own = (t - phase) / phases,
                  iteration = tile.before == MANY ? last : tile.before + own;
        const int of_last = own - tile.after; /* stage at time t of the loop's last tile */
        const bool bare = is_bare(c, iteration);
        const bool drained = !bare && of_last >= last - c->plan->of->drain;
        n += c->plan->of->barrier_last && t == barrier_time(c, tile.after);
        n += has_barrier(c, (unsigned)phase, t == start ? from : NULL, drained ? of_last : 0,
                         bare ? iteration : last);
    }
    return n;
}

/* True if row *r waits for the wave's reads of LDS. */
static bool waits_for_lds(const struct pipe_row *r)
{
    return r->op->kind == PIPE_RELEASE || r->op->kind == PIPE_AWAIT_STORES;
}

/* True if row *r is a wait for copies, or for stores, to a buffer. */
static bool awaits(const struct pipe_row *r)
{
    return r->op->kind == PIPE_AWAIT || r->op->kind == PIPE_AWAIT_STORES;
}

/* The time, in phases, at which a read or a wait has ended (NEVER: it does not end), and the row
 * that ends it. */
struct end {
    int time;
    const struct pipe_row *row;
};

/* Returns the earlier of two ends. An end with time NEVER is later than any other. */
static struct end earlier(struct end a, struct end b)
{
    return a.time != NEVER && (b.time == NEVER || a.time <= b.time) ? a : b;
}

/* Returns the time at which LDS reads of row *read for tile `tile` have ended, and the wait that
 * ends them; NEVER if there is no such wait. Waits for tiles before the first one, and for tiles
 * that drained iterations lack, do not run. */
static struct end find_end(const struct check *c, const struct pipe_row *read, struct tile tile)
{
    const struct pipe_plan *const plan = c->plan;
    struct end end = {NEVER, NULL};
    for (unsigned i = 0; i < plan->n_rows; i++) {
        const struct pipe_row *const r = &plan->row[i];
        if (waits_for_lds(r)) {
            int iteration = read->stage + (r->phase < read->phase ? 1 : 0);
            if (tile.before != MANY && tile.before + iteration < r->stage)
                iteration = r->stage - tile.before;
            if (!is_drained(c, r, iteration - tile.after))
                end = earlier(end, (struct end){iteration * (int)c->n_phases + r->phase, r});
        }
        if (r != read && pipe_reads(r) & pipe_writes(read) && time_of(c, r) >= time_of(c, read))
            end = earlier(end, (struct end){time_of(c, r), r});
    }
    return end;
}

/* Returns the time at which wait *r first runs after tile `tile` was written at time `written`;
 * NEVER: it does not run. Both times count phases. A wait for copies ends the copies of one tile,
 * so the row must run for this tile. A wait for stores ends all earlier stores, so the row may also
 * run for another tile. */
static struct end time_of_wait(const struct check *c, const struct pipe_row *r, int written,
                               struct tile tile)
{
    const int phases = (int)c->n_phases;
    const int time = time_of(c, r) - c->plan->of->buffers[r->part].early_wait * phases;
    int own = written / phases + (r->phase < written % phases);
    if (r->op->kind == PIPE_AWAIT)
        return (struct end){time >= written ? time : NEVER, r};
    if (tile.before != MANY && own + tile.before < r->stage)
        own = r->stage - tile.before;
    return (struct end){is_drained(c, r, own - tile.after) ? NEVER : own * phases + r->phase, r};
}

/* Returns the first wait for tile `tile` in buffer `buffer` (index) after row *write has written
 * it; NEVER if there is no such wait. */
static struct end find_wait(const struct check *c, unsigned buffer, const struct pipe_row *write,
                            struct tile tile)
{
    const struct pipe_plan *const plan = c->plan;
    const bool copies = write->op->flags & PIPE_ASYNC;
    const uint8_t kind = copies ? PIPE_AWAIT : PIPE_AWAIT_STORES;
    const unsigned with = plan->of->buffers[buffer].with, awaited = with ? with - 1 : buffer;
    const int written = write_time(c, buffer, write);
    struct end first = {NEVER, NULL};
    for (unsigned i = 0; i < plan->n_rows; i++) {
        const struct pipe_row *const r = &plan->row[i];
        if (r->op->kind == kind && r->part == awaited)
            first = earlier(first, time_of_wait(c, r, written, tile));
    }
    if (plan->of->barrier_last && !copies && barrier_time(c, tile.after) >= written)
        first = earlier(first, (struct end){barrier_time(c, tile.after), NULL});
    return first;
}

/* Returns the number of barriers that waves need between accesses of buffer `buffer` (index): one
 * for each role, and one more if barriers are late. 0: waves read only what they write
 * themselves. */
static int barriers_of(const struct check *c, unsigned buffer)
{
    const struct pipeline *const p = c->plan->of;
    return p->buffers[buffer].scope == PIPE_WAVE ? 0 : p->roles + p->late;
}

/* True if row *read reads what row *write wrote to buffer `buffer` (index) for tile `tile`: there
 * are a wait and enough barriers between the two rows. If not, the reason is in c->why. */
static bool check_tile(const struct check *c, unsigned buffer, const struct pipe_row *write,
                       const struct pipe_row *read, struct tile tile)
{
    const char *const name = c->plan->of->buffers[buffer].name;
    const struct end a = find_wait(c, buffer, write, tile);
    if (a.time == NEVER)
        return refuse(c, "no row waits for %s after %s in stage %u, %s", name, write->op->name,
                      write->stage, phase_name(c, write));
    const int barriers = count_barriers(c, a.row, a.time, time_of(c, read), tile);
    return (a.time < time_of(c, read) && barriers >= barriers_of(c, buffer)) ||
           refuse(
               c,
               "%s in stage %u, %s reads %s %d barriers after it has arrived in %s: %d are needed",
               read->op->name, read->stage, phase_name(c, read), name, barriers,
               a.row ? phase_name(c, a.row) : "the end", barriers_of(c, buffer));
}

/* True if enough barriers are between each tile's arrival in buffer `buffer` (index) and its reads;
 * if not, the reason is in c->why. The last tile has the fewest barriers. With pipeline.bare, the
 * first tiles can have as few barriers, so each of these tiles is checked. */
static bool check_arrival(const struct check *c, unsigned buffer, const struct pipe_row *write,
                          const struct pipe_row *read)
{
    const int first_tiles = c->plan->of->bare ? c->plan->stages : 0;
    for (int before = MANY; before < first_tiles; before++)
        for (int after = 0; after < (c->plan->of->drain ? c->plan->stages : 1); after++)
            if (!check_tile(c, buffer, write, read, (struct tile){before, after}))
                return false;
    return true;
}

/* True if enough barriers separate row *read of a tile from row *write of the later tile with the
 * same place in buffer `buffer` (index). The buffer has `depth` tiles. The tile has `before` tiles
 * before it; MANY: more than there are stages. */
static bool is_deep_enough(const struct check *c, unsigned buffer, const struct pipe_row *write,
                           const struct pipe_row *read, unsigned depth, int before)
{
    const struct tile tile = {before, (int)depth};
    const struct end end = find_end(c, read, tile);
    const int next = write_time(c, buffer, write) + (int)(depth * c->n_phases);
    return end.time != NEVER && next > end.time &&
           count_barriers(c, end.row, end.time, next, tile) >= barriers_of(c, buffer);
}

/* Returns the smallest safe number of tiles in buffer `buffer` (index), or PIPE_UNSAFE if no number
 * up to MAX_DEPTH is safe. A table with pipeline.bare is also checked for each of the first
 * tiles. */
static uint8_t least_depth(const struct check *c, unsigned buffer, const struct pipe_row *write,
                           const struct pipe_row *read)
{
    const int first_tiles = c->plan->of->bare ? c->plan->stages : 0;
    for (unsigned depth = 1; depth <= MAX_DEPTH; depth++) {
        bool safe = is_deep_enough(c, buffer, write, read, depth, MANY);
        for (int before = 0; safe && before < first_tiles; before++)
            safe = is_deep_enough(c, buffer, write, read, depth, before);
        if (safe)
            return (uint8_t)depth;
    }
    return PIPE_UNSAFE;
}

/* True if row *read can read each tile that row *write wrote to buffer `buffer` (index). With some
 * depth, no tile may be overwritten before it is read. Raises plan->depth[buffer] to the least such
 * depth. If false, the reason is in c->why. */
static bool check_pair(const struct check *c, unsigned buffer, const struct pipe_row *write,
                       const struct pipe_row *read)
{
    const uint8_t least = least_depth(c, buffer, write, read);
    uint8_t *const depth = &c->plan->depth[buffer];
    if (!check_arrival(c, buffer, write, read))
        return false;
    if (least == PIPE_UNSAFE)
        return refuse(c, "no barrier keeps %s in stage %u, %s from what %s still reads",
                      write->op->name, write->stage, phase_name(c, write), read->op->name);
    *depth = least > *depth ? least : *depth;
    return true;
}

/* True if check_pair() is true for all writes and reads of buffer `buffer` (index). The buffer must
 * also have a write, a wait and a read, or none of these. If false, the reason is in c->why. */
static bool check_buffer(const struct check *c, unsigned buffer)
{
    const struct pipe_plan *const plan = c->plan;
    const char *const name = plan->of->buffers[buffer].name;
    bool written = false, read = false, awaited = false;
    for (unsigned i = 0; i < plan->n_rows; i++) {
        const struct pipe_row *const w = &plan->row[i];
        awaited |= awaits(w) && (w->part == buffer || plan->of->buffers[buffer].with);
        read |= w->op->lds_reads >> buffer & 1;
        if (!(w->op->lds_writes >> buffer & 1))
            continue;
        written = true;
        for (unsigned k = 0; k < plan->n_rows; k++)
            if (plan->row[k].op->lds_reads >> buffer & 1 &&
                !check_pair(c, buffer, w, &plan->row[k]))
                return false;
    }
    if (!written && !read && plan->of->buffers[buffer].with)
        return true;
    return (written == read && written == awaited) ||
           refuse(c, "%s is %swritten, %swaited for and %sread", name, written ? "" : "not ",
                  awaited ? "" : "not ", read ? "" : "not ");
}

/* Sets the depth of every buffer. True if all accesses to LDS are in a safe order; if not, the
 * reason is in c->why. */
static bool check_lds(struct check *c)
{
    const struct pipe_plan *const plan = c->plan;
    for (unsigned i = 0; i < plan->n_rows; i++)
        if (!check_read_order(c, &plan->row[i]))
            return false;
    for (unsigned i = 0; plan->of->buffers && plan->of->buffers[i].name; i++)
        if (!check_buffer(c, i))
            return false;
    return true;
}

/* True if the plan is also safe with the rows that the first drained iteration moves from phase
 * drain_from to drain_to. If not, the reason is in c->why. */
static bool check_drain(const struct check *c)
{
    const struct pipeline *const p = c->plan->of;
    struct pipe_plan moved = *c->plan;
    struct check drained = {.plan = &moved, .n_phases = c->n_phases, .why = c->why};
    if (p->drain + 1u >= moved.stages)
        return refuse(c, "%s drains %u of %u stages", p->name, p->drain, moved.stages);
    for (unsigned i = 0; i < moved.n_rows; i++) {
        struct pipe_row *const r = &moved.row[i];
        if (r->stage + 1u + p->drain == moved.stages && r->phase == p->drain_from)
            r->phase = p->drain_to;
    }
    return check_values(&drained) && check_phases(&drained) && check_lds(&drained);
}

bool pipe_check(struct pipe_plan *plan, char why[PIPE_WHY])
{
    struct check c = {.plan = plan, .why = why};
    memset(plan->depth, 0, sizeof(plan->depth));
    return check_limits(&c) && check_values(&c) && check_phases(&c) && check_lds(&c) &&
           (!plan->of->drain || check_drain(&c));
}
