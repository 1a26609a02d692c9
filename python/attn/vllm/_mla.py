# SPDX-License-Identifier: Apache-2.0
"""vLLM's backends for latent attention: ATTN_MLA decodes over the cache of latents, Prefill attends to expanded keys.

vLLM itself splits a step into decode, which comes first in a batch, and prefill. vLLM also expands keys by matrix
products, and merges a chunk with its context by LSE."""
import functools
from dataclasses import dataclass

import torch
from vllm.config import get_current_vllm_config
from vllm.model_executor.layers.attention.mla_attention import (MLACommonBackend, MLACommonDecodeMetadata, MLACommonImpl,
                                                                MLACommonMetadata, MLACommonMetadataBuilder,
                                                                QueryLenSupport)
from vllm.v1.attention.backend import AttentionCGSupport, AttentionType
from vllm.v1.attention.backends.mla.prefill.base import MLAPrefillBackend

import attn.aiter as aiter
from attn import _engine
from attn.aiter import NotServed
from attn.aiter import _common as calls
from attn.vllm import _common


@dataclass
class Decode(MLACommonDecodeMetadata):
    """Metadata of the part of a step that decodes, with the LatentSteps that planned it."""
    steps: _engine.LatentSteps = None


class Builder(MLACommonMetadataBuilder):
    """Plans the decode part of steps, once for all layers of a group."""
    _cudagraph_support = AttentionCGSupport.UNIFORM_BATCH
    query_len_support = QueryLenSupport.VARLEN

    def __init__(self, kv_cache_spec, layer_names, vllm_config, device):
        super().__init__(kv_cache_spec, layer_names, vllm_config, device, MLACommonMetadata)
        session = _common.session(vllm_config, device)
        layers = [vllm_config.compilation_config.static_forward_context[name] for name in layer_names]
        self.most = _common.decode_queries(vllm_config)
        self.by_queries = {n: _engine.LatentSteps(
            session.device, layers[0].impl.latent_kind, page_size=kv_cache_spec.block_size,
            max_batch=vllm_config.scheduler_config.max_num_seqs, decode_queries=n) for n in {1, self.most}}
        self.steps = self.by_queries[self.most]  # the LatentSteps of the current step
        self.fused = [layer.impl for layer in layers if layer.impl.serve_products(layer, self.by_queries.values())]

    def build(self, common_prefix_len, common_attn_metadata, fast_build=False):
        step = super().build(common_prefix_len, common_attn_metadata, fast_build)
        for impl in self.fused:
            impl.steps = self.steps
        self.steps.decodes = step.num_prefills == 0 and 0 < step.num_decode_tokens <= _engine.PRODUCT_TOKENS
        return step

    def _build_decode(self, block_table_tensor, seq_lens_device, max_seq_len, query_start_loc_cpu, query_start_loc_device,
                      num_decode_tokens, max_query_len, dcp_tot_seq_lens_device):
        self.steps = self.by_queries[1 if max_query_len <= 1 else self.most]
        self.steps.plan(seq_lens_device, block_table_tensor, query_start_loc_device, _common.stream(seq_lens_device))
        return Decode(block_table_tensor, seq_lens_device, dcp_tot_seq_lens_device, self.steps)


class Impl(MLACommonImpl):
    """The attention of a layer with latent attention. Decode context parallelism, in which ranks share a context, is
    not supported."""
    can_return_lse_for_decode = False
    supports_dcp = False

    def __init__(self, num_heads, head_size, scale, num_kv_heads, alibi_slopes, sliding_window, kv_cache_dtype,
                 logits_soft_cap, attn_type, kv_sharing_target_layer_name, **mla_args):
        super().__init__(num_heads, head_size, scale, num_kv_heads, alibi_slopes, sliding_window, kv_cache_dtype,
                         logits_soft_cap, attn_type, kv_sharing_target_layer_name, **mla_args)
        if attn_type != AttentionType.DECODER or alibi_slopes or sliding_window or logits_soft_cap:
            raise NotServed("ATTN_MLA", "latent attention with a window, a soft cap, ALiBi's slopes or without a causal mask")
        self.supports_quant_query_input = False  # queries keep their 16 bits beside a cache of fp8
        self.fp8 = kv_cache_dtype.startswith("fp8")
        # read here, since vLLM has a current configuration only while it makes layers
        self.decode_queries = _common.decode_queries(get_current_vllm_config())
        self.latent_kind = _engine.LatentKind(
            dtype=_common.dtype_name(torch.get_default_dtype()), heads=num_heads, latent=self.kv_lora_rank,
            rope=self.qk_rope_head_dim, head_dim=self.qk_head_dim, head_dim_v=self.v_head_dim, scale=self.scale,
            kv_dtype="fp8" if self.fp8 else "same")
        # if launches include products, steps: the layer's LatentSteps; pending: rows that are not in the cache yet
        self.steps = self.pending = None

    def process_weights_after_loading(self, act_dtype):
        """Updates copies of weights. vLLM calls this after it loaded or reloaded all weights."""
        super().process_weights_after_loading(act_dtype)
        calls.refresh_copies()

    def kernels(self):
        """Returns the entries of a description that the layer needs."""
        return _engine.latent_kernels([self.latent_kind], self.decode_queries)

    def rows(self, cache):
        """Returns the cache as elements of its own type. vLLM may pass an fp8 cache as bytes."""
        return cache.view(_common.fp8_dtype()) if self.fp8 and cache.dtype == torch.uint8 else cache

    def forward_mqa(self, q, kv_c_and_k_pe_cache, attn_metadata, layer):
        """Computes decode for q [tokens, heads, latent + rope], or a pair of its two parts. Returns the output [tokens,
        heads, latent] and None."""
        q = torch.cat(q, dim=-1) if isinstance(q, tuple) else q
        out = q.new_empty(q.shape[0], q.shape[1], self.kv_lora_rank)
        attn_metadata.decode.steps.run(q, self.rows(kv_c_and_k_pe_cache), out, k_scale=_common.scale(layer, "_k_scale"),
                                       stream=_common.stream(q))
        return out, None

    def serve_products(self, layer, steps):
        """Makes the layer's decode steps of few tokens run in two launches that include the products of vLLM's
        MLAAttention. mla_rope_cache multiplies by W_UK and writes the cache; mla_decode multiplies by W_UV. Weights
        must have 16 bits. `steps` are the LatentSteps that the layer may have. Returns True if the layer has these
        launches."""
        others = ("is_aiter_triton_fp4_bmm_enabled", "is_aiter_triton_fp8_bmm_enabled", "is_amx_bmm_enabled",
                  "dcp_q_replicate", "q_pad_num_heads")
        lacks = any(each.products is None for each in steps)
        if lacks or self.dcp_world_size > 1 or any(getattr(layer, name, None) for name in others):
            return False
        if self.steps is None:
            layer.forward_impl = functools.partial(self.forward_step, layer, layer.forward_impl)
        self.steps = next(iter(steps))
        return True

    @staticmethod
    def weights(layer):
        """Returns W_UK [heads, latent, nope] and W_UV [heads, V, latent], whose rows are contiguous. vLLM's parameters
        W_UK_T and W_UV have the other order of axes. A parameter with other strides is copied once, and becomes a view
        of the copy."""
        out = []
        for parameter in (layer.W_UK_T, layer.W_UV):
            if parameter.stride(1) != 1:
                parameter.data = parameter.transpose(1, 2).contiguous().transpose(1, 2)
            out.append(parameter.transpose(1, 2))
        return out

    def forward_step(self, layer, plain, q, kv_c, k_pe, kv_cache, metadata, output, *args, **others):
        """Replaces MLAAttention.forward_impl(), passed as `plain`. A step of few tokens that only decodes has two
        launches. For all other steps it calls plain()."""
        pending, self.pending = self.pending, None
        if metadata is None or not self.steps.decodes or any(x is not None for x in (*args, *others.values())):
            if pending and metadata is not None:
                self.write(*pending)
            return plain(q, kv_c, k_pe, kv_cache, metadata, output, *args, **others)
        n = metadata.num_decode_tokens
        out = output[:n].view(n, self.num_heads, self.v_head_dim)
        slots = pending[3] if pending else torch.full((n,), -1, dtype=torch.int64, device=q.device)
        w_uk, w_uv = self.weights(layer)
        self.steps.run_products(q[:n], kv_c[:n], k_pe[:n].reshape(n, -1), slots[:n], self.rows(kv_cache), w_uk, w_uv, out,
                                k_scale=_common.scale(layer, "_k_scale"), stream=_common.stream(q))
        return output

    def do_kv_cache_update(self, kv_c_normed, k_pe, kv_cache, slot_mapping, kv_cache_dtype, k_scale, skip_scale=False):
        """Writes latents and rotated keys into the cache. In a step of two launches it keeps them for forward_step(),
        which writes them."""
        rows = (kv_c_normed, k_pe, kv_cache, slot_mapping.flatten(), kv_cache_dtype, k_scale)
        if self.steps is not None and self.steps.decodes and not _common.in_piece():
            self.pending = rows
        else:
            self.write(*rows)

    def write(self, kv_c_normed, k_pe, kv_cache, slots, kv_cache_dtype, k_scale):
        """Launches the write of rows into the cache, without attention."""
        if kv_cache.numel():
            aiter.concat_and_cache_mla(kv_c_normed, k_pe.squeeze(1), self.rows(kv_cache), slots,
                                       kv_cache_dtype, k_scale)


class Backend(_common.Forms, MLACommonBackend):
    """The backend ATTN_MLA. Pages have 1 to 256 tokens."""
    name, impl, builder, sizes, pages = "ATTN_MLA", Impl, Builder, (576,), tuple(2 ** n for n in range(9))


class Prefill(MLAPrefillBackend):
    """Attention of a prompt's new tokens to each other, and to chunks of the cached tokens before them."""

    @staticmethod
    def get_name():
        return "ATTN"

    def supports_out(self):
        return True

    def run_prefill_new_tokens(self, q, k, v, return_softmax_lse, out=None, output_scale=None):
        """Attends causally to the step's own keys. Returns the output, or with return_softmax_lse (output, LSE [heads,
        tokens])."""
        if output_scale is not None:
            raise NotServed("ATTN_MLA", "outputs of fp8")
        step = self._prefill_metadata
        return aiter.flash_attn_varlen_func(
            q, k, v, step.query_start_loc, step.query_start_loc, step.max_query_len, step.max_query_len,
            softmax_scale=self.scale, causal=True, return_lse=return_softmax_lse, out=out)

    def run_prefill_context_chunk(self, chunk, q, k, v, out=None):
        """Attends to all keys of a chunk of the context. Returns (output, LSE [heads, tokens])."""
        return aiter.flash_attn_varlen_func(
            q, k, v, chunk.query_start_loc, chunk.cu_seq_lens, chunk.max_query_len, chunk.max_seq_len,
            softmax_scale=self.scale, causal=False, return_lse=True, out=out)
