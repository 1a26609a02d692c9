/* SPDX-License-Identifier: Apache-2.0
 *
 * Compiles whole kernels: text, object, code object, facts; hooks; threads; bad input.
 *
 * argv: bitcode of hook.c for gfx942.
 */
#include "targets/descriptor.h"
#include "tests/targets/harness.h"

#include <elf.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *bitcode_path;

/* Builds out = in + n, with four elements per lane. */
static struct kernel small_kernel(const char *target)
{
    struct kernel k = kernel_create(target, 4, 4);
    struct tir_value v = unknown(&k, tir_vec(TIR_F32, 4));
    struct tir_value n = tir_arg(&k.b, "n", TIR_F32);
    struct tir_value sum[2] = {v, n};
    k.f->lds_bytes = 512;
    keep(&k, make(&k, TIR_add, tir_vec(TIR_F32, 4), sum, 2, 0, 0, 0));
    return k;
}

static struct tgt_blob emit(struct kernel *k, enum tgt_emit_kind kind)
{
    struct tgt_codegen_options o = {.kind = kind};
    struct tgt_blob out;
    char why[TGT_WHY];
    if (!tgt_emit(k->f, k->t, &o, &out, why))
        fail_msg("tgt_emit: %s", why);
    return out;
}

static bool contains(struct tgt_blob text, const char *word)
{
    return memmem(text.data, text.size, word, strlen(word)) != NULL;
}

TEST(every_kind_of_output_has_its_format)
{
    struct kernel k = small_kernel("gfx950");
    tir_return(&k.b);
    struct tgt_blob llvm = emit(&k, TGT_EMIT_LLVM), text = emit(&k, TGT_EMIT_ASM);
    struct tgt_blob object = emit(&k, TGT_EMIT_OBJECT);
    assert_true(contains(llvm, "define protected amdgpu_kernel void @k("));
    assert_true(contains(text, ".amdgcn_target \"amdgcn-amd-amdhsa--gfx950\""));
    assert_true(contains(text, ".amdhsa_code_object_version 5"));
    assert_memory_equal(object.data, "\177ELF", 4);
    tgt_blob_free(&llvm);
    tgt_blob_free(&text);
    tgt_blob_free(&object);
    tir_func_destroy(k.f);
}

/* Fails unless the instruction `call` of an op has a fence before and after it, so that LLVM moves
 * no access across it. */
static void check_fenced(const char *target, unsigned opcode, int64_t imm, const char *call)
{
    struct kernel k = kernel_create(target, 1, 1);
    keep(&k, unknown(&k, tir_vec(TIR_I32, 1)));
    make(&k, opcode, (struct tir_type){0}, NULL, 0, imm, 0, 0);
    keep(&k, unknown(&k, tir_vec(TIR_I32, 1)));
    tir_return(&k.b);
    struct tgt_blob llvm = emit(&k, TGT_EMIT_LLVM);
    char *const text = strndup((const char *)llvm.data, llvm.size), *const store =
                                                                        strstr(text, " store ");
    char *const before = store ? strstr(store, " fence ") : NULL;
    char *const at = before ? strstr(before, call) : NULL;
    char *const after = at ? strstr(at, " fence ") : NULL;
    char *const load = at ? strstr(at, " load ") : NULL;
    if (!after || !load || after > load)
        fail_msg("%s: %s lacks a fence:\n%s", target, call, text);
    free(text);
    tgt_blob_free(&llvm);
    tir_func_destroy(k.f);
}

TEST(waits_and_barriers_are_between_fences)
{
    check_fenced("gfx942", TIR_barrier, 0, "@llvm.amdgcn.s.barrier(");
    check_fenced("gfx942", TIR_waitcnt, 0, "@llvm.amdgcn.s.waitcnt(");
    check_fenced("gfx950", TIR_wait, -1, "@llvm.amdgcn.s.waitcnt(");
    check_fenced("gfx1250", TIR_barrier, 0, "@llvm.amdgcn.s.barrier(");
    check_fenced("gfx1250", TIR_barrier_signal, 0, "@llvm.amdgcn.s.barrier.signal(");
    check_fenced("gfx1250", TIR_barrier_wait, 0, "@llvm.amdgcn.s.barrier.wait(");
    check_fenced("gfx1250", TIR_wait_tensor, 0, "@llvm.amdgcn.s.wait.tensorcnt(");
}

/* A phi of bytes would take a register for each byte, and a wait for the loads to unpack them. */
TEST(bytes_pass_branches_as_words)
{
    struct kernel k = kernel_create("gfx942", 1, 1);
    const struct tir_type bytes = tir_vec(TIR_FP8, 16);
    struct tir_value v = unknown(&k, bytes), other = unknown(&k, bytes);
    const struct tir_value n = tir_arg(&k.b, "n", TIR_I32), one = tir_i32(&k.b, 1);
    struct tir_loop loop = tir_begin_for(&k.b, tir_i32(&k.b, 0), n, one, &v, 1);
    struct tir_if branch = tir_begin_if(&k.b, tir_cmp_eq(&k.b, loop.index, one), false, &bytes, 1);
    tir_else(&k.b, &branch, &other);
    tir_end_if(&k.b, &branch, &v);
    tir_end_for(&k.b, &loop, &v, 1);
    keep(&k, v);
    tir_return(&k.b);
    struct tgt_blob llvm = emit(&k, TGT_EMIT_LLVM);
    assert_true(contains(llvm, "phi <4 x i32>"));
    assert_false(contains(llvm, "phi <16 x i8>"));
    tgt_blob_free(&llvm);
    tir_func_destroy(k.f);
}

/* With LDS for only one workgroup per CU, LLVM allocates more than half of the registers. */
TEST(a_trimmed_kernel_gets_the_registers_it_uses)
{
    enum { WORD = 4, REGISTERS = 63 /* units of 8 registers, less one */, HALF = 32 };
    struct tgt_blob object[2];
    for (int i = 0; i < 2; i++) {
        struct kernel k = small_kernel("gfx950");
        tir_return(&k.b);
        k.f->lds_bytes = k.t->machine.lds_bytes;
        k.f->trimmed = i == 1;
        object[i] = emit(&k, TGT_EMIT_OBJECT);
        tir_func_destroy(k.f);
    }
    unsigned differ = 0;
    assert_int_equal(object[0].size, object[1].size);
    for (size_t at = 0; at + WORD <= object[0].size; at += WORD) {
        uint32_t whole, trimmed;
        memcpy(&whole, object[0].data + at, WORD);
        memcpy(&trimmed, object[1].data + at, WORD);
        if (whole == trimmed)
            continue;
        differ++;
        assert_int_equal(whole & ~(uint32_t)REGISTERS, trimmed & ~(uint32_t)REGISTERS);
        assert_in_range(whole & REGISTERS, HALF, REGISTERS);
        assert_in_range(trimmed & REGISTERS, 0, 1);
    }
    assert_int_equal(differ, 1);
    tgt_blob_free(&object[0]);
    tgt_blob_free(&object[1]);
}

/* Returns the first section header of an object with this type, these flags and, unless `bytes` is
 * 0, this size. */
static Elf64_Shdr *section_of(const struct tgt_blob *object, unsigned type, unsigned flags,
                              size_t bytes)
{
    const Elf64_Ehdr *const header = (const Elf64_Ehdr *)object->data;
    Elf64_Shdr *const s = (Elf64_Shdr *)(object->data + header->e_shoff);
    for (unsigned i = 0; i < header->e_shnum; i++)
        if (s[i].sh_type == type && s[i].sh_flags == flags && (!bytes || s[i].sh_size == bytes))
            return &s[i];
    fail_msg("the object has no such section");
    return NULL;
}

/* Returns the section of the only kernel descriptor in a relocatable object: the only loaded
 * section of 64 bytes (AMDGPUUsage, "Kernel Descriptor"). */
static Elf64_Shdr *descriptor_of(const struct tgt_blob *object)
{
    return section_of(object, SHT_PROGBITS, SHF_ALLOC, 64);
}

/* Returns compute_pgm_rsrc2 of the only kernel descriptor: its word at byte 52. */
static uint32_t read_rsrc2(const struct tgt_blob *object)
{
    uint32_t word;
    memcpy(&word, object->data + descriptor_of(object)->sh_offset + 52, sizeof(word));
    return word;
}

/* A descriptor may be anywhere in its section, but must not pass its end. */
TEST(a_descriptor_may_follow_others)
{
    enum { ID_X = 1 << 7 };
    struct kernel k = small_kernel("gfx942");
    tir_return(&k.b);
    struct tgt_blob object = emit(&k, TGT_EMIT_OBJECT);
    Elf64_Shdr *const section = descriptor_of(&object);
    const Elf64_Shdr *const table = section_of(&object, SHT_SYMTAB, 0, 0);
    Elf64_Sym *symbol = (Elf64_Sym *)(object.data + table->sh_offset);
    uint32_t word = read_rsrc2(&object) | ID_X;
    uint8_t *const at = object.data + section->sh_offset + 52;
    char why[TGT_WHY];
    memcpy(at, &word, sizeof(word));
    while (ELF64_ST_TYPE(symbol->st_info) != STT_OBJECT)
        symbol++;
    section->sh_size = 32;
    assert_false(tgt_trim_descriptor(&object, "k", false, 0, why));
    section->sh_size = 64;
    section->sh_offset -= 64;
    symbol->st_value += 64;
    assert_false(tgt_trim_descriptor(&object, "k", false, 0, why));
    section->sh_size += 64;
    assert_true(tgt_trim_descriptor(&object, "k", false, 0, why));
    memcpy(&word, at, sizeof(word));
    assert_int_equal(word & ID_X, 0);
    tgt_blob_free(&object);
    tir_func_destroy(k.f);
}

/* Bits 7, 8 and 9 of compute_pgm_rsrc2 enable the workgroup's indices in x, y and z at the start of
 * a wave. They are set up to the last index that the kernel reads. */
TEST(a_wave_starts_with_the_indices_that_it_reads)
{
    static const uint32_t bits[] = {0, 1, 3, 7};
    for (unsigned dims = 0; dims <= 3; dims++) {
        struct kernel k = small_kernel("gfx942");
        for (unsigned d = dims ? dims - 1 : 0; d < dims; d++) /* reads only dims - 1 */
            keep(&k, tir_block_id(&k.b, d));
        tir_return(&k.b);
        struct tgt_blob object = emit(&k, TGT_EMIT_OBJECT);
        assert_int_equal(read_rsrc2(&object) >> 7 & 7, bits[dims]);
        tgt_blob_free(&object);
        tir_func_destroy(k.f);
    }
}

TEST(metadata_say_which_arguments_are_addresses)
{
    static const bool pointers[] = {true, false, true};
    const struct tgt_codegen_options o = {
        .kind = TGT_EMIT_OBJECT, .pointers = pointers, .producer = "a producer"};
    struct kernel k = small_kernel("gfx950");
    tir_return(&k.b);
    assert_int_equal(k.f->n_args, 3);
    struct tgt_blob plain = emit(&k, TGT_EMIT_OBJECT), object;
    char why[TGT_WHY];
    assert_true(tgt_emit(k.f, k.t, &o, &object, why));
    assert_false(contains(plain, "global_buffer") || contains(plain, "a producer"));
    assert_false(contains(plain, ".debug_line"));
    assert_true(contains(object, "a producer"));
    unsigned buffers = 0;
    for (const uint8_t *at = object.data, *end = at + object.size;
         (at = memmem(at, (size_t)(end - at), "global_buffer", 13)); at++)
        buffers++;
    assert_int_equal(buffers, 2);
    assert_true(contains(object, "by_value"));
    tgt_blob_free(&plain);
    tgt_blob_free(&object);
    tir_func_destroy(k.f);
}

TEST(facts_are_those_of_the_code_object)
{
    FOR_GFX9(t)
    {
        struct kernel k = small_kernel((*t)->machine.name);
        struct compiled c = kernel_compile(&k);
        assert_int_equal(c.facts.kernarg_bytes, 8 + 8 + 8); /* in, n, out; no hidden ones */
        assert_int_equal(c.facts.workgroup_size, 256);
        assert_int_equal(c.facts.lds_bytes, 512);
        assert_int_equal(c.facts.scratch_bytes, 0);
        assert_int_equal(c.facts.agprs, 0);
        assert_true(c.facts.vgprs > 0 && c.facts.sgprs > 0);
        assert_int_equal(c.facts.occupancy, 8);
        assert_int_equal(c.facts.loop.instructions, 0);
        const struct tgt_inst *last = &c.code.insts[c.code.count - 1];
        assert_int_equal(c.facts.code_bytes, last->offset + last->size);
        compiled_free(&c);
    }
}

TEST(objects_do_not_depend_on_earlier_kernels)
{
    struct kernel k = small_kernel("gfx950"), other = small_kernel("gfx942");
    struct kernel again = small_kernel("gfx950"), wide = small_kernel("gfx950");
    const struct tgt_codegen_options o = {.kind = TGT_EMIT_OBJECT};
    struct tgt_blob object;
    char why[TGT_WHY];
    tir_return(&k.b);
    tir_return(&other.b);
    tir_return(&again.b);
    tir_return(&wide.b);
    wide.f->args[1].offset = 12;
    struct tgt_blob first = emit(&k, TGT_EMIT_OBJECT), between = emit(&other, TGT_EMIT_OBJECT);
    assert_false(tgt_emit(wide.f, wide.t, &o, &object, why));
    struct tgt_blob last = emit(&again, TGT_EMIT_OBJECT);
    assert_int_equal(first.size, last.size);
    assert_memory_equal(first.data, last.data, first.size);
    tgt_blob_free(&first);
    tgt_blob_free(&between);
    tgt_blob_free(&last);
    tir_func_destroy(k.f);
    tir_func_destroy(other.f);
    tir_func_destroy(again.f);
    tir_func_destroy(wide.f);
}

TEST(offsets_of_arguments_must_be_natural)
{
    struct kernel k = small_kernel("gfx942");
    struct tgt_codegen_options o = {.kind = TGT_EMIT_OBJECT};
    struct tgt_blob out;
    char why[TGT_WHY];
    tir_return(&k.b);
    k.f->args[1].offset = 12;
    assert_false(tgt_emit(k.f, k.t, &o, &out, why));
    assert_string_equal(why, "argument n is at offset 12, not at 8");
    tir_func_destroy(k.f);
}

/* Builds a kernel that calls `hook` on four logits. */
static struct kernel hooked_kernel(const char *hook, bool whole)
{
    struct kernel k = kernel_create("gfx942", 1, 1);
    struct tir_value operands[3] = {unknown(&k, tir_vec(TIR_F32, 4))};
    operands[1] = unknown(&k, tir_vec(TIR_I32, 4));
    operands[2] = tir_arg(&k.b, "slope", TIR_F32);
    int64_t name = tir_hook(k.f, hook);
    keep(&k, make(&k, TIR_call_hook, tir_vec(TIR_F32, 4), operands, whole ? 3 : 1, name, 0, 0));
    tir_return(&k.b);
    return k;
}

static bool emit_hooked(struct kernel *k, struct tgt_blob bitcode, struct tgt_blob *out,
                        char why[TGT_WHY])
{
    struct tgt_codegen_options o = {
        .kind = TGT_EMIT_ASM, .hooks = bitcode.data, .hooks_size = bitcode.size};
    bool ok = tgt_emit(k->f, k->t, &o, out, why);
    tir_func_destroy(k->f);
    return ok;
}

TEST(a_hook_is_inlined)
{
    struct tgt_blob bitcode = read_file(bitcode_path), text;
    char why[TGT_WHY];
    struct kernel k = hooked_kernel("scale_by_distance", true);
    if (!emit_hooked(&k, bitcode, &text, why))
        fail_msg("%s", why);
    assert_true(contains(text, "v_cvt_f32_i32"));
    assert_false(contains(text, "s_swappc"));
    assert_false(contains(text, "half_of"));
    tgt_blob_free(&text);
    tgt_blob_free(&bitcode);
}

static void check_hook_refused(const char *hook, bool whole, struct tgt_blob bitcode,
                               const char *sentence)
{
    struct tgt_blob text;
    char why[TGT_WHY];
    struct kernel k = hooked_kernel(hook, whole);
    assert_false(emit_hooked(&k, bitcode, &text, why));
    if (!strstr(why, sentence))
        fail_msg("%s", why);
}

TEST(a_hook_that_does_not_fit_is_refused_with_a_sentence)
{
    struct tgt_blob bitcode = read_file(bitcode_path);
    check_hook_refused("nowhere", true, bitcode, "the hook's file defines no function nowhere");
    check_hook_refused("scale_by_distance", false, bitcode,
                       "function scale_by_distance does not have the parameters of a hook");
    check_hook_refused("calls_outside", false, bitcode,
                       "the hook calls outside, which it does not define");
    struct tgt_blob half = {bitcode.data, bitcode.size / 2};
    check_hook_refused("scale_by_distance", true, half, "");
    check_hook_refused("scale_by_distance", true,
                       (struct tgt_blob){(uint8_t *)(uintptr_t)"no bitcode", 10}, "");
    tgt_blob_free(&bitcode);
}

static void *compile_once(void *out)
{
    struct kernel k = small_kernel("gfx942");
    struct compiled c = kernel_compile(&k);
    *(struct tgt_blob *)out = c.code_object;
    c.code_object = (struct tgt_blob){0};
    compiled_free(&c);
    return NULL;
}

TEST(threads_and_repetition_give_the_same_bytes)
{
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    struct tgt_blob blobs[THREADS], first;
    compile_once(&first);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, compile_once, &blobs[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(blobs[i].size, first.size);
        assert_memory_equal(blobs[i].data, first.data, first.size);
        tgt_blob_free(&blobs[i]);
    }
    tgt_blob_free(&first);
}

TEST(damaged_code_objects_are_refused_with_a_sentence)
{
    struct kernel k = small_kernel("gfx942");
    const struct tgt *t = k.t;
    struct compiled c = kernel_compile(&k);
    struct tgt_kernel_facts facts;
    char why[TGT_WHY] = "";
    assert_false(tgt_analyze(c.code_object.data, c.code_object.size, "other", t, &facts, why));
    assert_non_null(strstr(why, "other: "));
    const uint8_t *code;
    size_t bytes;
    assert_false(
        tgt_find_code(c.code_object.data, c.code_object.size, "other", &code, &bytes, why));
    assert_string_equal(why, "other: no such function in the code object");
    Elf64_Ehdr *header = (Elf64_Ehdr *)c.code_object.data, whole = *header;
    header->e_shnum = header->e_shstrndx = 0;
    header->e_shoff = 0;
    assert_false(tgt_analyze(c.code_object.data, c.code_object.size, "k", t, &facts, why));
    assert_non_null(strstr(why, "k: the code object has no section headers"));
    *header = whole;
    for (size_t size = 0; size < c.code_object.size; size += 61) {
        /* allocated separately, so that a sanitizer sees overreads */
        uint8_t *part = malloc(size + 1);
        memcpy(part, c.code_object.data, size);
        why[0] = 0;
        if (!tgt_analyze(part, size, "k", t, &facts, why))
            assert_true(why[0] != 0);
        free(part);
    }
    compiled_free(&c);
}

/* Branches of GFX9 hold the words from the next instruction to their target (SOPP, SIMM16). */
TEST(disassembled_branches_have_their_targets)
{
    static const uint32_t words[] = {0xbf800003, 0xbf84fffe, 0xbf820001, 0xbf800000, 0xbf810000};
    static const struct tgt_inst expected[] = {
        {.offset = 0, .text = "s_nop 3", .target = -1, .falls_through = true},
        {.offset = 4,
         .text = "s_cbranch_scc0",
         .target = 0,
         .ends_block = true,
         .falls_through = true},
        {.offset = 8, .text = "s_branch", .target = 16, .ends_block = true},
        {.offset = 12, .text = "s_nop 0", .target = -1, .falls_through = true},
        {.offset = 16, .text = "s_endpgm", .target = -1, .ends_block = true},
    };
    struct tgt_code code;
    char why[TGT_WHY] = "";
    /* Two bytes after the last word are no instruction. */
    uint8_t bytes[sizeof(words) + 2] = {0};
    memcpy(bytes, words, sizeof(words));
    assert_true(tgt_disassemble(bytes, sizeof(bytes), tgt_find("gfx942"), &code, why));
    assert_int_equal(code.count, 5);
    for (size_t i = 0; i < 5; i++) {
        const struct tgt_inst *const inst = &code.insts[i], *const like = &expected[i];
        assert_int_equal(inst->offset, like->offset);
        assert_int_equal(inst->size, 4);
        assert_memory_equal(inst->text, like->text, strlen(like->text));
        assert_int_equal(inst->target, like->target);
        assert_int_equal(inst->ends_block, like->ends_block);
        assert_int_equal(inst->falls_through, like->falls_through);
    }
    free(code.insts);
    memset(bytes + 8, 0xff, 4);
    assert_false(tgt_disassemble(bytes, sizeof(bytes), tgt_find("gfx942"), &code, why));
    assert_string_equal(why, "no instruction at byte 8");
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s BITCODE\n", argv[0]);
        return 2;
    }
    bitcode_path = argv[1];
    return run_unit_tests();
}
