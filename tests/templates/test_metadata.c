/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests that every metadata kernel compiles for every target without spilling. Results are tested
 * by `attnc verify`.
 */
#include "targets/tgt.h"
#include "tests/templates/kernel.h"

extern const struct att_template att_template_metadata;

TEST(every_kind_fits_its_registers)
{
    const int kinds = att_fields[ATT_METADATA].value_count;
    for (int t = 0; tgt_all[t]; t++)
        for (int kind = 0; kind < kinds; kind++) {
            struct att_variant v;
            att_variant_init(&v, &att_template_metadata, tgt_all[t]->machine.name);
            att_set(&v, ATT_METADATA, kind);
            compile_kernel(&v, 0);
        }
}

int main(void) { return run_unit_tests(); }
