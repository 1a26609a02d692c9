/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the assignment of work items to the workgroups of a grid, so that an XCD has
 * consecutive items. It also declares grids whose waves the host counts.
 */
#ifndef TEMPLATES_WORKGROUP_GRID_H
#define TEMPLATES_WORKGROUP_GRID_H

#include "ir/builder.h"
#include "templates/template.h"

/**
 * Returns the index (i32) of a workgroup's item, so that each XCD works on consecutive items:
 * workgroup i of a launch runs on XCD i modulo the machine's number of XCDs. `place` is the
 * workgroup's index in its layer of the grid. `before` is the number of workgroups before the
 * layer, and `n` the number of items of the layer. All are i32 scalars. The result is a permutation
 * of 0 .. n - 1 for any n.
 */
struct tir_value att_xcd_item(struct tir_builder *b, struct tir_value place,
                              struct tir_value before, struct tir_value n);

/** Returns the index (i32) of the work list of this workgroup; `n` workgroups share each list. Sets
 * *part to the workgroup's number (i32, 0 to n - 1) among them. `lists` (i32) is the number of
 * lists, and the grid has n * lists workgroups. The workgroup IDs of a list's successive parts
 * differ by the number of XCDs, which puts them on one XCD. In the last lists, if these are fewer
 * than XCDs, the IDs differ by 1. */
struct tir_value att_shared_list(struct tir_builder *b, int n, struct tir_value lists,
                                 struct tir_value *part);

/**
 * A workgroup and wave as the host counts them, `counted` waves to a workgroup, in a kernel whose
 * own workgroups have `waves` waves; both are powers of two. If `waves` and `counted` differ, the
 * kernel must have no barrier, since waves of a workgroup may belong to different workgroups of the
 * host. `workgroups` names the argument with the host's number of workgroups. Waves after the
 * host's last workgroup skip everything that is built before att_end_counted().
 */
struct att_counted_wave {
    /* i32: index of the host's workgroup, and of the wave in that workgroup. */
    struct tir_value block, wave;
    struct tir_if there; /* the branch of waves that the host counts */
    bool some; /* true: the kernel has waves that the host does not count, so `there` is a branch */
};
struct att_counted_wave att_begin_counted(struct tir_builder *b, int waves, int counted,
                                          const char *workgroups);
void att_end_counted(struct tir_builder *b, struct att_counted_wave *w);

/** Returns the first dimension of the grid of a kernel with att_counted_wave. The arguments are the
 * same as for att_begin_counted(). */
struct att_grid att_counted_grid(int waves, int counted, const char *workgroups);

#endif
