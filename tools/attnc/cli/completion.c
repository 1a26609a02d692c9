/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc completion: prints a shell's completion script, made from the tables of commands and
 * options.
 */
#include <stdio.h>
#include <string.h>

#include "compiler/nearest.h"
#include "tools/attnc/cli/command.h"

/* Prints a help text in single quotes, with a backslash before each of the characters in
 * `special`. */
static void print_quoted(const char *text, const char *special)
{
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\''", stdout);
        else if (strchr(special, *text))
            printf("\\%c", *text);
        else
            putchar(*text);
    }
}

/* Prints the completion script for bash. */
static void print_bash(void)
{
    puts("# bash completion for attnc: eval \"$(attnc completion bash)\"\n"
         "_attnc() {\n"
         "    local cur=${COMP_WORDS[COMP_CWORD]} words=\n"
         "    case ${COMP_WORDS[1]} in");
    for (const struct command *const *c = commands; *c; c++) {
        printf("    %s) words='--help", (*c)->name);
        for (const struct option_row *o = (*c)->options; o && o->name; o++)
            printf(" --%s", o->name);
        puts("' ;;");
    }
    fputs("    esac\n"
          "    [ \"$COMP_CWORD\" -eq 1 ] && words='--help --version",
          stdout);
    for (const struct command *const *c = commands; *c; c++)
        printf(" %s", (*c)->name);
    puts("'\n"
         "    if [ \"$COMP_CWORD\" -eq 1 ] || [[ $cur == -* ]]; then\n"
         "        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
         "    else\n"
         "        mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
         "    fi\n"
         "}\n"
         "complete -o filenames -F _attnc attnc");
}

/* Prints one option as an argument of zsh's _arguments. */
static void print_zsh_option(const struct option_row *o)
{
    if (o->letter)
        printf("            '(-%c --%s)'{-%c,--%s}'[", o->letter, o->name, o->letter, o->name);
    else
        printf("            '--%s[", o->name);
    print_quoted(o->help, "[]:\\");
    putchar(']');
    if (o->argument) {
        putchar(':');
        print_quoted(o->argument, ":\\");
        fputs(":_files", stdout);
    }
    puts("' \\");
}

/* Prints the completion script for zsh. */
static void print_zsh(void)
{
    puts("#compdef attnc\n"
         "_attnc() {\n"
         "    local -a commands=(");
    for (const struct command *const *c = commands; *c; c++) {
        printf("        '%s:", (*c)->name);
        print_quoted((*c)->summary, ":\\");
        puts("'");
    }
    puts("    )\n"
         "    if (( CURRENT == 2 )); then\n"
         "        _describe command commands\n"
         "        return\n"
         "    fi\n"
         "    local command=$words[2]\n"
         "    shift words\n"
         "    (( CURRENT-- ))\n"
         "    case $command in");
    for (const struct command *const *c = commands; *c; c++) {
        printf("    %s)\n        _arguments \\\n", (*c)->name);
        for (const struct option_row *o = (*c)->options; o && o->name; o++)
            print_zsh_option(o);
        puts("            '--help[explain the command]' '*:file:_files' ;;");
    }
    puts("    esac\n"
         "}\n"
         "if [ \"$funcstack[1]\" = _attnc ]; then _attnc \"$@\"; else compdef _attnc attnc; fi");
}

/* Prints the completion script for fish. */
static void print_fish(void)
{
    puts("# fish completion for attnc: attnc completion fish | source");
    for (const struct command *const *c = commands; *c; c++) {
        printf("complete -c attnc -n __fish_use_subcommand -a %s -d '", (*c)->name);
        print_quoted((*c)->summary, "\\");
        puts("'");
        for (const struct option_row *o = (*c)->options; o && o->name; o++) {
            printf("complete -c attnc -n '__fish_seen_subcommand_from %s' -l %s", (*c)->name,
                   o->name);
            if (o->letter)
                printf(" -s %c", o->letter);
            printf("%s -d '", o->argument ? " -r" : "");
            print_quoted(o->help, "\\");
            puts("'");
        }
    }
}

/* The shells that have a script, by the name on the command line. */
static const struct shell {
    const char *name;
    void (*print)(void);
} shells[] = {{"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};

/* Runs `attnc completion`. */
static int run(int argc, char **argv)
{
    if (argc != 1)
        return complain(EXIT_USER, "usage: attnc completion bash|zsh|fish");
    struct attnc_nearest nearest = attnc_nearest_to(argv[0]);
    for (size_t i = 0; i < sizeof(shells) / sizeof(shells[0]); i++) {
        attnc_nearest_offer(&nearest, shells[i].name);
        if (strcmp(shells[i].name, argv[0]) != 0)
            continue;
        shells[i].print();
        return EXIT_GOOD;
    }
    return complain_nearest(nearest.name, "completion: there is bash, zsh and fish, not '%s'",
                            argv[0]);
}

const struct command command_completion = {
    .name = "completion",
    .usage = "bash|zsh|fish",
    .summary = "Print the script that completes attnc's commands and options in a shell",
    .run = run,
};
