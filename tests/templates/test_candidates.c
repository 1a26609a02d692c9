/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests every tile that a family accepts: it becomes tile IR that all passes accept. Tiles are rows
 * of the family's table, and rows with one knob changed, at head sizes around the rows' own.
 */
#include <stdio.h>
#include <string.h>

#include "ir/passes.h"
#include "tests/templates/kernel.h"

extern const struct att_template att_template_prefill;

static const int dims[][2] = {{64, 64},   {96, 96},   {128, 128}, {192, 128},
                              {256, 256}, {512, 512}, {576, 512}};

/* Fields that an op needs because it refuses their default, and values for them. */
static const struct {
    const char *op;
    enum att_field field;
    int value;
} needed[] = {
    {"rope_decode", ATT_GQA, 8},
    {"gated_delta_step", ATT_GQA, 2},
    {"gated_delta_step", ATT_ACT, ATT_ACT_SILU},
};

/* Runs the passes over the kernel. False if its template refuses the variant. */
static bool lower(const struct att_variant *v)
{
    static const struct tgt_blob no_hooks = {0};
    const struct attnc_compile_options options = {.stage = ATTNC_STAGE_PASSES};
    struct attnc_kernel k;
    char why[ATTNC_WHY] = "";
    struct att_why refused = {.text = ""};
    if (!v->op->check(v, &tgt_find(v->target)->machine, &refused))
        return false;
    if (attnc_compile(v, &no_hooks, &options, NULL, &k, why))
        attnc_kernel_free(&k);
    else if (!strstr(why, "bytes of LDS"))
        fail_msg("%s tile %d, head_dim %d: %s", v->op->name, v->tile, v->head_dim, why);
    return true;
}

static unsigned lower_candidates(const struct att_template *op, const char *target,
                                 const int dim[2])
{
    unsigned lowered = 0;
    struct att_variant v;
    att_variant_init(&v, op, target);
    for (int f = 0; f < ATT_FIELD_COUNT; f++)
        if (op->takes >> f & 1 && att_fields[f].required && att_fields[f].kind == ATT_KIND_INT)
            att_set(&v, (enum att_field)f, dim[0]);
    for (unsigned i = 0; i < sizeof(needed) / sizeof(needed[0]); i++)
        if (strcmp(needed[i].op, op->name) == 0)
            att_set(&v, needed[i].field, needed[i].value);
    if (op->takes & ATT_BIT(HEAD_DIM_V)) {
        att_set(&v, ATT_HEAD_DIM_V, dim[1]);
        v.loc[ATT_HEAD_DIM_V].line = 1;
    }
    att_variant_resolve(&v);
    for (unsigned n = 1; n <= att_count_tiles(op); n++) {
        v.tile = (int)n;
        if (att_count_changed(op, n) <= 1)
            lowered += lower(&v);
    }
    return lowered;
}

/* Lowers an op's candidates of all head dims for a target. */
static unsigned lower_for(const struct att_template *op, const char *target)
{
    unsigned lowered = 0;
    for (unsigned d = 0; d < sizeof(dims) / sizeof(dims[0]); d++)
        lowered += lower_candidates(op, target, dims[d]);
    printf("%s, %s: %u\n", op->name, target, lowered);
    return lowered;
}

/* Lowers an op's candidates for all targets. Fails if no target has any. */
static void lower_op(const struct att_template *op)
{
    unsigned lowered = 0;
    FOR_WIDE_WAVES(t)
    lowered += lower_for(op, tgt_all[t]->machine.name);
    assert_true(lowered > 0);
}

TEST_IN("prefill on gfx942", prefill_of_gfx942_is_lowered)
{
    assert_true(lower_for(&att_template_prefill, "gfx942") > 0);
}

TEST_IN("prefill on gfx950", prefill_of_gfx950_is_lowered)
{
    assert_true(lower_for(&att_template_prefill, "gfx950") > 0);
}

/* True if the op computes attention: prefill or a kind of decode. */
static bool is_attention(const struct att_template *op)
{
    return op == &att_template_prefill || strstr(op->name, "decode");
}

TEST_IN("decode", decode_is_lowered)
{
    for (const struct att_template *const *op = att_templates; *op; op++)
        if (is_attention(*op) && *op != &att_template_prefill)
            lower_op(*op);
}

TEST_IN("other ops", other_ops_are_lowered)
{
    for (const struct att_template *const *op = att_templates; *op; op++)
        if ((*op)->takes & ATT_BIT(TILE) && !is_attention(*op))
            lower_op(*op);
}

int main(int argc, char **argv) { return run_test_group(argc, argv); }
