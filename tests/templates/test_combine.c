/* SPDX-License-Identifier: Apache-2.0
 *
 * Every scheme, size and type of combine on every target: it compiles into registers that leave
 * room for enough waves. Numerics are `attnc verify`'s business.
 */
#include "compiler/pipeline.h"
#include "templates/template.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

extern const struct att_template att_template_combine;

static void check_kernel(const struct att_variant *v)
{
    static const struct attnc_compile_options options = {.stage = ATTNC_STAGE_LINKED};
    const struct tgt_blob no_hooks = {0};
    struct attnc_kernel k;
    char why[ATTNC_WHY] = "";
    struct att_why reason;
    if (!v->op->check(v, &tgt_find(v->target)->machine, &reason))
        fail_msg("%s", reason.text);
    if (!attnc_compile(v, &no_hooks, &options, stderr, &k, why))
        fail_msg("%s", why);
    const struct tgt_kernel_facts *f = &k.facts;
    if (f->vgpr_spills || f->sgpr_spills || f->scratch_bytes)
        fail_msg("%s spills: %u VGPR, %u SGPR, %u bytes of scratch", k.name, f->vgpr_spills,
                 f->sgpr_spills, f->scratch_bytes);
    if (f->vgprs + f->agprs > 128)
        fail_msg("%s takes %u registers: four waves a SIMD have 128 each", k.name,
                 f->vgprs + f->agprs);
    attnc_kernel_free(&k);
}

static void every_size_fits_its_registers(void **state)
{
    (void)state;
    static const int dims[] = {32, 64, 128, 256, 512, 48, 72, 80, 96, 112, 160, 192, 320, 384};
    for (int t = 0; tgt_all[t]; t++)
        for (unsigned d = 0; d < sizeof(dims) / sizeof(dims[0]); d++)
            for (int scheme = ATT_PARTIALS_CSR; scheme <= ATT_PARTIALS_PAIR; scheme++) {
                const int dim = dims[d];
                struct att_variant v;
                att_variant_init(&v, &att_template_combine, tgt_all[t]->machine.name);
                att_set(&v, ATT_HEAD_DIM, dim);
                att_set(&v, ATT_PARTIALS, scheme);
                att_set(&v, ATT_DTYPE, dim == 64 ? ATT_DTYPE_FP16 : ATT_DTYPE_BF16);
                att_set(&v, ATT_OUT_DTYPE,
                        dim == 256 || dim == 192 ? ATT_OUT_DTYPE_FP8 : ATT_OUT_DTYPE_SAME);
                check_kernel(&v);
            }
}

static void unsupported_head_dims_say_why(void **state)
{
    (void)state;
    static const struct {
        int dim;
        const char *text;
    } odd[] = {{16, "is not a multiple of 8 from 32 to 512"},
               {68, "is not a multiple of 8 from 32 to 512"},
               {1024, "is not a multiple of 8 from 32 to 512"}};
    for (unsigned i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        struct att_variant v;
        struct att_why why = {.text = ""};
        att_variant_init(&v, &att_template_combine, "gfx942");
        att_set(&v, ATT_HEAD_DIM, odd[i].dim);
        assert_false(v.op->check(&v, &tgt_find("gfx942")->machine, &why));
        assert_int_equal(why.field, ATT_HEAD_DIM);
        assert_non_null(strstr(why.text, odd[i].text));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_fits_its_registers),
        cmocka_unit_test(unsupported_head_dims_say_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
