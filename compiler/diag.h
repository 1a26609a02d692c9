/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages about the user's file. They are collected while reading continues, and printed at the
 * end with line and caret.
 */
#ifndef COMPILER_DIAG_H
#define COMPILER_DIAG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "templates/variant.h"

/** Further messages are only counted. */
enum { ATTNC_MAX_MESSAGES = 100 };

struct attnc_message {
    struct att_loc at; /* line 0: the file as a whole */
    bool error;        /* false: a warning */
    char *text;
    char *attached; /* output of another program, printed below the message; NULL: none */
};

struct attnc_diag {
    const char *file; /* as the user named it; not owned */
    const char *text; /* its contents, not owned; NULL: the file could not be read */
    size_t size;
    struct attnc_message messages[ATTNC_MAX_MESSAGES];
    size_t count;
    size_t left_out; /* errors beyond the capacity of messages[] */
    size_t errors;   /* number of all errors, dropped repetitions apart */
    bool no_memory;  /* out of memory, not an error of the user */
    bool unreadable; /* the file is missing or unreadable */
};

/**
 * Adds an error. A repeated text at the same place is dropped, since many kernels of a product
 * share a value. Returns false if the message was dropped or messages[] is full.
 */
bool attnc_diag_error(struct attnc_diag *d, struct att_loc at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/** Adds a warning at `at`, once. */
void attnc_diag_warning(struct attnc_diag *d, struct att_loc at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** Attaches text, which ends in a line break, to the newest message if it was kept. */
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

/** Frees the messages but keeps the file, so that more messages can be added. */
void attnc_diag_clear(struct attnc_diag *d);

/** Returns the bytes of the UTF-8 sequence at the start of `s` (RFC 3629, section 4); 0: not
 * well-formed. */
size_t attnc_utf8_length(const char *s, size_t size);

#endif
