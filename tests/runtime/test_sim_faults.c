/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests libattn on the simulated GPU under failures: each HIP call once, a launch that faults, full
 * device memory, code for another GPU, GPUs of two kinds, a fork. After each the next launch on the
 * same handles must be right. Arguments: the simulator's HIP library, a pack of one causal bf16
 * prefill kernel of head_dim 128 for gfx942 and for gfx950.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/attn.h"
#include "tests/runtime/packs.h"
#include "tests/runtime/simulator.h"
#include "tests/runtime/fixture.h"
#include "tests/unit_test.h"

enum { DIM = 128, HEADS = 2, ELEMENTS = HEADS * DIM };

static const char *library_path, *pack_path;
static struct simulator hip;
static struct attn_pack *pack;

/* Device memory of a launch with one token, whose output is exactly its row of V. */
struct problem {
    int ordinal;
    void *stream;
    void *q, *k, *v, *out, *cu;
    uint16_t expected[ELEMENTS];
};

static void *upload(const void *bytes, size_t size)
{
    void *p;
    assert_int_equal(hip.hipMalloc(&p, size), 0);
    assert_int_equal(hip.hipMemcpy(p, bytes, size, HIP_TO_DEVICE), 0);
    return p;
}

static struct problem make_problem(int ordinal)
{
    static const int32_t cu[] = {0, 1};
    struct problem p = {.ordinal = ordinal};
    for (int i = 0; i < ELEMENTS; i++)
        p.expected[i] = (uint16_t)(0x3f80 + i); /* 1 and more */
    assert_int_equal(hip.hipSetDevice(ordinal), 0);
    assert_int_equal(hip.hipStreamCreate(&p.stream), 0);
    p.q = upload(p.expected, sizeof(p.expected));
    p.k = upload(p.expected, sizeof(p.expected));
    p.v = upload(p.expected, sizeof(p.expected));
    p.out = upload(p.expected, sizeof(p.expected));
    p.cu = upload(cu, sizeof(cu));
    assert_int_equal(hip.hipSetDevice(0), 0);
    return p;
}

static void free_problem(struct problem *p)
{
    void *const memory[] = {p->q, p->k, p->v, p->out, p->cu};
    for (size_t i = 0; i < sizeof(memory) / sizeof(memory[0]); i++)
        assert_int_equal(hip.hipFree(memory[i]), 0);
    assert_int_equal(hip.hipStreamDestroy(p->stream), 0);
}

static struct attn_prefill_args arguments(const struct problem *p)
{
    return (struct attn_prefill_args){
        .size = sizeof(struct attn_prefill_args),
        .q = p->q,
        .k = p->k,
        .v = p->v,
        .out = p->out,
        .cu_seqlens_q = p->cu,
        .cu_seqlens_k = p->cu,
        .batch = 1,
        .tokens = 1,
        .total_k = 1,
        .max_seqlen_q = 1,
        .max_seqlen_k = 1,
        .stream = p->stream,
    };
}

static void forget_result(const struct problem *p)
{
    const uint16_t wrong[ELEMENTS] = {0};
    assert_int_equal(hip.hipMemcpy(p->out, wrong, sizeof(wrong), HIP_TO_DEVICE), 0);
}

static void check_result(const struct problem *p)
{
    uint16_t got[ELEMENTS];
    assert_int_equal(hip.hipMemcpy(got, p->out, sizeof(got), HIP_TO_HOST), 0);
    assert_memory_equal(got, p->expected, sizeof(got));
}

static void launch_and_check(const struct attn_op *op, const struct problem *p)
{
    const struct attn_prefill_args a = arguments(p);
    forget_result(p);
    assert_int_equal(attn_prefill_launch(op, &a), ATTN_OK);
    check_result(p);
}

static struct attn_device_options options(int ordinal)
{
    return (struct attn_device_options){
        .size = sizeof(struct attn_device_options),
        .ordinal = ordinal,
        .hip_library = library_path,
    };
}

static struct attn_prefill_desc description(void)
{
    return (struct attn_prefill_desc){
        .size = sizeof(struct attn_prefill_desc),
        .dtype = ATTN_BF16,
        .head_dim = DIM,
        .heads = HEADS,
        .kv_heads = HEADS,
        .mask = ATTN_MASK_CAUSAL,
    };
}

static struct attn_device *open_device(int ordinal)
{
    const struct attn_device_options o = options(ordinal);
    struct attn_device *device;
    if (attn_device_open(&pack, 1, &o, &device))
        fail_msg("%s", attn_last_error());
    return device;
}

static struct attn_op *look_up(struct attn_device *device)
{
    const struct attn_prefill_desc d = description();
    struct attn_op *op;
    if (attn_prefill_lookup(device, &d, &op))
        fail_msg("%s", attn_last_error());
    return op;
}

/* ---- Tests in which each HIP call fails once ---- */

#define SURVIVES(call)                          \
    do {                                        \
        const int status = (call);              \
        if (status) {                           \
            assert_int_equal(status, expected); \
            says(": hipError");                 \
            refused++;                          \
            assert_int_equal((call), ATTN_OK);  \
        }                                       \
    } while (0)

/* Opens, looks up and launches while another GPU is current; returns how many calls failed. */
static int whole_life(const struct problem *p, int expected)
{
    int refused = 0;
    struct attn_device_options o = options(p->ordinal);
    o.flags = ATTN_CHECK_DATA;
    struct attn_device *device;
    SURVIVES(attn_device_open(&pack, 1, &o, &device));
    const struct attn_prefill_desc d = description();
    struct attn_op *op;
    SURVIVES(attn_prefill_lookup(device, &d, &op));
    const struct attn_prefill_args a = arguments(p);
    SURVIVES(attn_prefill_launch(op, &a));
    hip.hipsim_fail_call(0, 0);
    assert_int_equal(hip.hipSetDevice(0), 0); /* libattn's return to GPU 0 may have failed */
    attn_op_destroy(op);
    attn_device_close(device);
    return refused;
}

TEST(each_hip_call_may_fail)
{
    static const struct {
        int hip, status;
    } errors[] = {
        {2, ATTN_NO_DEVICE_MEMORY},
        {719, ATTN_DEVICE_LOST},
        {303, ATTN_HIP_FAILED},
    };
    struct problem p = make_problem(1);
    const uint64_t live = hip.hipsim_live_bytes(1);
    const uint64_t before = hip.hipsim_call_count();
    assert_int_equal(whole_life(&p, ATTN_OK), 0);
    const int releasing = 5;
    const int calls = (int)(hip.hipsim_call_count() - before) - releasing;
    check_result(&p);
    for (size_t e = 0; e < sizeof(errors) / sizeof(errors[0]); e++) {
        int refused = 0;
        for (int n = 1; n <= calls; n++) {
            forget_result(&p);
            hip.hipsim_fail_call((uint64_t)n, errors[e].hip);
            refused += whole_life(&p, errors[e].status);
            check_result(&p);
            assert_int_equal(hip.hipsim_live_bytes(1), live);
        }
        assert_int_equal(refused, calls - 2); /* the test for a capture may fail unnoticed twice */
    }
    free_problem(&p);
}

static void note(void *user, enum attn_log_level level, const char *message)
{
    if (level == ATTN_LOG_WARNING)
        snprintf(user, 512, "%s", message);
}

TEST(a_module_that_stays_is_logged)
{
    char message[512] = "";
    struct attn_device_options o = options(0);
    o.log = note;
    o.log_user = message;
    struct attn_device *device;
    assert_int_equal(attn_device_open(&pack, 1, &o, &device), ATTN_OK);
    struct attn_op *op = look_up(device);
    hip.hipsim_fail_call(2, 719); /* hipGetDevice comes first */
    attn_op_destroy(op);
    assert_string_equal(message, "hipModuleUnload: hipErrorLaunchFailure");
    attn_device_close(device);
}

/* ---- Tests of launches that fail on the simulated GPU itself ---- */

static char report[4096];

static void keep_report(void *ctx, const struct hipsim_report *r)
{
    (void)ctx;
    snprintf(report, sizeof(report), "%s", r->text);
}

TEST(a_launch_that_faults_loses_the_device)
{
    struct problem p = make_problem(0);
    struct attn_device *device = open_device(0);
    struct attn_op *op = look_up(device);
    struct attn_prefill_args a = arguments(&p);
    a.v = (const char *)p.v + (1 << 20);
    hip.hipsim_set_report(keep_report, NULL);
    assert_int_equal(attn_prefill_launch(op, &a), ATTN_DEVICE_LOST);
    hip.hipsim_set_report(NULL, NULL);
    assert_string_equal(attn_last_error(), "hipModuleLaunchKernel: hipErrorIllegalAddress");
    assert_non_null(strstr(report, "workgroup"));
    launch_and_check(op, &p); /* the simulator's device recovers at once */
    attn_op_destroy(op);
    attn_device_close(device);
    free_problem(&p);
}

TEST(a_full_device_refuses_the_code)
{
    struct problem p = make_problem(0);
    struct attn_device *device = open_device(0);
    const uint64_t live = hip.hipsim_live_bytes(0);
    void *blocks[64];
    int count = 0;
    for (size_t size = 1 << 30; size >= 256;) {
        if (count < 64 && hip.hipMalloc(&blocks[count], size) == 0)
            count++;
        else
            size /= 2;
    }
    assert_true(count > 0 && count < 64);
    const struct attn_prefill_desc d = description();
    struct attn_op *op;
    hip.hipsim_set_report(keep_report, NULL);
    assert_int_equal(attn_prefill_lookup(device, &d, &op), ATTN_NO_DEVICE_MEMORY);
    hip.hipsim_set_report(NULL, NULL);
    assert_string_equal(attn_last_error(), "hipModuleLoadData: hipErrorOutOfMemory");
    while (count > 0)
        assert_int_equal(hip.hipFree(blocks[--count]), 0);
    assert_int_equal(hip.hipsim_live_bytes(0), live);
    op = look_up(device);
    launch_and_check(op, &p);
    attn_op_destroy(op);
    attn_device_close(device);
    free_problem(&p);
}

/* The gfx942 record of this pack has gfx950's code, with valid checksums. */
TEST(code_for_another_gpu_is_refused)
{
    size_t size;
    uint8_t *bytes = read_file(pack_path, &size);
    const struct attn_pack_header *h = (const void *)bytes;
    struct attn_pack_kernel *first = (void *)(bytes + h->sections[ATTN_PACK_KERNELS].offset);
    struct attn_pack_kernel *second = (void *)((uint8_t *)first + first->size);
    second->code_offset = first->code_offset;
    second->code_size = first->code_size;
    second->code_checksum = first->code_checksum;
    reseal(bytes, size);
    struct attn_pack *crossed;
    assert_int_equal(attn_pack_open_memory(bytes, size, &crossed), ATTN_OK);
    const uint64_t live = hip.hipsim_live_bytes(1);
    const struct attn_device_options o = options(1);
    struct attn_device *device;
    assert_int_equal(attn_device_open(&crossed, 1, &o, &device), ATTN_OK);
    const struct attn_prefill_desc d = description();
    struct attn_op *op;
    hip.hipsim_set_report(keep_report, NULL);
    assert_int_equal(attn_prefill_lookup(device, &d, &op), ATTN_HIP_FAILED);
    hip.hipsim_set_report(NULL, NULL);
    assert_string_equal(attn_last_error(), "hipModuleLoadData: hipErrorNoBinaryForGpu");
    assert_int_equal(hip.hipsim_live_bytes(1), live);
    attn_device_close(device);
    attn_pack_close(crossed);
    free(bytes);
}

TEST(gpus_of_two_kinds_run_their_own_kernels)
{
    static const char *const targets[] = {"gfx942", "gfx950"};
    struct problem problems[2];
    struct attn_device *devices[2];
    struct attn_op *ops[2];
    for (int i = 0; i < 2; i++) {
        problems[i] = make_problem(i);
        devices[i] = open_device(i);
        ops[i] = look_up(devices[i]);
        struct attn_op_info info = {.size = sizeof(info)};
        assert_int_equal(attn_op_describe(ops[i], &info), ATTN_OK);
        assert_string_equal(info.kernel.target, targets[i]);
    }
    for (int i = 0; i < 4; i++)
        launch_and_check(ops[i % 2], &problems[i % 2]); /* GPU 0 stays current */
    for (int i = 0; i < 2; i++) {
        attn_op_destroy(ops[i]);
        attn_device_close(devices[i]);
        free_problem(&problems[i]);
    }
}

TEST(a_fork_leaves_the_parents_device_alone)
{
    struct problem p = make_problem(0);
    struct attn_device *device = open_device(0);
    struct attn_op *op = look_up(device);
    const struct attn_prefill_args a = arguments(&p);
    const uint64_t calls = hip.hipsim_call_count();
    const pid_t pid = fork();
    if (pid == 0) {
        const bool told = attn_prefill_launch(op, &a) == ATTN_FORKED;
        attn_op_destroy(op);
        attn_device_close(device);
        _exit(told && hip.hipsim_call_count() == calls ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    launch_and_check(op, &p);
    attn_op_destroy(op);
    attn_device_close(device);
    free_problem(&p);
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    library_path = argv[1];
    pack_path = argv[2];
    hip = simulator_load(library_path);
    char why[256];
    if (!hip.hipsim_configure("target=gfx942+gfx950,devices=2,memory=1,halt=on", why,
                              sizeof(why)) ||
        attn_pack_open(pack_path, &pack))
        return 2;
    const int failed = run_unit_tests();
    attn_pack_close(pack);
    return failed;
}
