/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares messages about the user's file. They are collected while reading goes on and
 * printed at the end, each message with its line and a caret.
 */
#ifndef COMPILER_DIAG_H
#define COMPILER_DIAG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "templates/variant.h"

/** More messages than this are counted, not kept. */
enum { ATTNC_MAX_MESSAGES = 100 };

struct attnc_message {
    struct att_loc at; /* line 0: about the file as a whole */
    bool error;        /* or a warning */
    char *text;
    char *attached; /* what another program said, printed below; or NULL */
};

struct attnc_diag {
    const char *file; /* as the user named it; not owned */
    const char *text; /* its contents, not owned; NULL where it could not be read */
    size_t size;
    struct attnc_message messages[ATTNC_MAX_MESSAGES];
    size_t count;
    size_t left_out; /* errors that found no place in messages[] */
    size_t errors;   /* all of them */
    bool no_memory;  /* the machine's fault, not the user's */
    bool unreadable; /* the file is not there or cannot be read */
};

/**
 * Adds an error. The same text at the same place counts once: a value that many kernels of a
 * product share is wrong once. False where it was there already or found no place.
 */
bool attnc_diag_error(struct attnc_diag *d, struct att_loc at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void attnc_diag_warning(struct attnc_diag *d, struct att_loc at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** Attaches lines that end in a line break to the newest message, unless it was left out. */
void attnc_diag_attach(struct attnc_diag *d, const char *text);

/** Notes that memory ran out. Returns false, for `return attnc_diag_no_memory(d)`. */
bool attnc_diag_no_memory(struct attnc_diag *d);

/**
 * Prints all messages in the order of the file:
 *
 *     qwen3.yaml:7:15: error: head_dim 72 is not a multiple of 16
 *         head_dim: 72
 *                   ^
 */
void attnc_diag_print(struct attnc_diag *d, FILE *out);

/** Frees the messages; the file stays, so that more may be collected about it. */
void attnc_diag_clear(struct attnc_diag *d);

/** Bytes of the well-formed UTF-8 sequence that `s` starts with (RFC 3629, section 4); 0: none. */
size_t attnc_utf8_length(const char *s, size_t size);

#endif
