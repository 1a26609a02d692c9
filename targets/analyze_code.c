/* SPDX-License-Identifier: Apache-2.0
 *
 * Disassembles a function and finds its loops by basic blocks, dominators and natural loops.
 * Kernels have a few dozen basic blocks, so simple algorithms suffice.
 */
#include <llvm-c/Disassembler.h>
#include <llvm-c/Target.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "targets/analyze.h"

/* The functions from here on disassemble code. */

/* Initialises LLVM's disassembler for AMDGPU. */
static void start_disassembler(void)
{
    LLVMInitializeAMDGPUTargetInfo();
    LLVMInitializeAMDGPUTargetMC();
    LLVMInitializeAMDGPUDisassembler();
}

/* True if `text` begins with `prefix`. */
static bool starts(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Sets the members of `inst` about control flow. `word` is its first dword: the low 16 bits of a
 * branch have the target in words from the next instruction on. */
static void read_control_flow(struct tgt_inst *inst, uint32_t word)
{
    const bool always = starts(inst->text, "s_branch"), ends = starts(inst->text, "s_endpgm");
    const bool branches = always || starts(inst->text, "s_cbranch_");
    inst->ends_block = branches || ends;
    inst->falls_through = !always && !ends;
    inst->target = branches ? (int64_t)inst->offset + 4 + (int16_t)(word & 0xffff) * 4 : -1;
}

/* Sets inst->text to `text` without leading blanks and with spaces for tabs. */
static void copy_text(struct tgt_inst *inst, const char *text)
{
    size_t n = 0;
    while (*text == ' ' || *text == '\t')
        text++;
    for (; *text && n + 1 < sizeof(inst->text); text++)
        inst->text[n++] = *text == '\t' ? ' ' : *text;
    inst->text[n] = 0;
}

bool tgt_disassemble(const uint8_t *code, size_t size, const struct tgt *t, struct tgt_code *out,
                     char why[TGT_WHY])
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, start_disassembler);

    LLVMDisasmContextRef dc =
        LLVMCreateDisasmCPU("amdgcn-amd-amdhsa", t->machine.name, NULL, 0, NULL, NULL);
    struct tgt_inst *insts = calloc(size / 4 + 1, sizeof(*insts));
    size_t n = 0, at = 0;
    bool ok = dc && insts;
    if (!ok)
        snprintf(why, TGT_WHY, "no disassembler for %s, or no memory", t->machine.name);

    while (ok && at + 4 <= size) {
        char text[256];
        uint32_t word;
        size_t bytes = LLVMDisasmInstruction(dc, (uint8_t *)(uintptr_t)code + at, size - at, at,
                                             text, sizeof(text));
        ok = bytes > 0;
        if (!ok) {
            snprintf(why, TGT_WHY, "no instruction at byte %zu", at);
            break;
        }
        insts[n] = (struct tgt_inst){.offset = (uint32_t)at, .size = (uint32_t)bytes};
        memcpy(&word, code + at, sizeof(word));
        copy_text(&insts[n], text);
        read_control_flow(&insts[n], word);
        n++;
        at += bytes;
    }
    if (dc)
        LLVMDisasmDispose(dc);
    if (ok)
        *out = (struct tgt_code){insts, n};
    else
        free(insts);
    return ok;
}

/* The functions from here on find loops in disassembled code. */

/* A basic block: instructions `first` to `end` - 1. */
struct block {
    size_t first, end;
    int next[2];   /* numbers of the successors; -1: none */
    int dominator; /* number of the immediate dominator; -1: the block is unreachable */
};

/* The control flow of a function. */
struct graph {
    struct block *blocks; /* by address; number 0 is the entry */
    int count;
    bool *in_loop; /* a flag per block, true for the blocks that collect_loop() has found */
    int *stack;    /* memory of collect_loop(): numbers of blocks that it visits next */
};

ptrdiff_t tgt_inst_at(const struct tgt_code *code, int64_t offset)
{
    size_t low = 0, high = code->count;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if ((int64_t)code->insts[mid].offset < offset)
            low = mid + 1;
        else
            high = mid;
    }
    bool found = low < code->count && (int64_t)code->insts[low].offset == offset;
    return found ? (ptrdiff_t)low : -1;
}

/* Returns the number of the basic block that contains instruction number `inst`, or -1. */
static int block_of(const struct graph *g, size_t inst)
{
    for (int i = 0; i < g->count; i++)
        if (inst >= g->blocks[i].first && inst < g->blocks[i].end)
            return i;
    return -1;
}

/* Divides the code into basic blocks, which begin at branch targets and after branches. Returns
 * false if memory is exhausted. */
static bool split_blocks(const struct tgt_code *code, struct graph *g)
{
    bool *starts = calloc(code->count + 1, sizeof(*starts));
    if (!starts)
        return false;
    int count = 0;
    starts[0] = true;
    for (size_t i = 0; i < code->count; i++) {
        ptrdiff_t target = tgt_inst_at(code, code->insts[i].target);
        if (target >= 0)
            starts[target] = true;
        if (code->insts[i].ends_block)
            starts[i + 1] = true;
    }
    for (size_t i = 0; i < code->count; i++)
        count += starts[i];

    g->blocks = calloc((size_t)count + 1, sizeof(*g->blocks));
    g->in_loop = calloc((size_t)count + 1, sizeof(*g->in_loop));
    g->stack = calloc((size_t)count + 1, sizeof(*g->stack));
    for (size_t i = 0; g->blocks && i < code->count; i++) {
        if (starts[i])
            g->blocks[g->count++] = (struct block){.first = i};
        g->blocks[g->count - 1].end = i + 1;
    }
    free(starts);
    return g->blocks && g->in_loop && g->stack;
}

/* Sets the successors of each basic block. */
static void link_blocks(const struct tgt_code *code, struct graph *g)
{
    for (int i = 0; i < g->count; i++) {
        struct block *b = &g->blocks[i];
        const struct tgt_inst *last = &code->insts[b->end - 1];
        ptrdiff_t target = tgt_inst_at(code, last->target);
        b->next[0] = last->falls_through && i + 1 < g->count ? i + 1 : -1;
        b->next[1] = target >= 0 ? block_of(g, (size_t)target) : -1;
        b->dominator = -1;
    }
}

/* True if block `a` is on every path from the entry to block `b`. */
static bool dominates(const struct graph *g, int a, int b)
{
    while (b != a && b > 0)
        b = g->blocks[b].dominator;
    return b == a;
}

/* Returns the nearest common dominator of two reachable blocks. */
static int common_dominator(const struct graph *g, int a, int b)
{
    while (!dominates(g, a, b))
        a = g->blocks[a].dominator;
    return a;
}

/* Sets the immediate dominator of each block, by iteration until nothing changes. */
static void find_dominators(struct graph *g)
{
    bool changed = g->count > 0;
    while (changed) {
        changed = false;
        for (int from = 0; from < g->count; from++) {
            if (from != 0 && g->blocks[from].dominator < 0)
                continue;
            for (int k = 0; k < 2; k++) {
                int to = g->blocks[from].next[k];
                if (to <= 0)
                    continue;
                int old = g->blocks[to].dominator;
                int now = old < 0 ? from : common_dominator(g, old, from);
                changed |= now != old;
                g->blocks[to].dominator = now;
            }
        }
    }
}

/* True if block `to` is a successor of `b`. */
static bool goes_to(const struct block *b, int to) { return b->next[0] == to || b->next[1] == to; }

/* Flags in g->in_loop the blocks of the natural loop with the back edge `latch` -> `head`: those
 * from which the latch is reachable without passing the head. */
static void collect_loop(struct graph *g, int head, int latch)
{
    int depth = 0;
    memset(g->in_loop, 0, (size_t)g->count * sizeof(*g->in_loop));
    g->in_loop[head] = true;
    if (!g->in_loop[latch])
        g->stack[depth++] = latch;
    g->in_loop[latch] = true;
    while (depth > 0) {
        int b = g->stack[--depth];
        for (int p = 0; p < g->count; p++) {
            bool reached = p == 0 || g->blocks[p].dominator >= 0;
            if (!g->in_loop[p] && reached && goes_to(&g->blocks[p], b)) {
                g->in_loop[p] = true;
                g->stack[depth++] = p;
            }
        }
    }
}

/* Returns the number of matrix instructions in a range. */
static size_t count_matrix(const struct tgt_code *code, struct tgt_range r)
{
    size_t n = 0;
    for (size_t i = r.first; i < r.end; i++)
        n += tgt_is_product(code->insts[i].text);
    return n;
}

/* Returns the latch of the loop with header `head`: the last block by address that branches to
 * `head` and is dominated by it. Returns -1 if there is none. LLVM may place the latch before the
 * head. */
static int latch_of(const struct graph *g, int head)
{
    for (int b = g->count - 1; b >= 0; b--) {
        bool reached = b == 0 || g->blocks[b].dominator >= 0;
        if (reached && goes_to(&g->blocks[b], head) && dominates(g, head, b))
            return b;
    }
    return -1;
}

/* A loop: its header `head`, and its contiguous hot blocks `first` to `last` by address. */
struct loop {
    int head, first, last;
    struct tgt_range range; /* instructions of blocks `first` to `last` */
    size_t matrix;          /* number of matrix instructions in the range */
};

/* True if block `b` branches to a block of g->in_loop whose number is at most `head`. */
static bool goes_back(const struct graph *g, int b, int head)
{
    for (int k = 0; k < 2; k++) {
        const int to = g->blocks[b].next[k];
        if (to >= 0 && to <= head && g->in_loop[to])
            return true;
    }
    return false;
}

/* Returns the contiguous hot blocks of the loop with these head and latch, whose blocks are flagged
 * in g->in_loop. If the latch is after the head, they are `head` to `latch`. If it is before the
 * head, they begin with the first adjacent flagged block. They then end with the last adjacent
 * block that branches to the head or a block before it. */
static struct loop extent_of(const struct tgt_code *code, const struct graph *g, int head,
                             int latch)
{
    struct loop l = {.head = head, .first = head, .last = latch};
    if (latch < head) {
        while (l.first > 0 && g->in_loop[l.first - 1])
            l.first--;
        l.last = head;
        for (int b = head; b < g->count && g->in_loop[b]; b++)
            if (goes_back(g, b, head))
                l.last = b;
    }
    l.range = (struct tgt_range){g->blocks[l.first].first, g->blocks[l.last].end};
    l.matrix = count_matrix(code, l.range);
    return l;
}

/* True if loop number `outer` of `n` contains another loop with at least `least` matrix
 * instructions. */
static bool holds_another(const struct graph *g, const struct loop *loops, int n, int outer,
                          size_t least)
{
    const struct loop *const o = &loops[outer];
    for (int i = 0; i < n; i++) {
        const struct loop *const inner = &loops[i];
        if (i != outer && inner->first >= o->first && inner->last <= o->last &&
            dominates(g, o->head, inner->head) && inner->matrix >= least)
            return true;
    }
    return false;
}

/* Sets *best to the range of the innermost loop with the most matrix instructions; among equals it
 * is the longest. Returns false if there is no loop. */
static bool choose_loop(const struct tgt_code *code, struct graph *g, struct tgt_range *best)
{
    struct loop *const loops = calloc((size_t)g->count, sizeof(*loops));
    size_t most = 0, longest = 0;
    int n = 0;
    for (int head = 0; loops && head < g->count; head++) {
        const int latch = latch_of(g, head);
        if (latch < 0)
            continue;
        collect_loop(g, head, latch);
        loops[n++] = extent_of(code, g, head, latch);
    }
    for (int i = 0; i < n; i++) {
        const size_t matrix = loops[i].matrix, length = loops[i].range.end - loops[i].range.first;
        const bool better = matrix > most || (matrix == most && length > longest);
        if (!better || holds_another(g, loops, n, i, matrix ? 1 : 0))
            continue;
        most = matrix;
        longest = length;
        *best = loops[i].range;
    }
    free(loops);
    return longest > 0;
}

bool tgt_find_hot_loop(const struct tgt_code *code, struct tgt_range *loop)
{
    struct graph g = {0};
    bool found = code->count > 0 && split_blocks(code, &g);
    if (found) {
        link_blocks(code, &g);
        find_dominators(&g);
        found = choose_loop(code, &g, loop);
    }
    free(g.blocks);
    free(g.in_loop);
    free(g.stack);
    return found;
}
