/* SPDX-License-Identifier: Apache-2.0
 *
 * The parser's reader: words, numbers and strings of the printed form. The first failure sticks;
 * after it every call fails, so callers may check late.
 */
#ifndef IR_LEX_H
#define IR_LEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tir_lexer {
    const char *begin, *at, *end;
    bool failed;
    char error[256]; /* line:column: sentence */
};

/** Records the failure at the current place; false. */
bool tir_lex_fail(struct tir_lexer *l, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** Skips blanks, line ends and comments; false at the end of the text. */
bool tir_lex_more(struct tir_lexer *l);
/** Is the next character on this line `c`? Takes nothing but blanks. */
bool tir_lex_same_line(struct tir_lexer *l, char c);
/** Takes `text` if it comes next, as a whole word if it is one of two letters or more. */
bool tir_lex_try(struct tir_lexer *l, const char *text);
/** Takes `text` or fails. */
bool tir_lex_expect(struct tir_lexer *l, const char *text);
/** Takes letters, digits and '_', at most size - 1. */
bool tir_lex_word(struct tir_lexer *l, char *word, size_t size);
/** Takes decimal digits: at most `max`. */
bool tir_lex_number(struct tir_lexer *l, uint32_t max, uint32_t *n);
/** Takes a decimal integer with an optional sign. */
bool tir_lex_int(struct tir_lexer *l, int64_t *n);
/** Takes a float, or 0x and its bits. */
bool tir_lex_float_bits(struct tir_lexer *l, int64_t *bits);
/** Takes a "string" of at most size - 1 characters. */
bool tir_lex_string(struct tir_lexer *l, char *s, size_t size);

#endif
