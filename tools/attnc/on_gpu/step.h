/* SPDX-License-Identifier: Apache-2.0
 *
 * A step of attnc on-gpu or attnc calibrate: another command of attnc, or tar, as a child process
 * in a folder.
 */
#ifndef TOOLS_ATTNC_STEP_H
#define TOOLS_ATTNC_STEP_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

enum { STEP_WORDS = 64 };

/** The words of a command line, NULL at the end. The first is NULL for attnc itself, else a program
 * of the path. */
struct step_line {
    const char *words[STEP_WORDS + 1];
    size_t count;
};

/** Appends a word, which is not copied. Words after the first STEP_WORDS are left out. */
void step_add(struct step_line *line, const char *word);

/** Appends words of a text that are separated by single spaces; they point into `text`. */
void step_add_text(struct step_line *line, char *text);

/**
 * Runs the line in `folder` and waits. Output goes to the files NAME.out and NAME.err there, or
 * where `show` is set to this process's. While it runs, a terminal shows `title` and the last line
 * of its errors. Returns its exit status, or 128 plus the number of the signal that ended it.
 */
int step_run(const struct step_line *line, const char *folder, const char *name, const char *title,
             bool show);

#endif
