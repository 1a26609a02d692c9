# SPDX-License-Identifier: Apache-2.0
"""SGLang's backends for gated delta nets and KDA layers of hybrid models on attnc's kernels, beside the attention backend
"attn".

SGLang plans the steps itself and keeps the states; a layer launches the convolution of all tokens, and then the
recurrence of steps or of prompts. A gated delta net has a decay for each head, a KDA layer one for each element of a
key. The window and the state after each draft go to SGLang's memory for drafts. SGLang then copies the ones after the
last accepted draft."""
import torch
from sglang.srt.layers.attention.linear import gdn_backend, kda_backend
from sglang.srt.layers.attention.linear.utils import select_verify_intermediate_state_indices
from sglang.srt.layers.radix_linear_attention import RadixLinearAttention

from attn import _engine
from attn.aiter import NotServed
from attn.linear import _calls as calls
from attn.linear import sglang as given
from attn.sglang._backend import drafts_of

DTYPES = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "fp16"}


def kernels(runner, decay="head"):
    """Returns the entries of a description for the gated delta nets of a model, or with decay="channel" for its KDA
    layers. The list is empty if the model has no such layer."""
    layers = [module for module in runner.model.modules() if isinstance(module, RadixLinearAttention)]
    if not layers:
        return []
    state = runner.req_to_token_pool.mamba_pool.mamba_cache.temporal
    return _engine.linear_kernels([_engine.LinearKind(
        dtype=DTYPES[runner.dtype], taps=layer.conv_weights.shape[-1], head_dim=layer.head_k_dim,
        head_dim_v=layer.head_v_dim, state_dtype=DTYPES[state.dtype], decay=decay,
        act="silu" if decay == "channel" else calls.act("attn", layer.activation),
        gates="softplus" if layer.lower_bound is None else "bounded") for layer in layers], trees=drafts_of()[0] > 1)


def tree_parents(first, sibling):
    """Returns the parent of each draft in its sequence, int32 [sequences, drafts], from `first`, the first child of
    each draft, and `sibling`, its next sibling. A number below 0 means none. The root's parent is 0."""
    found = torch.zeros_like(first, dtype=torch.int32)
    for draft in range(first.shape[1]):
        for pointers, parent in ((first, torch.full_like(found[:, draft], draft)), (sibling, found[:, draft].clone())):
            place, there = pointers[:, draft, None].clamp(min=0).long(), pointers[:, draft, None] >= 0
            found.scatter_(1, place, torch.where(there, parent[:, None], found.gather(1, place)))
    return found


def parents_of(step, layer):
    """Returns tree_parents() of a step for drafts that form trees; None for chains. The first layer of each run
    computes the parents for all layers. They are not kept for the next run: SGLang runs a step before it captures the
    step's graph, which needs its own tensors."""
    if step.retrieve_next_token is None:
        return None
    owner, found = getattr(step, "attn_parents", (layer, None))
    if owner is layer:
        found = tree_parents(step.retrieve_next_token, step.retrieve_next_sibling)
        step.attn_parents = layer, found
    return found


def places_of(backend, forward_batch, slots):
    """Returns the rows of SGLang's memory for drafts that sequences with states in `slots` use."""
    places = select_verify_intermediate_state_indices(backend.verify_intermediate_state_indices, forward_batch.req_pool_indices,
                                                      slots >= 0, backend.req_to_token_pool.size)
    return places[:slots.shape[0]]


def chain(slots, drafts):
    """Returns tree_parents() of chains of `drafts` drafts for the sequences of `slots`."""
    return (torch.arange(drafts, dtype=torch.int32, device=slots.device) - 1).clamp(min=0).repeat(slots.shape[0], 1)


class Launches:
    """The launches of a layer, for a backend of SGLang. Slots below 0 are padding."""
    # decay "head" or "channel" as in LinearKind; dense_windows True: SGLang's windows after successive drafts do not
    # overlap in memory
    decay, dense_windows = "head", False

    def windows(self, cache):
        """Returns the states of a layer's convolution, windows of its last inputs [slots, channels, taps - 1]."""
        return cache.conv[0]

    def draft_windows(self, cache):
        """Returns the windows after drafts [rows, drafts, channels, taps - 1]."""
        return cache.intermediate_conv_window[0]

    def steps(self, layer, forward_batch, rows, a, b):
        """Runs a step of one token for each sequence. `rows` has packed q, k and v; a and b are the logits of the decays and
        of beta. Returns [1, tokens, value heads, V]."""
        cache, step = self.cache(layer)
        slots, starts = step.mamba_cache_indices, step.query_start_loc
        rows = self.convolve(layer, self.windows(cache), rows, slots, starts, max_seqlen=1)
        out = self.recur("gated_delta", layer, cache.temporal, rows, a, b, slots[:, None], starts, max_seqlen=1)
        self._track_mamba_state_decode(forward_batch, cache.conv[0], cache.temporal, slots, layer.layer_id)
        return out

    def prompts(self, layer, forward_batch, rows, a, b):
        """Runs steps with prompts or chunks of prompts, also beside decode. Returns [1, tokens, value heads, V]."""
        if forward_batch.forward_mode.is_target_verify():
            return self.drafts(layer, forward_batch, rows, a, b)
        cache, step = self.cache(layer)
        if step.has_mamba_track_mask:
            raise NotServed("attn", "states at the boundaries of chunks, which a prefix cache of states keeps")
        more = dict(has_state=(forward_batch.extend_prefix_lens > 0).view(torch.uint8),
                    max_seqlen=max(forward_batch.extend_seq_lens_cpu))
        slots, starts = step.mamba_cache_indices, step.query_start_loc
        rows = self.convolve(layer, self.windows(cache), rows, slots, starts, **more)
        return self.recur("gated_delta_prefill", layer, cache.temporal, rows, a, b, slots, starts, **more)

    def drafts(self, layer, forward_batch, rows, a, b):
        """Verifies drafts, chains or trees, equally many for each sequence. Returns [1, tokens, value heads, V]."""
        cache, step = self.cache(layer)
        spec = forward_batch.spec_info
        if spec.ragged_verify_layout is not None:
            raise NotServed("attn", "different numbers of drafts in a hybrid model")
        if self.accept_lens_pool is not None:  # SGLang leaves the accepted states in its memory for drafts
            raise NotServed("attn", "KDA layers that begin at the accepted draft's state: --linear-attn-verify-backend flashinfer")
        count = spec.draft_token_num
        slots = step.mamba_cache_indices[:rows.shape[0] // count]
        places, parents = places_of(self, forward_batch, slots), parents_of(step, layer)
        rows = given.causal_conv1d_update(
            calls.aligned(rows).view(slots.shape[0], count, -1).transpose(1, 2), self.windows(cache), calls.typed(layer, "conv_weights", rows),
            calls.typed(layer, "bias", rows), self.activation(layer), conv_state_indices=slots,
            intermediate_conv_window=self.draft_windows(cache), intermediate_state_indices=places,
            retrieve_parent_token=chain(slots, count) if parents is None and self.dense_windows else parents)
        q, k, v = calls.packed(rows.transpose(1, 2).reshape(slots.shape[0] * count, -1), layer.q_dim, layer.head_k_dim,
                               layer.head_v_dim)
        return given.fused_sigmoid_gating_delta_rule_update(
            layer.A_log, a, layer.dt_bias, 1.0, 20.0, q, k, v, b, cache.temporal, slots, use_qk_l2norm_in_kernel=True,
            cu_seqlens=step.query_start_loc[:slots.shape[0] + 1], is_kda=self.decay == "channel", lower_bound=layer.lower_bound,
            disable_state_update=True, intermediate_states_buffer=cache.intermediate_ssm, intermediate_state_indices=places,
            retrieve_parent_token=parents)

    def cache(self, layer):
        """Returns (the cache of a layer's states, the step's metadata)."""
        cache = self.req_to_token_pool.mamba2_layer_cache(layer.layer_id)
        if cache.replayssm_d is not None or getattr(cache, "replayssm_rawv", None) is not None:
            raise NotServed("attn", "records of tokens in place of states (ReplaySSM)")
        return cache, self.forward_metadata

    def activation(self, layer):
        """Returns the activation after a layer's convolution."""
        return layer.activation

    def convolve(self, layer, windows, rows, slots, starts, **more):
        """Returns the convolution of rows [tokens, channels] and updates the windows in the cache."""
        rows = calls.aligned(rows)
        out = rows.new_empty(rows.shape)
        calls.convolve("attn", rows, calls.typed(layer, "conv_weights", rows), calls.typed(layer, "bias", rows), windows,
                       calls.indices(slots), self.activation(layer), 0, cu_seqlens=calls.indices(starts), out=out, **more)
        return out

    def recur(self, op, layer, state, rows, a, b, slots, starts, **more):
        """Launches `op`, a recurrence, over convolved rows and returns its output. `slots` are the slots of the states,
        `more` further arguments."""
        heads, bound = (layer.num_v_heads,), layer.lower_bound
        decays = heads if self.decay == "head" else (layer.num_v_heads, layer.head_k_dim)
        gate = calls.gates(a.reshape(1, -1, *decays), b.reshape(1, -1, *heads), layer.A_log.view(heads), layer.dt_bias, bound,
                           raw=True)
        q, k, v = calls.packed(rows, layer.q_dim, layer.head_k_dim, layer.head_v_dim)
        return calls.delta(op, q, k, v, state, "v_major", gate, decay=self.decay, l2_norm=True,
                           state_slots=calls.indices(slots), cu_seqlens=calls.indices(starts), **more)


class LinearBackend(Launches, gdn_backend.GDNAttnBackend):
    """SGLang's backend of gated delta nets with attnc's launches."""

    def forward_decode(self, layer, forward_batch, mixed_qkv, a, b, **kwargs):
        """Runs steps(). mixed_qkv has packed rows of q, k and v, or is a tuple of two projections: q, k, v and z; b and
        a. Returns the output, or in the second case (output, z)."""
        if not isinstance(mixed_qkv, tuple):
            return self.steps(layer, forward_batch, mixed_qkv, a, b)
        rows, z, b, a = gdn_backend.fused_qkvzba_split_reshape_cat_contiguous(
            *mixed_qkv, layer.num_q_heads, layer.num_v_heads, layer.head_q_dim, layer.head_v_dim)
        return self.steps(layer, forward_batch, rows, a, b), z

    def forward_extend(self, layer, forward_batch, mixed_qkv, a, b, **kwargs):
        """Runs prompts()."""
        if self.mis_metadata is not None:
            raise NotServed("attn", "several items of a prompt in a hybrid model")
        return self.prompts(layer, forward_batch, mixed_qkv, a, b)


class KdaBackend(Launches, kda_backend.KDAAttnBackend):
    """SGLang's backend of KDA layers with attnc's launches."""
    decay, dense_windows = "channel", True

    def windows(self, cache):
        """Returns the windows as a view [slots, channels, taps - 1]. In SGLang's tensor the channels are last."""
        return cache.conv[0].transpose(-1, -2)

    def draft_windows(self, cache):
        """Returns the windows after drafts as a view [rows, drafts, channels, taps - 1]. In SGLang's tensor the
        channels are last."""
        return cache.intermediate_conv_window[0].transpose(-1, -2)

    def activation(self, layer):
        """Returns "silu": KDA layers have no other activation."""
        return "silu"

    def forward_decode(self, layer, forward_batch, mixed_qkv, a, b, **kwargs):
        """Runs steps(). a is [tokens, heads * K], b [1, tokens, heads]."""
        if getattr(layer, "_k3_deferred_f_b", False):
            raise NotServed("attn", "a product of the gate that Kimi-K3 leaves to the backend")
        return self.steps(layer, forward_batch, mixed_qkv, a, b)

    def forward_extend(self, layer, forward_batch, mixed_qkv, a, b, **kwargs):
        """Runs prompts(). a is [1, tokens, heads, K], b [1, tokens, heads]."""
        if self.prefill_graph_metadata is not None:
            raise NotServed("attn", "captured graphs of prompts in a hybrid model")
        return self.prompts(layer, forward_batch, mixed_qkv, a, b)
