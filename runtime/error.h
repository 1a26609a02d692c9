/* SPDX-License-Identifier: Apache-2.0 */
/* Records the message of a failure for attn_last_error(). Functions with a parameter `status`
 * return it. */
#ifndef ATTN_ERROR_H
#define ATTN_ERROR_H

#include "runtime/attn.h"

/* Records a formatted sentence. Launches must not call it, since formatting takes long. */
int attn_fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Records the formatted text, ": ", and the text of the errno `error`. Returns ATTN_NO_MEMORY for
 * ENOMEM, else ATTN_IO. */
int attn_fail_errno(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Records a constant sentence by reference. Launches may call it, since it takes two stores. */
int attn_fail_fixed(int status, const char *sentence) __attribute__((cold));

/*
 * Records the sentence "subject predicate", whose two constant strings attn_last_error() joins.
 * Launches may call it, since it takes three stores.
 */
int attn_fail_about(int status, const char *subject, const char *predicate) __attribute__((cold));

/*
 * Records "call: name", a HIP function and the name of its error, which attn_last_error() formats.
 * Both strings are kept by reference: they are constants of this library and of HIP.
 */
int attn_fail_call(int status, const char *call, const char *name);

#endif
