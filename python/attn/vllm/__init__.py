# SPDX-License-Identifier: Apache-2.0
"""vLLM's attention on attnc's kernels, as a plugin that vLLM finds by the entry points of the package attn.

register() adds the backends ATTN (heads with keys and values), ATTN_MLA (latent attention) and ATTN_MLA_SPARSE (latent
attention to chosen keys). Option `--attention-backend` names the one to use. Where the environment has ATTN_HIP=sim,
platform() gives vLLM a platform whose device is the CPU and whose attention runs on the simulated GPU. docs/engines.md
has versions, options and limits."""
import os

from attn import _engine

BACKENDS = {"ATTN": "attn.vllm._backend.Backend", "ATTN_MLA": "attn.vllm._mla.Backend",
            "ATTN_MLA_SPARSE": "attn.vllm._sparse.Backend"}


def platform():
    """Entry point of vllm.platform_plugins. Returns the path of the simulated platform's class, or None unless ATTN_HIP
    is sim."""
    _engine.serve_aiter()
    return "attn.vllm._simulated.Platform" if os.environ.get("ATTN_HIP") == "sim" else None


def register():
    """Entry point of vllm.general_plugins, which vLLM calls in each process, at times more than once. Adds the
    backends."""
    from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend
    for name, path in BACKENDS.items():
        if name not in AttentionBackendEnum.__members__:
            register_backend(name, path)
    from attn.vllm import _linear, _mamba
    if os.environ.get("ATTN_HIP") == "sim":
        from attn.vllm import _operators, _simulated
        _operators.define()
        _simulated.take_models()
