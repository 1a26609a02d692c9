/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hipsim: runs a program on the simulated GPU, or compiles HIP sources for it.
 *
 * The options are the rows of core/options.def. This program checks them before it starts the
 * user's, and passes them in the environment variable HIPSIM. The simulator's library reads that at
 * the first HIP call.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "options.h"

enum { USAGE = 2, PATH_BYTES = 4096, SETTINGS_BYTES = 4096, COLUMNS = 96 };

/* Rows of options.def. A switch has no value on the command line. */
static const struct row {
    const char *key;
    bool is_switch;
    const char *help;
} rows[] = {
#define PARSE_NUMBER false
#define PARSE_TARGETS false
#define PARSE_CHECKS false
#define PARSE_SWITCH true
#define PARSE_TEXT false
#define OPTION(key, field, parser, smallest, largest, fixed, help) {#key, parser, help},
#include "options.def"
};

/* Prints `text` from column `indent` on, in lines that end at blanks. */
static void print_wrapped(const char *text, int indent)
{
    int column = indent;
    for (const char *word = text; *word;) {
        const int n = (int)strcspn(word, " ");
        if (column > indent && column + 1 + n > COLUMNS) {
            printf("\n%*s", indent, "");
            column = indent;
        }
        column += printf("%s%.*s", column > indent ? " " : "", n, word);
        word += n + (word[n] == ' ');
    }
    putchar('\n');
}

/* Prints the help text of the command. */
static void print_help(void)
{
    puts("Usage: hipsim [OPTION]... [--] PROGRAM [ARGUMENT]...\n"
         "       hipsim [OPTION]... run KERNEL.CO --grid X[,Y[,Z]] --block X[,Y[,Z]] [--arg "
         "FORM]...\n"
         "       hipsim cc [--target GFX[,GFX]] [--clang CLANG++] SOURCE... -o PROGRAM [FLAG]...\n"
         "Run a HIP program, or one kernel of a code object, on a simulated MI300X, MI355X or "
         "MI455X, without a GPU.\n");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char left[40];
        snprintf(left, sizeof(left), "--%s%s", rows[i].key,
                 rows[i].is_switch ? "[=off]" : " VALUE");
        printf("  %-24s", left);
        print_wrapped(rows[i].help, 26);
    }
    puts("\nhipsim run --help describes the forms of arguments. hipsim cc calls Clang with the "
         "distribution's HIP headers and device libraries, for "
         "gfx942 and\n"
         "gfx950 unless --target names others. An option may also be written --KEY=VALUE.\n"
         "Every time is modelled: no figure was measured on hardware. HIPSIM=KEY=VALUE,... in the\n"
         "environment does the same for programs that are not started by this command.");
}

/* Prints an error. Returns the exit status for wrong usage. */
static int fail(const char *what, const char *which)
{
    fprintf(stderr, "hipsim: %s%s; hipsim --help lists the options\n", what, which);
    return USAGE;
}

/* Returns the option row with the key; NULL: no such option. */
static const struct row *find_row(const char *key, size_t length)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (strlen(rows[i].key) == length && strncmp(rows[i].key, key, length) == 0)
            return &rows[i];
    return NULL;
}

/* Appends the option at argv[*at] to `settings`, and moves *at to the option's last word. Returns 0
 * or USAGE. */
static int add_option(char **argv, int *at, char *settings)
{
    const char *key = argv[*at] + 2, *equals = strchr(key, '=');
    const size_t length = equals ? (size_t)(equals - key) : strlen(key);
    const struct row *row = find_row(key, length);
    const char *value = equals ? equals + 1 : NULL;
    if (!row)
        return fail("there is no option ", argv[*at]);
    if (!value && row->is_switch)
        value = "on";
    if (!value && !(value = argv[++*at]))
        return fail("no value of --", row->key);
    if (strchr(value, ','))
        return fail("a comma in the value of --", row->key);
    const size_t used = strlen(settings);
    const int n = snprintf(settings + used, SETTINGS_BYTES - used, "%s%s=%s", used ? "," : "",
                           row->key, value);
    return n > 0 && (size_t)n < SETTINGS_BYTES - used ? 0 : fail("too long: --", row->key);
}

/* Sets `self` to the folder of this program. Returns false if the system does not say. */
static bool find_self(char self[PATH_BYTES])
{
    const ssize_t n = readlink("/proc/self/exe", self, PATH_BYTES - 1);
    if (n < 0)
        return false;
    self[n] = 0;
    *strrchr(self, '/') = 0;
    return true;
}

/* Sets `folder` to the folder of libamdhip64: in the build tree, or where `meson install` and the
 * wheels put it. Returns false if neither has it. */
static bool find_library(char folder[PATH_BYTES])
{
    static const char *const places[] = {"../hip", "../" HIPSIM_LIBDIR "/attnc/hipsim"};
    char self[PATH_BYTES], path[2 * PATH_BYTES];
    if (!find_self(self))
        return false;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s/libamdhip64.so.5", self, places[i]);
        char *real = realpath(path, NULL);
        if (!real)
            continue;
        *strrchr(real, '/') = 0;
        snprintf(folder, PATH_BYTES, "%s", real);
        free(real);
        return true;
    }
    return false;
}

/* Replaces the process by the program. Returns the exit status if that fails. */
static int execute(char **argv)
{
    execvp(argv[0], argv);
    fprintf(stderr, "hipsim: %s: %s\n", argv[0], strerror(errno));
    return errno == ENOENT ? 127 : 126;
}

/* Returns the path of tool `name`: in the library's folder or, in the build tree, beside this
 * program. */
static char *find_tool(const char *folder, const char *name)
{
    static char path[PATH_BYTES + 16];
    char self[PATH_BYTES];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    if (access(path, X_OK) != 0 && find_self(self))
        snprintf(path, sizeof(path), "%s/%s", self, name);
    return path;
}

/* Replaces this process by the compiler's wrapper. `argv` are the `argc` words after "cc". */
static int compile(char **argv, int argc, char *folder)
{
    char **words = calloc((size_t)argc + 3, sizeof(*words));
    if (!words)
        return fail("out of memory", "");
    words[0] = find_tool(folder, "hipsim-cc");
    words[1] = folder;
    memcpy(words + 2, argv, (size_t)argc * sizeof(*words));
    return execute(words);
}

/* Replaces this process by the program. The simulator's library is found before the machine's. */
static int start(char **argv, const char *settings, const char *folder)
{
    char path[2 * PATH_BYTES];
    const char *before = getenv("LD_LIBRARY_PATH");
    snprintf(path, sizeof(path), "%s%s%s", folder, before && *before ? ":" : "",
             before ? before : "");
    if (setenv("LD_LIBRARY_PATH", path, 1) != 0 || setenv("HIPSIM", settings, 1) != 0)
        return fail("out of memory", "");
    return execute(argv);
}

int main(int argc, char **argv)
{
    char settings[SETTINGS_BYTES] = "", folder[PATH_BYTES], why[600];
    const char *given = getenv("HIPSIM");
    struct options options = options_default();
    int i = 1;
    if (given && snprintf(settings, sizeof(settings), "%s", given) >= (int)sizeof(settings))
        return fail("too long: HIPSIM", "");
    for (; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            print_help();
            return 0;
        }
        if (strcmp(argv[i], "--") == 0) {
            i++;
            break;
        }
        const int error = add_option(argv, &i, settings);
        if (error)
            return error;
    }
    if (!options_parse(&options, settings, false, why, sizeof(why)))
        return fail(why, "");
    if (i >= argc)
        return fail("no program", "");
    if (!find_library(folder))
        return fail("no libamdhip64.so.5 beside ", argv[0]);
    if (strcmp(argv[i], "cc") == 0)
        return compile(argv + i + 1, argc - i - 1, folder);
    if (strcmp(argv[i], "run") == 0)
        argv[i] = find_tool(folder, "hipsim-run");
    return start(argv + i, settings, folder);
}
