# SPDX-License-Identifier: Apache-2.0
"""SGLang's attention on attnc's kernels, as a plugin that SGLang finds by the entry points of the package attn.

register() adds the backend "attn", which `--attention-backend attn` chooses. Where the environment has ATTN_HIP=sim,
platform() gives SGLang a platform whose device is the CPU and whose attention runs on the simulated GPU. docs/engines.md has
versions, options and limits."""
import os

from attn import _engine


def platform():
    """Entry point of sglang.srt.platforms: the class of the simulated platform, or None where there may be a GPU."""
    return "attn.sglang._simulated.Platform" if os.environ.get("ATTN_HIP") == "sim" else None


def register():
    """Entry point of sglang.srt.plugins: adds the backend. SGLang calls it in each process."""
    _engine.serve_aiter()
    from sglang.srt.arg_groups.choices import ATTENTION_BACKEND_CHOICES
    from sglang.srt.layers.attention.attention_registry import register_attention_backend
    if "attn" not in ATTENTION_BACKEND_CHOICES:
        ATTENTION_BACKEND_CHOICES.append("attn")

    @register_attention_backend("attn")
    def make(runner):
        from attn.sglang._backend import Backend
        from attn.sglang._latent import LatentBackend
        return LatentBackend(runner) if runner.use_mla_backend else Backend(runner)

    from sglang.srt.models.deepseek_common import attention_backend_handler as handler
    handler.AttentionBackendRegistry.register("attn", lambda layer, batch: handler.AttnForwardMethod.MLA)
