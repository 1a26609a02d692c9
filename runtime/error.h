/* SPDX-License-Identifier: Apache-2.0 */
/* Records failures for attn_last_error(). All functions return their status. */
#ifndef ATTN_ERROR_H
#define ATTN_ERROR_H

#include "runtime/attn.h"

/* Records a formatted sentence. Not for the launch path. */
int attn_fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Records "subject: text of `error`", an errno number. Returns ATTN_NO_MEMORY for ENOMEM, else
 * ATTN_IO. */
int attn_fail_errno(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Records a constant sentence. Two stores, so the launch path may call it. */
int attn_fail_fixed(int status, const char *sentence) __attribute__((cold));

/*
 * Records the sentence "subject predicate", which attn_last_error() joins. Both strings are
 * constants. Three stores, so the launch path may call it.
 */
int attn_fail_about(int status, const char *subject, const char *predicate) __attribute__((cold));

/*
 * Records "call: name", which attn_last_error() formats. Both strings are kept by reference: they
 * are constants of this library and of HIP.
 */
int attn_fail_call(int status, const char *call, const char *name);

#endif
