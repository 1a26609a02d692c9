/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vector memory of one compute unit and its share of what lies behind it.
 *
 * Requests enter a short queue, the L1 works through them in order at 64 B per clock or two clocks
 * per 128-byte line, and at most 32 KB are in flight. A line comes from L1, from the L2 of the
 * XCD, from the MALL or from HBM; each level has a latency and, for this compute unit, its share of
 * the bandwidth. Scalar loads have a cache of their own; instructions too.
 */
#ifndef HIPSIM_TIME_MEMORY_H
#define HIPSIM_TIME_MEMORY_H

#include "time_params.h"

enum time_level { LEVEL_L1, LEVEL_L2, LEVEL_MALL, LEVEL_HBM, LEVEL_COUNT };

/* Sharing of memory among compute units. The launch model finds it; 1 and 0 when unknown. */
struct time_share {
    double cus_active; /* compute units that run the kernel at the same time */
    double sharers;    /* of the workgroups on an XCD, those that read the same lines, >= 1 */
    double footprint;  /* bytes that the whole launch loads */
    double first;      /* of the lines that an L2 misses, the part that no other XCD loads
                               before: they come from HBM, the others from the MALL */
};

struct time_cache; /* set-associative, LRU */
struct time_cache *time_cache_create(double bytes, double ways, unsigned line_bytes);
void time_cache_destroy(struct time_cache *cache);
/* Brings the line of `address` to the cache. Returns whether it was there before. */
bool time_cache_touch(struct time_cache *cache, uint64_t address);
/* Empties the cache. */
void time_cache_clear(struct time_cache *cache);

/* The lines of 128 bytes that a wave's access touches, each once; returns how many there are.
 * `lines` has room for 2 * WAVE_LANES. */
unsigned time_lines(unsigned bytes, uint64_t lanes, const uint64_t addr[WAVE_LANES],
                    uint64_t *lines);

/* Bytes that a level sends in a span of PIPE_CLOCKS clocks. */
struct time_span {
    uint64_t number; /* of the span that has this place */
    double bytes;    /* that are taken */
    uint64_t next;   /* where it is full: a later one that may have room */
};

#define PIPE_CLOCKS 64
#define PIPE_SPANS 16384

/*
 * A level's bandwidth, and when it has sent what was asked for. One compute unit asks in order. Of
 * several, one may ask for a time that lies far ahead, since its requests wait for room; what the
 * level can send until then is the others', so that every span of time has a count of its own.
 */
struct time_pipe {
    double bytes_per_clk;
    double free;
    struct time_span *spans; /* PIPE_SPANS, a ring; NULL: of one compute unit */
};

#define ATOMIC_LINES 1024

/*
 * The caches that several compute units share when all of a launch's are modelled; every line is
 * where the launch itself has brought it. A compute unit by itself has its share instead.
 */
struct time_behind {
    struct time_cache *l2, *mall;
    struct time_pipe *l2_pipe, *mall_pipe, *hbm_pipe;
    double *atomics; /* ATOMIC_LINES: when the line of this hash is free for the next operation */
    double *walk;    /* when the L2 has ended its last walk for dirty lines */
};

/* Allocates what an XCD's compute units, or with `l2` false all of them, share; false without
 * memory. */
bool time_behind_init(struct time_behind *b, const struct time_params *p, double mhz, bool l2);
void time_behind_free(struct time_behind *b, bool l2);

enum time_request {
    REQUEST_LOAD,
    REQUEST_COHERENT, /* a load that the L1 does not answer */
    REQUEST_STORE,
    REQUEST_ATOMIC, /* done by the L2 */
};

#define L1_FIFO_MAX 32
#define L1_FLIGHT_MAX 4096

struct time_memory {
    const struct time_params *p;
    struct time_share share;
    struct time_cache *l1, *l2, *scalar;
    struct time_cache *mall; /* NULL: `share` says what is there */
    bool shares;             /* l2 and what lies behind it are others' too */
    double clocks_per_ns;
    struct time_pipe own[LEVEL_COUNT]; /* this compute unit's part */
    struct time_pipe *pipe[LEVEL_COUNT];
    double latency[LEVEL_COUNT];
    double own_atomics[ATOMIC_LINES], *atomics;
    double own_walk, *walk; /* when the L2 has ended its last walk for dirty lines */
    uint64_t l1_free;
    uint64_t started[L1_FIFO_MAX]; /* when the latest requests left the queue; a ring */
    uint64_t requests;
    struct {
        uint64_t done;
        uint32_t bytes;
    } flight[L1_FLIGHT_MAX]; /* a ring */
    uint64_t flight_first, flight_end;
    uint64_t flight_bytes;
    uint64_t bytes[LEVEL_COUNT]; /* moved from each level to here */
    uint64_t l1_busy;            /* clocks */
};

/* Allocates the caches; false without memory. `mhz` turns nanoseconds into clocks. With `behind`,
 * which outlives it, `share` is of no importance. */
bool time_memory_init(struct time_memory *m, const struct time_params *p,
                      const struct time_share *share, double mhz, const struct time_behind *behind);
void time_memory_free(struct time_memory *m);

/* The time at which all stores made by `now` have reached memory. */
uint64_t time_memory_drained(const struct time_memory *m, uint64_t now);

/* The time from which the queue has room for another request. */
uint64_t time_memory_accepts(const struct time_memory *m);

/* A wave's request at `now`, not before the queue accepts it: when its data are there (loads,
 * atomics) or it is acknowledged (stores). */
uint64_t time_memory_request(struct time_memory *m, uint64_t now, enum time_request kind,
                             unsigned bytes, uint64_t lanes, const uint64_t addr[WAVE_LANES]);

/*
 * Writes the dirty lines of the L2 back, as buffer_wbl2 does: the time at which that is done. The
 * L2 walks its tags once for all requests that came before the walk began. The lines themselves
 * take their bandwidth when they are stored.
 */
uint64_t time_memory_write_back(struct time_memory *m, uint64_t now);

/* Empties the L1, as buffer_inv does. Later requests wait until that is done. */
void time_memory_invalidate(struct time_memory *m, uint64_t now);

/* A scalar load of `bytes` at `address`. */
uint64_t time_memory_scalar(struct time_memory *m, uint64_t now, uint64_t address, unsigned bytes);

#endif
