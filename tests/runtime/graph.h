/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file declares what tests share that capture launches into a HIP graph on the simulator: HIP
 * itself, a pack on the simulated GPU with a stream, and how a graph is ended and replayed. Their
 * arguments are the simulator's HIP library and a pack.
 */
#ifndef TESTS_RUNTIME_GRAPH_H
#define TESTS_RUNTIME_GRAPH_H

#include "runtime/attn.h"
#include "tests/runtime/simulator.h"

/* HIP of the library that graph_begin() has loaded. */
extern struct simulator hip;

/* Loads the HIP library that the command line names; false where the arguments are too few. */
bool graph_begin(int argc, char **argv);

struct graph_bench {
    struct attn_pack *pack;
    struct attn_device *device;
    void *stream;
};

/* Opens the pack of the command line. `flags` is attn_device_options.flags. */
struct graph_bench graph_open(uint32_t flags);

/* Destroys the graph, the stream, the device and the pack. */
void graph_close(struct graph_bench *b, void *exec);

/* Begins to capture the stream; graph_captured() ends that and returns what can be launched. */
void graph_capture(void *stream);
void *graph_captured(void *stream);

/* Launches a graph and waits for its end. */
void graph_replay(void *exec, void *stream);

#endif
