/* SPDX-License-Identifier: Apache-2.0 */
/* This file implements the memory of a call's tensors. */
#include "tools/verify/operand.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Bytes of poison before and after a tensor's elements. */
enum { GUARD = 256 };

/* The rows of a far tensor that are on the device. `first` has the offset of each row's first
 * element, in elements. */
struct operand_rows {
    int64_t *first;
    size_t count, capacity;
    int64_t length; /* number of elements of a row */
};

int64_t operand_count(const struct operand *o)
{
    int64_t count = 1;
    for (int k = 0; k < o->schema.ndim; k++)
        count *= o->dims[k];
    return count;
}

/* Returns the bytes of an element. */
static int element_size(int element)
{
    switch (element) {
    case ATTN_F32:
    case ATTN_I32: return 4;
    case ATTN_I64: return 8;
    case ATTN_U8: return 1;
    default: return attn_dtype_size((enum attn_dtype)element);
    }
}

void operand_init(struct operand *o, const struct attn_tensor *schema, const char *target)
{
    *o = (struct operand){
        .schema = *schema,
        .given = schema->needed,
        .size = element_size(schema->element),
    };
    if (schema->element < ATTN_F32)
        o->precision = find_cache_precision((enum attn_dtype)schema->element, target);
    o->align = schema->vector * o->size;
    for (int k = 0; k < schema->ndim; k++) {
        const struct attn_dimension *d = &schema->dims[k];
        o->dims[k] = d->count ? *d->count + d->more : d->more < 0 ? 0 : d->more;
    }
    operand_set_strides(o, false, false);
}

/* The functions from here on are called before memory is allocated. */

void operand_leave_out(struct operand *o) { o->given = false; }

void operand_resize(struct operand *o, int axis, int64_t count)
{
    o->dims[axis] = count;
    operand_set_strides(o, false, false);
}

void operand_set_strides(struct operand *o, bool gaps, bool exchanged)
{
    const int free = o->schema.free;
    int64_t step = 1;
    for (int k = o->schema.ndim; k-- > free;) {
        o->strides[k] = step;
        step *= o->dims[k];
    }
    for (int i = 0; i < free; i++) {
        /* Innermost dimension first. The two innermost ones change places if `exchanged`. */
        const int k = free - 1 - (exchanged && free > 1 && i < 2 ? 1 - i : i);
        o->strides[k] = step + (gaps ? (i + 1) * o->schema.vector : 0);
        step = o->strides[k] * (o->dims[k] ? o->dims[k] : 1);
    }
}

void operand_set_stride(struct operand *o, int axis, int64_t stride) { o->strides[axis] = stride; }

void operand_place_inside(struct operand *o, struct operand *owner, int64_t offset)
{
    o->owner = owner;
    o->offset = offset;
}

/* The functions from here on allocate and poison the memory of a tensor. */

/* Writes poison, the bits that mark elements as unwritten, to `count` elements. */
static void poison(const struct operand *o, uint8_t *elements, size_t count)
{
    enum { COPIED = 4096 }; /* most bytes that are copied at once, from the first ones */
    static const uint64_t number = UINT64_C(0x7a5aa55a7a5aa55a);
    static const uint32_t nan32 = 0x7fc0beef;
    const void *const bits = o->precision                    ? (const void *)&o->precision->poison
                             : o->schema.element == ATTN_F32 ? (const void *)&nan32
                                                             : (const void *)&number;
    const size_t bytes = count * (size_t)o->size;
    if (bytes)
        memcpy(elements, bits, (size_t)o->size);
    for (size_t done = (size_t)o->size; done < bytes;) {
        const size_t ready = done < COPIED ? done : COPIED, left = bytes - done;
        memcpy(elements + done, elements, left < ready ? left : ready);
        done += left < ready ? left : ready;
    }
}

/* Returns the number of elements from the first to the end of the tensor, including gaps. */
static int64_t span(const struct operand *o)
{
    int64_t last = 1, longest = 0;
    for (int k = 0; k < o->schema.ndim; k++) {
        if (o->dims[k] == 0)
            return 0;
        last += (o->dims[k] - 1) * o->strides[k];
        const int64_t whole = o->dims[k] * o->strides[k];
        longest = longest > whole ? longest : whole;
    }
    return last > longest ? last : longest;
}

/* Reserves `size` bytes of zeroed address space. Only pages that are accessed use memory. */
static void *reserve(size_t size)
{
    void *p = mmap(NULL, size ? size : 1, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        perror("mmap");
        abort();
    }
    return p;
}

/* Reserves address space for the host copies of a far operand, which is much larger than its
 * rows. */
static void allocate_far(struct operand *o)
{
    o->image = reserve(o->span);
    o->result = reserve(o->span);
    o->checked = reserve(o->span / (size_t)o->size);
    o->rows = verify_allocate(1, sizeof(*o->rows));
    o->rows->length = 1;
    const int first = o->schema.free ? o->schema.free : o->schema.ndim - 1;
    for (int k = first; k < o->schema.ndim; k++)
        o->rows->length *= o->dims[k];
}

void operand_allocate(struct operand *o)
{
    if (!o->given)
        return;
    if (o->owner) {
        o->image = o->owner->image + o->offset * o->size;
        o->checked = o->owner->checked + o->offset;
        return;
    }
    o->span = (size_t)(span(o) * o->size);
    if (o->far) {
        allocate_far(o);
        return;
    }
    const size_t guard = o->schema.written ? GUARD : 0, size = (size_t)o->size;
    o->front = guard + (size_t)o->align;
    o->back = guard;
    const size_t bytes = o->front + o->span + o->back;
    uint8_t *image = verify_allocate(bytes, 1);
    poison(o, image, bytes / size);
    o->image = image + o->front;
    o->checked = (uint8_t *)verify_allocate(bytes / size, 1) + o->front / size;
}

/* Returns the bytes of an operand with the poison around it. */
static size_t all_bytes(const struct operand *o) { return o->front + o->span + o->back; }

void operand_free(struct operand *o)
{
    if (o->owner || !o->image)
        return;
    if (o->far) {
        munmap(o->image, o->span ? o->span : 1);
        munmap(o->result, o->span ? o->span : 1);
        munmap(o->checked, o->span ? o->span / (size_t)o->size : 1);
        free(o->rows->first);
        free(o->rows);
        return;
    }
    free(o->image - o->front);
    free(o->checked - o->front / (size_t)o->size);
    if (o->result)
        free(o->result - o->front);
}

/* The functions from here on read and set elements of a tensor. */

void operand_note_row(struct operand *o, const int64_t at[])
{
    struct operand_rows *r = o->rows;
    int64_t begin[ATTN_DIMENSIONS_MAX] = {0};
    const int first = o->schema.free ? o->schema.free : o->schema.ndim - 1;
    memcpy(begin, at, (size_t)first * sizeof(*at));
    const int64_t row = operand_index(o, begin);
    if (o->checked[row] & OPERAND_NOTED)
        return;
    o->checked[row] |= OPERAND_NOTED;
    poison(o, o->image + row * o->size, (size_t)r->length);
    if (r->count == r->capacity) {
        r->capacity = r->capacity ? 2 * r->capacity : 256;
        r->first = realloc(r->first, r->capacity * sizeof(*r->first));
        if (!r->first)
            abort();
    }
    r->first[r->count++] = row;
}

/* Advances `at` to the indices of the next element in order. Returns false after the last
 * element. */
static bool next(const struct operand *o, int64_t at[])
{
    for (int k = o->schema.ndim; k-- > 0;) {
        if (++at[k] < o->dims[k])
            return true;
        at[k] = 0;
    }
    return false;
}

/* Calls operand_note_row() for `count` elements along the last dimension if the tensor is far. */
static void note_run(struct operand *o, const int64_t at[], int64_t count)
{
    int64_t one[ATTN_DIMENSIONS_MAX];
    memcpy(one, at, sizeof(one));
    for (int64_t i = 0; o->rows && i < count; i++, one[o->schema.ndim - 1]++)
        operand_note_row(o, one);
}

void operand_set_random_run(struct operand *o, const int64_t at[], int64_t count, double limit,
                            uint64_t *random)
{
    const struct precision *const p = o->precision;
    uint8_t *to = o->image + operand_index(o, at) * o->size;
    const int64_t step = o->strides[o->schema.ndim - 1] * o->size;
    o->filled = true;
    note_run(o, at, count);
    for (int64_t i = 0; i < count; i++, to += step) {
        const float number = p ? 0 : (float)random_value(random);
        uint32_t bits;
        memcpy(&bits, &number, sizeof(bits));
        if (p && p->size == 2)
            bits = encode_element(p, limit / 2 * random_value(random));
        else if (p)
            bits = random_element(p, limit, random);
        operand_store(to, bits, o->size);
    }
}

void operand_set_random(struct operand *o, uint64_t *random)
{
    int64_t at[ATTN_DIMENSIONS_MAX] = {0};
    const int last = o->schema.ndim - 1;
    if (!o->given || operand_count(o) == 0)
        return;
    do {
        operand_set_random_run(o, at, o->dims[last], o->size == 1 ? 16 : 2, random);
        at[last] = o->dims[last] - 1;
    } while (next(o, at));
}

void operand_set_random_row(struct operand *o, int64_t row, uint64_t *random)
{
    for (int64_t i = 0; o->given && i < o->dims[1]; i++)
        operand_set_random_run(o, AT(row, i), o->dims[2], 2, random);
}

/* Number of elements that operand_set_table() repeats, and its log2. */
enum { TABLE_BITS = 12, TABLE_LENGTH = 1 << TABLE_BITS };

/* Sets `count` elements of `size` bytes, which is a constant where this is inlined, to random ones
 * of the table. */
static inline __attribute__((always_inline)) void set_from_table(uint8_t *to, size_t count,
                                                                 const size_t size,
                                                                 const uint32_t table[TABLE_LENGTH],
                                                                 uint64_t *random)
{
    uint64_t bits = 0;
    for (size_t i = 0; i < count; i++) {
        bits = i % (64 / TABLE_BITS) ? bits >> TABLE_BITS : random_bits(random);
        memcpy(to + i * size, &table[bits % TABLE_LENGTH], size);
    }
}

void operand_set_table(struct operand *o, double limit, uint64_t *random)
{
    uint32_t table[TABLE_LENGTH];
    const size_t size = (size_t)o->size, count = o->span / size;
    for (int i = 0; i < TABLE_LENGTH; i++) {
        const float number = (float)(limit / 2 * (1 + i / (double)TABLE_LENGTH));
        if (o->precision)
            table[i] = random_element(o->precision, limit, random);
        else if (o->size == 1)
            table[i] = random_bits(random) % 64;
        else
            memcpy(&table[i], &number, sizeof(number));
    }
    o->filled = true;
    switch (size) {
    case 1: set_from_table(o->image, count, 1, table, random); return;
    case 2: set_from_table(o->image, count, 2, table, random); return;
    default: set_from_table(o->image, count, sizeof(table[0]), table, random); return;
    }
}

void operand_set_ints(struct operand *o, const int32_t *values, int64_t count)
{
    if (!o->given)
        return;
    o->filled = true;
    memcpy(o->image, values, (size_t)count * sizeof(*values));
}

void operand_clear(struct operand *o)
{
    if (!o->given)
        return;
    o->filled = true;
    memset(o->image, 0, (size_t)operand_count(o) * sizeof(int32_t));
}

void operand_read(const struct operand *o, const int64_t at[], int64_t count, double *to)
{
    const uint8_t *const from = o->image + operand_index(o, at) * o->size;
    const int64_t step = o->strides[o->schema.ndim - 1] * o->size;
    if (o->size == 1 && o->precision && o->precision->dtype == ATTN_FP8) {
        const bool fnuz = o->precision->target != NULL;
        for (int64_t i = 0; i < count; i++)
            to[i] = decode_fp8(from[i * step], fnuz);
        return;
    }
    if (o->precision && o->precision->dtype == ATTN_BF16) {
        for (int64_t i = 0; i < count; i++)
            to[i] = bits_to_float((uint32_t)operand_load(from + i * step, 2) << 16);
        return;
    }
    for (int64_t i = 0; i < count; i++)
        to[i] = operand_decode(o, operand_load(from + i * step, o->size));
}

/* The functions from here on copy a tensor to and from the device. */

/* Sets the address and strides of the operand in the argument struct. */
static void set_arguments(const struct operand *o)
{
    memcpy(o->schema.pointer, &o->device, sizeof(o->device));
    for (int k = 0; k < o->schema.free; k++)
        *o->schema.strides[k] = o->strides[k];
}

/* Copies the noted rows of a far operand to the device. */
static void write_rows(struct operand *o, struct device_memory *m)
{
    const size_t bytes = (size_t)(o->rows->length * o->size);
    for (size_t i = 0; i < o->rows->count; i++) {
        const int64_t at = o->rows->first[i] * o->size;
        device_write(m, o->device + at, o->image + at, bytes);
    }
}

void operand_upload(struct operand *o, struct device_memory *m)
{
    if (!o->given)
        return;
    if (o->owner) {
        o->device = o->owner->device ? o->owner->device + o->offset * o->size : NULL;
    } else if (o->far) {
        if (!o->device)
            o->device = device_allocate(m, o->span);
        write_rows(o, m);
    } else {
        if (!o->device && (o->device = device_allocate(m, all_bytes(o))))
            o->device += o->front;
        device_write(m, o->device - o->front, o->image - o->front, all_bytes(o));
    }
    set_arguments(o);
}

void operand_download(struct operand *o, struct device_memory *m)
{
    if (!o->given)
        return;
    if (o->owner) {
        o->result = o->owner->result + o->offset * o->size;
    } else if (o->far) {
        const size_t bytes = (size_t)(o->rows->length * o->size);
        for (size_t i = 0; i < o->rows->count; i++) {
            const int64_t at = o->rows->first[i] * o->size;
            device_read(m, o->result + at, o->device + at, bytes);
        }
    } else {
        if (!o->result)
            o->result = (uint8_t *)verify_allocate(all_bytes(o), 1) + o->front;
        device_read(m, o->result - o->front, o->device - o->front, all_bytes(o));
    }
}

/* True if no unchecked element from index `first` to `end` - 1 was changed. Otherwise *at is the
 * index of a changed element. */
static bool untouched_between(const struct operand *o, int64_t first, int64_t end, int64_t *at)
{
    const int64_t size = o->size;
    if (!memcmp(o->image + first * size, o->result + first * size, (size_t)((end - first) * size)))
        return true;
    for (int64_t i = first; i < end; i++) {
        *at = i;
        if (!(o->checked[i] & OPERAND_CHECKED) &&
            memcmp(o->image + i * size, o->result + i * size, (size_t)size))
            return false;
    }
    return true;
}

bool operand_untouched(const struct operand *o, int64_t *at)
{
    if (!o->given || o->owner)
        return true;
    const int64_t size = o->size;
    if (!o->far)
        return untouched_between(o, -(int64_t)o->front / size, (int64_t)(o->span + o->back) / size,
                                 at);
    for (size_t i = 0; i < o->rows->count; i++) {
        const int64_t first = o->rows->first[i];
        if (!untouched_between(o, first, first + o->rows->length, at))
            return false;
    }
    return true;
}

void operand_keep_result(struct operand *o)
{
    if (!o->given || o->owner)
        return;
    if (!o->far) {
        memcpy(o->image - o->front, o->result - o->front, all_bytes(o));
        memset(o->checked - o->front / (size_t)o->size, 0, all_bytes(o) / (size_t)o->size);
        return;
    }
    for (size_t i = 0; i < o->rows->count; i++) {
        const int64_t first = o->rows->first[i];
        memcpy(o->image + first * o->size, o->result + first * o->size,
               (size_t)(o->rows->length * o->size));
        for (int64_t k = first; k < first + o->rows->length; k++)
            o->checked[k] &= OPERAND_NOTED;
    }
}
