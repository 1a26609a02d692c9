/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc help: prints each topic by a loop over the table that the compiler itself uses, so that the
 * help cannot be out of date.
 */
#include <stdio.h>
#include <string.h>

#include "compiler/nearest.h"
#include "compiler/op_words.h"
#include "ir/passes.h"
#include "targets/tgt.h"
#include "templates/template.h"
#include "templates/pipeline/pipeline.h"
#include "tools/attnc/cli/command.h"
#include "tools/attnc/cli/json.h"
#include "tools/attnc/cli/op_help.h"
#include "tools/attnc/cli/op_limits.h"

/* True if a kernel of op `t` may have field `f` in a description. */
static bool takes(const struct att_template *t, enum att_field f) { return t->takes >> f & 1; }

/* True if any op has field `f`. */
static bool is_taken(enum att_field f)
{
    for (const struct att_template *const *t = att_templates; *t; t++) {
        if (takes(*t, f))
            return true;
    }
    return false;
}

/* Prints a field's type, unit and default, such as "integer, 1 to 1024 elements, default 128". */
static void print_type(const struct att_field_info *info)
{
    switch (info->kind) {
    case ATT_KIND_ENUM:
        printf("one of the values below, default %s", info->values[info->dflt].name);
        return;
    case ATT_KIND_FLAG: fputs("true or false, default false", stdout); return;
    case ATT_KIND_FILE:
        fputs("path, relative to the description; none where absent", stdout);
        return;
    case ATT_KIND_INT: break;
    }
    printf("integer, %d to %d %s", info->zero ? 1 : info->min, info->max, info->unit);
    if (info->zero)
        printf(", or %s", info->zero);
    if (info->required)
        fputs(", required", stdout);
    else if (info->follows)
        printf(", default %s", att_fields[info->like].name);
    else if (info->dflt == 0 && info->zero)
        printf(", default %s", info->zero);
    else
        printf(", default %d", info->dflt);
}

/* Prints the help of a field: its type, meaning, values and the ops that have it. */
static void print_field(enum att_field f)
{
    const struct att_field_info *info = &att_fields[f];
    printf("%s: ", info->name);
    print_type(info);
    printf("\n    %s\n", info->help);
    for (int i = 0; i < info->value_count; i++)
        printf("      %-10s  %s\n", info->values[i].name, info->values[i].help);
    fputs("    taken by:", stdout);
    for (const struct att_template *const *t = att_templates; *t; t++) {
        if (takes(*t, f))
            printf(" %s", (*t)->name);
    }
    fputs("\n\n", stdout);
}

/* Prints the help of all fields that an op has. */
static void help_fields(void)
{
    puts("Fields of a kernel in a description. Each may be a list of values.\n");
    for (int f = 0; f < ATT_FIELD_COUNT; f++) {
        if (is_taken(f))
            print_field(f);
    }
}

/* Prints an op's name, its description and the names of its fields. */
static void print_op(const struct att_template *t)
{
    printf("%s: %s\n    takes:", t->name, t->description);
    for (int f = 0; f < ATT_FIELD_COUNT; f++) {
        if (takes(t, f))
            printf(" %s", att_fields[f].name);
    }
    fputs("\n\n", stdout);
}

/* Prints the limits of an op's kernels. */
static void print_limits(const struct att_template *t)
{
    for (const char *const *line = op_limits(t->name); line && *line; line++)
        puts(*line);
}

/* Prints which values of an op's fields `attnc build` accepts. */
static void help_op(const struct att_template *t)
{
    printf("%s: %s\n\nKernels that can be built, by the fields of a description:\n\n", t->name,
           t->description);
    print_limits(t);
    printf("\n`attnc help FIELD` explains a field; `attnc help %s --call` has the tensors and "
           "numbers of "
           "a call.\n",
           t->name);
}

/* Prints the tensors and numbers of an op's call, from the help text of its schema. Of the fields
 * of a description only the ones that are set at run time are printed. */
static void help_call(const struct att_template *t)
{
    bool fields = false, shown = false, any = false, blank = false;
    for (const char *const *line = op_help(t->name); line && *line; line++) {
        const size_t indent = strspn(*line, " ");
        if (!indent && **line)
            fields = !strcmp(*line, "Fields of a kernel:");
        if (fields && indent == 4)
            shown = strstr(*line, "at run time") ||
                    (line[1] && strspn(line[1], " ") > 4 && strstr(line[1], "at run time"));
        if (fields && (!shown || !indent) && **line)
            continue;
        if (fields && shown && !any)
            puts("Set at run time:");
        any = any || (fields && shown);
        if (**line || !blank)
            puts(*line);
        blank = !**line;
    }
}

/* Prints as a Markdown list what an op's schema says of a call's tensors and numbers. `line` is the
 * schema's help text, lines up to a NULL. */
static void print_call_limits(const char *const *line)
{
    while (*line && strcmp(*line, "Tensors of a call:"))
        line++;
    for (; *line; line++) {
        const size_t indent = strspn(*line, " ");
        const char *text = *line + indent;
        if (!**line)
            continue;
        if (!indent)
            printf("\n%s\n\n", *line);
        else if (indent > 4)
            printf("  %s\n", text);
        else
            printf("- %s\n", text + (strncmp(text, "- ", 2) ? 0 : 2));
    }
}

/* Prints docs/limits.md: for each op the field values that can be built, and the tensors and
 * numbers of a call. */
static void help_limits(void)
{
    puts("# Limits of the ops\n\n"
         "`attnc help limits` writes this page. The values of a field are those that `attnc build` "
         "takes. A line that\n"
         "begins with \"with\" has the values that go together with another field. libattn checks "
         "the tensors and numbers\n"
         "of a call in every launch.");
    for (const struct att_template *const *t = att_templates; *t; t++) {
        printf("\n## %s\n\nKernels that can be built:\n\n", (*t)->name);
        print_limits(*t);
        const char *const *lines = op_help((*t)->name);
        if (lines)
            print_call_limits(lines);
    }
}

/* Prints name, description and fields of each op. */
static void help_ops(void)
{
    puts("A kernel's `op` is one of these.\n");
    for (const struct att_template *const *t = att_templates; *t; t++)
        print_op(*t);
}

/* Prints each target's name, product, compute units, LDS and clock. */
static void help_targets(void)
{
    puts("`targets` lists some of these.\n");
    for (const struct tgt *const *t = tgt_all; *t; t++)
        printf("%-8s  %s: %u compute units, %u KiB of LDS each, %u MHz\n", (*t)->machine.name,
               (*t)->product, (*t)->machine.cus, (*t)->machine.lds_bytes >> 10, (*t)->clock_mhz);
}

/* Prints the passes of the pipeline in their order. */
static void help_passes(void)
{
    puts("Passes over the tile IR, in order, for --print, --stop-after and --disable.\n");
    for (unsigned i = 0; i < tir_n_passes; i++)
        printf("%-16s  %s%s\n", tir_passes[i].name, tir_passes[i].description,
               !strncmp(tir_passes[i].name, "lower_", 6) ? " (cannot be disabled)" : "");
}

static struct {
    bool json, call;
} args;

static const struct option_row options[] = {
    {"call", 0, NULL, "of an op: the tensors and numbers of a call", NULL, &args.call},
    {"json", 0, NULL, "print all commands, ops and fields as a JSON object", NULL, &args.json},
    {0},
};

/* Writes a command and its options as a JSON object. */
static void command_json(struct json *j, const struct command *c)
{
    json_begin_object(j, NULL);
    json_string(j, "name", c->name);
    json_string(j, "usage", c->usage);
    json_string(j, "summary", c->summary);
    json_begin_list(j, "options");
    for (const struct option_row *o = c->options; o && o->name; o++) {
        const char letter[2] = {o->letter, '\0'};
        json_begin_object(j, NULL);
        json_string(j, "name", o->name);
        json_string(j, "letter", o->letter ? letter : NULL);
        json_string(j, "argument", o->argument);
        json_string(j, "help", o->help);
        json_end(j);
    }
    json_end(j);
    json_end(j);
}

/* Writes a field and its values as a JSON object. */
static void field_json(struct json *j, const struct att_field_info *info)
{
    static const char *const kinds[] = {[ATT_KIND_ENUM] = "enum",
                                        [ATT_KIND_INT] = "integer",
                                        [ATT_KIND_FLAG] = "flag",
                                        [ATT_KIND_FILE] = "file"};
    json_begin_object(j, NULL);
    json_string(j, "name", info->name);
    json_string(j, "kind", kinds[info->kind]);
    json_string(j, "help", info->help);
    json_flag(j, "required", info->required);
    if (info->kind == ATT_KIND_INT) {
        json_integer(j, "least", info->zero ? 1 : info->min);
        json_integer(j, "most", info->max);
        json_string(j, "zero", info->zero);
    }
    if (info->kind == ATT_KIND_ENUM) {
        json_begin_list(j, "values");
        for (int i = 0; i < info->value_count; i++)
            json_string(j, NULL, info->values[i].name);
        json_end(j);
    }
    json_end(j);
}

/* Writes an op and the names of its fields as a JSON object. */
static void op_json(struct json *j, const struct att_template *t)
{
    json_begin_object(j, NULL);
    json_string(j, "name", t->name);
    json_string(j, "help", t->description);
    json_begin_list(j, "fields");
    for (int f = 0; f < ATT_FIELD_COUNT; f++) {
        if (takes(t, f))
            json_string(j, NULL, att_fields[f].name);
    }
    json_end(j);
    json_end(j);
}

/* Prints all commands, ops, fields and targets as a JSON object. */
static void print_json(void)
{
    struct json j = {.out = stdout};
    json_begin_object(&j, NULL);
    json_begin_list(&j, "commands");
    for (const struct command *const *c = commands; *c; c++)
        command_json(&j, *c);
    json_end(&j);
    json_begin_list(&j, "ops");
    for (const struct att_template *const *t = att_templates; *t; t++)
        op_json(&j, *t);
    json_end(&j);
    json_begin_list(&j, "fields");
    for (int f = 0; f < ATT_FIELD_COUNT; f++) {
        if (is_taken(f))
            field_json(&j, &att_fields[f]);
    }
    json_end(&j);
    json_end(&j);
}

/* Prints a drawing of an iteration for each software pipeline of each op's main loop. */
static void help_pipelines(void)
{
    puts("A line is a phase of an iteration: its steps, each with the stage in brackets, which "
         "says how "
         "many\niterations its tile is older than the newest. Steps in parentheses are in some "
         "kernels "
         "only. A +\nsays that the next phase follows without a boundary.\n");
    for (const struct att_template *const *t = att_templates; *t; t++) {
        for (const struct pipeline *const *p = (*t)->pipelines; p && *p; p++) {
            pipe_draw(*p, "", stdout);
            putchar('\n');
        }
    }
}

/* The topics of `attnc help` that are not the name of a command, field or op. */
static const struct topic {
    const char *name, *summary;
    void (*print)(void);
} topics[] = {
    {"fields", "what a kernel in a description can say", help_fields},
    {"ops", "the op families and what each takes", help_ops},
    {"targets", "the GPUs that attnc compiles for", help_targets},
    {"passes", "the passes of the pipeline", help_passes},
    {"pipelines", "the schedules of the ops' main loops, drawn", help_pipelines},
    {"limits", "the values that each op's fields and calls can have", help_limits},
};
enum { TOPIC_COUNT = sizeof(topics) / sizeof(topics[0]) };

/* Prints the overview of the commands and topics. */
static void print_overview(void)
{
    puts("attnc compiles attention kernels for AMD GPUs ahead of time.\n\n"
         "Usage: attnc COMMAND ...\n");
    for (const struct command *const *c = commands; *c; c++)
        printf("  %-10s  %s\n", (*c)->name, (*c)->summary);
    puts("\n`attnc COMMAND --help` says more about one. Topics of `attnc help`:\n");
    for (int i = 0; i < TOPIC_COUNT; i++)
        printf("  %-10s  %s\n", topics[i].name, topics[i].summary);
    puts("\nand the name of any command, field or op.\n\n"
         "Exit codes: 0 good; 1 the input is wrong or a verification failed; 2 the environment\n"
         "is not as it must be (a file, a device, memory); 3 the output is written but not\n"
         "complete (describe: attnc lacks something that the model needs).");
}

/* Prints the page of a command, topic, field or op; both pages if a field and an op share the name.
 * Adds all names to `nearest` for a suggestion. Returns false if no page has this name. */
static bool print_topic(const char *name, struct attnc_nearest *nearest)
{
    for (int i = 0; i < TOPIC_COUNT; i++) {
        attnc_nearest_offer(nearest, topics[i].name);
        if (strcmp(topics[i].name, name) == 0) {
            topics[i].print();
            return true;
        }
    }
    for (const struct command *const *c = commands; *c; c++) {
        attnc_nearest_offer(nearest, (*c)->name);
        if (strcmp((*c)->name, name) == 0) {
            print_command_help(*c);
            return true;
        }
    }
    bool found = false; /* `metadata` is both a field and an op */
    for (int f = 0; f < ATT_FIELD_COUNT; f++) {
        attnc_nearest_offer(nearest, att_fields[f].name);
        if (strcmp(att_fields[f].name, name) == 0) {
            print_field(f);
            found = true;
        }
    }
    for (const struct att_template *const *t = att_templates; *t; t++) {
        attnc_nearest_offer(nearest, (*t)->name);
        if (strcmp((*t)->name, name) == 0) {
            (args.call ? help_call : help_op)(*t);
            found = true;
        }
    }
    return found;
}

/* Runs `attnc help`. */
static int run(int argc, char **argv)
{
    if (argc > 1)
        return complain(EXIT_USER, "usage: attnc help [TOPIC]");
    if (args.json) {
        print_json();
        return EXIT_GOOD;
    }
    if (argc == 0) {
        print_overview();
        return EXIT_GOOD;
    }
    struct attnc_nearest nearest = attnc_nearest_to(argv[0]);
    char ops[160];
    if (print_topic(argv[0], &nearest))
        return EXIT_GOOD;
    if (!nearest.name && attnc_suggest_ops(att_templates, argv[0], ops, sizeof(ops)))
        return complain(EXIT_USER, "no help on '%s'; did you mean %s?", argv[0], ops);
    return complain_nearest(nearest.name, "no help on '%s'", argv[0]);
}

const struct command command_help = {
    .name = "help",
    .usage = "[fields|ops|targets|passes|pipelines|limits|NAME]",
    .summary = "Explain commands, fields, ops, targets and passes",
    .options = options,
    .run = run,
};
