/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests kernels with the lines of their tile IR (attnc build -g). Their instructions are the same
 * as without; the code object contains the IR before lower_tiles; each matrix instruction comes
 * from a line with mma.
 */
#include <string.h>

#include <elfutils/libdw.h>
#include <gelf.h>

#include "compiler/description.h"
#include "compiler/pipeline.h"
#include "tests/unit_test.h"

static const char description[] = "targets: [gfx942, gfx950]\n"
                                  "kernels:\n"
                                  "  - { op: prefill, head_dim: 128 }\n"
                                  "  - { op: decode, head_dim: 128, gqa: 4, page_size: 16 }\n"
                                  "  - { op: rope_qk_norm_cache, head_dim: 64 }\n"
                                  "  - { op: cache_gather, head_dim: 64 }\n";

struct object {
    struct attnc_kernel kernel;
    Elf *elf;
};

static struct object compile(const struct att_variant *v, bool lines)
{
    const struct attnc_compile_options options = {.stage = ATTNC_STAGE_LINKED, .lines = lines};
    const struct tgt_blob no_hooks = {0};
    struct object o;
    char why[ATTNC_WHY] = "";
    if (!attnc_compile(v, &no_hooks, &options, stderr, &o.kernel, why))
        fail_msg("%s", why);
    o.elf = elf_memory((char *)o.kernel.code.data, o.kernel.code.size);
    assert_non_null(o.elf);
    return o;
}

static void end(struct object *o)
{
    elf_end(o->elf);
    attnc_kernel_free(&o->kernel);
}

/* Returns a section's bytes; empty: no such section. */
static Elf_Data section(const struct object *o, const char *name)
{
    size_t names;
    GElf_Shdr header;
    assert_int_equal(elf_getshdrstrndx(o->elf, &names), 0);
    for (Elf_Scn *s = NULL; (s = elf_nextscn(o->elf, s));)
        if (gelf_getshdr(s, &header) && !strcmp(elf_strptr(o->elf, names, header.sh_name), name))
            return *elf_getdata(s, NULL);
    return (Elf_Data){0};
}

static void the_code_is_the_same(const struct object *with, const struct object *without)
{
    const Elf_Data a = section(with, ".text"), b = section(without, ".text");
    assert_int_equal(a.d_size, b.d_size);
    assert_memory_equal(a.d_buf, b.d_buf, a.d_size);
    assert_int_equal(section(without, TGT_IR_SECTION).d_size, 0);
}

/* Finds line `number` of the text, which ends at a line break or at the end of the text. */
static const char *line_of(const Elf_Data *text, int number, size_t *length)
{
    const char *at = text->d_buf, *const limit = at + text->d_size;
    for (int i = 1; i < number; i++) {
        at = memchr(at, '\n', (size_t)(limit - at));
        assert_non_null(at);
        at++;
    }
    const char *const newline = memchr(at, '\n', (size_t)(limit - at));
    *length = (size_t)((newline ? newline : limit) - at);
    return at;
}

/* True for matrix instructions: VOP3P (bits 31:23 are 110100111) with an opcode (22:16) from 0x34,
 * above packed arithmetic. v_accvgpr_read and v_accvgpr_write are excluded (CDNA3 ISA, "VOP3P
 * Opcodes"; gfx950's are from 0x34 in LLVM's VOP3PInstructions.td). */
static bool is_matrix(uint32_t word)
{
    const uint32_t opcode = word >> 16 & 0x7f;
    return word >> 23 == 0x1a7 && opcode >= 0x34 && opcode != 0x58 && opcode != 0x59;
}

/* Counts the matrix instructions among the dwords of [begin, end). */
static unsigned count_matrix(const Elf_Data *code, Dwarf_Addr begin, Dwarf_Addr end)
{
    unsigned n = 0;
    assert_true(begin <= end && end <= code->d_size);
    for (uint32_t word; begin < end; begin += sizeof(word)) {
        memcpy(&word, (const char *)code->d_buf + begin, sizeof(word));
        n += is_matrix(word);
    }
    return n;
}

static void expect_mma(const char *kernel, const Elf_Data *ir, int number)
{
    size_t length;
    const char *const text = line_of(ir, number, &length);
    if (!memmem(text, length, " = mma ", 7))
        fail_msg("%s: a matrix instruction comes from line %d: %.*s", kernel, number, (int)length,
                 text);
}

static unsigned count_products(const struct object *o)
{
    const Elf_Data ir = section(o, TGT_IR_SECTION), code = section(o, ".text");
    assert_true(ir.d_size > 0);
    assert_memory_equal(ir.d_buf, "func ", 5);

    Dwarf *const dwarf = dwarf_begin_elf(o->elf, DWARF_C_READ, NULL);
    Dwarf_CU *cu = NULL;
    Dwarf_Die unit;
    Dwarf_Lines *lines;
    size_t count;
    unsigned products = 0;
    assert_non_null(dwarf);
    assert_int_equal(dwarf_get_units(dwarf, cu, &cu, NULL, NULL, &unit, NULL), 0);
    assert_int_equal(dwarf_getsrclines(&unit, &lines, &count), 0);
    Dwarf_Addr low, begin, end;
    assert_int_equal(dwarf_lineaddr(dwarf_onesrcline(lines, 0), &low), 0);
    for (size_t i = 0; i + 1 < count; i++) {
        int number;
        assert_int_equal(dwarf_lineno(dwarf_onesrcline(lines, i), &number), 0);
        assert_int_equal(dwarf_lineaddr(dwarf_onesrcline(lines, i), &begin), 0);
        assert_int_equal(dwarf_lineaddr(dwarf_onesrcline(lines, i + 1), &end), 0);
        const unsigned n = count_matrix(&code, begin - low, end - low);
        if (n)
            expect_mma(o->kernel.name, &ir, number);
        products += n;
    }
    dwarf_end(dwarf);
    return products;
}

TEST(lines_name_their_ops)
{
    struct attnc_description d = {0};
    struct attnc_diag diag = {.file = "lines.yaml"};
    elf_version(EV_CURRENT);
    if (!attnc_read_description_bytes(description, sizeof(description) - 1, ".",
                                      &(struct attnc_read_options){0}, &d, &diag))
        fail_msg("%s", diag.messages[0].text);
    for (size_t i = 0; i < d.count; i++) {
        struct object with = compile(&d.variants[i], true),
                      without = compile(&d.variants[i], false);
        the_code_is_the_same(&with, &without);
        const unsigned products = count_products(&with);
        const bool attends =
            !strcmp(d.variants[i].op->name, "prefill") || !strcmp(d.variants[i].op->name, "decode");
        if (attends != (products > 15))
            fail_msg("%s: %u products", with.kernel.name, products);
        end(&with);
        end(&without);
    }
    attnc_description_free(&d);
}

int main(void) { return run_unit_tests(); }
