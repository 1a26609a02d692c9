/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares how the workgroups that wrote the parts of a result also add them up, in the
 * same launch.
 */
#ifndef TEMPLATES_ATTENTION_SHARE_H
#define TEMPLATES_ATTENTION_SHARE_H

#include "ir/builder.h"

enum {
    /* Bytes of memory for the counters of one result; the counters are 0 between launches. */
    ATT_TICKET_LINE = 128
};

/** The parts of one split result, and the counters by which workgroups share the work of adding
 * them. */
struct att_share {
    struct tir_builder *b;
    unsigned waves;          /* number of waves of a workgroup */
    struct tir_value wave;   /* i32: index of this wave in its workgroup */
    struct tir_value lds;    /* i32: address of 4 bytes of LDS that only att_share_parts() uses */
    struct tir_value ticket; /* i64: address of the result's ATT_TICKET_LINE bytes of counters */
    struct tir_value count;  /* i32: number of the result's parts */
    /* A loaded value that must have arrived before this workgroup's part is counted; no value:
     * there is none. */
    struct tir_value awaited;
    /* i1, for the time that this workgroup waits: if true, `polls` and `sleep` apply, else
     * `other_polls` and `other_sleep`. No value: as if true. */
    struct tir_value waits;
    /* Arguments of tir_await(): number of reads of the counter of parts until the workgroup leaves,
     * and time between two reads in units of 64 clocks. */
    unsigned polls, sleep;
    /* Like `polls` and `sleep`, if `waits` is false. other_polls 0: the workgroup reads the counter
     * once, and leaves if parts are missing. */
    unsigned other_polls, other_sleep;
    /* Adds all parts of one slice of the result, whose index is `slice` (i32). */
    void (*add)(void *family, struct tir_value slice);
    /* First argument of add(). */
    void *family;
};

/** Counts this workgroup's part, and waits up to a limit for the parts of other workgroups. Once
 * all parts are written, the workgroups that still wait share the sums of slices 0 to n - 1 (n:
 * i32). The last workgroup to arrive does not wait, so the sum never depends on a workgroup that is
 * not running. */
void att_share_parts(const struct att_share *s, struct tir_value n);

#endif
