# SPDX-License-Identifier: Apache-2.0
"""Number formats of attention and products that numpy lacks: bf16 and 8-bit ones."""
import numpy as np


def bf16(x):
    """Rounds float32 to bf16 bits, nearest even."""
    u = np.asarray(x, np.float32).view(np.uint32)
    return ((u + 0x7fff + (u >> 16 & 1)) >> 16).astype(np.uint16)


def from_bf16(bits):
    with np.errstate(invalid="ignore"):
        return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def small_float(exponent_bits, mantissa_bits, bias):
    """Returns the values of all codes of a format with these exponent and mantissa bits. NaNs are not marked; the
    caller replaces them."""
    codes = np.arange(1 << (1 + exponent_bits + mantissa_bits))
    mantissa = codes & (1 << mantissa_bits) - 1
    exponent = codes >> mantissa_bits & (1 << exponent_bits) - 1
    sign = np.where(codes >> exponent_bits + mantissa_bits & 1, -1.0, 1.0)
    normal = (1 + mantissa / 2.0**mantissa_bits) * 2.0**(exponent - bias)
    return sign * np.where(exponent == 0, mantissa * 2.0**(1 - bias - mantissa_bits), normal)


def fp8_values(target):
    values = small_float(4, 3, 8 if target == "gfx942" else 7)
    values[[0x80] if target == "gfx942" else [0x7f, 0xff]] = np.nan
    return values


FP4 = small_float(2, 1, 1)
FP6 = small_float(2, 3, 1)


def nearest(x, values):
    """Returns the codes of the nearest of `values`, never NaN."""
    known = np.flatnonzero(~np.isnan(values))
    order = known[np.argsort(values[known], kind="stable")]
    table = values[order]
    at = np.clip(np.searchsorted(table, x), 1, len(table) - 1)
    lower = np.abs(x - table[at - 1]) <= np.abs(table[at] - x)
    return order[at - lower].astype(np.uint8)


class Kind:
    """An element type: conversions between values and bits."""

    def __init__(self, name, target):
        self.name, self.target = name, target
        self.bytes = {"bf16": 2, "fp16": 2, "fp8": 1, "i8": 1, "fp32": 4}[name]

    def make(self, x):
        """Rounds x to the type. Returns the bits, and the values of these bits."""
        if self.name == "bf16":
            bits = bf16(x)
            return bits, from_bf16(bits)
        if self.name == "fp16":
            bits = np.asarray(x, np.float16)
            return bits, bits.astype(np.float64)
        if self.name == "fp8":
            values = fp8_values(self.target)
            bits = nearest(x, values)
            return bits, values[bits]
        bits = np.clip(np.rint(x), -127, 127).astype(np.int8)
        return bits, bits.astype(np.float64)

    def read(self, device, p, shape):
        if self.name == "bf16":
            return from_bf16(device.get(p, shape, np.uint16))
        kind = np.float16 if self.name == "fp16" else np.float32
        return device.get(p, shape, kind).astype(np.float64)


def softmax(scores):
    """Returns the weights of each row and the logarithm of their sum. A row without visible keys has weights
    0."""
    top = np.max(scores, axis=-1, keepdims=True)
    top = np.where(np.isinf(top), 0, top)
    p = np.exp(scores - top)
    total = p.sum(axis=-1, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = (top + np.log(total))[..., 0]
    return p / np.where(total == 0, 1, total), lse
