/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code ranges: decodes the instruction at an offset. disassembler.c finds its op row and its
 * length; decode_fields.c and decode_gfx12.c read the operands from the dwords.
 */
#include "decode.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "decode_fields.h"
#include "disassembler.h"
#include "parts.h"
#include "straight.h"

/* A range of machine code and its decoded instructions. */
struct code {
    enum gfx_target target;
    const struct isa *isa;
    const uint8_t *bytes;
    size_t size;
    uint64_t va;
    pthread_mutex_t lock;    /* lock of additions to `slots` and to their variants */
    _Atomic uint64_t *found; /* findings at each slot: bits of enum fault_kind */
    struct inst *_Atomic slots[];
};

/* Hash tables of op rows by mnemonic, with open addressing: one for each row of `isas`. They are
 * filled at first use. */
#define ROW_SLOTS 8192
struct row_slot {
    const char *name;
    const struct op_row *row;
};
static struct row_slot row_slots[ISAS][ROW_SLOTS];
static pthread_once_t row_once = PTHREAD_ONCE_INIT;

/* Returns a hash of the first `length` characters of a name. */
static uint32_t name_hash(const char *name, size_t length)
{
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < length; i++)
        h = (h ^ (uint8_t)name[i]) * 16777619u;
    return h;
}

/* Returns the slot that has `name`, of `length` bytes, or the free slot in which to insert it. */
static struct row_slot *slot_of(struct row_slot *slots, const char *name, size_t length)
{
    uint32_t h = name_hash(name, length) % ROW_SLOTS;
    for (; slots[h].name; h = (h + 1) % ROW_SLOTS)
        if (strlen(slots[h].name) == length && memcmp(slots[h].name, name, length) == 0)
            break;
    return &slots[h];
}

/* Adds a row under the name to the hash table. */
static void row_insert(struct row_slot *slots, const char *name, const struct op_row *row)
{
    *slot_of(slots, name, strlen(name)) = (struct row_slot){name, row};
}

/* Returns the hash table of the target. */
static struct row_slot *slots_of(enum gfx_target target)
{
    return row_slots[isa_of(target) - isas];
}

/* Inserts the op rows that name one of `targets` (enum gfx_target bits), and with `gfx9` rows that
 * name no target. A row replaces an earlier one with the same mnemonic. */
static void collect(struct row_slot *slots, unsigned targets, bool gfx9)
{
    for (const struct op_row *const *table = simulator_parts.rows(); *table; table++) {
        for (const struct op_row *row = *table; row->name; row++) {
            const unsigned named = row->flags & ROW_GFX950 ? GFX950 : row->targets;
            if (named & targets || (gfx9 && !named))
                row_insert(slots, row->name, row);
        }
    }
}

/* Inserts gfx950's rows under GFX12's mnemonics. */
static void collect_renamed(struct row_slot *slots)
{
    struct row_slot *const gfx9 = slots_of(GFX950);
    for (const struct row_alias *alias = simulator_parts.aliases; alias->name; alias++) {
        const struct row_slot *from = slot_of(gfx9, alias->row, strlen(alias->row));
        assert(from->row);
        row_insert(slots, alias->name, from->row);
    }
}

/* Fills the hash tables of all targets. */
static void rows_collect(void)
{
    for (unsigned i = 0; i < ISAS; i++)
        if (!isas[i].gfx12)
            collect(row_slots[i], isas[i].target, true);
    for (unsigned i = 0; i < ISAS; i++) {
        if (!isas[i].gfx12)
            continue;
        collect_renamed(row_slots[i]);
        collect(row_slots[i], isas[i].inherits, false);
        for (const char *const *name = isas[i].lacks; name && *name; name++)
            row_insert(row_slots[i], *name, NULL);
        collect(row_slots[i], isas[i].target, false);
    }
}

/* Returns the length of a mnemonic without its suffix for the encoding, such as _e32. */
static size_t base_length(const char *mnemonic)
{
    static const char *const suffixes[] = {"_e32", "_e64_dpp", "_e64", "_dpp", "_sdwa"};
    size_t length = strcspn(mnemonic, " \t\n");
    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
        size_t n = strlen(suffixes[i]);
        if (length > n && memcmp(mnemonic + length - n, suffixes[i], n) == 0)
            return length - n;
    }
    return length;
}

const struct op_row *row_find(enum gfx_target target, const char *mnemonic)
{
    pthread_once(&row_once, rows_collect);
    size_t length = base_length(mnemonic);
    return slot_of(slots_of(target), mnemonic, length)->row;
}

struct code *code_create(enum gfx_target target, const void *bytes_at, size_t bytes, uint64_t va)
{
    pthread_once(&row_once, rows_collect);
    size_t slots = bytes / 4;
    struct code *code = calloc(1, sizeof(*code) + slots * sizeof(code->slots[0]));
    if (!code)
        return NULL;
    code->found = calloc(slots + 1, sizeof(code->found[0]));
    code->target = target;
    code->isa = isa_of(target);
    code->bytes = bytes_at;
    code->size = slots * 4;
    code->va = va;
    if (!code->found || !disassembler_open(code->isa)) {
        free(code->found);
        free(code);
        return NULL;
    }
    pthread_mutex_init(&code->lock, NULL);
    return code;
}

/* Frees an instruction, its variants and the halves of a VOPD. */
static void inst_free(struct inst *in)
{
    while (in) {
        struct inst *next = in->variant;
        free(in->pair[0]);
        free(in->pair[1]);
        straight_free(in->straight);
        free(in);
        in = next;
    }
}

void code_destroy(struct code *code)
{
    if (!code)
        return;
    for (size_t i = 0; i < code->size / 4; i++)
        inst_free(atomic_load_explicit(&code->slots[i], memory_order_relaxed));
    pthread_mutex_destroy(&code->lock);
    free(code->found);
    free(code);
}

/* In found[], bit k records a finding of kind k, and bit SUPPRESSED + k that it is suppressed. */
#define SUPPRESSED 32

/* Returns the mask of findings at a code offset. Offsets outside of the code share one mask. */
static _Atomic uint64_t *found_at(const struct code *code, uint64_t offset)
{
    static_assert(FAULT_KINDS <= SUPPRESSED, "a bit per kind");
    return &code->found[offset / 4 < code->size / 4 ? offset / 4 : code->size / 4];
}

bool code_note(struct code *code, uint64_t offset, enum fault_kind kind, bool suppressed)
{
    const uint64_t bits = UINT64_C(1) << kind | (uint64_t)suppressed << (SUPPRESSED + kind);
    return !(atomic_fetch_or(found_at(code, offset), bits) >> kind & 1);
}

struct code_noted code_noted(const struct code *code, uint64_t offset, enum fault_kind kind)
{
    const uint64_t bits = atomic_load_explicit(found_at(code, offset), memory_order_relaxed);
    return (struct code_noted){
        .any = bits >> kind & 1,
        .suppressed = bits >> (SUPPRESSED + kind) & 1,
    };
}

enum gfx_target code_target(const struct code *code) { return code->target; }

const struct isa *code_isa(const struct code *code) { return code->isa; }

uint64_t code_address(const struct code *code) { return code->va; }

size_t code_size(const struct code *code) { return code->size; }

struct code_slots code_slots(struct code *code)
{
    return (struct code_slots){code->slots, code->size / 4, code->va};
}

/* Reports dwords that are no instruction of the target. */
static void fault_unknown(struct wave *w, const struct inst *in)
{
    wave_fault(w, in, FAULT_DECODE, 0, "these dwords are no instruction of this target");
}

/* Reports an instruction that the simulator does not have. */
static void fault_unsupported(struct wave *w, const struct inst *in)
{
    wave_fault(w, in, FAULT_DECODE, 0, "the simulator has no row for this instruction");
}

/* Returns the bit of MODE that keeps denormals of sources (`bit` 0) or results (`bit` 1) of a type;
 * 0 if MODE does not affect the type. */
static uint8_t denormal_mode(uint16_t type, unsigned bit)
{
    switch (TYPE_CLASS(type)) {
    case CLASS_F32:
    case CLASS_PK_F32: return (uint8_t)(0x10 << bit);
    case CLASS_F16:
    case CLASS_PK_F16:
    case CLASS_F64: return (uint8_t)(0x40 << bit);
    default: return 0;
    }
}

/* True if VOP3P's op_sel and neg change no source. */
static bool packs_nothing(const struct inst *in)
{
    const unsigned all = (1u << in->nsrc) - 1;
    return !in->neg_lo && !in->neg_hi && !in->op_sel && (in->op_sel_hi & all) == all;
}

/* Sets in->plain and the members in->plain_*. Plain instructions execute with defined sources only,
 * so which bits of a source are defined does not matter here. */
static void find_plain(struct inst *in)
{
    const uint32_t flags = in->row->flags;
    const bool vector = in->dst.kind == OPND_VGPR || in->dst.kind == OPND_AGPR;
    const bool compares = in->row->dst == T_MASK && in->dst.kind == OPND_SGPR;
    in->plain = flags & ROW_VALU && in->row->kernel && (vector || compares) &&
                in->dst.dwords <= 2 && in->dst2.kind == OPND_NONE && in->nsrc <= 3 &&
                !(in->form & ~(FORM_LITERAL | FORM_SRC_MODS)) && !(flags & ROW_PARTIAL) &&
                (in->encoding != ENC_VOP3P || packs_nothing(in) || !(flags & ROW_OP_SEL));
    in->plain_packs = in->encoding == ENC_VOP3P && !packs_nothing(in);
    in->plain_mode = flags & ROW_NO_FLUSH ? 0 : denormal_mode(in->row->dst, 1);
    for (unsigned k = 0; k < in->nsrc; k++) {
        const struct opnd *o = &in->src[k];
        in->plain &= o->dwords <= 2 && (o->kind == OPND_SGPR || TYPE_CLASS(o->type) != CLASS_MASK);
        in->plain &= o->kind != OPND_SPECIAL && o->kind != OPND_NONE;
        in->plain_mode |= flags & ROW_NO_FLUSH ? 0 : denormal_mode(o->type, 0);
        in->plain_aside |= opnd_overlap(o, &in->dst) && TYPE_CLASS(in->row->dst) >= CLASS_F16;
    }
}

/* Decodes the instruction at a code offset. `msb` has the upper bits of VGPR numbers on gfx1250.
 * NULL: no memory. */
static struct inst *decode(struct code *code, uint64_t offset, uint8_t msb)
{
    struct inst *in = calloc(1, sizeof(*in));
    if (!in)
        return NULL;
    const struct named named =
        disassembler_find(code->isa, code->bytes + offset, code->size - offset, code->va + offset);
    const size_t size = named.size;
    in->offset = offset;
    in->size = (uint8_t)(size ? size : 4);
    in->ndwords = in->size / 4 < INST_MAX_DWORDS ? in->size / 4 : INST_MAX_DWORDS;
    memcpy(in->raw, code->bytes + offset, (size_t)in->ndwords * 4);
    in->max_vgpr = in->max_agpr = in->max_sgpr = -1;
    in->counter[0] = WAIT_VM;
    in->counter[1] = WAIT_LGKM;
    in->vgpr_msb = msb;
    in->gfx = (uint8_t)code->target;
    in->encoding = ENC_UNKNOWN;
    if (!size) {
        in->exec = fault_unknown;
        return in;
    }
    in->row = named.row;
    if (!in->row) {
        in->exec = fault_unsupported;
        return in;
    }
    in->exec = in->row->exec;
    if (!code->isa->fields(in)) {
        in->row = NULL;
        in->exec = fault_unknown;
        return in;
    }
    for (unsigned i = 0; i < 2 && in->pair[i]; i++)
        checks_decoded(code->target, in->pair[i]);
    find_plain(in);
    simulator_parts.clocks(code->target, in);
    checks_decoded(code->target, in);
    return in;
}

const struct inst *code_inst(struct code *code, uint64_t offset)
{
    if (offset % 4 || offset >= code->size)
        return NULL;
    struct inst *_Atomic *slot = &code->slots[offset / 4];
    struct inst *in = atomic_load_explicit(slot, memory_order_acquire);
    if (in)
        return in;
    pthread_mutex_lock(&code->lock);
    in = atomic_load_explicit(slot, memory_order_relaxed);
    if (!in) {
        in = decode(code, offset, 0);
        atomic_store_explicit(slot, in, memory_order_release);
    }
    pthread_mutex_unlock(&code->lock);
    return in;
}

/* Returns the variant of `in` that is decoded for wave->vgpr_msb = `msb`; NULL if there is none. */
static struct inst *find_variant(const struct inst *in, uint8_t msb)
{
    struct inst *v = __atomic_load_n(&in->variant, __ATOMIC_ACQUIRE);
    while (v && v->vgpr_msb != msb)
        v = v->variant;
    return v;
}

const struct inst *code_variant(struct code *code, const struct inst *in, uint8_t msb)
{
    struct inst *v = find_variant(in, msb);
    if (v)
        return v;
    pthread_mutex_lock(&code->lock);
    v = find_variant(in, msb);
    if (!v && (v = decode(code, in->offset, msb))) {
        v->variant = in->variant;
        __atomic_store_n(&((struct inst *)(uintptr_t)in)->variant, v, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&code->lock);
    return v;
}

const char *code_text(struct code *code, uint64_t offset, char *text, size_t bytes)
{
    snprintf(text, bytes, "<outside of the code>");
    if (offset % 4 || offset >= code->size)
        return text;
    char raw[DISASSEMBLY_MAX] = "";
    size_t size = disassemble(code->isa, code->bytes + offset, code->size - offset,
                              code->va + offset, raw, sizeof(raw));
    snprintf(text, bytes, "%s", size ? raw + strspn(raw, " \t") : "<no instruction>");
    for (char *p = text; *p; p++)
        if (*p == '\t')
            *p = ' ';
    return text;
}
