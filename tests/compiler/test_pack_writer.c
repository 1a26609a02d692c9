/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the pack writer: what it refuses, packs when memory runs out, and packs embedded in C
 * headers and in object files. Linked with --wrap for malloc, calloc and realloc. tests/runtime
 * reads the packs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <elf.h>

#include "compiler/pack_writer.h"
#include "tests/unit_test.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static long until_failure = -1; /* allocations before all fail; negative: none fails */
static bool ran_out;

static bool fails(void)
{
    if (until_failure < 0)
        return false;
    ran_out = ran_out || until_failure == 0;
    until_failure -= until_failure > 0;
    return ran_out;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);

void *__wrap_malloc(size_t size) { return fails() ? NULL : __real_malloc(size); }

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size) { return fails() ? NULL : __real_realloc(old, size); }

static const struct attnc_pack_pair key[] = {{"dtype", "bf16"}, {"head_dim", "128"}};
static const struct attnc_pack_kernarg args[] = {{"q", 0, ATTN_KIND_I64},
                                                 {"tokens", 8, ATTN_KIND_I32}};
static const struct attnc_pack_factor factors[] = {{"tokens", 128}, {NULL, 2}};
static const struct attnc_pack_when when[] = {{"tokens", 1, 64}};

/* A kernel that the writer takes. */
static struct attnc_pack_kernel good_kernel(void)
{
    return (struct attnc_pack_kernel){
        .name = "kernel",
        .symbol = "symbol",
        .op = "prefill",
        .target = "gfx942",
        .key = key,
        .key_count = COUNT(key),
        .kernargs = args,
        .kernarg_count = COUNT(args),
        .kernarg_size = 16,
        .grid = {factors},
        .grid_count = {COUNT(factors)},
        .when = when,
        .when_count = COUNT(when),
        .workgroup = {256, 1, 1},
        .code = "code",
        .code_size = 4,
    };
}

/* Adds a kernel, which must be refused with this sentence. */
static void refused(struct attnc_pack_kernel k, const char *sentence)
{
    struct attnc_pack_writer *const w = attnc_pack_writer_create();
    assert_non_null(w);
    assert_string_equal(attnc_pack_writer_error(w), "");
    assert_false(attnc_pack_writer_add(w, &k));
    assert_string_equal(attnc_pack_writer_error(w), sentence);
    k = good_kernel();
    assert_false(attnc_pack_writer_add(w, &k));
    void *bytes;
    size_t size;
    assert_false(attnc_pack_writer_finish(w, &bytes, &size));
    assert_string_equal(attnc_pack_writer_error(w), sentence);
    attnc_pack_writer_destroy(w);
}

TEST(texts_are_refused)
{
    struct attnc_pack_kernel k = good_kernel();
    k.name = "";
    refused(k, "a kernel's name is empty");
    k = good_kernel();
    k.symbol = NULL;
    refused(k, "a kernel's symbol is empty");
    k = good_kernel();
    k.op = NULL;
    refused(k, "a kernel's op is empty");
    k = good_kernel();
    k.target = NULL;
    refused(k, "a kernel's target is empty");
    k = good_kernel();
    k.tuning = "a\x7f";
    refused(k, "a kernel's tuning: byte 0x7f is not printable ASCII");
    k.tuning = "\x1f";
    refused(k, "a kernel's tuning: byte 0x1f is not printable ASCII");
    char text[ATTN_PACK_TEXT_MAX + 1], sentence[128];
    memset(text, '~', ATTN_PACK_TEXT_MAX);
    text[ATTN_PACK_TEXT_MAX] = 0;
    k = good_kernel();
    k.provenance = text;
    snprintf(sentence, sizeof(sentence), "a kernel's provenance: %d characters, at most %d fit",
             ATTN_PACK_TEXT_MAX, ATTN_PACK_TEXT_MAX - 1);
    refused(k, sentence);
}

TEST(keys_and_arguments_are_refused)
{
    struct attnc_pack_kernel k = good_kernel();
    k.key = (const struct attnc_pack_pair[]){{"b", "1"}, {"a", "1"}, {"b", "2"}};
    k.key_count = 3;
    refused(k, "kernel: key field b twice");
    k.key_count = ATTN_PACK_PAIRS_MAX + 1;
    char sentence[128];
    snprintf(sentence, sizeof(sentence), "kernel: %d key fields, at most %d fit",
             ATTN_PACK_PAIRS_MAX + 1, ATTN_PACK_PAIRS_MAX);
    refused(k, sentence);
    k = good_kernel();
    k.kernarg_size = 11;
    refused(k, "kernel: arguments take 12 bytes of a segment of 11");
    k.kernarg_size = ATTN_PACK_KERNARG_BYTES_MAX + 1;
    snprintf(sentence, sizeof(sentence), "kernel: %d bytes of kernel arguments, at most %d fit",
             ATTN_PACK_KERNARG_BYTES_MAX + 1, ATTN_PACK_KERNARG_BYTES_MAX);
    refused(k, sentence);
    k = good_kernel();
    k.kernargs =
        (const struct attnc_pack_kernarg[]){{"q", 0, ATTN_KIND_I64}, {"n", 4, ATTN_KIND_I32}};
    refused(k, "kernel: argument n at offset 4 is misaligned or overlaps");
    k.kernargs =
        (const struct attnc_pack_kernarg[]){{"n", 0, ATTN_KIND_I32}, {"q", 4, ATTN_KIND_I64}};
    refused(k, "kernel: argument q at offset 4 is misaligned or overlaps");
    k.kernargs =
        (const struct attnc_pack_kernarg[]){{"n", 0, ATTN_KIND_COUNT}, {"q", 8, ATTN_KIND_I64}};
    refused(k, "kernel: argument n has no known kind");
    k.kernargs =
        (const struct attnc_pack_kernarg[]){{"n", 0, ATTN_KIND_I32}, {NULL, 8, ATTN_KIND_I64}};
    refused(k, "a kernel argument's name is empty");
}

TEST(grids_and_code_are_refused)
{
    char sentence[128];
    struct attnc_pack_kernel k = good_kernel();
    k.grid[2] = (const struct attnc_pack_factor[]){{"tokens", 0}};
    k.grid_count[2] = 1;
    refused(k, "kernel: a grid factor of 0");
    k.grid_count[2] = ATTN_PACK_FACTORS_MAX + 1;
    snprintf(sentence, sizeof(sentence), "kernel: %d factors in a grid dimension, at most %d fit",
             ATTN_PACK_FACTORS_MAX + 1, ATTN_PACK_FACTORS_MAX);
    refused(k, sentence);
    k = good_kernel();
    k.when_count = ATTN_PACK_WHENS_MAX + 1;
    snprintf(sentence, sizeof(sentence), "kernel: %d conditions, at most %d fit",
             ATTN_PACK_WHENS_MAX + 1, ATTN_PACK_WHENS_MAX);
    refused(k, sentence);
    k = good_kernel();
    k.split_count = ATTN_PACK_SPLITS_MAX + 1;
    snprintf(sentence, sizeof(sentence), "kernel: %d splits, at most %d fit",
             ATTN_PACK_SPLITS_MAX + 1, ATTN_PACK_SPLITS_MAX);
    refused(k, sentence);
    for (int d = 0; d < 3; d++) {
        k = good_kernel();
        k.workgroup[d] = 0;
        refused(k, "kernel: a workgroup dimension of 0");
    }
    k = good_kernel();
    k.code_size = 0;
    refused(k, "kernel: no code");
}

/* Writes `count` kernels with names in falling or rising order. NULL: the writer failed. */
static void *write_pack(unsigned count, bool rising, size_t *size)
{
    struct attnc_pack_writer *const w = attnc_pack_writer_create();
    if (!w)
        return NULL;
    void *bytes = NULL;
    bool good = true;
    for (unsigned i = 0; i < count && good; i++) {
        char name[32], code[3000];
        const unsigned number = rising ? i : count - 1 - i;
        snprintf(name, sizeof(name), "kernel_%04u", number);
        memset(code, (int)number, sizeof(code));
        struct attnc_pack_kernel k = good_kernel();
        k.name = name;
        k.code = code;
        k.code_size = sizeof(code);
        good = attnc_pack_writer_add(w, &k);
    }
    good = good && attnc_pack_writer_finish(w, &bytes, size);
    assert_true(good || !strcmp(attnc_pack_writer_error(w), "out of memory"));
    attnc_pack_writer_destroy(w);
    return good ? bytes : NULL;
}

TEST(a_writer_without_memory_says_so)
{
    enum { KERNELS = 70 };
    size_t size, again;
    void *const whole = write_pack(KERNELS, true, &size);
    assert_non_null(whole);
    for (long n = 0;; n += n < 40 ? 1 : 7) {
        until_failure = n;
        ran_out = false;
        void *const bytes = write_pack(KERNELS, n % 2, &again);
        const bool failed = ran_out;
        until_failure = -1;
        assert_true(failed == !bytes);
        if (bytes) {
            assert_int_equal(again, size);
            assert_memory_equal(bytes, whole, size);
        }
        free(bytes);
        if (!failed) {
            assert_true(n > KERNELS);
            break;
        }
    }
    free(whole);
}

TEST(two_kernels_of_one_name_are_refused)
{
    struct attnc_pack_writer *const w = attnc_pack_writer_create();
    const struct attnc_pack_kernel k = good_kernel();
    assert_true(attnc_pack_writer_add(w, &k) && attnc_pack_writer_add(w, &k));
    void *bytes;
    size_t size;
    assert_false(attnc_pack_writer_finish(w, &bytes, &size));
    assert_string_equal(attnc_pack_writer_error(w), "two kernels are called kernel");
    attnc_pack_writer_destroy(w);
}

static uint8_t content[10000];

/* Returns the contents of a section of an object file in memory. */
static const void *section_of(const void *object, unsigned n, const Elf64_Shdr **header)
{
    const Elf64_Ehdr *const e = object;
    *header = (const Elf64_Shdr *)((const char *)object + e->e_shoff) + n;
    return (const char *)object + (*header)->sh_offset;
}

static void check_symbol(const void *object, const Elf64_Sym *symbol, const char *strings,
                         const char *name, const void *expected, size_t size)
{
    const Elf64_Shdr *header;
    const char *const data = section_of(object, symbol->st_shndx, &header);
    assert_string_equal(strings + symbol->st_name, name);
    assert_int_equal(ELF64_ST_BIND(symbol->st_info), STB_GLOBAL);
    assert_int_equal(ELF64_ST_TYPE(symbol->st_info), STT_OBJECT);
    assert_int_equal(symbol->st_size, size);
    assert_int_equal(header->sh_type, SHT_PROGBITS);
    assert_true(header->sh_flags & SHF_ALLOC);
    assert_true(symbol->st_value + size <= header->sh_size);
    assert_memory_equal(data + symbol->st_value, expected, size);
}

TEST(an_object_has_the_pack_and_its_size)
{
    void *object;
    size_t object_size;
    const size_t size = sizeof(content);
    assert_true(attnc_pack_to_object(content, size, "my_pack", &object, &object_size));
    const Elf64_Ehdr *const e = object;
    assert_memory_equal(e->e_ident, ELFMAG, SELFMAG);
    assert_int_equal(e->e_ident[EI_CLASS], ELFCLASS64);
    assert_int_equal(e->e_ident[EI_DATA], ELFDATA2LSB);
    assert_int_equal(e->e_type, ET_REL);
    assert_int_not_equal(e->e_machine, EM_NONE);
    assert_int_equal(e->e_version, EV_CURRENT);
    bool seen = false;
    for (unsigned n = 0; n < e->e_shnum; n++) {
        const Elf64_Shdr *header, *names;
        const Elf64_Sym *const symbols = section_of(object, n, &header);
        if (header->sh_type != SHT_SYMTAB)
            continue;
        const char *const strings = section_of(object, header->sh_link, &names);
        assert_int_equal(header->sh_entsize, sizeof(*symbols));
        assert_int_equal(header->sh_info, 1);
        assert_int_equal(header->sh_size / sizeof(*symbols), 3);
        check_symbol(object, symbols + 1, strings, "attn_pack_my_pack", content, size);
        check_symbol(object, symbols + 2, strings, "attn_pack_my_pack_size", &size, sizeof(size));
        section_of(object, symbols[1].st_shndx, &header);
        assert_int_equal(header->sh_addralign, 4096);
        seen = true;
    }
    assert_true(seen);
    free(object);
}

TEST(a_header_has_the_pack_and_its_size)
{
    void *bytes;
    size_t size;
    assert_true(attnc_pack_to_header(content, sizeof(content), "_p", &bytes, &size));
    char *const text = strndup(bytes, size), *at = strstr(text, "{\n");
    assert_non_null(strstr(text, "#ifndef ATTN_PACK__p_H\n#define ATTN_PACK__p_H\n"));
    assert_non_null(strstr(text, "static const size_t attn_pack__p_size = 10000;\n"));
    assert_non_null(strstr(text, "static const unsigned char attn_pack__p[10000] "
                                 "__attribute__((aligned(4096))) = {\n"));
    assert_non_null(at++);
    for (size_t i = 0; i < sizeof(content); i++, at++) {
        assert_int_equal(strtoul(at, &at, 10), content[i]);
        assert_int_equal(*at, ',');
    }
    assert_string_equal(at, "\n};\n\n#endif\n");
    free(text);
    free(bytes);
}

TEST(names_must_be_identifiers)
{
    static const char *const names[] = {"", "1a", "a-b", "a b", "a.", "-"};
    char name[131];
    memset(name, 'n', 130);
    void *out;
    size_t size;
    for (size_t i = 0; i < COUNT(names); i++) {
        assert_false(attnc_pack_to_header(content, 8, names[i], &out, &size));
        assert_false(attnc_pack_to_object(content, 8, names[i], &out, &size));
    }
    name[129] = 0;
    assert_false(attnc_pack_to_object(content, 8, name, &out, &size));
    name[128] = 0;
    assert_true(attnc_pack_to_object(content, 8, name, &out, &size));
    free(out);
}

int main(void)
{
    for (size_t i = 0; i < sizeof(content); i++)
        content[i] = (uint8_t)(i * 31 + i / 256);
    return run_unit_tests();
}
