# SPDX-License-Identifier: Apache-2.0
"""SGLang's backend for the Mamba2 layers of hybrid models (Granite-4, Nemotron-H, Falcon-H1) on attnc's kernels, beside the
attention backend "attn".

SGLang plans the steps itself and keeps the states. A layer launches convolution and recurrence once for the prompts of a batch,
which come first, and once for its decode steps. Then it launches the gated norm. SGLang computes the projections."""
import torch
from sglang.srt.layers.attention import hybrid_linear_attn_backend as hybrid
from sglang.srt.layers.attention.mamba.mamba import MambaMixer2

from attn import _engine
from attn.aiter import NotServed
from attn.linear import _calls as calls
from attn.linear import sglang as calls_of_sglang
from attn.linear._mamba import Core, Parameters
from attn.sglang._backend import drafts_of
from attn.sglang._linear import DTYPES, parents_of

WIDEST = 8192  # largest width, in elements, of a group that gated_rmsnorm takes


def mixers(runner):
    """Returns the Mamba2 layers of a model."""
    return [module for module in runner.model.modules() if isinstance(module, MambaMixer2)]


def kind_of(mixer, dtype, state_dtype):
    """Returns the MambaKind of a layer."""
    return _engine.MambaKind(
        dtype=DTYPES[dtype], taps=mixer.conv1d.weight.shape[-1], state=mixer.ssm_state_size, head_dim=mixer.head_dim,
        state_dtype=DTYPES[state_dtype], act=calls.act("attn", mixer.activation), bias=mixer.conv1d.bias is not None)


def norms_here(norm):
    """True if a kernel computes a gated norm on this rank: no group lies over several ranks, and kernels take the width."""
    return norm.use_rms_norm and norm.n_groups % norm.tp_size == 0 and norm.group_size % 32 == 0 and norm.group_size <= WIDEST


def kernels(runner):
    """Returns the entries of a description for the Mamba2 layers of a model; an empty list if it has none."""
    layers = mixers(runner)
    if not layers:
        return []
    state = runner.req_to_token_pool.mamba_pool.mamba_cache.temporal
    widths = {layer.norm.group_size for layer in layers if norms_here(layer.norm)}
    return _engine.mamba_kernels([kind_of(layer, runner.dtype, state.dtype) for layer in layers], trees=drafts_of()[0] > 1) + [
        norm_kernel(DTYPES[runner.dtype], width) for width in sorted(widths)]


def norm_kernel(dtype, width):
    """Returns the entry of a description for gated norms of groups of `width` elements."""
    return {"op": "gated_rmsnorm", "dtype": dtype, "width": width, "act": "silu_first"}


def parts(mixer, rows, states):
    """Returns (Core, Parameters) of a layer, for the element types of the tensors `rows` and `states`."""
    heads, weight = mixer.num_heads // mixer.tp_size, mixer.conv1d.weight
    core = Core("attn", kind_of(mixer, rows.dtype, states.dtype), heads, mixer.n_groups // mixer.tp_size, mixer.activation, 0)
    return core, Parameters(weight.view(weight.shape[0], -1), mixer.conv1d.bias, mixer.A, mixer.D, mixer.dt_bias)


class MambaBackend(hybrid.Mamba2AttnBackend):
    """SGLang's backend of Mamba2 layers with attnc's launches. Slots below 0 are padding."""

    def forward(self, mixer, hidden_states, output, layer_id, forward_batch, mup_vector=None, use_triton_causal_conv=False):
        """Runs a layer on hidden_states [tokens, hidden]. Returns its output, which is written to `output` too unless that
        is None. Layers of Mamba1 run by SGLang's kernels."""
        if not isinstance(mixer, MambaMixer2):
            return super().forward(mixer, hidden_states, output, layer_id, forward_batch, mup_vector, use_triton_causal_conv)
        step, cache = self.forward_metadata, self.req_to_token_pool.mamba2_layer_cache(layer_id)
        if step.has_mamba_track_mask and step.num_prefills:
            raise NotServed("attn", "states at the boundaries of chunks, which a prefix cache of states keeps")
        projected = mixer.in_proj(hidden_states)[0]
        if mup_vector is not None:
            projected = projected * mup_vector
        widths = [n // mixer.tp_size for n in (mixer.intermediate_size, mixer.conv_dim, mixer.num_heads)]
        gate, rows, dt = projected.split(widths, dim=-1)
        verifies = step.is_target_verify and step.num_decodes
        made = self.drafts(mixer, cache, rows, dt) if verifies else self.core(mixer, step, cache, rows, dt)
        if step.num_decodes and forward_batch.mamba_track_mask is not None:
            self.track(step, cache, forward_batch.mamba_track_mask)
        made = mixer.out_proj(self.norm(mixer.norm, made, gate))[0]
        if output is not None:
            output[:made.shape[0]].copy_(made)
        return made

    @staticmethod
    def core(mixer, step, cache, rows, dt):
        """Returns the recurrence over rows [tokens, channels] of the step, [tokens, heads * P]. Rows of padding are 0."""
        prompts, tokens = step.num_prefills, step.num_prefill_tokens
        end, slots = tokens + step.num_decodes, step.mamba_cache_indices
        out = rows.new_empty(rows.shape[0], dt.shape[1] * mixer.head_dim)
        out[end:].zero_()
        core, given = parts(mixer, rows, cache.temporal)
        if prompts:
            core.prefill(given, rows[:tokens], dt[:tokens], out[:tokens], cache.conv[0], cache.temporal, slots[:prompts],
                         step.query_start_loc[:prompts + 1], step.mixed_metadata.has_initial_states[:prompts].view(torch.uint8))
        if step.num_decodes:
            core.decode(given, rows[tokens:end], dt[tokens:end], out[tokens:end], cache.conv[0], cache.temporal,
                        slots[prompts:prompts + step.num_decodes, None])
        return out

    def drafts(self, mixer, cache, rows, dt):
        """Returns the recurrence's output for sequences that verify equally many drafts, chains or trees. The window
        and the state after each draft go to SGLang's memory for drafts."""
        step = self.forward_metadata
        count = step.draft_token_num
        slots = step.mamba_cache_indices[:step.num_decodes]
        # the rows of the memory for drafts from which SGLang copies accepted states
        places = torch.arange(slots.shape[0], dtype=torch.int32, device=slots.device)
        parents, tokens = parents_of(step, mixer), slots.shape[0] * count
        core, given = parts(mixer, rows, cache.temporal)
        convolved = calls_of_sglang.causal_conv1d_update(
            calls.aligned(rows[:tokens]).view(slots.shape[0], count, -1).transpose(1, 2), cache.conv[0], given.weight, given.bias,
            mixer.activation, conv_state_indices=slots, intermediate_conv_window=cache.intermediate_conv_window[0],
            intermediate_state_indices=places, retrieve_parent_token=parents)
        out = rows.new_empty(rows.shape[0], dt.shape[1] * mixer.head_dim)
        out[tokens:].zero_()
        states, own = cache.intermediate_ssm, places[:, None] * cache.intermediate_ssm.shape[1]
        states[places.long(), 0] = cache.temporal[slots.clamp(min=0).long()]
        columns = torch.where(slots[:, None] >= 0, own + torch.arange(count, dtype=own.dtype, device=own.device), -1)
        core.recur(given, convolved.transpose(1, 2).reshape(tokens, -1), dt[:tokens], out[:tokens],
                   states.view(-1, *states.shape[2:]), columns, None if parents is None else parents.view(-1),
                   state_slots_in=calls.indices(columns), cu_seqlens=calls.indices(step.query_start_loc[:slots.shape[0] + 1]))
        return out

    @staticmethod
    def norm(norm, made, gate):
        """Returns a layer's gated norm of rows [tokens, heads * P]. If a group lies over several ranks, SGLang's code
        computes the norm."""
        if not norms_here(norm):
            return norm(made, gate).to(made.dtype)
        return calls.norm("attn", made, calls.aligned(gate), calls.typed(norm, "weight", made), None, norm.variance_epsilon,
                          norm.group_size, "silu_first", False)

    def track(self, step, cache, mask):
        """Copies states of decode steps to slots that SGLang's prefix cache keeps, for the sequences that `mask`
        selects."""
        n = step.num_decodes
        hybrid.track_mamba_states_if_needed(cache.conv[0], cache.temporal, step.mamba_cache_indices[-n:], mask[-n:],
                                            step.mamba_track_indices[-n:], n, check_freed_slots=self.enable_unified_memory)
