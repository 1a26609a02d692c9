/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/attnc/trace/hot_loop.h"

#include <stdlib.h>
#include <string.h>

#include "tools/attnc/trace/ir_lines.h"
#include "tools/attnc/cli/json.h"

/* Most lines of a listing; column of the stall's name and its width. */
enum { MAX_LINES = 65536, STALL_COLUMN = 43, STALL_WIDTH = 22 };

/* A line of an annotated listing of a kernel. */
struct line {
    double share; /* percent of all clocks */
    /* Offset of the instruction from the kernel's start, in bytes. */
    unsigned long address;
    /* Name and percentage of the stall that costs most, such as "vmem wait 12%"; "": none. */
    char stall[STALL_WIDTH + 1];
    /* The instruction, and the op of the tile IR that it comes from; "": unknown. */
    char text[100], op[300];
};

/* True if the line is a branch. *target gets its target's offset: simm16 words after the next
 * instruction. */
static bool branch_target(const struct line *l, unsigned long *target)
{
    if (strncmp(l->text, "s_branch", 8) != 0 && strncmp(l->text, "s_cbranch", 9) != 0)
        return false;
    const char *operand = strchr(l->text, ' ');
    const long words = operand ? strtol(operand, NULL, 10) : 0;
    const long offset = 4 + 4 * (words > INT16_MAX ? words - 65536 : words);
    *target = l->address + (unsigned long)offset;
    return true;
}

/* Parses a line such as " 0.110% 5120 4.0 1280 vmem wait 12% 00094c s_nop 0". Returns false for a
 * line without an instruction; changes `text`. */
static bool parse_line(char *text, struct line *l)
{
    char *end;
    *l = (struct line){.share = strtod(text, &end)};
    if (*end != '%' || strlen(text) <= STALL_COLUMN)
        return false;
    const char *stall = text + STALL_COLUMN;
    /* The offset is the first word of six hexadecimal digits. */
    const char *at = stall;
    for (; *at; at++) {
        if (strspn(at, "0123456789abcdef") == 6 && at[-1] == ' ' && at[6] == ' ')
            break;
    }
    if (!*at)
        return false;
    l->address = strtoul(at, &end, 16);
    size_t length = (size_t)(at - stall);
    length = length < STALL_WIDTH ? length : STALL_WIDTH;
    while (length && stall[length - 1] == ' ')
        length--;
    snprintf(l->stall, sizeof(l->stall), "%.*s", (int)length, stall);
    end += strspn(end, " ");
    end[strcspn(end, "\n")] = '\0';
    const char *const op = strstr(end, IR_LINE_MARK);
    size_t text_length = op ? (size_t)(op - end) : strlen(end);
    while (text_length && end[text_length - 1] == ' ')
        text_length--;
    snprintf(l->text, sizeof(l->text), "%.*s", (int)text_length, end);
    snprintf(l->op, sizeof(l->op), "%s", op ? op + strlen(IR_LINE_MARK) : "");
    return true;
}

/* Reads the instructions of a listing into a new array, which the caller frees. Returns their
 * number. */
static size_t read_lines(FILE *in, struct line **lines)
{
    char text[1024];
    size_t count = 0;
    *lines = malloc(MAX_LINES * sizeof(**lines));
    while (*lines && count < MAX_LINES && fgets(text, sizeof(text), in)) {
        if (text[0] != ';' && parse_line(text, &(*lines)[count]))
            count++;
    }
    return count;
}

/* A loop of a kernel. */
struct loop {
    size_t first, last; /* indexes of the first and the last line */
    double share;       /* percent of all clocks; 0: there is no loop */
};

/* Returns the loop whose backward branch is line `i`; its share is 0 if the line is no backward
 * branch. */
static struct loop loop_at(const struct line *lines, size_t i)
{
    struct loop l = {i, i, 0};
    unsigned long target;
    if (!branch_target(&lines[i], &target) || target > lines[i].address)
        return l;
    while (l.first > 0 && lines[l.first].address > target)
        l.first--;
    for (size_t k = l.first; k <= i; k++)
        l.share += lines[k].share;
    return l;
}

/* Returns the loop with the largest share among loops inside `outer` that are shorter than it; its
 * share is 0 if there is none. */
static struct loop largest_inside(const struct line *lines, struct loop outer)
{
    struct loop best = {0};
    for (size_t i = outer.first; i <= outer.last; i++) {
        const struct loop l = loop_at(lines, i);
        const bool inside = l.first >= outer.first && l.last - l.first < outer.last - outer.first;
        if (inside && l.share > best.share)
            best = l;
    }
    return best;
}

/* Finds the loop in which a kernel spends its time: begins with the loop of the largest share, and
 * goes on to an inner loop while that has half of the clocks. So it finds the loop over keys inside
 * the loop over work tiles. */
static struct loop find_loop(const struct line *lines, size_t count)
{
    struct loop best = largest_inside(lines, (struct loop){0, count - 1, 100});
    for (struct loop inner = best; best.share > 0; best = inner) {
        inner = largest_inside(lines, best);
        if (inner.share < best.share / 2)
            break;
    }
    return best;
}

void print_hot_loop(const char *annotated, const char *name, FILE *out)
{
    struct line *lines = NULL;
    FILE *in = fopen(annotated, "r");
    const size_t count = in ? read_lines(in, &lines) : 0;
    if (in)
        fclose(in);
    const struct loop loop = count ? find_loop(lines, count) : (struct loop){0};
    if (loop.share > 0) {
        struct json j = {.out = out, .compact = true};
        fprintf(out, "%s\t", name);
        json_begin_list(&j, NULL);
        for (size_t i = loop.first; i <= loop.last; i++) {
            json_begin_list(&j, NULL);
            json_real(&j, NULL, lines[i].share);
            json_string(&j, NULL, lines[i].stall);
            json_integer(&j, NULL, (int64_t)lines[i].address);
            json_string(&j, NULL, lines[i].text);
            if (lines[i].op[0])
                json_string(&j, NULL, lines[i].op);
            json_end(&j);
        }
        json_end(&j);
    }
    free(lines);
}
