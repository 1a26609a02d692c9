/* SPDX-License-Identifier: Apache-2.0
 *
 * Build driver. Variants are built in child processes, so that a crash of LLVM harms no other
 * variant. Each child sends a struct answer, the kernel's code and the compilation's log. The
 * driver keeps all answers and reports them in the description's order when the last has arrived.
 */
#include "compiler/driver.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "compiler/cache.h"
#include "compiler/hooks.h"
#include "compiler/parallel.h"
#include "compiler/workers.h"

/* A hook file, compiled for one target. */
struct hook {
    const char *path, *target;
    struct att_loc at;                 /* place of the field `logits` in the description */
    struct tgt_blob bitcode, messages; /* Clang's LLVM bitcode and diagnostics */
    enum attnc_hook_result result;
    int error; /* errno if Clang could not be run, else 0 */
};

/* The compilation of one variant. */
struct job {
    const struct att_variant *variant;
    struct hook *hook; /* hook that the variant uses; NULL: none */
    bool failed;
    char why[ATTNC_WHY]; /* message if it failed */
    char *log;           /* output of --print, `log_size` bytes; NULL: none */
    size_t log_size;
};

struct build {
    const struct attnc_build_options *options;
    struct attnc_build_result *result;
    bool use_cache;
    struct hook *hooks;
    size_t hook_count;
    struct job *jobs;
    size_t done;
};

/* A worker's answer for one variant. The kernel's code follows it, then the log. */
struct answer {
    bool failed, cached;
    int cache_error;
    char why[ATTNC_WHY];
    struct attnc_kernel kernel; /* code.size is valid; code.data is not, since the code follows */
    size_t log_size;
};

/* Returns the record of the hook that a variant uses, and adds it to b->hooks at the first use.
 * Returns NULL if the variant uses no hook. */
static struct hook *find_hook(struct build *b, const struct att_variant *v)
{
    if (!v->logits)
        return NULL;
    for (size_t i = 0; i < b->hook_count; i++) {
        struct hook *h = &b->hooks[i];
        if (strcmp(h->path, v->logits) == 0 && strcmp(h->target, v->target) == 0)
            return h;
    }
    struct hook *h = &b->hooks[b->hook_count++];
    *h = (struct hook){.path = v->logits, .target = v->target, .at = v->loc[ATT_LOGITS]};
    return h;
}

/* Compiles hook number `i` of the build. A body of attnc_parallel(). */
static void compile_hook(void *context, size_t i)
{
    struct build *b = context;
    struct hook *h = &b->hooks[i];
    h->result = attnc_compile_hook(h->path, h->target, &h->bitcode, &h->messages);
    h->error = h->result == ATTNC_HOOK_NO_CLANG ? errno : 0;
}

/* Compiles one variant with its hook's bitcode to `a`. Collects the output of --print in *log,
 * which the caller frees. */
static bool compile(const struct build *b, const struct att_variant *v,
                    const struct tgt_blob *bitcode, struct answer *a, char **log)
{
    FILE *out = open_memstream(log, &a->log_size);
    if (!out) {
        snprintf(a->why, sizeof(a->why), "out of memory");
        return false;
    }
    const bool good =
        b->options->compile_one(v, bitcode, &b->options->compile, out, &a->kernel, a->why);
    return fclose(out) == 0 && good;
}

/* Loads variant `i` from the cache to `a`; if the cache lacks it, compiles and stores it. `log` as
 * in compile(). */
static void build_variant(const struct build *b, size_t i, struct answer *a, char **log)
{
    static const struct tgt_blob no_bitcode;
    const struct job *job = &b->jobs[i];
    const struct tgt_blob *bitcode = job->hook ? &job->hook->bitcode : &no_bitcode;
    const char *dir = b->options->cache_dir;
    struct attnc_cache_key key;
    if (b->use_cache) {
        const uint64_t lines = b->options->compile.lines;
        key = attnc_cache_key(b->options->identity ^ lines, job->variant, bitcode);
        a->cached = attnc_cache_load(dir, &key, &a->kernel);
        if (a->cached)
            return;
    }
    a->failed = !compile(b, job->variant, bitcode, a, log);
    if (!a->failed && b->use_cache && !attnc_cache_store(dir, &key, &a->kernel))
        a->cache_error = errno;
}

/* Builds variant `i` in a worker process and writes its struct answer, code and log to `out`: see
 * attnc_workers.work. */
static void work(void *context, size_t i, FILE *out)
{
    const struct build *b = context;
    struct answer a;
    char *log = NULL;
    memset(&a, 0, sizeof(a));
    if (b->jobs[i].hook && b->jobs[i].hook->result != ATTNC_HOOK_COMPILED)
        a.failed = true;
    else
        build_variant(b, i, &a, &log);
    fwrite(&a, sizeof(a), 1, out);
    if (a.kernel.code.size)
        fwrite(a.kernel.code.data, a.kernel.code.size, 1, out);
    if (a.log_size)
        fwrite(log, a.log_size, 1, out);
    attnc_kernel_free(&a.kernel);
    free(log);
}

/* Returns a copy of `size` bytes, which the caller frees. Returns NULL if memory is exhausted, or
 * if `size` is 0. */
static void *keep(const uint8_t *bytes, size_t size)
{
    void *copy = size ? malloc(size) : NULL;
    return copy ? memcpy(copy, bytes, size) : NULL;
}

static void fail(struct job *job, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Marks a job as failed, with a message. */
static void fail(struct job *job, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(job->why, sizeof(job->why), format, arguments);
    va_end(arguments);
    job->failed = true;
}

/* Moves a worker's answer `a` about variant `i` to its job and to the build's result. `rest` has
 * the bytes after the answer: the code, then the log. */
static void read_answer(struct build *b, size_t i, const struct answer *a, const uint8_t *rest)
{
    struct job *job = &b->jobs[i];
    struct attnc_kernel *kernel = &b->result->kernels[i];
    const size_t code = a->kernel.code.size;
    job->failed = a->failed;
    snprintf(job->why, sizeof(job->why), "%s", a->why);
    job->log_size = a->log_size;
    job->log = keep(rest + code, a->log_size);
    if (!a->failed) {
        *kernel = a->kernel;
        kernel->code.data = keep(rest, code);
    }
    if ((code && !a->failed && !kernel->code.data) || (a->log_size && !job->log)) {
        attnc_kernel_free(kernel);
        job->log_size = 0;
        fail(job, "out of memory");
    }
    b->result->cached += a->cached;
    if (!b->result->cache_error)
        b->result->cache_error = a->cache_error;
}

/* Marks a job as failed because its worker died of `signal`. Linux sends SIGKILL when memory runs
 * out. */
static void fail_by_signal(struct job *job, int signal)
{
    if (signal == SIGKILL)
        fail(job,
             "the compiler died of signal 9 at this kernel, by which Linux ends processes where "
             "memory runs out: fewer jobs (-j 1) take less");
    else
        fail(job,
             "the compiler died of signal %d (%s) at this kernel: an error of attnc; please report "
             "it with the description",
             signal, strsignal(signal));
}

/* Records the result of variant `i` and reports progress. The parameters are those that
 * attnc_workers.done receives. */
static void finish(void *context, size_t i, const uint8_t *result, size_t size, int status)
{
    struct build *b = context;
    struct job *job = &b->jobs[i];
    struct answer a = {0};
    if (result && size >= sizeof(a)) {
        memcpy(&a, result, sizeof(a));
        read_answer(b, i, &a, result + sizeof(a));
    } else if (WIFSIGNALED(status)) {
        fail_by_signal(job, WTERMSIG(status));
    } else if (status) {
        fail(job, "the compiler ended with status %d at this kernel: an error of attnc",
             WEXITSTATUS(status));
    } else {
        fail(job, "out of memory: fewer jobs (-j 1) or a larger limit (ulimit -v) help");
    }
    b->result->failed += job->failed;
    b->done++;
    if (!b->options->progress)
        return;
    char name[ATT_NAME_MAX];
    att_variant_name(job->variant, name);
    b->options->progress(b->options->user, &(struct attnc_progress){.done = b->done,
                                                                    .total = b->result->count,
                                                                    .name = name,
                                                                    .cached = a.cached,
                                                                    .failed = job->failed});
}

/* Reports the hooks that Clang has rejected, and Clang's warnings about other hooks. */
static void report_hooks(struct build *b, struct attnc_diag *d)
{
    for (size_t i = 0; i < b->hook_count; i++) {
        const struct hook *h = &b->hooks[i];
        const char *messages = h->messages.data ? (const char *)h->messages.data : "";
        if (h->result == ATTNC_HOOK_NO_CLANG)
            attnc_diag_error(d, h->at, "cannot run %s: %s", ATTNC_CLANG, strerror(h->error));
        else if (h->result == ATTNC_HOOK_REJECTED)
            attnc_diag_error(d, h->at, "%s does not compile for %s", h->path, h->target);
        else if (*messages)
            attnc_diag_warning(d, h->at, "%s, compiled for %s", h->path, h->target);
        if (*messages)
            attnc_diag_attach(d, messages);
    }
}

/* Reports the spills of the kernel of variant `i`. A kernel that spills is correct but slow, so
 * this is a warning. More spilled VGPRs than the target's limit are an error. Scratch memory is
 * reported too: indexed arrays occupy it without spills. */
static void report_spills(struct build *b, size_t i, struct attnc_diag *d)
{
    struct attnc_kernel *k = &b->result->kernels[i];
    const struct tgt_kernel_facts *f = &k->facts;
    const struct att_loc at = b->jobs[i].variant->at;
    const unsigned most = tgt_find(b->jobs[i].variant->target)->most_spills;
    if (!f->vgpr_spills && !f->sgpr_spills && !f->scratch_bytes)
        return;
    char text[ATT_NAME_MAX + 160];
    snprintf(text, sizeof(text),
             "%s spills %u vector and %u scalar registers and takes %u bytes of scratch memory a "
             "lane",
             k->name, f->vgpr_spills, f->sgpr_spills, f->scratch_bytes);
    if (f->vgpr_spills > most)
        attnc_diag_error(d, at, "%s: on %s at most %u may spill", text,
                         tgt_find(b->jobs[i].variant->target)->machine.name, most);
    else if (b->options->spills_are_errors)
        attnc_diag_error(d, at, "%s", text);
    else
        attnc_diag_warning(d, at, "%s", text);
}

/* Reports the messages of all hooks, then log, spills and failure of each variant, in the
 * description's order. */
static void report(struct build *b, struct attnc_diag *d)
{
    report_hooks(b, d);
    for (size_t i = 0; i < b->result->count; i++) {
        const struct job *job = &b->jobs[i];
        if (b->options->log && job->log_size)
            fwrite(job->log, 1, job->log_size, b->options->log);
        if (!job->failed)
            report_spills(b, i, d);
        if (!job->failed || (job->hook && job->hook->result != ATTNC_HOOK_COMPILED))
            continue;
        char name[ATT_NAME_MAX];
        att_variant_name(job->variant, name);
        /* A variant that fails with a hook is reported at its field `logits`, since the hook is the
         * user's own part. */
        const struct att_variant *v = job->variant;
        attnc_diag_error(d, job->hook ? v->loc[ATT_LOGITS] : v->at, "%s: %s", name, job->why);
    }
}

/* True if kernels of this build may be loaded from the cache and stored there. They must be linked,
 * by all passes, without printed IR. */
static bool is_cacheable(const struct attnc_build_options *o)
{
    const struct attnc_compile_options *c = &o->compile;
    return o->cache_dir && c->stage == ATTNC_STAGE_LINKED && !c->print && !c->stop_after &&
           !c->disable;
}

bool attnc_build(const struct attnc_description *desc, const struct attnc_build_options *options,
                 struct attnc_build_result *result, struct attnc_diag *d)
{
    *result = (struct attnc_build_result){.count = desc->count};
    struct build b = {.options = options, .result = result, .use_cache = is_cacheable(options)};
    size_t errors = d->errors;
    result->kernels = calloc(desc->count, sizeof(*result->kernels));
    b.jobs = calloc(desc->count, sizeof(*b.jobs));
    b.hooks = calloc(desc->count, sizeof(*b.hooks));
    if (!result->kernels || !b.jobs || !b.hooks) {
        result->count = 0;
        attnc_diag_no_memory(d);
        goto out;
    }
    for (size_t i = 0; i < desc->count; i++) {
        b.jobs[i].variant = &desc->variants[i];
        b.jobs[i].hook = find_hook(&b, &desc->variants[i]);
    }
    attnc_parallel(options->jobs, b.hook_count, compile_hook, &b);
    attnc_run_workers(options->jobs, desc->count,
                      &(struct attnc_workers){.context = &b, .work = work, .done = finish});
    report(&b, d);
out:
    for (size_t i = 0; b.jobs && i < desc->count; i++)
        free(b.jobs[i].log);
    for (size_t i = 0; i < b.hook_count; i++) {
        tgt_blob_free(&b.hooks[i].bitcode);
        tgt_blob_free(&b.hooks[i].messages);
    }
    free(b.jobs);
    free(b.hooks);
    return d->errors == errors && !d->no_memory;
}

void attnc_build_result_free(struct attnc_build_result *r)
{
    for (size_t i = 0; i < r->count; i++)
        attnc_kernel_free(&r->kernels[i]);
    free(r->kernels);
    *r = (struct attnc_build_result){0};
}
