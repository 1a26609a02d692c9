/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_ATTNC_HOT_LOOP_H
#define TOOLS_ATTNC_HOT_LOOP_H

#include <stdio.h>

/**
 * Prints the loop of an annotated disassembly (attnc trace --annotate) in which the kernel spends
 * most of its clocks. The output is one line: NAME, a tab and a JSON list of [share in percent,
 * worst stall, address, instruction], one for each line of the loop. If the kernel was built with
 * -g, the op of the tile IR is a fifth element. Prints nothing if there is no loop.
 */
void print_hot_loop(const char *annotated, const char *name, FILE *out);

#endif
