/* SPDX-License-Identifier: Apache-2.0 */
/* Describes the tensors of a paged cache and of its page lists. */
#include "runtime/tensors.h"

#include <string.h>

/* Sets the dimensions of a cache tensor, of V if `value` is true, else of K. `dim` is the length of
 * a row, `pages` points to the number of pages. NHD, PACKED and PLANES: [page, token, head,
 * element]. SCALES_LAST: [page, byte]. SHUFFLE, with x elements in 16 bytes: K [page, head, D / x,
 * token, x], V [page, head, token / x, D, x]. SHUFFLE_K: V [page, head, D, token]. */
static void set_cache_dims(const struct attn_cache_desc *d, int32_t kv_heads, int64_t dim,
                           bool value, int32_t *pages, struct attn_tensor *t)
{
    const int64_t tokens = d->page_size, x = 16 / attn_dtype_size(d->dtype);
    t->dims[0] = (struct attn_dimension){pages, 0, 0};
    if (d->layout == ATTN_KV_SCALES_LAST) {
        t->ndim = 2;
        t->free = 1;
        t->dims[1].more = attn_mixed_page(tokens);
        return;
    }
    if (!attn_is_shuffled(d)) {
        const int64_t dims[] = {tokens, kv_heads, dim};
        t->ndim = 4;
        t->free = 3;
        for (int i = 0; i < 3; i++)
            t->dims[i + 1].more = dims[i];
        return;
    }
    const int64_t dims[] = {kv_heads, (value ? tokens : dim) / x, value ? dim : tokens, x};
    t->ndim = 5;
    t->free = 2;
    if (value && d->layout == ATTN_KV_SHUFFLE_K) {
        t->ndim = 4;
        t->dims[1].more = kv_heads;
        t->dims[2].more = dim;
        t->dims[3].more = tokens;
        return;
    }
    for (int i = 0; i < 4; i++)
        t->dims[i + 1].more = dims[i];
}

void attn_take_scale_strides(struct attn_cache *c, struct attn_tensor *t)
{
    t->free = 2;
    t->strides[0] = &c->scale_page_stride;
    t->strides[1] = &c->scale_head_stride;
    t->shared = true;
}

/* Returns the tensor of a cache's scales, by their kind: [1], [page, head, token], [page, head] or
 * [sequence, head]. */
static struct attn_tensor scale_tensor(const struct attn_cache_desc *d, int32_t kv_heads,
                                       struct attn_cache *c, int32_t *batch)
{
    struct attn_tensor t = {.element = ATTN_F32, .vector = 1, .ndim = 1, .dims = {{NULL, 1, 0}}};
    if (d->scale == ATTN_KV_SCALE_TENSOR || !attn_has_scale_tensors(d))
        return t;
    t.ndim = d->scale == ATTN_KV_SCALE_TOKEN ? 3 : 2;
    attn_take_scale_strides(c, &t);
    t.shared = d->scale == ATTN_KV_SCALE_HEAD;
    t.dims[0] = (struct attn_dimension){&c->page_count, 0, 0};
    t.dims[1].more = kv_heads;
    t.dims[2].more = d->page_size;
    if (t.shared)
        t.dims[0] = (struct attn_dimension){batch, batch ? 0 : 1, 0};
    return t;
}

unsigned attn_cache_tensors(const struct attn_cache_desc *desc,
                            const struct attn_cache_heads *heads, struct attn_cache *c,
                            int32_t *batch, bool needed, bool optional, struct attn_tensor *t)
{
    const bool packed = attn_packed_row(desc->layout) > 0;
    const bool mixed = desc->layout == ATTN_KV_SCALES_LAST;
    for (int value = 0; value < 2; value++) {
        const int dim = value ? heads->head_dim_v : heads->head_dim;
        t[value] = (struct attn_tensor){
            .name = value ? "v_cache" : "k_cache",
            .pointer = value ? &c->v : &c->k,
            .element = desc->dtype,
            .vector = 16 / (needed ? attn_dtype_size(desc->dtype) : 16),
        };
        if (needed)
            set_cache_dims(desc, heads->kv_heads, attn_row_length(desc->layout, value, dim), value,
                           &c->page_count, &t[value]);
        const bool nhd = !attn_is_shuffled(desc);
        t[value].strides[0] = value ? &c->v_page_stride : &c->k_page_stride;
        if (!mixed)
            t[value].strides[nhd ? 2 : 1] = value ? &c->v_head_stride : &c->k_head_stride;
        if (nhd && !mixed)
            t[value].strides[1] = value ? &c->v_token_stride : &c->k_token_stride;
        t[2 + value] = scale_tensor(desc, heads->kv_heads, c, batch);
        t[2 + value].name = value ? "v_scale" : "k_scale";
        t[2 + value].pointer = value ? &c->v_scale : &c->k_scale;
    }
    for (int i = 0; i < 4; i++) {
        t[i].needed = needed && (i < 2 || attn_has_scale_tensors(desc));
        t[i].needed &= i != 1 || !(packed || mixed); /* values are part of the rows at k */
        t[i].optional = optional;
        t[i].written = true;
        t[i].paged = !t[i].shared;
    }
    return 4;
}

unsigned attn_latent_tensors(const struct attn_cache_desc *desc,
                             const struct attn_cache_heads *heads, struct attn_cache *c,
                             bool needed, bool optional, struct attn_tensor *t)
{
    struct attn_tensor both[4];
    attn_cache_tensors(desc, heads, c, NULL, needed, optional, both);
    both[1].needed &= desc->layout == ATTN_KV_PLANES;
    memcpy(t, both, 3 * sizeof(*t));
    return 3;
}

unsigned attn_pages_tensors(enum attn_page_table table, struct attn_pages *p, int32_t *batch,
                            bool needed, bool lens_optional, struct attn_tensor *t)
{
    const bool blocks = needed && table == ATTN_PAGES_BLOCKS;
    const bool indices = needed && table == ATTN_PAGES_INDICES;
    t[0] = (struct attn_tensor){.name = "kv_lens",
                                .pointer = &p->kv_lens,
                                .needed = needed,
                                .optional = lens_optional,
                                .ndim = 1,
                                .dims = {{batch, 0, 0}}};
    t[1] = (struct attn_tensor){.name = "block_table",
                                .pointer = &p->block_table,
                                .needed = blocks,
                                .ndim = 2,
                                .dims = {{batch, 0, 0}, {&p->entries, 0, 0}},
                                .free = 1,
                                .strides = {&p->block_table_stride}};
    t[2] = (struct attn_tensor){.name = "kv_indptr",
                                .pointer = &p->kv_indptr,
                                .needed = indices,
                                .ndim = 1,
                                .dims = {{batch, 1, 0}}};
    t[3] = (struct attn_tensor){.name = "kv_indices",
                                .pointer = &p->kv_indices,
                                .needed = indices,
                                .ndim = 1,
                                .dims = {{&p->entries, 0, 0}}};
    for (int i = 0; i < 4; i++) {
        t[i].element = ATTN_I32;
        t[i].vector = 1;
    }
    return 4;
}
