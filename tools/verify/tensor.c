/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/verify/tensor.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { HOST_TO_DEVICE = 1, DEVICE_TO_HOST = 2 }; /* hipMemcpyKind */
enum { GUARD = 64 };

static const uint32_t float_poison = 0x7fc0beef;

/* Memory for a test run: there is nothing to do without it. */
void *verify_allocate(size_t count, size_t size)
{
    void *p = calloc(count ? count : 1, size);
    if (!p)
        abort();
    return p;
}

struct tensor tensor_dense(const struct precision *precision, int tokens, int heads, int dim)
{
    return (struct tensor){
        .precision = precision,
        .tokens = tokens,
        .heads = heads,
        .dim = dim,
        .token_stride = (int64_t)heads * dim,
        .head_stride = dim,
    };
}

struct tensor tensor_lse(int tokens, int heads)
{
    return (struct tensor){
        .tokens = tokens,
        .heads = heads,
        .dim = 1,
        .token_stride = 1,
        .head_stride = tokens,
    };
}

void tensor_place_inside(struct tensor *t, struct tensor *owner, int64_t offset)
{
    t->owner = owner;
    t->offset = offset;
}

/* Of the first element of a token's head among those that have values. */
static size_t dense_index(const struct tensor *t, int64_t token, int head)
{
    return ((size_t)(token - t->first) * (size_t)t->heads + (size_t)head) * (size_t)t->dim;
}

static size_t dense_count(const struct tensor *t) { return dense_index(t, t->tokens, 0); }

static double *value_at(const struct tensor *t, int token, int head, int d)
{
    return &t->values[dense_index(t, token, head) + (size_t)d];
}

void tensor_fill(struct tensor *t, uint64_t *random)
{
    const size_t count = dense_count(t);
    t->values = verify_allocate(count, sizeof(*t->values));
    for (size_t i = 0; i < count; i++)
        t->values[i] = t->precision && t->precision->size == 1
                           ? decode_element(t->precision, random_element(t->precision, 16, random))
                           : random_value(random);
}

void tensor_set(struct tensor *t, int token, int head, int d, double value)
{
    if (token >= t->first && token < t->tokens)
        *value_at(t, token, head, d) = value;
}

static size_t element_size(const struct tensor *t)
{
    return t->precision ? (size_t)t->precision->size : sizeof(float);
}

static void poison(const struct tensor *t, uint8_t *element)
{
    if (t->precision)
        memcpy(element, &t->precision->poison, element_size(t)); /* the low byte of it */
    else
        memcpy(element, &float_poison, sizeof(float_poison));
}

static bool is_poison(const struct tensor *t, const uint8_t *element)
{
    uint8_t expected[4];
    poison(t, expected);
    return !memcmp(element, expected, element_size(t));
}

/* From element 0 to the last one; what lies inside ends with the owner's last row. */
static size_t span(const struct tensor *t)
{
    if (t->tokens == 0)
        return 1;
    const int64_t row = (int64_t)(t->heads - 1) * t->head_stride + t->dim;
    const int64_t last = t->token_stride > row ? t->token_stride : row;
    return (size_t)((t->tokens - 1) * t->token_stride + last);
}

static int64_t index_of(const struct tensor *t, int64_t token, int head, int d)
{
    return token * t->token_stride + head * t->head_stride + d;
}

static void encode_row(const struct tensor *t, int token, int head, uint8_t *to)
{
    const size_t size = element_size(t);
    for (int d = 0; d < t->dim; d++) {
        const uint16_t bits = encode_element(t->precision, *value_at(t, token, head, d));
        memcpy(to + d * size, &bits, size); /* the low byte of it, or both */
    }
}

void *device_allocate(struct device_memory *m, size_t size)
{
    void *block = NULL;
    if (!m->error)
        m->error = m->gpu->hipMalloc(&block, size);
    if (m->error)
        return NULL;
    assert(m->count < DEVICE_BLOCKS_MAX);
    m->blocks[m->count++] = block;
    return block;
}

void device_write(struct device_memory *m, void *to, const void *from, size_t size)
{
    if (!m->error)
        m->error = m->gpu->hipMemcpy(to, from, size, HOST_TO_DEVICE);
}

void device_read(struct device_memory *m, void *to, const void *from, size_t size)
{
    if (!m->error)
        m->error = m->gpu->hipMemcpy(to, from, size, DEVICE_TO_HOST);
}

void *device_copy(struct device_memory *m, const void *bytes, size_t size)
{
    void *block = device_allocate(m, size);
    device_write(m, block, bytes, size);
    return block;
}

void device_free(struct device_memory *m)
{
    while (m->count)
        m->gpu->hipFree(m->blocks[--m->count]);
}

static size_t image_elements(const struct tensor *t) { return span(t) + 2 * t->guard; }

static void make_image(struct tensor *t)
{
    const size_t size = element_size(t), elements = image_elements(t);
    t->image = verify_allocate(elements, size);
    for (size_t i = 0; i < elements; i++)
        poison(t, t->image + i * size);
    if (!t->values)
        return;
    uint8_t *const first = t->image + t->guard * size;
    for (int token = t->first; token < t->tokens; token++) {
        for (int head = 0; head < t->heads; head++)
            encode_row(t, token, head, first + (size_t)index_of(t, token, head, 0) * size);
    }
}

static void upload_rows(struct tensor *t, struct device_memory *m)
{
    const size_t size = element_size(t);
    uint8_t *row = verify_allocate(t->dim, size);
    for (int token = t->first; token < t->tokens; token++) {
        for (int head = 0; head < t->heads; head++) {
            encode_row(t, token, head, row);
            device_write(m, t->device + (size_t)index_of(t, token, head, 0) * size, row,
                         (size_t)t->dim * size);
        }
    }
    free(row);
}

void *tensor_upload(struct tensor *t, struct device_memory *m)
{
    const size_t size = element_size(t);
    if (!t->values && !t->sparse)
        t->guard = GUARD;
    if (t->owner) {
        t->device = t->owner->device ? t->owner->device + size * t->offset : NULL;
        upload_rows(t, m);
    } else if (t->sparse) {
        t->device = device_allocate(m, span(t) * size);
        if (t->values)
            upload_rows(t, m);
    } else {
        make_image(t);
        char *block = device_copy(m, t->image, image_elements(t) * size);
        t->device = block ? block + t->guard * size : NULL;
    }
    return t->device;
}

void tensor_download(struct tensor *t, struct device_memory *m)
{
    const size_t size = element_size(t), row = (size_t)t->dim * size;
    if (!t->sparse) {
        device_read(m, t->image, t->device - t->guard * size, image_elements(t) * size);
        return;
    }
    t->image = verify_allocate(dense_count(t), size);
    for (int token = t->first; token < t->tokens; token++)
        for (int head = 0; head < t->heads; head++)
            device_read(m, t->image + dense_index(t, token, head) * size,
                        t->device + (size_t)index_of(t, token, head, 0) * size, row);
}

double tensor_get(const struct tensor *t, int64_t token, int head, int d)
{
    const size_t index = t->sparse ? dense_index(t, token, head) + (size_t)d
                                   : t->guard + (size_t)index_of(t, token, head, d);
    const uint8_t *element = t->image + element_size(t) * index;
    if (t->precision) {
        uint16_t bits = 0;
        memcpy(&bits, element, element_size(t));
        return decode_element(t->precision, bits);
    }
    float value;
    memcpy(&value, element, sizeof(value));
    return value;
}

bool tensor_untouched_but(const struct tensor *t, const uint8_t *written, size_t *at)
{
    if (t->sparse)
        return true;
    const size_t elements = image_elements(t), size = element_size(t);
    bool *inside = verify_allocate(elements, sizeof(*inside));
    for (int token = 0; token < t->tokens; token++) {
        for (int head = 0; written[token] && head < t->heads; head++)
            memset(inside + t->guard + index_of(t, token, head, 0), true, (size_t)t->dim);
    }
    bool untouched = true;
    for (size_t i = 0; i < elements && untouched; i++) {
        untouched = inside[i] || is_poison(t, t->image + i * size);
        *at = i;
    }
    free(inside);
    return untouched;
}

void tensor_free(struct tensor *t)
{
    free(t->values);
    free(t->image);
    t->values = NULL;
    t->image = NULL;
}
