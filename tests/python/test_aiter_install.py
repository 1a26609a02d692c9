# SPDX-License-Identifier: Apache-2.0
"""Tests attn.aiter.install(): the lists of names that engines import, processes with and without AMD's AITER, and what
uninstall() restores. tests/python/engines has the lists. `python3 -m attn.aiter imports` writes one from an engine's
wheel or checkout."""
import importlib
import importlib.util
import inspect
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import types
import unittest
import zipfile
from contextlib import redirect_stdout
from unittest import mock

import numpy as np

import attn
import attn.aiter as calls
import support
import test_aiter as base
from attn.aiter import _imports, _modules, _operators, _forms
from test_aiter import D, GQA, H, HK, P, torch

LISTS = sorted((pathlib.Path(__file__).parent / "engines").glob("*.txt"))


def rows():
    """Yields (list, kind, dotted path) of each line of the lists; kinds are served, refused, helper and passed on."""
    for file in LISTS:
        for line in file.read_text().splitlines():
            if not line.startswith("#"):
                kind, dotted = line.rsplit(None, 1)
                yield file.stem, kind, dotted


def imported(dotted):
    """Imports c as `from a.b import c` does, for the path a.b.c, and returns it."""
    path, _, name = dotted.rpartition(".")
    space = {}
    exec(f"from {path} import {name} as it", space)
    return space["it"]


class Case(unittest.TestCase):
    """A case that removes `aiter` and `atom` from the process at its end."""

    def setUp(self):
        self.addCleanup(calls.uninstall)
        self.addCleanup(self.clean)

    def clean(self):
        for name in [n for n in sys.modules if n.split(".")[0] in ("aiter", "atom")]:
            del sys.modules[name]


class Engines(Case):
    def test_lists_are_there(self):
        self.assertEqual([f.stem.split("-")[0] for f in LISTS], ["atom", "sglang", "vllm"])
        for file in LISTS:
            lines = file.read_text().splitlines()
            # The list has no line for arguments that do not fit.
            self.assertRegex(lines[-2], "^# [0-9]+ calls of what is served$")
            kinds = [line.rsplit(None, 1)[0] for line in lines[:-2]]
            self.assertEqual(lines[-1], "# " + ", ".join(
                f"{kinds.count(k)} {k}" for k in ("served", "refused", "helper", "passed on")))
            self.assertGreater(kinds.count("served"), 30)

    def test_the_table_says_of_each_name_what_the_list_says(self):
        for engine, kind, dotted in rows():
            self.assertEqual(_modules.find(dotted)[0], kind, f"{engine}: {dotted}")

    def test_each_import_of_an_engine(self):
        calls.install()
        for engine, kind, dotted in rows():
            if dotted.startswith(("torch.", "atom.")):
                continue
            with self.subTest(engine=engine, name=dotted):
                getattr(self, "check_" + kind.replace(" ", "_"))(dotted, dotted.rpartition(".")[2])

    def check_served(self, dotted, name):
        call = imported(dotted)
        form = dotted.rpartition(".")[0] in ("aiter.ops.triton.mha", "aiter.ops.triton.attention.mha") or (
            dotted == "aiter.ops.fused_qk_norm_rope_cache_quant.fused_qk_rmsnorm")
        self.assertIs(call, getattr(_forms if form else calls, name))
        self.assertTrue(calls.served(name))
        self.assertTrue(inspect.signature(call).parameters)

    def check_refused(self, dotted, name):
        if name in _modules.PROBED:
            with self.assertRaises(ImportError) as caught:
                imported(dotted)
            self.assertIn(calls.reason(name), str(caught.exception))
            return
        call = imported(dotted)
        given = [None] * 11 if call is _forms.mla_decode_fwd else []
        with self.assertRaises(calls.NotServed):
            call(*given)

    def check_helper(self, dotted, name):
        if torch is None and (name in ("e4m3_dtype", "dtypes") or ".dtypes." in dotted):
            return
        with mock.patch.dict(os.environ, {"GPU_ARCHS": "gfx942"}):
            self.assertIsNotNone(imported(dotted))

    def check_passed_on(self, dotted, name):
        with self.assertRaisesRegex(ImportError, "Install AMD's AITER"):
            imported(dotted)

    def test_names_of_the_table_are_calls_with_a_reason_or_a_row(self):
        for name in sorted(_modules.known()):
            self.assertTrue(calls.served(name) or name in calls.NOT_SERVED, name)
        self.assertLessEqual(_modules.PROBED, set(calls.NOT_SERVED))


class Made(Case):
    """Tests the modules that install() makes where AITER is not installed."""

    def setUp(self):
        super().setUp()
        calls.install()

    def test_atom_is_not_made(self):
        calls.install(placeholders=True)
        with self.assertRaisesRegex(ModuleNotFoundError, "No module named 'atom'"):
            importlib.import_module("atom.model_ops.v4_kernels")

    def test_find_spec_answers_without_an_import(self):
        for name in ("aiter", "aiter.mla", "aiter.ops.triton.pa_mqa_logits", "aiter.ops.triton.attention.pa_mqa_logits"):
            self.assertIsNotNone(importlib.util.find_spec(name), name)
        for name in ("aiter.fused_moe", "aiter.ops.flydsl.batched_gemm_a8w8"):
            self.assertIsNone(importlib.util.find_spec(name), name)

    def test_attributes(self):
        import aiter as made
        self.assertFalse(hasattr(made, "hipb_mm"))
        self.assertIs(made.mla.mla_decode_fwd, calls.mla_decode_fwd)
        self.assertIs(made.ops.triton.attention.mha.flash_attn_varlen_func, _forms.flash_attn_varlen_func)
        self.assertIs(made.flash_attn_varlen_func, calls.flash_attn_varlen_func)
        self.assertEqual(inspect.signature(made.mla.mla_decode_fwd), inspect.signature(calls.mla_decode_fwd))
        self.assertIs(made.fused_qk_rmsnorm, calls.fused_qk_rmsnorm)
        self.assertIn("pa_fwd_asm", dir(made))
        self.assertIn("get_gfx", dir(made))
        self.assertTrue(made.__version__.startswith("0+attn"))

    def test_errors_name_what_is_missing(self):
        for text, words in (("import aiter.fused_moe", "aiter.fused_moe is no call of attention"),
                            ("from aiter import rmsnorm2d_fwd", "aiter.rmsnorm2d_fwd is no call"),
                            ("from aiter.mla import other", "aiter.mla.other is no call"),
                            ("from aiter.ops.triton.attention.chunk_kda import chunk_kda", "AITER's form of it has no call yet")):
            with self.assertRaisesRegex(calls.NotInstalled, words) as caught:
                exec(text, {})
            self.assertIsInstance(caught.exception, ModuleNotFoundError)
            self.assertEqual(caught.exception.status, "ATTN_NO_KERNEL")
        with self.assertRaisesRegex(AttributeError, "'aiter'.*has no 'hipb_mm'"):
            importlib.import_module("aiter").hipb_mm

    def test_the_gpu_is_that_of_use_or_of_a_variable(self):
        from aiter import get_gfx
        from attn.aiter import _common
        with mock.patch.dict(_common._devices, clear=True), mock.patch.dict(os.environ, {"GPU_ARCHS": "gfx942;gfx950"}):
            self.assertEqual(get_gfx(), "gfx950")
            del os.environ["GPU_ARCHS"]
            with self.assertRaisesRegex(attn.AttnError, "attn.aiter.use"):
                get_gfx()
            _common._devices[0] = types.SimpleNamespace(device=types.SimpleNamespace(target="gfx950", compute_units=256))
            os.environ["GPU_ARCHS"] = "gfx942"
            self.assertEqual(get_gfx(), "gfx950")
            self.assertEqual(imported("aiter.jit.utils.chip_info.get_cu_num")(), 256)

    def test_names_of_kernels(self):
        from aiter.ops.triton.utils._triton.kernel_repr import make_kernel_repr
        said = types.SimpleNamespace(constants={"BLOCK": 64, "IS": True, "KIND": "a-b", "NAME": "own"})
        self.assertEqual(make_kernel_repr("k", ["BLOCK", "IS", "KIND", "NONE"])(said), "k_BLOCK_64_IS_1_KIND_A_B_NONE_NONE")
        self.assertEqual(make_kernel_repr("k", [])(said), "k")
        self.assertEqual(make_kernel_repr("k", ["BLOCK"], "NAME")(said), "own_BLOCK_64")

    def test_functions_stay_as_they_are(self):
        from aiter.jit.utils.torch_guard import torch_compile_guard

        @torch_compile_guard(mutates_args=["x"], gen_fake=lambda x: None)
        def function(x):
            return x + 1
        self.assertEqual(function(1), 2)
        self.assertIs(torch_compile_guard()(max), max)

    def test_enums_have_the_numbers_of_aiter(self):
        from aiter import ActivationType, QuantType
        self.assertEqual([int(x) for x in ActivationType], [-1, 0, 1, 2, 3])
        self.assertEqual((QuantType.No.value, QuantType.per_1x32.value, QuantType.per_1x128.value), (0, 3, 4))

    @unittest.skipUnless(torch, "torch is not installed")
    def test_element_types(self):
        from aiter import dtypes
        self.assertIs(dtypes.bf16, torch.bfloat16)
        for target, name in (("gfx942", "float8_e4m3fnuz"), ("gfx950", "float8_e4m3fn")):
            from attn.aiter import _common
            with mock.patch.dict(_common._devices, clear=True), mock.patch.dict(os.environ, {"GPU_ARCHS": target}):
                want = getattr(torch, name, torch.uint8)
                self.assertIs(dtypes.fp8, want)
                self.assertIs(dtypes.d_dtypes["fp8"], want)
                self.assertIs(dtypes.d_dtypes["i32"], torch.int32)
                self.assertIs(imported("aiter.ops.triton.utils.types.e4m3_dtype"), want)

    def test_placeholders(self):
        calls.install(placeholders=True)
        from aiter.dist.parallel_state import get_tp_group
        from aiter import hipb_mm, pa_fwd_asm
        import aiter.fused_moe  # noqa: F401
        self.assertIs(pa_fwd_asm, calls.pa_fwd_asm)
        with self.assertRaisesRegex(ImportError, "aiter.dist.parallel_state.get_tp_group is no call of attention"):
            get_tp_group()
        with self.assertRaisesRegex(ImportError, "aiter.hipb_mm.per_row"):
            hipb_mm.per_row(1)
        self.assertIn("aiter.hipb_mm", repr(hipb_mm))
        self.assertFalse(hasattr(sys.modules["aiter"], "__file__"))

        class Derived(hipb_mm):
            pass
        self.assertEqual(Derived.__bases__, (object,))

    def test_uninstall(self):
        import aiter as made  # noqa: F401
        import aiter.mla  # noqa: F401
        calls.uninstall()
        self.assertNotIn("aiter.mla", sys.modules)
        with self.assertRaisesRegex(ModuleNotFoundError, "No module named 'aiter'"):
            importlib.import_module("aiter")
        calls.uninstall()  # a second call changes nothing


REAL = {
    "__init__.py": """
        from .ops.attention import *
        from .ops.norm import *
        from . import mla
        """,
    "mla.py": "def mla_decode_fwd(): return 'theirs'\ndef mla_decode_fwd_v4_nm_ps(): return 'theirs'\n",
    "ops/__init__.py": "",
    "ops/attention.py": "def pa_fwd_asm(): return 'theirs'\n",
    "ops/norm.py": "def rms_norm(): return 'theirs'\n",
    "ops/triton/__init__.py": """
        import importlib, importlib.util, sys
        from types import SimpleNamespace

        def older(fullname, path, target=None):
            if fullname != "aiter.ops.triton.mha":
                return None
            new = "aiter.ops.triton.attention.mha"
            sys.modules[fullname] = importlib.import_module(new)
            return importlib.util.find_spec(new)

        finder = SimpleNamespace(find_spec=older)
        sys.meta_path.insert(0, finder)
        """,
    "ops/triton/attention/__init__.py": "",
    "ops/triton/attention/mha.py": "def flash_attn_varlen_func(): return 'theirs'\n",
}
OWN = {
    "__init__.py": "", "model_ops/__init__.py": "",
    "model_ops/v4_kernels/__init__.py": """
        from atom.model_ops.v4_kernels.csa_translate_pack import csa_translate_pack
        from atom.model_ops.v4_kernels.paged_decode import sparse_attn_v4_paged_decode
        """,
    "model_ops/v4_kernels/csa_translate_pack.py": "def csa_translate_pack(): return 'theirs'\n",
    "model_ops/v4_kernels/paged_decode.py": "def sparse_attn_v4_paged_decode(): return 'theirs'\n",
}


class Installed(Case):
    """Tests install() where AITER is installed: a package whose modules load in several ways, also by the paths of
    older versions."""

    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for name, text in [*(("aiter/" + n, x) for n, x in REAL.items()), *(("atom/" + n, x) for n, x in OWN.items())]:
            file = pathlib.Path(folder.name, name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(textwrap.dedent(text))
        self.addCleanup(setattr, sys, "meta_path", list(sys.meta_path))
        sys.path.insert(0, folder.name)
        self.addCleanup(sys.path.remove, folder.name)
        importlib.invalidate_caches()

    def test_calls_that_are_served_take_their_names_over(self):
        calls.install()
        import aiter as theirs
        self.assertIs(theirs.pa_fwd_asm, calls.pa_fwd_asm)
        self.assertIs(imported("aiter.ops.attention.pa_fwd_asm"), calls.pa_fwd_asm)
        self.assertIs(theirs.mla.mla_decode_fwd, calls.mla_decode_fwd)
        self.assertEqual(theirs.rms_norm(), "theirs")
        self.assertEqual(theirs.mla.mla_decode_fwd_v4_nm_ps(), "theirs")
        self.assertIn("def rms_norm", inspect.getsource(sys.modules["aiter.ops.norm"]))

    def test_kernels_of_atoms_own(self):
        calls.install()
        for path in ("atom.model_ops.v4_kernels.paged_decode", "atom.model_ops.v4_kernels"):
            self.assertIs(imported(path + ".sparse_attn_v4_paged_decode"), calls.sparse_attn_v4_paged_decode)
        # A function that attn does not serve stays ATOM's.
        self.assertEqual(imported("atom.model_ops.v4_kernels.csa_translate_pack")(), "theirs")
        self.assertFalse(hasattr(importlib.import_module("atom"), "inverse_rope_inplace"))
        calls.uninstall()
        self.assertEqual(imported("atom.model_ops.v4_kernels.sparse_attn_v4_paged_decode")(), "theirs")
        theirs = imported("atom.model_ops.v4_kernels.paged_decode.sparse_attn_v4_paged_decode")
        calls.install()  # ATOM's modules are imported already
        self.assertEqual(theirs(), "theirs")
        self.assertIs(imported("atom.model_ops.v4_kernels.sparse_attn_v4_paged_decode"), calls.sparse_attn_v4_paged_decode)

    def test_older_paths(self):
        calls.install()
        for path in ("aiter.ops.triton.attention.mha", "aiter.ops.triton.mha"):
            self.assertIs(imported(path + ".flash_attn_varlen_func"), _forms.flash_attn_varlen_func)

    def test_modules_that_it_lacks_are_made(self):
        calls.install()
        self.assertIs(imported("aiter.ops.triton.gluon.mla_gluon.mla_gluon"), calls.mla_gluon)
        with self.assertRaisesRegex(ImportError, "cannot import name 'other'"):
            imported("aiter.ops.norm.other")

    def test_one_that_is_imported_already(self):
        theirs = importlib.import_module("aiter")
        self.assertEqual(theirs.pa_fwd_asm(), "theirs")
        calls.install()
        self.assertIs(theirs.pa_fwd_asm, calls.pa_fwd_asm)

    def test_uninstall_restores_it(self):
        calls.install()
        theirs = importlib.import_module("aiter")
        made = importlib.import_module("aiter.ops.triton.gluon")
        again = importlib.import_module("aiter.ops.triton.attention.mha")
        self.assertIs(theirs.ops.triton.gluon, made)
        calls.uninstall()
        self.assertFalse(hasattr(theirs.ops.triton, "gluon"))
        self.assertEqual((theirs.pa_fwd_asm(), theirs.mla.mla_decode_fwd()), ("theirs", "theirs"))
        self.assertFalse(hasattr(theirs, "paged_attention_v1"))
        # The module runs a second time, as AITER runs modules for the paths of older versions.
        again.__spec__.loader.exec_module(again)
        self.assertEqual(again.flash_attn_varlen_func(), "theirs")
        self.clean()
        self.assertEqual(imported("aiter.ops.attention.pa_fwd_asm")(), "theirs")

    def test_it_can_be_left_aside(self):
        calls.install(real=False)
        self.assertIs(imported("aiter.pa_fwd_asm"), calls.pa_fwd_asm)
        with self.assertRaisesRegex(calls.NotInstalled, "rms_norm"):
            imported("aiter.rms_norm")

    def test_a_finder_that_looks_for_the_spec_of_all_finders(self):
        class Hook:
            """A finder that asks all finders for a module's spec. Import hooks do so to wrap another finder's
            loader."""
            inside = False

            def find_spec(self, name, path=None, target=None):
                if name != "aiter" or self.inside:
                    return None
                self.inside = True
                try:
                    return importlib.util.find_spec(name)
                finally:
                    self.inside = False
        sys.meta_path.insert(0, Hook())
        calls.install()
        self.assertIs(imported("aiter.pa_fwd_asm"), calls.pa_fwd_asm)
        self.assertEqual(imported("aiter.rms_norm")(), "theirs")

    def test_a_folder_without_code_is_none(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "aiter", "aiter").mkdir(parents=True)
            sys.path[0], kept = folder, sys.path[0]
            try:
                calls.install()
                self.assertIs(imported("aiter.pa_fwd_asm"), calls.pa_fwd_asm)
            finally:
                sys.path[0] = kept


class Operators(Case):
    @unittest.skipUnless(torch, "torch is not installed")
    def test_schemas_have_the_arguments_of_the_calls(self):
        calls.install()
        for name in _modules.OPERATORS:
            schema = getattr(torch.ops.aiter, name).default._schema
            arguments = inspect.signature(getattr(calls, name)).parameters
            self.assertEqual([x.name for x in schema.arguments], list(arguments))
            for x in schema.arguments:
                default = arguments[x.name].default
                self.assertEqual(x.has_default_value(), default is not inspect.Parameter.empty, x.name)
                if x.has_default_value() and x.name != "compute_type":
                    self.assertEqual(x.default_value, default, x.name)

    @unittest.skipUnless(torch, "torch is not installed")
    def test_an_operator_of_before_is_restored(self):
        space = torch.ops.aiter
        space.pa_decode_gluon = "theirs"
        self.addCleanup(lambda: vars(space).pop("pa_decode_gluon", None))
        calls.install()
        calls.install(real=False)  # the second call has no operators to replace
        self.assertIsNot(space.pa_decode_gluon, "theirs")
        calls.uninstall()
        self.assertEqual(space.pa_decode_gluon, "theirs")
        self.assertFalse(hasattr(space, "paged_attention_v1"))
        calls.install()
        self.assertTrue(hasattr(space, "paged_attention_v1"))

    @unittest.skipUnless(torch, "torch is not installed")
    def test_paged_attention_v1(self):
        calls.use(device=support.device({"op": "decode", "head_dim": D, "page_size": P, "gqa": GQA},
                                        {"op": "combine", "head_dim": D, "partials": ["csr", "pair"]}, {"op": "plan"}))
        calls.install()
        lengths = [50, 9]
        k, v, table, keys, values = base.Calls.paged(self, lengths, 3)
        q, one = support.random((2, H, D), 5), torch.ones(1)
        out = torch.zeros(2, H, D, dtype=torch.float16)
        got = torch.ops.aiter.paged_attention_v1(
            out, torch.zeros(1), *(torch.from_numpy(x) for x in (q, k, v)), D ** -0.5, torch.from_numpy(np.maximum(table, 0)),
            torch.arange(2, dtype=torch.int32), torch.tensor(lengths, dtype=torch.int32), 50, None, "auto", "NHD", 0.0, one,
            one, None, 256, 1, 0)
        self.assertIsNone(got)
        for s in range(2):
            want, _ = support.attention(q[s:s + 1], keys[s], values[s])
            support.close(out[s:s + 1].numpy(), want, support.bound(v))

    def test_torch_is_not_needed_and_not_imported(self):
        code = """
            import sys
            import attn.aiter as calls
            calls.install()
            import aiter.mla
            from aiter.ops.triton.unified_attention import unified_attention
            assert "torch" not in sys.modules and "numpy" not in sys.modules
            try:
                import torch
            except ImportError:
                sys.exit(0)
            assert torch.ops.aiter.pa_decode_gluon is torch.ops.attn_aiter.pa_decode_gluon
            assert torch.__spec__.loader.get_source("torch")
            """
        subprocess.run([sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)], check=True)


class Scan(unittest.TestCase):
    SOURCE = """
        import torch
        import aiter
        import aiter.mla as latent
        from aiter import pa_fwd_asm as call, dtypes
        from aiter.ops.triton.mha import (flash_attn_varlen_func,
                                          flash_attn_func)
        from .aiter import nothing

        def f(x):
            from aiter.tuned_gemm import tgemm
            latent.mla_decode_fwd(x)
            tgemm.mm(x)
            dtypes.fp8.itemsize
            if hasattr(aiter, "hipb_mm") and importlib.util.find_spec("aiter.fused_moe"):
                torch.ops.aiter.paged_attention_v1(*x)
            torch.ops.other.thing(aiter.concat_and_cache_mla_seg)
            call(x, *x, other=1)
            flash_attn_func(x, **x)
            flash_attn_func(x, x, x)
        """
    WANT = [("helper", "aiter.dtypes", 5), ("passed on", "aiter.fused_moe", 15),
            ("passed on", "aiter.hipb_mm", 15), ("passed on", "aiter.tuned_gemm.tgemm", 11),
            ("refused", "aiter.concat_and_cache_mla_seg", 17), ("served", "aiter.mla.mla_decode_fwd", 12), ("served", "aiter.ops.triton.mha.flash_attn_func", 6),
            ("served", "aiter.ops.triton.mha.flash_attn_varlen_func", 6), ("served", "aiter.pa_fwd_asm", 5),
            ("served", "torch.ops.aiter.paged_attention_v1", 16)]

    def files(self, folder):
        pathlib.Path(folder, "engine").mkdir()
        pathlib.Path(folder, "engine/a.py").write_text(textwrap.dedent(self.SOURCE))
        # A file that does not parse.
        pathlib.Path(folder, "engine/b.py").write_text("import aiter\naiter.pa_fwd_asm(\n")
        pathlib.Path(folder, "engine/c.py").write_text("import other\n")

    def listed(self, *arguments):
        """Returns what the command prints for its arguments."""
        out = io.StringIO()
        with redirect_stdout(out):
            self.assertEqual(_imports.main(list(arguments)), 0)
        return out.getvalue()

    def test_a_folder_and_a_wheel(self):
        with tempfile.TemporaryDirectory() as folder:
            self.files(folder)
            wheel = folder + "/engine.whl"
            with zipfile.ZipFile(wheel, "w") as file:
                file.write(folder + "/engine/a.py", "a.py")
            got = self.listed("--where", folder + "/engine")
            want = [f"{kind:<10} {name}  a.py:{line}" for kind, name, line in self.WANT]
            misfits = ["# a.py:12: aiter.mla.mla_decode_fwd: missing a required argument: 'kv_buffer'",
                       "# a.py:18: aiter.pa_fwd_asm: got an unexpected keyword argument 'other'"]
            self.assertEqual(got.splitlines(), [*want, *misfits, "# 5 calls of what is served", "# 5 served, 1 refused, 1 helper, 3 passed on"])
            self.assertEqual(self.listed("--where", wheel), got)
            self.assertEqual(self.listed(wheel).splitlines()[0], "helper     aiter.dtypes")

    def test_a_path_that_is_not_there(self):
        with self.assertRaises(SystemExit), mock.patch("sys.stderr", io.StringIO()) as said:
            _imports.main(["/nowhere"])
        self.assertIn("/nowhere does not exist", said.getvalue())

    def test_the_command(self):
        with tempfile.TemporaryDirectory() as folder:
            self.files(folder)
            run = subprocess.run([sys.executable, "-m", "attn.aiter", "imports", folder], check=True, text=True,
                                 stdout=subprocess.PIPE)
            self.assertIn("# 5 served", run.stdout)


if __name__ == "__main__":
    unittest.main()
