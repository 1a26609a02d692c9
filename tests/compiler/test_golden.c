/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests golden pairs: each golden/NAME.yaml (or .json) has a second file that decides. NAME.err:
 * the reader refuses the description with exactly these messages. NAME.variants: it accepts the
 * description with these variants and warnings. A new case is two files; no registration is needed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <glob.h>
#include <unistd.h>

#include "compiler/description.h"
#include "tests/compiler/toy.h"

static bool update;

static char *read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    char *text = NULL;
    size_t size = 0;
    FILE *copy = open_memstream(&text, &size);
    for (int c; (c = fgetc(f)) != EOF;)
        fputc(c, copy);
    fclose(f);
    fclose(copy);
    return text;
}

/* Reads the file and returns the printed messages, then the variants. */
static char *run(const char *path, bool *good)
{
    struct attnc_description desc;
    struct attnc_diag d;
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    *good = attnc_read_description(path, &(struct attnc_read_options){.templates = toy_templates},
                                   &desc, &d);
    attnc_diag_print(&d, out);
    for (size_t i = 0; i < desc.count; i++) {
        char line[ATT_TEXT_MAX];
        att_variant_text(&desc.variants[i], line);
        fprintf(out, "%s\n", line);
    }
    fclose(out);
    attnc_diag_clear(&d);
    attnc_description_free(&desc);
    return text;
}

static void check_golden(void **state)
{
    const char *path = *state;
    char expected_path[256];
    int stem = (int)(strrchr(path, '.') - path);
    bool good;
    char *actual = run(path, &good);
    snprintf(expected_path, sizeof(expected_path), "%.*s.%s", stem, path,
             good ? "variants" : "err");
    if (update) {
        FILE *f = fopen(expected_path, "wb");
        fputs(actual, f);
        fclose(f);
    }
    char *expected = read_file(expected_path);
    if (!expected || strcmp(actual, expected) != 0)
        fail_msg("%s differs\n--- expected\n%s--- actual\n%s---", expected_path,
                 expected ? expected : "(no such file)\n", actual);
    free(expected);
    free(actual);
}

/*
 * Usage: test_golden DIRECTORY [--update]; paths in messages are relative to it. --update writes
 * the reader's current output, to be reviewed as a diff.
 */
int main(int argc, char **argv)
{
    glob_t found = {0};
    update = argc == 3 && strcmp(argv[2], "--update") == 0;
    if (argc != 2 + update || chdir(argv[1]) != 0 || glob("*.yaml", 0, NULL, &found) != 0 ||
        glob("*.json", GLOB_APPEND, NULL, &found) != 0) {
        fprintf(stderr, "no golden pairs in %s\n", argc > 1 ? argv[1] : "(no directory)");
        return 1;
    }
    struct CMUnitTest *tests = calloc(found.gl_pathc, sizeof(*tests));
    for (size_t i = 0; i < found.gl_pathc; i++)
        tests[i] = (struct CMUnitTest){.name = found.gl_pathv[i],
                                       .test_func = check_golden,
                                       .initial_state = found.gl_pathv[i]};
    int failed = _cmocka_run_group_tests("golden", tests, found.gl_pathc, NULL, NULL);
    free(tests);
    globfree(&found);
    return failed;
}
