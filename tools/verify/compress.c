/* SPDX-License-Identifier: Apache-2.0
 *
 * Verification of compress kernels: compares rows of the pool, latents, and rings after the call.
 * Rows of a ring that a call must not read are NaN: rejected drafts, and tokens that are too old.
 */
#include <float.h>
#include <math.h>

#include "tools/reference/cache.h"
#include "tools/reference/compress.h"
#include "tools/verify/paged.h"
#include "tools/verify/pooled_row.h"
#include "tools/verify/scaled_row.h"
#include "tools/verify/stored.h"

/* Largest number of sequences in a shape's list; rows of the table of cosines and sines; elements
 * between slots of rings that are far apart. */
enum { SEQUENCES = 6, POSITIONS = 9000, FAR_STRIDE = 1 << 28 };

/* Largest ratio for which groups overlap in a trace, as in DeepSeek-V4. */
enum { TRACED_OVERLAP = 4 };

enum { PLANE_ROTATED = 128 /* number of bytes of a row in pool_rotated */ };

/* Flags of a shape. */
enum {
    UNIFORM = 1 << 0,  /* cu_seqlens is NULL */
    OVERLAPS = 1 << 1, /* a row is made from the tokens of two groups */
    FORKS = 1 << 2,    /* rings are read from and written to different slots */
    PADDED = 1 << 3,   /* some slots are padding, also slot 0 */
    PLAIN = 1 << 4,    /* the call has no scores: a row is a mean */
    /* The call has no ape, the terms of positions that are added to scores. */
    NO_APE = 1 << 5,
    LATENT = 1 << 6, /* the call writes `latent` */
    POWERS = 1 << 7, /* scales are powers of two */
    SKIPS = 1 << 8,  /* some rows have no slot */
    FIRST = 1 << 9,  /* the first elements of a row rotate, not the last */
    FAR = 1 << 10,   /* slots of rings are GiB apart */
    STEEP = 1 << 11, /* scores have magnitudes up to 60 */
};

/* The shapes on which kernels are verified. */
static const struct shape {
    struct verify_shape is;
    /* Tokens of a group; rows of a page of the pool. */
    int ratio, page_size;
    int spare;         /* rows of a ring in addition to the window */
    int batch, length; /* length: tokens of every sequence if `lengths` is empty */
    int lengths[SEQUENCES];
    int contexts[SEQUENCES]; /* number of tokens of each sequence before the call */
} shapes[] = {
    {{"CSA decode", UNIFORM | OVERLAPS}, 4, 64, 0, 5, 1, {0}, {3, 7, 8, 131, 0}},
    {{"CSA verify", OVERLAPS | PADDED | POWERS},
     4,
     64,
     7,
     6,
     0,
     {7, 7, 1, 0, 5, 7},
     {0, 5, 7, 9, 250, 4093}},
    {{"CSA prompt", OVERLAPS | LATENT | SKIPS}, 4, 16, 3, 3, 0, {70, 9, 33}, {0, 6, 101}},
    {{"HCA prompt", STEEP}, 128, 2, 0, 3, 0, {260, 128, 5}, {100, 0, 8187}},
    {{"HCA decode", UNIFORM | FORKS}, 128, 2, 0, 2, 1, {0}, {127, 383}},
    {{"two tokens", NO_APE | LATENT | FIRST}, 2, 48, 1, 4, 0, {5, 1, 2, 4}, {3, 1, 0, 18}},
    {{"each token", PLAIN | LATENT}, 1, 32, 6, 3, 0, {7, 1, 0}, {9, 0, 4}},
    {{"means", PLAIN | NO_APE | FIRST}, 4, 256, 3, 3, 0, {8, 3, 1}, {2, 5, 7}},
    {{"forks", FORKS | OVERLAPS | NO_APE}, 4, 16, 5, 4, 0, {6, 1, 0, 40}, {11, 2, 9, 1}},
    {{"views", VERIFY_VIEWS | FORKS | PADDED}, 3, 16, 4, 4, 0, {5, 9, 2, 7}, {4, 30, 1, 2}},
    {{"beyond 4 GiB", FAR | FORKS}, 4, 16, 2, 3, 0, {5, 1, 9}, {3, 7, 2}},
};

/* The shape with which a trace begins. */
static const struct shape traced = {
    {"trace", UNIFORM | OVERLAPS | NO_APE}, 4, 64, 8, 64, 1, {0}, {0}};

/* The data of a call, in call->own. */
struct own {
    /* cu: [batch + 1], first token of each sequence; contexts: [batch], tokens before the call */
    int32_t *cu, *contexts;
    /* [batch]: slots to which rings are written, and from which they are read */
    int32_t *slots, *slots_in;
    int64_t *rows; /* [tokens]: row of the pool for each token, argument slot_mapping; -1: none */
    /* number of pages of the pool */
    int pages;
};

/* True if the pool has fp8 elements. */
static bool is_fp8(const struct call *c) { return c->desc.compress.row_dtype == ATTN_FP8; }

/* True if the pool has its rotated elements in a tensor of their own (layout PLANES). */
static bool has_planes(const struct call *c) { return c->desc.compress.layout == ATTN_KV_PLANES; }

/* True if rows have 448 elements of fp8 and 64 of 16 bits. */
static bool is_mixed(const struct call *c)
{
    return c->desc.compress.layout == ATTN_KV_SCALES_LAST || has_planes(c);
}

/* Returns the format of rows that end with their scales; NULL for other rows. */
static const struct ref_pooled_row *row_of(const struct call *c)
{
    return paged_row(c->desc.compress.layout);
}

/* Returns the bytes of a row of the pool. */
static int row_bytes(const struct call *c)
{
    if (row_of(c))
        return row_of(c)->bytes;
    if (has_planes(c))
        return c->desc.compress.head_dim;
    if (is_mixed(c))
        return REF_MIXED_ROW;
    return c->desc.compress.head_dim * (is_fp8(c) ? 1 : 2);
}

/* Returns the number of tokens from which a row is made: a group, or two with overlap. */
static int window_of(const struct call *c)
{
    return c->args.compress.ratio * (c->args.compress.overlap ? 2 : 1);
}

/* The functions from here on choose the sizes of a call. */

/* Returns the number of rows of a page: the shape's, rounded to a number that the layout takes. */
static int page_size_of(const struct call *c)
{
    const int rows = ((const struct shape *)c->shape)->page_size;
    return c->desc.compress.layout == ATTN_KV_SHUFFLE ? (rows + 15) / 16 * 16 : rows;
}

/* Sets the numbers of tokens of each sequence in the call and before it. */
static void size_tokens(struct call *c)
{
    const struct shape *s = c->shape;
    struct own *own = c->own;
    struct attn_compress_args *a = &c->args.compress;
    own->cu = call_allocate(c, (size_t)s->batch + 1, sizeof(*own->cu));
    own->contexts = call_allocate(c, (size_t)s->batch, sizeof(*own->contexts));
    for (int i = 0; i < s->batch; i++) {
        const int length = s->length ? s->length : s->lengths[i];
        own->cu[i + 1] = own->cu[i] + length;
        /* In a trace a prompt begins with a new group, and a single token ends a group. */
        own->contexts[i] = !c->traced          ? s->contexts[i]
                           : length < a->ratio ? a->ratio * 8 - 1
                                               : a->ratio * 8;
        a->max_seqlen = length > a->max_seqlen ? length : a->max_seqlen;
    }
    a->tokens = own->cu[s->batch] + (c->traced ? 0 : 2); /* 2 rows belong to no sequence */
}

/* Sets slot_mapping: the last token of each group gets a row of the pool, other tokens get none. */
static void size_rows(struct call *c)
{
    const struct attn_compress_args *a = &c->args.compress;
    struct own *own = c->own;
    const int room = own->pages * a->page_size, apart = room > 7 ? 7 : 1;
    int n = 0;
    own->rows = call_allocate(c, (size_t)a->tokens, sizeof(*own->rows));
    for (int t = 0; t < a->tokens; t++)
        own->rows[t] = -1;
    for (int i = 0; i < a->batch; i++)
        for (int t = own->cu[i]; t < own->cu[i + 1]; t++)
            if ((own->contexts[i] + t - own->cu[i] + 1) % a->ratio == 0 && ++n)
                own->rows[t] = call_has(c, SKIPS) && n % 3 == 0 ? -1 : (int64_t)n * apart % room;
}

/* Sets the sizes in the call's descriptor and arguments from the shape: struct verify_op.size. */
static void size(struct call *c)
{
    const struct shape *s = c->shape;
    struct own *own = c->own;
    struct attn_compress_args *a = &c->args.compress;
    a->batch = s->batch;
    a->ratio = s->ratio;
    a->overlap = call_has(c, OVERLAPS) && (!c->traced || s->ratio <= TRACED_OVERLAP);
    a->ring = window_of(c) + s->spare;
    a->page_size = page_size_of(c);
    const int scales = has_planes(c) || row_of(c) ? 0
                       : is_mixed(c)              ? REF_MIXED_SCALES
                       : is_fp8(c)                ? 4
                                                  : 0;
    a->page_stride = (int64_t)a->page_size * (row_bytes(c) + scales);
    a->page_stride = (a->page_stride + (call_has(c, VERIFY_VIEWS) ? 48 : 0) + 15) / 16 * 16;
    a->rotated_page_stride = PLANE_ROTATED * a->page_size + (call_has(c, VERIFY_VIEWS) ? 80 : 0);
    a->max_position = POSITIONS;
    a->first_slot = call_has(c, PADDED);
    a->eps = 1e-6f;
    a->power_of_two_scales = call_has(c, POWERS);
    if (c->desc.compress.rope != ATTN_ROPE_NONE)
        a->rotary_first =
            call_has(c, FIRST) ? 0 : c->desc.compress.head_dim - c->desc.compress.rotary_dim;
    size_tokens(c);
    own->pages = 8 * (a->tokens / a->ratio + a->batch + 1) / a->page_size + 1;
    a->page_count = own->pages;
    size_rows(c);
}

/* Returns the number of slots of rings: two for each sequence, and one that is unused. */
static int slot_count(const struct call *c) { return 2 * c->args.compress.batch + 1; }

/* Sets sizes and strides of tensors, and omits optional ones: struct verify_op.place. */
static void place(struct call *c)
{
    static const unsigned rings[] = {COMPRESS_STATE, COMPRESS_STATE_SCORES};
    const struct own *own = c->own;
    operand_resize(call_operand(c, COMPRESS_POOL), 0, own->pages * c->args.compress.page_stride);
    operand_resize(call_operand(c, COMPRESS_POOL_ROTATED), 0,
                   own->pages * c->args.compress.rotated_page_stride);
    for (size_t i = 0; i < COUNT(rings); i++) {
        struct operand *ring = call_operand(c, rings[i]);
        operand_resize(ring, 0, slot_count(c));
        if (call_has(c, FAR)) {
            ring->far = true;
            operand_set_stride(ring, 0, FAR_STRIDE);
        }
    }
    if (call_has(c, PLAIN)) {
        operand_leave_out(call_operand(c, COMPRESS_SCORES));
        operand_leave_out(call_operand(c, COMPRESS_STATE_SCORES));
    }
    if (call_has(c, NO_APE))
        operand_leave_out(call_operand(c, COMPRESS_APE));
    if (call_has(c, UNIFORM))
        operand_leave_out(call_operand(c, COMPRESS_CU_SEQLENS));
    if (!call_has(c, FORKS))
        operand_leave_out(call_operand(c, COMPRESS_STATE_SLOTS_IN));
    if (!call_has(c, LATENT))
        operand_leave_out(call_operand(c, COMPRESS_LATENT));
}

/* The functions from here on fill the inputs of a call. */

/* Fills the state slots that each sequence reads and writes. */
static void fill_slots(struct call *c)
{
    struct own *own = c->own;
    const int batch = c->args.compress.batch;
    own->slots = call_allocate(c, (size_t)batch, sizeof(*own->slots));
    own->slots_in = call_allocate(c, (size_t)batch, sizeof(*own->slots_in));
    for (int i = 0; i < batch; i++) {
        own->slots[i] = call_slot(c, PADDED, i, 2 * batch - 2 * i);
        own->slots_in[i] = call_has(c, FORKS) ? call_slot(c, PADDED, i, 2 * i + 1) : own->slots[i];
        operand_set_int(call_operand(c, COMPRESS_STATE_SLOTS), AT(i), own->slots[i]);
        if (call_has(c, FORKS))
            operand_set_int(call_operand(c, COMPRESS_STATE_SLOTS_IN), AT(i), own->slots_in[i]);
        operand_set_int(call_operand(c, COMPRESS_CONTEXT_LENS), AT(i),
                        own->contexts[i] + own->cu[i + 1] - own->cu[i]);
    }
}

/* Returns a random score; with STEEP it may be large. */
static double random_score(struct call *c)
{
    return random_value(&c->random) * (call_has(c, STEEP) ? 30 : 1);
}

/* Puts all rows of rings that are far apart on the device. */
static void touch_rings(struct call *c)
{
    for (int slot = 0; call_has(c, FAR) && slot < slot_count(c); slot++)
        for (int place = 0; place < c->args.compress.ring; place++) {
            operand_touch(call_operand(c, COMPRESS_STATE), AT(slot, place, 0));
            operand_touch(call_operand(c, COMPRESS_STATE_SCORES), AT(slot, place, 0));
        }
}

/* Fills the tokens of the call, and in rings the tokens before the call. */
static void fill_tokens(struct call *c)
{
    const struct own *own = c->own;
    const struct attn_compress_args *a = &c->args.compress;
    struct operand *x = call_operand(c, COMPRESS_X), *scores = call_operand(c, COMPRESS_SCORES);
    struct operand *state = call_operand(c, COMPRESS_STATE);
    struct operand *state_scores = call_operand(c, COMPRESS_STATE_SCORES);
    for (int i = 0; i < a->batch; i++) {
        for (int t = own->cu[i]; t < own->cu[i + 1]; t++)
            for (int d = 0; d < x->dims[1]; d++) {
                operand_set(x, AT(t, d), random_value(&c->random));
                if (scores->given)
                    operand_set(scores, AT(t, d), random_score(c));
            }
        for (int n = 1; n < window_of(c) && n <= own->contexts[i]; n++) {
            const int place = (own->contexts[i] - n) % a->ring;
            for (int d = 0; d < x->dims[1] && own->slots_in[i] >= a->first_slot; d++) {
                operand_set(state, AT(own->slots_in[i], place, d), random_value(&c->random));
                if (scores->given)
                    operand_set(state_scores, AT(own->slots_in[i], place, d), random_score(c));
            }
        }
    }
}

/* Sets the contents of the input tensors: struct verify_op.fill. */
static void fill(struct call *c)
{
    const struct own *own = c->own;
    const struct attn_compress_args *a = &c->args.compress;
    struct operand *angles = call_operand(c, COMPRESS_COS_SIN);
    struct operand *ape = call_operand(c, COMPRESS_APE);
    fill_slots(c);
    touch_rings(c);
    fill_tokens(c);
    if (!call_has(c, UNIFORM))
        operand_set_ints(call_operand(c, COMPRESS_CU_SEQLENS), own->cu, a->batch + 1);
    if (ape->given)
        operand_set_random(ape, &c->random);
    if (c->desc.compress.norm != ATTN_NORM_NONE)
        operand_set_random(call_operand(c, COMPRESS_WEIGHT), &c->random);
    for (int t = 0; t < a->tokens; t++)
        operand_set_int(call_operand(c, COMPRESS_SLOT_MAPPING), AT(t), own->rows[t]);
    for (int d = 0; angles->given && d < angles->dims[1]; d++) {
        const int pairs = (int)angles->dims[1] / 2;
        const double frequency = pow(10000, -(d % pairs) / (double)pairs);
        for (int i = 0; i < angles->dims[0]; i++) {
            const double angle = i * frequency;
            operand_set(angles, AT(i, d), (float)(d < pairs ? cos(angle) : sin(angle)));
        }
    }
}

/* The functions from here on compare the results of a call. */

/* A group of a sequence, and buffers for the values and scores of its tokens. */
struct group {
    /* sequence; number of the group in the sequence; row: index in the call of the group's last
     * token */
    int sequence, number, row;
    double *x, *scores; /* [window, head_dim] */
    uint8_t *there;
    double cos_sin[REF_COMPRESS_DIM], weight[REF_COMPRESS_DIM];
    struct ref_compressed made;
};

/* Returns column d of token `token` of sequence i, or of its scores, from the call's input or the
 * ring. */
static double token_value(struct call *c, bool scores, int i, int token, int d)
{
    const struct own *own = c->own;
    const int own_first = token - own->contexts[i], ring = c->args.compress.ring;
    struct operand *o = call_operand(c, scores ? COMPRESS_SCORES : COMPRESS_X);
    struct operand *old = call_operand(c, scores ? COMPRESS_STATE_SCORES : COMPRESS_STATE);
    if (own_first >= 0)
        return operand_value(o, AT(own->cu[i] + own_first, d));
    return operand_value(old, AT(own->slots_in[i], token % ring, d));
}

/* Reads the inputs of a group: its tokens, scores and positional terms. */
static void read_group(struct call *c, struct group *g)
{
    const int dim = c->desc.compress.head_dim, ratio = c->args.compress.ratio;
    const int window = window_of(c), first = (g->number + 1) * ratio - window;
    struct operand *ape = call_operand(c, COMPRESS_APE);
    const bool scored = call_operand(c, COMPRESS_SCORES)->given;
    for (int n = 0; n < window; n++) {
        const int half = n >= ratio && window > ratio;
        g->there[n] = first + n >= 0;
        for (int d = 0; d < dim && g->there[n]; d++) {
            const int column = half * dim + d;
            double score = scored ? token_value(c, true, g->sequence, first + n, column) : 0;
            if (ape->given)
                score += operand_value(ape, AT(n % ratio, column));
            g->x[n * dim + d] = token_value(c, false, g->sequence, first + n, column);
            g->scores[n * dim + d] = score;
        }
    }
}

/* Computes the compressed row of a group. */
static void make_group(struct call *c, struct group *g)
{
    const struct attn_compress_desc *desc = &c->desc.compress;
    const struct attn_compress_args *a = &c->args.compress;
    read_group(c, g);
    for (int d = 0; d < desc->rotary_dim && desc->rope != ATTN_ROPE_NONE; d++)
        g->cos_sin[d] =
            operand_value(call_operand(c, COMPRESS_COS_SIN), AT(g->number * a->ratio, d));
    for (int d = 0; d < desc->head_dim && desc->norm != ATTN_NORM_NONE; d++)
        g->weight[d] = operand_value(call_operand(c, COMPRESS_WEIGHT), AT(d)) +
                       (desc->norm == ATTN_NORM_GEMMA_RMS);
    ref_compress(
        &(struct ref_compress){
            .dim = desc->head_dim,
            .window = window_of(c),
            .x = g->x,
            .scores = g->scores,
            .there = g->there,
            .weight = desc->norm != ATTN_NORM_NONE ? g->weight : NULL,
            .eps = a->eps,
            .cos_sin = desc->rope != ATTN_ROPE_NONE ? g->cos_sin : NULL,
            .rotary_first = a->rotary_first,
            .rotary_dim = desc->rotary_dim,
            .gptj = desc->rope == ATTN_ROPE_GPTJ,
            .hadamard = desc->hadamard,
        },
        &g->made);
}

/* Compares element `d` of a group's row, a 16-bit number at byte `at` of `pool`. */
static void compare_short(struct call *c, const struct group *g, struct operand *pool, int64_t at,
                          int d)
{
    const struct precision *p = call_operand(c, COMPRESS_LATENT)->precision;
    const unsigned low = (unsigned)operand_result_int(pool, AT(at)) & 0xff;
    const unsigned high = (unsigned)operand_result_int(pool, AT(at + 1)) & 0xff;
    double bound;
    const double expected = stored_value(p, 1, g->made.row[d], g->made.row_error[d], &bound);
    operand_allow(pool, AT(at + 1));
    call_compare_value(c, pool, AT(at), decode_element(p, (uint16_t)(low | high << 8)), expected,
                       bound);
}

/* Compares the elements of a group's row from element `first` on. They are 16-bit numbers from byte
 * `start` of `pool` on. */
static void compare_rest(struct call *c, const struct group *g, struct operand *pool, int64_t start,
                         int first)
{
    for (int d = first; d < c->desc.compress.head_dim; d++)
        compare_short(c, g, pool, start + 2 * (d - first), d);
}

/* Compares a group's row of 16-bit numbers. The row is number `inside` of the page at byte
 * `page`. */
static void compare_plain(struct call *c, const struct group *g, int64_t page, int64_t inside)
{
    const bool shuffle = c->desc.compress.layout == ATTN_KV_SHUFFLE;
    for (int d = 0; d < c->desc.compress.head_dim; d++)
        compare_short(c, g, call_operand(c, COMPRESS_POOL),
                      page + scaled_row_byte(inside, 2 * d, row_bytes(c), shuffle), d);
}

/* Compares a group's row of fp8 and its scale. The row is number `inside` of the page at byte
 * `page`. */
static void compare_fp8(struct call *c, const struct group *g, int64_t page, int64_t inside)
{
    const struct precision *fp8 = find_cache_precision(ATTN_FP8, c->target);
    const struct attn_compress_args *a = &c->args.compress;
    const int dim = c->desc.compress.head_dim;
    struct operand *pool = call_operand(c, COMPRESS_POOL);
    const double scale = scaled_row_read(pool, page + (int64_t)a->page_size * dim + 4 * inside);
    double absmax = 0, error = 0;
    for (int d = 0; d < dim; d++) {
        absmax = fmax(absmax, fabs(g->made.row[d]));
        error = fmax(error, g->made.row_error[d]);
    }
    if (!scaled_row_has(scale, absmax, error, fp8->limit, call_has(c, POWERS)))
        verify_fail(c->row, "group %d of sequence %d has the scale %g, its largest element is %g",
                    g->number, g->sequence, scale, absmax);
    for (int d = 0; d < dim; d++) {
        const bool shuffle = c->desc.compress.layout == ATTN_KV_SHUFFLE;
        const int64_t at = page + scaled_row_byte(inside, d, dim, shuffle);
        const double got = decode_element(fp8, (uint16_t)operand_result_int(pool, AT(at)) & 0xff);
        call_compare_value(c, pool, AT(at), got * scale, g->made.row[d],
                           scaled_row_bound(fp8, g->made.row[d], g->made.row_error[d], scale));
    }
}

/* Returns the offset in the pool, in bytes, of the scale of element d. The row is number `inside`
 * of the page at byte `page`. Only if is_mixed(). With PLANES the next byte has a copy. */
static int64_t mixed_scale_byte(const struct call *c, int64_t page, int inside, int d)
{
    return has_planes(c) ? page + (int64_t)inside * row_bytes(c) + ref_plane_scale(d)
                         : page + ref_mixed_scale(c->args.compress.page_size, inside, d);
}

/* Returns the offset in the pool, in bytes, of fp8 element d of row number `inside` of the page at
 * byte `page`. Only if is_mixed(). */
static int64_t mixed_element_byte(const struct call *c, int64_t page, int inside, int d)
{
    return has_planes(c) ? page + (int64_t)inside * row_bytes(c) + d
                         : page + ref_mixed_element(inside, d);
}

/* Compares a group's row with layout SCALES_LAST or PLANES. The scale of a run may be either of two
 * neighbouring powers of two if max |row| / M is close to one of them. */
static void compare_mixed(struct call *c, const struct group *g, int64_t page, int inside)
{
    const struct precision *fp8 = find_cache_precision(ATTN_FP8, c->target);
    struct operand *pool = call_operand(c, COMPRESS_POOL);
    for (int first = 0; first < REF_MIXED_FP8; first += REF_MIXED_RUN) {
        const int64_t byte = mixed_scale_byte(c, page, inside, first);
        const double scale = exp2((double)(operand_result_int(pool, AT(byte)) & 0xff) - 127);
        double absmax = 0, error = 0;
        operand_allow(pool, AT(byte));
        if (has_planes(c))
            call_compare_int(c, pool, AT(byte + 1), operand_result_int(pool, AT(byte)));
        for (int d = first; d < first + REF_MIXED_RUN; d++) {
            absmax = fmax(absmax, fabs(g->made.row[d]));
            error = fmax(error, g->made.row_error[d]);
        }
        const double f = STORED_F * 2 * absmax, least = 1e-4 * fp8->limit;
        if (!scaled_row_has(scale, fmax(absmax, least), error + f, fp8->limit, true))
            verify_fail(c->row, "elements %d.. of group %d of sequence %d have the scale %g for %g",
                        first, g->number, g->sequence, scale, absmax);
        for (int d = first; d < first + REF_MIXED_RUN; d++) {
            const int64_t at = mixed_element_byte(c, page, inside, d);
            const double got =
                decode_element(fp8, (uint16_t)operand_result_int(pool, AT(at)) & 0xff);
            call_compare_value(c, pool, AT(at), got * scale, g->made.row[d],
                               scaled_row_bound(fp8, g->made.row[d], g->made.row_error[d], scale));
        }
    }
    if (!has_planes(c))
        compare_rest(c, g, pool, page + ref_mixed_element(inside, REF_MIXED_FP8), REF_MIXED_FP8);
}

/* Compares the row that a group writes to the latent output and the pool. */
static void compare_group(struct call *c, struct group *g)
{
    const struct attn_compress_args *a = &c->args.compress;
    const int64_t slot = ((const struct own *)c->own)->rows[g->row];
    struct operand *latent = call_operand(c, COMPRESS_LATENT);
    make_group(c, g);
    for (int d = 0; latent->given && d < c->desc.compress.head_dim; d++) {
        double bound;
        const double expected =
            stored_value(latent->precision, 1, g->made.latent[d], g->made.latent_error[d], &bound);
        call_compare(c, latent, AT(g->row, d), expected, bound);
    }
    if (slot < 0)
        return;
    const int64_t page = slot / a->page_size * a->page_stride, inside = slot % a->page_size;
    struct operand *pool = call_operand(c, COMPRESS_POOL);
    if (has_planes(c))
        compare_rest(c, g, call_operand(c, COMPRESS_POOL_ROTATED),
                     slot / a->page_size * a->rotated_page_stride + inside * PLANE_ROTATED,
                     REF_MIXED_FP8);
    if (row_of(c))
        pooled_row_compare(c,
                           &(struct pooled_row){.format = row_of(c),
                                                .tensor = pool,
                                                .at = {page + inside * row_bytes(c)}},
                           g->made.row, g->made.row_error);
    else if (is_mixed(c))
        compare_mixed(c, g, page, (int)inside);
    else if (is_fp8(c))
        compare_fp8(c, g, page, inside);
    else
        compare_plain(c, g, page, inside);
}

/* Compares the rows that the call wrote to the ring of sequence i, of tokens or of scores. */
static void compare_ring(struct call *c, int i, bool scores)
{
    const struct own *own = c->own;
    const struct attn_compress_args *a = &c->args.compress;
    struct operand *ring = call_operand(c, scores ? COMPRESS_STATE_SCORES : COMPRESS_STATE);
    const int end = own->contexts[i] + own->cu[i + 1] - own->cu[i];
    int first = own->contexts[i] - (call_has(c, FORKS) ? window_of(c) - 1 : 0);
    first = first < end - a->ring ? end - a->ring : first;
    for (int token = first < 0 ? 0 : first; token < end; token++)
        for (int d = 0; d < ring->dims[2]; d++)
            call_compare(c, ring, AT(own->slots[i], token % a->ring, d),
                         token_value(c, scores, i, token, d), 0);
}

/* Compares the rows of all groups, and the rings after the call. */
static void compare(struct call *c)
{
    const struct own *own = c->own;
    const struct attn_compress_args *a = &c->args.compress;
    const size_t room = (size_t)window_of(c) * (size_t)c->desc.compress.head_dim;
    struct group *g = call_allocate(c, 1, sizeof(*g));
    g->x = call_allocate(c, room, sizeof(*g->x));
    g->scores = call_allocate(c, room, sizeof(*g->scores));
    g->there = call_allocate(c, (size_t)window_of(c), 1);
    for (int i = 0; i < a->batch; i++) {
        if (own->slots[i] < a->first_slot)
            continue;
        g->sequence = i;
        for (g->row = own->cu[i]; g->row < own->cu[i + 1]; g->row++) {
            const int tokens = own->contexts[i] + g->row - own->cu[i] + 1;
            g->number = tokens / a->ratio - 1;
            if (tokens % a->ratio == 0)
                compare_group(c, g);
        }
        compare_ring(c, i, false);
        if (!call_has(c, PLAIN))
            compare_ring(c, i, true);
    }
}

/* Returns the bytes of the call's tokens, read and written to rings, of older tokens of their
 * groups, and of the rows that are made. */
static double least_bytes(const struct call *c)
{
    const struct attn_compress_args *a = &c->args.compress;
    const double element = c->desc.compress.state_dtype == ATTN_STATE_F32 ? 4 : 2;
    const double columns = c->desc.compress.head_dim * (a->overlap ? 2.0 : 1.0);
    const double token = columns * element * (call_has(c, PLAIN) ? 1 : 2);
    const double groups = (double)a->batch * ((a->max_seqlen + a->ratio - 1) / a->ratio);
    const double older = a->max_seqlen < a->ratio ? window_of(c) - a->max_seqlen : 0;
    return 2 * token * a->tokens + groups * older * token / (a->overlap ? 2 : 1) +
           groups * row_bytes(c);
}

const struct verify_op verify_compress = {
    .op = "compress",
    VERIFY_SHAPES(shapes),
    .trace = &traced,
    .tuned = {"batch=64", "batch=1,length=4096"},
    .dimensions =
        {
            {"ratio", offsetof(struct shape, ratio), 128, "tokens of a group"},
            {"batch", offsetof(struct shape, batch), 1024, "sequences"},
            {"length", offsetof(struct shape, length), 7000, "tokens of each"},
        },
    .own_size = sizeof(struct own),
    .size = size,
    .place = place,
    .fill = fill,
    .compare = compare,
    .least_bytes = least_bytes,
};
