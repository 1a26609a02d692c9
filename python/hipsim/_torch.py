# SPDX-License-Identifier: Apache-2.0
"""torch's device "cuda" on a machine without one: its tensors are CPU tensors, which the simulator reads in place."""


def is_cuda(torch, x):
    return isinstance(x, torch.device) and x.type == "cuda" or isinstance(x, str) and x.split(":")[0] == "cuda"


def make_mode(torch):
    """Returns a mode of torch in which a device "cuda" is the CPU in every call."""
    from torch.overrides import TorchFunctionMode
    cpu = torch.device("cpu")

    class OnHost(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            kwargs = dict(kwargs or {})
            if function is torch.Tensor.cuda:
                return args[0]
            if function == torch.Tensor.is_cuda.__get__:  # tensors are on the simulated GPU; wrappers of kernels assert it
                return True
            args = tuple(cpu if is_cuda(torch, x) else x for x in args)
            if is_cuda(torch, kwargs.get("device")) or isinstance(kwargs.get("device"), int):
                kwargs["device"] = cpu
            return function(*args, **kwargs)

    return OnHost()


def activate(torch, cuda):
    """Makes "cuda" the CPU until the process ends, and torch.cuda's functions answer for the simulated GPU."""
    make_mode(torch).__enter__()
    for name in ("is_available", "device_count", "current_device", "set_device", "synchronize", "get_device_capability",
                 "empty_cache"):
        setattr(torch.cuda, name, getattr(cuda, name))
