/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON (RFC 8259) written as it comes: no tree, any depth up to JSON_MAX_DEPTH. A `key` is NULL in
 * a list and at the top.
 */
#ifndef TOOLS_ATTNC_JSON_H
#define TOOLS_ATTNC_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { JSON_MAX_DEPTH = 16 };

struct json {
    FILE *out;
    bool compact; /* in one line */
    unsigned depth;
    bool filled[JSON_MAX_DEPTH]; /* the list or object has a member */
    char closing[JSON_MAX_DEPTH];
};

/** Begins an object; `key` is NULL in a list. */
void json_begin_object(struct json *j, const char *key);
/** Begins a list; `key` is NULL in a list. */
void json_begin_list(struct json *j, const char *key);

/** Ends the innermost object or list; a line break follows the outermost. */
void json_end(struct json *j);

/** Writes a string; NULL becomes null. Bytes that are not UTF-8 become U+FFFD. */
void json_string(struct json *j, const char *key, const char *value);
/** Writes an integer; `key` is NULL in a list. */
void json_integer(struct json *j, const char *key, int64_t value);

/** Writes a number with six digits; null if it is not finite. */
void json_real(struct json *j, const char *key, double value);
/** Writes true or false; `key` is NULL in a list. */
void json_flag(struct json *j, const char *key, bool value);
/** Writes `value`, a valid JSON text, unchanged. */
void json_raw(struct json *j, const char *key, const char *value);
/** Writes null; `key` is NULL in a list. */
void json_null(struct json *j, const char *key);

#endif
