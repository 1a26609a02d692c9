/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts the instructions of a loop by kind. The mnemonic decides the kind: the first row of a
 * table with a matching prefix applies.
 */
#include <stdio.h>
#include <string.h>

#include "targets/analyze.h"

enum kind {
    VALU,
    VALU_SLOW, /* quarter rate: products of 32-bit integers */
    TRANS,     /* a transcendental function, such as v_exp_f32 */
    SWAP,      /* v_permlane16_swap and v_permlane32_swap */
    PACKED,    /* an operation on two f32 at once */
    MATRIX,
    MOVE, /* counts as a copy only if it reads a vector register */
    COPY,
    LDS_READ,
    LDS_WRITE,
    LOAD,
    STORE,
    SCRATCH,
    WAIT,
    BARRIER,
    OTHER,
};

/* Kinds by prefix of the mnemonic; the first match applies. */
static const struct {
    const char *prefix;
    enum kind kind;
} kinds[] = {
    {"v_mfma_", MATRIX},
    {"v_smfmac_", MATRIX},
    {"v_wmma_", MATRIX},
    {"v_accvgpr_", COPY},
    {"v_mov_b32_dpp", VALU},
    {"v_mov_b32_sdwa", VALU},
    {"v_mov_b", MOVE},
    {"v_pk_mov_b32", MOVE},
    {"v_pk_add_f32", PACKED},
    {"v_pk_mul_f32", PACKED},
    {"v_pk_fma_f32", PACKED},
    {"v_permlane16_swap", SWAP},
    {"v_permlane32_swap", SWAP},
    {"v_exp_", TRANS},
    {"v_log_", TRANS},
    {"v_rcp_", TRANS},
    {"v_rsq_", TRANS},
    {"v_sqrt_", TRANS},
    {"v_sin_", TRANS},
    {"v_cos_", TRANS},
    {"v_mul_lo_u32", VALU_SLOW},
    {"v_mul_hi_u32", VALU_SLOW},
    {"v_mul_hi_i32", VALU_SLOW},
    {"v_mad_u64_u32", VALU_SLOW},
    {"v_mad_i64_i32", VALU_SLOW},
    {"v_", VALU},
    {"ds_write", LDS_WRITE},
    {"ds_store", LDS_WRITE},
    {"ds_", LDS_READ},
    {"scratch_", SCRATCH},
    {"buffer_load_", LOAD},
    {"global_load_", LOAD},
    {"flat_load_", LOAD},
    {"buffer_store_", STORE},
    {"global_store_", STORE},
    {"flat_store_", STORE},
    {"s_wait", WAIT},
    {"s_barrier", BARRIER},
    {"", OTHER},
};

/* Returns the kind of the instruction with the assembly text `text`. */
static enum kind kind_of(const char *text)
{
    size_t i = 0;
    while (strncmp(text, kinds[i].prefix, strlen(kinds[i].prefix)) != 0)
        i++;
    return kinds[i].kind;
}

/* Returns the first row of the machine's table whose name is the mnemonic of `text` without "v_";
 * NULL: there is none. Rows with the same name and other modifiers have the same cycles. */
static const struct tir_mma *row_of(const char *text, const struct tgt *t)
{
    size_t length = strcspn(text, " ") - 2;
    for (unsigned i = 0; i < t->machine.n_mma; i++) {
        const struct tir_mma *row = &t->machine.mma[i];
        if (strcspn(row->name, " ") == length && strncmp(text + 2, row->name, length) == 0)
            return row;
    }
    return NULL;
}

/* True if a move reads a VGPR or AGPR, as "v_mov_b32_e32 v1, v2" does and "v_mov_b32_e32 v1, s2"
 * does not. */
static bool moves_vector_register(const char *text)
{
    const char *source = strchr(text, ',');
    return source && (strncmp(source, ", v", 3) == 0 || strncmp(source, ", a", 3) == 0);
}

/* True if a load is a direct-to-LDS load, by its assembly text. */
static bool goes_to_lds(const char *load) { return strstr(load, " lds") || strstr(load, "_lds_"); }

const struct tir_mma *tgt_find_product(const char *text, const struct tgt *t, char why[TGT_WHY])
{
    const struct tir_mma *const row = row_of(text, t);
    if (!row)
        snprintf(why, TGT_WHY, "%s has no row for %.*s", t->machine.name, (int)strcspn(text, " "),
                 text);
    return row;
}

bool tgt_is_product(const char *text) { return kind_of(text) == MATRIX; }

bool tgt_is_transcendental(const char *text) { return kind_of(text) == TRANS; }

/* Adds a matrix instruction, with its clocks and shadow, to *f. Returns false with a sentence in
 * `why` if the machine's table lacks it. */
static bool count_matrix(const char *text, const struct tgt *t, struct tgt_loop_facts *f,
                         char why[TGT_WHY])
{
    const struct tir_mma *const row = tgt_find_product(text, t, why);
    if (!row)
        return false;
    f->mfma++;
    f->mfma_cycles += row->cycles;
    f->shadow_slots += row->shadow_slots;
    return true;
}

/* Adds an instruction of kind `kind` to *f; matrix instructions are counted elsewhere. */
static void count_one(const char *text, enum kind kind, const struct tgt *t,
                      struct tgt_loop_facts *f)
{
    switch (kind) {
    case VALU: f->valu_slots++; break;
    case VALU_SLOW: f->valu_slots += 4; break;
    case TRANS:
        f->trans++;
        f->valu_slots += t->machine.exp_slots;
        break;
    case SWAP:
        f->permlane++;
        f->valu_slots += t->machine.swap_slots;
        break;
    case PACKED: f->packed++; break;
    case MOVE:
        f->copies += moves_vector_register(text);
        f->valu_slots++;
        break;
    case COPY:
        f->copies++;
        f->valu_slots++;
        break;
    case LDS_READ: f->lds_reads++; break;
    case LDS_WRITE: f->lds_writes++; break;
    case LOAD: *(goes_to_lds(text) ? &f->loads_to_lds : &f->loads) += 1; break;
    case STORE: f->stores++; break;
    case SCRATCH: f->scratch++; break;
    case WAIT:
        f->waits++;
        f->waits_vm0 += strstr(text, "vmcnt(0)") || strstr(text, "asynccnt 0x0");
        break;
    case BARRIER: f->barriers++; break;
    case MATRIX:
    case OTHER: break;
    }
}

/*
 * True if the instruction `move` only duplicates a value for the instruction `swap`.
 *
 * v_permlane*_swap exchanges halves of two registers. To combine a value with another lane's value,
 * code needs a second register with the same value. The move that makes it is part of the swap and
 * does not count as a copy. `move` is the most recent move of a vector register.
 */
static bool makes_operand_of(const char *move, const char *swap)
{
    char name[16];
    if (sscanf(move, "%*s %15[^,],", name) != 1)
        return false;
    const char *at = strstr(swap, name);
    const char after = at ? at[strlen(name)] : '0';
    return after == ',' || after == '\0' || after == ' ';
}

bool tgt_count(const struct tgt_code *code, struct tgt_range range, const struct tgt *t,
               struct tgt_loop_facts *facts, char why[TGT_WHY])
{
    struct tgt_loop_facts f = {0};
    const char *move = "";
    for (size_t i = range.first; i < range.end; i++) {
        const char *text = code->insts[i].text;
        enum kind kind = kind_of(text);
        f.instructions++;
        if (kind == MATRIX && !count_matrix(text, t, &f, why))
            return false;
        count_one(text, kind, t, &f);
        if (kind == MOVE && moves_vector_register(text))
            move = text;
        if (kind == SWAP && makes_operand_of(move, text)) {
            f.copies--;
            move = "";
        }
    }
    f.start = code->insts[range.first].offset;
    f.end = code->insts[range.end - 1].offset + code->insts[range.end - 1].size;
    *facts = f;
    return true;
}
