/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file finds the limits of an op. It calls the check of the op's template with one field
 * changed from its default, then with every pair. So the limits are the same as in `attnc build`.
 */
#include "tools/attnc/limits/limits.h"

#include <stdint.h>
#include <string.h>

#include "targets/tgt.h"
#include "templates/template.h"
#include "tools/attnc/limits/limits_sweep.h"
#include "tools/attnc/limits/limits_text.h"

/* A field's value other than its default, for a field that is no integer. Some values have kernels
 * only together with choices of other fields. */
struct choice {
    enum att_field field;
    int value;
    int helper;      /* index of another choice that this one needs, or -1 */
    int also;        /* index of a choice that this one needs beside `helper`, or -1 */
    uint8_t targets; /* targets that have a kernel with it: bit i for target i of tgt_all */
    /* Number of an integer field (enum att_field), 0 by default, that this choice needs at another
     * value; 0: none. */
    int number;
};

/* The value that choice.number's field gets. */
enum { NEEDED_NUMBER = 128 };

/* The most choices of an op. */
enum { MOST_CHOICES = 64 };

/* The choices of one op, and the variant that they are tried on. */
struct op_limits {
    const struct att_template *op;
    /* Variant that every target compiles. Sets only the required head sizes, and fields whose
     * default the op refuses. */
    struct att_variant base;
    struct choice choices[MOST_CHOICES];
    int count;
    /* For each integer field of the dispatch key: the largest of the tried values with which every
     * target compiles `base`; 0: no such value, or another kind of field. */
    int largest[ATT_FIELD_COUNT];
};

/* Gives fields of `v` another value if the op refuses their default, in the order of the refusals.
 * A field gets the first value for which the check no longer names that field. */
static void set_refused_defaults(struct att_variant *v)
{
    static const int numbers[] = {2, 4, 8, 1};
    enum { NUMBERS = sizeof(numbers) / sizeof(numbers[0]), MOST = 4 };
    struct att_why why = {.field = ATT_FIELD_COUNT};
    for (int n = 0; n < MOST && limits_targets(v, &why) != limits_served; n++) {
        const enum att_field f = why.field;
        if (f == ATT_FIELD_COUNT || f == ATT_HEAD_DIM || f == ATT_HEAD_DIM_V || v->loc[f].line)
            return;
        const struct att_field_info *info = &att_fields[f];
        const int values = info->kind == ATT_KIND_ENUM ? info->value_count : NUMBERS;
        for (int i = 0; i < values && why.field == f; i++) {
            limits_set(v, f, info->kind == ATT_KIND_INT ? numbers[i] : i);
            why.field = ATT_FIELD_COUNT;
            limits_targets(v, &why);
        }
    }
}

/* Sets l->base to the first variant that every target compiles: tries pairs of required sizes. With
 * `refused`, refused defaults are replaced too. Returns false if no pair works. */
static bool find_sizes(struct op_limits *l, bool refused)
{
    static const int sizes[] = {128, 64, 192, 256, 512, 576, 1024, 1536};
    enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };
    static const enum att_field pairs[][2] = {{ATT_HEAD_DIM, ATT_HEAD_DIM_V},
                                              {ATT_WIDTH, ATT_WIDTH_KV}};
    const int pair = l->op->takes & ATT_BIT(WIDTH) ? 1 : 0;
    for (int i = 0; i < SIZES * SIZES; i++) {
        att_variant_init(&l->base, l->op, tgt_all[0]->machine.name);
        limits_set(&l->base, pairs[pair][0], sizes[i / SIZES]);
        limits_set(&l->base, pairs[pair][1], sizes[(i + i / SIZES) % SIZES]); /* equal ones first */
        if (refused)
            set_refused_defaults(&l->base);
        if (limits_targets(&l->base, NULL) == limits_served) {
            if (att_get(&l->base, pairs[pair][0]) == att_get(&l->base, pairs[pair][1]))
                l->base.loc[pairs[pair][1]].line = 0;
            return true;
        }
    }
    return false;
}

/* Follows choice.helper from `choice` to the first choice whose field is not in *done. Adds that
 * field to *done and returns the choice's index; -1 if there is none. Helpers may form a cycle. */
static int next_of_chain(const struct op_limits *l, int choice, att_field_set *done)
{
    for (int steps = 0; choice >= 0 && steps < 4; steps++) {
        const enum att_field f = l->choices[choice].field;
        if (!(*done >> f & 1)) {
            *done |= ATT_FIELD(f);
            return choice;
        }
        choice = l->choices[choice].helper;
    }
    return -1;
}

/* Sets the field of choice `n`, and the fields of its `also` and `number`, but not of its
 * helper. */
static void set_choice(const struct op_limits *l, struct att_variant *v, int n)
{
    const struct choice *c = &l->choices[n];
    limits_set(v, c->field, c->value);
    if (c->also >= 0)
        limits_set(v, l->choices[c->also].field, l->choices[c->also].value);
    if (c->number)
        limits_set(v, (enum att_field)c->number, NEEDED_NUMBER);
}

/* Sets choice `choice`, its helper, the helper's helper and so on. A field that is set already
 * stays. */
static void apply(const struct op_limits *l, struct att_variant *v, int choice)
{
    att_field_set done = 0;
    while ((choice = next_of_chain(l, choice, &done)) >= 0)
        set_choice(l, v, choice);
}

/* Sets the variant's head sizes to the i-th of a list of common pairs. Returns false after the last
 * pair, or if the op has no head_dim. */
static bool resize(const struct op_limits *l, struct att_variant *v, int i)
{
    static const int sizes[][2] = {{64, 64},   {128, 128}, {192, 128}, {256, 256}, {576, 512},
                                   {512, 512}, {512, 448}, {512, 64},  {448, 64}};
    if (i == (int)(sizeof(sizes) / sizeof(sizes[0])) || !(l->op->takes & ATT_BIT(HEAD_DIM)))
        return false;
    limits_set(v, ATT_HEAD_DIM, sizes[i][0]);
    limits_set(v, ATT_HEAD_DIM_V, sizes[i][1]);
    return true;
}

/* Returns the targets that compile the variant with its own or any common pair of head sizes: bit i
 * for target i of tgt_all. `why`, unless NULL, gets the last refusal of its own sizes. */
static uint8_t targets_of_any(const struct op_limits *l, const struct att_variant *v,
                              struct att_why *why)
{
    struct att_variant sized = *v;
    uint8_t found = limits_targets(v, why);
    for (int i = 0; found != limits_served && resize(l, &sized, i); i++)
        found = limits_add_targets(&sized, found, NULL);
    return found;
}

/* Returns the base with `choice` applied. If no target compiles its head sizes with it, takes the
 * first common pair that one compiles. */
static struct att_variant with_choice(const struct op_limits *l, int choice)
{
    struct att_variant v = l->base;
    apply(l, &v, choice);
    struct att_variant sized = v;
    for (int i = 0; !limits_targets(&sized, NULL); i++) {
        if (!resize(l, &sized, i))
            return v;
    }
    return sized;
}

/* Sets the helper of choice `n`, which no target compiles by itself: another choice that makes it
 * compile. Choices without a helper of their own are tried first. Does nothing if a target compiles
 * `n`. */
static void find_helper(struct op_limits *l, int n)
{
    struct choice *c = &l->choices[n];
    for (int i = 0; i < 2 * l->count && !c->targets; i++) {
        const struct choice *other = &l->choices[i % l->count];
        const bool alone = other->targets && other->helper < 0;
        if (other->field == c->field || alone != (i < l->count) || other->helper == n)
            continue;
        struct att_variant v = l->base;
        c->helper = i % l->count; /* apply() also sets the helper's own helper */
        apply(l, &v, n);
        c->targets = targets_of_any(l, &v, NULL);
        if (!c->targets)
            c->helper = -1;
    }
}

/* Sets `helper` and `also` of choice `n`: two choices that share a helper and together make `n`
 * compile. Does nothing if a target compiles `n`. */
static void find_second_helper(struct op_limits *l, int n)
{
    struct choice *c = &l->choices[n];
    for (int i = 0; i < l->count * l->count && !c->targets; i++) {
        const struct choice *helper = &l->choices[i / l->count], *also = &l->choices[i % l->count];
        const bool same =
            helper->field == c->field || also->field == c->field || helper->field == also->field;
        if (same || helper->helper < 0 || also->helper != helper->helper || helper > also)
            continue;
        struct att_variant v = l->base;
        c->helper = i / l->count;
        c->also = i % l->count;
        apply(l, &v, n);
        c->targets = targets_of_any(l, &v, NULL);
    }
    if (!c->targets)
        c->helper = c->also = -1;
}

/* True if the op has field `f`, and the field is an integer of the dispatch key. */
static bool is_number(const struct op_limits *l, enum att_field f)
{
    return (l->op->takes >> f & 1) && att_fields[f].role == ATT_ROLE_KEY &&
           att_fields[f].kind == ATT_KIND_INT;
}

/* Sets `number` of choice `n`: an integer field whose value makes it compile, if necessary with a
 * helper. Does nothing if a target compiles `n`. */
static void find_number(struct op_limits *l, int n)
{
    struct choice *c = &l->choices[n];
    for (int f = 1; f < ATT_FIELD_COUNT && !c->targets; f++) {
        if (!is_number(l, f) || !att_fields[f].zero || att_fields[f].dflt)
            continue;
        for (int helper = -1; helper < l->count && !c->targets; helper++) {
            if (helper >= 0 && (helper == n || l->choices[helper].helper >= 0))
                continue;
            struct att_variant v = l->base;
            c->number = f;
            c->helper = helper;
            apply(l, &v, n);
            c->targets = targets_of_any(l, &v, NULL);
        }
    }
    if (!c->targets) {
        c->number = 0;
        c->helper = -1;
    }
}

/* Fills l->choices: every value, except the default, of the op's enums, flags and files, with its
 * targets and what it needs. */
static void find_choices(struct op_limits *l)
{
    for (int f = 0; f < ATT_FIELD_COUNT; f++) {
        const struct att_field_info *info = &att_fields[f];
        if (!(l->op->takes >> f & 1) || info->role != ATT_ROLE_KEY || info->kind == ATT_KIND_INT)
            continue;
        const int values = info->kind == ATT_KIND_ENUM ? info->value_count : 2;
        for (int value = 0; value < values && l->count < MOST_CHOICES; value++) {
            if (value == info->dflt)
                continue;
            struct att_variant v = l->base;
            limits_set(&v, f, value);
            l->choices[l->count++] = (struct choice){.field = f,
                                                     .value = value,
                                                     .helper = -1,
                                                     .also = -1,
                                                     .targets = targets_of_any(l, &v, NULL)};
        }
    }
    /* Twice, since a choice may need a helper that is found after it. */
    for (int i = 0; i < 2 * l->count; i++)
        find_helper(l, i % l->count);
    for (int i = 0; i < l->count; i++) {
        find_number(l, i);
        find_second_helper(l, i);
    }
}

/* The choices that a choice needs, as indexes of op_limits.choices. */
struct chain {
    int choices[4], count;
};

/* Returns the helper of choice `n`, the helper's helper, and so on. */
static struct chain chain_of(const struct op_limits *l, int n)
{
    struct chain c = {.count = 0};
    att_field_set done = ATT_FIELD(l->choices[n].field);
    for (int h = l->choices[n].helper; c.count < 4 && (h = next_of_chain(l, h, &done)) >= 0;)
        c.choices[c.count++] = h;
    return c;
}

/* True if choice `n` needs another choice of the set `in` that itself needs fewer. Then naming that
 * other choice is enough. */
static bool is_implied(const struct op_limits *l, const bool in[MOST_CHOICES], int n)
{
    const struct chain c = chain_of(l, n);
    for (int i = 0; i < c.count; i++) {
        if (in[c.choices[i]] && chain_of(l, c.choices[i]).count < c.count)
            return true;
    }
    return false;
}

/* The functions from here on print limits. */

/* Appends a choice's field and, for an enum, its value to `t`: "kv_dtype fp8". */
static void name_value(const struct choice *c, struct text *t)
{
    const struct att_field_info *info = &att_fields[c->field];
    text_add(t, "%s", info->name);
    if (info->kind == ATT_KIND_ENUM)
        text_add(t, " %s", info->values[c->value].name);
}

/* Appends what a choice needs to `t`: " with page_size and kv_dtype fp8". */
static void name_helper(const struct op_limits *l, const struct choice *c, struct text *t)
{
    const struct chain chain = chain_of(l, (int)(c - l->choices));
    if (c->number)
        text_add(t, " with %s", att_fields[c->number].name);
    if (c->also >= 0) {
        text_add(t, " with ");
        name_value(&l->choices[c->also], t);
    }
    for (int i = 0; i < chain.count; i++) {
        text_add(t, "%s", i || c->number || c->also >= 0 ? " and " : " with ");
        name_value(&l->choices[chain.choices[i]], t);
    }
}

/* Words that replace a list of a field's values. */
static const struct {
    enum att_field field;
    /* The values that the words replace, with a space before each. */
    const char *values, *words;
} phrases[] = {
    {ATT_KV_DTYPE, " fp8 int8", "an 8-bit cache"},
    {ATT_KV_LAYOUT, " shuffle shuffle_k", "a SHUFFLE cache"},
};

/* Appends field `f` and its choices in the set `in` to `t`: "mask window or chunk". */
static void name_field(const struct op_limits *l, const bool in[MOST_CHOICES], enum att_field f,
                       struct text *t)
{
    const struct att_field_info *info = &att_fields[f];
    struct text all = {0}, values = {0};
    for (int i = 0; i < l->count; i++) {
        if (l->choices[i].field != f || !in[i] || is_implied(l, in, i) ||
            info->kind != ATT_KIND_ENUM)
            continue;
        const char *name = info->values[l->choices[i].value].name;
        text_add(&values, "%s%s", values.length ? " or " : " ", name);
        text_add(&all, " %s", name);
    }
    for (size_t i = 0; i < sizeof(phrases) / sizeof(phrases[0]); i++) {
        if (phrases[i].field == f && !strcmp(phrases[i].values, all.at)) {
            text_add(t, "%s", phrases[i].words);
            return;
        }
    }
    text_add(t, "%s%s", info->name, values.at);
}

/* Appends to `t` all choices in the set `in`, grouped by field. A choice that another one implies
 * is left out. */
static void name_choices(const struct op_limits *l, const bool in[MOST_CHOICES], struct text *t)
{
    att_field_set done = 0;
    for (int i = 0; i < l->count; i++) {
        const enum att_field f = l->choices[i].field;
        if (!in[i] || done >> f & 1 || is_implied(l, in, i))
            continue;
        text_add(t, "%s", done ? ", " : "");
        done |= ATT_FIELD(f);
        name_field(l, in, f, t);
    }
}

/* Appends to `t` the names of the targets in a set, in parentheses; nothing if the set has all
 * targets. */
static void name_targets(uint8_t targets, struct text *t)
{
    if (targets == limits_served)
        return;
    for (unsigned i = 0; tgt_all[i]; i++) {
        if (targets >> i & 1)
            text_add(t, " (%s)", tgt_all[i]->machine.name);
    }
}

/* Appends to `t` the values of the integer field `f` that targets compile, from a sweep's result.
 * Each target has its own list if targets differ. */
static void describe_values(enum att_field f, const uint8_t has[LIMITS_SAMPLES], struct text *t)
{
    bool same = true;
    const char *semicolon = "";
    for (int i = 0; i < LIMITS_SAMPLES; i++)
        same = same && (has[i] == 0 || has[i] == limits_served);
    for (unsigned i = 0; tgt_all[i] && limits_served >> i; i++) {
        if (!same)
            text_add(t, "%s%s: ", semicolon, tgt_all[i]->machine.name);
        semicolon = "; ";
        limits_describe(has, (uint8_t)(1 << i), att_fields[f].zero, t);
        if (same)
            return;
    }
}

/* Prints which values of head_dim_v each head_dim has, where these differ from `base`. Sizes with
 * equal values share a line. */
static void print_pairs(const struct op_limits *l, const uint8_t base[LIMITS_SAMPLES])
{
    static uint8_t sets[LIMITS_DENSE][LIMITS_SAMPLES], same[LIMITS_SAMPLES], dims[LIMITS_SAMPLES];
    static const uint8_t none[LIMITS_SAMPLES];
    limits_sweep(&l->base, ATT_HEAD_DIM, true, dims);
    for (int d = 1; d < LIMITS_DENSE; d++) {
        struct att_variant v = l->base;
        limits_set(&v, ATT_HEAD_DIM, d);
        memset(sets[d], 0, sizeof(sets[d]));
        if (dims[d])
            limits_sweep(&v, ATT_HEAD_DIM_V, false, sets[d]);
    }
    const int ratio = limits_ratio(sets, base);
    if (ratio) {
        struct text t = {0};
        text_add(&t, "at most %d times head_dim", ratio);
        text_print(&t, "    - ", "      ");
        return;
    }
    int first = 1, last = LIMITS_DENSE - 1;
    while (first < last && !memcmp(sets[first], none, sizeof(none)))
        first++;
    while (last > first && (!memcmp(sets[last], none, sizeof(none)) ||
                            !memcmp(sets[last], sets[first], sizeof(none))))
        last--;
    for (int d = first; first < last && d < LIMITS_DENSE; d++) {
        if (!memcmp(sets[d], none, sizeof(none)))
            continue;
        memset(same, 0, sizeof(same));
        for (int other = LIMITS_DENSE - 1; other >= d; other--) {
            if (memcmp(sets[d], sets[other], sizeof(none)))
                continue;
            same[other] = limits_served;
            if (other > d)
                memset(sets[other], 0, sizeof(none));
        }
        if (!memcmp(sets[d], base, sizeof(none)))
            continue;
        struct text t = {0};
        text_add(&t, "with head_dim ");
        describe_values(ATT_HEAD_DIM, same, &t);
        text_add(&t, ": ");
        describe_values(ATT_HEAD_DIM_V, sets[d], &t);
        text_print(&t, "    - ", "      ");
    }
}

/* Returns the largest sample of integer field `f` that every target compiles, or 0. */
static int largest_of(const struct op_limits *l, enum att_field f)
{
    static uint8_t has[LIMITS_SAMPLES];
    limits_sweep(&l->base, f, false, has);
    for (int i = LIMITS_SAMPLES - 1; i >= 0; i--) {
        if (has[i] == limits_served)
            return limits_sample(i);
    }
    return 0;
}

/* Prints the values of integer field `f` beside the largest value of each other integer field,
 * where these differ from `base`. Fields limit each other if their buffers share LDS. */
static void print_beside_numbers(const struct op_limits *l, enum att_field f,
                                 const uint8_t base[LIMITS_SAMPLES])
{
    static uint8_t beside[LIMITS_SAMPLES];
    for (int other = 0; other < ATT_FIELD_COUNT; other++) {
        if (other == (int)f || !is_number(l, other))
            continue;
        const int largest = l->largest[other];
        struct att_variant v = l->base;
        limits_set(&v, other, largest);
        limits_sweep(&v, f, true, beside);
        if (!memcmp(beside, base, sizeof(beside)))
            continue;
        struct text t = {0};
        text_add(&t, "with %s %d: ", att_fields[other].name, largest);
        describe_values(f, beside, &t);
        text_print(&t, "    - ", "      ");
    }
}

/* Prints the values of an integer field, then a line for each group of choices that changes
 * them. */
static void print_integer(const struct op_limits *l, enum att_field f)
{
    static uint8_t base[LIMITS_SAMPLES], sets[MOST_CHOICES][LIMITS_SAMPLES];
    struct text t = {0};
    limits_sweep(&l->base, f, true, base);
    text_add(&t, "`%s`: ", att_fields[f].name);
    describe_values(f, base, &t);
    text_print(&t, "- ", "  ");
    if (f == ATT_HEAD_DIM_V)
        print_pairs(l, base);
    bool done[MOST_CHOICES] = {0};
    for (int i = 0; i < l->count; i++) {
        done[i] = true;
        if (!l->choices[i].targets)
            continue;
        const struct att_variant v = with_choice(l, i);
        limits_sweep(&v, f, true, sets[i]);
        done[i] = !memcmp(sets[i], base, sizeof(base));
    }
    for (int i = 0; i < l->count; i++) {
        if (done[i])
            continue;
        bool same[MOST_CHOICES] = {0};
        for (int j = i; j < l->count; j++) {
            same[j] = !done[j] && !memcmp(sets[i], sets[j], sizeof(base));
            done[j] = done[j] || same[j];
        }
        text_add(&t, "with ");
        name_choices(l, same, &t);
        text_add(&t, ": ");
        describe_values(f, sets[i], &t);
        text_print(&t, "    - ", "      ");
    }
    print_beside_numbers(l, f, base);
}

/* Returns the text of what a choice needs: its targets, unless all have it, and other choices.
 * Values with equal texts are printed together. */
static struct text conditions_of(const struct op_limits *l, const struct choice *c)
{
    struct text t = {0};
    name_targets(c->targets, &t);
    name_helper(l, c, &t);
    return t;
}

/* Prints the values of an enum field that can be built, each with what it needs. */
static void print_enum(const struct op_limits *l, enum att_field f)
{
    const struct att_field_info *info = &att_fields[f];
    struct text t = {0};
    bool done[MOST_CHOICES] = {0};
    text_add(&t, "`%s`: %s", info->name, info->values[info->dflt].name);
    for (int pass = 0; pass < 2; pass++) { /* values without a condition first */
        for (int i = 0; i < l->count; i++) {
            const struct choice *c = &l->choices[i];
            const struct text conditions = conditions_of(l, c);
            if (c->field != f || !c->targets || done[i] || (!pass && conditions.length))
                continue;
            const char *comma = pass ? "; " : ", ";
            for (int j = i; j < l->count; j++) {
                const struct choice *other = &l->choices[j];
                const struct text its = conditions_of(l, other);
                if (other->field != f || !other->targets || strcmp(conditions.at, its.at))
                    continue;
                text_add(&t, "%s%s", comma, info->values[other->value].name);
                comma = ", ";
                done[j] = true;
            }
            text_add(&t, "%s", conditions.at);
        }
    }
    text_print(&t, "- ", "  ");
}

/* Prints the flags and files of an op that can be built, each with what it needs. */
static void print_flags(const struct op_limits *l)
{
    struct text t = {0};
    for (int i = 0; i < l->count; i++) {
        const struct choice *c = &l->choices[i];
        if (att_fields[c->field].kind == ATT_KIND_ENUM || !c->targets)
            continue;
        text_add(&t, "%s`%s`", t.length ? ", " : "", att_fields[c->field].name);
        name_targets(c->targets, &t);
        name_helper(l, c, &t);
    }
    if (t.length)
        text_print(&t, "- true or false: ", "  ");
}

/* True if choices `a` and `b` set different fields and no target compiles a kernel with both; `why`
 * gets the reason. False if a helper of one sets a field of the other. */
static bool clash(const struct op_limits *l, int a, int b, struct att_why *why)
{
    const struct choice *x = &l->choices[a], *y = &l->choices[b];
    if (x->field == y->field || !x->targets || !y->targets)
        return false;
    const struct choice *helpers[] = {x->helper < 0 ? NULL : &l->choices[x->helper],
                                      y->helper < 0 ? NULL : &l->choices[y->helper]};
    for (int i = 0; i < 2; i++) { /* a helper's clashes are printed with the helper itself */
        const struct choice *other = i ? x : y, *second = helpers[!i];
        if (helpers[i] && (helpers[i]->field == other->field ||
                           (second && second->field == helpers[i]->field && second != helpers[i])))
            return false;
    }
    struct att_variant v = l->base;
    apply(l, &v, a);
    apply(l, &v, b);
    return !targets_of_any(l, &v, why);
}

/* True if choices `a` and `b` clash, and do not clash only because of a choice that `a` needs.
 * `why` gets the reason. */
static bool clash_itself(const struct op_limits *l, int a, int b, struct att_why *why)
{
    struct att_why other = {.text = ""};
    if (!clash(l, a, b, why))
        return false;
    const struct chain c = chain_of(l, a);
    for (int i = 0; i < c.count; i++) {
        if (chain_of(l, c.choices[i]).count < c.count && clash(l, c.choices[i], b, &other) &&
            !strcmp(why->text, other.text))
            return false;
    }
    return true;
}

/* True if some target compiles a kernel with choice `c` that has the clashing choices `a` and `b`.
 * All three set different fields. */
static bool is_exception(const struct op_limits *l, int a, int b, int c)
{
    const struct choice *third = &l->choices[c];
    if (third->field == l->choices[a].field || third->field == l->choices[b].field ||
        !third->targets || att_fields[third->field].kind == ATT_KIND_FILE)
        return false;
    struct att_variant v = l->base;
    for (int i = 0; i < 3; i++)
        apply(l, &v, i == 0 ? c : i == 1 ? a : b);
    return att_get(&v, third->field) == third->value && targets_of_any(l, &v, NULL);
}

/* Returns the index of the first exception of clashing choices `a` and `b`; l->count: none. */
static int find_exception(const struct op_limits *l, int a, int b)
{
    int i = 0;
    while (i < l->count && !is_exception(l, a, b, i))
        i++;
    return i;
}

/* Appends to `t` the exceptions of the clashing choices `a` and `b` that set the field of choice
 * `first`; nothing if `first` is l->count. */
static void name_exceptions(const struct op_limits *l, int a, int b, int first, struct text *t)
{
    bool in[MOST_CHOICES] = {0};
    for (int i = first; i < l->count; i++)
        in[i] = l->choices[i].field == l->choices[first].field && is_exception(l, a, b, i);
    text_add(t, first < l->count ? ", except with " : "");
    name_choices(l, in, t);
}

/* Prints the choices after `a` that clash with it, a line for each reason and exception. *any is
 * true once a line was printed; the heading precedes the first. */
static void print_clashes(const struct op_limits *l, int a, bool *any)
{
    bool done[MOST_CHOICES] = {0};
    struct att_why why = {0}, other = {0};
    for (int i = a + 1; i < l->count; i++) {
        if (done[i] || !clash_itself(l, a, i, &why))
            continue;
        struct text t = {0};
        bool same[MOST_CHOICES] = {0};
        const int except = find_exception(l, a, i);
        for (int j = i; j < l->count; j++) {
            same[j] = !done[j] && clash_itself(l, a, j, &other) && !strcmp(why.text, other.text) &&
                      find_exception(l, a, j) == except;
            done[j] = done[j] || same[j];
        }
        name_value(&l->choices[a], &t);
        text_add(&t, " with ");
        name_choices(l, same, &t);
        name_exceptions(l, a, i, except, &t);
        text_add(&t, ": %s", why.text);
        if (!*any)
            text_heading("No kernel has:");
        *any = true;
        text_print(&t, "- ", "  ");
    }
}

/* Sets l->base and limits_served: leaves out targets, from the last one on, until each of the
 * others compiles the base. Prints those that remain if some are left out. Returns false if none
 * remain. */
static bool find_base(struct op_limits *l)
{
    struct text t = {0};
    uint8_t all = 0;
    for (unsigned i = 0; tgt_all[i]; i++)
        all |= (uint8_t)(1 << i);
    for (limits_served = all; limits_served && !find_sizes(l, false) && !find_sizes(l, true);)
        limits_served /= 2;
    for (unsigned i = 0; limits_served != all && limits_served >> i; i++)
        text_add(&t, "%s%s", i ? ", " : "", tgt_all[i]->machine.name);
    if (t.length)
        text_print(&t, "- targets: ", "  ");
    return limits_served;
}

void print_limits(const struct att_template *op)
{
    static struct op_limits l;
    l = (struct op_limits){.op = op};
    if (!find_base(&l))
        return;
    find_choices(&l);
    for (int f = 0; f < ATT_FIELD_COUNT; f++)
        l.largest[f] = is_number(&l, f) ? largest_of(&l, f) : 0;
    bool has_fields = false;
    for (int f = 0; f < ATT_FIELD_COUNT; f++) {
        if (!(op->takes >> f & 1) || att_fields[f].role != ATT_ROLE_KEY)
            continue;
        has_fields = true;
        if (att_fields[f].kind == ATT_KIND_INT)
            print_integer(&l, f);
        else if (att_fields[f].kind == ATT_KIND_ENUM)
            print_enum(&l, f);
    }
    print_flags(&l);
    if (!has_fields)
        text_line("- one, which has no fields");
    bool any = false;
    for (int i = 0; i < l.count; i++)
        print_clashes(&l, i, &any);
}
