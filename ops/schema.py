# SPDX-License-Identifier: Apache-2.0
"""Reads fields.def, types.def and ops/<op>.def into a model, and checks it.

A .def of an op is Python syntax: each row is a call of a method of Rows. README.md explains the
rows. The generators read their contents from Op, Key, Tensor, Scalar and Member objects.
"""
import pathlib
import re

DTYPES = {  # element types that a descriptor chooses: {name in a schema: (C constant, bytes)}
    "bf16": ("ATTN_BF16", 2), "fp16": ("ATTN_FP16", 2), "fp8": ("ATTN_FP8", 1),
    "int8": ("ATTN_INT8", 1),
}
# Element types that a schema fixes: {name in a schema: (C type, bytes)}.
FIXED = {"f32": ("float", 4), "i32": ("int32_t", 4), "i64": ("int64_t", 8), "u8": ("uint8_t", 1)}
INT_MAX = 2**31 - 1


class SchemaError(Exception):
    pass


class Field:
    """A field of fields.def: what a description and a dispatch key can say."""

    def __init__(self, name, kind, help, low=0, high=0, zero=None):
        self.name, self.kind, self.help = name, kind, help
        self.low, self.high, self.zero = low, high, zero
        self.values = []


class Enum:
    """An enum of the API. `rows` has (name without prefix, comment) of each value; the first value is `start`."""

    def __init__(self, name, prefix, about, rows, start):
        self.name, self.prefix, self.about, self.rows, self.start = name, prefix, about, rows, start

    def constants(self):
        return [self.prefix + row[0] for row in self.rows]

    def texts(self):
        return [row[0].lower() for row in self.rows]


class Member:
    """A member of a struct as C declares it. `array`: its number of elements; None: no array."""

    def __init__(self, ctype, name, doc, array=None):
        self.ctype, self.name, self.doc, self.array = ctype, name, doc, array


class Key:
    """A member of a descriptor, a field of the dispatch key, or both.

    name: the member; None: only a field of the key
    kind: dtype, int, flag, name, cache, key, or an enum's C type
    field: the field of fields.def; None: only a member
    default, when, value: C expressions; None: there is none
    only: the values that the op allows; None: all
    """

    def __init__(self, name, kind, doc, field=None, default=None, covers=(), when=None, value=None,
                 only=None, low=None, high=None, arg=False):
        self.name, self.kind, self.doc = name, kind, doc
        self.field, self.default, self.covers, self.when = field, default, list(covers), when
        self.value, self.only, self.low, self.high, self.arg = value, only, low, high, arg


class Tensor:
    """A pointer of an argument struct, with its dimensions and free strides.

    direction: in, out, inout, or raw for a pointer whose data are not checked
    dims: C expressions of the sizes, the outermost first; "any" for a size that nothing else says
    strides: names of the dimensions whose strides are members of the arguments, the outermost first
    vector: elements of an access, which sets the alignment
    README.md explains the others, which are keywords of IN(), OUT() and INOUT().
    """

    def __init__(self, name, direction, dtype, dims, doc, strides=(), vector=1, when=None,
                 optional=False, arg=None, indptr=None, limits=None, dense=None, host=False,
                 dlpack=True, fallback=None, least=None, most=None, dims_when=None, slots=False,
                 group=None, element=None, row_strides=(), bits=None, scale_strides=None, finite=False):
        self.name, self.direction, self.dtype, self.dims = name, direction, dtype, list(dims)
        self.doc, self.strides, self.vector, self.when = doc, list(strides), vector, when
        self.optional, self.arg, self.indptr = optional, arg or name, indptr
        self.limits, self.dense, self.host = limits or {}, dense or {}, host
        self.dlpack, self.fallback, self.slots = dlpack, fallback, slots
        self.element, self.row_strides = element, list(row_strides)
        self.bits = bits  # C: log2 of an element's bytes, if the schema does not name its type; None: see dtype
        self.group, self.path = group, f"{group}.{name}" if group else name
        self.scale_strides = scale_strides  # C, true: the tensor has the strides of cache.k_scale; None: never
        self.finite = finite  # True: ATTN_CHECK_DATA refuses float32 elements that are infinite or no number
        self.least, self.most, self.dims_when = least, most, dims_when or {}

    def stride(self, axis):
        return f"{self.name}_stride" if axis is None else f"{self.name}_{axis}_stride"

    def stride_arg(self, axis):
        return f"{self.arg}_stride" if axis is None else f"{self.arg}_{axis}_stride"


class Scalar:
    """A number of an argument struct. `size`: it is checked before EMPTY(); `arg`: its kernel argument, None: none."""

    def __init__(self, name, ctype, doc, low=0, high=INT_MAX, default=None, arg=None, when=None,
                 size=False, given=False):
        self.name, self.ctype, self.doc, self.low, self.high = name, ctype, doc, low, high
        self.default, self.arg, self.when, self.size = default, arg, when, size
        self.given = given  # True: the caller may set it, since a call may have no tensor to read it from


class Derived:
    """A kernel argument that the host computes: `value` is a C expression, `kind` PTR, I64, I32 or F32."""

    def __init__(self, name, kind, value, help, when=None):
        self.name, self.kind, self.value, self.help, self.when = name, kind, value, help, when


class Split:
    """The row SPLIT() of an op: see Rows.SPLIT()."""

    def __init__(self, count, each, rows):
        self.count, self.each, self.rows = count, each, rows


class Cover:
    """A value of a key's field in more general kernels, or a list of numbers: see Rows.COVER() and COVER_UP()."""

    def __init__(self, value, cost, when=None):
        self.value, self.cost, self.when = value, cost, when


class Op:
    """All rows of ops/<op>.def."""

    def __init__(self, name, title):
        self.name, self.title = name, title
        self.desc_about = "The values that are fixed for a layer."
        self.args_about = self.lookup_about = self.launch_about = ""
        self.enums, self.structs, self.texts = [], [], []
        self.keys, self.args, self.derived = [], [], []  # args: Tensor, Scalar, Member in order
        self.desc_rules, self.rules, self.checks, self.set_calls = [], [], [], []
        self.empty = "0"
        self.cache = None  # {keyword of CACHE(): value}; None: the op has no cache
        self.pages = None  # {keyword of PAGES(): value}; None: the op has no page table
        self.set_args = []  # (name, kind, help) of each kernel argument that set_calls set
        self.first, self.overrides = [], []
        self.split = None  # a Split; None without SPLIT()

    def tensors(self):
        return [a for a in self.args if isinstance(a, Tensor)]

    def scalars(self):
        return [a for a in self.args if isinstance(a, Scalar)]

    def desc_members(self):
        return {k.name for k in self.keys if k.name}

    def arg_members(self):
        names = set()
        for a in self.args:
            if isinstance(a, Tensor) and a.group:
                continue
            names.add(a.name)
            if isinstance(a, Tensor):
                names.update(a.stride(axis) for axis in a.strides)
        return names


def unquote(text):
    """Joins the string literals in C text and returns their contents."""
    return "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', text))


def split_arguments(text):
    """Returns the arguments of a C macro call: `text` split at commas outside of quotes and parentheses."""
    out, depth, quoted, at = [], 0, False, ""
    for c in text:
        if c == '"':
            quoted = not quoted
        elif not quoted and c in "()":
            depth += 1 if c == "(" else -1
        if c == "," and not quoted and depth == 0:
            out.append(at.strip())
            at = ""
        else:
            at += c
    return out + [at.strip()]


def read_fields(path):
    """Reads fields.def. Returns {name: Field}."""
    text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)
    text = re.sub(r"(?m)^#.*\n", "", text)
    fields, current = {}, None
    for kind, rest in re.findall(r"^\s*(FIELD_\w+|VALUE)\((.*?)\)\s*$", text, flags=re.S | re.M):
        row = split_arguments(rest)
        if kind == "VALUE":
            current.values.append(unquote(row[1]))
        elif kind != "FIELD_END":
            name = row[1]
            if kind == "FIELD_INT":
                zero = None if row[7] == "NULL" else unquote(row[7])
                current = Field(name, "int", unquote(row[9]), int(row[5]), int(row[6]), zero)
            else:
                current = Field(name, kind[6:].lower(), unquote(row[-1]))
            fields[name] = current
    return fields


class Schema:
    """The contents of all .def files: fields, enums, structs and ops."""

    def __init__(self, folder):
        folder = pathlib.Path(folder)
        self.fields = read_fields(folder / "fields.def")
        self.enums, self.structs, self.ops = {}, {}, []
        self.cache_args, self.pages_args = [], []
        self.read(folder / "types.def", None)
        listed = (folder / "ops.def").read_text()
        for name in re.findall(r"^OP\((\w+)\)", listed, flags=re.M):
            op = Op(name, "")
            self.read(folder / f"{name}.def", op)
            self.ops.append(op)
            self.check(op)

    def read(self, path, op):
        rows = Rows(self, op)
        scope = {name: getattr(rows, name) for name in dir(rows) if name.isupper()}
        scope["__builtins__"] = {}
        try:
            exec(compile(path.read_text(), str(path), "exec"), scope)
        except SchemaError as e:
            raise SystemExit(f"{path}: {e}")

    def check(self, op):
        for key in op.keys:
            if key.field and key.field not in self.fields:
                raise SystemExit(f"{op.name}.def: {key.field} is no field of fields.def")
            if key.kind.startswith("enum ") and key.field:
                known = self.fields[key.field].values
                for text in key.only or self.enums[key.kind].texts():
                    if text not in known:
                        raise SystemExit(f"{op.name}.def: {key.field} has no value {text}")


class Rows:
    """The functions that a .def file calls."""

    def __init__(self, schema, op):
        self._schema, self._op = schema, op

    def OP(self, name, title):
        """Begins the file of op `name`; `title` is its heading in the public header."""
        if name != self._op.name:
            raise SchemaError(f"the file is for {self._op.name}, not {name}")
        self._op.title = title

    def ENUM(self, name, prefix, about, rows, start=0):
        """Adds an enum. `rows` are pairs of a name without `prefix` and a comment; the first value is `start`."""
        enum = Enum(name, prefix, about, rows, start)
        self._schema.enums["enum " + name] = enum
        if self._op:
            self._op.enums.append(enum)

    def STRUCT(self, name, about, members):
        """Adds a struct whose `members` are rows MEMBER()."""
        struct = (name, about, members)
        self._schema.structs[name] = struct
        if self._op:
            self._op.structs.append(struct)

    def MEMBER(self, ctype, name, doc, array=None):
        """Describes a member of a struct. `array` is its number of elements; None: no array."""
        return Member(ctype, name, doc, array)

    def TEXT(self, text):
        """Adds C text to the public header, before the op's structs."""
        self._op.texts.append(text.strip("\n"))

    def ABOUT(self, desc=None, args=None, lookup=None, launch=None):
        """Sets the comments of the op's two structs and of its two functions."""
        op = self._op
        op.desc_about = desc or op.desc_about
        op.args_about, op.lookup_about, op.launch_about = args, lookup, launch

    # The descriptor.

    def COVER(self, value, cost, when=None):
        """Describes that a kernel whose key has `value` also serves a layer with another value, at `cost`, if the C
        condition `when` holds. Lookup chooses the kernel with the smallest sum of costs."""
        return Cover(value, cost, when)

    def COVER_UP(self, steps, cost):
        """Describes that kernels for larger numbers, those in `steps`, also serve a layer. The next larger one costs
        `cost` + 1, and each further one 1 more."""
        return Cover(list(steps), cost)

    def DTYPE(self, name, only, doc, field=None, default=None, key=True):
        """Adds an element type to the descriptor, one of `only`. `default` names what 0 means; None: 0 is invalid."""
        self._op.keys.append(Key(name, "dtype", doc, field=(field or name) if key else None,
                                 default=default, only=only))

    def CHOICE(self, name, enum, doc, field=None, only=None, covers=(), when=None):
        """Adds a value of an enum to the descriptor. `only` limits the values that the op accepts."""
        self._op.keys.append(Key(name, "enum " + enum, doc, field=field or name, only=only, covers=covers,
                                 when=when))

    def DIM(self, name, doc, default=None, low=None, high=None, field=None, covers=(), key=True):
        """Adds a number to the descriptor and, if `key` is true, to the dispatch key. The field in fields.def has its
        bounds, unless `low` or `high` replaces them."""
        f = self._schema.fields[field or name]
        self._op.keys.append(Key(name, "int", doc, field=(field or name) if key else None,
                                 default=default,
                                 low=low if low is not None else max(f.low, 1),
                                 high=high or f.high, covers=covers))

    def FLAG(self, name, doc, field=None, key=True, covers=()):
        """Adds a bool to the descriptor and, if `key` is true, to the dispatch key."""
        self._op.keys.append(Key(name, "flag", doc, field=(field or name) if key else None,
                                 covers=covers))

    def NAME(self, name, doc, field=None):
        """Adds a name to the descriptor and the dispatch key, such as a hook's."""
        self._op.keys.append(Key(name, "name", doc, field=field or name))

    def SIZE(self, name, doc, high=65535, arg=True):
        """Adds a number to the descriptor that is not in the dispatch key. If `arg` is true, kernels get it as an
        argument."""
        self._op.keys.append(Key(name, "int", doc, low=1, high=high, arg=arg))

    def KEY(self, field, value, covers=(), when=None):
        """Adds a field of the dispatch key that is no member of the descriptor. `value` is C: text or a number."""
        self._op.keys.append(Key(None, "key", "", field=field, value=value, covers=covers,
                                 when=when))

    def CACHE(self, dtype="dtype", head_dim="head_dim", head_dim_v="head_dim_v", when=None,
              page_size_key=True, members=("cache",), needed=None, doc="", fill=True, key=True,
              latent=False):
        """Adds the descriptor and the tensors of a KV cache. With `latent` it has one head, and a row at cache.k is
        key and value."""
        self._op.cache = {"dtype": dtype, "head_dim": head_dim, "head_dim_v": head_dim_v,
                          "latent": latent, "kv_heads": "1" if latent else "kv_heads",
                          "when": when, "page_size_key": page_size_key, "needed": needed,
                          "fill": fill, "key": key, "members": members}
        self._op.keys.append(Key("cache", "cache", doc or (f"with {when}" if when else "")))
        for name in members:
            self._op.args.append(Member("struct attn_cache", name, ""))

    def PAGES(self, when=None, kv_lens_optional=None, slots=None, second=None, doc=""):
        """Adds page tables. `slots` is C: the number of slots that an entry of a list names; None or 0: entries name
        pages. With `slots` kv_lens may be NULL. `second` is for lists that also name rows of a second source: C of
        its first slot number and of its number of rows."""
        self._op.pages = {"when": when, "kv_lens_optional": kv_lens_optional, "slots": slots, "second": second}
        self._op.keys.append(Key("page_table", "enum attn_page_table",
                                 f"with {when}" if when else "", field="page_table", when=when))
        self._op.args.append(Member("struct attn_pages", "pages", doc))

    # The arguments.

    def IN(self, name, dtype, dims, doc, **more):
        """Adds a tensor that the kernel reads. `dims` are C expressions of its sizes; `more` are options of class
        Tensor."""
        self._op.args.append(Tensor(name, "in", dtype, dims, doc, **more))

    def OUT(self, name, dtype, dims, doc, **more):
        """Adds a tensor that the kernel writes; parameters as in IN()."""
        self._op.args.append(Tensor(name, "out", dtype, dims, doc, **more))

    def INOUT(self, name, dtype, dims, doc, **more):
        """Adds a tensor that the kernel reads and writes; parameters as in IN()."""
        self._op.args.append(Tensor(name, "inout", dtype, dims, doc, **more))

    def ROWS(self, total, longest):
        """Describes an array with the first token of each sequence: it begins at 0, never falls, and ends at `total`
        or below. No difference of neighbours exceeds `longest`."""
        return {"total": total, "longest": longest}

    def COUNT(self, name, doc, low=0, high=INT_MAX, arg="", default=None, given=False):
        """Adds an int32 size of the call, `low` to `high`. Kernels get it as the argument `arg`; "": by its own name;
        None: not."""
        arg = name if arg == "" else arg
        self._op.args.append(Scalar(name, "int32_t", doc, low=low, high=high, arg=arg,
                                    default=default, size=True, given=given))

    def SCALAR(self, name, ctype, doc, arg="", default=None, low=None, high=None, when=None):
        """Adds a number of type `ctype` to the arguments of a call; `arg` as in COUNT()."""
        arg = name if arg == "" else arg
        self._op.args.append(Scalar(name, ctype, doc, low=low, high=high, default=default, arg=arg,
                                    when=when))

    def GROUP(self, struct, name, doc):
        """Adds a nested struct to the arguments."""
        self._op.args.append(Member(f"struct {struct}", name, doc))

    def POINTER(self, name, doc):
        """Adds a pointer that the kernel gets as it is: neither the pointer nor the data are checked."""
        self._op.args.append(Tensor(name, "raw", "u8", [], doc, optional=True, dlpack=False))

    def ARRAY(self, ctype, name, count, doc):
        """Adds an array of `count` numbers of type `ctype` to the arguments."""
        self._op.args.append(Member(ctype, name, doc, count))

    def DERIVED(self, name, kind, value, help, when=None):
        """Adds a kernel argument of kind PTR, I64, I32 or F32 whose value is the C expression `value`."""
        self._op.derived.append(Derived(name, kind, value, help, when))

    def EMPTY(self, expression):
        """Sets the C condition under which a call has no work, so that nothing is launched."""
        self._op.empty = expression

    def SPLIT(self, count, each=1, **rows):
        """Declares that libattn may launch a large batch in pieces. The argument `count` is in y or z of the grid,
        with `each` workgroups for each of it. For later pieces the pointers of tensors whose first dimension is
        `count` are advanced. So are the int32 arrays `rows`: {name: C of the entries for each of `count`}."""
        self._op.split = Split(count, each, rows)

    def DESC_RULE(self, expression, sentence):
        """Adds a C condition that a descriptor must meet. `sentence` is the message otherwise; {name} in it becomes the
        number of that member."""
        self._op.desc_rules.append((expression, sentence))

    def RULE(self, expression, sentence):
        """Adds a C condition that the arguments of a call must meet; `sentence` is the message otherwise."""
        self._op.rules.append((expression, sentence))

    def ARG(self, name, kind, help):
        """Describes a kernel argument for CACHE_ARGS(), PAGES_ARGS() and SET()."""
        return name, kind, help

    def CACHE_ARGS(self, *args):
        """Sets the kernel arguments that every op with a cache has, rows ARG()."""
        self._schema.cache_args = list(args)

    def PAGES_ARGS(self, *args):
        """Sets the kernel arguments that every op with page lists has, rows ARG()."""
        self._schema.pages_args = list(args)

    def SET(self, call, *args):
        """Adds a call of the function `call` of runtime/host.h, which checks arguments and sets the kernel arguments
        `args`, rows ARG()."""
        self._op.set_calls.append(call)
        self._op.set_args.extend(args)

    def FIRST(self, call):
        """Adds a check by a function of runtime/host.h that runs before the test for an empty launch, EMPTY()."""
        self._op.first.append(call)

    def OVERRIDE(self, condition, member, value):
        """Sets a member of the descriptor to `value` if the C condition holds: the caller's value then has no
        effect."""
        self._op.overrides.append((condition, member, value))

    def FLAG_ARG(self, name, doc):
        """Adds a bool to the arguments of a call."""
        self._op.args.append(Member("bool", name, doc))

    def IN_GROUP(self, group, name, dtype, dims, direction="in", **more):
        """Adds a tensor that is a member of the struct `group` in the arguments."""
        self._op.args.append(Tensor(name, direction, dtype, dims, "", group=group, **more))

    def CHECK_DATA(self, call):
        """Adds a call of the function `call` of runtime/host.h with (op, args), which checks data in device memory
        for ATTN_CHECK_DATA."""
        self._op.checks.append(call)
