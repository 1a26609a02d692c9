/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file tests the tester: `attnc verify` passes a sound kernel, and fails the same kernel when
 * its record hands it the wrong values. Arguments: attnc, a pack of one prefill kernel.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/runtime/packs.h"

static const char *attnc, *pack_path;

static uint8_t *read_file(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    *size = (size_t)ftell(f);
    rewind(f);
    uint8_t *bytes = malloc(*size);
    assert_int_equal(fread(bytes, 1, *size, f), *size);
    fclose(f);
    return bytes;
}

/* The kernel's argument of this name, in the record of a pack with one kernel. */
static struct attn_pack_kernarg *find_argument(uint8_t *pack, const char *name)
{
    const struct attn_pack_header *h = (const void *)pack;
    const char *strings = (const char *)pack + h->sections[ATTN_PACK_STRINGS].offset;
    struct attn_pack_kernel *k = (void *)(pack + h->sections[ATTN_PACK_KERNELS].offset);
    struct attn_pack_pair *pairs = (void *)(k + 1);
    struct attn_pack_kernarg *args = (void *)(pairs + k->pair_count);
    for (int i = 0; i < k->kernarg_count; i++) {
        if (!strcmp(strings + args[i].arg, name))
            return &args[i];
    }
    fail_msg("the kernel takes no %s", name);
    return NULL;
}

/* Runs verify on the simulator; its standard output goes to `text`. Returns the exit code. */
static int verify(const char *path, char *text, size_t size)
{
    char command[4096];
    snprintf(command, sizeof(command), "%s verify %s --device sim 2>&1", attnc, path);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    const size_t length = fread(text, 1, size - 1, f);
    text[length] = '\0';
    const int status = pclose(f);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static char output[1 << 16];

static void expect(const char *text)
{
    if (!strstr(output, text))
        fail_msg("verify does not print \"%s\":\n%s", text, output);
}

/* Verifies a copy of the pack in which two arguments have changed places. */
static void verify_swapped(const char *a, const char *b)
{
    size_t size;
    uint8_t *pack = read_file(pack_path, &size);
    struct attn_pack_kernarg *x = find_argument(pack, a), *y = find_argument(pack, b);
    const attn_pack_string arg = x->arg;
    x->arg = y->arg;
    y->arg = arg;
    reseal(pack, size);
    char path[] = "test_verify_XXXXXX";
    int fd = mkstemp(path);
    assert_int_equal(write(fd, pack, size), size);
    close(fd);
    free(pack);
    const int code = verify(path, output, sizeof(output));
    unlink(path);
    assert_int_equal(code, 1);
}

static void a_sound_kernel_passes(void **state)
{
    (void)state;
    if (verify(pack_path, output, sizeof(output)) != 0)
        fail_msg("%s", output);
    expect("simulated by hipsim");
    expect("beyond 4 GiB");
    expect("1 of 1 kernels verified, 10 shapes, 0 failed");
}

static void wrong_results_fail(void **state)
{
    (void)state;
    verify_swapped("k", "v");
    expect("FAIL");
    expect("expected");
}

static void a_write_outside_fails(void **state)
{
    (void)state;
    verify_swapped("v_head_stride", "out_head_stride"); /* differ in views only */
    expect("views");
    expect("belongs to no query and was written");
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    attnc = argv[1];
    pack_path = argv[2];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sound_kernel_passes),
        cmocka_unit_test(wrong_results_fail),
        cmocka_unit_test(a_write_outside_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
