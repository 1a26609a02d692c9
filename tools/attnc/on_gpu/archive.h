/* SPDX-License-Identifier: Apache-2.0
 *
 * This file names the files of an archive, which attnc on-gpu writes and attnc calibrate reads: a
 * folder that tar packs.
 */
#ifndef TOOLS_ATTNC_ARCHIVE_H
#define TOOLS_ATTNC_ARCHIVE_H

#define ARCHIVE_FACTS "on-gpu.json" /* machine, steps, and what calibrate needs to know */
#define ARCHIVE_LOOPS "loops"       /* what attnc probes printed */
#define ARCHIVE_SHAPES "shapes"     /* the user's shapes; absent: attnc's own */
#define ARCHIVE_DB "tuned.sqlite"   /* the results of attnc tune */

#endif
