/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages about kernels that a template refuses. A template names the first thing that is wrong;
 * what is wrong beside it, whatever the first was meant to be, is found here.
 */
#ifndef COMPILER_REFUSE_H
#define COMPILER_REFUSE_H

#include "compiler/diag.h"
#include "templates/template.h"

struct tir_machine;

/**
 * Reports why `v` was refused at the value that is wrong: the one that the template names, or the
 * last one given that could be another, or the entry if there is none. Where a value is wrong
 * only beside the others, `together` (a product of lists) adds the kernel's name.
 */
void attnc_report_refusal(struct attnc_diag *d, const struct att_variant *v,
                          const struct tir_machine *m, const struct att_why *why, bool together);

/**
 * Reports what is wrong with `v` whatever the fields in `wrong` (ATT_BIT() of each) were meant to
 * be. Those have been reported; their values in `v` do not count.
 */
void attnc_report_others(struct attnc_diag *d, const struct att_variant *v,
                         const struct tir_machine *m, uint64_t wrong);

#endif
