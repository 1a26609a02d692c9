/* SPDX-License-Identifier: Apache-2.0
 *
 * This file parses the printed form (ir/LANGUAGE.md). It accepts any text. The function that it
 * returns has valid ids, and the verifier checks the rest. A value must be defined before the text
 * uses it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/arena.h"
#include "ir/lex.h"
#include "ir/passes.h"

enum {
    MAX_NAME = 256,
    MAX_DEPTH = 32,
    MAX_VALUES = 1 << 20,
    MAX_LAYOUTS = 4096,
    MAX_LIST = 4096, /* operands or results of one op */
};

struct parser {
    struct tir_lexer l;
    struct tir_func *f;
    struct tir_value *values; /* values by their number in the text */
    uint32_t cap_values;
    /* by the layout's number in the text: 1 + its index in the function; 0: not defined */
    uint32_t *layouts;
    int depth;
};

/* The functions from here on read values. */

/* Reads a value's number and its name; `name` is empty if there is none. */
static bool read_number(struct parser *p, uint32_t *number, char name[MAX_NAME])
{
    name[0] = 0;
    if (!tir_lex_expect(&p->l, "%") || !tir_lex_number(&p->l, MAX_VALUES - 1, number))
        return false;
    if (p->l.at < p->l.end && *p->l.at == '.') {
        p->l.at++;
        return tir_lex_word(&p->l, name, MAX_NAME);
    }
    return true;
}

/* Reads an operand; fails if the value is not defined. */
static bool read_operand(struct parser *p, struct tir_value *v)
{
    uint32_t number;
    char name[MAX_NAME];
    if (!read_number(p, &number, name))
        return false;
    if (number >= p->cap_values || !p->values[number].id)
        return tir_lex_fail(&p->l, "%%%u is not defined before this", number);
    *v = p->values[number];
    return true;
}

/* A value's number and name, before the value exists. */
struct definition {
    uint32_t number;
    char *name; /* allocated with the function, or NULL */
};

/* Reads the number and name of a value to define; fails if the number is taken. */
static bool read_definition(struct parser *p, struct definition *d)
{
    char name[MAX_NAME];
    if (!read_number(p, &d->number, name))
        return false;
    if (d->number < p->cap_values && p->values[d->number].id)
        return tir_lex_fail(&p->l, "%%%u is defined twice", d->number);
    d->name = *name ? (char *)tir_strdup(p->f, name) : NULL;
    return true;
}

/* Makes number `d.number` denote value `v`. */
static bool define(struct parser *p, struct definition d, struct tir_value v)
{
    if (d.number >= p->cap_values) {
        const uint32_t cap = d.number + d.number / 2 + 64;
        p->values = tir_checked(realloc(p->values, cap * sizeof(*p->values)));
        memset(p->values + p->cap_values, 0, (cap - p->cap_values) * sizeof(*p->values));
        p->cap_values = cap;
    }
    if (p->values[d.number].id)
        return tir_lex_fail(&p->l, "%%%u is defined twice", d.number);
    p->values[d.number] = v;
    p->f->values[v.id].name = d.name;
    return true;
}

/* The functions from here on read types. */

/* Reads the name of a data type. */
static bool read_dtype(struct parser *p, unsigned *dtype)
{
    char word[16];
    if (!tir_lex_word(&p->l, word, sizeof(word)))
        return false;
    for (*dtype = TIR_NONE + 1; *dtype < TIR_N_DTYPES; ++*dtype)
        if (!strcmp(word, tir_dtype_name(*dtype)))
            return true;
    return tir_lex_fail(&p->l, "\"%s\" is no dtype", word);
}

/* Reads a layout's number and writes the function's index of that layout. */
static bool read_layout(struct parser *p, uint32_t *layout)
{
    uint32_t number;
    if (!tir_lex_expect(&p->l, "#") || !tir_lex_number(&p->l, MAX_LAYOUTS - 1, &number))
        return false;
    if (!p->layouts[number])
        return tir_lex_fail(&p->l, "layout #%u is not defined", number);
    *layout = p->layouts[number] - 1;
    return true;
}

/* Reads a tile type after "tile<". */
static bool read_tile(struct parser *p, struct tir_type *t)
{
    uint32_t rows, cols, layout;
    unsigned dtype;
    if (!tir_lex_number(&p->l, UINT16_MAX, &rows) || !tir_lex_expect(&p->l, "x") ||
        !tir_lex_number(&p->l, UINT16_MAX, &cols) || !tir_lex_expect(&p->l, ",") ||
        !read_dtype(p, &dtype) || !tir_lex_expect(&p->l, ",") || !read_layout(p, &layout))
        return false;
    *t = (struct tir_type){
        .kind = TIR_TILE,
        .dtype = (uint8_t)dtype,
        .rows = (uint16_t)rows,
        .cols = (uint16_t)cols,
        .layout = layout,
    };
    return tir_lex_expect(&p->l, ">");
}

/* Reads the type of a scalar, vec or tile. */
static bool read_type(struct parser *p, struct tir_type *t)
{
    uint32_t count;
    unsigned dtype;
    if (tir_lex_try(&p->l, "tile"))
        return tir_lex_expect(&p->l, "<") && read_tile(p, t);
    if (!tir_lex_try(&p->l, "vec")) {
        const bool ok = read_dtype(p, &dtype);
        if (ok)
            *t = tir_scalar(dtype);
        return ok;
    }
    if (!tir_lex_expect(&p->l, "<") || !tir_lex_number(&p->l, TIR_MAX_VEC, &count) ||
        !tir_lex_expect(&p->l, ",") || !read_dtype(p, &dtype) || !tir_lex_expect(&p->l, ">"))
        return false;
    if (!count)
        return tir_lex_fail(&p->l, "vec of no elements");
    *t = tir_vec(dtype, count);
    return true;
}

/* The functions from here on read attributes. */

/* Reads a matrix instruction's name and writes its index in the machine's table. */
static bool read_instr(struct parser *p, int64_t *imm)
{
    char name[MAX_NAME];
    if (!tir_lex_string(&p->l, name, sizeof(name)))
        return false;
    *imm = tir_find_mma_name(p->f->machine, name);
    return *imm >= 0 || tir_lex_fail(&p->l, "%s has no \"%s\"", p->f->machine->name, name);
}

/* Reads a hook's name and writes its index. */
static bool read_hook(struct parser *p, int64_t *imm)
{
    char name[MAX_NAME];
    if (!tir_lex_string(&p->l, name, sizeof(name)))
        return false;
    for (*imm = 0; *imm < (int64_t)p->f->n_hooks; ++*imm)
        if (!strcmp(p->f->hooks[*imm], name))
            return true;
    return tir_lex_fail(&p->l, "there is no hook \"%s\"", name);
}

/* Reads attribute `name` and its value `*imm`. */
static bool read_attr(struct parser *p, const char *name, int64_t *imm)
{
    if (!tir_lex_expect(&p->l, name) || !tir_lex_expect(&p->l, "="))
        return false;
    if (!strcmp(name, "instr"))
        return read_instr(p, imm);
    if (!strcmp(name, "hook"))
        return read_hook(p, imm);
    if (!strcmp(name, "bits"))
        return tir_lex_float_bits(&p->l, imm);
    if (!strcmp(name, "layout")) {
        uint32_t layout = 0;
        const bool ok = read_layout(p, &layout);
        *imm = layout;
        return ok;
    }
    if (strcmp(name, "shape"))
        return tir_lex_int(&p->l, imm);
    struct tir_type t;
    if (!tir_lex_expect(&p->l, "tile") || !tir_lex_expect(&p->l, "<") || !read_tile(p, &t))
        return false;
    *imm = tir_pack_type(t);
    return true;
}

/* True if a brace after the op begins its attrs. For an op without attrs it begins the block. */
static bool has_attrs(struct parser *p, unsigned opcode)
{
    const char *const at = p->l.at, *s = tir_ops[opcode].attrs;
    char name[16];
    bool is_flag, here = false;
    while (!here && tir_next_attr(&s, name, &is_flag)) {
        here = !is_flag || (tir_lex_try(&p->l, "{") && tir_lex_try(&p->l, name));
        p->l.at = at;
    }
    return here;
}

/* Reads the attributes of `opcode` in braces; flags that are absent are 0. */
static bool read_attrs(struct parser *p, unsigned opcode, int64_t imm[TIR_MAX_IMM])
{
    const char *s = tir_ops[opcode].attrs;
    char name[16];
    bool is_flag, first = true;
    if (!has_attrs(p, opcode))
        return true;
    if (!tir_lex_expect(&p->l, "{"))
        return false;
    for (int i = 0; tir_next_attr(&s, name, &is_flag); i++) {
        if (is_flag) {
            const char *const at = p->l.at;
            const bool more = first || tir_lex_try(&p->l, ",");
            const char *const start = p->l.at;
            imm[i] = more && tir_lex_try(&p->l, name);
            if (!imm[i]) {
                p->l.at = at;
                continue;
            }
            first = false;
            if (!tir_lex_try(&p->l, "="))
                continue;
            p->l.at = start;
            if (!read_attr(p, name, &imm[i]))
                return false;
        } else if ((!first && !tir_lex_expect(&p->l, ",")) || !read_attr(p, name, &imm[i])) {
            return false;
        } else {
            first = false;
        }
    }
    return tir_lex_expect(&p->l, "}");
}

/* Reads the optional stage and phase of an op, as in "@1.2". */
static bool read_stage(struct parser *p, struct tir_op *op)
{
    uint32_t stage = TIR_NO_STAGE, phase = 0;
    if (!tir_lex_same_line(&p->l, '@'))
        return true;
    if (!tir_lex_expect(&p->l, "@") ||
        (!tir_lex_try(&p->l, "-") && !tir_lex_number(&p->l, UINT8_MAX, &stage)) ||
        !tir_lex_expect(&p->l, ".") || !tir_lex_number(&p->l, UINT8_MAX, &phase))
        return false;
    op->stage = (uint8_t)stage;
    op->phase = (uint8_t)phase;
    return true;
}

/* The operands or results of an op that is being read. */

struct list {
    struct tir_value *values; /* allocated by malloc */
    uint32_t n, cap;
};

/* Appends `v` to `list`; fails if it is full. */
static bool push(struct parser *p, struct list *list, struct tir_value v)
{
    if (list->n == MAX_LIST)
        return tir_lex_fail(&p->l, "more than %d operands", MAX_LIST);
    if (list->n == list->cap) {
        list->cap = list->cap ? 2 * list->cap : 8;
        list->values = tir_checked(realloc(list->values, list->cap * sizeof(*list->values)));
    }
    list->values[list->n++] = v;
    return true;
}

/* Reads the operands of an op, which may be none. */
static bool read_operands(struct parser *p, struct list *operands)
{
    if (!tir_lex_same_line(&p->l, '%'))
        return true;
    do {
        struct tir_value v;
        if (!read_operand(p, &v) || !push(p, operands, v))
            return false;
    } while (tir_lex_same_line(&p->l, ',') && tir_lex_expect(&p->l, ","));
    return true;
}

/* Reads a `for`. The body's parameters are created as their initial values are read. */
static bool read_for(struct parser *p, struct list *operands, struct tir_block *body)
{
    static const char *const words[] = {"=", "to", "step"};
    struct definition d;
    struct tir_value v;
    if (!read_definition(p, &d))
        return false;
    for (int i = 0; i < 3; i++)
        if (!tir_lex_expect(&p->l, words[i]) || !read_operand(p, &v) || !push(p, operands, v))
            return false;
    const struct tir_type index = tir_typeof(p->f, operands->values[0]);
    if (!define(p, d, tir_add_param(p->f, body, index)))
        return false;
    if (!tir_lex_try(&p->l, "with"))
        return true;
    if (!tir_lex_expect(&p->l, "("))
        return false;
    do {
        if (!read_definition(p, &d) || !tir_lex_expect(&p->l, "=") || !read_operand(p, &v) ||
            !push(p, operands, v) || !define(p, d, tir_add_param(p->f, body, tir_typeof(p->f, v))))
            return false;
    } while (tir_lex_try(&p->l, ","));
    return tir_lex_expect(&p->l, ")");
}

/* Reads the types of `n` results of op `r` and defines their values. */
static bool read_results(struct parser *p, struct tir_ref r, const struct definition *results,
                         uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct tir_type t;
        if (!tir_lex_expect(&p->l, i ? "," : ":") || !read_type(p, &t) ||
            !define(p, results[i], tir_add_result(p->f, r, t)))
            return false;
    }
    return true;
}

/* Reads the name of an op and writes its opcode. */
static bool read_opcode(struct parser *p, unsigned *opcode)
{
    char word[32];
    if (!tir_lex_word(&p->l, word, sizeof(word)))
        return false;
    for (*opcode = 0; *opcode < TIR_N_OPCODES; ++*opcode)
        if (!strcmp(word, tir_ops[*opcode].name))
            return true;
    return tir_lex_fail(&p->l, "there is no op \"%s\"", word);
}

static bool read_block(struct parser *p, struct tir_block *b);

/* Reads the blocks of a `for` or `if`. */
static bool read_blocks(struct parser *p, struct tir_op *op)
{
    if (op->opcode == TIR_for)
        return read_block(p, op->blocks[0]);
    return op->opcode != TIR_if || (read_block(p, op->blocks[0]) && tir_lex_expect(&p->l, "else") &&
                                    read_block(p, op->blocks[1]));
}

/* Reads an op after its results: opcode, operands, attributes, types and blocks. */
static bool read_body_of_op(struct parser *p, struct tir_block *b, const struct definition *results,
                            uint32_t n)
{
    unsigned opcode = 0;
    if (!read_opcode(p, &opcode))
        return false;
    const struct tir_ref r = tir_create_op(p->f, opcode, NULL, 0, NULL, 0);
    struct tir_op *const op = tir_op(p->f, r);
    tir_append(p->f, b, r);
    for (int k = 0; k < (opcode == TIR_for ? 1 : opcode == TIR_if ? 2 : 0); k++)
        op->blocks[k] = tir_create_block(p->f, b, r);
    struct list operands = {0};
    const bool ok =
        opcode == TIR_for ? read_for(p, &operands, op->blocks[0]) : read_operands(p, &operands);
    if (ok)
        tir_set_operands(p->f, r, operands.values, operands.n);
    free(operands.values);
    return ok && read_attrs(p, opcode, op->imm) && read_results(p, r, results, n) &&
           read_stage(p, op) && read_blocks(p, op);
}

/* Reads one op and appends it to block `b`. */
static bool read_op(struct parser *p, struct tir_block *b)
{
    struct definition *results = NULL;
    uint32_t n = 0;
    bool ok = true;
    tir_lex_more(&p->l);
    if (tir_lex_same_line(&p->l, '%')) {
        do {
            if (n == MAX_LIST) {
                ok = tir_lex_fail(&p->l, "more than %d results", MAX_LIST);
                break;
            }
            if (!(n & (n - 1)))
                results = tir_checked(realloc(results, (n ? 2 * n : 1) * sizeof(*results)));
            ok = read_definition(p, &results[n++]);
        } while (ok && tir_lex_try(&p->l, ","));
        ok = ok && tir_lex_expect(&p->l, "=");
    }
    ok = ok && read_body_of_op(p, b, results, n);
    free(results);
    return ok;
}

/* Reads the ops of block `b` in braces; fails if the blocks nest too deep. */
static bool read_block(struct parser *p, struct tir_block *b)
{
    if (!tir_lex_expect(&p->l, "{"))
        return false;
    if (++p->depth > MAX_DEPTH)
        return tir_lex_fail(&p->l, "blocks nest deeper than %d", MAX_DEPTH);
    while (!tir_lex_try(&p->l, "}"))
        if (!read_op(p, b))
            return false;
    p->depth--;
    return true;
}

/* The functions from here on read layouts, arguments, hooks and the head of a function. */

/* Reads the image of one layout bit: a row and column such as "r2c4", or 0. */
static bool read_image(struct parser *p, uint32_t *image)
{
    uint32_t row = 0, col = 0;
    bool ok = true;
    *image = 0;
    if (tir_lex_try(&p->l, "0"))
        return true;
    if (p->l.at < p->l.end && *p->l.at == 'r') {
        p->l.at++;
        ok = tir_lex_number(&p->l, UINT16_MAX, &row);
        if (ok && !tir_lex_try(&p->l, "+")) {
            *image = TIR_RC(row, 0);
            return true;
        }
    }
    if (!ok || p->l.at >= p->l.end || *p->l.at != 'c')
        return tir_lex_fail(&p->l, "expected 0, r<row>, c<col> or r<row>+c<col>");
    p->l.at++;
    ok = tir_lex_number(&p->l, UINT16_MAX, &col);
    *image = TIR_RC(row, col);
    return ok;
}

/* Reads the optional images of one part of a layout (`what`: regs, lanes or waves) and counts them
 * in `*bits`. */
static bool read_basis(struct parser *p, const char *what, struct tir_layout *l, uint8_t *bits)
{
    if (!tir_lex_try(&p->l, what))
        return true;
    if (!tir_lex_expect(&p->l, "("))
        return false;
    while (!tir_lex_try(&p->l, ")")) {
        const int n = tir_layout_bits(l);
        if (n == TIR_LAYOUT_MAX_BITS)
            return tir_lex_fail(&p->l, "layout of more than %d bits", TIR_LAYOUT_MAX_BITS);
        if (!read_image(p, &l->basis[n]))
            return false;
        ++*bits;
    }
    return true;
}

/* Reads the optional padding of an address map: bytes added per power of two of bytes. */
static bool read_pad(struct parser *p, struct tir_layout *l)
{
    uint32_t pad, per;
    if (!tir_lex_try(&p->l, "pad"))
        return true;
    if (!tir_lex_expect(&p->l, "(") || !tir_lex_number(&p->l, UINT16_MAX, &pad) ||
        !tir_lex_expect(&p->l, "per") || !tir_lex_number(&p->l, 1u << 30, &per) ||
        !tir_lex_expect(&p->l, ")"))
        return false;
    if (!pad || !per || per & (per - 1))
        return tir_lex_fail(&p->l, "padding is a number of elements per power of two");
    l->pad = (uint16_t)pad;
    l->pad_shift = (uint8_t)__builtin_ctz(per);
    return true;
}

/* Reads a line that defines a layout. */
static bool read_layout_line(struct parser *p)
{
    uint32_t number;
    struct tir_layout l = {0};
    if (!tir_lex_expect(&p->l, "#") || !tir_lex_number(&p->l, MAX_LAYOUTS - 1, &number) ||
        !tir_lex_expect(&p->l, "=") || !read_basis(p, "regs", &l, &l.reg_bits) ||
        !read_basis(p, "lanes", &l, &l.lane_bits) || !read_basis(p, "waves", &l, &l.wave_bits) ||
        !read_pad(p, &l))
        return false;
    if (p->layouts[number])
        return tir_lex_fail(&p->l, "layout #%u is defined twice", number);
    p->layouts[number] = tir_intern_layout(p->f, &l) + 1;
    return true;
}

/* Reads a line that defines a kernel argument: name, type and byte offset. */
static bool read_arg_line(struct parser *p)
{
    char name[MAX_NAME];
    unsigned dtype;
    uint32_t offset;
    if (!tir_lex_string(&p->l, name, sizeof(name)) || !tir_lex_expect(&p->l, ":") ||
        !read_dtype(p, &dtype) || !tir_lex_expect(&p->l, "at") ||
        !tir_lex_number(&p->l, 4096, &offset))
        return false;
    for (uint32_t i = 0; i < p->f->n_args; i++)
        if (!strcmp(p->f->args[i].name, name))
            return tir_lex_fail(&p->l, "there are two arguments \"%s\"", name);
    if (tir_dtype_bits(dtype) < 8)
        return tir_lex_fail(&p->l, "an argument is at least a byte");
    const uint32_t index = tir_add_arg(p->f, name, dtype);
    p->f->args[index].offset = (uint16_t)offset;
    return true;
}

/* Reads a line that names a hook. */
static bool read_hook_line(struct parser *p)
{
    char name[MAX_NAME];
    if (!tir_lex_string(&p->l, name, sizeof(name)))
        return false;
    tir_hook(p->f, name);
    return true;
}

/* Reads "name=number" with a number up to `max`. */
static bool read_field(struct parser *p, const char *name, uint32_t max, unsigned *n)
{
    return tir_lex_expect(&p->l, name) && tir_lex_expect(&p->l, "=") &&
           tir_lex_number(&p->l, max, n);
}

/* Reads the head of a function; fails if it is for another machine. */
static bool read_func(struct parser *p, const struct tir_machine *machine)
{
    char name[MAX_NAME], machine_name[MAX_NAME];
    if (!tir_lex_expect(&p->l, "func") || !tir_lex_string(&p->l, name, sizeof(name)) ||
        !tir_lex_expect(&p->l, "machine") || !tir_lex_expect(&p->l, "=") ||
        !tir_lex_string(&p->l, machine_name, sizeof(machine_name)))
        return false;
    if (strcmp(machine_name, machine->name))
        return tir_lex_fail(&p->l, "function for %s, not for %s", machine_name, machine->name);
    p->f = tir_checked(tir_func_create(name, machine, 1));
    if (!read_field(p, "waves", 16, &p->f->waves) ||
        !read_field(p, "waves_per_simd", 16, &p->f->waves_per_simd) ||
        !read_field(p, "lds", 1u << 20, &p->f->lds_bytes) || !tir_lex_expect(&p->l, "level") ||
        !tir_lex_expect(&p->l, "="))
        return false;
    p->f->lowered = tir_lex_try(&p->l, "vec");
    if (!p->f->lowered && !tir_lex_expect(&p->l, "tile"))
        return false;
    for (;;) {
        bool ok = true;
        if (tir_lex_try(&p->l, "arg"))
            ok = read_arg_line(p);
        else if (tir_lex_try(&p->l, "hook"))
            ok = read_hook_line(p);
        else if (tir_lex_try(&p->l, "layout"))
            ok = read_layout_line(p);
        else
            break;
        if (!ok)
            return false;
    }
    return read_block(p, p->f->body) &&
           (!tir_lex_more(&p->l) || tir_lex_fail(&p->l, "text after the function"));
}

struct tir_func *tir_parse(const char *text, size_t size, const struct tir_machine *machine,
                           char error[256])
{
    struct parser p = {
        .l = {.begin = text, .at = text, .end = text + size},
        .layouts = tir_scratch(MAX_LAYOUTS, sizeof(*p.layouts)),
    };
    const bool ok = read_func(&p, machine);
    free(p.values);
    free(p.layouts);
    if (ok)
        return p.f;
    tir_func_destroy(p.f);
    memcpy(error, p.l.error, sizeof(p.l.error));
    return NULL;
}
