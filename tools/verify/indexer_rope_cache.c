/* SPDX-License-Identifier: Apache-2.0
 *
 * Verification of indexer_rope_cache kernels: compares scales, and elements under the scale that
 * the kernel stored. An fp8 element must be within a rounding error. An mxfp4 element must be the
 * rounding of some number within the bound of float32 errors.
 */
#include <math.h>
#include <string.h>

#include "tools/reference/indexer_rope.h"
#include "tools/verify/call.h"
#include "tools/verify/scaled_row.h"

/* Elements of a head; rows of the table of cosines and sines. */
enum { DIM = REF_INDEX_ROPE_DIM, POSITIONS = 300 };

/* Flags of a shape. */
enum {
    SKIPS = 1 << 0,  /* some slots are negative */
    POWERS = 1 << 1, /* scales are powers of two */
    /* The call has no queries. */
    NO_Q = 1 << 2,
    ZEROS = 1 << 3,    /* some heads are zeros, which get the smallest scale */
    IN_ORDER = 1 << 4, /* positions and slots are 0, 1, ... */
    NANS = 1 << 5,     /* some keys have a NaN; for mxfp4 */
    TIES = 1 << 6,     /* some elements of keys are exactly halfway between two e2m1 numbers */
};

/* The shapes on which kernels are verified. */
static const struct shape {
    struct verify_shape is;
    int heads, tokens, page_size;
} shapes[] = {
    {{"one token", 0}, 64, 1, 64},
    {{"views", VERIFY_VIEWS | SKIPS}, 32, 9, 16},
    {{"powers of two", POWERS}, 8, 37, 80},
    {{"128 heads", POWERS | VERIFY_VIEWS}, 128, 3, 48},
    {{"keys alone", NO_Q | SKIPS}, 1, 21, 272},
    {{"zeros", ZEROS}, 12, 4, 64},
    {{"nans", NANS}, 3, 5, 32},
    {{"ties", TIES}, 2, 3, 32},
};

/* The shape with which a trace begins. */
static const struct shape traced = {{"trace", IN_ORDER}, 64, 4096, 64};

/* The data of a call, in call->own. */
struct own {
    /* [tokens]: slot of each token's key; negative: none */
    int64_t *slots;
    /* number of pages of the cache */
    int pages;
};

/* True if keys are mxfp4. */
static bool is_mxfp4(const struct call *c)
{
    return c->desc.indexer_rope_cache.index_keys == ATTN_INDEX_KEYS_MXFP4;
}

/* True if the kernel is verified on the shape. */
static bool takes(const struct call *c)
{
    if (call_has(c, TIES) && c->desc.indexer_rope_cache.hadamard)
        return false;
    return is_mxfp4(c) || !call_has(c, NANS | TIES);
}

/* Returns the number of bytes of a key without its scales. */
static int key_bytes(const struct call *c) { return is_mxfp4(c) ? DIM / 2 : DIM; }

/* The functions from here on fill the inputs of a call. */

/* Sets the sizes in the call's descriptor and arguments from the shape: struct verify_op.size. */
static void size(struct call *c)
{
    const struct shape *s = c->shape;
    struct attn_indexer_rope_cache_args *a = &c->args.indexer_rope_cache;
    struct own *own = c->own;
    c->desc.indexer_rope_cache.heads = s->heads;
    a->tokens = s->tokens;
    a->page_size = s->page_size;
    a->page_stride =
        (int64_t)s->page_size * (key_bytes(c) + 4) + (call_has(c, VERIFY_VIEWS) ? 48 : 0);
    a->page_stride = (a->page_stride + 15) / 16 * 16;
    a->max_position = POSITIONS;
    a->eps = call_has(c, TIES) ? 0 : 1e-6f;
    a->weight_scale = 0.125f;
    a->power_of_two_scales = call_has(c, POWERS);
    own->pages = 2 * s->tokens / s->page_size + 2;
    a->page_count = own->pages;
    own->slots = call_allocate(c, (size_t)s->tokens, sizeof(*own->slots));
    const int room = own->pages * s->page_size;
    for (int t = 0; t < s->tokens; t++) {
        own->slots[t] = call_has(c, IN_ORDER) ? t : (int64_t)(7 * t + 3) % room;
        for (int i = 0; i < t && !call_has(c, IN_ORDER); i++)
            if (own->slots[i] == own->slots[t]) {
                own->slots[t] = (own->slots[t] + 1) % room;
                i = -1;
            }
    }
    for (int t = 1; call_has(c, SKIPS) && t < s->tokens; t += 3)
        own->slots[t] = -1;
}

/* Sets sizes and strides of tensors, and omits optional ones: struct verify_op.place. */
static void place(struct call *c)
{
    const struct own *own = c->own;
    operand_resize(call_operand(c, INDEXER_ROPE_CACHE_KEYS), 0,
                   own->pages * c->args.indexer_rope_cache.page_stride);
    if (!c->desc.indexer_rope_cache.layer_norm)
        operand_leave_out(call_operand(c, INDEXER_ROPE_CACHE_K_BIAS));
    if (!call_has(c, NO_Q))
        return;
    operand_leave_out(call_operand(c, INDEXER_ROPE_CACHE_Q));
    operand_leave_out(call_operand(c, INDEXER_ROPE_CACHE_WEIGHTS));
    operand_leave_out(call_operand(c, INDEXER_ROPE_CACHE_Q_OUT));
    operand_leave_out(call_operand(c, INDEXER_ROPE_CACHE_WEIGHTS_OUT));
}

/* Makes keys whose elements are exactly halfway between two numbers. The elements are 1 or -1, so
 * the norm leaves them as they are, and no angle rotates them. The magnitude of a result is the
 * norm's weight. */
static void fill_ties(struct call *c)
{
    static const double ties[] = {0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5, 7};
    struct operand *bias = call_operand(c, INDEXER_ROPE_CACHE_K_BIAS);
    for (int d = 0; d < DIM; d++) {
        const double tie = ties[(d / 2 + d / 32) % (int)COUNT(ties)];
        operand_set(call_operand(c, INDEXER_ROPE_CACHE_K_WEIGHT), AT(d), ldexp(tie, d / 32 - 2));
        if (bias->given)
            operand_set(bias, AT(d), 0);
        for (int t = 0; t < c->args.indexer_rope_cache.tokens; t++)
            operand_set(call_operand(c, INDEXER_ROPE_CACHE_K), AT(t, d), (d + t) % 2 ? -1 : 1);
    }
}

/* Sets the contents of the input tensors: struct verify_op.fill. */
static void fill(struct call *c)
{
    static const unsigned vectors[] = {INDEXER_ROPE_CACHE_K, INDEXER_ROPE_CACHE_K_WEIGHT,
                                       INDEXER_ROPE_CACHE_K_BIAS};
    const struct shape *s = c->shape;
    const struct own *own = c->own;
    struct operand *q = call_operand(c, INDEXER_ROPE_CACHE_Q);
    for (size_t i = 0; i < COUNT(vectors); i++)
        if (call_operand(c, vectors[i])->given)
            operand_set_random(call_operand(c, vectors[i]), &c->random);
    if (call_has(c, TIES))
        fill_ties(c);
    /* Blocks of zeros, and of numbers near the smallest normal ones. */
    for (int d = 64; call_has(c, ZEROS) && d < DIM; d++) {
        const double weight = d < 96 ? 0x1.8p-118 : 0;
        operand_set(call_operand(c, INDEXER_ROPE_CACHE_K_WEIGHT), AT(d), weight);
        if (call_operand(c, INDEXER_ROPE_CACHE_K_BIAS)->given)
            operand_set(call_operand(c, INDEXER_ROPE_CACHE_K_BIAS), AT(d), 0);
    }
    for (int t = 0; call_has(c, NANS) && t < s->tokens; t += 2)
        operand_set_bits(call_operand(c, INDEXER_ROPE_CACHE_K), AT(t, 7 * t), 0x7fc0);
    for (int t = 0; q->given && t < s->tokens; t++)
        for (int h = 0; h < s->heads; h++) {
            const double weight = random_value(&c->random);
            operand_set(call_operand(c, INDEXER_ROPE_CACHE_WEIGHTS), AT(t, h),
                        weight != 0 ? weight : 0.5); /* this element determines the scale */
            for (int d = 0; d < DIM; d++)
                operand_set(q, AT(t, h, d),
                            call_has(c, ZEROS) && h % 2 ? 0 : random_value(&c->random));
        }
    for (int d = 0; d < REF_INDEX_ROTARY / 2; d++) {
        const double frequency = pow(10000, -d / 32.0);
        for (int i = 0; i < POSITIONS; i++) {
            const double angle = i * frequency;
            operand_set(call_operand(c, INDEXER_ROPE_CACHE_COS_SIN), AT(i, d), (float)cos(angle));
            operand_set(call_operand(c, INDEXER_ROPE_CACHE_COS_SIN),
                        AT(i, REF_INDEX_ROTARY / 2 + d), (float)sin(angle));
        }
    }
    for (int t = 0; t < s->tokens; t++) {
        operand_set_int(call_operand(c, INDEXER_ROPE_CACHE_POSITIONS), AT(t),
                        call_has(c, TIES)       ? 0
                        : call_has(c, IN_ORDER) ? t % POSITIONS
                                                : (int64_t)(random_bits(&c->random) % POSITIONS));
        operand_set_int(call_operand(c, INDEXER_ROPE_CACHE_SLOT_MAPPING), AT(t), own->slots[t]);
    }
}

/* The functions from here on compare the results of a call. */

/* Returns the largest magnitude among the elements of a head. *error becomes the largest error
 * bound of an element. */
static double absmax_of(const struct ref_index_head *r, double *error)
{
    double most = 0;
    *error = 0;
    for (int d = 0; d < DIM; d++) {
        most = fmax(most, fabs(r->y[d]));
        *error = fmax(*error, r->error[d]);
    }
    return most;
}

/* Reads the cosines and sines of a token's position. */
static void read_angles(struct call *c, int token, double cos_sin[REF_INDEX_ROTARY])
{
    const int64_t at = operand_int(call_operand(c, INDEXER_ROPE_CACHE_POSITIONS), AT(token));
    for (int d = 0; d < REF_INDEX_ROTARY; d++)
        cos_sin[d] = operand_value(call_operand(c, INDEXER_ROPE_CACHE_COS_SIN), AT(at, d));
}

/* Compares a rotated query head and its weight. */
static void compare_head(struct call *c, const struct precision *fp8, int t, int h,
                         const double *cos_sin)
{
    struct operand *out = call_operand(c, INDEXER_ROPE_CACHE_Q_OUT);
    struct operand *weights_out = call_operand(c, INDEXER_ROPE_CACHE_WEIGHTS_OUT);
    const double w = operand_value(call_operand(c, INDEXER_ROPE_CACHE_WEIGHTS), AT(t, h));
    const double factor = w * c->args.indexer_rope_cache.weight_scale;
    double x[DIM], error;
    struct ref_index_head r;
    for (int d = 0; d < DIM; d++)
        x[d] = operand_value(call_operand(c, INDEXER_ROPE_CACHE_Q), AT(t, h, d));
    ref_index_rope(
        &(struct ref_index_rope){
            .x = x,
            .cos_sin = cos_sin,
            .gptj = c->desc.indexer_rope_cache.rope == ATTN_ROPE_GPTJ,
            .hadamard = c->desc.indexer_rope_cache.hadamard,
        },
        &r);
    const double absmax = absmax_of(&r, &error);
    double scale = operand_result(weights_out, AT(t, h)) / factor;
    if (call_has(c, POWERS))
        scale = exp2(round(log2(scale)));
    if (!scaled_row_has(scale, absmax, error + absmax * 0x1p-22, fp8->limit, call_has(c, POWERS)))
        verify_fail(c->row, "token %d, head %d has the scale %g, its largest element is %g", t, h,
                    scale, absmax);
    call_compare(c, weights_out, AT(t, h), scale * factor, 4 * 0x1p-24 * fabs(scale * factor));
    for (int d = 0; d < DIM; d++) {
        const double got =
            decode_element(fp8, (uint16_t)operand_result_int(out, AT(t, h, d))) * scale;
        call_compare_value(c, out, AT(t, h, d), got, r.y[d],
                           scaled_row_bound(fp8, r.y[d], r.error[d], scale));
    }
}

/* Returns the offset of byte e of key number `inside` of a page, in bytes from the page's first. */
static int64_t byte_at(const struct call *c, int64_t inside, int e)
{
    const bool shuffle = c->desc.indexer_rope_cache.layout == ATTN_KV_SHUFFLE;
    return scaled_row_byte(inside, e, key_bytes(c), shuffle);
}

/* Compares element d of an mxfp4 key, whose byte is `at`. It must be the expected number divided by
 * the block's scale and rounded, or a neighbour within the number's error. */
static void compare_e2m1(struct call *c, int64_t at, int d, const struct ref_index_head *r,
                         double scale)
{
    struct operand *keys = call_operand(c, INDEXER_ROPE_CACHE_KEYS);
    const unsigned byte = (unsigned)operand_result_int(keys, AT(at)) & 0xff;
    const double got = ref_e2m1_value(d % 2 ? byte >> 4 : byte & 15) * scale;
    const double low = ref_e2m1((r->y[d] - r->error[d]) / scale) * scale;
    const double high = ref_e2m1((r->y[d] + r->error[d]) / scale) * scale;
    const double expected = got > high ? high : got < low ? low : got;
    call_compare_value(c, keys, AT(at), got, expected, 0);
}

/* Compares a block of 32 elements of an mxfp4 key, and the block's scale. */
static void compare_mx_block(struct call *c, int t, int block, const struct ref_index_head *r)
{
    const struct attn_indexer_rope_cache_args *a = &c->args.indexer_rope_cache;
    const int64_t slot = ((const struct own *)c->own)->slots[t];
    const int64_t page = slot / a->page_size * a->page_stride, inside = slot % a->page_size;
    struct operand *keys = call_operand(c, INDEXER_ROPE_CACHE_KEYS);
    const int64_t scale_at = page + a->page_size * key_bytes(c) + 4 * inside + block;
    const int number = (int)operand_result_int(keys, AT(scale_at)) & 0xff;
    double most = 0, error = 0;
    for (int d = block * REF_MX_BLOCK; d < (block + 1) * REF_MX_BLOCK; d++) {
        most = isnan(r->y[d]) ? NAN : fmax(most, fabs(r->y[d]));
        error = fmax(error, r->error[d]);
        if (isnan(most))
            break;
    }
    const bool right =
        number == ref_mxfp4_scale(most - error) || number == ref_mxfp4_scale(most + error);
    if (!right)
        verify_fail(c->row, "block %d of the key of token %d has the scale %d, its largest is %g",
                    block, t, number, most);
    operand_allow(keys, AT(scale_at));
    for (int d = block * REF_MX_BLOCK; d < (block + 1) * REF_MX_BLOCK; d++) {
        const int64_t at = page + byte_at(c, inside, d / 2);
        if (number == 255)
            operand_allow(keys, AT(at));
        else
            compare_e2m1(c, at, d, r, exp2(number - 127));
    }
}

/* Compares the key of token `t` and its scale. */
static void compare_key(struct call *c, const struct precision *fp8, int t, const double *cos_sin)
{
    const struct attn_indexer_rope_cache_args *a = &c->args.indexer_rope_cache;
    const struct attn_indexer_rope_cache_desc *desc = &c->desc.indexer_rope_cache;
    const struct own *own = c->own;
    struct operand *keys = call_operand(c, INDEXER_ROPE_CACHE_KEYS);
    double x[DIM], weight[DIM], bias[DIM] = {0}, error;
    struct ref_index_head r;
    for (int d = 0; d < DIM; d++) {
        x[d] = operand_value(call_operand(c, INDEXER_ROPE_CACHE_K), AT(t, d));
        weight[d] = operand_value(call_operand(c, INDEXER_ROPE_CACHE_K_WEIGHT), AT(d));
        if (desc->layer_norm)
            bias[d] = operand_value(call_operand(c, INDEXER_ROPE_CACHE_K_BIAS), AT(d));
    }
    ref_index_rope(&(struct ref_index_rope){.x = x,
                                            .weight = weight,
                                            .bias = desc->layer_norm ? bias : NULL,
                                            .eps = a->eps,
                                            .cos_sin = cos_sin,
                                            .gptj = desc->rope == ATTN_ROPE_GPTJ,
                                            .hadamard = desc->hadamard},
                   &r);
    if (call_has(c, TIES))
        memset(r.error, 0, sizeof(r.error));
    for (int block = 0; is_mxfp4(c) && block < DIM / REF_MX_BLOCK; block++)
        compare_mx_block(c, t, block, &r);
    if (is_mxfp4(c))
        return;
    const int64_t page = own->slots[t] / a->page_size * a->page_stride;
    const int64_t inside = own->slots[t] % a->page_size;
    const double scale = scaled_row_read(keys, page + a->page_size * DIM + 4 * inside);
    const double absmax = absmax_of(&r, &error);
    if (!scaled_row_has(scale, absmax, error, fp8->limit, call_has(c, POWERS)))
        verify_fail(c->row, "the key of token %d has the scale %g, its largest element is %g", t,
                    scale, absmax);
    for (int d = 0; d < DIM; d++) {
        const int64_t at = page + byte_at(c, inside, d);
        const double got = decode_element(fp8, (uint16_t)operand_result_int(keys, AT(at)) & 0xff);
        call_compare_value(c, keys, AT(at), got * scale, r.y[d],
                           scaled_row_bound(fp8, r.y[d], r.error[d], scale));
    }
}

/* Compares the results of the call with the reference: struct verify_op.compare. */
static void compare(struct call *c)
{
    const struct precision *fp8 = find_cache_precision(ATTN_FP8, c->target);
    const struct shape *s = c->shape;
    const struct own *own = c->own;
    double cos_sin[REF_INDEX_ROTARY];
    for (int t = 0; t < s->tokens; t++) {
        read_angles(c, t, cos_sin);
        for (int h = 0; h < s->heads && !call_has(c, NO_Q); h++)
            compare_head(c, fp8, t, h, cos_sin);
        if (own->slots[t] >= 0)
            compare_key(c, fp8, t, cos_sin);
    }
}

const struct verify_op verify_indexer_rope_cache = {
    .op = "indexer_rope_cache",
    VERIFY_SHAPES(shapes),
    .trace = &traced,
    .tuned = {"tokens=64"},
    .dimensions =
        {
            {"heads", offsetof(struct shape, heads), 128, "of the indexer"},
            {"tokens", offsetof(struct shape, tokens), 1 << 16, "queries and keys"},
            {"page", offsetof(struct shape, page_size), 65536, "tokens in a page"},
        },
    .takes = takes,
    .own_size = sizeof(struct own),
    .size = size,
    .place = place,
    .fill = fill,
    .compare = compare,
};
