/* SPDX-License-Identifier: Apache-2.0
 *
 * Collects messages about a file of the user, sorts and prints them.
 */
#include "compiler/diag.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum {
    MESSAGE_MAX = 512, /* bytes of a message, with the NUL; longer ones are cut */
    SHOWN_MAX = 160,   /* characters of a source line that are printed around the caret */
};

/* True if the same message at the same place is already stored. */
static bool is_known(const struct attnc_diag *d, struct att_loc at, bool error, const char *text)
{
    for (size_t i = 0; i < d->count; i++) {
        const struct attnc_message *m = &d->messages[i];
        if (m->at.line == at.line && m->at.column == at.column && m->error == error &&
            strcmp(m->text, text) == 0)
            return true;
    }
    return false;
}

/* Stores a message about place `at`, an error or a warning, unless it is known or messages[] is
 * full. Returns true if it was stored. */
static bool add(struct attnc_diag *d, struct att_loc at, bool error, const char *format,
                va_list args)
{
    char text[MESSAGE_MAX];
    vsnprintf(text, sizeof(text), format, args);
    if (is_known(d, at, error, text))
        return false;
    d->errors += error;
    if (d->count == ATTNC_MAX_MESSAGES) {
        d->left_out += error;
        return false;
    }
    char *copy = strdup(text);
    if (!copy)
        return attnc_diag_no_memory(d);
    d->messages[d->count++] = (struct attnc_message){.at = at, .error = error, .text = copy};
    return true;
}

bool attnc_diag_error(struct attnc_diag *d, struct att_loc at, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const bool added = add(d, at, true, format, args);
    va_end(args);
    return added;
}

void attnc_diag_warning(struct attnc_diag *d, struct att_loc at, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add(d, at, false, format, args);
    va_end(args);
}

void attnc_diag_attach(struct attnc_diag *d, const char *text)
{
    struct attnc_message *m = d->count ? &d->messages[d->count - 1] : NULL;
    if (m && !m->attached && !d->left_out)
        m->attached = strdup(text);
}

bool attnc_diag_no_memory(struct attnc_diag *d)
{
    d->no_memory = true;
    return false;
}

/* Sorts the messages by line and column. It is an insertion sort, which is stable and fast for a
 * nearly sorted list. */
static void sort(struct attnc_diag *d)
{
    for (size_t i = 1; i < d->count; i++) {
        struct attnc_message m = d->messages[i];
        size_t j = i;
        for (; j > 0; j--) {
            struct att_loc before = d->messages[j - 1].at;
            if (before.line < m.at.line ||
                (before.line == m.at.line && before.column <= m.at.column))
                break;
            d->messages[j] = d->messages[j - 1];
        }
        d->messages[j] = m;
    }
}

/* Returns the first byte of line `line` (from 1) of the file, and sets *length to its bytes without
 * the line break. Returns NULL if the file has fewer lines. */
static const char *find_line(const struct attnc_diag *d, uint32_t line, size_t *length)
{
    const char *at = d->text, *end = d->text + d->size;
    for (uint32_t n = 1;; n++) {
        const char *stop = at;
        while (stop < end && *stop != '\n' && *stop != '\r')
            stop++;
        if (n == line) {
            *length = (size_t)(stop - at);
            return at;
        }
        if (stop == end)
            return NULL;
        at = stop + 1;
        if (*stop == '\r' && at < end && *at == '\n')
            at++;
    }
}

size_t attnc_utf8_length(const char *bytes, size_t size)
{
    const unsigned char *s = (const unsigned char *)bytes;
    if (size == 0 || (s[0] >= 0x80 && s[0] < 0xc2) || s[0] > 0xf4)
        return 0;
    size_t length = s[0] < 0x80 ? 1 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
    if (length > size)
        return 0;
    for (size_t i = 1; i < length; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    }
    bool overlong = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xf0 && s[1] < 0x90);
    bool surrogate = s[0] == 0xed && s[1] > 0x9f, too_large = s[0] == 0xf4 && s[1] > 0x8f;
    return overlong || surrogate || too_large ? 0 : length;
}

/* Prints the source line of place `at`, or the part of a long line around it, and a caret below the
 * place. */
static void print_source(const struct attnc_diag *d, struct att_loc at, FILE *out)
{
    size_t length;
    const char *line = d->text ? find_line(d, at.line, &length) : NULL;
    if (!line || length == 0)
        return;

    /* Columns count characters. The shown part of a long line begins SHOWN_MAX / 2 characters
     * before the caret. */
    uint32_t caret = at.column ? at.column - 1 : 0;
    uint32_t first = caret > SHOWN_MAX ? caret - SHOWN_MAX / 2 : 0;
    char under[SHOWN_MAX + 1];
    size_t n = 0;
    fputs("    ", out);
    for (uint32_t column = 0; length && column < first + SHOWN_MAX; column++) {
        size_t size = attnc_utf8_length(line, length);
        bool shown = size > 1 || *line == '\t' || (*line >= ' ' && *line < 0x7f);
        if (column >= first) {
            fprintf(out, "%.*s", shown ? (int)size : 1, shown ? line : "?");
            if (column < caret)
                under[n++] = *line == '\t' ? '\t' : ' ';
        }
        line += size ? size : 1;
        length -= size ? size : 1;
    }
    fprintf(out, "\n    %.*s^\n", (int)n, under);
}

void attnc_diag_print(struct attnc_diag *d, FILE *out)
{
    sort(d);
    for (size_t i = 0; i < d->count; i++) {
        const struct attnc_message *m = &d->messages[i];
        const char *what = m->error ? "error" : "warning";
        if (m->at.line == 0) {
            fprintf(out, "%s: %s: %s\n", d->file, what, m->text);
        } else {
            fprintf(out, "%s:%u:%u: %s: %s\n", d->file, m->at.line, m->at.column, what, m->text);
            print_source(d, m->at, out);
        }
        if (m->attached)
            fputs(m->attached, out);
    }
    if (d->left_out)
        fprintf(out, "%s: %zu more errors\n", d->file, d->left_out);
    if (d->no_memory)
        fprintf(out, "%s: error: out of memory\n", d->file);
}

void attnc_diag_clear(struct attnc_diag *d)
{
    for (size_t i = 0; i < d->count; i++) {
        free(d->messages[i].text);
        free(d->messages[i].attached);
    }
    *d = (struct attnc_diag){.file = d->file, .text = d->text, .size = d->size};
}
