/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTNC_IR_LINES_H
#define ATTNC_IR_LINES_H

#include <stdint.h>

struct attn_pack;

/** The text between an instruction and its op in a disassembly. */
#define IR_LINE_MARK "  ; "

/**
 * Adds ops of the tile IR to an annotated disassembly (attnc trace --annotate) of kernel `n`. Each
 * line gets the op that its instruction comes from, and the op's line in the kernel's IR. Does
 * not change the file if the kernel was built without -g. Returns an exit code, after a message.
 */
int add_ir_lines(const struct attn_pack *pack, uint32_t n, const char *path);

#endif
