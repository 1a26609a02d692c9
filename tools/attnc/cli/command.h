/* SPDX-License-Identifier: Apache-2.0
 *
 * A subcommand of attnc: one file, one row in commands.def. main.c finds it by name and prints its
 * help from the tables here.
 */
#ifndef TOOLS_ATTNC_COMMAND_H
#define TOOLS_ATTNC_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

enum { MAX_JOBS = 64 };

enum exit_code {
    EXIT_GOOD = 0,
    EXIT_USER = 1,        /* what the user gave is wrong, or a verification failed */
    EXIT_ENVIRONMENT = 2, /* an unusable file, device or program, or exhausted memory */
    EXIT_PARTIAL = 3,     /* the output is written, but does not cover the whole request */
};

/** An option. Exactly one of `value` and `flag` is not NULL: it receives the argument, or true. */
struct option_row {
    const char *name;     /* "output": --output */
    char letter;          /* 'o': -o; 0: none */
    const char *argument; /* "PACK" in the help; NULL for a flag */
    const char *help;
    const char **value;
    bool *flag;
};

struct command {
    const char *name;
    const char *usage;                 /* what follows the name: "DESC -o PACK [OPTION]..." */
    const char *summary;               /* one line */
    const char *details;               /* paragraphs for its --help, or NULL */
    const struct option_row *options;  /* a row without a name ends it; NULL: none */
    int (*run)(int argc, char **argv); /* runs on operands without options; returns an exit_code */
};

/** Every subcommand, NULL at the end. */
extern const struct command *const commands[];

/** Prints "attnc: MESSAGE" to standard error. Returns `code`: `return complain(EXIT_USER, ...)`. */
int complain(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Complains like complain(EXIT_USER), with "; did you mean 'NAME'?" unless `nearest` is NULL. */
int complain_nearest(const char *nearest, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** Reports which operand of `c` is missing, or that argv[argc - 1] is superfluous, with the
 * command's usage. Returns EXIT_USER. */
int wrong_operands(const struct command *c, int argc, char **argv);

/** Removes the options of `c` from argv[0] to argv[*argc - 1], so that the operands remain. Sets
 * *help and stops at --help. Returns false after a message if an option is unknown or lacks its
 * argument. */
bool parse_options(const struct command *c, int *argc, char **argv, bool *help);

/** Reads the argument of --`option`, a whole number from `least` to `most`; *number is unchanged if
 * `text` is NULL. Returns EXIT_USER after a message with the range. */
int read_number(const char *command, const char *option, const char *text, long least, long most,
                long *number);

/** Reads the argument of -j, 1 to 64. Returns false after a message that names the command. */
bool parse_jobs(const char *command, const char *text, unsigned *jobs);

/** Prints the help of one subcommand to standard output. */
void print_command_help(const struct command *c);

#endif
