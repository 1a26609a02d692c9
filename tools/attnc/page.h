/* SPDX-License-Identifier: Apache-2.0
 *
 * HTML pages that need nothing else: the page's own script draws data that stand in it as JSON.
 */
#ifndef TOOLS_ATTNC_PAGE_H
#define TOOLS_ATTNC_PAGE_H

/** Writes the lines of a page, NULL at the end, with `data` in place of "@DATA@". Returns an exit
 * code after a message. */
int write_page(const char *const *lines, const char *data, const char *path);

#endif
