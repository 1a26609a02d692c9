# SPDX-License-Identifier: Apache-2.0
"""SGLang's attention on attnc's kernels, as a plugin that SGLang finds by the entry points of the package attn.

register() adds the backend "attn", which `--attention-backend attn` chooses. Where the environment has ATTN_HIP=sim,
platform() gives SGLang a platform whose device is the CPU and whose attention runs on the simulated GPU. docs/engines.md has
versions, options and limits."""
import functools
import os

from attn import _engine


def platform():
    """Entry point of sglang.srt.platforms. Returns the path of the simulated platform's class, or None unless ATTN_HIP
    is sim."""
    return "attn.sglang._simulated.Platform" if os.environ.get("ATTN_HIP") == "sim" else None


def refresh_after(updater):
    """Makes the methods update_weights_from_*() and load_weights_from_*() of SGLang's class `updater` refresh copies of
    weights when they end."""
    for name in dir(updater):
        plain = getattr(updater, name)
        if name.startswith(("update_weights_from_", "load_weights_from_")) and not hasattr(plain, "refreshes"):
            setattr(updater, name, refreshing(plain))


def refreshing(plain):
    """Returns a function that calls `plain`, then updates attn's copies of weights, and returns plain's result."""
    from attn.aiter import _common

    @functools.wraps(plain)
    def update(*args, **more):
        result = plain(*args, **more)
        _common.refresh_copies()
        return result

    update.refreshes = True
    return update


def register():
    """Entry point of sglang.srt.plugins, which SGLang calls in each process. Adds the backend "attn"."""
    _engine.serve_aiter()
    from sglang.srt.arg_groups.choices import ATTENTION_BACKEND_CHOICES
    from sglang.srt.configs.model_config import is_deepseek_dsa
    from sglang.srt.layers.attention.attention_registry import register_attention_backend
    if "attn" not in ATTENTION_BACKEND_CHOICES:
        ATTENTION_BACKEND_CHOICES.append("attn")

    def linear_kernels(runner):
        """Replaces the class of SGLang's next backend for gated delta nets, KDA or Mamba2 layers by attn's. Returns the
        entries of a description for these layers; an empty list if the model has none."""
        from sglang.srt.configs.hybrid_arch import hybrid_gdn_config, hybrid_kda_config, mamba2_config
        config = runner.model_config
        if hybrid_gdn_config(config) is not None:
            from attn.sglang import _linear
            _linear.gdn_backend.GDNAttnBackend = _linear.LinearBackend
            return _linear.kernels(runner)
        if hybrid_kda_config(config) is not None:
            from attn.sglang import _linear
            _linear.kda_backend.KDAAttnBackend = _linear.KdaBackend
            return _linear.kernels(runner, "channel")
        if mamba2_config(config) is not None:
            from attn.sglang import _mamba
            _mamba.hybrid.Mamba2AttnBackend = _mamba.MambaBackend
            return _mamba.kernels(runner)
        return []

    @register_attention_backend("attn")
    def make(runner):
        from attn.sglang._backend import Backend
        from attn.sglang._latent import LatentBackend
        if runner.use_mla_backend and is_deepseek_dsa(runner.model_config.hf_text_config):
            from attn.sglang._sparse import SparseBackend
            return SparseBackend(runner)
        if runner.use_mla_backend:
            return LatentBackend(runner, linear_kernels(runner))
        return Backend(runner, linear_kernels(runner))

    from attn.sglang import _drafts
    _drafts.install(make)
    from sglang.srt.model_executor.model_runner_components.weight_updater import WeightUpdater
    refresh_after(WeightUpdater)
    if platform():
        from attn.sglang import _simulated
        _simulated.take_trees()
    from sglang.srt.models.deepseek_common import attention_backend_handler as handler
    handler.AttentionBackendRegistry.register("attn", lambda layer, batch: handler.AttnForwardMethod.MLA)
