/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares tgt_link() with ld.lld: everything that a loader maps is equal byte by byte, and so are
 * the sections that debuggers read. Damaged and unsupported objects are refused with a sentence.
 *
 * argv: ld.lld, then link_tables.c as objects: plain, with OUTSIDE, with VARIABLE.
 */
#include "tests/targets/harness.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *const *arguments;

static struct tgt_blob link_with_lld(const struct tgt_blob *object)
{
    char in[] = "/tmp/attnc-link-XXXXXX", out[sizeof(in) + 3], command[512];
    int fd = mkstemp(in);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, object->data, object->size), object->size);
    close(fd);
    snprintf(out, sizeof(out), "%s.co", in);
    snprintf(command, sizeof(command), "'%s' -shared --no-undefined -o '%s' '%s'", arguments[1],
             out, in);
    assert_int_equal(system(command), 0);
    struct tgt_blob linked = read_file(out);
    unlink(in);
    unlink(out);
    return linked;
}

static const Elf64_Phdr *segments_of(const struct tgt_blob *b, size_t *n)
{
    const Elf64_Ehdr *e = (const Elf64_Ehdr *)b->data;
    *n = e->e_phnum;
    return (const Elf64_Phdr *)(b->data + e->e_phoff);
}

/* Compares program headers and all mapped bytes except the ELF header. */
static void assert_same_image(const struct tgt_blob *a, const struct tgt_blob *b)
{
    size_t n, m;
    const Elf64_Phdr *p = segments_of(a, &n), *q = segments_of(b, &m);
    assert_int_equal(n, m);
    assert_memory_equal(p, q, n * sizeof(*p));
    for (size_t i = 0; i < n; i++) {
        const size_t skip = p[i].p_offset ? 0 : sizeof(Elf64_Ehdr);
        if (p[i].p_type == PT_LOAD)
            assert_memory_equal(a->data + p[i].p_offset + skip, b->data + p[i].p_offset + skip,
                                p[i].p_filesz - skip);
    }
    const Elf64_Ehdr *x = (const Elf64_Ehdr *)a->data, *y = (const Elf64_Ehdr *)b->data;
    assert_memory_equal(x, y, offsetof(Elf64_Ehdr, e_shoff));
    assert_int_equal(x->e_flags, y->e_flags);
}

static const Elf64_Shdr *section_of(const struct tgt_blob *b, const char *name)
{
    const Elf64_Ehdr *e = (const Elf64_Ehdr *)b->data;
    const Elf64_Shdr *s = (const Elf64_Shdr *)(b->data + e->e_shoff);
    const char *names = (const char *)b->data + s[e->e_shstrndx].sh_offset;
    for (size_t i = 0; i < e->e_shnum; i++)
        if (!strcmp(names + s[i].sh_name, name))
            return &s[i];
    return NULL;
}

static void assert_same_section(const struct tgt_blob *a, const struct tgt_blob *b,
                                const char *name)
{
    const Elf64_Shdr *x = section_of(a, name), *y = section_of(b, name);
    assert_non_null(x);
    assert_non_null(y);
    assert_int_equal(x->sh_size, y->sh_size);
    assert_int_equal(x->sh_type, y->sh_type);
    assert_int_equal(x->sh_flags, y->sh_flags);
    assert_int_equal(x->sh_entsize, y->sh_entsize);
    assert_int_equal(x->sh_info, y->sh_info);
    assert_int_equal(x->sh_addr, y->sh_addr);
    assert_memory_equal(a->data + x->sh_offset, b->data + y->sh_offset, x->sh_size);
}

/* Returns the name at an entry of .debug_str_offsets; LLD orders names differently. */
static const char *debug_name(const struct tgt_blob *b, size_t place)
{
    uint32_t offset;
    memcpy(&offset, b->data + section_of(b, ".debug_str_offsets")->sh_offset + place,
           sizeof(offset));
    return (const char *)b->data + section_of(b, ".debug_str")->sh_offset + offset;
}

static struct tgt_blob link_object(const struct tgt_blob *object)
{
    struct tgt_blob out = {0};
    char why[TGT_WHY] = "";
    if (!tgt_link(object, &out, why))
        fail_msg("tgt_link: %s", why);
    return out;
}

TEST(a_kernel_is_linked_as_lld_links_it)
{
    const char *const targets[] = {"gfx942", "gfx950"};
    for (size_t i = 0; i < 2; i++) {
        struct kernel k = kernel_create(targets[i], 4, 4);
        keep(&k, unknown(&k, tir_vec(TIR_F32, 4)));
        tir_return(&k.b);
        const struct tgt_codegen_options o = {.kind = TGT_EMIT_OBJECT};
        struct tgt_blob object;
        char why[TGT_WHY];
        assert_true(tgt_emit(k.f, k.t, &o, &object, why));
        struct tgt_blob ours = link_object(&object), theirs = link_with_lld(&object);
        assert_same_image(&ours, &theirs);
        tgt_blob_free(&ours);
        tgt_blob_free(&theirs);
        tgt_blob_free(&object);
        tir_func_destroy(k.f);
    }
}

TEST(tables_and_lines_are_linked_as_lld_links_them)
{
    static const char *const same[] = {
        ".note",       ".dynsym",     ".hash",        ".gnu.hash",    ".dynstr",
        ".rela.dyn",   ".rodata",     ".text",        ".data.rel.ro", ".dynamic",
        ".debug_info", ".debug_addr", ".debug_frame",
    };
    struct tgt_blob object = read_file(arguments[2]);
    struct tgt_blob ours = link_object(&object), theirs = link_with_lld(&object);
    assert_same_image(&ours, &theirs);
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++)
        assert_same_section(&ours, &theirs, same[i]);
    assert_int_equal(section_of(&ours, ".rela.dyn")->sh_size, 2 * sizeof(Elf64_Rela));
    const size_t header = 8, names = section_of(&ours, ".debug_str_offsets")->sh_size;
    for (size_t place = header; place < names; place += sizeof(uint32_t))
        assert_string_equal(debug_name(&ours, place), debug_name(&theirs, place));
    tgt_blob_free(&ours);
    tgt_blob_free(&theirs);
    tgt_blob_free(&object);
}

static void assert_refused(const struct tgt_blob *object, const char *sentence)
{
    struct tgt_blob out = {0};
    char why[TGT_WHY] = "";
    assert_false(tgt_link(object, &out, why));
    assert_null(out.data);
    if (!strstr(why, sentence))
        fail_msg("'%s' does not say '%s'", why, sentence);
}

TEST(undefined_symbols_and_variables_are_refused)
{
    struct tgt_blob outside = read_file(arguments[3]), variable = read_file(arguments[4]);
    assert_refused(&outside, "undefined symbol: outside");
    assert_refused(&variable, "the object has variables");
    tgt_blob_free(&outside);
    tgt_blob_free(&variable);
}

/* Returns the first relocation of .rela.text, which tests damage. */
static Elf64_Rela *relocation_of(struct tgt_blob *object)
{
    const Elf64_Shdr *s = section_of(object, ".rela.text");
    assert_non_null(s);
    return (Elf64_Rela *)(object->data + s->sh_offset);
}

TEST(bad_relocations_are_refused)
{
    struct tgt_blob object = read_file(arguments[2]);
    Elf64_Rela *r = relocation_of(&object);
    const Elf64_Rela good = *r;
    const Elf64_Xword symbol = ELF64_R_SYM(good.r_info);
    r->r_info = ELF64_R_INFO(symbol, 7);
    assert_refused(&object, ".text has a relocation of the unknown type 7");
    r->r_info = ELF64_R_INFO(symbol, 0);
    assert_refused(&object, "unknown type 0");
    r->r_info = ELF64_R_INFO(1u << 20, ELF64_R_TYPE(good.r_info));
    assert_refused(&object, "outside of its section");
    *r = good;
    r->r_offset = section_of(&object, ".text")->sh_size - 3;
    assert_refused(&object, "outside of its section");
    r->r_offset = ~0ull;
    assert_refused(&object, "outside of its section");
    *r = good;
    r->r_info = ELF64_R_INFO(symbol, 4);
    r->r_addend = 1ll << 31;
    assert_refused(&object, "does not fit into 32 bits");
    tgt_blob_free(&object);
}

/* Damages every part of an object: it is linked or refused with a sentence, without out-of-bounds
 * reads. */
TEST(damaged_objects_are_refused)
{
    struct tgt_blob object = read_file(arguments[2]);
    assert_refused(&(struct tgt_blob){(uint8_t *)(uintptr_t)"garbage", 7},
                   "no relocatable object for AMDGPU");
    for (size_t size = 0; size < object.size; size += 37) {
        struct tgt_blob part = {malloc(size + 1), size}, out = {0};
        memcpy(part.data, object.data, size);
        char why[TGT_WHY] = "";
        assert_false(tgt_link(&part, &out, why));
        assert_true(why[0] != 0);
        free(part.data);
    }
    for (size_t at = sizeof(Elf64_Ehdr); at < object.size; at += 13) {
        struct tgt_blob out = {0};
        char why[TGT_WHY] = "";
        object.data[at] ^= 0x55;
        if (tgt_link(&object, &out, why))
            tgt_blob_free(&out);
        else
            assert_true(why[0] != 0);
        object.data[at] ^= 0x55;
    }
    tgt_blob_free(&object);
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: %s LLD OBJECT OUTSIDE VARIABLE\n", argv[0]);
        return 2;
    }
    arguments = argv;
    return run_unit_tests();
}
