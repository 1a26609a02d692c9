/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens packs. A pack is untrusted: every offset, count and string is checked before use, and
 * messages name the section of a fault. Opening a file reads its header, strings and index; kernels
 * are read on demand. The file is not mapped for this, since one page of a mapping can bring 2 MiB
 * into the page cache (ext4, Linux 6).
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
#    error "packs are little-endian"
#endif

static const char *const section_names[ATTN_PACK_SECTIONS] = {
    [ATTN_PACK_STRINGS] = "strings",
    [ATTN_PACK_INDEX] = "index",
    [ATTN_PACK_KERNELS] = "kernels",
    [ATTN_PACK_CODE] = "code",
};

#define bad(...) attn_fail(ATTN_BAD_PACK, __VA_ARGS__)

/* Returns the first byte of section `id`. If the pack is a file, only strings and index are in
 * memory. */
static const uint8_t *section(const struct attn_pack *pack, enum attn_pack_section_id id)
{
    return (pack->bytes ? pack->bytes : pack->copy) + pack->sections[id].offset;
}

/* Checks the header `h`. If the pack is shorter than a header, only its bytes of `h` are valid.
 * Returns ATTN_OK or an error. */
static int check_header(const struct attn_pack *pack, const struct attn_pack_header *h)
{
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

/* Checks that the sections of a pack are in order, aligned and inside the file. */
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
            return bad("pack %s: %llu bytes at %llu end after the file", section_names[i],
                       (unsigned long long)s->size, (unsigned long long)s->offset);
        end = s->offset + s->size;
    }
    if (end != pack->size)
        return bad("pack code: ends at %llu of %zu bytes", (unsigned long long)end, pack->size);
    return ATTN_OK;
}

/* Compares the checksum of section `id`, which is in memory, with the header's. Returns ATTN_OK or
 * ATTN_BAD_PACK. */
static int check_checksum(const struct attn_pack *pack, enum attn_pack_section_id id)
{
    const struct attn_pack_section *s = &pack->sections[id];
    if (XXH3_64bits(section(pack, id), s->size) != s->checksum)
        return bad("pack %s: corrupted (checksum)", section_names[id]);
    return ATTN_OK;
}

bool attn_pack_is_text(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (text[i] && (text[i] < 0x20 || text[i] > 0x7e))
            return false;
    }
    return true;
}

/* Checks the section of strings: its checksum, that it begins and ends with a NUL, and that it is
 * printable ASCII. */
static int check_strings(const struct attn_pack *pack)
{
    int r = check_checksum(pack, ATTN_PACK_STRINGS);
    if (r)
        return r;
    size_t size = pack->sections[ATTN_PACK_STRINGS].size;
    const char *text = (const char *)section(pack, ATTN_PACK_STRINGS);
    if (size == 0 || text[0] || text[size - 1])
        return bad("pack strings: unterminated");
    if (!attn_pack_is_text(text, size))
        return bad("pack strings: a byte is not printable ASCII");
    return ATTN_OK;
}

/* Checks the size, checksum and order of the index. */
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

/* Sets the pointers to strings and index, checks both, and allocates the array of records. Header
 * and bounds have been checked. */
static int check_contents(struct attn_pack *pack)
{
    pack->strings = (const char *)section(pack, ATTN_PACK_STRINGS);
    pack->rows = (const void *)section(pack, ATTN_PACK_INDEX);
    pack->record_offsets = (const void *)(pack->rows + pack->kernel_count);
    int r = check_strings(pack);
    if (!r)
        r = check_index(pack);
    if (r)
        return r;
    pack->records = calloc(pack->kernel_count ? pack->kernel_count : 1, sizeof(*pack->records));
    return pack->records ? ATTN_OK : attn_fail_fixed(ATTN_NO_MEMORY, "a pack: out of memory");
}

/* Checks the header and the bounds of the sections, and stores both in `pack`. */
static int check_bounds(struct attn_pack *pack, const struct attn_pack_header *h)
{
    int r = check_header(pack, h);
    if (r)
        return r;
    pack->sections = h->sections;
    pack->kernel_count = h->kernel_count;
    return check_sections(pack);
}

/* Creates a pack of `size` bytes: in memory at `bytes`, or a file open at `fd` if `bytes` is NULL.
 * Returns NULL if memory is exhausted. */
static struct attn_pack *create(const void *bytes, int fd, size_t size)
{
    struct attn_pack *pack = calloc(1, sizeof(*pack));
    if (!pack)
        return NULL;
    pack->bytes = bytes;
    pack->fd = fd;
    pack->size = size;
    atomic_init(&pack->refs, 1);
    return pack;
}

/* Stores the pack in `*out`, or closes it if `status` is an error. Returns `status`. */
static int give(struct attn_pack *pack, int status, struct attn_pack **out)
{
    if (status)
        attn_pack_close(pack);
    else
        *out = pack;
    return status;
}

ATTN_PUBLIC int attn_pack_open_memory(const void *bytes, size_t size, struct attn_pack **out)
{
    if (!bytes || !out)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "attn_pack_open_memory: bytes or pack is NULL");
    if ((uintptr_t)bytes % 8)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "a pack in memory is not aligned to 8 bytes");
    struct attn_pack *pack = create(bytes, -1, size);
    if (!pack)
        return attn_fail_fixed(ATTN_NO_MEMORY, "opening a pack: out of memory");
    int r = check_bounds(pack, bytes);
    if (!r)
        r = check_contents(pack);
    return give(pack, r, out);
}

int attn_pack_fetch(const struct attn_pack *pack, uint64_t offset, size_t size, void *to)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = pread(pack->fd, (uint8_t *)to + done, size - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return attn_fail_errno(errno, "reading a pack");
        if (n == 0)
            return attn_fail_fixed(ATTN_IO, "reading a pack: it became shorter while it was open");
        done += (size_t)n;
    }
    return ATTN_OK;
}

/* Reads and checks header, strings and index of a pack that is a file. */
static int read_front(struct attn_pack *pack)
{
    struct attn_pack_header h;
    if (pack->size >= sizeof(h)) {
        int r = attn_pack_fetch(pack, 0, sizeof(h), &h);
        if (r)
            return r;
    }
    int r = check_bounds(pack, &h);
    if (r)
        return r;
    const struct attn_pack_section *index = &h.sections[ATTN_PACK_INDEX];
    size_t size = index->offset + index->size;
    pack->copy = malloc(size);
    if (!pack->copy)
        return attn_fail_fixed(ATTN_NO_MEMORY, "opening a pack: out of memory");
    r = attn_pack_fetch(pack, 0, size, pack->copy);
    if (r)
        return r;
    memcpy(pack->copy, &h, sizeof(h)); /* the checked bytes, even if the file has changed since */
    pack->sections = ((const struct attn_pack_header *)pack->copy)->sections;
    return check_contents(pack);
}

ATTN_PUBLIC int attn_pack_open(const char *path, struct attn_pack **out)
{
    if (!path || !out)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "attn_pack_open: path or pack is NULL");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st)) {
        int r = attn_fail_errno(errno, "%s", path);
        if (fd >= 0)
            close(fd);
        return r;
    }
    struct attn_pack *pack = create(NULL, fd, (size_t)st.st_size);
    if (!pack) {
        close(fd);
        return attn_fail_fixed(ATTN_NO_MEMORY, "opening a pack: out of memory");
    }
    int r =
        S_ISREG(st.st_mode) ? read_front(pack) : attn_fail(ATTN_IO, "%s: not a regular file", path);
    return give(pack, r, out);
}

void attn_pack_ref(struct attn_pack *pack)
{
    atomic_fetch_add_explicit(&pack->refs, 1, memory_order_relaxed);
}

ATTN_PUBLIC void attn_pack_close(struct attn_pack *pack)
{
    if (!pack || atomic_fetch_sub_explicit(&pack->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (uint32_t n = 0; pack->records && n < pack->kernel_count; n++)
        free(atomic_load_explicit(&pack->records[n], memory_order_relaxed));
    free(pack->records);
    free(pack->copy);
    if (pack->mapped)
        munmap((void *)pack->bytes, pack->size);
    if (pack->fd >= 0)
        close(pack->fd);
    free(pack);
}

int attn_pack_map(const struct attn_pack *pack, struct attn_pack **whole)
{
    if (pack->bytes)
        return attn_pack_open_memory(pack->bytes, pack->size, whole);
    void *bytes = mmap(NULL, pack->size, PROT_READ, MAP_PRIVATE, pack->fd, 0);
    if (bytes == MAP_FAILED)
        return attn_fail_errno(errno, "mapping a pack");
    int r = attn_pack_open_memory(bytes, pack->size, whole);
    if (r)
        munmap(bytes, pack->size);
    else
        (*whole)->mapped = true;
    return r;
}

uint64_t attn_pack_hash_field(const char *field) { return XXH3_64bits(field, strlen(field)); }

uint64_t attn_pack_hash_value(uint64_t field, const char *value)
{
    return XXH3_64bits_withSeed(value, strlen(value), field);
}

uint64_t attn_pack_hash_pair(const char *field, const char *value)
{
    return attn_pack_hash_value(attn_pack_hash_field(field), value);
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

/* The functions from here on check a whole pack. */

/* Checks that the bytes between sections are 0. */
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

/* Checks the record and the code of the kernel in row `row` of the index, and that its key has the
 * row's hash. The pack is in memory. */
static int check_row(const struct attn_pack *pack, uint32_t row)
{
    struct attn_pack_record record;
    int r = attn_pack_view(pack, pack->rows[row].kernel, &record);
    if (r)
        return r;
    uint64_t hash =
        attn_pack_hash_pair("op", record.op) + attn_pack_hash_pair("target", record.target);
    for (uint32_t i = 0; i < record.k->pair_count; i++)
        hash += attn_pack_hash_pair(attn_pack_text(pack, record.pairs[i].field),
                                    attn_pack_text(pack, record.pairs[i].value));
    if (hash != pack->rows[row].hash)
        return bad("pack index: the hash of %s is not that of its key", record.name);
    const void *code;
    return attn_pack_map_code(pack, &record, &code, NULL);
}

ATTN_PUBLIC int attn_pack_check(const struct attn_pack *pack)
{
    if (!pack)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "attn_pack_check: pack is NULL");
    struct attn_pack *whole;
    int r = attn_pack_map(pack, &whole);
    if (r)
        return r;
    for (uint32_t i = 0; !r && i < whole->kernel_count; i++)
        r = check_row(whole, i); /* first, because its message names the kernel */
    if (!r)
        r = check_checksum(whole, ATTN_PACK_KERNELS);
    if (!r)
        r = check_checksum(whole, ATTN_PACK_CODE);
    if (!r)
        r = check_padding(whole);
    attn_pack_close(whole);
    return r;
}
