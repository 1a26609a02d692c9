/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times one launch of any code object, which a file describes. It serves kernels that are compiled
 * during a comparison, such as Triton's. The first line of the file is
 *
 *     OBJECT KERNEL GRID_X GRID_Y GRID_Z THREADS DYNAMIC_LDS_BYTES SAMPLES
 *
 * where the grid counts workgroups and 0 SAMPLES means all of them. Every other line is an
 * argument, in order and naturally aligned:
 *
 *     b BYTES   buffer of bf16 numbers of 1/8 to 2, either sign
 *     f FILE    buffer with the contents of a file
 *     n         null pointer
 *     i NUMBER  int32
 *     l NUMBER  int64
 *     s NUMBER  float
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/hipsim/calibration/calibrate.h"

#define ARGUMENT_BYTES 2048
#define PATH_BYTES 1024

struct object_launch {
    char path[PATH_BYTES], kernel[256];
    uint32_t grid[3], threads, lds, samples;
    _Alignas(16) unsigned char arguments[ARGUMENT_BYTES];
    size_t bytes;
};

/* Copies the contents of a file to new device memory. Returns its address. */
static void *device_file(const char *path)
{
    FILE *const f = fopen(path, "rb");
    void *p;
    long size;
    if (!f || fseek(f, 0, SEEK_END) != 0 || (size = ftell(f)) <= 0) {
        fprintf(stderr, "calibrate: cannot read %s\n", path);
        _exit(2);
    }
    rewind(f);
    void *const host = malloc((size_t)size);
    if (!host || fread(host, 1, (size_t)size, f) != (size_t)size) {
        fprintf(stderr, "calibrate: cannot read %s\n", path);
        _exit(2);
    }
    fclose(f);
    check(hipMalloc(&p, (size_t)size), "hipMalloc");
    check(hipMemcpy(p, host, (size_t)size, hipMemcpyHostToDevice), "hipMemcpy");
    free(host);
    return p;
}

/* Adds an argument of the file's form `form` with text `text`. False if there is no room or the
 * form is unknown. */
static bool add_argument(struct object_launch *o, char form, const char *text)
{
    union {
        void *pointer;
        int64_t l;
        int32_t i;
        float s;
    } value = {0};
    const size_t size = form == 'i' || form == 's' ? 4 : 8;
    switch (form) {
    case 'b': value.pointer = bf16_buffer(strtoull(text, NULL, 10)); break;
    case 'f': value.pointer = device_file(text); break;
    case 'n': break;
    case 'i': value.i = (int32_t)strtol(text, NULL, 10); break;
    case 'l': value.l = strtoll(text, NULL, 10); break;
    case 's': value.s = strtof(text, NULL); break;
    default: return false;
    }
    const size_t at = (o->bytes + size - 1) & -size;
    if (at + size > ARGUMENT_BYTES)
        return false;
    memcpy(o->arguments + at, &value, size);
    o->bytes = at + size;
    return true;
}

/* Reads the description of a launch and its arguments. False if it is invalid. */
static bool read_launch(FILE *f, struct object_launch *o)
{
    char line[PATH_BYTES + 8];
    if (!fgets(line, sizeof(line), f) ||
        sscanf(line, "%1023s %255s %u %u %u %u %u %u", o->path, o->kernel, &o->grid[0], &o->grid[1],
               &o->grid[2], &o->threads, &o->lds, &o->samples) != 8)
        return false;
    while (fgets(line, sizeof(line), f)) {
        line[strcspn(line, "\n")] = 0;
        if (!add_argument(o, line[0], line[0] && line[1] ? line + 2 : ""))
            return false;
    }
    return true;
}

void time_object(const struct target *t, const char *path)
{
    static struct object_launch o;
    hipModule_t module;
    hipFunction_t function;
    FILE *const f = fopen(path, "r");
    if (!f || !read_launch(f, &o)) {
        fprintf(stderr, "calibrate: %s does not describe a launch\n", path);
        _exit(2);
    }
    fclose(f);
    check(hipModuleLoad(&module, o.path), o.path);
    check(hipModuleGetFunction(&function, module, o.kernel), o.kernel);
    if (o.samples)
        execute_samples(o.samples);
    else
        execute_all(true);
    const struct hipsim_time_report r =
        launch_with_lds(function, o.grid, o.threads, o.lds, o.arguments, o.bytes);
    execute_all(false);
    check(hipModuleUnload(module), "hipModuleUnload");
    printf("{\"target\": \"%s\", \"cycles\": %.0f, \"us\": %.2f, \"bytes\": %.0f, \"idle\": %.4f, "
           "\"duty\": %.4f, \"complete\": %s}\n",
           t->name, r.cycles, r.us_at_power, r.memory_bytes, r.tail, r.matrix_duty,
           r.complete ? "true" : "false");
}
