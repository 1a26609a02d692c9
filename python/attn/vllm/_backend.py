# SPDX-License-Identifier: Apache-2.0
"""vLLM's attention backend ATTN: for layers whose heads have keys and values. Steps may have whole prompts, chunks,
decode, or a mix.

vLLM makes a Builder for each group of layers that share page tables. The Builder plans a step once for each kind of
layer; layers then only launch attention. Cache pages are [heads, P, 2 D], keys and values side by side; the kernels
take strided views."""
from dataclasses import dataclass

import torch
from vllm.config import get_current_vllm_config, get_layers_from_vllm_config
from vllm.model_executor.layers.attention_layer_base import AttentionLayerBase
from vllm.v1.attention.backend import (AttentionBackend, AttentionCGSupport, AttentionImpl, AttentionMetadataBuilder,
                                       AttentionType)
from vllm.v1.kv_cache_interface import KVCacheLayout

import attn.aiter as aiter
from attn import _engine
from attn.aiter import NotServed
from attn.aiter import _common as calls
from attn.vllm import _common


def scales_heads():
    """True if the checkpoint has a cache scale for each KV head: the strategy "attn_head" in vLLM's configuration."""
    scheme = getattr(get_current_vllm_config().quant_config, "kv_cache_scheme", None)
    return scheme is not None and scheme.get("strategy") == "attn_head"


@dataclass
class Metadata:
    """The members that vLLM passes to each layer of a step: the Steps that planned it, and its number of tokens without
    padding."""
    steps: _engine.Steps
    num_actual_tokens: int


class Builder(AttentionMetadataBuilder):
    """Plans steps for the layers of one group. vLLM captures graphs of batches whose sequences have equally many
    queries, as in decode. A plan is made outside of the graph, in memory whose address stays."""
    _cudagraph_support = AttentionCGSupport.UNIFORM_BATCH

    def __init__(self, kv_cache_spec, layer_names, vllm_config, device):
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)
        self._init_reorder_batch_threshold(None)
        session = _common.session(vllm_config, device)
        layers = get_layers_from_vllm_config(vllm_config, AttentionLayerBase, layer_names)
        scheduler = vllm_config.scheduler_config
        self.steps = _engine.Steps(
            session.device, [layer.impl.kind for layer in layers.values()], page_size=kv_cache_spec.block_size,
            max_batch=scheduler.max_num_seqs, max_tokens=scheduler.max_num_batched_tokens,
            decode_queries=_common.decode_queries(vllm_config))
        for layer in layers.values():
            layer.impl.steps = self.steps

    def build(self, common_prefix_len, common_attn_metadata, fast_build=False):
        m = common_attn_metadata
        if m.causal is not True:
            raise NotServed("ATTN", "attention without a causal mask over a cache")
        self.steps.plan(m.seq_lens, m.block_table_tensor, m.query_start_loc, m.max_query_len, _common.stream(m.seq_lens))
        return Metadata(self.steps, m.num_actual_tokens)


class Impl(AttentionImpl):
    """Computes the attention of a layer with keys and values."""

    def __init__(self, num_heads, head_size, scale, num_kv_heads, alibi_slopes, sliding_window, kv_cache_dtype,
                 logits_soft_cap=None, attn_type=AttentionType.DECODER, kv_sharing_target_layer_name=None, sinks=None):
        if attn_type != AttentionType.DECODER or alibi_slopes is not None:
            raise NotServed("ATTN", f"attention of type {attn_type}" if alibi_slopes is None else "ALiBi's slopes")
        self.num_heads, self.num_kv_heads, self.head_size = num_heads, num_kv_heads, head_size
        self.kv_cache_dtype, self.kv_sharing_target_layer_name = kv_cache_dtype, kv_sharing_target_layer_name
        self.fp8 = kv_cache_dtype.startswith("fp8")
        self.scale_shape = (1, num_kv_heads) if self.fp8 and num_kv_heads > 1 and scales_heads() else (1,)
        self.sinks, self.views = sinks, {}
        # steps: the layer's Steps; pending: tensors that forward() has to rotate and write, or None
        self.steps = self.pending = None
        self.kind = _engine.Kind(
            dtype=_common.dtype_name(torch.get_default_dtype()), heads=num_heads, kv_heads=num_kv_heads, head_dim=head_size,
            head_dim_v=head_size, scale=float(scale), window=-1 if sliding_window is None else sliding_window - 1,
            sinks=sinks is not None, soft_cap=logits_soft_cap or 0.0, kv_dtype="fp8" if self.fp8 else "same",
            kv_scale="tensor" if len(self.scale_shape) == 1 else "head")

    def process_weights_after_loading(self, act_dtype):
        """Records the model's element type, and updates copies of weights. vLLM calls this after it loaded or reloaded
        all weights."""
        self.kind = self.kind._replace(dtype=_common.dtype_name(act_dtype))
        calls.refresh_copies()

    def pages(self, cache):
        """Returns keys and values as views [pages, P, heads, D] of a layer's cache [pages, heads, P, 2 D]. Every call
        returns the same two objects."""
        found = self.views.get(cache.data_ptr())
        if found is None or found[2] != cache.shape:
            k, v = cache.transpose(1, 2).split(self.head_size, dim=-1)
            if self.fp8:
                k, v = (x.view(_common.fp8_dtype()) for x in (k, v))
            found = self.views[cache.data_ptr()] = (k, v, cache.shape)
        return found[:2]

    def forward(self, layer, query, key, value, kv_cache, attn_metadata, output, output_scale=None, output_block_scale=None):
        """Attends with the step's tokens to the cache, which holds their own keys already. Writes `output` except rows
        of padding."""
        if output_scale is not None or output_block_scale is not None:
            raise NotServed("ATTN", "outputs of fp8")
        pending, self.pending = self.pending, None
        if attn_metadata is None:  # vLLM's run that measures memory has no step
            return output.fill_(0)
        n = attn_metadata.num_actual_tokens
        k, v = self.pages(kv_cache)
        q, out = (x[:n].view(n, self.num_heads, self.head_size) for x in (query, output))
        sinks = None if self.sinks is None else _common.kept(self, "sinks", self.sinks)  # kernels read float32
        tensors = dict(self.scales(layer), sinks=sinks, stream=_common.stream(q))
        if pending:
            rotation, rows, positions, more = pending
            attn_metadata.steps.run_rotated(self.kind, rotation, *(x[:n] for x in rows), k, v, out,
                                            positions=positions[:n], **more, **tensors)
        else:
            attn_metadata.steps.run(self.kind, q, k, v, out, **tensors)
        return output

    def scales(self, layer):
        """Returns the arguments k_scale and v_scale of a layer: [1], or [1, kv heads] with scales of heads. A cache of
        16 bits has no scales, even if the checkpoint has some."""
        return {name: _common.scale(layer, "_" + name, self.scale_shape) if self.fp8 else None for name in ("k_scale", "v_scale")}

    def defer(self, rows, positions, cosines, is_neox, norm="none", eps=0.0, **weights):
        """Keeps `rows`, the queries, keys and values [tokens, heads, D], for the next call of forward(), whose launch
        rotates them and writes the cache. Returns False if Steps.fused() has no such launch, or in a piecewise graph,
        whose replays do not call defer()."""
        rotation = _engine.Rotation("neox" if is_neox else "gptj", cosines.shape[-1], norm, float(eps),
                                    cosines.dtype == rows[0].dtype)
        if self.steps is None or _common.in_piece() or self.steps.fused(self.kind, rotation) is None:
            return False
        self.pending = rotation, rows, positions, dict(weights, cos_sin=cosines)
        return True

    def do_kv_cache_update(self, layer, key, value, kv_cache, slot_mapping):
        """Writes the step's keys and values into the cache."""
        k, v = self.pages(kv_cache)
        aiter.reshape_and_cache_flash(key, value, k, v, slot_mapping, self.kv_cache_dtype, **self.scales(layer))

    def fused_rope_kvcache_supported(self):
        return len(self.scale_shape) == 1 and "rope_qk_norm_cache" in _engine.named_ops()

    fused_qk_norm_rope_kvcache_supported = fused_rope_kvcache_supported

    def do_rope_and_kv_cache_update(self, layer, query, key, value, positions, cos_sin_cache, is_neox, kv_cache,
                                    layer_slot_mapping):
        """Rotates queries and keys in place, and writes keys and values into the cache, in one launch. In steps of few
        sequences forward() does this work: queries and keys then stay as they are."""
        cos_sin_cache = _common.table(cos_sin_cache)
        heads = (x.view(x.shape[0], -1, self.head_size) for x in (query, key, value))
        if self.defer(tuple(heads), positions, cos_sin_cache, is_neox):
            return
        k, v = self.pages(kv_cache)
        cos, sin = cos_sin_cache.chunk(2, dim=-1)
        aiter.fused_qk_rope_reshape_and_cache(
            query, key, value, k, v, layer_slot_mapping, positions, cos, sin, layer._k_scale, layer._v_scale, is_neox,
            flash_layout=True, apply_scale=self.fp8, q_out=query, k_out=key, output_zeros=False)

    def do_qk_norm_rope_kvcache_update(self, layer, qkv, q_out, k_out, positions, q_weight, k_weight, rms_norm_eps,
                                       cos_sin_cache, is_neox, kv_cache, layer_slot_mapping):
        """Norms each head of queries and keys, rotates them, and writes the cache, in one launch. k_out stays as it is:
        forward() reads keys from the cache. In steps of few sequences forward() does this work, and q_out stays as it
        is too."""
        cos_sin_cache = _common.table(cos_sin_cache)
        heads = qkv.view(qkv.shape[0], -1, self.head_size).split([self.num_heads, self.num_kv_heads, self.num_kv_heads], 1)
        if self.defer(heads, positions, cos_sin_cache, is_neox, "rms", rms_norm_eps, q_weight=q_weight, k_weight=k_weight):
            return
        k, v = self.pages(kv_cache)
        aiter.fused_qk_norm_rope_cache_pts_quant_shuffle(
            qkv, q_weight, k_weight, cos_sin_cache, positions, qkv.shape[0], self.num_heads, self.num_kv_heads,
            self.num_kv_heads, self.head_size, is_neox, rms_norm_eps, q_out, k, v, layer_slot_mapping, layer._k_scale,
            layer._v_scale, None, None, False, False, k.shape[1], 16 // k.element_size(),
            0 if cos_sin_cache.shape[-1] == self.head_size else cos_sin_cache.shape[-1])


class Backend(_common.Forms, AttentionBackend):
    """The backend ATTN. Kernels take pages of 16 to 256 tokens, powers of 2. vLLM divides a hybrid model's larger
    pages."""
    name, impl, builder = "ATTN", Impl, Builder
    forward_includes_kv_cache_update = False

    @classmethod
    def supports_head_size(cls, head_size):
        return 64 <= head_size <= 512 and head_size % 16 == 0

    @classmethod
    def supported_kv_cache_layouts(cls):
        return (KVCacheLayout.LBHNC, KVCacheLayout.LHBNC)

    @classmethod
    def supports_sink(cls):
        return True

    @classmethod
    def supports_sliding_window(cls):
        return True

    @classmethod
    def supports_per_head_quant_scales(cls):
        return True
