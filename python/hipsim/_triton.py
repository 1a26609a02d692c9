# SPDX-License-Identifier: Apache-2.0
"""Triton's driver for the simulator.

The AMD backend's own driver compiles and launches; this one replaces what it would ask torch's ROCm build: device,
stream, benchmarks. Kernels read and write the memory of CPU tensors, which is registered for exactly one launch, so
that the checks know its bounds. A launch ends before the call returns, since nothing else orders the host's reads.
"""
import hashlib
import os
import pathlib

from hipsim._cuda import Cuda
from hipsim._library import HipsimError

HIP_MAJOR = 6  # of the headers that Triton's launcher is compiled with
BUILDS_FROM = (3, 4)
NAME = "libamdhip64.so"  # Triton accepts only a HIP library with this file name


def storage(x):
    """Returns (address, bytes) of all the memory that a CPU tensor is a view of; None if it has no memory."""
    whole = x.untyped_storage() if hasattr(x, "untyped_storage") else x.storage()
    size = whole.nbytes()
    return (whole.data_ptr(), size) if size else None


def tensors(arguments):
    """Yields the tensors among the arguments of a launch, in tuples and descriptors too."""
    for x in arguments:
        if isinstance(x, (tuple, list)):
            yield from tensors(x)
        elif hasattr(x, "base") and hasattr(x, "block_shape"):
            yield x.base
        elif hasattr(x, "data_ptr"):
            yield x


class Held:
    """Registers the memory of tensors, so that kernels may access it while a `with` statement runs. Joins spans that
    overlap."""

    def __init__(self, simulator, arguments):
        self.simulator, self.spans = simulator, []
        spans = sorted({s for s in map(storage, tensors(arguments)) if s and not simulator.known(s[0])})
        for address, size in spans:
            if self.spans and address < sum(self.spans[-1]):
                first = self.spans[-1][0]
                self.spans[-1] = first, max(sum(self.spans[-1]), address + size) - first
            else:
                self.spans.append((address, size))

    def __enter__(self):
        done = []
        try:
            for span in self.spans:
                self.simulator.register(*span)
                done.append(span)
        except HipsimError:
            self.spans = done
            self.__exit__()
            raise

    def __exit__(self, *_):
        for address, _ in self.spans:
            self.simulator.unregister(address)


def make_launcher(base, simulator):
    """Returns Triton's launcher, with the memory of tensors held during a launch."""

    class Launcher(base):
        def __call__(self, x, y, z, stream, function, kernel, launch, enter, leave, *arguments):
            with Held(simulator, arguments):
                super().__call__(x, y, z, stream, function, kernel, launch, enter, leave, *arguments)
                simulator.synchronize()

    return Launcher


def make_benchmark(simulator):
    """Returns a function in place of triton.testing.do_bench: one call, whose launches' modelled times are added."""

    def do_bench(fn, warmup=0, rep=0, grad_to_none=None, quantiles=None, return_mode="mean", **_):
        ms = simulator.modelled_us(fn) / 1e3
        return [ms] * len(quantiles) if quantiles else [ms] if return_mode == "all" else ms

    return do_bench


def make_driver(simulator):
    """Returns an instance of Triton's AMD driver for the simulator."""
    from triton.backends.amd import driver as amd

    class Driver(amd.HIPDriver):
        def __init__(self):  # the base's asks torch.cuda
            self.utils = amd.HIPUtils()
            cuda = self.cuda = Cuda(simulator, self.utils)
            self.launcher_cls = make_launcher(amd.HIPLauncher, simulator)
            self.get_current_device, self.set_current_device = cuda.current_device, cuda.set_device
            self.get_device_capability = cuda.get_device_capability
            self.get_current_stream = lambda device=None: 0

        def get_device_interface(self):
            return self.cuda

        def get_active_torch_device(self):
            import torch
            return torch.device("cpu")

        def get_benchmarker(self):
            return make_benchmark(simulator)

        def get_empty_cache_for_benchmark(self):
            return None

        def clear_cache(self, cache):
            pass

        def allocate_default_profile_scratch(self, size, alignment, stream):
            import torch
            return torch.zeros(size, dtype=torch.int8)

    return Driver()


def check_version():
    import triton
    found = tuple(int(n) for n in triton.__version__.split(".")[:2])
    if found < BUILDS_FROM:
        raise HipsimError(f"Triton {triton.__version__}: hipsim needs 3.4 or newer")


def named_library(path):
    """Returns the absolute path of the library `path` if it ends in libamdhip64.so, as Triton demands; else the path of a
    link with that name to it, in the user's cache. In a wheel the library's name ends in a version, and a wheel cannot
    contain links. Triton compiles the returned path into a program that it caches, so every process must get the same
    path. Raises HipsimError if `path` is not a file or the cache cannot be written."""
    if not os.path.isfile(path):  # the loader searches for a name without a slash elsewhere
        raise HipsimError(f"{path} is not a file: set HIPSIM_LIBRARY to the path of hipsim's libamdhip64")
    path = os.path.abspath(path)
    if path.endswith(NAME):
        return path
    try:
        cache = pathlib.Path(os.path.abspath(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"))
        link = cache / "hipsim" / hashlib.sha256(path.encode()).hexdigest()[:16] / NAME
        if not link.exists():
            link.parent.mkdir(parents=True, exist_ok=True)
            other = link.with_name(f"{NAME}-{os.getpid()}")
            other.symlink_to(path)
            other.replace(link)  # atomic, since another process may make the same link
    except (OSError, RuntimeError) as e:
        raise HipsimError(f"no link to {path} for Triton: {e}; set XDG_CACHE_HOME to a folder that can be written") from e
    return str(link)


def activate(simulator):
    """Makes the simulator Triton's GPU, and torch's too if torch is installed."""
    check_version()
    os.environ["TRITON_LIBHIP_PATH"] = named_library(simulator.path)
    simulator.configure(hip=HIP_MAJOR)
    from triton import runtime, testing
    runtime.driver.set_active(make_driver(simulator))
    testing.do_bench = testing.do_bench_cudagraph = make_benchmark(simulator)
    try:
        import torch
    except ImportError:
        return
    from hipsim import _torch
    _torch.activate(torch, runtime.driver.active.cuda)
