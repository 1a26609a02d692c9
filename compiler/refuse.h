/* SPDX-License-Identifier: Apache-2.0
 *
 * Reports variants that the check of their template refuses. A check names only its first
 * objection. The functions here find further errors, which remain however the user corrects the
 * first.
 */
#ifndef COMPILER_REFUSE_H
#define COMPILER_REFUSE_H

#include "compiler/diag.h"
#include "templates/template.h"

struct tir_machine;

/**
 * Reports that `v` is refused for the reason `why`. The message's place is the value of the field
 * that `why` names. Without such a value it is the last given value that another value would fix,
 * else the entry. `together` is true if the entry has a product of lists: a value that is wrong
 * only in combination is then reported with the kernel's name.
 */
void attnc_report_refusal(struct attnc_diag *d, const struct att_variant *v,
                          const struct tir_machine *m, const struct att_why *why, bool together);

/**
 * Reports the errors of `v` that remain whatever values the fields in `wrong` (ATT_BIT() of each)
 * get. Errors of these fields have been reported, so their values in `v` are ignored.
 */
void attnc_report_others(struct attnc_diag *d, const struct att_variant *v,
                         const struct tir_machine *m, att_field_set wrong);

#endif
