/* SPDX-License-Identifier: Apache-2.0
 *
 * Reports kernels that a template refuses. A template names only its first objection; this finds
 * further errors that do not depend on how the first is corrected.
 */
#ifndef COMPILER_REFUSE_H
#define COMPILER_REFUSE_H

#include "compiler/diag.h"
#include "templates/template.h"

struct tir_machine;

/**
 * Reports the refusal of `v` at the wrong value: the one that the template names, or the last given
 * value that could be changed to fix it, or the entry. If the value is wrong only in combination
 * with others, `together` (a product of lists) adds the kernel's name.
 */
void attnc_report_refusal(struct attnc_diag *d, const struct att_variant *v,
                          const struct tir_machine *m, const struct att_why *why, bool together);

/**
 * Reports the errors of `v` that remain for all values of the fields in `wrong` (ATT_BIT() of
 * each). Those fields have been reported, so their values in `v` are ignored.
 */
void attnc_report_others(struct attnc_diag *d, const struct att_variant *v,
                         const struct tir_machine *m, att_field_set wrong);

#endif
