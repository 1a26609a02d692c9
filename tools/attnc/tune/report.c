/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc tune --report: writes a page about a sweep, with the time of every candidate on every
 * shape, and the candidate that each shape gets.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/attnc/cli/command.h"
#include "tools/attnc/cli/json.h"
#include "tools/attnc/report/page.h"
#include "tools/attnc/tune/tune.h"

/* The lines of tune_page.html, NULL at the end. */
extern const char *const tune_page[];

/* Writes the JSON list "shapes" of a key: each shape, the index of the plain build's candidate, and
 * the index of the chosen one. */
static void write_shapes(struct json *j, const struct tune_key *key, const struct attnc_tuning *t)
{
    json_begin_list(j, "shapes");
    for (size_t s = 0; s < key->shape_count; s++) {
        const struct attnc_tuned *row = tune_find_row(key, t, &key->shapes[s]);
        const size_t own = tune_own_candidate(key, &key->shapes[s]);
        const size_t chosen = tune_chosen_candidate(key, t, &key->shapes[s]);
        json_begin_object(j, NULL);
        json_string(j, "text", key->shapes[s].text);
        json_integer(j, "own", (int64_t)own); /* indexes in the list of candidates */
        json_integer(j, "chosen", (int64_t)chosen);
        json_string(j, "open", row ? row->open : NULL);
        json_end(j);
    }
    json_end(j);
}

/* Writes candidate `c` of a key as a JSON object: its tile, why it was dropped, and its times in us
 * by shape. Unknown times are null. */
static void write_candidate(struct json *j, const struct tune_key *key, size_t c)
{
    const struct tune_value *const times = tune_times(key, c);
    json_begin_object(j, NULL);
    json_string(j, "tile", key->candidates[c].tile);
    json_string(j, "dropped", key->candidates[c].dropped);
    json_begin_list(j, "us");
    for (size_t s = 0; s < key->shape_count; s++) {
        if (times && times[s].us > 0 && !times[s].fault[0])
            json_real(j, NULL, times[s].us);
        else
            json_null(j, NULL);
    }
    json_end(j);
    json_end(j);
}

/* Writes a key as a JSON object: its name, shapes and candidates. */
static void write_key(struct json *j, const struct tune_key *key, const struct attnc_tuning *t)
{
    char name[ATT_NAME_MAX];
    att_variant_name(&key->variant, name);
    json_begin_object(j, NULL);
    json_string(j, "name", name);
    json_string(j, "op", key->variant.op->name);
    json_string(j, "target", key->variant.target);
    json_flag(j, "measured", key->on_gpu);
    write_shapes(j, key, t);
    json_begin_list(j, "candidates");
    for (size_t c = 0; c < key->candidate_count; c++)
        write_candidate(j, key, c);
    json_end(j);
    json_end(j);
}

int tune_write_report(const struct tune_sweep *sweep, const struct attnc_tuning *tuning,
                      const char *path)
{
    struct page page;
    const int code = begin_page(&page);
    if (code != EXIT_GOOD)
        return code;
    json_begin_list(&page.json, "keys");
    for (size_t i = 0; i < sweep->key_count; i++)
        write_key(&page.json, &sweep->keys[i], tuning);
    json_end(&page.json);
    return end_page(&page, tune_page, path, EXIT_GOOD);
}
