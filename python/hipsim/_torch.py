# SPDX-License-Identifier: Apache-2.0
"""torch's device "cuda" on a machine without one: its tensors are CPU tensors, which the simulator reads in place."""
from hipsim._cuda import NAMES

HIP_VERSION = "6.4.0"


def is_cuda(torch, x):
    return isinstance(x, torch.device) and x.type == "cuda" or isinstance(x, str) and x.split(":")[0] == "cuda"


def make_mode(torch):
    """Returns a mode of torch in which a device "cuda" is the CPU in every call."""
    from torch.overrides import TorchFunctionMode
    cpu = torch.device("cpu")

    class OnHost(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            kwargs = dict(kwargs or {})
            if function in (torch.Tensor.cuda, torch.Tensor.pin_memory):
                return args[0]
            kwargs.pop("pin_memory", None)
            if function == torch.Tensor.is_cuda.__get__:  # tensors are on the simulated GPU; wrappers of kernels assert it
                return True
            args = tuple(cpu if is_cuda(torch, x) else x for x in args)
            if is_cuda(torch, kwargs.get("device")) or isinstance(kwargs.get("device"), int):
                kwargs["device"] = cpu
            return function(*args, **kwargs)

    return OnHost()


def make_generator(torch):
    """Returns a class of random generators on the CPU, whatever device the caller names."""
    base = torch.Generator

    class AnyGenerator(type(base)):
        def __instancecheck__(cls, x):
            return isinstance(x, base)

    class Generator(base, metaclass=AnyGenerator):
        def __new__(cls, device="cpu"):
            return super().__new__(cls, "cpu")

    return Generator


def activate(torch, cuda):
    """Makes "cuda" the CPU until the process ends. torch.cuda's functions answer for the simulated GPU, and torch.version.hip
    is set, as in torch for AMD GPUs."""
    make_mode(torch).__enter__()
    for name in NAMES:
        setattr(torch.cuda, name, getattr(cuda, name))
    torch.Generator = make_generator(torch)
    torch.version.hip, torch.version.cuda = HIP_VERSION, None
