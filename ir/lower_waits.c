/* SPDX-License-Identifier: Apache-2.0
 *
 * From "this copy has arrived" to counted waits:
 *
 *     wait {group=0, pending=1}   ->   waitcnt {vm=5, lgkm=-1}
 *
 * vmcnt counts every vector memory op in flight, in order. So the count to wait for is the number
 * of such ops issued after the awaited copy's last one. The path with the fewest such ops decides.
 * The machine's copy atoms name the counter of a copy: vmcnt, or one that counts only copies.
 * Copies of the tensor data mover have a third. A group has only such copies, or none, as verify.c
 * checks:
 *
 *     wait {group=0, pending=1}   ->   wait_tensor {most=1}
 *
 * A branch without copies of the group counts as many ops as the block with fewer of them issues.
 * Too small a count only waits longer; too large a one would be a race.
 */
#include "ir/builder.h"
#include "ir/passes.h"

#include <assert.h>

enum { MAX_PASSES = 4 }; /* times that a path goes through one loop; no pending count needs more */

enum { NO_COUNTER = -1 };

/* Returns the counter (enum tir_counter) of copies to LDS that counts this op, or NO_COUNTER. Loads
 * and stores of registers share the counter of copies only on targets with vmcnt. */
static int counter_of(const struct tir_machine *m, const struct tir_op *op)
{
    switch (op->opcode) {
    case TIR_buffer_to_lds:
    case TIR_global_to_lds: return tir_lane_copy(m, (unsigned)op->imm[1])->counter;
    case TIR_tensor_to_lds: return tir_tensor_copy(m)->counter;
    case TIR_buffer_load:
    case TIR_buffer_store:
    case TIR_global_load:
    case TIR_global_store:
    case TIR_global_store_if: return TIR_COUNTER_VM;
    default: return NO_COUNTER;
    }
}

/* True if `op` copies to LDS in copy group `group`. */
static bool copies(const struct tir_op *op, int64_t group)
{
    return (op->opcode == TIR_buffer_to_lds || op->opcode == TIR_global_to_lds ||
            op->opcode == TIR_tensor_to_lds) &&
           op->imm[0] == group;
}

/* The memory ops that one round of copies of `group` issues: n is their number so far. */
struct round {
    const struct tir_func *f;
    int64_t group;
    unsigned n;
};

/* Adds an op to the count if it copies for the group. Returns true, which ends the walk, at the end
 * of the first phase with such a copy. */
static bool count_copy(void *context, struct tir_block *b, struct tir_ref ref)
{
    struct round *const r = context;
    const struct tir_op *const op = tir_op(r->f, ref);
    (void)b;
    if (op->opcode == TIR_phase && r->n)
        return true;
    r->n += copies(op, r->group);
    return false;
}

/* Returns how many memory ops one round of copies of `group` issues in one phase. */
static unsigned round_size(const struct tir_func *f, int64_t group)
{
    struct round r = {.f = f, .group = group};
    tir_walk(f, f->body, count_copy, &r);
    return r.n;
}

struct search {
    const struct tir_func *f;
    int64_t group;
    int counter; /* enum tir_counter, of the group's copies */
};

/* True if the counter of the group's copies counts this op. */
static bool counts(const struct search *s, const struct tir_op *op)
{
    return counter_of(s->f->machine, op) == s->counter;
}

/* Stops the walk at a copy of the wanted group. */
static bool is_copy(void *context, struct tir_block *b, struct tir_ref ref)
{
    const struct search *const s = context;
    (void)b;
    return copies(tir_op(s->f, ref), s->group);
}

/* Returns the highest count that the group's counter can wait for. */
static unsigned most(const struct search *s) { return s->f->machine->counters[s->counter]; }

/* Returns the lesser of two counts. */
static unsigned min_u(unsigned a, unsigned b) { return a < b ? a : b; }

/* Returns how many counted ops every execution of a block issues at least. Loops add none, since
 * they may have no iteration. */
static unsigned least_issued(const struct search *s, const struct tir_block *b)
{
    const struct tir_func *const f = s->f;
    unsigned n = 0;
    for (unsigned i = 0; i < b->n_ops; i++) {
        const struct tir_op *const op = tir_op(f, b->ops[i]);
        n += counts(s, op);
        if (op->opcode == TIR_if)
            n += min_u(least_issued(s, op->blocks[0]), least_issued(s, op->blocks[1]));
    }
    return n;
}

static unsigned newer_before(const struct search *s, const struct tir_block *b, unsigned index,
                             unsigned skip, unsigned seen, unsigned passes);

/* Continues newer_before() at the start of block b: before the op that contains b and, in a loop,
 * at the end of the previous iteration. Returns the smaller count. */
static unsigned newer_above(const struct search *s, const struct tir_block *b, unsigned skip,
                            unsigned seen, unsigned passes)
{
    if (!b->owner.id || seen >= most(s))
        return min_u(seen, most(s));
    const struct tir_block *outer = b->parent;
    unsigned at = 0;
    while (outer->ops[at].id != b->owner.id)
        at++;
    const unsigned entered = newer_before(s, outer, at, skip, seen, passes);
    if (tir_op(s->f, b->owner)->opcode != TIR_for || !passes)
        return entered;
    return min_u(entered, newer_before(s, b, b->n_ops, skip, seen, passes - 1));
}

/* Continues newer_before() at the end of either block of the if `op`. Returns the smaller count. */
static unsigned newer_in_branches(const struct search *s, const struct tir_op *op, unsigned skip,
                                  unsigned seen, unsigned passes)
{
    const struct tir_block *const yes = op->blocks[0], *const no = op->blocks[1];
    return min_u(newer_before(s, yes, yes->n_ops, skip, seen, passes),
                 newer_before(s, no, no->n_ops, skip, seen, passes));
}

/* Returns the least number of counted ops issued between the awaited copy and op `index` of b, at
 * most most(). `skip` copies of the group are newer than the awaited one. `seen` ops have been
 * counted so far. `passes` limits the loops that a path may still go through. */
static unsigned newer_before(const struct search *s, const struct tir_block *b, unsigned index,
                             unsigned skip, unsigned seen, unsigned passes)
{
    for (unsigned i = index; i-- > 0;) {
        const struct tir_op *op = tir_op(s->f, b->ops[i]);
        if (copies(op, s->group)) {
            if (!skip)
                return min_u(seen, most(s));
            skip--;
        }
        seen += counts(s, op);
        if (op->opcode == TIR_if) {
            if (tir_walk_op(s->f, (struct tir_block *)b, b->ops[i], is_copy, (void *)s))
                return newer_in_branches(s, op, skip, seen, passes);
            seen += min_u(least_issued(s, op->blocks[0]), least_issued(s, op->blocks[1]));
        }
        if (op->opcode == TIR_for && passes) {
            const struct tir_block *body = op->blocks[0];
            const unsigned through = newer_before(s, body, body->n_ops, skip, seen, passes - 1);
            return min_u(through, newer_before(s, b, i, skip, seen, passes - 1));
        }
    }
    return newer_above(s, b, skip, seen, passes);
}

/* Sets the search's counter to the one of the group's first copy, and ends the walk there by
 * returning true. */
static bool take_counter(void *context, struct tir_block *b, struct tir_ref ref)
{
    struct search *const s = context;
    const struct tir_op *const op = tir_op(s->f, ref);
    (void)b;
    if (!copies(op, s->group))
        return false;
    s->counter = counter_of(s->f->machine, op);
    return true;
}

/* Returns the counter of the group's copies; without any, the counter of lanes' copies. */
static int group_counter(const struct tir_func *f, int64_t group)
{
    struct search s = {f, group, tir_lane_copy(f->machine, 0)->counter};
    if (group >= 0)
        tir_walk(f, f->body, take_counter, &s);
    return s.counter;
}

/* Replaces the wait at `index` by one on the machine's counter, with the number of instructions
 * that may be pending. */
static void lower_wait(struct tir_func *f, struct tir_block *b, unsigned index)
{
    struct tir_op *op = tir_op(f, b->ops[index]);
    const struct search s = {f, op->imm[0], group_counter(f, op->imm[0])};
    const bool tensor = s.counter == TIR_COUNTER_TENSOR;
    const int64_t pending = op->imm[1];
    op->opcode = tensor ? TIR_wait_tensor : TIR_waitcnt;
    if (s.group < 0) {
        op->imm[1] = s.group == TIR_LDS_ORDER ? -1 : 0;
        op->imm[0] = -1;
        return;
    }
    const unsigned skip = (unsigned)pending * round_size(f, s.group);
    op->imm[0] = newer_before(&s, b, index, skip, 0, MAX_PASSES);
    op->imm[1] = tensor ? 0 : -1;
}

/* Replaces all waits of block `b`; returns whether there were any. */
static bool lower_block(void *f, struct tir_block *b)
{
    bool progress = false;
    for (unsigned i = 0; i < b->n_ops; i++) {
        if (tir_op(f, b->ops[i])->opcode == TIR_wait) {
            lower_wait(f, b, i);
            progress = true;
        }
    }
    return progress;
}

bool tir_lower_waits(struct tir_func *f, const struct tir_schedule *s)
{
    (void)s;
    return tir_walk_blocks(f, f->body, lower_block, f);
}
