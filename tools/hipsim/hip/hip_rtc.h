/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that are compiled as they run: hiprtc. */
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
    char *lowered; /* NULL before compilation */
};

struct rtc_source {
    struct rtc_file program;
    struct rtc_file *headers;
    size_t nheaders;
    struct rtc_name *names; /* whose symbols are asked for */
    size_t nnames;
};

struct rtc_result {
    char *log; /* never NULL: an empty string at least, unless there is no memory */
    char *code;
    size_t code_size;
};

/** Compiles with Clang in a process of its own. `arch` is what --offload-arch takes. False if that
 *  failed; the log says why. Free log and code. */
bool rtc_compile(const struct rtc_source *source, const char *arch, const char *const *options,
                 size_t noptions, struct rtc_result *result);

/** Finds the symbols of the source's name expressions in the code object, which is for `target`.
 *  False if one is not there. */
bool rtc_lower_names(struct rtc_source *source, enum gfx_target target, const char *code,
                     size_t size);

/** The variable that holds the address of name expression `n`. */
#define RTC_NAME_PREFIX "__hipsim_rtc_name_"

#endif
