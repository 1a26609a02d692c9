/* SPDX-License-Identifier: Apache-2.0
 *
 * The order in which a grid visits its work items.
 */
#ifndef TEMPLATES_WORKGROUP_GRID_H
#define TEMPLATES_WORKGROUP_GRID_H

#include "ir/builder.h"
#include "templates/template.h"

/* CDNA3 white paper: eight XCDs, to which the dispatcher deals workgroups in turn. */
enum { ATT_XCDS = 8 };

/**
 * A permutation of the `n` items of a layer, so that each XCD works on neighbours: workgroup i of a
 * launch runs on XCD i mod 8. `place` is the workgroup's number in its layer, `before` that of the
 * workgroups in front of the layer, all i32 scalars; the result is its item, 0 <= item < n. Any n.
 */
struct tir_value att_xcd_item(struct tir_builder *b, struct tir_value place,
                              struct tir_value before, struct tir_value n);

/**
 * A workgroup and a wave of it as the host counts them, with `counted` waves to a workgroup, in a
 * kernel whose own workgroups have `waves`: both powers of two. No barrier may part these waves.
 * Waves behind the last workgroup of the host skip all that is built before att_end_counted().
 */
struct att_counted_wave {
    struct tir_value block, wave; /* i32 */
    struct tir_if there;          /* of waves below the number of workgroups */
    bool some;                    /* `there` is open: other waves exist */
};
struct att_counted_wave att_begin_counted(struct tir_builder *b, int waves, int counted,
                                          const char *workgroups);
void att_end_counted(struct tir_builder *b, struct att_counted_wave *w);

/** The dimension of the grid for it. `workgroups`: the argument that has their number. */
struct att_grid att_counted_grid(int waves, int counted, const char *workgroups);

#endif
