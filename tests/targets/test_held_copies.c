/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests copies to LDS on a target without loads to LDS (targets/isa_rdna4.c): each is a load to
 * registers, which are stored to LDS at the wait for the copy.
 */
#include <stdio.h>
#include <string.h>

#include "ir/passes.h"
#include "tests/targets/harness.h"

/* Most copies in registers at once: LOWER_HELD of targets/lower.h. */
enum { HELD = 16 };

/* Instructions that store a copy of 16 bytes, whose LDS address is a multiple of 4. */
enum { STORES = 2 };

static const char STORE[] = "ds_store_2addr_b32";

static const struct tir_type no_type = {0};

/* A kernel that copies to LDS, and the operands that all its copies share. */
struct copying {
    struct kernel k;
    struct tir_value rsrc, zero, lane;
    unsigned n; /* copies so far; each has 16 bytes a lane of its own */
};

static struct copying copying_create(void)
{
    struct copying c = {.k = kernel_create("gfx1201", 2, 1)};
    struct kernel *k = &c.k;
    k->f->lds_bytes = 65536;
    c.rsrc = tir_make_rsrc(&k->b, tir_arg(&k->b, "in", TIR_I64), tir_arg(&k->b, "bytes", TIR_I32));
    c.zero = tir_i32(&k->b, 0);
    c.lane = tir_mul(&k->b, tir_lane_id(&k->b), tir_int_like(&k->b, tir_lane_id(&k->b), 16));
    return c;
}

/* Copies 16 bytes a lane for a group. */
static void copy(struct copying *c, int group)
{
    struct tir_value operands[4] = {c->rsrc, tir_i32(&c->k.b, (int)(512 * c->n)), c->lane, c->zero};
    make(&c->k, TIR_buffer_to_lds, no_type, operands, 4, group, 16, 512 * c->n);
    c->n++;
}

/* Waits for a group's copies, passes a barrier and keeps what another wave has copied. */
static struct compiled end_with_wait(struct copying *c, int group)
{
    tir_wait(&c->k.b, group, 0);
    tir_barrier(&c->k.b);
    tir_lower_waits(c->k.f, NULL);
    struct tir_value at = tir_xor(&c->k.b, c->lane, tir_int_like(&c->k.b, c->lane, 256));
    keep(&c->k, make(&c->k, TIR_lds_read, tir_vec(TIR_F32, 4), &at, 1, 0, 0, 0));
    return kernel_compile(&c->k);
}

/* A copy that no wait completes is stored at the end of the kernel. */
TEST(a_copy_is_stored_at_its_wait)
{
    struct copying c = copying_create();
    copy(&c, 0);
    copy(&c, 1);
    struct compiled r = end_with_wait(&c, 0);
    const char *expected[] = {
        "buffer_load_b128", "buffer_load_b128",    "s_wait_loadcnt 0x1", STORE,
        "s_wait_dscnt 0x0", "s_barrier_signal -1", "s_wait_loadcnt 0x0", STORE,
        "s_endpgm"};
    assert_sequence(&r, expected, sizeof(expected) / sizeof(expected[0]));
    assert_count(&r, STORE, 2 * STORES);
    compiled_free(&r);
}

/* A wait for all copies waits for stores to memory too, as on CDNA5. */
TEST(a_wait_for_all_copies_waits_for_stores)
{
    for (unsigned newer = 0; newer < 2; newer++) {
        struct copying c = copying_create();
        copy(&c, 0);
        if (newer)
            copy(&c, 1);
        struct compiled r = end_with_wait(&c, 0);
        assert_count(&r, "s_wait_storecnt", !newer);
        compiled_free(&r);
    }
}

/* With HELD copies in registers, the next copy stores the oldest one to LDS. */
TEST(the_oldest_copy_makes_room_for_the_next)
{
    struct copying c = copying_create();
    for (unsigned i = 0; i < HELD + 3; i++)
        copy(&c, 0);
    struct compiled r = end_with_wait(&c, 0);
    char held[32];
    snprintf(held, sizeof(held), "s_wait_loadcnt 0x%x", HELD);
    const char *expected[] = {
        held, STORE, held, STORE, held, STORE, "s_wait_storecnt_dscnt 0x0", "s_barrier_signal"};
    assert_sequence(&r, expected, sizeof(expected) / sizeof(expected[0]));
    assert_count(&r, STORE, (HELD + 3) * STORES);
    compiled_free(&r);
}

/* Counts end at 63, so a wait with 63 newer copies is the same op as one with more. The awaited
 * copy has left the registers by then, and its stores to LDS may be in flight. */
TEST(a_copy_older_than_any_count_is_waited_for)
{
    for (unsigned newer = 62; newer < 66; newer++) {
        struct copying c = copying_create();
        copy(&c, 0);
        for (unsigned i = 0; i < newer; i++)
            copy(&c, 1);
        struct compiled r = end_with_wait(&c, 0);
        const char *expected[] = {STORE, "s_wait_dscnt 0x0", "s_barrier_signal"};
        assert_sequence(&r, expected, sizeof(expected) / sizeof(expected[0]));
        assert_count(&r, STORE, (1 + newer) * STORES);
        compiled_free(&r);
    }
}

/* A wait for LDS reads and writes stores no copy to LDS: held copies stay in registers. */
TEST(a_wait_for_lds_stores_no_copy)
{
    struct copying c = copying_create();
    copy(&c, 0);
    struct tir_value write[2] = {c.lane, tir_lane_id(&c.k.b)};
    make(&c.k, TIR_lds_write, no_type, write, 2, 32768, 0, 0);
    make(&c.k, TIR_waitcnt, no_type, NULL, 0, -1, 0, 0);
    tir_barrier(&c.k.b);
    struct compiled r = end_with_wait(&c, 0);
    const char *expected[] = {"buffer_load_b128",
                              "ds_store_b32 ",
                              "s_wait_dscnt 0x0",
                              "s_barrier_signal",
                              "s_barrier_wait",
                              "s_wait_loadcnt 0x0",
                              STORE,
                              "s_wait_storecnt_dscnt 0x0",
                              "s_barrier_signal"};
    assert_sequence(&r, expected, sizeof(expected) / sizeof(expected[0]));
    compiled_free(&r);
}

/* Copies do not stay in registers across a branch: they are stored to LDS before it. */
TEST(copies_are_stored_before_a_branch)
{
    struct copying c = copying_create();
    struct tir_builder *b = &c.k.b;
    copy(&c, 0);
    struct tir_value cond = tir_cmp_gt(b, tir_arg(b, "n", TIR_I32), tir_i32(b, 5));
    struct tir_if s = tir_begin_if(b, cond, false, NULL, 0);
    keep(&c.k, unknown(&c.k, tir_vec(TIR_F32, 1)));
    tir_end_if(b, &s, NULL);
    struct compiled r = end_with_wait(&c, 0);
    const char *expected[] = {
        "buffer_load_b128", STORE, "s_cbranch", "global_load", "s_wait_storecnt_dscnt 0x0",
        "s_barrier_signal"};
    assert_sequence(&r, expected, sizeof(expected) / sizeof(expected[0]));
    assert_count(&r, STORE, STORES);
    compiled_free(&r);
}

/* A gather has an address for each lane. Its offset `both` is added to the addresses in memory and
 * in LDS. */
TEST(gathers_are_held_likewise)
{
    struct copying c = copying_create();
    struct tir_builder *b = &c.k.b;
    struct tir_value operands[3] = {tir_arg(b, "in", TIR_I64), tir_i32(b, 1024), c.lane};
    const int64_t imm[TIR_MAX_IMM] = {0, 16, 2048, 64};
    tir_build(b, TIR_global_to_lds, no_type, operands, 3, imm);
    struct compiled r = end_with_wait(&c, 0);
    const char *expected[] = {"global_load_b128", "s_wait_loadcnt 0x0", STORE,
                              "s_wait_storecnt_dscnt 0x0", "s_barrier_signal"};
    assert_sequence(&r, expected, sizeof(expected) / sizeof(expected[0]));
    unsigned memory = 0, lds = 0;
    for (size_t i = 0; i < r.code.count; i++) {
        const char *text = r.code.insts[i].text;
        memory += strstr(text, "global_load_b128") && strstr(text, "offset:64");
        lds += strstr(text, ", 0xc40") != NULL; /* 1024 + 2048 + 64 */
    }
    assert_int_equal(memory, 1);
    assert_int_equal(lds, 1);
    compiled_free(&r);
}

int main(void) { return run_unit_tests(); }
