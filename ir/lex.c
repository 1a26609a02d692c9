/* SPDX-License-Identifier: Apache-2.0
 *
 * This file reads the printed form: untrusted text without a terminating zero.
 */
#include "ir/lex.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* True if `c` is a decimal digit. */
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* True if `c` may be part of a word: a letter, decimal digit or underscore. */
static bool is_word(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool tir_lex_fail(struct tir_lexer *l, const char *format, ...)
{
    if (l->failed)
        return false;
    l->failed = true;
    unsigned line = 1, column = 1;
    for (const char *p = l->begin; p < l->at; p++) {
        column = *p == '\n' ? 1 : column + 1;
        line += *p == '\n';
    }
    const int n = snprintf(l->error, sizeof(l->error), "%u:%u: ", line, column);
    va_list args;
    va_start(args, format);
    vsnprintf(l->error + n, sizeof(l->error) - (size_t)n, format, args);
    va_end(args);
    return false;
}

/* Moves the lexer past spaces and tabs. */
static void skip_blanks(struct tir_lexer *l)
{
    while (l->at < l->end && (*l->at == ' ' || *l->at == '\t'))
        l->at++;
}

bool tir_lex_more(struct tir_lexer *l)
{
    for (;;) {
        skip_blanks(l);
        if (l->at < l->end && (*l->at == '\n' || *l->at == '\r')) {
            l->at++;
        } else if (l->end - l->at >= 2 && l->at[0] == '/' && l->at[1] == '/') {
            while (l->at < l->end && *l->at != '\n')
                l->at++;
        } else {
            return l->at < l->end;
        }
    }
}

bool tir_lex_same_line(struct tir_lexer *l, char c)
{
    skip_blanks(l);
    return !l->failed && l->at < l->end && *l->at == c;
}

bool tir_lex_try(struct tir_lexer *l, const char *text)
{
    const size_t n = strlen(text);
    if (l->failed || !tir_lex_more(l) || (size_t)(l->end - l->at) < n || memcmp(l->at, text, n))
        return false;
    if (n > 1 && is_word(text[n - 1]) && l->at + n < l->end && is_word(l->at[n]))
        return false;
    l->at += n;
    return true;
}

bool tir_lex_expect(struct tir_lexer *l, const char *text)
{
    return tir_lex_try(l, text) || tir_lex_fail(l, "expected %s", text);
}

bool tir_lex_word(struct tir_lexer *l, char *word, size_t size)
{
    size_t n = 0;
    if (l->failed)
        return false;
    tir_lex_more(l);
    while (l->at + n < l->end && is_word(l->at[n]))
        n++;
    if (!n)
        return tir_lex_fail(l, "expected a word");
    if (n >= size)
        return tir_lex_fail(l, "word of %zu characters, at most %zu", n, size - 1);
    memcpy(word, l->at, n);
    word[n] = 0;
    l->at += n;
    return true;
}

bool tir_lex_number(struct tir_lexer *l, uint32_t max, uint32_t *n)
{
    uint64_t v = 0;
    if (l->failed)
        return false;
    if (!tir_lex_more(l) || !is_digit(*l->at))
        return tir_lex_fail(l, "expected a number");
    for (; l->at < l->end && is_digit(*l->at); l->at++) {
        v = 10 * v + (uint64_t)(*l->at - '0');
        if (v > max)
            return tir_lex_fail(l, "number above %u", max);
    }
    *n = (uint32_t)v;
    return true;
}

bool tir_lex_int(struct tir_lexer *l, int64_t *n)
{
    const bool negative = tir_lex_try(l, "-");
    const uint64_t max = (uint64_t)INT64_MAX + negative;
    uint64_t v = 0;
    if (l->failed)
        return false;
    if (!tir_lex_more(l) || !is_digit(*l->at))
        return tir_lex_fail(l, "expected an integer");
    for (; l->at < l->end && is_digit(*l->at); l->at++) {
        const uint64_t digit = (uint64_t)(*l->at - '0');
        if (v > (max - digit) / 10)
            return tir_lex_fail(l, "integer of more than 64 bits");
        v = 10 * v + digit;
    }
    *n = (int64_t)(negative ? 0 - v : v);
    return true;
}

bool tir_lex_float_bits(struct tir_lexer *l, int64_t *bits)
{
    char text[40];
    size_t n = 0;
    if (l->failed)
        return false;
    tir_lex_more(l);
    while (l->at + n < l->end && n + 1 < sizeof(text) &&
           (is_word(l->at[n]) || strchr("+-.", l->at[n])) && l->at[n])
        n++;
    memcpy(text, l->at, n);
    text[n] = 0;
    char *end = text;
    if (!strncmp(text, "0x", 2)) {
        *bits = (int64_t)strtoull(text, &end, 16);
    } else {
        const float v = strtof(text, &end);
        uint32_t word;
        if (!isfinite(v))
            return tir_lex_fail(l, "not a finite number; others are written as bits");
        memcpy(&word, &v, sizeof(word));
        *bits = word;
    }
    if (!n || *end)
        return tir_lex_fail(l, "expected a float, or 0x and its bits");
    l->at += n;
    return true;
}

/* Returns the value of a lower-case hexadecimal digit, or -1. */
static int hex_digit(char c)
{
    if (is_digit(c))
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool tir_lex_string(struct tir_lexer *l, char *s, size_t size)
{
    size_t n = 0;
    if (!tir_lex_expect(l, "\""))
        return false;
    while (l->at < l->end && *l->at != '"') {
        char c = *l->at;
        size_t taken = 1;
        if (c == '\\') {
            const bool whole = l->end - l->at >= 4 && l->at[1] == 'x';
            const int high = whole ? hex_digit(l->at[2]) : -1;
            const int low = whole ? hex_digit(l->at[3]) : -1;
            if (high < 0 || low < 0 || (!high && !low))
                return tir_lex_fail(l, "expected \\xhh");
            c = (char)(high << 4 | low);
            taken = 4;
        } else if (c < 0x20 || c > 0x7e) {
            return tir_lex_fail(l, "unprintable character in a string");
        }
        if (n + 1 >= size)
            return tir_lex_fail(l, "string of more than %zu characters", size - 1);
        s[n++] = c;
        l->at += taken;
    }
    s[n] = 0;
    return tir_lex_expect(l, "\"");
}
