/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests that the plan kernel compiles for every target without spilling. Results are tested by
 * `attnc verify`.
 */
#include "targets/tgt.h"
#include "tests/templates/kernel.h"

extern const struct att_template att_template_plan;

TEST(it_fits_its_registers)
{
    for (int t = 0; tgt_all[t]; t++) {
        struct att_variant v;
        att_variant_init(&v, &att_template_plan, tgt_all[t]->machine.name);
        compile_kernel(&v, 0);
    }
}

int main(void) { return run_unit_tests(); }
