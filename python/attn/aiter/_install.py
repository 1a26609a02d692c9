# SPDX-License-Identifier: Apache-2.0
"""Makes `import aiter` in engines give attn.aiter's calls:

    attn.aiter.use("engine.attnpack")
    attn.aiter.install()

A finder at the head of sys.meta_path answers for `aiter` and its modules. An installed AITER is loaded as it is, and
the calls that attn.aiter serves replace its own. Without one, the finder makes modules that hold the calls and a few
helpers (_modules.py). Any other import of `aiter` is then a NotInstalled that says what to do. If ATOM is installed,
the served calls also replace ATOM's own kernels in its modules.

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
    """Raised by an import from `aiter` of a name that attn.aiter does not serve, if no AITER is installed that has the
    name."""

    def __init__(self, path, why):
        AttnError.__init__(self, "ATTN_NO_KERNEL", f"{path} {why}")
        self.name = "aiter"  # not the import's name: Python would treat that as an attribute that is just missing


def _why(dotted):
    """Returns why there is no such module or name, for an error's text."""
    kind, path, name = _modules.find(dotted)
    if kind == "refused":
        return f"is not served by attn.aiter: {NOT_SERVED[name]}"
    return HELP


class Placeholder:
    """An object in place of a name that only AITER has. It can be imported, has any attribute, and can be a base class.
    A call raises NotInstalled."""

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
    """A module of the package `aiter` that attn made. Calls are attributes; helpers are computed when they are read."""

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
    """Returns {name: function} for the module at `path`: the calls that are served. If the module is not a real one of
    AITER, refused calls are included too; they raise NotServed."""
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
    """Returns the function of attn.aiter that serves `name` of AITER's module `path`, or of torch.ops.aiter."""
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
    """Wraps another finder's loader, and calls `action` after that loader has run a module. The wrapper stays the
    module's loader, since AITER loads modules of older paths a second time through it."""

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
    """Finds `aiter` and its modules on import. Registers the operators when torch is imported."""

    def __init__(self):
        self.real, self.placeholders = True, False
        self.taken = {}  # {(module path, name): the object that was replaced, or None}
        self.looking = threading.local()  # per thread: the set of names that busy() returns

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
            if was is call:  # true after a star import of a module whose call was replaced already
                was = self.taken.get((_modules.CALLS[path][name], name))
            self.taken.setdefault((path, name), was)
            setattr(module, name, call)
        _operators.register()

    def give_back(self):
        """Removes modules that attn made, and restores AITER's own objects."""
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
    """Returns `spec`, changed so that action(module) is called after the module has run; None stays None."""
    if spec is not None and not isinstance(spec.loader, After):
        spec.loader = After(spec.loader, action)
    return spec


def _imports(frame):
    """True if an import statement looks for a module; False if importlib.util.find_spec() does. `frame` is the frame of
    importlib's loop over the finders."""
    caller = frame.f_back
    return caller is None or caller.f_globals.get("__name__") != "importlib.util"


_finder = Finder()


def install(real=True, placeholders=False):
    """Makes `import aiter` give attn.aiter's calls in this process, in all modules that engines import from, and the
    operators of torch.ops.aiter. use() may be called before or after install(). It has to be called before an engine is
    imported that reads the GPU's name at import.

    real=False leaves an installed AITER aside. placeholders=True lets any other name be imported, as an object that
    raises when it is called. A second install() changes both settings."""
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
    """Undoes install(): imports find the installed `aiter` again, or none. Engines keep the names that they have
    imported already."""
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
    _finder.give_back()
    _operators.forget()
