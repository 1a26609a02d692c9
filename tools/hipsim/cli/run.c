/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hipsim run: launches one kernel of a code object, without a host program.
 *
 * The metadata of the code object says where each argument is and its size. The command line has
 * values and buffers, which run_args.h describes. `hipsim` starts this program with its options in
 * HIPSIM.
 */
#define __HIP_PLATFORM_AMD__
#include <errno.h>
#include <getopt.h>
#include <hip/hip_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bundle.h"
#include "elf_image.h"
#include "options.h"
#include "run_args.h"
#include "tools/hipsim/hip/hipsim.h"

enum { ARGS_MAX = 64, SHOWS_MAX = 64, ELEMENTS_SHOWN = 8, FAILED = 1, USAGE = 2 };

/* A buffer to show after the launch. */
struct show {
    /* Index of the argument. */
    unsigned arg;
    uint64_t count;   /* number of elements to print; unused with `path` */
    const char *path; /* path of the file to write the whole buffer to; NULL: print it */
};

/* The command line, and the buffers and metadata that belong to it. */
struct run {
    const char *path, *kernel;
    unsigned grid[3], block[3], lds;
    const char *forms[ARGS_MAX];
    struct run_arg args[ARGS_MAX];
    void *buffers[ARGS_MAX]; /* addresses of the buffers in device memory */
    size_t bytes[ARGS_MAX];
    unsigned nargs;
    struct show shows[SHOWS_MAX];
    unsigned nshows;
    struct metadata metadata;
};

/* Prints an error. Returns `status`. */
static int fail(int status, const char *why, const char *which)
{
    fprintf(stderr, "hipsim run: %s%s\n", why, which);
    return status;
}

/* Prints the help text of `hipsim run`. */
static void print_help(void)
{
    puts("Usage: hipsim [OPTION]... run KERNEL.CO --grid X[,Y[,Z]] --block X[,Y[,Z]] [--kernel "
         "NAME]\n"
         "                  [--lds BYTES] [--arg FORM]... [--print N[:COUNT]]... [--dump "
         "N:FILE]...\n"
         "Launch one kernel of a code object; --grid counts workgroups. Arguments, in order:\n\n"
         "  TYPE=NUMBER        a number; types are i8 u8 i16 u16 f16 bf16 i32 u32 f32 i64 u64 f64\n"
         "  hex=DIGITS         a struct by its bytes, two digits each\n"
         "  TYPE:COUNT         a buffer of COUNT elements that nobody has written\n"
         "  TYPE:COUNT=FILL    with zero, ramp (0, 1, 2, ...), random (floats in [-1, 1), integers "
         "in\n"
         "                     [0, 100)), a number for each element, or @FILE\n"
         "  @FILE              a buffer with the bytes of a file\n"
         "  null               a null pointer\n\n"
         "--print shows the first COUNT (8) elements of argument N, which counts from 0; --dump "
         "writes\n"
         "the whole buffer. Without --kernel the object must have one kernel. Without --target it "
         "runs on\n"
         "the GPU that the object is for. Exit status: 0, 1 if the launch failed or a check found "
         "something.");
}

/* The functions from here on read the command line. */

/* Parses "X", "X,Y" or "X,Y,Z", each at least 1, to size[]. False if the text is none of these. */
static bool read_size(const char *text, unsigned size[3])
{
    char *end = (char *)(uintptr_t)text;
    size[0] = size[1] = size[2] = 1;
    for (unsigned d = 0; d < 3; d++) {
        errno = 0;
        const unsigned long n = *end >= '0' && *end <= '9' ? strtoul(end, &end, 0) : 0;
        if (!n || n > UINT32_MAX || errno)
            return false;
        size[d] = (unsigned)n;
        if (*end != ',')
            break;
        end++;
    }
    return *end == 0;
}

/* Adds a buffer to print, "N[:COUNT]", or to write to a file, "N:FILE". False if the text is
 * invalid. */
static bool add_show(struct run *r, const char *text, bool to_file)
{
    char *end;
    struct show show = {.arg = (unsigned)strtoul(text, &end, 10), .count = ELEMENTS_SHOWN};
    if (end == text || r->nshows == SHOWS_MAX || (to_file && (*end != ':' || !end[1])))
        return false;
    if (to_file)
        show.path = end + 1;
    else if (*end == ':')
        show.count = strtoull(end + 1, &end, 0);
    if (!to_file && (*end || !show.count))
        return false;
    r->shows[r->nshows++] = show;
    return true;
}

/* Sets the value of a command-line option. False with a reason if the text is invalid. */
static bool take_option(struct run *r, int option, const char *text, char *why, size_t size)
{
    snprintf(why, size, "cannot read \"%.80s\"", text);
    switch (option) {
    case 'k': r->kernel = text; return true;
    case 'g': return read_size(text, r->grid);
    case 'b': return read_size(text, r->block);
    case 'l': r->lds = (unsigned)strtoul(text, NULL, 0); return true;
    case 'p': return add_show(r, text, false);
    case 'd': return add_show(r, text, true);
    default: break;
    }
    if (r->nargs == ARGS_MAX) {
        snprintf(why, size, "more than %d arguments", ARGS_MAX);
        return false;
    }
    r->forms[r->nargs] = text;
    return run_arg_read(text, &r->args[r->nargs++], why, size);
}

/* Parses the command line. Returns 0, or the exit status; -1: the help has been printed. */
static int read_words(struct run *r, int argc, char **argv)
{
    static const struct option options[] = {
        {"kernel", required_argument, NULL, 'k'},
        {"grid", required_argument, NULL, 'g'},
        {"block", required_argument, NULL, 'b'},
        {"lds", required_argument, NULL, 'l'},
        {"arg", required_argument, NULL, 'a'},
        {"print", required_argument, NULL, 'p'},
        {"dump", required_argument, NULL, 'd'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    char why[200];
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'h') {
            print_help();
            return -1;
        }
        if (option == '?')
            return USAGE;
        if (!take_option(r, option, optarg, why, sizeof(why)))
            return fail(USAGE, why, "");
    }
    if (optind + 1 != argc)
        return fail(USAGE, "one code object is needed; hipsim run --help", "");
    r->path = argv[optind];
    if (!r->grid[0] || !r->block[0])
        return fail(USAGE, "--grid and --block are needed", "");
    for (unsigned i = 0; i < r->nshows; i++)
        if (r->shows[i].arg >= r->nargs || !r->args[r->shows[i].arg].is_buffer)
            return fail(USAGE, "--print and --dump take the number of a buffer", "");
    return 0;
}

/* The functions from here on read the code object. */

/* Reads the metadata of the code object for `target`. On failure false, with a sentence in
 * `why`. */
static bool read_metadata(struct run *r, enum gfx_target target, char *why, size_t size)
{
    struct image image = {0};
    struct elf_image elf = {.why = why, .why_size = size};
    void *aligned = NULL;
    bool ok = image_from_file(r->path, &image, why, size) == CODE_OBJECT_OK &&
              image_select(&image, target, why, size) == CODE_OBJECT_OK &&
              (aligned = malloc(image.size + 1));
    if (ok) {
        memcpy(aligned, image.data, image.size);
        elf.bytes = aligned;
        elf.size = image.size;
        ok = elf_image_open(&elf, target) == CODE_OBJECT_OK;
    }
    if (ok) {
        size_t bytes;
        const void *note = elf_image_metadata(&elf, &bytes);
        snprintf(why, size, "the code object has no metadata");
        ok = note && metadata_read(note, bytes, &r->metadata, why, size);
    }
    elf_image_close(&elf);
    free(aligned);
    image_release(&image);
    return ok;
}

/* Reads the metadata for the target of --target, or without it for the target that the object has
 * code for. Selects the latter target as an option of the simulator. On failure false, with a
 * sentence in `why`. */
static bool choose_target(struct run *r, char *why, size_t size)
{
    const char *settings = getenv("HIPSIM");
    struct options options = options_default();
    if (settings && !options_parse(&options, settings, false, why, size))
        return false;
    if (read_metadata(r, options_part(&options, 0)->target, why, size))
        return true;
    if (settings && strstr(settings, "target="))
        return false;
    char other[200];
    return read_metadata(r, GFX950, other, sizeof(other)) &&
           hipsim_configure("target=gfx950", why, size);
}

/* Returns the kernel of --kernel, or the object's only one. Otherwise prints the names of its
 * kernels and returns NULL. */
static const struct kernel_metadata *choose_kernel(const struct run *r)
{
    for (size_t i = 0; i < r->metadata.nkernels; i++)
        if (r->kernel ? strcmp(r->metadata.kernels[i].name, r->kernel) == 0
                      : r->metadata.nkernels == 1)
            return &r->metadata.kernels[i];
    fail(USAGE, r->kernel ? "there is no kernel " : "--kernel is needed",
         r->kernel ? r->kernel : "");
    for (size_t i = 0; i < r->metadata.nkernels; i++)
        fprintf(stderr, "  %s\n", r->metadata.kernels[i].name);
    return NULL;
}

/* Returns the number of bytes of the argument in the kernel's argument block. */
static size_t arg_bytes(const struct run_arg *arg)
{
    return arg->is_buffer || arg->is_null ? sizeof(void *) : arg->value_bytes;
}

/* True if the number and the sizes of the arguments are right; prints what is wrong otherwise. */
static bool check_args(const struct run *r, const struct kernel_metadata *kernel)
{
    unsigned n = 0;
    bool fits = true;
    for (uint32_t i = 0; i < kernel->nargs; i++) {
        if (kernel->args[i].kind != ARG_VALUE)
            continue;
        fits &= n < r->nargs && arg_bytes(&r->args[n]) == kernel->args[i].size;
        n++;
    }
    if (fits && n == r->nargs)
        return true;
    fprintf(stderr, "hipsim run: kernel %s takes %u arguments of", kernel->name, n);
    for (uint32_t i = 0; i < kernel->nargs; i++)
        if (kernel->args[i].kind == ARG_VALUE)
            fprintf(stderr, " %u", kernel->args[i].size);
    fputs(" bytes; the command line has", stderr);
    for (unsigned i = 0; i < r->nargs; i++)
        fprintf(stderr, " %zu", arg_bytes(&r->args[i]));
    fputs(r->nargs ? "\n" : " none\n", stderr);
    return false;
}

/* The functions from here on launch the kernel. */

/* Prints an error of a HIP call, which `what` describes. True if there is none. */
static bool call(hipError_t error, const char *what)
{
    if (error != hipSuccess)
        fprintf(stderr, "hipsim run: %s: %s\n", what, hipGetErrorName(error));
    return error == hipSuccess;
}

/* Allocates and fills the buffer of argument i. False on failure. */
static bool make_buffer(struct run *r, unsigned i)
{
    char why[300];
    const struct run_arg *arg = &r->args[i];
    void *data = run_arg_bytes(arg, i + 1, &r->bytes[i], why, sizeof(why));
    if (!data)
        return fail(false, why, "");
    const bool ok = call(hipMalloc(&r->buffers[i], r->bytes[i]), "a buffer") &&
                    (arg->fill == RUN_UNDEFINED ||
                     call(hipMemcpy(r->buffers[i], data, r->bytes[i], hipMemcpyHostToDevice),
                          "a buffer's contents"));
    free(data);
    return ok;
}

/* Allocates the buffers of all arguments. False on failure. */
static bool make_buffers(struct run *r)
{
    for (unsigned i = 0; i < r->nargs; i++)
        if (r->args[i].is_buffer && !make_buffer(r, i))
            return false;
    return true;
}

/* Returns the block of arguments, each at the offset that the metadata has, allocated with
 * malloc(). Sets *bytes to its size. NULL without memory. */
static unsigned char *place_args(const struct run *r, const struct kernel_metadata *kernel,
                                 size_t *bytes)
{
    *bytes = metadata_explicit_bytes(kernel);
    unsigned char *segment = calloc(1, *bytes + 1);
    unsigned n = 0;
    for (uint32_t i = 0; segment && i < kernel->nargs; i++) {
        if (kernel->args[i].kind != ARG_VALUE)
            continue;
        const struct run_arg *arg = &r->args[n];
        if (arg->is_buffer)
            memcpy(segment + kernel->args[i].offset, &r->buffers[n], sizeof(void *));
        else if (!arg->is_null)
            memcpy(segment + kernel->args[i].offset, arg->value, arg_bytes(arg));
        n++;
    }
    return segment;
}

/* Launches the kernel and waits for it. False on failure. */
static bool launch(const struct run *r, const struct kernel_metadata *kernel)
{
    hipModule_t module;
    hipFunction_t function;
    size_t bytes;
    unsigned char *args = place_args(r, kernel, &bytes);
    void *extra[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, args, HIP_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     HIP_LAUNCH_PARAM_END};
    if (!bytes) /* the kernel has no arguments */
        extra[0] = HIP_LAUNCH_PARAM_END;
    const bool ok =
        args && call(hipModuleLoad(&module, r->path), r->path) &&
        call(hipModuleGetFunction(&function, module, kernel->name), kernel->name) &&
        call(hipModuleLaunchKernel(function, r->grid[0], r->grid[1], r->grid[2], r->block[0],
                                   r->block[1], r->block[2], r->lds, NULL, NULL, extra),
             kernel->name) &&
        call(hipDeviceSynchronize(), kernel->name);
    free(args);
    return ok;
}

/* Prints a buffer, or writes it to its file. False on failure. */
static bool show(const struct run *r, const struct show *s)
{
    const struct run_arg *arg = &r->args[s->arg];
    const size_t each = run_type_bytes(arg->type), all = r->bytes[s->arg];
    unsigned char *data = malloc(all);
    bool ok = data && call(hipMemcpy(data, r->buffers[s->arg], all, hipMemcpyDeviceToHost),
                           "a buffer's contents");
    if (ok && s->path) {
        FILE *file = fopen(s->path, "wb");
        ok = file && fwrite(data, 1, all, file) == all;
        ok = (!file || fclose(file) == 0) && ok;
        if (!ok)
            fprintf(stderr, "hipsim run: %s: %s\n", s->path, strerror(errno));
    } else if (ok) {
        printf("argument %u:", s->arg);
        for (size_t i = 0; i < s->count && i < all / each; i++) {
            char text[40];
            run_print_element(text, sizeof(text), arg->type, data, i);
            printf(" %s", text);
        }
        putchar('\n');
    }
    free(data);
    return ok;
}

int main(int argc, char **argv)
{
    static struct run r;
    char why[600];
    const int status = read_words(&r, argc, argv);
    if (status)
        return status < 0 ? 0 : status;
    if (!choose_target(&r, why, sizeof(why)))
        return fail(USAGE, why, "");
    const struct kernel_metadata *kernel = choose_kernel(&r);
    if (!kernel || !check_args(&r, kernel))
        return USAGE;
    bool ok = make_buffers(&r) && launch(&r, kernel);
    for (unsigned i = 0; ok && i < r.nshows; i++)
        ok = show(&r, &r.shows[i]);
    metadata_free(&r.metadata);
    return ok && !hipsim_findings() ? 0 : FAILED;
}
