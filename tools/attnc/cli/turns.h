/* SPDX-License-Identifier: Apache-2.0
 *
 * The shares of its shapes that each kernel of a pack is verified on with --every. Twins have the
 * same op, and the same name but for the target.
 */
#ifndef TOOLS_ATTNC_TURNS_H
#define TOOLS_ATTNC_TURNS_H

#include <stddef.h>

struct attn_pack;

/** A kernel is verified on one in `every` shapes, from the shape at `place` modulo `every` on. */
struct turn {
    size_t every, place;
};

/** Returns the turns of all kernels of a pack, where one in `every` shapes is verified, 1: all. The
 * caller frees them. Returns NULL without memory.
 *
 * Twins have places next to each other, and so have consecutive kernels of an op. A kernel that
 * lacks a twin on a target of the pack runs more shapes: as many as it and that twin would. The
 * turns do not depend on the kernels that a run selects. */
struct turn *find_turns(const struct attn_pack *pack, size_t every);

#endif
