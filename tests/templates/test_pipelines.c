/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the tables of all pipelines. The head of a pipeline's file has a drawing of the table,
 * which must be right. No small change of a table that breaks its loop is accepted by the checker.
 *
 * `test_pipelines ROOT --update` writes the drawings.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <glob.h>
#include <unistd.h>

#include "templates/attention/steps.h"
#include "templates/pipeline/pipeline.h"
#include "templates/template.h"
#include "tests/unit_test.h"

static const char *root = ".";
static bool update;

static char *read_file(const char *path)
{
    FILE *const f = fopen(path, "r");
    if (!f)
        fail_msg("%s is not there: a pipeline's table is in the file of its name", path);
    static char text[1 << 16];
    const size_t n = fread(text, 1, sizeof(text) - 1, f);
    text[n] = '\0';
    fclose(f);
    return text;
}

static char *drawn(const struct pipeline *p)
{
    char *text = NULL;
    size_t size = 0;
    FILE *const f = open_memstream(&text, &size);
    assert_non_null(f);
    pipe_draw(p, " *     ", f);
    fclose(f);
    return text;
}

/* Replaces the drawing in the head comment of a file: the lines with its indentation. */
static void write_drawing(const char *path, const char *drawing)
{
    const char *const text = read_file(path);
    const char *const begin = strstr(text, "\n *     ");
    assert_non_null(begin);
    const char *end = begin + 1;
    while (!strncmp(end, " *     ", strlen(" *     ")))
        end = strchr(end, '\n') + 1;
    char *const rest = strdup(end);
    FILE *const f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "%.*s\n%s%s", (int)(begin - text), text, drawing, rest);
    fclose(f);
    free(rest);
}

/* Finds the file of a pipeline: in the folder of its op, or of the library that has its loop. */
static void find_file(char *path, size_t size, const struct att_template *t,
                      const struct pipeline *p)
{
    glob_t found;
    snprintf(path, size, "%s/templates/%s/pipelines/%s.c", root, t->name, p->name);
    if (!access(path, R_OK))
        return;
    snprintf(path, size, "%s/templates/*/pipelines/%s.c", root, p->name);
    if (glob(path, 0, NULL, &found))
        fail_msg("no file %s", path);
    assert_int_equal(found.gl_pathc, 1);
    snprintf(path, size, "%s", found.gl_pathv[0]);
    globfree(&found);
}

TEST(each_file_begins_with_its_drawing)
{
    enum { MOST_LINES = 120 };
    unsigned n = 0;
    for (const struct att_template *const *t = att_templates; *t; t++)
        for (const struct pipeline *const *p = (*t)->pipelines; p && *p; p++, n++) {
            char path[512];
            find_file(path, sizeof(path), *t, *p);
            char *const drawing = drawn(*p);
            if (update)
                write_drawing(path, drawing);
            const char *const text = read_file(path);
            if (!strstr(text, drawing))
                fail_msg("%s does not begin with\n%s", path, drawing);
            unsigned lines = 0;
            for (const char *c = text; *c; c++)
                lines += *c == '\n';
            if (lines > MOST_LINES)
                fail_msg("%s has %u lines, more than %d", path, lines, MOST_LINES);
            free(drawing);
        }
    assert_true(n > 0);
}

/* ---- Changed tables ----
 * This is an independent checker of tables. It walks through the iterations of a plan, role by
 * role, and counts barriers. It does not know depths and times. Two actions are ordered if all
 * waves pass a barrier between them. */

enum { TILES = 20, ALL_TILES = TILES + 8 /* past the end */, MAX_PHASES = 8, MAX_PLANS = 256 };

/* A copy of a pipeline's table, which a test changes. */
struct table {
    struct pipeline p;
    struct pipe_row rows[PIPE_MAX_ROWS + 1];
    struct pipe_phase phases[MAX_PHASES + 1];
    unsigned n_rows;
};

/* Iteration, phase and number of barriers passed, for each row and tile. */
struct walk {
    const struct pipe_plan *plan;
    int epoch[PIPE_MAX_ROWS][ALL_TILES]; /* barriers that role 0 has passed; INT32_MAX: no run */
    unsigned n_phases;
    int last; /* number of barriers at the end of the last iteration but one */
};

static bool is_end(const struct pipe_row *r) { return r->op->kind != PIPE_STEP; }

/* True if row r runs in an iteration. The iteration of the last tile has the last stage only. */
static bool runs(const struct pipe_plan *plan, const struct pipe_row *r, int iteration)
{
    const int drained = TILES + plan->stages - 2 - plan->of->drain;
    if (iteration < plan->of->bare && iteration < r->stage)
        return false;
    return iteration < drained || iteration - r->stage < TILES;
}

static unsigned count_barriers(const struct pipe_plan *plan, unsigned phase, int iteration)
{
    unsigned n = 0;
    for (unsigned i = 0; i < plan->n_rows; i++)
        n += plan->row[i].op->kind == PIPE_BARRIER && plan->row[i].phase == phase &&
             runs(plan, &plan->row[i], iteration);
    return n;
}

/* Visits the rows of an iteration in the order of lower_pipeline. Of several barriers in a phase
 * only the last remains. */
static void walk_phase(struct walk *w, unsigned phase, int iteration, int *epoch)
{
    const struct pipe_plan *const plan = w->plan;
    unsigned barriers = plan->of->roles > 1 ? 0 : count_barriers(plan, phase, iteration);
    for (int ends = 0; ends < 2; ends++)
        for (int stage = plan->stages - 1; stage >= 0; stage--)
            for (unsigned i = 0; i < plan->n_rows; i++) {
                const struct pipe_row *const r = &plan->row[i];
                const int tile = iteration - stage;
                if (r->phase != phase || r->stage != stage || is_end(r) != ends ||
                    !runs(plan, r, iteration))
                    continue;
                if (tile >= 0 && tile < ALL_TILES)
                    w->epoch[i][tile] = *epoch;
                if (r->op->kind == PIPE_BARRIER && barriers && --barriers == 0)
                    ++*epoch;
            }
    if (plan->of->roles > 1 && !plan->of->phases[phase].open)
        ++*epoch;
}

static void walk_plan(struct walk *w, const struct pipe_plan *plan)
{
    int epoch = 0;
    w->plan = plan;
    w->n_phases = 0;
    while (plan->of->phases[w->n_phases].name)
        w->n_phases++;
    for (unsigned i = 0; i < plan->n_rows; i++)
        for (int t = 0; t < ALL_TILES; t++)
            w->epoch[i][t] = INT32_MAX; /* rows that do not run */
    for (int i = 0; i < TILES + plan->stages - 1; i++) {
        if (i == TILES + plan->stages - 2) {
            w->last = epoch;
            epoch += plan->of->barrier_last;
        }
        for (unsigned phase = 0; phase < w->n_phases; phase++)
            walk_phase(w, phase, i, &epoch);
    }
}

/* Returns the barriers passed when a wait of the right kind covers tile t of row w. One for stores
 * covers all tiles. */
static int awaited(const struct walk *k, const struct pipe_row *w, unsigned buffer, int t)
{
    const struct pipeline *const p = k->plan->of;
    const bool copies = w->op->flags & PIPE_ASYNC;
    const unsigned with = p->buffers[buffer].with;
    const int early = p->buffers[buffer].early, phases = (int)k->n_phases;
    int best = INT32_MAX;
    if (copies)
        t -= p->buffers[buffer].early_wait;
    for (unsigned i = 0; i < k->plan->n_rows; i++) {
        const struct pipe_row *const a = &k->plan->row[i];
        if (a->op->kind != (copies ? PIPE_AWAIT : PIPE_AWAIT_STORES) ||
            a->part != (with ? with - 1 : buffer))
            continue;
        for (int u = copies ? t : 0; u < (copies ? t + 1 : ALL_TILES); u++) {
            const int lead = early - (copies ? p->buffers[buffer].early_wait : 0);
            const int order = (a->stage + u - w->stage - t + lead) * phases + a->phase - w->phase;
            if (order >= 0 && k->epoch[i][u] < best)
                best = k->epoch[i][u];
        }
    }
    if (p->barrier_last && !copies && t + w->stage < TILES + k->plan->stages - 2 && k->last < best)
        best = k->last;
    return best;
}

/* Returns the number of barriers passed when a read of tile t has ended: at a wait for LDS, or at
   its use. */
static int ended(const struct walk *k, unsigned read, int t)
{
    const struct pipe_plan *const plan = k->plan;
    const struct pipe_row *const r = &plan->row[read];
    int best = INT32_MAX;
    for (unsigned i = 0; i < plan->n_rows; i++) {
        const struct pipe_row *const e = &plan->row[i];
        const bool waits = e->op->kind == PIPE_RELEASE || e->op->kind == PIPE_AWAIT_STORES;
        const bool uses = pipe_reads(e) & pipe_writes(r) && e != r;
        for (int u = 0; u < ALL_TILES; u++) {
            const int order =
                (e->stage + u - r->stage - t) * (int)k->n_phases + e->phase - r->phase;
            if ((waits || (uses && u == t)) && order >= 0 && k->epoch[i][u] < best)
                best = k->epoch[i][u];
        }
    }
    return best;
}

/* True if tile t is there when it is read, and read when tile t + depth is written. A wave of the
 * second role has passed a barrier less. So have other waves if barriers are late. */
static bool is_safe_tile(const struct walk *k, unsigned buffer, const struct pipe_row *w,
                         unsigned r, int depth, int t)
{
    const struct pipe_plan *const plan = k->plan;
    const int apart = plan->of->roles + plan->of->late, here = awaited(k, w, buffer, t);
    const int next = t + depth - plan->of->buffers[buffer].early;
    if (here == INT32_MAX || k->epoch[r][t] < here + apart)
        return false;
    if (t + depth >= TILES || next < 0)
        return true;
    const int free = ended(k, r, t);
    return free != INT32_MAX && k->epoch[w - plan->row][next] >= free + apart;
}

/* True if, with these depths, no wave reads data before they arrive or overwrites data that are
 * still read. A wave of role 1 has passed up to roles - 1 barriers fewer. */
static bool is_safe(const struct walk *k, unsigned buffer, unsigned depth)
{
    const struct pipe_plan *const plan = k->plan;
    for (unsigned w = 0; w < plan->n_rows; w++)
        for (unsigned r = 0; r < plan->n_rows; r++) {
            if (!(plan->row[w].op->lds_writes >> buffer & 1) ||
                !(plan->row[r].op->lds_reads >> buffer & 1))
                continue;
            const bool ends = plan->of->bare || plan->of->drain; /* lack barriers */
            for (int t = ends ? 0 : TILES / 2; t < TILES; t += ends ? 1 : TILES / 2 - 1)
                if (!is_safe_tile(k, buffer, &plan->row[w], r, (int)depth, t))
                    return false;
        }
    return true;
}

static bool judge(const struct pipe_plan *plan, unsigned depth[PIPE_MAX_BUFFERS])
{
    enum { MAX_DEPTH = 8 };
    static struct walk k;
    walk_plan(&k, plan);
    for (unsigned i = 0; plan->of->buffers && plan->of->buffers[i].name; i++) {
        bool used = false;
        depth[i] = plan->depth[i];
        if (plan->of->buffers[i].scope == PIPE_WAVE) /* barriers do not order it */
            continue;
        for (unsigned r = 0; r < plan->n_rows; r++)
            used |= plan->row[r].op->lds_reads >> i & 1;
        depth[i] = 0;
        while (used && ++depth[i] <= MAX_DEPTH && !is_safe(&k, i, depth[i]))
            ;
        if (depth[i] > MAX_DEPTH)
            return false;
    }
    return true;
}

static void copy_table(struct table *t, const struct pipeline *p)
{
    memset(t, 0, sizeof(*t));
    t->p = *p;
    t->n_rows = pipe_list_rows(p, t->rows);
    for (unsigned i = 0; p->phases[i].name; i++)
        t->phases[i] = p->phases[i];
    t->p.rows = t->rows;
    t->p.phases = t->phases;
}

/* Fails if the checker of templates/pipeline and the one here differ. True if the table passes. */
static bool both_judge(const struct table *t, uint32_t has, const char *what)
{
    struct pipe_plan plan;
    unsigned depth[PIPE_MAX_BUFFERS];
    char why[PIPE_WHY] = "";
    const struct pipe_variant v = {.has = has};
    const bool passes = pipe_resolve(&t->p, &v, &plan, why);
    if (!passes) {
        assert_true(strlen(why) > 20);
        return false;
    }
    if (!judge(&plan, depth))
        fail_msg("%s, %s, features %x: passes, and is not safe", t->p.name, what, has);
    for (unsigned i = 0; plan.of->buffers && plan.of->buffers[i].name; i++)
        if (plan.depth[i] != depth[i])
            fail_msg("%s, %s, features %x: %s has depth %u, and needs %u", t->p.name, what, has,
                     plan.of->buffers[i].name, plan.depth[i], depth[i]);
    return true;
}

/* Finds the sets of features for which a table resolves. */
static unsigned find_features(const struct pipeline *p, uint32_t all[MAX_PLANS])
{
    enum { BITS = 20 };
    unsigned n = 0;
    uint32_t asked = 0;
    struct pipe_row rows[PIPE_MAX_ROWS];
    const unsigned n_rows = pipe_list_rows(p, rows);
    for (unsigned i = 0; i < n_rows; i++)
        asked |= rows[i].needs | rows[i].unless;
    for (uint32_t has = 0; has < 1u << BITS && n < MAX_PLANS; has++) {
        struct pipe_plan plan;
        char why[PIPE_WHY];
        if (!(has & ~asked) && pipe_resolve(p, &(struct pipe_variant){.has = has}, &plan, why))
            all[n++] = has;
    }
    return n;
}

static bool is_wait(const struct pipe_row *r)
{
    return r->op->kind == PIPE_AWAIT || r->op->kind == PIPE_AWAIT_STORES ||
           r->op->kind == PIPE_BARRIER;
}

/* Returns the sum of the depths that a table needs; 0 if it is refused. */
static unsigned count_tiles(const struct table *t, uint32_t has)
{
    struct pipe_plan plan;
    char why[PIPE_WHY];
    if (!pipe_resolve(&t->p, &(struct pipe_variant){.has = has}, &plan, why))
        return 0;
    unsigned n = 1;
    for (unsigned i = 0; i < PIPE_MAX_BUFFERS; i++)
        n += plan.depth[i];
    return n;
}

/* No table passes without a wait for data. Without a barrier row none passes with the same
 * depths. */
TEST(without_waits_no_table_passes)
{
    unsigned dropped = 0;
    for (const struct att_template *const *t = att_templates; *t; t++)
        for (const struct pipeline *const *p = (*t)->pipelines; p && *p; p++) {
            uint32_t all[MAX_PLANS];
            const unsigned n = find_features(*p, all);
            assert_true(n > 0);
            for (unsigned f = 0; f < n; f++) {
                struct table table;
                copy_table(&table, *p);
                assert_true(both_judge(&table, all[f], "as it is"));
                const unsigned tiles = count_tiles(&table, all[f]);
                for (unsigned i = 0; i < table.n_rows; i++) {
                    const struct pipe_row r = table.rows[i];
                    if (!is_wait(&r) || r.needs & ~all[f] || r.unless & all[f])
                        continue;
                    table.rows[i].needs = UINT32_MAX;
                    const bool passes = both_judge(&table, all[f], "without a wait");
                    const bool deeper =
                        r.op->kind == PIPE_BARRIER && count_tiles(&table, all[f]) > tiles;
                    if (passes && !deeper)
                        fail_msg("%s, features %x: passes without \"%s\" in row %u", (*p)->name,
                                 all[f], r.op->name, i);
                    table.rows[i] = r;
                    dropped++;
                }
            }
        }
    assert_true(dropped > 0);
}

/* Changes a table: moves a row by a phase or a stage, swaps it with the next, joins or splits
 * phases, removes roles. A table that passes is safe for the checker here too, with the depth
 * found. */
TEST(what_passes_is_safe)
{
    unsigned refused = 0, passed = 0;
    for (const struct att_template *const *t = att_templates; *t; t++)
        for (const struct pipeline *const *p = (*t)->pipelines; p && *p; p++) {
            uint32_t all[MAX_PLANS];
            const unsigned n = find_features(*p, all), step = n > 8 ? n / 8 : 1;
            for (unsigned f = 0; f < n; f += step) {
                struct table table;
                copy_table(&table, *p);
                table.p.moves = NULL;
                for (unsigned i = 0; i < table.n_rows; i++) {
                    const struct pipe_row r = table.rows[i];
                    for (int d = -1; d <= 1; d += 2) {
                        table.rows[i].phase = (uint8_t)(r.phase + d);
                        *(both_judge(&table, all[f], "a phase moved") ? &passed : &refused) += 1;
                        table.rows[i] = r;
                        table.rows[i].stage = (uint8_t)(r.stage + d);
                        *(both_judge(&table, all[f], "a stage moved") ? &passed : &refused) += 1;
                        table.rows[i] = r;
                    }
                    if (r.op->kind == PIPE_RELEASE) {
                        table.rows[i].needs = UINT32_MAX;
                        *(both_judge(&table, all[f], "not released") ? &passed : &refused) += 1;
                        table.rows[i] = r;
                    }
                }
                for (unsigned i = 0; table.phases[i].name; i++) {
                    table.phases[i].open = !table.phases[i].open;
                    *(both_judge(&table, all[f], "a phase opened") ? &passed : &refused) += 1;
                    table.phases[i].open = !table.phases[i].open;
                }
                table.p.roles = table.p.roles == 1 ? 2 : 1;
                *(both_judge(&table, all[f], "other roles") ? &passed : &refused) += 1;
            }
        }
    printf("%u changes refused, %u passed\n", refused, passed);
    assert_true(refused > passed / 4 && passed > 0);
}

/* The depths of K and V in the shipped kernels. */
TEST(depths_follow_from_tables)
{
    enum { CHECK_PREVIOUS = 2, FIRST = ATT_HAS_FAMILY };
    static const struct {
        const char *name;
        uint32_t has;
        uint8_t depth[2];
    } cases[] = {
        {"ping_pong", CHECK_PREVIOUS, {2, 2}},
        {"ping_pong", CHECK_PREVIOUS | 4u << FIRST, {3, 2}}, /* K in slices */
        {"ping_pong", CHECK_PREVIOUS | 2u << FIRST, {2, 1}}, /* V is stored */
        {"ping_pong", CHECK_PREVIOUS | 3u << FIRST, {1, 1}}, /* K and V are */
        {"one_wave_transposed", CHECK_PREVIOUS | 2u << FIRST, {2, 1}},
        {"one_wave_tensor", 0, {8}}, /* barriers are late */
    };
    unsigned found = 0;
    for (const struct att_template *const *t = att_templates; *t; t++)
        for (const struct pipeline *const *p = (*t)->pipelines; p && *p; p++)
            for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct pipe_plan plan;
                char why[PIPE_WHY];
                if (strcmp((*p)->name, cases[i].name) != 0)
                    continue;
                found++;
                if (!pipe_resolve(*p, &(struct pipe_variant){.has = cases[i].has}, &plan, why))
                    fail_msg("%s: %s", (*p)->name, why);
                assert_int_equal(plan.depth[0], cases[i].depth[0]);
                assert_int_equal(plan.depth[1], cases[i].depth[1]);
            }
    assert_int_equal(found, sizeof(cases) / sizeof(cases[0]));
}

/* Roles hide each other's reads only if a SIMD has a wave of each role. */
TEST(roles_share_simds)
{
    const struct pipe_variant four = {.has = 1, .waves = 4}, eight = {.has = 1, .waves = 8};
    struct pipe_plan plan;
    char why[PIPE_WHY] = "";
    for (const struct att_template *const *t = att_templates; *t; t++)
        for (const struct pipeline *const *p = (*t)->pipelines; p && *p; p++) {
            if ((*p)->roles < 2)
                continue;
            assert_false(pipe_resolve(*p, &four, &plan, why));
            assert_non_null(strstr(why, "8 waves, not 4"));
            assert_true(pipe_resolve(*p, &eight, &plan, why));
        }
}

int main(int argc, char **argv)
{
    root = argc > 1 ? argv[1] : ".";
    update = argc > 2 && !strcmp(argv[2], "--update");
    return run_unit_tests();
}
