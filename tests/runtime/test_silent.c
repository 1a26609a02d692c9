/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Proves that a launch does not allocate, lock, read the environment or call the kernel. Functions
 * of this program that replace libc's count the first three. For the last, a child launches under
 * strict seccomp, which kills it at any other system call.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <linux/seccomp.h>
#include <unistd.h>

#include "tests/runtime/fixture.h"
#include "tests/unit_test.h"

static atomic_int allocations, locks, environment_reads;

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *p, size_t size);

void *malloc(size_t size)
{
    atomic_fetch_add(&allocations, 1);
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    atomic_fetch_add(&allocations, 1);
    return __libc_calloc(count, size);
}

void *realloc(void *p, size_t size)
{
    atomic_fetch_add(&allocations, 1);
    return __libc_realloc(p, size);
}

static void *next(const char *name) { return dlsym(RTLD_NEXT, name); }

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    static int (*real)(pthread_mutex_t *);
    if (!real) {
        void *address = next("pthread_mutex_lock");
        memcpy(&real, &address, sizeof(address));
    }
    atomic_fetch_add(&locks, 1);
    return real(mutex);
}

char *getenv(const char *name)
{
    static char *(*real)(const char *);
    if (!real) {
        void *address = next("getenv");
        memcpy(&real, &address, sizeof(address));
    }
    atomic_fetch_add(&environment_reads, 1);
    return real(name);
}

static void set_zero(void)
{
    allocations = 0;
    locks = 0;
    environment_reads = 0;
}

TEST(a_launch_allocates_and_locks_nothing)
{
    struct fakehip *f = fake_reset();
    const struct made kernels[] = {{.gqa = "4"}};
    set_zero();
    struct bench b = open_bench(kernels, 1);
    const struct attn_prefill_desc d = plain_desc();
    struct attn_op *op;
    assert_int_equal(attn_prefill_lookup(b.device, &d, &op), ATTN_OK);
    assert_true(allocations > 0); /* the counters work */
    assert_true(locks > 0);
    assert_int_equal(environment_reads, 0);

    const struct attn_prefill_args a = plain_args();
    int failures = 0;
    set_zero();
    for (int i = 0; i < 1000; i++)
        failures += attn_prefill_launch(op, &a) != ATTN_OK;
    const int counted[] = {allocations, locks, environment_reads};
    assert_int_equal(failures, 0);
    assert_int_equal(f->launches, 1000);
    assert_int_equal(counted[0], 0);
    assert_int_equal(counted[1], 0);
    assert_int_equal(counted[2], 0);

    struct attn_prefill_args bad = a;
    bad.q = NULL;
    set_zero();
    assert_int_equal(attn_prefill_launch(op, &bad), ATTN_BAD_ARGUMENT); /* nor does a refusal */
    assert_int_equal(allocations + locks, 0);
    attn_op_destroy(op);
    close_bench(&b);
}

static void launch_under_seccomp(void)
{
    const struct made kernels[] = {{.gqa = "4"}};
    fake_reset();
    struct bench b = open_bench(kernels, 1);
    const struct attn_prefill_desc d = plain_desc();
    const struct attn_prefill_args a = plain_args();
    struct attn_op *op;
    if (attn_prefill_lookup(b.device, &d, &op) || attn_prefill_launch(op, &a))
        _exit(2);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT))
        _exit(3);
    int failures = 0;
    for (int i = 0; i < 1000; i++)
        failures += attn_prefill_launch(op, &a) != ATTN_OK;
    syscall(SYS_exit, failures != 0); /* _exit() is exit_group, which strict mode forbids */
}

TEST(a_launch_makes_no_system_call)
{
    pid_t pid = fork();
    if (pid == 0)
        launch_under_seccomp();
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status)); /* a system call would have killed the child */
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void) { return run_unit_tests(); }
