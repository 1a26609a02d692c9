# SPDX-License-Identifier: Apache-2.0
"""Writes C that describes the tensors of a call as data: for DLPack, and for verification."""
from c_text import comment, expression, function, member, quoted
from headers import GUARD, tensor_doc
from schema import FIXED, Member, Scalar, Tensor

# Names of the tensors of a cache, of a latent cache, and of page lists, in the order of runtime/tensors.c.
CACHE = ["k_cache", "v_cache", "k_scale", "v_scale"]
LATENT_CACHE = ["k_cache", "v_cache", "k_scale"]  # v_cache is passed with layout PLANES only
PAGES = ["kv_lens", "block_table", "kv_indptr", "kv_indices"]


def dimension(dim, op):
    """Returns the C initialiser of a struct attn_dimension: {address of the count that the size determines or NULL,
    elements beyond that count, least count}. -1 elements: any size."""
    if dim == "any":
        return "{NULL, -1, 0}"
    name, _, more = dim.partition(" + ")
    counts = {a.name: a for a in op.args if isinstance(a, Scalar)}
    if name in counts or name.startswith("shape."):
        # A count of 0 selects the default, so a tensor without elements must not set such a count.
        least = int(name in counts and counts[name].default is not None)
        return f"{{&a->{name}, {more or 0}, {least}}}"
    return f"{{NULL, {expression('desc.' + dim if dim in op.desc_members() else dim, op)}, 0}}"


def element(t, op):
    """Returns C of the element type of tensor `t`: an enum attn_dtype or one of runtime/tensors.h."""
    if t.element:
        return expression(t.element, op)
    return f"ATTN_{t.dtype.upper()}" if t.dtype in FIXED else f"d->{t.dtype}"


def row(t, op):
    """Returns C that appends the tensor `t` of the schema to the result of attn_tensors_<op>()."""
    strides = [f"&a->{t.stride(x)}" for x in t.strides] or [f"&a->{x}" for x in t.row_strides]
    dims = ", ".join(dimension(x, op) for x in t.dims)
    out = t.direction != "in"
    needed = expression(t.when or "1", op)
    # A tensor that depends on another pointer of the call is optional. Only the descriptor's part of the condition
    # decides whether it is needed.
    optional = t.optional or "a->" in needed
    if "a->" in needed:
        apart = [] if "||" in needed or "?" in needed else needed.split(" && ")
        needed = " && ".join(x for x in apart if "a->" not in x) or "1"
    text = (f"    t[n++] = (struct attn_tensor){{.name = {quoted(t.name)}, .pointer = &a->{t.path}, "
            f".element = {element(t, op)}, .needed = {needed}, "
            f".optional = {int(optional)}, .written = {int(out)}, .vector = {t.vector}, "
            f".ndim = {len(t.dims)}, .dims = {{{dims}}}, .free = {len(strides)}, "
            f".strides = {{{', '.join(strides) or 'NULL'}}}}};\n")
    for condition, dims in t.dims_when.items():
        rows = "".join(f"        t[n - 1].dims[{i}] = (struct attn_dimension){dimension(x, op)};\n"
                       for i, x in enumerate(dims))
        free = f"        t[n - 1].free = {len(dims) - 1};\n" if t.row_strides else ""
        if len(dims) < len(t.strides):
            free = f"        t[n - 1].free = {0 if dims == ['1'] else len(dims)};\n"
        text += (f"    if ({expression(condition, op)}) {{\n        t[n - 1].ndim = {len(dims)};\n"
                 f"{rows}{free}    }}\n")
    if t.scale_strides:
        text += (f"    if ({expression(t.scale_strides, op)})\n"
                 "        attn_take_scale_strides(&a->cache, &t[n - 1]);\n")
    if t.row_strides and t.dims_when:
        text = text.replace(f".free = {len(strides)}", ".free = 0", 1)
    return text


def describe(op):
    """Returns the C function attn_tensors_<op>(), which describes the tensors of a call."""
    n = op.name
    text = (f"unsigned attn_tensors_{n}(const union attn_desc *desc, void *args, "
            "struct attn_tensor *t)\n{\n"
            f"    const struct attn_{n}_desc *const d = &desc->{n};\n"
            f"    struct attn_{n}_args *const a = args;\n    unsigned n = 0;\n")
    for a in op.args:
        if isinstance(a, Tensor) and a.dlpack:
            text += row(a, op)
        elif isinstance(a, Member) and a.ctype == "struct attn_cache":
            c = op.cache
            needed = expression(c["when"], op) if c["when"] else "true"
            dims = [expression(c[x], op) for x in ("kv_heads", "head_dim", "head_dim_v")]
            heads = f"(struct attn_cache_heads){{{', '.join(dims)}}}"
            what = "latent" if c["latent"] else "cache"
            prefix = "" if a.name == "cache" else a.name + "."
            optional = "true" if c["needed"] or a.name == "from" else "false"
            rows = "" if c["latent"] else "&a->batch, " if op.pages else "NULL, "
            text += (f"    n += attn_{what}_tensors(&d->cache, &{heads}, &a->{a.name}, {rows}{needed}, "
                     f"{optional}, t + n);\n")
            # Ops that copy pages as bytes do not copy scales of kind tensor or head, so these tensors are optional.
            for i in [] if c["fill"] else [2, 1]:
                text += (f"    t[n - {i}].optional |= d->cache.scale == ATTN_KV_SCALE_TENSOR || "
                         "d->cache.scale == ATTN_KV_SCALE_HEAD;\n")
        elif isinstance(a, Member) and a.ctype == "struct attn_pages":
            needed = expression(op.pages["when"], op) if op.pages["when"] else "true"
            optional = "true" if op.pages["kv_lens_optional"] else "false"
            if op.pages["slots"]:
                optional = expression(op.pages["slots"], op)
            text += (f"    n += attn_pages_tensors(d->page_table, &a->pages, &a->batch, {needed}, "
                     f"{optional}, t + n);\n")
    return text + "    (void)d;\n    return n;\n}\n\n"


SOURCE = """\
/* SPDX-License-Identifier: Apache-2.0 */
/* Made from the .def files of ops/ by tensors.py: the tensors of each op's calls, for libattn and for
 * verification. */
#include "runtime/fill.h"
#include "runtime/tensors.h"

"""


def tensors_source(schema):
    return SOURCE + "".join(describe(op) for op in schema.ops)


def set_tensors(op):
    """Returns the C function attn_<op>_set_tensors(), which reads DLPack tensors."""
    n = op.name
    return (f"ATTN_PUBLIC int attn_{n}_set_tensors(const struct attn_op *op, const struct "
            f"attn_{n}_tensors *tensors,\n    struct attn_{n}_args *args)\n{{\n"
            f"    return attn_set_tensors(op, &attn_family_{n}, tensors, sizeof(*tensors), args);\n"
            "}\n\n")


def members(op):
    """Returns the members of struct attn_<op>_tensors, each as a Member."""
    out = [Member("size_t", "size", f"sizeof(struct attn_{op.name}_tensors)")]
    pointer = "const DLTensor *"
    for a in op.args:
        if isinstance(a, Tensor) and a.dlpack:
            dtype = {"f32": "float32", "i32": "int32", "i64": "int64", "u8": "uint8 or bool"}
            text = f"{dtype[a.dtype]} " if a.dtype in dtype else ""
            out.append(Member(pointer, a.name, text + (tensor_doc(a, op) or "")))
        elif isinstance(a, Member) and a.ctype == "struct attn_cache":
            lead = "" if a.name == "cache" else a.name + "_"
            docs = ["NHD [pages, page_size, kv_heads, head_dim]; SHUFFLE and SHUFFLE_K [pages, "
                    "kv_heads, head_dim / x, page_size, x]; ATTN_FP8 as uint8",
                    "NHD [pages, page_size, kv_heads, head_dim_v]; SHUFFLE [pages, kv_heads, "
                    "page_size / x, head_dim_v, x]; SHUFFLE_K [pages, kv_heads, head_dim_v, page_size]",
                    "float32 [1], [pages, kv_heads, page_size], [pages, kv_heads] or [batch, kv_heads], as "
                    "desc.cache.scale says; with ATTN_KV_SCALE_HEAD [1, kv_heads] is for all sequences, and strides may be 0",
                    "the same, with the same strides"]
            rows = list(zip(CACHE, docs))
            if op.cache["latent"]:
                docs = ["[pages, page_size, 1, head_dim]; ATTN_FP8 as uint8",
                        "the rows' last 64 elements as uint8 [pages, page_size, 1, 128], where desc.cache.layout is "
                        "ATTN_KV_PLANES", "float32 [1], where desc.cache.scale says so"]
                rows = list(zip(LATENT_CACHE, docs))
            out += [Member(pointer, lead + name, doc) for name, doc in rows]
        elif isinstance(a, Member) and a.ctype == "struct attn_pages":
            docs = ["int32 [batch]", "int32 [batch, entries]", "int32 [batch + 1]",
                    "int32 [entries]"]
            out += [Member(pointer, name, doc) for name, doc in zip(PAGES, docs)]
    return out


def dlpack_header(schema):
    body = ""
    for op in schema.ops:
        n = op.name
        body += comment(f"The tensors of one {n} call; those that the descriptor does not ask for "
                        "may be NULL.")
        body += f"struct attn_{n}_tensors {{\n"
        for m in members(op):
            space = "" if m.ctype.endswith("*") else " "
            body += member(f"{m.ctype}{space}{m.name}", m.doc)
        body += "};\n\n"
        body += comment("""
Sets the pointers, strides and counts of `args` from tensors. Checks that each has the dtype, the
device, the shape and the strides that the op needs; an error names the fault, and nothing is set
then. The rest of `args` stays the caller's.""" if op is schema.ops[0] else
                        "As attn_prefill_set_tensors().")
        body += function(f"attn_{n}_set_tensors", ["const struct attn_op *op",
                         f"const struct attn_{n}_tensors *tensors",
                         f"struct attn_{n}_args *args"])
    return GUARD.format(about="Tensors of frameworks, as DLPack describes them, into libattn's "
                        "argument structs. Needs\n * DLPack's header (Debian: libdlpack-dev); "
                        "attn.h does not.", guard="ATTN_DLPACK_H",
                        include='#include <dlpack/dlpack.h>\n\n#include "attn.h"\n', body=body)


def dlpack_source(schema):
    text = ("/* SPDX-License-Identifier: Apache-2.0 */\n/* Made from the .def files of ops/ by "
            "tensors.py. */\n#include \"attn_dlpack.h\"\n#include \"runtime/tensors.h\"\n\n")
    return text + "".join(set_tensors(op) for op in schema.ops)
