/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/yaml_map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

uint32_t attnc_yaml_get(const struct attnc_yaml *y, uint32_t map, const char *name)
{
    const struct attnc_yaml_node *n = attnc_yaml_node(y, map);
    for (uint32_t key = n->kind == ATTNC_YAML_MAP ? n->first : 0; key;) {
        const struct attnc_yaml_node *k = attnc_yaml_node(y, key);
        const uint32_t value = y->nodes[key].next;
        if (k->kind == ATTNC_YAML_SCALAR && !strcmp(attnc_yaml_text(y, k), name))
            return value;
        key = y->nodes[value].next;
    }
    return 0;
}

const char *attnc_yaml_get_text(const struct attnc_yaml *y, uint32_t map, const char *name)
{
    const uint32_t id = attnc_yaml_get(y, map, name);
    const struct attnc_yaml_node *n = attnc_yaml_node(y, id);
    return id && n->kind == ATTNC_YAML_SCALAR ? attnc_yaml_text(y, n) : NULL;
}

bool attnc_yaml_check_keys(const struct attnc_yaml *y, uint32_t map, const char *const names[],
                           struct attnc_diag *d)
{
    const struct attnc_yaml_node *n = attnc_yaml_node(y, map);
    if (n->kind != ATTNC_YAML_MAP)
        return attnc_diag_error(d, n->at, "expected a map with %s and %s", names[0], names[1]),
               false;
    for (uint32_t key = n->first; key; key = y->nodes[y->nodes[key].next].next) {
        const struct attnc_yaml_node *k = attnc_yaml_node(y, key);
        const char *text = k->kind == ATTNC_YAML_SCALAR ? attnc_yaml_text(y, k) : "";
        const char *const *name = names;
        while (*name && strcmp(*name, text))
            name++;
        if (!*name)
            return attnc_diag_error(d, y->nodes[key].at, "unknown key '%.40s'", text), false;
    }
    return true;
}

/* Returns the text of node `id` if it is a scalar, "" if not. */
static const char *scalar(const struct attnc_yaml *y, uint32_t id)
{
    const struct attnc_yaml_node *n = attnc_yaml_node(y, id);
    return n->kind == ATTNC_YAML_SCALAR ? attnc_yaml_text(y, n) : "";
}

bool attnc_yaml_read_number(const struct attnc_yaml *y, uint32_t id, int64_t *number,
                            struct attnc_diag *d)
{
    const char *text = scalar(y, id);
    char *end;
    errno = 0;
    *number = strtoll(text, &end, 10);
    if (end != text && !*end && !errno)
        return true;
    attnc_diag_error(d, y->nodes[id].at, "expected a whole number");
    return false;
}

bool attnc_yaml_read_real(const struct attnc_yaml *y, uint32_t id, double *number,
                          struct attnc_diag *d)
{
    const char *text = scalar(y, id);
    char *end;
    *number = strtod(text, &end);
    if (end != text && !*end)
        return true;
    attnc_diag_error(d, y->nodes[id].at, "expected a number");
    return false;
}
