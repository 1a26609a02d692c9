/* SPDX-License-Identifier: Apache-2.0 */
/* Stores each thread's last error message; names statuses; returns the library's version. */
#include "runtime/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The message of this thread's last failure. It is `text` if `fixed` is NULL; otherwise
 * attn_last_error() joins `fixed` and `name`, which may be NULL, by `between`. */
static _Thread_local struct {
    const char *fixed;
    const char *name;
    const char *between;
    char text[768];
} last;

int attn_fail(int status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(last.text, sizeof(last.text), format, args);
    va_end(args);
    last.fixed = NULL;
    return status;
}

int attn_fail_errno(int error, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int used = vsnprintf(last.text, sizeof(last.text), format, args);
    va_end(args);
    if (used >= 0 && (size_t)used < sizeof(last.text))
        snprintf(last.text + used, sizeof(last.text) - (size_t)used, ": %s", strerror(error));
    last.fixed = NULL;
    return error == ENOMEM ? ATTN_NO_MEMORY : ATTN_IO;
}

int attn_fail_fixed(int status, const char *sentence)
{
    last.fixed = sentence;
    last.name = NULL;
    return status;
}

int attn_fail_about(int status, const char *subject, const char *predicate)
{
    last.fixed = subject;
    last.name = predicate;
    last.between = " ";
    return status;
}

int attn_fail_call(int status, const char *call, const char *name)
{
    last.fixed = call;
    last.name = name;
    last.between = ": ";
    return status;
}

ATTN_PUBLIC const char *attn_last_error(void)
{
    if (!last.fixed)
        return last.text;
    if (!last.name)
        return last.fixed;
    snprintf(last.text, sizeof(last.text), "%s%s%s", last.fixed, last.between, last.name);
    last.fixed = NULL;
    return last.text;
}

ATTN_PUBLIC const char *attn_status_name(int status)
{
#define ROW(name) \
    case name: return #name
    switch (status) {
        ROW(ATTN_OK);
        ROW(ATTN_BAD_ARGUMENT);
        ROW(ATTN_NO_MEMORY);
        ROW(ATTN_IO);
        ROW(ATTN_BAD_PACK);
        ROW(ATTN_PACK_VERSION_UNKNOWN);
        ROW(ATTN_NO_KERNEL);
        ROW(ATTN_NO_HIP);
        ROW(ATTN_NO_DEVICE);
        ROW(ATTN_HIP_FAILED);
        ROW(ATTN_NO_DEVICE_MEMORY);
        ROW(ATTN_DEVICE_LOST);
        ROW(ATTN_BAD_DATA);
        ROW(ATTN_FORKED);
    default: return "unknown status";
    }
#undef ROW
}

ATTN_PUBLIC int attn_version(void) { return ATTN_VERSION_MAJOR * 1000 + ATTN_VERSION_MINOR; }
