/* SPDX-License-Identifier: Apache-2.0
 *
 * Verification of chosen_lists kernels: every entry of a list equals the reference's, and no other
 * entry is written.
 */
#include "tools/reference/chosen_lists.h"
#include "tools/verify/call.h"

/* number of the slot of the second source's first row */
enum { SECOND = 70000 };

/* Flags of a shape. */
enum {
    /* Flags of a shape. */
    ALL = 1 << 0,   /* chosen is NULL: all complete groups */
    OPEN = 1 << 1,  /* argument open_group is true: lists include the incomplete newest group */
    ENDS = 1 << 2,  /* the newest group of each row is chosen too, even if it is incomplete */
    SHARE = 1 << 3, /* several rows belong to one sequence, given by row_sequences */
    SHORT = 1 << 4, /* some lists do not fit into their rows */
    PADS = 1 << 5,  /* some queries see nothing, or a negative number of tokens */
    FRESH = 1 << 6, /* the newest tokens of a window are in the second source */
};

/* The shapes on which kernels are verified. */
static const struct shape {
    struct verify_shape is;
    int queries, kv_heads, most; /* most: largest number of tokens that a query sees */
    /* Tokens of a group; entries of a group in a list; entries of a page; chosen groups; tokens of
     * the window; rows of the window's ring. */
    int ratio, group_entries, page_entries, top_k, window, ring;
} shapes[] = {
    {{"pages of blocks", OPEN | ENDS}, 5, 1, 9000, 128, 1, 1, 16, 0, 0},
    {{"small pages of blocks", OPEN | ENDS | SHARE}, 7, 2, 5000, 128, 8, 1, 16, 0, 0},
    {{"pools and the open one", OPEN | PADS}, 9, 1, 3000, 4, 1, 4, 512, 0, 0},
    {{"pools of short lists", OPEN | VERIFY_VIEWS}, 6, 3, 30, 4, 1, 16, 64, 0, 0},
    {{"rows and a window", SHARE | PADS | FRESH}, 8, 1, 4000, 4, 1, 64, 512, 128, 134},
    {{"every row and a window", ALL}, 4, 1, 20000, 128, 1, 2, 0, 128, 128},
    {{"a window alone", ALL | VERIFY_VIEWS}, 6, 1, 300, 4096, 1, 1, 0, 128, 131},
    {{"a chunk's own rows", ALL | FRESH}, 150, 1, 300, 4, 1, 16, 0, 128, 131},
    {{"no room", SHORT | SHARE}, 5, 1, 4000, 2, 1, 16, 600, 16, 16},
    {{"tokens", ALL}, 3, 1, 2000, 1, 1, 16, 0, 0, 0},
};

/* The shape with which a trace begins. */
static const struct shape traced = {{"trace", 0}, 64, 1, 100000, 4, 1, 64, 512, 128, 134};

/* The data of a call, in call->own. */
struct own {
    struct ref_chosen *rows; /* [rows]: the reference's input for each row, a query and KV head */
    int32_t *list;           /* [entries]: the expected list of a row */
    int sequences, columns;  /* of block_table */
};

/* Returns the sequence of a query. */
static int sequence_of(const struct call *c, int query)
{
    const struct own *own = c->own;
    return call_has(c, SHARE) ? (query * 2 + 1) % own->sequences : query;
}

/* Returns a random number of tokens that a query sees. Called once for each query. */
static int tokens_of(struct call *c, int query)
{
    const struct shape *s = c->shape;
    if (call_has(c, PADS) && query % 3 == 1)
        return -(query % 2);
    if (query == 0)
        return s->most;
    return 1 + (int)(random_bits(&c->random) % (unsigned)s->most);
}

/* Returns the largest number of entries that a sequence's complete groups have; with OPEN, that all
 * groups have. */
static int entries_of(const struct call *c)
{
    const struct shape *s = c->shape;
    if (!call_has(c, OPEN))
        return s->most / s->ratio * s->group_entries;
    const int each = s->ratio / s->group_entries; /* tokens of an entry */
    return (s->most + each - 1) / each;
}

/* Sets the sizes in the call's descriptor and arguments from the shape: struct verify_op.size. */
static void size(struct call *c)
{
    const struct shape *s = c->shape;
    struct attn_chosen_lists_args *a = &c->args.chosen_lists;
    struct own *own = c->own;
    const int most = call_has(c, ALL) ? s->most / s->ratio : s->top_k;
    a->queries = s->queries;
    a->kv_heads = s->kv_heads;
    a->rows = s->queries * s->kv_heads;
    a->top_k = s->top_k;
    a->ratio = s->ratio;
    a->group_entries = s->group_entries;
    a->page_entries = s->page_entries;
    a->window = s->window;
    a->ring = s->ring;
    a->window_first = 1000;
    a->window_stride = 200;
    a->open_group = call_has(c, OPEN);
    a->second_first = SECOND;
    a->entries = call_has(c, SHORT) ? 100 : (most + 1) * s->group_entries + s->window;
    own->sequences = call_has(c, SHARE) ? 3 : s->queries;
    own->columns = entries_of(c) / s->page_entries + (entries_of(c) % s->page_entries != 0);
    own->columns += own->columns == 0; /* a table has at least one column */
}

/* Sets sizes and strides of tensors, and omits optional ones: struct verify_op.place. */
static void place(struct call *c)
{
    const struct own *own = c->own;
    operand_resize(call_operand(c, CHOSEN_LISTS_BLOCK_TABLE), 0, own->sequences);
    operand_resize(call_operand(c, CHOSEN_LISTS_BLOCK_TABLE), 1, own->columns);
    if (call_operand(c, CHOSEN_LISTS_WINDOW_SLOTS)->given)
        operand_resize(call_operand(c, CHOSEN_LISTS_WINDOW_SLOTS), 0, own->sequences);
    if (call_has(c, ALL)) {
        operand_leave_out(call_operand(c, CHOSEN_LISTS_CHOSEN));
        operand_leave_out(call_operand(c, CHOSEN_LISTS_COUNTS));
    }
    if (!call_has(c, FRESH))
        operand_leave_out(call_operand(c, CHOSEN_LISTS_NEW_LENS));
    if (!call_has(c, SHARE))
        operand_leave_out(call_operand(c, CHOSEN_LISTS_ROW_SEQUENCES));
}

/* Chooses up to top_k of a row's groups, each with the same probability. With ENDS, an incomplete
 * newest group is always one of them. */
static void choose(struct call *c, struct ref_chosen *row, int32_t *chosen)
{
    const struct shape *s = c->shape;
    const int complete = row->tokens / s->ratio;
    const bool rest = call_has(c, ENDS) && row->tokens % s->ratio;
    const int groups = complete + rest;
    row->chosen = chosen;
    for (int g = 0; g < groups; g++) {
        const int room = s->top_k - row->count, left = groups - g;
        if (left <= room || (int)(random_bits(&c->random) % (unsigned)left) < room ||
            (rest && g == groups - 1 && room > 0))
            chosen[row->count++] = g;
    }
    /* The newest group replaces the last one if there is no room. */
    if (rest && row->count && chosen[row->count - 1] != complete)
        chosen[row->count - 1] = complete;
}

/* Fills the chosen groups of row `r`. */
static void fill_row(struct call *c, int r)
{
    const struct shape *s = c->shape;
    struct own *own = c->own;
    struct ref_chosen *row = &own->rows[r];
    struct operand *chosen = call_operand(c, CHOSEN_LISTS_CHOSEN);
    if (call_has(c, ALL))
        return;
    choose(c, row, call_allocate(c, (size_t)s->top_k, sizeof(int32_t)));
    operand_set_int(call_operand(c, CHOSEN_LISTS_COUNTS), AT(r), row->count);
    for (int g = 0; g < s->top_k; g++)
        operand_set_int(chosen, AT(r, g), g < row->count ? row->chosen[g] : -1);
}

/* Fills the block table and the window's slots of each sequence. */
static void fill_tables(struct call *c)
{
    const struct own *own = c->own;
    struct operand *slots = call_operand(c, CHOSEN_LISTS_WINDOW_SLOTS);
    for (int q = 0; q < own->sequences; q++) {
        if (slots->given)
            operand_set_int(slots, AT(q), (q * 5 + 2) % 11);
        for (int i = 0; i < own->columns; i++)
            operand_set_int(call_operand(c, CHOSEN_LISTS_BLOCK_TABLE), AT(q, i),
                            (int64_t)(random_bits(&c->random) % 100000));
    }
}

/* Returns a copy of a sequence's row of block_table for the reference. */
static const int32_t *read_table(struct call *c, int sequence)
{
    const struct own *own = c->own;
    int32_t *table = call_allocate(c, (size_t)own->columns, sizeof(*table));
    for (int i = 0; i < own->columns; i++)
        table[i] = (int32_t)operand_int(call_operand(c, CHOSEN_LISTS_BLOCK_TABLE), AT(sequence, i));
    return table;
}

/* Returns the number of tokens of query q that are in the second source: one for the query and one
 * for each query before it, or 0 for every fifth query. The number may exceed the window. */
static int fresh_of(int q, int tokens)
{
    const int n = q % 5 == 4 ? 0 : q + 1;
    return n < tokens ? n : tokens > 0 ? tokens : 0;
}

/* Fills the tables, lengths and chosen groups of all rows. */
static void fill(struct call *c)
{
    const struct shape *s = c->shape;
    struct own *own = c->own;
    own->rows = call_allocate(c, (size_t)c->args.chosen_lists.rows, sizeof(*own->rows));
    own->list = call_allocate(c, (size_t)c->args.chosen_lists.entries, sizeof(*own->list));
    fill_tables(c);
    for (int q = 0; q < s->queries; q++) {
        const int tokens = tokens_of(c, q), sequence = sequence_of(c, q);
        operand_set_int(call_operand(c, CHOSEN_LISTS_KV_LENS), AT(q), tokens);
        if (call_has(c, SHARE))
            operand_set_int(call_operand(c, CHOSEN_LISTS_ROW_SEQUENCES), AT(q), sequence);
        if (call_has(c, FRESH))
            operand_set_int(call_operand(c, CHOSEN_LISTS_NEW_LENS), AT(q), fresh_of(q, tokens));
        const int32_t *table = read_table(c, sequence);
        for (int h = 0; h < s->kv_heads; h++) {
            const int r = q * s->kv_heads + h;
            own->rows[r] = (struct ref_chosen){
                .tokens = tokens > 0 ? tokens : 0,
                .ratio = s->ratio,
                .group_entries = s->group_entries,
                .open_group = call_has(c, OPEN),
                .table = table,
                .page_entries = s->page_entries,
                .kv_heads = s->kv_heads,
                .head = h,
                .window = s->window,
                .ring = s->ring,
                .first_row = 1000 + (sequence * 5 + 2) % 11 * 200,
                .fresh = call_has(c, FRESH) ? fresh_of(q, tokens) : 0,
                .own_row = SECOND + q,
            };
            fill_row(c, r);
        }
    }
}

/* Compares the list of each row and its length with the reference. */
static void compare(struct call *c)
{
    const struct own *own = c->own;
    const int room = c->args.chosen_lists.entries;
    for (int r = 0; r < c->args.chosen_lists.rows; r++) {
        int length;
        const int n = ref_chosen_list(&own->rows[r], own->list, room, &length);
        for (int i = 0; i < n && i < room; i++)
            call_compare_int(c, call_operand(c, CHOSEN_LISTS_LISTS), AT(r, i), own->list[i]);
        call_compare_int(c, call_operand(c, CHOSEN_LISTS_LIST_LENS), AT(r), length);
    }
}

/* Returns the bytes of chosen groups, of the page numbers that are read, and of the lists. */
static double least_bytes(const struct call *c)
{
    const struct shape *s = c->shape;
    return 4.0 * c->args.chosen_lists.rows * (3.0 * s->top_k + s->window);
}

const struct verify_op verify_chosen_lists = {
    .op = "chosen_lists",
    VERIFY_SHAPES(shapes),
    .trace = &traced,
    .dimensions =
        {
            {"queries", offsetof(struct shape, queries), 1 << 14, "rows of lists"},
            {"keys", offsetof(struct shape, most), 1 << 20, "tokens that a query sees"},
            {"top_k", offsetof(struct shape, top_k), 4096, "groups that are chosen"},
            {"ratio", offsetof(struct shape, ratio), 1 << 20, "tokens of a group"},
            {"kv_heads", offsetof(struct shape, kv_heads), 64, "each with lists of its own"},
        },
    .own_size = sizeof(struct own),
    .size = size,
    .place = place,
    .fill = fill,
    .compare = compare,
    .least_bytes = least_bytes,
};
