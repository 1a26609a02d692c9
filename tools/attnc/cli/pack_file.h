/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_ATTNC_PACK_FILE_H
#define TOOLS_ATTNC_PACK_FILE_H

#include "runtime/attn.h"

/** Opens a pack that the user named; "-" is standard input. Returns an exit_code after a message
 * with the path. */
int open_pack(const char *path, struct attn_pack **pack);

/** Sets *bytes to the bytes of a pack that open_pack() accepts; the caller frees them. Checks every
 * kernel. Returns an exit_code after a message. */
int read_pack(const char *path, char **bytes);

/** Sets *name to a path under which child processes can read the pack at `path`, which may be "-"
 * or a pipe. *name stays valid until the process ends. Returns an exit_code after a message. */
int pack_for_children(const char *path, const char **name);

/** Returns a pack with only kernel `n` of the pack at `bytes`. The kernel covers all arguments, so
 * that libattn always chooses it. *copy has the new pack's bytes, which the caller frees after
 * closing it. Returns NULL on failure. */
struct attn_pack *isolate_kernel(const void *bytes, uint32_t n, void **copy);

#endif
