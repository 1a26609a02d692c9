/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages about a file of the user: a description, a tuning file or a table of knobs. Messages are
 * collected while reading continues, and printed at the end with line and caret.
 */
#ifndef COMPILER_DIAG_H
#define COMPILER_DIAG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "templates/variant.h"

/** Most messages that are stored. Of further ones, errors are only counted. */
enum { ATTNC_MAX_MESSAGES = 100 };

struct attnc_message {
    struct att_loc at; /* line 0: the file as a whole */
    bool error;        /* false: a warning */
    char *text;        /* one line without line break */
    char *attached;    /* output of another program, printed below the message; NULL: none */
};

struct attnc_diag {
    const char *file; /* path of the file as the user named it; not owned */
    const char *text; /* the file's contents, not owned; NULL: it could not be read */
    size_t size;      /* bytes of `text` */
    struct attnc_message messages[ATTNC_MAX_MESSAGES];
    size_t count;
    size_t left_out; /* number of errors that were not stored because messages[] was full */
    /* number of all errors, with left_out; a repetition of a stored one does not count */
    size_t errors;
    bool no_memory;  /* memory ran out: not an error of the user */
    bool unreadable; /* true: the file is missing or cannot be read */
};

/**
 * Adds an error about the place `at`. A repeated text at the same place is dropped, since many
 * kernels of a product of lists share a value. Returns false if the message was dropped or
 * messages[] is full.
 */
bool attnc_diag_error(struct attnc_diag *d, struct att_loc at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/** Adds a warning at `at`, unless the same text is stored for this place or messages[] is full. */
void attnc_diag_warning(struct attnc_diag *d, struct att_loc at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** Attaches `text`, which ends in a line break, to the newest stored message. Does nothing if that
 * message has an attached text, or if errors were left out since. */
void attnc_diag_attach(struct attnc_diag *d, const char *text);

/** Records that memory ran out. Returns false, for `return attnc_diag_no_memory(d)`. */
bool attnc_diag_no_memory(struct attnc_diag *d);

/**
 * Prints all messages in the order of the file:
 *
 *     qwen3.yaml:7:15: error: head_dim 72 is not a multiple of 16
 *         head_dim: 72
 *                   ^
 */
void attnc_diag_print(struct attnc_diag *d, FILE *out);

/** Frees the messages and resets their counts. The file remains, so that new messages about it can
 * be added. */
void attnc_diag_clear(struct attnc_diag *d);

/** Returns the number of bytes of the UTF-8 sequence at the start of `s` (RFC 3629, section 4).
 * Returns 0 if it is not well-formed within `size` bytes. */
size_t attnc_utf8_length(const char *s, size_t size);

#endif
