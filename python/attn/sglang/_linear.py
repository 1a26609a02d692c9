# SPDX-License-Identifier: Apache-2.0
"""SGLang's backend for the gated delta nets of hybrid models on attnc's kernels, beside the attention backend "attn".

SGLang plans the steps itself and keeps the states; a layer launches the convolution of all tokens, and then the recurrence of
steps or of prompts."""
import torch
from sglang.srt.layers.attention.linear import gdn_backend
from sglang.srt.layers.radix_linear_attention import RadixLinearAttention

from attn import _engine
from attn.aiter import NotServed
from attn.linear import _calls as calls

DTYPES = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "fp16"}


def kernels(runner):
    """Returns the entries of a description for the gated delta nets of a model; none if it has no such layer."""
    layers = [module for module in runner.model.modules() if isinstance(module, RadixLinearAttention)]
    if not layers:
        return []
    state = runner.req_to_token_pool.mamba_pool.mamba_cache.temporal
    return _engine.linear_kernels([_engine.LinearKind(
        dtype=DTYPES[runner.dtype], taps=layer.conv_weights.shape[-1], head_dim=layer.head_k_dim,
        head_dim_v=layer.head_v_dim, state_dtype=DTYPES[state.dtype],
        act=calls.act("attn", layer.activation)) for layer in layers])


class LinearBackend(gdn_backend.GDNAttnBackend):
    """SGLang's backend with attnc's launches. Slots below 0 are padding."""

    def forward_decode(self, layer, forward_batch, mixed_qkv, a, b, **kwargs):
        """Runs a step of one token for each sequence. mixed_qkv has packed rows of q, k and v, or is a tuple of the two
        projections that have z too; a and b are the logits of the gates. Returns [1, tokens, value heads, V], and z if
        there is one."""
        z = None
        if isinstance(mixed_qkv, tuple):
            mixed_qkv, z, b, a = gdn_backend.fused_qkvzba_split_reshape_cat_contiguous(
                *mixed_qkv, layer.num_q_heads, layer.num_v_heads, layer.head_q_dim, layer.head_v_dim)
        cache, step = self.cache(layer)
        slots, starts = step.mamba_cache_indices, step.query_start_loc
        rows = self.convolve(layer, cache.conv[0], mixed_qkv, slots, starts, max_seqlen=1)
        out = self.recur("gated_delta", layer, cache.temporal, rows, a, b, slots[:, None], starts, max_seqlen=1)
        self._track_mamba_state_decode(forward_batch, cache.conv[0], cache.temporal, slots, layer.layer_id)
        return out if z is None else (out, z)

    def forward_extend(self, layer, forward_batch, mixed_qkv, a, b, **kwargs):
        """Runs prompts, pieces of them and mixed steps. Returns [1, tokens, value heads, V]."""
        cache, step = self.cache(layer)
        if forward_batch.forward_mode.is_target_verify() or self.mis_metadata is not None:
            raise NotServed("attn", "drafts or several items of a prompt in a hybrid model")
        if step.has_mamba_track_mask:
            raise NotServed("attn", "states at the boundaries of chunks, which a prefix cache of states keeps")
        more = dict(has_state=(forward_batch.extend_prefix_lens > 0).view(torch.uint8),
                    max_seqlen=max(forward_batch.extend_seq_lens_cpu))
        slots, starts = step.mamba_cache_indices, step.query_start_loc
        rows = self.convolve(layer, cache.conv[0], mixed_qkv, slots, starts, **more)
        return self.recur("gated_delta_prefill", layer, cache.temporal, rows, a, b, slots, starts, **more)

    def cache(self, layer):
        """Returns a layer's states and the step's metadata."""
        cache = self.req_to_token_pool.mamba2_layer_cache(layer.layer_id)
        if cache.replayssm_d is not None:
            raise NotServed("attn", "records of tokens in place of states (ReplaySSM)")
        return cache, self.forward_metadata

    @staticmethod
    def convolve(layer, state, rows, slots, starts, **more):
        """Returns the convolution of rows [tokens, channels] and moves the windows in the cache on."""
        out = torch.empty_like(rows)
        calls.convolve("attn", rows, layer.conv_weights, layer.bias, state, calls.indices(slots), layer.activation, 0,
                       cu_seqlens=calls.indices(starts), out=out, **more)
        return out

    @staticmethod
    def recur(op, layer, state, rows, a, b, slots, starts, **more):
        """Returns the recurrence over convolved rows. `slots` are the states, `more` arguments of the op."""
        gate = calls.gates(a[None], b[None], layer.A_log, layer.dt_bias, raw=True)
        q, k, v = calls.packed(rows, layer.q_dim, layer.head_k_dim, layer.head_v_dim)
        return calls.delta(op, q, k, v, state, "v_major", gate, decay="head", l2_norm=True,
                           state_slots=calls.indices(slots), cu_seqlens=calls.indices(starts), **more)
