/* SPDX-License-Identifier: Apache-2.0
 *
 * Verification of metadata kernels: every integer must equal the reference's, and no other may be
 * written.
 */
#include "tools/reference/metadata.h"
#include "tools/verify/call.h"

/* Largest number of tokens by which a shape advances sequences. */
enum { ADVANCE_MAX = 4 };

/* Flags of a shape. */
enum {
    SLOTS = 1 << 0, /* the table has the slot of each token and not of each page */
    /* the call passes request_rows: rows of the table are in another order than sequences */
    ROWS = 1 << 1,
    START = 1 << 2,    /* the call passes kv_start */
    ZEROS = 1 << 3,    /* some sequences are padding: their lengths are 0 or negative */
    FAR = 1 << 4,      /* pages have such large numbers that slots exceed 2^32 */
    SHORT = 1 << 5,    /* lists have room for fewer entries than some sequences have */
    EQUAL = 1 << 6,    /* all sequences have the same number of keys */
    IN_ORDER = 1 << 7, /* pages are consecutive, and none is unused after the last */
    ALONE = 1 << 8,    /* the call has no output of positions */
};

/* The shapes. A wave handles 64 sequences, or 512 entries of one sequence. */
static const struct shape {
    struct verify_shape is;
    /* Sequences; largest number of keys; tokens of a page; tokens by which sequences advance. */
    int batch, keys, page_size, advance;
} shapes[] = {
    {{"one", ALONE}, 1, 1, 16, 1},
    {{"tokens", ROWS | START | VERIFY_VIEWS}, 5, 700, 1, 0},
    {{"slots", SLOTS | ROWS}, 7, 3000, 48, 1},
    {{"pages", ZEROS}, 64, 900, 16, 1},
    {{"long", START}, 3, 40000, 544, 2},
    {{"padded", ZEROS | ROWS | VERIFY_VIEWS}, 200, 300, 272, 1},
    {{"far", FAR}, 65, 3000, 1024, 3},
    {{"short", SHORT | VERIFY_VIEWS}, 4, 9000, 16, 1},
    {{"large batch", ZEROS | SLOTS}, 512, 500, 128, 1},
};

/* The shape with which a trace begins. */
static const struct shape traced = {{"trace", EQUAL | IN_ORDER | ALONE}, 64, 4096, 16, 0};

/* The data of a call, in call->own. */
struct own {
    /* [batch]: number of keys of each sequence, and its first key */
    int32_t *kv_lens, *kv_start;
    int32_t *indptr; /* prefix sums of the sequences' numbers of pages */
    int64_t columns; /* columns of block_table */
    /* expected results */
    struct ref_metadata reference;
};

/* Sets the length, the start and the number of pages of each sequence. */
static void make_lengths(struct call *c)
{
    const struct shape *s = c->shape;
    struct own *own = c->own;
    own->kv_lens = call_allocate(c, (size_t)s->batch, sizeof(*own->kv_lens));
    own->kv_start = call_allocate(c, (size_t)s->batch, sizeof(*own->kv_start));
    own->indptr = call_allocate(c, (size_t)s->batch + 1, sizeof(*own->indptr));
    for (int i = 0; i < s->batch; i++) {
        const bool none = call_has(c, ZEROS) && random_bits(&c->random) % 3 == 0;
        own->kv_lens[i] = call_has(c, EQUAL) ? s->keys
                          : none ? -(int32_t)(random_bits(&c->random) & 1)
                                 : 1 + (int32_t)(random_bits(&c->random) % (unsigned)s->keys);
        own->kv_start[i] = (int32_t)(random_bits(&c->random) % 7);
    }
    own->reference = (struct ref_metadata){
        .batch = s->batch,
        .page_size = s->page_size,
        .advance = s->advance,
        .kv_lens = own->kv_lens,
        .slots = call_has(c, SLOTS),
    };
    for (int i = 0; i < s->batch; i++)
        own->indptr[i + 1] = ref_metadata_indptr(&own->reference, i + 1);
}

/* Sets the sizes in the call's descriptor and arguments from the shape: struct verify_op.size. */
static void size(struct call *c)
{
    const struct shape *s = c->shape;
    struct attn_metadata_args *a = &c->args.metadata;
    struct own *own = c->own;
    const int whole = s->keys / s->page_size, pages = (s->keys + s->page_size - 1) / s->page_size;
    a->batch = s->batch;
    a->page_size = s->page_size;
    a->advance = s->advance;
    a->entries = call_has(c, IN_ORDER) ? pages : (whole + 1) / (call_has(c, SHORT) ? 3 : 1);
    a->table_of_slots = call_has(c, SLOTS);
    own->columns = (whole + 9 + ADVANCE_MAX) * (call_has(c, SLOTS) ? s->page_size : 1) + 3;
    if (call_has(c, IN_ORDER))
        own->columns = pages;
    make_lengths(c);
}

/* Sets sizes and strides of tensors, and omits optional ones: struct verify_op.place. */
static void place(struct call *c)
{
    const struct own *own = c->own;
    operand_resize(call_operand(c, METADATA_BLOCK_TABLE), 0, c->args.metadata.batch);
    operand_resize(call_operand(c, METADATA_BLOCK_TABLE), 1, own->columns);
    operand_resize(call_operand(c, METADATA_KV_INDICES), 0, own->indptr[c->args.metadata.batch]);
    if (call_has(c, ALONE))
        operand_leave_out(call_operand(c, METADATA_POSITIONS));
    if (!call_has(c, ROWS))
        operand_leave_out(call_operand(c, METADATA_REQUEST_ROWS));
    if (!call_has(c, START))
        operand_leave_out(call_operand(c, METADATA_KV_START));
}

/* The functions from here on fill the inputs of a call. */

/* Sets element `i` of an operand of integers, if it is given. */
static void set_int(struct call *c, unsigned number, int64_t i, int64_t value)
{
    struct operand *o = call_operand(c, number);
    if (o->given)
        operand_set_int(o, AT(i), value);
}

/* Fills the lengths and rows of the sequences. */
static void fill_lengths(struct call *c)
{
    const struct own *own = c->own;
    const int batch = c->args.metadata.batch;
    for (int i = 0; i < batch; i++) {
        set_int(c, METADATA_KV_LENS, i, own->kv_lens[i]);
        set_int(c, METADATA_KV_START, i, own->kv_start[i]);
        set_int(c, METADATA_REQUEST_ROWS, i, batch - 1 - i);
    }
    for (int i = 0; i <= batch && c->desc.metadata.kind == ATTN_METADATA_KV_INDICES; i++)
        set_int(c, METADATA_KV_INDPTR, i, own->indptr[i]);
}

/* Fills the table with pages in random order. With SLOTS each token has the slot in its page. */
static void fill_table(struct call *c)
{
    const struct shape *s = c->shape;
    const struct own *own = c->own;
    struct operand *table = call_operand(c, METADATA_BLOCK_TABLE);
    const int per = call_has(c, SLOTS) ? s->page_size : 1;
    const int32_t base = call_has(c, FAR) ? 1 << 22 : 0;
    for (int64_t i = 0, slot = 0; i < s->batch * own->columns && table->given; i++) {
        const int32_t page = base + (int32_t)(random_bits(&c->random) % 100000);
        slot = call_has(c, IN_ORDER)         ? i
               : i % own->columns % per != 0 ? slot + 1
                                             : (int64_t)page * per;
        operand_set_int(table, AT(i / own->columns, i % own->columns), slot);
    }
}

/* Sets the contents of the input tensors: struct verify_op.fill. */
static void fill(struct call *c)
{
    const struct operand *table = call_operand(c, METADATA_BLOCK_TABLE);
    struct ref_metadata *r = &((struct own *)c->own)->reference;
    fill_lengths(c);
    fill_table(c);
    /* The reference reads the kernel's input. */
    r->table = (const int32_t *)table->image;
    r->stride = table->strides[0];
    r->rows = (const int64_t *)call_operand(c, METADATA_REQUEST_ROWS)->image;
    r->kv_start = (const int32_t *)call_operand(c, METADATA_KV_START)->image;
}

/* The functions from here on compare the results of a call. */

/* Compares page numbers: of the output table, or of the list of indices. */
static void compare_pages(struct call *c, bool table)
{
    const struct own *own = c->own;
    struct operand *o = call_operand(c, table ? METADATA_PAGE_TABLE : METADATA_KV_INDICES);
    for (int s = 0; s < c->args.metadata.batch; s++) {
        const int first = own->indptr[s], pages = own->indptr[s + 1] - first;
        for (int i = 0; i < pages && i < c->args.metadata.entries; i++)
            call_compare_int(c, o, table ? AT(s, i) : AT(first + i),
                             ref_metadata_page(&own->reference, s, i));
    }
}

/* Compares the length, slot and position of a sequence's next draft. */
static void compare_draft(struct call *c, int s)
{
    const struct ref_metadata *r = &((const struct own *)c->own)->reference;
    const int32_t length = ref_metadata_length(r, s);
    call_compare_int(c, call_operand(c, METADATA_KV_LENS), AT(s), length);
    call_compare_int(c, call_operand(c, METADATA_SLOT_MAPPING), AT(s), ref_metadata_slot(r, s));
    if (!call_has(c, ALONE))
        call_compare_int(c, call_operand(c, METADATA_POSITIONS), AT(s),
                         length > 0 ? length - 1 : 0);
}

/* Compares the results of the call with the reference: struct verify_op.compare. */
static void compare(struct call *c)
{
    const struct own *own = c->own;
    const int batch = c->args.metadata.batch;
    const enum attn_metadata kind = c->desc.metadata.kind;
    for (int s = 0; s <= batch && kind == ATTN_METADATA_INDPTR; s++)
        call_compare_int(c, call_operand(c, METADATA_KV_INDPTR), AT(s), own->indptr[s]);
    if (kind == ATTN_METADATA_KV_INDICES || kind == ATTN_METADATA_PAGE_TABLE)
        compare_pages(c, kind == ATTN_METADATA_PAGE_TABLE);
    for (int s = 0; s < batch && kind == ATTN_METADATA_LAST_PAGE_LEN; s++)
        call_compare_int(c, call_operand(c, METADATA_LAST_PAGE_LENS), AT(s),
                         ref_metadata_last_page_len(&own->reference, s));
    for (int s = 0; s < batch && kind == ATTN_METADATA_DRAFT_SLOTS; s++)
        compare_draft(c, s);
}

/* True if the kernel is verified on the shape. A kernel of draft steps needs page numbers in the
 * table. */
static bool takes(const struct call *c)
{
    return c->desc.metadata.kind != ATTN_METADATA_DRAFT_SLOTS || !call_has(c, SLOTS);
}

/* Returns the bytes that a launch reads and writes. From the table it reads the entries of the
 * sequences' pages, or in a draft step one entry of each sequence. */
static double least_bytes(const struct call *c)
{
    const struct own *own = c->own;
    const double batch = 4.0 * c->args.metadata.batch;
    const double pages = 4.0 * own->indptr[c->args.metadata.batch];
    const double bytes[] = {
        [ATTN_METADATA_INDPTR] = 2 * batch + 4,
        [ATTN_METADATA_KV_INDICES] = batch + 4 + 2 * pages,
        [ATTN_METADATA_PAGE_TABLE] = batch + 2 * pages,
        [ATTN_METADATA_LAST_PAGE_LEN] = 2 * batch,
        [ATTN_METADATA_DRAFT_SLOTS] = 5 * batch,
    };
    return bytes[c->desc.metadata.kind];
}

const struct verify_op verify_metadata = {
    .op = "metadata",
    VERIFY_SHAPES(shapes),
    .trace = &traced,
    .dimensions =
        {
            {"batch", offsetof(struct shape, batch), 1 << 14, "sequences"},
            {"keys", offsetof(struct shape, keys), 1 << 20, "of each"},
            {"page", offsetof(struct shape, page_size), 65536, "tokens in a page"},
        },
    .own_size = sizeof(struct own),
    .takes = takes,
    .size = size,
    .place = place,
    .fill = fill,
    .compare = compare,
    .least_bytes = least_bytes,
};
