# SPDX-License-Identifier: Apache-2.0
"""Opens packs, the files of compiled kernels."""
import os

from attn import _native
from attn._native import check, ffi, text


class Pack:
    """An open pack: a file of compiled kernels that `attnc build` wrote."""

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
        """Returns a dict for each kernel: name, op, target, registers, and `key`, the kernel's dispatch key."""
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
