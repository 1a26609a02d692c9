# SPDX-License-Identifier: Apache-2.0
"""vLLM's layer of Mamba2 (Bamba, Granite-4, Nemotron-H, Zamba 2) on attnc's kernels, for the attention backend ATTN.

vLLM plans the steps itself (MAMBA2_ATTN) and keeps the states. A layer launches the convolution and the recurrence, once for
decode steps and drafts, and once for prompts. Slot 0 is vLLM's null block, which the kernels treat as padding."""
import torch
from vllm.config import get_current_vllm_config
from vllm.forward_context import get_forward_context
from vllm.model_executor.custom_op import PluggableLayer
from vllm.model_executor.layers.mamba.abstract import MambaBase
from vllm.model_executor.layers.mamba.mamba_mixer2 import MambaMixer2
from vllm.model_executor.layers.mamba.mamba_utils import is_conv_state_dim_first

from attn import _engine
from attn.aiter import NotServed
from attn.linear import _calls as calls
from attn.linear._mamba import Core, Parameters
from attn.vllm import _common
from attn.vllm._linear import FIRST_SLOT, flags


@PluggableLayer.register_oot(name="MambaMixer2")
class Mixer(MambaMixer2):
    """vLLM's Mamba2 layer, whose core runs attnc's kernels if the attention backend is ATTN, else vLLM's."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        config = get_current_vllm_config()
        self.config, self.session = config, None
        self.ours = getattr(config.attention_config.backend, "name", None) == "ATTN"
        if not self.ours:
            return
        if self.use_replayssm:
            raise NotServed("ATTN", "records of drafts in place of states (ReplaySSM)")
        state_dtype = self.get_state_dtype()[1]
        self.mamba_kind = _engine.MambaKind(
            dtype=_common.dtype_name(torch.get_default_dtype()), taps=self.conv_kernel_size, state=self.ssm_state_size,
            head_dim=self.head_dim, state_dtype="f32" if state_dtype == torch.float32 else _common.dtype_name(state_dtype),
            act=calls.act("ATTN", self.activation), bias=self.conv1d.bias is not None)
        self.core = Core("ATTN", self.mamba_kind, self.tped_dt_size, self.n_groups // self.tp_size, self.activation,
                         FIRST_SLOT)

    def kernels(self):
        """Returns the entries of a description that the layer needs; an empty list if vLLM's kernels run it."""
        return _engine.mamba_kernels([self.mamba_kind]) if self.ours else []

    def get_kv_cache_spec(self, vllm_config):
        """Describes the layer's states. vLLM's own kernels can store states at tokens inside a chunk of a prompt,
        attnc's cannot. The specification says so, and vLLM ends chunks at these tokens."""
        return MambaBase.get_kv_cache_spec(self, vllm_config) if self.ours else super().get_kv_cache_spec(vllm_config)

    def conv_ssm_forward(self, projected_states, output):
        """Writes the outputs of a step's tokens, [tokens, heads * P]. Each row of projected_states has a token's gates,
        then x, B and C, then time steps."""
        if not self.ours:
            return super().conv_ssm_forward(projected_states, output)
        steps = get_forward_context().attn_metadata
        if not isinstance(steps, dict) or self.prefix not in steps:  # vLLM's run that measures memory has no step
            return None
        if self.session is None:  # in a model without attention nothing else has opened the device
            self.session = _common.session(self.config, projected_states.device)
        step, first = steps[self.prefix], self.tped_intermediate_size
        rows = projected_states[:, first:first + self.tped_conv_size]
        dt = projected_states[:, first + self.tped_conv_size:first + self.tped_conv_size + self.tped_dt_size]
        split, end = step.num_decode_tokens, step.num_decode_tokens + step.num_prefill_tokens
        if step.num_decodes:
            self.decode(step, rows[:split], dt[:split], output[:split])
        if step.num_prefills:
            self.prefill(step, rows[split:end], dt[split:end], output[split:end])
        return None

    def decode(self, step, rows, dt, out):
        """Runs sequences of one token, or of one token and drafts. Each token has a slot for the state after it."""
        self.core.decode(self.weights(), rows, dt, out, self.windows(), self.kv_cache[1], step.state_indices_tensor_d,
                         step.query_start_loc_d, step.num_accepted_tokens)

    def prefill(self, step, rows, dt, out):
        """Runs prompts, or chunks of them."""
        self.core.prefill(self.weights(), rows, dt, out, self.windows(), self.kv_cache[1], step.state_indices_tensor_p,
                          step.query_start_loc_p, flags(step.has_initial_states_p))

    def windows(self):
        """Returns the convolution's states [slots, channels, taps - 1]."""
        return self.kv_cache[0] if is_conv_state_dim_first() else self.kv_cache[0].transpose(-1, -2)

    def weights(self):
        """Returns the Parameters of the launches."""
        return Parameters(self.conv_weights, self.conv1d.bias, self.A, self.D, self.dt_bias)
