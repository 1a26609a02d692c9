/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Translates lane addresses to host pointers for the three memories of a kernel: global (any device
 * allocation), LDS of the workgroup, private segments. Usually all lanes of a wave are in one
 * allocation, and one range check suffices for all.
 *
 * Alignment: ROCm runs compute waves with SH_MEM_CONFIG.alignment_mode = UNALIGNED. Clang relies on
 * it: it merges byte accesses of packed structures into unaligned dword and 128-bit accesses of
 * global memory and LDS. Loads and stores may therefore have any alignment; atomics must be
 * naturally aligned (CDNA3 ISA, "Alignment").
 */
#include <string.h>

#include "check.h"
#include "decode.h"
#include "lane_mem.h"
#include "mem.h"
#include "spin.h"
#include "wait.h"

/* The last slot of memory that a host thread has found; slots are never moved or unmapped. */
static _Thread_local struct hipsim_mem_cursor cursor;

/* Largest span in bytes for which one scan of the shadow is cheaper than 64 look-ups. */
#define SCAN_MAX 8192

/* Returns the word for the access in reports. */
static const char *access_name(enum mem_direction direction)
{
    return direction == MEM_READ ? "load" : direction == MEM_WRITE ? "store" : "atomic access";
}

/* Records the access for the observer. The caller tests that there is one. */
static void record(struct wave *w, const struct lane_mem *m, unsigned bytes,
                   enum mem_direction direction)
{
    struct mem_access *a = &w->access;

    a->space = m->space == MEM_GLOBAL ? ACCESS_GLOBAL
               : m->space == MEM_LDS  ? ACCESS_LDS
                                      : ACCESS_SCRATCH;
    a->is_load = (direction & MEM_READ) != 0;
    a->is_store = (direction & MEM_WRITE) != 0;
    a->bytes = (uint8_t)bytes;
    a->lanes = m->lanes;
    memcpy(a->addr, m->addr, sizeof(a->addr));
}

/* Reports a performance hint for misaligned loads and stores of 8 and 16 bytes. Any address works,
 * but vector memory and LDS serve only multiples of the size at once. False if the report ends the
 * wave. */
static bool hint_wide(struct wave *w, const struct inst *in, const struct lane_mem *m,
                      unsigned bytes, enum mem_direction direction)
{
    const unsigned align = bytes == 8 || bytes == 16 ? bytes : 1;
    uint64_t bad = 0;
    unsigned l;

    FOR_LANES(l, m->lanes)
    if (m->addr[l] & (align - 1))
        bad |= UINT64_C(1) << l;
    return !bad || m->space == MEM_SCRATCH || wave_found_before(w, in, FAULT_HINT) ||
           wave_finding(w, in, FAULT_HINT, bad, "%s of %u bytes at %s 0x%llx, no multiple of %u",
                        access_name(direction), bytes,
                        m->space == MEM_GLOBAL ? "address" : "LDS offset",
                        (unsigned long long)m->addr[__builtin_ctzll(bad)], align);
}

/* Checks the alignment of an atomic. False after a fault. Loads and stores may have any alignment;
 * if hints are requested, misaligned ones are reported. */
static bool aligned(struct wave *w, const struct inst *in, const struct lane_mem *m, unsigned bytes,
                    enum mem_direction direction)
{
    unsigned l, align = bytes > 8 ? 8 : bytes;
    uint64_t bad = 0;

    if (direction != MEM_MODIFY)
        return !(w->launch->checks & CHECK_HINT) || hint_wide(w, in, m, bytes, direction);
    FOR_LANES(l, m->lanes)
    if (m->addr[l] & (align - 1))
        bad |= UINT64_C(1) << l;
    if (!bad)
        return true;
    wave_fault(w, in, FAULT_ALIGN, bad, "atomic access of %u bytes at misaligned %s 0x%llx", align,
               m->space == MEM_GLOBAL ? "address" : "offset",
               (unsigned long long)m->addr[__builtin_ctzll(bad)]);
    return false;
}

/* Reports an access to global memory that `verdict` refuses, in the lanes `bad`. True if the launch
 * goes on. */
static bool report_global(struct wave *w, const struct inst *in, const struct lane_mem *m,
                          unsigned bytes, enum mem_direction direction, uint64_t bad,
                          enum hipsim_mem_verdict verdict)
{
    static const char *const why[] = {
        [HIPSIM_MEM_OK] = "allowed",
        [HIPSIM_MEM_OUT_OF_BOUNDS] = "out of bounds",
        [HIPSIM_MEM_USE_AFTER_FREE] = "use after free",
        [HIPSIM_MEM_NOT_MAPPED] = "not mapped",
        [HIPSIM_MEM_READ_ONLY] = "read-only memory",
    };
    uint64_t address = m->addr[__builtin_ctzll(bad)];
    char near[256];

    hipsim_mem_describe(address, bytes, near, sizeof(near));
    return wave_finding(w, in, FAULT_MEMORY, bad, "%s of %u bytes at 0x%llx: %s; %s",
                        access_name(direction), bytes, (unsigned long long)address, why[verdict],
                        near);
}

/*
 * Returns the verdict on one lane's access. Clang implements 8- and 16-bit atomics by one of the
 * aligned dword that contains them. That dword may exceed an allocation's end, into bytes of no
 * other allocation.
 */
static enum hipsim_mem_verdict check_lane(uint64_t address, unsigned bytes, bool is_store)
{
    enum hipsim_mem_verdict v = hipsim_mem_check(&cursor, address, bytes, is_store);

    if (v != HIPSIM_MEM_OUT_OF_BOUNDS || bytes != 4 || address & 3)
        return v;
    return hipsim_mem_check(&cursor, address, 1, is_store) == HIPSIM_MEM_OK ? HIPSIM_MEM_OK : v;
}

/* Checks each lane separately, after the check of the whole range has failed. Lanes outside of
 * memory move to m->dropped if the launch goes on: they read zero and store nothing. False after a
 * report that ends the wave. */
static bool resolve_lanes(struct wave *w, const struct inst *in, struct lane_mem *m, unsigned bytes,
                          enum mem_direction direction)
{
    enum hipsim_mem_verdict first = HIPSIM_MEM_OK;
    uint64_t bad = 0, unusable = 0;
    unsigned l;

    FOR_LANES(l, m->lanes)
    {
        enum hipsim_mem_verdict v = check_lane(m->addr[l], bytes, (direction & MEM_WRITE) != 0);
        if (v == HIPSIM_MEM_OK)
            continue;
        if (!bad)
            first = v;
        bad |= UINT64_C(1) << l;
        if (!hipsim_mem_mapped(m->addr[l], bytes))
            unusable |= UINT64_C(1) << l;
    }
    if (!bad || !(mem_checks(w, CHECK_MEMORY) || unusable))
        return true;
    if (!wave_found_before(w, in, FAULT_MEMORY) &&
        !report_global(w, in, m, bytes, direction, bad, first))
        return false;
    m->lanes &= ~bad;
    m->dropped |= bad;
    return true;
}

/* Sets the pointers of m->lanes to global memory, by one check of the whole range if possible.
 * False after a report that ends the wave. */
static bool resolve_global(struct wave *w, const struct inst *in, struct lane_mem *m,
                           unsigned bytes, enum mem_direction direction)
{
    uint64_t low = UINT64_MAX, high = 0;
    unsigned l;

    FOR_LANES(l, m->lanes)
    {
        low = m->addr[l] < low ? m->addr[l] : low;
        high = m->addr[l] > high ? m->addr[l] : high;
        m->ptr[l] = (uint8_t *)(uintptr_t)m->addr[l];
    }
    m->low = low;
    m->span = high - low + bytes;
    if (hipsim_mem_check(&cursor, low, m->span, (direction & MEM_WRITE) != 0) == HIPSIM_MEM_OK) {
        m->tracked = cursor.slot && hipsim_mem_tracked(cursor.slot);
        return true;
    }
    m->span = 0;
    return resolve_lanes(w, in, m, bytes, direction);
}

/* True if the workgroup has allocated all LDS of a compute unit. MIOpen's Winograd kernels use
 * addresses after its end for lanes that must not store. */
static bool owns_lds(const struct wave *w)
{
    return w->wg->lds_bytes >= w->launch->lds_limit && w->launch->lds_limit;
}

/* Returns the lanes of `bad`, past the end of LDS, that Triton masked, so that they go unreported.
 * Their address VGPR, before the offset is added, is 0x7fffffff. Returns 0 unless `in` is a DS
 * instruction on gfx1250. CDNA5 ISA, 3.3.4.1, contradicts itself on addresses out of range: loads
 * return zero and stores are discarded, but LDS operations report MEMVIOL. */
static uint64_t masked_lanes(const struct wave *w, const struct inst *in, uint64_t bad)
{
    enum { MASKED = 0x7fffffff };
    uint32_t tmp[2 * WAVE_LANES];
    uint64_t masked = 0;
    unsigned l;

    if (code_isa(w->launch->code)->target != GFX1250 || in->encoding != ENC_DS)
        return 0;
    const uint32_t *row = src_rows(w, &in->src[0], tmp);
    FOR_LANES(l, bad)
    masked |= (uint64_t)(row[l] == MASKED) << l;
    return masked;
}

/* Sets the pointers of m->lanes, as lane_loops()->resolve() does for all 64 lanes. Returns the
 * highest address. */
static uint64_t resolve_some(struct lane_mem *m, uint8_t *base, uint64_t stride)
{
    uint64_t low = UINT64_MAX, top = 0, bits = 0;
    unsigned l;

    FOR_LANES(l, m->lanes)
    {
        m->ptr[l] = base + l * stride + m->addr[l];
        low = m->addr[l] < low ? m->addr[l] : low;
        top = m->addr[l] > top ? m->addr[l] : top;
        bits |= m->addr[l];
    }
    m->low = low;
    m->bits = bits;
    return top;
}

/* Sets the pointers of m->lanes to LDS or private segments, which are arrays. A lane past the end
 * is reported, reads zero and stores nothing (CDNA3 ISA, 3.6.1 "Out-of-Range behavior"). False if
 * the report ends the wave. */
static bool resolve_array(struct wave *w, const struct inst *in, struct lane_mem *m, unsigned bytes,
                          enum mem_direction direction)
{
    bool lds = m->space == MEM_LDS;
    uint64_t size = lds ? w->wg->lds_bytes : w->launch->private_bytes;
    uint8_t *base = lds ? w->wg->lds : w->scratch;
    uint64_t stride = lds ? 0 : size, bad = 0;
    unsigned l;

    const uint64_t top = m->lanes == UINT64_MAX ? lane_loops()->resolve(m, base, stride)
                                                : resolve_some(m, base, stride);
    m->span = top - m->low + bytes;
    if (top <= size && size - top >= bytes)
        return true;
    FOR_LANES(l, m->lanes)
    if (m->addr[l] > size || size - m->addr[l] < bytes)
        bad |= UINT64_C(1) << l;
    m->low = 0;
    m->span = size;
    m->lanes &= ~bad;
    m->dropped |= bad;
    if (lds)
        bad &= ~masked_lanes(w, in, bad);
    if (!bad || !mem_checks(w, CHECK_MEMORY) || (lds && owns_lds(w)))
        return true;
    return wave_finding(w, in, FAULT_MEMORY, bad,
                        "%s of %u bytes at %s offset 0x%llx: out of bounds; "
                        "the %s has %llu bytes",
                        access_name(direction), bytes, lds ? "LDS" : "private",
                        (unsigned long long)m->addr[__builtin_ctzll(bad)],
                        lds ? "workgroup" : "work-item", (unsigned long long)size);
}

/* Returns the states of the bytes of lane l's access in LDS or in its private segment. */
static uint8_t *valid_bytes(const struct wave *w, const struct lane_mem *m, unsigned l)
{
    if (m->space == MEM_LDS)
        return w->wg->lds_valid + m->addr[l];
    return w->scratch_valid + (size_t)l * w->launch->private_bytes + m->addr[l];
}

/* Adds the states of `bytes` bytes at p, at most 8, to *s. */
static inline __attribute__((always_inline)) void join_states(struct lane_states *s,
                                                              const uint8_t *p, unsigned bytes)
{
    uint64_t pattern = 0;

    memcpy(&pattern, p, bytes);
    s->any |= pattern;
    s->all &= pattern | (bytes < 8 ? UINT64_MAX << 8 * bytes % 64 : 0);
}

/* Returns the states of all lanes' bytes in LDS or private segments. Common sizes have loops of
 * their own. */
static struct lane_states states_of(const struct wave *w, const struct lane_mem *m)
{
    struct lane_states s = {.all = UINT64_MAX};
    unsigned l;

    if (lane_loops_apply(m, m->bytes))
        return lane_loops()->states(w->wg->lds_valid, m->addr, m->bytes);
    switch (m->bytes) {
    case 4:
        FOR_LANES(l, m->lanes)
        join_states(&s, valid_bytes(w, m, l), 4);
        break;
    case 8:
        FOR_LANES(l, m->lanes)
        join_states(&s, valid_bytes(w, m, l), 8);
        break;
    case 16:
        FOR_LANES(l, m->lanes)
        {
            join_states(&s, valid_bytes(w, m, l), 8);
            join_states(&s, valid_bytes(w, m, l) + 8, 8);
        }
        break;
    default:
        FOR_LANES(l, m->lanes)
        for (unsigned i = 0; i < m->bytes; i++)
            join_states(&s, valid_bytes(w, m, l) + i, 1);
        break;
    }
    return s;
}

#define EVERY_BYTE UINT64_C(0x0101010101010101)

/* True if a load to LDS may not have arrived for every wave. */
static bool loads_under_way(const struct workgroup *wg) { return wg->lds_in_flight || wg->nlate; }

/* Reports that the lanes `early`, a mask, access bytes of LDS before a wait for the load that
 * writes them. True if the launch goes on. */
static bool report_early(struct wave *w, const struct inst *in, const struct lane_mem *m,
                         uint64_t early, enum mem_direction direction)
{
    const unsigned l = (unsigned)__builtin_ctzll(early);
    const uint64_t entry = w->launch->entry_pc - code_address(w->launch->code);
    uint64_t byte = m->addr[l];
    uint32_t wave;
    if (wave_found_before(w, in, FAULT_WAIT))
        return true;
    while (!(w->wg->lds_valid[byte] & LDS_IN_FLIGHT))
        byte++;
    const struct pending *load = lds_outstanding(w->wg, byte, &wave);
    return wave_finding(w, in, FAULT_WAIT, early,
                        "%s at LDS offset 0x%llx while a load to LDS that writes it is outstanding "
                        "(entry%+lld, wave %u)",
                        access_name(direction), (unsigned long long)byte,
                        load ? (long long)(load->in->offset - entry) : 0, wave);
}

/* True if the waves have waited for every load to the LDS bytes of the access. Otherwise reports
 * it; true if the launch goes on. */
static bool check_waited(struct wave *w, const struct inst *in, const struct lane_mem *m,
                         enum mem_direction direction)
{
    const bool reads = direction & MEM_READ && in->dst.kind != OPND_NONE;
    uint64_t early = 0;
    unsigned l;

    if (reads && w->wg->lds_arrivals)
        lds_see_arrivals(w, m);
    const uint64_t any = states_of(w, m).any;
    if (any & EVERY_BYTE * LDS_LATE)
        lds_touch(w, in, m);
    if (!mem_checks(w, CHECK_WAIT) || in->row->flags & ROW_LDS_DMA || in->lds ||
        !(any & EVERY_BYTE * LDS_IN_FLIGHT))
        return true;
    FOR_LANES(l, m->lanes)
    {
        const uint8_t *state = valid_bytes(w, m, l);
        for (unsigned i = 0; i < m->bytes; i++)
            early |= (uint64_t)(state[i] / LDS_IN_FLIGHT & 1) << l;
    }
    return report_early(w, in, m, early, direction);
}

/* True if the access is to kernel arguments, which are read-only, or to hostcall buffers, which the
 * host synchronises. */
static bool is_runtime_memory(const struct lane_mem *m)
{
    return m->space == MEM_GLOBAL && m->span && cursor.slot &&
           (cursor.slot->kind == HIPSIM_MEM_KERNARG || cursor.slot->kind == HIPSIM_MEM_RUNTIME);
}

/* True if EXEC is defined in all lanes, or the access is no vector access to global memory.
 * Otherwise reports the lanes; true if the launch goes on. */
static bool exec_defined(struct wave *w, const struct inst *in, const struct lane_mem *m)
{
    const uint64_t bad = w->lanes & ~sgpr_valid64(w, SGPR_EXEC);
    return __builtin_expect(!bad, 1) || m->space != MEM_GLOBAL || in->row->flags & ROW_SMEM ||
           !mem_checks(w, CHECK_UNINIT) ||
           wave_finding(w, in, FAULT_UNINIT, bad, "undefined lanes of exec store");
}

bool mem_resolve(struct wave *w, const struct inst *in, struct lane_mem *m, unsigned bytes,
                 enum mem_direction direction)
{
    if (w->launch->observer)
        record(w, m, bytes, direction);
    m->bytes = (uint8_t)bytes;
    m->tracked = true;
    if (direction & MEM_WRITE && !exec_defined(w, in, m))
        return false;
    if (!m->lanes)
        return true;
    if (!aligned(w, in, m, bytes, direction))
        return false;
    bool ok = m->space == MEM_GLOBAL ? resolve_global(w, in, m, bytes, direction)
                                     : resolve_array(w, in, m, bytes, direction);
    if (ok && w->spin && direction & MEM_WRITE)
        spin_may_write(w->spin, m, bytes);
    if (!ok || m->space == MEM_SCRATCH)
        return ok;
    w->acted |= (direction & MEM_WRITE) != 0;
    if (direction & MEM_WRITE && m->space == MEM_GLOBAL)
        launch_stores(w->launch);
    if (m->space == MEM_LDS && loads_under_way(w->wg) && !check_waited(w, in, m, direction))
        return false;
    return is_runtime_memory(m) || checks_accessed(w, in, m, bytes, direction);
}

/* The functions from here on tell which bits of memory are initialised. */

/* True if all bytes [low, low + span) of global memory are initialised. */
static bool range_written(uint64_t low, uint64_t span)
{
    uint64_t line = low & ~UINT64_C(63), end = low + span;

    for (; line < end; line += 32) {
        uint64_t first = line < low ? low : line;
        uint64_t last = line + 32 < end ? line + 32 : end;
        if (first >= last)
            continue;
        unsigned bytes = (unsigned)(last - first);
        if (hipsim_mem_written_mask(first, bytes) != (uint32_t)((UINT64_C(1) << bytes) - 1))
            return false;
    }
    return true;
}

/* True if every byte of the access is initialised. */
static bool all_written(const struct wave *w, const struct lane_mem *m)
{
    unsigned l;

    if (m->space != MEM_GLOBAL)
        return (states_of(w, m).all & EVERY_BYTE * LDS_DEFINED) == EVERY_BYTE * LDS_DEFINED;
    if (m->span && m->span <= SCAN_MAX && range_written(m->low, m->span))
        return true;
    FOR_LANES(l, m->lanes)
    if (!hipsim_mem_is_written(&cursor, m->addr[l], m->bytes))
        return false;
    return true;
}

/* True if any of bytes [first, first + bytes) of lane l's access, at most a dword, is
 * initialised. */
static bool dword_written(const struct wave *w, const struct lane_mem *m, unsigned l,
                          unsigned first, unsigned bytes)
{
    uint32_t have = 0;

    if (m->space == MEM_GLOBAL)
        return hipsim_mem_is_written(&cursor, m->addr[l] + first, bytes) ||
               hipsim_mem_written_mask(m->addr[l] + first, bytes);
    memcpy(&have, valid_bytes(w, m, l) + first, bytes);
    return have & EVERY_BYTE * LDS_DEFINED;
}

bool mem_holds_data(uint64_t address, unsigned bytes)
{
    return hipsim_mem_check(&cursor, address, bytes, false) == HIPSIM_MEM_OK &&
           (hipsim_mem_is_written(&cursor, address, bytes) ||
            hipsim_mem_written_mask(address, bytes));
}

uint32_t mem_defined_bits(const struct wave *w, const struct lane_mem *m, unsigned l,
                          unsigned first)
{
    uint32_t bytes = 0, bits = 0;

    if (m->space == MEM_GLOBAL) {
        const uint64_t address = m->addr[l] + first;
        bytes =
            hipsim_mem_is_written(&cursor, address, 4) ? 0xf : hipsim_mem_written_mask(address, 4);
    } else {
        for (unsigned i = 0; i < 4; i++)
            bytes |= (uint32_t)(valid_bytes(w, m, l)[first + i] & LDS_DEFINED) << i;
    }
    for (unsigned i = 0; i < 4; i++)
        bits |= bytes >> i & 1 ? 0xffu << 8 * i : 0;
    return bits;
}

/* Returns the state of undefined bytes that the wave stores to LDS. It names the wave's early
 * register read, if any, as their cause. */
static int undefined_state(struct wave *w)
{
    if (!w->stale.any)
        return 0;
    w->wg->stale = w->stale;
    return LDS_STALE;
}

void mem_mark_bits(struct wave *w, const struct lane_mem *m, unsigned l, unsigned first,
                   uint32_t bits)
{
    if (!mem_checks(w, CHECK_UNINIT))
        return;
    for (unsigned i = 0; i < 4; i++) {
        const bool defined = bits >> 8 * i & 0xff;
        if (m->space != MEM_GLOBAL)
            valid_bytes(w, m, l)[first + i] = (uint8_t)(defined ? LDS_DEFINED : undefined_state(w));
        else if (defined)
            hipsim_mem_mark(m->addr[l] + first + i, 1);
        else
            hipsim_mem_unmark(m->addr[l] + first + i, 1);
    }
}

/* Copies the cause of undefined LDS bytes to the reading wave, as another wave may have stored a
 * register that it had read too early. */
static void inherit_stale_read(struct wave *w, const struct lane_mem *m)
{
    if (m->space == MEM_LDS && !w->stale.any && states_of(w, m).any & EVERY_BYTE * LDS_STALE)
        w->stale = w->wg->stale;
}

uint64_t mem_written(struct wave *w, struct lane_mem *m, unsigned first, unsigned bytes)
{
    uint64_t written = 0;
    unsigned l;

    if (m->tracked && !m->scanned && mem_checks(w, CHECK_UNINIT)) {
        m->tracked = !all_written(w, m);
        m->scanned = true;
        if (m->tracked)
            inherit_stale_read(w, m);
    }
    if (!m->tracked || !mem_checks(w, CHECK_UNINIT))
        return m->lanes;
    FOR_LANES(l, m->lanes)
    {
        bool all = true;
        for (unsigned at = 0; at < bytes; at += 4)
            all &= dword_written(w, m, l, first + at, bytes - at < 4 ? bytes - at : 4);
        written |= (uint64_t)all << l;
    }
    return written;
}

/* Marks bytes [first, first + bytes) of each lane's access as initialised in the lanes `valid`, and
 * as uninitialised in the others. */
static void mark_global(const struct lane_mem *m, unsigned first, unsigned bytes, uint64_t valid)
{
    uint64_t gaps = ~valid;
    unsigned l;

    for (l = 0; l < WAVE_LANES; l++)
        gaps |= m->addr[l] ^ (m->low + (uint64_t)l * bytes);
    if (!gaps) {
        hipsim_mem_mark(m->low, m->span);
        return;
    }
    FOR_LANES(l, valid)
    {
        if (m->span)
            hipsim_mem_mark_small(m->addr[l] + first, bytes);
        else
            hipsim_mem_mark(m->addr[l] + first, bytes);
    }
}

/* Sets whether bytes of LDS are defined (`is`), and keeps their state of loads in flight. */
static inline __attribute__((always_inline)) void define(uint8_t *state, unsigned bytes, int is)
{
    for (unsigned i = 0; i < bytes; i++)
        state[i] = (uint8_t)((state[i] & ~(LDS_DEFINED | LDS_STALE)) | is);
}

/* Sets the states of bytes [first, first + bytes) of each lane: defined in the lanes `valid`,
 * `undefined` in the others. */
static inline __attribute__((always_inline)) void set_states(const struct wave *w,
                                                             const struct lane_mem *m,
                                                             unsigned first, unsigned bytes,
                                                             uint64_t valid, int undefined)
{
    unsigned l;
    FOR_LANES(l, m->lanes)
    memset(valid_bytes(w, m, l) + first, valid >> l & 1 ? LDS_DEFINED : undefined, bytes);
}

void mem_mark(struct wave *w, struct lane_mem *m, unsigned first, unsigned bytes, uint64_t valid)
{
    unsigned l;

    if (!mem_checks(w, CHECK_UNINIT))
        return;
    if (m->space == MEM_GLOBAL) {
        if (m->tracked)
            mark_global(m, first, bytes, m->lanes & valid);
        return;
    }
    const int undefined = m->lanes & ~valid ? undefined_state(w) : 0;
    if (m->space == MEM_LDS && loads_under_way(w->wg)) {
        FOR_LANES(l, m->lanes)
        {
            uint8_t *state = valid_bytes(w, m, l) + first;
            const int is = valid >> l & 1 ? LDS_DEFINED : undefined;
            if (bytes == 4)
                define(state, 4, is);
            else
                define(state, bytes, is);
        }
        return;
    }
    if (lane_loops_apply(m, bytes) && valid == UINT64_MAX) {
        lane_loops()->mark(w->wg->lds_valid + first, m->addr, bytes, LDS_DEFINED);
        return;
    }
    switch (bytes) { /* constant sizes avoid a call of memset() */
    case 2: set_states(w, m, first, 2, valid, undefined); break;
    case 4: set_states(w, m, first, 4, valid, undefined); break;
    case 8: set_states(w, m, first, 8, valid, undefined); break;
    case 16: set_states(w, m, first, 16, valid, undefined); break;
    default: set_states(w, m, first, bytes, valid, undefined); break;
    }
}

bool mem_defined(struct wave *w, const struct inst *in, const struct opnd *o, uint64_t lanes,
                 const char *what)
{
    const uint64_t bad = mem_checks(w, CHECK_UNINIT) ? lanes & ~src_valid(w, o) : 0;

    return !bad || mem_undefined(w, in, o, bad, what);
}

bool mem_undefined(struct wave *w, const struct inst *in, const struct opnd *o, uint64_t bad,
                   const char *what)
{
    const char *file = o->kind == OPND_AGPR ? "a" : o->kind == OPND_SGPR ? "s" : "v";
    return wave_finding(w, in, FAULT_UNINIT, bad, "undefined value in %s (%s%u%s)", what, file,
                        o->reg, o->dwords > 1 ? " and following" : "");
}

bool mem_lds_addresses(struct wave *w, const struct inst *in, const struct opnd *o, uint32_t offset,
                       struct lane_mem *m)
{
    uint32_t tmp[2 * WAVE_LANES];

    if (!mem_defined(w, in, o, m->lanes, "the LDS address"))
        return false;
    lane_loops()->address(src_rows(w, o, tmp), offset, m->addr);
    return true;
}
