/* SPDX-License-Identifier: Apache-2.0
 *
 * HTML pages that need nothing else: the page's own script draws data that stand in it as JSON.
 */
#ifndef TOOLS_ATTNC_PAGE_H
#define TOOLS_ATTNC_PAGE_H

#include <stddef.h>

#include "tools/attnc/cli/json.h"

/** A page whose data are written: `json` stands in an object that has the compiler's version. */
struct page {
    struct json json;
    char *data;
    size_t size;
};

/** Begins the data of a page. Returns an exit code, after a message where it is not EXIT_GOOD; so
 * does end_page(). */
int begin_page(struct page *p);

/** Ends the data and writes the lines of the page, NULL at the end, with the data in place of
 * "@DATA@", unless `code` says that something has failed. */
int end_page(struct page *p, const char *const *lines, const char *path, int code);

#endif
