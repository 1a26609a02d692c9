# SPDX-License-Identifier: Apache-2.0
"""Simulates PyTorch's CUDA device on a machine without a GPU. Tests of AITER make their tensors on "cuda"; these
tensors are then in the host's memory, where kernels on hipsim read and write them. The device reports the memory and
compute units of an idle GPU, since tests read them to choose shapes."""
import types

import torch
from torch.overrides import TorchFunctionMode

MEMORY = 64 << 30  # bytes of memory that the device reports
HOST = torch.device("cpu")


def on_host(x):
    """Returns the host's device if x is a device of CUDA; any other argument unchanged."""
    if isinstance(x, torch.device):
        return HOST if x.type == "cuda" else x
    return "cpu" if isinstance(x, str) and (x == "cuda" or x.startswith("cuda:")) else x


class OnHost(TorchFunctionMode):
    """A mode of PyTorch that replaces a device of CUDA by the host's in each call."""

    def __torch_function__(self, function, kinds, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if function is torch.Tensor.cuda:
            return args[0]
        if function == torch.Tensor.is_cuda.__get__:  # returns False: the mode of hipsim's tensors would return True
            return False
        if function is torch.Tensor.cpu:
            return args[0].clone()  # returns a copy, as for a tensor of a GPU, since tests write one of the two later
        # the argument is the number of a GPU
        if function is torch.Tensor.to and len(args) > 1 and type(args[1]) is int:
            args = (args[0], HOST, *args[2:])
        if "device" in kwargs:
            kwargs["device"] = on_host(kwargs["device"])
        return function(*map(on_host, args), **kwargs)


class Event:
    """An event of CUDA whose elapsed times are 0."""

    def __init__(self, *args, **kwargs):
        pass

    def record(self, *args):
        pass

    def synchronize(self):
        pass

    def elapsed_time(self, other):
        return 1.0


class Generator(torch.Generator):
    """A generator of random numbers on the host."""

    def __new__(cls, device="cpu"):
        return super().__new__(cls, on_host(device))


def properties(gfx):
    """Returns the properties of the device, as torch.cuda.get_device_properties() does."""
    return types.SimpleNamespace(name=gfx, gcnArchName=gfx, multi_processor_count=304 if gfx == "gfx942" else 256,
                                 warp_size=64, total_memory=MEMORY, major=9, minor=4, L2_cache_size=4 << 20)


def install(gfx, triton_runs=False):
    """Replaces the device in this process. `gfx` is the simulated GPU's name. `triton_runs`: True if Triton has a
    driver. Else Triton gets a driver that only reports the GPU."""
    def nothing(*args, **kwargs):
        return None
    torch.Generator = Generator
    torch.set_default_device = nothing
    stream = types.SimpleNamespace(cuda_stream=0, synchronize=nothing, wait_stream=nothing)
    replaced = {
        "is_available": lambda: True, "device_count": lambda: 1, "current_device": lambda: 0,
        "get_device_properties": lambda *_: properties(gfx), "get_device_name": lambda *_: gfx,
        "get_device_capability": lambda *_: (9, 4), "mem_get_info": lambda *_: (MEMORY, MEMORY),
        "memory_allocated": lambda *_: 0, "memory_reserved": lambda *_: 0, "max_memory_allocated": lambda *_: 0,
        "memory_stats": lambda *_: {}, "current_stream": lambda *_: stream, "default_stream": lambda *_: stream,
        "Event": Event}
    for name in ("set_device", "synchronize", "empty_cache", "reset_peak_memory_stats", "manual_seed", "manual_seed_all",
                 "init", "_lazy_init", "ipc_collect"):
        # a function of its own for each name, since torch.compile registers functions by identity
        replaced[name] = lambda *args, **kwargs: None
    for name, value in replaced.items():
        setattr(torch.cuda, name, value)
    if not triton_runs:
        import triton
        target = types.SimpleNamespace(backend="hip", arch=gfx, warp_size=64)
        triton.runtime.driver.set_active(types.SimpleNamespace(get_current_target=lambda: target))
    OnHost().__enter__()
