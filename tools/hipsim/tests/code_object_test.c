/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the loader: the contents of a code object, and the status for each kind of damage. */
#include "tests/unit_test.h"
#include "tools/hipsim/core/bundle.h"
#include "tools/hipsim/core/launch.h"
#include "tools/hipsim/core/memory.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct image kernels; /* code object for gfx942 from the command line */
static char why[600];

static enum code_object_status load(const void *data, size_t size, enum gfx_target target)
{
    struct code_object *object;
    enum code_object_status status =
        code_object_load(data, size, target, 0, &object, why, sizeof(why));

    assert_true((status == CODE_OBJECT_OK) == (object != NULL));
    assert_true(status == CODE_OBJECT_OK || why[0]);
    code_object_destroy(object);
    return status;
}

static uint8_t *copy(size_t size)
{
    uint8_t *bytes = malloc(size + 1);

    memcpy(bytes, kernels.data, size);
    return bytes;
}

TEST(contents_are_read)
{
    struct code_object *object;

    assert_int_equal(
        code_object_load(kernels.data, kernels.size, GFX942, 0, &object, why, sizeof(why)),
        CODE_OBJECT_OK);
    assert_int_equal(object->version, 5);
    const struct kernel *mix = code_object_kernel(object, "mix");
    assert_non_null(mix);
    /* Arguments: char, double, short, two pointers, int. Their offsets follow from C's rules. */
    const uint32_t offsets[] = {0, 8, 16, 24, 32, 40};
    for (unsigned i = 0; i < 6; i++)
        assert_int_equal(mix->metadata.args[i].offset, offsets[i]);
    assert_int_equal(metadata_explicit_bytes(&mix->metadata), 44);
    assert_true(mix->vgprs > 0 && mix->vgprs <= 256);
    assert_null(code_object_kernel(object, "mi"));
    /* `chain` holds the address of `offset`, which needs a dynamic relocation. */
    const struct global_variable *chain = code_object_variable(object, "chain");
    const struct global_variable *offset = code_object_variable(object, "offset");
    assert_non_null(chain);
    assert_non_null(offset);
    assert_int_equal(*(uint64_t *)(uintptr_t)chain->address, offset->address);
    assert_int_equal(*(int *)(uintptr_t)offset->address, 11);
    uint64_t text = code_address(object->code);
    struct hipsim_mem_cursor cursor = {0};
    assert_int_equal(hipsim_mem_check(&cursor, text, 4, true), HIPSIM_MEM_READ_ONLY);
    assert_int_equal(hipsim_mem_check(&cursor, offset->address, 4, true), HIPSIM_MEM_OK);
    char place[256];
    hipsim_mem_describe(text, 4, place, sizeof(place));
    assert_non_null(strstr(place, "(code object)"));
    code_object_destroy(object);
}

/* Tests struct mg_info of the ROCm device libraries (ockl/src/cg.cl). The counters are at byte 32,
 * the number of workgroups at byte 40. The fields for several devices are 0. */
TEST(a_cooperative_launch_has_a_synchronisation_record)
{
    struct code_object *object;
    struct dispatch dispatch;
    uint64_t args = 0;
    unsigned found = 0;
    assert_int_equal(
        code_object_load(kernels.data, kernels.size, GFX942, 0, &object, why, sizeof(why)),
        CODE_OBJECT_OK);
    struct dispatch_request request = {.kernel = code_object_kernel(object, "meet"),
                                       .grid = {384, 4, 1},
                                       .block = {128, 2, 1},
                                       .args = &args,
                                       .args_bytes = sizeof(args),
                                       .lds_limit = 65536,
                                       .cooperative = true};
    assert_int_equal(dispatch_prepare(&request, &dispatch, why, sizeof(why)), DISPATCH_OK);
    const struct kernel_metadata *m = &request.kernel->metadata;
    for (uint32_t i = 0; i < m->nargs; i++) {
        if (m->args[i].kind != ARG_MULTIGRID_SYNC)
            continue;
        const uint8_t *record;
        uint32_t words[12], expected[12] = {[10] = 6};
        memcpy(&record, dispatch.kernarg + m->args[i].offset, sizeof(record));
        assert_ptr_equal(record, dispatch.grid_sync);
        memcpy(words, record, sizeof(words));
        assert_memory_equal(words, expected, sizeof(words));
        found++;
    }
    assert_int_equal(found, 1);
    dispatch_release(&dispatch);
    request.cooperative = false;
    assert_int_equal(dispatch_prepare(&request, &dispatch, why, sizeof(why)), DISPATCH_OK);
    assert_null(dispatch.grid_sync);
    dispatch_release(&dispatch);
    code_object_destroy(object);
}

TEST(launch_state_is_as_described)
{
    struct code_object *object;
    struct dispatch dispatch;
    char args[44];

    memset(args, 0x5a, sizeof(args));
    assert_int_equal(
        code_object_load(kernels.data, kernels.size, GFX942, 0, &object, why, sizeof(why)),
        CODE_OBJECT_OK);
    const struct kernel *mix = code_object_kernel(object, "mix");
    struct dispatch_request request = {.kernel = mix,
                                       .grid = {300, 4, 1},
                                       .block = {128, 2, 1},
                                       .dynamic_lds = 512,
                                       .args = args,
                                       .args_bytes = sizeof(args),
                                       .lds_limit = 65536};
    if (mix->metadata.uniform_workgroup) {
        assert_int_equal(dispatch_prepare(&request, &dispatch, why, sizeof(why)),
                         DISPATCH_BAD_CONFIGURATION);
        request.grid[0] = 384;
    }
    assert_int_equal(dispatch_prepare(&request, &dispatch, why, sizeof(why)), DISPATCH_OK);
    assert_int_equal(dispatch.launch.lds_bytes, mix->descriptor.group_segment_bytes + 512);
    assert_int_equal(dispatch.launch.nuser_sgpr, mix->user_sgprs);
    assert_memory_equal(dispatch.kernarg, args, sizeof(args));
    for (uint32_t i = 0; i < mix->metadata.nargs; i++) {
        const struct kernel_argument *arg = &mix->metadata.args[i];
        uint64_t value = 0;
        memcpy(&value, dispatch.kernarg + arg->offset, arg->size < 8 ? arg->size : 8);
        if (arg->kind == ARG_BLOCK_COUNT_X)
            assert_int_equal(value, request.grid[0] / 128);
        if (arg->kind == ARG_GROUP_SIZE_Y)
            assert_int_equal(value, 2);
        if (arg->kind == ARG_REMAINDER_X)
            assert_int_equal(value, request.grid[0] % 128);
    }
    dispatch_release(&dispatch);
    request.dynamic_lds = 65537;
    assert_int_equal(dispatch_prepare(&request, &dispatch, why, sizeof(why)), DISPATCH_TOO_LARGE);
    request.dynamic_lds = 0;
    request.block[1] = 16;
    assert_int_equal(dispatch_prepare(&request, &dispatch, why, sizeof(why)),
                     DISPATCH_BAD_CONFIGURATION);
    code_object_destroy(object);
}

/* Returns the unsigned number of `size` bytes at byte `at`. */
static uint64_t number(const uint8_t *bytes, unsigned at, unsigned size)
{
    uint64_t value = 0;
    memcpy(&value, bytes + at, size);
    return value;
}

enum { WORD = 8, GRID_X = 300, GRID_Y = 7, GRID_Z = 5, X = 64, Y = 2, Z = 3, DYNAMIC = 512 };

/* Prepares a launch of kernel "mix" whose sizes differ by dimension, with a partial workgroup in
 * each. `hidden` gets every kind of hidden argument, at byte WORD * kind, and *k the kernel with
 * them. Returns the code object. */
static struct code_object *prepare(struct kernel_argument hidden[ARG_KINDS], struct kernel *k,
                                   struct dispatch *d)
{
    struct code_object *object;
    assert_int_equal(
        code_object_load(kernels.data, kernels.size, GFX942, 0, &object, why, sizeof(why)),
        CODE_OBJECT_OK);
    *k = *code_object_kernel(object, "mix");
    k->metadata.args = hidden;
    k->metadata.nargs = 0;
    k->metadata.kernarg_bytes = WORD * ARG_KINDS;
    k->metadata.uniform_workgroup = false;
    for (unsigned kind = 0; kind < ARG_KINDS; kind++)
        if (argument_is_hidden(kind))
            hidden[k->metadata.nargs++] = (struct kernel_argument){WORD * kind, WORD, kind};
    const struct dispatch_request request = {.kernel = k,
                                             .grid = {GRID_X, GRID_Y, GRID_Z},
                                             .block = {X, Y, Z},
                                             .dynamic_lds = DYNAMIC,
                                             .lds_limit = 65536,
                                             .hostcall_buffer = 0x123456789a};
    assert_int_equal(dispatch_prepare(&request, d, why, sizeof(why)), DISPATCH_OK);
    return object;
}

TEST(hidden_arguments_describe_the_launch)
{
    struct kernel_argument hidden[ARG_KINDS];
    struct kernel k;
    struct dispatch d;
    struct code_object *const object = prepare(hidden, &k, &d);
    const uint64_t expected[ARG_KINDS] = {
        [ARG_BLOCK_COUNT_X] = GRID_X / X,
        [ARG_BLOCK_COUNT_Y] = GRID_Y / Y,
        [ARG_BLOCK_COUNT_Z] = GRID_Z / Z,
        [ARG_GROUP_SIZE_X] = X,
        [ARG_GROUP_SIZE_Y] = Y,
        [ARG_GROUP_SIZE_Z] = Z,
        [ARG_REMAINDER_X] = GRID_X % X,
        [ARG_REMAINDER_Y] = GRID_Y % Y,
        [ARG_REMAINDER_Z] = GRID_Z % Z,
        [ARG_GRID_DIMS] = 3,
        [ARG_HOSTCALL_BUFFER] = 0x123456789a,
        [ARG_DYNAMIC_LDS_SIZE] = DYNAMIC,
        [ARG_PRIVATE_BASE] = PRIVATE_APERTURE >> 32,
        [ARG_SHARED_BASE] = SHARED_APERTURE >> 32,
        [ARG_QUEUE_PTR] = (uintptr_t)d.queue,
    };
    for (unsigned kind = 0; kind < ARG_KINDS; kind++)
        if (argument_is_hidden(kind) && number(d.kernarg, WORD * kind, WORD) != expected[kind])
            fail_msg("hidden argument %u", kind);
    dispatch_release(&d);
    code_object_destroy(object);
}

/* Compares the fields of hsa_kernel_dispatch_packet_t (HSA Runtime Programmer's Reference Manual
 * 1.2, 2.9.6). Kernels must not store to the packet or to their arguments. */
TEST(the_packet_describes_the_launch)
{
    struct kernel_argument hidden[ARG_KINDS];
    struct kernel k;
    struct dispatch d;
    struct code_object *const object = prepare(hidden, &k, &d);
    const struct {
        unsigned at, size;
        uint64_t value;
    } fields[] = {
        {2, 2, 3},
        {4, 2, X},
        {6, 2, Y},
        {8, 2, Z},
        {12, 4, GRID_X},
        {16, 4, GRID_Y},
        {20, 4, GRID_Z},
        {24, 4, k.descriptor.private_segment_bytes},
        {28, 4, k.descriptor.group_segment_bytes + DYNAMIC},
        {32, 8, k.descriptor_address},
        {40, 8, (uintptr_t)d.kernarg},
    };
    for (unsigned i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        if (number(d.packet, fields[i].at, fields[i].size) != fields[i].value)
            fail_msg("packet, byte %u", fields[i].at);
    struct hipsim_mem_cursor cursor = {0};
    assert_int_equal(hipsim_mem_check(&cursor, (uintptr_t)d.kernarg, 4, true),
                     HIPSIM_MEM_READ_ONLY);
    assert_int_equal(hipsim_mem_check(&cursor, (uintptr_t)d.packet, 4, true), HIPSIM_MEM_READ_ONLY);
    assert_int_equal(hipsim_mem_check(&cursor, (uintptr_t)d.queue, 4, true), HIPSIM_MEM_OK);
    dispatch_release(&d);
    code_object_destroy(object);
}

/* Runtimes place arguments by their offsets and do not compare these with .kernarg_segment_size. */
TEST(arguments_beyond_the_named_segment_widen_it)
{
    static const char key[] = ".kernarg_segment_size";
    uint8_t *bytes = copy(kernels.size), *at = bytes;
    struct code_object *object;

    while ((at = memmem(at, (size_t)(bytes + kernels.size - at), key, sizeof(key) - 1))) {
        at += sizeof(key) - 1;
        if (*at != 0xcd) /* 0xcd: a big-endian number of 16 bits in MessagePack; smaller numbers are
                            bytes */
            continue;
        at[1] = 0;
        at[2] = 40;
    }
    assert_int_equal(code_object_load(bytes, kernels.size, GFX942, 0, &object, why, sizeof(why)),
                     CODE_OBJECT_OK);
    const struct kernel *mix = code_object_kernel(object, "mix");
    const struct kernel_argument *last = &mix->metadata.args[mix->metadata.nargs - 1];
    assert_true(last->offset > 40);
    assert_int_equal(mix->metadata.kernarg_bytes, last->offset + last->size);
    code_object_destroy(object);
    free(bytes);
}

TEST(other_targets_are_named)
{
    assert_int_equal(load(kernels.data, kernels.size, GFX950), CODE_OBJECT_OTHER_TARGET);
    assert_non_null(strstr(why, "gfx942"));
    assert_non_null(strstr(why, "gfx950"));
    uint8_t *bytes = copy(kernels.size);
    Elf64_Ehdr *header = (Elf64_Ehdr *)bytes;
    header->e_flags = (header->e_flags & ~0xffu) | 0x3f;
    assert_int_equal(load(bytes, kernels.size, GFX942), CODE_OBJECT_OTHER_TARGET);
    assert_non_null(strstr(why, "gfx90a"));
    header->e_machine = EM_X86_64;
    assert_int_equal(load(bytes, kernels.size, GFX942), CODE_OBJECT_INVALID);
    free(bytes);
}

TEST(truncation_at_any_byte_gives_a_status)
{
    for (size_t size = 0; size < kernels.size; size += size < 512 ? 1 : 97) {
        uint8_t *bytes = copy(size);
        struct image image = {.data = bytes, .size = size};
        if (image_select(&image, GFX942, why, sizeof(why)) == CODE_OBJECT_OK)
            load(image.data, image.size, GFX942);
        free(bytes);
    }
    assert_int_equal(load(kernels.data, 100, GFX942), CODE_OBJECT_INVALID);
}

TEST(damage_at_any_byte_gives_a_status)
{
    uint32_t random = 1;

    for (int round = 0; round < 3000; round++) {
        uint8_t *bytes = copy(kernels.size);
        for (int i = 0; i < 4; i++) {
            random = random * 1664525u + 1013904223u;
            bytes[(random >> 8) % (round & 1 ? kernels.size : 1024)] = (uint8_t)(random >> 3);
        }
        load(bytes, kernels.size, GFX942);
        free(bytes);
    }
}

/* Changes the relocation of `chain` to one with a symbol that does not exist. */
TEST(symbols_outside_of_the_file_are_no_symbols)
{
    /* Value of R_AMDGPU_ABS64: LLVM's AMDGPUUsage, "Relocation Records". */
    enum { ABSOLUTE_64 = 3 };
    const Elf64_Ehdr *header = (const void *)kernels.data;
    unsigned relocated = 0;

    for (unsigned i = 0; i < header->e_shnum; i++) {
        uint8_t *bytes = copy(kernels.size);
        Elf64_Shdr *sections = (Elf64_Shdr *)(bytes + header->e_shoff);
        for (unsigned j = 0; j < header->e_shnum; j++) {
            if (sections[j].sh_type != SHT_RELA)
                continue;
            ((Elf64_Rela *)(bytes + sections[j].sh_offset))->r_info = ELF64_R_INFO(1, ABSOLUTE_64);
            relocated++;
        }
        const bool symbols = sections[i].sh_type == SHT_DYNSYM;
        sections[i].sh_offset = UINT64_MAX / 2;
        const enum code_object_status status = load(bytes, kernels.size, GFX942);
        if (symbols)
            assert_int_not_equal(status, CODE_OBJECT_OK);
        free(bytes);
    }
    assert_int_equal(relocated, header->e_shnum);
}

/* The loader needs section headers to find kernels and relocations. */
TEST(an_image_without_section_headers_is_refused)
{
    for (int i = 0; i < 3; i++) {
        uint8_t *bytes = copy(kernels.size);
        Elf64_Ehdr *header = (Elf64_Ehdr *)bytes;
        Elf64_Shdr *sections = (Elf64_Shdr *)(bytes + header->e_shoff);
        for (unsigned j = 0; i == 2 && j < header->e_shnum; j++)
            if (sections[j].sh_type == SHT_DYNSYM || sections[j].sh_type == SHT_SYMTAB)
                sections[j].sh_type = SHT_PROGBITS;
        if (i < 2)
            header->e_shnum = header->e_shstrndx = 0;
        if (i == 0)
            header->e_shoff = 0;
        assert_int_equal(load(bytes, kernels.size, GFX942), CODE_OBJECT_INVALID);
        assert_non_null(strstr(why, i < 2 ? "no section headers" : "no table of symbols"));
        free(bytes);
    }
}

TEST(unknown_extents_are_found)
{
    struct image image;
    static const char text[64] = "neither an ELF file nor a bundle";

    assert_int_equal(image_from_memory(kernels.data, &image, why, sizeof(why)), CODE_OBJECT_OK);
    assert_true(image.size <= kernels.size);
    assert_int_equal(load(image.data, image.size, GFX942), CODE_OBJECT_OK);
    image_release(&image);
    assert_int_equal(image_from_memory(text, &image, why, sizeof(why)), CODE_OBJECT_INVALID);
    assert_int_equal(image_from_memory(NULL, &image, why, sizeof(why)), CODE_OBJECT_INVALID);
    assert_int_equal(image_from_memory((void *)(uintptr_t)4096, &image, why, sizeof(why)),
                     CODE_OBJECT_INVALID);
}

TEST(bundles_are_searched)
{
    static const char id[] = "hipv4-amdgcn-amd-amdhsa--gfx942";
    const uint64_t fields[] = {1, 4096, kernels.size, sizeof(id) - 1};
    size_t size = 4096 + kernels.size;
    uint8_t *bytes = calloc(1, size);

    memcpy(bytes, "__CLANG_OFFLOAD_BUNDLE__", 24);
    memcpy(bytes + 24, fields, sizeof(fields));
    memcpy(bytes + 56, id, sizeof(id) - 1);
    memcpy(bytes + 4096, kernels.data, kernels.size);
    struct image image = {.data = bytes, .size = size};
    assert_int_equal(image_select(&image, GFX942, why, sizeof(why)), CODE_OBJECT_OK);
    assert_int_equal(image.size, kernels.size);
    image = (struct image){.data = bytes, .size = size};
    assert_int_equal(image_select(&image, GFX950, why, sizeof(why)), CODE_OBJECT_OTHER_TARGET);
    assert_non_null(strstr(why, id));
    image = (struct image){.data = bytes, .size = size - 1};
    assert_int_equal(image_select(&image, GFX942, why, sizeof(why)), CODE_OBJECT_INVALID);
    free(bytes);
}

int main(int argc, char **argv)
{

    if (argc != 2 || image_from_file(argv[1], &kernels, why, sizeof(why)) != CODE_OBJECT_OK) {
        fprintf(stderr, "usage: %s CODE_OBJECT (%s)\n", argv[0], why);
        return 2;
    }
    int failed = run_unit_tests();
    image_release(&kernels);
    return failed;
}
