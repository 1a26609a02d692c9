# SPDX-License-Identifier: Apache-2.0
"""Tables of kernel arguments by name. Templates use macros of them, so that a misspelt name does not compile; libattn
uses them to resolve the names in packs."""
from c_text import quoted
from dispatch import arguments, key_rows


def union(schema):
    """Returns the arguments of kernels of all ops: {name: (kind, help of the first op that has it)}. Ends the program
    if an argument has two kinds."""
    rows = {}
    for op in schema.ops:
        for name, (kind, help) in arguments(op, schema).items():
            if rows.setdefault(name, (kind, help))[0] != kind:
                raise SystemExit(f"{op.name}.def: {name} is {kind}, in another op {rows[name][0]}")
    return rows


def args_table(schema):
    """Returns a C table of all kernel arguments, each once."""
    text = ("/* SPDX-License-Identifier: Apache-2.0 */\n/* Made from the .def files of ops/: the "
            "values that kernels may take.\n *\n *   ARG(ID, name, kind, help)   kind: PTR, I64, "
            "I32 or F32\n */\n")
    for name, (kind, help) in union(schema).items():
        text += f"ARG({name.upper()}, {quoted(name)}, {kind}, {quoted(help)})\n"
    return text + "#undef ARG\n"


def template_header(schema):
    """Returns a C header with a macro for each argument name, and for each op the set of fields in its key."""
    text = ("/* SPDX-License-Identifier: Apache-2.0 */\n/* Made from the .def files of ops/: names "
            "of kernels' arguments, and the fields that each op's key has. */\n"
            "#ifndef OPS_OP_NAMES_H\n#define OPS_OP_NAMES_H\n\n")
    for name in union(schema):
        text += f"#define ARG_{name.upper()} {quoted(name)}\n"
    text += "\n/* Fields of a description, as ATT_BIT()s: what att_template.takes is. */\n"
    for op in schema.ops:
        bits = " | ".join(f"ATT_BIT({f.upper()})" for f in sorted(key_rows(op, schema)))
        text += f"#define OP_TAKES_{op.name.upper()} ({bits or '0'})\n"
    return text + "\n#endif\n"


def kernel_args_table(schema):
    """Returns a C table with a row for each kernel argument of each op."""
    text = ("/* SPDX-License-Identifier: Apache-2.0 */\n/* Made from the .def files of ops/: what "
            "libattn gives to the kernels of each op.\n *\n *   KERNEL_ARG(op, name, kind)   kind: "
            "PTR, I64, I32 or F32\n */\n")
    for op in schema.ops:
        for name, (kind, _) in arguments(op, schema).items():
            text += f"KERNEL_ARG({op.name}, {name}, {kind})\n"
    return text + "#undef KERNEL_ARG\n"
