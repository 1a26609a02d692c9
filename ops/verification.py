# SPDX-License-Identifier: Apache-2.0
"""Writes C for tools/verify: the number of each tensor of an op, and functions that make the descriptor for a kernel of
a pack."""
from c_text import quoted
from dispatch import flag_texts
from schema import Member, Tensor
from tensors import CACHE, LATENT_CACHE, PAGES


def operand_names(op):
    """Yields the names of an op's tensors, in the order of attn_tensors_<op>()."""
    for a in op.args:
        if isinstance(a, Tensor) and a.dlpack:
            yield a.name
        elif isinstance(a, Member) and a.ctype == "struct attn_cache":
            lead = "" if a.name == "cache" else a.name + "_"
            rows = LATENT_CACHE if op.cache["latent"] else CACHE
            yield from (lead + name for name in rows)
        elif isinstance(a, Member) and a.ctype == "struct attn_pages":
            yield from PAGES


def operands_header(schema):
    """Returns a C header with an enum for each op: the numbers of its tensors."""
    text = ("/* SPDX-License-Identifier: Apache-2.0 */\n/* Made from the .def files of ops/: the "
            "numbers of the tensors that attn_tensors_<op>() describes. */\n"
            "#ifndef OPS_OP_OPERANDS_H\n#define OPS_OP_OPERANDS_H\n")
    for op in schema.ops:
        rows = "".join(f"    {op.name.upper()}_{name.upper()},\n" for name in operand_names(op))
        text += f"\nenum {{\n{rows}    {op.name.upper()}_OPERANDS\n}};\n"
    return text + "\n#endif\n"


def field_value(k, schema):
    """Returns C of a descriptor's member as the key of the pack's kernel `n` has it; None if the key does not have
    it."""
    field = quoted(k.field) if k.field else None
    if not field or not k.name:
        return None
    if k.kind == "dtype":
        same = f"d->{k.default}" if k.default else "0"
        return f"verify_dtype(pack, n, {field}, {same})"
    if k.kind.startswith("enum "):
        texts = ", ".join(quoted(t) for t in schema.enums[k.kind].texts())
        return f"(VERIFY_NUMBER_OF(pack, n, {field}, {texts}))"
    if k.kind == "int":
        return f"atoi(verify_field(pack, n, {field}))"
    if k.kind == "flag" and schema.fields[k.field].kind == "enum":
        other, set_ = flag_texts(k, schema)
        return f"(VERIFY_NUMBER_OF(pack, n, {field}, {quoted(other)}, {quoted(set_)}))"
    if k.kind == "flag":
        return f"verify_flag(pack, n, {field})"
    return f"verify_name(pack, n, {field})"


def describe(op, schema):
    """Returns a C function that sets an op's descriptor for the kernel `n` of a pack."""
    n = op.name
    text = (f"static void describe_{n}(const struct attn_pack *pack, uint32_t n, union attn_desc "
            f"*desc)\n{{\n    struct attn_{n}_desc *const d = &desc->{n};\n"
            "    d->size = sizeof(*d);\n")
    for k in op.keys:
        value = field_value(k, schema)
        if value:
            text += f"    d->{k.name} = {value};\n"
    if op.cache and op.cache["key"]:
        text += "    d->cache = verify_cache_desc(pack, n);\n"
    return text + "    (void)pack;\n    (void)n;\n}\n\n"


CALLS = """\
static int lookup_{n}(struct attn_device *device, const void *desc, struct attn_op **op)
{{
    return attn_{n}_lookup(device, desc, op);
}}

static int launch_{n}(const struct attn_op *op, const void *args)
{{
    return attn_{n}_launch(op, args);
}}

"""


def schemas_source(schema):
    """Returns the C source with a struct verify_schema for each op."""
    text = ("/* SPDX-License-Identifier: Apache-2.0 */\n/* Made from the .def files of ops/ by "
            "verification.py. */\n#include <stdlib.h>\n#include <string.h>\n\n"
            "#include \"runtime/tensors.h\"\n#include \"tools/verify/schema.h\"\n\n")
    for op in schema.ops:
        text += describe(op, schema) + CALLS.format(n=op.name)
    rows = "".join(
        f"    {{{quoted(op.name)}, sizeof(struct attn_{op.name}_desc), "
        f"sizeof(struct attn_{op.name}_args), describe_{op.name}, attn_tensors_{op.name}, "
        f"lookup_{op.name}, launch_{op.name}}},\n" for op in schema.ops)
    return text + f"""\
static const struct verify_schema schemas[] = {{
{rows}}};

const struct verify_schema *verify_schema_of(const char *op)
{{
    for (size_t i = 0; i < sizeof(schemas) / sizeof(schemas[0]); i++) {{
        if (!strcmp(schemas[i].op, op))
            return &schemas[i];
    }}
    return NULL;
}}
"""
