/* SPDX-License-Identifier: Apache-2.0
 *
 * Golden pairs: golden/<pass>/<what it shows>.tir is run through that pass, and what it prints is
 * <what it shows>.expect beside it. Its schedule is the same for all but for `fill` and `mixed`,
 * which a line "// schedule: fill" asks for. A new pair is two files; `test_ir_golden DIR
 * --update` writes the second, to be read before it is committed.
 */
#include <dirent.h>

#include "tests/ir/fixture.h"

static const char *golden_dir;
static bool update;
static unsigned n_cases;

static char *read_file(const char *path)
{
    FILE *const in = fopen(path, "r");
    if (!in)
        return NULL;
    char *text = NULL;
    size_t size;
    FILE *const out = open_memstream(&text, &size);
    assert_non_null(out);
    for (int c; (c = getc(in)) != EOF;)
        putc(c, out);
    fclose(out);
    fclose(in);
    return text;
}

static const struct tir_pass *pass_named(const char *name)
{
    for (unsigned i = 0; i < tir_n_passes; i++)
        if (!strcmp(tir_passes[i].name, name))
            return &tir_passes[i];
    fail_msg("golden/%s: there is no such pass", name);
    return NULL;
}

/* True if the input says so of its schedule. */
static bool has_line(const char *input, const char *what)
{
    char line[64];
    snprintf(line, sizeof(line), "\n// schedule: %s\n", what);
    return strstr(input, line) != NULL;
}

static void run_case(const struct tir_pass *pass, const char *input_path, const char *expect_path)
{
    char *const input = read_file(input_path);
    assert_non_null(input);
    const struct tir_schedule schedule = {.loop = {.stages = 3,
                                                   .matrix_phases = 2,
                                                   .unroll = has_line(input, "unroll") ? 2 : 1,
                                                   .drain = has_line(input, "drain") ? 2 : 0,
                                                   .drain_from = 1,
                                                   .drain_to = 2,
                                                   .one_wave = has_line(input, "one_wave")},
                                          .cover = has_line(input, "mixed")  ? TIR_COVER_MIXED
                                                   : has_line(input, "fill") ? TIR_COVER_FILL
                                                                             : TIR_COVER_EVEN,
                                          .bare_last = 1,
                                          .loop_at = has_line(input, "loop_at=4") ? 4 : 0,
                                          .even_code = has_line(input, "even_code")};
    struct tir_func *const f = parsed(input);
    if (!tir_verify(f, "reading", stderr))
        fail_msg("%s is not sound", input_path);
    pass->run(f, &schedule);
    if (!tir_verify(f, pass->name, stderr))
        fail_msg("%s breaks %s", pass->name, input_path);
    char *const text = printed(f);
    if (update) {
        FILE *const out = fopen(expect_path, "w");
        assert_non_null(out);
        fputs(text, out);
        fclose(out);
    }
    char *const expected = read_file(expect_path);
    if (!expected || strcmp(text, expected))
        fail_msg("%s:\n%s\ninstead of\n%s", input_path, text, expected ? expected : "(no file)");
    free(input);
    free(text);
    free(expected);
    tir_func_destroy(f);
    n_cases++;
}

static void run_pass_dir(const char *name)
{
    const struct tir_pass *const pass = pass_named(name);
    char *dir_path = NULL;
    assert_true(asprintf(&dir_path, "%s/%s", golden_dir, name) > 0);
    DIR *const dir = opendir(dir_path);
    assert_non_null(dir);
    for (const struct dirent *e; (e = readdir(dir));) {
        const char *const dot = strrchr(e->d_name, '.');
        if (!dot || strcmp(dot, ".tir"))
            continue;
        char *input = NULL, *expect = NULL;
        assert_true(asprintf(&input, "%s/%s", dir_path, e->d_name) > 0);
        assert_true(
            asprintf(&expect, "%s/%.*s.expect", dir_path, (int)(dot - e->d_name), e->d_name) > 0);
        run_case(pass, input, expect);
        free(input);
        free(expect);
    }
    closedir(dir);
    free(dir_path);
}

static void every_pair_matches(void **state)
{
    (void)state;
    DIR *const dir = opendir(golden_dir);
    assert_non_null(dir);
    for (const struct dirent *e; (e = readdir(dir));)
        if (e->d_name[0] != '.')
            run_pass_dir(e->d_name);
    closedir(dir);
    assert_true(n_cases > 0);
}

int main(int argc, char **argv)
{
    golden_dir = argc > 1 ? argv[1] : "tests/ir/golden";
    update = argc > 2 && !strcmp(argv[2], "--update");
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_pair_matches)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
