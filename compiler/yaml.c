/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns libfyaml's events into the flat tree. libfyaml's documents would resolve aliases by
 * copying, so that a few lines of nested aliases could exhaust memory.
 */
#include "compiler/yaml.h"

#include <libfyaml.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GIVE_AT_ONCE = 4096 };

struct anchor {
    const char *name; /* in `names`, NUL-terminated */
    uint32_t node;
};

struct open_node {
    uint32_t node, last_child;
};

struct parse {
    struct attnc_yaml *y;
    struct attnc_diag *d;
    struct open_node open[ATTNC_MAX_DEPTH];
    unsigned depth;
    struct anchor *anchors;
    unsigned anchor_count;
    unsigned documents;

    /* The text, how much of it libfyaml has been given, and how much it had at the newest event. */
    const char *bytes;
    size_t size, given, given_before;
    struct att_loc newest;
    bool starved; /* no event for ATTNC_MAX_VALUE bytes, so no more text is given */
};

/* Reserves room for `extra` more elements of `size` bytes in an array of `count` elements and
 * capacity *cap. */
static bool reserve(void **array, size_t size, size_t count, size_t *cap, size_t extra)
{
    if (extra <= *cap - count)
        return true;
    size_t wanted = *cap ? *cap * 2 : 256;
    while (wanted - count < extra)
        wanted *= 2;
    void *grown = realloc(*array, wanted * size);
    if (!grown)
        return false;
    *array = grown;
    *cap = wanted;
    return true;
}

/* Returns a position of libfyaml with line and column from 1. */
static struct att_loc where(const struct fy_mark *mark)
{
    if (!mark)
        return (struct att_loc){1, 1};
    return (struct att_loc){(uint32_t)mark->line + 1, (uint32_t)mark->column + 1};
}

/* Copies a text of a document and returns its offset in y->text. */
static bool keep_text(struct parse *p, const char *text, size_t length, uint32_t *offset)
{
    struct attnc_yaml *y = p->y;
    void *array = y->text;
    if (!reserve(&array, 1, y->text_size, &y->text_cap, length + 1))
        return attnc_diag_no_memory(p->d);
    y->text = array;
    *offset = (uint32_t)y->text_size;
    if (length)
        memcpy(y->text + y->text_size, text, length);
    y->text[y->text_size + length] = '\0';
    y->text_size += length + 1;
    return true;
}

/* Appends a node to the innermost open list or map. 0: out of memory. */
static uint32_t add_node(struct parse *p, struct attnc_yaml_node node)
{
    struct attnc_yaml *y = p->y;
    if (y->count == ATTNC_MAX_NODES) {
        attnc_diag_error(p->d, node.at, "more than %d values in one description", ATTNC_MAX_NODES);
        return 0;
    }
    void *array = y->nodes;
    size_t cap = y->cap;
    if (!reserve(&array, sizeof(*y->nodes), y->count, &cap, 1)) {
        attnc_diag_no_memory(p->d);
        return 0;
    }
    y->nodes = array;
    y->cap = (uint32_t)cap;
    uint32_t id = y->count++;
    y->nodes[id] = node;
    if (p->depth) {
        struct open_node *parent = &p->open[p->depth - 1];
        if (parent->last_child)
            y->nodes[parent->last_child].next = id;
        else
            y->nodes[parent->node].first = id;
        parent->last_child = id;
    }
    return id;
}

/* Returns the newest anchor called `name`, or NULL. */
static struct anchor *find_anchor(struct parse *p, const char *name)
{
    for (unsigned i = p->anchor_count; i-- > 0;) {
        if (strcmp(p->anchors[i].name, name) == 0)
            return &p->anchors[i];
    }
    return NULL;
}

/* Adds an anchor. The newest definition of a name applies, as YAML requires; older ones are
 * dropped. */
static bool add_anchor(struct parse *p, struct fy_token *token, uint32_t node)
{
    if (!token)
        return true;
    const char *name = fy_token_get_text0(token);
    if (!name)
        return attnc_diag_no_memory(p->d);
    struct anchor *known = find_anchor(p, name);
    if (known) {
        known->node = node;
        return true;
    }
    if (p->anchor_count == ATTNC_MAX_ANCHORS) {
        attnc_diag_error(p->d, p->y->nodes[node].at, "more than %d anchors in one description",
                         ATTNC_MAX_ANCHORS);
        return false;
    }
    char *copy = strdup(name);
    if (!copy)
        return attnc_diag_no_memory(p->d);
    p->anchors[p->anchor_count++] = (struct anchor){copy, node};
    return true;
}

/* Begins a map or list; fails if it is nested too deep. */
static bool open_node(struct parse *p, struct fy_event *e, enum attnc_yaml_kind kind,
                      struct fy_token *anchor)
{
    const struct fy_mark *mark = fy_event_start_mark(e);
    struct att_loc at = where(mark);
    const bool flow = mark && mark->input_pos < p->size && strchr("[{", p->bytes[mark->input_pos]);
    if (p->depth == ATTNC_MAX_DEPTH) {
        attnc_diag_error(p->d, at, "nested deeper than %d levels", ATTNC_MAX_DEPTH);
        return false;
    }
    uint32_t id = add_node(p, (struct attnc_yaml_node){.kind = kind, .at = at, .flow = flow});
    if (!id || !add_anchor(p, anchor, id))
        return false;
    p->open[p->depth++] = (struct open_node){.node = id};
    return true;
}

/* Adds a scalar to the open map or list. */
static bool add_scalar(struct parse *p, struct fy_event *e)
{
    struct attnc_yaml_node node = {.kind = ATTNC_YAML_SCALAR};
    node.at = where(fy_event_start_mark(e));
    node.plain = fy_token_scalar_style(e->scalar.value) == FYSS_PLAIN;
    size_t length = 0;
    const char *text = fy_token_get_text(e->scalar.value, &length);
    if (!text)
        length = 0;
    /* A missing value has its key's place. */
    if (length == 0 && node.plain && p->depth && p->open[p->depth - 1].last_child)
        node.at = p->y->nodes[p->open[p->depth - 1].last_child].at;
    if (length && memchr(text, '\0', length)) {
        attnc_diag_error(p->d, node.at, "a NUL in a string");
        return false;
    }
    if (!keep_text(p, text, length, &node.text))
        return false;
    uint32_t id = add_node(p, node);
    return id && add_anchor(p, e->scalar.anchor, id);
}

/* Adds an alias of an anchor that precedes it. */
static bool add_alias(struct parse *p, struct fy_event *e)
{
    struct att_loc at = where(fy_event_start_mark(e));
    const char *name = fy_token_get_text0(e->alias.anchor);
    if (!name)
        return attnc_diag_no_memory(p->d);
    const struct anchor *anchor = find_anchor(p, name);
    if (!anchor) {
        attnc_diag_error(p->d, at, "alias *%s has no anchor &%s before it", name, name);
        return false;
    }
    return add_node(p, (struct attnc_yaml_node){
                           .kind = ATTNC_YAML_ALIAS, .at = at, .first = anchor->node}) != 0;
}

/* Adds what one event of the parser begins, contains or ends. */
static bool add_event(struct parse *p, struct fy_event *e)
{
    switch (e->type) {
    case FYET_DOCUMENT_START:
        if (p->documents++ == 0)
            return true;
        attnc_diag_error(p->d, where(fy_event_start_mark(e)),
                         "a second document; a description is one");
        return false;
    case FYET_MAPPING_START: return open_node(p, e, ATTNC_YAML_MAP, e->mapping_start.anchor);
    case FYET_SEQUENCE_START: return open_node(p, e, ATTNC_YAML_LIST, e->sequence_start.anchor);
    case FYET_MAPPING_END:
    case FYET_SEQUENCE_END: p->depth--; return true;
    case FYET_SCALAR: return add_scalar(p, e);
    case FYET_ALIAS: return add_alias(p, e);
    default: return true;
    }
}

/* Checks for UTF-8 without NUL; libfyaml would report such a fault far from its place. */
static bool check_encoding(const char *bytes, size_t size, struct attnc_diag *d)
{
    struct att_loc at = {1, 1};
    for (size_t i = 0; i < size;) {
        size_t length = attnc_utf8_length(bytes + i, size - i);
        if (length == 0)
            attnc_diag_error(d, at, "byte 0x%02x is not UTF-8", (unsigned char)bytes[i]);
        else if (bytes[i] == '\0')
            attnc_diag_error(d, (struct att_loc){0}, "line %u holds a NUL byte: expected text",
                             at.line);
        if (length == 0 || bytes[i] == '\0')
            return false;
        at.column++;
        if (bytes[i] == '\n')
            at = (struct att_loc){at.line + 1, 1};
        i += length;
    }
    return true;
}

/* Limits directives, because libfyaml's time is quadratic in their length. */
static bool check_directives(const char *bytes, size_t size, struct attnc_diag *d)
{
    const char *end = bytes + size;
    uint32_t line = 1;
    for (const char *at = bytes; at < end; line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        stop = stop ? stop : end;
        if (*at == '%' && stop - at > ATTNC_MAX_DIRECTIVE) {
            attnc_diag_error(d, (struct att_loc){line, 1}, "a directive longer than %d bytes",
                             ATTNC_MAX_DIRECTIVE);
            return false;
        }
        at = stop + 1;
    }
    return true;
}

/* Adds a note about an open [ or {, since its end may be missing. Returns false if none is open. */
static bool note_open_bracket(const struct parse *p, struct attnc_diag *d)
{
    for (unsigned i = p->depth; i-- > 0;) {
        const struct attnc_yaml_node *n = &p->y->nodes[p->open[i].node];
        char note[80];
        if (!n->flow)
            continue;
        snprintf(note, sizeof(note), "    the '%c' of line %u, column %u, is open here\n",
                 n->kind == ATTNC_YAML_LIST ? '[' : '{', n->at.line, n->at.column);
        attnc_diag_attach(d, note);
        return true;
    }
    return false;
}

/* Returns the first character of a line after its indentation. Returns NULL if the text has no such
 * line, or the line is empty, a comment or indented by tabs. `line` counts from 1, and *column, the
 * column of that character, too. */
static const char *line_start(const struct parse *p, uint32_t line, uint32_t *column)
{
    const char *at = p->bytes, *const end = p->bytes + p->size;
    for (; line > 1 && at < end; at++)
        line -= *at == '\n';
    const char *const first = at;
    while (at < end && *at == ' ')
        at++;
    *column = (uint32_t)(at - first) + 1;
    return at == end || strchr("\t\r\n#", *at) ? NULL : at;
}

/* Adds a note about a line that begins in a column without a key, or with "-" in one without a
 * list. Returns false if a key or list of that column was read. `line` counts from 1. */
static bool note_indentation(const struct parse *p, uint32_t line, struct attnc_diag *d)
{
    uint32_t column;
    const char *const start = line_start(p, line, &column);
    if (!start)
        return false;
    const bool item = *start == '-';
    const struct attnc_yaml_node *newest = NULL;
    for (uint32_t id = 1; id < p->y->count; id++) {
        const struct attnc_yaml_node *n = &p->y->nodes[id];
        if (n->flow || (n->kind != ATTNC_YAML_LIST && (item || n->kind != ATTNC_YAML_MAP)))
            continue;
        /* After a new "-" no key says yet in which column the keys of that item begin. */
        newest = item || n->kind == ATTNC_YAML_MAP ? n : NULL;
        if (newest && n->at.column == column)
            return false;
    }
    if (!newest)
        return false;
    char note[160];
    snprintf(note, sizeof(note),
             "    line %u begins in column %u, %s of line %u in column %u: indent both equally\n",
             line, column, item ? "the list" : "the keys", newest->at.line, newest->at.column);
    attnc_diag_attach(d, note);
    return true;
}

/* Reports libfyaml's first message; it continues after some errors, and later ones are
 * consequences. */
static void report_syntax(struct parse *p, struct fy_diag *diag, struct attnc_diag *d)
{
    size_t first = 0;
    while (first < p->size && strchr(" \t\r\n", p->bytes[first]))
        first++;
    const char *format = first < p->size && p->bytes[first] == '{' ? "JSON" : "YAML";
    void *iterator = NULL;
    const struct fy_diag_error *e = fy_diag_errors_iterate(diag, &iterator);
    if (!e) {
        attnc_diag_error(d, (struct att_loc){0, 0}, "not %s", format);
        return;
    }
    struct att_loc at = {(uint32_t)(e->line > 0 ? e->line : 1),
                         (uint32_t)(e->column > 0 ? e->column : 1)};
    attnc_diag_error(d, at, "not %s: %s", format, e->msg);
    if (!note_open_bracket(p, d) && !note_indentation(p, at.line, d))
        note_indentation(p, at.line + 1, d);
}

/*
 * Feeds libfyaml the text in pieces. A [...] or {...} could be a key: until its end libfyaml emits
 * nothing and keeps about 400 bytes per byte of text.
 */
static ssize_t give(void *user, void *buffer, size_t count)
{
    struct parse *p = user;
    size_t left = p->size - p->given;
    count = count < left ? count : left;
    count = count < GIVE_AT_ONCE ? count : GIVE_AT_ONCE;
    p->starved = p->given - p->given_before > ATTNC_MAX_VALUE;
    if (p->starved)
        return 0;
    memcpy(buffer, p->bytes + p->given, count);
    p->given += count;
    return (ssize_t)count;
}

/* Handles the parser's events until the end of the document or an error. */
static bool parse_events(struct parse *p, struct fy_parser *parser)
{
    struct fy_event *e;
    bool good = true;
    while (good && (e = fy_parser_parse(parser)) != NULL) {
        if (!p->starved) {
            p->newest = where(fy_event_start_mark(e));
            p->given_before = p->given;
            good = add_event(p, e);
        }
        fy_parser_event_free(parser, e);
    }
    if (p->starved) {
        attnc_diag_error(p->d, p->newest, "no value ends in the %d bytes from here on",
                         ATTNC_MAX_VALUE);
        return false;
    }
    return good;
}

/* Runs libfyaml over the bytes; its parser and diagnostics exist only here. */
static bool run_parser(struct parse *p)
{
    struct fy_diag_cfg diag_config;
    fy_diag_cfg_default(&diag_config);
    struct fy_diag *diag = fy_diag_create(&diag_config);
    if (!diag)
        return attnc_diag_no_memory(p->d);
    fy_diag_set_collect_errors(diag, true);
    struct fy_parse_cfg config = {
        .flags = FYPCF_QUIET | FYPCF_COLLECT_DIAG | FYPCF_DEFAULT_VERSION_1_2 | FYPCF_JSON_NONE,
        .diag = diag,
    };
    bool good = false;
    struct fy_parser *parser = fy_parser_create(&config);
    if (!parser || fy_parser_set_input_callback(parser, p, give) != 0) {
        attnc_diag_no_memory(p->d);
        goto out;
    }
    good = parse_events(p, parser);
    if (good && fy_parser_get_stream_error(parser)) {
        report_syntax(p, diag, p->d);
        good = false;
    }
out:
    if (parser)
        fy_parser_destroy(parser);
    fy_diag_destroy(diag);
    return good;
}

bool attnc_yaml_parse(struct attnc_yaml *y, const char *bytes, size_t size, struct attnc_diag *d)
{
    *y = (struct attnc_yaml){0};
    if (size > ATTNC_MAX_BYTES) {
        attnc_diag_error(d, (struct att_loc){0, 0}, "larger than %d MiB", ATTNC_MAX_BYTES >> 20);
        return false;
    }
    if (!check_encoding(bytes, size, d) || !check_directives(bytes, size, d))
        return false;

    struct parse p = {.y = y, .d = d, .bytes = bytes, .size = size};
    p.anchors = malloc(ATTNC_MAX_ANCHORS * sizeof(*p.anchors));
    bool good = p.anchors ? true : attnc_diag_no_memory(d);
    /* Reserve node 0, which means "no node". */
    good = good && (add_node(&p, (struct attnc_yaml_node){0}), y->count == 1);
    good = good && run_parser(&p);
    for (unsigned i = 0; i < p.anchor_count; i++)
        free((char *)p.anchors[i].name);
    free(p.anchors);
    return good;
}

void attnc_yaml_free(struct attnc_yaml *y)
{
    free(y->nodes);
    free(y->text);
    *y = (struct attnc_yaml){0};
}

const struct attnc_yaml_node *attnc_yaml_node(const struct attnc_yaml *y, uint32_t id)
{
    const struct attnc_yaml_node *n = &y->nodes[id];
    /* An alias names a list, map or scalar, never another alias. */
    return n->kind == ATTNC_YAML_ALIAS ? &y->nodes[n->first] : n;
}
