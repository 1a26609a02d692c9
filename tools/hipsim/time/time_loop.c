/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the hottest loop of a profile and computes its lower bound. */
#include "time_launch.h"

#include "decode.h"
#include "row.h"

/* Returns the clocks that waves spent in the instructions at code offsets `first` to `last`, in
 * bytes, both included. */
static uint64_t range_clocks(const struct time_code *code, uint64_t first, uint64_t last)
{
    uint64_t sum = 0;
    for (uint64_t i = first / 4; i <= last / 4; i++)
        sum += code->lines[i].clocks;
    return sum;
}

/* Returns the instruction at code offset 4 i if it is the backward branch of a loop; otherwise
 * NULL. A branch that is taken in few iterations returns from out-of-line code and closes no
 * loop. */
static const struct inst *back_branch(const struct time_code *code, uint64_t i)
{
    const uint64_t count = code->lines[i].count;
    const struct inst *in = count ? code_inst(code->code, i * 4) : NULL;
    if (!in || !time_is_jump(in) || in->target >= in->offset)
        return NULL;
    const uint64_t rounds = code->lines[in->target / 4].count;
    return rounds < 2 || count < rounds / 2 ? NULL : in;
}

/* True if no loop inside the loop that branch `loop` closes has more iterations. */
static bool is_innermost(const struct time_code *code, const struct inst *loop)
{
    for (uint64_t i = loop->target / 4; i < loop->offset / 4; i++) {
        const struct inst *in = back_branch(code, i);
        if (in && in->target >= loop->target &&
            code->lines[in->target / 4].count > code->lines[loop->target / 4].count)
            return false;
    }
    return true;
}

/* Finds the innermost loop with the most clocks. Sets *first and *last to the code offsets, in
 * bytes, of its first and last instruction. Returns false if there is no loop. */
static bool find_loop(const struct time_code *code, uint64_t *first, uint64_t *last)
{
    uint64_t best = 0, n = code_size(code->code) / 4;
    for (uint64_t i = 0; i < n; i++) {
        const struct inst *in = back_branch(code, i);
        if (!in || !is_innermost(code, in))
            continue;
        uint64_t clocks = range_clocks(code, in->target, in->offset);
        if (clocks <= best)
            continue;
        best = clocks;
        *first = in->target;
        *last = in->offset;
    }
    return best > 0;
}

bool time_hottest_loop(const struct time_code *code, uint64_t waves, struct time_loop *loop)
{
    *loop = (struct time_loop){0};
    if (!waves || !find_loop(code, &loop->first, &loop->last))
        return false;
    /* Counts the executions of the loop's first instruction; some waves may not enter the loop. */
    double iterations = (double)code->lines[loop->first / 4].count;
    double matrix = 0, closed = 0, valu = 0, packed = 0;
    for (uint64_t i = loop->first / 4; i <= loop->last / 4; i++) {
        if (!code->lines[i].count || !code->ops[i])
            continue;
        struct time_mix one = {0};
        time_mix_add(&one, code->ops[i]);
        double weight = (double)code->lines[i].count / iterations;
        matrix += weight * one.matrix;
        closed += weight * one.closed;
        valu += weight * one.valu;
        packed += weight * one.packed_f32;
    }
    loop->iterations = iterations / (double)waves;
    loop->waves = (double)code->lines[loop->first / 4].waves / iterations;
    loop->clocks = (double)range_clocks(code, loop->first, loop->last) / iterations;
    loop->mix = (struct time_mix){
        .matrix = (unsigned)(matrix + 0.5),
        .closed = (unsigned)(closed + 0.5),
        .valu = (unsigned)(valu + 0.5),
        .packed_f32 = (unsigned)(packed + 0.5),
    };
    loop->bound = time_loop_bound(code->p, &loop->mix, loop->waves);
    return true;
}
