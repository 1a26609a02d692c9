/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/second.h"

#include <stdlib.h>

#include "targets/tgt.h"

/* A choice and its boxes in one allocation. */
struct second_choice {
    struct att_choice choice;
    struct att_box calls[1 + ATT_SECOND_ALSO];
};

static void set_choice(struct second_choice *c, const struct att_second *second)
{
    c->calls[0] = second->calls;
    c->choice = (struct att_choice){.boxes = c->calls, .count = 1};
    for (unsigned i = 0; i < ATT_SECOND_ALSO && second->also[i].count; i++)
        c->calls[c->choice.count++] = second->also[i];
}

/* The n-th kernel beside the first one. */
static bool find_second(const struct att_variant *v, unsigned n, struct att_second *second)
{
    const struct tgt *const target = tgt_find(v->target);
    return v->op->second && !v->tile && !v->choice && target &&
           v->op->second(v, &target->machine, n, second);
}

bool attnc_add_seconds(struct attnc_description *desc, struct attnc_diag *d)
{
    struct att_second second;
    size_t count = desc->count;
    for (size_t i = 0; i < desc->count; i++)
        for (unsigned k = 0; find_second(&desc->variants[i], k, &second); k++)
            count++;
    if (count == desc->count)
        return true;
    struct att_variant *const all = malloc(count * sizeof(*all));
    struct second_choice *const choices = calloc(count - desc->count, sizeof(*choices));
    if (!all || !choices) {
        free(all);
        free(choices);
        return attnc_diag_no_memory(d);
    }
    struct second_choice *next = choices;
    size_t n = 0;
    for (size_t i = 0; i < desc->count; i++) {
        all[n++] = desc->variants[i];
        for (unsigned k = 0; find_second(&desc->variants[i], k, &second); k++) {
            set_choice(next, &second);
            all[n] = desc->variants[i];
            all[n].tile = (int)second.tile;
            all[n++].choice = &next++->choice;
        }
    }
    free(desc->variants);
    free(desc->seconds);
    desc->variants = all;
    desc->seconds = choices;
    desc->count = count;
    return true;
}
