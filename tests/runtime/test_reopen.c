/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uses libattn as a plug-in: a program that does not link it opens it with dlopen(), uses it up to
 * a launch, closes it and opens it again. Arguments: the HIP library and a pack of one causal bf16
 * prefill kernel of head_dim 128. Without arguments: the fake, and a generated pack.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/attn.h"
#include "tests/runtime/packs.h"
#include "tests/unit_test.h"

/* The functions of libattn that this test calls. Members have their names. */
struct library {
    void *handle;
    int (*attn_pack_open)(const char *, struct attn_pack **);
    int (*attn_pack_open_memory)(const void *, size_t, struct attn_pack **);
    void (*attn_pack_close)(struct attn_pack *);
    int (*attn_device_open)(struct attn_pack *const *, size_t, const struct attn_device_options *,
                            struct attn_device **);
    void (*attn_device_close)(struct attn_device *);
    int (*attn_prefill_lookup)(struct attn_device *, const struct attn_prefill_desc *,
                               struct attn_op **);
    int (*attn_prefill_launch)(const struct attn_op *, const struct attn_prefill_args *);
    void (*attn_op_destroy)(struct attn_op *);
};

static const char *hip_library = FAKEHIP_PATH, *pack_path;

static void find(const struct library *l, const char *name, void *slot)
{
    void *address = dlsym(l->handle, name);
    assert_non_null(address);
    memcpy(slot, &address, sizeof(address));
}

static void use(const void *bytes, size_t size)
{
    struct library l = {.handle = dlopen(ATTN_LIBRARY, RTLD_NOW | RTLD_LOCAL)};
    assert_non_null(l.handle);
#define FIND(name) find(&l, #name, &l.name)
    FIND(attn_pack_open);
    FIND(attn_pack_open_memory);
    FIND(attn_pack_close);
    FIND(attn_device_open);
    FIND(attn_device_close);
    FIND(attn_prefill_lookup);
    FIND(attn_prefill_launch);
    FIND(attn_op_destroy);
#undef FIND
    struct attn_pack *pack;
    assert_int_equal(pack_path ? l.attn_pack_open(pack_path, &pack)
                               : l.attn_pack_open_memory(bytes, size, &pack),
                     ATTN_OK);
    const struct attn_device_options o = {.size = sizeof(o), .hip_library = hip_library};
    struct attn_device *device;
    assert_int_equal(l.attn_device_open(&pack, 1, &o, &device), ATTN_OK);
    const struct attn_prefill_desc d = plain_desc();
    struct attn_op *op;
    assert_int_equal(l.attn_prefill_lookup(device, &d, &op), ATTN_OK);
    const struct attn_prefill_args none = {.size = sizeof(none)};
    assert_int_equal(l.attn_prefill_launch(op, &none), ATTN_OK);
    l.attn_op_destroy(op);
    l.attn_device_close(device);
    l.attn_pack_close(pack);
    assert_int_equal(dlclose(l.handle), 0);
    assert_null(dlopen(ATTN_LIBRARY, RTLD_NOW | RTLD_NOLOAD)); /* it is unloaded */
}

TEST(a_plug_in_may_be_opened_again_and_again)
{
    const struct made kernels[] = {{.gqa = "4"}};
    size_t size;
    void *bytes = make_pack(kernels, 1, &size);
    for (int round = 0; round < 3; round++)
        use(bytes, size);
    /* The handler that counts forks was unloaded with the library. */
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    assert_true(pid > 0);
    free(bytes);
}

int main(int argc, char **argv)
{
    if (argc == 3) {
        hip_library = argv[1];
        pack_path = argv[2];
    }
    return run_unit_tests();
}
