/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vector memory of one compute unit and its share of L2, MALL and HBM.
 *
 * Requests enter a short queue. The L1 processes them in order at 64 B per clock or two clocks per
 * 128-byte line, with at most 32 KB in flight. A line comes from L1, from the L2 of the XCD, from
 * the MALL or from HBM. Each level has a latency and this compute unit's share of the bandwidth.
 * Scalar loads and instructions have their own caches.
 */
#ifndef HIPSIM_TIME_MEMORY_H
#define HIPSIM_TIME_MEMORY_H

#include "time_params.h"

enum time_level { LEVEL_L1, LEVEL_L2, LEVEL_MALL, LEVEL_HBM, LEVEL_COUNT };

/* Shares of memory of a compute unit. If they are not known, sharers and first are 1 and footprint
 * is 0. */
struct time_share {
    double cus_active; /* number of compute units that run the kernel at the same time */
    double sharers;    /* workgroups of an XCD that read the same lines, at least 1 */
    double footprint;  /* bytes that the whole launch loads */
    /* part of the L2's misses on lines that no other XCD has loaded, 0 to 1: HBM serves them, and
     * the MALL the others */
    double first;
};

struct time_cache; /* a set-associative cache with LRU replacement */
struct time_cache *time_cache_create(double bytes, double ways, unsigned line_bytes);
void time_cache_destroy(struct time_cache *cache);
/* Loads the line of `address` into the cache. True if it was there before. */
bool time_cache_touch(struct time_cache *cache, uint64_t address);
/* Removes all lines from the cache. */
void time_cache_clear(struct time_cache *cache);

/* Lists the numbers of the 128-byte lines of a wave's access, each once, and returns how many there
 * are. The access has `bytes` bytes per lane. lines[] needs room for 2 * WAVE_LANES. */
unsigned time_lines(unsigned bytes, uint64_t lanes, const uint64_t addr[WAVE_LANES],
                    uint64_t *lines);

/* Bytes that a level transfers in a span of PIPE_CLOCKS clocks. */
struct time_span {
    uint64_t number; /* number of the span that the ring entry has: time / PIPE_CLOCKS */
    double bytes;    /* bytes that are reserved */
    uint64_t next;   /* for a full span: number of a later span that may have room */
};

#define PIPE_CLOCKS 64
#define PIPE_SPANS 16384

/*
 * Bandwidth of a memory level. A private pipe serves requests in order, so `free` suffices. A
 * shared pipe has a count for each span of time. One compute unit may then reserve time far in the
 * future, while others use the time before it.
 */
struct time_pipe {
    double bytes_per_clk;
    double free;             /* clock from which a private pipe is free */
    struct time_span *spans; /* a shared pipe's ring of PIPE_SPANS spans; NULL: a private pipe */
};

#define ATOMIC_LINES 1024

/*
 * Memory levels that several compute units use when all of them are modelled. The contents of the
 * caches then follow from the launch itself. A single modelled compute unit has a struct time_share
 * instead.
 */
struct time_shared {
    struct time_cache *l2, *mall;
    struct time_pipe *l2_pipe, *mall_pipe, *hbm_pipe;
    struct time_pipe *atomic_pipe; /* for the operands of atomics, in the L2 of an XCD */
    /* clock at which the next atomic can start: ATOMIC_LINES entries by hash of the line */
    double *atomics;
    double *walk;             /* clock at which the L2's last walk for dirty lines ends */
    struct time_casts *casts; /* multicast loads of all compute units that are not complete */
};

/* Allocates the levels that the compute units of an L2 use (`l2`), or those that all compute units
 * use (`l2` false). `mhz` converts nanoseconds to clocks. False without memory. */
bool time_shared_init(struct time_shared *b, const struct time_params *p, double mhz, bool l2);
void time_shared_free(struct time_shared *b, bool l2);

enum time_request {
    REQUEST_LOAD,
    REQUEST_COHERENT, /* a load that bypasses the L1 */
    REQUEST_STORE,
    REQUEST_ATOMIC, /* an atomic, which the L2 executes */
};

#define L1_FIFO_MAX 32
#define L1_FLIGHT_MAX 4096

struct time_memory {
    const struct time_params *p;
    struct time_share share;
    struct time_cache *l1, *l2, *scalar;
    struct time_cache *mall; /* the MALL; NULL: `share` decides what hits */
    bool shares;             /* true: l2, MALL, HBM and atomics are those in a time_shared */
    double clocks_per_ns;
    struct time_pipe own[LEVEL_COUNT]; /* pipes that only this compute unit uses */
    struct time_pipe *pipe[LEVEL_COUNT];
    double latency[LEVEL_COUNT];
    double own_atomics[ATOMIC_LINES], *atomics;
    struct time_pipe own_atomic_pipe, *atomic_pipe;
    double own_walk, *walk; /* clock at which the L2's last walk for dirty lines ends */
    /* multicast loads; NULL: other workgroups of a cluster are not modelled */
    struct time_casts *casts;
    uint64_t l1_free;              /* clock from which the L1 is free */
    uint64_t started[L1_FIFO_MAX]; /* clocks at which the latest requests start; a ring */
    uint64_t requests;             /* number of requests so far */
    struct {
        uint64_t done; /* clock at which the bytes have arrived */
        uint32_t bytes;
    } flight[L1_FLIGHT_MAX];           /* transfers in flight, a ring */
    uint64_t flight_first, flight_end; /* entries [first, end) are in use, modulo the size */
    uint64_t flight_bytes;             /* sum of the bytes of the requests in flight */
    uint64_t bytes[LEVEL_COUNT];       /* bytes transferred from and to each level */
    uint64_t l1_busy;                  /* clocks in which the L1 is busy */
};

/* Allocates the caches. `mhz` converts nanoseconds to clocks. With `shared`, which must be freed
 * after `m`, `share` is ignored. False without memory. */
bool time_memory_init(struct time_memory *m, const struct time_params *p,
                      const struct time_share *share, double mhz, const struct time_shared *shared);
void time_memory_free(struct time_memory *m);

/* Returns the clock at which all stores that were made by clock `now` are in memory. */
uint64_t time_memory_drained(const struct time_memory *m, uint64_t now);

/* Returns the clock from which the queue has room for another request. */
uint64_t time_memory_accepts(const struct time_memory *m);

/* Issues a wave's request at clock `now`, which must not be before time_memory_accepts(). The
 * access has `bytes` bytes per lane. Returns the clock at which the data arrive (loads, atomics) or
 * the store is acknowledged. */
uint64_t time_memory_request(struct time_memory *m, uint64_t now, enum time_request kind,
                             unsigned bytes, uint64_t lanes, const uint64_t addr[WAVE_LANES]);

/* The kinds of copies. */
enum time_copy {
    COPY_LOAD,
    COPY_STORE,
    COPY_CAST,    /* a load for several workgroups of a cluster, which bypasses the L1 */
    COPY_RECEIVE, /* lines arrive that another workgroup's COPY_CAST has requested */
};

/* Issues a copy of `n` lines of 128 bytes between memory and LDS at clock `now`; lines[] has their
 * numbers. The copy needs no room in the queue of waves' requests. Its lines pass the L1 one after
 * the other. Returns the clock at which the last line has arrived, or its store is acknowledged. */
uint64_t time_memory_copy(struct time_memory *m, uint64_t now, enum time_copy kind,
                          const uint64_t *lines, unsigned n);

/*
 * Writes the dirty lines of the L2 back at clock `now`, like buffer_wbl2. Returns the clock at
 * which that is done. The L2 walks its tags once for all requests made before the walk began. The
 * bandwidth of the lines was counted when they were stored.
 */
uint64_t time_memory_write_back(struct time_memory *m, uint64_t now);

/* Removes all lines of the L1 at clock `now`, like buffer_inv. Later requests wait until that is
 * done. */
void time_memory_invalidate(struct time_memory *m, uint64_t now);

/* Issues a scalar load of `bytes` bytes at `address`, at clock `now`. Returns the clock at which
 * the data arrive. */
uint64_t time_memory_scalar(struct time_memory *m, uint64_t now, uint64_t address, unsigned bytes);

#endif
