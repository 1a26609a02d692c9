# SPDX-License-Identifier: Apache-2.0
"""Prepares vLLM for its own tests as on an AMD GPU: the platform is ROCm's, and `aiter` is attn.aiter."""
import os
import sys

import hipsim
import torch
from attn import _native


def use_triton(target):
    """Makes Triton use the simulated GPU, for vLLM's kernels that are not attention. It is called before
    simulated_cuda.install(), and before anything loads the simulator."""
    os.environ["HIPSIM_LIBRARY"] = _native.simulator_path()
    hipsim.use(target=target)


def install(target, tests):
    """Makes ROCm the platform of vLLM in this process, and `tests`, a folder, importable as vLLM's package of that
    name. It is called after simulated_cuda.install(), since vllm.platforms.rocm reads the GPU's name from PyTorch. It
    is called after op_session.install(), since vLLM looks for `aiter` at its import."""
    sys.path.insert(0, os.path.dirname(tests))
    os.environ["VLLM_ROCM_USE_AITER"] = "1"
    torch.version.hip = "7.0"
    import vllm.platforms
    from vllm.platforms import rocm
    rocm.RocmPlatform.dispatch_key = "CPU"  # dispatch key of vLLM's operators, whose tensors are in the host's memory
    vllm.platforms._current_platform = rocm.RocmPlatform()  # pylint: disable=protected-access
    from vllm._aiter_ops import is_aiter_found_and_supported
    if not is_aiter_found_and_supported():
        sys.exit(f"vLLM does not take attn.aiter for AITER on {target}")
