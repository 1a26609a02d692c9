/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests libattn when host calls fail: every call that allocates, opens, reads, maps or loads fails
 * once. Each failure has its status, nothing leaks, and the failed call succeeds when repeated on
 * the same handles. The static library is linked with --wrap, so that only its calls are counted.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/runtime/fixture.h"
#include "tests/unit_test.h"

static struct {
    long fail_at;       /* the n-th call from now fails (1: the next); 0: none */
    const char *only;   /* only calls of this name count; NULL: all */
    const char *failed; /* the call that failed */
    long held;          /* blocks, mappings, files and libraries not yet released */
} host;

static bool fails(const char *name)
{
    if (host.fail_at == 0 || (host.only && strcmp(host.only, name)) || --host.fail_at)
        return false;
    host.failed = name;
    return true;
}

/* Defines a wrapper: it returns `refusal` if it must fail, else makes the call and counts what it
 * holds. */
#define WRAP(type, name, parameters, arguments, error, refusal, holds) \
    type __real_##name parameters;                                     \
    type __wrap_##name parameters;                                     \
    type __wrap_##name parameters                                      \
    {                                                                  \
        if (fails(#name)) {                                            \
            errno = error;                                             \
            return refusal;                                            \
        }                                                              \
        type r = __real_##name arguments;                              \
        host.held += (holds);                                          \
        return r;                                                      \
    }

WRAP(void *, malloc, (size_t size), (size), ENOMEM, NULL, r != NULL)
WRAP(void *, calloc, (size_t count, size_t size), (count, size), ENOMEM, NULL, r != NULL)
WRAP(void *, mmap64, (void *at, size_t size, int access, int flags, int fd, off_t offset),
     (at, size, access, flags, fd, offset), ENOMEM, MAP_FAILED, r != MAP_FAILED)
WRAP(int, open64, (const char *path, int flags), (path, flags), EMFILE, -1, r >= 0)
WRAP(int, fstat64, (int fd, struct stat *st), (fd, st), EIO, -1, 0)
WRAP(ssize_t, pread64, (int fd, void *to, size_t size, off_t offset), (fd, to, size, offset), EIO,
     -1, 0)
WRAP(void *, dlopen, (const char *path, int flags), (path, flags), 0, NULL, r != NULL)
WRAP(void *, dlsym, (void *library, const char *name), (library, name), 0, NULL, 0)
WRAP(int, pthread_atfork, (void (*before)(void), void (*parent)(void), void (*child)(void)),
     (before, parent, child), 0, ENOMEM, 0)
WRAP(int, pthread_mutex_init, (pthread_mutex_t * lock, const pthread_mutexattr_t *attributes),
     (lock, attributes), 0, ENOMEM, 0)

/* Defines the wrapper of a function that releases. */
#define GIVES_BACK(type, name, parameters, arguments, gives) \
    type __real_##name parameters;                           \
    type __wrap_##name parameters;                           \
    type __wrap_##name parameters                            \
    {                                                        \
        host.held -= (gives);                                \
        return __real_##name arguments;                      \
    }

GIVES_BACK(int, munmap, (void *at, size_t size), (at, size), 1)
GIVES_BACK(int, close, (int fd), (fd), 1)
GIVES_BACK(int, dlclose, (void *library), (library), 1)

void __real_free(void *p);
void __wrap_free(void *p);
void __wrap_free(void *p)
{
    host.held -= p != NULL;
    __real_free(p);
}

static int status_of(const char *name)
{
    static const struct {
        const char *name;
        int status;
    } rows[] = {
        {"malloc", ATTN_NO_MEMORY},
        {"calloc", ATTN_NO_MEMORY},
        {"mmap64", ATTN_NO_MEMORY},
        {"pthread_atfork", ATTN_NO_MEMORY},
        {"pthread_mutex_init", ATTN_NO_MEMORY},
        {"open64", ATTN_IO},
        {"fstat64", ATTN_IO},
        {"pread64", ATTN_IO},
        {"dlopen", ATTN_NO_HIP},
        {"dlsym", ATTN_NO_HIP},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        if (!strcmp(rows[i].name, name))
            return rows[i].status;
    }
    fail_msg("%s has no status", name);
    return 0;
}

/* Checks the status of a library call. If it is the call that fails, it is repeated and must
 * succeed. */
static void require(int status)
{
    if (status)
        fail_msg("%s: %s", attn_status_name(status), attn_last_error());
}

#define SURVIVES(call)                                        \
    do {                                                      \
        const int status = (call);                            \
        if (status) {                                         \
            assert_non_null(host.failed);                     \
            assert_int_equal(status, status_of(host.failed)); \
            assert_true(attn_last_error()[0]);                \
            refused++;                                        \
            require(call);                                    \
        }                                                     \
    } while (0)

static const char *pack_path;

/* Calls every function of the library. Returns how many of these calls failed. */
static int whole_life(void)
{
    int refused = 0;
    struct attn_pack *pack;
    SURVIVES(attn_pack_open(pack_path, &pack));
    SURVIVES(attn_pack_check(pack));
    struct attn_kernel_info kernel = {.size = sizeof(kernel)};
    SURVIVES(attn_pack_kernel(pack, 0, &kernel));
    uint8_t code[256];
    size_t size;
    SURVIVES(attn_pack_kernel_code(pack, 0, code, sizeof(code), &size));
    struct attn_device_options o = fake_options();
    o.flags = ATTN_CHECK_DATA;
    struct attn_device *device;
    SURVIVES(attn_device_open(&pack, 1, &o, &device));
    struct attn_prefill_desc d = plain_desc();
    struct attn_op *op, *none;
    SURVIVES(attn_prefill_lookup(device, &d, &op));
    d.head_dim = 96;
    const int absent = attn_prefill_lookup(device, &d, &none); /* searches the whole pack */
    if (absent != ATTN_NO_KERNEL) {
        assert_int_equal(absent, status_of(host.failed));
        assert_int_equal(attn_prefill_lookup(device, &d, &none), ATTN_NO_KERNEL);
        refused++;
    }
    struct attn_op_info info = {.size = sizeof(info)};
    SURVIVES(attn_op_describe(op, &info));
    const struct attn_prefill_args a = plain_args();
    SURVIVES(attn_prefill_launch(op, &a));
    attn_op_destroy(op);
    attn_device_close(device);
    attn_pack_close(pack);
    return refused;
}

TEST(forks_that_cannot_be_watched_refuse_the_device)
{
    struct fakehip *f = fake_reset();
    host.only = "pthread_atfork"; /* called once per process: this test runs first */
    host.fail_at = 1;
    host.failed = NULL;
    assert_int_equal(whole_life(), 1);
    assert_string_equal(host.failed, "pthread_atfork");
    host.only = NULL;
    assert_int_equal(host.held, 0);
    assert_int_equal(f->modules, 0);
}

TEST(each_host_call_may_fail)
{
    struct fakehip *f = fake_reset();
    int refused = 0, unnoticed = 0;
    for (int n = 1;; n++) {
        host.fail_at = n;
        host.failed = NULL;
        const int r = whole_life();
        host.fail_at = 0;
        assert_int_equal(host.held, 0);
        assert_int_equal(f->modules, 0);
        if (!host.failed)
            break;
        refused += r;
        unnoticed += !r;
        if (!r)
            assert_string_equal(host.failed, "dlsym");
    }
    assert_true(refused > 30);
    /* The fake lacks one of the two functions for properties; the test for a capture is
     * optional. */
    assert_int_equal(unnoticed, 2);
}

int main(void)
{
    const struct made one[] = {{.gqa = "4"}};
    size_t size;
    void *bytes = make_pack(one, 1, &size);
    char path[] = "test_host_faults_XXXXXX";
    const int fd = mkstemp(path);
    if (fd < 0 || write(fd, bytes, size) != (ssize_t)size)
        return 2;
    __real_close(fd);
    free(bytes);
    pack_path = path;
    fake_reset(); /* opens the fake permanently */
    host.held = 0;
    const int failed = run_unit_tests();
    unlink(path);
    return failed;
}
