# SPDX-License-Identifier: Apache-2.0
"""The package `aiter` for engines that import it, made of attn.aiter's calls:

    attn.aiter.use("engine.attnpack")
    attn.aiter.install()

A finder at the head of sys.meta_path answers for `aiter` and its modules. An installed AITER is loaded as it is, and the
calls that attn.aiter serves replace its own. Without one, the finder makes modules that hold the calls and a few helpers
(_modules.py). Any other import of `aiter` is then a NotInstalled that says what to do. Modules of ATOM's own kernels, where
ATOM is installed, get the calls that are served in place of theirs.

An engine that has done `from aiter import x` holds x: install() is called before engines are imported, in each process."""
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import threading
import types

from attn._native import AttnError
from attn.aiter import _modules, _operators
from attn.aiter._table import NOT_SERVED

HELP = ("is no call of attention that attn.aiter has. Install AMD's AITER beside attn, whose other calls are then taken "
        "from there, or have the engine do without it; attn.aiter.install(placeholders=True) makes an object that "
        "raises when it is called")


class NotInstalled(AttnError, ModuleNotFoundError):
    """An import from `aiter` that attn.aiter does not serve, without an AITER that has it."""

    def __init__(self, path, why):
        AttnError.__init__(self, "ATTN_NO_KERNEL", f"{path} {why}")
        self.name = "aiter"  # a name equal to the import's would be taken for an attribute that is just missing


def _why(dotted):
    """Returns why there is no such module or name, for an error's text."""
    kind, path, name = _modules.find(dotted)
    if kind == "refused":
        return f"is not served by attn.aiter: {NOT_SERVED[name]}"
    return HELP


class Placeholder:
    """Something of AITER's that is not here. It can be imported, has any attribute, and can be a base class; a call raises."""

    def __init__(self, path):
        self._path = self.__name__ = path

    def __call__(self, *args, **kwargs):
        raise NotInstalled(self._path, _why(self._path))

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Placeholder(f"{self._path}.{name}")

    def __mro_entries__(self, bases):
        return (object,)

    def __or__(self, other):
        return self

    __ror__ = __or__

    def __repr__(self):
        return f"<{self._path}, which attn.aiter does not have>"


class Made(types.ModuleType):
    """A module of the tree: calls as attributes, helpers when they are read."""

    def __getattr__(self, name):
        kind = _modules.kind(self.__name__, name)
        if kind == "helper":
            from attn.aiter import _helpers
            return _helpers.read(self.__name__, name)
        if kind == "module":
            return importlib.import_module(f"{self.__name__}.{name}")
        if not name.startswith("__") and _finder.placeholders:
            return Placeholder(f"{self.__name__}.{name}")
        raise AttributeError(f"module {self.__name__!r}, made by attn.aiter.install(), has no {name!r}")

    def __dir__(self):
        return sorted({*vars(self), *_modules.HELPERS.get(self.__name__, "").split()})


def _calls(path, real):
    """Returns {name: function} of a module: of calls that are served, and in a module that is not AITER's own those that
    are refused when they are called."""
    import attn.aiter as served
    from attn.aiter import _forms
    out = {}
    for name, row in _modules.CALLS.get(path, {}).items():
        refused = _modules.kind(path, name) == "refused"
        if refused and (real or name in _modules.PROBED):
            continue
        form = _modules.FORMS.get((row, name))
        out[name] = getattr(_forms, form) if form else getattr(served, name)
    return out


def function(path, name):
    """Returns the function of attn.aiter that serves `name` of a module's path, or of torch.ops.aiter."""
    import attn.aiter as served
    return getattr(served, name) if path == "torch.ops.aiter" else _calls(path, real=False)[name]


class Tree(importlib.abc.Loader):
    """Makes the modules that no installed AITER has."""

    def create_module(self, spec):
        return Made(spec.name, "Made by attn.aiter.install().")

    def exec_module(self, module):
        vars(module).update(_calls(module.__name__, real=False))
        _operators.register()


class After(importlib.abc.Loader):
    """Another finder's loader, with something to do after it has run a module. It stays the module's loader: AITER loads
    modules of older paths a second time by it."""

    def __init__(self, loader, action):
        self.loader, self.action = loader, action

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        self.loader.exec_module(module)
        self.action(module)

    def __getattr__(self, name):
        return getattr(self.loader, name)


class Finder(importlib.abc.MetaPathFinder):
    """Finds `aiter` and its modules. When torch is imported, registers the operators."""

    def __init__(self):
        self.real, self.placeholders = True, False
        self.taken = {}  # {(path, name): what a module of AITER's had, or None}
        self.looking = threading.local()  # see busy()

    def busy(self):
        """Returns the names that this thread looks up in other finders. find_spec() finds none of them, since
        import hooks among these finders search all finders again."""
        return vars(self.looking).setdefault("names", set())

    def others(self, name, path, target):
        """Returns the spec that the other finders have, or None. A folder without code, such as an engine's
        checkout, is None."""
        names = self.busy()
        names.add(name)
        try:
            for finder in list(sys.meta_path):
                if finder is self or not hasattr(finder, "find_spec"):
                    continue
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    return spec if spec.loader is not None else None
        finally:
            names.discard(name)
        return None

    def find_spec(self, name, path=None, target=None):
        if name in self.busy():
            return None
        if name == "torch":
            return after(self.others(name, path, target), lambda module: _operators.register())
        if name in _modules.CALLS and not _modules.of_aiter(name):
            return after(self.others(name, path, target), self.take_over)
        if not _modules.of_aiter(name):
            return None
        if self.real:
            spec = self.others(name, path, target)
            if spec is not None:
                return after(spec, self.take_over)
        if name in _modules.PATHS or self.placeholders:
            return importlib.machinery.ModuleSpec(name, Tree(), origin="attn.aiter.install()", is_package=True)
        if _imports(sys._getframe(1)):
            raise NotInstalled(name, _why(name))
        return None

    def take_over(self, module):
        """Puts the calls that are served into a module of AITER's."""
        if self not in sys.meta_path:
            return
        path = module.__name__
        for name, call in _calls(path, real=True).items():
            was = vars(module).get(name)
            if was is call:  # by a star import of the module that the name is from
                was = self.taken.get((_modules.CALLS[path][name], name))
            self.taken.setdefault((path, name), was)
            setattr(module, name, call)
        _operators.register()

    def give_back(self):
        """Removes modules that were made, and restores AITER's own."""
        for name, module in list(sys.modules.items()):
            if isinstance(module, Made):
                del sys.modules[name]
                parent, _, child = name.rpartition(".")
                if vars(sys.modules.get(parent, module)).get(child) is module:
                    delattr(sys.modules[parent], child)
        for (path, name), was in self.taken.items():
            module = sys.modules.get(path)
            if module is not None and was is None:
                vars(module).pop(name, None)
            elif module is not None:
                setattr(module, name, was)
        self.taken.clear()


def after(spec, action):
    """Returns a module's spec, changed to call `action` with the module after the module has run; None stays
    None."""
    if spec is not None and not isinstance(spec.loader, After):
        spec.loader = After(spec.loader, action)
    return spec


def _imports(frame):
    """True if an import statement looks for a module, rather than importlib.util.find_spec(), which gets None. `frame` is
    importlib's loop over the finders."""
    caller = frame.f_back
    return caller is None or caller.f_globals.get("__name__") != "importlib.util"


_finder = Finder()


def install(real=True, placeholders=False):
    """Makes `import aiter` give attn.aiter's calls in this process, in all modules that engines import from, and the
    operators of torch.ops.aiter. use() may be called before or after, and comes before engines
    that read the GPU's name when they are imported.

    real=False leaves an installed AITER aside. placeholders=True lets any other name be imported, as an object that
    raises when it is called. A second install() changes these."""
    _finder.real, _finder.placeholders = real, placeholders
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    loaded = [m for n, m in list(sys.modules.items())
              if (_modules.of_aiter(n) or n in _modules.CALLS) and isinstance(m, types.ModuleType)]
    for module in loaded:
        if not isinstance(module, Made):
            _finder.take_over(module)
    _operators.register()


def uninstall():
    """Undoes install(): `aiter` is the installed one, or none. What engines have imported by then stays with them."""
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
    _finder.give_back()
    _operators.forget()
