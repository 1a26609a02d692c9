# SPDX-License-Identifier: Apache-2.0
"""Parts that several tests use: devices with small packs, random tensors, fp8 numbers, and attention in double
precision."""
import os
import warnings

import numpy as np

import attn

HALF = 2.0 ** -11  # relative error of one rounding to float16
TARGET = os.environ.get("ATTN_TEST_TARGET", "gfx942")  # the simulated GPU of this process


def find_torch():
    """Returns the module torch. Returns None where it is not installed, and if ATTN_TEST_TARGET is set: such a run tests
    numpy alone, and the import takes 1.8 CPU s."""
    if "ATTN_TEST_TARGET" in os.environ:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import torch
    except ImportError:
        return None
    return torch


def fp8_values(target):
    """Returns the values of the 256 bytes of fp8 e4m3. gfx942's format has no negative zero and one NaN, 0x80."""
    byte = np.arange(256)
    fnuz = target == "gfx942"
    e, m, bias = byte >> 3 & 15, byte & 7, 8 if fnuz else 7
    value = np.where(e == 0, m * 2.0 ** (-2 - bias), (1 + m / 8) * 2.0 ** (e - float(bias)))
    value = np.where(byte >> 7, -value, value)
    value[[0x80] if fnuz else [0x7f, 0xff]] = np.nan
    return value


FP8 = fp8_values(TARGET)
FP8_MAX = np.nanmax(FP8)
FP8_TINY = FP8[1] / 2  # half a step of the smallest numbers of fp8: the largest rounding error of a number near 0


def device(*kernels, target=TARGET, dtype="fp16", **more):
    """Builds a pack of the kernels, entries of a description, and returns a simulated GPU that has opened it."""
    pack = attn.build({"targets": [target], "defaults": {"dtype": dtype}, "kernels": list(kernels)})
    return attn.Device(pack, hip="sim", **more)


def random(shape, seed=0, dtype=np.float16):
    """Returns an array of normally distributed random numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def fp8_bytes(shape, seed):
    """Returns random bytes of fp8 with absolute values up to 15, without NaNs."""
    rng = np.random.default_rng(seed)
    out = rng.integers(0, 0x60, shape) + 128 * rng.integers(0, 2, shape)
    return np.where(out == 128, 0, out).astype(np.uint8)


def attention(q, k, v, *, scale=None, causal=True, window=(-1, -1), sinks=None, cap=0.0, slopes=None,
              mask=None):
    """Computes attention of one sequence in double precision. Returns (out, lse [heads, n]) for q [n, heads, D], k and
    v [m, kv heads, D]. A causal mask and a window align the last query with the last key. A query that sees no key has
    an output of 0 and an lse of -inf. mask [n, m] further limits the visible keys."""
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    n, heads, dim = q.shape
    m, group = k.shape[0], heads // k.shape[1]
    scale = dim ** -0.5 if scale is None else scale
    out, lse = np.zeros((n, heads, v.shape[2])), np.full((heads, n), -np.inf)
    at, key = np.arange(n)[:, None] + m - n, np.arange(m)[None, :]
    seen = np.ones((n, m), bool)
    if causal:
        seen &= key <= at
    if window[0] >= 0:
        seen &= key >= at - window[0]
    if window[1] >= 0:
        seen &= key <= at + window[1]
    if mask is not None:
        seen &= mask != 0
    for h in range(heads):
        s = q[:, h] @ k[:, h // group].T * scale
        if cap:
            s = cap * np.tanh(s / cap)
        if slopes is not None:
            s = s - slopes[h] * np.abs(key - at)
        s = np.where(seen, s, -np.inf)
        top = np.max(np.concatenate([s, np.full((n, 1), -1e300)], 1), 1, keepdims=True)
        p = np.where(seen, np.exp(s - top), 0)
        total = p.sum(1, keepdims=True)
        if sinks is not None:
            total = total + np.exp(np.float64(sinks[h]) - top)
        some = total[:, 0] > 0
        out[some, h] = (p @ v[:, h // group] / np.where(total > 0, total, 1))[some]
        lse[h, some] = (np.log(total[some]) + top[some])[:, 0]
    return out, lse


def bound(v, dtype_error=HALF):
    """Returns the largest error of an attention output, a weighted mean of v. q, k and v have no error. A weight is
    rounded in the product, but not in the denominator. The output is rounded, and the exponential may be off by one
    rounding more. The error of a mean is at most the largest error of its terms."""
    return 4 * dtype_error * float(np.max(np.abs(np.asarray(v, np.float64)), initial=0))


def close(got, expected, limit, what=""):
    """Raises an error if an element of `got` differs from `expected` by more than `limit`. `what` names the tensor."""
    error = np.max(np.abs(np.asarray(got, np.float64) - expected)) if expected.size else 0.0
    if not error <= limit:
        raise AssertionError(f"{what}: error {error:.3e}, bound {limit:.3e}")
