/* SPDX-License-Identifier: Apache-2.0
 *
 * Verification of shared_lists kernels: compares every entry and every bit of the mask. Both follow
 * from the groups that each query of a tile chose.
 */
#include "tools/verify/call.h"

/* Flags of a shape. */
enum {
    NEAR = 1 << 0,   /* queries of a tile choose nearly the same groups */
    SHARE = 1 << 1,  /* several tiles belong to one sequence, given by tile_sequences */
    UNEVEN = 1 << 2, /* tiles have from 0 to `queries` queries */
    NONE = 1 << 3,   /* some queries choose nothing, and some see nothing */
    /* queries also choose groups after their last token, which lists must leave out */
    BEYOND = 1 << 4,
    /* lists have entries for half of the chosen groups, and for a part of one more */
    FULL = 1 << 5,
};

/* The shapes on which kernels are verified. */
static const struct shape {
    struct verify_shape is;
    int tiles, queries; /* tiles: number of tiles; queries: largest number of queries of a tile */
    int kv_heads, most; /* most: number of tokens that the last query of the first tile sees */
    int ratio;          /* tokens of a group */
    int group_entries;  /* pages of a group */
    int top_k;          /* largest number of groups that a query chooses */
} shapes[] = {
    {{"blocks of MiniMax-M3", NEAR | SHARE}, 5, 8, 1, 9000, 128, 1, 16},
    {{"small pages, KV heads", SHARE | VERIFY_VIEWS}, 3, 16, 3, 5000, 128, 8, 16},
    {{"uneven tiles", UNEVEN | NONE | BEYOND}, 9, 8, 2, 3000, 64, 1, 70},
    {{"a long context", NEAR | NONE}, 1, 3, 1, 1048576, 128, 1, 40},
    {{"a query each", BEYOND}, 4, 1, 1, 700, 192, 1, 3},
    {{"full lists", FULL}, 3, 4, 2, 2000, 64, 4, 9},
};

/* The shape with which a trace begins. */
static const struct shape traced = {{"trace", NEAR}, 256, 8, 1, 16384, 128, 1, 16};

/* The data of a call, in call->own. */
struct own {
    int32_t *first; /* [tiles + 1]: first query of each tile, argument cu_tiles */
    int32_t *lens;  /* [queries]: tokens that each query sees, argument kv_lens */
    /* [rows, top_k]: groups that each row, a query and KV head, has chosen */
    int32_t *chosen;
    int32_t *counts;        /* [rows]: number of groups that each row has chosen */
    int sequences, columns; /* rows and columns of block_table */
};

/* Returns the sequence of a tile. */
static int sequence_of(const struct call *c, int tile)
{
    const struct own *own = c->own;
    return call_has(c, SHARE) ? (tile * 2 + 1) % own->sequences : tile;
}

/* Returns the number of groups that a query sees which sees `tokens` tokens. */
static int groups_of(const struct shape *s, int tokens)
{
    return (tokens + s->ratio - 1) / s->ratio;
}

/* Returns the number of pages that a query sees which sees `tokens` tokens. */
static int pages_of(const struct shape *s, int tokens)
{
    const int page = s->ratio / s->group_entries;
    return (tokens + page - 1) / page;
}

/* Sets the first query of each tile, and the number of tokens that each query sees: one more than
 * the query before it. */
static void make_tiles(struct call *c)
{
    const struct shape *s = c->shape;
    struct own *own = c->own;
    own->first = call_allocate(c, (size_t)s->tiles + 1, sizeof(int32_t));
    own->lens = call_allocate(c, (size_t)(s->tiles * s->queries), sizeof(int32_t));
    for (int i = 0; i < s->tiles; i++) {
        const int own_queries = call_has(c, UNEVEN) ? (i * 5 + 3) % (s->queries + 1) : s->queries;
        const int more = (int)(random_bits(&c->random) % (unsigned)s->most);
        const int last = i == 0 || c->traced ? s->most : 1 + more;
        own->first[i + 1] = own->first[i] + own_queries;
        for (int q = own->first[i]; q < own->first[i + 1]; q++) {
            const int tokens = last - (own->first[i + 1] - 1 - q);
            own->lens[q] = call_has(c, NONE) && i % 4 == 3 ? -(q % 2) : tokens > 0 ? tokens : 0;
        }
    }
}

/* Chooses groups of a row: up to top_k different ones. With NEAR most are the ones that other
 * queries of the tile choose. */
static void choose(struct call *c, int q, int row)
{
    const struct shape *s = c->shape;
    struct own *own = c->own;
    int32_t *chosen = own->chosen + (size_t)row * (size_t)s->top_k;
    const int groups =
        groups_of(s, own->lens[q] > 0 ? own->lens[q] : 0) + (call_has(c, BEYOND) ? 2 : 0);
    int n = 0;
    for (int g = groups - 1; g >= 0 && n < s->top_k; g--) {
        const bool shared = (unsigned)g * 2654435761u >> 29 == 0;
        const bool own_choice = random_bits(&c->random) % 16 == 0;
        if (g >= groups - 1 - 2 * call_has(c, BEYOND) || g < s->top_k - n ||
            (call_has(c, NEAR) ? shared || own_choice : random_bits(&c->random) % 3 == 0))
            chosen[n++] = g;
    }
    for (int i = 0; i < n / 2; i++) {
        const int32_t low = chosen[i];
        chosen[i] = chosen[n - 1 - i];
        chosen[n - 1 - i] = low;
    }
    own->counts[row] = call_has(c, NONE) && q % 3 == 1 ? 0 : n;
}

/* True if query q chose group g for a KV head. */
static bool has_chosen(const struct call *c, int q, int head, int g)
{
    const struct shape *s = c->shape;
    const struct own *own = c->own;
    const int row = q * s->kv_heads + head;
    const int32_t *chosen = own->chosen + (size_t)row * (size_t)s->top_k;
    for (int i = 0; i < own->counts[row]; i++)
        if (chosen[i] == g)
            return true;
    return false;
}

/* Returns the number of integers in a mask's row for a list of `tokens` tokens: one for the tokens
 * that the query sees, and a bit for each 64 tokens. */
static int mask_words(int tokens) { return 1 + (tokens + 2047) / 2048; }

/* Sets the sizes in the call's descriptor and arguments from the shape: struct verify_op.size. */
static void size(struct call *c)
{
    const struct shape *s = c->shape;
    struct attn_shared_lists_args *a = &c->args.shared_lists;
    struct own *own = c->own;
    const int all = groups_of(s, s->most) < s->queries * s->top_k ? groups_of(s, s->most)
                                                                  : s->queries * s->top_k;
    make_tiles(c);
    a->tiles = s->tiles;
    a->queries = own->first[s->tiles];
    a->kv_heads = s->kv_heads;
    a->rows = a->queries * s->kv_heads;
    a->top_k = s->top_k;
    a->entries = call_has(c, FULL) ? (all / 2 + 1) * s->group_entries - 1 : all * s->group_entries;
    a->mask_stride = s->queries * mask_words(all * s->ratio);
    a->ratio = s->ratio;
    a->group_entries = s->group_entries;
    own->chosen = call_allocate(c, (size_t)a->rows * (size_t)s->top_k, sizeof(int32_t));
    own->counts = call_allocate(c, (size_t)a->rows, sizeof(int32_t));
    own->sequences = call_has(c, SHARE) ? 3 : s->tiles;
    own->columns = pages_of(s, s->most);
}

/* Sets sizes and strides of tensors, and omits optional ones: struct verify_op.place. */
static void place(struct call *c)
{
    const struct own *own = c->own;
    operand_resize(call_operand(c, SHARED_LISTS_BLOCK_TABLE), 0, own->sequences);
    operand_resize(call_operand(c, SHARED_LISTS_BLOCK_TABLE), 1, own->columns);
    if (!call_has(c, SHARE))
        operand_leave_out(call_operand(c, SHARED_LISTS_TILE_SEQUENCES));
}

/* Sets the contents of the input tensors: struct verify_op.fill. */
static void fill(struct call *c)
{
    const struct shape *s = c->shape;
    struct own *own = c->own;
    operand_set_ints(call_operand(c, SHARED_LISTS_CU_TILES), own->first, s->tiles + 1);
    operand_set_ints(call_operand(c, SHARED_LISTS_KV_LENS), own->lens, own->first[s->tiles]);
    for (int q = 0; q < own->first[s->tiles]; q++)
        for (int h = 0; h < s->kv_heads; h++) {
            const int row = q * s->kv_heads + h;
            choose(c, q, row);
            operand_set_int(call_operand(c, SHARED_LISTS_COUNTS), AT(row), own->counts[row]);
            for (int i = 0; i < s->top_k; i++)
                operand_set_int(call_operand(c, SHARED_LISTS_CHOSEN), AT(row, i),
                                i < own->counts[row]
                                    ? own->chosen[(size_t)row * (size_t)s->top_k + (size_t)i]
                                    : INT32_MAX);
        }
    for (int i = 0; i < own->sequences; i++)
        for (int j = 0; j < own->columns; j++)
            operand_set_int(call_operand(c, SHARED_LISTS_BLOCK_TABLE), AT(i, j),
                            (int64_t)(random_bits(&c->random) % 100000));
    for (int i = 0; call_has(c, SHARE) && i < s->tiles; i++)
        operand_set_int(call_operand(c, SHARED_LISTS_TILE_SEQUENCES), AT(i), sequence_of(c, i));
}

/* Compares the mask's row of query t of a tile. `groups` has the groups of the tile's list, which
 * has `tokens` tokens. */
static void compare_row(struct call *c, int tile, int head, int t, const int *groups, int tokens)
{
    const struct shape *s = c->shape;
    const struct own *own = c->own;
    const int words = mask_words(tokens), query = own->first[tile] + t;
    int sees = 0;
    uint32_t *want = call_allocate(c, (size_t)words, sizeof(*want));
    for (int j = 0; j < tokens; j++) {
        const int group = groups[j / s->ratio];
        sees += group * s->ratio + j % s->ratio < own->lens[query];
        if (has_chosen(c, query, head, group))
            want[1 + j / 2048] |= 1u << j / 64 % 32;
    }
    want[0] = (uint32_t)sees;
    for (int i = 0; i < words; i++)
        call_compare_int(c, call_operand(c, SHARED_LISTS_MASK), AT(head, tile, t * words + i),
                         (int32_t)want[i]);
}

/* Compares a tile's list for a KV head, its length, and its mask. */
static void compare_tile(struct call *c, int tile, int head)
{
    const struct shape *s = c->shape;
    const struct own *own = c->own;
    const int first = own->first[tile], n = own->first[tile + 1] - first;
    const int most = n && own->lens[first + n - 1] > 0 ? own->lens[first + n - 1] : 0;
    const int sequence = sequence_of(c, tile);
    const int room = c->args.shared_lists.entries / s->group_entries; /* groups */
    int *groups = call_allocate(c, (size_t)groups_of(s, most) + 1, sizeof(*groups));
    int count = 0;
    for (int g = 0; g < groups_of(s, most) && count < room; g++) {
        bool is_chosen = false;
        for (int t = 0; t < n && !is_chosen; t++)
            is_chosen = has_chosen(c, first + t, head, g);
        if (is_chosen)
            groups[count++] = g;
    }
    const int end = count ? (groups[count - 1] + 1) * s->ratio : 0;
    const int tokens = count * s->ratio - (end > most ? end - most : 0);
    call_compare_int(c, call_operand(c, SHARED_LISTS_LIST_LENS), AT(head, tile), tokens);
    for (int i = 0; i < count * s->group_entries; i++) {
        const int entry = groups[i / s->group_entries] * s->group_entries + i % s->group_entries;
        if (entry >= pages_of(s, most))
            break;
        call_compare_int(
            c, call_operand(c, SHARED_LISTS_LISTS), AT(head, tile, i),
            operand_int(call_operand(c, SHARED_LISTS_BLOCK_TABLE), AT(sequence, entry)));
    }
    for (int t = 0; t < n; t++)
        compare_row(c, tile, head, t, groups, tokens);
}

/* Compares the lists of all tiles and KV heads. */
static void compare(struct call *c)
{
    const struct shape *s = c->shape;
    for (int h = 0; h < s->kv_heads; h++)
        for (int i = 0; i < s->tiles && !c->row->fault[0]; i++)
            compare_tile(c, i, h);
}

/* Returns the bytes of chosen groups, and of the mask for tiles whose queries all chose the same
 * groups. */
static double least_bytes(const struct call *c)
{
    const struct shape *s = c->shape;
    return (double)c->args.shared_lists.rows *
           (s->top_k * 4.0 + mask_words(s->top_k * s->ratio) * 4.0);
}

const struct verify_op verify_shared_lists = {
    .op = "shared_lists",
    VERIFY_SHAPES(shapes),
    .trace = &traced,
    .dimensions =
        {
            {"tiles", offsetof(struct shape, tiles), 1 << 14, "tiles of queries"},
            {"queries", offsetof(struct shape, queries), 16, "queries of a tile"},
            {"keys", offsetof(struct shape, most), 1 << 20, "tokens that a query sees"},
            {"top_k", offsetof(struct shape, top_k), 511, "groups that are chosen"},
            {"ratio", offsetof(struct shape, ratio), 4096, "tokens of a group"},
            {"kv_heads", offsetof(struct shape, kv_heads), 64, "each with lists of its own"},
        },
    .own_size = sizeof(struct own),
    .size = size,
    .place = place,
    .fill = fill,
    .compare = compare,
    .least_bytes = least_bytes,
};
