# SPDX-License-Identifier: Apache-2.0
"""Writes the op families of libattn (struct attn_family). For each op these are functions that check a descriptor and
make the dispatch key. Others check the arguments of a call, set the kernel arguments, and check data for
ATTN_CHECK_DATA.

The functions are straight C without loops over tables, so that a launch costs as little as C written by hand:
constant messages, no allocation, no lock, no system call."""
import itertools
import re
import textwrap

from c_text import expression, quoted, simple
from schema import DTYPES, FIXED, INT_MAX, Member, Scalar, Tensor

# Largest stride of a dimension in bytes, as C, unless the tensor says another. A workgroup addresses up to 1024 tokens
# by 32-bit offsets.
LIMITS = {"token": "4194304"}
LIMIT = "INT32_MAX"  # for dimensions that LIMITS lacks

HEAD = """\
/* SPDX-License-Identifier: Apache-2.0 */
/* Made from the .def files of ops/ by dispatch.py: what libattn knows of each op. */
#include <float.h>
#include <math.h>
#include <stdint.h>

#include "runtime/cache_args.h"
#include "runtime/check_data.h"
#include "runtime/error.h"
#include "runtime/fill.h"
#include "runtime/host.h"
#include "runtime/op.h"
#include "runtime/tensors.h"
"""


def upper(name):
    """Returns the enum attn_arg of the kernel argument `name`."""
    return f"ATTN_ARG_{name.upper()}"


def fail(op, sentence, indent="        "):
    """Returns C that fails with the constant message "op: sentence"."""
    return (f"{indent}return attn_fail_fixed(ATTN_BAD_ARGUMENT,\n"
            f"{indent}                       {quoted(op.name + ': ' + sentence)});\n")


def fail_about(op, name, predicate, indent="        "):
    """Returns C that fails with the message "op: name predicate". `predicate` is a C expression. libattn joins the two
    strings, so that it stores each predicate once."""
    return (f"{indent}return attn_fail_about(ATTN_BAD_ARGUMENT, {quoted(op.name + ': ' + name)},\n"
            f"{indent}                       {predicate});\n")


# The descriptor.

def constant(name, op):
    """Returns an element type of a schema as C: a constant, or a member of the descriptor that has the type."""
    return DTYPES[name][0] if name in DTYPES else f"d->{name}"


def check_key(k, op, schema):
    """Returns C that fails if a member of the descriptor is out of range."""
    # The printf format does not contain the op's name, so that the library stores it once for all ops.
    name, subject = f"d->{k.name}", quoted(f"{op.name}: {k.name}")
    if k.kind == "dtype":
        bad = " && ".join(f"{name} != {constant(n, op)}" for n in k.only)
        what = " nor ".join(DTYPES[n][0] if n in DTYPES else n for n in k.only)
        neither = "neither" if len(k.only) > 1 else "not"
        return (f"    if ({bad})\n        return attn_fail(ATTN_BAD_ARGUMENT, \"%s %d is "
                f"{neither} {what}\", {subject}, (int){name});\n")
    if k.kind.startswith("enum "):
        enum = schema.enums[k.kind]
        if k.only:
            bad = " && ".join(f"{name} != {enum.prefix}{n.upper()}" for n in k.only)
            what = ", ".join(f"{enum.prefix}{n.upper()}" for n in k.only)
            return (f"    if ({bad})\n        return attn_fail(ATTN_BAD_ARGUMENT, \"%s %d is none "
                    f"of {what}\", {subject}, (int){name});\n")
        last = enum.constants()[-1]
        guard = f"{expression(k.when, op, False)} && " if k.when else ""
        return (f"    if ({guard}(unsigned){name} > {last})\n"
                f"        return attn_fail(ATTN_BAD_ARGUMENT, \"%s %d is none of {k.kind}\", "
                f"{subject}, (int){name});\n")
    if k.kind == "int":
        return (f"    if ({name} < {k.low} || {name} > {k.high})\n"
                f"        return attn_fail(ATTN_BAD_ARGUMENT, \"%s %d is not {k.low} to {k.high}\", "
                f"{subject}, {name});\n")
    return ""


def heads_of(op):
    """Returns C of the struct attn_cache_heads of the op's cache, from the descriptor."""
    c = op.cache
    dims = [expression(c[x], op, False) for x in ("kv_heads", "head_dim", "head_dim_v")]
    return f"(struct attn_cache_heads){{{', '.join(dims)}}}"


def normalise_cache(op):
    """Returns C that checks the descriptor's cache, or resets it if the schema's condition for a cache does not
    hold."""
    c = op.cache
    dtype = expression(c["dtype"], op, False) if c["dtype"] else "0"
    call = f"attn_cache_normalise(\"{op.name}\", {dtype}, &heads, &d->cache)"
    text = f"    const struct attn_cache_heads heads = {heads_of(op)};\n"
    if not c["when"]:
        return text + f"    return {call};\n"
    when = expression(c["when"], op, False)
    return (text + f"    if ({when})\n        return {call};\n"
            f"    d->cache = (struct attn_cache_desc){{.dtype = {dtype}}};\n"
            "    d->page_table = 0;\n    return ATTN_OK;\n")


def normalise(op, schema):
    """Returns the C function attn_family.normalise of an op, which checks a descriptor and fills in defaults."""
    text = f"static __attribute__((cold)) int normalise_{op.name}(const void *given, union attn_desc *out)\n{{\n"
    text += (f"    struct attn_{op.name}_desc *const d = &out->{op.name};\n"
             f"    *d = *(const struct attn_{op.name}_desc *)given;\n")
    for k in op.keys:
        if k.name and k.default:
            value = expression(k.default, op, False)
            text += f"    if (d->{k.name} == 0)\n        d->{k.name} = {value};\n"
    for condition, member, value in op.overrides:
        text += (f"    if ({expression(condition, op, False)})\n"
                 f"        d->{member} = {expression(value, op, False)};\n")
    for k in op.keys:
        if k.name:
            text += check_key(k, op, schema)
    for rule, sentence in op.desc_rules:
        names = "".join(f", d->{name}" for name in re.findall(r"{(\w+)}", sentence))
        sentence = re.sub(r"{\w+}", "%d", sentence)
        text += (f"    if (!({expression(rule, op, False)}))\n        return attn_fail("
                 f"ATTN_BAD_ARGUMENT, {quoted(op.name + ': ' + sentence)}{names});\n")
    text += normalise_cache(op) if op.cache else "    return ATTN_OK;\n"
    return text + "}\n\n"


# The key.

def covers(k, op):
    """Returns C that adds the values of more general kernels to the field `f` of the key."""
    text = ""
    for c in k.covers:
        if isinstance(c.value, list):
            rows = ", ".join(f'{{{n}, "{n}"}}' for n in c.value)
            text += (f"    static const struct attn_key_step steps_{k.field}[] = {{{rows}}};\n"
                     f"    attn_key_cover_up(f, steps_{k.field}, {len(c.value)}, d->{k.name}, "
                     f"{c.cost});\n")
            continue
        indent = "    "
        if c.when:
            text += f"    if ({expression(c.when, op, False)})\n"
            indent = "        "
        text += f"{indent}attn_key_cover(f, {quoted(c.value)}, {c.cost});\n"
    return text


def texts_of(kind):
    """Returns the name of the C array that has the texts of an enum."""
    return kind.removeprefix("enum ") + "_texts"


def text_tables(schema):
    """Returns C definitions of the arrays of texts of all enums that are fields of keys. Only the arrays of layouts
    and scales of caches are not static: family.h declares them."""
    kinds = {k.kind for op in schema.ops for k in op.keys if k.kind.startswith("enum ") and k.field}
    kinds |= {"enum attn_kv_layout", "enum attn_kv_scale"}
    text = ""
    for kind in sorted(kinds):
        texts = ", ".join(quoted(t) for t in schema.enums[kind].texts())
        shared = kind.startswith("enum attn_kv_")
        text += f"{'' if shared else 'static '}const char *const {texts_of(kind)}[] = {{{texts}}};\n"
        if shared:
            name = texts_of(kind)
            text += f"const size_t {name}_count = sizeof({name}) / sizeof({name}[0]);\n"
    return text


def key_row(k, op, schema):
    """Returns C that appends a field to the key, with the values of more general kernels."""
    add = "    f = attn_key_add"
    field = quoted(k.field)
    if k.kind == "key" and k.value.startswith('"'):
        text = f"{add}(key, {field}, {k.value});\n"
    elif k.kind == "key":
        value = expression(k.value, op, False)
        text = f"{add}_number(key, {field}, {value});\n"
        if k.when:
            text = (f"    if ({expression(k.when, op, False)})\n    {text}    else\n"
                    f"    {add}(key, {field}, \"{schema.fields[k.field].zero}\");\n")
    elif k.kind == "dtype" and "same" in schema.fields[k.field].values:
        text = (f"{add}(key, {field}, d->{k.name} == d->{k.default} ? \"same\" : "
                f"attn_dtype_name(d->{k.name}));\n")
    elif k.kind == "dtype":
        text = f"{add}(key, {field}, attn_dtype_name(d->{k.name}));\n"
    elif k.kind.startswith("enum "):
        text = f"{add}(key, {field}, {texts_of(k.kind)}[d->{k.name}]);\n"
    elif k.kind == "int" and k.low == 0:
        text = (f"    if (d->{k.name})\n    {add}_number(key, {field}, d->{k.name});\n    else\n"
                f"    {add}(key, {field}, \"{schema.fields[k.field].zero}\");\n")
    elif k.kind == "int":
        text = f"{add}_number(key, {field}, d->{k.name});\n"
    elif k.kind == "flag" and schema.fields[k.field].kind == "enum":
        other, set_ = flag_texts(k, schema)
        text = f"{add}(key, {field}, d->{k.name} ? \"{set_}\" : \"{other}\");\n"
    elif k.kind == "flag":
        text = f"{add}_flag(key, {field}, d->{k.name});\n"
    else:
        text = f"{add}(key, {field}, d->{k.name} ? d->{k.name} : \"none\");\n"
    return text + covers(k, op)


def flag_texts(k, schema):
    """Returns the texts of a flag that is an enum in fields.def: for false, for true."""
    return schema.fields[k.field].values[:2]


def key_rows(op, schema):
    """Returns {field: C that appends it to the key} of an op, in any order."""
    rows = {k.field: key_row(k, op, schema) for k in op.keys if k.field}
    if op.cache and op.cache["key"]:
        dtype = expression(op.cache["dtype"], op, False)
        rows["kv_dtype"] = (f"    f = attn_key_add(key, \"kv_dtype\", d->cache.dtype == {dtype} ? "
                            "\"same\" : attn_dtype_name(d->cache.dtype));\n")
        for member, field in (("layout", "kv_layout"), ("scale", "kv_scale")):
            rows[field] = (f"    f = attn_key_add(key, \"{field}\", "
                           f"{texts_of('enum attn_' + field)}[d->cache.{member}]);\n")
        if op.cache["page_size_key"]:
            number = "attn_key_add_number(key, \"page_size\", d->cache.page_size)"
            when = op.cache["when"]
            power = "(d->cache.page_size & (d->cache.page_size - 1)) == 0"
            if when:
                number = (f"{expression(when, op, False)} ? {number} : "
                          "attn_key_add(key, \"page_size\", \"any\")")
                power = f"{expression(when, op, False)} && {power}"
            rows["page_size"] = (f"    f = {number};\n    if ({power})\n"
                                 "        attn_key_cover(f, \"any\", 1);\n")
    return rows


def make_key(op, schema):
    """Returns the C function attn_family.make_key of an op, which writes the dispatch key of a descriptor."""
    rows = key_rows(op, schema)
    text = f"static __attribute__((cold)) void make_key_{op.name}(const union attn_desc *desc, struct attn_key *key)\n{{\n"
    text += f"    const struct attn_{op.name}_desc *const d = &desc->{op.name};\n"
    text += "    struct attn_key_field *f = NULL;\n"
    for field in sorted(rows):
        text += rows[field]
    return text + "    (void)d;\n    (void)f;\n    (void)key;\n}\n\n"


# The values of a launch.

def size_bits(t, op):
    """Returns C of log2 of the bytes of a tensor's element."""
    if t.bits:
        return f"({expression(t.bits, op)})"
    if t.dtype in FIXED:
        return str(FIXED[t.dtype][1].bit_length() - 1)
    if t.dtype == t.name:
        return "0"  # unknown here: a RULE() row checks the alignment
    key = next((k for k in op.keys if k.name == t.dtype), None)
    if key and all(n in ("bf16", "fp16", "dtype") for n in key.only):
        return "1"
    return f"attn_size_bits({expression('desc.' + t.dtype, op)})"


def condition(t, op):
    """Returns a list of C conditions: a kernel reads the tensor if all hold."""
    parts = []
    if t.when:
        parts.append(expression(t.when, op))
    if t.optional:
        parts.append(f"a->{t.path}")
    return parts


def both(parts):
    """Joins C conditions by &&."""
    if len(parts) < 2:
        return "".join(parts)
    return " && ".join(p if simple(p) else f"({p})" for p in parts)


def count_of(dim, op):
    """Returns C of the size of a dimension; 0 if the schema does not say it."""
    return "0" if dim == "any" else expression(dim, op)


def dense(t, i, op):
    """Returns C of the default stride of dimension `i` in elements: the stride in a contiguous tensor."""
    axes = t.strides
    if axes[i] in t.dense:
        return f"({expression(t.dense[axes[i]], op)})"
    if i + 1 < len(axes):
        following = count_of(t.dims[i + 1], op)
        return f"attn_times({following}, {t.stride(axes[i + 1])})"
    return inner(t, op)


def inner(t, op):
    """Returns C of the product of the inner dimensions, which have no stride of their own."""
    factors = [expression(x, op) for x in t.dims[len(t.strides):]]
    return " * ".join(f if simple(f) else f"({f})" for f in factors) if factors else "1"


def stride_most(t, axis, op):
    """Returns C of the largest valid stride of dimension `axis`, in elements."""
    limit = t.limits.get(axis)
    limit = expression(limit, op) if limit else LIMITS.get(axis, LIMIT)
    return f"({limit}) >> {size_bits(t, op)}"


def strides_test(t, op, axes):
    """Returns a C expression that tests the strides of the dimensions `axes`. It is not 0 if a stride is out of range
    or no multiple of the tensor's vector."""
    # The rows of an output do not overlap.
    least = inner(t, op) if t.direction != "in" else "0"
    names = [t.stride(axis) for axis in axes]
    bad = [f"((({' | '.join(names)}) & {t.vector - 1}) != 0)"] if t.vector > 1 else []
    bad += [f"attn_out_of_range({t.stride(axis)}, {least}, {stride_most(t, axis, op)})" for axis in axes]
    return " | ".join(bad)


def refuse_strides(t, op, indent):
    """Returns C that fails with a message that a stride of the tensor is out of range, and with the limits."""
    names = [t.stride(axis) for axis in t.strides]
    low = "negative" if t.direction == "in" else "below a row"
    most = f"above {' and '.join(['%lld'] * len(names))}"
    what = (f"{low}, {most}, or not a multiple of {t.vector} elements" if t.vector > 1
            else f"{low} or {most}")
    limits = ", ".join(f"(long long)({stride_most(t, axis, op)})" for axis in t.strides)
    # The printf format does not contain the op's name, so that the library stores it once for all ops.
    subject = quoted(f"{op.name}: {' or '.join(names)}")
    return (f"{indent}return attn_fail(ATTN_BAD_ARGUMENT, {quoted('%s is ' + what)},\n"
            f"{indent}                 {subject}, {limits});\n")


def may_exceed(t):
    """True if the default of the first stride may be too large although all its factors, dimensions and strides,
    are in range."""
    if len(t.strides) < 2 or t.dims[0] == "any":
        return False
    limits = [t.limits.get(axis) for axis in t.strides[:2]]
    return limits != [LIMIT, f"{LIMIT} / desc.{t.dims[1]}"]


def check_strides(t, op):
    """Returns C that fails if a stride is out of range. If the first dimension has one element, its stride is not
    used: a stride out of range then becomes the largest valid stride."""
    test = strides_test(t, op, t.strides)
    if t.optional and not t.fallback:
        test = f"a->{t.path} && ({test})"
    if not may_exceed(t):
        return f"    if ({test})\n" + refuse_strides(t, op, " " * 8)
    first, rest = t.strides[0], t.strides[1:]
    return (f"    if (__builtin_expect({test}, 0)) {{\n"
            f"        if ({count_of(t.dims[0], op)} != 1 || ({strides_test(t, op, rest)}))\n"
            + refuse_strides(t, op, " " * 12)
            + f"        {t.stride(first)} = {stride_most(t, first, op)} & -{t.vector};\n    }}\n")


def fill_strides(t, op):
    """Returns C that computes and checks the strides of a tensor and sets their kernel arguments."""
    if not t.strides:
        return ""
    text = ""
    for i in reversed(range(len(t.strides))):
        name = t.stride(t.strides[i])
        value = f"attn_stride(a->{name}, {count_of(t.dims[i], op)}, {dense(t, i, op)})"
        if t.fallback:
            axis = t.strides[i]
            value = f"a->{t.name} ? {value} : {t.fallback}_{axis}_stride"
        text += f"    {'' if i == 0 and may_exceed(t) else 'const '}int64_t {name} = {value};\n"
    text += check_strides(t, op)
    for axis in t.strides:
        text += f"    v[{upper(t.stride_arg(axis))}].i64 = {t.stride(axis)};\n"
    return text


def fill_pointer(t):
    """Returns C that sets the kernel argument of a tensor's pointer."""
    value = f"a->{t.path}"
    if t.fallback:
        value = f"{value} ? {value} : a->{t.fallback}"
    return f"    v[{upper(t.arg)}].ptr = {value};\n"


def guard_of(t, op):
    """Returns the C condition under which a tensor is checked; "": always. A tensor with a fallback is always checked,
    since its strides may be the fallback's."""
    return "" if t.fallback or not t.when else expression(t.when, op)


def fill_tensors(op):
    """Returns C that checks the tensors of an op and sets their kernel arguments. Neighbours with the same condition
    share a branch. If the condition is false, strides stay unset, since the chosen kernel has no such arguments."""
    text = ""
    for guard, tensors in itertools.groupby(op.tensors(), lambda t: guard_of(t, op)):
        tensors = list(tensors)
        inside = "".join(check_pointer(t, op) + fill_strides(t, op) for t in tensors)
        if guard and inside:
            inside = f"    if ({guard}) {{\n{textwrap.indent(inside, '    ')}    }}\n"
        text += inside + "".join(fill_pointer(t) for t in tensors)
    return text


def check_pointer(t, op):
    """Returns C that checks a pointer by one test. If the test fails, further code distinguishes NULL from a
    misaligned address."""
    if t.direction == "raw":
        return ""
    value, bits = f"a->{t.path}", size_bits(t, op)
    align = str(t.vector << int(bits)) if bits.isdigit() else f"{t.vector} << {bits}"
    where = f"; it is needed where {t.when}" if t.when else ""
    what = f"{align} bytes" if align.isdigit() else f"{t.vector} elements"
    null, odd = f"is NULL{where}", f"is not aligned to {what}"
    test = f"attn_misaligned({value}, {align})"
    if not t.optional:
        test += f" | !{value}"
    if t.fallback and t.when:
        test = f"({expression(t.when, op)}) && ({test})"
    predicate = quoted(odd) if t.optional else f"{value} ? {quoted(odd)} : {quoted(null)}"
    return f"    if ({test})\n" + fail_about(op, t.name, predicate)


def fill_scalar(s, op):
    """Returns C that sets the kernel argument of a number of the arguments."""
    value = f"a->{s.name}"
    if s.default:
        value = f"a->{s.name} ? a->{s.name} : {expression(s.default, op)}"
    if s.ctype == "float":
        return f"    v[{upper(s.arg)}].f32 = {value};\n"
    return f"    v[{upper(s.arg)}].i64 = {value};\n"


def check_scalar(s, op):
    """Returns C that fails if a number of the arguments is out of range."""
    if s.ctype == "float":
        if s.low is None and s.high is None:
            return ""
        test = f"!(a->{s.name} >= {s.low} && a->{s.name} <= {s.high or 'FLT_MAX'})"
        if s.when:
            test = f"({expression(s.when, op)}) && {test}"
        what = f"is below {s.low}, or not finite" if not s.high else \
            f"is not {s.low} to {s.high.rstrip('f')}"
        return f"    if ({test})\n" + fail_about(op, s.name, quoted(what))
    if s.low is None and s.high is None or s.ctype not in ("int32_t", "int64_t"):
        return ""
    if s.ctype == "int64_t":
        return (f"    if (attn_out_of_range(a->{s.name}, {s.low}, {s.high}))\n"
                + fail_about(op, s.name, quoted(f"is below {s.low} or above {s.high}")))
    if (s.low, s.high) == (0, INT_MAX):
        return f"    if (a->{s.name} < 0)\n" + fail_about(op, s.name, quoted("is negative"))
    low, high = s.low if s.low is not None else -INT_MAX, s.high if s.high is not None else INT_MAX
    return (f"    if (a->{s.name} < {low} || a->{s.name} > {high})\n"
            + fail_about(op, s.name, quoted(f"is not {low} to {high}")))


def check_sizes(sizes, op):
    """Returns C that fails if a size is out of range. Sizes that only must not be negative share one comparison."""
    plain = [s for s in sizes if (s.low, s.high) == (0, INT_MAX) and s.ctype == "int32_t"]
    text = "".join(check_scalar(s, op) for s in plain)
    if len(plain) > 1:
        joined = " | ".join(f"a->{s.name}" for s in plain)
        text = f"    if (({joined}) < 0) {{\n{textwrap.indent(text, '    ')}    }}\n"
    return text + "".join(check_scalar(s, op) for s in sizes if s not in plain)


def fill_cache(op):
    """Returns C that checks the cache of a call and sets its kernel arguments; "" if code in runtime/ does that."""
    c = op.cache
    if not c["fill"]:
        return ""
    what = "latent" if c["latent"] else "cache"
    fill = f"r = attn_{what}_fill(&d->cache, &heads, &a->cache, v);\n"
    heads = f"const struct attn_cache_heads heads = {heads_of(op)};\n"
    guard = c["needed"] or c["when"]
    text = f"    {heads}    {fill}"
    if guard:
        text = f"    if ({expression(guard, op)}) {{\n        {heads}        {fill}    }}"
        text += " else {\n        attn_cache_fill_none(v);\n    }\n" if c["needed"] else "\n"
    return text + "    if (r)\n        return r;\n"


def fill_pages(op):
    """Returns C that checks the page lists of a call and sets their kernel arguments."""
    p = op.pages
    optional = f"a->{p['kv_lens_optional']}" if p["kv_lens_optional"] else "NULL"
    call = f"    r = attn_pages_fill(d->page_table, &a->pages, {optional}, v);\n"
    if p["slots"]:
        call = (f"    r = {expression(p['slots'], op)}\n"
                "            ? attn_slots_fill(d->page_table, &a->pages, v)\n"
                f"            : attn_pages_fill(d->page_table, &a->pages, {optional}, v);\n")
    if p["when"]:
        call = f"    if ({expression(p['when'], op)})\n    {call}"
    return call + "    if (r)\n        return r;\n"


def fill(op):
    """Returns the C function attn_family.fill of an op, which checks the arguments of a call and sets the kernel's."""
    text = (f"static int fill_{op.name}(const union attn_desc *desc, const void *args, "
            "struct attn_call *call)\n{\n"
            f"    const struct attn_{op.name}_desc *const d = &desc->{op.name};\n"
            f"    const struct attn_{op.name}_args *const a = args;\n"
            "    union attn_value *const v = call->values;\n    int r = ATTN_OK;\n"
            "    call->stream = a->stream;\n")
    text += check_sizes([s for s in op.scalars() if s.size], op)
    for call in op.first:
        text += f"    r = {expression(call, op)};\n    if (r)\n        return r;\n"
    text += (f"    call->empty = {expression(op.empty, op)};\n    if (call->empty)\n"
             "        return ATTN_OK; /* pointers may be anything then */\n")
    for s in op.scalars():
        if not s.size:
            text += check_scalar(s, op)
    text += fill_tensors(op)
    if op.cache:
        text += fill_cache(op)
    if op.pages:
        text += fill_pages(op)
    for rule, sentence in op.rules:
        text += f"    if (!({expression(rule, op)}))\n" + fail(op, sentence)
    for k in op.keys:
        if k.arg:
            text += f"    v[{upper(k.name)}].i64 = d->{k.name};\n"
    for s in op.scalars():
        if s.arg:
            text += fill_scalar(s, op)
    for x in op.derived:
        member = "f32" if x.kind == "F32" else "ptr" if x.kind == "PTR" else "i64"
        text += f"    v[{upper(x.name)}].{member} = {expression(x.value, op)};\n"
    for call in op.set_calls:
        text += f"    r = {call}(d, a, v);\n    if (r)\n        return r;\n"
    return text + "    (void)d;\n    return r;\n}\n\n"


def arguments(op, schema):
    """Returns the arguments that kernels of the op may have: {name: (kind, help)}."""
    rows = list(schema.cache_args) if op.cache and op.cache["fill"] else []
    rows += schema.pages_args if op.pages else []
    for t in op.tensors():
        rows.append((t.arg, "PTR", t.doc or f"{t.dtype} [{', '.join(t.dims)}]"))
        for axis in t.strides:
            rows.append((t.stride_arg(axis), "I64", f"elements from a {axis or 'row'} of {t.arg} on"))
    rows += [(k.name, "I32", k.doc) for k in op.keys if k.arg]
    kinds = {"float": "F32", "int64_t": "I64", "int32_t": "I32"}
    rows += [(s.arg, kinds[s.ctype], s.doc) for s in op.scalars() if s.arg]
    rows += [(x.name, x.kind, x.help) for x in op.derived] + op.set_args
    return {name: (kind, help) for name, kind, help in rows}


# Pieces of a batch.

def skip_row(t, dims, op):
    """Returns C of the elements from a row of a tensor, an element of its first dimension, to the next row; "" if a row
    is one element."""
    if t.strides:
        return f"v[{upper(t.stride_arg(t.strides[0]))}].i64"
    return " * ".join(expression(x, op) for x in dims[1:])


def skip_tensor(t, op):
    """Returns C that advances a tensor's pointer by `count` rows if its first dimension is the argument that SPLIT()
    names. NULL stays NULL."""
    text = ""
    for when, dims in [(None, t.dims), *t.dims_when.items()]:
        if not dims or dims[0].removesuffix(" + 1") != op.split.count:
            continue
        row = skip_row(t, dims, op)
        if t.scale_strides and len(dims) > 1:
            row = f"({expression(t.scale_strides, op)} ? v[ATTN_ARG_SCALE_PAGE_STRIDE].i64 : {row})"
        rows = f"(count * {row})" if row else "count"
        lead = f"    if ({expression(when, op)})\n    " if when else ""
        text += f"{lead}    attn_advance(&v[{upper(t.arg)}].ptr, {rows} << {size_bits(t, op)});\n"
    return text


def skip(op):
    """Returns the C function attn_split.skip: it advances the pointers of a call past the first `count` elements of the
    dimension that SPLIT() names. "" without SPLIT()."""
    if op.split is None:
        return ""
    text = (f"static __attribute__((cold)) void skip_{op.name}(const union attn_desc *desc, const void *args,\n"
            "                      int64_t count, union attn_value *v)\n{\n"
            f"    const struct attn_{op.name}_desc *const d = &desc->{op.name};\n"
            f"    const struct attn_{op.name}_args *const a = args;\n")
    text += "".join(skip_tensor(t, op) for t in op.tensors())
    for name, step in op.split.rows.items():
        text += f"    attn_advance(&v[{upper(name)}].ptr, count * ({expression(step, op)}) << 2);\n"
    if op.pages:
        when = op.pages["when"]
        text += f"    if ({expression(when, op)})\n    " if when else ""
        text += "    attn_pages_skip(count, v);\n"
        if op.cache:
            text += f"    if ({expression(when, op)})\n    " if when else ""
            text += "    attn_cache_skip(&d->cache, count, v);\n"
    return text + "    (void)d;\n    (void)a;\n}\n\n"


def split_of(op):
    """Returns the C initialiser of an op's struct attn_split; {0} without SPLIT()."""
    return "{0}" if op.split is None else f"{{{upper(op.split.count)}, {op.split.each}, skip_{op.name}}}"


# ATTN_CHECK_DATA.

def check_finite(t, op):
    """Returns C that checks for ATTN_CHECK_DATA that a tensor's elements are finite. Only forms of the tensor with two
    dimensions and known strides are checked: scales of sequences and heads."""
    text, guard = "", condition(t, op)
    forms = [(None, t.dims), *t.dims_when.items()] if t.finite else []
    for when, dims in forms:
        if len(dims) != 2 or (when is None and t.strides):
            continue
        here = both(["!r", *guard, *([expression(when, op)] if when else [])])
        rows, columns = (expression(x, op) for x in dims)
        strides = [columns, "1"]
        if t.scale_strides:
            like = expression(t.scale_strides, op)
            strides = [f"({like}) ? a->cache.scale_{x}_stride : {y}" for x, y in zip(("page", "head"), strides)]
        text += (f"    if ({here})\n        r = attn_check_finite(op->device, &(const struct attn_floats){{"
                 f".name = \"{t.name}\", .data = a->{t.path}, .rows = {rows}, .columns = {columns}, "
                 f".row_stride = {strides[0]}, .column_stride = {strides[1]}}}, a->stream);\n")
    return text


def check_scales(op):
    """Returns C that checks for ATTN_CHECK_DATA that the scales of a cache's KV heads are finite. An op without pages
    reads only row 0 of the scales."""
    c = op.cache
    if not c or not c["fill"] or c["latent"]:
        return ""
    guard = c["needed"] or c["when"]
    here = both(["!r"] + ([expression(guard, op)] if guard else []))
    return (f"    if ({here})\n        r = attn_cache_check_scales(op->device, &d->cache, "
            f"{expression(c['kv_heads'], op)}, &a->cache, {'a->batch' if op.pages else '1'}, a->stream);\n")


def check_tensor(t, op):
    """Returns C that checks the elements of an index tensor for ATTN_CHECK_DATA; "" if the schema demands nothing."""
    guard = both(condition(t, op))
    lead = f"    if (!r && {guard if simple(guard) else '(' + guard + ')'})\n" if guard \
        else "    if (!r)\n"
    if t.indptr:
        count = expression(t.dims[0].replace(" + 1", ""), op)
        total, longest = (expression(t.indptr[x], op) for x in ("total", "longest"))
        return (lead + "        r = attn_check_indptr(op->device, &(const struct attn_indptr){"
                f".name = \"{t.name}\", .data = a->{t.path}, .rows = true, .batch = {count}, .total = {total}, "
                f".longest = {longest}}}, a->stream);\n")
    if isinstance(t.slots, str):
        return (lead + f"        r = attn_check_slots(op->device, a->{t.path}, "
                f"{expression(t.dims[0], op)}, {expression(t.slots, op)}, a->stream);\n")
    if t.slots:
        return (lead + "        r = attn_cache_check_slots(op->device, &d->cache, &a->cache, "
                f"a->{t.path}, {expression(t.dims[0], op)}, a->stream);\n")
    if t.least is not None or t.most is not None:
        count = " * ".join(expression(x, op) for x in t.dims)
        most = expression(str(t.most), op) if t.most is not None else "INT64_MAX"
        return (lead + "        r = attn_check_elements(op->device, &(const struct attn_elements){"
                f".name = \"{t.name}\", .data = a->{t.name}, .size = {FIXED[t.dtype][1]}, "
                f".count = {count}, .least = {t.least}, .most = {most}}}, a->stream);\n")
    return ""


def check_data(op):
    """Returns the C function attn_family.check_data of an op, which reads data from the device and checks them."""
    text = (f"static __attribute__((cold)) int check_data_{op.name}(const struct attn_op *op,\n"
            f"    const void *args)\n{{\n"
            f"    const struct attn_{op.name}_desc *const d = &op->desc.{op.name};\n"
            f"    const struct attn_{op.name}_args *const a = args;\n    int r = ATTN_OK;\n")
    for t in op.tensors():
        text += check_tensor(t, op) + check_finite(t, op)
    text += check_scales(op)
    if op.pages:
        parts = [expression(op.pages["when"], op)] if op.pages["when"] else []
        if op.pages["kv_lens_optional"]:
            parts.append("a->pages.kv_lens")
        lead = both(["!r"] + parts)
        if op.pages["slots"]:
            slots = expression(op.pages["slots"], op)
            first, rows = [expression(e, op) for e in op.pages["second"] or ("0", "0")]
            text += (f"    const struct attn_more_slots more = {{{first}, {rows}}};\n"
                     f"    if (!r && {slots})\n        r = attn_slots_check(op->device, &d->cache, "
                     f"d->page_table, &a->cache, &a->pages, {slots}, &more, a->batch, a->stream);\n")
            lead = both(["!r"] + parts + [f"!({slots})"])
        text += (f"    if ({lead})\n        r = attn_pages_check(op->device, &d->cache, "
                 "d->page_table, &a->cache, &a->pages, a->batch, a->stream);\n")
    for call in op.checks:
        text += f"    if (!r)\n        r = {call}(op, a);\n"
    return text + "    (void)d;\n    (void)a;\n    return r;\n}\n\n"


FAMILY = """\
static const uint16_t args_{n}[] = {{
{args}
}};

const struct attn_family attn_family_{n} = {{
    .op = "{n}",
    .desc_size = sizeof(struct attn_{n}_desc),
    .args_size = sizeof(struct attn_{n}_args),
    .normalise = normalise_{n},
    .make_key = make_key_{n},
    .fill = fill_{n},
    .split = {split},
    .check_data = check_data_{n},
    .tensors = attn_tensors_{n},
    .args = args_{n},
    .arg_count = sizeof(args_{n}) / sizeof(args_{n}[0]),
}};

ATTN_PUBLIC int attn_{n}_lookup(struct attn_device *device, const struct attn_{n}_desc *desc,
                                struct attn_op **op)
{{
    return attn_lookup(device, &attn_family_{n}, desc, op);
}}

ATTN_PUBLIC int attn_{n}_launch(const struct attn_op *op, const struct attn_{n}_args *args)
{{
    return attn_launch(op, &attn_family_{n}, args);
}}

"""


def dispatch_source(schema):
    """Returns the C source of the families and the public functions of all ops."""
    text = HEAD + text_tables(schema)
    for op in schema.ops:
        text += f"\n/* {op.title} */\n\n"
        text += normalise(op, schema) + make_key(op, schema) + fill(op) + skip(op) + check_data(op)
        args = "\n".join(f"    {upper(n)}," for n in sorted(arguments(op, schema)))
        text += FAMILY.format(n=op.name, args=args, split=split_of(op))
    return text
