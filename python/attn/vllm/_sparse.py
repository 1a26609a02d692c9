# SPDX-License-Identifier: Apache-2.0
"""vLLM's backend ATTN_MLA_SPARSE: latent attention to the keys that an indexer chooses (DeepSeek-V3.2, GLM-5).

Each token of a step, also of a prompt, is a row with its own list of slots. After the indexer's products
Selection.write() makes its queries and keys, and Selection.choose() selects slots. vLLM's buffer of chosen keys then
holds slots of the cache, not positions, so that layers that share a choice can read the buffer directly."""
import functools
from dataclasses import dataclass

import torch
from vllm.config import get_current_vllm_config
from vllm.forward_context import get_forward_context
from vllm.model_executor.layers.attention.sparse_mla_attention import SharedTopkIndicesBuffer
from vllm.utils.torch_utils import direct_register_custom_op
from vllm.v1.attention.backend import (AttentionBackend, AttentionCGSupport, AttentionMetadataBuilder, AttentionType,
                                       MLAAttentionImpl)

import attn.aiter as aiter
from attn import _engine, _selection
from attn.aiter import NotServed
from attn.vllm import _common

OPERATOR = "attn_choose_keys"  # operator in torch.ops.vllm at which vLLM cuts compiled graphs


@dataclass
class Rows:
    """Metadata of a step with one row for each token. vLLM's layer of latent attention reads the counts; they declare
    all tokens as decode."""
    num_actual_tokens: int
    num_decodes: int
    num_decode_tokens: int
    slot_mapping: torch.Tensor
    block_table: torch.Tensor
    row_sequences: torch.Tensor  # [tokens]: index of each token's sequence in the batch
    row_ends: torch.Tensor  # [tokens]: number of keys that each token sees; 0: a row of padding
    longest: int  # largest number of keys of a sequence
    num_prefills: int = 0
    steps: _selection.SparseSteps = None


class RowBuilder(AttentionMetadataBuilder):
    """Makes the rows of a step for the indexers of a group of layers. Tensors keep their addresses for captured graphs."""
    _cudagraph_support = AttentionCGSupport.UNIFORM_BATCH

    def __init__(self, kv_cache_spec, layer_names, vllm_config, device):
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)
        self._init_reorder_batch_threshold(None)
        tokens = vllm_config.scheduler_config.max_num_batched_tokens
        self.numbers = torch.arange(tokens, dtype=torch.int32, device=device)
        self.sequences, self.ends = (torch.zeros(tokens, dtype=torch.int32, device=device) for _ in range(2))

    def build(self, common_prefix_len, common_attn_metadata, fast_build=False):
        m = common_attn_metadata
        if m.causal is not True:
            raise NotServed("ATTN_MLA_SPARSE", "attention without a causal mask")
        n, last = m.num_actual_tokens, m.num_reqs - 1
        after = m.query_start_loc[1:m.num_reqs + 1]  # index of the token after each sequence's last token
        sequence = torch.searchsorted(after, self.numbers[:n], right=True, out_int32=True)
        known = sequence.clamp(max=last)
        ends = m.seq_lens[:m.num_reqs][known] - after[known] + self.numbers[:n] + 1
        self.sequences[:n].copy_(known)
        self.ends[:n].copy_(torch.where(sequence > last, 0, ends))
        return Rows(n, m.num_reqs, n, m.slot_mapping[:n], m.block_table_tensor, self.sequences[:n], self.ends[:n],
                    m.max_seq_len)


class Builder(RowBuilder):
    """Plans the attention of a step, once for all layers of a group."""

    def __init__(self, kv_cache_spec, layer_names, vllm_config, device):
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)
        session = _common.session(vllm_config, device)
        layers = [vllm_config.compilation_config.static_forward_context[name] for name in layer_names]
        impl = layers[0].impl
        self.top_k = impl.topk_indices_buffer.shape[1]
        self.counts = torch.zeros_like(self.ends)
        self.steps = _selection.SparseSteps(session.device, impl.latent_kind, page_size=kv_cache_spec.block_size,
                                            max_rows=self.ends.shape[0], top_k=self.top_k)
        room = _selection.Room(session.device, self.top_k)
        for layer in layers:
            layer.impl.serve_indexer(session.device, kv_cache_spec.block_size, room)

    def build(self, common_prefix_len, common_attn_metadata, fast_build=False):
        step = super().build(common_prefix_len, common_attn_metadata, fast_build)
        counts = self.counts[:step.num_actual_tokens]
        counts.copy_(step.row_ends.clamp(max=self.top_k))
        step.steps = self.steps
        self.steps.plan(counts, _common.stream(counts))
        return step


class Impl(MLAAttentionImpl, SharedTopkIndicesBuffer):
    """The attention of a layer. If the layer has an indexer, the plugin replaces the indexer's forward()."""
    is_sparse = True
    supports_dense_mha_prefill = False
    supports_pcp = False

    def __init__(self, num_heads, head_size, scale, num_kv_heads, alibi_slopes, sliding_window, kv_cache_dtype,
                 logits_soft_cap, attn_type, kv_sharing_target_layer_name, *, kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim,
                 qk_head_dim, v_head_dim, topk_indices_buffer=None, indexer=None, index_group_builder=None, **mla_args):
        if attn_type != AttentionType.DECODER or alibi_slopes or sliding_window or logits_soft_cap:
            raise NotServed("ATTN_MLA_SPARSE", "latent attention with a window, a soft cap, ALiBi's slopes or without a causal mask")
        self.num_heads, self.head_size, self.scale, self.kv_cache_dtype = num_heads, head_size, float(scale), kv_cache_dtype
        self.kv_lora_rank, self.fp8, self.indexer = kv_lora_rank, kv_cache_dtype.startswith("fp8"), indexer
        self.init_topk_indices_buffer(indexer, topk_indices_buffer)
        dtype = _common.dtype_name(torch.get_default_dtype())
        self.latent_kind = _engine.LatentKind(
            dtype=dtype, heads=num_heads, latent=kv_lora_rank, rope=qk_rope_head_dim, head_dim=qk_head_dim,
            head_dim_v=v_head_dim, scale=self.scale, kv_dtype="fp8" if self.fp8 else "same")
        self.indexer_kind = take_indexer(indexer, dtype) if indexer is not None else None

    def kernels(self):
        """Returns the entries of a description that the layer needs. A layer without an indexer shares the choice of
        another one."""
        return _selection.kernels(self.latent_kind, self.indexer_kind) if self.indexer_kind else []

    def serve_indexer(self, device, page_size, room):
        """Looks up the kernels of the layer's indexer. All layers share `room`."""
        if self.indexer is not None:
            self.indexer.attn_selection = _selection.Selection(device, self.indexer_kind, page_size=page_size, room=room)

    def record_logical_topk_ready(self):
        """Returns at once: attention reads the chosen slots later on the same stream."""

    def forward_mqa(self, q, kv_c_and_k_pe_cache, attn_metadata, layer):
        """Attends with q [tokens, heads, latent + rope], or a pair of its two parts, to the chosen slots. Returns
        [tokens, heads, latent] and None."""
        q = torch.cat(q, dim=-1) if isinstance(q, tuple) else q
        out = q.new_empty(q.shape[0], q.shape[1], self.kv_lora_rank)
        attn_metadata.steps.run(q, self.rows(kv_c_and_k_pe_cache), self.topk_indices_buffer[:q.shape[0]], out,
                                k_scale=_common.scale(layer, "_k_scale"), stream=_common.stream(q))
        return out, None

    def rows(self, cache):
        """Returns the cache as a tensor of its element type."""
        return cache.view(_common.fp8_dtype()) if self.fp8 and cache.dtype == torch.uint8 else cache

    def do_kv_cache_update(self, kv_c_normed, k_pe, kv_cache, slot_mapping, kv_cache_dtype, k_scale, skip_scale=False):
        """Writes latents and rotated keys into the cache."""
        if kv_cache.numel():
            aiter.concat_and_cache_mla(kv_c_normed, k_pe.squeeze(1), self.rows(kv_cache), slot_mapping.flatten(),
                                       kv_cache_dtype, k_scale)


class Backend(_common.Forms, AttentionBackend):
    """The backend ATTN_MLA_SPARSE."""
    name, impl, builder, sizes = "ATTN_MLA_SPARSE", Impl, Builder, (576,)

    @classmethod
    def is_mla(cls):
        return True

    @classmethod
    def is_sparse(cls):
        return True


class IndexerBackend(_common.Forms, AttentionBackend):
    """The backend for the cache of an indexer's keys, whose pages have as many tokens as the latents' pages."""
    name, builder, sizes = "ATTN_INDEXER", RowBuilder, (_selection.KEY_BYTES,)


def take_indexer(indexer, dtype):
    """Makes a layer's indexer run on attnc's kernels and returns its IndexerKind. vLLM cuts compiled graphs at the operator."""
    if indexer.head_dim != _selection.INDEX_DIM or indexer.rope_dim != _selection.INDEX_DIM // 2:
        raise NotServed("ATTN_MLA_SPARSE", f"an indexer of {indexer.head_dim} elements, {indexer.rope_dim} of them rotated")
    config = get_current_vllm_config()
    cuts, name = config.compilation_config.splitting_ops, f"vllm::{OPERATOR}"
    if cuts is not None and name not in cuts:
        cuts.append(name)
    register_operator()
    neox = not getattr(config.model_config.hf_text_config, "indexer_rope_interleave", False)
    indexer.k_cache.get_attn_backend = lambda: IndexerBackend
    indexer.forward = functools.partial(forward, indexer)
    indexer.k_cache.attn_indexer = (indexer,)  # in a tuple, so that torch does not register a submodule
    return _selection.IndexerKind(dtype, indexer.n_head, indexer.topk_tokens, "neox" if neox else "gptj",
                                  indexer.softmax_scale * indexer.n_head ** -0.5, indexer.k_norm.eps)


def forward(indexer, hidden_states, qr, positions, rotary_emb):
    """Replaces Indexer.forward(): computes the indexer's products, then calls the operator choose_keys()."""
    q = indexer.wq_b(qr)[0].view(-1, indexer.n_head, indexer.head_dim)
    rows = indexer.wk_weights_proj(hidden_states)[0]
    k, weights = rows[:, :indexer.head_dim].contiguous(), rows[:, indexer.head_dim:]
    getattr(torch.ops.vllm, OPERATOR)(q, k, weights, positions, rotary_emb.cos_sin_cache, indexer.topk_indices_buffer,
                                      indexer.k_cache.prefix)
    return indexer.topk_indices_buffer


def choose_keys(q: torch.Tensor, k: torch.Tensor, weights: torch.Tensor, positions: torch.Tensor, cos_sin: torch.Tensor,
                chosen: torch.Tensor, name: str) -> None:
    """Writes the step's keys into the indexer's cache `name`, and the slots that each token attends to into chosen
    [tokens, top_k]. Does nothing in a run that measures memory. It is the operator OPERATOR."""
    context = get_forward_context()
    if not isinstance(context.attn_metadata, dict):
        return
    step, layer = context.attn_metadata[name], context.no_compile_layers[name]
    (indexer,), n, cache = layer.attn_indexer, step.num_actual_tokens, layer.kv_cache
    selection, stream = indexer.attn_selection, _common.stream(q)
    norm = tuple(_common.kept(indexer, part, getattr(indexer.k_norm, part)) for part in ("weight", "bias"))
    fp8, scaled = selection.write(q[:n], weights[:n], k[:n], norm, _common.kept(indexer, "cos_sin", cos_sin), positions[:n],
                                  step.slot_mapping, cache, stream=stream)
    selection.choose(fp8, scaled, cache, step.row_ends, step.row_sequences, step.block_table, step.longest, chosen[:n],
                     stream=stream)


def register_operator():
    """Registers the operator, once in a process. In a trace the operator does nothing; its schema says that it writes
    `chosen`."""
    if not hasattr(torch.ops.vllm, OPERATOR):
        direct_register_custom_op(op_name=OPERATOR, op_func=choose_keys, mutates_args=["chosen"],
                                  fake_impl=lambda *args: None)
