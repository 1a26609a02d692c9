/* SPDX-License-Identifier: Apache-2.0
 *
 * This file compiles the kernels of a step. A pack in memory has all kernels that attnc build makes
 * of one dispatch key. So libattn chooses between them as it does with the model's pack.
 */
#include <stdlib.h>
#include <string.h>

#include "compiler/pack_writer.h"
#include "compiler/package.h"
#include "tools/attnc/step/step.h"

/* True if the variant has the value of each field that the call names. */
static bool has_fields(const struct att_variant *v, const struct step_call *call)
{
    for (unsigned i = 0; i < call->field_count; i++) {
        if (att_get(v, call->fields[i].field) != call->fields[i].value)
            return false;
    }
    return true;
}

const struct att_variant *step_find_variant(const struct step_kernels *k, const char *target,
                                            const struct step_call *call)
{
    for (size_t i = 0; i < k->description.count; i++) {
        const struct att_variant *v = &k->description.variants[i];
        if (!strcmp(v->op->name, call->op) && !strcmp(v->target, target) && has_fields(v, call))
            return v;
    }
    return NULL;
}

/* Compiles all kernels of the key of `v` into a pack in memory. *bytes gets the pack's bytes, which
 * the caller frees. Returns NULL with a sentence in `fault` on failure. */
static struct attn_pack *build(struct step_kernels *k, const struct att_variant *v, void **bytes,
                               char fault[200])
{
    struct tune_key key = {.variant = *v};
    struct attnc_description desc = {0};
    struct attnc_build_result built = {0};
    struct attnc_diag d = {.file = "step"};
    struct attnc_pack_writer *w = attnc_pack_writer_create();
    struct attn_pack *pack = NULL;
    size_t size;
    snprintf(fault, 200, "out of memory");
    if (!w || !tune_describe(&key, &k->tuning, &desc))
        goto out;
    if (!attnc_build(&desc, &k->build, &built, &d)) {
        snprintf(fault, 200, "%s", d.count ? d.messages[0].text : "out of memory");
        goto out;
    }
    if (attnc_package(w, &desc, &built) && attnc_pack_writer_finish(w, bytes, &size) &&
        attn_pack_open_memory(*bytes, size, &pack)) {
        snprintf(fault, 200, "%s", attn_last_error());
        pack = NULL;
    }
out:
    attnc_pack_writer_destroy(w);
    attnc_build_result_free(&built);
    attnc_diag_clear(&d);
    attnc_description_free(&desc);
    return pack;
}

struct attn_pack *step_open_kernels(struct step_kernels *k, const struct att_variant *v,
                                    char fault[200])
{
    unsigned i = 0;
    while (i < k->pack_count && !att_variant_same(&k->packs[i].variant, v))
        i++;
    if (i == STEP_PACKS) {
        snprintf(fault, 200, "more than %d kernels", STEP_PACKS);
        return NULL;
    }
    if (i == k->pack_count) {
        k->packs[i].variant = *v;
        k->packs[i].pack = build(k, v, &k->packs[i].bytes, k->packs[i].fault);
        k->pack_count++;
    }
    if (!k->packs[i].pack)
        snprintf(fault, 200, "%s", k->packs[i].fault);
    return k->packs[i].pack;
}

void step_free_kernels(struct step_kernels *k)
{
    for (unsigned i = 0; i < k->pack_count; i++) {
        attn_pack_close(k->packs[i].pack);
        free(k->packs[i].bytes);
    }
    attnc_description_free(&k->description);
    attnc_tuning_free(&k->tuning);
}
