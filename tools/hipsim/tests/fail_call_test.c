/* SPDX-License-Identifier: Apache-2.0 */
/* Tests options that let calls fail: the selected call fails with the selected error and has no
 * effect. */
#ifndef __HIP_PLATFORM_AMD__
#    define __HIP_PLATFORM_AMD__
#endif
#include <hip/hip_runtime_api.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tools/hipsim/hip/hipsim.h"

#define SUCCEEDS(call) assert_int_equal(call, hipSuccess)

static void the_nth_call_fails_and_no_other(void **state)
{
    (void)state;
    int count = 0;

    hipsim_fail_call(3, hipErrorInvalidDevice);
    SUCCEEDS(hipGetDeviceCount(&count));
    SUCCEEDS(hipGetDeviceCount(&count));
    assert_int_equal(hipGetDeviceCount(&count), hipErrorInvalidDevice);
    assert_int_equal(hipGetLastError(), hipErrorInvalidDevice);
    SUCCEEDS(hipGetLastError());
    SUCCEEDS(hipGetDeviceCount(&count));
}

static void a_failed_call_does_nothing(void **state)
{
    (void)state;
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

static void zero_disarms(void **state)
{
    (void)state;
    int count;

    hipsim_fail_call(1, hipErrorUnknown);
    hipsim_fail_call(0, 0);
    SUCCEEDS(hipGetDeviceCount(&count));
}

static void options_arm_it_as_well(void **state)
{
    (void)state;
    int count;

    assert_true(hipsim_configure("fail=2,error=719", NULL, 0));
    SUCCEEDS(hipGetDeviceCount(&count));
    assert_int_equal(hipGetDeviceCount(&count), 719);
    SUCCEEDS(hipGetDeviceCount(&count));
    (void)hipGetLastError();
}

static void naming_the_same_call_again_arms_it_again(void **state)
{
    (void)state;
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

static void a_bad_text_arms_nothing(void **state)
{
    (void)state;
    int count;
    char why[200];

    assert_false(hipsim_configure("fail=1,sed=4", why, sizeof(why)));
    assert_non_null(strstr(why, "\"sed\" is unknown"));
    SUCCEEDS(hipGetDeviceCount(&count));
}

static void every_call_is_counted(void **state)
{
    (void)state;
    uint64_t before = hipsim_call_count();
    int count;

    SUCCEEDS(hipGetDeviceCount(&count));
    hipsim_fail_call(1, hipErrorUnknown);
    assert_int_equal(hipGetDeviceCount(&count), hipErrorUnknown);
    assert_int_equal(hipsim_call_count(), before + 2);
    (void)hipGetLastError();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_nth_call_fails_and_no_other),
        cmocka_unit_test(a_failed_call_does_nothing),
        cmocka_unit_test(zero_disarms),
        cmocka_unit_test(options_arm_it_as_well),
        cmocka_unit_test(naming_the_same_call_again_arms_it_again),
        cmocka_unit_test(a_bad_text_arms_nothing),
        cmocka_unit_test(every_call_is_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
