/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns libfyaml's events into the nodes of struct attnc_yaml. libfyaml's own tree would resolve
 * aliases by copies, so that a few lines of nested aliases could exhaust memory.
 */
#include "compiler/yaml.h"

#include <libfyaml.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GIVE_AT_ONCE = 4096 }; /* most bytes of text that libfyaml gets at a time */

/* A name that aliases can refer to. */
struct anchor {
    const char *name; /* the anchor's name; freed at the end of the parse */
    uint32_t node;    /* id of the newest node with this anchor */
};

/* A list or map whose end has not been read: its id and the id of its last child so far, 0 if it
 * has none. */
struct open_node {
    uint32_t node, last_child;
};

struct parse {
    struct attnc_yaml *y;
    struct attnc_diag *d;
    struct open_node open[ATTNC_MAX_DEPTH]; /* from the outermost to the innermost */
    unsigned depth;                         /* number of open nodes */
    struct anchor *anchors;
    unsigned anchor_count;
    unsigned documents; /* number of documents that have begun */

    /* The text and its bytes; the bytes that libfyaml has received; the bytes that it had received
     * at its newest event. */
    const char *bytes;
    size_t size, given, given_before;
    struct att_loc newest; /* place of the newest event */
    bool starved; /* true: ATTNC_MAX_VALUE bytes without an event, so libfyaml gets no more text */
};

/* Makes room for `extra` more elements of `size` bytes in an array of `count` elements and capacity
 * *cap. Returns false if memory is exhausted. */
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

/* Returns a position in libfyaml's text as a place whose line and column count from 1. NULL is the
 * start of the text. */
static struct att_loc where(const struct fy_mark *mark)
{
    if (!mark)
        return (struct att_loc){1, 1};
    return (struct att_loc){(uint32_t)mark->line + 1, (uint32_t)mark->column + 1};
}

/* Appends a scalar's text, with a NUL, to y->text and sets *offset to its byte offset there. */
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

/* Appends a node to the document, as a child of the innermost open list or map. Returns its id, or
 * 0 after an error. */
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

/* Returns the anchor called `name`, or NULL. */
static struct anchor *find_anchor(struct parse *p, const char *name)
{
    for (unsigned i = p->anchor_count; i-- > 0;) {
        if (strcmp(p->anchors[i].name, name) == 0)
            return &p->anchors[i];
    }
    return NULL;
}

/* Makes the anchor `token`, if it is not NULL, refer to `node`. The newest definition of a name
 * applies, as YAML requires. */
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

/* Adds a map or list and makes it the innermost open node. Returns false after an error, such as
 * too deep nesting. */
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

/* Adds the scalar of event `e` to the innermost open map or list. Returns false after an error. */
static bool add_scalar(struct parse *p, struct fy_event *e)
{
    struct attnc_yaml_node node = {.kind = ATTNC_YAML_SCALAR};
    node.at = where(fy_event_start_mark(e));
    node.plain = fy_token_scalar_style(e->scalar.value) == FYSS_PLAIN;
    size_t length = 0;
    const char *text = fy_token_get_text(e->scalar.value, &length);
    if (!text)
        length = 0;
    /* A missing value gets the place of its key, for messages. */
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

/* Adds an alias, whose anchor must precede it. Returns false after an error. */
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

/* Handles one event of libfyaml: adds the node that it begins or contains, or closes the node that
 * it ends. Returns false after an error. */
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

/* True if the bytes are UTF-8 without NUL; otherwise adds an error. libfyaml would report such a
 * fault far from its place. */
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

/* True if no line that begins with % is too long; otherwise adds an error. libfyaml's time is
 * quadratic in the length of such a directive. */
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

/* Attaches to the newest error a note about the innermost open [ or {, since its end may be
 * missing. Returns false if none is open. */
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

/* Returns the first character of a line after its indentation, and sets *column to its column.
 * Lines and columns count from 1. Returns NULL if the text has no such line, or if the line is
 * empty, a comment or indented by tabs. */
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

/* Attaches a note to the newest error if no map has keys in the column in which line `line` begins.
 * If the line begins with "-", this applies to lists. Lines count from 1. Returns false, without a
 * note, if a map or list has that column. */
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

/* Reports the first of libfyaml's messages, with a note about a likely cause. libfyaml continues
 * after some errors, and later messages are consequences. */
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
 * Copies the next bytes of the text to libfyaml's `buffer`, at most `count`, and returns their
 * number; 0 ends the text. The trap is that a [...] or {...} could be a key: until its end libfyaml
 * emits no event and keeps about 400 bytes per byte of text.
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

/* Handles libfyaml's events until the end of the text. Returns false after an error of the events;
 * the parser's syntax errors are reported later. */
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

/* Parses the text with libfyaml and reports its syntax errors. Returns false after an error. */
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
    /* Reserve id 0, which means "no node". */
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
