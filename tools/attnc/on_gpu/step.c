/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/attnc/on_gpu/step.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compiler/process.h"
#include "tools/attnc/cli/clock.h"

/* Microseconds between two looks at a running child; SHOWN is the most columns of its last line. */
enum { TICK = 250000 /* microseconds between looks at a child */, SHOWN = 60 };

void step_add(struct step_line *line, const char *word)
{
    if (line->count < STEP_WORDS)
        line->words[line->count++] = word;
    line->words[line->count] = NULL;
}

void step_add_text(struct step_line *line, char *text)
{
    for (char *word = strtok(text, " "); word; word = strtok(NULL, " "))
        step_add(line, word);
}

/* Opens the file NAME + `suffix` in `folder` for writing, as file descriptor `to`. Returns false on
 * failure. */
static bool redirect(const char *folder, const char *name, const char *suffix, int to)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof(path), "%s/%s%s", folder, name, suffix) >= (int)sizeof(path))
        return false;
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    return fd >= 0 && dup2(fd, to) >= 0;
}

/* Replaces the child process by the program of `line`, in `folder`. Its output goes to files
 * NAME.out and NAME.err unless `show` is true. Exits with 127 on failure. */
static _Noreturn void become(const struct step_line *line, const char *folder, const char *name,
                             bool show)
{
    char self[PATH_MAX], *words[STEP_WORDS + 1];
    attnc_program_path(self);
    for (size_t i = 0; i <= line->count; i++)
        words[i] = (char *)(line->words[i]);
    const char *program = words[0] ? words[0] : self;
    words[0] = words[0] ? words[0] : self;
    if ((show || (redirect(folder, name, ".out", STDOUT_FILENO) &&
                  redirect(folder, name, ".err", STDERR_FILENO))) &&
        chdir(folder) == 0)
        execvp(program, words);
    fprintf(stderr, "%s: %s\n", program, strerror(errno));
    _exit(127);
}

/* Shows on a terminal for how long a child has run, and the last line of its standard error, the
 * file NAME.err in `folder`. */
static void show_line(const char *folder, const char *name, const char *title, double seconds)
{
    char path[PATH_MAX], text[512];
    size_t size = 0;
    if (!isatty(STDERR_FILENO) ||
        snprintf(path, sizeof(path), "%s/%s.err", folder, name) >= (int)sizeof(path))
        return;
    FILE *f = fopen(path, "r");
    if (f && (fseek(f, -(long)sizeof(text) + 1, SEEK_END) == 0 || fseek(f, 0, SEEK_SET) == 0))
        size = fread(text, 1, sizeof(text) - 1, f);
    if (f)
        fclose(f);
    while (size && text[size - 1] == '\n')
        size--;
    text[size] = '\0';
    const char *last = strrchr(text, '\n');
    fprintf(stderr, "\r%s, %.0f s  %.*s\033[K", title, seconds, SHOWN, last ? last + 1 : text);
    fflush(stderr);
}

int step_run(const struct step_line *line, const char *folder, const char *name, const char *title,
             bool show)
{
    int status = 0;
    const double start = steady_seconds();
    fflush(NULL);
    const pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        attnc_die_with(parent);
        become(line, folder, name, show);
    }
    pid_t ended = pid < 0 ? pid : 0;
    while (ended == 0 || (ended < 0 && pid > 0 && errno == EINTR)) {
        ended = waitpid(pid, &status, show ? 0 : WNOHANG);
        if (ended == 0) {
            show_line(folder, name, title, steady_seconds() - start);
            usleep(TICK);
        }
    }
    if (!show && isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr);
    if (pid < 0)
        return 127;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
