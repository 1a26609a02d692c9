/* SPDX-License-Identifier: Apache-2.0 */
#include "templates/select/select.h"

#include "ir/spread.h"
#include "templates/workgroup/barrier.h"
#include "templates/workgroup/scalar.h"

#include <assert.h>
#include <math.h>

enum {
    DIGIT = 8, /* number of bits of a key that one step of the radix selection decides */
    /* Number of low bits of a key's distance from the limit that are dropped before its logarithm,
     * since a float has fewer bits. */
    LOG_LOST = 8,
    LOG_BITS = 3,              /* mantissa bits of a logarithm */
    LOG_SHIFT = 23 - LOG_BITS, /* number of the lowest mantissa bit of a logarithm in an f32 */
    /* value, in units of 2^-LOG_BITS, of the logarithm of distance 1 in a float's bits */
    LOG_BIAS = 127 << LOG_BITS,
    /* Most steps of a radix selection among keys above a known limit. The first step is for log2 of
     * a key's distance from the limit, and the others for up to 28 bits of the distance. */
    DIGITS = 5,
    KEY_DIGITS = 4,      /* most steps without a known limit: the bytes of a key */
    HISTOGRAMS = 4,      /* number of histograms; the fifth digit uses the first one again */
    BINS = 1 << DIGIT,   /* bins of a histogram */
    BINS_A_LANE_MAX = 8, /* most bins that a lane reads (in waves of 32 lanes) */
    SELECTION = 2,       /* index in att_select.counts of the counts for selections */
    N_COUNTS,            /* number of arrays of counts */
    HISTOGRAM_BYTES = HISTOGRAMS * BINS * 4,
    HALF = 16,               /* bits of a count; two counts share a register */
    NO_KEY = INT32_MIN,      /* less than all keys */
    NAN_KEY = INT32_MIN + 1, /* less than the keys of all numbers */
    QUIET_NAN = 0x7fc00000,  /* bits of an f32 NaN */
};

/* The sign bit of a key's 32 bits. */
static const int sign = INT32_MIN;

struct tir_value att_select_no_key(const struct att_select *s)
{
    return tir_splat(s->b, tir_i32(s->b, NO_KEY), s->lane);
}

struct tir_value att_select_nan_key(const struct att_select *s)
{
    return tir_splat(s->b, tir_i32(s->b, NAN_KEY), s->lane);
}

/* Returns a tile with `scalar` (i32) in every lane. */
static struct tir_value number(const struct att_select *s, struct tir_value scalar)
{
    return tir_splat(s->b, scalar, s->lane);
}

/* Returns a tile with `n` in every lane. */
static struct tir_value constant(const struct att_select *s, int n)
{
    return number(s, tir_i32(s->b, n));
}

/* Returns the LDS addresses (i32) of words `index` (i32, one in each lane) of an array of 32-bit
 * words at LDS address `base` (i32). */
static struct tir_value address(const struct att_select *s, struct tir_value base,
                                struct tir_value index)
{
    return tir_add(s->b, tir_shl(s->b, index, constant(s, 2)), number(s, base));
}

/* Writes a key and a position to buffer entry `entry` (index) in lanes where `is` (i1) is true. The
 * two writes are adjacent instructions, so that they can be merged into one. */
static void write_entry(const struct att_select *s, struct tir_value is, struct tir_value entry,
                        struct tir_value key, struct tir_value position)
{
    const struct tir_value to_keys = address(s, s->keys, entry);
    const struct tir_value to_positions = address(s, s->positions, entry);
    tir_lds_scatter_if(s->b, is, to_keys, key);
    tir_lds_scatter_if(s->b, is, to_positions, position);
}

/* Returns the bytes of LDS of the arrays of counts for `waves` waves. */
static unsigned counts_bytes(unsigned waves) { return N_COUNTS * waves * 4; }

enum { HELD_MAX = 32 /* most entries of a lane */ };

bool att_select_holds(unsigned room, unsigned threads) { return room <= HELD_MAX * threads; }

/* Returns `bytes` rounded up to a multiple of 16, the bytes of 4 entries. */
static unsigned aligned(unsigned bytes) { return (bytes + 15) / 16 * 16; }

unsigned att_select_beside_bytes(unsigned room, unsigned waves)
{
    return 2 * aligned(4 * room) + aligned(counts_bytes(waves));
}

unsigned att_select_lds_bytes(unsigned room, unsigned waves)
{
    return att_select_beside_bytes(room, waves) + HISTOGRAM_BYTES;
}

/* Implements the declaration in select.h. A buffer with entries beyond k + most lets a selection
 * stop before it has found the exact limit. */
struct att_select_size att_select_size(unsigned k, unsigned each, unsigned most, unsigned waves,
                                       unsigned lds_bytes)
{
    const unsigned fixed = att_select_lds_bytes(0, waves);
    const unsigned least = k + most, wanted = least + most / 4;
    const unsigned fits = lds_bytes > fixed ? (lds_bytes - fixed) / 32 * 4 : 0;
    return (struct att_select_size){
        .k = k,
        .each = each,
        .most = most,
        .steps = 1,
        .room = wanted < fits  ? wanted
                : fits > least ? fits
                               : least,
    };
}

struct att_select att_select_begin(struct tir_builder *b, const struct att_select_size *size,
                                   const struct att_select *beside,
                                   struct tir_value state[ATT_SELECT_N])
{
    const unsigned waves = b->f->waves, room = size->room;
    const unsigned lanes = tir_lanes(b->f->machine);
    const struct tir_layout lane = tir_spread_column(b->f->machine, 1, lanes);
    assert(size->each <= ATT_SELECT_EACH_MAX && room < 1u << (HALF - 1));
    assert(room >= size->k + size->most);
    struct att_select s = {.b = b,
                           .lanes = lanes,
                           .k = size->k,
                           .each = size->each,
                           .chunk = size->each * lanes * waves,
                           .most = size->most,
                           .steps = size->steps,
                           .room = room,
                           .later = size->later};
    s.lane = tir_tile(b->f, TIR_I32, lanes, 1, &lane);
    s.wave = tir_wave_id(b);
    s.lane_index = tir_row_index(b, s.lane);
    s.keys = tir_lds_buffer(b, room * 4, 16);
    s.positions = tir_lds_buffer(b, room * 4, 16);
    s.counts = tir_lds_buffer(b, counts_bytes(waves), 16);
    s.histogram = beside ? beside->histogram : tir_lds_buffer(b, HISTOGRAM_BYTES, 16);
    state[ATT_SELECT_COUNT] = tir_i32(b, 0);
    state[ATT_SELECT_LIMIT] = tir_i32(b, INT32_MIN);
    state[ATT_SELECT_PARITY] = tir_i32(b, 0);
    return s;
}

struct tir_value att_select_number_key(struct tir_builder *b, struct tir_value score)
{
    const struct tir_type t = tir_with_dtype(tir_typeof(b->f, score), TIR_I32);
    const struct tir_value bits = tir_bitcast(b, score, t);
    const struct tir_value negative = tir_sub(b, tir_int_like(b, bits, sign), bits);
    return tir_select(b, tir_cmp_lt(b, bits, tir_int_like(b, bits, 0)), negative, bits);
}

/* Implements the declaration in select.h. A key is the score's magnitude, with the sign as in two's
 * complement, so that -0 becomes 0. A NaN has the second-lowest key, and a score for which `there`
 * is false the lowest. */
struct tir_value att_select_key(struct tir_builder *b, struct tir_value score,
                                struct tir_value there)
{
    const struct tir_type t = tir_with_dtype(tir_typeof(b->f, score), TIR_I32);
    const struct tir_value bits = tir_bitcast(b, score, t);
    const struct tir_value negative = tir_sar(b, bits, tir_int_like(b, bits, 31));
    const struct tir_value size = tir_and(b, bits, tir_int_like(b, bits, INT32_MAX));
    const struct tir_value key = tir_sub(b, tir_xor(b, size, negative), negative);
    const struct tir_value nan = tir_cmp_gt(b, size, tir_int_like(b, bits, 0x7f800000));
    const struct tir_value any = tir_select(b, nan, tir_int_like(b, bits, NAN_KEY), key);
    return tir_select(b, there, any, tir_int_like(b, bits, NO_KEY));
}

struct tir_value att_select_place(const struct att_select *s, unsigned j)
{
    const int own = (int)(s->each * s->lanes);
    return att_plus(s->b, att_times(s->b, s->wave, own), (int)(j * s->lanes));
}

/* Sums of a number that each wave has. */
struct sums {
    struct tir_value before; /* i32 scalar: sum over the waves before this one */
    struct tir_value all;    /* i32 scalar: sum over all waves */
};

/* Returns the sums of `own` (i32 scalar, a number of each wave) over waves. The waves exchange
 * their numbers in the array of counts with index `slot` (i32), around a barrier. */
static struct sums add_waves(const struct att_select *s, struct tir_value slot,
                             struct tir_value own)
{
    struct tir_builder *b = s->b;
    const unsigned waves = b->f->waves;
    const struct tir_value at = tir_add(b, s->counts, tir_mul(b, slot, tir_i32(b, (int)waves * 4)));
    /* Without this anchor LLVM would compute the count inside the branch below, and keep every mask
     * in registers until then. */
    tir_anchor(b, own);
    const struct tir_value mine = tir_cmp_eq(b, s->lane_index, number(s, s->wave));
    tir_lds_scatter_if(b, mine, address(s, at, s->lane_index), number(s, own));
    att_lds_barrier(s->b);
    const struct tir_value index = tir_and(b, s->lane_index, constant(s, (int)waves - 1));
    const struct tir_value counts = tir_lds_gather(b, address(s, at, index), TIR_I32);
    const struct tir_value below = tir_lane_sum_below(b, counts);
    return (struct sums){
        .before = tir_lane_read(b, below, s->wave),
        .all = tir_add(b, tir_lane_read(b, below, tir_i32(b, (int)waves - 1)),
                       tir_lane_read(b, counts, tir_i32(b, (int)waves - 1))),
    };
}

/* ---- Selection ---- */

/* A wave's part of the buffer in registers: `n` keys and positions for each lane, with NO_KEY after
 * the last entry. Masks of lanes are not kept but computed at each use, since each occupies two
 * scalar registers. */
struct held {
    unsigned n;
    struct tir_value key[HELD_MAX], position[HELD_MAX];
};

/* Loads this wave's part of a buffer of `count` (i32) entries to registers *h. */
static void hold(const struct att_select *s, struct held *h, struct tir_value count)
{
    struct tir_builder *b = s->b;
    const unsigned group = s->lanes * b->f->waves;
    const struct tir_value last = att_plus(b, count, -1);
    h->n = (s->room + group - 1) / group;
    assert(h->n <= HELD_MAX);
    for (unsigned j = 0; j < h->n; j++) {
        const struct tir_value first =
            att_plus(b, att_times(b, s->wave, (int)(h->n * s->lanes)), (int)(j * s->lanes));
        const struct tir_value entry = tir_add(b, s->lane_index, number(s, first));
        const struct tir_value there = tir_cmp_lt(b, entry, number(s, count));
        const struct tir_value safe = tir_select(b, there, entry, constant(s, 0));
        const struct tir_value key = tir_lds_gather(b, address(s, s->keys, safe), TIR_I32);
        /* Compares again: the earlier mask would occupy registers while the keys are in flight. */
        const struct tir_value still = tir_cmp_le(b, entry, number(s, last));
        h->key[j] = tir_select(b, still, key, constant(s, NO_KEY));
        h->position[j] = tir_lds_gather(b, address(s, s->positions, safe), TIR_I32);
    }
}

/* Writes zeros to the first `count` histograms. */
static void clear_histograms(const struct att_select *s, int count)
{
    struct tir_builder *b = s->b;
    const int all = count * BINS, group = (int)(s->lanes * b->f->waves);
    const struct tir_value before = att_times(b, s->wave, (int)s->lanes);
    const struct tir_value own = tir_add(b, s->lane_index, number(s, before));
    for (int first = 0; first < all; first += group) {
        const struct tir_value bin = tir_add(b, own, constant(s, first));
        const struct tir_value inside = tir_cmp_lt(b, bin, constant(s, all));
        tir_lds_scatter_if(b, inside, address(s, s->histogram, bin), constant(s, 0));
    }
}

/* Writes zeros to all histograms, and waits until all waves have done so. */
static void begin_histograms(const struct att_select *s)
{
    clear_histograms(s, HISTOGRAMS);
    att_lds_barrier(s->b);
}

/* Returns the digit (i32) of the *need-th largest key. `histogram` (i32): LDS address of counts of
 * keys by digit, the largest digit first. Sets *need to the key's rank among the keys with the same
 * digit, and *all to the number of these keys. Every wave computes the same results. */
static struct tir_value find_digit(const struct att_select *s, struct tir_value histogram,
                                   struct tir_value *need, struct tir_value *all)
{
    struct tir_builder *b = s->b;
    const int bins_a_lane = BINS / (int)s->lanes;
    /* Number of keys in a lane's first bins, up to and including each bin. */
    struct tir_value up_to[BINS_A_LANE_MAX] = {{0}};
    const struct tir_value bin = tir_mul(b, s->lane_index, constant(s, bins_a_lane));
    for (int i = 0; i < bins_a_lane; i++) {
        const struct tir_value at = address(s, histogram, tir_add(b, bin, constant(s, i)));
        const struct tir_value n = tir_lds_gather(b, at, TIR_I32);
        up_to[i] = i ? tir_add(b, up_to[i - 1], n) : n;
    }
    const struct tir_value below = tir_lane_sum_below(b, up_to[bins_a_lane - 1]);
    /* Number of bins before the bin that has the wanted key. */
    struct tir_value bins = tir_i32(b, 0);
    for (int i = 0; i < bins_a_lane; i++) {
        up_to[i] = tir_add(b, up_to[i], below);
        const struct tir_value few = tir_cmp_lt(b, up_to[i], number(s, *need));
        bins = tir_add(b, bins, tir_lane_count(b, few));
    }
    const struct tir_value in_lane = tir_and(b, bins, tir_i32(b, bins_a_lane - 1));
    struct tir_value larger = below, with = up_to[0];
    for (int i = 1; i < bins_a_lane; i++) {
        const struct tir_value is = tir_cmp_eq(b, in_lane, tir_i32(b, i));
        larger = tir_select(b, is, up_to[i - 1], larger);
        with = tir_select(b, is, up_to[i], with);
    }
    const struct tir_value lane = tir_div(b, bins, tir_i32(b, bins_a_lane));
    const struct tir_value before = tir_lane_read(b, larger, lane);
    *need = tir_sub(b, *need, before);
    *all = tir_sub(b, tir_lane_read(b, with, lane), before);
    return tir_sub(b, tir_i32(b, BINS - 1), bins);
}

/* The range of keys to which a search for the k-th largest key is narrowed. Members are i32
 * scalars. */
struct limit {
    /* The range has keys from `low` up to, but not including, low + 2^width. It has `all` keys, and
     * the wanted key is the `need`-th largest of them. */
    struct tir_value low, width, need, all;
    bool narrow; /* true: `low` is a known limit; false: `low` is less than all keys */
};

/* Returns the distance (i32) of each lane's `key` from limit->low. */
static struct tir_value above_low(const struct att_select *s, const struct limit *limit,
                                  struct tir_value key)
{
    return tir_sub(s->b, key, number(s, limit->low));
}

/* Adds the entries of `h` to the first histogram, for a search above a known limit. The digit is
 * the logarithm of a key's distance from that limit: the exponent and the leading bits of the
 * distance as a float. Keys that are near the limit share few digits, so that no bin gets most of
 * the keys for any distribution of scores. Bits of the distance that a float cannot represent are
 * dropped. */
static void count_logarithms(const struct att_select *s, const struct held *h,
                             const struct limit *limit)
{
    struct tir_builder *b = s->b;
    for (unsigned j = 0; j < h->n; j++) {
        const struct tir_value distance =
            tir_shr(b, above_low(s, limit, h->key[j]), constant(s, LOG_LOST));
        const struct tir_value bits = tir_bitcast(b, tir_convert(b, distance, TIR_F32), s->lane);
        const struct tir_value digit =
            tir_max(b, tir_shr(b, bits, constant(s, LOG_SHIFT)), constant(s, LOG_BIAS - 1));
        const struct tir_value bin = tir_sub(b, constant(s, BINS - 1 + LOG_BIAS - 1), digit);
        tir_lds_add_if(b, tir_cmp_ge(b, h->key[j], number(s, limit->low)),
                       address(s, s->histogram, bin), constant(s, 1));
    }
}

/* Narrows the range *limit to the keys of `h` whose first digit, a logarithm, is the wanted key's
 * digit. */
static void find_logarithm(const struct att_select *s, const struct held *h, struct limit *limit)
{
    struct tir_builder *b = s->b;
    count_logarithms(s, h, limit);
    att_lds_barrier(s->b);
    const struct tir_value digit = find_digit(s, s->histogram, &limit->need, &limit->all);
    const struct tir_value zero = tir_i32(b, 0), from_one = att_plus(b, digit, -1);
    const struct tir_value octave = tir_shr(b, from_one, tir_i32(b, LOG_BITS));
    const struct tir_value part =
        tir_or(b, tir_and(b, from_one, tir_i32(b, (1 << LOG_BITS) - 1)), tir_i32(b, 1 << LOG_BITS));
    const struct tir_value start = tir_shl(
        b, tir_shr(b, tir_shl(b, part, octave), tir_i32(b, LOG_BITS)), tir_i32(b, LOG_LOST));
    const struct tir_value finer = tir_max(b, att_plus(b, octave, -LOG_BITS), zero);
    const struct tir_value first = tir_cmp_eq(b, digit, zero);
    limit->low = tir_add(b, limit->low, tir_select(b, first, zero, start));
    limit->width = att_plus(b, tir_select(b, first, zero, finer), LOG_LOST);
}

/* Narrows the range *limit by digit d, the next eight bits of a key's distance from limit->low. A
 * histogram counts the keys of `h` in the range. Digit 4 uses histogram 0 again: all waves have
 * read it before the barrier of digit 1, and digit 2 clears it. */
static void find_bits(const struct att_select *s, const struct held *h, struct limit *limit, int d)
{
    struct tir_builder *b = s->b;
    const struct tir_value histogram = att_plus(b, s->histogram, d % HISTOGRAMS * BINS * 4);
    if (d == 2)
        clear_histograms(s, 1);
    const struct tir_value shift = tir_max(b, att_plus(b, limit->width, -DIGIT), tir_i32(b, 0));
    const struct tir_value bound = tir_shl(b, tir_i32(b, 1), limit->width);
    for (unsigned j = 0; j < h->n; j++) {
        const struct tir_value distance = above_low(s, limit, h->key[j]);
        const struct tir_value bin =
            tir_sub(b, constant(s, BINS - 1), tir_shr(b, distance, number(s, shift)));
        const struct tir_value above = tir_cmp_ge(b, h->key[j], number(s, limit->low));
        const struct tir_value candidate =
            d ? tir_and(b, above, tir_cmp_ult(b, distance, number(s, bound))) : above;
        tir_lds_add_if(b, candidate, address(s, histogram, bin), constant(s, 1));
    }
    att_lds_barrier(s->b);
    const struct tir_value digit = find_digit(s, histogram, &limit->need, &limit->all);
    limit->low = tir_add(b, limit->low, tir_shl(b, digit, shift));
    limit->width = shift;
}

/* The entries that stay in the buffer: all entries with keys above `above`, and `ties` entries with
 * key `above`. The ties are the first such entries in the buffer, or the last ones if
 * att_select.later. Members are i32 scalars. */
struct kept {
    struct tir_value above, ties;
    /* i32 scalar: number of entries that stay, with keys above `above` or as ties. */
    struct tir_value n;
};

/* Builds the search for the k-th largest key of `h` from digit `d` on, in the range *limit, and
 * returns which entries stay. The search ends at the first digit that leaves at most `most`
 * entries, among them the k largest. After the last digit the limit is the k-th largest key, and
 * exactly k entries stay. */
static struct kept find_limit(const struct att_select *s, const struct held *h, struct limit *limit,
                              struct tir_value k, struct tir_value most, int d)
{
    struct tir_builder *b = s->b;
    const struct tir_value zero = tir_i32(b, 0);
    if (d == (limit->narrow ? DIGITS : KEY_DIGITS))
        return (struct kept){limit->low, limit->need, k};
    if (d == 0 && limit->narrow)
        find_logarithm(s, h, limit);
    else
        find_bits(s, h, limit, d);
    const struct tir_value n = tir_add(b, tir_sub(b, k, limit->need), limit->all);
    const struct tir_value fits = tir_cmp_le(b, n, most);
    struct tir_value kept[] = {att_plus(b, limit->low, -1), zero, n};
    const struct tir_type i32 = tir_scalar(TIR_I32), types[] = {i32, i32, i32};
    struct tir_if branch = tir_begin_if(b, fits, false, types, 3);
    tir_else(b, &branch, kept);
    const struct kept finer = find_limit(s, h, limit, k, most, d + 1);
    kept[0] = finer.above, kept[1] = finer.ties, kept[2] = finer.n;
    tir_end_if(b, &branch, kept);
    return (struct kept){kept[0], kept[1], kept[2]};
}

/* Writes entry j of `h` to buffer entry `to` (index) in lanes whose entry stays (`stays`, i1). */
static void move_entry(const struct att_select *s, const struct held *h, unsigned j,
                       struct tir_value stays, struct tir_value to)
{
    write_entry(s, stays, to, h->key[j], h->position[j]);
}

/* Moves the entries of `h` with keys above `limit` (i32) to the front of the buffer, in their
 * order. */
static void keep_above(const struct att_select *s, const struct held *h, struct tir_value limit)
{
    struct tir_builder *b = s->b;
    struct tir_value own = tir_i32(b, 0);
    for (unsigned j = 0; j < h->n; j++)
        own = tir_add(b, own, att_select_passing(s, limit, h->key[j]));
    struct tir_value before = add_waves(s, tir_i32(b, SELECTION), own).before;
    const struct tir_value least = att_plus(b, limit, 1);
    for (unsigned j = 0; j < h->n; j++) {
        /* Compares again: keeping the masks of the earlier count would occupy two scalar registers
         * each. */
        const struct tir_value stays = tir_cmp_ge(b, h->key[j], number(s, least));
        const struct tir_value n = tir_lane_count(b, stays);
        move_entry(s, h, j, stays, tir_add(b, number(s, before), tir_lanes_below(b, stays)));
        before = tir_add(b, before, n);
    }
}

/* Moves the entries of `h` that stay to the front of the buffer, in their order: keys above the
 * limit and ties. `kept` says which entries these are. */
static void keep_with_ties(const struct att_select *s, const struct held *h,
                           const struct kept *kept)
{
    struct tir_builder *b = s->b;
    const struct tir_value limit = kept->above, need = kept->ties;
    struct tir_value own = tir_i32(b, 0);
    for (unsigned j = 0; j < h->n; j++) {
        const struct tir_value larger = tir_cmp_gt(b, h->key[j], number(s, limit));
        const struct tir_value tie = tir_cmp_eq(b, h->key[j], number(s, limit));
        own = tir_add(b, own, tir_lane_count(b, larger));
        own = tir_add(b, own, tir_shl(b, tir_lane_count(b, tie), tir_i32(b, HALF)));
    }
    const struct sums sums = add_waves(s, tir_i32(b, SELECTION), own);
    struct tir_value before = tir_and(b, sums.before, tir_i32(b, (1 << HALF) - 1));
    struct tir_value ties_before = tir_shr(b, sums.before, tir_i32(b, HALF));
    const struct tir_value all = tir_shr(b, sums.all, tir_i32(b, HALF));
    const struct tir_value left_out = number(s, tir_sub(b, all, need));
    const struct tir_value above = att_plus(b, limit, 1), below = att_plus(b, limit, -1);
    for (unsigned j = 0; j < h->n; j++) {
        /* Compares again: keeping all earlier masks would occupy two scalar registers each. */
        const struct tir_value larger = tir_cmp_ge(b, h->key[j], number(s, above));
        const struct tir_value least = tir_cmp_gt(b, h->key[j], number(s, below));
        const struct tir_value tie = tir_xor(b, least, larger);
        const struct tir_value ties = tir_add(b, number(s, ties_before), tir_lanes_below(b, tie));
        const struct tir_value in_time =
            s->later ? tir_cmp_ge(b, ties, left_out) : tir_cmp_lt(b, ties, number(s, need));
        const struct tir_value stays = tir_or(b, larger, tir_and(b, tie, in_time));
        const struct tir_value kept_before =
            s->later ? tir_max(b, tir_sub(b, ties, left_out), constant(s, 0))
                     : tir_min(b, ties, number(s, need));
        const struct tir_value to =
            tir_add(b, tir_add(b, number(s, before), tir_lanes_below(b, larger)), kept_before);
        move_entry(s, h, j, stays, to);
        before = tir_add(b, before, tir_lane_count(b, larger));
        ties_before = tir_add(b, ties_before, tir_lane_count(b, tie));
    }
}

/* Moves the entries of `h` that stay (`kept`) to the front of the buffer. Two branches serve limits
 * with and without ties. */
static void keep(const struct att_select *s, const struct held *h, const struct kept *kept)
{
    struct tir_builder *b = s->b;
    struct tir_if branch = att_begin_if(b, tir_cmp_eq(b, kept->ties, tir_i32(b, 0)));
    keep_above(s, h, kept->above);
    tir_else(b, &branch, NULL);
    keep_with_ties(s, h, kept);
    tir_end_if(b, &branch, NULL);
}

/* Returns the range of all keys, for a search of the `need`-th (i32) largest key. */
static struct limit anything(const struct att_select *s, struct tir_value need)
{
    return (struct limit){.low = tir_i32(s->b, NAN_KEY), .width = tir_i32(s->b, 32), .need = need};
}

/* Returns which entries of `h` stay: the k largest, or slightly more but at most `most` (i32).
 * `state`: the selection's state, with a limit that all keys exceed; NULL: the keys have no known
 * limit. */
static struct kept find_kept(const struct att_select *s, const struct held *h,
                             const struct tir_value *state, struct tir_value k,
                             struct tir_value most)
{
    struct tir_builder *b = s->b;
    const struct tir_value least = tir_i32(b, NAN_KEY);
    struct limit limit = anything(s, k);
    if (state) {
        limit.low = tir_max(b, state[ATT_SELECT_LIMIT], least);
        limit.narrow = true;
    }
    return find_limit(s, h, &limit, k, most, 0);
}

/* Removes all but the k largest entries from the buffer, and raises the limit in `state`. If
 * `roughly`, more than k may stay, as long as the buffer has room for another chunk. */
static void select_largest(const struct att_select *s, struct tir_value state[ATT_SELECT_N],
                           bool roughly)
{
    struct tir_builder *b = s->b;
    const unsigned most = roughly ? s->room - s->most : s->k;
    struct held h = {0};
    hold(s, &h, state[ATT_SELECT_COUNT]);
    begin_histograms(s);
    const struct kept kept = find_kept(s, &h, state, tir_i32(b, (int)s->k), tir_i32(b, (int)most));
    keep(s, &h, &kept);
    state[ATT_SELECT_LIMIT] =
        s->later ? tir_sub(b, kept.above, tir_min(b, kept.ties, tir_i32(b, 1))) : kept.above;
    state[ATT_SELECT_COUNT] = kept.n;
}

void att_select_begin_guess(const struct att_select *s) { begin_histograms(s); }

void att_select_guess(const struct att_select *s, struct tir_value state[ATT_SELECT_N],
                      const struct tir_value *sample, unsigned n, struct tir_value rank)
{
    struct tir_builder *b = s->b;
    struct held h = {.n = n};
    for (unsigned j = 0; j < n; j++)
        h.key[j] = sample[j];
    const struct tir_value most = tir_add(b, rank, tir_shr(b, rank, tir_i32(b, 3)));
    state[ATT_SELECT_LIMIT] = find_kept(s, &h, NULL, rank, most).above;
}

void att_select_restart(const struct att_select *s, struct tir_value state[ATT_SELECT_N],
                        struct tir_value is)
{
    struct tir_builder *b = s->b;
    state[ATT_SELECT_LIMIT] = tir_select(b, is, tir_i32(b, NO_KEY), state[ATT_SELECT_LIMIT]);
    state[ATT_SELECT_COUNT] = tir_select(b, is, tir_i32(b, 0), state[ATT_SELECT_COUNT]);
}

/* ---- Insertion ---- */

struct tir_value att_select_passing(const struct att_select *s, struct tir_value limit,
                                    struct tir_value key)
{
    return tir_lane_count(s->b, tir_cmp_gt(s->b, key, number(s, limit)));
}

/* Returns the number (i32 scalar) of keys above `limit` (i32) in keys[], this wave's tiles of a
 * chunk. */
static struct tir_value count_own(const struct att_select *s, struct tir_value limit,
                                  const struct tir_value *keys)
{
    struct tir_value own = tir_i32(s->b, 0);
    for (unsigned j = 0; j < s->each; j++)
        own = tir_add(s->b, own, att_select_passing(s, limit, keys[j]));
    return own;
}

/* Returns the sums over waves of `own` (i32), the number of a wave's keys above the limit. Calls
 * alternate between two arrays of counts (state[ATT_SELECT_PARITY]), since a wave may still read
 * the array of the previous call. */
static struct sums count_passing(const struct att_select *s, struct tir_value state[ATT_SELECT_N],
                                 struct tir_value own)
{
    const struct sums sums = add_waves(s, state[ATT_SELECT_PARITY], own);
    state[ATT_SELECT_PARITY] = tir_xor(s->b, state[ATT_SELECT_PARITY], tir_i32(s->b, 1));
    return sums;
}

/* Number of values that the branch of make_room() yields: the state, and two counts. */
enum { N_YIELD = ATT_SELECT_N + 2 };

/* Builds a selection that runs if the buffer has no room for the chunk's keys above the limit,
 * whose counts are `sums`. keys[] are this wave's tiles of the chunk. A selection raises the limit,
 * so the keys are then counted again. Returns the counts after that. */
static struct sums make_room(const struct att_select *s, struct tir_value state[ATT_SELECT_N],
                             const struct tir_value *keys, struct sums sums)
{
    struct tir_builder *b = s->b;
    const struct tir_value full =
        tir_cmp_gt(b, tir_add(b, state[ATT_SELECT_COUNT], sums.all), tir_i32(b, (int)s->room));
    struct tir_type types[N_YIELD];
    for (int i = 0; i < N_YIELD; i++)
        types[i] = tir_scalar(TIR_I32);
    struct tir_value old[N_YIELD] = {state[0], state[1], state[2], sums.before, sums.all};
    struct tir_if branch = tir_begin_if(b, full, true, types, N_YIELD);
    select_largest(s, state, true);
    const struct sums fewer = count_passing(s, state, count_own(s, state[ATT_SELECT_LIMIT], keys));
    const struct tir_value now[N_YIELD] = {state[0], state[1], state[2], fewer.before, fewer.all};
    tir_else(b, &branch, now);
    tir_end_if(b, &branch, old);
    for (int i = 0; i < ATT_SELECT_N; i++)
        state[i] = old[i];
    return (struct sums){.before = old[ATT_SELECT_N], .all = old[ATT_SELECT_N + 1]};
}

/* Reserves entries of the buffer for the chunk's keys above the limit, whose counts are `passing`.
 * keys[] are this wave's tiles of the chunk. Returns the index (i32) of the wave's first entry. */
static struct tir_value reserve(const struct att_select *s, struct tir_value state[ATT_SELECT_N],
                                const struct tir_value *keys, struct sums passing)
{
    struct tir_builder *b = s->b;
    const struct sums sums = make_room(s, state, keys, passing);
    const struct tir_value to = tir_add(b, state[ATT_SELECT_COUNT], sums.before);
    state[ATT_SELECT_COUNT] = tir_add(b, state[ATT_SELECT_COUNT], sums.all);
    return to;
}

struct tir_value att_select_reserve(const struct att_select *s,
                                    struct tir_value state[ATT_SELECT_N],
                                    const struct tir_value *keys, struct tir_value own)
{
    return reserve(s, state, keys, count_passing(s, state, own));
}

void att_select_reserve_both(const struct att_select *const s[2], struct tir_value *const state[2],
                             const struct tir_value *const keys[2], const struct tir_value own[2],
                             struct tir_value to[2])
{
    struct tir_builder *b = s[0]->b;
    const struct tir_value half = tir_i32(b, HALF), low = tir_i32(b, (1 << HALF) - 1);
    const struct sums sums =
        count_passing(s[0], state[0], tir_or(b, own[0], tir_shl(b, own[1], half)));
    const struct sums of[] = {
        {.before = tir_and(b, sums.before, low), .all = tir_and(b, sums.all, low)},
        {.before = tir_shr(b, sums.before, half), .all = tir_shr(b, sums.all, half)},
    };
    for (int i = 0; i < 2; i++)
        to[i] = reserve(s[i], state[i], keys[i], of[i]);
}

struct tir_value att_select_append(const struct att_select *s, struct tir_value limit,
                                   struct tir_value key, struct tir_value first,
                                   struct tir_value to)
{
    struct tir_builder *b = s->b;
    /* Compares again: the mask of the earlier count would occupy registers until here. */
    const struct tir_value is = tir_cmp_ge(b, key, number(s, att_plus(b, limit, 1)));
    const struct tir_value n = tir_lane_count(b, is);
    const struct tir_value entry = tir_add(b, number(s, to), tir_lanes_below(b, is));
    write_entry(s, is, entry, key, tir_add(b, s->lane_index, number(s, first)));
    return tir_add(b, to, n);
}

/* Appends the keys above `limit` (i32) of this wave's tiles `keys` of a chunk to the buffer, from
 * entry `to` (index, i32) on. `first` (i32) is the position of the chunk's first score. */
static void append_tiles(const struct att_select *s, struct tir_value limit,
                         const struct tir_value *keys, struct tir_value first, struct tir_value to)
{
    struct tir_builder *b = s->b;
    const struct tir_value some = tir_cmp_gt(b, count_own(s, limit, keys), tir_i32(b, 0));
    struct tir_if branch = att_begin_if(b, some);
    for (unsigned j = 0; j < s->each; j++)
        to = att_select_append(s, limit, keys[j], tir_add(b, first, att_select_place(s, j)), to);
    tir_end_if(b, &branch, NULL);
}

/* Inserts a chunk of keys in one step. `keys`: this wave's tiles of the chunk, and `first` (i32) is
 * the position of the chunk's first score. Updates `state`. */
static void insert_at_once(const struct att_select *s, struct tir_value state[ATT_SELECT_N],
                           const struct tir_value *keys, struct tir_value first)
{
    const struct tir_value own = count_own(s, state[ATT_SELECT_LIMIT], keys);
    const struct tir_value to = att_select_reserve(s, state, keys, own);
    append_tiles(s, state[ATT_SELECT_LIMIT], keys, first, to);
}

/* Inserts a chunk of keys in s->steps steps. `keys`: this wave's tiles of the chunk. `first` (i32):
 * the position of the chunk's first score. Each step inserts the keys of an equal number of
 * consecutive waves, so that the buffer stays in order of position. Updates `state`. */
static void insert_in_steps(const struct att_select *s, struct tir_value state[ATT_SELECT_N],
                            const struct tir_value *keys, struct tir_value first)
{
    struct tir_builder *b = s->b;
    const struct tir_value each = tir_i32(b, (int)(b->f->waves / s->steps));
    const struct tir_value own = tir_div(b, s->wave, each);
    struct tir_loop loop = tir_begin_for(b, tir_i32(b, 0), tir_i32(b, (int)s->steps), tir_i32(b, 1),
                                         state, ATT_SELECT_N);
    struct tir_value of_step[ATT_SELECT_EACH_MAX];
    const struct tir_value inserted = number(s, tir_cmp_eq(b, own, loop.index));
    for (unsigned j = 0; j < s->each; j++)
        of_step[j] = tir_select(b, inserted, keys[j], att_select_no_key(s));
    insert_at_once(s, state, of_step, first);
    tir_end_for(b, &loop, state, ATT_SELECT_N);
}

void att_select_insert(const struct att_select *s, struct tir_value state[ATT_SELECT_N],
                       const struct tir_value *keys, struct tir_value first)
{
    struct tir_builder *b = s->b;
    if (s->steps == 1) {
        insert_at_once(s, state, keys, first);
        return;
    }
    struct tir_type types[ATT_SELECT_N];
    for (int i = 0; i < ATT_SELECT_N; i++)
        types[i] = tir_scalar(TIR_I32);
    const struct tir_value limit = state[ATT_SELECT_LIMIT];
    const struct sums sums = count_passing(s, state, count_own(s, limit, keys));
    const struct tir_value n = tir_add(b, state[ATT_SELECT_COUNT], sums.all);
    struct tir_value done[ATT_SELECT_N] = {n, limit, state[ATT_SELECT_PARITY]};
    const struct tir_value full = tir_cmp_gt(b, n, tir_i32(b, (int)s->room));
    struct tir_if branch = tir_begin_if(b, full, true, types, ATT_SELECT_N);
    insert_in_steps(s, state, keys, first);
    tir_else(b, &branch, state);
    append_tiles(s, limit, keys, first, tir_sub(b, n, tir_sub(b, sums.all, sums.before)));
    tir_end_if(b, &branch, done);
    for (int i = 0; i < ATT_SELECT_N; i++)
        state[i] = done[i];
}

struct tir_value att_select_whole(const struct att_select *s, const struct tir_value *keys)
{
    struct tir_builder *b = s->b;
    const struct tir_value zero = tir_i32(b, 0), k = tir_i32(b, (int)s->k);
    const struct tir_value all = tir_i32(b, NO_KEY);
    struct held h = {.n = s->each};
    for (unsigned j = 0; j < s->each; j++) {
        h.key[j] = keys[j];
        h.position[j] = tir_add(b, s->lane_index, number(s, att_select_place(s, j)));
    }
    clear_histograms(s, HISTOGRAMS);
    const struct sums sums = add_waves(s, zero, count_own(s, all, keys));
    struct tir_if many = att_begin_if(b, tir_cmp_gt(b, sums.all, k));
    struct limit limit = anything(s, k);
    const struct kept kept = find_limit(s, &h, &limit, k, k, 0);
    keep(s, &h, &kept);
    tir_else(b, &many, NULL);
    append_tiles(s, all, keys, zero, sums.before);
    tir_end_if(b, &many, NULL);
    att_lds_barrier(s->b);
    return tir_min(b, sums.all, k);
}

struct tir_value att_select_end(const struct att_select *s, struct tir_value state[ATT_SELECT_N])
{
    struct tir_builder *b = s->b;
    const struct tir_value many = tir_cmp_gt(b, state[ATT_SELECT_COUNT], tir_i32(b, (int)s->k));
    const struct tir_type types[ATT_SELECT_N] = {tir_scalar(TIR_I32), tir_scalar(TIR_I32),
                                                 tir_scalar(TIR_I32)};
    struct tir_value old[ATT_SELECT_N] = {state[0], state[1], state[2]};
    att_lds_barrier(s->b);
    struct tir_if branch = tir_begin_if(b, many, false, types, ATT_SELECT_N);
    select_largest(s, state, false);
    tir_else(b, &branch, state);
    tir_end_if(b, &branch, old);
    for (int i = 0; i < ATT_SELECT_N; i++)
        state[i] = old[i];
    att_lds_barrier(s->b);
    return state[ATT_SELECT_COUNT];
}

struct tir_value att_select_position(const struct att_select *s, struct tir_value entry)
{
    return tir_lds_gather(s->b, address(s, s->positions, entry), TIR_I32);
}

struct tir_value att_select_score(const struct att_select *s, struct tir_value entry)
{
    struct tir_builder *b = s->b;
    const struct tir_value key = tir_lds_gather(b, address(s, s->keys, entry), TIR_I32);
    const struct tir_value negative = tir_cmp_lt(b, key, constant(s, 0));
    const struct tir_value size = tir_select(b, negative, tir_neg(b, key), key);
    const struct tir_value signed_size = tir_or(b, size, tir_and(b, key, constant(s, sign)));
    const struct tir_value nan = tir_cmp_eq(b, key, constant(s, NAN_KEY));
    const struct tir_value bits = tir_select(b, nan, constant(s, QUIET_NAN), signed_size);
    const struct tir_type f32 = tir_with_dtype(s->lane, TIR_F32);
    return tir_bitcast(b, bits, f32);
}
