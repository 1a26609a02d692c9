/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_ATTNC_PACK_FILE_H
#define TOOLS_ATTNC_PACK_FILE_H

#include "runtime/attn.h"

/** Opens a pack that the user named; "-" is standard input. Returns an exit_code, after a message
 * with the path. */
int open_pack(const char *path, struct attn_pack **pack);

/** Reads the bytes of a pack that open_pack() has accepted; the caller frees them. Checks every
 * kernel of it. Returns an exit_code after a message. */
int read_pack(const char *path, char **bytes);

/**
 * Sets *name to a path under which child processes can read the pack at `path`, which may be "-"
 * or a pipe. The path lives as long as the process. Returns an exit_code, after a message.
 */
int pack_for_children(const char *path, const char **name);

/** Returns a pack with only kernel n of the pack at `bytes`, which libattn then chooses for any
 * arguments; returns NULL if memory is exhausted. *copy has the new pack's bytes; the caller frees
 * them after closing the pack. */
struct attn_pack *isolate_kernel(const void *bytes, uint32_t n, void **copy);

#endif
