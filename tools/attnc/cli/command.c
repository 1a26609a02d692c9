/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages to the user and the option parser, shared by all subcommands. A command's options are a
 * table.
 */
#include "tools/attnc/cli/command.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/nearest.h"

int complain(int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("attnc: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    return code;
}

int complain_nearest(const char *nearest, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("attnc: ", stderr);
    vfprintf(stderr, format, args);
    if (nearest)
        fprintf(stderr, "; did you mean '%s'?", nearest);
    fputc('\n', stderr);
    va_end(args);
    return EXIT_USER;
}

/* Copies the next required word of a usage text to `word`, and moves *at past it. Skips words in
 * brackets and arguments of options. Returns false at the end. */
static bool next_required(const char **at, char *word, size_t size)
{
    bool argument = false; /* true: the next word is an option's argument */
    while (**at) {
        const char *const start = *at;
        const bool optional = *start == '[';
        const size_t length = strcspn(start, optional ? "]" : " ");
        *at += length;
        *at += strspn(*at, "]. ");
        const bool option = *start == '-';
        if (!optional && !option && !argument) {
            snprintf(word, size, "%.*s", (int)length, start);
            return true;
        }
        argument = option;
    }
    return false;
}

int wrong_operands(const struct command *c, int argc, char **argv)
{
    const char *at = c->usage;
    char word[40] = "", before[sizeof(word)] = "";
    bool missing = next_required(&at, word, sizeof(word));
    for (int i = 0; i < argc && missing; i++) {
        memcpy(before, word, sizeof(before));
        missing = next_required(&at, word, sizeof(word));
    }
    word[strcspn(word, ".")] = '\0';
    const char *const ordinal = strcmp(word, before) == 0 ? "second " : "";
    if (missing)
        complain(EXIT_USER, "%s: no %s%s is given", c->name, ordinal, word);
    else if (argc)
        complain(EXIT_USER, "%s: unexpected operand '%s'", c->name, argv[argc - 1]);
    return complain(EXIT_USER, "usage: attnc %s %s\n`attnc %s --help` says more", c->name, c->usage,
                    c->name);
}

/* Returns the row of the option with this name or letter; NULL if there is none. `name` has
 * `length` characters and need not end there ("output=x"). */
static const struct option_row *find_option(const struct command *c, const char *name,
                                            size_t length, char letter)
{
    for (const struct option_row *o = c->options; o && o->name; o++) {
        if (letter ? o->letter == letter
                   : strlen(o->name) == length && strncmp(o->name, name, length) == 0)
            return o;
    }
    return NULL;
}

/* Reports that option `word`, of `length` characters, is unknown, with the most similar one.
 * Returns false. */
static bool report_unknown(const struct command *c, const char *word, size_t length)
{
    char name[64];
    snprintf(name, sizeof(name), "%.*s", (int)length, word);
    struct attnc_nearest nearest = attnc_nearest_to(name + 2);
    if (name[1] == '-') {
        for (const struct option_row *o = c->options; o && o->name; o++)
            attnc_nearest_offer(&nearest, o->name);
    }
    char known[64] = "";
    if (nearest.name)
        snprintf(known, sizeof(known), "--%s", nearest.name);
    complain_nearest(nearest.name ? known : NULL, "%s: unknown option '%s'", c->name, name);
    return false;
}

/* Stores the option at argv[i], whose argument is in the same word or in the next. Sets *used to
 * the words that it occupies, 1 or 2. Returns false after a message. */
static bool take_option(const struct command *c, int argc, char **argv, int i, int *used)
{
    const char *word = argv[i];
    bool is_long = word[1] == '-';
    size_t length = is_long ? strcspn(word, "=") : 2;
    const struct option_row *o =
        is_long ? find_option(c, word + 2, length - 2, 0) : find_option(c, NULL, 0, word[1]);
    if (!o)
        return report_unknown(c, word, length);
    const char *inside = word[length] ? word + length + is_long : NULL;
    *used = 1;
    if (o->flag) {
        if (!inside) {
            *o->flag = true;
            return true;
        }
        complain(EXIT_USER, "%s: --%s takes no argument", c->name, o->name);
        return false;
    }
    if (!inside && i + 1 < argc) {
        inside = argv[i + 1];
        *used = 2;
    }
    if (!inside) {
        complain(EXIT_USER, "%s: --%s needs an argument: %s", c->name, o->name, o->argument);
        return false;
    }
    *o->value = inside;
    return true;
}

bool parse_options(const struct command *c, int *argc, char **argv, bool *help)
{
    int operands = 0;
    bool options_end = false;
    for (int i = 0, used; i < *argc; i += used) {
        char *word = argv[i];
        used = 1;
        if (options_end || word[0] != '-' || !word[1]) {
            argv[operands++] = word;
        } else if (strcmp(word, "--") == 0) {
            options_end = true;
        } else if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
            *help = true;
            return true;
        } else if (!take_option(c, *argc, argv, i, &used)) {
            return false;
        }
    }
    *argc = operands;
    return true;
}

int read_number(const char *command, const char *option, const char *text, long least, long most,
                long *number)
{
    char *end;
    if (!text)
        return EXIT_GOOD;
    errno = 0;
    const long n = strtol(text, &end, 10);
    if (end == text || *end || errno || n < least || n > most)
        return complain(EXIT_USER, "%s: expected --%s to be %ld to %ld, saw '%s'", command, option,
                        least, most, text);
    *number = n;
    return EXIT_GOOD;
}

int read_device_name(const char *text, bool *hip)
{
    if (text && strcmp(text, "hip") != 0 && strcmp(text, "sim") != 0)
        return complain(EXIT_USER, "--device is hip or sim, not '%s'", text);
    if (text)
        *hip = !strcmp(text, "hip");
    return EXIT_GOOD;
}

bool parse_jobs(const char *command, const char *text, unsigned *jobs)
{
    long n = *jobs;
    const bool good = read_number(command, "jobs", text, 1, MAX_JOBS, &n) == EXIT_GOOD;
    *jobs = (unsigned)n;
    return good;
}

void print_command_help(const struct command *c)
{
    printf("Usage: attnc %s %s\n%s.\n", c->name, c->usage, c->summary);
    if (c->options)
        putchar('\n');
    for (const struct option_row *o = c->options; o && o->name; o++) {
        char left[64];
        snprintf(left, sizeof(left), "%c%c%c --%s%s%s", o->letter ? '-' : ' ',
                 o->letter ? o->letter : ' ', o->letter ? ',' : ' ', o->name,
                 o->argument ? " " : "", o->argument ? o->argument : "");
        printf("  %-26s  %s\n", left, o->help);
    }
    if (!c->details)
        return;
    printf("\n%s", c->details);
    if (c->details[strlen(c->details) - 1] != '\n')
        putchar('\n');
}
