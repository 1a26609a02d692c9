/* SPDX-License-Identifier: Apache-2.0 */
#include "registers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "decode.h"

/* Most dwords of a register's value in a report. */
enum { DWORDS_SHOWN = 4 };

/* Registers with names: name, operand kind, number, dwords. */
static const struct {
    const char *name;
    enum opnd_kind kind;
    uint16_t reg;
    uint8_t dwords;
} named[] = {
    {"vcc", OPND_SGPR, SGPR_VCC, 2},
    {"exec", OPND_SGPR, SGPR_EXEC, 2},
    {"m0", OPND_SGPR, SGPR_M0, 1},
    {"flat_scratch", OPND_SGPR, SGPR_FLAT_SCRATCH, 2},
    {"xnack_mask", OPND_SGPR, SGPR_XNACK_MASK, 2},
    {"vcc_lo", OPND_SGPR, SGPR_VCC, 1},
    {"vcc_hi", OPND_SGPR, SGPR_VCC + 1, 1},
    {"exec_lo", OPND_SGPR, SGPR_EXEC, 1},
    {"exec_hi", OPND_SGPR, SGPR_EXEC + 1, 1},
    {"scc", OPND_SPECIAL, SPECIAL_SCC, 1},
};

const char *register_name(const struct opnd *o, char *text, size_t size)
{
    const char file = o->kind == OPND_VGPR ? 'v' : o->kind == OPND_AGPR ? 'a' : 's';
    for (size_t i = 0; i < sizeof(named) / sizeof(*named); i++) {
        if (named[i].kind == o->kind && named[i].reg == o->reg && named[i].dwords == o->dwords) {
            snprintf(text, size, "%s", named[i].name);
            return text;
        }
    }
    if (o->dwords == 1)
        snprintf(text, size, "%c%u", file, o->reg);
    else
        snprintf(text, size, "%c[%u:%u]", file, o->reg, o->reg + o->dwords - 1u);
    return text;
}

bool register_find(const char *name, struct opnd *o)
{
    for (size_t i = 0; i < sizeof(named) / sizeof(*named); i++) {
        if (strcmp(name, named[i].name) == 0) {
            *o = (struct opnd){
                .kind = (uint8_t)named[i].kind, .reg = named[i].reg, .dwords = named[i].dwords};
            return true;
        }
    }
    const unsigned kind = *name == 'v'   ? OPND_VGPR
                          : *name == 'a' ? OPND_AGPR
                          : *name == 's' ? OPND_SGPR
                                         : OPND_NONE;
    const unsigned limit = kind == OPND_SGPR ? SGPR_CODES : VGPR_FILE;
    unsigned first, last;
    char end = 0;
    if (sscanf(name + 1, "[%u:%u%c", &first, &last, &end) != 3 || end != ']') {
        char *rest;
        first = last = (unsigned)strtoul(name + 1, &rest, 10);
        if (rest == name + 1 || *rest)
            return false;
    }
    *o = (struct opnd){
        .kind = (uint8_t)kind, .reg = (uint16_t)first, .dwords = (uint8_t)(last - first + 1)};
    return kind != OPND_NONE && first <= last && last < limit && last - first < 64;
}

/* Sets *value to dword `dword` of the operand in `lane`. False if it is undefined there. */
static bool read_dword(const struct wave *w, const struct opnd *o, unsigned dword, unsigned lane,
                       uint32_t *value)
{
    const unsigned reg = o->reg + dword;
    const uint64_t bit = UINT64_C(1) << lane;
    switch (o->kind) {
    case OPND_VGPR: *value = w->v[reg][lane]; return w->v_valid[reg] & bit;
    case OPND_AGPR: *value = w->a[reg][lane]; return w->a_valid[reg] & bit;
    case OPND_SGPR: *value = w->sgpr[reg]; return w->s_valid[reg] == UINT32_MAX;
    default: *value = w->scc; return w->scc_valid;
    }
}

/* True if the kernel has allocated the operand's registers; others have no storage to read. */
static bool has_storage(const struct wave *w, const struct opnd *o)
{
    const struct launch *l = w->launch;
    const unsigned end = o->reg + o->dwords;
    return o->kind == OPND_VGPR   ? end <= l->nvgpr + l->nagpr
           : o->kind == OPND_AGPR ? end <= l->nagpr
                                  : true;
}

const char *register_value(const struct wave *w, const struct opnd *o, unsigned lane, char *text,
                           size_t size)
{
    const bool whole = o->dwords <= DWORDS_SHOWN;
    const unsigned n = whole ? o->dwords : DWORDS_SHOWN;
    size_t used = (size_t)snprintf(text, size, "0x");
    for (unsigned i = 0; i < n && used < size; i++) {
        const unsigned dword = whole ? n - 1 - i : i;
        uint32_t value;
        const bool defined = has_storage(w, o) && read_dword(w, o, dword, lane, &value);
        used += (size_t)(defined ? snprintf(text + used, size - used, "%s%08x", i ? " " : "", value)
                                 : snprintf(text + used, size - used, "%s?", i ? " " : ""));
    }
    if (!whole && used < size)
        snprintf(text + used, size - used, " ...");
    return text;
}

/* True if two operands have a register in common. */
static bool overlaps(const struct opnd *a, const struct opnd *b)
{
    return a->kind == b->kind && a->reg < b->reg + b->dwords && b->reg < a->reg + a->dwords;
}

const struct inst *register_writer(const struct wave *w, const struct inst *in,
                                   const struct opnd *o)
{
    const uint64_t most = w->executed < WAVE_TRAIL ? w->executed : WAVE_TRAIL;
    for (uint64_t back = 1; back <= most; back++) {
        const uint64_t offset = 4 * (uint64_t)w->trail[(w->executed - back) % WAVE_TRAIL];
        const struct inst *before = code_inst(w->launch->code, offset);
        if (before && !(back == 1 && before == in) &&
            (overlaps(&before->dst, o) || overlaps(&before->dst2, o)))
            return before;
    }
    return NULL;
}

/* True if the operand is a vector register, an accumulation register or an SGPR. */
static bool is_register(const struct opnd *o)
{
    return o->dwords && (o->kind == OPND_VGPR || o->kind == OPND_AGPR || o->kind == OPND_SGPR);
}

void registers_describe(const struct wave *w, const struct inst *in, uint64_t lanes, char *text,
                        size_t size)
{
    const uint64_t of = lanes ? lanes : wave_exec(w);
    const unsigned lane = of ? (unsigned)__builtin_ctzll(of) : 0;
    const uint64_t entry = w->launch->entry_pc - code_address(w->launch->code);
    char name[32], value[64], disassembly[128];
    for (unsigned i = 0; in && in->row && i < in->nsrc && i < INST_MAX_SRC; i++) {
        const struct opnd *o = &in->src[i];
        const struct inst *writer = is_register(o) ? register_writer(w, in, o) : NULL;
        const size_t used = strlen(text);
        if (!is_register(o) || used + 1 >= size)
            continue;
        snprintf(text + used, size - used, "\n  %s = %s", register_name(o, name, sizeof(name)),
                 register_value(w, o, lane, value, sizeof(value)));
        if (o->kind != OPND_SGPR)
            snprintf(text + strlen(text), size - strlen(text), " in lane %u", lane);
        if (writer)
            snprintf(text + strlen(text), size - strlen(text), ", written at entry%+lld: %s",
                     (long long)(writer->offset - entry),
                     code_text(w->launch->code, writer->offset, disassembly, sizeof(disassembly)));
    }
}
