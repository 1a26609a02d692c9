/* SPDX-License-Identifier: Apache-2.0
 *
 * A writer of JSON (RFC 8259) that prints each value at once and keeps no tree. Objects and lists
 * nest up to JSON_MAX_DEPTH. The parameter `key` is NULL in a list and at the top.
 */
#ifndef TOOLS_ATTNC_JSON_H
#define TOOLS_ATTNC_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { JSON_MAX_DEPTH = 16 };

/** A JSON text that is being written. */
struct json {
    FILE *out;
    bool compact; /* true: the text is one line, without indentation */
    /* Number of open objects and lists. */
    unsigned depth;
    /* True: the object or list at this depth has a member, so that a comma precedes the next. */
    bool filled[JSON_MAX_DEPTH];
    /* The character that closes the object or list at each depth. */
    char closing[JSON_MAX_DEPTH];
};

/** Begins an object. `key` is NULL in a list and at the top. */
void json_begin_object(struct json *j, const char *key);
/** Begins a list. `key` is NULL in a list and at the top. */
void json_begin_list(struct json *j, const char *key);

/** Ends the innermost object or list. Ends the line after the outermost one. */
void json_end(struct json *j);

/** Writes a string; null if `value` is NULL. Bytes that are not UTF-8 become U+FFFD. */
void json_string(struct json *j, const char *key, const char *value);
/** Writes an integer; `key` is NULL in a list. */
void json_integer(struct json *j, const char *key, int64_t value);

/** Writes a number with six significant digits; null if it is not finite. */
void json_real(struct json *j, const char *key, double value);
/** Writes true or false; `key` is NULL in a list. */
void json_flag(struct json *j, const char *key, bool value);
/** Writes `value`, which must be valid JSON, unchanged. */
void json_raw(struct json *j, const char *key, const char *value);
/** Writes null; `key` is NULL in a list. */
void json_null(struct json *j, const char *key);

#endif
