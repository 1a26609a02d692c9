/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Multicast loads of a cluster. Each workgroup of a mask makes the same request. The first one
 * fetches the data, and when all have requested or a timeout is over, the requesters get them. A
 * later request is a load of its own (CDNA5 ISA, 10.7).
 */
#ifndef HIPSIM_TIME_CAST_H
#define HIPSIM_TIME_CAST_H

#include "time_memory.h"
#include "time_wave.h"

struct time_casts;

/* Creates an empty set of loads. NULL without memory. */
struct time_casts *time_casts_create(void);
void time_casts_destroy(struct time_casts *casts);

/* A request of a wave: the `number`-th operation of its counter. */
struct time_cast_request {
    struct time_wave *wave;
    struct time_counter *counter;
    uint64_t number;
    const struct tensor_lines *lines;
};

/*
 * Makes a request at `now` and returns the clock at which its data have arrived, as known now. If
 * it is the last one of its load, the completion times of the others are set, and `settled` too.
 */
uint64_t time_cast(struct time_memory *m, uint64_t now, const struct time_cast_request *r,
                   bool *settled);

#endif
