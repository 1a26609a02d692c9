/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file tests whether a store can depend on the value of a load.
 *
 * It propagates the set of dependent registers over instructions and branches until a fixed point.
 * Anything that cannot be tracked counts as a dependence: scalar operations, with which waves
 * decide branches and active lanes, calls, and long code.
 */
#include <stdlib.h>
#include <string.h>

#include "check_race.h"
#include "check_registers.h"
#include "decode.h"

#define WITHIN 8192u /* maximum instructions to read after the load */
#define JOINS 256u
#define ROUNDS 16u
#define DEPTH 8u /* maximum nesting of conditions */

struct join { /* target of a branch */
    uint64_t target;
    struct registers set;
};

struct flow {
    const struct launch *launch;
    struct registers set; /* registers that depend on the load at this point */
    unsigned njoins;
    bool grown;                    /* a branch has added registers */
    struct registers outer[DEPTH]; /* sets of the lanes that conditions have disabled */
    unsigned depth;
    struct join joins[JOINS];
};

/* Adds the current set to the set at the branch target. False if there are too many targets. */
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

static void merge_joins(struct flow *f, uint64_t at)
{
    for (unsigned i = 0; i < f->njoins; i++)
        if (f->joins[i].target == at)
            registers_join(&f->set, &f->joins[i].set);
}

/* True if a branch leads to code after `at` with a non-empty set. */
static bool live_after(const struct flow *f, uint64_t at)
{
    for (unsigned i = 0; i < f->njoins; i++)
        if (f->joins[i].target > at && !registers_none(&f->joins[i].set))
            return true;
    return false;
}

/* True if the instruction reads a register of the set. v_div_fmas and branches read VCC implicitly;
 * no other implicit operand can be in the set. */
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

/* True if the instruction overwrites all of its destination in the active lanes. */
static bool replaces(const struct inst *in)
{
    return !(in->row->flags & (ROW_DST_IS_SRC | ROW_PARTIAL)) &&
           !(in->form & (FORM_DPP | FORM_SDWA | FORM_OP_SEL));
}

/* Tracks disabled lanes: they keep their register values, which count again when the lanes are
 * enabled. */
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

/* Propagates the set over an instruction. False if it cannot be tracked any more. */
static bool pass(struct flow *f, const struct inst *in)
{
    const bool any = depends(f, in);

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

/* Propagates the set along a branch. False if it cannot be tracked. */
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

/* Propagates the set over the code from offset `begin` on, once. True if the store may depend on
 * the load. */
static bool walk(struct flow *f, uint64_t begin, uint64_t load, uint64_t store)
{
    uint64_t at = begin;

    f->set = (struct registers){0};
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
