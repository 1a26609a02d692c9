/* SPDX-License-Identifier: Apache-2.0 */
/* Prints graphs as text for Graphviz. */
#include "hip.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

hipError_t hipGraphDebugDotPrint(hipGraph_t graph, const char *path, unsigned int flags);

/* Writes the label of a node. */
static void describe(FILE *f, const struct hip_work *work)
{
    switch (work->kind) {
    case WORK_KERNEL:
        fprintf(f, "%s\\ngrid %u x %u x %u, block %u x %u x %u",
                work->kernel.function->kernel->name, work->kernel.grid[0], work->kernel.grid[1],
                work->kernel.grid[2], work->kernel.block[0], work->kernel.block[1],
                work->kernel.block[2]);
        break;
    case WORK_COPY:
        fprintf(f, "copy %zu x %zu x %zu\\nfrom %p to %p", work->copy.width, work->copy.height,
                work->copy.depth, work->copy.src, work->copy.dst);
        break;
    case WORK_FILL:
        fprintf(f, "fill %zu x %zu x %zu of %u bytes\\nwith 0x%x at %p", work->fill.width,
                work->fill.height, work->fill.depth, work->fill.element, work->fill.value,
                work->fill.dst);
        break;
    case WORK_HOST: fprintf(f, "host function"); break;
    case WORK_RECORD: fprintf(f, "record event %p", (void *)work->event); break;
    case WORK_WAIT: fprintf(f, "wait for event %p", (void *)work->event); break;
    case WORK_GRAPH: fprintf(f, "graph of %zu nodes", work->graph->nodes.count); break;
    case WORK_ALLOC: fprintf(f, "allocation"); break;
    case WORK_FREE: fprintf(f, "free"); break;
    case WORK_BATCH: fprintf(f, "batch of values"); break;
    case WORK_VALUE: fprintf(f, "wait for a value"); break;
    case WORK_EMPTY: fprintf(f, "empty"); break;
    }
}

/* Writes the graph in the DOT language. */
static void print(FILE *f, const struct ihipGraph *graph)
{
    fprintf(f, "digraph graph_1 {\n  node [shape = box];\n");
    for (size_t i = 0; i < graph->nodes.count; i++) {
        const struct hipGraphNode *node = graph->nodes.items[i];
        fprintf(f, "  node_%zu [label = \"", i);
        describe(f, &node->work);
        fprintf(f, "\"];\n");
        for (size_t j = 0; j < node->needs.count; j++)
            fprintf(f, "  node_%zu -> node_%zu;\n", node->needs.items[j]->position, i);
    }
    fprintf(f, "}\n");
}

/* Writes the graph in the DOT language to a file. */
static hipError_t print_to(hipGraph_t handle, const char *path)
{
    struct ihipGraph *graph = path ? hip_object_get(handle, HIP_GRAPH) : NULL;

    if (!graph)
        return hipErrorInvalidValue;
    FILE *f = fopen(path, "w");
    if (f) {
        hip_graph_lock();
        print(f, graph);
        hip_graph_unlock();
    }
    hip_object_put(graph);
    if (f && fclose(f) == 0)
        return hipSuccess;
    return hip_fail(hipErrorOperatingSystem, "%s cannot be written: %s", path, strerror(errno));
}

/* Prints a graph to the file `path`. The flags, which request details, have no effect: all details
 * are printed. */
HIP_EXPORT hipError_t hipGraphDebugDotPrint(hipGraph_t graph, const char *path, unsigned int flags)
{
    (void)flags;
    return HIP_CALL(hipGraphDebugDotPrint, print_to(graph, path));
}
