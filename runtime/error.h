/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares how a failure is noted for attn_last_error(). All return their status. */
#ifndef ATTN_ERROR_H
#define ATTN_ERROR_H

#include "runtime/attn.h"

/* A formatted sentence. Not on the launch path. */
int attn_fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A formatted subject and what errno says of it: ATTN_NO_MEMORY or ATTN_IO. */
int attn_fail_errno(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A constant sentence: two stores, so a launch may use it. */
int attn_fail_fixed(int status, const char *sentence) __attribute__((cold));

/*
 * "call: name", put together when it is asked for. Both strings are kept by reference: they are
 * constants of this library and of HIP.
 */
int attn_fail_call(int status, const char *call, const char *name);

#endif
