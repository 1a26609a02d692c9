/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/attnc/cli/json.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "compiler/diag.h"

/* Writes a JSON string; bytes that are not UTF-8 become U+FFFD. */
static void write_string(FILE *out, const char *s)
{
    size_t left = strlen(s);
    fputc('"', out);
    while (left) {
        const size_t length = attnc_utf8_length(s, left);
        const unsigned char c = (unsigned char)*s;
        if (length == 0)
            fputs("\\ufffd", out);
        else if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else if (c < ' ')
            fprintf(out, "\\u%04x", c);
        else
            fwrite(s, 1, length, out);
        s += length ? length : 1;
        left -= length ? length : 1;
    }
    fputc('"', out);
}

/* Begins a new line, indented by the depth; nothing if the output is compact. */
static void break_line(struct json *j)
{
    if (!j->compact)
        fprintf(j->out, "\n%*s", (int)j->depth * 2, "");
}

/* Prints what precedes a value: a comma unless it is the first member, a line break, and the key
 * unless it is NULL. */
static void begin_value(struct json *j, const char *key)
{
    if (j->depth) {
        if (j->filled[j->depth - 1])
            fputs(j->compact ? ", " : ",", j->out);
        j->filled[j->depth - 1] = true;
        break_line(j);
    }
    if (!key)
        return;
    write_string(j->out, key);
    fputs(": ", j->out);
}

/* Opens an object or list with the character `opening`; json_end() will close it with `closing`.
 * `key` is NULL in a list and at the top. */
static void begin(struct json *j, const char *key, char opening, char closing)
{
    begin_value(j, key);
    assert(j->depth < JSON_MAX_DEPTH);
    fputc(opening, j->out);
    j->filled[j->depth] = false;
    j->closing[j->depth++] = closing;
}

void json_begin_object(struct json *j, const char *key) { begin(j, key, '{', '}'); }
void json_begin_list(struct json *j, const char *key) { begin(j, key, '[', ']'); }

void json_end(struct json *j)
{
    assert(j->depth > 0);
    j->depth--;
    if (j->filled[j->depth])
        break_line(j);
    fputc(j->closing[j->depth], j->out);
    if (j->depth == 0)
        fputc('\n', j->out);
}

void json_string(struct json *j, const char *key, const char *value)
{
    begin_value(j, key);
    if (value)
        write_string(j->out, value);
    else
        fputs("null", j->out);
}

void json_integer(struct json *j, const char *key, int64_t value)
{
    begin_value(j, key);
    fprintf(j->out, "%" PRId64, value);
}

void json_real(struct json *j, const char *key, double value)
{
    begin_value(j, key);
    if (isfinite(value))
        fprintf(j->out, "%.6g", value);
    else
        fputs("null", j->out);
}

void json_flag(struct json *j, const char *key, bool value)
{
    begin_value(j, key);
    fputs(value ? "true" : "false", j->out);
}

void json_raw(struct json *j, const char *key, const char *value)
{
    begin_value(j, key);
    fputs(value, j->out);
}

void json_null(struct json *j, const char *key) { json_string(j, key, NULL); }
