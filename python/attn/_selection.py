# SPDX-License-Identifier: Apache-2.0
"""Sparse latent attention in a serving engine: the indexer that chooses keys (DeepSeek-V3.2, GLM-5), and attention to them.

A row is a token of the step with its own list of slots of the cache. Launches treat each row as a sequence of one
query."""
import typing

from attn import _engine
from attn.aiter import _common as calls
from attn.attention import choose_parts

INDEX_DIM = 128  # elements of an indexer's query and key
KEY_BYTES = 132  # bytes of a key in the indexer's cache: 128 of fp8 elements and 4 of its float32 scale


class IndexerKind(typing.NamedTuple):
    """The fields that choose the kernels of an indexer, and numbers of its launches."""
    dtype: str  # element type of the indexer's queries, keys and weights: bf16 or fp16
    heads: int
    top_k: int  # number of keys that are chosen for each row
    rope: str  # order of the elements of a rotated pair: neox or gptj
    weight_scale: float  # factor of the weights of all heads
    eps: float  # added to the variance in the norm of keys


def kernels(kind, indexer):
    """Returns entries of a description for layers of `kind`, a LatentKind, that attend to the keys of an `indexer`, an
    IndexerKind."""
    kv = {"kv_dtype": "fp8", "kv_scale": "tensor"} if kind.kv_dtype == "fp8" else {}
    row = {"dtype": kind.dtype, "head_dim": kind.latent + kind.rope, "head_dim_v": kind.latent, **kv}
    return [{"op": "plan"}, {"op": "mla_decode", **row, "gqa": kind.heads, "sparse": "slots", "page_size": "any"},
            {"op": "mla_rope_cache", **row, "rope": "none"},
            {"op": "combine", "dtype": kind.dtype, "head_dim": kind.latent, "partials": "csr"},
            {"op": "indexer_rope_cache", "dtype": indexer.dtype, "rope": indexer.rope, "layer_norm": True},
            {"op": "indexer_topk", "top_k": indexer.top_k, "index_heads": indexer.heads, "paged": True,
             "small_pages": [False, True]},
            {"op": "topk", "top_k": indexer.top_k}]


class Room:
    """Memory for keys that are chosen from parts of rows, before the choices are merged. Layers and steps of all sizes
    use it one after the other. It suffices for all steps, since choose_parts() makes at most as many parts as there are
    compute units. Its address stays the same, as captured graphs need."""

    def __init__(self, device, top_k):
        self.shape, self.made = (device.compute_units, top_k), None

    def lists(self, like, rows, splits):
        """Returns positions and scores of parts, [rows, splits, top_k] each, on the device of the tensor `like`."""
        if self.made is None:
            self.made = calls.integers(like, self.shape), calls.floats(like, self.shape)
        return tuple(calls.view(x[:rows * splits], rows, splits, -1) for x in self.made)


class Selection:
    """An indexer's launches: write() makes its queries and keys, choose() selects slots of the cache for each row. Indexers
    may share a Room."""

    def __init__(self, device, kind, *, page_size, room=None):
        self.kind, self.page_size, self.room = kind, page_size, room or Room(device, kind.top_k)
        self.rotate = device.indexer_rope_cache(dtype=kind.dtype, heads=kind.heads, rope=kind.rope, layer_norm=True)
        self.select = device.indexer_topk(top_k=kind.top_k, heads=kind.heads, paged=True,
                                          small_pages=page_size < 32 or page_size & (page_size - 1) != 0)
        self.merge = device.topk(top_k=kind.top_k)

    def pages(self, cache):
        """Returns the arguments for the indexer's cache, bytes [pages, P, 132]: the P keys of a page, then their scales."""
        keys, step = calls.flat_pages("indexer", "cache", cache)
        return {"keys": keys, "page_size": self.page_size, "page_stride": step}

    def write(self, q, weights, k, norm, cos_sin, positions, slots, cache, *, stream=None):
        """Norms and rotates keys [tokens, 128], writes them into the cache, and rotates queries [tokens, heads, 128],
        all with scales that are powers of two. `norm` is weight and bias in float32. Returns the queries as fp8, and
        the weights [tokens, heads] as float32, multiplied by the queries' scales."""
        q_out, weights_out = calls.octets(q, tuple(q.shape)), calls.floats(q, tuple(weights.shape))
        self.rotate(q=q, weights=weights, q_out=q_out, weights_out=weights_out, k=k, k_weight=norm[0], k_bias=norm[1],
                    slot_mapping=slots, positions=positions, cos_sin=cos_sin, page_count=cache.shape[0],
                    weight_scale=self.kind.weight_scale, eps=self.kind.eps, power_of_two_scales=True, stream=stream,
                    **self.pages(cache))
        return q_out, weights_out

    def choose(self, q, weights, cache, row_ends, row_sequences, table, longest, out, *, stream=None):
        """Writes the slots of each row's keys to out [rows, top_k], ascending by position, then -1. Row t sees the keys
        before row_ends[t] of sequence row_sequences[t], whose pages `table` has; `longest` is the largest number of
        keys of a row."""
        rows, top_k = q.shape[0], self.kind.top_k
        places = {"block_table": table, "row_sequences": row_sequences}
        splits = choose_parts(self.select, rows, longest)
        one = calls.view(out, rows, 1, top_k)
        if splits == 1:
            self.select(q=q, weights=weights, row_ends=row_ends, indices=one, slots=True, stream=stream, **places,
                        **self.pages(cache))
            return
        found, scores = self.room.lists(q, rows, splits)
        self.select(q=q, weights=weights, row_ends=row_ends, indices=found, values=scores, stream=stream, **places,
                    **self.pages(cache))
        self.merge(scores=calls.view(scores, rows, -1), source=calls.view(found, rows, -1), indices=one,
                   page_size=self.page_size, stream=stream, **places)


class SparseSteps(_engine.LatentSteps):
    """Attention of an engine's rows to the slots that an indexer has chosen: plan() once a step, run() once a layer."""

    def __init__(self, device, kind, *, page_size, max_rows, top_k):
        super().__init__(device, kind, page_size=page_size, max_batch=max_rows, sparse="slots", kv_len=top_k)

    def plan(self, counts, stream=None):
        """Plans a step: `counts` [rows] has the number of slots in each row's list."""
        super().plan(counts, None, None, stream)

    def run(self, q, cache, slots, out, *, k_scale=None, stream=None):
        """Computes a layer: q [rows, heads, latent + rope] attends to the rows `slots` [rows, top_k] of the cache
        [pages, P, latent + rope]; out [rows, heads, latent]."""
        self.step["block_table"] = slots
        super().run(q, cache, out, k_scale=k_scale, stream=stream)
