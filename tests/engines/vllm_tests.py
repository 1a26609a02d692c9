#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""vllm_tests.py BUILD FOLDER [--aiter CHECKOUT] [--target GFX] [--write] [FILE]...: vLLM's own tests of its attention backends for
AMD GPUs, on the simulated GPU.

FOLDER has the environment that prepare.sh makes and the tests of vLLM's source archive, of the version that runs. The
tests are vLLM's files without changes: vLLM's platform is ROCm's (vllm_session.py), and `aiter` is attn.aiter as for
AITER's own tests (op_tests.py). Triton compiles kernels that are not attention for the simulated GPU. vllm_tests.txt
has the results of each function. The program fails if a case is wrong or the text differs; --write writes it. FILEs
choose rows."""
import sys

import own_tests
from own_tests import row

KERNELS, V1 = "kernels/attention/", "v1/attention/"
ROWS = {
    "gfx942": [row(KERNELS + f"test_rocm_aiter_{name}.py", most=5000, cases=6) for name in (
        "unified_attn", "fa", "mla_causal_verify_mask", "mla_decode", "mla_fp8_support", "mla_head_padding",
        "mla_sparse_index_remap")] + [row(V1 + f"test_{name}.py", most=5000, cases=6) for name in (
            "aiter_mla_uniform_mtp_qo_len", "rocm_aiter_mla_dcp_cprr", "rocm_aiter_mla_mtp_split", "rocm_aiter_mla_sparse",
            "rocm_mla_dcp_context")],
}
SUITE = own_tests.Suite(own_tests.HERE / "vllm_tests.txt", ROWS, "vllm", "vllm/tests")

if __name__ == "__main__":
    sys.exit(own_tests.main(SUITE, __doc__))
