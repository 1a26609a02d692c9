/* SPDX-License-Identifier: Apache-2.0 */
/* Analyses the code around a load: whether a compare-and-swap uses the loaded value, and whether
 * the load polls in a loop. Also classifies accesses as atomic. */
#include <string.h>

#include "check_race.h"
#include "check_registers.h"
#include "decode.h"

/* Most instructions from a load to the compare-and-swap that uses its value. */
#define COMPARE_WITHIN 48
#define POLL_WITHIN 48 /* most instructions from a load to the end of its polling loop */

bool race_feeds_compare(const struct launch *l, uint32_t offset)
{
    for (unsigned n = 0; n < COMPARE_WITHIN; n++) {
        const struct inst *in = code_inst(l->code, offset);
        if (!in || !in->row)
            return false;
        if (strstr(in->row->name, "atomic_cmpswap") || strncmp(in->row->name, "ds_cmpst", 8) == 0)
            return true;
        offset += in->size;
    }
    return false;
}

/* True for operations on lane masks. A polling loop may pass these between iterations: they are the
 * lanes that still wait. */
static bool combines_masks(const struct inst *in)
{
    static const char *const names[] = {"s_and", "s_or", "s_xor", "s_andn2", "s_orn2"};
    for (unsigned i = 0; i < sizeof(names) / sizeof(*names) && in->row->flags & ROW_SALU; i++)
        if (strncmp(in->row->name, names[i], strlen(names[i])) == 0 && in->dst.dwords == 2)
            return true;
    return false;
}

/* True if the loop between code offsets `first` and `last` stores nothing, and passes only lane
 * masks between iterations. */
static bool only_polls(const struct launch *l, uint32_t first, uint32_t last)
{
    struct registers written = {0}, fresh = {0};
    const struct inst *in;
    for (uint32_t at = first; at <= last; at += in->size) {
        in = code_inst(l->code, at);
        if (!in || !in->row || in->row->flags & ROW_STORE || registers_relative(in))
            return false;
        if (combines_masks(in))
            continue;
        registers_of(&written, &in->dst, REGISTERS_ADD);
        registers_of(&written, &in->dst2, REGISTERS_ADD);
    }
    for (uint32_t at = first; at <= last; at += in->size) {
        in = code_inst(l->code, at);
        for (unsigned i = 0; i < in->nsrc; i++) {
            struct registers own = {0};
            registers_of(&own, &in->src[i], REGISTERS_ADD);
            for (unsigned k = 0; k < sizeof(own.bits) / sizeof(*own.bits); k++)
                if (own.bits[k] & written.bits[k] & ~fresh.bits[k])
                    return false;
        }
        registers_of(&fresh, &in->dst, REGISTERS_ADD);
        registers_of(&fresh, &in->dst2, REGISTERS_ADD);
    }
    return true;
}

/* True if the load polls, as check_race.h says. The load may be before the loop, since compilers
 * peel the first iteration. */
bool race_polls(const struct launch *l, uint32_t offset)
{
    const struct inst *load = code_inst(l->code, offset), *again = load;
    uint32_t at = offset;
    for (unsigned n = 0; n < POLL_WITHIN; n++) {
        const struct inst *in = code_inst(l->code, at);
        if (!in || !in->row)
            return false;
        if (in->row == load->row && in->dst.reg == load->dst.reg)
            again = in;
        if (in->row->flags & ROW_BRANCH && in->target <= again->offset)
            return only_polls(l, (uint32_t)in->target, at);
        at += in->size;
    }
    return false;
}

bool race_swaps(const struct inst *in)
{
    const char *name = in->row->name;
    return strstr(name, "cmpst") || strstr(name, "xchg") || strstr(name, "swap");
}

bool race_is_atomic(const struct inst *in, const struct lane_mem *m, enum mem_direction direction)
{
    const bool scoped = !(in->row->flags & (ROW_LDS | (m->space == MEM_LDS ? ROW_LDS_DMA : 0)));
    return direction == MEM_MODIFY || (scoped && (in->sc0 || in->sc1));
}
