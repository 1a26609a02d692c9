/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTNC_IR_LINES_H
#define ATTNC_IR_LINES_H

#include <stdint.h>

struct attn_pack;

/** The text between an instruction and its IR op in a listing. */
#define IR_LINE_MARK "  ; "

/** Adds ops of the tile IR to the file `path`, the listing of kernel `n` that attnc trace
 * --annotate writes. Each instruction gets the IR op that it comes from, and that op's line number.
 * The file stays as it is if the kernel was built without -g. Returns an exit_code after a
 * message. */
int add_ir_lines(const struct attn_pack *pack, uint32_t n, const char *path);

#endif
