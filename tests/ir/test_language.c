/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the example in ir/LANGUAGE.md: it passes the verifier, and has the form in which functions
 * are printed.
 */
#include "targets/tgt.h"
#include "tests/ir/fixture.h"

static const char *document;

/* Returns the first indented block of the document that begins with `func`, without indentation.
   The caller frees it. */
static char *read_example(void)
{
    FILE *const in = fopen(document, "r");
    assert_non_null(in);
    char *text = NULL, *line = NULL;
    size_t size, cap = 0;
    FILE *const out = open_memstream(&text, &size);
    assert_non_null(out);
    bool inside = false;
    while (getline(&line, &cap, in) > 0) {
        inside = inside || !strncmp(line, "    func ", 9);
        if (inside && strncmp(line, "    ", 4))
            break;
        if (inside)
            fputs(line + 4, out);
    }
    free(line);
    fclose(out);
    fclose(in);
    return text;
}

TEST(example_of_the_document_is_what_it_prints)
{
    char *const example = read_example();
    char error[256];
    struct tir_func *const f =
        tir_parse(example, strlen(example), &tgt_find("gfx942")->machine, error);
    if (!f)
        fail_msg("%s:\n%s", error, example);
    assert_true(tir_verify(f, "reading", stderr));
    char *const text = printed(f);
    assert_string_equal(text, example);
    free(text);
    free(example);
    tir_func_destroy(f);
}

int main(int argc, char **argv)
{
    document = argc > 1 ? argv[1] : "ir/LANGUAGE.md";
    return run_unit_tests();
}
