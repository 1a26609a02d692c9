/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the kernels for a dispatch key. Each combination of the fields' choices is looked up in the
 * indices of the packs. Combinations are tried by ascending cost, equal costs in the order of the
 * fields, and later packs before earlier ones. The result therefore depends only on packs and key.
 */
#include "runtime/lookup.h"

#include <stdio.h>
#include <string.h>

#include "runtime/error.h"

struct attn_key_field *attn_key_add(struct attn_key *key, const char *field, const char *value)
{
    struct attn_key_field *f = &key->fields[key->count++];
    f->field = field;
    f->choices[0] = value;
    f->costs[0] = 0;
    f->count = 1;
    return f;
}

struct attn_key_field *attn_key_add_flag(struct attn_key *key, const char *field, bool value)
{
    return attn_key_add(key, field, value ? "true" : "false");
}

struct attn_key_field *attn_key_add_number(struct attn_key *key, const char *field, int value)
{
    struct attn_key_field *f = attn_key_add(key, field, "");
    char *digit = f->number + sizeof(f->number) - 1;
    *digit = '\0';
    do
        *--digit = (char)('0' + value % 10);
    while (value /= 10);
    f->choices[0] = digit;
    return f;
}

void attn_key_cover(struct attn_key_field *field, const char *value, unsigned cost)
{
    field->choices[field->count] = value;
    field->costs[field->count++] = (uint8_t)cost;
}

void attn_key_cover_up(struct attn_key_field *field, const struct attn_key_step *steps,
                       unsigned count, int number, unsigned cost)
{
    for (unsigned i = 0; i < count; i++) {
        if (steps[i].number > number)
            attn_key_cover(field, steps[i].text, ++cost);
    }
}

/* A search in progress. hashes[i][c] is what field i with choice c adds to the hash of a key. */
struct search {
    const struct attn_device *device;
    const char *op;
    const struct attn_key *key;
    uint64_t hashes[ATTN_KEY_FIELDS][ATTN_KEY_CHOICES];
    uint64_t base;                /* what op and target add to the hash */
    struct attn_matches *matches; /* the choices under test, and the result */
};

/* True if a kernel has the op, the target and exactly the chosen value of each field. Key and
 * record are sorted by field name. */
static bool same_key(const struct search *s, const struct attn_pack *pack,
                     const struct attn_pack_record *record)
{
    const struct attn_key *key = s->key;
    if (record->k->pair_count != key->count || strcmp(record->op, s->op) ||
        strcmp(record->target, s->device->target))
        return false;
    for (unsigned i = 0; i < key->count; i++) {
        const struct attn_key_field *f = &key->fields[i];
        const struct attn_pack_pair *pair = &record->pairs[i];
        if (strcmp(attn_pack_text(pack, pair->field), f->field) ||
            strcmp(attn_pack_text(pack, pair->value), f->choices[s->matches->chosen[i]]))
            return false;
    }
    return true;
}

/* Adds kernel `number` of its pack to the matches. Kernels with conditions on calls precede kernels
 * without. */
static void keep(struct attn_matches *m, uint32_t number, const struct attn_pack_record *record)
{
    uint32_t at = m->count;
    if (record->k->when_count) {
        at = 0;
        while (at < m->count && m->records[at]->k->when_count)
            at++;
        memmove(&m->numbers[at + 1], &m->numbers[at], (m->count - at) * sizeof(m->numbers[0]));
        memmove(&m->records[at + 1], &m->records[at], (m->count - at) * sizeof(m->records[0]));
    }
    m->numbers[at] = number;
    m->records[at] = record;
    m->count++;
}

/* Adds the kernels with the chosen key, whose hash is `hash`, from the last pack that has any.
 * Returns ATTN_OK even without a match, or an error. */
static int probe(const struct search *s, uint64_t hash)
{
    struct attn_matches *m = s->matches;
    for (size_t p = s->device->pack_count; p-- > 0;) {
        const struct attn_pack *pack = s->device->packs[p];
        uint32_t row = attn_pack_find(pack, hash);
        for (; row < pack->kernel_count && pack->rows[row].hash == hash; row++) {
            const struct attn_pack_record *record;
            int r = attn_pack_read(pack, pack->rows[row].kernel, &record);
            if (r)
                return r;
            if (m->count < ATTN_MATCHES_MAX && same_key(s, pack, record))
                keep(m, pack->rows[row].kernel, record);
        }
        if (m->count) {
            m->pack = (uint32_t)p;
            return ATTN_OK;
        }
    }
    return ATTN_OK;
}

/* Tries every combination of choices from field `i` on whose costs add up to exactly `cost`, until
 * one has kernels. `hash` is the hash of the earlier fields. */
static int try_combinations(const struct search *s, unsigned i, unsigned cost, uint64_t hash)
{
    while (i < s->key->count && s->key->fields[i].count == 1)
        hash += s->hashes[i++][0];
    if (i == s->key->count)
        return cost == 0 ? probe(s, hash) : ATTN_OK;
    const struct attn_key_field *f = &s->key->fields[i];
    for (unsigned c = 0; c < f->count; c++) {
        if (f->costs[c] > cost)
            continue;
        s->matches->chosen[i] = (uint8_t)c;
        int r = try_combinations(s, i + 1, cost - f->costs[c], hash + s->hashes[i][c]);
        if (r || s->matches->count)
            return r;
    }
    return ATTN_OK;
}

/* Returns the text of a field's value in messages. `value` NULL: the kernel lacks the field. */
static const char *value_text(const char *field, const char *value)
{
    if (!value)
        return "(unsaid)";
    return !strcmp(field, "page_size") && !strcmp(value, "any") ? "any power of two" : value;
}

/* Returns the number of the key's fields for which a kernel's value is none of the choices, and
 * describes these fields in `text`. */
static unsigned count_mismatches(const struct search *s, const struct attn_pack *pack,
                                 const struct attn_pack_record *record, char *text, size_t size)
{
    unsigned mismatches = 0;
    size_t used = 0;
    for (unsigned i = 0; i < s->key->count; i++) {
        const struct attn_key_field *f = &s->key->fields[i];
        const char *value = NULL;
        for (unsigned p = 0; p < record->k->pair_count; p++) {
            if (!strcmp(attn_pack_text(pack, record->pairs[p].field), f->field))
                value = attn_pack_text(pack, record->pairs[p].value);
        }
        bool fits = false;
        for (unsigned c = 0; value && c < f->count; c++)
            fits = fits || !strcmp(value, f->choices[c]);
        if (fits)
            continue;
        mismatches++;
        if (used < size)
            used += snprintf(text + used, size - used, "%s%s %s instead of %s",
                             mismatches > 1 ? ", " : "", f->field, value_text(f->field, value),
                             f->choices[0]);
    }
    return mismatches;
}

/* The kernel that differs in the fewest fields from the key. */
struct nearest {
    unsigned mismatches; /* number of fields in which the kernel differs */
    bool here;           /* true: the kernel is for this device's target */
    char text[300];      /* the fields in which it differs */
    char name[160];
    char target[32];
};

/* Compares kernel `n` of a pack with the key, and stores it in `best` if it is nearer. Kernels for
 * the device's target are nearer than all others. */
static int consider(const struct search *s, const struct attn_pack *pack, uint32_t n,
                    struct nearest *best)
{
    struct attn_pack_record record;
    int r = attn_pack_view(pack, n, &record);
    if (r || strcmp(record.op, s->op))
        return r;
    bool here = !strcmp(record.target, s->device->target);
    char text[sizeof(best->text)] = "";
    unsigned mismatches = count_mismatches(s, pack, &record, text, sizeof(text));
    if (best->name[0] &&
        (here < best->here || (here == best->here && mismatches >= best->mismatches)))
        return ATTN_OK;
    best->mismatches = mismatches;
    best->here = here;
    memcpy(best->text, text, sizeof(text));
    snprintf(best->name, sizeof(best->name), "%s", record.name);
    snprintf(best->target, sizeof(best->target), "%s", record.target);
    return ATTN_OK;
}

/* Compares all kernels of a pack with the key, and stores the nearest in `best`. */
static int consider_all(const struct search *s, const struct attn_pack *pack, struct nearest *best)
{
    struct attn_pack *whole;
    int r = attn_pack_map(pack, &whole);
    if (r)
        return r;
    for (uint32_t n = 0; !r && n < whole->kernel_count; n++)
        r = consider(s, whole, n, best);
    attn_pack_close(whole);
    return r;
}

/* Returns ATTN_NO_KERNEL with a message that names the nearest kernel and the fields in which it
 * differs. */
static int explain_absence(const struct search *s)
{
    struct nearest best = {0};
    for (size_t p = s->device->pack_count; p-- > 0;) {
        int r = consider_all(s, s->device->packs[p], &best);
        if (r)
            return r;
    }
    if (!best.name[0])
        return attn_fail(ATTN_NO_KERNEL, "the pack has no %s kernel at all", s->op);
    if (!best.here)
        return attn_fail(ATTN_NO_KERNEL,
                         "the pack has no %s kernel for %s, which this GPU is; the nearest, %s, is "
                         "for %s",
                         s->op, s->device->target, best.name, best.target);
    return attn_fail(ATTN_NO_KERNEL, "no %s kernel for this on %s; the nearest, %s, has %s", s->op,
                     s->device->target, best.name,
                     best.mismatches ? best.text : "the same fields and others besides");
}

int attn_find_kernels(const struct attn_device *device, const char *op, const struct attn_key *key,
                      struct attn_matches *matches)
{
    struct search s; /* not zeroed: only the hashes of the key's choices are written and read */
    s.device = device;
    s.op = op;
    s.key = key;
    s.matches = matches;
    s.base = attn_pack_hash_pair("op", op) + attn_pack_hash_pair("target", device->target);
    unsigned highest = 0;
    for (unsigned i = 0; i < key->count; i++) {
        const struct attn_key_field *f = &key->fields[i];
        const uint64_t field = attn_pack_hash_field(f->field);
        unsigned most = 0;
        for (unsigned c = 0; c < f->count; c++) {
            s.hashes[i][c] = attn_pack_hash_value(field, f->choices[c]);
            most = f->costs[c] > most ? f->costs[c] : most;
        }
        highest += most;
    }
    matches->count = 0;
    memset(matches->chosen, 0, sizeof(matches->chosen));
    for (unsigned cost = 0; cost <= highest; cost++) {
        int r = try_combinations(&s, 0, cost, s.base);
        if (r || matches->count)
            return r;
    }
    return explain_absence(&s);
}

void attn_explain(const struct attn_key *key, const struct attn_matches *matches, char *why,
                  size_t size)
{
    size_t used = snprintf(why, size, "exact");
    bool exact = true;
    for (unsigned i = 0; i < key->count; i++) {
        const struct attn_key_field *f = &key->fields[i];
        if (matches->chosen[i] == 0)
            continue;
        if (exact)
            used = snprintf(why, size, "the cheapest that covers it:");
        if (used < size)
            used += snprintf(why + used, size - used, "%s %s %s covers %s", exact ? "" : ",",
                             f->field, f->choices[matches->chosen[i]], f->choices[0]);
        exact = false;
    }
}
