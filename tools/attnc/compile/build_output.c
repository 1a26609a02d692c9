/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/attnc/compile/build_output.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "compiler/pack_writer.h"
#include "compiler/package.h"
#include "tools/attnc/cli/command.h"
#include "tools/attnc/cli/output.h"

const struct emit_row emits[] = {
    {"pack", PACK, ATTNC_STAGE_LINKED, NULL},
    {"header", HEADER, ATTNC_STAGE_LINKED, NULL},
    {"object", OBJECT, ATTNC_STAGE_LINKED, NULL},
    {"variants", VARIANTS, ATTNC_STAGE_LINKED, NULL},
    {"ninja", NINJA, ATTNC_STAGE_LINKED, NULL},
    {"ir", TEXT, ATTNC_STAGE_IR, NULL},
    {"llvm", TEXT, ATTNC_STAGE_LLVM, NULL},
    {"asm", TEXT, ATTNC_STAGE_ASM, NULL},
    {"obj", FILES, ATTNC_STAGE_OBJECT, "o"},
    {"co", FILES, ATTNC_STAGE_LINKED, "co"},
    {0},
};

/* A node of drop_seen()'s tree: a kernel name, and the variant that has it. */
struct named {
    char name[ATT_NAME_MAX];
    const struct att_variant *variant;
};

/* Compares two struct named by name, for tsearch(). */
static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

int drop_seen(const char *command, struct attnc_description *desc, void **seen)
{
    size_t kept = 0;
    for (size_t i = 0; i < desc->count; i++) {
        struct named *n = malloc(sizeof(*n));
        if (!n)
            return complain(EXIT_ENVIRONMENT, "out of memory");
        att_variant_name(&desc->variants[i], n->name);
        n->variant = &desc->variants[kept];
        struct named **found = tsearch(n, seen, compare_names);
        if (!found) {
            free(n);
            return complain(EXIT_ENVIRONMENT, "out of memory");
        }
        if (*found == n) {
            desc->variants[kept++] = desc->variants[i];
            continue;
        }
        free(n);
        if (!att_variant_same((*found)->variant, &desc->variants[i]))
            return complain(EXIT_USER, "%s: two different kernels would be %s: %s and %s", command,
                            (*found)->name, (*found)->variant->logits, desc->variants[i].logits);
    }
    desc->count = kept;
    return EXIT_GOOD;
}

/* Prints each variant of a description as a line of text. */
static void print_variants(const struct attnc_description *desc, FILE *out)
{
    for (size_t i = 0; i < desc->count; i++) {
        char line[ATT_TEXT_MAX];
        att_variant_text(&desc->variants[i], line);
        fprintf(out, "%s\n", line);
    }
}

/* Prints the text that the compiler has made of each kernel, such as IR or assembly. */
static void print_kernels(const struct attnc_build_result *built, FILE *out)
{
    for (size_t i = 0; i < built->count; i++)
        fwrite(built->kernels[i].code.data, 1, built->kernels[i].code.size, out);
}

/* Writes the variants, or the text of the kernels, of all `count` descriptions to the file `path`.
 * Returns an exit_code. */
static int write_text(const struct build_unit *units, size_t count, enum container container,
                      const char *path)
{
    struct output text;
    const int code = begin_output(&text);
    if (code != EXIT_GOOD)
        return code;
    for (size_t i = 0; i < count; i++) {
        if (container == VARIANTS)
            print_variants(&units[i].desc, text.out);
        else
            print_kernels(&units[i].built, text.out);
    }
    return end_output(&text, path, EXIT_GOOD);
}

/* Writes the code of each kernel of `unit` to the file KERNEL.`suffix` in `directory`. Returns an
 * exit_code after a message. */
static int write_into_directory(const struct build_unit *unit, const char *directory,
                                const char *suffix)
{
    for (size_t i = 0; i < unit->built.count; i++) {
        const struct attnc_kernel *k = &unit->built.kernels[i];
        char path[PATH_MAX];
        if (snprintf(path, sizeof(path), "%s/%s.%s", directory, k->name, suffix) >=
            (int)sizeof(path))
            return complain(EXIT_USER, "%s: %s", directory, strerror(ENAMETOOLONG));
        int code = write_output(path, k->code.data, k->code.size);
        if (code != EXIT_GOOD)
            return code;
    }
    return EXIT_GOOD;
}

/* Writes the code of a single kernel to the file `path`, or of several kernels to files in the
 * directory `path`. Returns an exit_code after a message. */
static int write_files(const struct build_unit *units, size_t count, const char *path,
                       const char *suffix)
{
    struct stat st;
    size_t kernels = 0;
    const struct attnc_kernel *only = NULL;
    for (size_t i = 0; i < count; i++) {
        kernels += units[i].built.count;
        only = units[i].built.count ? units[i].built.kernels : only;
    }
    bool directory = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    if (!directory && kernels == 1)
        return write_output(path, only->code.data, only->code.size);
    if (!directory && mkdir(path, 0777) != 0)
        return complain(EXIT_ENVIRONMENT, "%s: %s", path, strerror(errno));
    int code = EXIT_GOOD;
    for (size_t i = 0; i < count && code == EXIT_GOOD; i++)
        code = write_into_directory(&units[i], path, suffix);
    return code;
}

/* Derives a C identifier from the file name in a path: "out/qwen3-moe.h" gives "qwen3_moe". */
static void name_from_path(char name[ATT_NAME_MAX], const char *path)
{
    const char *slash = strrchr(path, '/');
    path = slash ? slash + 1 : path;
    snprintf(name, ATT_NAME_MAX, "%.*s", (int)strcspn(path, "."), path);
    for (char *c = name; *c; c++) {
        if (!isalnum((unsigned char)*c))
            *c = '_';
    }
}

/* Makes a pack of the kernels of all `count` descriptions; the caller frees *bytes. Returns false
 * after a message. */
static bool make_pack(const struct build_unit *units, size_t count, void **bytes, size_t *size)
{
    struct attnc_pack_writer *w = attnc_pack_writer_create();
    if (!w) {
        complain(EXIT_ENVIRONMENT, "out of memory");
        return false;
    }
    bool good = true;
    for (size_t i = 0; good && i < count; i++)
        good = attnc_package(w, &units[i].desc, &units[i].built);
    good = good && attnc_pack_writer_finish(w, bytes, size);
    if (!good)
        complain(EXIT_ENVIRONMENT, "%s", attnc_pack_writer_error(w));
    attnc_pack_writer_destroy(w);
    return good;
}

/* Writes the pack itself, or a C header or object file with the pack as the array `name`. If `name`
 * is NULL, it is derived from the path. *pack_bytes gets the size of the pack. Returns an
 * exit_code. */
static int write_pack(const struct build_unit *units, size_t count, enum container container,
                      const char *path, const char *name, size_t *pack_bytes)
{
    void *pack, *shape = NULL;
    size_t size;
    char from_path[ATT_NAME_MAX];
    if (!make_pack(units, count, &pack, pack_bytes))
        return EXIT_ENVIRONMENT;
    if (!name) {
        name_from_path(from_path, path);
        name = from_path;
    }
    int code;
    if (container == PACK)
        code = write_output(path, pack, *pack_bytes);
    else if (container == HEADER ? attnc_pack_to_header(pack, *pack_bytes, name, &shape, &size)
                                 : attnc_pack_to_object(pack, *pack_bytes, name, &shape, &size))
        code = write_output(path, shape, size);
    else
        code = complain(EXIT_USER, "build: '%s' is not a C identifier; see --name", name);
    free(shape);
    free(pack);
    return code;
}

int write_build(const struct build_unit *units, size_t count, const struct emit_row *emit,
                const char *path, const char *name, size_t *pack_bytes)
{
    *pack_bytes = 0;
    switch (emit->container) {
    case VARIANTS:
    case TEXT: return write_text(units, count, emit->container, path);
    case FILES: return write_files(units, count, path, emit->suffix);
    default: return write_pack(units, count, emit->container, path, name, pack_bytes);
    }
}
