/* SPDX-License-Identifier: Apache-2.0
 *
 * The pass driver: runs the table, and between passes prints, verifies and round-trips.
 */
#include "ir/passes.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "ir/arena.h"
#include "ir/print.h"

#define PASS(name, requires_, keeps, description) \
    {#name, description, TIR_PASS_##requires_, TIR_PASS_##keeps, tir_##name},
const struct tir_pass tir_passes[] = {
#include "ir/passes.def"
};
#undef PASS
const unsigned tir_n_passes = sizeof(tir_passes) / sizeof(tir_passes[0]);

/* True if the pass may not be disabled, which its name shows by the prefix lower_. */
static bool is_required(const char *name) { return !strncmp(name, "lower_", 6); }

/* Returns the pass with the name of `n` characters, or NULL. */
static const struct tir_pass *find_pass(const char *name, size_t n)
{
    for (unsigned i = 0; i < tir_n_passes; i++)
        if (strlen(tir_passes[i].name) == n && !memcmp(tir_passes[i].name, name, n))
            return &tir_passes[i];
    return NULL;
}

/* True if `name` is in the comma-separated list. */
static bool listed(const char *list, const char *name)
{
    const size_t n = strlen(name);
    while (list && *list) {
        const size_t k = strcspn(list, ",");
        if (k == n && !memcmp(list, name, n))
            return true;
        list += k + (list[k] == ',');
    }
    return false;
}

/* True if a pass has that name; else writes a message about `option` to `why`. */
static bool names_a_pass(const char *option, const char *name, size_t n, char why[128])
{
    if (find_pass(name, n))
        return true;
    snprintf(why, 128, "%s: there is no pass \"%.*s\"", option, n > 64 ? 64 : (int)n, name);
    return false;
}

/* True if all passes that the options name exist; else writes a message to `why`. */
static bool check_options(const struct tir_pass_options *o, char why[128])
{
    if (o->print && strcmp(o->print, "all") &&
        !names_a_pass("print", o->print, strlen(o->print), why))
        return false;
    if (o->stop_after && !names_a_pass("stop-after", o->stop_after, strlen(o->stop_after), why))
        return false;
    for (const char *list = o->disable; list && *list;) {
        const size_t n = strcspn(list, ",");
        if (!names_a_pass("disable", list, n, why))
            return false;
        if (is_required(list)) {
            snprintf(why, 128, "disable: %.*s is required", (int)n, list);
            return false;
        }
        list += n + (list[n] == ',');
    }
    return true;
}

/* Prints a problem found after a pass and aborts. */
static void show_and_abort(const char *problem, const char *after, FILE *out)
{
    fprintf(out, "// %s after %s\n", problem, after);
    fflush(out);
    abort();
}

/* Returns the printed function, of `*size` bytes; the caller frees it. */
static char *text_of(const struct tir_func *f, size_t *size)
{
    char *text = NULL;
    FILE *const out = tir_checked(open_memstream(&text, size));
    tir_print(f, out);
    fclose(out);
    return tir_checked(text);
}

/* Prints, parses and prints the function again; aborts if the texts differ. */
static void round_trip(const struct tir_func *f, const char *after, FILE *out)
{
    size_t size, again_size;
    char error[256];
    char *const text = text_of(f, &size);
    struct tir_func *const parsed = tir_parse(text, size, f->machine, error);
    if (!parsed) {
        fputs(text, out);
        show_and_abort(error, after, out);
    }
    char *const again = text_of(parsed, &again_size);
    if (strcmp(text, again)) {
        fprintf(out, "%s// reads back as\n%s", text, again);
        show_and_abort("the printed form does not read back", after, out);
    }
    free(text);
    free(again);
    tir_func_destroy(parsed);
}

/* Verifies the function after the pass `after` if asserts are enabled. With the option round_trip
 * it also prints and parses it. */
static void inspect(const struct tir_func *f, const char *after, const struct tir_pass_options *o)
{
    FILE *const out = o->out ? o->out : stderr;
#ifndef NDEBUG
    if (!tir_verify(f, after, out)) {
        fflush(out);
        abort();
    }
#endif
    if (o->round_trip)
        round_trip(f, after, out);
}

#ifndef NDEBUG
/* Properties that a pass may keep; each is computed as a number. See enum tir_pass_order. */
enum { BRANCHES, WRITES, EFFECTS, N_PROPERTIES };
struct fingerprint {
    const struct tir_func *f;
    uint64_t of[N_PROPERTIES];
};

/* Mixes `word` into `*hash`. */
static void mix(uint64_t *hash, uint64_t word) { *hash = (*hash ^ word) * 0x100000001b3u; }

/* Adds an op of the walk to the hashes of the kinds of ops that it belongs to. */
static bool note_op(void *context, struct tir_block *b, struct tir_ref r)
{
    struct fingerprint *const p = context;
    const struct tir_op *const op = tir_op(p->f, r);
    const unsigned flags = tir_ops[op->opcode].flags;
    uint64_t word = op->opcode;
    for (; b->owner.id; b = b->parent)
        word += 256;
    if (op->blocks[0])
        mix(&p->of[BRANCHES], word);
    if (op->opcode == TIR_wait || op->opcode == TIR_wait_tensor)
        word += TIR_waitcnt - op->opcode; /* lower_waits turns `wait` into the others */
    if (flags & (TIR_WRITES | TIR_FENCE) && op->opcode != TIR_yield && op->opcode != TIR_anchor)
        mix(&p->of[WRITES], word);
    if (!(flags & TIR_PURE))
        mix(&p->of[EFFECTS], word);
    return false;
}

/* Returns the hashes of the function's ops by kind, to see what a pass changed. */
static struct fingerprint fingerprint(const struct tir_func *f)
{
    struct fingerprint p = {.f = f};
    tir_walk(f, f->body, note_op, &p);
    return p;
}
#endif

/* Runs a pass. If asserts are enabled, checks that it kept what its row promises. */
static void run(struct tir_func *f, const struct tir_pass *pass, const struct tir_schedule *s)
{
    assert(pass->requires_ != TIR_PASS_tiles || !f->lowered);
    assert(pass->requires_ != TIR_PASS_registers || f->lowered);
#ifndef NDEBUG
    const struct fingerprint before = fingerprint(f);
#endif
    pass->run(f, s);
#ifndef NDEBUG
    const struct fingerprint after = fingerprint(f);
    for (int i = 0; i < N_PROPERTIES; i++)
        if (pass->keeps >> i & 1 && before.of[i] != after.of[i])
            show_and_abort("the order that it should keep is another", pass->name, stderr);
#endif
}

bool tir_run_passes(struct tir_func *f, const struct tir_pass_options *o, char why[128])
{
    if (!check_options(o, why))
        return false;
    if (!tir_verify(f, "building", o->out ? o->out : stderr)) {
        snprintf(why, 128, "%.64s breaks a rule of the tile IR: a bug of its template", f->name);
        return false;
    }
    if (o->round_trip)
        round_trip(f, "building", o->out ? o->out : stderr);
    if (o->observe)
        o->observe(o->context, NULL, f);
    for (unsigned i = 0; i < tir_n_passes; i++) {
        const struct tir_pass *const pass = &tir_passes[i];
        if (listed(o->disable, pass->name))
            continue;
        if (o->tiles && pass->requires_ == TIR_PASS_tiles) {
            free(*o->tiles);
            *o->tiles = tir_checked(tir_number_lines(f, o->tiles_size));
        }
        run(f, pass, o->schedule);
        if (o->print && o->out && (!strcmp(o->print, "all") || !strcmp(o->print, pass->name))) {
            fprintf(o->out, "// after %s\n", pass->name);
            tir_print(f, o->out);
        }
        inspect(f, pass->name, o);
        if (o->observe)
            o->observe(o->context, pass->name, f);
        if (o->stop_after && !strcmp(o->stop_after, pass->name))
            break;
    }
    return true;
}
