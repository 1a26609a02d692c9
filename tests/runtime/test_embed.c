/* SPDX-License-Identifier: Apache-2.0 */
/* Tests a pack that is embedded as a C header and as an object. Both must have the pack's bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "embedded.h" /* attn_pack_header */
#include "runtime/attn.h"

extern const unsigned char attn_pack_object[];
extern const size_t attn_pack_object_size;

static void header_and_object_are_the_same_pack(void **state)
{
    (void)state;
    assert_int_equal(attn_pack_object_size, attn_pack_header_size);
    assert_memory_equal(attn_pack_object, attn_pack_header, attn_pack_header_size);
    assert_int_equal((uintptr_t)attn_pack_object % 4096, 0);
    assert_int_equal((uintptr_t)attn_pack_header % 4096, 0);
}

static void an_embedded_pack_opens(void **state)
{
    (void)state;
    struct attn_pack *pack;
    assert_int_equal(attn_pack_open_memory(attn_pack_object, attn_pack_object_size, &pack),
                     ATTN_OK);
    assert_int_equal(attn_pack_check(pack), ATTN_OK);
    assert_int_equal(attn_pack_kernel_count(pack), 1);
    attn_pack_close(pack);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(header_and_object_are_the_same_pack),
        cmocka_unit_test(an_embedded_pack_opens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
