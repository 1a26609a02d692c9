# SPDX-License-Identifier: Apache-2.0
"""The public headers: enums, structs, and two functions for each op, with their comments."""
from c_text import comment, function, member
from schema import FIXED, Member, Scalar, Tensor

GUARD = """\
/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * {about}
 */
#ifndef {guard}
#define {guard}

{include}
#ifdef __cplusplus
extern "C" {{
#endif

{body}#ifdef __cplusplus
}}
#endif

#endif
"""

LAUNCH = "As attn_prefill_launch(): no allocation, no lock, no waiting; may be captured into a graph."


def declare(ctype, name):
    return f"{ctype}{name}" if ctype.endswith("*") else f"{ctype} {name}"


def enum_text(enum):
    text = comment(enum.about) + f"enum {enum.name} {{\n"
    for i, (name, doc) in enumerate(enum.rows):
        value = f" = {enum.start + i}" if enum.start else ""
        comma = "" if i == len(enum.rows) - 1 else ","
        row = member(f"{enum.prefix}{name}{value}", doc).replace(";", comma, 1)
        text += row
    return text + "};\n\n"


def struct_text(name, about, members):
    text = comment(about) + f"struct {name} {{\n"
    for m in members:
        array = f"[{m.array}]" if m.array else ""
        text += member(declare(m.ctype, m.name) + array, m.doc)
    return text + "};\n\n"


def natural(t):
    return FIXED[t.dtype][1] if t.dtype in FIXED else 2


def desc_members(op):
    out = [Member("size_t", "size", f"sizeof(struct attn_{op.name}_desc)")]
    for k in op.keys:
        if not k.name:
            continue
        ctype = {"dtype": "enum attn_dtype", "int": "int32_t", "flag": "bool",
                 "name": "const char *", "cache": "struct attn_cache_desc"}.get(k.kind, k.kind)
        out.append(Member(ctype, k.name, desc_doc(k)))
    return out


def desc_doc(k):
    notes = []
    if k.kind == "dtype":
        names = [f"ATTN_{n.upper()}" if n.islower() and n[0] in "bf" and n[-1].isdigit() else n
                 for n in k.only]
        notes.append(" or ".join(names))
        if k.default:
            notes[-1] = f"0 for {k.default}, or " + " or ".join(
                n for n in names if n != k.default)
    elif k.kind == "int":
        notes.append(f"{k.low} to {k.high}" + (f"; 0: {k.default}" if k.default else ""))
    note = "; ".join(notes)
    return f"{k.doc}: {note}" if k.doc and note else k.doc or note


def tensor_doc(t, op):
    if t.direction == "raw":
        return t.doc
    text = "[" + ", ".join(t.dims) + "]" if "any" not in t.dims else ""
    notes = [text] if text else []
    if t.dtype not in FIXED and t.dtype != t.name:
        notes.append(f"of {t.dtype}")
    notes = [" ".join(notes)] if notes else []
    if t.vector > 1:
        if t.dtype in FIXED:
            notes.append(f"{t.vector * FIXED[t.dtype][1]}-byte aligned")
        else:
            notes.append(f"aligned to {t.vector} elements")
    if t.when:
        notes.append(f"with {t.when}")
    if t.optional and "NULL" not in t.doc:
        notes.append("or NULL")
    head = ", ".join(n for n in notes if n)
    return f"{head}: {t.doc}" if t.doc and head else t.doc or head


def stride_doc(t, axis):
    limit = t.limits.get(axis, None)
    notes = [f"a multiple of {t.vector}"] if t.vector > 1 else []
    if limit and " / " in limit:
        notes.append("all heads within 2 GiB")
    else:
        notes.append("at most 4 MiB" if axis == "token" and not limit else "at most 2 GiB")
    return ", ".join(notes)


def arg_members(op):
    out = [Member("size_t", "size", f"sizeof(struct attn_{op.name}_args)")]
    strides = []
    for a in op.args:
        if isinstance(a, Tensor) and a.group:
            continue
        if isinstance(a, Tensor):
            ctype = FIXED[a.dtype][0] if a.dtype in FIXED and a.direction != "raw" else "void"
            const = "const " if a.direction in ("in", "raw") else ""
            out.append(Member(f"{const}{ctype} *", a.name, tensor_doc(a, op)))
            strides += [Member("int64_t", a.stride(x), stride_doc(a, x)) for x in a.strides]
        elif isinstance(a, Member):
            out.append(a)
    out += strides
    out += [Member(a.ctype, a.name, a.doc) for a in op.args if isinstance(a, Scalar)]
    out.append(Member("void *", "stream", "hipStream_t of the op's device; NULL: its default "
                      "stream, when the device is the thread's current one"))
    return out


STRIDES = """

Strides are in elements, none is negative, and 0 stands for a contiguous tensor; where a dimension
has one element its stride is not looked at. The last dimension is contiguous. Pointers are aligned
to their elements where nothing else is said."""


def op_text(op):
    n = op.name
    text = f"/* ---- {op.title} ---- */\n\n"
    for enum in op.enums:
        text += enum_text(enum)
    for struct in op.structs:
        text += struct_text(*struct)
    for t in op.texts:
        text += t + "\n\n"
    text += struct_text(f"attn_{n}_desc", op.desc_about, desc_members(op))
    about = (op.args_about or "One call.").strip("\n")
    if any(t.strides for t in op.tensors()):
        about += STRIDES
    text += struct_text(f"attn_{n}_args", about, arg_members(op))
    lookup = op.lookup_about or "As attn_prefill_lookup()."
    text += comment(lookup + " Release with attn_op_destroy().")
    text += function(f"attn_{n}_lookup", ["struct attn_device *device",
                     f"const struct attn_{n}_desc *desc", "struct attn_op **op"])
    text += comment(op.launch_about or LAUNCH)
    return text + function(f"attn_{n}_launch", ["const struct attn_op *op",
                           f"const struct attn_{n}_args *args"])


def types_header(schema):
    body = ""
    shared = [e for e in schema.enums.values() if not any(e in op.enums for op in schema.ops)]
    for enum in shared:
        body += enum_text(enum)
    for struct in schema.structs.values():
        if not any(struct in op.structs for op in schema.ops):
            body += struct_text(*struct)
    return GUARD.format(about="Types that several ops share: element types, masks, paged caches.",
                        guard="ATTN_TYPES_H", body=body,
                        include="#include <stdbool.h>\n#include <stddef.h>\n#include <stdint.h>\n")


def ops_header(schema):
    body = "".join(op_text(op) for op in schema.ops)
    return GUARD.format(about="Each op: what is fixed for a layer, what one call gives, how it is "
                        "looked up\n * and launched. Made from the .def files of ops/.",
                        guard="ATTN_OPS_H", include='#include "attn_base.h"\n', body=body)
