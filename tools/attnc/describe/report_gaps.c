/* SPDX-License-Identifier: Apache-2.0
 *
 * The messages on what attnc lacks for a model, which attnc describe and attnc step print. The file
 * is no part of the library `model`, which prints nothing.
 */
#include "tools/attnc/describe/report_gaps.h"

#include "tools/attnc/cli/command.h"

int report_gaps(const struct model *m, const char *path)
{
    for (unsigned i = 0; i < m->gaps.count; i++)
        complain(EXIT_PARTIAL, "%s: missing: %s", path, m->gaps.texts[i]);
    return m->gaps.count ? EXIT_PARTIAL : EXIT_GOOD;
}
