# SPDX-License-Identifier: Apache-2.0
"""vLLM's layers of gated delta nets (Qwen3-Next, Qwen3.5) and of KDA (Kimi Linear) on attnc's kernels, for the attention
backends ATTN and ATTN_MLA.

vLLM plans the steps itself (GDN_ATTN) and keeps the states; a layer launches the convolution and then the recurrence,
each once for decode steps, drafts, and prompts. Slot 0 is vLLM's null block, which the kernels treat as padding."""
import torch
from vllm.compilation.breakable_cudagraph import eager_break_during_capture
from vllm.forward_context import get_forward_context
from vllm.model_executor.custom_op import PluggableLayer
from vllm.model_executor.layers.mamba.gdn.kimi_gdn_linear_attn import KimiGatedDeltaNetAttention
from vllm.model_executor.layers.mamba.gdn.qwen_gdn_linear_attn import QwenGatedDeltaNetAttention
from vllm.model_executor.layers.mamba.mamba_utils import is_conv_state_dim_first

from attn import _engine
from attn.aiter import NotServed
from attn.linear import _calls as calls
from attn.vllm import _common

FIRST_SLOT = 1  # smallest slot with a state; slot 0 is vLLM's null block


class Layer:
    """Base of both kinds of layers, with their launches. A gated delta net has a decay for each head, a KDA layer one
    for each element of a key."""
    ours, session, decay, lower_bound = False, None, "head", None

    def serve(self, vllm_config, backends, key_width, key_dim, value_dim, **kind):
        """Makes the layer run on attnc's kernels if the attention backend is one of `backends`. key_width: elements of
        a token's keys of all heads on this rank. key_dim and value_dim: elements of a head. `kind` has further fields
        of a LinearKind."""
        self.ours = getattr(vllm_config.attention_config.backend, "name", None) in backends
        if not self.ours:
            return
        if vllm_config.cache_config.use_replayssm:
            raise NotServed("ATTN", "records of drafts in place of states (ReplaySSM)")
        state_dtype, self.config_of_engine = self.get_state_dtype()[1], vllm_config
        self.widths = key_width, key_dim, value_dim
        self.linear_kind = _engine.LinearKind(
            dtype=_common.dtype_name(torch.get_default_dtype()), head_dim=key_dim, head_dim_v=value_dim,
            state_dtype="f32" if state_dtype == torch.float32 else _common.dtype_name(state_dtype), **kind)

    def kernels(self):
        """Returns the entries of a description that the layer needs; an empty list if vLLM's kernels run it."""
        return _engine.linear_kernels([self.linear_kind]) if self.ours else []

    def run(self, rows, a, b, out):
        """Writes the outputs of a step's tokens, [tokens, value heads, V]. `rows` has packed q, k and v; a and b are the
        logits of the decays and of beta, [tokens, value heads]. Returns False in a run that measures memory, which has no step."""
        steps = get_forward_context().attn_metadata
        if not isinstance(steps, dict) or self.prefix not in steps:
            return False
        if self.session is None:  # in a model without attention nothing else has opened the device
            self.session = _common.session(self.config_of_engine, rows.device)
        step, n = steps[self.prefix], steps[self.prefix].num_actual_tokens
        rows, a, b, out = rows[:n], a[:n], b[:n], out[:n]
        if step.spec_sequence_masks is None:
            self.others(step, rows, a, b, out)
        elif not step.num_prefills and not step.num_decodes:
            self.drafts(step, rows, a, b, out)
        else:
            for places, run in ((step.spec_token_indx, self.drafts), (step.non_spec_token_indx, self.others)):
                made = out.new_empty(len(places), *out.shape[1:])
                run(step, rows[places], a[places], b[places], made)
                out[places] = made
        return True

    def drafts(self, step, rows, a, b, out):
        """Runs sequences that verify drafts. Each token has a slot for the state after it."""
        count = step.num_spec_decodes
        slots, starts = step.spec_state_indices_tensor[:count], step.spec_query_start_loc[:count + 1]
        accepted = step.num_accepted_tokens[:count]
        rows = self.convolve(rows, slots[:, 0].contiguous(), starts, accepted=accepted, max_seqlen=slots.shape[1])
        self.recur("gated_delta", rows, a, b, out, slots, starts, accepted=accepted, max_seqlen=slots.shape[1])

    def others(self, step, rows, a, b, out):
        """Runs sequences without drafts. Decode steps of one token come first in a batch, then prompts and chunks of
        prompts."""
        starts, slots = step.non_spec_query_start_loc, step.non_spec_state_indices_tensor
        count = starts.shape[0] - 1 if step.num_prefills else step.num_decodes
        rows = self.convolve(rows, slots[:count], starts[:count + 1], has_state=flags(step.has_initial_state),
                             max_seqlen=rows.shape[0] if step.num_prefills else 1)
        split = step.num_decode_tokens if step.spec_sequence_masks is None or not step.num_prefills else 0
        if split:
            self.recur("gated_delta", rows[:split], a[:split], b[:split], out[:split], slots[:step.num_decodes, None],
                       starts[:step.num_decodes + 1], max_seqlen=1)
        if step.num_prefills:
            self.recur("gated_delta_prefill", rows[split:], a[split:], b[split:], out[split:],
                       step.prefill_state_indices, step.prefill_query_start_loc,
                       has_state=flags(step.prefill_has_initial_state), max_seqlen=rows.shape[0] - split)

    def convolve(self, rows, slots, starts, **more):
        """Returns the convolution of rows [tokens, channels] and updates the windows in the cache. `slots` has one slot
        for each sequence, or for each draft. `more` are further arguments of conv1d."""
        state = self.kv_cache[0] if is_conv_state_dim_first() else self.kv_cache[0].transpose(-1, -2)
        rows = calls.aligned(rows)
        weight, out = calls.typed(self.conv1d, "weight", rows), rows.new_empty(rows.shape)
        calls.convolve("ATTN", rows, weight.view(weight.shape[0], -1), self.conv1d.bias, state, calls.indices(slots),
                       self.linear_kind.act, FIRST_SLOT, cu_seqlens=calls.indices(starts), out=out, **more)
        return out

    def recur(self, op, rows, a, b, out, slots, starts, accepted=None, **more):
        """Launches `op`, a recurrence, over convolved rows of q, k and v, and writes out. `slots` are the slots of the
        states, `more` further arguments."""
        q, k, v = calls.packed(rows, *self.widths)
        gate = calls.gates(a[None], b[None], self.A_log, self.dt_bias, self.lower_bound, raw=True)
        calls.delta(op, q, k, v, self.kv_cache[1], "v_major", gate, decay=self.decay, l2_norm=True, out=out[None],
                    first_slot=FIRST_SLOT, state_slots=calls.indices(slots), cu_seqlens=calls.indices(starts),
                    **calls.there(accepted=calls.indices(accepted)), **calls.there(**more))


@PluggableLayer.register_oot(name="QwenGatedDeltaNetAttention")
class GatedDeltaNet(Layer, QwenGatedDeltaNetAttention):
    """vLLM's layer of a gated delta net, whose core runs attnc's kernels if the attention backend is ATTN, else
    vLLM's."""

    def __init__(self, config, vllm_config, *args, **kwargs):
        super().__init__(config, vllm_config, *args, **kwargs)
        self.serve(vllm_config, ("ATTN",), self.key_dim // self.tp_size, self.head_k_dim, self.head_v_dim,
                   taps=self.conv_kernel_size, act=calls.act("ATTN", self.activation))
        if self.ours:
            self._forward_method, self.enable_fused_gdn_spec_decode = self.forward_cuda, False

    def _forward_core(self, mixed_qkv, b, a, core_attn_out):
        """Writes the outputs of a step's tokens, [tokens, value heads, V], as run() does."""
        if not self.ours:
            return super()._forward_core(mixed_qkv, b, a, core_attn_out)
        self.run(mixed_qkv, a, b, core_attn_out)
        return None


@PluggableLayer.register_oot(name="KimiGatedDeltaNetAttention")
class KimiDeltaNet(Layer, KimiGatedDeltaNetAttention):
    """vLLM's KDA layer, whose core and gated norm run attnc's kernels if the attention backend is ATTN or ATTN_MLA,
    else vLLM's."""
    decay = "channel"

    def __init__(self, config, vllm_config, prefix=""):
        super().__init__(config, vllm_config, prefix)
        self.lower_bound = self.gate_lower_bound
        self.serve(vllm_config, ("ATTN", "ATTN_MLA"), self.local_projection_size, self.head_dim, self.head_dim,
                   taps=self.conv_size, act="silu", decay="channel",
                   gates="softplus" if self.lower_bound is None else "bounded")

    def kernels(self):
        """Returns the entries of a description that the layer needs; an empty list if vLLM's kernels run it."""
        norm = {"op": "gated_rmsnorm", "width": self.head_dim, "act": "sigmoid"}
        return super().kernels() + ([dict(norm, dtype=self.linear_kind.dtype)] if self.ours else [])

    @eager_break_during_capture
    def _forward(self, mixed_qkv, g1, g2, beta, core_attn_out):
        """Writes the normed and gated outputs of a step's tokens, [1, tokens, heads, D]. The inputs are logits: g1 [1,
        tokens, heads, D] of the decays, `beta` [1, tokens, heads] of beta, g2 [tokens, heads, D] of the output gate."""
        if not self.ours:
            return super()._forward(mixed_qkv, g1, g2, beta, core_attn_out)
        out = core_attn_out[0]
        if self.run(mixed_qkv, g1[0], beta[0], out):
            rows, norm = out.view(out.shape[0], -1), self.o_norm
            out.view(rows.shape).copy_(calls.norm(
                "ATTN", rows, calls.aligned(g2.reshape(rows.shape)), calls.typed(norm, "weight", rows), None, norm.eps,
                self.head_dim, "sigmoid", True))
        return None


def flags(x):
    """Returns a tensor of bool as bytes; None stays None."""
    return None if x is None else x.view(torch.uint8)
