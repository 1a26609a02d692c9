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

/* Sharing of memory between compute units. Unknown: sharers and first are 1, footprint 0. */
struct time_share {
    double cus_active; /* compute units that run the kernel at the same time */
    double sharers;    /* workgroups of an XCD that read the same lines, >= 1 */
    double footprint;  /* bytes that the whole launch loads */
    double first;      /* fraction of L2 misses to lines that no other XCD has loaded: served by
                        * HBM, the others by MALL */
};

struct time_cache; /* set-associative, LRU */
struct time_cache *time_cache_create(double bytes, double ways, unsigned line_bytes);
void time_cache_destroy(struct time_cache *cache);
/* Loads the line of `address` into the cache. Returns true if it was there before. */
bool time_cache_touch(struct time_cache *cache, uint64_t address);
/* Empties the cache. */
void time_cache_clear(struct time_cache *cache);

/* Lists the 128-byte lines that a wave's access touches, each once, and returns their number.
 * `lines` needs room for 2 * WAVE_LANES. */
unsigned time_lines(unsigned bytes, uint64_t lanes, const uint64_t addr[WAVE_LANES],
                    uint64_t *lines);

/* Bytes that a level transfers in a span of PIPE_CLOCKS clocks. */
struct time_span {
    uint64_t number; /* index of the span in this ring entry, time / PIPE_CLOCKS */
    double bytes;    /* bytes in use */
    uint64_t next;   /* of a full span: index of a later span that may have room */
};

#define PIPE_CLOCKS 64
#define PIPE_SPANS 16384

/*
 * Bandwidth of a memory level. A private pipe serves requests in order, so `free` suffices. A
 * shared pipe keeps a count per span of time: one compute unit may request a transfer far in the
 * future while others still use the time before it.
 */
struct time_pipe {
    double bytes_per_clk;
    double free;             /* private: clock from which the pipe is free */
    struct time_span *spans; /* ring of PIPE_SPANS for a shared pipe; NULL: private pipe */
};

#define ATOMIC_LINES 1024

/*
 * Memory levels that several compute units share when all of them are modelled. Cache contents then
 * follow from the launch itself. A single modelled compute unit uses struct time_share instead.
 */
struct time_shared {
    struct time_cache *l2, *mall;
    struct time_pipe *l2_pipe, *mall_pipe, *hbm_pipe;
    struct time_pipe *atomic_pipe; /* operands of atomics, in the L2 of an XCD */
    double *atomics; /* ATOMIC_LINES entries by hash of the line: clock at which the next atomic
                      * can start */
    double *walk;    /* clock at which the L2's last walk for dirty lines ends */
    struct time_casts *casts; /* multicast loads of all compute units that are not complete */
};

/* Allocates the levels that the compute units of an XCD share (`l2`) or that all of them share
 * (`l2` false). Returns false without memory. */
bool time_shared_init(struct time_shared *b, const struct time_params *p, double mhz, bool l2);
void time_shared_free(struct time_shared *b, bool l2);

enum time_request {
    REQUEST_LOAD,
    REQUEST_COHERENT, /* a load that bypasses the L1 */
    REQUEST_STORE,
    REQUEST_ATOMIC, /* executed by the L2 */
};

#define L1_FIFO_MAX 32
#define L1_FLIGHT_MAX 4096

struct time_memory {
    const struct time_params *p;
    struct time_share share;
    struct time_cache *l1, *l2, *scalar;
    struct time_cache *mall; /* NULL: hits follow from `share` */
    bool shares;             /* l2, MALL, HBM and atomics belong to a time_shared */
    double clocks_per_ns;
    struct time_pipe own[LEVEL_COUNT]; /* private pipes */
    struct time_pipe *pipe[LEVEL_COUNT];
    double latency[LEVEL_COUNT];
    double own_atomics[ATOMIC_LINES], *atomics;
    struct time_pipe own_atomic_pipe, *atomic_pipe;
    double own_walk, *walk;        /* end of the L2's last walk for dirty lines */
    struct time_casts *casts;      /* NULL: other workgroups of a cluster are not modelled */
    uint64_t l1_free;              /* clock from which the L1 is free */
    uint64_t started[L1_FIFO_MAX]; /* start times of the latest requests; a ring */
    uint64_t requests;             /* number of requests so far */
    struct {
        uint64_t done; /* clock at which the bytes have arrived */
        uint32_t bytes;
    } flight[L1_FLIGHT_MAX];           /* transfers in flight, a ring */
    uint64_t flight_first, flight_end; /* entries [first, end) are in use, modulo the size */
    uint64_t flight_bytes;             /* sum of their bytes */
    uint64_t bytes[LEVEL_COUNT];       /* transferred from or to each level */
    uint64_t l1_busy;                  /* clocks */
};

/* Allocates the caches; false without memory. `mhz` converts nanoseconds to clocks. With `shared`,
 * which must outlive `m`, `share` is ignored. */
bool time_memory_init(struct time_memory *m, const struct time_params *p,
                      const struct time_share *share, double mhz, const struct time_shared *shared);
void time_memory_free(struct time_memory *m);

/* Returns the clock at which all stores made by `now` have reached memory. */
uint64_t time_memory_drained(const struct time_memory *m, uint64_t now);

/* Returns the clock from which the queue has room for another request. */
uint64_t time_memory_accepts(const struct time_memory *m);

/* Issues a wave's request at `now`, which must not be before time_memory_accepts(). Returns the
 * clock at which the data arrive (loads, atomics) or the store is acknowledged. */
uint64_t time_memory_request(struct time_memory *m, uint64_t now, enum time_request kind,
                             unsigned bytes, uint64_t lanes, const uint64_t addr[WAVE_LANES]);

/* The kinds of copies. */
enum time_copy {
    COPY_LOAD,
    COPY_STORE,
    COPY_CAST,    /* loads them for several workgroups of a cluster, past the L1 */
    COPY_RECEIVE, /* gets lines that a COPY_CAST of another workgroup has requested */
};

/* Issues a copy of `n` lines of 128 bytes, given by number, between memory and LDS at clock `now`.
 * The copy needs no room in the queue of waves' requests. Its lines pass the L1 one after the
 * other. Returns the clock at which the last line has arrived, or its store is acknowledged. */
uint64_t time_memory_copy(struct time_memory *m, uint64_t now, enum time_copy kind,
                          const uint64_t *lines, unsigned n);

/*
 * Writes the dirty lines of the L2 back, like buffer_wbl2. Returns the clock at which that is done.
 * The L2 walks its tags once for all requests made before the walk began. The bandwidth of the
 * lines was charged when they were stored.
 */
uint64_t time_memory_write_back(struct time_memory *m, uint64_t now);

/* Empties the L1, like buffer_inv. Later requests wait until that is done. */
void time_memory_invalidate(struct time_memory *m, uint64_t now);

/* Issues a scalar load of `bytes` at `address`. Returns the clock at which the data arrive. */
uint64_t time_memory_scalar(struct time_memory *m, uint64_t now, uint64_t address, unsigned bytes);

#endif
