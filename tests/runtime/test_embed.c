/* SPDX-License-Identifier: Apache-2.0 */
/* Tests a pack that is embedded as a C header and as an object. Both must have the pack's bytes. */
#include <string.h>

#include "embedded.h" /* attn_pack_header */
#include "runtime/attn.h"
#include "tests/unit_test.h"

extern const unsigned char attn_pack_object[];
extern const size_t attn_pack_object_size;

TEST(header_and_object_are_the_same_pack)
{
    assert_int_equal(attn_pack_object_size, attn_pack_header_size);
    assert_memory_equal(attn_pack_object, attn_pack_header, attn_pack_header_size);
    assert_int_equal((uintptr_t)attn_pack_object % 4096, 0);
    assert_int_equal((uintptr_t)attn_pack_header % 4096, 0);
}

TEST(an_embedded_pack_opens)
{
    struct attn_pack *pack;
    assert_int_equal(attn_pack_open_memory(attn_pack_object, attn_pack_object_size, &pack),
                     ATTN_OK);
    assert_int_equal(attn_pack_check(pack), ATTN_OK);
    assert_int_equal(attn_pack_kernel_count(pack), 1);
    attn_pack_close(pack);
}

int main(void) { return run_unit_tests(); }
