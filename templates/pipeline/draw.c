/* SPDX-License-Identifier: Apache-2.0
 *
 * This file prints drawings of pipelines, which the heads of the tables' files and `attnc help
 * pipelines` show.
 */
#include "templates/pipeline/pipeline.h"

#include <string.h>

/* WIDTH: characters of a line without the prefix. TEXT: bytes of an item's text. LABEL: characters
 * of a line's label. */
enum { WIDTH = 90, TEXT = 64, LABEL = 18 };

/* A drawing in progress: the current line, and the rows to draw. */
struct line {
    FILE *out;
    const char *prefix;
    unsigned column; /* number of characters of the line printed so far, without the prefix */
    struct pipe_row rows[PIPE_MAX_ROWS];
    unsigned n_rows;
};

/* Prints the prefix and `label`, and sets l->column to the column after them. */
static void begin_line(struct line *l, const char *label)
{
    l->column =
        (unsigned)fprintf(l->out, "%s%-*s", l->prefix, LABEL, label) - (unsigned)strlen(l->prefix);
}

/* Prints `text` as the next item of a list, after a comma unless it is the `first`. Begins a new
 * line if this one is full. */
static void add_item(struct line *l, const char *text, bool first)
{
    const unsigned width = (unsigned)strlen(text) + (first ? 0 : 2);
    if (!first && l->column + width > WIDTH) {
        fprintf(l->out, ",\n");
        begin_line(l, "");
        l->column += (unsigned)fprintf(l->out, "%s", text);
        return;
    }
    l->column += (unsigned)fprintf(l->out, "%s%s", first ? "" : ", ", text);
}

/* Returns the number of parts into which the drawn rows cut step *op. */
static unsigned count_parts(const struct line *l, const struct pipe_op *op)
{
    unsigned n = 0;
    for (const struct pipe_row *r = l->rows; r < l->rows + l->n_rows; r++)
        if (r->op == op && r->part >= n)
            n = r->part + 1u;
    return n;
}

/* Writes row *r to `text` as the drawing shows it: name, part and stage, in parentheses if it
 * depends on features. */
static void describe_row(const struct pipeline *p, const struct line *l, const struct pipe_row *r,
                         char text[TEXT])
{
    const bool sometimes = r->needs || r->unless;
    char part[16] = "";
    if (r->op->kind == PIPE_STEP && count_parts(l, r->op) > 1)
        snprintf(part, sizeof(part), ".%u", r->part);
    if (r->op->kind == PIPE_AWAIT || r->op->kind == PIPE_AWAIT_STORES)
        snprintf(text, TEXT, "%s%s %s[%u]%s", sometimes ? "(" : "", p->buffers[r->part].name,
                 r->op->name, r->stage, sometimes ? ")" : "");
    else if (r->op->kind == PIPE_RELEASE)
        snprintf(text, TEXT, "%sLDS %s[%u]%s", sometimes ? "(" : "", r->op->name, r->stage,
                 sometimes ? ")" : "");
    else
        snprintf(text, TEXT, "%s%s%s[%u]%s", sometimes ? "(" : "", r->op->name, part, r->stage,
                 sometimes ? ")" : "");
}

/* Prints the steps of stage `stage` in phase `phase` (indices), or its waits and barriers if
 * `ends`. Rows that look alike are drawn once. `n`: number of items that the list has already.
 * Returns the number with the new items. */
static unsigned draw_stage(const struct pipeline *p, unsigned phase, unsigned stage, bool ends,
                           struct line *l, unsigned n)
{
    char before[TEXT] = "";
    for (const struct pipe_row *r = l->rows; r < l->rows + l->n_rows; r++) {
        char text[TEXT];
        if (r->phase != phase || r->stage != stage || (r->op->kind != PIPE_STEP) != ends)
            continue;
        describe_row(p, l, r, text);
        if (strcmp(text, before) != 0)
            add_item(l, text, n++ == 0);
        memcpy(before, text, sizeof(before));
    }
    return n;
}

/* Prints the rows of phase `phase` (index) in the order of an iteration: steps before waits, older
 * tiles first. */
static void draw_phase(const struct pipeline *p, unsigned phase, struct line *l)
{
    unsigned n = 0;
    for (int ends = 0; ends < 2; ends++)
        for (unsigned stage = TIR_MAX_STAGES; stage-- > 0;)
            n = draw_stage(p, phase, stage, ends, l, n);
    if (!n)
        add_item(l, "nothing", true);
    fputc('\n', l->out);
}

/* Prints the buffers in LDS: for each buffer, the waves that share it, and the number of tiles by
 * which it is written early. */
static void draw_buffers(const struct pipeline *p, struct line *l)
{
    begin_line(l, "LDS");
    for (unsigned i = 0; p->buffers && p->buffers[i].name; i++) {
        const struct pipe_buffer *const b = &p->buffers[i];
        if (!b->name[0])
            continue;
        char text[TEXT];
        char early[TEXT / 2] = "";
        if (b->early)
            snprintf(early, sizeof(early), " (written %u early)", b->early);
        snprintf(text, sizeof(text), "%s of a %s%s", b->name,
                 b->scope == PIPE_WORKGROUP ? "workgroup" : "wave", early);
        add_item(l, text, i == 0);
    }
    fprintf(l->out, "%s\n", p->buffers ? "" : "not used");
}

void pipe_draw(const struct pipeline *p, const char *prefix, FILE *out)
{
    struct line l = {.out = out, .prefix = prefix};
    l.n_rows = pipe_list_rows(p, l.rows);
    fprintf(out, "%s%s: %s\n%s%s\n", prefix, p->name, p->when, prefix, p->why);
    for (unsigned i = 0; p->phases[i].name; i++) {
        char label[LABEL];
        snprintf(label, sizeof(label), "%-7s %s%s", p->phases[i].name,
                 p->phases[i].kind == PIPE_MATRIX ? "matrix" : "memory",
                 p->phases[i].open ? " +" : "");
        begin_line(&l, label);
        draw_phase(p, i, &l);
    }
    draw_buffers(p, &l);
    begin_line(&l, "waves");
    add_item(&l,
             p->roles > 1 ? "two halves, the second one group of phases later"
                          : "all run the same phase",
             true);
    fputc('\n', out);
}
