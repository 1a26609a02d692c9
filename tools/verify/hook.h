/* SPDX-License-Identifier: Apache-2.0
 *
 * A user's logits function on the host, for the reference: the same file that attnc build inlined
 * into the kernel, compiled for this machine.
 */
#ifndef TOOLS_VERIFY_VERIFY_HOOK_H
#define TOOLS_VERIFY_VERIFY_HOOK_H

#include <stddef.h>

#include "tools/reference/attention.h"

/** Number of floats in the hook_arg of verification. They are random, in 0 to 1/8. */
enum { HOOK_FLOATS = 1024 };

struct hook;

/** Compiles DIRECTORY/NAME.c for this machine and loads it. Returns NULL with a sentence in `why`
 * on failure. */
struct hook *hook_open(const char *directory, const char *name, char *why, size_t why_size);
/** Unloads a logits function; NULL is allowed. */
void hook_close(struct hook *hook);

/** Returns the logits function as the reference calls it. */
ref_logits *hook_function(const struct hook *hook);

#endif
