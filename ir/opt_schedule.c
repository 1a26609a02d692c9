/* SPDX-License-Identifier: Apache-2.0
 *
 * The slot pattern: in a matrix phase, other work is placed between the matrix instructions,
 *
 *     mfma; 7 VALU; mfma; 7 VALU; ...      or      mfma; exp2, exp2; mfma; ...
 *
 * A list scheduler over each straight run of a matrix phase. Matrix instructions keep their order;
 * other ops are ordered by the longest path of dependent work, then by program order. By default
 * work is spread evenly: with W slots of work and M matrix instructions, W k / M slots precede the
 * k-th instruction. So a phase with little work has no gap at its end. `MIXED` alternates ops of
 * several slots with ops of one, as long as they fit under their matrix instruction: consecutive
 * exponentials would exceed some shadows. `FILL` places the machine's shadow_slots of work after
 * each matrix instruction; `even_code` does so too if the even spread does not suffice. A
 * template's schedule chooses the mode that gives the shorter loop (tools/hipsim/docs/timing.md).
 * The results of a phase are anchored at its end, since instruction selection is free to reorder
 * pure values.
 *
 * `one_wave` is for waves that are the only one of their SIMD. Scalar ops, copies to LDS and loads
 * then take issue slots: they are spread too, an equal part before each matrix instruction.
 * Operands of the next phase are read under the last matrix instructions.
 *
 * `result_after` n delays the readers of a matrix instruction's result by n others, and spreads
 * them over the rest: a phase that scales one sum while it computes the next neither waits for the
 * first nor does all of the scaling in one place.
 *
 * `exchange_ahead` n moves exchanges between lanes by way of LDS before other work, and their
 * results' readers n matrix instructions after them.
 *
 * The new value of a loop-carried variable is computed after the old one's last use if possible:
 * the two can then share a register, and the loop needs no copy.
 */
#include "ir/builder.h"
#include "ir/passes.h"

#include <assert.h>
#include <string.h>

/* Default number of matrix instructions between an LDS read and the one that uses its data: at
 * least 128 clocks with instructions of 32 clocks. */
enum { READ_AHEAD = 5 };

/* Issue slots of a copy to LDS, which sets M0, waits one state and loads. */
enum { COPY_SLOTS = 3 };

/* Number of matrix instructions of a phase after which the results of the previous phase are
 * ready. */
enum { ARRIVED = 2 };

/* Dwords that a lane reads for the next phase beside each matrix instruction: 512 bytes of a
   wave. */
enum { LATE_DWORDS = 2 };

struct node {
    struct tir_ref ref;
    unsigned feeds;    /* number of the matrix instruction that needs an LDS read or its address */
    unsigned settles;  /* number of matrix instructions after whose issue the operands are ready */
    unsigned slots;    /* 4-clock issue slots; 0: no instruction of its own */
    unsigned height;   /* slots on the longest dependency chain that begins here */
    unsigned waiting;  /* operands, and uses of the value to replace, that are not placed */
    uint32_t replaces; /* id of the carried value whose register the op may reuse, or 0 */
    bool matrix, placed;
    bool transposes; /* true: transposes LDS data in registers for `feeds` */
    bool hurries;    /* true: a lane exchange through LDS depends on the op */
    bool aside; /* true: a copy to LDS, a load or a scalar op, in a loop with one wave per SIMD */
};

struct run {
    struct tir_func *f;
    const struct tir_machine *machine;
    struct node *nodes;
    unsigned n;
    uint32_t *node_of; /* by value id: 1 + the node that defines it */
    struct tir_ref *out;
    unsigned n_out;
    unsigned read_ahead, read_group, transpose_ahead, late_ahead, exchange_ahead;
    unsigned issued; /* matrix instructions issued so far */
    bool one_wave;   /* as tir_loop_plan.one_wave: a SIMD has one wave */
    bool free_signs; /* true with even_code: negation is an operand modifier and takes no slot */
};

/* True if `op` takes no instruction. */
static bool is_meta(const struct tir_func *f, const struct tir_op *op)
{
    switch (op->opcode) {
    case TIR_extract:
    case TIR_concat:
    case TIR_const_int:
    case TIR_const_float:
    case TIR_undef:
    case TIR_splat:
    case TIR_bitcast: return true;
    default: return op->n_results && tir_typeof(f, op->result).kind == TIR_SCALAR;
    }
}

/* Returns the issue slots of `op`: 0 for ops without an instruction, more for transcendental
 * ones. */
static unsigned slots_of(const struct tir_func *f, const struct tir_op *op)
{
    const struct tir_machine *m = f->machine;
    if (is_meta(f, op))
        return 0;
    switch (op->opcode) {
    case TIR_exp2:
    case TIR_log2:
    case TIR_rcp:
    case TIR_rsq: return m->exp_slots;
    case TIR_lane_swap: return op->imm[1] ? 0 : m->swap_slots; /* one swap has both results */
    case TIR_lane_xor: return m->has_lane_swap ? m->swap_slots : 1;
    case TIR_convert_pair:
        if (m->has_cvt_pk_bf16 || op->imm[1] == TIR_TOWARD_ZERO)
            return 1;
        return op->imm[1] == TIR_TIES_ANY ? 3 : 5;
    default: return 1;
    }
}

/* True if `op` computes a scalar with an instruction. */
static bool is_scalar(const struct tir_func *f, const struct tir_op *op)
{
    return op->n_results && tir_typeof(f, op->result).kind == TIR_SCALAR &&
           op->opcode != TIR_const_int && op->opcode != TIR_const_float &&
           op->opcode != TIR_lds_base;
}

/* True if `op` loads from memory to registers. */
static bool loads(const struct tir_op *op)
{
    return op->opcode == TIR_buffer_load || op->opcode == TIR_global_load;
}

/* True if `op` copies from memory to LDS. */
static bool copies(const struct tir_op *op)
{
    return op->opcode == TIR_buffer_to_lds || op->opcode == TIR_global_to_lds ||
           op->opcode == TIR_tensor_to_lds;
}

/* True if `op` is a matrix instruction. */
static bool is_matrix(const struct tir_op *op)
{
    return op->opcode == TIR_mfma || op->opcode == TIR_mfma_scaled;
}

/* Returns whether `op` reads or writes memory, as flags TIR_READS and TIR_WRITES. */
static unsigned memory_flags(const struct tir_op *op)
{
    return tir_ops[op->opcode].flags & (TIR_READS | TIR_WRITES);
}

/* Adds one to the dependences of node `user` if `v` is computed in the run. */
static void depend(struct run *r, unsigned user, struct tir_value v)
{
    if (r->node_of[v.id])
        r->nodes[user].waiting++;
}

/* Fills the nodes of a run with the ops from `first` on: their issue slots and kinds. */
static void fill_nodes(struct run *r, const struct tir_block *b, unsigned first)
{
    for (unsigned i = 0; i < r->n; i++) {
        const struct tir_op *op = tir_op(r->f, b->ops[first + i]);
        struct node *n = &r->nodes[i];
        *n = (struct node){.ref = b->ops[first + i], .matrix = is_matrix(op)};
        const bool modifier = r->free_signs && op->opcode == TIR_neg;
        n->slots = n->matrix || modifier ? 0 : slots_of(r->f, op);
        n->aside = r->one_wave && (copies(op) || loads(op) || is_scalar(r->f, op));
        if (n->aside)
            n->slots = copies(op) ? COPY_SLOTS : 1;
        for (unsigned k = 0; k < op->n_operands; k++)
            depend(r, i, op->operands[k]);
        for (unsigned k = 0; k < op->n_results; k++)
            r->node_of[op->result.id + k] = i + 1;
    }
    for (unsigned i = r->n; i-- > 0;) {
        const struct tir_op *op = tir_op(r->f, r->nodes[i].ref);
        r->nodes[i].height += r->nodes[i].slots;
        for (unsigned k = 0; k < op->n_operands; k++) {
            const uint32_t def = r->node_of[op->operands[k].id];
            if (def && r->nodes[def - 1].height < r->nodes[i].height)
                r->nodes[def - 1].height = r->nodes[i].height;
        }
    }
}

/* True if value `id` is an operand of `op`. */
static bool uses(const struct tir_op *op, uint32_t id)
{
    for (unsigned i = 0; i < op->n_operands; i++)
        if (op->operands[i].id == id)
            return true;
    return false;
}

/* True if node `later` depends on node `first`, directly or not. */
static bool reaches(const struct run *r, unsigned first, unsigned later)
{
    const struct tir_op *op = tir_op(r->f, r->nodes[later].ref);
    if (first == later)
        return true;
    for (unsigned i = 0; i < op->n_operands; i++) {
        const uint32_t def = r->node_of[op->operands[i].id];
        if (def > first && reaches(r, first, def - 1))
            return true;
    }
    return false;
}

/* Orders other users of each replaced carried value before its replacement. */
static void order_replacements(struct run *r, const struct tir_block *b)
{
    if (!b->owner.id || tir_op(r->f, b->owner)->opcode != TIR_for)
        return;
    const struct tir_op *yield = tir_op(r->f, b->ops[b->n_ops - 1]);
    for (unsigned k = 0; k + 1 < b->n_params; k++) {
        const uint32_t old = b->params[k + 1].id, def = r->node_of[yield->operands[k].id];
        if (!def || r->nodes[def - 1].matrix)
            continue;
        bool possible = true;
        for (unsigned i = 0; i < r->n && possible; i++)
            if (i != def - 1 && uses(tir_op(r->f, r->nodes[i].ref), old))
                possible = !reaches(r, def - 1, i);
        if (!possible)
            continue;
        r->nodes[def - 1].replaces = old;
        for (unsigned i = 0; i < r->n; i++)
            if (i != def - 1 && uses(tir_op(r->f, r->nodes[i].ref), old))
                r->nodes[def - 1].waiting++;
    }
}

/* True if the op exchanges lanes early in a phase with work after it; see
   tir_schedule.exchange_ahead. */
static bool is_far(const struct run *r, const struct tir_op *op)
{
    return r->exchange_ahead && (op->opcode == TIR_lane_gather || op->opcode == TIR_lane_xor);
}

/* Appends node `index` to the schedule and updates the nodes that depend on it. */
static void place(struct run *r, unsigned index)
{
    r->nodes[index].placed = true;
    r->out[r->n_out++] = r->nodes[index].ref;
    const struct tir_op *op = tir_op(r->f, r->nodes[index].ref);
    r->issued += r->nodes[index].matrix;
    for (unsigned i = 0; i < r->n && is_far(r, op); i++)
        if (uses(tir_op(r->f, r->nodes[i].ref), op->result.id))
            r->nodes[i].settles = r->issued + r->exchange_ahead;
    for (unsigned i = 0; i < r->n; i++) {
        const struct tir_op *user = tir_op(r->f, r->nodes[i].ref);
        for (unsigned k = 0; k < user->n_operands; k++)
            if (r->node_of[user->operands[k].id] == index + 1)
                r->nodes[i].waiting--;
        if (i != index && r->nodes[i].replaces && uses(op, r->nodes[i].replaces))
            r->nodes[i].waiting--;
    }
}

/* True if `op` reads LDS to registers. */
static bool reads_lds(const struct tir_op *op)
{
    return op->opcode == TIR_lds_read || op->opcode == TIR_lds_read_tr;
}

/* True if `op` writes LDS, also by a copy from memory. */
static bool writes_lds(const struct tir_op *op)
{
    return copies(op) || op->opcode == TIR_lds_write;
}

/* True if the LDS accesses are independent: no wave reads in a phase what that phase writes, since
   there is no barrier between them. */
static bool are_apart(const struct run *r, const struct tir_op *a, const struct tir_op *b)
{
    if (!r->one_wave)
        return false;
    if (writes_lds(b)) {
        const struct tir_op *const other = a;
        a = b;
        b = other;
    }
    return writes_lds(a) && (reads_lds(b) || (loads(b) && a->opcode == TIR_lds_write));
}

/* True if a memory op may be placed now. Reads may pass reads. A write and any other memory op stay
   in program order. */
static bool may_go(const struct run *r, unsigned index)
{
    if (r->nodes[index].placed || r->nodes[index].waiting)
        return false;
    const struct tir_op *const op = tir_op(r->f, r->nodes[index].ref);
    const unsigned own = memory_flags(op);
    for (unsigned i = 0; own && i < index; i++) {
        const struct tir_op *const before = tir_op(r->f, r->nodes[i].ref);
        const unsigned other = memory_flags(before);
        if (!r->nodes[i].placed && other && (own | other) & TIR_WRITES && !are_apart(r, op, before))
            return false;
    }
    return true;
}

/* Returns the index of the first matrix instruction that is not placed, or -1. */
static int next_matrix(const struct run *r)
{
    for (unsigned i = 0; i < r->n; i++)
        if (r->nodes[i].matrix && !r->nodes[i].placed)
            return (int)i;
    return -1;
}

/* The progress in ordering one run; amounts of work are in issue slots. */
struct progress {
    unsigned work, done;           /* slots of all work; of the work placed so far */
    unsigned long_work, long_done; /* slots of instructions that take several: all, placed */
    /* Slots of nodes with `aside`: all, placed. */
    unsigned aside_work, aside_done;
    unsigned loose, loose_done; /* slots of work other than LDS reads: all, placed */
    unsigned loose_under;       /* part of loose_done after the newest matrix instruction */
    unsigned under, room;       /* placed after the newest matrix instruction; what fits under it */
    /* Matrix instructions of the run, and the ones issued so far. */
    unsigned matrices, issued;
    unsigned left; /* slots that fit under matrix instructions not yet issued */
    bool full;     /* some work must follow the last matrix instruction: as little as possible */
};

/* True if node i should precede node `best`; both may be placed now. */
static bool is_better(const struct run *r, const struct progress *p, bool mixed, unsigned i,
                      unsigned best)
{
    const struct node *const a = &r->nodes[i], *const b = &r->nodes[best];
    if (a->hurries != b->hurries)
        return a->hurries;
    if (a->aside != b->aside)
        return a->aside == (p->aside_done * p->work <= p->done * p->aside_work);
    if (!mixed || !p->issued || (a->slots > 1) == (b->slots > 1))
        return a->height > b->height;
    const unsigned rest = p->room > p->under ? p->room - p->under : 0;
    if ((a->slots <= rest) != (b->slots <= rest))
        return a->slots <= rest;
    const unsigned others = p->work - p->long_work, others_done = p->done - p->long_done;
    const bool long_due = p->long_done * others <= others_done * p->long_work;
    return (a->slots > 1) == long_due;
}

/* True if read i of a group precedes read `other`. Reads for half a group of matrix instructions
 * are in reverse order. So the first of these instructions waits for all of them, and no other
 * waits. */
static bool precedes(const struct run *r, unsigned i, unsigned other)
{
    const unsigned half = r->read_group / 2;
    assert(half);
    const unsigned feeds = r->nodes[i].feeds, than = r->nodes[other].feeds;
    if ((feeds - 1) / half != (than - 1) / half)
        return feeds < than;
    return feeds > than;
}

/* Returns the best op to place other than a matrix instruction, or -1. Reads for distant matrix
 * instructions wait, so that they do not hold registers. With `more`, ops whose operands are not
 * settled wait too. */
static int best_other(const struct run *r, const struct progress *p, bool mixed, bool more)
{
    const unsigned issued = p->issued;
    const bool grouped = r->read_group && issued < p->matrices;
    const unsigned read_from = grouped ? issued - issued % r->read_group : issued;
    int best = -1, read = -1;
    for (unsigned i = 0; i < r->n; i++) {
        if (r->nodes[i].matrix || (more && r->nodes[i].settles > issued) || !may_go(r, i))
            continue;
        if (r->nodes[i].feeds) {
            if (r->nodes[i].feeds >
                (r->nodes[i].transposes ? issued + r->transpose_ahead : read_from + r->read_ahead))
                continue;
            if (!grouped)
                return (int)i;
            if (read < 0 || precedes(r, i, (unsigned)read))
                read = (int)i;
            continue;
        }
        if (!r->nodes[i].slots)
            return (int)i; /* costs no slot and may make others ready */
        if (best < 0 || is_better(r, p, mixed, i, (unsigned)best))
            best = (int)i;
    }
    return read < 0 ? best : read;
}

/* Sets `feeds` of the ops that compute operands of node `from` to its `feeds`, unless they feed an
 * earlier matrix instruction. */
static void pass_feeds(struct run *r, unsigned from)
{
    const struct tir_op *op = tir_op(r->f, r->nodes[from].ref);
    for (unsigned k = 0; k < op->n_operands; k++) {
        const uint32_t def = r->node_of[op->operands[k].id];
        struct node *d = def ? &r->nodes[def - 1] : NULL;
        if (d && !d->matrix && (!d->feeds || d->feeds > r->nodes[from].feeds))
            d->feeds = r->nodes[from].feeds;
    }
}

/* Returns the 32-bit registers of value `v`. */
static unsigned dwords(const struct tir_func *f, struct tir_value v)
{
    const struct tir_type t = tir_typeof(f, v);
    return (t.count * tir_dtype_bits(t.dtype) + 31) / 32;
}

/* Finds the matrix instruction that needs each LDS read and its address computation. */
static void find_feeds(struct run *r)
{
    unsigned number = 0, late = 0;
    for (unsigned i = 0; i < r->n; i++)
        if (r->nodes[i].matrix)
            r->nodes[i].feeds = ++number;
    for (unsigned i = r->n; i-- > 0;)
        if (r->nodes[i].feeds)
            pass_feeds(r, i);
    for (unsigned i = 0; i < r->n; i++) {
        const unsigned opcode = tir_op(r->f, r->nodes[i].ref)->opcode;
        r->nodes[i].transposes = r->transpose_ahead && opcode == TIR_byte_perm && r->nodes[i].feeds;
        if (opcode != TIR_lds_read && opcode != TIR_lds_read_tr && !r->nodes[i].transposes)
            r->nodes[i].feeds = 0;
    }
    /* Reads for the next phase go under the last matrix instructions of this one. */
    for (unsigned i = r->n; r->one_wave && i-- > 0;) {
        const struct tir_op *const op = tir_op(r->f, r->nodes[i].ref);
        if (!reads_lds(op) || r->nodes[i].feeds)
            continue;
        late += dwords(r->f, op->result);
        const unsigned before = late / LATE_DWORDS + r->late_ahead;
        const unsigned last = number + r->read_ahead;
        r->nodes[i].feeds = before < last ? last - before : 1;
    }
    for (unsigned i = r->n; i-- > 0;)
        if (r->nodes[i].feeds)
            pass_feeds(r, i);
}

/* Marks the ops that lane exchanges through LDS depend on. */
static void find_hurries(struct run *r)
{
    for (unsigned i = r->n; i-- > 0;) {
        const struct tir_op *const op = tir_op(r->f, r->nodes[i].ref);
        r->nodes[i].hurries = r->nodes[i].hurries || is_far(r, op);
        for (unsigned k = 0; r->nodes[i].hurries && k < op->n_operands; k++) {
            const uint32_t def = r->node_of[op->operands[k].id];
            if (def && !r->nodes[def - 1].matrix)
                r->nodes[def - 1].hurries = true;
        }
    }
}

/* Finds how many matrix instructions should precede each use of a matrix instruction's result. */
static void find_settled(struct run *r, const struct tir_schedule *s)
{
    unsigned number = 0;
    for (unsigned i = 0; i < r->n && s->result_after; i++) {
        const struct tir_op *const op = tir_op(r->f, r->nodes[i].ref);
        number += r->nodes[i].matrix;
        if (r->nodes[i].matrix)
            r->nodes[i].settles = number + s->result_after;
        for (unsigned k = 0; k < op->n_operands && !r->nodes[i].matrix; k++) {
            const uint32_t def = r->node_of[op->operands[k].id];
            const struct node *const from = def ? &r->nodes[def - 1] : NULL;
            if (from && (from->matrix || is_meta(r->f, tir_op(r->f, from->ref))) &&
                from->settles > r->nodes[i].settles)
                r->nodes[i].settles = from->settles;
        }
    }
}

/* Returns how many matrix instructions the other work, of `work` issue slots, is spread over. Work
 * after the last matrix instruction delays the phase's barrier and so the matrix unit. The last one
 * therefore gets none if the others have room. *full is true if only some of the work has to follow
 * the last one. */
static unsigned covering(const struct run *r, const struct tir_schedule *s, unsigned work,
                         bool *full)
{
    unsigned matrices = 0, room = 0, last = 0;
    for (unsigned i = 0; i < r->n; i++) {
        if (!r->nodes[i].matrix)
            continue;
        matrices++;
        room += last;
        last = r->machine->mma[tir_op(r->f, r->nodes[i].ref)->imm[0]].shadow_slots;
    }
    *full = s->even_code && s->bare_last && work > room;
    return s->bare_last && matrices && work <= room ? matrices - 1 : matrices;
}

/* True if the last matrix instruction has its share of the work that was left when it was issued.
 * Ops that wait for results come after the even spread, and would otherwise all be placed at one
 * point. */
static bool has_share(const struct progress *p)
{
    const unsigned gaps = p->matrices > p->issued ? p->matrices - p->issued + 1 : 1;
    const unsigned share = (p->loose - p->loose_done + p->loose_under + gaps / 2) / gaps;
    return p->issued && p->loose_under && p->loose_under >= share;
}

/* True if the next matrix instruction should be issued before `other`. */
static bool is_due(const struct progress *p, const struct tir_schedule *s, const struct node *other)
{
    const unsigned slots = other->slots;
    if (other->hurries)
        return p->issued < ARRIVED || p->under >= p->room;
    if (s->cover == TIR_COVER_FILL || p->full)
        return !p->issued || p->under >= p->room;
    if (s->cover == TIR_COVER_MIXED && p->issued && p->under + slots > p->room &&
        p->work - p->done <= p->left)
        return true;
    if (s->result_after && has_share(p))
        return true;
    return p->matrices && p->done * p->matrices >= p->work * p->issued;
}

/* Places matrix instruction `index`; its shadow gives room for other instructions. */
static void place_matrix(struct run *r, struct progress *p, unsigned index)
{
    p->room = r->machine->mma[tir_op(r->f, r->nodes[index].ref)->imm[0]].shadow_slots;
    p->under = p->loose_under = 0;
    p->issued++;
    p->left -= p->room < p->left ? p->room : p->left;
    place(r, index);
}

/* Returns the slots of node i that count as work to spread; 0 for LDS reads with reads_apart. */
static unsigned counted(const struct run *r, const struct tir_schedule *s, unsigned i)
{
    return s->reads_apart && r->nodes[i].feeds ? 0 : r->nodes[i].slots;
}

/* Orders a run of ops: spreads the other instructions evenly under the matrix instructions. */
static void schedule_run(struct run *r, const struct tir_schedule *s)
{
    struct progress p = {0};
    for (unsigned i = 0; i < r->n; i++) {
        const unsigned slots = r->nodes[i].slots;
        p.work += counted(r, s, i);
        p.aside_work += r->nodes[i].aside ? slots : 0;
        p.loose += r->nodes[i].feeds ? 0 : slots;
        p.long_work += slots > 1 ? slots : 0;
    }
    p.matrices = covering(r, s, p.work, &p.full);
    for (unsigned i = 0; i < r->n; i++)
        if (r->nodes[i].matrix)
            p.left += r->machine->mma[tir_op(r->f, r->nodes[i].ref)->imm[0]].shadow_slots;
    while (r->n_out < r->n) {
        const int matrix = next_matrix(r);
        const bool ready = matrix >= 0 && may_go(r, (unsigned)matrix);
        const int other = best_other(r, &p, s->cover == TIR_COVER_MIXED, ready);
        const bool free_op = other >= 0 && (!r->nodes[other].slots || r->nodes[other].feeds);
        assert(ready || other >= 0);
        if (other < 0 || (!free_op && ready && is_due(&p, s, &r->nodes[other]))) {
            place_matrix(r, &p, (unsigned)matrix);
            continue;
        }
        const unsigned slots = r->nodes[other].slots, loose = r->nodes[other].feeds ? 0 : slots;
        p.done += counted(r, s, (unsigned)other);
        p.under += slots;
        p.loose_done += loose;
        p.loose_under += loose;
        p.aside_done += r->nodes[other].aside ? slots : 0;
        p.long_done += slots > 1 ? slots : 0;
        place(r, (unsigned)other);
    }
}

struct use {
    const struct tir_func *f;
    uint32_t id;
};

/* Stops the walk at an op that uses the wanted value. */
static bool is_use(void *context, struct tir_block *b, struct tir_ref r)
{
    const struct use *const u = context;
    (void)b;
    return uses(tir_op(u->f, r), u->id);
}

/* True if v is used in the block from op number `from` on, nested blocks included. */
static bool used_in(const struct tir_func *f, struct tir_block *b, unsigned from,
                    struct tir_value v)
{
    struct use u = {f, v.id};
    bool used = false;
    for (unsigned i = from; i < b->n_ops && !used; i++)
        used = tir_walk_op(f, b, b->ops[i], is_use, &u);
    return used;
}

/* True if an empty inline assembly can pin the position of the result of `op`. */
static bool can_anchor(const struct tir_func *f, const struct tir_schedule *s,
                       const struct tir_op *op)
{
    const bool joins = op->opcode == TIR_concat || op->opcode == TIR_bitcast;
    if (op->n_results == 1 && s->holds && is_scalar(f, op))
        return op->opcode != TIR_scalar_load; /* a scalar load needs no wait here */
    if (op->n_results != 1 || (is_meta(f, op) && !(s->holds && joins)))
        return false;
    const struct tir_type t = tir_typeof(f, op->result);
    /* inline assembly takes no operands of bytes */
    return t.kind == TIR_VEC && t.count * tir_dtype_bits(t.dtype) > 8;
}

/* Adds one anchor for all values of the run [first, end) that later code uses. Returns the number
   of ops inserted. */
static unsigned anchor_results(struct tir_func *f, const struct tir_schedule *s,
                               struct tir_block *b, unsigned first, unsigned end)
{
    struct tir_value *live = tir_alloc(f, (end - first + 1) * sizeof(live[0]));
    unsigned n = 0;
    for (unsigned i = first; i < end; i++) {
        const struct tir_op *op = tir_op(f, b->ops[i]);
        const bool arrives = reads_lds(op) || loads(op);
        if (can_anchor(f, s, op) && !(s->loop.one_wave && arrives) &&
            used_in(f, b, end, op->result))
            live[n++] = op->result;
    }
    for (unsigned i = 0; i < n; i++)
        tir_insert(f, b, end + i, tir_create_op(f, TIR_anchor, &live[i], 1, NULL, 0));
    return n;
}

/* Schedules the ops `first` to `end` - 1 of block `b`. Returns the number of ops that were
 * inserted. */
static unsigned schedule(struct tir_func *f, const struct tir_schedule *s, struct tir_block *b,
                         unsigned first, unsigned end)
{
    struct run r = {.f = f, .machine = f->machine, .n = end - first};
    r.free_signs = s->even_code;
    r.one_wave = s->loop.one_wave;
    r.transpose_ahead = s->transpose_ahead;
    r.late_ahead = s->late_ahead;
    r.exchange_ahead = s->exchange_ahead;
    r.read_ahead = s->read_ahead ? s->read_ahead : READ_AHEAD;
    r.read_group = s->read_group;
    if (r.n < 2)
        return 0;
    r.nodes = tir_alloc(f, r.n * sizeof(r.nodes[0]));
    r.out = tir_alloc(f, r.n * sizeof(r.out[0]));
    r.node_of = tir_alloc(f, f->n_values * sizeof(r.node_of[0]));
    fill_nodes(&r, b, first);
    order_replacements(&r, b);
    find_feeds(&r);
    find_settled(&r, s);
    find_hurries(&r);
    if (s->cover) {
        schedule_run(&r, s);
        memcpy(b->ops + first, r.out, r.n * sizeof(r.out[0]));
    }
    return anchor_results(f, s, b, first, end);
}

struct scheduler {
    struct tir_func *f;
    const struct tir_schedule *s;
};

/* Schedules each run of ops of block `b` between fences or nested blocks, if it is in a matrix
 * phase. */
static bool visit(void *context, struct tir_block *b)
{
    const struct scheduler *const x = context;
    struct tir_func *const f = x->f;
    bool matrix = false, progress = false;
    unsigned first = 0;
    for (unsigned i = 0; i <= b->n_ops; i++) {
        const struct tir_op *op = i < b->n_ops ? tir_op(f, b->ops[i]) : NULL;
        const bool stops = !op || op->blocks[0] || tir_ops[op->opcode].flags & TIR_FENCE;
        if (!stops)
            continue;
        if (matrix && i > first) {
            i += schedule(f, x->s, b, first, i);
            op = i < b->n_ops ? tir_op(f, b->ops[i]) : NULL;
            progress = true;
        }
        first = i + 1;
        if (!op)
            break;
        if (op->opcode == TIR_phase)
            matrix = op->imm[0] == 1;
    }
    return progress;
}

bool tir_opt_schedule(struct tir_func *f, const struct tir_schedule *s)
{
    return tir_walk_blocks(f, f->body, visit, &(struct scheduler){f, s});
}
