/* SPDX-License-Identifier: Apache-2.0
 *
 * This file verifies the candidates that have won, each in a child process.
 */
#include <string.h>

#include "tools/attnc/cli/child_call.h"
#include "tools/attnc/cli/command.h"
#include "tools/attnc/cli/progress.h"
#include "tools/attnc/tune/tune.h"
#include "tools/verify/verify.h"

/* The arguments of call_verify(). */
struct verify_call {
    const struct tune_key *key;
    /* Index of the candidate; shapes to verify, 0: all. */
    size_t candidate, shapes;
    /* Directory of the users' logits functions; NULL: none. */
    const char *hooks;
};

/* Reports a verified shape only if it failed. */
static void ignore_row(const struct verify_run *run, const struct verify_row *row)
{
    (void)run;
    if (row->fault[0])
        complain(EXIT_USER, "%s: %s", row->shape, row->fault);
}

/* Verifies a candidate on the simulator, in a child process. `context` is a struct verify_call;
 * fills the struct tune_verdict `answer`. Returns an exit_code. */
static int call_verify(void *context, void *answer)
{
    const struct verify_call *c = context;
    struct attn_pack *pack = tune_open_candidate(c->key, c->candidate);
    struct attn_kernel_info info = {.size = sizeof(info)};
    char simulator[4096], why[600];
    struct gpu gpu;
    if (!pack || attn_pack_kernel(pack, 0, &info))
        return complain(EXIT_ENVIRONMENT, "no pack: %s", attn_last_error());
    if (!gpu_find_simulator(simulator, sizeof(simulator)))
        return complain(EXIT_ENVIRONMENT, "the simulator is not installed beside attnc");
    const struct gpu_choice choice = {
        .target = info.target, .simulator = simulator, .checks = "on"};
    if (!gpu_open(&gpu, &choice, pack, why, sizeof(why)))
        return complain(EXIT_ENVIRONMENT, "%s", why);
    struct verify_run run = {
        .pack = pack, .gpu = &gpu, .seed = 1, .print = ignore_row, .hooks = c->hooks};
    verify_kernel(&run, 0, &info, c->shapes);
    *(struct tune_verdict *)answer =
        (struct tune_verdict){.shapes = (int64_t)run.rows, .worst = run.worst};
    return run.failures ? EXIT_USER : EXIT_GOOD;
}

/* Verifies a candidate and sets *v, without looking into the database. Returns false if the budget
 * ended before the result. */
static bool verify_now(const struct tune_sweep *sweep, const struct tune_key *key,
                       const struct tune_candidate *c, struct tune_verdict *v)
{
    struct verify_call call = {key, (size_t)(c - key->candidates), sweep->verify_shapes,
                               sweep->hooks};
    char fault[200], step[ATT_NAME_MAX + 64];
    if (tune_is_late(sweep))
        return false;
    snprintf(step, sizeof(step), "key %zu of %zu: verify %s", sweep->place, sweep->key_count,
             c->kernel->name);
    show_progress(0, 1, step);
    const bool right =
        child_call(call_verify, &call, v, sizeof(*v), tune_launch_patience(sweep), fault);
    clear_progress();
    if (right)
        return true;
    *v = (struct tune_verdict){0};
    memcpy(v->fault, fault, sizeof(fault));
    return !tune_is_late(sweep);
}

enum tune_verdict_kind tune_verify(struct tune_sweep *sweep, struct tune_key *key,
                                   struct tune_candidate *c)
{
    struct tune_verdict v = {0};
    char device[160];
    tune_name_device(key, sweep->parameters, device);
    struct tune_id id = {key->text, device, "", c->tile, c->source};
    const bool known = tune_db_find_verdict(sweep->db, &id, &v) &&
                       (v.fault[0] || (size_t)v.shapes >= sweep->verify_shapes);
    if (!known && !verify_now(sweep, key, c, &v)) {
        c->dropped = "not verified: the budget is spent";
        key->left++;
        key->whole = false;
        return TUNE_UNVERIFIED;
    }
    /* Without its C file, a logits function's verdict says nothing about the kernel. */
    if (!known && (!key->variant.logits || sweep->hooks))
        tune_db_put_verdict(sweep->db, &id, &v);
    if (!v.fault[0])
        return TUNE_RIGHT;
    c->dropped = "its results are wrong";
    sweep->wrong++;
    complain(EXIT_USER, "warning: %s is out of the race: %s", c->kernel->name, v.fault);
    return TUNE_WRONG;
}
