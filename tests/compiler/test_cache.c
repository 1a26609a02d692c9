/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the cache of compiled kernels: what its keys distinguish, and which entries it removes
 * first. Also tests the alternative kernels of a key, which have disjoint calls.
 */
#include <stdlib.h>
#include <string.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compiler/cache.h"
#include "compiler/second.h"
#include "tests/unit_test.h"

extern const struct att_template att_template_head_product, att_template_prefill;

static struct att_variant product(void)
{
    struct att_variant v;
    att_variant_init(&v, &att_template_head_product, "gfx950");
    att_set(&v, ATT_HEAD_DIM, 512);
    att_set(&v, ATT_HEAD_DIM_V, 128);
    return v;
}

TEST(all_that_decides_a_kernel_is_in_its_key)
{
    enum { KEYS = 8 };
    uint8_t text[] = "abcd", other[] = "abce";
    const struct tgt_blob none = {0}, hook = {text, 4}, changed = {other, 4};
    static const struct tir_fitted rows[] = {{"prefill", "hoist_vgprs", 7, 0, 0, 0}, {0}};
    struct att_variant v = product(), wide = v, tiled = v, own, fitted;
    att_variant_init(&own, &att_template_prefill, "gfx950");
    att_set(&own, ATT_HEAD_DIM, 64);
    att_variant_resolve(&own);
    fitted = own;
    fitted.fitted = rows;
    att_set(&wide, ATT_HEAD_DIM_V, 256);
    tiled.tile = 3;
    const struct attnc_cache_key keys[KEYS] = {
        attnc_cache_key(2, &v, &none),    attnc_cache_key(4, &v, &none),
        attnc_cache_key(2, &wide, &none), attnc_cache_key(2, &tiled, &none),
        attnc_cache_key(2, &v, &hook),    attnc_cache_key(2, &v, &changed),
        attnc_cache_key(2, &own, &none),  attnc_cache_key(2, &fitted, &none),
    };
    const struct attnc_cache_key again = attnc_cache_key(2, &v, &none);
    assert_string_equal(keys[0].text, again.text);
    for (int i = 0; i < KEYS; i++)
        for (int j = 0; j < i; j++)
            assert_string_not_equal(keys[i].text, keys[j].text);
}

/* Writes an entry whose last use was at `seconds` and `nanoseconds` since 1970. */
static void put(const char *dir, const char *name, long seconds, long nanoseconds)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/ab/%030d", dir, atoi(name));
    const int fd = open(path, O_CREAT | O_WRONLY, 0600);
    const struct timespec times[] = {{seconds, nanoseconds}, {seconds, nanoseconds}};
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "12345678", 8), 8);
    assert_int_equal(futimens(fd, times), 0);
    close(fd);
}

static bool is_there(const char *dir, const char *name)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/ab/%030d", dir, atoi(name));
    return access(path, F_OK) == 0;
}

TEST(what_was_not_used_for_longest_goes_first)
{
    char dir[] = "test_cache_XXXXXX", part[64];
    struct attnc_cache_size size;
    assert_non_null(mkdtemp(dir));
    snprintf(part, sizeof(part), "%s/ab", dir);
    assert_int_equal(mkdir(part, 0700), 0);
    put(dir, "1", 2000, 0);
    put(dir, "2", 1000, 500);
    put(dir, "3", 1000, 400);
    put(dir, "4", 3000, 0);
    assert_true(attnc_cache_trim(dir, 24, &size));
    assert_false(is_there(dir, "3"));
    assert_int_equal(size.removed, 1);
    assert_int_equal(size.bytes, 24);
    assert_true(attnc_cache_trim(dir, 17, &size));
    assert_false(is_there(dir, "2"));
    assert_true(is_there(dir, "1") && is_there(dir, "4"));
    assert_true(attnc_cache_trim(dir, 8, &size));
    assert_true(!is_there(dir, "1") && is_there(dir, "4"));
    assert_true(attnc_cache_trim(dir, 0, &size));
    assert_int_equal(size.kernels, 0);
    rmdir(part);
    rmdir(dir);
}

/* Second kernels of head_product: one streams w, the others are for few tokens, more tokens, and
 * few heads. */
TEST(a_second_kernel_has_all_its_calls)
{
    static const unsigned boxes[] = {3, 1};
    struct attnc_diag d = {0};
    struct attnc_description desc = {.variants = malloc(sizeof(*desc.variants)), .count = 1};
    assert_non_null(desc.variants);
    desc.variants[0] = product();
    assert_true(attnc_add_seconds(&desc, &d));
    assert_int_equal(desc.count, 3);
    assert_null(desc.variants[0].choice);
    for (int i = 0; i < 2; i++) {
        assert_non_null(desc.variants[1 + i].choice);
        assert_int_equal(desc.variants[1 + i].choice->count, boxes[i]);
    }
    free(desc.variants);
    free(desc.seconds);
}

int main(void) { return run_unit_tests(); }
