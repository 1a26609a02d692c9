# SPDX-License-Identifier: Apache-2.0
"""Decode steps of SGLang in one launch a layer.

On ROCm, SGLang's models call fused_qk_rope_reshape_and_cache() of sglang.srt.layers.rotary_embedding.base before
attention: it rotates queries and keys and writes the cache. In decode steps of up to 64 sequences, the replacement here
only keeps the arguments. The launch of attention then rotates and writes too. A pack of ATTN_PACKS needs a kernel of
rope_decode."""
from attn import _engine
from attn.aiter import NotServed

NAME = "fused_qk_rope_reshape_and_cache"


class Rotations:
    """Replaces SGLang's function `plain` that rotates and writes the cache, for the layers of a Backend."""

    def __init__(self, backend, plain):
        self.backend, self.plain = backend, plain

    def __call__(self, **call):
        """Takes SGLang's arguments by name. Returns queries, keys and both caches, unchanged if attention's launch will
        rotate and write. Else calls `plain`."""
        q, table = call["q"], call["cos_sin"]
        kind = self.backend.rotated.get(call["key_cache"].data_ptr())
        rotation = _engine.Rotation("neox" if call["is_neox"] else "gptj", table.shape[-1], cos_sin_short=table.dtype == q.dtype)
        others = call.get("offs") is not None or call.get("swa_slot_mapping") is not None or not call["flash_layout"]
        if kind is None or others or self.backend.steps.fused(kind, rotation) is None:
            return self.plain(**call)
        self.backend.pending = Pending(rotation, **{name: call[name] for name in ("q", "k", "v", "pos", "cos_sin", "key_cache")})
        return q, call["k"], call["key_cache"], call["value_cache"]


class Pending:
    """A rotation, and the tensors that attention rotates and writes."""

    def __init__(self, rotation, *, q, k, v, pos, cos_sin, key_cache):
        self.rotation, self.rows, self.cache = rotation, (q, k, v), key_cache.data_ptr()
        self.tables = {"positions": pos, "cos_sin": cos_sin}

    def check(self, q, keys):
        """Raises NotServed if attention gets other queries than the ones to rotate, or another cache than the one to
        write."""
        if q.data_ptr() != self.rows[0].data_ptr() or keys.data_ptr() != self.cache:
            raise NotServed("attn", "queries that change between their rotation and attention: ATTN_FUSE=0 has two launches")


def install(backend, module):
    """Replaces the function NAME in `module`, SGLang's module of rotations, by Rotations. Does nothing if ATTN_FUSE is
    0 or no pack of ATTN_PACKS has rope_decode."""
    plain = getattr(module, NAME, None)
    if plain is not None and _engine.fuses() and "rope_decode" in _engine.named_ops():
        setattr(module, NAME, Rotations(backend, getattr(plain, "plain", plain)))
