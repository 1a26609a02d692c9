# SPDX-License-Identifier: Apache-2.0
"""Writes the texts of `attnc help OP`: what a description and a call of the op may contain, with the op's limits."""
import textwrap

from c_text import quoted
from headers import tensor_doc
from schema import DTYPES, INT_MAX, Member, Scalar, Tensor

COLUMNS = 96


def wrapped(text, lead="    ", more="      "):
    """Returns the lines of a paragraph: the first begins with `lead`, the others with `more`."""
    return textwrap.wrap(" ".join(text.split()), COLUMNS, initial_indent=lead,
                         subsequent_indent=more, break_on_hyphens=False)


def row(name, limits, doc):
    """Returns the lines about a field, tensor or number of the op: its name, its limits and its meaning."""
    text = f"{name}: {limits}" if limits else f"{name}:"
    return wrapped(f"{text}; {doc}" if doc else text)


def key_limits(k, op, schema):
    """Returns the allowed values of a member of the descriptor as text, spelt as in a description if possible."""
    field = schema.fields.get(k.field) if k.field else None
    if k.kind == "dtype":
        same = "same" in field.values if field else False
        names = ["same" if same and n == k.default else n for n in k.only]
        return " or ".join(names)
    if k.kind.startswith("enum "):
        return " or ".join(k.only or schema.enums[k.kind].texts())
    if k.kind == "int":
        text = f"{k.low or 1} to {k.high}"
        if field and field.zero and (field.zero == "any" or k.low == 0):
            text += f", or {field.zero}"
        return text + (f", default {k.default}" if k.default else "")
    if k.kind == "flag":
        values = field.values[:2] if field and field.kind == "enum" else ["true", "false"]
        return " or ".join(values)
    return "the name of a C file's function, or none" if k.kind == "name" else ""


def fields(op, schema):
    """Returns the lines about the fields of a description."""
    lines = []
    for k in op.keys:
        name = k.field or k.name
        if k.kind == "cache":
            lines += row("cache", "kv_dtype, kv_layout, kv_scale" if op.cache["key"] else "", k.doc)
        elif k.kind == "key":
            lines += row(k.field, "a number, or any", f"{k.value} of the descriptor"
                         if not k.value.startswith('"') else "")
        else:
            where = "" if k.field else "at run time, in the descriptor"
            lines += row(name, key_limits(k, op, schema), "; ".join(x for x in (k.doc, where) if x))
    return lines


def tensors(op):
    """Returns the lines about the tensors of a call."""
    lines = []
    words = {"in": "read", "out": "written", "inout": "read and written", "raw": "passed on"}
    for t in op.tensors():
        notes = [words[t.direction]]
        if t.strides:
            free = " and ".join("row" if x is None else x for x in t.strides)
            notes.append(f"strides of {free} are free")
        dtype = f"{t.dtype} " if t.dtype not in DTYPES and t.dtype != t.name else ""
        lines += row(t.path, f"{dtype}{', '.join(notes)}", tensor_doc(t, op))
    for a in op.args:
        if isinstance(a, Member) and a.ctype.startswith("struct "):
            lines += row(a.name, a.ctype, a.doc)
    return lines


def scalars(op):
    """Returns the lines about the numbers of a call."""
    lines = []
    for s in op.scalars():
        high = "" if s.high in (INT_MAX, None) else f" to {s.high}"
        low = "any" if s.low is None else f"{s.low}{high}" if high else f"{s.low} or more"
        lines += row(s.name, f"{s.ctype}, {low}".replace("e30f", "e30"), s.doc)
    return lines


def rules(op):
    """Returns a list item for each rule by which the op refuses a descriptor or a call."""
    sentences = [s for _, s in op.desc_rules] + [s for _, s in op.rules]
    return [line for s in sentences for line in wrapped(s, "    - ", "      ")]


def help_lines(op, schema):
    """Returns the lines that `attnc help OP` prints."""
    lines = [op.title + "."]
    for paragraph in (op.args_about or "").strip("\n").split("\n\n"):
        lines.append("")
        if paragraph.startswith("    "):
            lines += paragraph.split("\n")
        else:
            lines += wrapped(paragraph, "", "")
    parts = (("Fields of a kernel:", fields(op, schema)), ("Tensors of a call:", tensors(op)),
             ("Numbers of a call:", scalars(op)), ("Refused:", rules(op)))
    for heading, rows in parts:
        if rows:
            lines += ["", heading] + rows
    return lines


def help_source(schema):
    """Returns the C source with the help of each op and a function that finds it by the op's name."""
    text = ("/* SPDX-License-Identifier: Apache-2.0 */\n/* Made from the .def files of ops/ by "
            "help.py. */\n#include <stddef.h>\n#include <string.h>\n\n"
            "#include \"tools/attnc/cli/op_help.h\"\n\n")
    for op in schema.ops:
        rows = "".join(f"    {quoted(line)},\n" for line in help_lines(op, schema))
        text += f"static const char *const help_{op.name}[] = {{\n{rows}    NULL,\n}};\n\n"
    rows = "".join(f"    if (!strcmp(op, {quoted(op.name)}))\n        return help_{op.name};\n"
                   for op in schema.ops)
    return text + f"const char *const *op_help(const char *op)\n{{\n{rows}    return NULL;\n}}\n"
