/* SPDX-License-Identifier: Apache-2.0
 *
 * A function call in a child process. HIP does not survive a fork, and a simulator is one GPU for
 * the whole life of its process. A call that crashes or hangs does not harm the caller.
 */
#ifndef TOOLS_ATTNC_CHILD_CALL_H
#define TOOLS_ATTNC_CHILD_CALL_H

#include <stdbool.h>
#include <stddef.h>

struct attn_pack;
struct gpu_identity;

/** Runs `call` in a child process, and copies the `size` bytes that it writes to `answer` to the
 * caller's `answer`. Returns false if `call` returns an exit code other than 0, or if the child
 * dies or is killed after `seconds`. `fault` then has the last line of the child's standard error,
 * or the reason. */
bool child_call(int (*call)(void *context, void *answer), void *context, void *answer, size_t size,
                double seconds, char fault[200]);

/** True if the HIP runtime of this machine has a GPU for the pack; fills *id. Otherwise `why` has
 * libattn's message. */
bool probe_gpu(struct attn_pack *pack, struct gpu_identity *id, char why[200]);

#endif
