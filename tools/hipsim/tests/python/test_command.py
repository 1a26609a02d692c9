# SPDX-License-Identifier: Apache-2.0
"""Tests the Python package `hipsim` without Triton: its command line, options, host memory and times."""
import array
import os
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock

import hipsim
from hipsim import __main__ as command
from hipsim import _triton
from hipsim._cuda import Stream


class Storage:
    def __init__(self, address, size):
        self.address, self.size = address, size

    def data_ptr(self):
        return self.address

    def nbytes(self):
        return self.size


class Tensor:
    """A stand-in for a tensor, with the members that Held reads: `size` bytes at `address`."""

    def __init__(self, address, size):
        self.whole = Storage(address, size)

    def data_ptr(self):
        return self.whole.address

    def untyped_storage(self):
        return self.whole


def run(*words):
    """Runs `python -m hipsim` with arguments. Returns (exit status, output and errors)."""
    done = subprocess.run([sys.executable, "-B", "-m", "hipsim", *words], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


class Streams(unittest.TestCase):
    def test_all_streams_are_equal(self):
        cuda = types.SimpleNamespace(device=lambda *words: words)
        with unittest.mock.patch.dict(sys.modules, torch=cuda):
            one, other = Stream(), Stream(priority=-1)
            self.assertEqual(one, other)
            self.assertEqual(len({one, other}), 1)
            self.assertNotEqual(one, 0)
            self.assertEqual(other.device, ("cuda", 0))


class NamedLibrary(unittest.TestCase):
    """The path that Triton gets for a library whose name ends in a version."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        self.folder = os.path.realpath(folder.name)
        self.file = os.path.join(self.folder, "one", "libamdhip64.so.5")
        for name in ("one", "two"):
            os.mkdir(os.path.join(self.folder, name))
            open(os.path.join(self.folder, name, "libamdhip64.so.5"), "w").close()
        self.cache = unittest.mock.patch.dict(os.environ, XDG_CACHE_HOME=os.path.join(self.folder, "cache"))
        self.cache.start()
        self.addCleanup(self.cache.stop)

    def test_relative_path(self):
        os.chdir(os.path.join(self.folder, "one"))
        named = _triton.named_library("./libamdhip64.so.5")
        self.assertTrue(named.endswith("/libamdhip64.so") and os.path.samefile(named, self.file))
        self.assertEqual(_triton.named_library(self.file), named)
        os.chdir("../two")
        other = _triton.named_library("./libamdhip64.so.5")
        self.assertNotEqual(other, named)
        self.assertTrue(os.path.samefile(other, "libamdhip64.so.5") and os.path.samefile(named, self.file))

    def test_relative_cache(self):
        os.chdir(self.folder)
        with unittest.mock.patch.dict(os.environ, XDG_CACHE_HOME="here"):
            named = _triton.named_library(self.file)
        os.chdir("/")
        self.assertTrue(os.path.samefile(named, self.file))

    def test_right_name_needs_no_link(self):
        os.chdir(os.path.join(self.folder, "one"))
        os.rename("libamdhip64.so.5", "libamdhip64.so")
        self.assertEqual(_triton.named_library("libamdhip64.so"), os.path.join(self.folder, "one", "libamdhip64.so"))
        self.assertFalse(os.path.exists(os.path.join(self.folder, "cache")))

    def test_no_such_file(self):
        os.chdir(self.folder)
        with self.assertRaisesRegex(hipsim.HipsimError, "libamdhip64.so.5 is not a file: set HIPSIM_LIBRARY"):
            _triton.named_library("libamdhip64.so.5")

    def test_cache_that_cannot_be_written(self):
        with unittest.mock.patch.dict(os.environ, XDG_CACHE_HOME=self.file):  # a file, so that not even root makes folders
            with self.assertRaisesRegex(hipsim.HipsimError, "Not a directory.*; set XDG_CACHE_HOME to a folder"):
                _triton.named_library(self.file)

    def test_no_home(self):
        with unittest.mock.patch.dict(os.environ, XDG_CACHE_HOME=""):
            with unittest.mock.patch("pathlib.Path.home", side_effect=RuntimeError("Could not determine home directory.")):
                with self.assertRaisesRegex(hipsim.HipsimError, "home directory.*; set XDG_CACHE_HOME"):
                    _triton.named_library(self.file)


class Command(unittest.TestCase):
    def test_words(self):
        self.assertEqual(command.parse(["--target", "mi355x", "--time", "--checks=on", "a.py", "--time"]),
                         ({"target": "mi355x", "time": "on", "checks": "on"}, False, ["a.py", "--time"]))
        self.assertEqual(command.parse(["--hints=off", "-m", "pkg", "x"]), ({"hints": "off"}, True, ["pkg", "x"]))
        with self.assertRaisesRegex(hipsim.HipsimError, "no value of --seed"):
            command.parse(["--seed"])

    def test_refusals_name_the_cause(self):
        for words, text in (([], "no script"), (["nowhere.py"], "nowhere.py: no such file"),
                            (["--nonsense", "1", __file__], "nonsense"), (["--target", "mi100", __file__], "mi100"),
                            (["--seed", "1,2", __file__], "comma")):
            code, out = run(*words)
            self.assertEqual(code, 2, out)
            self.assertIn(text, out)
        self.assertIn("Usage", run("--help")[1])

    def test_without_triton(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "triton.py"), "w") as f:
                f.write("raise ModuleNotFoundError(\"No module named 'triton'\", name='triton')\n")
            environment = dict(os.environ, PYTHONPATH=folder + os.pathsep + os.environ["PYTHONPATH"])
            done = subprocess.run([sys.executable, "-B", "-m", "hipsim", __file__], env=environment,
                                  capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("pip install triton", done.stderr)


class Simulator(unittest.TestCase):
    def setUp(self):
        self.simulator = hipsim.library()

    def test_options(self):
        with self.assertRaisesRegex(hipsim.HipsimError, "checks"):
            self.simulator.configure(checks="everything")
        self.simulator.configure(checks="on", stats=False)
        self.assertEqual(hipsim.findings(), 0)

    def test_another_library_is_refused(self):
        for path in ("/nowhere/libamdhip64.so", "libc.so.6"):
            with self.assertRaisesRegex(hipsim.HipsimError, "is not hipsim's"):
                hipsim.Library(path)

    def test_memory_is_held_for_a_while(self):
        memory = array.array("b", bytes(4096))
        address = memory.buffer_info()[0]
        a, b, c = Tensor(address, 100), Tensor(address + 50, 100), Tensor(address + 1000, 24)
        with _triton.Held(self.simulator, [1, a, (b, [c]), Tensor(0, 0), None, 2.5]) as held:
            self.assertIsNone(held)
            for at, known in ((0, True), (149, True), (151, False), (1000, True), (1023, True), (1025, False)):
                self.assertEqual(self.simulator.known(address + at), known, at)
        for at in (0, 149, 1000):
            self.assertFalse(self.simulator.known(address + at))

    def test_memory_that_is_registered_stays_so(self):
        memory = array.array("b", bytes(256))
        address = memory.buffer_info()[0]
        self.simulator.register(address, 256)
        with _triton.Held(self.simulator, [Tensor(address, 256)]):
            pass
        self.assertTrue(self.simulator.known(address))
        self.simulator.unregister(address)
        with self.assertRaisesRegex(hipsim.HipsimError, "hipHostUnregister"):
            self.simulator.unregister(address)

    def test_time_without_launches(self):
        self.assertEqual(self.simulator.modelled_us(lambda: None), 0)


if __name__ == "__main__":
    unittest.main()
