/* SPDX-License-Identifier: Apache-2.0
 *
 * HTML pages that consist of one file: each has its data as JSON, and a script that draws the data.
 */
#ifndef TOOLS_ATTNC_PAGE_H
#define TOOLS_ATTNC_PAGE_H

#include <stddef.h>

#include "tools/attnc/cli/json.h"

/** A page whose data are being written. Its data are a JSON object, which is open and has the
 * compiler's version. */
struct page {
    struct json json;
    char *data;
    size_t size;
};

/** Begins the data of a page. Returns an exit_code after a message. Call end_page() afterwards. */
int begin_page(struct page *p);

/** Ends the data and writes the page to `path`, unless `code` is a failure. `lines` are the page's
 * lines, NULL at the end; the data replace "@DATA@". Returns `code`, or the exit_code of a failed
 * write after a message. */
int end_page(struct page *p, const char *const *lines, const char *path, int code);

#endif
