/* SPDX-License-Identifier: Apache-2.0 */
/* Offload bundles, plain and compressed, and images in memory whose size is not known. */
#include "bundle.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <zstd.h>

#define BUNDLE_MAGIC "__CLANG_OFFLOAD_BUNDLE__"
#define BUNDLE_MAGIC_BYTES 24
#define COMPRESSED_MAGIC "CCOB"
#define MAX_ENTRIES 4096
#define MAX_IMAGE_BYTES (UINT64_C(2) << 30)
#define METHOD_ZSTD 1

/* Writes `text`, the reason why the code object is invalid, to `why`. Returns
 * CODE_OBJECT_INVALID. */
static enum code_object_status invalid(char *why, size_t why_size, const char *text)
{
    snprintf(why, why_size, "%s", text);
    return CODE_OBJECT_INVALID;
}

/* Writes "out of memory" to `why`. Returns CODE_OBJECT_OUT_OF_MEMORY. */
static enum code_object_status no_memory(char *why, size_t why_size)
{
    snprintf(why, why_size, "out of memory while reading the code object");
    return CODE_OBJECT_OUT_OF_MEMORY;
}

/* Returns the 64-bit number at p, which may have any alignment. */
static uint64_t read64(const uint8_t *p)
{
    uint64_t value;

    memcpy(&value, p, sizeof(value));
    return value;
}

/* Returns the 32-bit number at p, which may have any alignment. */
static uint32_t read32(const uint8_t *p)
{
    uint32_t value;

    memcpy(&value, p, sizeof(value));
    return value;
}

/* Returns the 16-bit number at p, which may have any alignment. */
static uint16_t read16(const uint8_t *p)
{
    uint16_t value;

    memcpy(&value, p, sizeof(value));
    return value;
}

/* The functions from here on find images in memory. */

/* Copies bytes of [from, from + size) up to the first that is not mapped. Returns their number. The
 * kernel copies, since it returns a count for a bad address where the program would get a
 * signal. */
static size_t copy_mapped(void *to, const void *from, size_t size)
{
    size_t done = 0;

    while (done < size) {
        size_t page_left = 4096 - (((uintptr_t)from + done) & 4095);
        size_t want = size - done;
        struct iovec local = {(char *)to + done, want};
        struct iovec remote = {(char *)(uintptr_t)from + done, want};
        ssize_t got = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
        if (got <= 0 && want > page_left) {
            local.iov_len = remote.iov_len = page_left;
            got = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
        }
        if (got < 0 && (errno == ENOSYS || errno == EPERM)) {
            /* a sandbox forbids the call, so the pointer is not checked */
            memcpy((char *)to + done, (const char *)from + done, want);
            got = (ssize_t)want;
        }
        if (got <= 0)
            break;
        done += (size_t)got;
    }
    return done;
}

/* Raises *extent to the end of a part with this offset and size. Parts beyond the limit are
 * ignored. */
static void widen(uint64_t *extent, uint64_t offset, uint64_t size)
{
    if (size <= MAX_IMAGE_BYTES && offset <= MAX_IMAGE_BYTES && offset + size > *extent)
        *extent = offset + size;
}

/* Returns the size in bytes of an ELF file, as its headers state it. */
static uint64_t elf_extent(const uint8_t *start)
{
    Elf64_Ehdr header;
    uint64_t extent = sizeof(header);

    if (copy_mapped(&header, start, sizeof(header)) != sizeof(header))
        return 0;
    widen(&extent, header.e_shoff, (uint64_t)header.e_shnum * header.e_shentsize);
    widen(&extent, header.e_phoff, (uint64_t)header.e_phnum * header.e_phentsize);
    for (unsigned i = 0; i < header.e_phnum && header.e_phentsize == sizeof(Elf64_Phdr); i++) {
        Elf64_Phdr segment;
        const uint8_t *at = start + header.e_phoff + i * sizeof(segment);
        if (header.e_phoff > MAX_IMAGE_BYTES ||
            copy_mapped(&segment, at, sizeof(segment)) != sizeof(segment))
            break;
        widen(&extent, segment.p_offset, segment.p_filesz);
    }
    for (unsigned i = 0; i < header.e_shnum && header.e_shentsize == sizeof(Elf64_Shdr); i++) {
        Elf64_Shdr section;
        const uint8_t *at = start + header.e_shoff + i * sizeof(section);
        if (header.e_shoff > MAX_IMAGE_BYTES ||
            copy_mapped(&section, at, sizeof(section)) != sizeof(section))
            break;
        if (section.sh_type != SHT_NOBITS)
            widen(&extent, section.sh_offset, section.sh_size);
    }
    return extent;
}

/* An entry of a bundle's table: offset and size of the code object in bytes, and the bytes of its
 * identifier. */
struct bundle_entry {
    uint64_t offset;
    uint64_t size;
    uint64_t id_bytes;
};

#define ENTRY_BYTES 24

/* Returns the offset, size and identifier length of a bundle's entry. */
static struct bundle_entry read_entry(const uint8_t *p)
{
    return (struct bundle_entry){read64(p), read64(p + 8), read64(p + 16)};
}

/* Returns the size of the bundle at `start`, in bytes. */
static uint64_t bundle_extent(const uint8_t *start)
{
    uint8_t header[BUNDLE_MAGIC_BYTES + 8];
    uint64_t extent = sizeof(header);

    if (copy_mapped(header, start, sizeof(header)) != sizeof(header))
        return 0;
    uint64_t count = read64(header + BUNDLE_MAGIC_BYTES);
    uint64_t at = sizeof(header);
    for (uint64_t i = 0; i < count && i < MAX_ENTRIES; i++) {
        uint8_t bytes[ENTRY_BYTES];
        if (copy_mapped(bytes, start + at, sizeof(bytes)) != sizeof(bytes))
            break;
        struct bundle_entry entry = read_entry(bytes);
        if (entry.id_bytes > 4096)
            break;
        widen(&extent, entry.offset, entry.size);
        at += ENTRY_BYTES + entry.id_bytes;
        widen(&extent, 0, at);
    }
    return extent;
}

/* Header of a compressed bundle. Version 2 states the file's size in 32 bits, version 3 in 64. */
struct compressed_header {
    uint64_t file_bytes; /* size of the file in bytes; 0: not stated */
    /* Size of the decompressed bundle in bytes. */
    uint64_t plain_bytes;
    unsigned method;
    unsigned header_bytes;
};

/* Reads the header of a compressed bundle. False if it is truncated or of an unknown version. */
static bool read_compressed_header(const uint8_t *p, size_t size, struct compressed_header *header)
{
    unsigned version = size >= 8 ? read16(p + 4) : 0;
    unsigned needed = version == 1 ? 20 : version == 2 ? 24 : 32;

    if (version < 1 || version > 3 || size < needed)
        return false;
    *header = (struct compressed_header){.method = read16(p + 6), .header_bytes = needed};
    if (version == 3) {
        header->file_bytes = read64(p + 8);
        header->plain_bytes = read64(p + 16);
    } else {
        header->file_bytes = version == 2 ? read32(p + 8) : 0;
        header->plain_bytes = read32(p + (version == 2 ? 12 : 8));
    }
    return true;
}

/* Returns the size of the compressed bundle at `start`, in bytes. */
static uint64_t compressed_extent(const uint8_t *start)
{
    uint8_t bytes[32];
    struct compressed_header header;
    size_t got = copy_mapped(bytes, start, sizeof(bytes));

    if (!read_compressed_header(bytes, got, &header))
        return got;
    if (header.file_bytes)
        return header.file_bytes;
    return header.plain_bytes > MAX_IMAGE_BYTES
               ? 0
               : header.header_bytes + ZSTD_compressBound(header.plain_bytes);
}

enum code_object_status image_from_memory(const void *pointer, struct image *image, char *why,
                                          size_t why_size)
{
    uint8_t magic[BUNDLE_MAGIC_BYTES];
    uint64_t extent = 0;

    *image = (struct image){0};
    if (!pointer)
        return invalid(why, why_size, "the image is a null pointer");
    size_t got = copy_mapped(magic, pointer, sizeof(magic));
    if (got >= 4 && memcmp(magic, ELFMAG, SELFMAG) == 0)
        extent = elf_extent(pointer);
    else if (got >= 4 && memcmp(magic, COMPRESSED_MAGIC, 4) == 0)
        extent = compressed_extent(pointer);
    else if (got == sizeof(magic) && memcmp(magic, BUNDLE_MAGIC, sizeof(magic)) == 0)
        extent = bundle_extent(pointer);
    if (extent == 0 || extent > MAX_IMAGE_BYTES)
        return invalid(why, why_size, "the image is neither an ELF file nor an offload bundle");
    image->owned = malloc(extent);
    if (!image->owned)
        return no_memory(why, why_size);
    image->data = image->owned;
    image->size = copy_mapped(image->owned, pointer, extent);
    return CODE_OBJECT_OK;
}

enum code_object_status image_from_file(const char *path, struct image *image, char *why,
                                        size_t why_size)
{
    struct stat status;
    enum code_object_status result = CODE_OBJECT_INVALID;

    *image = (struct image){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) != 0) {
        snprintf(why, why_size, "%.400s: %s", path, strerror(errno));
        goto out;
    }
    if (!S_ISREG(status.st_mode) || status.st_size <= 0 ||
        (uint64_t)status.st_size > MAX_IMAGE_BYTES) {
        snprintf(why, why_size, "%.400s: not a file of a sensible size", path);
        goto out;
    }
    image->owned = malloc((size_t)status.st_size);
    if (!image->owned) {
        result = no_memory(why, why_size);
        goto out;
    }
    image->data = image->owned;
    while (image->size < (size_t)status.st_size) {
        ssize_t got = read(fd, image->owned + image->size, (size_t)status.st_size - image->size);
        if (got <= 0)
            break;
        image->size += (size_t)got;
    }
    result = CODE_OBJECT_OK;
out:
    if (fd >= 0)
        close(fd);
    return result;
}

void image_release(struct image *image)
{
    free(image->owned);
    *image = (struct image){0};
}

/* The functions from here on select an image. */

/* Replaces the image by its decompressed contents. */
static enum code_object_status decompress(struct image *image, char *why, size_t why_size)
{
    struct compressed_header header;

    if (!read_compressed_header(image->data, image->size, &header))
        return invalid(why, why_size, "the compressed bundle is truncated or of unknown version");
    if (header.method != METHOD_ZSTD)
        return invalid(why, why_size, "the bundle is not compressed with zstd");
    if (header.plain_bytes == 0 || header.plain_bytes > MAX_IMAGE_BYTES)
        return invalid(why, why_size, "the compressed bundle states an absurd size");
    uint64_t end =
        header.file_bytes && header.file_bytes < image->size ? header.file_bytes : image->size;
    const uint8_t *frame = image->data + header.header_bytes;
    if (end < header.header_bytes)
        return invalid(why, why_size, "the compressed bundle is truncated");
    size_t frame_bytes = ZSTD_findFrameCompressedSize(frame, end - header.header_bytes);
    /* The header's size must be the frame's own, since the buffer has that size. */
    if (ZSTD_isError(frame_bytes) ||
        ZSTD_getFrameContentSize(frame, frame_bytes) != header.plain_bytes)
        return invalid(why, why_size, "the compressed bundle is truncated or corrupt");
    uint8_t *plain = malloc(header.plain_bytes);
    if (!plain)
        return no_memory(why, why_size);
    size_t got = ZSTD_decompress(plain, header.plain_bytes, frame, frame_bytes);
    if (ZSTD_isError(got) || got != header.plain_bytes) {
        free(plain);
        return invalid(why, why_size, "the compressed bundle is corrupt");
    }
    free(image->owned);
    *image = (struct image){.data = plain, .size = got, .owned = plain};
    return CODE_OBJECT_OK;
}

/* Returns how well a bundle entry's id, of `bytes` bytes, fits the target: 0 not at all, more is
 * better. An id is like "hipv4-amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-". */
static int rank(const char *id, size_t bytes, enum gfx_target target)
{
    char text[256];

    if (bytes >= sizeof(text))
        return 0;
    memcpy(text, id, bytes);
    text[bytes] = 0;
    if (strncmp(text, "hip", 3) != 0 || !strstr(text, "amdgcn-amd-amdhsa-"))
        return 0;
    char *processor = strstr(text, "-gfx");
    if (!processor || strstr(text, ":xnack+") || strstr(text, ":sramecc-"))
        return 0;
    processor++;
    size_t length = strcspn(processor, ":");
    bool has_features = processor[length] == ':';
    processor[length] = 0;
    if (strcmp(processor, gfx_name(target)) == 0)
        return has_features ? 3 : 2;
    return strcmp(processor, "gfx9-4-generic") == 0 ? 1 : 0;
}

/* Appends an entry's identifier of `bytes` characters to the list of identifiers. */
static void append_id(char *list, size_t list_size, const char *id, size_t bytes)
{
    size_t used = strlen(list);

    if (bytes > 100)
        bytes = 100;
    if (used + bytes + 3 < list_size)
        snprintf(list + used, list_size - used, "%s%.*s", used ? ", " : "", (int)bytes, id);
}

/* Replaces the image by the bundle's entry for the target. */
static enum code_object_status select_entry(struct image *image, enum gfx_target target, char *why,
                                            size_t why_size)
{
    uint64_t at = BUNDLE_MAGIC_BYTES + 8;
    struct bundle_entry best = {0};
    char present[300] = "";
    int best_rank = 0;

    if (image->size < at || read64(image->data + BUNDLE_MAGIC_BYTES) > MAX_ENTRIES)
        return invalid(why, why_size, "the offload bundle is truncated or corrupt");
    for (uint64_t left = read64(image->data + BUNDLE_MAGIC_BYTES); left > 0; left--) {
        if (image->size - at < ENTRY_BYTES)
            return invalid(why, why_size, "the offload bundle is truncated");
        struct bundle_entry entry = read_entry(image->data + at);
        at += ENTRY_BYTES;
        if (entry.id_bytes > image->size - at || entry.offset > image->size ||
            entry.size > image->size - entry.offset)
            return invalid(why, why_size, "the offload bundle is truncated");
        const char *id = (const char *)image->data + at;
        int fits = rank(id, entry.id_bytes, target);
        if (fits > best_rank) {
            best = entry;
            best_rank = fits;
        }
        append_id(present, sizeof(present), id, entry.id_bytes);
        at += entry.id_bytes;
    }
    if (best_rank == 0) {
        snprintf(why, why_size, "the bundle has no code object for %s:sramecc+:xnack-, only: %s",
                 gfx_name(target), present);
        return CODE_OBJECT_OTHER_TARGET;
    }
    image->data += best.offset;
    image->size = best.size;
    return CODE_OBJECT_OK;
}

enum code_object_status image_select(struct image *image, enum gfx_target target, char *why,
                                     size_t why_size)
{
    if (image->size >= 4 && memcmp(image->data, COMPRESSED_MAGIC, 4) == 0) {
        enum code_object_status status = decompress(image, why, why_size);
        if (status != CODE_OBJECT_OK)
            return status;
    }
    if (image->size >= BUNDLE_MAGIC_BYTES &&
        memcmp(image->data, BUNDLE_MAGIC, BUNDLE_MAGIC_BYTES) == 0)
        return select_entry(image, target, why, why_size);
    return CODE_OBJECT_OK;
}
