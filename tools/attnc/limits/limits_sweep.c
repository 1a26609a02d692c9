/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file calls the checks of the templates: for a variant, and for each value of an integer
 * field. A sweep does not try values whose result its neighbours already show. Without that,
 * sweeps take most of the time of a build that changes one template.
 */
#include "tools/attnc/limits/limits_sweep.h"

#include "targets/tgt.h"

uint8_t limits_served;

void limits_set(struct att_variant *v, enum att_field f, int value)
{
    v->loc[f].line = 1; /* marks the field as given, so that it does not follow another field */
    if (att_fields[f].kind == ATT_KIND_FILE)
        att_set_file(v, f, value ? "hook.c" : NULL);
    else
        att_set(v, f, value);
}

uint8_t limits_add_targets(const struct att_variant *v, uint8_t found, struct att_why *why)
{
    for (unsigned i = 0; tgt_all[i]; i++) {
        if ((found | ~limits_served) >> i & 1)
            continue;
        struct att_variant there = *v;
        struct att_why no = {.field = ATT_FIELD_COUNT};
        there.target = tgt_all[i]->machine.name;
        att_variant_resolve(&there);
        if (there.op->check(&there, &tgt_all[i]->machine, why ? &no : NULL))
            found |= (uint8_t)(1 << i);
        else if (why)
            *why = no;
    }
    return found;
}

uint8_t limits_targets(const struct att_variant *v, struct att_why *why)
{
    return limits_add_targets(v, 0, why);
}

/* Returns the targets that compile the variant with its own or any common size in the field
 * `other`. Used for head_dim and head_dim_v, which may differ: bit i for target i of tgt_all. */
static uint8_t targets_of_pair(const struct att_variant *v, enum att_field other)
{
    static const int sizes[] = {64, 128, 192, 256, 320, 512, 576};
    uint8_t found = limits_targets(v, NULL);
    for (int i = 0; i < 7 && found != limits_served && v->op->takes >> other & 1; i++) {
        struct att_variant changed = *v;
        limits_set(&changed, other, sizes[i]);
        found = limits_add_targets(&changed, found, NULL);
    }
    return found;
}

/* A sweep: a variant, its integer field that changes, and `pairs` of limits_sweep(). */
struct sweep {
    const struct att_variant *v;
    enum att_field f;
    bool pairs;
};

/* Returns the targets that compile the sweep's variant with sample i. */
static uint8_t try_sample(const struct sweep *s, int i)
{
    const int value = limits_sample(i);
    if (value < att_fields[s->f].min || value > att_fields[s->f].max)
        return 0;
    struct att_variant changed = *s->v;
    limits_set(&changed, s->f, value);
    if (s->pairs && s->f == ATT_HEAD_DIM)
        return targets_of_pair(&changed, ATT_HEAD_DIM_V);
    if (s->pairs && s->f == ATT_HEAD_DIM_V)
        return targets_of_pair(&changed, ATT_HEAD_DIM);
    return limits_targets(&changed, NULL);
}

/* Fills each step-th entry of has[] from `first` to `last`. If the two samples at the ends agree,
 * those between them are not tried. */
static void try_between(const struct sweep *s, int first, int last, int step,
                        uint8_t has[LIMITS_SAMPLES])
{
    has[first] = try_sample(s, first);
    if (last > first)
        has[last] = try_sample(s, last);
    for (int i = first + step; i < last; i += step)
        has[i] = has[first] == has[last] ? has[first] : try_sample(s, i);
}

/* Tries each sample of the first block. Fills a later block once for each number of low zero bits
 * of an index: such samples are multiples of the same powers of two. Kernels need such multiples,
 * up to some limit, so a block is uniform unless it has the limit. Tries every 16th sample. */
void limits_sweep(const struct att_variant *v, enum att_field f, bool pairs,
                  uint8_t has[LIMITS_SAMPLES])
{
    enum { BLOCK = 64 };
    const struct sweep s = {.v = v, .f = f, .pairs = pairs};
    for (int i = 0; i < LIMITS_SAMPLES; i += i < BLOCK ? 1 : BLOCK)
        has[i] = try_sample(&s, i);
    for (int block = BLOCK; block < LIMITS_SAMPLES; block += BLOCK) {
        const int size = block + BLOCK < LIMITS_SAMPLES ? BLOCK : LIMITS_SAMPLES - block;
        for (int bit = 1; bit < size; bit *= 2) {
            const int steps = (size - 1 - bit) / (2 * bit);
            try_between(&s, block + bit, block + bit + steps * 2 * bit, 2 * bit, has);
        }
    }
}
