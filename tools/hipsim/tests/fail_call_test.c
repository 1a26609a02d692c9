/* SPDX-License-Identifier: Apache-2.0 */
/* Tests options that let calls fail: the selected call fails with the selected error and has no
 * effect. A text of options that fails has no effect either. */
#ifndef __HIP_PLATFORM_AMD__
#    define __HIP_PLATFORM_AMD__
#endif
#include <hip/hip_runtime_api.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit_test.h"
#include "tools/hipsim/hip/hipsim.h"

#define SUCCEEDS(call) assert_int_equal(call, hipSuccess)

TEST(the_nth_call_fails_and_no_other)
{
    int count = 0;

    hipsim_fail_call(3, hipErrorInvalidDevice);
    SUCCEEDS(hipGetDeviceCount(&count));
    SUCCEEDS(hipGetDeviceCount(&count));
    assert_int_equal(hipGetDeviceCount(&count), hipErrorInvalidDevice);
    assert_int_equal(hipGetLastError(), hipErrorInvalidDevice);
    SUCCEEDS(hipGetLastError());
    SUCCEEDS(hipGetDeviceCount(&count));
}

TEST(a_failed_call_does_nothing)
{
    uint64_t before = hipsim_live_bytes(0);
    char text[4] = "abc", *untouched = text;
    void *device = untouched;

    hipsim_fail_call(1, hipErrorOutOfMemory);
    assert_int_equal(hipMalloc(&device, 1 << 20), hipErrorOutOfMemory);
    assert_ptr_equal(device, untouched);
    assert_int_equal(hipsim_live_bytes(0), before);

    SUCCEEDS(hipMalloc(&device, 4));
    SUCCEEDS(hipMemset(device, 0, 4));
    hipsim_fail_call(1, hipErrorUnknown);
    assert_int_equal(hipMemcpy(device, text, 4, hipMemcpyHostToDevice), hipErrorUnknown);
    SUCCEEDS(hipMemcpy(text, device, 4, hipMemcpyDeviceToHost));
    assert_string_equal(text, "");

    hipsim_fail_call(1, hipErrorUnknown);
    assert_int_equal(hipFree(device), hipErrorUnknown);
    assert_true(hipsim_live_bytes(0) > before);
    SUCCEEDS(hipFree(device));
    assert_int_equal(hipsim_live_bytes(0), before);
    (void)hipGetLastError();
}

TEST(zero_disarms)
{
    int count;

    hipsim_fail_call(1, hipErrorUnknown);
    hipsim_fail_call(0, 0);
    SUCCEEDS(hipGetDeviceCount(&count));
}

TEST(options_arm_it_as_well)
{
    int count;

    assert_true(hipsim_configure("fail=2,error=719", NULL, 0));
    SUCCEEDS(hipGetDeviceCount(&count));
    assert_int_equal(hipGetDeviceCount(&count), 719);
    SUCCEEDS(hipGetDeviceCount(&count));
    (void)hipGetLastError();
}

TEST(naming_the_same_call_again_arms_it_again)
{
    int count;

    for (unsigned i = 0; i < 2; i++) {
        assert_true(hipsim_configure("fail=1,error=2", NULL, 0));
        assert_int_equal(hipGetDeviceCount(&count), hipErrorOutOfMemory);
    }
    /* A text that sets other options does not let a call fail. */
    assert_true(hipsim_configure("seed=4", NULL, 0));
    SUCCEEDS(hipGetDeviceCount(&count));
    (void)hipGetLastError();
}

TEST(a_bad_text_arms_nothing)
{
    int count;
    char why[200];

    assert_false(hipsim_configure("fail=1,sed=4", why, sizeof(why)));
    assert_non_null(strstr(why, "\"sed\" is unknown"));
    SUCCEEDS(hipGetDeviceCount(&count));
}

/* Returns the size of a file in bytes; -1: there is none. */
static long size_of(const char *path)
{
    FILE *const f = fopen(path, "r");
    if (!f)
        return -1;
    fseek(f, 0, SEEK_END);
    const long size = ftell(f);
    fclose(f);
    return size;
}

/* After a text whose last option fails, reports still go to the file of the text before it. */
TEST(a_bad_option_leaves_the_files)
{
    static const char *const bad[] = {"patch=nonsense", "counters=/nowhere/table", "break=k:x:y",
                                      "gdb=/nowhere/socket"};
    char first[60], other[60], text[200], why[400] = "";
    snprintf(first, sizeof(first), "/tmp/hipsim-first-%d", (int)getpid());
    snprintf(other, sizeof(other), "/tmp/hipsim-other-%d", (int)getpid());
    snprintf(text, sizeof(text), "json=%s", first);
    assert_true(hipsim_configure(text, why, sizeof(why)));
    long before = size_of(first);
    for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        int no_event = 0;
        snprintf(text, sizeof(text), "json=%s,%s", other, bad[i]);
        if (hipsim_configure(text, why, sizeof(why)) || !*why)
            fail_msg("%s: %s", text, why);
        assert_int_equal(hipEventQuery((hipEvent_t)&no_event), hipErrorInvalidHandle);
        assert_true(size_of(first) > before);
        assert_true(size_of(other) <= 0);
        before = size_of(first);
    }
    assert_true(hipsim_configure("json=", why, sizeof(why)));
    unlink(first);
    unlink(other);
}

TEST(every_call_is_counted)
{
    uint64_t before = hipsim_call_count();
    int count;

    SUCCEEDS(hipGetDeviceCount(&count));
    hipsim_fail_call(1, hipErrorUnknown);
    assert_int_equal(hipGetDeviceCount(&count), hipErrorUnknown);
    assert_int_equal(hipsim_call_count(), before + 2);
    (void)hipGetLastError();
}

int main(void) { return run_unit_tests(); }
