# SPDX-License-Identifier: Apache-2.0
"""Packs and devices."""
import json
import os
import pathlib
import subprocess
import tempfile

from attn import _native, _ops
from attn._hip import DeviceArray, DeviceStream, Graph, Hip, HostMemory
from attn._native import AttnError, check, ffi, text
from attn._tensors import dtype_name


class Pack:
    """A file of kernels, as `attnc build` writes it."""

    def __init__(self, path):
        out = ffi.new("struct attn_pack **")
        self._handle = ffi.NULL
        check(_native.lib.attn_pack_open(os.fsencode(path), out))
        self._handle, self.path = out[0], str(path)

    def __del__(self):
        if getattr(self, "_handle", None) and _native is not None and _native.lib is not None:
            _native.lib.attn_pack_close(self._handle)

    def __len__(self):
        return _native.lib.attn_pack_kernel_count(self._handle)

    def check(self):
        """Reads the whole pack and checks every checksum and every record."""
        check(_native.lib.attn_pack_check(self._handle))

    def kernels(self):
        """A dict per kernel: name, op, target, registers, and `key`, its dispatch key."""
        out = []
        for n in range(len(self)):
            info = ffi.new("struct attn_kernel_info *")
            info.size = ffi.sizeof(info[0])
            check(_native.lib.attn_pack_kernel(self._handle, n, info))
            key = {}
            for i in range(info.field_count):
                field, value = ffi.new("const char **"), ffi.new("const char **")
                check(_native.lib.attn_pack_kernel_field(self._handle, n, i, field, value))
                key[text(field[0])] = text(value[0])
            out.append({"name": text(info.name), "op": text(info.op), "target": text(info.target),
                        "vgprs": info.vgprs, "agprs": info.agprs, "sgprs": info.sgprs,
                        "lds": info.lds_static + info.lds_dynamic, "spills": info.spills,
                        "occupancy": info.occupancy, "key": key})
        return out


def spelled(x):
    """A description in which dtypes of torch and numpy have attnc's names."""
    def value(name, v):
        if name != "dtype" and not name.endswith("_dtype"):
            return spelled(v)
        return [dtype_name(one) for one in v] if isinstance(v, (list, tuple)) else dtype_name(v)

    if isinstance(x, dict):
        return {name: value(str(name), v) for name, v in x.items()}
    return [spelled(v) for v in x] if isinstance(x, (list, tuple)) else x


def build(description, output=None, quiet=True):
    """Compiles a description, a dict or the path of a YAML file, and opens the pack. Without
    `output` the pack's file is gone when the process ends; the compiler's cache keeps the
    kernels. In a dict dtypes may be torch's and numpy's, or have their names."""
    with tempfile.TemporaryDirectory(prefix="attn-") as folder:
        if isinstance(description, dict):
            source = pathlib.Path(folder) / "description.yaml"
            source.write_text(json.dumps(spelled(description)))
        else:
            source = os.fspath(description)
        path = output or os.path.join(folder, "kernels.attnpack")
        command = [_native.compiler_path(), "build", source, "-o", path]
        try:
            run = subprocess.run(command + (["-q"] if quiet else []), capture_output=True, text=True)
        except (FileNotFoundError, PermissionError):
            raise AttnError("ATTN_BAD_ARGUMENT", f"attn.build needs the compiler, and {command[0]} is no command here: "
                            "install attnc (Debian's package attnc, or the wheel with the compiler), or set ATTN_ATTNC to "
                            "its path; packs that were built elsewhere open without it") from None
        if run.returncode:
            raise AttnError("ATTN_BAD_ARGUMENT", run.stderr.strip() or run.stdout.strip())
        return Pack(path)


class Device:
    """A GPU with one or more packs; of a kernel that several have, the last one's is taken.

    hip: None takes the HIP that the process has loaded, else the system's; "sim" takes the
    simulated GPU that the wheel brings, of the packs' target; else it is the path of a
    libamdhip64. The environment's ATTN_HIP stands for it where nothing is said.
    check_data: launches also read lengths and indices back and check them, which waits."""

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
        self.ordinal, self.compute_units = info.ordinal, info.compute_units
        self.hip_library, self.hip_version = text(info.hip_library), info.hip_version
        self.hip = Hip(self.hip_library, self.ordinal)
        self.host = HostMemory.of(self.hip)

    @staticmethod
    def _aim(packs):
        """The simulated GPU is of the packs' target, where HIPSIM does not say which."""
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
        """Waits for all that was launched on the device."""
        self.hip.current()
        self.hip.call("hipDeviceSynchronize")

    def stream(self):
        """A new stream."""
        return DeviceStream(self)

    def graph(self, stream=None):
        """A graph to capture calls into: see attn.Graph."""
        return Graph(self, stream)

    def array(self, source, dtype=None):
        """A copy of a numpy array in the GPU's memory."""
        import numpy as np
        source = np.asarray(source, dtype)
        return DeviceArray(self, source.shape, source.dtype, source)

    def empty(self, shape, dtype):
        """Memory of the GPU."""
        return DeviceArray(self, shape, dtype)


def _method(cls):
    def method(self, **desc):
        return cls(self, **desc)
    method.__name__, method.__doc__ = cls.NAME, f"attn.{cls.__name__}(device, ...)."
    return method


for _cls in _ops.OPS:
    setattr(Device, _cls.NAME, _method(_cls))
