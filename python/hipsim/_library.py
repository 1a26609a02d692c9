# SPDX-License-Identifier: Apache-2.0
"""The simulator's libamdhip64, loaded once: its options, findings, memory and events."""
import ctypes
import functools
import os
import pathlib
import sys

WHY_BYTES = 512
PLACES = ["lib/attnc/hipsim", "lib/x86_64-linux-gnu/attnc/hipsim", "lib64/attnc/hipsim"]
NAMES = ["libamdhip64.so", "libamdhip64.so.5"]


class TimeOptions(ctypes.Structure):
    """struct hipsim_time_options of hipsim_time.h."""
    _fields_ = [("size", ctypes.c_size_t), ("samples", ctypes.c_uint32), ("samples_only", ctypes.c_bool),
                ("parameters", ctypes.c_char_p), ("trace_path", ctypes.c_char_p), ("annotate_path", ctypes.c_char_p)]


class HipsimError(RuntimeError):
    """A call of the simulator failed; the text says which, and why."""


def library_path():
    """Returns the path of the simulator's libamdhip64: the environment variable HIPSIM_LIBRARY, else the file in this
    wheel, else in attnc's wheel, else in an attnc installed without a wheel. Raises HipsimError if no file exists."""
    if os.environ.get("HIPSIM_LIBRARY"):
        return os.environ["HIPSIM_LIBRARY"]
    package = pathlib.Path(__file__).resolve().parent
    folders = [package / PLACES[0], package.parent / "attnc" / PLACES[0]]
    folders += package.parent.glob(".*.mesonpy.libs/attnc/hipsim")
    folders += [pathlib.Path(prefix) / place for prefix in (sys.prefix, "/usr/local", "/usr") for place in PLACES]
    for folder in folders:
        for name in NAMES:
            if (folder / name).is_file():
                return str(folder / name)
    raise HipsimError("hipsim's libamdhip64 is not installed: set HIPSIM_LIBRARY to its path")


def option_text(options):
    """Returns the value of the environment variable HIPSIM for options by name; True and False become on and
    off."""
    words = {True: "on", False: "off"}
    for key, value in options.items():
        if "," in str(value):
            raise HipsimError(f"{key}: the value {value!r} has a comma")
    return ",".join(f"{key}={words[value] if isinstance(value, bool) else value}" for key, value in options.items())


class Library:
    """Calls of HIP and of hipsim's own interface in a loaded libamdhip64."""

    def __init__(self, path):
        self.path = path
        try:
            self.hip = ctypes.CDLL(path)
            self.hip.hipsim_configure.restype = ctypes.c_bool
            self.hip.hipsim_time_enable.restype = ctypes.c_bool
            self.hip.hipsim_findings.restype = ctypes.c_uint64
        except (OSError, AttributeError) as e:
            raise HipsimError(f"{path} is not hipsim's libamdhip64: {e}") from None
        self.hip.hipsim_device_time.restype = ctypes.c_double
        self.hip.hipGetErrorString.restype = ctypes.c_char_p

    def configure(self, **options):
        """Sets options of HIPSIM. Raises HipsimError, and changes nothing, if one is not understood."""
        why = ctypes.create_string_buffer(WHY_BYTES)
        if not self.hip.hipsim_configure(option_text(options).encode(), why, ctypes.c_size_t(WHY_BYTES)):
            raise HipsimError(why.value.decode())

    def call(self, name, *arguments):
        """Calls a function of HIP; a status other than 0 is a HipsimError."""
        status = getattr(self.hip, name)(*arguments)
        if status:
            raise HipsimError(f"{name}: {self.hip.hipGetErrorString(status).decode()}")

    def register(self, address, size):
        """Makes host memory accessible to kernels, for exactly `size` bytes from `address`."""
        self.call("hipHostRegister", ctypes.c_void_p(address), ctypes.c_size_t(size), 0)

    def unregister(self, address):
        """Ends the access of kernels to registered host memory."""
        self.call("hipHostUnregister", ctypes.c_void_p(address))

    def known(self, address):
        """True if the address is in memory that HIP has allocated or registered."""
        base, size = ctypes.c_void_p(), ctypes.c_size_t()
        unknown = self.hip.hipMemGetAddressRange(ctypes.byref(base), ctypes.byref(size), ctypes.c_void_p(address))
        if unknown:
            self.hip.hipGetLastError()
        return not unknown

    def capability(self):
        """The target's major and minor number: (9, 4) of gfx942, (12, 0) of gfx1201."""
        major, minor = ctypes.c_int(), ctypes.c_int()
        self.call("hipDeviceComputeCapability", ctypes.byref(major), ctypes.byref(minor), 0)
        return major.value, minor.value

    def synchronize(self):
        """Waits for all work of the device. Raises HipsimError if a launch ended with a finding."""
        self.call("hipDeviceSynchronize")

    def modelled_us(self, call):
        """Calls a function, and returns the modelled time that its launches take, in microseconds."""
        options = TimeOptions(size=ctypes.sizeof(TimeOptions))
        if not self.hip.hipsim_time_enable(ctypes.byref(options), None, ctypes.c_size_t(0)):
            raise HipsimError("the simulator cannot time launches")
        try:
            start = self.device_us()
            call()
            self.synchronize()
            return self.device_us() - start
        finally:
            self.hip.hipsim_time_enable(None, None, ctypes.c_size_t(0))

    def device_us(self):
        """Modelled end of the device's last submitted work, in microseconds from the start of the program."""
        return self.hip.hipsim_device_time(0)

    def findings(self):
        """The number of findings in launches that went on, counting repetitions."""
        return self.hip.hipsim_findings()


@functools.lru_cache(None)
def library():
    """Returns the process's Library, which is loaded once."""
    return Library(library_path())
