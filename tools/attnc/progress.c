/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/attnc/progress.h"

#include <stdio.h>
#include <unistd.h>

enum { BAR = 24 };

void show_progress(size_t done, size_t total, const char *step)
{
    if (!isatty(STDERR_FILENO)) {
        fprintf(stderr, "[%zu/%zu] %s\n", done, total, step);
        return;
    }
    char bar[BAR + 1];
    size_t full = total ? done * BAR / total : BAR;
    for (size_t i = 0; i < BAR; i++)
        bar[i] = i < full ? '#' : '.';
    bar[BAR] = '\0';
    /* \033[K clears what a longer name before has left. */
    fprintf(stderr, "\r%s %zu/%zu %.60s\033[K", bar, done, total, step);
    fflush(stderr);
}

void clear_progress(void)
{
    if (isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr);
}
