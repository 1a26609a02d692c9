# SPDX-License-Identifier: Apache-2.0
"""Writes the public headers attn_types.h and attn_ops.h: enums, structs, and two functions for each op, with their
comments."""
import re

from c_text import comment, function, member
from schema import DTYPES, FIXED, Member, Scalar, Tensor

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

LOOKUP_CONTRACT = """ Sets *op, which the caller releases with attn_op_destroy(). Returns ATTN_OK,
ATTN_BAD_ARGUMENT for a member out of its range, ATTN_NO_KERNEL with the nearest kernel in the message,
or a failure to load. Any thread may call it."""
LAUNCH = """Launches on args->stream and returns without waiting. An empty call is success without a launch.
Returns ATTN_OK, ATTN_BAD_ARGUMENT or ATTN_HIP_FAILED.

The launch allocates nothing, takes no lock and makes no system call of its own. Any number of threads may
launch the same op. It may be captured into a graph."""


def declare(ctype, name):
    """Returns the C declaration of a member or parameter, without a blank after the * of a pointer."""
    return f"{ctype}{name}" if ctype.endswith("*") else f"{ctype} {name}"


def enum_text(enum):
    """Returns the C definition of an enum with its comments."""
    text = comment(enum.about) + f"enum {enum.name} {{\n"
    for i, (name, doc) in enumerate(enum.rows):
        value = f" = {enum.start + i}" if enum.start else ""
        comma = "" if i == len(enum.rows) - 1 else ","
        row = member(f"{enum.prefix}{name}{value}", doc).replace(";", comma, 1)
        text += row
    return text + "};\n\n"


def struct_text(name, about, members):
    """Returns the C definition of a struct. `members` are rows of class Member."""
    text = comment(about) + f"struct {name} {{\n"
    for m in members:
        array = f"[{m.array}]" if m.array else ""
        text += member(declare(m.ctype, m.name) + array, m.doc)
    return text + "};\n\n"


def desc_members(op):
    """Returns the members of the op's descriptor struct, each as a Member."""
    out = [Member("size_t", "size", f"sizeof(struct attn_{op.name}_desc)")]
    for k in op.keys:
        if not k.name:
            continue
        ctype = {"dtype": "enum attn_dtype", "int": "int32_t", "flag": "bool",
                 "name": "const char *", "cache": "struct attn_cache_desc"}.get(k.kind, k.kind)
        out.append(Member(ctype, k.name, desc_doc(k)))
    return out


def desc_doc(k):
    """Returns the comment of the descriptor's member `k`: its meaning and its allowed values."""
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


def condition(text, op):
    """Returns the C condition `text` of a schema in words, such as "desc.lse is ATTN_X and not desc.paged"."""
    members = op.desc_members() - op.arg_members()
    text = re.sub(r"(?<![.\w])([a-z]\w*)", lambda m: f"desc.{m[1]}" if m[1] in members else m[1], text)
    given = r"(?<![.\w])([a-z]\w*)(?=\s*($|&&|\|\|))"
    text = re.sub(given, lambda m: f"{m[1]} is given" if m[1] in op.arg_members() else m[0], text)
    for sign, word in ((r"\s*&&\s*", " and "), (r"\s*\|\|\s*", " or "), (r"\s*==\s*", " is "),
                       (r"\s*!=\s*", " is not "), (r"!", "not ")):
        text = re.sub(sign, word, text)
    return text


def tensor_doc(t, op):
    """Returns the comment of a tensor: shape, type and alignment, its meaning, and the condition under which a call
    must have it."""
    if t.direction == "raw":
        return t.doc
    shape, doc = "[" + ", ".join("n" if x == "any" else x for x in t.dims) + "]", t.doc
    doc = doc.removeprefix(shape).removeprefix(": ") if doc.startswith(shape) else doc
    if "any" in t.dims:
        inner = shape if len(t.dims) > 1 else ""
        shape, doc = re.match(r"(\[[^]]*\])?(?:[:,]\s*)?(.*)", doc, re.S).groups()
        shape = shape or inner
    head = [shape] if shape else []
    if t.dtype not in FIXED and t.dtype != t.name:
        head.append(f"of {t.dtype}")
    head = [" ".join(head)] if head else []
    if t.vector > 1:
        head.append(f"{t.vector * FIXED[t.dtype][1]}-byte aligned" if t.dtype in FIXED
                    else f"aligned to {t.vector} elements")
    text = ": ".join(x for x in (", ".join(head), doc) if x)
    if t.when:
        needed = condition(t.when, op)
        text += f"; {'read' if t.optional else 'required'} if {needed}"
    if t.optional and "NULL" not in doc:
        text += "; may be NULL"
    return text


def element_sizes(dtype, op, text=()):
    """Returns the set of sizes in bytes that the element type `dtype` of an op may have; empty if the schema does not
    say. `text` has the types that led to it."""
    if dtype in FIXED:
        return {FIXED[dtype][1]}
    if dtype in DTYPES:
        return {DTYPES[dtype][1]}
    for k in op.keys:
        if k.name == dtype and k.kind == "dtype" and dtype not in text:
            return set().union(*(element_sizes(n, op, (*text, dtype)) for n in k.only))
    return set()


def stride_doc(t, axis, op):
    """Returns the comment of a stride: its unit, the number that it is a multiple of, and its limit in elements."""
    limit = t.limits.get(axis) or ("4 MiB" if axis == "token" else "2 GiB")
    _, _, parts = limit.partition(" / ")
    power, relation = (22, "at most") if limit == "4 MiB" else (31, "less than")
    sizes = set() if t.bits else element_sizes(t.dtype, op)
    if len(sizes) == 1:
        most = f"2^{power - sizes.pop().bit_length() + 1}"
    else:
        most = f"2^{power} / bytes of an element"
    multiple = f"a multiple of {t.vector}, " if t.vector > 1 else ""
    return f"elements: {multiple}{relation} {most}" + (f" / {parts}" if parts else "")


def arg_members(op):
    """Returns the members of the op's argument struct, each as a Member: pointers, then strides, then numbers."""
    out = [Member("size_t", "size", f"sizeof(struct attn_{op.name}_args)")]
    strides = []
    for a in op.args:
        if isinstance(a, Tensor) and a.group:
            continue
        if isinstance(a, Tensor):
            ctype = FIXED[a.dtype][0] if a.dtype in FIXED and a.direction != "raw" else "void"
            const = "const " if a.direction in ("in", "raw") else ""
            out.append(Member(f"{const}{ctype} *", a.name, tensor_doc(a, op)))
            strides += [Member("int64_t", a.stride(x), stride_doc(a, x, op)) for x in a.strides]
        elif isinstance(a, Member):
            out.append(a)
    out += strides
    out += [Member(a.ctype, a.name, a.doc) for a in op.args if isinstance(a, Scalar)]
    out.append(Member("void *", "stream", "hipStream_t of the op's device; NULL: its default "
                      "stream, when the device is the thread's current one"))
    return out


STRIDES = """

Strides count elements. None is negative, and 0 means contiguous. The stride of a dimension of one
element is ignored. The last dimension is contiguous. The rows of an output may not overlap."""
ARGUMENTS = """

Pointers are device memory, aligned to their elements unless a member says more. const members are read,
the others are written. A member out of its range makes the launch return ATTN_BAD_ARGUMENT without a
launch, and attn_last_error() names the member."""


def op_text(op):
    """Returns the part of attn_ops.h about an op: its enums, structs and two functions."""
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
    about += ARGUMENTS
    text += struct_text(f"attn_{n}_args", about, arg_members(op))
    text += comment((op.lookup_about or "Chooses and loads the kernel for a layer.") + LOOKUP_CONTRACT)
    text += function(f"attn_{n}_lookup", ["struct attn_device *device",
                     f"const struct attn_{n}_desc *desc", "struct attn_op **op"])
    text += comment("\n\n".join(x.strip("\n") for x in (op.launch_about, LAUNCH) if x))
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
