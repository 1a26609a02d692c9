/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the two readers of a kernel's metadata: comgr's, and the reader of static builds, which
 * this test compiles under another name.
 */
#include "tests/targets/harness.h"

#include <stdlib.h>
#include <string.h>

bool own_read_metadata(const void *code_object, size_t size, const char *name,
                       struct tgt_kernel_facts *facts, char why[TGT_WHY]);

static struct compiled compile(const char *target)
{
    struct kernel k = kernel_create(target, 4, 2);
    keep(&k, unknown(&k, (struct tir_type){.kind = TIR_SCALAR, .dtype = TIR_F32}));
    return kernel_compile(&k);
}

TEST(both_read_the_same)
{
    for (const struct tgt *const *t = tgt_all; *t; t++) {
        struct compiled c = compile((*t)->machine.name);
        struct tgt_kernel_facts first = {0}, second = {0};
        char why[TGT_WHY] = "";
        assert_true(tgt_read_metadata(c.code_object.data, c.code_object.size, "k", &first, why));
        assert_true(own_read_metadata(c.code_object.data, c.code_object.size, "k", &second, why));
        assert_int_equal(second.workgroup_size, 4 * tir_lanes(&(*t)->machine));
        assert_true(second.vgprs > 0 && second.sgprs > 0 && second.kernarg_bytes > 0);
        assert_memory_equal(&first, &second, sizeof(first));
        assert_false(
            own_read_metadata(c.code_object.data, c.code_object.size, "other", &second, why));
        assert_string_equal(why, "other: no metadata of such a kernel in the code object");
        compiled_free(&c);
    }
}

TEST(damaged_code_objects_are_refused)
{
    struct compiled c = compile("gfx942");
    for (size_t size = 0; size < c.code_object.size; size += 61) {
        struct tgt_kernel_facts facts;
        char why[TGT_WHY] = "";
        /* allocated separately, so that a sanitizer sees overreads */
        uint8_t *part = malloc(size + 1);
        memcpy(part, c.code_object.data, size);
        if (!own_read_metadata(part, size, "k", &facts, why))
            assert_true(why[0] != 0);
        free(part);
    }
    compiled_free(&c);
}

int main(void) { return run_unit_tests(); }
