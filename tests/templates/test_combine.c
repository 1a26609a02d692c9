/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests every scheme, size and type of combine on every target. Kernels compile into registers that
 * leave room for enough waves. Results are tested by `attnc verify`.
 */
#include "targets/tgt.h"
#include "tests/templates/kernel.h"

#include <string.h>

extern const struct att_template att_template_combine;

TEST(every_size_fits_its_registers)
{
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

/* Launches of few tokens have a kernel whose waves share parts. A wave has two rows of head_dim
 * 128: the workgroups of a launch are at most as many as the compute units. Rows of head_dim 512
 * take two waves, so that it has none. */
TEST(few_tokens_have_a_kernel_whose_waves_share_parts)
{
    static const int schemes[] = {ATT_PARTIALS_CSR, ATT_PARTIALS_DENSE};
    for (int t = 0; tgt_all[t]; t++)
        for (unsigned i = 0; i < 2; i++) {
            const struct tir_machine *const m = &tgt_all[t]->machine;
            struct att_second second;
            struct att_variant v;
            att_variant_init(&v, &att_template_combine, m->name);
            att_set(&v, ATT_HEAD_DIM, 128);
            att_set(&v, ATT_PARTIALS, schemes[i]);
            assert_true(att_template_combine.second(&v, m, 0, &second));
            assert_true(second.calls.rows[0].max <= (int)m->cus);
            assert_string_equal(second.calls.rows[1].arg, "result_rows");
            assert_true(second.calls.rows[1].max / 2 <= (int)m->cus);
            assert_true(second.calls.rows[1].max > (int)m->cus / 2);
            assert_false(att_template_combine.second(&v, m, 1, &second));
            att_set(&v, ATT_TILE, (int)second.tile);
            compile_kernel(&v, 128);
            att_set(&v, ATT_TILE, 0);
            att_set(&v, ATT_PARTIALS, ATT_PARTIALS_PAIR);
            assert_false(att_template_combine.second(&v, m, 0, &second));
        }
    struct att_second second;
    struct att_variant v;
    att_variant_init(&v, &att_template_combine, "gfx942");
    att_set(&v, ATT_HEAD_DIM, 512);
    assert_false(att_template_combine.second(&v, &tgt_all[0]->machine, 0, &second));
}

TEST(unsupported_head_dims_say_why)
{
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

int main(void) { return run_unit_tests(); }
