/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/compiler/toy.h"

static bool check_toy(const struct att_variant *v, const struct tir_machine *m, struct att_why *why)
{
    if (v->head_dim % 16)
        return att_reject(why, ATT_HEAD_DIM, "head_dim %d is not a multiple of 16", v->head_dim);
    unsigned lds = (unsigned)(v->head_dim + v->head_dim_v) * 128;
    if (lds > m->lds_bytes)
        return att_reject(why, ATT_FIELD_COUNT, "needs %u B of LDS, %s has %u", lds, m->name,
                          m->lds_bytes);
    return true;
}

static bool check_paged(const struct att_variant *v, const struct tir_machine *m,
                        struct att_why *why)
{
    (void)m;
    if (v->page_size & (v->page_size - 1))
        return att_reject(why, ATT_PAGE_SIZE, "page_size %d is not a power of two", v->page_size);
    return true;
}

static const struct att_template toy = {
    .name = "toy",
    .description = "what a prefill takes",
    .takes = ATT_BIT(DTYPE) | ATT_BIT(HEAD_DIM) | ATT_BIT(HEAD_DIM_V) | ATT_BIT(GQA) |
             ATT_BIT(MASK) | ATT_BIT(SINKS) | ATT_BIT(LSE) | ATT_BIT(LOGITS),
    .check = check_toy,
};

static const struct att_template paged = {
    .name = "paged",
    .description = "what a cache takes",
    .takes = ATT_BIT(DTYPE) | ATT_BIT(HEAD_DIM) | ATT_BIT(PAGE_SIZE) | ATT_BIT(KV_DTYPE),
    .check = check_paged,
};

const struct att_template *const toy_templates[] = {&toy, &paged, NULL};
