/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/attnc/limits/limits_text.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Width of a printed line. */
enum { COLUMNS = 100 };

void text_add(struct text *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const size_t room = sizeof(t->at) - t->length;
    const int n = vsnprintf(t->at + t->length, room, format, args);
    va_end(args);
    if (n > 0)
        t->length += (size_t)n < room ? (size_t)n : room - 1;
}

/* Prints text as a part of a string of C. */
static void print_escaped(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '"' || text[i] == '\\')
            putchar('\\');
        putchar(text[i]);
    }
}

/* Prints an element of an array of strings in C: `lead` and `length` bytes of `text`. */
static void print_string(const char *lead, const char *text, size_t length)
{
    fputs("    \"", stdout);
    print_escaped(lead, strlen(lead));
    print_escaped(text, length);
    puts("\",");
}

void text_line(const char *line) { print_string("", line, strlen(line)); }

void text_heading(const char *line)
{
    text_line("");
    text_line(line);
    text_line("");
}

void text_print(struct text *t, const char *first, const char *next)
{
    const char *lead = first, *at = t->at;
    while (*at) {
        const size_t room = COLUMNS - strlen(lead);
        size_t n = strlen(at);
        if (n > room) {
            for (n = room; n > 0 && at[n] != ' ';)
                n--;
            n = n ? n : room;
        }
        print_string(lead, at, n);
        at += n + (at[n] == ' ');
        lead = next;
    }
    *t = (struct text){0};
}

int limits_sample(int i)
{
    if (i < LIMITS_DENSE)
        return i;
    const int above = i - LIMITS_DENSE;
    return 1024 + above / 2 * 64 + (above % 2 ? 64 : 1);
}

/* True if `n` is a power of two. */
static bool is_power(int n) { return n > 0 && !(n & (n - 1)); }

/* True if the samples whose `has` shares a bit with `mask` are at least three successive powers of
 * two, apart from sample 0. range[] gets the least and the largest. */
static bool are_powers(const uint8_t *has, uint8_t mask, int range[2])
{
    int count = 0;
    range[0] = range[1] = 0;
    for (int i = 1; i < LIMITS_SAMPLES; i++) {
        const int n = limits_sample(i);
        if (!(has[i] & mask))
            continue;
        if (!is_power(n) || (count && n != 2 * range[1]))
            return false;
        range[0] = count++ ? range[0] : n;
        range[1] = n;
    }
    return count >= 3;
}

/* Returns the index of the last sample of the run that begins at sample i. The run's samples are
 * `step` apart, share a bit with `mask`, and no sample between them does. *length is their
 * number. */
static int end_of_run(const uint8_t *has, uint8_t mask, int i, int step, int *length)
{
    int last = i;
    *length = 1;
    for (int j = i + 1; j < LIMITS_SAMPLES; j++) {
        const bool there = has[j] & mask;
        if (there != ((limits_sample(j) - limits_sample(i)) % step == 0))
            break;
        if (there) {
            last = j;
            ++*length;
        }
    }
    return last;
}

/* Returns the first index from `i` on whose entry in `has` shares a bit with `mask`; LIMITS_SAMPLES
 * if there is none. */
static int find_next(const uint8_t *has, uint8_t mask, int i)
{
    while (i < LIMITS_SAMPLES && !(has[i] & mask))
        i++;
    return i;
}

void limits_describe(const uint8_t has[LIMITS_SAMPLES], uint8_t mask, const char *zero,
                     struct text *t)
{
    int range[2], length;
    const char *comma = "";
    if (zero && has[0] & mask) {
        text_add(t, "%s", zero);
        comma = ", ";
    }
    if (are_powers(has, mask, range)) {
        text_add(t, "%spowers of two from %d to %d", comma, range[0], range[1]);
        return;
    }
    for (int i = find_next(has, mask, zero ? 1 : 0); i < LIMITS_SAMPLES; comma = ", ") {
        const int next = find_next(has, mask, i + 1);
        int last = i, step = 1;
        if (next < LIMITS_SAMPLES) {
            step = limits_sample(next) - limits_sample(i);
            last = end_of_run(has, mask, i, step, &length);
        }
        if (last == i || length < 3) {
            text_add(t, "%s%d", comma, limits_sample(i));
            i = next;
            continue;
        }
        text_add(t, "%s%d to %d", comma, limits_sample(i), limits_sample(last));
        if (step > 1)
            text_add(t, " by %d", step);
        i = find_next(has, mask, last + 1);
    }
    if (!*comma)
        text_add(t, "none");
}

int limits_ratio(uint8_t sets[LIMITS_DENSE][LIMITS_SAMPLES], const uint8_t base[LIMITS_SAMPLES])
{
    static const uint8_t none[LIMITS_SAMPLES];
    for (int ratio = 1; ratio <= 4; ratio *= 2) {
        bool same = true;
        for (int d = 1; d < LIMITS_DENSE && same; d++) {
            for (int i = 0; i < LIMITS_SAMPLES && same && memcmp(sets[d], none, sizeof(none)); i++)
                same = sets[d][i] == (limits_sample(i) <= ratio * d ? base[i] : 0);
        }
        if (same)
            return ratio;
    }
    return 0;
}
