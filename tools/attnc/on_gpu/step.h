/* SPDX-License-Identifier: Apache-2.0
 *
 * A step of attnc on-gpu or attnc calibrate: a child process that runs another command of attnc,
 * tar or rm in a folder.
 */
#ifndef TOOLS_ATTNC_STEP_H
#define TOOLS_ATTNC_STEP_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/** The most words of a step's command line. */
enum { STEP_WORDS = 64 };

/** The words of a command line, NULL at the end. The first word is a program's name; NULL: attnc
 * itself. */
struct step_line {
    const char *words[STEP_WORDS + 1];
    size_t count;
};

/** Appends a word without copying it. Words after the first STEP_WORDS are dropped. */
void step_add(struct step_line *line, const char *word);

/** Appends the words of `text`, which spaces separate. `text` is changed, and must live as long as
 * the line. */
void step_add_text(struct step_line *line, char *text);

/** Runs the command line in `folder` and waits for its end. Its output goes to the files NAME.out
 * and NAME.err there, or if `show` is true to this process's own output. Without `show` a terminal
 * has `title` and the last line of the child's errors. Returns the exit status, or 128 plus the
 * number of the signal that ended it. */
int step_run(const struct step_line *line, const char *folder, const char *name, const char *title,
             bool show);

#endif
