# SPDX-License-Identifier: Apache-2.0
"""Writes the Python module attn._ops: the C declarations for cffi, and a typed class for each op."""
import textwrap

from headers import arg_members, desc_members, tensor_doc
from schema import Member, Scalar, Tensor
from tensors import CACHE, LATENT_CACHE, PAGES, members

HEAD = '''\
# SPDX-License-Identifier: Apache-2.0
"""The ops of libattn, made from ops/*.def: a class for each, whose objects are called to launch.

An object is one op of one layer shape: the constructor looks its kernel up, `why` says which was
taken. Tensors are torch's, numpy arrays (simulated GPUs only), or anything with
__cuda_array_interface__ or __dlpack__; their counts and strides are read from them, and a wrong
dtype, shape or stride is an AttnError with libattn's sentence. A dtype of a descriptor may be torch's or
numpy's, or have their name: torch.bfloat16, numpy.float16, "float8_e4m3fn". A call allocates nothing on the GPU
and does not wait, unless a tensor is in host memory: then it returns when the result is there.
"""
import dataclasses
from typing import Any, Literal, Optional, Union

from attn._op import Op, entry
from attn._types import DType, Stream, Tensor

'''


WINDOW = ("window_left", "window_right")  # their default is -1, no limit


def c_member(m, in_args):
    """Returns the declaration of a member for cffi. Pointers become uintptr_t, except `const char *`; enums become
    int32_t."""
    array = f"[{m.array}]" if m.array else ""
    if m.ctype.endswith("*"):
        return f"const char *{m.name};" if m.ctype == "const char *" else f"uintptr_t {m.name};"
    ctype = "int32_t" if m.ctype.startswith("enum ") else m.ctype
    return f"{ctype} {m.name}{array};"


def declarations(schema):
    """Returns the C declarations that cffi parses. An op's name is the key of its own structs and functions, and "" the key of the
    structs that ops share."""
    out = {"": "".join(f"struct {name} {{ {' '.join(c_member(m, True) for m in rows)} }};\n"
                       for name, _, rows in schema.structs.values())}
    for op in schema.ops:
        n = op.name
        rows = " ".join("size_t size;" if m.name == "size" else f"const DLTensor *{m.name};"
                        for m in members(op))
        out[n] = (f"struct attn_{n}_desc {{ {' '.join(c_member(m, False) for m in desc_members(op))} }};\n"
                  f"struct attn_{n}_args {{ {' '.join(c_member(m, True) for m in arg_members(op))} }};\n"
                  f"struct attn_{n}_tensors {{ {rows} }};\n"
                  f"int attn_{n}_lookup(struct attn_device *, const struct attn_{n}_desc *, "
                  "struct attn_op **);\n"
                  f"int attn_{n}_launch(const struct attn_op *, const struct attn_{n}_args *);\n"
                  f"int attn_{n}_set_tensors(const struct attn_op *, const struct attn_{n}_tensors *, "
                  f"struct attn_{n}_args *);\n")
    return out


def slots(op):
    """Returns (name in Python, member of the arguments, documentation, moves) of each tensor of a call, in the order of
    struct attn_<op>_tensors. `moves` is True if the tensor has free strides: it usually differs from call to call."""
    docs = {m.name: m.doc for m in members(op)}
    out = []
    for a in op.args:
        if isinstance(a, Tensor) and a.dlpack:
            out.append((a.name, a.path, docs[a.name], bool(a.strides)))
        elif isinstance(a, Member) and a.ctype == "struct attn_cache":
            lead = "" if a.name == "cache" else a.name + "_"
            names = LATENT_CACHE if op.cache["latent"] else CACHE
            out += [(lead + n, f"{a.name}.{n.replace('_cache', '')}", docs[lead + n], False)
                    for n in names]
        elif isinstance(a, Member) and a.ctype == "struct attn_pages":
            out += [(n, f"pages.{n}", docs[n], False) for n in PAGES]
    return out


def written(op):
    """Returns the names of the tensors that a call writes. A cache is among them if the op has no page table."""
    given = [a for a in op.args if isinstance(a, Tensor) and a.dlpack]
    replaced = {a.fallback for a in given if a.fallback}  # inputs that a call overwrites if the output is absent
    out = [a.name for a in given if a.direction != "in" or a.name in replaced]
    if op.cache and not op.pages:
        out += [r[0] for r in slots(op) if "." in r[1] and not r[1].startswith("from.") and
                r[1].rsplit(".", 1)[1] in ("k", "v", "k_scale", "v_scale")]
    return tuple(out)


def outputs(op):
    """Returns the names of the tensors that a call always writes if it has them: outputs and caches."""
    only = {a.name for a in op.args if isinstance(a, Tensor) and a.direction == "out"}
    return tuple(n for n in written(op) if n in only or n.endswith("_cache"))


def inferred(op):
    """Returns the names of the counts that libattn reads from the shapes of tensors."""
    dims = set()
    for t in op.tensors():
        for row in [t.dims, *t.dims_when.values()]:
            dims.update(d.split(" + ")[0] for d in row)
    if op.pages:
        dims.add("batch")
    return dims


def scalars(schema, op):
    """Returns (name in Python, member of the arguments, default, documentation) of each argument of a call that is no
    tensor."""
    known, out = inferred(op), []
    strides = {s for t in op.tensors() for s in t.row_strides}
    for a in op.args:
        if isinstance(a, Scalar):
            if a.given and a.name in known:
                out.append((a.name, a.name, "0", f"{a.doc.removesuffix('; 0: 1')}; 0: as tensors have it"))
            elif a.name not in known and a.name not in strides:
                zero = "0.0" if a.ctype == "float" else "-1" if a.name in WINDOW else "0"
                out.append((a.name, a.name, zero, a.doc))
        elif isinstance(a, Member) and a.ctype == "struct attn_decode_plan_shape":
            out += [(m.name, f"shape.{m.name}", "0", m.doc)
                    for m in schema.structs["attn_decode_plan_shape"][2]
                    if m.name != "size" and f"shape.{m.name}" not in known]
        elif isinstance(a, Member) and a.ctype == "bool":
            out.append((a.name, a.name, "False", a.doc))
        elif isinstance(a, Member) and a.array:
            out.append((a.name, a.name, "(0, 0, 0)", a.doc))
        elif isinstance(a, Tensor) and not a.dlpack:
            out.append((a.name, a.path, "0", a.doc))
    return out


CACHE_DESC = '''\
@dataclasses.dataclass(frozen=True)
class CacheDesc:
    """The form of keys and values in a cache, which is fixed for a layer.

    dtype: of its elements; None: the op's dtype
    layout: "nhd", k and v [page, token, kv head, D] with free strides, or "shuffle", k [page, kv
        head, D / x, P, x] and v [page, kv head, P / x, D, x] with x elements in 16 bytes; "shuffle_k",
        the same with v [page, kv head, D, P]; "packed", rows of latents with their scales;
        "scales_last", rows of 448 fp8 and 64 other elements, [pages, bytes], with the scales after a page's rows;
        "planes", the same rows in two tensors of bytes, k [pages, P, 1, 512] and v [pages, P, 1, 128];
        "packed_fp4", "packed_mxfp4" and "packed_mxfp8", rows of 512 e2m1 or fp8 and their scales, [pages, P, 1, bytes of a
        row], which are 288, 272 and 528
    scale: which elements share a scale, for fp8 and int8
    page_size: tokens in a page
    """
    dtype: Optional[Union[{dtypes}, DType]] = None
    layout: {layouts} = "nhd"
    scale: {scales} = "none"
    page_size: int = 1


'''


def cache_desc(schema):
    """Returns the Python class CacheDesc."""
    dtypes, layouts, scales = (literal(schema.enums[f"enum attn_{name}"].texts())
                               for name in ("dtype", "kv_layout", "kv_scale"))
    return CACHE_DESC.format(dtypes=dtypes, layouts=layouts, scales=scales)


def literal(values):
    """Returns the annotation Literal[...] of these strings."""
    return "Literal[" + ", ".join(f'"{v}"' for v in values) + "]"


def desc_parameters(schema, op):
    """Returns (name, annotation, default or None, documentation) of each member of the descriptor."""
    out = []
    for k, m in zip([k for k in op.keys if k.name], desc_members(op)[1:]):
        if k.kind == "dtype":
            known = [n if n != "dtype" else None for n in k.only]
            names = [n for n in known if n] or ["bf16", "fp16"]
            if "dtype" in k.only:
                names = ["bf16", "fp16"] + [n for n in names if n not in ("bf16", "fp16")]
            kind = f"Union[{literal(names)}, DType]"
            out.append((k.name, kind if not k.default else f"Optional[{kind}]",
                        "None" if k.default else None, m.doc))
        elif k.kind.startswith("enum "):
            texts = schema.enums[k.kind].texts()
            out.append((k.name, literal(texts), f'"{texts[0]}"', m.doc))
        elif k.kind == "int":
            out.append((k.name, "int", "0" if k.default or k.low == 0 else None, m.doc))
        elif k.kind == "flag":
            out.append((k.name, "bool", "False", m.doc))
        elif k.kind == "name":
            out.append((k.name, "Optional[str]", "None", m.doc))
        else:
            out.append((k.name, "Optional[CacheDesc]", "None",
                        m.doc or "how the cache holds keys and values"))
    return out


def wrap(text, indent, first=""):
    """Returns a paragraph of at most 100 columns with this indent. With `first`, that text begins the first line and
    further lines are indented by 4 more."""
    return textwrap.fill(" ".join(text.split()), 100, initial_indent=indent + first,
                         subsequent_indent=indent + "    " if first else indent)


def parameter_docs(rows, indent):
    """Returns the lines of a docstring about parameters: `rows` are pairs of name and meaning."""
    return "\n".join(wrap(f"{name}: {doc or 'see the class'}", indent, "") for name, doc in rows)


def signature(head, rows, indent, result):
    """Returns the text of a `def` line: `head`, the parameters `rows`, and the annotation `result`, wrapped."""
    lines, line = [], indent + head
    for i, row in enumerate(rows):
        piece = row + (", " if i + 1 < len(rows) else f"){result}:")
        if len(line) + len(piece.rstrip()) > 100:
            lines.append(line.rstrip())
            line = indent + " " * (head.index("(") + 1)
        line += piece
    return "\n".join(lines + [line]) + "\n"


def tidy(doc):
    """Returns the comment of a C member in the words of Python: None for NULL, parameters without their struct."""
    return doc.replace("NULL", "None").replace("desc.", "").replace("args->", "")


def enum_tables(schema, op):
    """Returns {member of the descriptor: {text of an enum value: its number}}."""
    out = {}
    for k in op.keys:
        if k.name and k.kind.startswith("enum "):
            e = schema.enums[k.kind]
            out[k.name] = {t: e.start + i for i, t in enumerate(e.texts())}
    return out


def op_class(schema, op):
    """Returns the Python class of an op."""
    name = "".join(w.capitalize() for w in op.name.split("_"))
    rows, numbers = slots(op), scalars(schema, op)
    desc = desc_parameters(schema, op)
    text = f"class {name}(Op):\n"
    about = (op.args_about or "").strip("\n")
    paragraphs = [p if p.startswith("    ") else textwrap.fill(" ".join(p.split()), 96)
                  for p in tidy(about).split("\n\n") if p]
    text += textwrap.indent(f'"""{op.title}.\n\n' + "\n\n".join(paragraphs).replace("\\", "\\\\") +
                            '\n"""', "    ").rstrip() + "\n\n"
    text += f'    NAME = "{op.name}"\n'
    text += "    SLOTS = (\n" + "".join(f"        {r[0]!r},\n" for r in rows) + "    )\n"
    text += "    PATHS = (\n" + "".join(f"        {r[1]!r},\n" for r in rows) + "    )\n"
    text += f"    MOVING = {tuple(i for i, r in enumerate(rows) if r[3])!r}\n"
    text += "    NUMBERS = (\n" + "".join(f"        {r[1]!r},\n" for r in numbers) + "    )\n"
    counts = tuple(a.name for a in op.args if isinstance(a, Scalar) and a.given)
    text += f"    COUNTS = {counts!r}\n" if counts else ""
    text += f"    WRITTEN = {written(op)!r}\n"
    text += f"    OUTPUTS = {outputs(op)!r}\n"
    text += f"    ENUMS = {enum_tables(schema, op)!r}\n\n"
    parameters = ["self", "device: Any"] + (["*"] if desc else []) + [
        f"{p[0]}: {p[1]}" + (f" = {p[2]}" if p[2] else "") for p in desc]
    text += signature("def __init__(", parameters, "    ", "")
    text += '        """Looks the kernel up.\n\n'
    text += parameter_docs([(p[0], tidy(p[3])) for p in desc], "        ") + '\n        """\n'
    text += textwrap.fill(f"super().__init__(device, {{{', '.join(repr(p[0]) + ': ' + p[0] for p in desc)}}})",
                          96, initial_indent=" " * 8, subsequent_indent=" " * 12) + "\n\n"
    optional = [f"{r[0]}: Optional[Tensor] = None" for r in rows]
    call = ["self", "*"] + optional + [f"{r[0]}: {kind(r[2])} = {r[2]}" for r in numbers] + [
        "stream: Stream = None"]
    text += "    @entry\n" + signature("def __call__(", call, "    ", " -> None")
    text += '        """Launches.\n\n'
    text += parameter_docs([(r[0], tidy(r[2])) for r in rows] + [(r[0], tidy(r[3])) for r in numbers] +
                           [("stream", "a hipStream_t as a number, or an object with one; None: "
                             "the default stream")], "        ")
    return text + '\n        """\n\n\n'


def kind(default):
    """Returns the annotation of a number by the text of its default."""
    return {"0.0": "float", "False": "bool", "(0, 0, 0)": "tuple"}.get(default, "int")


def module(schema):
    names = ["".join(w.capitalize() for w in op.name.split("_")) for op in schema.ops]
    text = HEAD + f"__all__ = {['CacheDesc'] + names!r}\n\n"
    quotes = chr(34) * 3
    text += "DECLARATIONS = {\n" + "".join(f"    {k!r}: {quotes}\n{v}{quotes},\n" for k, v in declarations(schema).items()) + "}\n\n"
    shared = {e.name: {t: e.start + i for i, t in enumerate(e.texts())}
              for e in schema.enums.values()}
    text += "ENUMS = {\n" + "".join(f"    {k!r}: {v!r},\n" for k, v in shared.items()) + "}\n\n\n"
    text += cache_desc(schema)
    text += "".join(op_class(schema, op) for op in schema.ops)
    return text + "OPS = (" + ", ".join(names) + ")\n"
