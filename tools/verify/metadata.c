/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc verify for metadata kernels: every integer is the reference's, and no other is written.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/verify/verify.h"
#include "tools/verify/tensor.h"
#include "tools/reference/metadata.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

enum { ADVANCE_MAX = 4, GUARD = 16 /* bytes */, POISON = 0xa5 };

enum {
    SLOTS = 1 << 0, /* the table names the slot of every token */
    ROWS = 1 << 1,  /* request_rows, in another order than the sequences */
    START = 1 << 2, /* kv_start */
    ZEROS = 1 << 3, /* padding: lengths of 0 and below */
    FAR = 1 << 4,   /* page numbers whose slots are beyond 2^32 */
    SHORT = 1 << 5, /* fewer entries are asked for than some sequences have */
};

/* A wave has 64 sequences, or 512 entries of one. */
static const struct shape {
    const char *name;
    unsigned flags;
    int batch, keys, page_size, advance;
} shapes[] = {
    {"one", 0, 1, 1, 16, 1},
    {"tokens", ROWS | START, 5, 700, 1, 0},
    {"slots", SLOTS | ROWS, 7, 3000, 16, 1},
    {"pages", ZEROS, 64, 900, 16, 1},
    {"long", START, 3, 40000, 32, 2},
    {"padded", ZEROS | ROWS, 200, 300, 32, 1},
    {"far", FAR, 65, 3000, 1024, 3},
    {"short", SHORT, 4, 9000, 16, 1},
    {"large batch", ZEROS | SLOTS, 512, 500, 128, 1},
};

/* An array that the kernel writes, behind guards. */
struct array {
    const char *name;
    size_t bytes;
    uint8_t *expected, *got, *device;
    size_t element;
};

struct problem {
    struct verify_run *run;
    const struct shape *shape;
    struct attn_metadata_desc desc;
    struct attn_metadata_args args;
    struct ref_metadata reference;
    int32_t *kv_lens, *table, *kv_start, *indptr;
    int64_t *rows;
    struct array arrays[3];
    int n_arrays;
    struct device_memory memory;
    struct verify_row *row;
};

static bool is(const struct problem *p, unsigned flags) { return p->shape->flags & flags; }

static void *allocate(size_t count, size_t size)
{
    void *p = calloc(count ? count : 1, size);
    if (!p)
        abort();
    return p;
}

/* Inputs. */

static void make_lengths(struct problem *p, uint64_t *random)
{
    const struct shape *s = p->shape;
    p->kv_lens = allocate((size_t)s->batch, sizeof(*p->kv_lens));
    p->kv_start = allocate((size_t)s->batch, sizeof(*p->kv_start));
    p->rows = allocate((size_t)s->batch, sizeof(*p->rows));
    for (int i = 0; i < s->batch; i++) {
        const bool none = is(p, ZEROS) && random_bits(random) % 3 == 0;
        p->kv_lens[i] = none ? -(int32_t)(random_bits(random) & 1)
                             : 1 + (int32_t)(random_bits(random) % (unsigned)s->keys);
        p->kv_start[i] = (int32_t)(random_bits(random) % 7);
        p->rows[i] = s->batch - 1 - i;
    }
}

/* Pages in no order; a token's slot is in its page. */
static void make_table(struct problem *p, uint64_t *random)
{
    const struct shape *s = p->shape;
    const int per = is(p, SLOTS) ? s->page_size : 1;
    const int64_t pages = s->keys / s->page_size + 9 + ADVANCE_MAX, stride = pages * per + 3;
    const int32_t base = is(p, FAR) ? 1 << 22 : 0;
    p->table = allocate((size_t)(s->batch * stride), sizeof(*p->table));
    for (int64_t i = 0; i < s->batch * stride; i++) {
        const int32_t page = base + (int32_t)(random_bits(random) % 100000);
        p->table[i] = page;
        if (is(p, SLOTS))
            p->table[i] = i % stride % per ? p->table[i - 1] + 1 : page * s->page_size;
    }
    p->reference = (struct ref_metadata){
        .batch = s->batch,
        .page_size = s->page_size,
        .advance = s->advance,
        .kv_lens = p->kv_lens,
        .table = p->table,
        .stride = stride,
        .slots = is(p, SLOTS),
        .rows = is(p, ROWS) ? p->rows : NULL,
        .kv_start = is(p, START) && p->desc.kind == ATTN_METADATA_KV_INDICES ? p->kv_start : NULL,
    };
    p->indptr = allocate((size_t)s->batch + 1, sizeof(*p->indptr));
    for (int i = 0; i <= s->batch; i++)
        p->indptr[i] = ref_metadata_indptr(&p->reference, i);
}

/* What is expected. */

static void *add_array(struct problem *p, const char *name, size_t count, size_t element)
{
    struct array *a = &p->arrays[p->n_arrays++];
    *a = (struct array){.name = name, .bytes = count * element, .element = element};
    a->expected = allocate(a->bytes + 2 * GUARD, 1);
    a->got = allocate(a->bytes + 2 * GUARD, 1);
    memset(a->expected, POISON, a->bytes + 2 * GUARD);
    a->device = device_copy(&p->memory, a->expected, a->bytes + 2 * GUARD);
    return a->expected + GUARD;
}

static void *device_of(const struct problem *p, int i) { return p->arrays[i].device + GUARD; }

static int page_count(const struct problem *p, int s) { return p->indptr[s + 1] - p->indptr[s]; }

static void expect_indices(struct problem *p)
{
    const int batch = p->shape->batch;
    int32_t *out = add_array(p, "kv_indices", (size_t)p->indptr[batch], sizeof(*out));
    for (int s = 0; s < batch; s++) {
        for (int i = 0; i < page_count(p, s) && i < p->args.entries; i++)
            out[p->indptr[s] + i] = ref_metadata_page(&p->reference, s, i);
    }
    p->args.kv_indices = device_of(p, 0);
}

static void expect_page_table(struct problem *p)
{
    const int batch = p->shape->batch, stride = p->args.entries + 5;
    int32_t *out = add_array(p, "page_table", (size_t)batch * stride, sizeof(*out));
    for (int s = 0; s < batch; s++) {
        for (int i = 0; i < page_count(p, s) && i < p->args.entries; i++)
            out[s * stride + i] = ref_metadata_page(&p->reference, s, i);
    }
    p->args.page_table = device_of(p, 0);
    p->args.page_table_stride = stride;
}

static void expect_slots(struct problem *p)
{
    const int batch = p->shape->batch;
    int32_t *lengths = add_array(p, "kv_lens", (size_t)batch, sizeof(*lengths));
    int64_t *slots = add_array(p, "slot_mapping", (size_t)batch, sizeof(*slots));
    int64_t *positions = add_array(p, "positions", (size_t)batch, sizeof(*positions));
    device_write(&p->memory, device_of(p, 0), p->kv_lens, (size_t)batch * sizeof(*lengths));
    for (int s = 0; s < batch; s++) {
        lengths[s] = ref_metadata_length(&p->reference, s);
        slots[s] = ref_metadata_slot(&p->reference, s);
        positions[s] = lengths[s] > 0 ? lengths[s] - 1 : 0;
    }
    p->args.kv_lens = device_of(p, 0);
    p->args.slot_mapping = device_of(p, 1);
    p->args.positions = device_of(p, 2);
}

static void expect(struct problem *p)
{
    const int batch = p->shape->batch;
    int32_t *out;
    switch (p->desc.kind) {
    case ATTN_METADATA_INDPTR:
        out = add_array(p, "kv_indptr", (size_t)batch + 1, sizeof(*out));
        memcpy(out, p->indptr, ((size_t)batch + 1) * sizeof(*out));
        p->args.kv_indptr = device_of(p, 0);
        break;
    case ATTN_METADATA_KV_INDICES: expect_indices(p); break;
    case ATTN_METADATA_PAGE_TABLE: expect_page_table(p); break;
    case ATTN_METADATA_LAST_PAGE_LEN:
        out = add_array(p, "last_page_lens", (size_t)batch, sizeof(*out));
        for (int s = 0; s < batch; s++)
            out[s] = ref_metadata_last_page_len(&p->reference, s);
        p->args.last_page_lens = device_of(p, 0);
        break;
    case ATTN_METADATA_DRAFT_SLOTS: expect_slots(p); break;
    }
}

static void upload(struct problem *p)
{
    const struct shape *s = p->shape;
    struct attn_metadata_args *a = &p->args;
    struct device_memory *m = &p->memory;
    const size_t batch = (size_t)s->batch;
    const int pages = s->keys / s->page_size + 1;
    a->batch = s->batch;
    a->page_size = s->page_size;
    a->advance = s->advance;
    a->entries = is(p, SHORT) ? pages / 3 : pages;
    a->table_of_slots = is(p, SLOTS);
    a->block_table_stride = p->reference.stride;
    a->block_table = device_copy(m, p->table, batch * p->reference.stride * sizeof(*p->table));
    a->kv_lens = device_copy(m, p->kv_lens, batch * sizeof(*p->kv_lens));
    a->kv_indptr = device_copy(m, p->indptr, (batch + 1) * sizeof(*p->indptr));
    if (is(p, ROWS))
        a->request_rows = device_copy(m, p->rows, batch * sizeof(*p->rows));
    if (p->reference.kv_start)
        a->kv_start = device_copy(m, p->kv_start, batch * sizeof(*p->kv_start));
}

/* Running. */

static long long element(const struct array *a, const uint8_t *at)
{
    int32_t narrow;
    int64_t wide;
    memcpy(&narrow, at, sizeof(narrow));
    if (a->element == sizeof(narrow))
        return narrow;
    memcpy(&wide, at, sizeof(wide));
    return wide;
}

static void compare(struct problem *p, const struct array *a)
{
    const size_t size = a->bytes + 2 * GUARD;
    for (size_t i = 0; i < size; i += a->element) {
        if (!memcmp(a->got + i, a->expected + i, a->element))
            continue;
        verify_fail(p->row, "%s[%lld] is %lld, expected %lld", a->name,
                    ((long long)i - GUARD) / (long long)a->element, element(a, a->got + i),
                    element(a, a->expected + i));
    }
}

static void run_problem(struct problem *p)
{
    if (!verify_launch(p->run, &p->memory, &p->desc, &p->args, p->row))
        return;
    for (int i = 0; i < p->n_arrays; i++) {
        struct array *a = &p->arrays[i];
        device_read(&p->memory, a->got, a->device, a->bytes + 2 * GUARD);
    }
    if (!verify_copied(&p->memory, p->row))
        return;
    for (int i = 0; i < p->n_arrays; i++)
        compare(p, &p->arrays[i]);
}

static void destroy(struct problem *p)
{
    device_free(&p->memory);
    free(p->kv_lens);
    free(p->table);
    free(p->kv_start);
    free(p->indptr);
    free(p->rows);
    for (int i = 0; i < p->n_arrays; i++) {
        free(p->arrays[i].expected);
        free(p->arrays[i].got);
    }
}

static void verify_shape(struct verify_run *run, const char *kernel, size_t i,
                         enum attn_metadata kind)
{
    struct verify_row row = {.kernel = kernel, .shape = shapes[i].name};
    struct problem p = {
        .run = run,
        .shape = &shapes[i],
        .memory = {.gpu = run->gpu},
        .row = &row,
        .desc = {.size = sizeof(p.desc), .kind = kind},
        .args = {.size = sizeof(p.args)},
    };
    uint64_t random = run->seed * 1000003 + i;
    make_lengths(&p, &random);
    make_table(&p, &random);
    upload(&p);
    expect(&p);
    run_problem(&p);
    destroy(&p);
    verify_report(run, &row);
}

struct attn_metadata_desc verify_metadata_desc(const struct attn_pack *pack, uint32_t n)
{
    static const char *const kinds[] = {"indptr", "kv_indices", "page_table", "last_page_len",
                                        "draft_slots"};
    struct attn_metadata_desc d = {.size = sizeof(d)};
    while (d.kind + 1 < COUNT(kinds) && strcmp(kinds[d.kind], verify_field(pack, n, "metadata")))
        d.kind++;
    return d;
}

static void verify(struct verify_run *run, uint32_t n, const struct attn_kernel_info *info)
{
    const struct attn_metadata_desc desc = verify_metadata_desc(run->pack, n);
    for (size_t i = 0; i < COUNT(shapes) && verify_wants_more(run); i++) {
        /* A draft step needs page numbers. */
        if (desc.kind != ATTN_METADATA_DRAFT_SLOTS || !(shapes[i].flags & SLOTS))
            verify_shape(run, info->name, i, desc.kind);
    }
}

const struct verify_family verify_metadata = {.op = "metadata", .verify = verify};
