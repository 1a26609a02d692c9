/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the parser's lexer: words, numbers and strings of the printed form. After the
 * first failure every call fails, so callers may check late.
 */
#ifndef IR_LEX_H
#define IR_LEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tir_lexer {
    /* Beginning of the text, current position, and end. */
    const char *begin, *at, *end;
    bool failed;
    char error[256]; /* "line:column: sentence" */
};

/** Records a failure at the current position. Returns false. */
bool tir_lex_fail(struct tir_lexer *l, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** Skips blanks, line ends and comments. Returns false at the end of the text. */
bool tir_lex_more(struct tir_lexer *l);
/** True if the next character on this line, after blanks, is `c`. It is not consumed. */
bool tir_lex_same_line(struct tir_lexer *l, char c);
/** Consumes `text` if it comes next, after blanks, line ends and comments. A text of two letters or
 * more must be a whole word. Returns false if another text comes next. */
bool tir_lex_try(struct tir_lexer *l, const char *text);
/** Consumes `text`. Records a failure and returns false if another text comes next. */
bool tir_lex_expect(struct tir_lexer *l, const char *text);
/** Reads a word of letters, digits and '_', at most size - 1 of them. Returns false if there is
 * none, or if it is longer. */
bool tir_lex_word(struct tir_lexer *l, char *word, size_t size);
/** Reads a number of decimal digits. Returns false if there is none, or if it exceeds `max`. */
bool tir_lex_number(struct tir_lexer *l, uint32_t max, uint32_t *n);
/** Reads a decimal integer with an optional sign. Returns false if there is none. */
bool tir_lex_int(struct tir_lexer *l, int64_t *n);
/** Reads a float, or 0x and the bits of an f32, and sets *bits to the f32's bits. Returns false if
 * there is none. */
bool tir_lex_float_bits(struct tir_lexer *l, int64_t *bits);
/** Reads a "string" of at most size - 1 characters without its quotes. Returns false if there
 * is none, or if it is longer. */
bool tir_lex_string(struct tir_lexer *l, char *s, size_t size);

#endif
