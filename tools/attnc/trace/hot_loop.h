/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_ATTNC_HOT_LOOP_H
#define TOOLS_ATTNC_HOT_LOOP_H

#include <stdio.h>

/**
 * Prints the loop of an annotated disassembly (attnc trace --annotate) in which the kernel spends
 * most of its clocks, as NAME, a tab and a JSON list in one line: [share in percent, worst stall,
 * address, instruction] for each line, with the op of the tile IR as a fifth element where the
 * kernel was built with -g. Prints nothing where there is no loop.
 */
void print_hot_loop(const char *annotated, const char *name, FILE *out);

#endif
