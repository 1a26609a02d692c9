# SPDX-License-Identifier: Apache-2.0
"""C text: documentation comments, and expressions of a schema as C."""
import re
import textwrap

from schema import SchemaError

COLUMNS = 100
WORDS = {"int64_t", "unsigned", "uintptr_t", "int32_t", "uint32_t", "float", "double", "true", "false", "sizeof"}


def comment(text, indent=""):
    """Returns the documentation comment that precedes a declaration."""
    text = text.strip("\n")
    lines = []
    for paragraph in re.split(r"\n\n", text):
        if lines:
            lines.append("")
        if re.match(r"^    ", paragraph):
            lines += paragraph.split("\n")
        else:
            width = COLUMNS - len(indent) - 3
            lines += textwrap.wrap(" ".join(paragraph.split()), width)
    if len(lines) == 1 and len(lines[0]) + len(indent) + 7 <= COLUMNS:
        return f"{indent}/** {lines[0]} */\n"
    body = "".join(f"{indent} *{' ' + line if line else ''}\n" for line in lines)
    return f"{indent}/**\n{body}{indent} */\n"


def member(declaration, doc):
    """Returns the C text of a member of a struct, with its comment after it."""
    line = f"    {declaration};"
    if not doc:
        return line + "\n"
    if len(line) + len(doc) + 9 <= COLUMNS:
        return f"{line} /**< {doc} */\n"
    lines = textwrap.wrap(doc, COLUMNS - 16)
    text = f"{line}\n        /**< {lines[0]}"
    for more in lines[1:]:
        text += f"\n         * {more}"
    return text + " */\n"


def expression(text, op, args=True):
    """Returns a schema's expression as C. Members of the arguments become a->NAME, members of the descriptor d->NAME,
    VALUE(ARG) the kernel argument ARG. With `args` false only the descriptor's members are known."""
    in_desc, in_args = op.desc_members(), op.arg_members() if args else set()

    def replace(match):
        before, name, call = match.group(1), match.group(2), match.group(3)
        if before or call or not name[0].islower() or name in WORDS:
            return match.group(0)
        if name in in_args:
            return f"a->{name}"
        if name in in_desc:
            return f"d->{name}"
        raise SystemExit(f"{op.name}.def: '{name}' of '{text}' is no member of the op's structs")

    text = re.sub(r"VALUE\((\w+)\)", lambda m: f"ATTN_VALUE_{m.group(1).upper()}", text)
    text = re.sub(r"\bdesc\.(\w+)", lambda m: "@" + m.group(1), text)
    out = re.sub(r"(\.|->|@|\bs)?\b([A-Za-z_]\w*)\b(\s*\()?", replace, text)
    out = re.sub(r"ATTN_VALUE_(\w+)", r"v[ATTN_ARG_\1]", out)
    return out.replace("@", "d->")


def simple(text):
    """True if a C expression needs no parentheses as an operand of && or *: it is a name, a member or a number."""
    return re.fullmatch(r"[\w.>-]+", text) is not None


def quoted(text):
    """Returns the C string literal of a text."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def function(name, parameters):
    """Returns the C declaration of a public function that returns a status."""
    text = f"ATTN_PUBLIC int {name}({', '.join(parameters)});"
    if len(text) > 100:
        lead = " " * len(f"ATTN_PUBLIC int {name}(")
        text = f"ATTN_PUBLIC int {name}(" + (",\n" + lead).join(parameters) + ");"
    return text + "\n\n"
