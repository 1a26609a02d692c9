/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc build --emit=ninja: writes a ninja file with an edge for each kernel. Executors that read
 * such files can run the edges on many machines. An edge builds one kernel and reads no kernel
 * cache, so equal inputs give an equal output on each machine. The last edge runs `attnc join`,
 * which writes the pack of all kernels.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/attnc/compile/build_ninja.h"
#include "compiler/process.h"
#include "tools/attnc/cli/command.h"
#include "tools/attnc/cli/output.h"

/* Writes a path for ninja, with '$', ':' and ' ' escaped. */
static void put_path(FILE *f, const char *path)
{
    for (; *path; path++) {
        if (strchr("$: ", *path))
            putc('$', f);
        putc(*path, f);
    }
}

/* Writes a word of a shell command: in single quotes, with '$' escaped for ninja. */
static void put_word(FILE *f, const char *word)
{
    putc('\'', f);
    for (; *word; word++) {
        if (*word == '\'')
            fputs("'\\'", f);
        else if (*word == '$')
            putc('$', f);
        putc(*word, f);
    }
    putc('\'', f);
}

/* Writes " --name 'value'" to the command of a rule; nothing if `value` is NULL. */
static void put_option(FILE *f, const char *name, const char *value)
{
    if (!value)
        return;
    fprintf(f, " --%s ", name);
    put_word(f, value);
}

/* Writes the variable `attnc` and the two rules of the ninja file, "kernel" and "join". */
static void write_rules(FILE *f, const struct ninja_options *o)
{
    char self[PATH_MAX];
    fputs("# Written by attnc build --emit=ninja: an edge per kernel.\n"
          "ninja_required_version = 1.5\n\nattnc = ",
          f);
    put_path(f, attnc_program_path(self) ? self : "attnc");
    fputs("\n\nrule kernel\n  command = $attnc build $desc --only $kernel", f);
    put_option(f, "target", o->targets);
    put_option(f, "defaults", o->defaults);
    put_option(f, "tuning", o->tuning);
    /* An edge reads only one of the descriptions, so that most rows of the tuning file match
     * nothing. */
    fputs(o->tuning ? " --allow-stale" : "", f);
    fputs(" --no-cache -q -j 1 -o $out\n  description = $kernel\n\n"
          "rule join\n  command = $attnc join @$out.rsp -o $out\n  description = $out\n"
          "  rspfile = $out.rsp\n  rspfile_content = $in_newline\n\n",
          f);
}

/* Writes the path of a kernel's pack in `directory`. */
static void put_kernel(FILE *f, const char *directory, const struct att_variant *v)
{
    char name[ATT_NAME_MAX];
    att_variant_name(v, name);
    put_path(f, directory);
    fprintf(f, "/%s.attnpack", name);
}

/* Writes the edge that builds one kernel's pack in `directory`. Its inputs are the description of
 * `unit`, its included files, and the kernel's hook. */
static void write_edge(FILE *f, const struct ninja_options *o, const char *directory,
                       const struct build_unit *unit, const struct att_variant *v)
{
    char name[ATT_NAME_MAX];
    att_variant_name(v, name);
    fputs("build ", f);
    put_kernel(f, directory, v);
    fputs(": kernel ", f);
    put_path(f, unit->path);
    fputs(" |", f);
    if (v->logits) {
        putc(' ', f);
        put_path(f, v->logits);
    }
    const char *const files[] = {o->defaults, o->tuning};
    for (unsigned i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        if (files[i]) {
            putc(' ', f);
            put_path(f, files[i]);
        }
    }
    fputs(" $attnc\n  desc = ", f);
    put_word(f, unit->path);
    fprintf(f, "\n  kernel = %s\n", name);
}

int write_ninja(const struct build_unit *units, size_t count, const struct ninja_options *o,
                const char *path)
{
    char *text = NULL, stem[PATH_MAX], directory[PATH_MAX + 8];
    size_t size;
    const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');
    snprintf(stem, sizeof(stem), "%.*s",
             dot && (!slash || dot > slash) ? (int)(dot - path) : (int)strlen(path), path);
    snprintf(directory, sizeof(directory), "%s.kernels", stem);
    FILE *f = open_memstream(&text, &size);
    if (!f)
        return complain(EXIT_ENVIRONMENT, "out of memory");
    write_rules(f, o);
    for (size_t u = 0; u < count; u++) {
        for (size_t i = 0; i < units[u].desc.count; i++)
            write_edge(f, o, directory, &units[u], &units[u].desc.variants[i]);
    }
    fputs("\nbuild ", f);
    put_path(f, stem);
    fputs(".attnpack: join", f);
    for (size_t u = 0; u < count; u++) {
        for (size_t i = 0; i < units[u].desc.count; i++) {
            fputs(" $\n    ", f);
            put_kernel(f, directory, &units[u].desc.variants[i]);
        }
    }
    fputs("\n", f);
    fclose(f);
    const int code = write_output(path, text, size);
    free(text);
    return code;
}
