# SPDX-License-Identifier: Apache-2.0
"""Finds libattn, loads it through cffi, and raises its statuses as exceptions."""
import ctypes.util
import importlib.util
import os
import pathlib
import threading

import cffi

DECLARATIONS = """
typedef struct { int32_t device_type; int32_t device_id; } DLDevice;
typedef struct { uint8_t code; uint8_t bits; uint16_t lanes; } DLDataType;
typedef struct {
    uintptr_t data; DLDevice device; int32_t ndim; DLDataType dtype;
    int64_t *shape; int64_t *strides; uint64_t byte_offset;
} DLTensor;
struct attn_pack; struct attn_device; struct attn_op;
const char *attn_status_name(int);
const char *attn_last_error(void);
int attn_version(void);
_Bool attn_has_feature(const char *);
int attn_pack_open(const char *, struct attn_pack **);
void attn_pack_close(struct attn_pack *);
int attn_pack_check(const struct attn_pack *);
uint32_t attn_pack_kernel_count(const struct attn_pack *);
struct attn_kernel_info {
    size_t size; const char *name; const char *symbol; const char *op; const char *target;
    const char *tuning; const char *provenance; uint32_t field_count; uint32_t workgroup[3];
    uint32_t lds_static; uint32_t lds_dynamic; uint32_t vgprs, agprs, sgprs; uint32_t spills;
    uint32_t scratch; uint32_t occupancy; int32_t mfma_duty; uint32_t code_bytes;
    size_t object_bytes;
};
int attn_pack_kernel(const struct attn_pack *, uint32_t, struct attn_kernel_info *);
int attn_pack_kernel_field(const struct attn_pack *, uint32_t, uint32_t, const char **,
                           const char **);
struct attn_device_options {
    size_t size; int ordinal; uint32_t flags; const char *hip_library; uintptr_t log;
    uintptr_t log_user;
};
int attn_device_open(struct attn_pack *const *, size_t, const struct attn_device_options *,
                     struct attn_device **);
void attn_device_close(struct attn_device *);
struct attn_device_info {
    size_t size; const char *name; const char *target; const char *hip_library; int hip_version;
    int ordinal; int32_t compute_units;
};
int attn_device_describe(const struct attn_device *, struct attn_device_info *);
struct attn_op_info {
    size_t size; struct attn_kernel_info kernel; uint32_t kernel_count; uint32_t pack;
    char why[200];
};
int attn_op_describe(const struct attn_op *, struct attn_op_info *);
void attn_op_destroy(struct attn_op *);
"""

PLANS = """
int attn_decode_plan_sizes(const struct attn_decode_plan_shape *, struct attn_decode_plan_sizes *);
int attn_decode_choose_split(const struct attn_op *, const struct attn_decode_step *,
                             struct attn_decode_split *);
int attn_decode_plan_place(const struct attn_decode_plan_shape *, void *, size_t *,
                           struct attn_decode_plan *);
int attn_decode_plan(const struct attn_decode_plan_shape *, const struct attn_decode_plan_lengths *,
                     const struct attn_decode_plan *);
"""

# {op: declarations of functions that have a parameter of the op's own types}
OF_OP = {
    "indexer_topk": """
int attn_indexer_topk_workspace_size(const struct attn_indexer_topk_desc *, const struct attn_indexer_topk_shape *,
                                     struct attn_indexer_topk_workspace *);
""", "mla_decode": """
int attn_mla_decode_gather_plan(const struct attn_mla_decode_desc *, const struct attn_mla_decode_gather_shape *,
                                struct attn_mla_decode_gather *);
""", "ssd_prefill": """
int attn_ssd_prefill_plan(const struct attn_ssd_prefill_desc *, const struct attn_ssd_prefill_shape *,
                          struct attn_ssd_prefill_segments *);
""", "gated_delta_prefill": """
int attn_gated_delta_prefill_plan(const struct attn_gated_delta_prefill_desc *,
                                  const struct attn_gated_delta_prefill_shape *,
                                  struct attn_gated_delta_prefill_launches *);
"""}


class AttnError(RuntimeError):
    """Raised if a call of libattn failed. `status` is the name of the status, such as ATTN_NO_KERNEL."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


def bundled(*names):
    """Returns the path of the first file in the wheel that matches one of the glob patterns `names`; None if none
    does."""
    for name in names:
        for path in sorted((pathlib.Path(__file__).parent / "lib").glob(name)):
            return str(path)
    return None


def in_package(package, name):
    """Returns the path of the file `name` in the folder of the installed package `package`, without importing the
    package. None if there is no such package or file."""
    spec = importlib.util.find_spec(package)
    places = spec.submodule_search_locations if spec else None
    return next((path for place in places or () for path in [os.path.join(place, name)] if os.path.exists(path)), None)


def beside_library(name):
    """Returns the path of a file below the directory of the loaded libattn, or None if there is none."""
    with open("/proc/self/maps") as maps:
        loaded = [line.split()[-1] for line in maps if "/libattn.so" in line]
    path = pathlib.Path(loaded[0]).parent / name if loaded else None
    return str(path) if path and path.exists() else None


def library_path():
    """Returns the path of libattn: ATTN_LIBRARY, else the wheel's, else the system's."""
    return (os.environ.get("ATTN_LIBRARY") or bundled("libattn.so*") or
            ctypes.util.find_library("attn") or "libattn.so.0")


def compiler_path():
    """Returns the path of the attnc command: the environment variable ATTN_ATTNC, else the file in this wheel, else in
    attnc's wheel, else the name for a search in PATH."""
    return os.environ.get("ATTN_ATTNC") or bundled("bin/attnc") or in_package("attnc", "bin/attnc") or "attnc"


def simulator_path():
    """Returns the path of hipsim's libamdhip64: the environment variable ATTN_HIPSIM, else the file in this wheel, else
    below libattn's directory, else in attnc's wheel, else in hipsim's. Raises AttnError if no file exists."""
    path = (os.environ.get("ATTN_HIPSIM") or bundled("attnc/hipsim/libamdhip64.so*") or
            beside_library("attnc/hipsim/libamdhip64.so.5") or
            in_package("attnc", "lib/attnc/hipsim/libamdhip64.so.5") or
            in_package("hipsim", "lib/attnc/hipsim/libamdhip64.so.5"))
    if not path:
        raise AttnError("ATTN_NO_HIP", "this installation has no simulated GPU: set ATTN_HIPSIM to "
                        "hipsim's libamdhip64.so.5, or install the wheel of attnc or of hipsim")
    return path


ffi = cffi.FFI()
lib = None
_undeclared, _lock = {}, threading.Lock()  # C declarations of ops that are not declared yet, by the op's name


def declare(op):
    """Adds the C declarations of the op with the name `op`, at its first use. An import that parsed the declarations of all ops
    would take three times as long."""
    with _lock:
        if op in _undeclared:
            ffi.cdef(_undeclared.pop(op) + OF_OP.get(op, ""))


def load(declarations):
    """Adds the C declarations that ops share, keeps the others of attn._ops.DECLARATIONS for declare(), and loads libattn."""
    global lib
    _undeclared.update(declarations)
    ffi.cdef(DECLARATIONS + _undeclared.pop("") + PLANS)
    path = library_path()
    try:
        lib = ffi.dlopen(path)
    except OSError as e:
        raise ImportError(f"attn needs libattn, and {path} cannot be loaded ({e}): set ATTN_LIBRARY")
    if lib.attn_version() // 1000 != 0 or not lib.attn_has_feature(b"dlpack"):
        raise ImportError(f"{path} is version {lib.attn_version()}, or was built without DLPack")


def text(pointer):
    return ffi.string(pointer).decode() if pointer else None


def failure(status):
    return AttnError(text(lib.attn_status_name(status)), text(lib.attn_last_error()))


def check(status):
    if status:
        raise failure(status)
