/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_compile: measures what builds cost. It prints the processor time for each kernel, the peak
 * memory, and the time of a second build without changes. It also prints the processor time of
 * `clang -O3` on an equivalent kernel. Times include child processes and all that these start, as
 * wait4() reports them.
 *
 * Usage: bench_compile ATTNC CLANG FLASH_C DESC...
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Most words of a command line; runs of clang, among which the fastest counts. */
enum { MAX_WORDS = 64, CLANG_RUNS = 5 };

/* The cost of a command. */
struct cost {
    double wall, cpu; /* seconds */
    /* Peak memory of the largest process. */
    double peak_mib;
};

static double seconds(struct timeval t) { return (double)t.tv_sec + (double)t.tv_usec / 1e6; }

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Runs a command, whose words end with NULL, and returns its cost. A failure ends the benchmark. */
static struct cost run(char *const argv[])
{
    double start = now();
    pid_t pid = fork();
    if (pid == 0) {
        execv(argv[0], argv);
        perror(argv[0]);
        _exit(127);
    }
    int status;
    struct rusage usage;
    if (pid < 0 || wait4(pid, &status, 0, &usage) != pid || !WIFEXITED(status) ||
        WEXITSTATUS(status) != 0) {
        fprintf(stderr, "bench_compile: %s failed\n", argv[0]);
        exit(1);
    }
    return (struct cost){now() - start, seconds(usage.ru_utime) + seconds(usage.ru_stime),
                         (double)usage.ru_maxrss / 1024};
}

/* Runs `attnc build DESC... EXTRA...` and returns its cost. Both lists end with NULL. */
static struct cost build(char *attnc, char **descriptions, char *const extra[])
{
    char *argv[MAX_WORDS + 1] = {attnc, "build", "--quiet"};
    size_t n = 3;
    for (; *descriptions && n < MAX_WORDS; descriptions++)
        argv[n++] = *descriptions;
    for (; *extra && n < MAX_WORDS; extra++)
        argv[n++] = *extra;
    return run(argv);
}

static int count_lines(const char *path)
{
    FILE *in = fopen(path, "r");
    int lines = 0;
    for (int c; in && (c = fgetc(in)) != EOF;)
        lines += c == '\n';
    if (in)
        fclose(in);
    return lines;
}

/* Returns the processor seconds of clang -O3 on `source` for the target `cpu`: the least of several
 * runs, since other load of the machine may slow some. */
static double time_clang(char *clang, char *source, char *cpu, char *object)
{
    double best = 1e9;
    for (int i = 0; i < CLANG_RUNS; i++) {
        char *argv[] = {
            clang, "-x", "c",    "-std=c11", "-O3", "-nogpulib", "-target", "amdgcn-amd-amdhsa",
            cpu,   "-o", object, source,     NULL};
        struct cost c = run(argv);
        best = c.cpu < best ? c.cpu : best;
    }
    return best;
}

int main(int argc, char **argv)
{
    char dir[] = "/tmp/attnc-bench-XXXXXX";
    if (argc < 5 || !mkdtemp(dir)) {
        fprintf(stderr, "usage: bench_compile ATTNC CLANG FLASH_C DESC...\n");
        return 1;
    }
    char pack[64], cache[64], list[64], object[64];
    snprintf(pack, sizeof(pack), "%s/pack", dir);
    snprintf(cache, sizeof(cache), "%s/cache", dir);
    snprintf(list, sizeof(list), "%s/list", dir);
    snprintf(object, sizeof(object), "%s/object", dir);
    char *attnc = argv[1], **descriptions = argv + 4;

    build(attnc, descriptions, (char *[]){"--emit=variants", "-o", list, NULL});
    int kernels = count_lines(list);
    struct cost one = build(attnc, descriptions, (char *[]){"-o", pack, "--no-cache", "-j1", NULL});
    struct cost two =
        build(attnc, descriptions, (char *[]){"-o", pack, "--cache", cache, "-j2", NULL});
    struct cost again =
        build(attnc, descriptions, (char *[]){"-o", pack, "--cache", cache, "-j2", NULL});
    double clang942 = time_clang(argv[2], argv[3], "-mcpu=gfx942", object);
    double clang950 = time_clang(argv[2], argv[3], "-mcpu=gfx950", object);

    double each = one.cpu / kernels, clang = (clang942 + clang950) / 2;
    printf("kernels                          %8d\n", kernels);
    printf("processor time per kernel, -j1   %8.1f ms\n", each * 1e3);
    printf("processor time per kernel, -j2   %8.1f ms\n", two.cpu / kernels * 1e3);
    printf("wall time, -j1 / -j2             %8.2f s / %.2f s\n", one.wall, two.wall);
    printf("peak memory, -j2                 %8.0f MiB\n", two.peak_mib);
    printf("second build, nothing changed    %8.3f s\n", again.wall);
    printf("clang -O3, equivalent kernel     %8.1f ms (best of %d, both targets)\n", clang * 1e3,
           CLANG_RUNS);
    printf("ratio, kernel / clang            %8.2f\n", each / clang);

    char *argv_rm[] = {"/bin/rm", "-r", dir, NULL};
    run(argv_rm);
    return 0;
}
