/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests that the plan kernel compiles for every target without spilling. Results are tested by
 * `attnc verify`.
 */
#include "targets/tgt.h"
#include "tests/templates/kernel.h"

extern const struct att_template att_template_plan;

static void it_fits_its_registers(void **state)
{
    (void)state;
    for (int t = 0; tgt_all[t]; t++) {
        struct att_variant v;
        att_variant_init(&v, &att_template_plan, tgt_all[t]->machine.name);
        compile_kernel(&v, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(it_fits_its_registers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
