/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables of all pipelines: each is drawn as the head of its file draws it, and no small change
 * of a table that breaks its loop passes the checker.
 *
 * `test_pipelines ROOT --update` writes the drawings.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "templates/attention/steps.h"
#include "templates/pipeline/pipeline.h"
#include "templates/template.h"

static const char *root = ".";
static bool update;

static char *read_file(const char *path)
{
    FILE *const f = fopen(path, "r");
    if (!f)
        fail_msg("%s is not there: a pipeline's table is in the file of its name", path);
    static char text[1 << 16];
    const size_t n = fread(text, 1, sizeof(text) - 1, f);
    text[n] = '\0';
    fclose(f);
    return text;
}

static char *drawn(const struct pipeline *p)
{
    char *text = NULL;
    size_t size = 0;
    FILE *const f = open_memstream(&text, &size);
    assert_non_null(f);
    pipe_draw(p, " *     ", f);
    fclose(f);
    return text;
}

/* Puts the drawing in place of the lines of the head that have its indent. */
static void write_drawing(const char *path, const char *drawing)
{
    const char *const text = read_file(path);
    const char *const begin = strstr(text, "\n *     ");
    assert_non_null(begin);
    const char *end = begin + 1;
    while (!strncmp(end, " *     ", strlen(" *     ")))
        end = strchr(end, '\n') + 1;
    char *const rest = strdup(end);
    FILE *const f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "%.*s\n%s%s", (int)(begin - text), text, drawing, rest);
    fclose(f);
    free(rest);
}

static void each_file_begins_with_its_drawing(void **state)
{
    enum { MOST_LINES = 120 };
    unsigned n = 0;
    (void)state;
    for (const struct att_template *const *t = att_templates; *t; t++)
        for (const struct pipeline *const *p = (*t)->pipelines; p && *p; p++, n++) {
            char path[512];
            snprintf(path, sizeof(path), "%s/templates/%s/pipelines/%s.c", root, (*t)->name,
                     (*p)->name);
            char *const drawing = drawn(*p);
            if (update)
                write_drawing(path, drawing);
            const char *const text = read_file(path);
            if (!strstr(text, drawing))
                fail_msg("%s does not begin with\n%s", path, drawing);
            unsigned lines = 0;
            for (const char *c = text; *c; c++)
                lines += *c == '\n';
            if (lines > MOST_LINES)
                fail_msg("%s has %u lines, more than %d", path, lines, MOST_LINES);
            free(drawing);
        }
    assert_true(n > 0);
}

int main(int argc, char **argv)
{
    root = argc > 1 ? argv[1] : ".";
    update = argc > 2 && !strcmp(argv[2], "--update");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_file_begins_with_its_drawing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
