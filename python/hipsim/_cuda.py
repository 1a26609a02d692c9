# SPDX-License-Identifier: Apache-2.0
"""torch.cuda's answers for the simulated GPU. It is one device that has finished each launch when the launch returns, so that
its streams and events never wait."""
import ctypes
import types


class Stream:
    """The null stream. Every stream is the null stream."""

    cuda_stream = 0
    device_index = 0

    def __init__(self, device=None, priority=0, **_):
        self.priority = priority

    @property
    def device(self):
        import torch
        return torch.device("cuda", self.device_index)

    def __eq__(self, other):
        return isinstance(other, Stream)

    def __hash__(self):
        return hash(Stream)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def record_event(self, event=None):
        event = event or Event()
        event.record(self)
        return event

    def query(self):
        return True

    def synchronize(self):
        Event.simulator.synchronize()

    def wait_event(self, event):
        pass

    def wait_stream(self, stream):
        pass


class Event:
    """An event, with the modelled end of the work that was submitted before it."""

    simulator = None

    def __init__(self, enable_timing=False, blocking=False, interprocess=False, **_):
        self.us = None

    def record(self, stream=None):
        self.us = self.simulator.device_us()

    def elapsed_time(self, end):
        if self.us is None or end.us is None:
            raise ValueError("both events must be recorded before their elapsed time is computed")
        return (end.us - self.us) / 1e3

    def query(self):
        return True

    def synchronize(self):
        self.simulator.synchronize()

    def wait(self, stream=None):
        pass


class DeviceContext:
    """A context in which the only device is the current one."""

    def __init__(self, device=None):
        self.idx = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


class Cuda:
    """Functions and classes in place of those with these names in torch.cuda."""

    Event = Event
    Stream = ExternalStream = Stream
    device = device_of = DeviceContext

    def __init__(self, simulator, utils):
        self.simulator = Event.simulator = simulator
        self.utils = utils  # Triton's HIPUtils

    def is_available(self):
        return True

    def init(self):
        pass

    def device_count(self):
        return 1

    def current_device(self):
        return 0

    def set_device(self, device):
        pass

    def synchronize(self, device=None):
        self.simulator.synchronize()

    def get_device_capability(self, device=None):
        return self.simulator.capability()

    def get_device_name(self, device=None):
        name = ctypes.create_string_buffer(256)
        self.simulator.call("hipDeviceGetName", name, len(name), 0)
        return name.value.decode()

    def get_device_properties(self, device=None):
        major, minor = self.simulator.capability()
        found = self.utils.get_device_properties(0)
        return types.SimpleNamespace(
            name=self.get_device_name(), major=major, minor=minor, total_memory=self.mem_get_info()[1],
            multi_processor_count=found["multiprocessor_count"], warp_size=found["warpSize"], gcnArchName=found["arch"],
            shared_memory_per_block=found["max_shared_mem"], regs_per_multiprocessor=found["max_num_regs"])

    def mem_get_info(self, device=None):
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.simulator.call("hipMemGetInfo", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    def current_stream(self, device=None):
        return Stream()

    def default_stream(self, device=None):
        return Stream()

    def stream(self, stream):
        return DeviceContext()

    def set_stream(self, stream):
        pass

    def is_bf16_supported(self, including_emulation=True):
        return True

    def manual_seed(self, seed):
        import torch
        torch.default_generator.manual_seed(seed)

    manual_seed_all = manual_seed

    def get_rng_state(self, device=None):
        import torch
        return torch.get_rng_state()

    def set_rng_state(self, state, device=None):
        import torch
        torch.set_rng_state(state)

    def empty_cache(self):
        pass


NAMES = [name for name in vars(Cuda) if not name.startswith("_")]
