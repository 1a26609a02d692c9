# SPDX-License-Identifier: Apache-2.0
"""vLLM as it is on an AMD GPU, for vLLM's own tests: its platform is ROCm's, and `aiter` is attn.aiter."""
import os
import sys

import hipsim
import torch


def use_triton(target):
    """Makes the simulated GPU Triton's, for vLLM's kernels that are not attention. Call it before simulated_cuda.install(),
    whose tensors are the host's, and before anything loads the simulator."""
    os.environ["HIPSIM_LIBRARY"] = os.environ["ATTN_HIPSIM"]
    hipsim.use(target=target)


def install(target, tests):
    """Makes ROCm the platform of vLLM in this process, and `tests`, a folder, importable as vLLM's package of that name. Call it
    after simulated_cuda.install() and op_session.install(): vllm.platforms.rocm reads the GPU's name from PyTorch. vLLM looks for
    `aiter` when it is imported."""
    sys.path.insert(0, os.path.dirname(tests))
    os.environ["VLLM_ROCM_USE_AITER"] = "1"
    torch.version.hip = "7.0"
    import vllm.platforms
    from vllm.platforms import rocm
    rocm.RocmPlatform.dispatch_key = "CPU"  # of vLLM's operators: tensors are the host's
    vllm.platforms._current_platform = rocm.RocmPlatform()  # pylint: disable=protected-access
    from vllm._aiter_ops import is_aiter_found_and_supported
    if not is_aiter_found_and_supported():
        sys.exit(f"vLLM does not take attn.aiter for AITER on {target}")
