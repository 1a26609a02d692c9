# SPDX-License-Identifier: Apache-2.0
"""Formulas in doubles that the layers share, and the made-up inputs.

A layer's inputs, which a model's projections would compute, are random numbers with the token's number as seed."""
import numpy as np

ROTARY, POSITIONS = 64, 1024  # elements that rotate; positions of the table
EPS = 1e-6


def numbers(shape, *seed):
    return np.random.default_rng(seed).standard_normal(shape)


def bf16(x):
    """Returns the bits of x in bf16, rounded to nearest even, as uint16."""
    bits = np.float32(x).view(np.uint32)
    return ((bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def from_bf16(x):
    return (x.astype(np.uint32) << 16).view(np.float32)


def length(x):
    """Returns the Euclidean length of each row."""
    return np.sqrt((x * x).sum(-1))


def angles():
    pair = np.arange(ROTARY // 2)
    angle = np.arange(POSITIONS)[:, None] * 10000.0 ** (-2 * pair / ROTARY)
    return np.float32(np.concatenate([np.cos(angle), np.sin(angle)], -1))


COS_SIN = angles()


def rotate(x, position, first=0, back=False, rope="gptj"):
    """Rotates the 64 elements of rows from element `first` on: pairs of neighbours ("gptj"), or elements 32 apart ("neox")."""
    cos, sin = np.float64(COS_SIN[position][:ROTARY // 2]), np.float64(COS_SIN[position][ROTARY // 2:])
    sin = -sin if back else sin
    left, right = slice(first, first + ROTARY, 2), slice(first + 1, first + ROTARY, 2)
    if rope == "neox":
        left, right = slice(first, first + ROTARY // 2), slice(first + ROTARY // 2, first + ROTARY)
    y = x.copy()
    y[..., left] = x[..., left] * cos - x[..., right] * sin
    y[..., right] = x[..., right] * cos + x[..., left] * sin
    return y


def as_fp4(x):
    """Returns rows as they are stored: each 16 elements in e2m1 under a scale of fp8, the nearest to a sixth of the largest."""
    runs = x.reshape(-1, 16)
    share = np.maximum(abs(runs).max(-1, keepdims=True) / 6, 2.0 ** -6)
    step = 2.0 ** (np.floor(np.log2(share)) - 3)
    scale = np.round(share / step) * step
    codes = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    nearest = codes[abs(abs(runs / scale)[..., None] - codes).argmin(-1)]
    return (np.copysign(nearest, runs) * scale).reshape(x.shape)


def as_fp8(x, largest):
    """Returns rows as they are stored: each 32 elements in fp8, whose largest number is `largest`, under a power of two."""
    runs = x.reshape(-1, 32)
    scale = 2.0 ** np.ceil(np.log2(np.maximum(abs(runs).max(-1, keepdims=True) / largest, 2.0 ** -39)))
    least = -6 if largest == 448 else -7  # exponent of the smallest normal number
    step = 2.0 ** (np.maximum(np.floor(np.log2(np.maximum(abs(runs / scale), 2.0 ** -20))), least) - 3)
    return (np.round(runs / scale / step) * step * scale).reshape(x.shape)


def norm(x, weight=1.0):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS) * weight


def attend(q, keys, values, scale, sinks=-np.inf):
    """Returns softmax attention of q [head, element] over keys, and the sums of p |v|, which bound its error."""
    scores, sinks = q @ keys.T * scale, np.float64(sinks)[..., None]
    most = np.maximum(scores.max(-1, keepdims=True), sinks)
    p = np.exp(scores - most)
    p /= p.sum(-1, keepdims=True) + np.exp(sinks - most)
    return p @ values, p @ length(values)


def inversion(scores, chosen, candidates, most, off):
    """Returns the largest amount by which a candidate that was not chosen scores above a chosen one, over `off`, the bound of
    a score's error. Returns infinity unless the chosen ones are candidates, ascending, and as many as `most` allows."""
    chosen = np.asarray(chosen, int)
    if list(chosen) != sorted(set(chosen)) or len(chosen) != min(len(candidates), most) or not np.isin(chosen, candidates).all():
        return np.inf
    left = np.setdiff1d(candidates, chosen)
    return (scores[left].max() - scores[chosen].min()) / off if len(left) and len(chosen) else 0.0


def score_error(weights, q, keys, rounding=2.0 ** -4):
    """Returns a bound of the error of scores. Each element of q and keys is off by `rounding` of itself, by default as in fp8.
    Errors of 128 products add up like random numbers, and so do errors of heads."""
    return length(weights) * length(q).max() * length(keys).max() * keys.shape[-1] ** -0.5 * rounding * 6
