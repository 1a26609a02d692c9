/* SPDX-License-Identifier: Apache-2.0
 *
 * Every scheme, size and type of combine on every target: it compiles into registers that leave
 * room for enough waves. Numerics are `attnc verify`'s business.
 */
#include "targets/tgt.h"
#include "tests/templates/kernel.h"

extern const struct att_template att_template_combine;

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
                compile_kernel(&v, 128); /* four waves on a SIMD have 128 registers each */
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
        att_variant_init(&v, &att_template_combine, "gfx942");
        att_set(&v, ATT_HEAD_DIM, odd[i].dim);
        expect_refused(&v, ATT_HEAD_DIM, odd[i].text);
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
