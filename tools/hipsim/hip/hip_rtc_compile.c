/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the compiler of hiprtc: Clang, on files in a temporary directory. Debian's headers and
 * device libraries lack the simulated targets. The script therefore makes the file
 * oclc_isa_version_*.bc, which has the number of the instruction set. The prelude has a function
 * that Clang 22 does not link. */
#include "hip_rtc.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gfx_part.h"
#include "isa.h"

extern char **environ;

static const char script[] =
    "set -eu\n"
    "clang=$1; dir=$2; isa=$3; shift 3\n"
    "[ -x \"$clang\" ] || clang=clang++-22\n"
    "root=${ROCM_PATH:-/usr}\n"
    "mkdir \"$dir/bitcode\"\n"
    "for from in \"$root/amdgcn/bitcode\" /usr/lib/*/amdgcn/bitcode"
    " /usr/lib/llvm-*/lib/clang/*/amdgcn/bitcode; do\n"
    "    [ -e \"$from/ocml.bc\" ] && ln -s \"$from\"/*.bc \"$dir/bitcode\" && break\n"
    "done\n"
    "if [ -n \"$isa\" ]; then\n"
    "    file=$dir/bitcode/oclc_isa_version_${isa%:*}.bc\n"
    "    [ -e \"$file\" ] ||\n"
    "        echo \"const __constant int __oclc_ISA_version = ${isa#*:};\n"
    "              const __constant bool __oclc_daz_opt = false;\" |\n"
    "        \"$clang\" -x cl -target amdgcn-amd-amdhsa -nogpulib -Xclang"
    " -mcode-object-version=none -fvisibility=protected -emit-llvm -c -o \"$file\" -\n"
    "fi\n"
    "exec \"$clang\" -x hip --offload-device-only --no-gpu-bundle-output --rocm-path=\"$root\""
    " --rocm-device-lib-path=\"$dir/bitcode\" -mcode-object-version=5 -O3 -std=c++17"
    " -D__HIPCC_RTC__ -Wno-linker-warnings -I\"$dir/include\""
    " -include hip/hip_runtime.h -include \"$dir/prelude.h\" \"$@\" -x hip \"$dir/program.hip\""
    " -o \"$dir/code\"\n";

static const char prelude[] =
    "#if HIP_VERSION < 50700000\n"
    "extern \"C\" __device__ inline __attribute__((always_inline)) void"
    " __atomic_work_item_fence(__cl_mem_fence_flags, __memory_order, __memory_scope)\n"
    "{\n"
    "    __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, \"workgroup\");\n"
    "}\n"
    "#else\n"
    "#include <hip/hip_fp16.h>\n"
    "#endif\n";

/* The functions from here on write the files of a compilation. */

enum { PATH_BYTES = 1024 };

/* True if `path`, the name of a header in a program, does not leave its directory. */
static bool stays_inside(const char *path)
{
    return path[0] && path[0] != '/' && !strstr(path, "..");
}

/* Makes the directories above the file `path`. */
static void make_parents(char *path)
{
    for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = 0;
        mkdir(path, 0700);
        *at = '/';
    }
}

/* Creates the file `name` in a directory, with the directories above it. NULL on failure. */
static FILE *create(const char *dir, const char *name)
{
    char path[PATH_BYTES];

    if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path))
        return NULL;
    make_parents(path);
    return fopen(path, "w");
}

/* Writes a text to a file of the directory. False on failure. */
static bool write_text(const char *dir, const char *name, const char *text)
{
    FILE *f = create(dir, name);

    if (!f)
        return false;
    const bool written = fputs(text, f) >= 0;
    return fclose(f) == 0 && written;
}

/* Writes the program. The variables are after it, since it declares what they refer to. */
static bool write_program(const char *dir, const struct rtc_source *source)
{
    FILE *f = create(dir, "program.hip");

    if (!f)
        return false;
    fprintf(f, "#line 1 \"%s\"\n%s\n#line 1 \"name expressions\"\n",
            source->program.name ? source->program.name : "program", source->program.text);
    for (size_t i = 0; i < source->nnames; i++)
        fprintf(f,
                "extern \"C\" __device__ __attribute__((used)) void *const " RTC_NAME_PREFIX
                "%zu = (void *)(%s);\n",
                i, source->names[i].expression);
    const bool written = !ferror(f);
    return fclose(f) == 0 && written;
}

/* Writes the program, its headers and the prelude to the directory. False on failure. */
static bool write_files(const char *dir, const struct rtc_source *source)
{
    char name[PATH_BYTES];

    for (size_t i = 0; i < source->nheaders; i++) {
        const struct rtc_file *h = &source->headers[i];
        if (!stays_inside(h->name) ||
            snprintf(name, sizeof(name), "include/%s", h->name) >= (int)sizeof(name) ||
            !write_text(dir, name, h->text))
            return false;
    }
    return write_text(dir, "prelude.h", prelude) && write_program(dir, source);
}

/* Returns the contents of a file, allocated with malloc(), and sets *size. NULL on failure. */
static char *read_file(const char *dir, const char *name, size_t *size)
{
    char path[PATH_BYTES];

    *size = 0;
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *f = fopen(path, "r");
    if (!f)
        return NULL;
    fseek(f, 0, SEEK_END);
    const long bytes = ftell(f);
    rewind(f);
    char *text = bytes >= 0 ? malloc((size_t)bytes + 1) : NULL;
    if (text) {
        *size = fread(text, 1, (size_t)bytes, f);
        text[*size] = 0;
    }
    fclose(f);
    return text;
}

/* Removes one file or directory; called by nftw(). */
static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

/* The functions from here on run the compiler. */

/* Runs a command with its output in the file `log`. False if it fails. */
static bool run(char *const *arguments, const char *log)
{
    posix_spawn_file_actions_t files;
    pid_t child;
    int status = -1;

    if (posix_spawn_file_actions_init(&files) != 0)
        return false;
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, 1, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&files, 1, 2);
    const bool started = posix_spawn(&child, "/bin/sh", &files, NULL, arguments, environ) == 0;
    posix_spawn_file_actions_destroy(&files);
    while (started && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return started && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Compiles the files in the directory. False if that fails. */
static bool compile_in(const char *dir, const char *arch, const char *const *options,
                       size_t noptions)
{
    char offload[100], log[PATH_BYTES + 4], number[30] = "", lanes[50];
    const struct gfx_part *part = gfx_part_find(arch, strcspn(arch, ":"));
    const struct isa *isa = part ? isa_of(part->target) : NULL; /* NULL: it is not simulated */
    const char **arguments = calloc(noptions + 10, sizeof(*arguments));
    size_t n = 0;

    if (!arguments)
        return false;
    snprintf(offload, sizeof(offload), "--offload-arch=%s", arch);
    snprintf(log, sizeof(log), "%s/log", dir);
    snprintf(lanes, sizeof(lanes), "-D__AMDGCN_WAVEFRONT_SIZE=%u", isa ? isa->lanes : 64u);
    if (isa) /* 942 is version 9.4.2, which the library has as 9402 */
        snprintf(number, sizeof(number), "%u:%u", isa->version,
                 isa->version / 100 * 1000u + isa->version / 10 % 10 * 100u + isa->version % 10);
    arguments[n++] = "sh";
    arguments[n++] = "-c";
    arguments[n++] = script;
    arguments[n++] = "sh";
    arguments[n++] = HIPSIM_CLANG;
    arguments[n++] = dir;
    arguments[n++] = number;
    arguments[n++] = offload;
    arguments[n++] = lanes;
    for (size_t i = 0; i < noptions; i++)
        arguments[n++] = options[i];
    const bool compiled = run((char *const *)(uintptr_t)arguments, log);
    free(arguments);
    return compiled;
}

/* Makes a directory in $TMPDIR, or without that in /tmp. False if that fails. */
static bool make_directory(char dir[PATH_BYTES])
{
    const char *root = getenv("TMPDIR");
    const int length =
        snprintf(dir, PATH_BYTES, "%s/hipsim-rtc-XXXXXX", root && root[0] ? root : "/tmp");

    return length < PATH_BYTES && mkdtemp(dir);
}

bool rtc_compile(const struct rtc_source *source, const char *arch, const char *const *options,
                 size_t noptions, struct rtc_result *result)
{
    char dir[PATH_BYTES];
    size_t log_size;
    bool compiled = false;

    *result = (struct rtc_result){0};
    if (!make_directory(dir)) {
        result->log =
            strdup("no temporary directory could be made in $TMPDIR or, without it, /tmp");
        return false;
    }
    if (write_files(dir, source)) {
        compiled = compile_in(dir, arch, options, noptions);
        result->log = read_file(dir, "log", &log_size);
    } else {
        result->log = strdup("the program could not be written to a temporary directory");
    }
    if (compiled)
        result->code = read_file(dir, "code", &result->code_size);
    nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    if (!result->log)
        result->log = strdup("");
    return result->code && result->log;
}
