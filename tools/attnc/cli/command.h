/* SPDX-License-Identifier: Apache-2.0
 *
 * A subcommand of attnc: one source file, and one row in commands.def. main.c finds a command by
 * its name; its help is printed from the tables that this file declares.
 */
#ifndef TOOLS_ATTNC_COMMAND_H
#define TOOLS_ATTNC_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

/** The most jobs that -j accepts. */
enum { MAX_JOBS = 64 };

/** The exit codes of attnc. */
enum exit_code {
    EXIT_GOOD = 0,
    EXIT_USER = 1,        /* the user's input is wrong, or a verification failed */
    EXIT_ENVIRONMENT = 2, /* a file, device or program is unusable, or memory is exhausted */
    EXIT_PARTIAL = 3,     /* the output is written, but part of the request is missing from it */
};

/** An option of a command. Exactly one of `value` and `flag` is not NULL. */
struct option_row {
    /* The long name without dashes: "output" is --output. */
    const char *name;
    /* The short name without its dash: 'o' is -o; 0: none. */
    char letter;
    /* Name of the argument in the help, such as "PACK"; NULL: the option takes none. */
    const char *argument;
    const char *help;
    /* Variable that receives the argument; NULL for an option without one. */
    const char **value;
    /* Variable that becomes true if the option is given; NULL for an option with an argument. */
    bool *flag;
};

/** A subcommand and its help. */
struct command {
    const char *name;
    /* Words after the name in the usage line: "DESC -o PACK [OPTION]...". */
    const char *usage;
    /* One line for `attnc help`. */
    const char *summary;
    /* Paragraphs for --help; NULL: none. */
    const char *details;
    /* Table that a row without a name ends; NULL: no options. */
    const struct option_row *options;
    /* Runs the command on its operands; parse_options() has removed the options. Returns an
     * exit_code. */
    int (*run)(int argc, char **argv);
};

/** All subcommands in the order of `attnc help`; NULL ends the list. */
extern const struct command *const commands[];

/** Prints "attnc: MESSAGE" to standard error. Returns `code`, so that a caller can write `return
 * complain(EXIT_USER, ...)`. */
int complain(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Prints a message as complain() does, followed by "; did you mean 'NEAREST'?" unless `nearest` is
 * NULL. Returns EXIT_USER. */
int complain_nearest(const char *nearest, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** Reports which required operand of `c` is missing, or that argv[argc - 1] is one too many, and
 * prints the command's usage. Returns EXIT_USER. */
int wrong_operands(const struct command *c, int argc, char **argv);

/** Removes the options of `c` from argv[0] to argv[*argc - 1] and stores their arguments; the
 * operands remain. At --help sets *help and stops. Returns false after a message if an option is
 * unknown or lacks its argument. */
bool parse_options(const struct command *c, int *argc, char **argv, bool *help);

/** Reads `text`, the argument of --`option`, as a whole number from `least` to `most`. Leaves
 * *number unchanged if `text` is NULL. Returns EXIT_GOOD, or EXIT_USER after a message with the
 * range. */
int read_number(const char *command, const char *option, const char *text, long least, long most,
                long *number);

/** Reads `text`, the argument of --device: sets *hip to true for "hip", to false for "sim". Leaves
 * *hip unchanged if `text` is NULL. Returns EXIT_GOOD, or EXIT_USER after a message. */
int read_device_name(const char *text, bool *hip);

/** Reads `text`, the argument of -j, as a number from 1 to MAX_JOBS. Returns false after a message
 * that names the command. */
bool parse_jobs(const char *command, const char *text, unsigned *jobs);

/** Prints the help of one subcommand to standard output: usage, summary, details and options. */
void print_command_help(const struct command *c);

#endif
