/* SPDX-License-Identifier: Apache-2.0 A share of the work, for many machines: by --shard, or by
 * what Slurm and MPI launchers tell their ranks. Shards need no coordination: the name of a piece
 * of work decides its shard. */
#ifndef TOOLS_ATTNC_SHARD_H
#define TOOLS_ATTNC_SHARD_H

#include <limits.h>
#include <stdbool.h>

/** Share `index`, from 0, of `count`. */
struct shard {
    unsigned index, count;
};

/** Reads "2/8", the second of eight; "auto" takes the place from the environment: in a Slurm array
 * (SLURM_ARRAY_TASK_ID) and in a launch of srun (SLURM_PROCID), mpirun (OMPI_COMM_WORLD_RANK) or
 * another PMI (PMI_RANK); without any of them the whole. NULL is the whole. Returns an exit code
 * after a message that names the command. */
int read_shard(const char *command, const char *text, struct shard *shard);

/** True if the work of this name belongs to the shard. */
bool in_shard(const struct shard *shard, const char *name);

/** Writes the path of a shard's file: "out x.attnpack" becomes "out x.2of8.attnpack"; without
 * shards the path stays. Returns an exit code after a message. */
int shard_path(const struct shard *shard, const char *path, char out[PATH_MAX]);

#endif
