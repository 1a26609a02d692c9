/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers for tests that capture launches into a HIP graph on the simulator. They have HIP's
 * functions, a pack on the simulated GPU with a stream, and the end and the replay of a capture.
 * The tests' arguments are the simulator's HIP library and a pack. */
#ifndef TESTS_RUNTIME_GRAPH_H
#define TESTS_RUNTIME_GRAPH_H

#include "runtime/attn.h"
#include "tests/runtime/simulator.h"

/* The HIP functions of the library that graph_begin() has loaded. */
extern struct simulator hip;

/* Loads the HIP library that the command line names. False: an argument is missing. */
bool graph_begin(int argc, char **argv);

/* A pack on the simulated GPU, with a stream for captures. */
struct graph_bench {
    struct attn_pack *pack;
    struct attn_device *device;
    void *stream;
};

/* Opens the pack of the command line. `flags` is attn_device_options.flags. */
struct graph_bench graph_open(uint32_t flags);

/* Destroys the executable graph `exec`, the stream, the device and the pack. */
void graph_close(struct graph_bench *b, void *exec);

/* Begin a capture on the stream, and end it. graph_captured() returns the executable graph. */
void graph_capture(void *stream);
void *graph_captured(void *stream);

/* Launches a graph and waits for its end. */
void graph_replay(void *exec, void *stream);

#endif
