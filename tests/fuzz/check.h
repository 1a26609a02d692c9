/* SPDX-License-Identifier: Apache-2.0 */
/* Defines CHECK(), which ends a fuzzer with a message if a condition is false. */
#ifndef TESTS_FUZZ_CHECK_H
#define TESTS_FUZZ_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                   \
    do {                                                   \
        if (!(condition)) {                                \
            fprintf(stderr, "violated: %s\n", #condition); \
            abort();                                       \
        }                                                  \
    } while (0)

#endif
