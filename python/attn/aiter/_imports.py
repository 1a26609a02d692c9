# SPDX-License-Identifier: Apache-2.0
"""Lists what an engine takes from AITER, and from ATOM's own kernels: imports, attributes of imported modules,
operators. It parses the sources and imports nothing, so an engine need not run here. Names that are computed at run
time are not found."""
import argparse
import ast
import inspect
import pathlib
import zipfile

from attn.aiter import _modules


def sources(path):
    """Yields (name, text) of each Python file of a folder, a wheel or one file."""
    path = pathlib.Path(path)
    if path.is_dir():
        for file in sorted(path.rglob("*.py")):
            yield file.relative_to(path).as_posix(), file.read_text("utf-8", "replace")
    elif zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as wheel:
            for name in sorted(n for n in wheel.namelist() if n.endswith(".py")):
                yield name, wheel.read(name).decode("utf-8", "replace")
    else:
        yield path.name, path.read_text("utf-8", "replace")


def _dotted(node):
    """Returns the names in an expression `a.b.c` as a list; None for any other expression."""
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return [node.id, *reversed(names)] if isinstance(node, ast.Name) else None


def _of_aiter(path):
    """True if a dotted path names something of the package aiter, of torch.ops.aiter, or an ATOM kernel in the
    table."""
    module, _, name = path.rpartition(".")
    return _modules.of_aiter(path) or path.startswith("torch.ops.aiter.") or name in _modules.CALLS.get(module, {})


class _File(ast.NodeVisitor):
    """Collects the uses of AITER in one file: `uses` {dotted path: first line}, `modules`, paths that are certainly
    modules, and `calls` [(dotted path, node of the call)]."""

    def __init__(self):
        self.local = {"torch": "torch"}  # {local name: dotted path that it was imported from}
        self.uses, self.modules, self.calls = {}, set(), []

    def use(self, path, line):
        if _of_aiter(path):
            self.uses.setdefault(path, line)

    def module(self, path):
        if _modules.of_aiter(path):
            self.modules.add(path)

    def visit_Import(self, node):
        for name in node.names:
            self.use(name.name, node.lineno)
            self.module(name.name)
            root = name.name.split(".")[0]
            if root == "aiter":
                self.local[name.asname or root] = name.name if name.asname else root

    def visit_ImportFrom(self, node):
        if node.level or not node.module or not (_modules.of_aiter(node.module) or node.module in _modules.CALLS):
            return
        self.module(node.module)
        for name in node.names:
            path = f"{node.module}.{name.name}" if name.name != "*" else node.module
            self.use(path, node.lineno)
            self.local[name.asname or name.name] = path

    def visit_Attribute(self, node):
        names = _dotted(node)
        if names is None:
            self.generic_visit(node)
        elif names[0] in self.local:
            self.use(".".join([self.local[names[0]], *names[1:]]), node.lineno)

    def visit_Call(self, node):
        """Records a call, and the uses by `hasattr(aiter, "x")`, `getattr(aiter, "x")`, `find_spec("aiter.x")` and
        `import_module("aiter.x")`."""
        called = _dotted(node.func) or [""]
        texts = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        if called[-1] in ("hasattr", "getattr") and len(node.args) > 1 and texts:
            self.visit_Attribute(ast.copy_location(ast.Attribute(node.args[0], texts[0]), node))
        elif called[-1] in ("find_spec", "import_module") and texts:
            self.use(texts[0], node.lineno)
            self.module(texts[0])
        path = ".".join([self.local.get(called[0], ""), *called[1:]])
        if _of_aiter(path):
            self.calls.append((path, node))
        self.generic_visit(node)


def scan(path):
    """Returns ({dotted path: "file:line" of its first use}, paths that are certainly modules, [(dotted path,
    "file:line", node of a call)])."""
    uses, modules, calls = {}, set(), []
    for name, text in sources(path):
        if "aiter" not in text and "atom.model_ops" not in text:
            continue
        try:
            tree = ast.parse(text)
        except SyntaxError:
            continue
        file = _File()
        for node in ast.walk(tree):  # imports within functions come before their uses
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                file.visit(node)
        file.visit(tree)
        for dotted, line in file.uses.items():
            uses.setdefault(dotted, f"{name}:{line}")
        modules |= file.modules
        calls += [(dotted, f"{name}:{node.lineno}", node) for dotted, node in file.calls]
    return uses, modules, calls


def trimmed(uses, modules):
    """Returns the uses of scan() as {(kind, dotted path): "file:line"}. Paths are cut after AITER's name:
    `aiter.x.y.attribute` becomes `aiter.x.y`."""
    out = {}
    for dotted, where in uses.items():
        kind, path, name = _modules.find(dotted)
        if kind == "passed on" and path != "torch.ops.aiter":
            parts = dotted.split(".")
            known = max((n for n in range(len(parts) + 1) if ".".join(parts[:n]) in modules), default=1)
            dotted = ".".join(parts[:known + 1])
        else:
            dotted = f"{path}.{name}".rstrip(".")
        if kind != "module":
            out.setdefault((kind, dotted), where)
    return out


def misfit(dotted, node):
    """Returns the error text if a call passes an argument that the serving function lacks, or omits one that it needs.
    Returns None if the arguments fit. Arguments passed by * and ** are ignored."""
    from attn.aiter import _install
    _, path, name = _modules.find(dotted)
    signature = inspect.signature(_install.function(path, name))
    given = [a for a in node.args if not isinstance(a, ast.Starred)]
    named = {k.arg: k for k in node.keywords if k.arg}
    known = len(given) == len(node.args) and len(named) == len(node.keywords)
    try:
        (signature.bind if known else signature.bind_partial)(*given, **named)
    except TypeError as e:
        return str(e)
    return None


def listed(path, where=False):
    """Returns a text that lists the uses in a folder, wheel or file. A line has the kind and the dotted path, and with
    `where` "file:line". Comment lines at the end have calls whose arguments do not fit, and counts."""
    uses, modules, calls = scan(path)
    rows = trimmed(uses, modules)
    lines = [f"{kind:<10} {dotted}" + (f"  {rows[kind, dotted]}" if where else "") for kind, dotted in sorted(rows)]
    counts = {kind: sum(1 for k, _ in rows if k == kind) for kind in ("served", "refused", "helper", "passed on")}
    calls = [call for call in calls if _modules.find(call[0])[0] == "served"]
    lines += [f"# {place}: {dotted}: {text}" for dotted, place, node in calls if (text := misfit(dotted, node))]
    return "\n".join([*lines, f"# {len(calls)} calls of what is served", "# " + ", ".join(f"{n} {kind}" for kind, n in counts.items())]) + "\n"


def main(arguments):
    """Runs `python3 -m attn.aiter imports [--where] PATH...`."""
    parser = argparse.ArgumentParser(prog="attn.aiter imports", description="List what an engine takes from AITER: calls "
                                     "that attn.aiter serves, calls that it refuses, helpers that it has, and the rest, "
                                     "which install() passes on to an installed AITER.")
    parser.add_argument("path", nargs="+", help="a checkout, a wheel, or a Python file")
    parser.add_argument("--where", action="store_true", help="add the first file and line of each use")
    options = parser.parse_args(arguments)
    for path in options.path:
        if not pathlib.Path(path).exists():
            parser.error(f"{path} does not exist")
        print(listed(path, options.where), end="")
    return 0
