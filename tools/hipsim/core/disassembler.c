/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One LLVM disassembler per target, with a table of instructions and their mnemonics.
 *
 * Kernels have many equal instructions, and LLVM also prints operands, which the simulator does not
 * need. So the table has mnemonic and length by an instruction's dwords. It has GFX9 instructions
 * only, without scaled matrix instructions, whose length depends on later dwords.
 */
#include "disassembler.h"

#include <llvm-c/Disassembler.h>
#include <llvm-c/Target.h>
#include <pthread.h>
#include <string.h>

#include "decode.h"
#include "inst.h"

/* Codes of operands and opcodes that are tested before LLVM may disassemble the words. */
enum {
    CODE_SDWA = 0xf9,
    CODE_LITERAL = 0xff,
    CODE_VGPR = 0x100,
    V_MADMK_F16 = 0x24,
    V_MADAK_F16 = 0x25, /* opcode in VOP2 */
    V_READLANE = 0x289, /* opcode in VOP3 */
    V_MFMA_16X16_F8F6F4 = 0x3ad,
    V_MFMA_32X32_F8F6F4 = 0x3ae,
    VOP3PX = 0xd3ac, /* first half of a scaled matrix instruction, bits 31:16 */
};

/* An entry of the table: an instruction of one or two dwords. */
struct kept {
    uint32_t w[2]; /* its dwords; w[1] is 0 for instructions of one dword */
    uint32_t size; /* bytes; 0: the entry is free */
    const struct op_row *row;
};

#define KEPT_NAMES 16384u /* entries of a target's table */

/* The disassembler of a target. Locked while LLVM or `kept` is used. */
static struct disassembler {
    pthread_mutex_t lock;
    LLVMDisasmContextRef llvm;
    struct kept kept[KEPT_NAMES]; /* by hash; a new instruction replaces an older one */
} disassemblers[ISAS];
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Initialises LLVM and the locks. */
static void initialise(void)
{
    LLVMInitializeAMDGPUTargetInfo();
    LLVMInitializeAMDGPUTargetMC();
    LLVMInitializeAMDGPUDisassembler();
    for (unsigned i = 0; i < ISAS; i++)
        pthread_mutex_init(&disassemblers[i].lock, NULL);
}

bool disassembler_open(const struct isa *isa)
{
    struct disassembler *d = &disassemblers[isa - isas];
    pthread_once(&once, initialise);
    pthread_mutex_lock(&d->lock);
    /* Without real-true16, LLVM 22 does not decode V_MOV_B16, which later compilers emit. */
    const char *features = isa->gfx12 ? "+real-true16" : "";
    if (!d->llvm)
        d->llvm = LLVMCreateDisasmCPUFeatures("amdgcn-amd-amdhsa", isa->name, features, NULL, 0,
                                              NULL, NULL);
    const bool open = d->llvm != NULL;
    pthread_mutex_unlock(&d->lock);
    return open;
}

/* True for words with reserved SDWA selects (CDNA3 ISA, "SDWA"). LLVM's disassembler takes them for
 * an instruction and then crashes. crashes_llvm() lists the other cases: a literal where the
 * encoding has no room for one or as scalar destination, and *_f8f6f4 sources that are no vector
 * registers. */
static bool reserved_sdwa(const uint32_t *w)
{
    bool vopc = w[0] >> 25 == 0x3e, vop1 = w[0] >> 25 == 0x3f;
    bool dst = (w[1] >> 8 & 7) == 7 || (w[1] >> 11 & 3) == 3;
    return (!vopc && dst) || (w[1] >> 16 & 7) == 7 || (!vop1 && (w[1] >> 24 & 7) == 7);
}

/* True if the VOP3 instruction has operands that crash LLVM's disassembler. */
static bool impossible_vop3(const uint32_t *w)
{
    uint32_t opcode = w[0] >> 16 & 0x3ff, src0 = w[1] & 0x1ff, src1 = w[1] >> 9 & 0x1ff;
    bool scalar_dst = opcode < 0x100 || opcode == V_READLANE;
    bool f8f6f4 = opcode == V_MFMA_16X16_F8F6F4 || opcode == V_MFMA_32X32_F8F6F4;
    if (src0 == CODE_LITERAL || src1 == CODE_LITERAL || (w[1] >> 18 & 0x1ff) == CODE_LITERAL)
        return true;
    return (scalar_dst && (w[0] & 0xff) == CODE_LITERAL) || (f8f6f4 && !(src0 & src1 & CODE_VGPR));
}

/* True if LLVM's disassembler crashes on the dwords. */
static bool crashes_llvm(const uint32_t *w)
{
    if (!(w[0] >> 31))
        return (w[0] & 0x1ff) == CODE_SDWA && reserved_sdwa(w);
    switch (w[0] >> 26) {
    case 0x34: return impossible_vop3(w) || (w[0] >> 16 == VOP3PX && impossible_vop3(w + 2));
    case 0x38:
    case 0x3a: return w[1] >> 24 == CODE_LITERAL; /* soffset of MUBUF and MTBUF */
    default: return false;
    }
}

/* The dwords of an instruction, with room for any literal: LLVM would crash on a literal after the
 * end. */
struct words {
    uint32_t w[INST_MAX_DWORDS + 1];
};

/* Copies dwords from the `left` bytes at `bytes_at` to *to, and fills the rest with zeros. Sets the
 * bits that isa->complete requires. Returns false if LLVM would crash on the dwords of GFX9. The
 * constant 255 of v_madmk_f16 and v_madak_f16 becomes 0 there for the same reason. */
static bool copy_words(const struct isa *isa, const uint8_t *bytes_at, uint64_t left,
                       struct words *to)
{
    uint32_t *w = to->w;
    *to = (struct words){{0}};
    memcpy(w, bytes_at, left < sizeof(to->w) ? left : sizeof(to->w));
    if (isa->complete)
        isa->complete(w);
    if (isa->gfx12)
        return true;
    if (crashes_llvm(w))
        return false;
    if ((w[0] >> 25 == V_MADMK_F16 || w[0] >> 25 == V_MADAK_F16) && w[1] == CODE_LITERAL)
        w[1] = 0;
    return true;
}

/* Disassembles *from to `text`, of `bytes` bytes. The caller has locked `d`. Returns the
 * instruction's length in bytes; 0: LLVM knows no such instruction. */
static size_t call_llvm(struct disassembler *d, struct words *from, uint64_t va, char *text,
                        size_t bytes)
{
    return LLVMDisasmInstruction(d->llvm, (uint8_t *)from->w, sizeof(from->w), va, text, bytes);
}

size_t disassemble(const struct isa *isa, const uint8_t *bytes_at, uint64_t left, uint64_t va,
                   char *text, size_t bytes)
{
    struct disassembler *d = &disassemblers[isa - isas];
    struct words words;
    if (!copy_words(isa, bytes_at, left, &words))
        return 0;
    pthread_mutex_lock(&d->lock);
    const size_t size = call_llvm(d, &words, va, text, bytes);
    pthread_mutex_unlock(&d->lock);
    return size <= left ? size : 0;
}

/* Returns the entry of the table for the instruction of `size` bytes, 4 or 8, at `w`. The entry may
 * have another instruction, or none. */
static struct kept *entry_of(struct disassembler *d, const uint32_t *w, unsigned size)
{
    const uint64_t both = w[0] | (uint64_t)(size == 8 ? w[1] : 0) << 32;
    return &d->kept[(both + size) * UINT64_C(0x9e3779b97f4a7c15) >> 32 & (KEPT_NAMES - 1)];
}

/* Returns the entry that has the instruction at `w`; NULL: the table lacks it. */
static const struct kept *find(struct disassembler *d, const uint32_t *w)
{
    const struct kept *one = entry_of(d, w, 4), *two = entry_of(d, w, 8);
    if (one->size == 4 && one->w[0] == w[0])
        return one;
    return two->size == 8 && two->w[0] == w[0] && two->w[1] == w[1] ? two : NULL;
}

/* Returns the row and the length of the instruction in *words, which LLVM disassembles. Adds them
 * to the table if `keep`. The caller has locked `d`. */
static struct named ask_llvm(struct disassembler *d, const struct isa *isa, struct words *words,
                             uint64_t va, bool keep)
{
    char text[DISASSEMBLY_MAX] = "";
    struct named n = {.size = call_llvm(d, words, va, text, sizeof(text))};
    if (n.size)
        n.row = row_find(isa->target, text + strspn(text, " \t"));
    if (keep && (n.size == 4 || n.size == 8))
        *entry_of(d, words->w, (unsigned)n.size) = (struct kept){
            .w = {words->w[0], n.size == 8 ? words->w[1] : 0},
            .size = (uint32_t)n.size,
            .row = n.row,
        };
    return n;
}

struct named disassembler_find(const struct isa *isa, const uint8_t *bytes_at, uint64_t left,
                               uint64_t va)
{
    struct disassembler *d = &disassemblers[isa - isas];
    struct words words;
    if (!copy_words(isa, bytes_at, left, &words))
        return (struct named){0};
    const bool keep = !isa->gfx12 && words.w[0] >> 16 != VOP3PX;
    pthread_mutex_lock(&d->lock);
    const struct kept *known = keep ? find(d, words.w) : NULL;
    const struct named n =
        known ? (struct named){known->row, known->size} : ask_llvm(d, isa, &words, va, keep);
    pthread_mutex_unlock(&d->lock);
    return n.size <= left ? n : (struct named){0};
}
