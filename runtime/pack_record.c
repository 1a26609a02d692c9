/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the record and the code object of one kernel of a pack, and checks each field before
 * use. */
#include "runtime/pack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "runtime/abi.h"
#include "runtime/error.h"

#define bad(...) attn_fail(ATTN_BAD_PACK, __VA_ARGS__)

/* True if `s` is a byte offset within the pack's strings. */
static bool is_string(const struct attn_pack *pack, attn_pack_string s)
{
    return s < pack->sections[ATTN_PACK_STRINGS].size;
}

/* True if the counts in record `k` are within their limits and the tables fit the record. Sets
 * *text_start to the byte offset of the texts after the tables. */
static bool counts_fit(const struct attn_pack_kernel *k, size_t *text_start)
{
    if (k->pair_count > ATTN_PACK_PAIRS_MAX || k->kernarg_count > ATTN_PACK_KERNARGS_MAX ||
        k->when_count > ATTN_PACK_WHENS_MAX || k->split_count > ATTN_PACK_SPLITS_MAX ||
        k->kernarg_size > ATTN_PACK_KERNARG_BYTES_MAX)
        return false;
    size_t size = sizeof(*k) + k->pair_count * sizeof(struct attn_pack_pair) +
                  k->kernarg_count * sizeof(struct attn_pack_kernarg) +
                  k->when_count * sizeof(struct attn_pack_when) +
                  k->split_count * sizeof(struct attn_pack_split);
    for (int d = 0; d < 3; d++) {
        if (k->factor_count[d] > ATTN_PACK_FACTORS_MAX || k->workgroup[d] == 0)
            return false;
        size += k->factor_count[d] * sizeof(struct attn_pack_factor);
    }
    *text_start = size;
    return size < k->size;
}

/* Sets the pointers in `r` to the tables that follow the fixed part of record `k`. */
static void lay_over(const struct attn_pack_kernel *k, struct attn_pack_record *r)
{
    r->k = k;
    r->pairs = (const void *)(k + 1);
    r->kernargs = (const void *)(r->pairs + k->pair_count);
    r->factors = (const void *)(r->kernargs + k->kernarg_count);
    r->whens =
        (const void *)(r->factors + k->factor_count[0] + k->factor_count[1] + k->factor_count[2]);
    r->splits = (const void *)(r->whens + k->when_count);
}

/* True if the units of a plan may have `keys` keys; 0: the default. */
static bool is_unit(int32_t keys) { return !keys || keys == 16 || keys == 32 || keys == 64; }

/* True if the numbers in the record's table of splits are within their limits. */
static bool check_splits(const struct attn_pack_record *r)
{
    enum { COST_MAX = 256 };
    bool ok = true;
    for (uint32_t i = 0; i < r->k->split_count; i++) {
        const struct attn_pack_split *s = &r->splits[i];
        ok = ok && s->batch > 0 && s->keys > 0 && s->heads >= 0 && s->kv_heads >= 0 &&
             s->lists >= 0 && s->item_cost >= 0 && s->item_cost <= COST_MAX && s->merge_rate >= 0 &&
             s->merge_rate <= COST_MAX && s->one_launch >= 0 && s->one_launch <= 1 &&
             is_unit(s->unit_keys);
    }
    return ok;
}

/* True if the record's strings, kernel arguments, grid factors and conditions are valid. */
static bool check_tables(const struct attn_pack *pack, const struct attn_pack_record *r)
{
    const struct attn_pack_kernel *k = r->k;
    bool ok = is_string(pack, k->op) && is_string(pack, k->target);
    for (uint32_t i = 0; i < k->pair_count; i++)
        ok = ok && is_string(pack, r->pairs[i].field) && is_string(pack, r->pairs[i].value);
    uint32_t end = 0;
    for (uint32_t i = 0; ok && i < k->kernarg_count; i++) {
        const struct attn_pack_kernarg *a = &r->kernargs[i];
        unsigned size = a->kind == ATTN_KIND_I64 ? 8 : 4;
        ok = is_string(pack, a->arg) && a->kind < ATTN_KIND_COUNT && a->size == size &&
             a->offset >= end && a->offset % size == 0;
        end = a->offset + size;
    }
    ok = ok && end <= k->kernarg_size;
    uint32_t factors = k->factor_count[0] + k->factor_count[1] + k->factor_count[2];
    for (uint32_t i = 0; i < factors; i++)
        ok = ok && is_string(pack, r->factors[i].arg) && r->factors[i].number;
    for (uint32_t i = 0; i < k->when_count; i++)
        ok = ok && is_string(pack, r->whens[i].arg);
    return ok;
}

/* True if the record's texts are printable and end with a NUL. The texts begin at byte `start` of
 * the record and end with the record. Sets the pointers in `r` to them. */
static bool check_text(struct attn_pack_record *r, size_t start)
{
    const struct attn_pack_kernel *k = r->k;
    const char *base = (const char *)k;
    const uint32_t offsets[] = {k->name, k->symbol, k->tuning, k->provenance};
    const char **const texts[] = {&r->name, &r->symbol, &r->tuning, &r->provenance};
    if (base[k->size - 1] || !attn_pack_is_text(base + start, k->size - start))
        return false;
    for (int i = 0; i < 4; i++) {
        if (offsets[i] < start || offsets[i] >= k->size)
            return false;
        *texts[i] = base + offsets[i];
    }
    return true;
}

/* Sets *offset to the byte offset of the record of kernel `n` in the pack. Checks that the record's
 * fixed part lies inside its section. */
static int locate(const struct attn_pack *pack, uint32_t n, uint64_t *offset)
{
    const struct attn_pack_section *s = &pack->sections[ATTN_PACK_KERNELS];
    uint64_t at = pack->record_offsets[n];
    if (at % 8 || at > s->size || s->size - at < sizeof(struct attn_pack_kernel))
        return bad("pack index: the record of kernel %u at %llu ends after its section", n,
                   (unsigned long long)at);
    *offset = s->offset + at;
    return ATTN_OK;
}

/* Checks that `size`, which the record of kernel `n` has as its bytes, is possible and lies inside
 * the section. */
static int check_size(const struct attn_pack *pack, uint32_t n, uint32_t size)
{
    uint64_t left = pack->sections[ATTN_PACK_KERNELS].size - pack->record_offsets[n];
    if (size % 8 || size < sizeof(struct attn_pack_kernel) || size > left ||
        size > ATTN_PACK_RECORD_MAX)
        return bad("pack kernels: kernel %u: a record of %u bytes", n, size);
    return ATTN_OK;
}

/* Checks record `k` of kernel `n`, which is in memory in full length, and sets the pointers in
 * *record. */
static int check_record(const struct attn_pack *pack, uint32_t n, const struct attn_pack_kernel *k,
                        struct attn_pack_record *record)
{
    if (XXH3_64bits(&k->checksum + 1, k->size - sizeof(k->checksum)) != k->checksum)
        return bad("pack kernels: kernel %u: corrupted (checksum)", n);
    size_t text_start;
    if (!counts_fit(k, &text_start))
        return bad("pack kernels: kernel %u: its tables do not fit its record", n);
    struct attn_pack_record r;
    lay_over(k, &r);
    if (!check_tables(pack, &r))
        return bad("pack kernels: kernel %u: a string, argument or grid factor is out of range", n);
    if (!check_splits(&r))
        return bad("pack kernels: kernel %u: a split is out of range", n);
    if (!check_text(&r, text_start))
        return bad("pack kernels: kernel %u: its text is unterminated or not printable", n);
    uint64_t code_size = pack->sections[ATTN_PACK_CODE].size;
    if (k->code_offset % ATTN_PACK_CODE_ALIGN || k->code_size == 0 || k->code_offset > code_size ||
        k->code_size > code_size - k->code_offset)
        return bad("pack kernels: kernel %u (%s): its code ends after the code section", n, r.name);
    r.op = attn_pack_text(pack, k->op);
    r.target = attn_pack_text(pack, k->target);
    *record = r;
    return ATTN_OK;
}

int attn_pack_view(const struct attn_pack *pack, uint32_t n, struct attn_pack_record *record)
{
    uint64_t offset = 0;
    int r = locate(pack, n, &offset);
    if (r)
        return r;
    const struct attn_pack_kernel *k = (const void *)(pack->bytes + offset);
    r = check_size(pack, n, k->size);
    return r ? r : check_record(pack, n, k, record);
}

/* Reads the record of kernel `n` from the pack's file and checks it. The struct and the bytes to
 * which it points are one allocation. */
static int copy_record(const struct attn_pack *pack, uint32_t n, struct attn_pack_record **out)
{
    uint64_t offset = 0;
    struct attn_pack_kernel k;
    int r = locate(pack, n, &offset);
    if (!r)
        r = attn_pack_fetch(pack, offset, sizeof(k), &k);
    if (!r)
        r = check_size(pack, n, k.size);
    if (r)
        return r;
    struct attn_pack_record *record = malloc(sizeof(*record) + k.size);
    if (!record)
        return attn_fail_fixed(ATTN_NO_MEMORY, "reading a kernel's record: out of memory");
    struct attn_pack_kernel *copy = (void *)(record + 1);
    r = attn_pack_fetch(pack, offset, k.size, copy);
    if (!r && copy->size != k.size)
        r = attn_fail_fixed(ATTN_IO, "reading a pack: it changed while it was open");
    if (!r)
        r = check_record(pack, n, copy, record);
    if (r)
        free(record);
    else
        *out = record;
    return r;
}

static_assert(sizeof(struct attn_pack_record) % _Alignof(struct attn_pack_kernel) == 0,
              "the copied bytes after a record are aligned");

/* Creates and checks the record of kernel `n`. It points into a pack in memory, or to a copy of the
 * bytes of a file. */
static int make_record(const struct attn_pack *pack, uint32_t n, struct attn_pack_record **out)
{
    if (!pack->bytes)
        return copy_record(pack, n, out);
    struct attn_pack_record *record = malloc(sizeof(*record));
    if (!record)
        return attn_fail_fixed(ATTN_NO_MEMORY, "reading a kernel's record: out of memory");
    int r = attn_pack_view(pack, n, record);
    if (r)
        free(record);
    else
        *out = record;
    return r;
}

int attn_pack_read(const struct attn_pack *pack, uint32_t n, const struct attn_pack_record **record)
{
    struct attn_pack_record *kept = atomic_load_explicit(&pack->records[n], memory_order_acquire);
    if (!kept) {
        struct attn_pack_record *mine = NULL;
        int r = make_record(pack, n, &mine);
        if (r)
            return r;
        if (atomic_compare_exchange_strong_explicit(&pack->records[n], &kept, mine,
                                                    memory_order_acq_rel, memory_order_acquire))
            kept = mine;
        else
            free(mine); /* another thread was first */
    }
    *record = kept;
    return ATTN_OK;
}

int attn_pack_map_code(const struct attn_pack *pack, const struct attn_pack_record *record,
                       const void **code, struct attn_pack_mapping *mapping)
{
    const uint64_t offset = pack->sections[ATTN_PACK_CODE].offset + record->k->code_offset;
    const size_t size = record->k->code_size;
    const void *bytes = pack->bytes ? pack->bytes + offset : NULL;
    if (!bytes) {
        bytes = mmap(NULL, size, PROT_READ, MAP_PRIVATE, pack->fd, (off_t)offset);
        if (bytes == MAP_FAILED)
            return attn_fail_errno(errno, "mapping the code of %s", record->name);
        *mapping = (struct attn_pack_mapping){(void *)bytes, size};
    }
    if (XXH3_64bits(bytes, size) != record->k->code_checksum) {
        if (!pack->bytes)
            attn_pack_unmap(mapping);
        return bad("pack code: the code object of %s is corrupted (checksum)", record->name);
    }
    *code = bytes;
    return ATTN_OK;
}

void attn_pack_unmap(struct attn_pack_mapping *mapping)
{
    if (mapping->bytes)
        munmap(mapping->bytes, mapping->size);
    mapping->bytes = NULL;
}

/* The public functions from here on describe the kernels of a pack. */

ATTN_PUBLIC uint32_t attn_pack_kernel_count(const struct attn_pack *pack)
{
    return pack ? pack->kernel_count : 0;
}

int attn_pack_describe(const struct attn_pack_record *record, struct attn_kernel_info *info)
{
    const struct attn_pack_kernel *k = record->k;
    if (!attn_can_give(info))
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "attn_kernel_info.size is not 16 to 4096");
    struct attn_kernel_info i = {
        .size = sizeof(i),
        .name = record->name,
        .symbol = record->symbol,
        .op = record->op,
        .target = record->target,
        .tuning = record->tuning,
        .provenance = record->provenance,
        .field_count = k->pair_count,
        .workgroup = {k->workgroup[0], k->workgroup[1], k->workgroup[2]},
#define NUMBER(type, name) .name = k->name,
#include "pack/kernel_numbers.def"
        .object_bytes = k->code_size,
    };
    if (k->mfma_duty == UINT16_MAX)
        i.mfma_duty = -1;
    attn_give(info, &i, sizeof(i));
    return ATTN_OK;
}

static const char out_is_null[] = "attn_pack_kernel: what the result goes to is NULL";

/* Sets *record to the record of kernel `n`, which the pack keeps. Returns ATTN_BAD_ARGUMENT if the
 * pack has no such kernel. */
static int read_nth(const struct attn_pack *pack, uint32_t n,
                    const struct attn_pack_record **record)
{
    if (!pack || n >= pack->kernel_count)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "no pack, or it has no kernel of this number");
    return attn_pack_read(pack, n, record);
}

ATTN_PUBLIC int attn_pack_kernel(const struct attn_pack *pack, uint32_t n,
                                 struct attn_kernel_info *info)
{
    const struct attn_pack_record *record;
    int r = info ? read_nth(pack, n, &record) : attn_fail_fixed(ATTN_BAD_ARGUMENT, out_is_null);
    return r ? r : attn_pack_describe(record, info);
}

ATTN_PUBLIC int attn_pack_kernel_field(const struct attn_pack *pack, uint32_t n, uint32_t i,
                                       const char **field, const char **value)
{
    const struct attn_pack_record *record;
    int r = field && value ? read_nth(pack, n, &record)
                           : attn_fail_fixed(ATTN_BAD_ARGUMENT, out_is_null);
    if (r)
        return r;
    if (i >= record->k->pair_count)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "the kernel's key has no field of this number");
    *field = attn_pack_text(pack, record->pairs[i].field);
    *value = attn_pack_text(pack, record->pairs[i].value);
    return ATTN_OK;
}

ATTN_PUBLIC int attn_pack_kernel_code(const struct attn_pack *pack, uint32_t n, void *buffer,
                                      size_t buffer_size, size_t *size)
{
    const struct attn_pack_record *record;
    int r = size ? read_nth(pack, n, &record) : attn_fail_fixed(ATTN_BAD_ARGUMENT, out_is_null);
    if (r)
        return r;
    const void *code;
    struct attn_pack_mapping mapping = {0};
    r = attn_pack_map_code(pack, record, &code, &mapping);
    if (r)
        return r;
    if (buffer && buffer_size < record->k->code_size)
        r = attn_fail(ATTN_BAD_ARGUMENT, "the code object of %s has %llu bytes, the buffer %zu",
                      record->name, (unsigned long long)record->k->code_size, buffer_size);
    else if (buffer)
        memcpy(buffer, code, record->k->code_size);
    if (!r)
        *size = record->k->code_size;
    attn_pack_unmap(&mapping);
    return r;
}
