/* SPDX-License-Identifier: Apache-2.0
 *
 * This file names the files in an archive of attnc on-gpu, which attnc calibrate reads. The archive
 * is a folder in a compressed tar file.
 */
#ifndef TOOLS_ATTNC_ARCHIVE_H
#define TOOLS_ATTNC_ARCHIVE_H

#define ARCHIVE_FACTS "on-gpu.json" /* the machine, the steps and the descriptions, as JSON */
#define ARCHIVE_LOOPS "loops"       /* the output of attnc probes */
/* A copy of the file given by --shapes; absent without that option. */
#define ARCHIVE_SHAPES "shapes"
/* The folder with copies of the descriptions, whose names are the user's. */
#define ARCHIVE_DESCRIPTIONS "descriptions"
#define ARCHIVE_DB "tuned.sqlite" /* the database of attnc tune */

#endif
