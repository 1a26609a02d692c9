# SPDX-License-Identifier: Apache-2.0
"""Writes the schema for other programs: every member of every struct as a C table, for tests, and the whole schema as
JSON, for bindings."""
import json

from dispatch import arguments
from headers import arg_members, desc_members

KINDS = {"int32_t": "I32", "int64_t": "I64", "float": "F32", "bool": "BOOL", "const char *": "TEXT"}


def flatten(schema, members, lead=""):
    """Yields (path, kind) of each member except `size` and `stream`. Members of nested structs have paths such as
    cache.k."""
    for m in members:
        path = lead + m.name
        if m.name in ("size", "stream"):
            continue
        if m.ctype.startswith("struct "):
            yield from flatten(schema, schema.structs[m.ctype[7:]][2], path + ".")
        elif m.array:
            for i in range(m.array):
                yield f"{path}[{i}]", KINDS[m.ctype]
        elif m.ctype.startswith("enum "):
            yield path, "ENUM"
        else:
            yield path, KINDS.get(m.ctype, "PTR")


def members_table(schema):
    """Returns a C table with a row for each member of each descriptor and argument struct."""
    text = ("/* SPDX-License-Identifier: Apache-2.0 */\n/* Made from the .def files of ops/.\n *\n"
            " *   MEMBER(op, half, path, KIND)   half: desc or args; KIND: I32, I64, F32, BOOL, ENUM,"
            "\n *                                  TEXT, PTR\n */\n")
    for op in schema.ops:
        for half, members in (("desc", desc_members(op)), ("args", arg_members(op))):
            for path, kind in flatten(schema, members):
                text += f"MEMBER({op.name}, {half}, {path}, {kind})\n"
    return text + "#undef MEMBER\n"


def as_json(schema):
    """Returns the whole schema as JSON."""
    def members(rows):
        return [{"type": m.ctype, "name": m.name, "doc": m.doc, "count": m.array} for m in rows]

    def tensor(t):
        return {"name": t.name, "path": t.path, "direction": t.direction, "dtype": t.dtype,
                "dims": t.dims, "strides": [t.stride(x) for x in t.strides], "vector": t.vector,
                "when": t.when, "optional": t.optional, "doc": t.doc}

    def operation(op):
        return {"name": op.name, "title": op.title, "about": (op.args_about or "").strip(),
                "enums": [e.name for e in op.enums], "desc": members(desc_members(op)),
                "args": members(arg_members(op)), "tensors": [tensor(t) for t in op.tensors()],
                "cache": op.cache is not None, "pages": op.pages is not None,
                "kernel_args": [{"name": n, "kind": k, "doc": d}
                                for n, (k, d) in arguments(op, schema).items()]}

    enums = [{"name": e.name, "doc": " ".join(e.about.split()),
              "values": [{"name": e.prefix + n, "value": e.start + i, "doc": d}
                         for i, (n, d) in enumerate(e.rows)]} for e in schema.enums.values()]
    structs = [{"name": n, "doc": " ".join(about.split()), "members": members(rows)}
               for n, about, rows in schema.structs.values()]
    return json.dumps({"enums": enums, "structs": structs,
                       "ops": [operation(op) for op in schema.ops]}, indent=1) + "\n"
