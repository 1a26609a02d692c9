/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the timing model's memory: the time of a request by the parameters. */
#include "tools/hipsim/tests/program.h"
#include "tools/hipsim/time/time_memory.h"

/* Sets up the only compute unit of a device. The MALL is empty. */
static void alone(struct time_params *p, struct time_memory *m)
{
    const struct time_share share = {1, 1, 0, 1};
    assert_true(time_memory_init(m, p, &share, p->max_mhz, NULL));
}

/* A dwordx4 takes 16 clocks of the L1, and twice that for rows of 64 B (row C5 of
 * tools/hipsim/docs/timing.md). */
TEST(rows_of_half_a_line_take_twice_the_time)
{
    struct time_params p = time_params_default(GFX942);
    struct time_memory m;
    uint64_t whole[WAVE_LANES], half[WAVE_LANES], one[WAVE_LANES];
    for (unsigned i = 0; i < WAVE_LANES; i++) {
        whole[i] = 4096 + i * 16;
        half[i] = (uint64_t)(i / 4) * 4096 + i % 4 * 16;
        one[i] = 4096 + i * 4;
    }
    alone(&p, &m);
    time_memory_request(&m, 0, REQUEST_LOAD, 16, UINT64_MAX, whole);
    assert_int_equal(m.l1_free, 16);
    time_memory_request(&m, 16, REQUEST_LOAD, 16, UINT64_MAX, half);
    assert_int_equal(m.l1_free, 16 + 32);
    time_memory_request(&m, 48, REQUEST_LOAD, 4, UINT64_MAX, one);
    assert_int_equal(m.l1_free, 16 + 32 + 4);
    assert_int_equal(m.l1_busy, 16 + 32 + 4);
    time_memory_free(&m);
}

/* The L1 returns 64 B per clock to the lanes, regardless of the number of lines. A dwordx2 takes
 * the time of a dwordx4 (GLUON memory_bandwidth_model), a byte the time of a dword. */
TEST(lanes_that_share_a_line_take_their_bytes)
{
    static const struct {
        unsigned bytes, lanes, stride;
        uint64_t clocks;
    } cases[] = {{16, 64, 0, 16}, {8, 64, 8, 16}, {4, 64, 0, 4}, {1, 64, 1, 4},
                 {16, 4, 16, 2},  {4, 1, 0, 2},   {4, 0, 0, 1}};
    struct time_params p = time_params_default(GFX942);
    for (unsigned n = 0; n < sizeof(cases) / sizeof(cases[0]); n++) {
        struct time_memory m;
        uint64_t addr[WAVE_LANES];
        for (unsigned i = 0; i < WAVE_LANES; i++)
            addr[i] = 4096 + i * cases[n].stride;
        const uint64_t lanes = cases[n].lanes < 64 ? (1ull << cases[n].lanes) - 1 : UINT64_MAX;
        alone(&p, &m);
        time_memory_request(&m, 0, REQUEST_LOAD, cases[n].bytes, lanes, addr);
        if (m.l1_free != cases[n].clocks)
            fail_msg("case %u: %u clocks", n, (unsigned)m.l1_free);
        time_memory_free(&m);
    }
}

/* Tests row A10 of tools/hipsim/docs/timing.md: a chain of dependent loads by working set, at 1.7
 * GHz as measured on MI210. */
TEST(latency_grows_with_the_working_set)
{
    struct time_params p = time_params_default(GFX942);
    struct time_memory m;
    alone(&p, &m);
    uint64_t addr[WAVE_LANES] = {0};
    const uint64_t sizes[] = {16384, 131072};
    double latency[2];
    for (unsigned s = 0; s < 2; s++) {
        uint64_t now = 0, start = 0, lines = sizes[s] / 128;
        for (unsigned pass = 0; pass < 3; pass++) {
            start = now;
            for (uint64_t i = 0; i < lines; i++) {
                addr[0] = i * 128;
                now = time_memory_request(&m, now, REQUEST_LOAD, 4, 1, addr);
            }
        }
        latency[s] = (double)(now - start) / (double)lines;
    }
    assert_true(latency[0] > 115 && latency[0] < 140);
    assert_true(latency[1] > 230 && latency[1] < 260);
    time_memory_free(&m);
}

/* A copy takes the time of all its lines: at the L1's rate for hits, at its share of the bandwidth
 * for lines from HBM. Later requests start after it. */
TEST(a_copy_takes_the_time_of_all_lines)
{
    enum { LINES = 256 };
    const struct time_params p = time_params_default(GFX1250);
    const struct time_share share = {p.cus, 1, 1e12, 0};
    const double hbm = p.hbm_gb_per_s / (p.max_mhz / 1000) / p.cus;
    struct time_memory m;
    uint64_t lines[LINES], addr[WAVE_LANES] = {0};
    for (unsigned i = 0; i < LINES; i++)
        lines[i] = 1000 + i;
    assert_true(time_memory_init(&m, &p, &share, p.max_mhz, NULL));
    const double took = (double)time_memory_copy(&m, 0, COPY_LOAD, lines, LINES);
    const double least = LINES * 128 / hbm;
    assert_true(took > least && took < least + 1.2 * m.latency[LEVEL_HBM]);
    assert_int_equal(m.bytes[LEVEL_HBM], LINES * 128);
    const uint64_t again =
        time_memory_copy(&m, (uint64_t)took, COPY_LOAD, lines, LINES) - (uint64_t)took;
    assert_true(again >= LINES && again < LINES + 2 * (uint64_t)p.l1_latency);
    addr[0] = 1000 * 128;
    const uint64_t after = time_memory_request(&m, (uint64_t)took, REQUEST_LOAD, 4, 1, addr);
    assert_true(after >= (uint64_t)took + LINES);
    time_memory_free(&m);
}

/* The L2 acknowledges the stores of a copy. They take bandwidth. */
TEST(stores_of_a_copy_drain)
{
    const struct time_params p = time_params_default(GFX1250);
    const struct time_share share = {p.cus, 1, 1e12, 0};
    struct time_memory m;
    uint64_t lines[256];
    for (unsigned i = 0; i < 256; i++)
        lines[i] = i;
    assert_true(time_memory_init(&m, &p, &share, p.max_mhz, NULL));
    const uint64_t done = time_memory_copy(&m, 0, COPY_STORE, lines, 256);
    assert_true(time_memory_drained(&m, done) > done);
    assert_int_equal(m.flight_bytes, 0);
    time_memory_free(&m);
}

/* Streams get their share of the bandwidth. Data that others load cost less. */
TEST(streams_are_bound_by_their_share)
{
    enum { REQUESTS = 4096 }; /* requests in flight at the end are 1 % */
    (void)state;
    struct time_params p = time_params_default(GFX950);
    double clocks[4];
    const struct time_share shares[] = {
        {p.cus, 1, 1e12, 0},
        {p.cus, 1, 1e6, 0},
        {p.cus, 32, 1e12, 0},
        {p.cus, 1, 1e6, 1},
    };
    for (unsigned k = 0; k < 4; k++) {
        struct time_memory m;
        const struct time_share share = shares[k];
        assert_true(time_memory_init(&m, &p, &share, p.max_mhz, NULL));
        uint64_t addr[WAVE_LANES], now = 0;
        for (unsigned i = 0; i < REQUESTS; i++) {
            for (unsigned l = 0; l < WAVE_LANES; l++)
                addr[l] = (uint64_t)i * 1024 + l * 16;
            uint64_t room = time_memory_accepts(&m);
            now = room > now ? room : now;
            time_memory_request(&m, now, REQUEST_LOAD, 16, UINT64_MAX, addr);
        }
        clocks[k] = (double)m.l1_free;
        time_memory_free(&m);
    }
    double hbm = p.hbm_gb_per_s / (p.max_mhz / 1000) / p.cus;
    double reached = REQUESTS * 1024.0 / clocks[0];
    assert_true(reached < hbm * 1.02 && reached > hbm * 0.9);
    assert_true(clocks[1] < clocks[0] && clocks[2] < clocks[1]);
    assert_true(clocks[3] == clocks[0]); /* not loaded before, so not in the MALL */
}

/* No wave waits for its stores, but they need time to reach memory. */
TEST(stores_drain_at_the_speed_of_memory)
{
    struct time_params p = time_params_default(GFX942);
    const struct time_share share = {p.cus, 1, 1e6, 1};
    struct time_memory m;
    assert_true(time_memory_init(&m, &p, &share, p.max_mhz, NULL));
    assert_true(time_memory_drained(&m, 10) == 10);
    uint64_t addr[WAVE_LANES];
    for (unsigned i = 0; i < 1024; i++) {
        for (unsigned l = 0; l < WAVE_LANES; l++)
            addr[l] = (uint64_t)i * 1024 + l * 16;
        time_memory_request(&m, 0, REQUEST_STORE, 16, UINT64_MAX, addr);
    }
    const double hbm = p.hbm_gb_per_s / (p.max_mhz / 1000) / p.cus;
    const double reached = 1024 * 1024 / (double)time_memory_drained(&m, 0);
    assert_true(reached < hbm * 1.02 && reached > hbm * 0.9);
    time_memory_free(&m);
}

/* Two compute units share a memory. A request for a later time leaves the bandwidth until then to
 * the other unit. Together they get the bandwidth of HBM, and no more. */
TEST(future_requests_delay_no_others)
{
    const struct time_params p = time_params_default(GFX950);
    const struct time_share share = {1, 1, 0, 1};
    struct time_shared common, xcd;
    struct time_memory ahead, now;
    uint64_t addr[WAVE_LANES], done = 0;
    assert_true(time_shared_init(&common, &p, p.max_mhz, false));
    xcd = common;
    assert_true(time_shared_init(&xcd, &p, p.max_mhz, true));
    assert_true(time_memory_init(&ahead, &p, &share, p.max_mhz, &xcd));
    assert_true(time_memory_init(&now, &p, &share, p.max_mhz, &xcd));
    for (unsigned i = 0; i < WAVE_LANES; i++)
        addr[i] = i * 16;
    time_memory_request(&ahead, 100000, REQUEST_LOAD, 16, UINT64_MAX, addr);
    for (unsigned n = 1; n <= 1000; n++) {
        for (unsigned i = 0; i < WAVE_LANES; i++)
            addr[i] = n * 1024 + i * 16;
        done = time_memory_request(&now, 0, REQUEST_LOAD, 16, UINT64_MAX, addr);
    }
    const double least = 1000 * 1024 / (p.hbm_gb_per_s * 1000 / p.max_mhz);
    assert_true((double)done > least && done < 100000);
    time_memory_free(&ahead);
    time_memory_free(&now);
    time_shared_free(&xcd, true);
    time_shared_free(&common, false);
}

/* Returns parameters with a different latency for each level, so that a sum identifies the levels.
 * The clock is 2 per ns. */
static struct time_params telling(void)
{
    struct time_params p = time_params_default(GFX942);
    p.max_mhz = 2000;
    p.l1_latency = 100, p.l2_latency = 300, p.mall_ns = 500, p.hbm_ns = 1500;
    p.scalar_latency = 70, p.atomic_cycles = 11;
    p.l1_bytes_per_clk = 64, p.l2_bytes_per_clk = 2048, p.l1_line_cycles = 2;
    p.mall_gb_per_s = p.hbm_gb_per_s = 2 * 64; /* 64 bytes per clock: two clocks for a line */
    return p;
}

/* Compute units on different XCDs, which share MALL and HBM. */
struct apart {
    struct time_shared common, xcd[3];
    struct time_memory m[3];
};

static void open_apart(struct apart *a, const struct time_params *p)
{
    const struct time_share share = {1, 1, 0, 1};
    assert_true(time_shared_init(&a->common, p, p->max_mhz, false));
    for (unsigned i = 0; i < 3; i++) {
        a->xcd[i] = a->common;
        assert_true(time_shared_init(&a->xcd[i], p, p->max_mhz, true));
        assert_true(time_memory_init(&a->m[i], p, &share, p->max_mhz, &a->xcd[i]));
    }
}

static void close_apart(struct apart *a)
{
    for (unsigned i = 0; i < 3; i++) {
        time_memory_free(&a->m[i]);
        time_shared_free(&a->xcd[i], true);
    }
    time_shared_free(&a->common, false);
}

/* A request takes the latency of its level, and two clocks for the line. */
TEST(a_line_takes_the_latency_of_its_level)
{
    struct time_params p = telling();
    struct apart cu;
    struct time_memory *const m = cu.m;
    open_apart(&cu, &p);
    const uint64_t addr[WAVE_LANES] = {1 << 20};
    assert_int_equal(time_memory_request(&m[0], 0, REQUEST_LOAD, 4, 1, addr), 2 + 3000);
    assert_int_equal(time_memory_request(&m[0], 9000, REQUEST_LOAD, 4, 1, addr), 9002 + 100);
    assert_int_equal(time_memory_request(&m[0], 9100, REQUEST_COHERENT, 4, 1, addr), 9102 + 300);
    assert_int_equal(time_memory_request(&m[1], 9200, REQUEST_LOAD, 4, 1, addr), 9202 + 1000);
    const uint64_t bytes[LEVEL_COUNT] = {128, 256, 0, 128}, others[LEVEL_COUNT] = {0, 128, 128, 0};
    assert_memory_equal(m[0].bytes, bytes, sizeof(bytes));
    assert_memory_equal(m[1].bytes, others, sizeof(others));
    close_apart(&cu);
}

/* A line that misses the L2 is stored in the MALL, where another XCD finds it. */
TEST(a_stored_line_is_in_the_mall)
{
    struct time_params p = telling();
    struct apart cu;
    open_apart(&cu, &p);
    const uint64_t addr[WAVE_LANES] = {1 << 20};
    assert_int_equal(time_memory_request(&cu.m[0], 0, REQUEST_STORE, 4, 1, addr), 2 + 300);
    assert_int_equal(time_memory_request(&cu.m[1], 9000, REQUEST_LOAD, 4, 1, addr), 9002 + 1000);
    close_apart(&cu);
}

/* A load waits until its data fit into the L1's limit of data in flight. Stores do not. */
TEST(loads_in_flight_delay_loads_alone)
{
    struct time_params p = telling();
    struct apart cu;
    struct time_memory *const m = &cu.m[0];
    p.l1_inflight = 2 * 128;
    open_apart(&cu, &p);
    uint64_t addr[WAVE_LANES] = {1 << 20};
    const uint64_t first = time_memory_request(m, 0, REQUEST_LOAD, 4, 1, addr);
    assert_int_equal(first, 2 + 3000);
    addr[0] += 4096;
    time_memory_request(m, 2, REQUEST_LOAD, 4, 1, addr);
    addr[0] += 4096;
    time_memory_request(m, 4, REQUEST_STORE, 4, 1, addr);
    assert_int_equal(m->l1_free, 4 + 2);
    addr[0] += 4096;
    time_memory_request(m, 6, REQUEST_LOAD, 4, 1, addr);
    assert_int_equal(m->l1_free, first + 2);
    close_apart(&cu);
}

/* Bytes that exceed a span of 64 clocks are sent in the next span with room. Requests for the same
 * time therefore take the sum of their times. */
TEST(full_spans_defer_bytes)
{
    struct time_params p = telling();
    struct apart cu;
    uint64_t addr[WAVE_LANES];
    p.hbm_gb_per_s = 2 * 15;               /* 960 bytes in a span: 7.5 lines */
    open_apart(&cu, &p);                   /* the units share HBM only */
    const unsigned lanes[3] = {40, 40, 1}; /* lines: five, five, one */
    /* 640, 1,280 and 1,408 bytes at 15 bytes per clock. */
    const uint64_t sent[3] = {43, 85, 94};
    for (unsigned i = 0; i < 3; i++) {
        for (unsigned l = 0; l < WAVE_LANES; l++)
            addr[l] = (i + 1) * 4096 + l * 16;
        const uint64_t active = (UINT64_C(1) << lanes[i]) - 1;
        assert_int_equal(time_memory_request(&cu.m[i], 0, REQUEST_LOAD, 16, active, addr),
                         sent[i] + 3000);
    }
    close_apart(&cu);
}

/* Lanes that change the same dword are serialised. With several dwords, the longest queue counts. A
 * second wave's operation begins when the first wave's has ended. */
TEST(atomics_are_serialised)
{
    struct time_params p = telling();
    struct time_memory m;
    uint64_t addr[WAVE_LANES];
    alone(&p, &m);
    for (unsigned l = 0; l < WAVE_LANES; l++)
        addr[l] = 4096 + (l < 6 ? 0 : l < 8 ? 4 : 8 + l / 32 * 4);
    assert_int_equal(time_memory_request(&m, 0, REQUEST_ATOMIC, 4, 0xff, addr), 2 + 3000 + 6 * 11);
    /* The line is in the L2 now. Request and answer take 302 clocks. */
    assert_int_equal(time_memory_request(&m, 8000, REQUEST_ATOMIC, 4, UINT64_MAX, addr),
                     8000 + 302 + 32 * 11);
    const uint64_t begin = 9000 + 302 / 2;
    assert_int_equal(time_memory_request(&m, 9000, REQUEST_ATOMIC, 4, 1, addr),
                     begin + 11 + 302 / 2);
    const uint64_t done = time_memory_request(&m, 9004, REQUEST_ATOMIC, 4, 1, addr);
    assert_int_equal(done, begin + 2 * 11 + 302 / 2);
    time_memory_free(&m);
}

/* Changes `bytes` bytes from `base` on by atomics on dwords, 64 per wave, all at clock 0. Returns
 * the clock at which the last one ends. */
static uint64_t add_to_all(struct time_memory *m, uint64_t base, uint64_t bytes)
{
    uint64_t addr[WAVE_LANES], done = 0;
    for (uint64_t at = 0; at < bytes; at += 4 * WAVE_LANES) {
        for (unsigned l = 0; l < WAVE_LANES; l++)
            addr[l] = base + at + 4 * l;
        done = time_memory_request(m, 0, REQUEST_ATOMIC, 4, UINT64_MAX, addr);
    }
    return done;
}

/* The compute units of an XCD send operands to the channels of its L2 at a fixed rate, and each
 * gets its share. All addresses differ, so nothing is serialised. */
TEST(atomics_are_bound_by_the_channels)
{
    struct time_params p = telling();
    const struct time_share full = {p.cus, 1, 0, 1};
    const uint64_t bytes = 1 << 18;
    struct time_memory m;
    double clocks[2];
    p.hbm_gb_per_s = p.mall_gb_per_s = 1e6; /* so high that they are no bound */
    for (unsigned i = 0; i < 2; i++) {
        p.l2_atomic_bytes_per_clk = i ? 32 : 64;
        assert_true(time_memory_init(&m, &p, &full, p.max_mhz, NULL));
        clocks[i] = (double)add_to_all(&m, 1 << 20, bytes);
        const double least = (double)bytes / (p.l2_atomic_bytes_per_clk / (p.cus / p.xcds));
        assert_true(clocks[i] > least && clocks[i] < 1.1 * least + 4000);
        assert_true((double)time_memory_drained(&m, 0) >= 0.99 * least);
        time_memory_free(&m);
    }
    assert_true(clocks[1] > 1.8 * clocks[0]);
}

/* Two compute units share channels only if they are on one XCD. The few lines do not collide in the
 * table of lines that atomics occupy. */
TEST(channels_belong_to_an_xcd)
{
    struct time_params p = telling();
    const struct time_share share = {1, 1, 0, 1};
    const uint64_t bytes = 2048, clocks = 32 * bytes;
    struct apart cu;
    struct time_memory same;
    p.l2_atomic_bytes_per_clk = 1.0 / 32;
    open_apart(&cu, &p);
    assert_true(time_memory_init(&same, &p, &share, p.max_mhz, &cu.xcd[0]));
    const uint64_t first = add_to_all(&cu.m[0], 1 << 20, bytes);
    assert_true(first >= clocks && first < clocks + 8000);
    assert_true(add_to_all(&same, 2 << 20, bytes) > 2 * clocks);
    assert_true(add_to_all(&cu.m[1], 3 << 20, bytes) < clocks + 8000);
    time_memory_free(&same);
    close_apart(&cu);
}

TEST(no_cache_may_be_destroyed) { time_cache_destroy(NULL); }

/* A scalar load waits for the slowest of its 64-byte lines. A line of the L2 has two of these. */
TEST(scalar_loads_wait_for_their_lines)
{
    struct time_params p = telling();
    struct time_memory m;
    alone(&p, &m);
    const uint64_t at = 1 << 20;
    assert_int_equal(time_memory_scalar(&m, 0, at, 16), 70 + 3000);
    assert_int_equal(time_memory_scalar(&m, 4000, at + 48, 16), 4000 + 70);
    assert_int_equal(time_memory_scalar(&m, 5000, at + 48, 32), 5000 + 70 + 300);
    assert_int_equal(time_memory_scalar(&m, 6000, at + 64, 64), 6000 + 70);
    assert_int_equal(time_memory_scalar(&m, 7000, at + 124, 8), 7000 + 70 + 3000);
    assert_int_equal(time_memory_scalar(&m, 11000, at + 128, 0), 11000 + 70);
    time_memory_free(&m);
}

/* A walk of the tags serves every request that reaches the L2 before it begins. Walks do not
 * overlap. */
TEST(write_backs_share_walks)
{
    struct time_params p = telling();
    p.l2_writeback_cycles = 1000;
    struct time_memory m;
    alone(&p, &m);
    const uint64_t half = (uint64_t)p.l2_latency / 2;
    assert_int_equal(time_memory_write_back(&m, 0), half + 1000 + half);
    /* The first walk has begun, so the second walk serves both requests. */
    assert_int_equal(time_memory_write_back(&m, 10), half + 2000 + half);
    assert_int_equal(time_memory_write_back(&m, 900), half + 2000 + half);
    assert_int_equal(time_memory_write_back(&m, 5000), 5000 + half + 1000 + half);
    time_memory_free(&m);
}

/* Loads after an invalidation wait for its end and miss the L1. */
TEST(an_invalidation_empties_the_l1)
{
    struct time_params p = telling();
    p.l1_invalidate_cycles = 200;
    struct time_memory m;
    alone(&p, &m);
    const uint64_t addr[WAVE_LANES] = {1 << 20};
    time_memory_request(&m, 0, REQUEST_LOAD, 4, 1, addr);
    const uint64_t hit = time_memory_request(&m, 20000, REQUEST_LOAD, 4, 1, addr) - 20000;
    time_memory_invalidate(&m, 30000);
    const uint64_t missed = time_memory_request(&m, 30000, REQUEST_LOAD, 4, 1, addr) - 30000;
    assert_true(hit < p.l2_latency);
    assert_true(missed >= 200 + p.l2_latency);
    time_memory_free(&m);
}

int main(void) { return run_unit_tests(); }
