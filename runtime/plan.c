/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cuts a batch into work lists on the host. docs/planning.md defines the algorithm and the names
 * that brackets in comments contain. The kernel of the op `plan` computes identical integers.
 */
#include "runtime/plan.h"

#include "runtime/abi.h"
#include "runtime/error.h"
#include "runtime/fill.h"
#include "runtime/host.h"

enum {
    USUAL_UNIT = 64,    /* [unit] default of unit_keys, and the largest; cuts are at multiples */
    UNIT_MIN = 16,      /* smallest unit_keys */
    USUAL_COST = 2,     /* [o] default of item_cost, in units */
    USUAL_RATE = 4,     /* [r] default of merge_rate */
    CONSTANT_MAX = 256, /* largest item_cost and merge_rate */
    /* keys that decode kernels load at once: windows begin at a multiple of GRAIN keys */
    GRAIN = 16,
    HEADS_MAX = 65535, /* most query heads: a work item has 16 bits for each bound of its heads */
    INFO = 8           /* integers of a work item in work_info */
};

/* The input of a plan, and numbers that follow from it. Brackets contain their names in
 * docs/planning.md. */
struct batch {
    const struct attn_decode_plan_shape *shape;
    const struct attn_decode_plan_lengths *lengths;
    struct attn_plan_numbers n;
    int64_t payload; /* length of a part: an equal share of the cost of the batch, in units */
    int64_t piece;   /* [p] most units of a piece; 0: the batch is not cut into equal pieces */
    /* [k] most tiles of a list if no tile is cut; 0: the batch is cut at the ends of parts */
    int64_t whole;
    int64_t full;  /* [f] number of parts with `whole` tiles; later parts have one less */
    int64_t items; /* [T] number of work items for each KV head */
};

/* A sequence of the batch; if the shape has a q_tile, a tile of a sequence's queries. */
struct sequence {
    int32_t b;       /* index of the tile among all tiles; without tiles, of the sequence */
    int32_t of;      /* index of the sequence; equal to `b` without tiles */
    int32_t before;  /* number of the sequence's tiles with smaller indices */
    int64_t q_start; /* index of the first query token among all queries of the batch */
    int64_t q_end;   /* index after the last query token */
    int64_t skip;    /* number of keys before the window, which are not read */
    /* [keys, u] number of keys after `skip`; number of their units, rounded up */
    int64_t keys, units;
    int64_t start; /* [S] cost of all earlier tiles: their units plus an item_cost each */
    /* [first, n] index of the part that has the first piece; number of pieces */
    int64_t first, count;
    /* [l] units of each piece but the last; 0: cuts are at the ends of parts */
    int64_t length;
    /* [I, R] number of pieces of all earlier tiles, and of the earlier tiles that have several
     * pieces */
    int64_t item, row;
};

/* Returns the number of parts into which the work of each KV head is divided, at least 1. */
static int64_t parts_of(const struct attn_decode_plan_shape *s)
{
    return s->lists > s->kv_heads ? s->lists / s->kv_heads : 1;
}

/* Returns the lesser of two numbers. */
static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* Returns the first query token of sequence `b`; for the number of sequences, the end of all
 * tokens. */
static int32_t query_start(const struct batch *p, int32_t b)
{
    return p->lengths->qo_indptr ? p->lengths->qo_indptr[b] : b * p->shape->q_len;
}

/* Returns the first tile or sequence of a batch, before measure(). */
static struct sequence first_sequence(void) { return (struct sequence){0}; }

/* True if `q` is a tile or sequence of the batch. False after the last one. */
static bool is_there(const struct batch *p, const struct sequence *q)
{
    return q->of < p->shape->batch;
}

/* Returns how many of a sequence's `all` keys, from the first, the queries of a tile see. The
 * sequence has `queries_after` queries after the tile's last one. */
static int64_t seen_keys(const struct batch *p, int64_t all, int64_t queries_after)
{
    const int32_t right = p->shape->window_right;
    return right < 0 ? all : smaller(all, attn_larger(all - queries_after + right, 0));
}

/* Returns the number of query tiles of sequence `of`, at least 1. It is 1 if queries are not
 * tiled. */
static int64_t tiles_of(const struct batch *p, int32_t of)
{
    const int64_t queries = query_start(p, of + 1) - query_start(p, of);
    return p->shape->q_tile ? attn_larger(attn_parts(queries, p->shape->q_tile), 1) : 1;
}

/* Returns how many of a sequence's `tiles` tiles have earlier queries than tile `number`. Tiles are
 * numbered from both ends: the first queries, the last, the second, the last but one. */
static int64_t place_of_tile(int64_t number, int64_t tiles)
{
    return number % 2 ? tiles - 1 - number / 2 : number / 2;
}

/* Sets the queries of `q`, and the keys and units that kernels read for it. */
static void measure(const struct batch *p, struct sequence *q)
{
    const int64_t all = attn_larger(p->lengths->kv_lens[q->of], 0), end = query_start(p, q->of + 1);
    int64_t keys = all, reached = all;
    q->q_start = query_start(p, q->of);
    q->q_end = end;
    if (p->shape->q_tile) {
        q->q_start += p->shape->q_tile * place_of_tile(q->before, tiles_of(p, q->of));
        q->q_end = smaller(q->q_start + p->shape->q_tile, end);
        keys = q->q_end > q->q_start ? seen_keys(p, all, end - q->q_end) : 0;
        reached = smaller(keys, all - (end - q->q_end));
    }
    q->skip = attn_larger(reached - p->n.reach, 0) / GRAIN * GRAIN;
    q->keys = keys - q->skip;
    q->units = attn_parts(q->keys, p->n.unit);
}

/* Advances the indices of `q` to the next tile, or without tiles to the next sequence. */
static void next_sequence(const struct batch *p, struct sequence *q)
{
    q->b++;
    q->before++;
    if (q->before < tiles_of(p, q->of))
        return;
    q->of++;
    q->before = 0;
}

struct attn_plan_numbers attn_plan_numbers(const struct attn_decode_plan_shape *s)
{
    const int32_t queries = s->q_tile && s->q_tile < s->q_len ? s->q_tile : s->q_len;
    const int64_t reach = s->window ? (int64_t)queries + s->window - 1 : INT32_MAX;
    const int64_t cost = s->item_cost ? s->item_cost : USUAL_COST;
    const int64_t unit = s->unit_keys ? s->unit_keys : USUAL_UNIT;
    return (struct attn_plan_numbers){
        .queries = queries,
        .parts = parts_of(s),
        .unit = unit,
        .pairs_per_list = attn_parts(s->kv_heads * parts_of(s), s->lists),
        .reach = reach < INT32_MAX ? reach : INT32_MAX,
        .item_cost = cost,
        .least_piece = s->q_tile ? attn_parts(cost, 2) : cost,
        .slack = s->q_tile           ? cost
                 : unit < USUAL_UNIT ? USUAL_UNIT / unit
                                     : 0,
        .merge_rate = s->merge_rate ? s->merge_rate : USUAL_RATE,
    };
}

/* Returns the number of pieces, at least 1, if a sequence of `units` units is cut into pieces of at
 * most `piece` units. */
static int64_t count_pieces(int64_t units, int64_t piece)
{
    return attn_larger(attn_parts(units, piece), 1);
}

/* True if there are at most as many pieces as parts if all sequences are cut into pieces of at most
 * `piece` units. */
static bool pieces_fit(const struct batch *p, int64_t piece)
{
    int64_t pieces = 0;
    for (struct sequence q = first_sequence(); is_there(p, &q); next_sequence(p, &q)) {
        measure(p, &q);
        pieces += count_pieces(q.units, piece);
    }
    return pieces <= p->n.parts;
}

/* Returns the least worthwhile length of a piece, in units: the first of 1, 2, 3, 4, 6, 8, 12, ...
 * for which adding a sequence's partials takes no longer than a piece. `rate` partials are added in
 * the time of a unit; `longest` is the number of units of the longest sequence. */
static int64_t worthwhile_piece(int64_t rate, int64_t longest)
{
    int64_t piece = 1;
    while (rate * piece * piece < longest)
        piece = piece == 1 ? 2 : piece & (piece - 1) ? piece / 3 * 4 : piece / 2 * 3;
    return piece;
}

/* Sets p->whole if lists of whole tiles take little longer than lists of cut tiles. Sets p->full to
 * the number of parts with as many tiles. `longest` is the number of units of the longest of
 * `count` tiles. */
static void choose_whole(struct batch *p, int64_t count, int64_t longest)
{
    const int64_t each = attn_larger(attn_parts(count, p->n.parts), 1);
    const int64_t most = p->payload + 2 * p->n.item_cost;
    if (p->shape->q_tile && !p->piece && longest + p->n.item_cost <= most / each)
        p->whole = each;
    p->full = count - p->n.parts * (each - 1);
}

/* Sets p->payload. Sets p->piece if each piece of sequences in equal pieces can have a part of its
 * own. Otherwise sets p->whole if lists of whole tiles take little longer than lists of cut
 * tiles. */
static void choose_pieces(struct batch *p)
{
    int64_t units = 0, longest = 0, count = 0;
    for (struct sequence q = first_sequence(); is_there(p, &q); next_sequence(p, &q)) {
        measure(p, &q);
        count++;
        units += q.units;
        longest = attn_larger(longest, q.units);
    }
    const int64_t cost = units + count * p->n.item_cost;
    p->payload = attn_larger(attn_parts(cost, p->n.parts), 2 * p->n.item_cost);
    const int64_t least = worthwhile_piece(p->n.merge_rate, longest);
    const int64_t most = attn_larger(p->payload + p->n.slack, least);
    int64_t piece = attn_larger(attn_parts(units, p->n.parts), least);
    for (; count <= p->n.parts && !p->piece && piece <= most; piece++)
        p->piece = pieces_fit(p, piece) ? piece : 0;
    choose_whole(p, count, longest);
}

/* Sets size, first part and number of pieces of `q`, whose start, item and row are set. */
static void place(const struct batch *p, struct sequence *q)
{
    measure(p, q);
    if (p->piece) {
        q->first = q->item;
        q->length = attn_larger(attn_parts(q->units, count_pieces(q->units, p->piece)), 1);
        q->count = count_pieces(q->units, q->length);
        return;
    }
    if (p->whole) {
        const int64_t after = q->b - p->full * p->whole; /* tiles of parts that are not full */
        q->first = after < 0 ? q->b / p->whole : p->full + after / (p->whole - 1);
        q->count = 1;
        return;
    }
    const int64_t cost = p->n.item_cost, least = p->n.least_piece;
    q->first = (q->start + cost + least - 1) / p->payload;
    if (q->first > p->n.parts - 1)
        q->first = p->n.parts - 1;
    q->count =
        attn_larger((q->start + cost + q->units - least) / p->payload, q->first) - q->first + 1;
}

/* Advances `q` to the next tile or sequence. Adds the cost and the pieces of the present one to
 * start, item and row. */
static void step(const struct batch *p, struct sequence *q)
{
    next_sequence(p, q);
    q->start += q->units + p->n.item_cost;
    q->item += q->count;
    q->row += q->count > 1 ? q->count : 0;
}

/* Returns the number of keys of `q` before its piece `j` (from 0). */
static int64_t cut(const struct batch *p, const struct sequence *q, int64_t j)
{
    if (j == 0)
        return 0;
    if (j == q->count)
        return q->keys;
    const int64_t units =
        p->piece ? j * q->length : (q->first + j) * p->payload - q->start - p->n.item_cost;
    return units * p->n.unit < q->keys ? units * p->n.unit : q->keys;
}

/* Writes a work item for piece `j` of `q` and every KV head to work_info, `info`. */
static void write_item(const struct batch *p, const struct sequence *q, int64_t j, int32_t *info)
{
    const struct attn_decode_plan_shape *s = p->shape;
    const int64_t end = cut(p, q, j + 1);
    const uint32_t group = (uint32_t)(s->heads / s->kv_heads);
    for (int64_t h = 0; h < s->kv_heads; h++) {
        int32_t *out = info + INFO * (h * p->items + q->item + j);
        out[0] = q->of;
        out[1] = q->count == 1 ? -1 : (int32_t)((q->row + j) * p->n.queries);
        out[2] = (int32_t)q->q_start;
        out[3] = (int32_t)q->q_end;
        out[4] = (int32_t)(q->skip + cut(p, q, j));
        out[5] = (int32_t)(q->skip + end);
        out[6] = (int32_t)(q->keys - end);
        out[7] = (int32_t)((uint32_t)h * group | ((uint32_t)h + 1) * group << 16);
    }
}

/* Sets work_indptr, `indptr`, of the lists that begin with part `part` of a KV head: their first
 * work item is item `item` of that head. */
static void begin_lists(const struct batch *p, int64_t part, int64_t item, int32_t *indptr)
{
    const struct attn_decode_plan_shape *s = p->shape;
    for (int64_t h = 0; h < s->kv_heads; h++) {
        const int64_t pair = h * p->n.parts + part;
        if (pair % p->n.pairs_per_list == 0)
            indptr[pair / p->n.pairs_per_list] = (int32_t)(h * p->items + item);
    }
}

/* Writes the rows of the partial results of `q` and the query tokens of its result to the reduce
 * tensors of `plan`. */
static void write_reduction(const struct batch *p, const struct sequence *q,
                            const struct attn_decode_plan *plan)
{
    plan->reduce_indptr[q->b] = (int32_t)q->row;
    plan->reduce_final_map[2 * q->b] = (int32_t)q->q_start;
    plan->reduce_final_map[2 * q->b + 1] = (int32_t)q->q_end;
    for (int64_t j = 0; q->count > 1 && j < q->count; j++)
        plan->reduce_partial_map[q->row + j] = (int32_t)((q->row + j) * p->n.queries);
}

/* Writes empty entries to the reduce tensors for tiles that the shape allows and the batch does not
 * have, and the end of reduce_indptr. `q` is the end of the batch. */
static void end_reduction(const struct batch *p, const struct sequence *q,
                          const struct attn_decode_plan *plan)
{
    const int64_t tiles = attn_plan_tiles(p->shape);
    for (int64_t b = q->b; b < tiles; b++) {
        plan->reduce_indptr[b] = (int32_t)q->row;
        plan->reduce_final_map[2 * b] = plan->reduce_final_map[2 * b + 1] = 0;
    }
    plan->reduce_indptr[tiles] = (int32_t)q->row;
}

/* Writes all tensors of the plan: work items, bounds of the work lists, and the reduce tensors. */
static void write_plan(const struct batch *p, const struct attn_decode_plan *plan)
{
    const struct attn_decode_plan_shape *s = p->shape;
    struct sequence q = first_sequence();
    int64_t part = 0; /* the first part that begin_lists() has not handled */
    while (is_there(p, &q)) {
        place(p, &q);
        for (int64_t j = 0; j < q.count; j++) {
            for (; part <= q.first + j; part++)
                begin_lists(p, part, q.item + j, plan->work_indptr);
            write_item(p, &q, j, plan->work_info);
        }
        write_reduction(p, &q, plan);
        step(p, &q);
    }
    for (; part < p->n.parts; part++)
        begin_lists(p, part, p->items, plan->work_indptr);
    const int64_t per = p->n.pairs_per_list;
    for (int64_t i = (s->kv_heads * p->n.parts + per - 1) / per; i <= s->lists; i++)
        plan->work_indptr[i] = (int32_t)(s->kv_heads * p->items);
    end_reduction(p, &q, plan);
}

/* Sets p->items to the number of work items for each KV head. */
static void count_items(struct batch *p)
{
    struct sequence q = first_sequence();
    while (is_there(p, &q)) {
        place(p, &q);
        step(p, &q);
    }
    p->items = q.item;
}

int64_t attn_plan_tiles(const struct attn_decode_plan_shape *s)
{
    if (!s->q_tile)
        return s->batch;
    const int64_t each = attn_parts(s->q_len, s->q_tile) * s->batch;
    const int64_t all = s->batch + s->tokens / s->q_tile;
    return s->tokens && all < each ? all : each;
}

/* True if a shape's units may have `keys` keys: 0, or a power of two up to USUAL_UNIT. */
static bool is_unit(int32_t keys)
{
    return !keys || (keys >= UNIT_MIN && keys <= USUAL_UNIT && !(keys & (keys - 1)));
}

int attn_plan_check(const struct attn_decode_plan_shape *s)
{
    if (!s || s->size != sizeof(*s))
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "plan: shape is NULL, or shape->size is not what "
                                                  "this library knows");
    if (s->batch < 0 || s->q_len < 1 || s->lists < 1 || s->window < 0)
        return attn_fail(ATTN_BAD_ARGUMENT, "plan: batch %d, q_len %d, lists %d, window %d",
                         s->batch, s->q_len, s->lists, s->window);
    if (s->item_cost < 0 || s->item_cost > CONSTANT_MAX || s->merge_rate < 0 ||
        s->merge_rate > CONSTANT_MAX)
        return attn_fail(ATTN_BAD_ARGUMENT, "plan: item_cost %d, merge_rate %d are not 0 to %d",
                         s->item_cost, s->merge_rate, CONSTANT_MAX);
    if (s->kv_heads < 1 || s->heads < 1 || s->heads % s->kv_heads || s->heads > HEADS_MAX)
        return attn_fail(ATTN_BAD_ARGUMENT,
                         "plan: %d heads are not a multiple of %d kv_heads, or "
                         "above %d",
                         s->heads, s->kv_heads, HEADS_MAX);
    if (s->q_tile < 0 || s->tokens < 0 || s->window_right < -1 || (s->window_right && !s->q_tile))
        return attn_fail(ATTN_BAD_ARGUMENT,
                         "plan: q_tile %d, tokens %d, window_right %d: none may be below 0, but "
                         "for a window_right of -1, and without q_tile that is 0",
                         s->q_tile, s->tokens, s->window_right);
    if (!is_unit(s->unit_keys) || (s->unit_keys && s->q_tile))
        return attn_fail(ATTN_BAD_ARGUMENT,
                         "plan: unit_keys %d is not 0, or without q_tile 16, 32 or 64",
                         s->unit_keys);
    const int64_t pieces = attn_plan_tiles(s) + parts_of(s) - 1;
    if (pieces * s->kv_heads > INT32_MAX || pieces * attn_plan_numbers(s).queries > INT32_MAX)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "plan: more than 2^31 items or partial rows");
    return ATTN_OK;
}

/* Copies the caller's shape `given` to `known` and checks it. Returns ATTN_OK or
 * ATTN_BAD_ARGUMENT. */
static int adopt_shape(const struct attn_decode_plan_shape *given,
                       struct attn_decode_plan_shape *known)
{
    if (!given)
        return attn_plan_check(given);
    const int r = attn_adopt_named("plan: shape", known, sizeof(*known), given);
    return r ? r : attn_plan_check(known);
}

ATTN_PUBLIC int attn_decode_plan_sizes(const struct attn_decode_plan_shape *given,
                                       struct attn_decode_plan_sizes *sizes)
{
    struct attn_decode_plan_shape known;
    const struct attn_decode_plan_shape *const shape = &known;
    int r = adopt_shape(given, &known);
    if (r)
        return r;
    if (!sizes)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "plan: sizes is NULL");
    const int64_t parts = parts_of(shape), tiles = attn_plan_tiles(shape);
    const int64_t pieces = tiles + parts - 1;
    const int64_t partials = pieces < 2 * (parts - 1) ? pieces : 2 * (parts - 1);
    *sizes = (struct attn_decode_plan_sizes){
        .work_items = (int32_t)(shape->batch ? pieces * shape->kv_heads : 0),
        .partials = (int32_t)(shape->batch ? partials : 0),
        .partial_rows = (int32_t)(shape->batch ? partials * attn_plan_numbers(shape).queries : 0),
        .tiles = (int32_t)tiles,
    };
    return ATTN_OK;
}

ATTN_PUBLIC int attn_decode_plan_place(const struct attn_decode_plan_shape *given, void *memory,
                                       size_t *bytes, struct attn_decode_plan *plan)
{
    enum { ALIGN = 16 };
    struct attn_decode_plan_shape shape;
    struct attn_decode_plan_sizes sizes;
    struct attn_decode_plan placed = {0};
    int r = adopt_shape(given, &shape);
    if (!r)
        r = attn_decode_plan_sizes(given, &sizes);
    if (r)
        return r;
    if (!bytes || (memory && !plan) || (uintptr_t)memory % ALIGN)
        return attn_fail_fixed(
            ATTN_BAD_ARGUMENT,
            "plan: bytes is NULL, or plan is, or memory is not aligned to 16 bytes");
    const struct {
        int32_t **tensor;
        size_t count; /* number of integers in the tensor */
    } rows[] = {
        {&placed.work_indptr, (size_t)shape.lists + 1},
        {&placed.work_info, 8 * (size_t)sizes.work_items},
        {&placed.reduce_indptr, (size_t)sizes.tiles + 1},
        {&placed.reduce_final_map, 2 * (size_t)sizes.tiles},
        {&placed.reduce_partial_map, (size_t)sizes.partials},
        {&placed.tile_info, shape.q_tile ? 5 * (size_t)sizes.tiles : 0},
    };
    *bytes = 0;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (memory)
            *rows[i].tensor = (int32_t *)((char *)memory + *bytes);
        /* At least one integer, so that no two tensors are at one address. */
        *bytes += ((rows[i].count ? rows[i].count : 1) * sizeof(int32_t) + ALIGN - 1) &
                  ~(size_t)(ALIGN - 1);
    }
    if (!shape.q_tile)
        placed.tile_info = NULL;
    if (plan)
        *plan = placed;
    return ATTN_OK;
}

ATTN_PUBLIC int attn_decode_plan(const struct attn_decode_plan_shape *given,
                                 const struct attn_decode_plan_lengths *lengths,
                                 const struct attn_decode_plan *plan)
{
    struct attn_decode_plan_shape known;
    const struct attn_decode_plan_shape *const shape = &known;
    int r = adopt_shape(given, &known);
    if (r)
        return r;
    if (!plan || !plan->work_indptr || !plan->work_info || !plan->reduce_indptr ||
        !plan->reduce_final_map || !plan->reduce_partial_map)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "plan: plan or a tensor of it is NULL");
    if (shape->batch && (!lengths || !lengths->kv_lens))
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "plan: lengths or lengths->kv_lens is NULL");
    struct batch p = {.shape = shape, .lengths = lengths, .n = attn_plan_numbers(shape)};
    choose_pieces(&p);
    count_items(&p);
    write_plan(&p, plan);
    return ATTN_OK;
}

/* Most parts of a KV head for the plan kernel. It keeps two counts over 64 sequences in one
 * register, so 64 + parts must be below 2^16. */
enum { PARTS_MAX = 65536 - 64 - 1 };

int attn_plan_fill(const struct attn_plan_desc *d, const struct attn_plan_args *a,
                   union attn_value *v)
{
    (void)d;
    const struct attn_plan_numbers n = attn_plan_numbers(&a->shape);
    if (n.parts > PARTS_MAX)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "plan: more than 65471 lists for a kv head");
    v[ATTN_ARG_PARTS].i64 = n.parts;
    v[ATTN_ARG_PAIRS_PER_LIST].i64 = n.pairs_per_list;
    v[ATTN_ARG_REACH].i64 = n.reach;
    v[ATTN_ARG_ITEM_COST].i64 = n.item_cost;
    v[ATTN_ARG_MERGE_RATE].i64 = n.merge_rate;
    v[ATTN_ARG_SLACK].i64 = n.slack;
    v[ATTN_ARG_UNIT_BITS].i64 = __builtin_ctzll((unsigned long long)n.unit);
    v[ATTN_ARG_MOST_TILES].i64 = attn_plan_tiles(&a->shape);
    return ATTN_OK;
}
