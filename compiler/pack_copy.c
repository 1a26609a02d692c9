/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts kernels of an existing pack to the pack writer's input, so that packs can be joined and
 * split without their descriptions.
 */
#include <string.h>

#include "compiler/pack_writer.h"

/* A pack in memory. Both members point to its first byte. */
struct pack {
    const uint8_t *bytes;
    const struct attn_pack_header *header;
};

/* Returns the first byte of section `id` of a pack. */
static const void *section(const struct pack *p, enum attn_pack_section_id id)
{
    return p->bytes + p->header->sections[id].offset;
}

/* Returns the string at byte offset `s` of a pack's strings. */
static const char *text(const struct pack *p, attn_pack_string s)
{
    return (const char *)section(p, ATTN_PACK_STRINGS) + s;
}

/* Returns the record of the n-th kernel, counted from 0. The records' offsets follow the rows of
 * the index. */
static const struct attn_pack_kernel *record(const struct pack *p, uint32_t n)
{
    const struct attn_pack_index_row *rows = section(p, ATTN_PACK_INDEX);
    uint32_t offset;
    memcpy(&offset, (const uint8_t *)(rows + p->header->kernel_count) + n * sizeof(offset),
           sizeof(offset));
    return (const void *)((const uint8_t *)section(p, ATTN_PACK_KERNELS) + offset);
}

/* The tables that follow a kernel's record in a pack, converted to the pack writer's types. */
struct tables {
    struct attnc_pack_pair pairs[ATTN_PACK_PAIRS_MAX];
    struct attnc_pack_kernarg kernargs[ATTN_PACK_KERNARGS_MAX];
    /* factors of the grid in x, y and z */
    struct attnc_pack_factor factors[3][ATTN_PACK_FACTORS_MAX];
    struct attnc_pack_when whens[ATTN_PACK_WHENS_MAX];
    const struct attn_pack_split *splits; /* the table of splits in the pack */
};

/* Converts the tables that follow the record `k` to `t`: key, arguments, grid, conditions,
 * splits. */
static void read_tables(const struct pack *p, const struct attn_pack_kernel *k, struct tables *t)
{
    const struct attn_pack_pair *pairs = (const void *)(k + 1);
    const struct attn_pack_kernarg *args = (const void *)(pairs + k->pair_count);
    const struct attn_pack_factor *factors = (const void *)(args + k->kernarg_count);
    for (uint32_t i = 0; i < k->pair_count; i++)
        t->pairs[i] = (struct attnc_pack_pair){text(p, pairs[i].field), text(p, pairs[i].value)};
    for (uint32_t i = 0; i < k->kernarg_count; i++)
        t->kernargs[i] = (struct attnc_pack_kernarg){text(p, args[i].arg), args[i].offset,
                                                     (enum attn_arg_kind)args[i].kind};
    for (int d = 0; d < 3; d++) {
        for (uint32_t i = 0; i < k->factor_count[d]; i++, factors++)
            t->factors[d][i] = (struct attnc_pack_factor){text(p, factors->arg), factors->number};
    }
    const struct attn_pack_when *whens = (const void *)factors;
    for (uint32_t i = 0; i < k->when_count; i++)
        t->whens[i] = (struct attnc_pack_when){text(p, whens[i].arg), whens[i].min, whens[i].max};
    t->splits = (const void *)(whens + k->when_count);
}

/* True if the key, the first `count` of t->pairs, has the field. */
static bool has_field(const struct tables *t, size_t count, const char *field)
{
    for (size_t i = 0; i < count; i++) {
        if (!strcmp(t->pairs[i].field, field))
            return true;
    }
    return false;
}

/* Adds to the key, the first `count` of t->pairs, each of `pairs` whose field the key lacks.
 * Returns the key's new number of pairs. */
static size_t complete(struct tables *t, size_t count, const struct attnc_pack_pair *pairs,
                       size_t pair_count)
{
    for (size_t i = 0; i < pair_count && count < ATTN_PACK_PAIRS_MAX; i++) {
        if (!has_field(t, count, pairs[i].field))
            t->pairs[count++] = pairs[i];
    }
    return count;
}

/* Adds kernel `n` of the pack at `bytes` to the writer. The key gets each of `pairs` whose field it
 * lacks. If `every_call` is true, the kernel loses its conditions on calls. Returns false after a
 * failure, like attnc_pack_writer_add(). */
static bool copy(struct attnc_pack_writer *w, const void *bytes, uint32_t n, bool every_call,
                 const struct attnc_pack_pair *pairs, size_t pair_count)
{
    const struct pack p = {bytes, bytes};
    const struct attn_pack_kernel *k = record(&p, n);
    const char *base = (const char *)k;
    struct tables t;
    read_tables(&p, k, &t);
    struct attnc_pack_kernel out = {
        .name = base + k->name,
        .symbol = base + k->symbol,
        .op = text(&p, k->op),
        .target = text(&p, k->target),
        .tuning = base + k->tuning,
        .provenance = base + k->provenance,
        .key = t.pairs,
        .key_count = complete(&t, k->pair_count, pairs, pair_count),
        .kernargs = t.kernargs,
        .kernarg_count = k->kernarg_count,
        .kernarg_size = k->kernarg_size,
        .when = t.whens,
        .when_count = every_call ? 0 : k->when_count,
        .splits = t.splits,
        .split_count = k->split_count,
        .workgroups_most = k->workgroups_most,
#define NUMBER(type, name) .name = k->name,
#include "pack/kernel_numbers.def"
        .code = (const uint8_t *)section(&p, ATTN_PACK_CODE) + k->code_offset,
        .code_size = k->code_size,
    };
    memcpy(out.workgroup, k->workgroup, sizeof(out.workgroup));
    for (int d = 0; d < 3; d++) {
        out.grid[d] = t.factors[d];
        out.grid_count[d] = k->factor_count[d];
    }
    return attnc_pack_writer_add(w, &out);
}

bool attnc_pack_copy(struct attnc_pack_writer *w, const void *bytes, uint32_t n, bool every_call)
{
    return copy(w, bytes, n, every_call, NULL, 0);
}

bool attnc_pack_copy_completed(struct attnc_pack_writer *w, const void *bytes, uint32_t n,
                               const struct attnc_pack_pair *pairs, size_t count)
{
    return copy(w, bytes, n, false, pairs, count);
}

/* Returns the hash of the key of the n-th kernel, from the pack's index. */
static uint64_t hash_of(const struct pack *p, uint32_t n)
{
    const struct attn_pack_index_row *rows = section(p, ATTN_PACK_INDEX);
    uint32_t at = 0;
    while (at + 1 < p->header->kernel_count && rows[at].kernel != n)
        at++;
    return rows[at].hash;
}

bool attnc_pack_same_key(const void *bytes, uint32_t n, uint32_t other)
{
    const struct pack p = {bytes, bytes};
    return hash_of(&p, n) == hash_of(&p, other);
}

bool attnc_pack_shares_key(const void *bytes, uint32_t n)
{
    const struct pack p = {bytes, bytes};
    const struct attn_pack_index_row *rows = section(&p, ATTN_PACK_INDEX);
    const uint64_t own = hash_of(&p, n);
    uint32_t count = 0;
    for (uint32_t i = 0; i < p.header->kernel_count; i++)
        count += rows[i].hash == own;
    return count > 1;
}
