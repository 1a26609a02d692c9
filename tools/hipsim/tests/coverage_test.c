/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests that each mnemonic of gfx942 and gfx950 has a row with a handler, and that each row is a
 * mnemonic. The decoder would never find a misspelt row.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/hipsim/tests/program.h"
#include "tools/hipsim/core/disassembler.h"
#include "tools/hipsim/exec/tables.h"

#define MAX_NAMES 2048

struct name {
    char text[64];
    unsigned targets;
};

static struct name names[MAX_NAMES];
static unsigned count;

static int read_list(void **state)
{
    (void)state;
    FILE *f = fopen(MNEMONICS, "r");
    if (!f)
        return -1;
    char line[128], target[16];
    while (fgets(line, sizeof(line), f) && count < MAX_NAMES) {
        struct name *n = &names[count];
        int fields = line[0] == '#' ? 0 : sscanf(line, "%63s %15s", n->text, target);
        if (fields < 1)
            continue;
        n->targets = fields == 1                     ? GFX942 | GFX950
                     : strcmp(target, "gfx950") == 0 ? GFX950
                                                     : GFX942;
        count++;
    }
    fclose(f);
    return 0;
}

TEST(every_mnemonic_has_a_handler)
{
    assert_true(count > 1200);
    unsigned missing = 0;
    for (unsigned i = 0; i < count; i++) {
        for (unsigned t = GFX942; t <= GFX950; t++) {
            const struct op_row *row = row_find((enum gfx_target)t, names[i].text);
            bool wanted = names[i].targets & t;
            if (wanted == (row && row->exec))
                continue;
            print_error("%s: %s on gfx9%s\n", names[i].text, row ? "has a row" : "no row",
                        t == GFX942 ? "42" : "50");
            missing++;
        }
    }
    assert_int_equal(missing, 0);
}

static int compare(const void *key, const void *element)
{
    return strcmp(key, ((const struct name *)element)->text);
}

/* A table without its last row, whose name is NULL, goes on with the rows of the next in memory. */
TEST(every_table_ends_before_the_others)
{
    for (const struct op_row *const *table = exec_tables(); *table; table++)
        for (const struct op_row *row = *table; row->name; row++)
            for (const struct op_row *const *other = exec_tables(); *other; other++)
                assert_true(row == *table || row != *other);
}

TEST(every_row_is_a_mnemonic)
{
    unsigned unknown = 0;
    for (const struct op_row *const *table = exec_tables(); *table; table++) {
        for (const struct op_row *row = *table; row->name; row++) {
            if ((row->targets && !(row->targets & (GFX942 | GFX950))) ||
                bsearch(row->name, names, count, sizeof(names[0]), compare))
                continue;
            print_error("%s is no mnemonic\n", row->name);
            unknown++;
        }
    }
    assert_int_equal(unknown, 0);
}

/* Checks that the list at `path` has all mnemonics of the target, and marks the ones without a
 * row. */
static void check_list(enum gfx_target target, const char *path)
{
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    char line[128], name[64], mark[16];
    unsigned executed = 0, wrong = 0;
    while (fgets(line, sizeof(line), f)) {
        const int fields = line[0] == '#' ? 0 : sscanf(line, "%63s %15s", name, mark);
        if (fields < 1)
            continue;
        const struct op_row *row = row_find(target, name);
        const bool wanted = fields == 1 || strcmp(mark, "no") != 0;
        executed += row && row->exec;
        if (wanted == (row && row->exec))
            continue;
        print_error("%s: %s on %s\n", name, row ? "has a row" : "no row", isa_of(target)->name);
        wrong++;
    }
    fclose(f);
    assert_int_equal(wrong, 0);
    assert_true(executed > 1000);
}

TEST(the_lists_of_gfx12_are_right)
{
    check_list(GFX1250, MNEMONICS_GFX1250);
    check_list(GFX1201, MNEMONICS_GFX1201);
}

TEST(suffixes_lead_to_the_same_row)
{
    const struct op_row *row = row_find(GFX942, "v_add_f32");
    assert_non_null(row);
    assert_ptr_equal(row_find(GFX942, "v_add_f32_e32 v0, v1, v2"), row);
    assert_ptr_equal(row_find(GFX942, "v_add_f32_sdwa\tv0"), row);
    assert_ptr_equal(row_find(GFX942, "v_add_f32_dpp"), row);
    assert_null(row_find(GFX942, "v_add_f3"));
    assert_null(row_find(GFX942, ""));
}

/* Checks that disassembler_find() and disassemble() agree on the instruction at `w`. The code ends
 * `left` bytes after `w`. */
static void check_named(const struct isa *isa, const uint32_t *w, uint64_t left)
{
    char text[DISASSEMBLY_MAX] = "";
    const uint8_t *bytes = (const uint8_t *)w;
    const size_t size = disassemble(isa, bytes, left, 0, text, sizeof(text));
    const struct named n = disassembler_find(isa, bytes, left, 0);
    assert_int_equal(n.size, size);
    assert_ptr_equal(n.row, size ? row_find(isa->target, text + strspn(text, " \t")) : NULL);
}

/* Instructions that differ in one dword, or in what follows them, must not share a name. */
TEST(kept_names_are_what_llvm_says)
{
    static const uint32_t first[] = {
        0x7e0002ff, 0x7e000501, 0x020602ff, 0x480002ff, 0x800002ff, 0x8002ff01,
        0xbf8c0070, 0xd1000000, 0xd3ad8000, 0xd3ac0000, 0xd3e58000, 0xdc508000,
        0xe0501000, 0xd8ec0000, 0xc0060002, 0x7e0002f9, 0x020602fa, 0x7d8002f9,
    };
    static const uint32_t second[] = {0,          0xff,       0x7e000501, 0x00020501, 0x04060100,
                                      0xd3ad8000, 0x06060006, 0x0000e4fa, 0x80000000, 0xbf810000};
    const unsigned isa_indices[] = {ISA_GFX942, ISA_GFX950};
    for (unsigned round = 0; round < 2; round++)
        for (unsigned t = 0; t < 2; t++)
            for (unsigned i = 0; i < sizeof(first) / sizeof(*first); i++)
                for (unsigned k = 0; k < sizeof(second) / sizeof(*second); k++) {
                    const struct isa *isa = &isas[isa_indices[t]];
                    const uint32_t w[] = {first[i], second[k], second[(k + 3) % 10],
                                          second[i % 10]};
                    assert_true(disassembler_open(isa));
                    check_named(isa, w, sizeof(w));
                    check_named(isa, w, 4);
                }
}

int main(void) { return run_unit_tests_after(read_list); }
