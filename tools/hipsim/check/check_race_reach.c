/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests whether a store can depend on the value of a load.
 *
 * Propagates the set of dependent registers over instructions and branches until it no longer
 * grows. Anything that this analysis does not model counts as a dependence: scalar operations, with
 * which waves decide branches and active lanes, registers that M0 selects, calls, and long code.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "check_race.h"
#include "check_registers.h"
#include "decode.h"

#define WITHIN 8192u /* most instructions to read after the load */
#define JOINS 256u
#define ROUNDS 16u
#define DEPTH 8u /* most nested conditions */

struct join { /* state at the target of a branch */
    uint64_t target;
    struct registers set;
};

/* The analysis as it moves through the code. */
struct flow {
    const struct launch *launch;
    struct registers set; /* registers that depend on the load at this point of the code */
    bool indexed; /* true: M0 selects registers of vector instructions at this point of the code */
    unsigned njoins;
    bool grown; /* true: a branch has added registers to a target's set */
    /* sets of the lanes that conditions have disabled, outermost first */
    struct registers outer[DEPTH];
    unsigned depth;
    struct join joins[JOINS];
};

/* Adds the current set to the set at the branch target with code offset `target`. False if there
 * are too many targets. */
static bool carry(struct flow *f, uint64_t target)
{
    unsigned i = 0;

    while (i < f->njoins && f->joins[i].target != target)
        i++;
    if (i == JOINS)
        return false;
    if (i == f->njoins)
        f->joins[f->njoins++] = (struct join){.target = target};
    f->grown |= registers_join(&f->joins[i].set, &f->set);
    return true;
}

/* Adds to the current set the sets of all branches to code offset `at`. */
static void merge_joins(struct flow *f, uint64_t at)
{
    for (unsigned i = 0; i < f->njoins; i++)
        if (f->joins[i].target == at)
            registers_join(&f->set, &f->joins[i].set);
}

/* True if a branch leads to code after offset `at` with a set that is not empty. */
static bool live_after(const struct flow *f, uint64_t at)
{
    for (unsigned i = 0; i < f->njoins; i++)
        if (f->joins[i].target > at && !registers_none(&f->joins[i].set))
            return true;
    return false;
}

/* True if the instruction reads a register of the set. v_div_fmas and branches read VCC without an
 * operand for it; other registers of that kind cannot be in the set. */
static bool depends(struct flow *f, const struct inst *in)
{
    const struct opnd vcc = {.kind = OPND_SGPR, .reg = SGPR_VCC, .dwords = 2};
    const bool unnamed = strncmp(in->row->name, "v_div_fmas", 10) == 0 ||
                         strncmp(in->row->name, "s_cbranch_vcc", 13) == 0;
    bool any = unnamed && registers_of(&f->set, &vcc, REGISTERS_ASK);

    if (in->row->flags & ROW_DST_IS_SRC)
        any |= registers_of(&f->set, &in->dst, REGISTERS_ASK);
    for (unsigned i = 0; i < in->nsrc; i++)
        any |= registers_of(&f->set, &in->src[i], REGISTERS_ASK);
    return any;
}

/* True if the instruction overwrites its whole destination in the active lanes. */
static bool replaces(const struct inst *in)
{
    return !(in->row->flags & (ROW_DST_IS_SRC | ROW_PARTIAL)) &&
           !(in->form & (FORM_DPP | FORM_SDWA | FORM_OP_SEL));
}

/* Models lanes that a condition disables: their registers keep their values, so their set applies
 * again when the lanes are enabled. */
static void follow_lanes(struct flow *f, const struct inst *in)
{
    if (strstr(in->row->name, "saveexec")) {
        if (f->depth < DEPTH)
            f->outer[f->depth++] = f->set;
        else
            registers_join(&f->outer[DEPTH - 1], &f->set);
    } else if (in->dst.kind == OPND_SGPR && in->dst.reg == SGPR_EXEC && f->depth) {
        registers_join(&f->set, &f->outer[--f->depth]);
    }
}

/* Updates *indexed, of struct flow, after the instruction. */
static void follow_index(bool *indexed, const struct inst *in)
{
    if (strcmp(in->row->name, "s_set_gpr_idx_on") == 0)
        *indexed = true;
    else if (strcmp(in->row->name, "s_set_gpr_idx_off") == 0)
        *indexed = false;
}

/* True if M0 selects registers of vector instructions at code offset `at`. Searches backwards for
 * the nearest decoded s_set_gpr_idx_on or _off; false if there is none. Branches are not followed:
 * compilers put both into one block. */
static bool indexed_at(struct code *code, uint64_t at)
{
    const struct code_slots slots = code_slots(code);
    bool indexed = false, known = false;

    while (at >= 4 && !known) {
        at -= 4;
        const struct inst *in = atomic_load_explicit(&slots.slots[at / 4], memory_order_acquire);
        known = in && in->row && strncmp(in->row->name, "s_set_gpr_idx_o", 15) == 0;
        if (known)
            follow_index(&indexed, in);
    }
    return indexed;
}

/* Propagates the set over an instruction. False if the analysis cannot model it. */
static bool pass(struct flow *f, const struct inst *in)
{
    const bool any = depends(f, in);
    const uint32_t moved = (uint32_t)ROW_RELATIVE | (f->indexed ? ROW_VALU : 0);

    if (in->row->flags & moved && !registers_none(&f->set))
        return false;
    follow_index(&f->indexed, in);
    if (any && in->row->flags & (ROW_SALU | ROW_CMPX | ROW_SMEM))
        return false;
    if (any && !(in->row->flags & ROW_STORE)) {
        registers_of(&f->set, &in->dst, REGISTERS_ADD);
        registers_of(&f->set, &in->dst2, REGISTERS_ADD);
    } else if (!any && replaces(in)) {
        registers_of(&f->set, &in->dst, REGISTERS_REMOVE);
        registers_of(&f->set, &in->dst2, REGISTERS_REMOVE);
    }
    follow_lanes(f, in);
    return true;
}

/* Propagates the set along a branch. False if the analysis cannot model it. */
static bool branch(struct flow *f, const struct inst *in)
{
    static const char *const names[] = {"s_branch",        "s_cbranch_scc0",  "s_cbranch_scc1",
                                        "s_cbranch_vccz",  "s_cbranch_vccnz", "s_cbranch_execz",
                                        "s_cbranch_execnz"};
    bool known = false;

    for (unsigned i = 0; i < sizeof(names) / sizeof(*names); i++)
        known |= strcmp(in->row->name, names[i]) == 0;
    if (!known || depends(f, in) || !carry(f, in->target))
        return false;
    if (strcmp(in->row->name, "s_branch") == 0)
        f->set = (struct registers){0};
    return true;
}

/* Propagates the set once over the code from offset `begin` on. True if the store may depend on the
 * load; both are code offsets. */
static bool walk(struct flow *f, uint64_t begin, uint64_t load, uint64_t store)
{
    uint64_t at = begin;

    f->set = (struct registers){0};
    f->indexed = indexed_at(f->launch->code, begin);
    f->depth = 0;
    for (unsigned n = 0; n < WITHIN; n++) {
        const struct inst *in = code_inst(f->launch->code, at);
        if (!in || !in->row)
            return false;
        merge_joins(f, at);
        if (at == store && depends(f, in))
            return true;
        if (!(in->row->flags & ROW_BRANCH ? branch(f, in) : pass(f, in)))
            return true;
        if (at == load)
            registers_of(&f->set, &in->dst, REGISTERS_ADD);
        if (strcmp(in->row->name, "s_endpgm") == 0)
            f->set = (struct registers){0};
        if (at >= load && registers_none(&f->set) && !live_after(f, at))
            return false;
        at += in->size;
    }
    return true;
}

bool race_reaches(const struct launch *l, uint32_t load, uint32_t store)
{
    struct flow *f = calloc(1, sizeof(*f));
    const struct inst *in = code_inst(l->code, load);
    bool reached = !f || !in || !in->row || in->dst.kind == OPND_NONE;
    uint64_t begin = load;

    if (f)
        f->launch = l;
    for (unsigned round = 0; !reached && round < ROUNDS; round++) {
        f->grown = false;
        reached = walk(f, begin, load, store) || (f->grown && round == ROUNDS - 1);
        for (unsigned i = 0; i < f->njoins; i++)
            if (f->joins[i].target < begin && !registers_none(&f->joins[i].set))
                begin = f->joins[i].target;
        if (!f->grown)
            break;
    }
    free(f);
    return reached;
}
