# SPDX-License-Identifier: Apache-2.0
"""Devices, and the ops that they launch."""
import os

from attn import _native, _ops
from attn._hip import DeviceArray, DeviceStream, Graph, Hip, HostMemory
from attn._native import AttnError, check, ffi, text
from attn._pack import Pack


class Device:
    """A GPU with one or more packs. If several packs have a kernel, the last pack's is used. `ordinal` is HIP's number
    of the GPU. hip: "sim" uses the wheel's simulated GPU, which becomes the packs' target. Any other string is the path
    of a libamdhip64. None uses the environment's ATTN_HIP, then the HIP that the process has loaded, then the system's.
    check_data=True: each launch first waits for the stream, copies lengths and indices to the host, and checks them."""

    enums = _ops.ENUMS

    def __init__(self, *packs, ordinal=0, hip=None, check_data=False):
        packs = [p if isinstance(p, Pack) else Pack(p) for p in packs]
        hip = hip or os.environ.get("ATTN_HIP") or None
        simulated = hip == "sim"
        if simulated:
            hip = _native.simulator_path()
            self._aim(packs)
        options = ffi.new("struct attn_device_options *")
        options.size, options.ordinal = ffi.sizeof(options[0]), ordinal
        options.flags = 1 if check_data else 0
        name = ffi.new("char[]", os.fsencode(hip)) if hip else ffi.NULL
        options.hip_library = name
        handles = ffi.new("struct attn_pack *[]", [p._handle for p in packs])
        out = ffi.new("struct attn_device **")
        self._handle = ffi.NULL
        try:
            check(_native.lib.attn_device_open(handles, len(packs), options, out))
        except AttnError as e:
            if simulated or e.status not in ("ATTN_NO_HIP", "ATTN_NO_DEVICE"):
                raise
            raise AttnError(e.status, f'{e}; hip="sim" takes the simulated GPU') from None
        self._handle, self.packs = out[0], packs
        info = ffi.new("struct attn_device_info *")
        info.size = ffi.sizeof(info[0])
        check(_native.lib.attn_device_describe(self._handle, info))
        self.name, self.target = text(info.name), text(info.target)
        others = simulated and self.target not in {k["target"] for p in packs for k in p.kernels()}
        self._hint = f"; a process has one simulated target: {self.target}, from its first attn.Device or HIPSIM" * others
        self.ordinal, self.compute_units = info.ordinal, info.compute_units
        self.hip_library, self.hip_version = text(info.hip_library), info.hip_version
        self.hip = Hip(self.hip_library, self.ordinal)
        self.host = HostMemory.of(self.hip)

    @staticmethod
    def _aim(packs):
        """Adds the packs' target to the environment's HIPSIM, unless HIPSIM names a target already."""
        targets = {k["target"] for p in packs for k in p.kernels()}
        said = os.environ.get("HIPSIM", "")
        if len(targets) >= 1 and "target=" not in said:
            target = "target=" + sorted(targets)[0]
            os.environ["HIPSIM"] = f"{said},{target}" if said else target

    def __del__(self):
        if getattr(self, "_handle", None) and _native is not None and _native.lib is not None:
            _native.lib.attn_device_close(self._handle)

    def __repr__(self):
        return f"<attn.Device {self.ordinal}: {self.name}, {self.target}>"

    def synchronize(self):
        """Waits until the device has finished all launches of all streams."""
        self.hip.current()
        self.hip.call("hipDeviceSynchronize")

    def stream(self):
        """Returns a new DeviceStream of this device."""
        return DeviceStream(self)

    def graph(self, stream=None):
        """Returns an attn.Graph that captures calls on `stream`. None: a new stream."""
        return Graph(self, stream)

    def array(self, source, dtype=None):
        """Returns a DeviceArray with a copy of a numpy array, converted to `dtype` if one is given."""
        import numpy as np
        source = np.asarray(source, dtype)
        return DeviceArray(self, source.shape, source.dtype, source)

    def empty(self, shape, dtype):
        """Returns a DeviceArray in new memory of the GPU, whose contents are undefined."""
        return DeviceArray(self, shape, dtype)


def _method(cls):
    def method(self, **desc):
        return cls(self, **desc)
    method.__name__, method.__doc__ = cls.NAME, f"attn.{cls.__name__}(device, ...)."
    return method


for _cls in _ops.OPS:
    setattr(Device, _cls.NAME, _method(_cls))
