/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares what the tests of ir/ share: a small machine, and functions as text.
 */
#ifndef TESTS_IR_FIXTURE_H
#define TESTS_IR_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ir/builder.h"
#include "ir/passes.h"

/** "test": the CDNA matrix instructions that the tests use, a target without special ops. */
extern const struct tir_machine test_machine;

/** The printed form; free() it. */
char *printed(const struct tir_func *f);
/** Parses or fails the test with the parser's message. */
struct tir_func *parsed(const char *text);
/** parsed() of a function of one wave on the test machine whose body is `body`, with the layout
 * #0 = 32x32 accumulator declared. */
struct tir_func *parsed_body(const char *body);
/** The part of the printed form between the outer braces; free() it. */
char *printed_body(const struct tir_func *f);
/** The verifier's text, "" when it finds nothing; free() it. */
char *findings(const struct tir_func *f);

#endif
