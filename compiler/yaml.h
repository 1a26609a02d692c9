/* SPDX-License-Identifier: Apache-2.0
 *
 * A YAML document as an array of nodes, each with its place in the file. libfyaml parses the text;
 * the nodes keep only what a description needs, within limits. Aliases remain references, so nested
 * aliases cannot multiply memory.
 */
#ifndef COMPILER_YAML_H
#define COMPILER_YAML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compiler/diag.h"

/** Limits of a description; exceeding one is an error that names it. */
enum {
    ATTNC_MAX_BYTES = 16 << 20, /* most bytes of a file */
    ATTNC_MAX_VALUE = 1 << 20,  /* most bytes of one scalar, comment, [...] or {...} */
    ATTNC_MAX_DIRECTIVE = 128,  /* most bytes of a line that starts with % */
    ATTNC_MAX_NODES = 1 << 20,  /* most keys and values of a file */
    ATTNC_MAX_DEPTH = 32,       /* most lists and maps inside each other */
    ATTNC_MAX_ANCHORS = 1024,
};

enum attnc_yaml_kind {
    ATTNC_YAML_SCALAR,
    ATTNC_YAML_LIST,
    ATTNC_YAML_MAP, /* children alternate: key, value, key, value */
    ATTNC_YAML_ALIAS,
};

/** A node of a document. A node's id is its index in attnc_yaml.nodes. 0: no node, 1: the
 * document. */
struct attnc_yaml_node {
    struct att_loc at; /* place of the node in the file */
    /* of a scalar: byte offset of its text in attnc_yaml.text, which ends with a NUL */
    uint32_t text;
    /* id: of the first child of a list or map, or of the node that an alias means */
    uint32_t first;
    uint32_t next; /* id of the next child of the same parent; 0: the last one */
    uint8_t kind;  /* enum attnc_yaml_kind */
    bool plain;    /* true: a scalar without quotes, which may mean null */
    bool flow;     /* true: a list or map in [...] or {...} */
};

struct attnc_yaml {
    struct attnc_yaml_node *nodes;
    uint32_t count, cap; /* number of nodes, with node 0; nodes that the memory has room for */
    char *text;          /* the texts of all scalars, each with a NUL */
    size_t text_size, text_cap; /* bytes of `text`: used, and allocated */
};

/** Parses `size` bytes that hold one YAML 1.2 (or JSON) document. Returns false with an error in
 * `d` if they are no document or exceed a limit. For an empty document y->count is 1. Free `y` in
 * either case. */
bool attnc_yaml_parse(struct attnc_yaml *y, const char *bytes, size_t size, struct attnc_diag *d);
/** Frees the nodes and texts of a document. */
void attnc_yaml_free(struct attnc_yaml *y);

/** Returns node `id`; if it is an alias, the node that the alias refers to. */
const struct attnc_yaml_node *attnc_yaml_node(const struct attnc_yaml *y, uint32_t id);

/* Returns the text of the scalar `n`, which ends with a NUL. */
static inline const char *attnc_yaml_text(const struct attnc_yaml *y,
                                          const struct attnc_yaml_node *n)
{
    return y->text + n->text;
}

#endif
