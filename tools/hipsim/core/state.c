/* SPDX-License-Identifier: Apache-2.0 */
/* Reports faults, makes results undefined, and accesses operands. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "decode.h"
#include "registers.h"

static const char *const fault_names[FAULT_KINDS] = {
    [FAULT_NONE] = "no fault",
    [FAULT_DECODE] = "undecodable instruction",
    [FAULT_REGISTER] = "register out of range",
    [FAULT_MEMORY] = "invalid memory access",
    [FAULT_ALIGN] = "misaligned access",
    [FAULT_UNINIT] = "use of an undefined value",
    [FAULT_WAIT] = "register used before its s_waitcnt",
    [FAULT_HAZARD] = "missing wait states",
    [FAULT_STRICT] = "against a rule of LLVM's",
    [FAULT_RACE] = "data race",
    [FAULT_BARRIER] = "unequal barriers",
    [FAULT_DIVERGE] = "divergent barrier",
    [FAULT_STALE] = "stale scalar load",
    [FAULT_FENCE] = "missing fence",
    [FAULT_HINT] = "performance hint",
    [FAULT_DEADLOCK] = "deadlock",
    [FAULT_BUDGET] = "instruction budget used up",
    [FAULT_TRAP] = "trap",
};

const char *fault_name(enum fault_kind kind)
{
    return kind < FAULT_KINDS ? fault_names[kind] : "?";
}

/* Appends to the report's text, which is cut at its size. */
static void append(struct fault *f, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void append(struct fault *f, const char *format, ...)
{
    size_t used = strlen(f->text);
    va_list args;
    va_start(args, format);
    vsnprintf(f->text + used, sizeof(f->text) - used, format, args);
    va_end(args);
}

/* Locks launch->fault and launch->first_finding. */
static pthread_mutex_t report_lock = PTHREAD_MUTEX_INITIALIZER;

/* Returns the kind to report: FAULT_WAIT in place of FAULT_UNINIT if the wave has read a register
 * before the wait for its load; otherwise `kind`. */
static enum fault_kind cause(const struct wave *w, enum fault_kind kind)
{
    return kind == FAULT_UNINIT && w->stale.any ? FAULT_WAIT : kind;
}

/* Writes the fault or finding of a wave to *f. */
static void describe(struct wave *w, const struct inst *in, enum fault_kind found, uint64_t lanes,
                     const char *format, va_list args, struct fault *f)
{
    struct launch *l = w->launch;
    const enum fault_kind kind = cause(w, found);
    /* launch_faulted() reads it in other threads */
    __atomic_store_n(&f->kind, kind, __ATOMIC_RELAXED);
    memcpy(f->workgroup, w->wg->id, sizeof(f->workgroup));
    f->wave = w->id;
    f->lanes = lanes;
    f->pc = in ? code_address(l->code) + in->offset : w->pc;
    f->offset = (int64_t)(f->pc - l->entry_pc);
    f->text[0] = '\0';
    append(f, "%s: ", fault_names[kind]);
    size_t used = strlen(f->text);
    vsnprintf(f->text + used, sizeof(f->text) - used, format, args);
    append(f, "\n  kernel %s, workgroup (%u, %u, %u), wave %u", l->kernel ? l->kernel : "?",
           w->wg->id[0], w->wg->id[1], w->wg->id[2], w->id);
    if (lanes)
        append(f, ", lanes 0x%016llx", (unsigned long long)lanes);
    char text[256];
    uint64_t offset = f->pc - code_address(l->code);
    append(f, "\n  pc 0x%llx (entry%+lld): %s", (unsigned long long)f->pc, (long long)f->offset,
           code_text(l->code, offset, text, sizeof(text)));
    if (in) {
        append(f, "\n  dwords");
        for (unsigned i = 0; i < in->ndwords; i++)
            append(f, " %08x", in->raw[i]);
        registers_describe(w, in, lanes, f->text, sizeof(f->text));
    }
    uint64_t load;
    if (kind == FAULT_UNINIT && in && checks_origin(w, in, &load))
        append(f, "\n  the value comes from the load at entry%+lld: %s",
               (long long)(code_address(l->code) + load - l->entry_pc),
               code_text(l->code, load, text, sizeof(text)));
    if (kind != found ||
        (kind == FAULT_WAIT && in && w->stale.any && w->stale.read == in->offset)) {
        const uint64_t entry = l->entry_pc - code_address(l->code);
        append(f,
               "\n  %c%u was touched at entry%+lld before the s_waitcnt for the load at "
               "entry%+lld: %s",
               w->stale.file, w->stale.reg, (long long)(w->stale.read - entry),
               (long long)(w->stale.load - entry),
               code_text(l->code, w->stale.load, text, sizeof(text)));
    }
}

/* Stops the wave with a fault. The first fault of a launch is its fault. */
static void stop(struct wave *w, const struct inst *in, enum fault_kind kind, uint64_t lanes,
                 const char *format, va_list args)
{
    w->state = WAVE_FAULTED;
    pthread_mutex_lock(&report_lock);
    if (!launch_faulted(w->launch))
        describe(w, in, kind, lanes, format, args, &w->launch->fault);
    pthread_mutex_unlock(&report_lock);
}

void wave_fault(struct wave *w, const struct inst *in, enum fault_kind kind, uint64_t lanes,
                const char *format, ...)
{
    va_list args;
    va_start(args, format);
    stop(w, in, kind, lanes, format, args);
    va_end(args);
}

/* Appends a copy of `fault` to launch->first_finding. Does nothing without memory. */
static void keep(struct launch *l, const struct fault *fault)
{
    struct finding *f = calloc(1, sizeof(*f));
    if (!f)
        return;
    f->fault = *fault;
    pthread_mutex_lock(&report_lock);
    struct finding **end = &l->first_finding;
    while (*end)
        end = &(*end)->next;
    *end = f;
    pthread_mutex_unlock(&report_lock);
}

/* Counts a finding of the launch. */
static void count_finding(struct launch *l, enum fault_kind kind, bool suppressed)
{
    if (suppressed) {
        __atomic_fetch_add(&l->suppressed, 1, __ATOMIC_RELAXED);
        return;
    }
    __atomic_fetch_add(&l->findings, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&l->found[kind], 1, __ATOMIC_RELAXED);
}

/* True if the first finding of its kind at code offset `at` is suppressed. Records it if it is, or
 * if the launch goes on (`go_on`). */
static bool filter_finding(struct wave *w, const struct inst *in, enum fault_kind kind, uint64_t at,
                           uint64_t lanes, bool go_on, const char *format, va_list args)
{
    struct launch *l = w->launch;
    struct fault fault;
    if (!go_on && !l->suppress)
        return false;
    describe(w, in, kind, lanes, format, args, &fault);
    const bool suppressed = l->suppress && l->suppress(l, &fault);
    if ((go_on || suppressed) && code_note(l->code, at, fault.kind, suppressed) && !suppressed)
        keep(l, &fault);
    return suppressed;
}

bool wave_finding(struct wave *w, const struct inst *in, enum fault_kind kind, uint64_t lanes,
                  const char *format, ...)
{
    struct launch *l = w->launch;
    const enum fault_kind why = cause(w, kind);
    const uint64_t at = why != kind ? w->stale.read
                        : in        ? in->offset
                                    : w->pc - code_address(l->code);
    const struct code_noted noted = code_noted(l->code, at, why);
    bool go_on = l->keep_going >> why & 1, suppressed = noted.suppressed;
    va_list args;
    if (!noted.any) {
        va_start(args, format);
        suppressed = filter_finding(w, in, kind, at, lanes, go_on, format, args);
        va_end(args);
    }
    go_on |= suppressed;
    if (go_on) {
        count_finding(l, why, suppressed);
    } else {
        va_start(args, format);
        stop(w, in, kind, lanes, format, args);
        va_end(args);
    }
    return go_on;
}

bool wave_found_before(struct wave *w, const struct inst *in, enum fault_kind kind)
{
    struct launch *l = w->launch;
    const struct code_noted noted = code_noted(l->code, in->offset, kind);
    if (!noted.any || !(noted.suppressed || l->keep_going >> kind & 1))
        return false;
    count_finding(l, kind, noted.suppressed);
    return true;
}

void launch_forget_findings(struct launch *l)
{
    while (l->first_finding) {
        struct finding *f = l->first_finding;
        l->first_finding = f->next;
        free(f);
    }
}

/* Marks the operand's registers as undefined, of vector registers the active lanes. */
static void undefine(struct wave *w, const struct opnd *o)
{
    uint64_t *valid = o->kind == OPND_VGPR ? w->v_valid : o->kind == OPND_AGPR ? w->a_valid : NULL;
    for (unsigned i = 0; valid && i < o->dwords; i++)
        valid[o->reg + i] &= ~wave_exec(w);
    for (unsigned i = 0; o->kind == OPND_SGPR && i < o->dwords; i++)
        w->s_valid[o->reg + i] = 0;
}

void wave_undefine_results(struct wave *w, const struct inst *in)
{
    undefine(w, &in->dst);
    undefine(w, &in->dst2);
    if (in->row->flags & ROW_SALU)
        w->scc_valid = 0;
}

/* Returns the value of a source with a code after the scalar file, enum special_source. */
static uint64_t special_value(const struct wave *w, unsigned reg)
{
    switch (reg) {
    case SPECIAL_FLAT_SCRATCH_LO: return PRIVATE_APERTURE;
    case SPECIAL_FLAT_SCRATCH_HI: return PRIVATE_APERTURE >> 32;
    case SPECIAL_SHARED_BASE: return SHARED_APERTURE;
    case SPECIAL_SHARED_LIMIT: return SHARED_APERTURE + APERTURE_BYTES - 1;
    case SPECIAL_PRIVATE_BASE: return PRIVATE_APERTURE;
    case SPECIAL_PRIVATE_LIMIT: return PRIVATE_APERTURE + APERTURE_BYTES - 1;
    case SPECIAL_VCCZ: return wave_mask(w, SGPR_VCC) == 0;
    case SPECIAL_EXECZ: return wave_exec(w) == 0;
    case SPECIAL_SCC: return w->scc;
    default: return 0;
    }
}

uint64_t src_scalar(const struct wave *w, const struct opnd *o)
{
    switch (o->kind) {
    case OPND_SGPR: return o->dwords >= 2 ? sgpr_read64(w, o->reg) : w->sgpr[o->reg];
    case OPND_IMM: return o->dwords >= 2 ? o->imm : (uint32_t)o->imm;
    case OPND_SPECIAL: {
        /* A read of 32 bits of an aperture returns its high half; the low half is zero. */
        uint64_t value = special_value(w, o->reg);
        bool aperture = o->reg >= SPECIAL_SHARED_BASE && o->reg <= SPECIAL_PRIVATE_LIMIT;
        return o->dwords >= 2 ? value : (uint32_t)(aperture ? value >> 32 : value);
    }
    default: return 0;
    }
}

uint64_t src_scalar_bits(const struct wave *w, const struct opnd *o)
{
    if (o->kind == OPND_SGPR)
        return o->dwords >= 2 ? sgpr_valid64(w, o->reg) : w->s_valid[o->reg];
    if (o->kind == OPND_SPECIAL && o->reg == SPECIAL_SCC)
        return w->scc_valid ? UINT64_MAX : 0;
    if (o->kind == OPND_SPECIAL && (o->reg == SPECIAL_VCCZ || o->reg == SPECIAL_EXECZ))
        return mask_known(w, o->reg == SPECIAL_VCCZ ? SGPR_VCC : SGPR_EXEC) ? UINT64_MAX : 0;
    return o->dwords >= 2 ? UINT64_MAX : UINT32_MAX;
}

bool src_scalar_valid(const struct wave *w, const struct opnd *o)
{
    if (o->kind != OPND_SGPR)
        return src_scalar_bits(w, o) != 0;
    uint32_t valid = UINT32_MAX;
    for (unsigned i = 0; i < o->dwords; i++)
        valid &= w->s_valid[o->reg + i];
    return valid == UINT32_MAX;
}

bool m0_defined(struct wave *w, const struct inst *in, uint32_t bits, const char *what)
{
    return !(w->launch->checks & CHECK_UNINIT) || !(bits & ~w->s_valid[SGPR_M0]) ||
           wave_finding(w, in, FAULT_UNINIT, 0, "undefined value in %s (m0)", what);
}
