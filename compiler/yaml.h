/* SPDX-License-Identifier: Apache-2.0
 *
 * A YAML document as a flat tree with the place of every node. libfyaml parses it; the tree keeps
 * only what a description needs, within limits. Aliases remain references, so expansion cannot
 * multiply memory.
 */
#ifndef COMPILER_YAML_H
#define COMPILER_YAML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compiler/diag.h"

/** Limits of a description; exceeding one is an error that names it. */
enum {
    ATTNC_MAX_BYTES = 16 << 20,
    ATTNC_MAX_VALUE = 1 << 20, /* bytes of one scalar, comment, [...] or {...} */
    ATTNC_MAX_DIRECTIVE = 128, /* bytes of a line that starts with % */
    ATTNC_MAX_NODES = 1 << 20,
    ATTNC_MAX_DEPTH = 32,
    ATTNC_MAX_ANCHORS = 1024,
};

enum attnc_yaml_kind {
    ATTNC_YAML_SCALAR,
    ATTNC_YAML_LIST,
    ATTNC_YAML_MAP, /* children alternate: key, value, key, value */
    ATTNC_YAML_ALIAS,
};

/** Ids index attnc_yaml.nodes; 0: no node, 1: the document. */
struct attnc_yaml_node {
    struct att_loc at;
    uint32_t text;  /* scalar: offset into attnc_yaml.text, NUL-terminated there */
    uint32_t first; /* list, map: first child; alias: the node it refers to */
    uint32_t next;  /* next child of the same parent */
    uint8_t kind;
    bool plain; /* scalar without quotes, which may mean null */
    bool flow;  /* list or map in [...] or {...} */
};

struct attnc_yaml {
    struct attnc_yaml_node *nodes;
    uint32_t count, cap;
    char *text;
    size_t text_size, text_cap;
};

/** Parses `size` bytes that hold one YAML 1.2 (or JSON) document. Returns false if they are no
 * document or exceed a limit; `d` then has an error. An empty document has count 1. Free `y` in
 * either case. */
bool attnc_yaml_parse(struct attnc_yaml *y, const char *bytes, size_t size, struct attnc_diag *d);
/** Frees the nodes and texts of a document. */
void attnc_yaml_free(struct attnc_yaml *y);

/** Returns the node, or the node that it refers to if it is an alias. */
const struct attnc_yaml_node *attnc_yaml_node(const struct attnc_yaml *y, uint32_t id);

/* Returns the text of a scalar. */
static inline const char *attnc_yaml_text(const struct attnc_yaml *y,
                                          const struct attnc_yaml_node *n)
{
    return y->text + n->text;
}

#endif
