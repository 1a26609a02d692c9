/* SPDX-License-Identifier: Apache-2.0
 *
 * Shares out the shapes of a pack's kernels among targets and among kernels of an op.
 */
#include "tools/attnc/cli/turns.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/attn.h"

/* A kernel of the pack and its twins. */
struct kernel {
    struct attn_kernel_info info;
    size_t prefix; /* characters of the name before the target */
    size_t first;  /* number of the first of its twins in the pack, itself included */
    size_t before; /* twins that precede it in the pack */
    size_t twins;  /* of the first of twins: their number, itself included */
};

/* Returns the characters of a kernel's name before its target; all, if the target is not in it. */
static size_t prefix_of(const struct attn_kernel_info *info)
{
    const char *last = NULL;
    for (const char *at = info->name; (at = strstr(at, info->target)) && *at; at++)
        last = at;
    return last ? (size_t)(last - info->name) : strlen(info->name);
}

/* Returns the rest of a kernel's name after its target. */
static const char *suffix_of(const struct kernel *k)
{
    const char *rest = k->info.name + k->prefix;
    return *rest ? rest + strlen(k->info.target) : rest;
}

/* True if the kernels are twins. */
static bool are_twins(const struct kernel *a, const struct kernel *b)
{
    return !strcmp(a->info.op, b->info.op) && a->prefix == b->prefix &&
           !memcmp(a->info.name, b->info.name, a->prefix) && !strcmp(suffix_of(a), suffix_of(b));
}

/* Describes kernel `n`, and counts it among its twins. */
static void add_kernel(struct kernel *kernels, uint32_t n, const struct attn_pack *pack)
{
    struct kernel *k = &kernels[n];
    k->info = (struct attn_kernel_info){.size = sizeof(k->info)};
    if (attn_pack_kernel(pack, n, &k->info))
        k->info.op = k->info.name = k->info.target = "";
    k->prefix = prefix_of(&k->info);
    while (!are_twins(&kernels[k->first], k))
        k->first++;
    k->before = kernels[k->first].twins++;
}

/* Returns the number of targets of `count` kernels. */
static size_t count_targets(const struct kernel *kernels, size_t count)
{
    size_t targets = 0;
    for (size_t n = 0; n < count; n++) {
        size_t same = 0;
        while (strcmp(kernels[same].info.target, kernels[n].info.target))
            same++;
        targets += same == n;
    }
    return targets;
}

/* Returns the place of kernel `n`: the number of its twins before it, and of sets of as many twins
 * of its op before its own. */
static size_t place_of(const struct kernel *kernels, size_t n)
{
    const struct kernel *own = &kernels[kernels[n].first];
    size_t place = kernels[n].before;
    for (const struct kernel *k = kernels; k < own; k++)
        place += k->twins == own->twins && !strcmp(k->info.op, own->info.op);
    return place;
}

/* Returns the N of one in N shapes for each of `twins` twins. With one in `every` shapes on each of
 * `targets` targets they cover the same part of the shapes, or all. */
static size_t every_of(size_t every, size_t twins, size_t targets)
{
    const size_t share = every * twins / targets, all = every < twins ? every : twins;
    return share > all ? share : all;
}

struct turn *find_turns(const struct attn_pack *pack, size_t every)
{
    const uint32_t count = attn_pack_kernel_count(pack);
    struct turn *turns = calloc((size_t)count + 1, sizeof(*turns));
    struct kernel *kernels = calloc((size_t)count + 1, sizeof(*kernels));
    if (turns && kernels) {
        for (uint32_t n = 0; n < count; n++)
            add_kernel(kernels, n, pack);
        const size_t targets = count_targets(kernels, count);
        for (uint32_t n = 0; n < count; n++)
            turns[n] = (struct turn){
                .every = every_of(every, kernels[kernels[n].first].twins, targets),
                .place = place_of(kernels, n),
            };
    } else {
        free(turns);
        turns = NULL;
    }
    free(kernels);
    return turns;
}
