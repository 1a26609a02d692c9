/* SPDX-License-Identifier: Apache-2.0
 *
 * The build driver. Workers share nothing but the counters under one lock; whatever they have to
 * say is kept with their variant and reported in order when all are done.
 */
#include "compiler/driver.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/cache.h"
#include "compiler/hooks.h"
#include "compiler/parallel.h"

/* A hook file for one target. */
struct hook {
    const char *path, *target;
    struct att_loc at;
    struct tgt_blob bitcode, messages;
    enum attnc_hook_result result;
    int error;
};

struct job {
    const struct att_variant *variant;
    struct hook *hook; /* NULL: none */
    bool failed;
    char why[ATTNC_WHY];
    char *log;
    size_t log_size;
};

struct build {
    const struct attnc_build_options *options;
    struct attnc_build_result *result;
    bool use_cache;
    struct hook *hooks;
    size_t hook_count;
    struct job *jobs;
    pthread_mutex_t lock; /* progress, result's counters, `done` */
    size_t done;
};

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

static void compile_hook(void *context, size_t i)
{
    struct build *b = context;
    struct hook *h = &b->hooks[i];
    h->result = attnc_compile_hook(h->path, h->target, &h->bitcode, &h->messages);
    h->error = h->result == ATTNC_HOOK_NO_CLANG ? errno : 0;
}

static bool compile(struct build *b, struct job *job, const struct tgt_blob *bitcode,
                    struct attnc_kernel *kernel)
{
    FILE *log = open_memstream(&job->log, &job->log_size);
    if (!log) {
        snprintf(job->why, sizeof(job->why), "out of memory");
        return false;
    }
    bool good =
        b->options->compile_one(job->variant, bitcode, &b->options->compile, log, kernel, job->why);
    fclose(log);
    return good;
}

/* Tells of one variant that is done. */
static void finish(struct build *b, struct job *job, bool cached, int cache_error)
{
    struct attnc_build_result *r = b->result;
    pthread_mutex_lock(&b->lock);
    r->cached += cached;
    r->failed += job->failed;
    if (!r->cache_error)
        r->cache_error = cache_error;
    b->done++;
    if (b->options->progress) {
        char name[ATT_NAME_MAX];
        att_variant_name(job->variant, name);
        b->options->progress(b->options->user, &(struct attnc_progress){.done = b->done,
                                                                        .total = r->count,
                                                                        .name = name,
                                                                        .cached = cached,
                                                                        .failed = job->failed});
    }
    pthread_mutex_unlock(&b->lock);
}

static void build_variant(void *context, size_t i)
{
    static const struct tgt_blob no_bitcode;
    struct build *b = context;
    struct job *job = &b->jobs[i];
    struct attnc_kernel *kernel = &b->result->kernels[i];
    if (job->hook && job->hook->result != ATTNC_HOOK_COMPILED) {
        job->failed = true;
        finish(b, job, false, 0);
        return;
    }
    const struct tgt_blob *bitcode = job->hook ? &job->hook->bitcode : &no_bitcode;
    const char *dir = b->options->cache_dir;
    struct attnc_cache_key key;
    if (b->use_cache) {
        key = attnc_cache_key(b->options->identity, job->variant, bitcode);
        if (attnc_cache_load(dir, &key, kernel)) {
            finish(b, job, true, 0);
            return;
        }
    }
    job->failed = !compile(b, job, bitcode, kernel);
    int error = 0;
    if (!job->failed && b->use_cache && !attnc_cache_store(dir, &key, kernel))
        error = errno;
    finish(b, job, false, error);
}

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

static void report(struct build *b, struct attnc_diag *d)
{
    report_hooks(b, d);
    for (size_t i = 0; i < b->result->count; i++) {
        const struct job *job = &b->jobs[i];
        if (b->options->log && job->log_size)
            fwrite(job->log, 1, job->log_size, b->options->log);
        if (!job->failed || (job->hook && job->hook->result != ATTNC_HOOK_COMPILED))
            continue;
        char name[ATT_NAME_MAX];
        att_variant_name(job->variant, name);
        attnc_diag_error(d, job->variant->at, "%s: %s", name, job->why);
    }
}

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
    pthread_mutex_init(&b.lock, NULL);
    attnc_parallel(options->jobs, b.hook_count, compile_hook, &b);
    attnc_parallel(options->jobs, desc->count, build_variant, &b);
    pthread_mutex_destroy(&b.lock);
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
