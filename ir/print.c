/* SPDX-License-Identifier: Apache-2.0
 *
 * This file prints the textual form (ir/LANGUAGE.md). Values and layouts are numbered in the order
 * of their appearance, so equal functions print alike. Broken functions can be printed too: an
 * operand without a definition shows as %?.
 */
#include "ir/print.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/arena.h"
#include "ir/passes.h"

struct printer {
    const struct tir_func *f;
    FILE *out;
    uint32_t *numbers;        /* by value id: number + 1; 0: not defined */
    uint32_t *layout_numbers; /* by layout index: number + 1; 0: not used */
    uint32_t *layouts;        /* the layouts in order of their numbers */
    uint32_t n_values, n_layouts;
    tir_remarks *remarks;
    void *context;
};

/* The functions from here on number values and layouts in the order of printing. */

/* Numbers value `v` in the order of printing, once. */
static void number_value(struct printer *p, struct tir_value v)
{
    if (v.id && v.id < p->f->n_values && !p->numbers[v.id])
        p->numbers[v.id] = ++p->n_values;
}

/* Numbers a layout in the order of printing, once. */
static void number_layout(struct printer *p, uint32_t layout)
{
    if (layout >= p->f->n_layouts || p->layout_numbers[layout])
        return;
    p->layouts[p->n_layouts] = layout;
    p->layout_numbers[layout] = ++p->n_layouts;
}

/* Numbers the layouts and results of `op`. */
static void number_op(struct printer *p, const struct tir_op *op)
{
    const int shape = tir_attr_index(op->opcode, "shape");
    const int layout = tir_attr_index(op->opcode, "layout");
    if (shape >= 0)
        number_layout(p, tir_unpack_type(op->imm[shape]).layout);
    if (layout >= 0)
        number_layout(p, (uint32_t)op->imm[layout]);
    for (uint32_t i = 0; i < op->n_results; i++) {
        const struct tir_value v = tir_result(op, i);
        const struct tir_type t = tir_typeof(p->f, v);
        number_value(p, v);
        if (t.kind == TIR_TILE)
            number_layout(p, t.layout);
    }
}

/* Numbers the results of an op before its nested blocks, since they are printed first. */
static void number_block(struct printer *p, const struct tir_block *b)
{
    for (uint32_t i = 0; i < b->n_params; i++)
        number_value(p, b->params[i]);
    for (uint32_t i = 0; i < b->n_ops; i++) {
        const struct tir_op *const op = tir_op(p->f, b->ops[i]);
        number_op(p, op);
        for (int k = 0; k < 2; k++)
            if (op->blocks[k])
                number_block(p, op->blocks[k]);
    }
}

/* The functions from here on print values, types, layouts and attributes. */

/* Prints `s` in quotes, with escapes for characters that are not printable ASCII. */
static void print_string(struct printer *p, const char *s)
{
    fputc('"', p->out);
    for (; *s; s++) {
        const unsigned char c = (unsigned char)*s;
        if (c < 0x20 || c >= 0x7f || c == '"' || c == '\\')
            fprintf(p->out, "\\x%02x", c);
        else
            fputc(c, p->out);
    }
    fputc('"', p->out);
}

/* Prints a value's number and name, "%?" for an invalid one. */
static void print_value(struct printer *p, struct tir_value v)
{
    if (v.id >= p->f->n_values || !p->numbers[v.id]) {
        fputs("%?", p->out);
        return;
    }
    fprintf(p->out, "%%%" PRIu32, p->numbers[v.id] - 1);
    const char *const name = p->f->values[v.id].name;
    if (name && *name)
        fprintf(p->out, ".%s", name);
}

/* Prints a layout's number, "#?" for an invalid one. */
static void print_layout_number(struct printer *p, uint32_t layout)
{
    if (layout < p->f->n_layouts && p->layout_numbers[layout])
        fprintf(p->out, "#%" PRIu32, p->layout_numbers[layout] - 1);
    else
        fputs("#?", p->out);
}

/* Returns the name of a data type, "?" for an invalid one. */
static const char *dtype_name(unsigned dtype)
{
    return dtype < TIR_N_DTYPES ? tir_dtype_name(dtype) : "?";
}

/* Prints the type of a scalar, vec or tile. */
static void print_type(struct printer *p, struct tir_type t)
{
    if (t.kind == TIR_SCALAR) {
        fputs(dtype_name(t.dtype), p->out);
    } else if (t.kind == TIR_VEC) {
        fprintf(p->out, "vec<%u, %s>", t.count, dtype_name(t.dtype));
    } else {
        fprintf(p->out, "tile<%ux%u, %s, ", t.rows, t.cols, dtype_name(t.dtype));
        print_layout_number(p, t.layout);
        fputc('>', p->out);
    }
}

/* Prints the images of one part of a layout; `what` names it. */
static void print_basis(struct printer *p, const char *what, const uint32_t *basis, int n)
{
    if (!n)
        return;
    fprintf(p->out, " %s(", what);
    for (int i = 0; i < n; i++) {
        const unsigned row = tir_rc_row(basis[i]), col = tir_rc_col(basis[i]);
        if (i)
            fputc(' ', p->out);
        if (!row && !col)
            fputc('0', p->out);
        if (row)
            fprintf(p->out, "r%u", row);
        if (row && col)
            fputc('+', p->out);
        if (col)
            fprintf(p->out, "c%u", col);
    }
    fputc(')', p->out);
}

/* Prints a line that defines a layout. */
static void print_layout(struct printer *p, uint32_t layout)
{
    const struct tir_layout *const l = p->f->layouts[layout];
    fputs("layout ", p->out);
    print_layout_number(p, layout);
    fputs(" =", p->out);
    print_basis(p, "regs", l->basis, l->reg_bits);
    print_basis(p, "lanes", l->basis + l->reg_bits, l->lane_bits);
    print_basis(p, "waves", l->basis + l->reg_bits + l->lane_bits, l->wave_bits);
    if (l->pad)
        fprintf(p->out, " pad(%u per %u)", l->pad, 1u << l->pad_shift);
    fputc('\n', p->out);
}

/* Prints a float with nine significant digits, which identify any float. Other values are printed
   as bits. */
static void print_float_bits(struct printer *p, int64_t imm)
{
    const uint32_t bits = (uint32_t)imm;
    float v;
    memcpy(&v, &bits, sizeof(v));
    if (isfinite(v) && imm == (int64_t)bits)
        fprintf(p->out, "%.9g", (double)v);
    else
        fprintf(p->out, "0x%" PRIx64, (uint64_t)imm);
}

/* Prints attribute `name` with the value `imm`. */
static void print_attr(struct printer *p, const char *name, int64_t imm)
{
    fprintf(p->out, "%s=", name);
    const struct tir_machine *const m = p->f->machine;
    if (!strcmp(name, "layout"))
        print_layout_number(p, imm < 0 ? UINT32_MAX : (uint32_t)imm);
    else if (!strcmp(name, "shape"))
        print_type(p, tir_unpack_type(imm));
    else if (!strcmp(name, "bits"))
        print_float_bits(p, imm);
    else if (!strcmp(name, "instr") && m && imm >= 0 && imm < (int64_t)m->n_mma)
        print_string(p, m->mma[imm].name);
    else if (!strcmp(name, "hook") && imm >= 0 && imm < (int64_t)p->f->n_hooks)
        print_string(p, p->f->hooks[imm]);
    else
        fprintf(p->out, "%" PRId64, imm);
}

/* Prints the attributes of `op` in braces, without flags of 0. */
static void print_attrs(struct printer *p, const struct tir_op *op)
{
    const char *s = tir_ops[op->opcode].attrs, *before = " {";
    char name[16];
    bool is_flag;
    for (int i = 0; tir_next_attr(&s, name, &is_flag); i++) {
        if (is_flag && !op->imm[i])
            continue;
        fputs(before, p->out);
        before = ", ";
        if (is_flag && op->imm[i] == 1)
            fputs(name, p->out);
        else
            print_attr(p, name, op->imm[i]);
    }
    if (*before == ',')
        fputc('}', p->out);
}

/* Prints the stage and phase of `op`, if it has any. */
static void print_stage(struct printer *p, const struct tir_op *op)
{
    if (op->stage == TIR_NO_STAGE && !op->phase)
        return;
    if (op->stage == TIR_NO_STAGE)
        fprintf(p->out, " @-.%u", op->phase);
    else
        fprintf(p->out, " @%u.%u", op->stage, op->phase);
}

/* The functions from here on print ops and blocks. */

/* Prints the spaces before an op at nesting `depth`. */
static void indent(struct printer *p, int depth) { fprintf(p->out, "%*s", 2 * depth, ""); }

/* Prints the operands of `op` from index `first` on. */
static void print_operands(struct printer *p, const struct tir_op *op, uint32_t first)
{
    for (uint32_t i = first; i < op->n_operands; i++) {
        fputs(i == first ? " " : ", ", p->out);
        print_value(p, op->operands[i]);
    }
}

/* Prints "for %i = %first to %bound step %step with (%carried = %init, ...)". */
static void print_for(struct printer *p, const struct tir_op *op)
{
    const struct tir_block *const body = op->blocks[0];
    if (!body || op->n_operands < 3 || body->n_params != op->n_operands - 2) {
        print_operands(p, op, 0);
        return;
    }
    fputc(' ', p->out);
    print_value(p, body->params[0]);
    static const char *const words[] = {" = ", " to ", " step "};
    for (int i = 0; i < 3; i++) {
        fputs(words[i], p->out);
        print_value(p, op->operands[i]);
    }
    for (uint32_t i = 3; i < op->n_operands; i++) {
        fputs(i == 3 ? " with (" : ", ", p->out);
        print_value(p, body->params[i - 2]);
        fputs(" = ", p->out);
        print_value(p, op->operands[i]);
    }
    if (op->n_operands > 3)
        fputc(')', p->out);
}

/* Prints results, name, operands, attributes and types of `op`, without its blocks. */
static void print_head(struct printer *p, const struct tir_op *op)
{
    for (uint32_t i = 0; i < op->n_results; i++) {
        fputs(i ? ", " : "", p->out);
        print_value(p, tir_result(op, i));
    }
    fprintf(p->out, "%s%s", op->n_results ? " = " : "", tir_ops[op->opcode].name);
    if (op->opcode == TIR_for)
        print_for(p, op);
    else
        print_operands(p, op, 0);
    print_attrs(p, op);
    for (uint32_t i = 0; i < op->n_results; i++) {
        fputs(i ? ", " : " : ", p->out);
        print_type(p, tir_typeof(p->f, tir_result(op, i)));
    }
    print_stage(p, op);
}

/* Prints the ops of block `b` at nesting `depth`. */
static void print_block(struct printer *p, const struct tir_block *b, int depth)
{
    for (uint32_t i = 0; i < b->n_ops; i++) {
        const struct tir_op *const op = tir_op(p->f, b->ops[i]);
        if (p->remarks)
            p->remarks(p->context, b->ops[i], p->out);
        indent(p, depth);
        print_head(p, op);
        for (int k = 0; k < 2; k++) {
            if (!op->blocks[k])
                continue;
            fputs(k ? " else {\n" : " {\n", p->out);
            print_block(p, op->blocks[k], depth + 1);
            indent(p, depth);
            fputc('}', p->out);
        }
        fputc('\n', p->out);
    }
}

/* Prints the function's head, its arguments, hooks and layouts. */
static void print_header(struct printer *p)
{
    const struct tir_func *const f = p->f;
    fputs("func ", p->out);
    print_string(p, f->name);
    fputs(" machine=", p->out);
    print_string(p, f->machine ? f->machine->name : "");
    fprintf(p->out, " waves=%u waves_per_simd=%u lds=%u level=%s\n", f->waves, f->waves_per_simd,
            f->lds_bytes, f->lowered ? "vec" : "tile");
    for (uint32_t i = 0; i < f->n_args; i++) {
        fputs("arg ", p->out);
        print_string(p, f->args[i].name);
        fprintf(p->out, " : %s at %u\n", dtype_name(f->args[i].dtype), f->args[i].offset);
    }
    for (uint32_t i = 0; i < f->n_hooks; i++) {
        fputs("hook ", p->out);
        print_string(p, f->hooks[i]);
        fputc('\n', p->out);
    }
    for (uint32_t i = 0; i < p->n_layouts; i++)
        print_layout(p, p->layouts[i]);
    if (p->remarks)
        p->remarks(p->context, (struct tir_ref){0}, p->out);
}

void tir_print_remarked(const struct tir_func *f, FILE *out, tir_remarks *remarks, void *context)
{
    struct printer p = {
        .f = f,
        .out = out,
        .numbers = tir_scratch(f->n_values, sizeof(*p.numbers)),
        .layout_numbers = tir_scratch(f->n_layouts, sizeof(*p.layout_numbers)),
        .layouts = tir_scratch(f->n_layouts, sizeof(*p.layouts)),
        .remarks = remarks,
        .context = context,
    };
    number_block(&p, f->body);
    print_header(&p);
    fputs("{\n", out);
    print_block(&p, f->body, 1);
    fputs("}\n", out);
    free(p.numbers);
    free(p.layout_numbers);
    free(p.layouts);
}

void tir_print(const struct tir_func *f, FILE *out) { tir_print_remarked(f, out, NULL, NULL); }

/* The printed text so far and the number of its lines. */
struct line_count {
    struct tir_func *f;
    char *text;
    size_t size, counted;
    uint32_t lines;
};

/* Stores in an op the line of the text at which it is printed. */
static void number_line(void *context, struct tir_ref op, FILE *out)
{
    struct line_count *const c = context;
    if (!op.id || fflush(out))
        return;
    for (; c->counted < c->size; c->counted++)
        c->lines += c->text[c->counted] == '\n';
    tir_op(c->f, op)->line = c->lines + 1;
}

char *tir_number_lines(struct tir_func *f, size_t *size)
{
    struct line_count c = {.f = f};
    FILE *const out = open_memstream(&c.text, &c.size);
    if (!out)
        return NULL;
    tir_print_remarked(f, out, number_line, &c);
    if (fclose(out)) {
        free(c.text);
        return NULL;
    }
    *size = c.size;
    return c.text;
}
