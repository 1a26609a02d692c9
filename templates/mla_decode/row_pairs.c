/* SPDX-License-Identifier: Apache-2.0
 *
 * mla_decode, wave pairs in fp8: the copy of rows to LDS in pairs, and its layout there.
 *
 * A row of 576 bytes is four and a half cache lines, and the next one begins in the middle of a
 * line. The L1 counts each line that a load touches. So an even row is copied with the odd row
 * after it, nine lines in all if they are neighbours in memory: eight lanes copy a line, and no
 * line is touched twice.
 *
 *     line     0 - 3                4                                  5 - 8
 *     columns  0 - 511, even row    512 - 575, even; 0 - 63, odd       64 - 575, odd row
 *
 * Each row has its own address, so any two rows can be a pair. Without rotated elements a row is
 * four lines, and the halves of odd rows' lines are exchanged.
 *
 * A wave copies eight pairs, with three addresses: of lines 0 to 3, 4, and 5 to 8. Lines with the
 * same address differ in the instruction's offset. In LDS, line i of all pairs of a block is
 * contiguous, 4 KB. 64 banks are two lines, so without further steps lanes would read from the same
 * banks. 16 lanes that read K differ in the half of a line and in three bits of the pair's number.
 * The lowest of these bits changes nothing; each of the other two flips a bit of the number of a
 * 16-byte chunk. A transposing read of c reads eight keys and two neighbouring chunks; no bit of
 * these keys flips the lowest bit of a chunk.
 */
#include "ir/address_map.h"
#include "ir/bits.h"
#include "templates/mla_decode/one_wave.h"
#include "templates/workgroup/scalar.h"

#include <assert.h>

enum {
    LINE = 128,
    HALF = MLA_ROW_PAIR_COLUMNS,
    /* Number of cache lines of a row's latent. */
    LINES = LATENT / LINE
};

/* True if a cache row ends in the middle of a cache line, so that two rows share a line. */
static bool shares_line(const struct mla *s) { return s->d.k.width % LINE; }

/* Returns the number of cache lines of a pair of rows. */
static unsigned pair_lines(const struct mla *s) { return 2 * s->d.k.width / LINE; }
/* Returns the index of a row pair's first cache line that has only columns of the odd row. */
static unsigned odd_line(const struct mla *s) { return pair_lines(s) - LINES; }
/* Returns the bytes in LDS of one cache line of each row pair of a block. Lines with the same index
 * in their pair are adjacent. */
static unsigned line_bytes(const struct mla *s) { return s->d.keys / 2 * LINE; }

unsigned mla_row_pairs_bytes(const struct mla *s) { return pair_lines(s) * line_bytes(s); }

unsigned mla_row_pairs_before(const struct mla *s, unsigned column)
{
    return column / LINE * line_bytes(s);
}

/* Changes `map` so that two bits of a pair's number flip two bits of the number of a 16-byte
 * chunk. */
static void flip_chunks(struct tir_layout *map)
{
    tir_map_flip(map, tir_bits(LINE) + 1, TIR_RC(0, HALF / 2));
    tir_map_flip(map, tir_bits(LINE) + 2, TIR_RC(0, HALF / 4));
}

/* Returns the LDS map of `rows` rows in row pairs, for reads that begin with column `column`.
 * Consecutive cache lines of a pair are line_bytes() apart. */
static struct tir_layout lines_map(const struct mla *s, unsigned rows, unsigned column)
{
    const unsigned span = LINES * line_bytes(s);
    struct tir_layout map = tir_row_pairs(rows, 2 * span / rows, LINE);
    flip_chunks(&map);
    tir_map_flip(&map, tir_bits(span), TIR_RC(0, HALF));
    if (shares_line(s) && column % LINE >= HALF)
        tir_map_pad(&map, span, line_bytes(s));
    return map;
}

struct tir_value mla_row_pairs_read(struct mla *s, struct tir_value at, struct tir_type t,
                                    unsigned rows, unsigned column)
{
    struct tir_builder *const b = &s->d.b;
    assert(column % LINE / HALF == (column + t.cols - 1) % LINE / HALF);
    const unsigned inside = column % (rows > s->d.keys ? LINE : LATENT);
    const struct tir_layout map = lines_map(s, rows, inside);
    const int before = (int)mla_row_pairs_before(s, column - inside);
    return tir_tile_lds_load_from(b, att_plus(b, at, before), t, &map, inside);
}

/* Returns the LDS map of one copy instruction: `rows` rows of half a cache line each. */
static struct tir_layout copy_map(unsigned rows)
{
    struct tir_layout map = tir_row_major(rows, HALF);
    flip_chunks(&map);
    return map;
}

/* Returns `a` (rows x 1) with the values of the two rows of each pair exchanged. */
static struct tir_value other_of(struct tir_builder *b, struct tir_value a)
{
    return tir_transpose(b, tir_col_flip(b, tir_transpose(b, a), 1));
}

/* Returns for each row the address (i64) of the other row of its pair. `rows`: the rows'
 * addresses. */
static struct tir_value other_row(struct tir_builder *b, struct tir_value rows)
{
    const struct tir_value low = tir_convert(b, rows, TIR_I32);
    const struct tir_value high =
        tir_convert(b, tir_shr(b, rows, tir_int_like(b, rows, 32)), TIR_I32);
    const struct tir_value h = tir_zext(b, other_of(b, high), TIR_I64);
    return tir_or(b, tir_shl(b, h, tir_int_like(b, h, 32)), tir_zext(b, other_of(b, low), TIR_I64));
}

/* Returns a + n in each element. `a`: a tile or a scalar of integers. */
static struct tir_value plus(struct tir_builder *b, struct tir_value a, int n)
{
    return tir_add(b, a, tir_int_like(b, a, n));
}

struct mla_row_pairs mla_row_pairs_find(struct mla *s, struct tir_value rows)
{
    struct tir_builder *const b = &s->d.b;
    const struct tir_type t = tir_with_dtype(tir_typeof(b->f, rows), TIR_I32);
    const struct tir_value index = tir_row_index(b, t);
    const struct tir_value odd =
        tir_cmp_ne(b, tir_and(b, index, tir_int_like(b, index, 1)), tir_int_like(b, index, 0));
    const struct tir_value other = other_row(b, rows);
    /* Bytes from the address at which lanes of the even row begin to the odd row's first byte;
     * negative: that address is inside the odd row. */
    const int back = shares_line(s) ? HALF : -HALF;
    return (struct mla_row_pairs){
        .even = tir_select(b, odd, plus(b, other, HALF), rows),
        .middle = tir_select(b, odd, rows, plus(b, rows, LATENT)),
        .odd = tir_select(b, odd, rows, plus(b, other, -back)),
    };
}

void mla_row_pairs_copy(struct mla *s, int group, struct tir_value at, unsigned rows,
                        const struct mla_row_pairs *lines, unsigned half)
{
    const unsigned of_odd = odd_line(s), end = half ? pair_lines(s) : of_odd;
    const struct tir_layout map = copy_map(rows);
    const struct tir_layout l = tir_map_lanes(&map, s->d.m, s->d.waves, mla_kq_bytes(s));
    const struct tir_type t = tir_tile(s->d.b.f, s->number.kq, rows, HALF, &l);
    for (unsigned i = half ? of_odd : 0; i < end; i++) {
        const struct tir_value from = i < LINES    ? lines->even
                                      : i < of_odd ? lines->middle
                                                   : lines->odd;
        const unsigned both = (i < LINES ? i : i - LINES) * LINE;
        tir_gather_both_to_lds(&s->d.b, group, from, at, i * line_bytes(s) - both, both, t, &map);
    }
}

unsigned mla_row_pairs_piece(const struct mla *s, unsigned row, unsigned n, unsigned *width)
{
    const bool odd = row % 2;
    const unsigned first = odd ? odd_line(s) : 0, before = row / 2 * LINE;
    *width = n < LINES ? LINE : odd && shares_line(s) ? HALF : 0;
    return before + (n < LINES ? (first + n) * line_bytes(s) : LINES * line_bytes(s) + HALF);
}
