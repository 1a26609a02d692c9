/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the pack format: written packs can be read, damaged ones are refused. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/runtime/fixture.h"
#include "tests/unit_test.h"

static const struct attn_pack_split split = {.batch = 4, .keys = 8192, .lists = 304};

static const struct made three[] = {
    {.head_dim = "64"},
    {.head_dim = "128", .splits = &split, .split_count = 1},
    {.head_dim = "64", .target = "gfx950"},
};

TEST(writes_what_is_read)
{
    size_t size;
    void *bytes = make_pack(three, COUNT(three), &size);
    struct attn_pack *pack;
    assert_int_equal(attn_pack_open_memory(bytes, size, &pack), ATTN_OK);
    assert_int_equal(attn_pack_kernel_count(pack), 3);
    assert_int_equal(attn_pack_check(pack), ATTN_OK);

    struct attn_kernel_info info = {.size = sizeof(info)};
    assert_int_equal(attn_pack_kernel(pack, 0, &info), ATTN_OK);
    assert_string_equal(info.name, "prefill_gfx942_d128");
    assert_string_equal(info.symbol, "kernel");
    assert_string_equal(info.op, "prefill");
    assert_string_equal(info.target, "gfx942");
    assert_string_equal(info.tuning, "q=128 kv=64");
    assert_string_equal(info.provenance, "made by a test");
    assert_int_equal(info.field_count, 19);
    assert_int_equal(info.workgroup[0], 256);
    assert_int_equal(info.lds_static, 65536);
    assert_int_equal(info.lds_dynamic, 512);
    assert_int_equal(info.vgprs, 200);
    assert_int_equal(info.agprs, 0);
    assert_int_equal(info.sgprs, 60);
    assert_int_equal(info.occupancy, 2);
    assert_int_equal(info.mfma_duty, 901);
    assert_int_equal(info.code_bytes, 4000);

    const char *field, *value;
    assert_int_equal(attn_pack_kernel_field(pack, 0, 2, &field, &value), ATTN_OK);
    assert_string_equal(field, "head_dim");
    assert_string_equal(value, "128");
    assert_int_equal(attn_pack_kernel_field(pack, 0, info.field_count, &field, &value),
                     ATTN_BAD_ARGUMENT);
    assert_int_equal(attn_pack_kernel_field(pack, 0, 2, NULL, &value), ATTN_BAD_ARGUMENT);
    assert_int_equal(attn_pack_kernel_field(pack, 0, 2, &field, NULL), ATTN_BAD_ARGUMENT);

    char code[64];
    size_t code_size;
    assert_int_equal(attn_pack_kernel_code(pack, 0, code, sizeof(code), &code_size), ATTN_OK);
    assert_int_equal(code_size, strlen(info.name));
    assert_memory_equal(code, info.name, code_size);
    assert_int_equal(attn_pack_kernel_code(pack, 0, code, 3, &code_size), ATTN_BAD_ARGUMENT);
    assert_int_equal(attn_pack_kernel_code(pack, 0, code, sizeof(code), NULL), ATTN_BAD_ARGUMENT);
    assert_int_equal(attn_pack_kernel(pack, 0, NULL), ATTN_BAD_ARGUMENT);
    assert_int_equal(info.object_bytes, code_size);
    assert_int_equal(attn_pack_kernel(pack, 3, &info), ATTN_BAD_ARGUMENT);
    attn_pack_close(pack);
    free(bytes);
}

TEST(bytes_do_not_depend_on_the_order_of_kernels)
{
    const struct made reordered[] = {three[2], three[0], three[1]};
    size_t size, reordered_size;
    void *bytes = make_pack(three, COUNT(three), &size);
    void *reordered_bytes = make_pack(reordered, COUNT(reordered), &reordered_size);
    assert_int_equal(size, reordered_size);
    assert_memory_equal(bytes, reordered_bytes, size);
    free(bytes);
    free(reordered_bytes);
}

TEST(kernels_share_equal_code)
{
    const struct made same[] = {{.head_dim = "64", .code = "one"},
                                {.head_dim = "128", .code = "one"}};
    size_t size;
    void *bytes = make_pack(same, COUNT(same), &size);
    assert_int_equal(((struct attn_pack_header *)bytes)->sections[ATTN_PACK_CODE].size, 3);
    free(bytes);
}

/* A field that the key has keeps its value. */
TEST(a_completed_key_gains_the_fields_that_it_lacks)
{
    static const struct attnc_pack_pair pairs[] = {{"a_new_one", "false"}, {"head_dim", "7"}};
    size_t size, copied_size;
    void *bytes = make_pack(three, COUNT(three), &size), *copied;
    struct attnc_pack_writer *w = attnc_pack_writer_create();
    assert_true(attnc_pack_copy_completed(w, bytes, 0, pairs, COUNT(pairs)));
    assert_true(attnc_pack_writer_finish(w, &copied, &copied_size));
    attnc_pack_writer_destroy(w);
    struct attn_pack *pack;
    struct attn_kernel_info info = {.size = sizeof(info)};
    const char *field, *value;
    assert_int_equal(attn_pack_open_memory(copied, copied_size, &pack), ATTN_OK);
    assert_int_equal(attn_pack_check(pack), ATTN_OK);
    assert_int_equal(attn_pack_kernel(pack, 0, &info), ATTN_OK);
    assert_int_equal(info.field_count, 20);
    assert_int_equal(attn_pack_kernel_field(pack, 0, 0, &field, &value), ATTN_OK);
    assert_string_equal(field, "a_new_one");
    assert_string_equal(value, "false");
    assert_int_equal(attn_pack_kernel_field(pack, 0, 3, &field, &value), ATTN_OK);
    assert_string_equal(field, "head_dim");
    assert_string_equal(value, "128");
    attn_pack_close(pack);
    free(copied);
    free(bytes);
}

TEST(an_empty_pack_is_a_pack)
{
    size_t size;
    void *bytes = make_pack(NULL, 0, &size);
    struct attn_pack *pack;
    assert_int_equal(attn_pack_open_memory(bytes, size, &pack), ATTN_OK);
    assert_int_equal(attn_pack_kernel_count(pack), 0);
    assert_int_equal(attn_pack_check(pack), ATTN_OK);
    attn_pack_close(pack);
    free(bytes);
}

static void refuses(const struct attnc_pack_kernel *k, const char *says)
{
    struct attnc_pack_writer *w = attnc_pack_writer_create();
    bool ok = attnc_pack_writer_add(w, k) && attnc_pack_writer_add(w, k);
    void *bytes;
    size_t size;
    assert_false(ok && attnc_pack_writer_finish(w, &bytes, &size));
    if (!strstr(attnc_pack_writer_error(w), says))
        fail_msg("\"%s\" does not say \"%s\"", attnc_pack_writer_error(w), says);
    attnc_pack_writer_destroy(w);
}

TEST(the_writer_refuses_what_no_reader_would_take)
{
    const struct attnc_pack_kernel good = {
        .name = "k",
        .symbol = "k",
        .op = "prefill",
        .target = "gfx942",
        .code = "x",
        .code_size = 1,
        .workgroup = {64, 1, 1},
    };
    refuses(&good, "two kernels are called k");
    struct attnc_pack_kernel bad = good;
    bad.name = "";
    refuses(&bad, "name is empty");
    bad = good;
    bad.provenance = "a\nb";
    refuses(&bad, "not printable");
    bad = good;
    bad.code_size = 0;
    refuses(&bad, "no code");
    bad = good;
    bad.workgroup[1] = 0;
    refuses(&bad, "workgroup");
    const struct attnc_pack_pair twice[] = {{"a", "1"}, {"a", "2"}};
    bad = good;
    bad.key = twice;
    bad.key_count = 2;
    refuses(&bad, "key field a twice");
    const struct attnc_pack_kernarg overlap[] = {{"q", 0, ATTN_KIND_I64}, {"k", 4, ATTN_KIND_I32}};
    bad = good;
    bad.kernargs = overlap;
    bad.kernarg_count = 2;
    bad.kernarg_size = 16;
    refuses(&bad, "misaligned or overlaps");
    bad.kernarg_count = 1;
    bad.kernarg_size = 4;
    refuses(&bad, "segment of 4");
    const struct attnc_pack_factor zero[] = {{"heads", 0}};
    bad = good;
    bad.grid[0] = zero;
    bad.grid_count[0] = 1;
    refuses(&bad, "grid factor of 0");
}

/* Reads every kernel's record and code, then checks the rest. */
static int read_kernels(struct attn_pack *pack)
{
    int r = ATTN_OK;
    for (uint32_t n = 0; !r && n < attn_pack_kernel_count(pack); n++) {
        struct attn_kernel_info info = {.size = sizeof(info)};
        size_t size;
        r = attn_pack_kernel(pack, n, &info);
        if (!r)
            r = attn_pack_kernel_code(pack, n, NULL, 0, &size);
    }
    if (!r)
        r = attn_pack_check(pack);
    attn_pack_close(pack);
    return r;
}

/* Opens and reads everything, from memory and from a file. A valid pack gives ATTN_OK. */
static int read_all(const void *bytes, size_t size)
{
    struct attn_pack *pack = NULL; /* stays so if a pack is refused */
    char path[64];
    int fd = memfd_create("pack", 0);
    assert_int_equal(write(fd, bytes, size), size);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    int from_file = attn_pack_open(path, &pack);
    close(fd);
    assert_true(!from_file == (pack != NULL));
    if (!from_file)
        from_file = read_kernels(pack);
    pack = NULL;
    int r = attn_pack_open_memory(bytes, size, &pack);
    assert_true(!r == (pack != NULL));
    if (!r)
        r = read_kernels(pack);
    assert_int_equal(r, from_file);
    return r;
}

TEST(every_truncation_is_refused)
{
    size_t size;
    void *bytes = make_pack(three, COUNT(three), &size);
    for (size_t n = 0; n < size; n++) {
        void *copy = malloc(n ? n : 1); /* exact size: a sanitizer sees reads past the end */
        memcpy(copy, bytes, n);
        assert_int_equal(read_all(copy, n), ATTN_BAD_PACK);
        says("pack header");
        free(copy);
    }
    free(bytes);
}

TEST(every_flipped_bit_is_found)
{
    size_t size;
    uint8_t *bytes = make_pack(three, COUNT(three), &size);
    for (size_t n = 0; n < size; n++) {
        bytes[n] ^= 1u << n % 8;
        int r = read_all(bytes, size);
        if (r != ATTN_BAD_PACK && r != ATTN_PACK_VERSION_UNKNOWN)
            fail_msg("bit %zu of byte %zu: status %d", n % 8, n, r);
        bytes[n] ^= 1u << n % 8;
    }
    assert_int_equal(read_all(bytes, size), ATTN_OK);
    free(bytes);
}

TEST(another_version_is_named)
{
    size_t size;
    struct attn_pack_header *bytes = make_pack(three, COUNT(three), &size);
    bytes->version = 7;
    reseal(bytes, size);
    assert_int_equal(read_all(bytes, size), ATTN_PACK_VERSION_UNKNOWN);
    says("version 7");
    free(bytes);
}

/* Hostile packs: everything but one field is valid, including the checksums. */

static struct attn_pack_kernel *record(void *pack)
{
    struct attn_pack_header *h = pack;
    return (void *)((uint8_t *)pack + h->sections[ATTN_PACK_KERNELS].offset);
}

static struct attn_pack_kernarg *kernargs(void *pack)
{
    struct attn_pack_kernel *k = record(pack);
    return (void *)((struct attn_pack_pair *)(k + 1) + k->pair_count);
}

static struct attn_pack_factor *factors(void *pack)
{
    return (void *)(kernargs(pack) + record(pack)->kernarg_count);
}

static void hostile(void (*spoil)(struct attn_pack_header *h), const char *text)
{
    size_t size;
    void *bytes = make_pack(three, COUNT(three), &size);
    spoil(bytes);
    reseal(bytes, size);
    assert_int_equal(read_all(bytes, size), ATTN_BAD_PACK);
    says(text);
    free(bytes);
}

#define SPOIL(name, statement) \
    static void name(struct attn_pack_header *h) { statement; }
SPOIL(kernels_after_file, h->sections[ATTN_PACK_KERNELS].size = UINT64_MAX - 7)
SPOIL(offset_near_2_64, h->sections[ATTN_PACK_CODE].offset = UINT64_MAX - 4095)
SPOIL(overlap, h->sections[ATTN_PACK_INDEX].offset = h->sections[ATTN_PACK_STRINGS].offset)
SPOIL(misaligned, h->sections[ATTN_PACK_INDEX].offset += 4)
SPOIL(too_many_kernels, h->kernel_count = UINT32_MAX)
SPOIL(more_kernels_than_rows, h->kernel_count++)
SPOIL(unterminated, ((char *)h)[h->sections[ATTN_PACK_INDEX].offset - 1] = 'x';
      ((char *)h)[h->sections[ATTN_PACK_STRINGS].offset + h->sections[ATTN_PACK_STRINGS].size - 1] =
          'x')
SPOIL(escape, ((char *)h)[h->sections[ATTN_PACK_STRINGS].offset + 1] = '\033')
SPOIL(wild_row, ((struct attn_pack_index_row *)((char *)h + h->sections[ATTN_PACK_INDEX].offset))
                    ->kernel = 1 << 30)
SPOIL(wild_record, ((uint32_t *)((char *)h + h->sections[ATTN_PACK_INDEX].offset +
                                 3 * sizeof(struct attn_pack_index_row)))[0] = UINT32_MAX - 7)
SPOIL(huge_record, record(h)->size = UINT32_MAX - 7)
SPOIL(tiny_record, record(h)->size = 8)
SPOIL(many_pairs, record(h)->pair_count = UINT16_MAX)
SPOIL(pairs_after_record, record(h)->pair_count = 64)
SPOIL(many_kernargs, record(h)->kernarg_count = UINT16_MAX)
SPOIL(many_factors, record(h)->factor_count[1] = 5)
SPOIL(many_whens, record(h)->when_count = UINT16_MAX)
/* The text follows the splits. */
static struct attn_pack_split *last_split(void *pack)
{
    return (struct attn_pack_split *)((char *)record(pack) + record(pack)->name) - 1;
}

SPOIL(wild_split, last_split(h)->batch = 0)
SPOIL(many_splits, record(h)->split_count = UINT16_MAX)
SPOIL(splits_after_record, record(h)->split_count = 100)
SPOIL(huge_kernargs, record(h)->kernarg_size = UINT32_MAX)
SPOIL(small_kernargs, record(h)->kernarg_size = 8)
SPOIL(kernarg_of_no_kind, kernargs(h)->kind = ATTN_KIND_COUNT)
SPOIL(narrow_kernarg, kernargs(h)->size ^= 8 ^ 4)
SPOIL(wild_kernarg, kernargs(h)->arg = UINT32_MAX)
SPOIL(kernarg_misaligned, kernargs(h)->offset += 2)
SPOIL(kernargs_overlap, kernargs(h)[1].offset = kernargs(h)->offset)
SPOIL(wild_factor, factors(h)->arg = UINT32_MAX)
SPOIL(factor_of_nothing, factors(h)->number = 0)
SPOIL(wild_op, record(h)->op = UINT32_MAX)
SPOIL(wild_field, ((struct attn_pack_pair *)(record(h) + 1))->field = UINT32_MAX)
SPOIL(wild_name, record(h)->name = UINT32_MAX)
SPOIL(name_in_tables, record(h)->name = 8)
SPOIL(wild_symbol, record(h)->symbol = record(h)->size)
SPOIL(wild_tuning, record(h)->tuning = record(h)->size)
SPOIL(wild_provenance, record(h)->provenance = record(h)->size)
SPOIL(no_final_nul, ((char *)record(h))[record(h)->size - 1] = 'x')
SPOIL(code_after_section, record(h)->code_size = UINT64_MAX)
SPOIL(code_offset_after, record(h)->code_offset = UINT64_MAX - 4095)
SPOIL(code_misaligned, record(h)->code_offset += 1)
SPOIL(no_workgroup, record(h)->workgroup[2] = 0)
SPOIL(another_key, ((struct attn_pack_pair *)(record(h) + 1))->value = 0)
SPOIL(dirty_padding, ((char *)h)[h->sections[ATTN_PACK_CODE].offset - 1] = 1)

/* Each member of a split has the bounds that pack_format.h states. */
TEST(splits_have_bounds)
{
    static const struct {
        struct attn_pack_split split;
        int result;
    } cases[] = {
        {{1, 1, 0, 0, 0, 0, 0, 0, 0}, ATTN_OK},
        {{1, 1, 0, 0, 0, 256, 256, 1, 0}, ATTN_OK},
        {{0, 1, 0, 0, 0, 0, 0, 0, 0}, ATTN_BAD_PACK},
        {{1, 0, 0, 0, 0, 0, 0, 0, 0}, ATTN_BAD_PACK},
        {{1, 1, -1, 0, 0, 0, 0, 0, 0}, ATTN_BAD_PACK},
        {{1, 1, 0, -1, 0, 0, 0, 0, 0}, ATTN_BAD_PACK},
        {{1, 1, 0, 0, -1, 0, 0, 0, 0}, ATTN_BAD_PACK},
        {{1, 1, 0, 0, 0, -1, 0, 0, 0}, ATTN_BAD_PACK},
        {{1, 1, 0, 0, 0, 257, 0, 0, 0}, ATTN_BAD_PACK},
        {{1, 1, 0, 0, 0, 0, -1, 0, 0}, ATTN_BAD_PACK},
        {{1, 1, 0, 0, 0, 0, 257, 0, 0}, ATTN_BAD_PACK},
        {{1, 1, 0, 0, 0, 0, 0, -1, 0}, ATTN_BAD_PACK},
        {{1, 1, 0, 0, 0, 0, 0, 2, 0}, ATTN_BAD_PACK},
        {{1, 1, 0, 0, 0, 0, 0, 0, 16}, ATTN_OK},
        {{1, 1, 0, 0, 0, 0, 0, 0, 32}, ATTN_OK},
        {{1, 1, 0, 0, 0, 0, 0, 0, 64}, ATTN_OK},
        {{1, 1, 0, 0, 0, 0, 0, 0, 1}, ATTN_BAD_PACK},
        {{1, 1, 0, 0, 0, 0, 0, 0, 48}, ATTN_BAD_PACK},
        {{1, 1, 0, 0, 0, 0, 0, 0, 128}, ATTN_BAD_PACK},
        {{1, 1, 0, 0, 0, 0, 0, 0, -16}, ATTN_BAD_PACK},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        size_t size;
        void *bytes = make_pack(three, COUNT(three), &size);
        *last_split(bytes) = cases[i].split;
        reseal(bytes, size);
        if (read_all(bytes, size) != cases[i].result)
            fail_msg("case %zu is not %d: %s", i, cases[i].result, attn_last_error());
        free(bytes);
    }
}

/* Returns the number of open files. */
static size_t open_files(void)
{
    size_t n = 0;
    DIR *const d = opendir("/proc/self/fd");
    assert_non_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

/* True if a file of read_all() is mapped into this process. */
static bool is_mapped(void)
{
    char line[512];
    bool found = false;
    FILE *const f = fopen("/proc/self/maps", "r");
    assert_non_null(f);
    while (fgets(line, sizeof(line), f))
        found |= strstr(line, "/memfd:pack") != NULL;
    fclose(f);
    return found;
}

/* A pack's file and its memory are released when it is closed or refused. */
TEST(nothing_stays_open)
{
    void (*const spoil[])(struct attn_pack_header *) = {NULL, too_many_kernels, wild_row,
                                                        wild_split, code_after_section};
    for (size_t i = 0; i < COUNT(spoil); i++) {
        size_t size;
        void *bytes = make_pack(three, COUNT(three), &size);
        if (spoil[i])
            spoil[i](bytes);
        reseal(bytes, size);
        const size_t before = open_files();
        assert_int_equal(read_all(bytes, size), spoil[i] ? ATTN_BAD_PACK : ATTN_OK);
        assert_int_equal(open_files(), before);
        assert_false(is_mapped());
        free(bytes);
    }
}

TEST(hostile_packs_are_refused_with_section_and_reason)
{
    hostile(kernels_after_file, "pack kernels: ");
    hostile(offset_near_2_64, "pack code: ");
    hostile(overlap, "pack index: offset");
    hostile(misaligned, "pack index: offset");
    hostile(too_many_kernels, "pack header: 4294967295 kernels");
    hostile(more_kernels_than_rows, "pack index: ");
    hostile(unterminated, "pack strings: unterminated");
    hostile(escape, "pack strings: a byte is not printable");
    hostile(wild_row, "pack index: row 0");
    hostile(wild_record, "pack index: the record of kernel 0");
    hostile(huge_record, "pack kernels: kernel 0: a record");
    hostile(tiny_record, "pack kernels: kernel 0: a record");
    hostile(many_pairs, "pack kernels: kernel 0: its tables");
    hostile(pairs_after_record, "pack kernels: kernel 0: its tables");
    hostile(many_kernargs, "pack kernels: kernel 0: its tables");
    hostile(many_factors, "pack kernels: kernel 0: its tables");
    hostile(many_whens, "pack kernels: kernel 0: its tables");
    hostile(wild_split, "pack kernels: kernel 0: a split is out of range");
    hostile(many_splits, "pack kernels: kernel 0: its tables");
    hostile(splits_after_record, "pack kernels: kernel 0: its tables");
    hostile(huge_kernargs, "pack kernels: kernel 0: its tables");
    hostile(small_kernargs, "pack kernels: kernel 0: a string, argument");
    hostile(kernarg_of_no_kind, "pack kernels: kernel 0: a string, argument");
    hostile(narrow_kernarg, "pack kernels: kernel 0: a string, argument");
    hostile(wild_kernarg, "pack kernels: kernel 0: a string, argument");
    hostile(kernarg_misaligned, "pack kernels: kernel 0: a string, argument");
    hostile(kernargs_overlap, "pack kernels: kernel 0: a string, argument");
    hostile(wild_factor, "pack kernels: kernel 0: a string, argument");
    hostile(factor_of_nothing, "pack kernels: kernel 0: a string, argument");
    hostile(wild_op, "pack kernels: kernel 0: a string");
    hostile(wild_field, "pack kernels: kernel 0: a string");
    hostile(wild_name, "pack kernels: kernel 0: its text");
    hostile(name_in_tables, "pack kernels: kernel 0: its text");
    hostile(wild_symbol, "pack kernels: kernel 0: its text");
    hostile(wild_tuning, "pack kernels: kernel 0: its text");
    hostile(wild_provenance, "pack kernels: kernel 0: its text");
    hostile(no_final_nul, "pack kernels: kernel 0: its text");
    hostile(code_after_section, "ends after the code section");
    hostile(code_offset_after, "ends after the code section");
    hostile(code_misaligned, "ends after the code section");
    hostile(no_workgroup, "pack kernels: kernel 0: its tables");
    hostile(another_key, "pack index: the hash of");
    hostile(dirty_padding, "pack code: the padding");
}

TEST(files_are_opened_and_named_in_errors)
{
    struct attn_pack *pack;
    assert_int_equal(attn_pack_open("/nonexistent.attnpack", &pack), ATTN_IO);
    assert_string_equal(attn_last_error(), "/nonexistent.attnpack: No such file or directory");
    assert_int_equal(attn_pack_open("/", &pack), ATTN_IO);
    assert_int_equal(attn_pack_open("/dev/null", &pack), ATTN_IO);

    char path[] = "test_pack_XXXXXX";
    int fd = mkstemp(path);
    assert_int_equal(attn_pack_open(path, &pack), ATTN_BAD_PACK);
    size_t size;
    void *bytes = make_pack(three, COUNT(three), &size);
    assert_int_equal(write(fd, bytes, size), size);
    close(fd);
    assert_int_equal(attn_pack_open(path, &pack), ATTN_OK);
    unlink(path);
    assert_int_equal(attn_pack_check(pack), ATTN_OK);
    attn_pack_close(pack);
    free(bytes);
}

/* A file that loses its end while it is open is an error of reading, not of the pack. */
TEST(a_file_that_becomes_shorter_is_named)
{
    char path[] = "test_pack_XXXXXX";
    struct attn_kernel_info info = {.size = sizeof(info)};
    struct attn_pack *pack;
    size_t size;
    struct attn_pack_header *h = make_pack(three, COUNT(three), &size);
    int fd = mkstemp(path);
    assert_int_equal(write(fd, h, size), size);
    assert_int_equal(attn_pack_open(path, &pack), ATTN_OK);
    unlink(path);
    assert_int_equal(ftruncate(fd, (off_t)h->sections[ATTN_PACK_KERNELS].offset), 0);
    assert_int_equal(attn_pack_kernel(pack, 0, &info), ATTN_IO);
    says("it became shorter");
    close(fd);
    attn_pack_close(pack);
    free(h);
}

TEST(null_arguments_are_refused)
{
    struct attn_pack *pack;
    assert_int_equal(attn_pack_open(NULL, &pack), ATTN_BAD_ARGUMENT);
    assert_int_equal(attn_pack_open_memory(NULL, 8, &pack), ATTN_BAD_ARGUMENT);
    assert_int_equal(attn_pack_check(NULL), ATTN_BAD_ARGUMENT);
    assert_int_equal(attn_pack_kernel_count(NULL), 0);
    attn_pack_close(NULL);
}

int main(void) { return run_unit_tests(); }
