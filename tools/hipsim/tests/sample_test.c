/* SPDX-License-Identifier: Apache-2.0 */
/* Tests which workgroups are in a sample. */
#include "tests/unit_test.h"
#include "tools/hipsim/core/sample.h"

#include <stdlib.h>

/* Columns: grid in workgroups, size of the sample, indices of the chosen workgroups in order. */
static const struct {
    uint32_t groups[3];
    uint64_t n, chosen, index[12];
} cases[] = {
    {{100, 1, 1}, 1, 1, {0}},
    {{100, 1, 1}, 2, 2, {0, 99}},
    {{100, 1, 1}, 5, 5, {0, 25, 50, 75, 99}},
    {{10, 10, 1}, 4, 4, {0, 9, 90, 99}},
    {{10, 10, 1}, 2, 2, {0, 99}},
    {{10, 10, 1}, 7, 7, {0, 9, 25, 50, 75, 90, 99}},
    {{2, 3, 4}, 8, 8, {0, 1, 4, 5, 18, 19, 22, 23}},
    {{2, 3, 4}, 3, 3, {0, 1, 23}},
    {{4, 1, 1}, 3, 3, {0, 2, 3}},
    {{2, 1, 1}, 4, 2, {0, 1}},
};

TEST(a_sample_has_the_corners_and_is_spread)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        uint64_t chosen;
        uint64_t *index = sample_choose(cases[i].groups, cases[i].n, &chosen);
        assert_non_null(index);
        assert_int_equal(chosen, cases[i].chosen);
        for (uint64_t j = 0; j < chosen; j++)
            assert_int_equal(index[j], cases[i].index[j]);
        free(index);
    }
}

int main(void) { return run_unit_tests(); }
