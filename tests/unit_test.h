/* SPDX-License-Identifier: Apache-2.0
 *
 * This file defines TEST(), which defines a unit test and lists it: TEST(what_it_shows) { ... }.
 * The body has cmocka's assertions. main() calls run_unit_tests(), which runs the file's tests in
 * the order of their definitions.
 */
#ifndef TESTS_UNIT_TEST_H
#define TESTS_UNIT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { UNIT_TESTS_MOST = 64 }; /* tests of a file */

/** The tests of the file that includes this header, each with its group (NULL: none), and their
 * number. TEST() and TEST_IN() fill them before main() begins. */
static struct {
    struct CMUnitTest tests[UNIT_TESTS_MOST];
    const char *groups[UNIT_TESTS_MOST];
    size_t count;
} unit_tests;

/** Appends a test to the tests of the file. */
static inline void unit_test_add(const char *group, const char *name, CMUnitTestFunction function)
{
    assert_true(unit_tests.count < UNIT_TESTS_MOST);
    unit_tests.groups[unit_tests.count] = group;
    unit_tests.tests[unit_tests.count++] = (struct CMUnitTest){.name = name, .test_func = function};
}

/** Begins the definition of a test. Its body sees `state`, the pointer of cmocka's fixtures. */
#define TEST(name) TEST_IN(NULL, name)

/** Begins the definition of a test of a group, a string. */
#define TEST_IN(group, name)                                        \
    static void name(void **state);                                 \
    __attribute__((constructor)) static void name##_is_listed(void) \
    {                                                               \
        unit_test_add(group, #name, name);                          \
    }                                                               \
    static void name(__attribute__((unused)) void **state)

/** Runs the tests of the file. Calls `setup` before all of them, unless it is NULL. Returns the
 * number of tests that failed. */
static inline int run_unit_tests_after(CMFixtureFunction setup)
{
    return _cmocka_run_group_tests("tests", unit_tests.tests, unit_tests.count, setup, NULL);
}

/** Runs the tests of the file, each between a call of `setup` and one of `teardown`. Returns the
 * number of tests that failed. */
static inline int run_unit_tests_between(CMFixtureFunction setup, CMFixtureFunction teardown)
{
    for (size_t i = 0; i < unit_tests.count; i++) {
        unit_tests.tests[i].setup_func = setup;
        unit_tests.tests[i].teardown_func = teardown;
    }
    return run_unit_tests_after(NULL);
}

/** Runs the tests of the file. Returns the number of tests that failed. */
static inline int run_unit_tests(void) { return run_unit_tests_after(NULL); }

#endif
