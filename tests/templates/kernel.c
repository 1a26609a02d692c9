/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/templates/kernel.h"

#include <stdio.h>
#include <string.h>

struct att_variant variant_of(const struct att_template *op, const char *target,
                              const struct setting *settings)
{
    struct att_variant v;
    att_variant_init(&v, op, target);
    for (int i = 0; settings[i].field || settings[i].value; i++) {
        att_set(&v, settings[i].field, settings[i].value);
        v.loc[settings[i].field].line = 1;
    }
    att_variant_resolve(&v);
    return v;
}

static bool run_by_build(int argc, char **argv, const char *group)
{
    for (int i = 2; i < argc; i++)
        if (strcmp(argv[i], group) == 0)
            return true;
    fprintf(stderr, "the build does not run the group \"%s\"\n", group);
    return false;
}

int run_tests_in(int argc, char **argv, const struct CMUnitTest *tests, const char *const *groups,
                 size_t n)
{
    struct CMUnitTest chosen[UNIT_TESTS_MOST];
    size_t count = 0;
    bool complete = true;
    for (size_t i = 0; i < n; i++) {
        complete &= argc < 2 || run_by_build(argc, argv, groups[i]);
        if (argc < 2 || strcmp(argv[1], groups[i]) == 0)
            chosen[count++] = tests[i];
    }
    if (count == 0)
        fprintf(stderr, "there is no group \"%s\"\n", argc < 2 ? "" : argv[1]);
    return _cmocka_run_group_tests("tests", chosen, count, NULL, NULL) || count == 0 || !complete;
}

static struct attnc_kernel compile(const struct att_variant *v)
{
    static const struct attnc_compile_options options = {.stage = ATTNC_STAGE_LINKED};
    const struct tgt_blob no_hooks = {0};
    struct attnc_kernel k;
    struct att_why reason = {.text = ""};
    char why[ATTNC_WHY] = "";
    if (!v->op->check(v, &tgt_find(v->target)->machine, &reason))
        fail_msg("%s", reason.text);
    if (!attnc_compile(v, &no_hooks, &options, stderr, &k, why))
        fail_msg("%s", why);
    return k;
}

struct attnc_kernel compile_attention(const struct att_variant *v)
{
    const struct attnc_kernel k = compile(v);
    const struct tgt_kernel_facts *const f = &k.facts;
    if (f->vgpr_spills || f->sgpr_spills || f->scratch_bytes)
        fail_msg("%s: %u registers, spills %u VGPR, %u SGPR, %u bytes", k.name, f->vgprs + f->agprs,
                 f->vgpr_spills, f->sgpr_spills, f->scratch_bytes);
    return k;
}

void compile_kernel(const struct att_variant *v, unsigned registers)
{
    struct attnc_kernel k = compile_attention(v);
    const unsigned taken = k.facts.vgprs + k.facts.agprs;
    const bool wide = tgt_find(v->target)->machine.lane_bits == TIR_WAVE_BITS;
    if (wide && registers && taken > registers)
        fail_msg("%s takes %u registers, not at most %u", k.name, taken, registers);
    attnc_kernel_free(&k);
}

unsigned build_or_refuse(const struct att_variant *v)
{
    const struct tir_machine *const m = &tgt_find(v->target)->machine;
    struct att_why why = {.text = ""};
    struct att_kernel k;
    if (!v->op->check(v, m, &why)) {
        assert_true(strlen(why.text) > 10);
        return 0;
    }
    v->op->build(v, m, &k);
    tir_func_destroy(k.func);
    return 1;
}

void expect_refused(const struct att_variant *v, enum att_field field, const char *text)
{
    struct att_why why = {.text = ""};
    assert_false(v->op->check(v, &tgt_find(v->target)->machine, &why));
    assert_int_equal(why.field, field);
    if (!strstr(why.text, text))
        fail_msg("\"%s\" does not say \"%s\"", why.text, text);
}
