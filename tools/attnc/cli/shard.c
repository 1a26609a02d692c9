/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/attnc/cli/shard.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/attnc/cli/command.h"

/* The largest number of shards. */
enum { MOST = 1 << 20 };

/* Returns the number in environment variable `name`; `fallback` if it is absent, no number,
 * negative or above MOST. */
static long number(const char *name, long fallback)
{
    const char *text = getenv(name);
    char *end = NULL;
    const long n = text ? strtol(text, &end, 10) : fallback;
    return text && (end == text || *end || n < 0 || n > MOST) ? fallback : n;
}

/* Returns the rank of this process and the number of ranks, as mpirun, PMI or srun set them; rank 0
 * of 1 without a launcher. Slurm sets its variables for a batch script too, so mpirun's come
 * first. */
static struct shard from_launcher(void)
{
    static const char *const names[][2] = {
        {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
        {"PMI_RANK", "PMI_SIZE"},
        {"SLURM_PROCID", "SLURM_NTASKS"},
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const long rank = number(names[i][0], -1), ranks = number(names[i][1], 0);
        if (rank >= 0 && rank < ranks)
            return (struct shard){(unsigned)rank, (unsigned)ranks};
    }
    return (struct shard){0, 1};
}

/* Returns the shard of this process from the environment. Each task of a Slurm array has an equal
 * part of the shards, one for each rank of its launch. */
static struct shard from_environment(void)
{
    const struct shard ranks = from_launcher();
    const long id = number("SLURM_ARRAY_TASK_ID", -1), first = number("SLURM_ARRAY_TASK_MIN", 0);
    const long last = number("SLURM_ARRAY_TASK_MAX", id), step = number("SLURM_ARRAY_TASK_STEP", 1);
    if (id < first || id > last || step < 1)
        return ranks;
    const unsigned task = (unsigned)((id - first) / step);
    const unsigned tasks = (unsigned)((last - first) / step + 1);
    return (struct shard){task * ranks.count + ranks.index, tasks * ranks.count};
}

int read_shard(const char *command, const char *text, struct shard *shard)
{
    unsigned index, count;
    char extra;
    *shard = text && !strcmp(text, "auto") ? from_environment() : (struct shard){0, 1};
    if (!text || !strcmp(text, "auto"))
        return EXIT_GOOD;
    if (sscanf(text, "%u/%u%c", &index, &count, &extra) != 2 || !index || index > count ||
        count > MOST)
        return complain(EXIT_USER, "%s: --shard is I/N with I from 1 to N, or auto, not '%s'",
                        command, text);
    *shard = (struct shard){index - 1, count};
    return EXIT_GOOD;
}

/* True if the FNV-1a hash (32 bits) of `name`, modulo the number of shards, is the index of this
 * shard. */
bool in_shard(const struct shard *shard, const char *name)
{
    unsigned hash = 2166136261u;
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 16777619u;
    return (hash ^ hash >> 16) % shard->count == shard->index;
}

int shard_path(const struct shard *shard, const char *path, char out[PATH_MAX])
{
    const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');
    const bool plain = shard->count == 1 || !strcmp(path, "-");
    const int stem = dot && (!slash || dot > slash) ? (int)(dot - path) : (int)strlen(path);
    const int length = plain ? snprintf(out, PATH_MAX, "%s", path)
                             : snprintf(out, PATH_MAX, "%.*s.%uof%u%s", stem, path,
                                        shard->index + 1, shard->count, path + stem);
    return length < PATH_MAX ? EXIT_GOOD
                             : complain(EXIT_USER, "%s: %s", path, strerror(ENAMETOOLONG));
}
