/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of tiles of `prefill`, the rules for their knobs, and the knobs that `attnc tune`
 * varies. A kernel has the first row that fits its variant. targets/tuning/ has the knobs that no
 * rule sets.
 */
#include "templates/prefill/prefill.h"

/* First members of a row for heads of up to `qk` (q and k) and `v` elements. A wave has `queries`
 * queries, 16 or 32: the columns of its matrix instruction, or of several instructions if
 * PREFILL_SIDE is set. `widest`: most columns of a panel of K. Without `whole_keys` all panels but
 * the first are read during the product. */
#define TILE(qk, v, queries, n_waves, n_keys, widest)                                             \
    .head_dim = (qk), .head_dim_v = (v), .rows = (queries), .waves = (n_waves), .keys = (n_keys), \
    .panel = (widest)

/* The row is for machines whose direct copies to LDS move 16 bytes per lane. */
#define COPIED .copy_bytes = 16

const struct att_tile prefill_tiles[PREFILL_N_TILES] = {
    {TILE(64, 64, 32, 8, 64, 64), COPIED, .late_power = true, .why = "few bytes a key: long tiles"},
    {TILE(64, 64, 32, 8, 64, 256), .plain = true, .late_power = true, .late_maximum = true,
     .own = {[PREFILL_KEYS_FIRST] = 1},
     .why = "few bytes a key: long tiles, and a softmax that is as long as the products"},
    {TILE(64, 64, 32, 8, 64, 256), .why = "few bytes a key: long tiles"},
    {TILE(120, 128, 32, 8, 64, 128), COPIED, .plain = true, .late_power = true, .whole_keys = true,
     .late_maximum = true, .own = {[PREFILL_PERSISTENT] = 1},
     .why = "less of Q and O leaves registers for addresses"},
    {TILE(128, 128, 32, 8, 64, 128), COPIED, .plain = true, .exact = true, .late_power = true,
     .whole_keys = true, .late_maximum = true, .own = {[PREFILL_PERSISTENT] = 1},
     .why = "a persistent workgroup has no launch latency between work tiles"},
    {TILE(128, 128, 32, 8, 64, 128), COPIED, .plain = true, .late_power = true, .whole_keys = true,
     .late_maximum = true, .why = "two waves a SIMD at 256 registers, all of them taken"},
    {TILE(128, 128, 32, 8, 32, 64), COPIED, .late_power = true, .late_maximum = true,
     .why = "whatever else is done to scores and keys takes registers"},
    {TILE(88, 88, 32, 8, 64, 256), .plain = true, .late_power = true, .whole_keys = true,
     .late_maximum = true, .own = {[PREFILL_KEYS_FIRST] = 1, [PREFILL_PERSISTENT] = 1},
     .why = "without sums the first product has room for half of the exponentials"},
    {TILE(104, 104, 32, 8, 64, 256), .plain = true, .late_power = true, .whole_keys = true,
     .late_maximum = true, .own = {[PREFILL_KEYS_FIRST] = 1, [PREFILL_PERSISTENT] = 2},
     .why = "few bytes a key: reads of 32 keys would take longer than the products beside them"},
    {TILE(96, 96, 32, 8, 32, 256), .late_power = true,
     .why = "half of the exponentials go under the next product, which is short"},
    {TILE(120, 128, 32, 8, 32, 256), .whole_keys = true,
     .own = {[PREFILL_KEYS_FIRST] = 1, [PREFILL_PERSISTENT] = 1},
     .why = "what several panels leave to be read under the product stalls it"},
    {TILE(128, 128, 32, 8, 32, 256), .plain = true, .exact = true,
     .own = {[PREFILL_PERSISTENT] = 2},
     .why = "a persistent workgroup has no launch latency between work tiles"},
    {TILE(128, 128, 32, 8, 32, 256), .whole_keys = true, .why = "64 KiB of LDS hold 32 keys"},
    {TILE(192, 128, 32, 8, 32, 128), COPIED, .plain = true, .exact = true, .late_power = true,
     .whole_keys = true, .late_maximum = true,
     .own = {[PREFILL_PERSISTENT] = 1, [PREFILL_WHOLE_HEADS] = 1},
     .why = "a persistent workgroup has no launch latency between work tiles"},
    {TILE(192, 128, 32, 8, 32, 128), COPIED, .late_power = true, .whole_keys = true,
     .late_maximum = true, .why = "K of 64 keys would not fit the registers"},
    {TILE(192, 128, 32, 8, 32, 256), .plain = true, .exact = true,
     .own = {[PREFILL_PERSISTENT] = 1, [PREFILL_WHOLE_HEADS] = 1},
     .why = "a persistent workgroup has no launch latency between work tiles"},
    {TILE(192, 128, 32, 8, 32, 256), .why = "K of 64 keys would not fit the registers"},
    {TILE(192, 192, 32, 8, 32, 256), COPIED, .late_power = true, .whole_keys = true,
     .late_maximum = true, .own = {[PREFILL_PERSISTENT] = 1},
     .why = "two waves a SIMD have registers for 32 keys, and something beside their softmax"},
    {TILE(192, 192, 32, 8, 32, 256), .late_power = true, .whole_keys = true, .late_maximum = true,
     .own = {[PREFILL_KEYS_FIRST] = 1, [PREFILL_PERSISTENT] = 1, [PREFILL_FRESH_OFFSETS] = 1},
     .why = "two waves a SIMD have registers for 32 keys, where no offsets into these take any"},
    {TILE(256, 256, 32, 4, 64, 64), .copy_bytes = 16, .plain = true, .late_power = true,
     .late_maximum = true, .own = {[PREFILL_WORKGROUPS] = 1},
     .why = "a wave a SIMD has O in accumulation registers, and reads half as much for a product"},
    {TILE(256, 256, 32, 4, 32, 64), .late_power = true, .late_maximum = true,
     .own = {[PREFILL_WORKGROUPS] = 1}, .why = "the same where 64 KiB of LDS hold 32 keys"},
    {TILE(256, 256, 16, 8, 32, 256), .whole_keys = true, .late_maximum = true,
     .own = {[PREFILL_KEYS_FIRST] = 1},
     .why = "16 rows leave registers for the addresses of a custom mask"},
    {TILE(512, 512, 16, 4, 32, 256), .whole_keys = true, .own = {[PREFILL_WORKGROUPS] = 1},
     .why = "O 128, Q 64 and a block of V 128 registers: a wave a SIMD"},
    {TILE(512, 512, 16, 4, 16, 256), .whole_keys = true, .own = {[PREFILL_WORKGROUPS] = 1},
     .why = "64 KiB of LDS hold two tiles of 16 keys and one of values"},
    {TILE(128, 128, 32, 8, 64, 128), COPIED, .plain = true, .exact = true, .late_power = true,
     .whole_keys = true, .late_maximum = true, .own = {[PREFILL_PERSISTENT] = 1, [PREFILL_FP8] = 1},
     .why = "a persistent workgroup has no launch latency between work tiles"},
    {TILE(128, 128, 32, 8, 64, 128), COPIED, .late_power = true, .whole_keys = true,
     .late_maximum = true, .own = {[PREFILL_FP8] = 1},
     .why = "fp8 takes half of the registers for K and V"},
    {TILE(192, 128, 32, 8, 64, 128), COPIED, .plain = true, .late_power = true, .whole_keys = true,
     .late_maximum = true, .own = {[PREFILL_FP8] = 1}, .why = "fp8: K of 64 keys fits"},
    {TILE(192, 128, 32, 8, 64, 64), COPIED, .late_power = true, .whole_keys = true,
     .late_maximum = true, .own = {[PREFILL_FP8] = 1},
     .why = "fp8: page numbers take registers for each panel, which are smaller"},
    {TILE(128, 128, 32, 8, 64, 256), .plain = true, .exact = true, .late_power = true,
     .own = {[PREFILL_PERSISTENT] = 2, [PREFILL_FP8] = 1},
     .why = "a persistent workgroup has no launch latency between work tiles"},
    {TILE(128, 128, 32, 8, 64, 256), .late_power = true, .own = {[PREFILL_FP8] = 1},
     .why = "fp8 takes half of the registers for K and V"},
    {TILE(192, 128, 32, 8, 64, 256), .plain = true, .late_power = true, .own = {[PREFILL_FP8] = 1},
     .why = "fp8: K of 64 keys fits"},
    {TILE(192, 128, 32, 8, 32, 256), .late_power = true, .own = {[PREFILL_FP8] = 1},
     .why = "fp8: page numbers take the registers of 32 keys"},
    {TILE(192, 128, 32, 4, 64, 128), .own = {[PREFILL_FP8] = 1, [PREFILL_WORKGROUPS] = 1},
     .why = "fp8, a hook or a soft cap: one wave a SIMD has the registers"},
    {TILE(128, 128, 32, 8, 64, 128), COPIED, .plain = true, .exact = true, .late_power = true,
     .whole_keys = true, .late_maximum = true, .own = {[PREFILL_KEY_GROUPS] = 2},
     .why = "few queries: half of the waves see half of the keys"},
    {TILE(128, 128, 32, 8, 32, 256), .plain = true, .exact = true,
     .own = {[PREFILL_KEYS_FIRST] = 1, [PREFILL_KEY_GROUPS] = 2},
     .why = "few queries: half of the waves see half of the keys"},
    {TILE(128, 128, 32, 8, 64, 128), COPIED, .plain = true, .exact = true, .late_power = true,
     .whole_keys = true, .late_maximum = true, .own = {[PREFILL_FP8] = 1, [PREFILL_KEY_GROUPS] = 2},
     .why = "few queries: half of the waves see half of the keys"},
    {TILE(128, 128, 32, 8, 32, 256), .plain = true, .exact = true, .late_power = true,
     .late_maximum = true,
     .own = {[PREFILL_KEYS_FIRST] = 1,
             [PREFILL_FP8] = 1,
             [PREFILL_KEY_GROUPS] = 2,
             [PREFILL_MOST_KEYS] = 896},
     .why = "few queries and keys: rounds of 128 would leave half of the last one unused"},
    {TILE(128, 128, 32, 8, 64, 256), .plain = true, .exact = true, .late_power = true,
     .own = {[PREFILL_KEYS_FIRST] = 1, [PREFILL_FP8] = 1, [PREFILL_KEY_GROUPS] = 2},
     .why = "few queries: half of the waves see half of the keys"},
    {TILE(64, 64, 32, 4, 32, 64), COPIED, .plain = true, .late_power = true, .whole_keys = true,
     .late_maximum = true, .own = {[PREFILL_WORKGROUPS] = 4},
     .why = "few keys a query: a workgroup begins or ends while others multiply"},
    {TILE(64, 64, 32, 4, 32, 256), .late_power = true, .whole_keys = true,
     .own = {[PREFILL_WORKGROUPS] = 3},
     .why = "few keys a query: a workgroup begins or ends while others multiply"},
    {TILE(128, 128, 32, 4, 32, 128), COPIED, .plain = true, .late_power = true, .whole_keys = true,
     .own = {[PREFILL_WORKGROUPS] = 2},
     .why = "few keys a query: a workgroup begins or ends while others multiply"},
    {TILE(128, 128, 32, 4, 32, 256), .late_power = true, .whole_keys = true,
     .own = {[PREFILL_WORKGROUPS] = 2},
     .why = "few keys a query: a workgroup begins or ends while others multiply"},
    {TILE(128, 128, 32, 8, 64, 64), COPIED, .plain = true, .exact = true, .whole_keys = true,
     .late_power = true,
     .own = {[PREFILL_SIDE] = 16,
             [PREFILL_PERSISTENT] = 2,
             [PREFILL_LATE_EIGHTHS] = 2,
             [PREFILL_HALVES] = 1,
             [PREFILL_EARLY_PRIORITY] = 1},
     .why = "pairs of SIMDs read LDS at once"},
    {TILE(128, 128, 32, 8, 64, 128), COPIED, .plain = true, .whole_keys = true,
     .own = {[PREFILL_SIDE] = 16},
     .why = "an operand that LDS takes 4 clocks for serves two products of 8"},
    {TILE(128, 128, 32, 8, 32, 128), COPIED, .whole_keys = true, .late_maximum = true,
     .own = {[PREFILL_SIDE] = 16}, .why = "whatever else is done to scores takes registers"},
    {TILE(128, 128, 32, 8, 32, 256), .whole_keys = true, .late_maximum = true,
     .own = {[PREFILL_KEYS_FIRST] = 1, [PREFILL_SIDE] = 16},
     .why = "the same where pages pass through registers"},
    {TILE(256, 256, 16, 8, 32, 256), .whole_keys = true, .late_maximum = true,
     .own = {[PREFILL_KEYS_FIRST] = 1, [PREFILL_SIDE] = 16},
     .why = "Q and O of 32 queries have no registers"},
    {TILE(128, 128, 32, 8, 64, 128), COPIED, .whole_keys = true, .late_maximum = true,
     .own = {[PREFILL_SIDE] = 16, [PREFILL_FP8] = 1},
     .why = "an operand of fp8 serves two products"},
    {TILE(256, 256, 16, 8, 64, 256), .whole_keys = true, .late_maximum = true,
     .own = {[PREFILL_KEYS_FIRST] = 1, [PREFILL_SIDE] = 16, [PREFILL_FP8] = 1},
     .why = "a product takes 64 keys of fp8"},
    {TILE(256, 128, 16, 8, 16, 256), .whole_keys = true, .late_maximum = true,
     .own = {[PREFILL_KEYS_FIRST] = 1, [PREFILL_SIDE] = 16},
     .why = "256 registers hold the addresses of a custom mask for 16 keys"},
    {TILE(256, 128, 16, 8, 16, 64), .late_maximum = true,
     .own = {[PREFILL_KEYS_FIRST] = 1, [PREFILL_SIDE] = 16},
     .why = "the same where pages pass through registers, and few columns of K stay there"},
};

const struct att_knob prefill_knobs[PREFILL_N_KNOBS] = {
    {"keys", 2, {32, 64}},       {"hoist_vgprs", 3, {1, 4, 12}}, {"memory_priority", 2, {0, 1}},
    {"late_power", 2, {0, 1}},   {"ascending", 1, {1}},          {"waves", 1, {4}},
    {"panel", 2, {64, 128}},     {"k_buffers", 1, {4}},          {"persistent", 2, {1, 2}},
    {"late_maximum", 2, {0, 1}},
};

const struct att_knob prefill_fitted[PREFILL_N_FITTED] = {
    {"hoist_vgprs", 6, {1, 4, 6, 8, 12, 16}},
    {"memory_priority", 2, {0, 1}},
    {"late_eighths", 4, {2, 3, 4, 5}},
    {"early_priority", 2, {0, 1}},
    {"part_early", 2, {0, 1}},
    {"even_code", 2, {0, 1}},
    {"loop_at", 5, {0, 1, 2, 3, 6}},
};

/* Sets hoist_vgprs and memory_priority of a tile. Hoisted values use the registers that operands
 * leave free: more with one wave per SIMD (4 waves), fewer if direct-to-LDS copies of 16 bytes a
 * lane need registers for addresses. With these copies and 8 waves, memory phases are mostly LDS
 * reads for which the other role's products wait. Memory phases then get priority. */
void prefill_rules(const struct att_variant *v, const struct tir_machine *m, struct att_tile *t)
{
    enum { ONE_WAVE = 16, COPIES = 4, STORES = 8 };
    const bool copies = t->copy_bytes >= 16;
    (void)v;
    (void)m;
    t->hoist_vgprs = t->waves <= 4 ? ONE_WAVE : copies ? COPIES : STORES;
    t->memory_priority = copies && t->waves > 4;
}
