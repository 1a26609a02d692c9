/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file reads packs. A pack is untrusted: every offset, count and string is checked before it
 * is followed, and what fails is named with its section. What attn_pack_open() checks stays
 * checked; a kernel's record and its code object are checked each time that they are read.
 */
#include "runtime/pack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "runtime/error.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "packs are little-endian"
#endif

static const char *const section_names[ATTN_PACK_SECTIONS] = {
    [ATTN_PACK_STRINGS] = "strings",
    [ATTN_PACK_INDEX] = "index",
    [ATTN_PACK_KERNELS] = "kernels",
    [ATTN_PACK_CODE] = "code",
};

#define bad(...) attn_fail(ATTN_BAD_PACK, __VA_ARGS__)

static const uint8_t *section(const struct attn_pack *pack, enum attn_pack_section_id id)
{
    return pack->bytes + pack->sections[id].offset;
}

static int check_header(const struct attn_pack *pack)
{
    const struct attn_pack_header *h = (const void *)pack->bytes;
    if (pack->size < sizeof(*h))
        return bad("pack header: %zu bytes, a pack has at least %zu", pack->size, sizeof(*h));
    if (memcmp(h->magic, ATTN_PACK_MAGIC, sizeof(h->magic)))
        return bad("pack header: not a pack (it does not start with \"%s\")", ATTN_PACK_MAGIC);
    if (h->version != ATTN_PACK_VERSION)
        return attn_fail(ATTN_PACK_VERSION_UNKNOWN,
                         "pack header: version %u, this library reads version %d", h->version,
                         ATTN_PACK_VERSION);
    if (h->header_size != sizeof(*h) ||
        h->checksum != XXH3_64bits(h, offsetof(struct attn_pack_header, checksum)))
        return bad("pack header: corrupted (checksum)");
    if (h->file_size != pack->size)
        return bad("pack header: %zu bytes, the header says %llu: truncated or appended to",
                   pack->size, (unsigned long long)h->file_size);
    if (h->kernel_count > ATTN_PACK_KERNELS_MAX || h->zero)
        return bad("pack header: %u kernels, at most %d", h->kernel_count, ATTN_PACK_KERNELS_MAX);
    return ATTN_OK;
}

static int check_sections(const struct attn_pack *pack)
{
    uint64_t end = sizeof(struct attn_pack_header);
    for (int i = 0; i < ATTN_PACK_SECTIONS; i++) {
        const struct attn_pack_section *s = &pack->sections[i];
        uint64_t boundary = i == ATTN_PACK_CODE ? ATTN_PACK_CODE_ALIGN : 8;
        if (s->offset < end || s->offset % boundary)
            return bad("pack %s: offset %llu overlaps what precedes or is misaligned",
                       section_names[i], (unsigned long long)s->offset);
        if (s->offset > pack->size || s->size > pack->size - s->offset)
            return bad("pack %s: %llu bytes at %llu end behind the file", section_names[i],
                       (unsigned long long)s->size, (unsigned long long)s->offset);
        end = s->offset + s->size;
    }
    if (end != pack->size)
        return bad("pack code: ends at %llu of %zu bytes", (unsigned long long)end, pack->size);
    return ATTN_OK;
}

static int check_checksum(const struct attn_pack *pack, enum attn_pack_section_id id)
{
    const struct attn_pack_section *s = &pack->sections[id];
    if (XXH3_64bits(section(pack, id), s->size) != s->checksum)
        return bad("pack %s: corrupted (checksum)", section_names[id]);
    return ATTN_OK;
}

static bool printable_or_nul(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (text[i] && (text[i] < 0x20 || text[i] > 0x7e))
            return false;
    }
    return true;
}

static int check_strings(const struct attn_pack *pack)
{
    int r = check_checksum(pack, ATTN_PACK_STRINGS);
    if (r)
        return r;
    size_t size = pack->sections[ATTN_PACK_STRINGS].size;
    const char *text = (const char *)section(pack, ATTN_PACK_STRINGS);
    if (size == 0 || text[0] || text[size - 1])
        return bad("pack strings: unterminated");
    if (!printable_or_nul(text, size))
        return bad("pack strings: a byte is not printable ASCII");
    return ATTN_OK;
}

static int check_index(const struct attn_pack *pack)
{
    uint64_t rows_size = (uint64_t)pack->kernel_count * sizeof(struct attn_pack_index_row);
    uint64_t size = rows_size + (uint64_t)pack->kernel_count * sizeof(uint32_t);
    if (pack->sections[ATTN_PACK_INDEX].size != size)
        return bad("pack index: %llu bytes, %u kernels need %llu",
                   (unsigned long long)pack->sections[ATTN_PACK_INDEX].size, pack->kernel_count,
                   (unsigned long long)size);
    int r = check_checksum(pack, ATTN_PACK_INDEX);
    if (r)
        return r;
    for (uint32_t i = 0; i < pack->kernel_count; i++) {
        const struct attn_pack_index_row *row = &pack->rows[i];
        if (row->kernel >= pack->kernel_count)
            return bad("pack index: row %u is of kernel %u of %u", i, row->kernel,
                       pack->kernel_count);
        if (i && (row[-1].hash > row->hash ||
                  (row[-1].hash == row->hash && row[-1].kernel >= row->kernel)))
            return bad("pack index: row %u is out of order", i);
    }
    return ATTN_OK;
}

static int check_open(struct attn_pack *pack)
{
    if ((uintptr_t)pack->bytes % 8)
        return attn_fail(ATTN_BAD_ARGUMENT, "a pack in memory is not aligned to 8 bytes");
    int r = check_header(pack);
    if (r)
        return r;
    const struct attn_pack_header *h = (const void *)pack->bytes;
    pack->sections = h->sections;
    pack->kernel_count = h->kernel_count;
    r = check_sections(pack);
    if (r)
        return r;
    pack->strings = (const char *)section(pack, ATTN_PACK_STRINGS);
    pack->rows = (const void *)section(pack, ATTN_PACK_INDEX);
    pack->record_offsets = (const void *)(pack->rows + pack->kernel_count);
    r = check_strings(pack);
    return r ? r : check_index(pack);
}

static int open_bytes(const void *bytes, size_t size, bool mapped, struct attn_pack **out)
{
    struct attn_pack *pack = malloc(sizeof(*pack));
    if (!pack)
        return attn_fail_fixed(ATTN_NO_MEMORY, "opening a pack: out of memory");
    *pack = (struct attn_pack){ .bytes = bytes, .size = size };
    atomic_init(&pack->refs, 1);
    int r = check_open(pack);
    if (r) {
        free(pack);
        return r;
    }
    pack->mapped = mapped;
    *out = pack;
    return ATTN_OK;
}

ATTN_PUBLIC int attn_pack_open_memory(const void *bytes, size_t size, struct attn_pack **pack)
{
    if (!bytes || !pack)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "attn_pack_open_memory: bytes or pack is NULL");
    return open_bytes(bytes, size, false, pack);
}

ATTN_PUBLIC int attn_pack_open(const char *path, struct attn_pack **pack)
{
    if (!path || !pack)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "attn_pack_open: path or pack is NULL");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return attn_fail(ATTN_IO, "%s: %s", path, strerror(errno));
    int r = ATTN_OK;
    struct stat st;
    void *bytes = MAP_FAILED;
    if (fstat(fd, &st))
        r = attn_fail(ATTN_IO, "%s: %s", path, strerror(errno));
    else if (!S_ISREG(st.st_mode))
        r = attn_fail(ATTN_IO, "%s: not a regular file", path);
    else if (st.st_size == 0)
        r = bad("pack header: %s is empty", path);
    else if ((bytes = mmap(NULL, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0)) == MAP_FAILED)
        r = attn_fail(ATTN_IO, "%s: %s", path, strerror(errno));
    close(fd);
    if (r)
        return r;
    r = open_bytes(bytes, st.st_size, true, pack);
    if (r)
        munmap(bytes, st.st_size);
    return r;
}

void attn_pack_ref(struct attn_pack *pack)
{
    atomic_fetch_add_explicit(&pack->refs, 1, memory_order_relaxed);
}

ATTN_PUBLIC void attn_pack_close(struct attn_pack *pack)
{
    if (!pack || atomic_fetch_sub_explicit(&pack->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (pack->mapped)
        munmap((void *)pack->bytes, pack->size);
    free(pack);
}

/* Records. */

static bool is_string(const struct attn_pack *pack, attn_pack_string s)
{
    return s < pack->sections[ATTN_PACK_STRINGS].size;
}

/* Are the counts within their limits, and do they fit the record? Gives where the text starts. */
static bool counts_fit(const struct attn_pack_kernel *k, size_t *text_start)
{
    if (k->pair_count > ATTN_PACK_PAIRS_MAX || k->kernarg_count > ATTN_PACK_KERNARGS_MAX ||
        k->when_count > ATTN_PACK_WHENS_MAX || k->kernarg_size > ATTN_PACK_KERNARG_BYTES_MAX)
        return false;
    size_t size = sizeof(*k) + k->pair_count * sizeof(struct attn_pack_pair) +
                  k->kernarg_count * sizeof(struct attn_pack_kernarg) +
                  k->when_count * sizeof(struct attn_pack_when);
    for (int d = 0; d < 3; d++) {
        if (k->factor_count[d] > ATTN_PACK_FACTORS_MAX || k->workgroup[d] == 0)
            return false;
        size += k->factor_count[d] * sizeof(struct attn_pack_factor);
    }
    *text_start = size;
    return size < k->size;
}

static void lay_over(const struct attn_pack_kernel *k, struct attn_pack_record *r)
{
    r->k = k;
    r->pairs = (const void *)(k + 1);
    r->kernargs = (const void *)(r->pairs + k->pair_count);
    r->factors = (const void *)(r->kernargs + k->kernarg_count);
    r->whens = (const void *)(r->factors + k->factor_count[0] + k->factor_count[1] +
                              k->factor_count[2]);
}

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

/* The record's own text starts at `start` and ends, NUL included, with the record. */
static bool check_text(struct attn_pack_record *r, size_t start)
{
    const struct attn_pack_kernel *k = r->k;
    const char *base = (const char *)k;
    const uint32_t offsets[] = { k->name, k->symbol, k->tuning, k->provenance };
    const char **const texts[] = { &r->name, &r->symbol, &r->tuning, &r->provenance };
    if (base[k->size - 1] || !printable_or_nul(base + start, k->size - start))
        return false;
    for (int i = 0; i < 4; i++) {
        if (offsets[i] < start || offsets[i] >= k->size)
            return false;
        *texts[i] = base + offsets[i];
    }
    return true;
}

int attn_pack_read(const struct attn_pack *pack, uint32_t n, struct attn_pack_record *record)
{
    size_t size = pack->sections[ATTN_PACK_KERNELS].size;
    size_t offset = pack->record_offsets[n];
    if (offset % 8 || offset > size || size - offset < sizeof(struct attn_pack_kernel))
        return bad("pack index: the record of kernel %u at %zu ends behind its section", n, offset);
    const struct attn_pack_kernel *k = (const void *)(section(pack, ATTN_PACK_KERNELS) + offset);
    if (k->size % 8 || k->size < sizeof(*k) || k->size > size - offset)
        return bad("pack kernels: kernel %u: a record of %u bytes", n, k->size);
    if (XXH3_64bits(&k->checksum + 1, k->size - sizeof(k->checksum)) != k->checksum)
        return bad("pack kernels: kernel %u: corrupted (checksum)", n);
    size_t text_start;
    if (k->zero || !counts_fit(k, &text_start))
        return bad("pack kernels: kernel %u: its tables do not fit its record", n);
    struct attn_pack_record r;
    lay_over(k, &r);
    if (!check_tables(pack, &r))
        return bad("pack kernels: kernel %u: a string, argument or grid factor is out of range", n);
    if (!check_text(&r, text_start))
        return bad("pack kernels: kernel %u: its text is unterminated or not printable", n);
    size_t code_size = pack->sections[ATTN_PACK_CODE].size;
    if (k->code_offset % ATTN_PACK_CODE_ALIGN || k->code_size == 0 ||
        k->code_offset > code_size || k->code_size > code_size - k->code_offset)
        return bad("pack kernels: kernel %u (%s): its code ends behind the code section", n,
                   r.name);
    r.op = attn_pack_text(pack, k->op);
    r.target = attn_pack_text(pack, k->target);
    *record = r;
    return ATTN_OK;
}

int attn_pack_read_code(const struct attn_pack *pack, const struct attn_pack_record *record,
                        const void **code)
{
    const uint8_t *bytes = section(pack, ATTN_PACK_CODE) + record->k->code_offset;
    if (XXH3_64bits(bytes, record->k->code_size) != record->k->code_checksum)
        return bad("pack code: the code object of %s is corrupted (checksum)", record->name);
    *code = bytes;
    return ATTN_OK;
}

uint64_t attn_pack_hash_pair(const char *field, const char *value)
{
    return XXH3_64bits_withSeed(value, strlen(value), XXH3_64bits(field, strlen(field)));
}

uint32_t attn_pack_find(const struct attn_pack *pack, uint64_t hash)
{
    uint32_t low = 0, high = pack->kernel_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (pack->rows[middle].hash < hash)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < pack->kernel_count && pack->rows[low].hash == hash)
        return low;
    return pack->kernel_count;
}

/* The whole pack. */

static int check_padding(const struct attn_pack *pack)
{
    uint64_t end = sizeof(struct attn_pack_header);
    for (int i = 0; i < ATTN_PACK_SECTIONS; i++) {
        for (; end < pack->sections[i].offset; end++) {
            if (pack->bytes[end])
                return bad("pack %s: the padding before it is not zero", section_names[i]);
        }
        end += pack->sections[i].size;
    }
    return ATTN_OK;
}

/* A row of the index must lead to a kernel whose key has the row's hash. */
static int check_row(const struct attn_pack *pack, uint32_t row)
{
    struct attn_pack_record record;
    int r = attn_pack_read(pack, pack->rows[row].kernel, &record);
    if (r)
        return r;
    uint64_t hash = attn_pack_hash_pair("op", record.op) +
                    attn_pack_hash_pair("target", record.target);
    for (uint32_t i = 0; i < record.k->pair_count; i++)
        hash += attn_pack_hash_pair(attn_pack_text(pack, record.pairs[i].field),
                                    attn_pack_text(pack, record.pairs[i].value));
    if (hash != pack->rows[row].hash)
        return bad("pack index: the hash of %s is not that of its key", record.name);
    const void *code;
    return attn_pack_read_code(pack, &record, &code);
}

ATTN_PUBLIC int attn_pack_check(const struct attn_pack *pack)
{
    if (!pack)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "attn_pack_check: pack is NULL");
    int r = check_checksum(pack, ATTN_PACK_KERNELS);
    if (!r)
        r = check_checksum(pack, ATTN_PACK_CODE);
    if (!r)
        r = check_padding(pack);
    for (uint32_t i = 0; !r && i < pack->kernel_count; i++)
        r = check_row(pack, i);
    return r;
}

/* What is in a pack. */

ATTN_PUBLIC uint32_t attn_pack_kernel_count(const struct attn_pack *pack)
{
    return pack ? pack->kernel_count : 0;
}

int attn_pack_describe(const struct attn_pack_record *record, struct attn_kernel_info *info)
{
    const struct attn_pack_kernel *k = record->k;
    if (info->size != sizeof(*info))
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "attn_kernel_info.size is not set");
    *info = (struct attn_kernel_info){
        .size = sizeof(*info),
        .name = record->name,
        .symbol = record->symbol,
        .op = record->op,
        .target = record->target,
        .tuning = record->tuning,
        .provenance = record->provenance,
        .field_count = k->pair_count,
        .workgroup = { k->workgroup[0], k->workgroup[1], k->workgroup[2] },
        .lds_static = k->lds_static,
        .lds_dynamic = k->lds_dynamic,
        .vgprs = k->vgprs,
        .agprs = k->agprs,
        .sgprs = k->sgprs,
        .spills = k->spills,
        .scratch = k->scratch,
        .occupancy = k->occupancy,
        .mfma_duty = k->mfma_duty == 0xffff ? -1 : k->mfma_duty,
        .code_bytes = k->code_bytes,
        .object_bytes = k->code_size,
    };
    return ATTN_OK;
}

static int read_nth(const struct attn_pack *pack, uint32_t n, struct attn_pack_record *record)
{
    if (!pack || n >= pack->kernel_count)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "no pack, or it has no kernel of this number");
    return attn_pack_read(pack, n, record);
}

ATTN_PUBLIC int attn_pack_kernel(const struct attn_pack *pack, uint32_t n,
                                 struct attn_kernel_info *info)
{
    struct attn_pack_record record;
    int r = info ? read_nth(pack, n, &record)
                 : attn_fail_fixed(ATTN_BAD_ARGUMENT, "attn_pack_kernel: info is NULL");
    return r ? r : attn_pack_describe(&record, info);
}

ATTN_PUBLIC int attn_pack_kernel_field(const struct attn_pack *pack, uint32_t n, uint32_t i,
                                       const char **field, const char **value)
{
    struct attn_pack_record record;
    int r = read_nth(pack, n, &record);
    if (r)
        return r;
    if (i >= record.k->pair_count)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "the kernel's key has no field of this number");
    *field = attn_pack_text(pack, record.pairs[i].field);
    *value = attn_pack_text(pack, record.pairs[i].value);
    return ATTN_OK;
}

ATTN_PUBLIC int attn_pack_kernel_code(const struct attn_pack *pack, uint32_t n, const void **code,
                                      size_t *size)
{
    struct attn_pack_record record;
    int r = read_nth(pack, n, &record);
    if (!r)
        r = attn_pack_read_code(pack, &record, code);
    if (!r)
        *size = record.k->code_size;
    return r;
}
