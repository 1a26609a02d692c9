/* SPDX-License-Identifier: Apache-2.0
 *
 * Helpers for the tests of ir/: a small machine, and functions as text.
 */
#ifndef TESTS_IR_FIXTURE_H
#define TESTS_IR_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/builder.h"
#include "ir/passes.h"
#include "tests/unit_test.h"

/** The machine "test": the CDNA matrix instructions that the tests use, without special ops. */
extern const struct tir_machine test_machine;

/** Returns the printed form of a function, which the caller frees. */
char *printed(const struct tir_func *f);
/** Parses a function. On failure the test fails with the parser's message. */
struct tir_func *parsed(const char *text);
/** Parses a function of one wave on the test machine whose body is `body`. Layout #0, a 32x32
 * accumulator, is declared. */
struct tir_func *parsed_body(const char *body);
/** Returns the printed form between the outer braces, which the caller frees. */
char *printed_body(const struct tir_func *f);
/** Returns the verifier's text, "" if it finds nothing. The caller frees it. */
char *findings(const struct tir_func *f);

/** Verifies a function, and interprets it with one workgroup and these `count` arguments. The last
 * argument is the address of its output, `size` bytes, which are set to 0xa5 before. `when` names
 * the function's state in messages. */
void interpret_once(struct tir_func *f, const char *when, const uint64_t *kernarg, size_t count,
                    size_t size);

#endif
