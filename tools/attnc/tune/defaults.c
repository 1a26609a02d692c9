/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc tune --defaults: fits the knobs of a target that no rule decides, in a table with a row for
 * a class of kernels. A row is kept if its gain exceeds its loss. The gain is with the timing
 * model's open parameters in the middle of their ranges. The loss is the worst at any corner of
 * these ranges. So a number that only suits the middle does not get in.
 * The trap: a gain is measured against the table without the row. Rows that are added later may
 * give the same kernels another value of the knob.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/fitted.h"
#include "targets/tgt.h"
#include "tools/attnc/cli/command.h"
#include "tools/attnc/cli/output.h"
#include "tools/attnc/tune/tune.h"

/* Bytes of the text of a corner's parameters. */
enum { CORNER_TEXT = 2048 };

/* Gains below this, in %, are not worth a row. */
static const double LEAST_GAIN = 0.2;

/* The fit of a target's table. */
struct fit {
    struct tune_sweep *sweep;
    /* The table that is fitted. */
    struct attnc_fitted *table;
    const struct tune_fit_options *o;
    /* Texts of parameters, in the form of --parameters: o->corners of them, owned. */
    char (*corners)[CORNER_TEXT];
    /* Copies of the table that were tried, owned. Candidates point to their rows until the fit
     * ends. */
    struct attnc_fitted *tables;
    size_t table_count;
    bool broken; /* out of memory, or the database cannot be written */
};

/* The effect of a row on the mean time of the kernels that it changes, in %: with the model's
 * parameters at their middle, and at the worst and the best corner. */
struct outcome {
    double gain, low, high;
    /* Number of kernels that the row gives another tile. */
    size_t kernels;
};

/* The functions from here on add the kernels of a description to the sweep. */

/* True if libattn chooses variant `i` of the description for the shape. */
static bool is_taken(const struct attnc_description *d, size_t i, const struct tune_shape *s)
{
    const struct att_variant *const v = &d->variants[i];
    char own[ATT_TEXT_MAX], other[ATT_TEXT_MAX];
    if (v->choice && v->choice->count)
        return tune_takes(v->choice, s);
    attnc_key_text(v, own);
    for (size_t k = 0; k < d->count; k++) {
        attnc_key_text(&d->variants[k], other);
        if (!strcmp(own, other) && tune_takes(d->variants[k].choice, s))
            return false;
    }
    return true;
}

/* Adds variant `i` of a description as a key of the sweep, with the last shape for which libattn
 * chooses it. Returns false if memory is exhausted. */
static bool add_kernel(struct tune_sweep *sweep, const struct attnc_description *d, size_t i,
                       const struct tune_shapes *shapes)
{
    struct tune_key key = {.variant = d->variants[i], .own_count = 1};
    attnc_key_text(&key.variant, key.text);
    key.variant.choice = NULL;
    if (!tune_choose_shapes(shapes, NULL, 0, &key))
        return false;
    size_t taken = key.shape_count;
    while (taken && !is_taken(d, i, &key.shapes[taken - 1]))
        taken--;
    if (taken)
        key.shapes[0] = key.shapes[taken - 1];
    key.shape_count = taken > 0;
    /* In other sweeps candidate 0 is the plain build's kernel. Here it is a placeholder. */
    key.candidates = calloc(1, sizeof(*key.candidates));
    struct tune_key *const grown =
        realloc(sweep->keys, (sweep->key_count + 1) * sizeof(*sweep->keys));
    if (grown)
        sweep->keys = grown;
    if (!grown || !key.candidates) {
        free(key.candidates);
        free(key.shapes);
        return false;
    }
    key.candidates[0] = (struct tune_candidate){.tried = true, .dropped = "no kernel"};
    key.candidate_count = 1;
    grown[sweep->key_count++] = key;
    return true;
}

bool tune_fit_add(struct tune_sweep *sweep, const struct attnc_description *desc,
                  const struct tune_shapes *shapes)
{
    for (size_t i = 0; i < desc->count; i++)
        if (desc->variants[i].op->n_fitted && !add_kernel(sweep, desc, i, shapes))
            return false;
    return true;
}

/* The functions from here on make corners of the ranges of the model's open parameters. */

/* Returns the next number of a xorshift generator, and updates *state. */
static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Makes the corners of the ranges of the target's open parameters. Corner 0 has all at the low end,
 * corner 1 all at the high end; the others are random. Returns false if memory is exhausted. */
static bool make_corners(struct fit *f, const char *target)
{
    uint64_t state = 0x9e3779b97f4a7c15u ^ f->o->seed;
    f->corners = calloc(f->o->corners + 1, sizeof(*f->corners));
    for (unsigned c = 0; f->corners && c < f->o->corners; c++) {
        size_t at = 0;
        for (const struct tgt_parameter *p = tgt_find(target)->parameters; p->name; p++) {
            if (p->tag != TGT_TAG_U || p->low >= p->high)
                continue;
            const bool high = c < 2 ? c : next_random(&state) >> 40 & 1;
            at += (size_t)snprintf(f->corners[c] + at, CORNER_TEXT - at, "%s%s=%g", at ? "," : "",
                                   p->name, high ? p->high : p->low);
        }
    }
    return f->corners;
}

/* The functions from here on make the candidates that tables of fitted rows give. */

enum { NOWHERE = -1 }; /* argument `at` for a row that is not in the table */

/* Returns a copy of the table's rows, which lives until the fit ends. In it row `at` is replaced by
 * `row`, or left out if `row` is NULL. If `at` is NOWHERE, `row`, unless NULL, is added at the end.
 * Returns NULL if memory is exhausted. */
static const struct tir_fitted *copy_table(struct fit *f, int at, const struct tir_fitted *row)
{
    struct attnc_fitted *const grown =
        realloc(f->tables, (f->table_count + 1) * sizeof(*f->tables));
    if (!grown) {
        f->broken = true;
        return NULL;
    }
    f->tables = grown;
    struct attnc_fitted *const copy = &grown[f->table_count++];
    *copy = (struct attnc_fitted){.rows = calloc(1, sizeof(*copy->rows))};
    for (size_t i = 0; i < f->table->count && !f->broken; i++) {
        const struct tir_fitted *const taken = (int)i == at ? row : &f->table->rows[i];
        f->broken = !copy->rows || (taken && !attnc_fitted_add(copy, copy->count, taken));
    }
    if (at == NOWHERE && row && !f->broken)
        f->broken = !attnc_fitted_add(copy, copy->count, row);
    return f->broken ? NULL : copy->rows;
}

/* Returns the number of the candidate with the tile that the key gets under a table of fitted rows;
 * adds it if it is new. Returns 0 if no tile fits or memory is exhausted. */
static size_t find_candidate(struct fit *f, struct tune_key *key, const struct tir_fitted *rows)
{
    struct tune_candidate c = {.variant = key->variant};
    struct att_tile tile;
    c.variant.fitted = rows;
    if (!att_find_tile(&c.variant, &tgt_find(c.variant.target)->machine, &tile, NULL))
        return 0;
    att_tile_text(c.variant.op, &tile, c.tile);
    for (size_t i = 1; i < key->candidate_count; i++)
        if (!strcmp(key->candidates[i].tile, c.tile))
            return i;
    struct tune_candidate *const grown =
        realloc(key->candidates, (key->candidate_count + 1) * sizeof(*grown));
    if (!grown) {
        f->broken = true;
        return 0;
    }
    key->candidates = grown;
    grown[key->candidate_count] = c;
    return key->candidate_count++;
}

/* Compiles the candidate. True if it is not candidate 0 and compiles without spills. */
static bool is_ready(struct fit *f, struct tune_key *key, size_t candidate)
{
    f->broken = !tune_compile(f->sweep, key, candidate, candidate + 1) || f->broken;
    return !f->broken && candidate && key->candidates[candidate].kernel &&
           !key->candidates[candidate].dropped;
}

/* The functions from here on compute the gains of rows. */

/* A kernel that a row changes. */
struct pair {
    struct tune_key *key;
    /* Candidates without the row and with it. */
    size_t base, trial;
};

/* The kernels that a row changes. `list` has the ones that can be timed. */
struct pairs {
    struct pair *list;
    size_t count;
    /* A key whose kernel cannot be built without the row, or with it; NULL: there is none. */
    const struct tune_key *base_fails, *trial_fails;
};

/* Finds the kernels to which the tables `base` and `trial` give different tiles, and compiles both
 * tiles. Returns false if memory is exhausted. */
static bool find_pairs(struct fit *f, const struct tir_fitted *base, const struct tir_fitted *trial,
                       struct pairs *p)
{
    *p = (struct pairs){.list = calloc(f->sweep->key_count + 1, sizeof(*p->list))};
    f->broken = f->broken || !p->list;
    for (size_t k = 0; k < f->sweep->key_count && !f->broken; k++) {
        struct tune_key *const key = &f->sweep->keys[k];
        if (!key->shape_count)
            continue;
        const size_t a = find_candidate(f, key, base), b = find_candidate(f, key, trial);
        if (a == b)
            continue;
        f->sweep->place = k + 1;
        const bool base_good = is_ready(f, key, a), trial_good = is_ready(f, key, b);
        if (!base_good && !trial_good)
            continue; /* under both tables the plain build has to take another tile */
        p->base_fails = base_good ? p->base_fails : key;
        p->trial_fails = trial_good ? p->trial_fails : key;
        if (base_good && trial_good)
            p->list[p->count++] = (struct pair){key, a, b};
    }
    return !f->broken;
}

/* Times the two candidates of each pair with each of `count` texts of parameters. The result has
 * the pairs' values for the first text, base before trial, then for the next text; the caller frees
 * it. It is NULL if memory is exhausted. */
static struct tune_value *time_pairs(struct fit *f, const struct pairs *p,
                                     const char *const parameters[], size_t count)
{
    const size_t n = 2 * p->count * count;
    struct tune_value *const values = calloc(n + 1, sizeof(*values));
    struct tune_item *const items = calloc(n + 1, sizeof(*items));
    f->broken = f->broken || !values || !items;
    for (size_t i = 0; i < n && !f->broken; i++) {
        const struct pair *const pair = &p->list[i / 2 % p->count];
        items[i] = (struct tune_item){pair->key, i % 2 ? pair->trial : pair->base, 0,
                                      parameters[i / 2 / p->count], &values[i]};
    }
    f->broken = f->broken || !tune_time_items(f->sweep, items, n);
    free(items);
    return values;
}

/* Returns 100 times the natural logarithm of the first time over the second, the gain of the second
 * in %. Returns -INFINITY if a time is missing. */
static double gain_of(const struct tune_value pair[2])
{
    return pair[0].us > 0 && pair[1].us > 0 ? 100 * log(pair[0].us / pair[1].us) : -INFINITY;
}

/* Sets gains[c] to the mean gain in % of all pairs with the parameters in parameters[c], for each c
 * below `count`. */
static void find_gains(struct fit *f, const struct pairs *p, const char *const parameters[],
                       size_t count, double *gains)
{
    struct tune_value *const values = time_pairs(f, p, parameters, count);
    for (size_t c = 0; c < count; c++) {
        gains[c] = 0;
        for (size_t i = 0; i < p->count && !f->broken; i++)
            gains[c] += gain_of(&values[2 * (c * p->count + i)]) / (double)p->count;
    }
    free(values);
}

/* True if a row is worth keeping: it changes a kernel, gains at least LEAST_GAIN, and gains more
 * than it loses at the worst corner. */
static bool is_kept(const struct outcome *o)
{
    return o->kernels && o->gain >= LEAST_GAIN && o->gain > -o->low;
}

/* Gain in % that counts for a kernel which spills registers without the row and not with it. */
static const double BUILT_GAIN = 100;

/* Sets o->low and o->high to the least and the largest gain at the corners. */
static void try_corners(struct fit *f, const struct pairs *p, struct outcome *o)
{
    const char *parameters[TUNE_FIT_CORNERS];
    double gains[TUNE_FIT_CORNERS];
    for (unsigned c = 0; c < f->o->corners; c++)
        parameters[c] = f->corners[c];
    find_gains(f, p, parameters, f->o->corners, gains);
    for (unsigned c = 0; c < f->o->corners; c++) {
        o->low = fmin(o->low, gains[c]);
        o->high = fmax(o->high, gains[c]);
    }
}

/* Returns the effect of table `trial` against `base`. Corners are tried only if the gain at the
 * middle is worth it. */
static struct outcome compare(struct fit *f, const struct tir_fitted *base,
                              const struct tir_fitted *trial)
{
    struct pairs p = {0};
    struct outcome o = {0};
    if (find_pairs(f, base, trial, &p)) {
        o.kernels = p.count + (p.base_fails != NULL);
        if (p.trial_fails || p.base_fails)
            o.gain = p.trial_fails ? -INFINITY : BUILT_GAIN;
        else
            find_gains(f, &p, &f->sweep->parameters, 1, &o.gain);
        o.low = o.high = o.gain;
    }
    if (o.gain >= LEAST_GAIN && !p.base_fails && !f->broken)
        try_corners(f, &p, &o);
    free(p.list);
    return o;
}

/* The functions from here on fit rows of the table. */

/* Prints a row with its verdict, its gain, and the least and the largest gain at corners. */
static void print_row(const char *verdict, const struct tir_fitted *row, const struct outcome *o)
{
    printf("%-8s %7.2f  %7.2f %7.2f  %3zu  %s: %s %d\n", verdict, o->gain, o->low, o->high,
           o->kernels, row->kernels, row->knob, row->value);
    fflush(stdout);
}

/* Tries the values of the row's knob, its present one first, and sets the one that gains most among
 * those worth keeping. `at` is its place in the table; NOWHERE: it is new. `knob` NULL: only the
 * present value is tried. Returns false if none is worth keeping. */
static bool fit_value(struct fit *f, int at, struct tir_fitted *row, const struct att_knob *knob)
{
    const struct tir_fitted *const base = copy_table(f, at, NULL);
    struct tir_fitted trial = *row, best = *row;
    struct outcome own = {0}, most = {0};
    bool kept = false;
    for (int i = -1; i < (knob ? knob->count : 0) && !f->broken; i++) {
        trial.value = i < 0 ? row->value : knob->values[i];
        if (trial.value < 0 || (i >= 0 && trial.value == row->value))
            continue;
        const struct outcome o = compare(f, base, copy_table(f, at, &trial));
        own = i < 0 ? o : own;
        if (!is_kept(&o) || (kept && o.gain <= most.gain))
            continue;
        kept = true;
        best.value = trial.value;
        most = o;
    }
    const struct outcome *const o = kept ? &most : &own;
    if (kept || at != NOWHERE)
        print_row(kept ? "keep" : "drop", kept ? &best : row, o);
    *row = best;
    row->gain = (float)o->gain;
    row->low = (float)o->low;
    row->high = (float)o->high;
    return kept;
}

/* Returns the knob that a row sets; NULL if no op has such a knob. */
static const struct att_knob *find_knob(const struct tir_fitted *row)
{
    for (const struct att_template *const *op = att_templates; *op; op++)
        for (unsigned i = 0; i < (*op)->n_fitted; i++)
            if (!strncmp((*op)->name, row->kernels, strcspn(row->kernels, " ")) &&
                !strcmp((*op)->fitted[i].member, row->knob))
                return &(*op)->fitted[i];
    return NULL;
}

/* True if a row applies to any kernel of the sweep. */
static bool is_used(const struct fit *f, const struct tir_fitted *row)
{
    static const struct tir_fitted none[1];
    for (size_t k = 0; k < f->sweep->key_count; k++) {
        struct att_variant v = f->sweep->keys[k].variant;
        struct att_tile tile;
        v.fitted = none;
        if (f->sweep->keys[k].shape_count &&
            att_find_tile(&v, &tgt_find(v.target)->machine, &tile, NULL) &&
            att_is_fitted_by(&v, &tile, row->kernels))
            return true;
    }
    return false;
}

/* Fits the rows of the table from the last to the first, since earlier rows take precedence.
 * Removes rows that are not worth keeping; rows for no kernel of the sweep stay. `all_values`:
 * tries every value of the knob, not only the present one. */
static void fit_rows(struct fit *f, bool all_values)
{
    for (int i = (int)f->table->count - 1; i >= 0 && !f->broken; i--) {
        struct tir_fitted *const row = &f->table->rows[i];
        struct tir_fitted trial = *row;
        if (!is_used(f, row))
            print_row("unknown", row, &(struct outcome){0});
        else if (fit_value(f, i, &trial, all_values ? find_knob(row) : NULL))
            *row = trial;
        else if (!f->broken)
            attnc_fitted_remove(f->table, (size_t)i);
    }
}

/* The functions from here on find new rows for the table. */

/* Returns the index of the row of the op's tile table that a variant gets; n_tiles if none fits. */
static unsigned find_row(const struct att_variant *v, const struct tir_machine *m)
{
    struct att_why why = {.text = ""};
    unsigned row = 0;
    if (v->tile)
        return ((unsigned)v->tile - 1) % v->op->n_tiles;
    for (; row < v->op->n_tiles; row++) {
        const struct att_tile t = att_row_tile(v, m, row);
        if (v->op->fits(v, &t, m, &why))
            break;
    }
    return row;
}

/* Writes the op and all words that are not empty, except word number `without`, to `text`. */
static void join(char words[][64], unsigned count, const char *op, unsigned without,
                 char text[ATT_TEXT_MAX])
{
    size_t at = (size_t)snprintf(text, ATT_TEXT_MAX, "%s", op);
    for (unsigned i = 0; i < count; i++)
        if (i != without && words[i][0])
            at += (size_t)snprintf(text + at, ATT_TEXT_MAX - at, " %s", words[i]);
}

/* True if the description `text` fits no row of the op's tile table but `row`. */
static bool is_only(const struct att_variant *v, const struct tir_machine *m, unsigned row,
                    const char *text)
{
    for (unsigned i = 0; i < v->op->n_tiles; i++) {
        const struct att_tile t = att_row_tile(v, m, i);
        if (i != row && att_is_fitted_by(v, &t, text))
            return false;
    }
    return true;
}

/* Describes a row of the op's tile table by the fewest words, such as "plain=1", that no other row
 * has together. */
static void describe_row(const struct att_variant *v, const struct tir_machine *m, unsigned row,
                         char text[ATT_TEXT_MAX])
{
    static const struct tir_fitted none[1];
    enum { WORDS = 40 };
    char words[WORDS][64], members[ATT_TILE_TEXT_MAX], *rest = members;
    struct att_variant by_rule = *v;
    by_rule.fitted = none;
    const struct att_tile t = att_row_tile(&by_rule, m, row);
    unsigned count = 0;
    snprintf(words[count++], sizeof(words[0]), "tile_head_dim=%d", t.head_dim);
    snprintf(words[count++], sizeof(words[0]), "tile_head_dim_v=%d", t.head_dim_v);
    snprintf(words[count++], sizeof(words[0]), "plain=%d", t.plain);
    snprintf(words[count++], sizeof(words[0]), "exact=%d", t.exact);
    att_tile_text(v->op, &t, members);
    for (char *word; count < WORDS && (word = strtok_r(rest, " ", &rest));)
        snprintf(words[count++], sizeof(words[0]), "%s", word);
    for (unsigned i = count; i--;) {
        join(words, count, v->op->name, i, text);
        if (is_only(&by_rule, m, row, text))
            words[i][0] = '\0';
    }
    join(words, count, v->op->name, count, text);
}

/* True if a row of the table sets the knob for a kernel of this variant and tile. */
static bool has_row(const struct fit *f, const struct att_variant *v, const struct att_tile *t,
                    const char *knob)
{
    for (size_t i = 0; i < f->table->count; i++)
        if (!strcmp(f->table->rows[i].knob, knob) &&
            att_is_fitted_by(v, t, f->table->rows[i].kernels))
            return true;
    return false;
}

/* Tries to add rows that the table lacks: for the tile of each kernel of the sweep, each knob of
 * its op. */
static void find_rows(struct fit *f)
{
    for (size_t k = 0; k < f->sweep->key_count; k++) {
        const struct tune_key *const key = &f->sweep->keys[k];
        const struct tir_machine *const m = &tgt_find(key->variant.target)->machine;
        struct att_variant v = key->variant;
        char text[ATT_TEXT_MAX];
        for (unsigned n = 0; key->shape_count && n < v.op->n_fitted && !f->broken; n++) {
            v.fitted = copy_table(f, NOWHERE, NULL);
            const unsigned row = find_row(&v, m);
            if (f->broken || row == v.op->n_tiles)
                return;
            const struct att_tile t = att_row_tile(&v, m, row);
            describe_row(&v, m, row, text);
            struct tir_fitted trial = {
                .kernels = text, .knob = v.op->fitted[n].member, .value = -1};
            bool tried = has_row(f, &v, &t, trial.knob);
            for (size_t before = 0; before < k && !tried; before++)
                tried = f->sweep->keys[before].variant.op == v.op &&
                        f->sweep->keys[before].shape_count &&
                        find_row(&f->sweep->keys[before].variant, m) == row;
            if (!tried && fit_value(f, NOWHERE, &trial, &v.op->fitted[n]))
                f->broken = !attnc_fitted_add(f->table, f->table->count, &trial) || f->broken;
        }
    }
}

/* The functions from here on run the modes of the command. */

/* Writes the table to its file. Returns an exit_code after a message. */
static int write_table(const struct fit *f)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return complain(EXIT_ENVIRONMENT, "out of memory");
    attnc_fitted_write(f->table, out);
    fclose(out);
    const int code = write_output(f->o->path, text, size);
    free(text);
    return code;
}

/* Evaluates a random sample of rows again and prints the verdicts. Returns how many are no longer
 * worth keeping. */
static size_t check(struct fit *f)
{
    uint64_t state = 0x2545f4914f6cdd1du ^ f->o->seed;
    const size_t count = f->table->count;
    bool *const seen = calloc(count + 1, sizeof(*seen));
    size_t left = f->o->sample && f->o->sample < count ? f->o->sample : count, bad = 0;
    f->broken = f->broken || !seen;
    while (left && !f->broken) {
        const int i = (int)(next_random(&state) % count);
        if (seen[i])
            continue;
        seen[i] = true;
        left--;
        const struct tir_fitted *const row = &f->table->rows[i];
        const struct outcome o = compare(f, copy_table(f, i, NULL), copy_table(f, NOWHERE, NULL));
        print_row(is_kept(&o) ? "good" : "stale", row, &o);
        bad += !is_kept(&o);
    }
    free(seen);
    return bad;
}

/* Prints the gain of the table over the rules without a table: for each kernel that it changes, and
 * as a mean of all kernels. */
static void compare_rules(struct fit *f)
{
    static const struct tir_fitted none[1];
    struct pairs p = {0};
    double sum = 0;
    size_t all = 0;
    if (!find_pairs(f, none, copy_table(f, NOWHERE, NULL), &p))
        return;
    struct tune_value *const values = time_pairs(f, &p, &f->sweep->parameters, 1);
    for (size_t k = 0; k < f->sweep->key_count; k++)
        all += f->sweep->keys[k].shape_count > 0;
    for (size_t i = 0; i < p.count && !f->broken; i++) {
        const struct pair *const pair = &p.list[i];
        sum += gain_of(&values[2 * i]) / 100;
        printf("%7.2f %%  %s\n", gain_of(&values[2 * i]),
               pair->key->candidates[pair->trial].kernel->name);
    }
    if (p.base_fails)
        printf("by rule at least one kernel spills registers: %s\n", p.base_fails->text);
    printf("%s: %zu kernels, the table changes %zu; rules alone take %.4f of its modelled time, "
           "geometric mean\n",
           f->table->target, all, p.count, exp(sum / (double)all));
    free(p.list);
    free(values);
}

/* Fits, checks or compares the table, by the mode in f->o. Returns an exit_code after a message. */
static int run(struct fit *f)
{
    const char *const rows = "VERDICT     GAIN     LEAST    MOST  KERNELS  ROW";
    size_t bad = 0;
    if (f->o->mode != TUNE_FIT_RULES)
        puts(rows);
    if (f->o->mode == TUNE_FIT_CHECK)
        bad = check(f);
    else if (f->o->mode == TUNE_FIT_RULES)
        compare_rules(f);
    else
        fit_rows(f, f->o->mode == TUNE_FIT);
    if (f->o->mode == TUNE_FIT)
        find_rows(f);
    if (f->broken)
        return complain(EXIT_ENVIRONMENT, "out of memory, or the database cannot be written");
    if (f->sweep->failed)
        return EXIT_USER;
    if (bad)
        return complain(EXIT_USER,
                        "%zu rows of %s do not gain more than they may lose: run attnc tune "
                        "--defaults --revise",
                        bad, f->o->path);
    return f->o->mode <= TUNE_FIT_REVISE ? write_table(f) : EXIT_GOOD;
}

int tune_fit(struct tune_sweep *sweep, struct attnc_fitted *table, const struct tune_fit_options *o)
{
    struct fit f = {.sweep = sweep, .table = table, .o = o};
    const int code =
        make_corners(&f, table->target) ? run(&f) : complain(EXIT_ENVIRONMENT, "out of memory");
    for (size_t i = 0; i < f.table_count; i++)
        attnc_fitted_free(&f.tables[i]);
    free(f.tables);
    free(f.corners);
    return code;
}
