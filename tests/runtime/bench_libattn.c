/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures libattn's own cost with a HIP runtime whose launch returns at once. A launch is compared
 * with a bare hipModuleLaunchKernel() call in the same run. Lookups and opening a pack of 2,000
 * kernels are timed warm. Exit status 1: a limit is exceeded.
 */
#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/attn.h"
#include "tests/runtime/fixture.h"

enum { ROUNDS = 401, PER_ROUND = 1000, KERNELS = 2000 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *samples, size_t count)
{
    qsort(samples, count, sizeof(*samples), ascending);
    return samples[count / 2];
}

static int require(int status)
{
    if (status) {
        fprintf(stderr, "%s: %s\n", attn_status_name(status), attn_last_error());
        exit(2);
    }
    return status;
}

typedef int launch_function(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                            unsigned, void *, void **, void **);

static launch_function *bare_launch(void)
{
    launch_function *f;
    void *address = dlsym(dlopen(fake_path(), RTLD_NOW), "hipModuleLaunchKernel");
    memcpy(&f, &address, sizeof(address));
    return f;
}

static bool limit(const char *what, double value, const char *unit, double most)
{
    printf("%-44s %10.1f %s (limit %g)%s\n", what, value, unit, most,
           value > most ? "  EXCEEDED" : "");
    return value <= most;
}

static bool measure_launch(struct attn_device *device)
{
    struct attn_prefill_desc d = plain_desc();
    d.head_dim = 256;
    struct attn_op *op;
    require(attn_prefill_lookup(device, &d, &op));
    const struct attn_prefill_args a = plain_args();
    launch_function *bare = bare_launch();
    static double ours[ROUNDS], theirs[ROUNDS];
    for (int r = 0; r < ROUNDS; r++) {
        double start = now();
        for (int i = 0; i < PER_ROUND; i++)
            require(attn_prefill_launch(op, &a));
        ours[r] = (now() - start) / PER_ROUND;
        start = now();
        for (int i = 0; i < PER_ROUND; i++)
            require(bare(op, 4, 8, 2, 256, 1, 1, 512, NULL, NULL, NULL));
        theirs[r] = (now() - start) / PER_ROUND;
    }
    attn_op_destroy(op);
    const double launch = median(ours, ROUNDS), bare_ns = median(theirs, ROUNDS);
    printf("%-44s %10.1f ns (%.1f times the bare call, %.1f ns)\n", "attn_prefill_launch", launch,
           launch / bare_ns, bare_ns);
    return limit("  of it libattn's own", launch - bare_ns, "ns", 150);
}

/* Compares a choice among eight kernels of one key, three conditions each, with a single kernel.
 * The last of the eight is chosen. */
static bool measure_choice(void)
{
    enum { CHOICES = 8 };
    struct attnc_pack_when rows[CHOICES][3];
    struct made made[CHOICES + 1] = {{.name = "alone", .mask = "none"}};
    char names[CHOICES][8];
    for (int i = 0; i < CHOICES; i++) {
        const bool last = i == CHOICES - 1;
        rows[i][0] = (struct attnc_pack_when){"batch", 0, 1 << 20};
        rows[i][1] = (struct attnc_pack_when){"max_seqlen_k", 0, 1 << 20};
        rows[i][2] = (struct attnc_pack_when){"max_seqlen_q", last ? 0 : 1 << 20, 1 << 21};
        snprintf(names[i], sizeof(names[i]), "many%d", i);
        made[i + 1] = (struct made){.name = names[i], .when = rows[i], .when_count = 3};
    }
    size_t size;
    void *bytes = make_pack(made, CHOICES + 1, &size);
    struct attn_pack *pack;
    struct attn_device *device;
    struct attn_op *ops[2];
    const struct attn_device_options o = fake_options();
    struct attn_prefill_desc d = plain_desc();
    require(attn_pack_open_memory(bytes, size, &pack));
    require(attn_device_open(&pack, 1, &o, &device));
    require(attn_prefill_lookup(device, &d, &ops[1]));
    d.mask = ATTN_MASK_NONE;
    require(attn_prefill_lookup(device, &d, &ops[0]));
    const struct attn_prefill_args a = plain_args();
    static double samples[2][ROUNDS];
    for (int r = 0; r < 2 * ROUNDS; r++) {
        const double start = now();
        for (int i = 0; i < PER_ROUND; i++)
            require(attn_prefill_launch(ops[r % 2], &a));
        samples[r % 2][r / 2] = (now() - start) / PER_ROUND;
    }
    attn_op_destroy(ops[0]);
    attn_op_destroy(ops[1]);
    attn_device_close(device);
    attn_pack_close(pack);
    free(bytes);
    return limit("  a choice among eight kernels adds",
                 median(samples[1], ROUNDS) - median(samples[0], ROUNDS), "ns", 60);
}

static bool measure_lookup(struct attn_device *device)
{
    struct attn_op *keep; /* keeps the code object loaded, as an engine's other layers do */
    struct attn_prefill_desc d = plain_desc();
    d.head_dim = 256;
    require(attn_prefill_lookup(device, &d, &keep));
    static double samples[ROUNDS];
    for (int r = 0; r < ROUNDS; r++) {
        const double start = now();
        for (int i = 0; i < 100; i++) {
            struct attn_op *op;
            require(attn_prefill_lookup(device, &d, &op));
            attn_op_destroy(op);
        }
        samples[r] = (now() - start) / 100;
    }
    attn_op_destroy(keep);
    return limit("attn_prefill_lookup and destroy", median(samples, ROUNDS), "ns", 2000);
}

/* Returns the resident memory of this process in KiB. */
static double resident(void)
{
    long pages = 0, ignored;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%ld %ld", &ignored, &pages) != 2)
        exit(2);
    fclose(f);
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / 1024;
}

static bool measure_open(const char *path)
{
    struct attn_pack *pack;
    require(attn_pack_open(path, &pack)); /* warm */
    attn_pack_close(pack);
    static double samples[ROUNDS];
    for (int r = 0; r < ROUNDS; r++) {
        const double start = now();
        require(attn_pack_open(path, &pack));
        samples[r] = (now() - start) / 1000;
        attn_pack_close(pack);
    }
    bool ok = limit("attn_pack_open of 2000 kernels", median(samples, ROUNDS), "us", 1000);
    malloc_trim(0); /* makes the heap grow again */
    const double before = resident();
    require(attn_pack_open(path, &pack));
    const struct attn_device_options o = fake_options();
    struct attn_device *device;
    require(attn_device_open(&pack, 1, &o, &device));
    struct attn_prefill_desc d = plain_desc();
    d.head_dim = 256;
    struct attn_op *op;
    require(attn_prefill_lookup(device, &d, &op));
    ok &= limit("resident after open and lookup", resident() - before, "KiB", 200);
    attn_op_destroy(op);
    attn_device_close(device);
    attn_pack_close(pack);
    return ok;
}

int main(void)
{
    size_t size;
    void *bytes = make_large_pack(KERNELS, &size);
    char path[] = "bench_libattn_XXXXXX";
    int fd = mkstemp(path);
    if (fd < 0 || write(fd, bytes, size) != (ssize_t)size)
        return 2;
    close(fd);
    free(bytes);

    fake_reset()->quiet = 1;
    bool ok = measure_open(path);
    struct attn_pack *pack;
    require(attn_pack_open(path, &pack));
    unlink(path);
    const struct attn_device_options o = fake_options();
    struct attn_device *device;
    require(attn_device_open(&pack, 1, &o, &device));
    ok &= measure_lookup(device);
    ok &= measure_launch(device);
    ok &= measure_choice();
    attn_device_close(device);
    attn_pack_close(pack);
    return !ok;
}
