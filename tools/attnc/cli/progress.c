/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/attnc/cli/progress.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tools/attnc/cli/clock.h"

/* Characters of the bar; columns below which a terminal gets no bar; columns that are used at
 * most. */
enum { BAR = 24, NARROW = 60, MAX_COLUMNS = 200 };

/* True if the bar can be redrawn in place: standard error is a terminal that can move its
 * cursor. */
static bool can_redraw(void)
{
    const char *term = getenv("TERM");
    return isatty(STDERR_FILENO) && term && *term && strcmp(term, "dumb") != 0;
}

/* Returns the columns of the terminal: from the variable COLUMNS, else from the terminal, else 80.
 * At most MAX_COLUMNS. */
static int columns(void)
{
    const char *text = getenv("COLUMNS");
    int width = text ? atoi(text) : 0;
    struct winsize size;
    if (width <= 0 && ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0)
        width = size.ws_col;
    width = width > 0 ? width : 80;
    return width < MAX_COLUMNS ? width : MAX_COLUMNS;
}

/* Writes the estimated remaining time, such as ", 12 s left", to `text`; "" before the second step
 * or within the first two seconds. */
static void format_rest(char text[32], size_t done, size_t total)
{
    static double start;
    const double time = steady_seconds();
    if (start == 0 || done <= 1)
        start = time;
    text[0] = '\0';
    const double passed = time - start;
    if (passed > 2 && done > 1 && done < total)
        snprintf(text, 32, ", %.0f s left", passed / (double)(done - 1) * (double)(total - done));
}

void show_progress(size_t done, size_t total, const char *step)
{
    if (!can_redraw()) {
        /* A log gets a line at most once a second, and less often the longer the work takes. */
        static double start, told;
        const double time = steady_seconds();
        start = start > 0 ? start : time;
        if (done < total && (time - told < 1 || time - told < (time - start) / 8))
            return;
        told = time;
        fprintf(stderr, "[%zu/%zu] %s\n", done, total, step);
        return;
    }
    char bar[BAR + 2] = "", line[MAX_COLUMNS + 1], rest[32];
    const int width = columns();
    format_rest(rest, done, total);
    if (width >= NARROW) {
        const size_t full = total ? done * BAR / total : BAR;
        for (size_t i = 0; i < BAR; i++)
            bar[i] = i < full ? '#' : '.';
        bar[BAR] = ' ';
    }
    snprintf(line, sizeof(line), "%s%zu/%zu%s %s", bar, done, total, rest, step);
    /* The last column stays empty, since some terminals wrap there. \033[K clears the rest of the
     * line. */
    fprintf(stderr, "\r%.*s\033[K", width - 1, line);
    fflush(stderr);
}

void clear_progress(void)
{
    if (can_redraw())
        fputs("\r\033[K", stderr);
}
