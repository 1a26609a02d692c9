/* SPDX-License-Identifier: Apache-2.0
 *
 * A share of the work, for runs on several machines: given by --shard, or taken from variables that
 * Slurm and MPI launchers set. Shards need no coordination, since a hash of a kernel's name decides
 * its shard.
 */
#ifndef TOOLS_ATTNC_SHARD_H
#define TOOLS_ATTNC_SHARD_H

#include <limits.h>
#include <stdbool.h>

/** One of `count` equal shares of the work; `index` counts from 0. */
struct shard {
    unsigned index, count;
};

/** Reads the argument of --shard. "2/8" is the second of eight shares; NULL is the whole work.
 * "auto" takes the share from the environment: a Slurm array (SLURM_ARRAY_TASK_ID) and the ranks of
 * srun (SLURM_PROCID), mpirun (OMPI_COMM_WORLD_RANK) or another PMI (PMI_RANK). Returns an
 * exit_code after a message that names the command. */
int read_shard(const char *command, const char *text, struct shard *shard);

/** True if the shard includes the work called `name`, such as a kernel. */
bool in_shard(const struct shard *shard, const char *name);

/** Writes to `out` the path of a shard's output: "x.attnpack" becomes "x.2of8.attnpack". A path
 * stays as it is if there is only one shard, or if it is "-". Returns an exit_code after a
 * message. */
int shard_path(const struct shard *shard, const char *path, char out[PATH_MAX]);

#endif
