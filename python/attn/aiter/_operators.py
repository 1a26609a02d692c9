# SPDX-License-Identifier: Apache-2.0
"""torch.ops.aiter.NAME for the calls that engines make as operators. They are defined in the namespace attn_aiter, with
schemas and meta kernels, and assigned to the names in torch.ops.aiter. So an installed AITER may define its own
operators, before or after, and uninstall() restores the names."""
import sys

from attn.aiter._modules import OPERATORS

SCHEMAS = {
    "pa_decode_gluon": "(Tensor(a0!) output, Tensor query, Tensor key_cache, Tensor value_cache, Tensor context_lengths, "
    "Tensor block_tables, float softmax_scale, int query_length, int max_context_partition_num, "
    "int context_partition_size=256, ScalarType? compute_type=None, Tensor? query_scale=None, Tensor? key_scale=None, "
    "Tensor? value_scale=None, Tensor? exp_sums=None, Tensor? max_logits=None, Tensor? temporary_output=None, "
    "Tensor? alibi_slopes=None, Tensor? sinks=None, int sliding_window=0, bool ps=True) -> ()",
    "paged_attention_ragged": "(Tensor(a0!) out, Tensor workspace_buffer, Tensor query, Tensor key_cache, Tensor value_cache, "
    "float scale, Tensor kv_indptr, Tensor kv_page_indices, Tensor kv_last_page_lens, int block_size, "
    "int max_num_partitions, Tensor? alibi_slopes, str kv_cache_dtype, str kv_cache_layout, float logits_soft_cap, "
    "Tensor k_scale, Tensor v_scale, Tensor? fp8_out_scale=None, int partition_size=256, int mtp=1) -> ()",
    "paged_attention_v1": "(Tensor(a0!) out, Tensor workspace_buffer, Tensor query, Tensor key_cache, Tensor value_cache, "
    "float scale, Tensor block_tables, Tensor? cu_query_lens, Tensor context_lens, int max_context_len, "
    "Tensor? alibi_slopes, str kv_cache_dtype, str kv_cache_layout, float logits_soft_cap, Tensor k_scale, "
    "Tensor v_scale, Tensor? fp8_out_scale=None, int partition_size=256, int mtp=1, int sliding_window=0) -> ()",
}
assert set(SCHEMAS) == set(OPERATORS)

_library = None  # torch.library.Library of attn_aiter, once defined; None before
_before = None  # {name: the operator that torch.ops.aiter had, or None} while attn's are assigned; else None


def _define(torch):
    """Defines the operators. Each calls the function of the same name in attn.aiter."""
    global _library
    import attn.aiter as calls
    _library = torch.library.Library("attn_aiter", "DEF")
    for name, schema in SCHEMAS.items():
        def launch(*args, _call=getattr(calls, name), **kwargs):
            _call(*args, **kwargs)

        def meta(*args, **kwargs):
            pass
        _library.define(name + schema)
        for key in ("CPU", "CUDA"):
            _library.impl(name, launch, key)
        _library.impl(name, meta, "Meta")
        if torch.__version__.startswith("1."):  # torch 1's dispatcher does not fall through this key
            _library.impl(name, meta, "AutogradMeta")


def register():
    """Assigns the operators to names in torch.ops.aiter. Does nothing before torch is imported."""
    global _before
    torch = sys.modules.get("torch")
    if torch is None or _before is not None or not hasattr(torch, "library"):
        return
    if _library is None:
        _define(torch)
    place = torch.ops.aiter
    _before = {name: vars(place).get(name) for name in SCHEMAS}
    for name in SCHEMAS:
        setattr(place, name, getattr(torch.ops.attn_aiter, name))


def forget():
    """Restores the names in torch.ops.aiter."""
    global _before
    if _before is None:
        return
    torch = sys.modules["torch"]
    place = torch.ops.aiter
    for name, was in _before.items():
        if vars(place).get(name) is getattr(torch.ops.attn_aiter, name):
            delattr(place, name)
            if was is not None:
                setattr(place, name, was)
    _before = None
