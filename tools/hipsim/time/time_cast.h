/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Multicast loads of a cluster. Each workgroup of a mask makes the same request, and the first one
 * loads the data. The requesters get them when all have made the request, or after a timeout. A
 * later request is a load of its own (CDNA5 ISA, 10.7).
 */
#ifndef HIPSIM_TIME_CAST_H
#define HIPSIM_TIME_CAST_H

#include "time_memory.h"
#include "time_wave.h"

struct time_casts; /* loads that wait for requests of other workgroups */

/* Creates an empty set of loads. NULL without memory. */
struct time_casts *time_casts_create(void);
void time_casts_destroy(struct time_casts *casts);

/* A request of a wave. In its counter it is operation `number`, from 0. */
struct time_cast_request {
    struct time_wave *wave;
    struct time_counter *counter;
    uint64_t number;
    const struct tensor_lines *lines;
};

/*
 * Makes a request at clock `now`. Returns the clock at which its data have arrived, which later
 * requests may change. The last request of a load sets the completion times of the earlier ones,
 * and sets *settled.
 */
uint64_t time_cast(struct time_memory *m, uint64_t now, const struct time_cast_request *r,
                   bool *settled);

#endif
