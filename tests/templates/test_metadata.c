/* SPDX-License-Identifier: Apache-2.0
 *
 * Every metadata kernel compiles for every target without spilling. Its integers are
 * `attnc verify`'s business.
 */
#include "compiler/pipeline.h"
#include "templates/template.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

extern const struct att_template att_template_metadata;

static void every_kind_fits_its_registers(void **state)
{
    (void)state;
    static const struct attnc_compile_options options = {.stage = ATTNC_STAGE_LINKED};
    const int kinds = att_fields[ATT_METADATA].value_count;
    for (int t = 0; tgt_all[t]; t++)
        for (int kind = 0; kind < kinds; kind++) {
            const struct tgt_blob no_hooks = {0};
            struct attnc_kernel k;
            struct att_variant v;
            char why[ATTNC_WHY] = "";
            att_variant_init(&v, &att_template_metadata, tgt_all[t]->machine.name);
            att_set(&v, ATT_METADATA, kind);
            if (!attnc_compile(&v, &no_hooks, &options, stderr, &k, why))
                fail_msg("%s", why);
            const struct tgt_kernel_facts *f = &k.facts;
            if (f->vgpr_spills || f->sgpr_spills || f->scratch_bytes)
                fail_msg("%s spills: %u VGPR, %u SGPR, %u bytes of scratch", k.name, f->vgpr_spills,
                         f->sgpr_spills, f->scratch_bytes);
            attnc_kernel_free(&k);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_kind_fits_its_registers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
