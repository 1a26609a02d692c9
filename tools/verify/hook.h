/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares a user's logits function on the host, for the reference. Its source, which
 * attnc build inlined into the kernel, is compiled for this machine.
 */
#ifndef TOOLS_VERIFY_VERIFY_HOOK_H
#define TOOLS_VERIFY_VERIFY_HOOK_H

#include <stddef.h>

#include "tools/reference/attention.h"

/** Number of floats that hook_arg points to in verification. They are random numbers from 0 to
 * 1/8. */
enum { HOOK_FLOATS = 1024 };

struct hook;

/** Compiles DIRECTORY/NAME.c for this machine and loads it. Returns NULL with a sentence in `why`
 * on failure. */
struct hook *hook_open(const char *directory, const char *name, char *why, size_t why_size);
/** Unloads a logits function; NULL is allowed. */
void hook_close(struct hook *hook);

/** Returns a pointer to the loaded logits function, which the reference calls. */
ref_logits *hook_function(const struct hook *hook);

#endif
