/* SPDX-License-Identifier: Apache-2.0
 *
 * This file tests golden pairs: golden/<pass>/<what it shows>.tir is run through that pass, and the
 * result must equal <what it shows>.expect. A line "// schedule: NAME NAME=NUMBER ..." in the input
 * sets fields of the schedule. To add a pair, write the input and run `test_ir_golden DIR
 * --update`, which writes the result; read it before it is committed.
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

/* A field of the schedule that an input may set. */
struct setting {
    const char *name;
    uint8_t *field;
};

/* Sets fields of a schedule by the words after "// schedule:" in the input: NAME or NAME=NUMBER. */
static void read_schedule(const char *input, const struct setting *settings, unsigned n)
{
    static const char mark[] = "\n// schedule: ";
    const char *at = strstr(input, mark);
    if (!at)
        return;
    char *const line = strndup(at + sizeof(mark) - 1, strcspn(at + 1, "\n") - sizeof(mark) + 2);
    assert_non_null(line);
    char *rest = line;
    for (char *word; (word = strsep(&rest, " "));) {
        char *const value = strchr(word, '=');
        if (value)
            *value = 0;
        unsigned i = 0;
        while (i < n && strcmp(settings[i].name, word))
            i++;
        if (i == n)
            fail_msg("schedule has no \"%s\"", word);
        *settings[i].field = value ? (uint8_t)atoi(value + 1) : 1;
    }
    free(line);
}

/* The schedule of an input: three stages, whose phase 1 is a matrix phase, and what the input
   sets. */
static struct tir_schedule schedule_of(const char *input)
{
    struct tir_schedule s = {
        .loop = {.stages = 3, .matrix_phases = 2, .unroll = 1, .drain_from = 1, .drain_to = 2},
        .cover = TIR_COVER_EVEN,
        .bare_last = 1};
    const struct setting settings[] = {
        {"unroll", &s.loop.unroll},
        {"drain", &s.loop.drain},
        {"one_wave", &s.loop.one_wave},
        {"roles", &s.loop.roles},
        {"open_phases", &s.loop.open_phases},
        {"shift_early", &s.loop.shift_early},
        {"barriers", &s.loop.barriers},
        {"bare_iterations", &s.loop.bare_iterations},
        {"cover", &s.cover},
        {"bare_last", &s.bare_last},
        {"read_ahead", &s.read_ahead},
        {"read_group", &s.read_group},
        {"transpose_ahead", &s.transpose_ahead},
        {"late_ahead", &s.late_ahead},
        {"exchange_ahead", &s.exchange_ahead},
        {"result_after", &s.result_after},
        {"hoist_vgprs", &s.hoist_vgprs},
        {"holds", &s.holds},
        {"reads_apart", &s.reads_apart},
        {"memory_priority", &s.memory_priority},
        {"early_priority", &s.early_priority},
        {"loop_at", &s.loop_at},
        {"even_code", &s.even_code},
    };
    read_schedule(input, settings, sizeof(settings) / sizeof(settings[0]));
    return s;
}

static void run_case(const struct tir_pass *pass, const char *input_path, const char *expect_path)
{
    char *const input = read_file(input_path);
    assert_non_null(input);
    const struct tir_schedule schedule = schedule_of(input);
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

TEST(every_pair_matches)
{
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
    return run_unit_tests();
}
