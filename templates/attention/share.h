/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares how the workgroups that wrote the parts of a result also add them up, in the
 * same launch.
 */
#ifndef TEMPLATES_ATTENTION_SHARE_H
#define TEMPLATES_ATTENTION_SHARE_H

#include "ir/builder.h"

enum {
    ATT_TICKET_LINE = 128 /* bytes of memory for the counters of one result, which are 0 between
                             launches */
};

/** The parts of one result, and the counters by which workgroups share their sum. */
struct att_share {
    struct tir_builder *b;
    unsigned waves;           /* waves of a workgroup */
    struct tir_value wave;    /* i32: number of this wave in its workgroup */
    struct tir_value lds;     /* i32: LDS address of a word for this file's use */
    struct tir_value ticket;  /* i64: address of the result's line of counters */
    struct tir_value count;   /* i32: parts of the result */
    struct tir_value awaited; /* result of a load that must end before the part is counted; no
                                 value: there is no such load */
    struct tir_value waits;   /* i1; true, or no value: `polls` and `sleep` apply; false:
                                 `other_polls` and `other_sleep` */
    unsigned polls, sleep;    /* of tir_await(): reads until it gives up; units of 64 clocks between
                                 two reads */
    unsigned other_polls, other_sleep; /* the same if `waits` is false; 0 polls: the workgroup reads
                                          once, and leaves if parts are missing */
    void (*add)(void *family, struct tir_value slice); /* builds the sum of a slice (i32) */
    void *family;
};

/** Counts this workgroup's part, and waits up to a limit for the others. Once all parts are
 * written, the workgroups that still wait share the sums of slices 0 to n - 1 (n: i32). The last
 * workgroup to arrive does not wait, so no workgroup needs another one to be running. */
void att_share_parts(const struct att_share *s, struct tir_value n);

#endif
