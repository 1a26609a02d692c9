/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests libattn when HIP or the process misbehaves: every HIP call fails once, the device is lost,
 * the process forks.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/runtime/fixture.h"
#include "tests/unit_test.h"

static const struct made one[] = {{.gqa = "4"}};

/* Opens a device, looks up, launches and releases on GPU 1 while GPU 0 is current. Returns the
 * first error. */
static int whole_life(struct attn_pack *pack)
{
    struct attn_device_options o = fake_options();
    o.ordinal = 1;
    o.flags = ATTN_CHECK_DATA;
    struct attn_device *device;
    int r = attn_device_open(&pack, 1, &o, &device);
    if (r)
        return r;
    const struct attn_prefill_desc d = plain_desc();
    struct attn_op *op;
    r = attn_prefill_lookup(device, &d, &op);
    if (!r) {
        const struct attn_prefill_args a = plain_args();
        r = attn_prefill_launch(op, &a);
        if (r) /* the handle stays usable */
            assert_int_equal(attn_prefill_launch(op, &a), ATTN_OK);
        attn_op_destroy(op);
    }
    attn_device_close(device);
    return r;
}

TEST(each_hip_call_may_fail)
{
    struct fakehip *f = fake_reset();
    f->device_count = 2;
    size_t size;
    void *bytes = make_pack(one, 1, &size);
    struct attn_pack *pack;
    assert_int_equal(attn_pack_open_memory(bytes, size, &pack), ATTN_OK);
    assert_int_equal(whole_life(pack), ATTN_OK);
    const int calls = f->calls;
    assert_true(calls > 12);
    int refused = 0;
    for (int n = 1; n <= calls; n++) {
        f->current = 0;
        f->fail_at = n;
        int r = whole_life(pack);
        f->fail_at = 0;
        if (r) {
            refused++;
            assert_int_equal(r, ATTN_HIP_FAILED);
        }
        assert_int_equal(f->modules, 0);
    }
    /* Six calls may fail unnoticed: two tests for a capture, and four calls during release. */
    assert_int_equal(refused, calls - 6);
    attn_pack_close(pack);
    free(bytes);
}

TEST(errors_have_their_own_status)
{
    static const struct {
        int hip, status;
        const char *says;
    } rows[] = {
        {2, ATTN_NO_DEVICE_MEMORY, "hipModuleLoadData: hipErrorOutOfMemory"},
        {719, ATTN_DEVICE_LOST, "hipModuleLoadData: hipErrorLaunchFailure"},
        {700, ATTN_DEVICE_LOST, "hipModuleLoadData: "},
        {209, ATTN_HIP_FAILED, "hipModuleLoadData: "},
        {100, ATTN_NO_DEVICE, "hipModuleLoadData: "},
    };
    struct fakehip *f = fake_reset();
    struct bench b = open_bench(one, 1);
    const struct attn_prefill_desc d = plain_desc();
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct attn_op *op;
        f->fail_with = rows[i].hip;
        f->fail_at = 2; /* hipGetDevice comes first */
        assert_int_equal(attn_prefill_lookup(b.device, &d, &op), rows[i].status);
        assert_string_equal(f->failed, "hipModuleLoadData");
        says(rows[i].says);
    }
    close_bench(&b);
}

TEST(a_lost_device_is_reported_by_the_launch)
{
    struct fakehip *f = fake_reset();
    struct bench b = open_bench(one, 1);
    const struct attn_prefill_desc d = plain_desc();
    const struct attn_prefill_args a = plain_args();
    struct attn_op *op;
    assert_int_equal(attn_prefill_lookup(b.device, &d, &op), ATTN_OK);
    f->fail_with = 719;
    f->fail_at = 1;
    assert_int_equal(attn_prefill_launch(op, &a), ATTN_DEVICE_LOST);
    assert_string_equal(attn_last_error(), "hipModuleLaunchKernel: hipErrorLaunchFailure");
    assert_int_equal(attn_prefill_launch(op, &a), ATTN_OK);
    attn_op_destroy(op);
    close_bench(&b);
}

TEST(a_symbol_that_is_not_there_unloads_its_code)
{
    struct fakehip *f = fake_reset();
    const struct made absent[] = {{.symbol = "absent"}};
    struct bench b = open_bench(absent, 1);
    const struct attn_prefill_desc d = plain_desc();
    struct attn_op *op;
    refused(attn_prefill_lookup(b.device, &d, &op), ATTN_HIP_FAILED, "hipModuleGetFunction");
    assert_int_equal(f->loads, 1);
    assert_int_equal(f->modules, 0);
    close_bench(&b);
}

TEST(damaged_code_is_never_loaded)
{
    struct fakehip *f = fake_reset();
    size_t size;
    char *bytes = make_pack(one, 1, &size);
    bytes[size - 1] ^= 1;
    struct attn_pack *pack;
    assert_int_equal(attn_pack_open_memory(bytes, size, &pack), ATTN_OK); /* code is not read */
    refused(attn_pack_check(pack), ATTN_BAD_PACK,
            "pack code: the code object of prefill_gfx942_d128 is corrupted");
    const struct attn_device_options o = fake_options();
    struct attn_device *device;
    assert_int_equal(attn_device_open(&pack, 1, &o, &device), ATTN_OK);
    const struct attn_prefill_desc d = plain_desc();
    struct attn_op *op;
    refused(attn_prefill_lookup(device, &d, &op), ATTN_BAD_PACK,
            "pack code: the code object of prefill_gfx942_d128 is corrupted");
    assert_int_equal(f->loads, 0);
    attn_device_close(device);
    attn_pack_close(pack);
    free(bytes);
}

TEST(a_missing_or_wrong_library_is_named)
{
    fake_reset();
    size_t size;
    void *bytes = make_pack(one, 1, &size);
    struct attn_pack *pack;
    struct attn_device *device;
    assert_int_equal(attn_pack_open_memory(bytes, size, &pack), ATTN_OK);
    struct attn_device_options o = fake_options();
    o.hip_library = "/nonexistent/libamdhip64.so";
    refused(attn_device_open(&pack, 1, &o, &device), ATTN_NO_HIP, "/nonexistent/libamdhip64.so");
    o.hip_library = "libm.so.6";
    refused(attn_device_open(&pack, 1, &o, &device), ATTN_NO_HIP, "libm.so.6 has no hipInit");
    o = fake_options();
    o.flags = 1u << 31;
    assert_int_equal(attn_device_open(&pack, 1, &o, &device), ATTN_BAD_ARGUMENT);
    o = fake_options();
    o.size = 1;
    assert_int_equal(attn_device_open(&pack, 1, &o, &device), ATTN_BAD_ARGUMENT);
    assert_int_equal(attn_device_open(&pack, 0, NULL, &device), ATTN_BAD_ARGUMENT);
    attn_pack_close(pack);
    free(bytes);
}

/* Runs in the child: 0 if everything behaves, else a number for the failed step. */
static int child(struct attn_pack *pack, struct attn_device *device, struct attn_op *op)
{
    const struct attn_prefill_desc d = plain_desc();
    const struct attn_prefill_args a = plain_args();
    struct fakehip *f = fake_reset();
    struct attn_op *other;
    if (attn_pack_check(pack) != ATTN_OK)
        return 1;
    if (attn_prefill_launch(op, &a) != ATTN_FORKED)
        return 2;
    if (attn_prefill_lookup(device, &d, &other) != ATTN_FORKED)
        return 3;
    attn_op_destroy(op);
    attn_device_close(device);
    if (f->calls != 0)
        return 4; /* HIP was called with the parent's objects */
    const struct attn_device_options o = fake_options();
    if (attn_device_open(&pack, 1, &o, &device) != ATTN_OK ||
        attn_prefill_lookup(device, &d, &op) != ATTN_OK || attn_prefill_launch(op, &a) != ATTN_OK)
        return 5;
    return 0;
}

TEST(a_forked_child_is_told_and_may_open_its_own)
{
    fake_reset();
    struct bench b = open_bench(one, 1);
    const struct attn_prefill_desc d = plain_desc();
    struct attn_op *op;
    assert_int_equal(attn_prefill_lookup(b.device, &d, &op), ATTN_OK);
    pid_t pid = fork();
    if (pid == 0)
        _exit(child(b.pack, b.device, op));
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    const struct attn_prefill_args a = plain_args();
    assert_int_equal(attn_prefill_launch(op, &a), ATTN_OK); /* the parent continues */
    attn_op_destroy(op);
    close_bench(&b);
}

int main(void) { return run_unit_tests(); }
