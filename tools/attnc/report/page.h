/* SPDX-License-Identifier: Apache-2.0
 *
 * HTML pages without other files: the page's own script draws the data, which the page contains as
 * JSON.
 */
#ifndef TOOLS_ATTNC_PAGE_H
#define TOOLS_ATTNC_PAGE_H

#include <stddef.h>

#include "tools/attnc/cli/json.h"

/** A page whose data are being written: `json` is inside an object with the compiler's version. */
struct page {
    struct json json;
    char *data;
    size_t size;
};

/** Begins the data of a page. Returns an exit code, after a message if it is not EXIT_GOOD; so does
 * end_page(). */
int begin_page(struct page *p);

/** Ends the data and writes the page to `path`: `lines`, NULL at the end, with the data in place of
 * "@DATA@". Writes nothing if `code` is a failure. */
int end_page(struct page *p, const char *const *lines, const char *path, int code);

#endif
