/* SPDX-License-Identifier: Apache-2.0 */
/* Opens packs on the simulator and captures graphs. */
#include "tests/runtime/graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct simulator hip;

static const char *library_path, *pack_path;

bool graph_begin(int argc, char **argv)
{
    if (argc < 3)
        return false;
    library_path = argv[1];
    pack_path = argv[2];
    hip = simulator_load(library_path);
    return true;
}

struct graph_bench graph_open(uint32_t flags)
{
    struct graph_bench b;
    const struct attn_device_options o = {
        .size = sizeof(o),
        .flags = flags,
        .hip_library = library_path,
    };
    assert_int_equal(attn_pack_open(pack_path, &b.pack), ATTN_OK);
    assert_int_equal(attn_device_open(&b.pack, 1, &o, &b.device), ATTN_OK);
    assert_int_equal(hip.hipStreamCreate(&b.stream), 0);
    return b;
}

void graph_close(struct graph_bench *b, void *exec)
{
    assert_int_equal(hip.hipGraphExecDestroy(exec), 0);
    assert_int_equal(hip.hipStreamDestroy(b->stream), 0);
    attn_device_close(b->device);
    attn_pack_close(b->pack);
}

void graph_capture(void *stream)
{
    assert_int_equal(hip.hipStreamBeginCapture(stream, HIP_CAPTURE_RELAXED), 0);
}

void *graph_captured(void *stream)
{
    void *graph, *exec;
    assert_int_equal(hip.hipStreamEndCapture(stream, &graph), 0);
    assert_int_equal(hip.hipGraphInstantiate(&exec, graph, NULL, NULL, 0), 0);
    assert_int_equal(hip.hipGraphDestroy(graph), 0);
    return exec;
}

void graph_replay(void *exec, void *stream)
{
    assert_int_equal(hip.hipGraphLaunch(exec, stream), 0);
    assert_int_equal(hip.hipStreamSynchronize(stream), 0);
}
