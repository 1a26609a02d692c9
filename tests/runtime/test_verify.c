/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests `attnc verify`: it passes a correct kernel, and fails the same kernel if its record passes
 * wrong values. Arguments: attnc, a pack of one prefill kernel, a pack of kernels that copy keys
 * and values with scales. The last one is a pack of the prefill kernel on two targets.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/runtime/fixture.h"
#include "tests/runtime/packs.h"
#include "tests/unit_test.h"

static const char *attnc, *pack_path, *scales_path, *targets_path;

/* Finds the kernel's argument of this name in its record. */
static struct attn_pack_kernarg *find_argument(uint8_t *pack, struct attn_pack_kernel *k,
                                               const char *name)
{
    const struct attn_pack_header *h = (const void *)pack;
    const char *strings = (const char *)pack + h->sections[ATTN_PACK_STRINGS].offset;
    struct attn_pack_pair *pairs = (void *)(k + 1);
    struct attn_pack_kernarg *args = (void *)(pairs + k->pair_count);
    for (int i = 0; i < k->kernarg_count; i++) {
        if (!strcmp(strings + args[i].arg, name))
            return &args[i];
    }
    fail_msg("the kernel takes no %s", name);
    return NULL;
}

/* Runs verify on the simulator with an option and its number, and stores its standard output in
 * `text`. Returns the exit code. */
static int verify_with(const char *path, const char *option, int number, char *text, size_t size)
{
    char command[4096];
    snprintf(command, sizeof(command), "%s verify %s %s %d --device sim 2>&1", attnc, path, option,
             number);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    const size_t length = fread(text, 1, size - 1, f);
    text[length] = '\0';
    const int status = pclose(f);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int verify_seed(const char *path, int seed, char *text, size_t size)
{
    return verify_with(path, "--seed", seed, text, size);
}

static int verify(const char *path, char *text, size_t size)
{
    return verify_seed(path, 1, text, size);
}

static char output[1 << 16];

static void expect(const char *text)
{
    if (!strstr(output, text))
        fail_msg("verify does not print \"%s\":\n%s", text, output);
}

/* Verifies a copy of a pack with two arguments of each kernel exchanged. */
static void verify_swapped_in(const char *from, const char *a, const char *b, int seed)
{
    size_t size;
    uint8_t *pack = read_file(from, &size);
    const struct attn_pack_header *h = (const void *)pack;
    uint8_t *record = pack + h->sections[ATTN_PACK_KERNELS].offset;
    for (uint32_t i = 0; i < h->kernel_count; i++) {
        struct attn_pack_kernel *k = (void *)record;
        struct attn_pack_kernarg *x = find_argument(pack, k, a), *y = find_argument(pack, k, b);
        const attn_pack_string arg = x->arg;
        x->arg = y->arg;
        y->arg = arg;
        record += k->size;
    }
    reseal(pack, size);
    char path[] = "test_verify_XXXXXX";
    int fd = mkstemp(path);
    assert_int_equal(write(fd, pack, size), size);
    close(fd);
    free(pack);
    const int code = verify_seed(path, seed, output, sizeof(output));
    unlink(path);
    assert_int_equal(code, 1);
}

static void verify_swapped(const char *a, const char *b) { verify_swapped_in(pack_path, a, b, 1); }

TEST(a_sound_kernel_passes)
{
    if (verify(pack_path, output, sizeof(output)) != 0)
        fail_msg("%s", output);
    expect("simulated by hipsim");
    expect("beyond 4 GiB");
    expect("1 of 1 kernels verified, 16 shapes, 0 failed");
}

TEST(wrong_results_fail)
{
    verify_swapped("k", "v");
    expect("FAIL");
    expect("expected");
}

/* The kernel reads the poison of out and writes q. */
TEST(writing_an_input_fails)
{
    verify_swapped("q", "out");
    expect("not written, or NaN");
    expect("of q's memory belongs to no result and was written");
}

TEST(strides_of_another_tensor_fail)
{
    verify_swapped("v_head_stride", "out_head_stride"); /* they only differ in views */
    expect("views");
    expect("FAIL");
}

static int count(const char *text)
{
    int n = 0;
    for (const char *at = output; (at = strstr(at, text)); at += strlen(text))
        n++;
    return n;
}

/* Each shape with tokens fails with any seed if the scales of keys and values are exchanged. With
 * seeds 8, 10 and 19 two independent random scales would be almost equal in some shape. The shape
 * "none" has no tokens, so that its kernels read no scale. */
TEST(scales_of_another_tensor_fail)
{
    if (verify(scales_path, output, sizeof(output)) != 0)
        fail_msg("%s", output);
    const int empty = count(" none ");
    assert_int_equal(empty, 6);
    expect("6 of 6 kernels verified, 62 shapes, 0 failed");
    static const int seeds[] = {8, 10, 19};
    for (size_t i = 0; i < sizeof(seeds) / sizeof(seeds[0]); i++) {
        verify_swapped_in(scales_path, "k_scale", "v_scale", seeds[i]);
        if (count("  ok\n") != empty || count("FAIL") != 62 - empty)
            fail_msg("shapes with tokens pass with seed %d:\n%s", seeds[i], output);
    }
}

/* Adds a copy of the pack's kernel `n` under another name, for the calls of `when`; `broken`
 * exchanges its K and V. */
static void add_copy(struct attnc_pack_writer *w, const uint8_t *pack, int n, const char *name,
                     const struct attnc_pack_when *when, bool broken)
{
    const struct attn_pack_header *h = (const void *)pack;
    const char *strings = (const char *)pack + h->sections[ATTN_PACK_STRINGS].offset;
    const struct attn_pack_kernel *k = (const void *)(pack + h->sections[ATTN_PACK_KERNELS].offset);
    while (n--)
        k = (const void *)((const char *)k + k->size);
    const struct attn_pack_pair *pairs = (const void *)(k + 1);
    const struct attn_pack_kernarg *args = (const void *)(pairs + k->pair_count);
    const struct attn_pack_factor *factors = (const void *)(args + k->kernarg_count);
    struct attnc_pack_pair key[ATTN_PACK_PAIRS_MAX];
    struct attnc_pack_kernarg kernargs[ATTN_PACK_KERNARGS_MAX];
    struct attnc_pack_factor grid[3][ATTN_PACK_FACTORS_MAX];
    for (int i = 0; i < k->pair_count; i++)
        key[i] = (struct attnc_pack_pair){strings + pairs[i].field, strings + pairs[i].value};
    for (int i = 0; i < k->kernarg_count; i++) {
        const char *arg = strings + args[i].arg;
        if (broken && (!strcmp(arg, "k") || !strcmp(arg, "v")))
            arg = arg[0] == 'k' ? "v" : "k";
        kernargs[i] = (struct attnc_pack_kernarg){arg, args[i].offset, args[i].kind};
    }
    for (int d = 0; d < 3; d++) {
        for (int i = 0; i < k->factor_count[d]; i++, factors++)
            grid[d][i] = (struct attnc_pack_factor){
                strings[factors->arg] ? strings + factors->arg : NULL,
                factors->number,
            };
    }
    const struct attnc_pack_kernel copy = {
        .name = name,
        .symbol = (const char *)k + k->symbol,
        .op = strings + k->op,
        .target = strings + k->target,
        .key = key,
        .key_count = k->pair_count,
        .kernargs = kernargs,
        .kernarg_count = k->kernarg_count,
        .kernarg_size = k->kernarg_size,
        .grid = {grid[0], grid[1], grid[2]},
        .grid_count = {k->factor_count[0], k->factor_count[1], k->factor_count[2]},
        .when = when,
        .when_count = when != NULL,
        .workgroup = {k->workgroup[0], k->workgroup[1], k->workgroup[2]},
#define NUMBER(type, name) .name = k->name,
#include "pack/kernel_numbers.def"
        .code = pack + h->sections[ATTN_PACK_CODE].offset + k->code_offset,
        .code_size = k->code_size,
    };
    if (!attnc_pack_writer_add(w, &copy))
        fail_msg("%s", attnc_pack_writer_error(w));
}

/* Verifies the pack that `w` has, and destroys `w`. `option` is an option of verify and `number`
 * its number. */
static int verify_written(struct attnc_pack_writer *w, const char *option, int number)
{
    void *pack;
    size_t size;
    assert_true(attnc_pack_writer_finish(w, &pack, &size));
    attnc_pack_writer_destroy(w);
    char path[] = "test_verify_XXXXXX";
    int fd = mkstemp(path);
    assert_int_equal(write(fd, pack, size), size);
    close(fd);
    free(pack);
    const int code = verify_with(path, option, number, output, sizeof(output));
    unlink(path);
    return code;
}

/* Verifies a pack of two kernels with one key: one for up to 64 queries, one for the rest. */
static int verify_two(bool first_broken, bool second_broken)
{
    static const struct attnc_pack_when few = {"max_seqlen_q", 0, 64};
    size_t size;
    uint8_t *one = read_file(pack_path, &size);
    struct attnc_pack_writer *w = attnc_pack_writer_create();
    add_copy(w, one, 0, "few", &few, first_broken);
    add_copy(w, one, 0, "many", NULL, second_broken);
    free(one);
    return verify_written(w, "--seed", 1);
}

TEST(kernels_of_a_device_that_ends_are_counted)
{
    setenv("HIPSIM", "memory=0", 1);
    const int code = verify(pack_path, output, sizeof(output));
    unsetenv("HIPSIM");
    assert_int_not_equal(code, 0);
    expect("0 of 1 kernels verified, 0 shapes, 0 failed, 1 NOT VERIFIED: their device ended first");
}

TEST(each_kernel_of_a_key_is_verified)
{
    if (verify_two(false, false) != 0)
        fail_msg("%s", output);
    expect("2 of 2 kernels verified, 26 shapes, 0 failed"); /* for any calls */
    expect("\nfew ");
    expect("\nmany ");
    assert_int_equal(verify_two(true, false), 1);
    assert_int_equal(verify_two(false, true), 1);
}

/* Two kernels that differ only in the target run different shapes. So do kernels that follow each
 * other, of six that copy keys and values. */
TEST(kernels_share_out_the_shapes)
{
    if (verify_with(targets_path, "--every", 8, output, sizeof(output)) != 0)
        fail_msg("%s", output);
    expect("2 of 2 kernels verified, 4 shapes, 0 failed");
    expect("gfx942  late maximum ");
    expect("gfx942  views ");
    expect("gfx950  tails ");
    expect("gfx950  beyond 4 GiB ");
    assert_int_equal(
        verify_with(scales_path, "--only 'cache_g*' --every", 2, output, sizeof(output)), 0);
    expect("2 of 2 kernels verified, 9 shapes, 0 failed");
    expect("head_gfx950    whole ");
    expect("tensor_gfx950  views ");
}

/* The target is not always the last word of a name. Kernels of one key and target are no twins. A
 * kernel of one of two targets runs the shapes that twins run on both. It takes no turn of the
 * twins after it. */
TEST(kernels_with_names_for_calls_share_out_the_shapes)
{
    static const struct attnc_pack_when few = {"max_seqlen_q", 0, 8},
                                        more = {"max_seqlen_q", 9, 64};
    size_t size;
    uint8_t *two = read_file(targets_path, &size);
    struct attnc_pack_writer *w = attnc_pack_writer_create();
    add_copy(w, two, 0, "a_gfx942", &few, false);
    add_copy(w, two, 0, "lone_gfx942", &more, false);
    add_copy(w, two, 0, "a_gfx942_calls2", NULL, false);
    add_copy(w, two, 1, "a_gfx950", &few, false);
    add_copy(w, two, 1, "a_gfx950_calls2", NULL, false);
    free(two);
    if (verify_written(w, "--shapes 1 --every", 2) != 0)
        fail_msg("%s", output);
    expect("5 of 5 kernels verified, 6 shapes, 0 failed");
    expect("a_gfx942         late maximum ");
    expect("a_gfx950         tails ");
    expect("a_gfx942_calls2  tails ");
    expect("a_gfx950_calls2  late maximum ");
    expect("lone_gfx942      late maximum ");
    expect("lone_gfx942      tails ");
}

/* More than there are shapes: each kernel runs one. */
TEST(one_in_very_many_shapes_is_one)
{
    if (verify_with(targets_path, "--every", INT_MAX, output, sizeof(output)) != 0)
        fail_msg("%s", output);
    expect("2 of 2 kernels verified, 2 shapes, 0 failed");
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return 2;
    attnc = argv[1];
    pack_path = argv[2];
    scales_path = argv[3];
    targets_path = argv[4];
    return run_unit_tests();
}
