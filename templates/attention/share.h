/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares how the workgroups that wrote parts of a result add them up in the launch that
 * writes them.
 */
#ifndef TEMPLATES_ATTENTION_SHARE_H
#define TEMPLATES_ATTENTION_SHARE_H

#include "ir/builder.h"

enum {
    ATT_TICKET_LINE = 128 /* bytes of memory that a result has for its counts, 0 between launches */
};

/** The parts of one result, and the counters by which workgroups share their sum. */
struct att_share {
    struct tir_builder *b;
    unsigned waves;           /* of a workgroup */
    struct tir_value wave;    /* i32: number of this wave in its workgroup */
    struct tir_value lds;     /* i32: LDS address of a word that is not used meanwhile */
    struct tir_value ticket;  /* i64: address of the result's line of counters */
    struct tir_value count;   /* i32: parts of the result */
    struct tir_value awaited; /* result of a load that must end before the part is counted; no
                                 value: none has to */
    struct tir_value waits;   /* i1, true: `polls` and `sleep` apply; false: `other_polls` and
                               `other_sleep`; no value: as true */
    unsigned polls, sleep;    /* of tir_await(): reads until it gives up; 64-clock units between */
    unsigned other_polls, other_sleep; /* the same where `waits` is false; 0 polls: the workgroup
                                          looks once, and leaves if parts are missing */
    void (*add)(void *family, struct tir_value slice); /* builds the sum of a slice (i32) */
    void *family;
};

/** Counts this workgroup's part, and waits up to a limit for the others. Once all parts are
 * written, the workgroups still waiting share the sums of slices 0 to n - 1 (n: i32). The last one
 * to arrive does not wait, so that none needs another to run. */
void att_share_parts(const struct att_share *s, struct tir_value n);

#endif
