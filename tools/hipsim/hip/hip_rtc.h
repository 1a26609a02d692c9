/* SPDX-License-Identifier: Apache-2.0 */
/* The compilation of programs at run time: hiprtc. */
#ifndef HIPSIM_HIP_RTC_H
#define HIPSIM_HIP_RTC_H

#include <stdbool.h>
#include <stddef.h>

#include "code_object.h"

struct rtc_file {
    char *name, *text;
};

struct rtc_name {
    char *expression;
    char *lowered; /* symbol; NULL before the compilation */
};

struct rtc_source {
    struct rtc_file program;
    struct rtc_file *headers;
    size_t nheaders;
    struct rtc_name *names; /* name expressions whose symbols are requested */
    size_t nnames;
};

struct rtc_result {
    char *log; /* at least an empty string; NULL without memory */
    char *code;
    size_t code_size;
};

/** Compiles with Clang in another process. `arch` has the form of --offload-arch. False if that
 * fails; the log then has the reason. The caller frees log and code. */
bool rtc_compile(const struct rtc_source *source, const char *arch, const char *const *options,
                 size_t noptions, struct rtc_result *result);

/** Sets the symbols of the source's name expressions, from the code object for `target` in the
 * `size` bytes at `code`. False if one is missing. */
bool rtc_lower_names(struct rtc_source *source, enum gfx_target target, const char *code,
                     size_t size);

/** Prefix of the names of variables that have the addresses of name expressions; the expression's
 * index is after it. */
#define RTC_NAME_PREFIX "__hipsim_rtc_name_"

#endif
