/* SPDX-License-Identifier: Apache-2.0 */
/* Faults, outstanding memory operations, and access to operands. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/hipsim/decode.h"

static const char *const fault_names[FAULT_KINDS] = {
    [FAULT_NONE] = "no fault",
    [FAULT_DECODE] = "undecodable instruction",
    [FAULT_REGISTER] = "register out of range",
    [FAULT_MEMORY] = "invalid memory access",
    [FAULT_ALIGN] = "misaligned access",
    [FAULT_UNINIT] = "use of an undefined value",
    [FAULT_WAIT] = "register used before its s_waitcnt",
    [FAULT_HAZARD] = "missing wait states",
    [FAULT_STRICT] = "missing wait states",
    [FAULT_RACE] = "data race",
    [FAULT_BARRIER] = "unequal barriers",
    [FAULT_DIVERGE] = "divergent barrier",
    [FAULT_DEADLOCK] = "deadlock",
    [FAULT_BUDGET] = "instruction budget used up",
    [FAULT_TRAP] = "trap",
};

const char *fault_name(enum fault_kind kind)
{
    return kind < FAULT_KINDS ? fault_names[kind] : "?";
}

/* Appends to the report; what does not fit is cut. */
static void append(struct fault *f, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void append(struct fault *f, const char *format, ...)
{
    size_t used = strlen(f->text);
    va_list args;
    va_start(args, format);
    vsnprintf(f->text + used, sizeof(f->text) - used, format, args);
    va_end(args);
}

/* launch->fault and launch->first_finding. */
static pthread_mutex_t report_lock = PTHREAD_MUTEX_INITIALIZER;

/* An undefined value may come from a load that was not waited for: that is what is wrong then. */
static enum fault_kind cause(const struct wave *w, enum fault_kind kind)
{
    return kind == FAULT_UNINIT && w->stale.any ? FAULT_WAIT : kind;
}

static void describe(struct wave *w, const struct inst *in, enum fault_kind kind, uint64_t lanes,
                     const char *format, va_list args, struct fault *f)
{
    struct launch *l = w->launch;
    __atomic_store_n(&f->kind, kind, __ATOMIC_RELAXED); /* see launch_faulted() */
    memcpy(f->workgroup, w->wg->id, sizeof(f->workgroup));
    f->wave = w->id;
    f->lanes = lanes;
    f->pc = in ? code_address(l->code) + in->offset : w->pc;
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
    append(f, "\n  pc 0x%llx (entry%+lld): %s", (unsigned long long)f->pc,
           (long long)(f->pc - l->entry_pc), code_text(l->code, offset, text, sizeof(text)));
    if (in) {
        append(f, "\n  dwords");
        for (unsigned i = 0; i < in->ndwords; i++)
            append(f, " %08x", in->raw[i]);
    }
    if (kind == FAULT_WAIT && w->stale.any) {
        const uint64_t entry = l->entry_pc - code_address(l->code);
        append(f, "\n  %c%u was touched at entry%+lld before the s_waitcnt for the load at "
               "entry%+lld: %s", w->stale.file, w->stale.reg, (long long)(w->stale.read - entry),
               (long long)(w->stale.load - entry),
               code_text(l->code, w->stale.load, text, sizeof(text)));
    }
}

static void stop(struct wave *w, const struct inst *in, enum fault_kind kind, uint64_t lanes,
                 const char *format, va_list args)
{
    w->state = WAVE_FAULTED;
    pthread_mutex_lock(&report_lock);
    if (!launch_faulted(w->launch))
        describe(w, in, cause(w, kind), lanes, format, args, &w->launch->fault);
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

/* Keeps a finding at a place that has had none of its kind. */
static void keep(struct wave *w, const struct inst *in, enum fault_kind kind, uint64_t lanes,
                 const char *format, va_list args)
{
    struct launch *l = w->launch;
    struct finding *f = calloc(1, sizeof(*f));
    if (!f)
        return;
    pthread_mutex_lock(&report_lock);
    struct finding **end = &l->first_finding;
    while (*end)
        end = &(*end)->next;
    *end = f;
    describe(w, in, kind, lanes, format, args, &f->fault);
    pthread_mutex_unlock(&report_lock);
}

bool wave_finding(struct wave *w, const struct inst *in, enum fault_kind kind, uint64_t lanes,
                  const char *format, ...)
{
    struct launch *l = w->launch;
    va_list args;
    va_start(args, format);
    const enum fault_kind why = cause(w, kind);
    const bool go_on = l->keep_going >> why & 1;
    if (go_on) {
        uint64_t at = why != kind ? w->stale.read
            : in ? in->offset : w->pc - code_address(l->code);
        __atomic_fetch_add(&l->findings, 1, __ATOMIC_RELAXED);
        if (code_note(l->code, at, why))
            keep(w, in, why, lanes, format, args);
    } else {
        stop(w, in, kind, lanes, format, args);
    }
    va_end(args);
    return go_on;
}

void launch_forget_findings(struct launch *l)
{
    while (l->first_finding) {
        struct finding *f = l->first_finding;
        l->first_finding = f->next;
        free(f);
    }
}

static uint64_t *busy_bits(struct wave *w, unsigned kind)
{
    switch (kind) {
    case OPND_VGPR: return w->busy_v;
    case OPND_AGPR: return w->busy_a;
    case OPND_SGPR: return w->busy_s;
    default: return NULL;
    }
}

static void mark_busy(struct wave *w, const struct pending *p)
{
    uint64_t *bits = busy_bits(w, p->kind);
    for (unsigned r = p->first; bits && r < (unsigned)p->first + p->count; r++)
        bits[r / 64] |= UINT64_C(1) << r % 64;
}

/* Counters of 6, 4 and 3 bits (CDNA3 ISA, S_WAITCNT). */
static const uint8_t counter_max[WAIT_COUNTERS] = {
    [WAIT_VM] = 63, [WAIT_LGKM] = 15, [WAIT_EXP] = 7,
};

void wave_issue(struct wave *w, const struct inst *in, enum wait_counter counter,
                enum opnd_kind kind, unsigned first, unsigned count, bool unordered)
{
    /* A full counter stalls the wave until an operation has returned. */
    wave_wait(w, counter, counter_max[counter] - 1u);
    if (w->npending[counter] == PENDING_MAX)
        wave_wait(w, counter, 0);
    struct pending *p = &w->pending[counter][w->npending[counter]++];
    *p = (struct pending){
        .kind = (uint8_t)kind, .unordered = unordered,
        .first = (uint16_t)first, .count = (uint16_t)count, .number = w->issued[counter]++,
        .offset = in->offset,
    };
    mark_busy(w, p);
    w->outstanding++;
}

void wave_issue_to_lds(struct wave *w, const struct inst *in, uint32_t first, uint32_t bytes)
{
    wave_issue(w, in, WAIT_VM, OPND_NONE, 0, 0, false);
    struct pending *p = &w->pending[WAIT_VM][w->npending[WAIT_VM] - 1];
    p->lds_first = first;
    p->lds_bytes = bytes;
    w->wg->lds_in_flight++;
}

static void retire_to_lds(struct wave *w, const struct pending *p)
{
    if (!p->lds_bytes)
        return;
    w->wg->lds_in_flight--;
    for (uint32_t i = 0; i < p->lds_bytes; i++)
        w->wg->lds_valid[p->lds_first + i] &= (uint8_t)~LDS_IN_FLIGHT;
}

/* Drops what is known to have returned when at most `left` operations are under way. Those that
 * return in order are then at most the last `left` of their kind, however many others there are;
 * which ones of the others have returned is known only of all. */
static unsigned retire(struct wave *w, enum wait_counter counter, unsigned left)
{
    struct pending *queue = w->pending[counter];
    unsigned n = w->npending[counter], ordered = 0, kept = 0;

    for (unsigned i = 0; i < n; i++)
        ordered += !queue[i].unordered;
    for (unsigned i = 0; i < n; i++) {
        const bool stays = queue[i].unordered ? left > 0 : ordered <= left;
        ordered -= !queue[i].unordered;
        if (stays)
            queue[kept++] = queue[i];
        else
            retire_to_lds(w, &queue[i]);
    }
    w->npending[counter] = (uint8_t)kept;
    return n - kept;
}

void wave_wait(struct wave *w, enum wait_counter counter, unsigned left)
{
    if (w->npending[counter] <= left)
        return;
    const unsigned retired = retire(w, counter, left);
    if (!retired)
        return;
    w->outstanding = (uint16_t)(w->outstanding - retired);
    memset(w->busy_v, 0, sizeof(w->busy_v));
    memset(w->busy_a, 0, sizeof(w->busy_a));
    memset(w->busy_s, 0, sizeof(w->busy_s));
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

static const struct pending *find_pending(const struct wave *w, const struct opnd *o)
{
    for (unsigned c = 0; c < WAIT_COUNTERS; c++) {
        for (unsigned i = 0; i < w->npending[c]; i++) {
            const struct pending *p = &w->pending[c][i];
            if (p->kind == o->kind && p->first < o->reg + o->dwords
                && o->reg < p->first + p->count)
                return p;
        }
    }
    return NULL;
}

static bool operand_busy(struct wave *w, const struct opnd *o)
{
    const uint64_t *bits = busy_bits(w, o->kind);
    for (unsigned r = o->reg; bits && r < (unsigned)o->reg + o->dwords; r++)
        if (bits[r / 64] >> r % 64 & 1)
            return true;
    return false;
}

/* Loads of one counter return in order (scalar memory does not), so a load may overwrite what an
 * earlier one of its own kind will write: the later data stays. AITER's gfx950 kernels drop reads
 * that way. */
static bool returns_after(const struct wave *w, const struct inst *in, const struct opnd *o)
{
    const struct op_row *row = in->row;
    if (!row->wait || row->flags & ROW_SMEM || o != &in->dst)
        return false;
    for (unsigned c = 0; c < WAIT_COUNTERS; c++) {
        for (unsigned i = 0; i < w->npending[c]; i++) {
            const struct pending *p = &w->pending[c][i];
            const bool overlaps = p->kind == o->kind && p->first < o->reg + o->dwords
                && o->reg < p->first + p->count;
            if (overlaps && (c != row->wait - 1u || p->unordered))
                return false;
        }
    }
    return true;
}

static const char register_files[] = {[OPND_VGPR] = 'v', [OPND_AGPR] = 'a', [OPND_SGPR] = 's'};

static void note_stale(struct wave *w, const struct inst *in, const struct opnd *o)
{
    const struct pending *p = find_pending(w, o);
    w->stale = (struct stale_read){
        .any = true, .file = register_files[o->kind], .reg = o->reg, .read = in->offset,
        .load = p ? p->offset : in->offset,
    };
}

enum wait_verdict wave_check_wait(struct wave *w, const struct inst *in)
{
    const struct opnd *written[2] = {&in->dst, &in->dst2};
    for (unsigned i = 0; i < 2; i++) {
        if (!operand_busy(w, written[i]) || returns_after(w, in, written[i]))
            continue;
        note_stale(w, in, written[i]);
        if (!wave_finding(w, in, FAULT_WAIT, 0, "%c%u is overwritten while a load is outstanding",
                          register_files[written[i]->kind], written[i]->reg))
            return WAIT_FAULTED;
    }
    enum wait_verdict verdict = WAIT_FINE;
    for (unsigned i = 0; i < in->nsrc; i++) {
        const struct opnd *o = &in->src[i];
        if (!operand_busy(w, o))
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

static uint64_t *copied_rows(struct wave *w, const struct opnd *o)
{
    switch (o->kind) {
    case OPND_VGPR: return w->v_copied + o->reg;
    case OPND_AGPR: return w->a_copied + o->reg;
    case OPND_SGPR: return w->s_copied + o->reg;
    default: return NULL;
    }
}

/* Whole dwords, to the same lanes. */
static bool only_moves(const struct inst *in)
{
    static const char *const names[] = {
        "v_mov_b32", "v_mov_b64", "v_accvgpr_read_b32", "v_accvgpr_write_b32", "v_accvgpr_mov_b32",
        "v_readfirstlane_b32", "v_readlane_b32", "s_mov_b32", "s_mov_b64",
    };
    if (in->form != FORM_PLAIN)
        return false;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(in->row->name, names[i]) == 0)
            return true;
    return false;
}

void wave_track_copies(struct wave *w, const struct inst *in)
{
    uint64_t *to = copied_rows(w, &in->dst);
    if (!to || in->row->flags & ROW_LOAD)
        return;
    const uint64_t lanes = in->dst.kind == OPND_SGPR ? UINT64_MAX : wave_exec(w);
    const uint64_t *from = only_moves(in) ? copied_rows(w, &in->src[0]) : NULL;
    for (unsigned i = 0; i < in->dst.dwords; i++) {
        uint64_t copied = from ? from[i] : 0;
        if (in->dst.kind == OPND_SGPR && copied)
            copied = UINT64_MAX;
        to[i] = (to[i] & ~lanes) | (copied & lanes);
    }
}

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

uint64_t special_value(const struct wave *w, unsigned reg)
{
    switch (reg) {
    case SPECIAL_SHARED_BASE: return SHARED_APERTURE;
    case SPECIAL_SHARED_LIMIT: return SHARED_APERTURE + APERTURE_BYTES - 1;
    case SPECIAL_PRIVATE_BASE: return PRIVATE_APERTURE;
    case SPECIAL_PRIVATE_LIMIT: return PRIVATE_APERTURE + APERTURE_BYTES - 1;
    case SPECIAL_VCCZ: return sgpr_read64(w, SGPR_VCC) == 0;
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
        /* As a 32-bit operand an aperture is its high half: the low one is zero. */
        uint64_t value = special_value(w, o->reg);
        bool aperture = o->reg <= SPECIAL_PRIVATE_LIMIT;
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
