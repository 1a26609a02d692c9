# SPDX-License-Identifier: Apache-2.0
"""Decode of one query a sequence over NHD and HND pages, and dense batches."""
from attn.aiter import _attention as a
from attn.aiter import _common as c
from attn.aiter import _split
from attn.aiter._common import NotServed

SIXTEEN_BITS = ("auto", "bf16", "bfloat16", "half", "float16")


def pages_of(call, cache, kv_cache_dtype, layout):
    """Returns the cache of a call as [pages, P, kv heads, D] if its layout is HND; other layouts unchanged. Raises
    NotServed if its type is not kv_cache_dtype."""
    if layout not in ("NHD", "HND", "SHUFFLE"):
        raise NotServed(call, f"kv_cache_layout is {layout!r}")
    stored = c.dtype(cache) in ("fp8", "int8")
    if stored == (kv_cache_dtype in SIXTEEN_BITS) or not (
            kv_cache_dtype in SIXTEEN_BITS or kv_cache_dtype in ("fp8", "fp8_e4m3")):
        raise NotServed(call, f"kv_cache_dtype is {kv_cache_dtype!r}, the cache is {c.dtype(cache)}")
    return c.swap(cache, 1, 2) if layout == "HND" else cache


def one_query(call, out, query, k, v, scale, kv_lens, table, most, slopes, kv_cache_dtype, layout, cap,
              k_scale, v_scale, window=0, longest=0):
    """Launches decode of sequences with one query each: query i belongs to sequence i. `table` has the arguments of the
    page table, `most` is the largest number of workgroups for a sequence."""
    a.check_q(call, query)
    c.refuse(call, logits_soft_cap=(slopes is not None and cap, "with alibi_slopes: AITER caps what has the bias"))
    batch, kv_lens = kv_lens.shape[0], c.cast(kv_lens, "int32")
    if query.shape[0] != batch:
        raise NotServed(call, f"{query.shape[0]} queries of {batch} sequences: each has one")
    s, scaled = c.session(query), kv_cache_dtype not in SIXTEEN_BITS
    cache = c.Cache(call, *(pages_of(call, x, kv_cache_dtype, layout) for x in (k, v)),
                    c.dtype(query), *((k_scale, v_scale) if scaled else (None, None)),
                    shuffled=layout == "SHUFFLE", kinds=("tensor",))
    mask, cap = "window" if window > 0 else "causal", cap or 0.0
    desc = a.decode_desc(query, cache, mask, None, cap, 1,
                         "indices" if "kv_indices" in table else "blocks")
    desc["logits"] = a.alibi_of(call, slopes)
    more = a.numbers(scale, cap, mask, window - 1, 0)
    if slopes is not None:
        more["hook_arg"] = a.slopes_at(s.op("decode", **desc), slopes)
    _split.launch(s, "decode", desc, dict(table, q=query, out=out, kv_lens=kv_lens, **cache.tensors(),
                                          **more), batch, most, longest)
    return out


def paged_attention_rocm(out, exp_sums, max_logits, tmp_out, query, key_cache, value_cache,
                         num_kv_heads, scale, block_tables, context_lens, block_size, max_context_len,
                         alibi_slopes, kv_cache_dtype, k_scale, v_scale, fp8_out_scale=None,
                         partition_size=256, mtp=1, q_scale=None):
    """Decodes sequences with one query each, over keys [page, head, D / x, P, x] and values [page, head, D, P]. The
    keys of a sequence are split over at most max_context_len / partition_size workgroups."""
    call = "paged_attention_rocm"
    c.refuse(call, fp8_out_scale=(fp8_out_scale is not None, a.WRITES_16),
             mtp=(mtp != 1, "several queries of a sequence are pa_fwd_asm's and unified_attention's"),
             q_scale=(q_scale is not None, a.FP8_Q),
             block_size=(block_size != key_cache.shape[3],
                         f"it is {block_size}, the cache has pages of {key_cache.shape[3]}"))
    parts = -(-int(max_context_len) // int(partition_size))
    batch = block_tables.shape[0]
    return one_query(call, out, query, key_cache, value_cache, scale, context_lens[:batch],
                     {"block_table": block_tables}, max(parts, 1), alibi_slopes, kv_cache_dtype,
                     "SHUFFLE", 0.0, k_scale, v_scale, longest=int(max_context_len))


def paged_attention_common(Q, K, V, exp_sums, max_logits, tmp_out, block_tables, context_lens,
                           block_tables_stride0, scale, max_qlen=1, max_seq_len=1, K_QScale_hip=None,
                           V_QScale_hip=None, K_QScale_asm=None, V_QScale_asm=None, out_=None,
                           qo_indptr=None, high_precision=1, kernelName=None, kv_cache_dtype="auto",
                           kv_cache_tensor_dtype=None):
    """Decodes over SHUFFLE pages. AITER selects one of two kernels by the size of the batch. attn has one kernel: an
    fp8 cache uses the scale of the tensor if it is given, else the scales of tokens."""
    call = "paged_attention_common"
    a.check_asm(call, Q, block_tables, block_tables_stride0, kernelName)
    stored, asm = c.dtype(K), high_precision == 2 and Q.shape[2] == 128
    c.refuse(call, V=(V.ndim != 5, "values of four dimensions are read in two ways by AITER's two kernels"),
             kv_cache_dtype=((kv_cache_dtype in SIXTEEN_BITS) == (stored in ("fp8", "int8")),
                             f"it is {kv_cache_dtype!r}, the cache is {stored}"))
    scales, kinds = (K_QScale_hip, V_QScale_hip), ("tensor",)
    if stored == "int8" or asm or any(x is None for x in scales):
        scales, kinds = (K_QScale_asm, V_QScale_asm), ("token", "tensor")
    s, batch = c.session(Q), context_lens.shape[0]
    cache = c.Cache(call, K, V, c.dtype(Q), *scales, shuffled=True, kinds=kinds)
    out = c.new_like(Q) if out_ is None else out_
    desc = a.decode_desc(Q, cache, "causal", None, 0.0, int(max_qlen), "blocks")
    _split.launch(s, "decode", desc, dict(
        cache.tensors(), q=Q, out=out, qo_indptr=qo_indptr, kv_lens=c.cast(context_lens, "int32"),
        block_table=block_tables[:batch], scale=scale), batch, longest=int(max_seq_len))
    return out


def paged_attention_v1(out, workspace_buffer, query, key_cache, value_cache, scale, block_tables,
                       cu_query_lens, context_lens, max_context_len, alibi_slopes, kv_cache_dtype,
                       kv_cache_layout, logits_soft_cap, k_scale, v_scale, fp8_out_scale=None,
                       partition_size=256, mtp=1, sliding_window=0):
    """Decodes sequences with one query each, over NHD or HND pages. The keys of a sequence are split over at most
    max_context_len / partition_size workgroups."""
    call = "paged_attention_v1"
    batch = block_tables.shape[0]
    c.refuse(call, kv_cache_layout=(kv_cache_layout not in ("NHD", "HND"), str(kv_cache_layout)),
             fp8_out_scale=(fp8_out_scale is not None, a.WRITES_16),
             mtp=(mtp != 1, "several queries of a sequence are pa_fwd_asm's and unified_attention's"))
    parts = -(-int(max_context_len) // int(partition_size))
    return one_query(call, out, query, key_cache, value_cache, scale, context_lens[:batch],
                     {"block_table": block_tables}, max(parts, 1), alibi_slopes, kv_cache_dtype,
                     kv_cache_layout, logits_soft_cap, k_scale, v_scale, sliding_window,
                     int(max_context_len))


def paged_attention_ragged(out, workspace_buffer, query, key_cache, value_cache, scale, kv_indptr,
                           kv_page_indices, kv_last_page_lens, block_size, max_num_partitions,
                           alibi_slopes, kv_cache_dtype, kv_cache_layout, logits_soft_cap, k_scale,
                           v_scale, fp8_out_scale=None, partition_size=256, mtp=1):
    """Decodes like paged_attention_v1(), with lists of pages in place of block tables. The keys of a sequence are split
    over at most max_num_partitions workgroups."""
    call = "paged_attention_ragged"
    page = key_cache.shape[2 if kv_cache_layout == "HND" else 1]
    c.refuse(call, kv_cache_layout=(kv_cache_layout not in ("NHD", "HND"), str(kv_cache_layout)),
             fp8_out_scale=(fp8_out_scale is not None, a.WRITES_16),
             mtp=(mtp != 1, "several queries of a sequence are pa_fwd_asm's and unified_attention's"),
             block_size=(block_size != page, f"it is {block_size}, the cache has pages of {page}"))
    lens = c.lens_of_pages(kv_indptr, kv_last_page_lens, page)
    return one_query(call, out, query, key_cache, value_cache, scale, lens,
                     {"kv_indptr": kv_indptr, "kv_indices": kv_page_indices}, int(max_num_partitions),
                     alibi_slopes, kv_cache_dtype, kv_cache_layout, logits_soft_cap, k_scale, v_scale)


def flash_attn_func(q, k, v, dropout_p=0.0, softmax_scale=None, causal=False,
                    window_size=(-1, -1, 0), bias=None, alibi_slopes=None, deterministic=True,
                    return_lse=False, return_attn_probs=False, how_v3_bf16_cvt=1, cu_seqlens_q=None,
                    cu_seqlens_kv=None, sink_ptr=None, num_splits=0):
    """Computes attention of tensors [batch, length, heads, D], sequences of equal length. The LSE is [batch, heads,
    length]."""
    call = "flash_attn_func"
    c.refuse(call, cu_seqlens_q=(cu_seqlens_q is not None, "lengths are flash_attn_varlen_func's"),
             cu_seqlens_kv=(cu_seqlens_kv is not None, "lengths are flash_attn_varlen_func's"),
             num_splits=(num_splits > 1, "prefill is not split over its keys"))
    batch, n, heads, dim = q.shape
    m = k.shape[1]
    made = c.session(q).made
    starts = [made.of(("starts", type(q), batch, length), (),
                      lambda length=length: c.arange(q, batch + 1) * length) for length in (n, m)]
    packed = [c.view(x, x.shape[0] * x.shape[1], x.shape[2], x.shape[3]) for x in (q, k, v)]
    got = a.flash_attn_varlen_func(
        *packed, *starts, n, m, 0, dropout_p, softmax_scale, 0.0, causal, window_size, bias,
        alibi_slopes, deterministic, return_lse, return_attn_probs, sink_ptr=sink_ptr)
    out, lse = got if return_lse else (got, None)
    out = c.view(out, batch, n, heads, v.shape[3])
    return (out, c.swap(c.view(lse, heads, batch, n), 0, 1)) if return_lse else out


def get_recommended_splits(num_sequences, num_kv_heads, split_kv_blocks=1):
    """Returns max_context_partition_num for pa_decode_gluon(): workgroups for the keys of a sequence that fill the GPU,
    at most 8."""
    units = 2 * a.any_session().device.compute_units
    each = -(-units // (num_sequences * num_kv_heads * split_kv_blocks))
    return min(each * split_kv_blocks, 8)
