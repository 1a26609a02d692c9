/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An engine with one decoder layer of DeepSeek-V3, GLM-5 or DeepSeek-V3.2, as on a rank of TP 8.
 * Prompts fill the cache, and a second turn continues them over the cached tokens. Steps then
 * generate: each sequence has drafts and keeps some of them. Finally one sequence ends and its row
 * becomes padding. All results of the GPU are checked after every call. Exit status: 0 all right, 1
 * wrong results, 2 no GPU or no memory.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "check.h"
#include "check_index.h"
#include "layer.h"

enum { STEPS = 6, LAST_STEP_OF_1 = 3, MOST_HEADS = 16 };

static const struct call prompts = {{70, 5, 83, 0}, {70, 5, 83, 0}}; /* the last sequence begins in
                                                                      * the second turn */
static const struct call turn = {{83, 5, 88, 20}, {13, 0, 5, 20}};

/* The tokens' numbers on the host, before and after the kernels. */
struct engine {
    struct model model;
    const struct shape *shape;
    struct layer *layer;
    int lengths[BATCH]; /* tokens of each sequence; 0: the row is padding */
    float hidden[TOKENS][MOST_HIDDEN], last[BATCH][MOST_HIDDEN];
    uint16_t q_a[TOKENS * MOST_Q_LORA], kv_a[TOKENS * ROW], q[TOKENS * MOST_QUERY];
    uint16_t raw_q_a[TOKENS * MOST_Q_LORA], raw_kv_a[TOKENS * ROW];
    uint16_t rotated_q[TOKENS * MOST_QUERY], rows[MOST_TOKENS * ROW];
    uint16_t k[MOST_TOKENS * MOST_QUERY], v[MOST_TOKENS * MOST_OUT], out[TOKENS * MOST_OUT];
    uint16_t absorbed[TOKENS * MOST_ABSORBED], latent[TOKENS * MOST_HEADS * LATENT];
    double seen_k[BATCH][LONGEST][MOST_QUERY], seen_v[BATCH][LONGEST][MOST_OUT];
    double cache[LONGEST][ROW], chosen[MOST_CHOSEN][ROW];
    uint16_t index_q[TOKENS * MOST_INDEX_HEADS * INDEX], index_k[TOKENS * INDEX];
    uint16_t index_weights[TOKENS * MOST_INDEX_HEADS];
    uint8_t index_q_out[TOKENS * MOST_INDEX_HEADS * INDEX];
    uint8_t index_cache[BATCH * LONGEST * (INDEX + 4)];
    float index_weights_out[TOKENS * MOST_INDEX_HEADS];
    int32_t slots[TOKENS * MOST_CHOSEN], counts[TOKENS];
    struct scaled_head index_keys[LONGEST];
};

static void download(struct engine *e, uint16_t *to, const uint16_t *from, size_t count)
{
    layer_download(e->layer, to, from, count * sizeof(*to));
}

/* Computes norms and first projections of `hidden`. */
static void project(struct engine *e, int tokens, struct verdict *verdict)
{
    const int lora = e->shape->q_lora;
    for (int t = 0; t < tokens; t++)
        model_project(&e->model, e->hidden[t], e->q_a + t * lora, e->kv_a + t * ROW);
    memcpy(e->raw_q_a, e->q_a, sizeof(e->q_a));
    memcpy(e->raw_kv_a, e->kv_a, sizeof(e->kv_a));
    layer_norm(e->layer, tokens, e->q_a, e->kv_a);
    for (int t = 0; t < tokens; t++) {
        check_norm(verdict, e->raw_q_a + t * lora, e->model.q_norm, lora, e->q_a + t * lora);
        check_norm(verdict, e->raw_kv_a + t * ROW, e->model.kv_norm, LATENT, e->kv_a + t * ROW);
        if (memcmp(e->raw_kv_a + t * ROW + LATENT, e->kv_a + t * ROW + LATENT, 2 * ROPE) != 0)
            verdict->norm = INFINITY; /* everything but the latent must be unchanged */
        model_project_q(&e->model, e->q_a + t * lora, e->q + t * query_size(e->shape));
    }
}

/* Checks keys and values of `tokens` rows, which belong to tokens of the sequence from `first`
 * on. */
static void check_up(struct engine *e, const uint16_t *rows, int tokens, int sequence, int first,
                     struct verdict *verdict, int from)
{
    const struct shape *s = e->shape;
    const int width = s->nope + s->value, query = query_size(s), out = out_size(s);
    for (int t = 0; t < tokens; t++) {
        const uint16_t *const row = rows + (from + t) * ROW;
        const uint16_t *const k = e->k + (from + t) * query, *const v = e->v + (from + t) * out;
        for (int h = 0; h < s->heads; h++) {
            const uint16_t *const w = e->model.kv_b + h * width * LATENT;
            const uint16_t *const key = k + h * key_dim(s);
            check_product(verdict, row, w, s->nope, LATENT, key);
            check_product(verdict, row, w + s->nope * LATENT, s->value, LATENT, v + h * s->value);
            if (memcmp(key + s->nope, row + LATENT, 2 * ROPE) != 0)
                verdict->product = INFINITY;
        }
        for (int i = 0; i < query; i++)
            e->seen_k[sequence][first + t][i] = bf16_to_float(k[i]);
        for (int i = 0; i < out; i++)
            e->seen_v[sequence][first + t][i] = bf16_to_float(v[i]);
    }
}

/* Checks the row that a token has in the cache and keeps it in e->cache. */
static void check_cache(struct engine *e, int sequence, int position, int row,
                        struct verdict *verdict)
{
    const float scale = layer_read_row(e->layer, sequence, position, e->cache[position]);
    check_cached(verdict, e->shape, e->kv_a + row * ROW, position, scale, e->cache[position]);
}

/* Checks rotation, cache, keys and values of a prefill's new tokens. */
static void check_new(struct engine *e, const struct call *call, struct verdict *verdict)
{
    const struct shape *s = e->shape;
    const struct tensors *t = layer_tensors(e->layer);
    const int tokens = call_tokens(call), query = query_size(s);
    download(e, e->rotated_q, t->q, (size_t)tokens * query);
    download(e, e->rows, t->kv_a, (size_t)tokens * ROW);
    download(e, e->k, t->k, (size_t)tokens * query);
    download(e, e->v, t->v, (size_t)tokens * out_size(s));
    for (int b = 0, n = 0; b < BATCH; n += call->added[b++]) {
        const int cached = call->lengths[b] - call->added[b];
        for (int i = 0; i < call->added[b]; i++) {
            const int row = n + i;
            for (int h = 0; h < s->heads; h++) {
                const int at = row * query + h * key_dim(s) + s->nope;
                check_rotated(verdict, s, e->q + at, cached + i, e->rotated_q + at);
            }
            check_rotated(verdict, s, e->kv_a + row * ROW + LATENT, cached + i,
                          e->rows + row * ROW + LATENT);
            check_cache(e, b, cached + i, row, verdict);
        }
        check_up(e, e->rows, call->added[b], b, cached, verdict, n);
    }
}

/* Checks a chunk: the rows gathered from the cache, and their products. */
static void check_chunk(struct engine *e, const struct call *call, int number,
                        struct verdict *verdict)
{
    const struct tensors *t = layer_tensors(e->layer);
    int tokens = 0;
    for (int b = 0; b < BATCH; b++)
        tokens += call_chunk(call, b, number);
    download(e, e->rows, t->gathered, (size_t)tokens * ROW);
    download(e, e->k, t->k, (size_t)tokens * query_size(e->shape));
    download(e, e->v, t->v, (size_t)tokens * out_size(e->shape));
    for (int b = 0, n = 0; b < BATCH; n += call_chunk(call, b++, number)) {
        const int count = call_chunk(call, b, number);
        for (int i = 0; i < count; i++) {
            layer_read_row(e->layer, b, number * CHUNK + i, e->cache[0]);
            for (int d = 0; d < ROW; d++) { /* the stored number, rounded once to bf16 */
                const double stored = e->cache[0][d];
                if (!(fabs(bf16_to_float(e->rows[(n + i) * ROW + d]) - stored) <=
                      0x1p-8 * fabs(stored)))
                    verdict->cached = INFINITY;
            }
        }
        check_up(e, e->rows, count, b, number * CHUNK, verdict, n);
    }
}

static void check_prefill(struct engine *e, const struct call *call, int parts,
                          struct verdict *verdict)
{
    const struct shape *s = e->shape;
    const int tokens = call_tokens(call), query = query_size(s), out = out_size(s);
    download(e, e->out, layer_tensors(e->layer)->out, (size_t)tokens * out);
    for (int b = 0, n = 0; b < BATCH; b++) {
        for (int i = 0; i < call->added[b]; i++, n++) {
            for (int h = 0; h < s->heads; h++) {
                const struct seen seen = {
                    .keys = call->lengths[b] - call->added[b] + i + 1,
                    .head_dim = key_dim(s),
                    .head_dim_v = s->value,
                    .k = e->seen_k[b][0] + h * key_dim(s),
                    .v = e->seen_v[b][0] + h * s->value,
                    .stride_k = MOST_QUERY,
                    .stride_v = MOST_OUT,
                    .parts = parts,
                };
                check_attention(verdict, e->rotated_q + n * query + h * key_dim(s),
                                softmax_scale(s), &seen, e->out + n * out + h * s->value);
            }
        }
    }
}

/* Checks an absorbed token from its query to its output, over rows of the cache. */
static void check_token(struct engine *e, int position, int n, const double *rows, int keys,
                        struct verdict *verdict)
{
    const struct shape *s = e->shape;
    const uint16_t *const q = e->q + n * query_size(s);
    const struct seen seen = {
        .keys = keys,
        .head_dim = ROW,
        .head_dim_v = LATENT,
        .k = rows,
        .v = rows,
        .stride_k = ROW,
        .stride_v = ROW,
        .parts = 1,
    };
    for (int h = 0; h < s->heads; h++) {
        const uint16_t *const absorbed = e->absorbed + (n * s->heads + h) * ROW;
        const uint16_t *const latent = e->latent + (n * s->heads + h) * LATENT;
        check_product(verdict, q + h * key_dim(s), e->model.absorb + h * LATENT * s->nope, LATENT,
                      s->nope, absorbed);
        check_rotated(verdict, s, q + h * key_dim(s) + s->nope, position, absorbed + LATENT);
        check_attention(verdict, absorbed, softmax_scale(s), &seen, latent);
        check_product(verdict, latent,
                      e->model.kv_b + (h * (s->nope + s->value) + s->nope) * LATENT, s->value,
                      LATENT, e->out + (n * s->heads + h) * s->value);
    }
}

static bool report(const char *what, int number, const struct call *call, struct verdict verdict)
{
    const double kinds[] = {verdict.norm,      verdict.rotated, verdict.cached, verdict.product,
                            verdict.attention, verdict.index,   verdict.chosen};
    bool ok = true;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        ok &= kinds[i] <= 1;
    printf("%s %2d  contexts", what, number);
    for (int b = 0; b < BATCH; b++)
        printf(" %3d+%-2d", call->lengths[b] - call->added[b], call->added[b]);
    printf("  error / bound: norm %.3f, rotated %.3f, cached %.3f, product %.3f, attention %.3f",
           verdict.norm, verdict.rotated, verdict.cached, verdict.product, verdict.attention);
    if (verdict.index > 0)
        printf(", index %.3f, chosen %.3f", verdict.index, verdict.chosen);
    puts(ok ? "  ok" : "  WRONG");
    return ok;
}

/* Runs new tokens of prompts over the cached tokens of their sequences. */
static bool prefill(struct engine *e, int number, const struct call *call)
{
    int tokens = 0, parts = 1;
    for (int b = 0; b < BATCH; b++) {
        for (int i = 0; i < call->added[b]; i++, tokens++)
            embed(number * 10000 + b * LONGEST + i, e->hidden[tokens], e->shape->hidden);
    }
    struct verdict verdict = {0};
    project(e, tokens, &verdict);
    layer_prefill(e->layer, call, e->q);
    check_new(e, call, &verdict);
    for (int chunk = 0;; chunk++, parts++) {
        int cached = 0;
        for (int b = 0; b < BATCH; b++)
            cached += call_chunk(call, b, chunk);
        if (cached == 0)
            break;
        layer_prefill_chunk(e->layer, call, chunk);
        check_chunk(e, call, chunk, &verdict);
    }
    check_prefill(e, call, parts, &verdict);
    for (int b = 0, n = 0; b < BATCH; n += call->added[b++]) {
        e->lengths[b] = call->lengths[b];
        if (call->added[b] == 0)
            continue;
        const int last = n + call->added[b] - 1; /* a model would sample from it */
        memcpy(e->last[b], e->hidden[last], sizeof(e->last[b]));
        model_add_output(&e->model, e->out + last * out_size(e->shape), e->last[b]);
    }
    return report("prefill", number, call, verdict);
}

/* Generates a token per sequence, and drafts. The rows of rejected drafts are overwritten later. */
static bool step(struct engine *e, int number)
{
    struct call call = {{0}, {0}};
    const struct tensors *t = layer_tensors(e->layer);
    const size_t heads = (size_t)e->shape->heads;
    int tokens = 0;
    for (int b = 0; b < BATCH; b++) {
        if (e->lengths[b] == 0 || (b == 1 && number > LAST_STEP_OF_1))
            continue;
        call.added[b] = 1 + (number + b) % QUERIES;
        call.lengths[b] = e->lengths[b] + call.added[b];
        memcpy(e->hidden[tokens++], e->last[b], sizeof(e->last[b]));
        for (int i = 1; i < call.added[b]; i++, tokens++)
            embed(50000 + number * STEP + tokens, e->hidden[tokens], e->shape->hidden);
    }
    struct verdict verdict = {0};
    project(e, tokens, &verdict);
    layer_step(e->layer, &call, e->q);
    download(e, e->absorbed, t->absorbed, (size_t)tokens * heads * ROW);
    download(e, e->latent, t->latent, (size_t)tokens * heads * LATENT);
    download(e, e->out, t->out, (size_t)tokens * (size_t)out_size(e->shape));
    for (int b = 0, n = 0; b < BATCH; n += call.added[b++]) {
        const int cached = call.lengths[b] - call.added[b];
        for (int i = 0; i < cached; i++)
            layer_read_row(e->layer, b, i, e->cache[i]);
        for (int i = 0; i < call.added[b]; i++) {
            check_cache(e, b, cached + i, n + i, &verdict);
            check_token(e, cached + i, n + i, e->cache[0], cached + i + 1, &verdict);
        }
        if (call.added[b] == 0)
            continue;
        const int kept = 1 + (3 * number + b) % call.added[b];
        e->lengths[b] = cached + kept;
        memcpy(e->last[b], e->hidden[n + kept - 1], sizeof(e->last[b]));
        model_add_output(&e->model, e->out + (n + kept - 1) * out_size(e->shape), e->last[b]);
    }
    return report("step   ", number, &call, verdict);
}

/* The functions from here on are for models with an indexer. */

static void download_sparse(struct engine *e, size_t tokens)
{
    const struct tensors *t = layer_tensors(e->layer);
    const struct index *x = layer_index(e->layer);
    const size_t heads = (size_t)e->shape->heads, index_heads = (size_t)e->shape->index_heads;
    download(e, e->absorbed, t->absorbed, tokens * heads * ROW);
    download(e, e->latent, t->latent, tokens * heads * LATENT);
    download(e, e->out, t->out, tokens * (size_t)out_size(e->shape));
    layer_download(e->layer, e->index_q_out, x->q_out, tokens * index_heads * INDEX);
    layer_download(e->layer, e->index_weights_out, x->weights_out,
                   tokens * index_heads * sizeof(float));
    layer_download(e->layer, e->index_cache, x->cache,
                   sizeof(e->index_cache) / (INDEX + 4) *
                       (e->shape->mxfp4 ? INDEX / 2 + 4 : INDEX + 4));
    layer_download(e->layer, e->slots, x->slots, tokens * (size_t)e->shape->chosen * 4);
    layer_download(e->layer, e->counts, x->counts, tokens * sizeof(int32_t));
}

/* Reads a key in mxfp4: each byte has two elements of e2m1, the even one in its low half, and each
 * 32 elements have a scale of e8m0. */
static void read_mxfp4_key(struct engine *e, int sequence, int token, struct scaled_head *key)
{
    static const double e2m1[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    const uint8_t *scales = e->index_cache + layer_index_scale(e->layer, sequence, token);
    for (int d = 0; d < INDEX; d++) {
        const uint8_t byte = e->index_cache[layer_index_key(e->layer, sequence, token, d / 2)];
        const unsigned bits = byte >> (4 * (d % 2)) & 15;
        key->scales[d / MX_BLOCK] = ldexp(1, scales[d / MX_BLOCK] - 127);
        key->x[d] = key->scales[d / MX_BLOCK] * (bits & 8 ? -e2m1[bits & 7] : e2m1[bits]);
    }
}

static void read_index_key(struct engine *e, int sequence, int token, struct scaled_head *key)
{
    float scale;
    if (e->shape->mxfp4) {
        read_mxfp4_key(e, sequence, token, key);
        return;
    }
    memcpy(&scale, e->index_cache + layer_index_scale(e->layer, sequence, token), sizeof(scale));
    key->scale = scale;
    key->largest = layer_fp8_largest(e->layer);
    for (int d = 0; d < INDEX; d++)
        key->x[d] =
            scale *
            layer_fp8(e->layer, e->index_cache[layer_index_key(e->layer, sequence, token, d)]);
}

/* Checks the queries of token n as fp8 numbers; their scales are part of the weights. */
static void check_queries(struct engine *e, int position, int n, double (*q)[INDEX],
                          struct verdict *verdict)
{
    const int heads = e->shape->index_heads;
    for (int h = 0; h < heads; h++) {
        const int at = n * heads + h;
        const double weight = bf16_to_float(e->index_weights[at]) / sqrt((double)heads * INDEX);
        struct scaled_head got = {.largest = layer_fp8_largest(e->layer)};
        got.scale = e->index_weights_out[at] / weight;
        for (int d = 0; d < INDEX; d++) {
            q[h][d] = layer_fp8(e->layer, e->index_q_out[at * INDEX + d]);
            got.x[d] = q[h][d] * got.scale;
        }
        if (weight != 0)
            check_index_query(verdict, e->shape, e->index_q + at * INDEX, position, &got);
    }
}

/* Converts a token's slots to positions in its sequence; returns their number. */
static int find_positions(struct engine *e, int sequence, int n, int keys, int *positions)
{
    const int32_t *const slots = e->slots + n * e->shape->chosen;
    int count = 0;
    for (int p = 0; p < keys && count < e->counts[n]; p++) {
        if (slots[count] == layer_slot(e->layer, sequence, p))
            positions[count++] = p;
    }
    for (int i = count; i < e->shape->chosen; i++) {
        if (slots[i] != -1)
            return -1;
    }
    return count == e->counts[n] ? count : -1;
}

static void check_sparse_token(struct engine *e, int sequence, int position, int n,
                               struct verdict *verdict)
{
    static double q[MOST_INDEX_HEADS][INDEX];
    int positions[MOST_CHOSEN];
    const struct scored scored = {
        .keys = position + 1,
        .heads = e->shape->index_heads,
        .chosen = e->shape->chosen,
        .k = e->index_keys,
        .q = q[0],
        .weights = e->index_weights_out + n * e->shape->index_heads,
    };
    check_index_key(verdict, &e->model, e->index_k + n * INDEX, position, &e->index_keys[position]);
    check_queries(e, position, n, q, verdict);
    const int count = find_positions(e, sequence, n, position + 1, positions);
    check_chosen(verdict, &scored, positions, count);
    for (int i = 0; i < count; i++)
        memcpy(e->chosen[i], e->cache[positions[i]], sizeof(e->chosen[i]));
    if (count > 0)
        check_token(e, position, n, e->chosen[0], count, verdict);
}

/* Returns the new tokens of a sequence: of a prompt, of its continuation, or generated with
 * drafts. */
static int new_tokens(const struct engine *e, int b, int number, bool *prompt)
{
    const int first = prompts.added[b], next = turn.added[b], late = b == 1 ? 40 : 0;
    const int added = number == 0 ? first : number == 1 ? next : number == 4 ? late : 0;
    *prompt = added > 0;
    if (added > 0 || number == 0 || e->lengths[b] == 0)
        return added;
    return 1 + (number + b) % QUERIES;
}

static int fill_mixed(struct engine *e, int number, struct call *call, bool prompt[BATCH])
{
    int tokens = 0;
    for (int b = 0; b < BATCH; b++) {
        call->added[b] = new_tokens(e, b, number, &prompt[b]);
        call->lengths[b] = e->lengths[b] + call->added[b];
        for (int i = 0; i < call->added[b]; i++, tokens++)
            embed(number * 10000 + b * LONGEST + i, e->hidden[tokens], e->shape->hidden);
        if (!prompt[b] && call->added[b] > 0)
            memcpy(e->hidden[tokens - call->added[b]], e->last[b], sizeof(e->last[b]));
    }
    return tokens;
}

static void keep_mixed(struct engine *e, int number, const struct call *call,
                       const bool prompt[BATCH])
{
    for (int b = 0, n = 0; b < BATCH; n += call->added[b++]) {
        if (call->added[b] == 0)
            continue;
        const int kept = prompt[b] ? call->added[b] : 1 + (3 * number + b) % call->added[b];
        e->lengths[b] = call->lengths[b] - call->added[b] + kept;
        memcpy(e->last[b], e->hidden[n + kept - 1], sizeof(e->last[b]));
        model_add_output(&e->model, e->out + (n + kept - 1) * out_size(e->shape), e->last[b]);
    }
}

/* Runs prompts and generated tokens together in one replay of one graph. */
static bool mixed(struct engine *e, int number)
{
    struct call call = {{0}, {0}};
    struct verdict verdict = {0};
    bool prompt[BATCH];
    const int heads = e->shape->index_heads, tokens = fill_mixed(e, number, &call, prompt);
    project(e, tokens, &verdict);
    for (int t = 0; t < tokens; t++)
        model_project_index(&e->model, e->hidden[t], e->q_a + t * e->shape->q_lora,
                            e->index_q + t * heads * INDEX, e->index_k + t * INDEX,
                            e->index_weights + t * heads);
    layer_sparse(e->layer, &call, e->q,
                 &(struct index_inputs){e->index_q, e->index_k, e->index_weights});
    download_sparse(e, (size_t)tokens);
    for (int b = 0, n = 0; b < BATCH; n += call.added[b++]) {
        const int cached = call.lengths[b] - call.added[b];
        for (int i = 0; i < call.lengths[b] && call.added[b] > 0; i++) {
            layer_read_row(e->layer, b, i, e->cache[i]);
            read_index_key(e, b, i, &e->index_keys[i]);
        }
        for (int i = 0; i < call.added[b]; i++) {
            check_cache(e, b, cached + i, n + i, &verdict);
            check_sparse_token(e, b, cached + i, n + i, &verdict);
        }
    }
    keep_mixed(e, number, &call, prompt);
    return report("mixed  ", number, &call, verdict);
}

static bool run(const struct shape *shape)
{
    static struct engine e;
    e.shape = shape;
    e.model = model_make(shape);
    e.layer = layer_open(&e.model);
    memset(e.lengths, 0, sizeof(e.lengths));
    bool ok = true;
    if (shape->index_heads) {
        for (int number = 0; number < STEPS + 2; number++)
            ok &= mixed(&e, number);
    } else {
        ok = prefill(&e, 0, &prompts);
        ok &= prefill(&e, 1, &turn);
        for (int number = 0; number < STEPS; number++)
            ok &= step(&e, number);
    }
    layer_close(e.layer);
    model_free(&e.model);
    return ok;
}

int main(int argc, char **argv)
{
    bool ok = true;
    for (int i = 0; i < SHAPES; i++) {
        if (argc < 2 ? !shapes[i].mxfp4 : strcmp(argv[1], shapes[i].name) == 0)
            ok &= run(&shapes[i]);
    }
    return !ok;
}
