/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens any bytes as a pack, reads and searches it, and launches its kernel. If the first byte of
 * an input is 0, the rest is the file. Otherwise the rest is a list of changes to a sound pack.
 * With bit 1 of that byte the checksums are computed again, so that the code after their comparison
 * is reached.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/device.h"
#include "tests/fuzz/check.h"
#include "tests/runtime/packs.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* The functions from here on replace a HIP library with one GPU, whose functions always
 * succeed. */

static int get_device(int *ordinal)
{
    *ordinal = 0;
    return 0;
}

static int load(void **module, const void *image)
{
    CHECK(*(const volatile char *)image || true); /* it can be read */
    *module = module;
    return 0;
}

static int unload(void *module)
{
    CHECK(module);
    return 0;
}

static int get_function(void **function, void *module, const char *name)
{
    CHECK(strlen(name) < ATTN_PACK_TEXT_MAX);
    *function = module;
    return 0;
}

static int launch(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                  unsigned bz, unsigned lds, void *stream, void **parameters, void **extra)
{
    (void)function, (void)lds, (void)stream, (void)parameters;
    CHECK(gx && gy && gz);
    CHECK((uint64_t)gx * bx <= UINT32_MAX && (uint64_t)gy * by <= UINT32_MAX &&
          (uint64_t)gz * bz <= UINT32_MAX);
    CHECK(*(size_t *)extra[3] <= ATTN_PACK_KERNARG_BYTES_MAX);
    return 0;
}

static void dispatch(struct attn_pack *pack)
{
    struct attn_device *device = calloc(1, sizeof(*device) + sizeof(pack));
    *device = (struct attn_device){
        .hip =
            {
                .hipGetDevice = get_device,
                .hipModuleLoadData = load,
                .hipModuleUnload = unload,
                .hipModuleGetFunction = get_function,
                .hipModuleLaunchKernel = launch,
            },
        .target = "gfx942",
        .pack_count = 1,
        .forks = attn_forks(),
    };
    atomic_init(&device->refs, 1);
    pthread_mutex_init(&device->lock, NULL);
    attn_pack_ref(pack);
    device->packs[0] = pack;
    const struct attn_prefill_desc d = plain_desc();
    struct attn_op *op;
    if (attn_prefill_lookup(device, &d, &op) == ATTN_OK) {
        const struct attn_prefill_args a = plain_args();
        attn_prefill_launch(op, &a);
        attn_op_destroy(op);
    }
    attn_device_close(device);
}

static void read_pack(const void *bytes, size_t size)
{
    struct attn_pack *pack;
    if (attn_pack_open_memory(bytes, size, &pack)) {
        CHECK(*attn_last_error());
        return;
    }
    bool sound = true;
    for (uint32_t n = 0; n < attn_pack_kernel_count(pack); n++) {
        struct attn_kernel_info info = {.size = sizeof(info)};
        const char *field, *value;
        size_t code_size;
        if (attn_pack_kernel(pack, n, &info)) {
            sound = false;
            continue;
        }
        for (uint32_t i = 0; i < info.field_count; i++)
            CHECK(attn_pack_kernel_field(pack, n, i, &field, &value) == ATTN_OK);
        sound &= attn_pack_kernel_code(pack, n, NULL, 0, &code_size) == ATTN_OK;
    }
    dispatch(pack);
    CHECK(sound || attn_pack_check(pack) != ATTN_OK);
    attn_pack_close(pack);
}

/* A change: where (16 bits), how many bytes of `value` (1, 2, 4 or 8), and the value. */
struct change {
    uint16_t at;
    uint8_t width;
    uint8_t value[8];
};

static void change_sound_pack(const uint8_t *bytes, size_t size, bool right_checksums)
{
    static const struct attnc_pack_when when[] = {{"batch", 1, 4}};
    static const struct made kernels[] = {
        {.name = "first", .when = when, .when_count = 1},
        {.name = "second"},
        {.name = "third", .head_dim = "64", .target = "gfx950"},
    };
    size_t pack_size;
    uint8_t *pack = make_pack(kernels, COUNT(kernels), &pack_size);
    const size_t each = 11;
    for (; size >= each; bytes += each, size -= each) {
        struct change c = {
            (uint16_t)(bytes[0] | bytes[1] << 8), (uint8_t)(1 << (bytes[2] & 3)), {0}};
        memcpy(c.value, bytes + 3, sizeof(c.value));
        const size_t at = c.at % (pack_size - sizeof(c.value));
        memcpy(pack + at, c.value, c.width);
    }
    if (right_checksums)
        reseal(pack, pack_size);
    read_pack(pack, pack_size);
    free(pack);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (size == 0)
        return 0;
    if (bytes[0]) {
        change_sound_pack(bytes + 1, size - 1, bytes[0] & 2);
        return 0;
    }
    uint8_t *copy = malloc(size); /* aligned, and overreads are found at its end */
    memcpy(copy, bytes + 1, size - 1);
    read_pack(copy, size - 1);
    free(copy);
    return 0;
}
