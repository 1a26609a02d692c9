#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""op_tests.py BUILD FOLDER [--aiter CHECKOUT] [--target GFX] [--write] [FILE]...: AITER's own tests of the calls that attn.aiter
serves, on the simulated GPU.

FOLDER has the environment that prepare.sh makes. AITER's sources are in CHECKOUT, by default FOLDER/aiter. The tests
are AITER's files without changes: `aiter` is attn.aiter, tensors of "cuda" are in the host's memory
(simulated_cuda.py), and a kernel is compiled when a call needs it (op_session.py). The table below limits the number of
cases of each function; they are chosen evenly among cases with small shapes. op_tests.txt has the results, and why each
refused case is refused. The program fails if a case is wrong or the text differs; --write writes it. FILEs choose
rows."""
import sys

import own_tests
from own_tests import row, script

COMMIT = "e4048607a5"  # AITER's commit whose results op_tests.txt has
ATTENTION = "triton_tests/attention/"
ROWS = {
    "gfx942": [
        row(ATTENTION + "test_mha.py", "test_mha test_mha_varlen test_mha_with_dropout", most=130, cases=48, BATCH=4,
            NUM_Q_HEADS=8),
        row(ATTENTION + "test_mha_with_sink.py", "test_mha_with_sink test_mha_varlen_with_sink test_mha_with_sink_sliding_window",
            cases=36),
        row(ATTENTION + "test_mha_v3.py", "test_flash_attn_kvcache test_flash_attn_kvcache_sliding_window "
            "test_flash_attn_kvcache_noncontiguous_paged test_mha_fp8 test_mha_varlen_fp8", cases=12),
        row(ATTENTION + "test_mha_with_pe.py", "test_mha_with_pe test_mha_varlen_with_pe", most=200, leave="True",
            NUM_Q_HEADS=8),
        row(ATTENTION + "test_extend_attention.py", "test_op_fwd", most=2000),
        row(ATTENTION + "test_fp8_mqa_logits.py", "test_fp8_mqa_logits", most=600, cases=40),
        row(ATTENTION + "test_unified_attention.py", "test_triton_unified_attn", most=2048, cases=12, leave=r"\[True", head_size=128,
            block_size=16),
        row(ATTENTION + "test_unified_attention_sparse_mla.py", "test_triton_unified_attn", most=2000),
        row("triton_tests/fusions/test_fused_kv_cache.py", "test_fused_qk_rope_cat_and_cache_mla "
            "test_fused_qk_rope_reshape_and_cache", most=17000, T=8),
        row("triton_tests/test_kv_cache.py", "test_cat_and_cache_mla", most=17000, T=8),
        row("triton_tests/rope/test_rope.py", "test_rope_sbhd_fwd test_rope_thd_fwd test_rope_fwd_cached", cases=6),
        row("triton_tests/rope/test_fused_qkv_split_qk_rope.py", "test_fused_qkv_split_qk_rope_with_cache", most=131072),
        script("test_concat_cache_mla.py", "-t", "4", "128", "-hd", "2", "8", "-c", "normal"),
        row("test_pa_ragged.py", "test_paged_attention", most=130, num_seqs=3, leave="quant_cache_dtype"),
        script("test_pa_ps.py", "-n", "10,1", "16,2", "-q", "1", "4", "-c", "7", "282", "-b", "3"),
        script("test_mla.py", "-c", "21", "-b", "3", "-n", "16,1", "16,2"),
        script("test_mla_persistent.py", "-c", "21", "64", "-b", "3", "-n", "16,1", "16,2",
               # the comparisons that the script prints use unrounded caches and AITER's own partial results
               strict=False),
        script("test_fused_qk_norm_rope_cache_quant.py", "-t", "3", "127", "-hd", "4,1", "-hs", "64", "128"),
        script("test_indexer_k_quant_and_cache.py", "-m", "1", "64"),
    ],
    "gfx950": [
        row(ATTENTION + "test_unified_attention.py", "test_triton_unified_attn", most=2048, cases=6, leave=r"\[True",
            head_size=128, block_size=16),
    ],
}
SUITE = own_tests.Suite(own_tests.HERE / "op_tests.txt", ROWS, "aiter", "op_tests")

if __name__ == "__main__":
    sys.exit(own_tests.main(SUITE, __doc__))
