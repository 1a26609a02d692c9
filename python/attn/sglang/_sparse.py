# SPDX-License-Identifier: Apache-2.0
"""SGLang's attention backend "attn" for latent attention to the keys that an indexer chooses (DeepSeek-V3.2, GLM-5).

Each token of a step, also of a prompt, is a row with its own list of slots. The backend replaces forward() of the
model's indexers. After an indexer's matrix products, Selection.write() converts queries to fp8 and writes keys to the
indexer's cache. Selection.choose() then selects slots. SGLang passes the slots to the attention of the layer, and of
layers that share its choice."""
import functools

import torch
from sglang.srt.layers.attention.dsa.dsa_indexer import Indexer
from sglang.srt.layers.layernorm import LayerNorm

from attn import _engine, _selection
from attn.aiter import NotServed
from attn.aiter import _common as calls
from attn.sglang._backend import DTYPES, Pages, drafts_of, open_device
from attn.sglang._latent import LatentRows, kind_of


def indexers_of(runner):
    """Returns the indexers of a model."""
    return [module for module in runner.model.modules() if isinstance(module, Indexer)]


def indexer_kind(indexer, dtype):
    """Returns the IndexerKind of an indexer."""
    if indexer.head_dim != _selection.INDEX_DIM or indexer.rope_head_dim != _selection.INDEX_DIM // 2:
        raise NotServed("attn", f"an indexer of {indexer.head_dim} elements, {indexer.rope_head_dim} of them rotated")
    if not isinstance(indexer.k_norm, LayerNorm) or indexer.num_init_tokens or indexer.num_local_tokens:
        raise NotServed("attn", "an indexer with an RMS norm of keys, or with first or last keys that are always chosen")
    if indexer.use_dsa_indexer_fusion or indexer.use_gfx950_fused_indexer:
        raise NotServed("attn", "SGLang's own fused indexer, whose weights are merged: --no-enable-dsa-fused-indexer")
    return _selection.IndexerKind(DTYPES[dtype], indexer.n_heads, indexer.index_topk, "neox" if indexer.is_neox_style else "gptj",
                                  indexer.softmax_scale * indexer.n_heads ** -0.5, indexer.k_norm.variance_epsilon)


class Rows:
    """Tensors of a step: for each row its sequence, the number of keys that it sees, and the number that it chooses.
    All steps use the same tensors."""

    def __init__(self, rows, device):
        self.numbers = torch.arange(rows, dtype=torch.int32, device=device)
        self.sequences, self.ends, self.counts = (torch.zeros(rows, dtype=torch.int32, device=device) for _ in range(3))

    def fill(self, rows, lengths, starts, top_k):
        """Fills in a step of `rows` tokens. Sequences have `lengths` keys, and their queries begin at `starts`. Rows
        after the last sequence are padding, which sees no key. Returns the number of keys that each row chooses, int32
        [rows]."""
        after, last = starts[1:], lengths.shape[0] - 1
        sequence = torch.searchsorted(after, self.numbers[:rows], right=True, out_int32=True)
        known = sequence.clamp(max=last)
        ends = lengths[known] - after[known] + self.numbers[:rows] + 1
        self.sequences[:rows].copy_(known)
        self.ends[:rows].copy_(torch.where(sequence > last, 0, ends))
        torch.clamp(self.ends[:rows], max=top_k, out=self.counts[:rows])
        return self.counts[:rows]


class SparseBackend(LatentRows):
    """The backend "attn" for layers with an indexer: queries [tokens, heads, latent + rope] attend to chosen rows of a
    pool of latents."""

    def __init__(self, runner):
        super().__init__(runner)
        self.kind, indexers = kind_of(runner), indexers_of(runner)
        if self.kind.kv_dtype == "fp8" or self.pool.kv_cache_dim != self.kind.latent + self.kind.rope:
            raise NotServed("attn", "SGLang's cache of fp8 for chosen keys, which has scales between its latents")
        kinds = [indexer_kind(indexer, runner.dtype) for indexer in indexers]
        if not kinds or len(set(kinds)) > 1:
            raise NotServed("attn", "latent attention to chosen keys without an indexer, or with indexers of several forms")
        device = open_device(runner, _selection.kernels(self.kind, kinds[0]))
        sequences, self.top_k = runner.req_to_token_pool.size, kinds[0].top_k
        rows = max(runner.server_args.chunked_prefill_size or 0, runner.server_args.max_prefill_tokens,
                   sequences * drafts_of()[0])
        self.pages = Pages(runner, sequences)
        self.steps_rows = Rows(rows, self.pages.table.device)
        self.steps = _selection.SparseSteps(device, self.kind, page_size=self.page, max_rows=rows, top_k=self.top_k)
        self.step, room = None, _selection.Room(device, self.top_k)
        for indexer in indexers:
            indexer.attn_selection = _selection.Selection(device, kinds[0], page_size=self.page, room=room)
            indexer.forward = functools.partial(self.choose, indexer)

    def fresh(self, runner, rows):
        """Raises NotServed: steps of a draft model are not served with an indexer."""
        raise NotServed("attn", "draft models whose layers attend to chosen keys")

    def init_forward_metadata_out_graph(self, forward_batch, in_capture=False):
        """Plans the attention of a step."""
        if forward_batch.forward_mode.is_idle():
            return
        lengths, table, starts, _ = self.pages.fill(forward_batch)
        if self.pages.tree(forward_batch):
            raise NotServed("attn", "latent attention to drafts that form trees")
        seen = forward_batch.seq_lens_cpu
        longest = table.shape[1] * self.page if seen is None or in_capture else min(
            int(seen.max()) + drafts_of()[0], table.shape[1] * self.page)
        rows = forward_batch.out_cache_loc.shape[0]
        self.steps.plan(self.steps_rows.fill(rows, lengths, starts, self.top_k), calls.stream(lengths))
        self.step = rows, table, longest

    def choose(self, indexer, x, q_lora, positions, forward_batch, layer_id, return_indices=True, use_cuda_graph=True):
        """Replaces Indexer.forward(). Computes the indexer's products from x [tokens, hidden] and q_lora [tokens,
        rank], writes the step's keys, and chooses. Returns slots of the pool [tokens, top_k]; unused entries at the end
        of a row are -1. Returns None without return_indices."""
        if isinstance(x, tuple) or isinstance(q_lora, tuple):
            raise NotServed("attn", "inputs of an indexer that are quantised already")
        rows, table, longest = self.step
        selection, stream = indexer.attn_selection, calls.stream(q_lora)
        q = indexer.wq_b(q_lora)[0].view(-1, indexer.n_heads, indexer.head_dim)
        k, weights = indexer.wk(x)[0], indexer.weights_proj(x)[0].to(q.dtype)
        norm = tuple(kept(indexer.k_norm, name) for name in ("weight", "bias"))
        cache = self.pool.get_index_k_with_scale_buffer(layer_id)
        cache = cache.view(cache.shape[0], self.page, _selection.KEY_BYTES)
        fp8, scaled = selection.write(q[:rows], weights[:rows], k[:rows], norm, kept(indexer.rotary_emb, "cos_sin_cache"),
                                      positions[:rows], forward_batch.out_cache_loc, cache, stream=stream)
        if not return_indices:
            return None
        slots = torch.full((q.shape[0], self.top_k), -1, dtype=torch.int32, device=q.device)
        selection.choose(fp8, scaled, cache, self.steps_rows.ends[:rows], self.steps_rows.sequences[:rows], table, longest,
                         slots[:rows], stream=stream)
        return slots

    def run(self, q, k, v, layer, batch, save_kv_cache, k_rope=None, q_rope=None, topk_indices=None, **others):
        """Writes the step's latents to the pool if save_kv_cache is true, and attends to the chosen rows of the
        pool."""
        unknown = [name for name, value in others.items() if value is not None and value is not False]
        if unknown or topk_indices is None:
            raise NotServed("attn", f"latent attention with {', '.join(unknown) or 'no chosen keys'}")
        rows = self.rows(layer)
        if save_kv_cache and k is not None:
            self.write(layer, rows, k, k_rope, batch.out_cache_loc, None)
        q, count = self.queries(q, q_rope, layer), self.step[0]
        out = q.new_empty(*q.shape[:2], self.kind.latent)
        self.steps.run(q[:count], rows[:, :, 0], topk_indices[:count], out[:count], stream=calls.stream(q))
        return out.view(q.shape[0], -1)


def kept(module, name):
    """Returns the tensor `name` of a module in float32. The copy is made once."""
    given = getattr(module, name)
    return given if given.dtype == torch.float32 else calls.session(given).made.of(name, (given,), torch.Tensor.float)
