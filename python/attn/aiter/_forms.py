# SPDX-License-Identifier: Apache-2.0
"""Calls of AITER's Triton modules that share a name with another module's call but differ in arguments or outputs.
install() puts them into their modules (FORMS in _modules.py)."""
from attn.aiter import _attention as a
from attn.aiter import _common as c
from attn.aiter import _mla, _paged
from attn.aiter._common import NotServed


def flash_attn_varlen_func(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p=0.0, softmax_scale=None,
                           causal=False, window_size=(-1, -1), bias=None, alibi_slopes=None, deterministic=False,
                           return_lse=False, return_attn_probs=False, block_table=None, out=None, sink=None, config=None):
    """Computes attention of packed sequences like attn.aiter.flash_attn_varlen_func(), but the LSE is a view [queries,
    heads]. `config` has no effect."""
    got = a.flash_attn_varlen_func(
        q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, 0, dropout_p, softmax_scale, 0.0, causal,
        window_size, bias, alibi_slopes, deterministic, return_lse, return_attn_probs, block_table=block_table, out=out,
        sink_ptr=sink)
    return (got[0], c.transpose(got[1])) if return_lse else got


def fused_qk_rmsnorm(q, q_weight, q_eps, k, k_weight, k_eps):
    """Returns the RMS norms of q and of k as new tensors. Older versions of AITER have this call in
    aiter.ops.fused_qk_norm_rope_cache_quant."""
    return _mla._fused_qk_rmsnorm(None, q, q_weight, q_eps, None, k, k_weight, k_eps)


def flash_attn_func(q, k, v, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), bias=None,
                    alibi_slopes=None, deterministic=True, return_lse=False, return_attn_probs=False, sink=None, config=None):
    """Computes attention of tensors [batch, length, heads, D], sequences of equal length. The LSE is [batch, heads,
    length]. `config` has no effect."""
    return _paged.flash_attn_func(q, k, v, dropout_p, softmax_scale, causal, window_size, bias, alibi_slopes, deterministic,
                                  return_lse, return_attn_probs, sink_ptr=sink)


def mla_decode_fwd(q, kv_buffer, out, cu_seqlens_q, seqused_k, max_seqlen_kv, block_tables, softmax_scale, kv_lora_rank,
                   qk_rope_head_dim, causal, q_descale=None, kv_descale=None, q_scales=None, out_scale=None,
                   shuffled_kv_cache=False, skip_reduce=False):
    """Raises NotServed: this form has caches of fragments, or parts that are not joined."""
    raise NotServed("aiter.ops.triton.attention.mla.mla_decode_fwd", "latent caches of fragments and outputs in parts are "
                    "not served; aiter.mla.mla_decode_fwd and decode_attention_fwd read plain pages")


def flash_attn_with_kvcache(q, k_cache, v_cache, k=None, v=None, qv=None, cache_seqlens=None, softmax_scale=None, causal=True,
                            window_size=(-1, -1), attention_chunk=0, softcap=0.0, num_splits=0, pack_gqa=None, sm_margin=0,
                            q_descale=None, k_descale=None, v_descale=None, max_seqlen_q=None, return_softmax_lse=False,
                            page_table=None, cache_batch_idx=None, cache_leftpad=None, rotary_cos=None, rotary_sin=None,
                            rotary_seqlens=None, cu_seqlens_q=None, cu_seqlens_k_new=None):
    """Attends with queries [batch, queries, heads, D] to pages [pages, P, kv heads, D] of page_table, causal or not.
    The queries are the last tokens of sequences with cache_seqlens keys. Each descale is one number or [batch, kv
    heads]. Returns the output, or with return_softmax_lse (output, LSE [batch, heads, queries]). num_splits, pack_gqa
    and sm_margin have no effect."""
    call = "flash_attn_with_kvcache"
    absent = {"k": k, "v": v, "cu_seqlens_k_new": cu_seqlens_k_new}
    c.refuse(call, **{name: (x is not None, "new keys and values are written by reshape_and_cache_flash")
                      for name, x in absent.items()})
    absent = {"rotary_cos": rotary_cos, "rotary_sin": rotary_sin, "rotary_seqlens": rotary_seqlens}
    c.refuse(call, **{name: (x is not None, "queries are rotated by the calls rope_cached_*") for name, x in absent.items()})
    c.refuse(call, qv=(qv is not None, "a second query has no kernel"),
             attention_chunk=(attention_chunk not in (0, 1), "chunks are not an argument of this call's kernels"),
             cache_batch_idx=(cache_batch_idx is not None, "page_table says which sequence has which pages"),
             cache_leftpad=(cache_leftpad is not None, "sequences begin at their first page's first token"),
             page_table=(page_table is None, "a cache without a table of pages is flash_attn_func's"),
             cu_seqlens_q=(cu_seqlens_q is not None, "queries [batch, queries, heads, D] are served; packed ones are "
                           "mha_batch_prefill_func's"),
             cache_seqlens=(not hasattr(cache_seqlens, "shape"), "a tensor of [batch] is served"))
    batch, queries, heads, dim = q.shape
    rows = c.view(q, batch * queries, heads, dim)
    starts = c.session(q).made.of(("starts", type(q), batch, queries), (), lambda: c.arange(q, batch + 1) * queries)
    longest = page_table.shape[1] * k_cache.shape[1]
    got = a.mha_batch_prefill_func(
        rows, k_cache, v_cache, starts, None, None, queries, longest, 0.0, softmax_scale, softcap, causal, window_size,
        return_lse=return_softmax_lse, block_table=c.cast(page_table, "int32"), seqlen_k=cache_seqlens,
        q_descale=q_descale, k_descale=k_descale, v_descale=v_descale)
    out, lse = got if return_softmax_lse else (got, None)
    out = c.view(out, batch, queries, heads, out.shape[-1])
    return (out, c.swap(c.view(lse, heads, batch, queries), 0, 1)) if return_softmax_lse else out


def causal_conv1d_update(x, conv_state, weight, bias, out, use_silu, cache_seqlens, conv_state_indices, pad_slot_id):
    """Raises NotServed: this form writes its output to a tensor of the caller."""
    raise NotServed("aiter.ops.causal_conv1d_update.causal_conv1d_update", "outputs of its own are not served; the call of "
                    "aiter.ops.triton.conv.causal_conv1d returns one")
