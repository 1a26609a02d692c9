/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests attnc_compile_unspilled(), and the first tile of decode on gfx1201. The rope kernel below
 * spills a scalar with its first tile.
 */
#include <stdlib.h>
#include <string.h>

#include "compiler/driver.h"
#include "tests/unit_test.h"

extern const struct att_template att_template_decode;
extern const struct att_template att_template_rope_qk_norm_cache;

static const struct tgt_blob no_hooks = {0};

static struct att_variant rope(int head_dim, int head_dim_v)
{
    struct att_variant v;
    att_variant_init(&v, &att_template_rope_qk_norm_cache, "gfx942");
    att_set(&v, ATT_HEAD_DIM, head_dim);
    att_set(&v, ATT_HEAD_DIM_V, head_dim_v);
    v.loc[ATT_HEAD_DIM_V].line = 1; /* as if given, so no default applies */
    att_set(&v, ATT_BIAS, 1);
    att_set(&v, ATT_GATE, 1);
    att_set(&v, ATT_OUT_DTYPE, ATT_OUT_DTYPE_FP8);
    att_variant_resolve(&v);
    return v;
}

static struct att_variant spilling(void) { return rope(240, 32); }

static struct attnc_kernel compile(attnc_compile_fn *compile_one, const struct att_variant *v,
                                   enum attnc_stage stage)
{
    const struct attnc_compile_options options = {.stage = stage};
    struct attnc_kernel k;
    char why[ATTNC_WHY] = "";
    if (!compile_one(v, &no_hooks, &options, NULL, &k, why))
        fail_msg("%s", why);
    return k;
}

static unsigned spills(const struct attnc_kernel *k)
{
    return k->facts.vgpr_spills + k->facts.sgpr_spills + k->facts.scratch_bytes;
}

TEST(one_that_spills_takes_another_tile)
{
    const struct att_variant v = spilling();
    struct attnc_kernel first = compile(attnc_compile, &v, ATTNC_STAGE_LINKED);
    struct attnc_kernel other = compile(attnc_compile_unspilled, &v, ATTNC_STAGE_LINKED);
    assert_true(spills(&first) > 0);
    assert_int_equal(spills(&other), 0);
    assert_string_equal(first.name, other.name);
    assert_string_not_equal(first.tuning, other.tuning);
    attnc_kernel_free(&first);
    attnc_kernel_free(&other);
}

TEST(a_tile_that_is_named_stays)
{
    struct att_variant v = spilling();
    v.tile = 1;
    struct attnc_kernel k = compile(attnc_compile_unspilled, &v, ATTNC_STAGE_LINKED);
    assert_true(spills(&k) > 0);
    attnc_kernel_free(&k);
}

TEST(one_that_does_not_spill_keeps_its_tile)
{
    const struct att_variant v = rope(128, 128);
    struct attnc_kernel first = compile(attnc_compile, &v, ATTNC_STAGE_LINKED);
    struct attnc_kernel same = compile(attnc_compile_unspilled, &v, ATTNC_STAGE_LINKED);
    assert_int_equal(spills(&first), 0);
    assert_int_equal(first.code.size, same.code.size);
    assert_memory_equal(first.code.data, same.code.data, first.code.size);
    attnc_kernel_free(&first);
    attnc_kernel_free(&same);
}

/* The best tile of this variant spills registers, so attnc builds it with a smaller tile, the spare
 * tile. Checks that --emit=asm prints the assembly of the same tile. */
TEST(assembly_is_of_the_same_tile)
{
    const struct att_variant v = spilling();
    struct attnc_kernel linked = compile(attnc_compile_unspilled, &v, ATTNC_STAGE_LINKED);
    struct attnc_kernel text = compile(attnc_compile_unspilled, &v, ATTNC_STAGE_ASM);
    assert_string_equal(linked.tuning, text.tuning);
    attnc_kernel_free(&linked);
    attnc_kernel_free(&text);
}

/* A wave of gfx1201 has 256 registers. 64 keys of K and V, and 16 rows of O, would take 320. */
TEST(first_tile_of_decode_fits_the_registers)
{
    struct att_variant v;
    att_variant_init(&v, &att_template_decode, "gfx1201");
    att_set(&v, ATT_HEAD_DIM, 128);
    att_set(&v, ATT_GQA, 8);
    att_set(&v, ATT_PAGE_SIZE, 16);
    att_variant_resolve(&v);
    struct attnc_kernel k = compile(attnc_compile, &v, ATTNC_STAGE_LINKED);
    assert_int_equal(spills(&k), 0);
    attnc_kernel_free(&k);
}

int main(void) { return run_unit_tests(); }
