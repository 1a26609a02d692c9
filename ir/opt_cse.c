/* SPDX-License-Identifier: Apache-2.0
 *
 * Merges pure ops that compute the same: value numbering over the tree of blocks, where an op is
 * known in its block and in the blocks inside it.
 *
 *   %1 = add %a, %b ... %2 = add %b, %a     ->   %2 becomes %1
 *
 * Ops of different pipeline stages or phases of one loop body stay apart: a value that crosses
 * stages is carried from iteration to iteration, which costs registers and may cost moves.
 *
 * Leaves dead ops.
 */
#include <stdlib.h>
#include <string.h>

#include "ir/arena.h"
#include "ir/arith.h"
#include "ir/passes.h"

struct numbering {
    struct tir_func *f;
    struct tir_value *replaced; /* by value id: the value's replacement; 0: itself */
    uint32_t *buckets;          /* hash -> op id, 0: none */
    uint32_t *next;             /* by op id: the previous op with the same hash */
    struct tir_block **homes;   /* by op id: the block that contains the op */
    /* Number of buckets - 1; the number of buckets is a power of two. */
    uint32_t mask;
    bool progress;
};

/* Returns hash `h` with the word `v` mixed in. */
static uint32_t mix(uint32_t h, uint64_t v)
{
    h = (h ^ (uint32_t)v) * 0x9e3779b1u;
    h = (h ^ (uint32_t)(v >> 32) ^ h >> 15) * 0x85ebca6bu;
    return h ^ h >> 13;
}

/* Returns the hash of an op's opcode, attributes and operands; commuting operands may have any
 * order. */
static uint32_t hash(const struct numbering *n, const struct tir_op *op)
{
    uint32_t h = mix(op->opcode, op->n_operands), sum = 0;
    for (int i = 0; i < TIR_MAX_IMM; i++)
        h = mix(h, (uint64_t)op->imm[i]);
    for (uint32_t i = 0; i < op->n_operands; i++) {
        if (tir_commutes(op->opcode))
            sum += mix(0, op->operands[i].id);
        else
            h = mix(h, op->operands[i].id);
    }
    return mix(h, sum) & n->mask;
}

/* True if both ops have the same operands, in either order for commuting ops. */
static bool same_operands(const struct tir_op *a, const struct tir_op *b)
{
    if (a->n_operands != b->n_operands)
        return false;
    if (tir_commutes(a->opcode) && a->operands[0].id == b->operands[1].id &&
        a->operands[1].id == b->operands[0].id)
        return true;
    for (uint32_t i = 0; i < a->n_operands; i++)
        if (a->operands[i].id != b->operands[i].id)
            return false;
    return true;
}

/* True if the ops compute the same value; ops of one block also need the same stage and phase. */
static bool same(const struct numbering *n, struct tir_ref ra, struct tir_ref rb)
{
    const struct tir_op *const a = tir_op(n->f, ra), *const b = tir_op(n->f, rb);
    if (a->opcode != b->opcode || memcmp(a->imm, b->imm, sizeof(a->imm)) || !same_operands(a, b) ||
        !tir_type_equal(tir_typeof(n->f, a->result), tir_typeof(n->f, b->result)))
        return false;
    return n->homes[ra.id] != n->homes[rb.id] || (a->stage == b->stage && a->phase == b->phase);
}

/* Returns the op that r repeats. Otherwise enters r as the newest op of its hash and returns 0. */
static struct tir_ref find_or_enter(struct numbering *n, struct tir_ref r)
{
    uint32_t *const bucket = &n->buckets[hash(n, tir_op(n->f, r))];
    for (uint32_t id = *bucket; id; id = n->next[id])
        if (same(n, (struct tir_ref){id}, r))
            return (struct tir_ref){id};
    n->next[r.id] = *bucket;
    *bucket = r.id;
    return (struct tir_ref){0};
}

/* Replaces operands that were found to repeat an earlier value. */
static void rename_operands(const struct numbering *n, struct tir_op *op)
{
    for (uint32_t i = 0; i < op->n_operands; i++)
        if (n->replaced[op->operands[i].id].id)
            op->operands[i] = n->replaced[op->operands[i].id];
}

/* True if `op` is pure, has one result and no blocks. */
static bool is_candidate(const struct tir_op *op)
{
    return tir_ops[op->opcode].flags == TIR_PURE && op->n_results == 1 && !op->blocks[0];
}

/* Removes ops of block `b` that repeat a visible earlier one, and visits the nested blocks. */
static void number_block(struct numbering *n, struct tir_block *b)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < b->n_ops; i++) {
        const struct tir_ref r = b->ops[i];
        struct tir_op *const op = tir_op(n->f, r);
        rename_operands(n, op);
        n->homes[r.id] = b;
        const struct tir_ref earlier = is_candidate(op) ? find_or_enter(n, r) : (struct tir_ref){0};
        if (earlier.id) {
            n->replaced[op->result.id] = tir_op(n->f, earlier)->result;
            n->progress = true;
            continue;
        }
        b->ops[kept++] = r;
        for (int k = 0; k < 2; k++)
            if (op->blocks[k])
                number_block(n, op->blocks[k]);
    }
    b->n_ops = kept;
    /* Removes this block's entries, which are unknown outside it. The newest ones are at the heads
     * of their chains. */
    for (uint32_t i = kept; i-- > 0;) {
        const struct tir_op *const op = tir_op(n->f, b->ops[i]);
        if (is_candidate(op))
            n->buckets[hash(n, op)] = n->next[b->ops[i].id];
    }
}

bool tir_opt_cse(struct tir_func *f, const struct tir_schedule *s)
{
    (void)s;
    struct numbering n = {.f = f, .mask = 255};
    while (n.mask < f->n_ops)
        n.mask = 2 * n.mask + 1;
    n.replaced = tir_scratch(f->n_values, sizeof(*n.replaced));
    n.buckets = tir_scratch(n.mask + 1, sizeof(*n.buckets));
    n.next = tir_scratch(f->n_ops, sizeof(*n.next));
    n.homes = tir_scratch(f->n_ops, sizeof(*n.homes));
    number_block(&n, f->body);
    free(n.replaced);
    free(n.buckets);
    free(n.next);
    free(n.homes);
    return n.progress;
}
