/* SPDX-License-Identifier: Apache-2.0 */
/* Tests that an invalid HIPSIM fails every call and is reported once. */
#include <stdlib.h>
#include <string.h>

#include "tests/unit_test.h"
#include "tools/hipsim/hip/hip.h"
#include "tools/hipsim/hip/hipsim.h"

static unsigned reports;
static char report[400];

static void keep(void *ctx, const struct hipsim_report *r)
{
    (void)ctx;
    reports++;
    strncpy(report, r->text, sizeof(report) - 1);
}

TEST(an_invalid_text_is_reported_once)
{
    int count;
    assert_int_equal(setenv("HIPSIM", "nonsense=1", 1), 0);
    hipsim_set_report(keep, NULL);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(hipGetDeviceCount(&count), hipErrorInitializationError);
    assert_int_equal(reports, 1);
    assert_non_null(strstr(report, "option \"nonsense\" is unknown; the keys are target"));
}

int main(void) { return run_unit_tests(); }
