/* SPDX-License-Identifier: Apache-2.0 */
#include "time_memory.h"

#include "time_cast.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define LINE 128
#define SCALAR_LINE 64
#define MALL_WAYS 16 /* ways of a set of the MALL cache (source: SHARK) */

enum { MAPPED = 256 << 10 /* bytes of the smallest array of entries that is mapped */ };

struct time_cache {
    struct entry {
        uint64_t tag;   /* line number + 1; 0: empty */
        uint64_t stamp; /* time of the last use */
    } *entries;         /* ways of each set */
    /* Time of the latest use: number of uses so far. */
    uint64_t now;
    unsigned sets, ways, line_bytes;
};

/* Returns the bytes of a cache's entries. */
static size_t bytes_of(const struct time_cache *c)
{
    return (size_t)c->sets * c->ways * sizeof(*c->entries);
}

/* Returns zeroed memory. Maps large arrays, since calloc() clears memory that it has used before:
 * 32 MB for the MALL in each launch, and most launches touch a few pages. NULL without memory. */
static void *allocate_zeros(size_t bytes)
{
    if (bytes < MAPPED)
        return calloc(1, bytes);
    void *const mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return mapped == MAP_FAILED ? NULL : mapped;
}

/* Frees `bytes` bytes at `zeros` from allocate_zeros(). NULL is allowed. */
static void free_zeros(void *zeros, size_t bytes)
{
    if (bytes < MAPPED)
        free(zeros);
    else if (zeros)
        munmap(zeros, bytes);
}

struct time_cache *time_cache_create(double bytes, double ways, unsigned line_bytes)
{
    struct time_cache *c = calloc(1, sizeof(*c));
    if (!c)
        return NULL;
    c->line_bytes = line_bytes;
    c->ways = ways < 1 ? 1 : (unsigned)ways;
    c->sets = (unsigned)(bytes / c->ways / line_bytes);
    c->sets = c->sets ? c->sets : 1;
    c->entries = allocate_zeros(bytes_of(c));
    if (c->entries)
        return c;
    free(c);
    return NULL;
}

void time_cache_destroy(struct time_cache *c)
{
    if (!c)
        return;
    free_zeros(c->entries, bytes_of(c));
    free(c);
}

bool time_cache_touch(struct time_cache *c, uint64_t address)
{
    uint64_t line = address / c->line_bytes;
    struct entry *set = c->entries + (size_t)(line % c->sets) * c->ways;
    unsigned oldest = 0;
    c->now++;
    for (unsigned i = 0; i < c->ways; i++) {
        if (set[i].tag == line + 1) {
            set[i].stamp = c->now;
            return true;
        }
        if (set[i].stamp < set[oldest].stamp)
            oldest = i;
    }
    set[oldest] = (struct entry){line + 1, c->now};
    return false;
}

void time_cache_clear(struct time_cache *c)
{
    for (size_t i = 0; i < (size_t)c->sets * c->ways; i++)
        c->entries[i].tag = 0;
}

unsigned time_lines(unsigned bytes, uint64_t lanes, const uint64_t addr[WAVE_LANES],
                    uint64_t *lines)
{
    unsigned n = 0;
    for (; lanes; lanes &= lanes - 1) {
        uint64_t at = addr[__builtin_ctzll(lanes)];
        uint64_t last = (at + (bytes ? bytes - 1 : 0)) / LINE;
        for (uint64_t line = at / LINE; line <= last && n < 2 * WAVE_LANES; line++) {
            unsigned i = n; /* the newest first, since most hits are there */
            while (i > 0 && lines[i - 1] != line)
                i--;
            if (i == 0)
                lines[n++] = line;
        }
    }
    return n;
}

/* Creates a pipe that several compute units share, of `bytes_per_clk` bytes per clock. NULL without
 * memory. */
static struct time_pipe *create_pipe(double bytes_per_clk)
{
    struct time_pipe *pipe = calloc(1, sizeof(*pipe));
    if (!pipe)
        return NULL;
    pipe->bytes_per_clk = bytes_per_clk;
    pipe->spans = allocate_zeros(PIPE_SPANS * sizeof(*pipe->spans));
    if (pipe->spans)
        return pipe;
    free(pipe);
    return NULL;
}

/* Frees a pipe. NULL is allowed. */
static void destroy_pipe(struct time_pipe *pipe)
{
    if (pipe)
        free_zeros(pipe->spans, PIPE_SPANS * sizeof(*pipe->spans));
    free(pipe);
}

bool time_shared_init(struct time_shared *b, const struct time_params *p, double mhz, bool l2)
{
    const double clocks_per_ns = mhz / 1000;
    if (l2) {
        b->l2 = time_cache_create(p->l2_bytes, p->l2_ways, LINE);
        b->l2_pipe = create_pipe(p->l2_bytes_per_clk);
        b->atomic_pipe = create_pipe(p->l2_atomic_bytes_per_clk);
        b->walk = calloc(1, sizeof(*b->walk));
        return b->l2 && b->l2_pipe && b->atomic_pipe && b->walk;
    }
    b->mall = time_cache_create(p->mall_bytes, MALL_WAYS, LINE);
    b->mall_pipe = create_pipe(p->mall_gb_per_s / clocks_per_ns);
    b->hbm_pipe = create_pipe(p->hbm_gb_per_s / clocks_per_ns);
    b->atomics = calloc(ATOMIC_LINES, sizeof(*b->atomics));
    b->casts = time_casts_create();
    return b->mall && b->mall_pipe && b->hbm_pipe && b->atomics && b->casts;
}

void time_shared_free(struct time_shared *b, bool l2)
{
    if (l2) {
        time_cache_destroy(b->l2);
        destroy_pipe(b->l2_pipe);
        destroy_pipe(b->atomic_pipe);
        free(b->walk);
        return;
    }
    time_cache_destroy(b->mall);
    destroy_pipe(b->mall_pipe);
    destroy_pipe(b->hbm_pipe);
    free(b->atomics);
    time_casts_destroy(b->casts);
}

/* Sets the private pipes, and the size of the L2, to this compute unit's share of each level. */
static void take_share(struct time_memory *m)
{
    const struct time_params *p = m->p;
    const double per_l2 = fmax(1, m->share.cus_active / time_l2s(p));
    const double active = fmax(1, m->share.cus_active);
    m->own[LEVEL_L2].bytes_per_clk = fmin(p->l1_bytes_per_clk, p->l2_bytes_per_clk / per_l2);
    m->own[LEVEL_MALL].bytes_per_clk = p->mall_gb_per_s / m->clocks_per_ns / active;
    m->own[LEVEL_HBM].bytes_per_clk = p->hbm_gb_per_s / m->clocks_per_ns / active;
    for (unsigned i = 0; i < LEVEL_COUNT; i++)
        m->pipe[i] = &m->own[i];
    m->own_atomic_pipe.bytes_per_clk = p->l2_atomic_bytes_per_clk / per_l2;
    m->atomic_pipe = &m->own_atomic_pipe;
    m->atomics = m->own_atomics;
    m->walk = &m->own_walk;
    /* Each group of sharers has its own set of lines in the L2, which therefore holds per_l2 /
     * sharers sets. */
    m->l2 = time_cache_create(p->l2_bytes / fmax(1, per_l2 / m->share.sharers), p->l2_ways, LINE);
}

bool time_memory_init(struct time_memory *m, const struct time_params *p,
                      const struct time_share *share, double mhz, const struct time_shared *shared)
{
    memset(m, 0, sizeof(*m));
    m->p = p;
    m->share = *share;
    m->clocks_per_ns = mhz / 1000;
    m->latency[LEVEL_L1] = p->l1_latency;
    m->latency[LEVEL_L2] = p->l2_latency;
    m->latency[LEVEL_MALL] = p->mall_ns * m->clocks_per_ns;
    m->latency[LEVEL_HBM] = p->hbm_ns * m->clocks_per_ns;
    if (shared) {
        m->shares = true;
        m->l2 = shared->l2;
        m->mall = shared->mall;
        m->pipe[LEVEL_L2] = shared->l2_pipe;
        m->pipe[LEVEL_MALL] = shared->mall_pipe;
        m->pipe[LEVEL_HBM] = shared->hbm_pipe;
        m->atomic_pipe = shared->atomic_pipe;
        m->atomics = shared->atomics;
        m->walk = shared->walk;
        m->casts = shared->casts;
    } else {
        take_share(m);
    }
    m->l1 = time_cache_create(p->l1_bytes, p->l1_ways, LINE);
    m->scalar = time_cache_create(p->scalar_bytes, 4, SCALAR_LINE);
    if (m->l1 && m->l2 && m->scalar)
        return true;
    time_memory_free(m);
    return false;
}

void time_memory_free(struct time_memory *m)
{
    time_cache_destroy(m->l1);
    time_cache_destroy(m->scalar);
    if (!m->shares)
        time_cache_destroy(m->l2);
    m->l1 = m->l2 = m->scalar = NULL;
}

/* Returns a number in [0, 1) that depends only on the line and `salt`. */
static double hash(uint64_t line, unsigned salt)
{
    uint64_t h = (line * UINT64_C(0x9e3779b97f4a7c15)) >> (40 - 16 * salt);
    return (double)(h & 0xffff) / 65536.0;
}

/* Returns the level that serves a line. Without shared caches this is statistical: one of the
 * workgroups that share a line loads it into the L2. One of the XCDs that share it loads it from
 * HBM; the others hit the MALL. */
static enum time_level serving_level(struct time_memory *m, uint64_t line)
{
    if (m->shares)
        return time_cache_touch(m->l2, line * LINE)     ? LEVEL_L2
               : time_cache_touch(m->mall, line * LINE) ? LEVEL_MALL
                                                        : LEVEL_HBM;
    if (time_cache_touch(m->l2, line * LINE) || hash(line, 0) * m->share.sharers >= 1)
        return LEVEL_L2;
    const bool first = hash(line, 1) < m->share.first;
    return first || m->share.footprint > m->p->mall_bytes ? LEVEL_HBM : LEVEL_MALL;
}

uint64_t time_memory_drained(const struct time_memory *m, uint64_t now)
{
    const double last = fmax(m->pipe[LEVEL_HBM]->free, m->atomic_pipe->free);
    return last > (double)now ? (uint64_t)last : now;
}

/* Returns span `number` of the pipe. NULL if a later span has its ring entry; it then counts as
 * full. */
static struct time_span *find_span(struct time_pipe *pipe, uint64_t number)
{
    struct time_span *span = &pipe->spans[number % PIPE_SPANS];
    if (span->number < number)
        *span = (struct time_span){.number = number};
    return span->number == number ? span : NULL;
}

/* Reserves `bytes` in the first spans with room from clock `now` on. Returns the clock at which the
 * last byte is sent. */
static double take_spans(struct time_pipe *pipe, double now, double bytes)
{
    const double room = pipe->bytes_per_clk * PIPE_CLOCKS;
    uint64_t number = (uint64_t)(now / PIPE_CLOCKS);
    struct time_span *const first = find_span(pipe, number);
    double sent = now + bytes / pipe->bytes_per_clk;
    while (bytes > 0) {
        struct time_span *span = find_span(pipe, number);
        if (span && span->bytes < room) {
            const double taken = fmin(bytes, room - span->bytes);
            span->bytes += taken;
            bytes -= taken;
            sent = fmax(sent, (double)(number * PIPE_CLOCKS) + span->bytes / pipe->bytes_per_clk);
        }
        number = span && span->next > number ? span->next : number + 1;
        if (bytes > 0 && first)
            first->next = number;
    }
    return sent;
}

/* Reserves a pipe's bandwidth for `bytes` from clock `now` on. Returns the clock at which the last
 * byte is sent. */
static double reserve(struct time_pipe *pipe, double now, unsigned bytes)
{
    const double sent = pipe->spans ? take_spans(pipe, now, bytes)
                                    : fmax(pipe->free, now) + bytes / pipe->bytes_per_clk;
    pipe->free = fmax(pipe->free, sent);
    return sent;
}

/* Transfers bytes at a level from clock `now` on. Returns the clock at which they are
 * transferred. */
static double transfer(struct time_memory *m, enum time_level level, double now, unsigned bytes)
{
    m->bytes[level] += bytes;
    return reserve(m->pipe[level], now, bytes);
}

uint64_t time_memory_accepts(const struct time_memory *m)
{
    unsigned size = (unsigned)m->p->l1_fifo;
    size = size > L1_FIFO_MAX ? L1_FIFO_MAX : size < 1 ? 1 : size;
    return m->requests < size ? 0 : m->started[(m->requests - size) % L1_FIFO_MAX];
}

/* Removes finished requests, and returns the first clock from `now` on at which `bytes` more bytes
 * may be in flight. */
static uint64_t flight_room(struct time_memory *m, uint64_t now, unsigned bytes)
{
    while (m->flight_first < m->flight_end) {
        uint64_t done = m->flight[m->flight_first % L1_FLIGHT_MAX].done;
        bool full = m->flight_bytes + bytes > m->p->l1_inflight ||
                    m->flight_end - m->flight_first == L1_FLIGHT_MAX;
        if (done > now && !full)
            break;
        now = done > now ? done : now;
        m->flight_bytes -= m->flight[m->flight_first++ % L1_FLIGHT_MAX].bytes;
    }
    return now;
}

/* Returns the clocks for which a request occupies the L1: `bytes` per lane, `lanes` lanes, `nlines`
 * lines. dwordx2 is as slow as dwordx4 (GLUON memory_bandwidth_model). */
static double request_clocks(const struct time_memory *m, unsigned bytes, unsigned lanes,
                             unsigned nlines)
{
    double moved = (double)lanes * (bytes > 4 && bytes < 16 ? 16 : bytes < 4 ? 4 : bytes);
    double clocks = moved / m->p->l1_bytes_per_clk;
    double by_line = nlines * m->p->l1_line_cycles;
    clocks = clocks > by_line ? clocks : by_line;
    return clocks < 1 ? 1 : clocks;
}

/* Returns the clock at which the store of a line, at clock `start` in the L1, is acknowledged. The
 * L2 writes a missed line to HBM at the end of the kernel at the latest, and no wave waits for
 * that. */
static double store_line(struct time_memory *m, double start, uint64_t line)
{
    const double sent = transfer(m, LEVEL_L2, start, LINE) + m->latency[LEVEL_L2];
    if (!time_cache_touch(m->l2, line * LINE)) {
        if (m->mall)
            time_cache_touch(m->mall, line * LINE);
        transfer(m, LEVEL_HBM, start, LINE);
    }
    return sent;
}

/* Loads a line from the level that has it. Returns the clock at which it arrives. */
static double load_line(struct time_memory *m, double start, uint64_t line)
{
    const enum time_level level = serving_level(m, line);
    double sent = transfer(m, LEVEL_L2, start, LINE);
    if (level != LEVEL_L2)
        sent = fmax(sent, transfer(m, level, start, LINE));
    return sent + m->latency[level];
}

/* Returns the clock at which an atomic on a line completes. Lanes at the same address are served
 * one after the other, and so are all requests for the line. The L2's channels transfer the
 * operands of all lines at the rate of l2_atomic_bytes_per_clk. */
static double atomic_line(struct time_memory *m, double start, uint64_t line, unsigned bytes,
                          uint64_t lanes, const uint64_t addr[WAVE_LANES])
{
    unsigned turns = 1, operands = 0;
    for (uint64_t a = lanes; a; a &= a - 1) {
        const uint64_t at = addr[__builtin_ctzll(a)];
        unsigned same = 0;
        operands += at / LINE == line;
        for (uint64_t b = at / LINE == line ? lanes : 0; b; b &= b - 1)
            same += addr[__builtin_ctzll(b)] == at;
        turns = same > turns ? same : turns;
    }
    const double there = load_line(m, start, line);
    double *busy = &m->atomics[line * UINT64_C(0x9e3779b97f4a7c15) >> 54];
    /* The atomic executes half way between request and answer. */
    const double arrives = (start + there) / 2;
    *busy = fmax(*busy, arrives) + turns * m->p->atomic_cycles;
    const double taken = reserve(m->atomic_pipe, arrives, operands * bytes);
    return fmax(*busy, taken) + (there - start) / 2;
}

/* Records that `bytes` bytes of the L1 are in flight until clock `done`. */
static void note_flight(struct time_memory *m, uint64_t done, unsigned bytes)
{
    m->flight[m->flight_end % L1_FLIGHT_MAX].done = done;
    m->flight[m->flight_end++ % L1_FLIGHT_MAX].bytes = bytes;
    m->flight_bytes += bytes;
}

uint64_t time_memory_request(struct time_memory *m, uint64_t now, enum time_request kind,
                             unsigned bytes, uint64_t lanes, const uint64_t addr[WAVE_LANES])
{
    uint64_t lines[2 * WAVE_LANES];
    const unsigned nlines = time_lines(bytes, lanes, addr, lines);
    const bool is_store = kind == REQUEST_STORE;
    const double clocks = request_clocks(m, bytes, (unsigned)__builtin_popcountll(lanes), nlines);
    uint64_t start = now > m->l1_free ? now : m->l1_free;
    const unsigned flying = is_store ? 0 : nlines * LINE;
    start = flight_room(m, start, flying);
    m->l1_free = start + (uint64_t)(clocks + 0.5);
    m->l1_busy += (uint64_t)(clocks + 0.5);
    m->started[m->requests++ % L1_FIFO_MAX] = start;
    double done = (double)m->l1_free + m->latency[kind == REQUEST_LOAD ? LEVEL_L1 : LEVEL_L2];
    for (unsigned i = 0; i < nlines; i++) {
        if (kind == REQUEST_LOAD && time_cache_touch(m->l1, lines[i] * LINE))
            m->bytes[LEVEL_L1] += LINE;
        else if (is_store)
            done = fmax(done, store_line(m, (double)start, lines[i]));
        else if (kind == REQUEST_ATOMIC)
            done = fmax(done, atomic_line(m, (double)start, lines[i], bytes, lanes, addr));
        else
            done = fmax(done, load_line(m, (double)start, lines[i]));
    }
    const uint64_t at = (uint64_t)(done + 0.5);
    if (!is_store)
        note_flight(m, at, flying);
    return at;
}

/* Requests a line of a copy at clock `free`, or later when the L1 has room in flight. Sets *begun
 * to the clock of the request. Returns the clock at which the line arrives, or its store is
 * acknowledged. */
static double copy_line(struct time_memory *m, double free, enum time_copy kind, uint64_t line,
                        double *begun)
{
    const bool is_store = kind == COPY_STORE;
    const bool hit = kind == COPY_LOAD && time_cache_touch(m->l1, line * LINE);
    const unsigned flying = is_store || hit ? 0 : LINE;
    const uint64_t start = flight_room(m, (uint64_t)free, flying);
    *begun = fmax(free, (double)start);
    if (is_store)
        return store_line(m, *begun, line);
    if (hit) {
        m->bytes[LEVEL_L1] += LINE;
        return *begun + m->latency[LEVEL_L1];
    }
    const double there =
        kind == COPY_RECEIVE ? *begun + m->latency[LEVEL_L2] : load_line(m, *begun, line);
    note_flight(m, (uint64_t)(there + 0.5), LINE);
    return there;
}

uint64_t time_memory_copy(struct time_memory *m, uint64_t now, enum time_copy kind,
                          const uint64_t *lines, unsigned n)
{
    const double clocks = fmax(LINE / m->p->l1_bytes_per_clk, m->p->l1_line_cycles);
    double free = (double)(now > m->l1_free ? now : m->l1_free), done = (double)now;
    for (unsigned i = 0; i < n; i++) {
        double begun;
        const double there = copy_line(m, free, kind, lines[i], &begun);
        free = begun + clocks;
        done = fmax(done, fmax(there, free));
    }
    m->l1_busy += (uint64_t)(n * clocks + 0.5);
    m->l1_free = (uint64_t)(free + 0.5);
    return (uint64_t)(done + 0.5);
}

uint64_t time_memory_write_back(struct time_memory *m, uint64_t now)
{
    const double there = (double)now + m->latency[LEVEL_L2] / 2;
    const double walk = m->p->l2_writeback_cycles;
    /* a walk that has not begun yet also serves this request */
    if (*m->walk - walk < there)
        *m->walk = fmax(*m->walk, there) + walk;
    return (uint64_t)(*m->walk + m->latency[LEVEL_L2] / 2 + 0.5);
}

void time_memory_invalidate(struct time_memory *m, uint64_t now)
{
    const uint64_t start = now > m->l1_free ? now : m->l1_free;
    time_cache_clear(m->l1);
    m->l1_free = start + (uint64_t)m->p->l1_invalidate_cycles;
}

uint64_t time_memory_scalar(struct time_memory *m, uint64_t now, uint64_t address, unsigned bytes)
{
    double latency = m->p->scalar_latency;
    uint64_t last = (address + (bytes ? bytes - 1 : 0)) / SCALAR_LINE;
    for (uint64_t line = address / SCALAR_LINE; line <= last; line++) {
        if (time_cache_touch(m->scalar, line * SCALAR_LINE))
            continue;
        double miss =
            m->p->scalar_latency + m->latency[serving_level(m, line * SCALAR_LINE / LINE)];
        latency = miss > latency ? miss : latency;
    }
    return now + (uint64_t)latency;
}
