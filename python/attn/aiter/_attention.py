# SPDX-License-Identifier: Apache-2.0
"""Attention over tensors and pages: prefill, decode, mixed batches, and decode's work lists."""
from attn.aiter import _common as c
from attn.aiter import _split
from attn.aiter._common import NotServed

BIAS = "attention biases are hooks of a kernel (logits: in a description), not an argument"
DROPOUT = "inference has none"
WRITES_16 = "kernels write 16 bits, and these rounded again are not AITER's fp8"
FP8_Q = "the call has no scale for fp8 queries that a kernel takes"
FP8_SCALED = "fp8 tensors have scales: flash_attn_varlen_fp8_pertensor_func takes them"


def mask_of(call, causal, window):
    """Returns (attnc's mask, window_left, window_right) for AITER's arguments causal and window_size; -1: unlimited."""
    left, right = window[0], window[1]
    if len(window) > 2 and window[2]:
        raise NotServed(call, f"the first {window[2]} tokens are to stay visible: no kernel has that")
    if causal and left < 0:
        return "causal", -1, -1
    if left < 0 and right < 0:
        return "none", -1, -1
    return "window", left, 0 if causal else right


def attention_desc(q, head_dim_v, kv_heads, mask, sinks, cap, lse, made=None):
    """Returns the fields of a descriptor that prefill and decode share. `made`: the dtype of the output if q is fp8;
    None: q's dtype."""
    return {"dtype": made or c.dtype(q), "head_dim": q.shape[2], "head_dim_v": head_dim_v,
            "heads": q.shape[1], "kv_heads": kv_heads, "mask": mask, "sinks": sinks is not None,
            "soft_cap": cap > 0, "lse": lse}


def numbers(scale, cap, mask, left, right):
    out = {"scale": scale or 0.0, "soft_cap": cap}
    return dict(out, window_left=left, window_right=right) if mask == "window" else out


def alibi_of(call, slopes, mask="none", lse=False, sinks=None):
    """Returns the name of the hook for ALiBi slopes, "alibi" (examples/hooks/alibi.c); None without slopes. Slopes
    are float32 [query heads], or equal rows of them by a stride of 0. A bias is -slope * |query's own key - key|,
    as AITER's documentation has it. Refuses slopes beside a causal mask with an LSE or sinks: some of AITER's
    kernels then add slope * key, which changes these two."""
    if slopes is None:
        return None
    rows = slopes.shape[0] > 1 and c.strides(slopes)[0] != 0 if slopes.ndim == 2 else slopes.ndim != 1
    if rows or c.dtype(slopes) != "f32":
        raise NotServed(call, "alibi_slopes: float32 [heads] is served, the same for each sequence: a hook does not know "
                        "of which one a score is")
    c.refuse(call, alibi_slopes=(mask == "causal" and (lse or sinks is not None), "beside an LSE or sinks and a causal "
                                 "mask: AITER's kernels have two of them"))
    return "alibi"


def slopes_at(op, slopes):
    """Returns hook_arg, the address of slopes that alibi_of() accepts."""
    return c.pointer(op, slopes[0] if slopes.ndim == 2 else slopes)


def made_of(call, q, q_descale, out, keys, by_head=False):
    """Returns (dtype of the output, arguments). For fp8 queries the arguments have prefill's q_descale; for others they
    are empty. `keys` is a cache of keys. With by_head several scales are returned unchanged, for head_scales()."""
    if c.dtype(q) != "fp8":
        c.refuse(call, q_descale=(q_descale is not None, f"queries are {c.dtype(q)}"))
        check_q(call, q)
        return c.dtype(q), {}
    c.refuse(call, q=(c.dtype(keys) != "fp8", f"queries are fp8, the cache is {c.dtype(keys)}"))
    if q_descale is None:
        scale = c.one(c.session(q), q)
    else:
        scale = q_descale if by_head and c.differ(q_descale) else c.scalar(call, "q_descale", q_descale)
    return "bf16" if out is None else c.dtype(out), {"q_descale": scale}


def head_scales(call, scales, cache, sequences):
    """Returns (q_scale, arguments) for fp8 queries. q_scale is "tensor" or "kv_head": queries that share a scale. The
    arguments are `scales` with q_descale in the kernels' form: one number, or [sequences or 1, kv heads] with the
    strides of the cache's scales."""
    given = scales.get("q_descale")
    if given is None or not c.differ(given):
        return "tensor", scales
    of_heads = given[None] if given.ndim == 1 else given
    if tuple(of_heads.shape) not in ((1, cache.kv_heads), (sequences, cache.kv_heads)):
        raise NotServed(call, f"q_descale is {list(given.shape)}: one number, or [{sequences}, {cache.kv_heads}] for "
                        "sequences and KV heads, is served")
    if cache.desc.scale != "head" or steps(of_heads) != steps(cache.k_scale):
        raise NotServed(call, "q_descale differs between KV heads: k_descale and v_descale with its strides are needed")
    return "kv_head", {"q_descale": of_heads}


def steps(x):
    """Returns the strides of a tensor as a list, with 0 for a dimension of one element."""
    return [st if n > 1 else 0 for n, st in zip(x.shape, c.strides(x))]


def q_scales_of(call, q, q_scale, out, keys):
    """Returns (dtype of decode's output, fields of its descriptor, scales of fp8 queries or None). There is one scale,
    or one for each query and head, [queries, heads, 1]."""
    if c.dtype(q) == "fp8" and q_scale is not None and c.count(q_scale) > 1:
        shape = (*q.shape[:2], 1)
        if tuple(q_scale.shape) != shape:
            raise NotServed(call, f"query_scale is {list(q_scale.shape)}: [1] and {list(shape)} are served")
        repeated = [i for i in (0, 1) if shape[i] > 1 and not c.strides(q_scale)[i]]
        if not repeated:
            return "bf16" if out is None else c.dtype(out), {"q_scale": "token"}, q_scale[..., 0]
        if any(c.strides(q_scale)[i] for i in (0, 1) if shape[i] > 1):
            raise NotServed(call, f"query_scale is expanded over its {('queries', 'heads')[repeated[0]]}: one "
                            "number, or one in memory for each query and head, is served")
    made, scales = made_of(call, q, q_scale, out, keys)
    return made, {}, scales.get("q_descale")


def check_q(call, q):
    if c.dtype(q) not in ("bf16", "fp16"):
        raise NotServed(call, FP8_Q if c.dtype(q) == "fp8" else f"queries are {c.dtype(q)}")


def flash_attn_varlen_func(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k,
                           min_seqlen_q=0, dropout_p=0.0, softmax_scale=None, logits_soft_cap=0.0,
                           causal=False, window_size=(-1, -1, 0), bias=None, alibi_slopes=None,
                           deterministic=False, return_lse=False, return_attn_probs=False,
                           how_v3_bf16_cvt=1, block_table=None, out=None, cu_seqlens_q_padded=None,
                           cu_seqlens_k_padded=None, sink_ptr=None):
    """Computes attention of packed sequences. With block_table keys and values are pages [pages, P, kv heads, D].
    Returns the output, or with return_lse (output, LSE [heads, queries])."""
    call = "flash_attn_varlen_func"
    c.refuse(call, q=(c.dtype(q) == "fp8", FP8_SCALED))
    check_q(call, q)
    padded = "padding inside of the packed tensors is not served"
    c.refuse(call, dropout_p=(dropout_p != 0, DROPOUT), bias=(bias is not None, BIAS),
             return_attn_probs=(return_attn_probs, "the probabilities are never in memory"),
             cu_seqlens_q_padded=(cu_seqlens_q_padded is not None, padded),
             cu_seqlens_k_padded=(cu_seqlens_k_padded is not None, padded))
    mask, left, right = mask_of(call, causal, window_size)
    s = c.session(q)
    sinks = c.sinks_of(s, sink_ptr)
    cap = logits_soft_cap or 0.0
    more = numbers(softmax_scale, cap, mask, left, right)
    if block_table is None:
        desc = attention_desc(q, v.shape[2], k.shape[1], mask, sinks, cap, return_lse)
        desc["logits"] = alibi_of(call, alibi_slopes, mask, return_lse, sinks)
        keys = {"k": k, "v": v, "cu_seqlens_k": cu_seqlens_k}
        head_dim_v = v.shape[2]
    else:
        cache = c.Cache(call, k, v, c.dtype(q))
        desc = attention_desc(q, cache.head_dim_v, cache.kv_heads, mask, sinks, cap, return_lse)
        desc.update(paged=True, cache=cache.desc, logits=alibi_of(call, alibi_slopes, mask, return_lse, sinks))
        lens = c.cast(cu_seqlens_k[1:] - cu_seqlens_k[:-1], "int32")
        keys = dict(cache.tensors(), kv_lens=lens, block_table=block_table)
        head_dim_v = cache.head_dim_v
    return prefill(s, desc, q, head_dim_v, cu_seqlens_q, max_seqlen_q, max_seqlen_k, out, return_lse,
                   sinks, keys, more, alibi_slopes)


def flash_attn_varlen_fp8_pertensor_func(q, k, v, q_descale, k_descale, v_descale, cu_seqlens_q,
                                         cu_seqlens_k, max_seqlen_q, max_seqlen_k, min_seqlen_q=0,
                                         logits_soft_cap=0.0, causal=False, window_size=(-1, -1, 0),
                                         softmax_scale=None, sink_ptr=None):
    """Computes attention of packed fp8 sequences. Each of q, k and v has one scale, or all three have scales
    [sequences, kv heads]. The output is bf16."""
    return of_fp8("flash_attn_varlen_fp8_pertensor_func", q, k, v, (q_descale, k_descale, v_descale), cu_seqlens_q,
                  cu_seqlens_k, max_seqlen_q, max_seqlen_k, logits_soft_cap, causal, window_size, softmax_scale, sink_ptr,
                  by_head=True)


def flash_attn_fp8_pertensor_func(q, k, v, q_descale, k_descale, v_descale, causal=False, window_size=(-1, -1, 0),
                                  softmax_scale=None, sink_ptr=None):
    """Computes attention of fp8 tensors [batch, length, heads, D], sequences of equal length. Scales are as in
    flash_attn_varlen_fp8_pertensor_func(). The output is bf16."""
    (batch, n), m, made = q.shape[:2], k.shape[1], c.session(q).made
    starts = [made.of(("starts", type(q), batch, length), (), lambda length=length: c.arange(q, batch + 1) * length)
              for length in (n, m)]
    packed = [c.view(x, x.shape[0] * x.shape[1], *x.shape[2:]) for x in (q, k, v)]
    out = of_fp8("flash_attn_fp8_pertensor_func", *packed, (q_descale, k_descale, v_descale), *starts, n, m, 0.0, causal,
                 window_size, softmax_scale, sink_ptr, by_head=True)
    return c.view(out, batch, n, *out.shape[1:])


def of_fp8(call, q, k, v, descales, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, cap=0.0, causal=False,
           window=(-1, -1), scale=None, sink_ptr=None, out=None, lse=None, by_head=False):
    """Launches prefill of packed sequences of fp8. Returns the bf16 output, or with `lse`, memory [heads, queries],
    (output, lse). `by_head`: True if the three scales may be [sequences, kv heads]."""
    if any(c.dtype(x) != "fp8" for x in (q, k, v)):
        raise NotServed(call, f"q, k and v are {c.dtype(q)}, {c.dtype(k)} and {c.dtype(v)}, not fp8")
    mask, left, right = mask_of(call, causal, window)
    s, cap = c.session(q), cap or 0.0
    sinks = c.sinks_of(s, sink_ptr)
    desc = attention_desc(q, v.shape[2], k.shape[1], mask, sinks, cap, lse is not None, "bf16")
    names, shape = ("q_descale", "k_descale", "v_descale"), (cu_seqlens_q.shape[0] - 1, k.shape[1])
    several = by_head and any(c.differ(x) for x in descales)
    if several:
        c.refuse(call, **{name: (tuple(x.shape) != shape, f"it is {list(x.shape)}: one number for each of q, k and v, or "
                                 f"{list(shape)} for sequences and KV heads, is served") for name, x in zip(names, descales)})
    keys = {name: c.dense(x) if several else c.scalar(call, name, x) for name, x in zip(names, descales)}
    desc["qkv_scale"] = "kv_head" if several else "tensor"
    return prefill(s, dict(desc, q_dtype="fp8"), q, v.shape[2], cu_seqlens_q, max_seqlen_q, max_seqlen_k,
                   out, lse is not None, sinks, dict(keys, k=k, v=v, cu_seqlens_k=cu_seqlens_k),
                   numbers(scale, cap, mask, left, right), lse=lse)


def flydsl_flash_attn_fp8_func(q, k, v, *, softmax_scale=None, causal=True, num_kv_heads=None, cu_seqlens_q=None,
                               cu_seqlens_kv=None, max_seqlen_q=None, max_seqlen_kv=None, cross_seqlen=None,
                               num_kv_splits=None, fp8_block_m=None, q_descale=None, k_descale=None, v_descale=None,
                               out=None, return_lse=False, lse=None, daz=True, dualwave_swp_lazy_rescale=True,
                               dualwave_swp_setprio=True, dualwave_swp_enable_stagger=True, stream=None):
    """Computes attention like flash_attn_varlen_fp8_pertensor_func(), with an LSE [heads, queries]. If cu_seqlens_q is
    None, tensors are [batch, length, heads, D], and the LSE is [batch, heads, length]. Arguments about tiles and
    schedules are for AITER's kernel and have no effect."""
    call = "flydsl_flash_attn_fp8_func"
    scales = (q_descale, k_descale, v_descale)
    c.refuse(call, stream=(stream is not None, "launches are on the current stream"),
             num_kv_heads=(num_kv_heads not in (None, k.shape[-2]), f"it is {num_kv_heads}, k has {k.shape[-2]} heads"),
             q_descale=(any(x is None for x in scales), "q, k and v have a scale each"),
             out=(out is not None and c.dtype(out) != "bf16", "outputs are bf16"),
             max_seqlen_q=(cu_seqlens_q is not None and max_seqlen_q is None, "it is needed with cu_seqlens_q"))
    heads, dim_v, dense = q.shape[-2], v.shape[-1], cu_seqlens_q is None
    if dense:
        batch, n, m, made = q.shape[0], q.shape[1], k.shape[1], c.session(q).made
        cu_seqlens_q, cu_seqlens_kv = (made.of(("starts", type(q), batch, length), (), lambda length=length: c.arange(
            q, batch + 1) * length) for length in (n, m))
        max_seqlen_q, max_seqlen_kv = n, m
        q, k, v = (c.view(x, x.shape[0] * x.shape[1], *x.shape[2:]) for x in (q, k, v))
    longest = max_seqlen_q if max_seqlen_kv is None else max_seqlen_kv
    made_out = c.rows(q, (q.shape[0], heads, dim_v), "bf16") if out is None else c.view(out, -1, heads, dim_v)
    sums = None
    if return_lse:
        sums = c.floats(q, (batch, heads, n) if dense else (heads, q.shape[0])) if lse is None else lse
    rows = sums
    if dense and return_lse:  # the kernel writes the LSE as [heads, queries]
        rows = c.floats(q, (heads, q.shape[0]))
    of_fp8(call, q, k, v, scales, cu_seqlens_q, cu_seqlens_kv, max_seqlen_q, longest, causal=causal, scale=softmax_scale,
           out=made_out, lse=rows)
    if dense and return_lse:
        sums[...] = c.swap(c.view(rows, heads, batch, n), 0, 1)
    made_out = c.view(made_out, batch, n, heads, dim_v) if dense else made_out
    out = made_out if out is None else out
    return (out, sums) if return_lse else out


def flydsl_flash_attn_fp8_supported(device, num_heads, num_kv_heads, head_dim, head_dim_v=None, dtype=None):
    """Returns True if the packs have both kernels, causal and not, with which flydsl_flash_attn_fp8_func() serves this
    form."""
    ordinal = getattr(device, "index", None)
    s = c._devices.get(ordinal if isinstance(ordinal, int) else 0)
    form = {"dtype": "bf16", "head_dim": head_dim, "head_dim_v": head_dim_v or head_dim, "heads": num_heads,
            "kv_heads": num_kv_heads, "sinks": False, "soft_cap": False, "q_dtype": "fp8"}
    return s is not None and all(s.has("prefill", **form, mask=mask, lse=lse) for mask, lse in (
        ("causal", False), ("causal", True), ("none", True)))


def prefill(s, desc, q, head_dim_v, cu_seqlens_q, max_seqlen_q, max_seqlen_k, out, return_lse, sinks,
            keys, more, slopes=None, lse=None):
    batch = cu_seqlens_q.shape[0] - 1
    split = _split.splits_prefill(s, desc, batch, q.shape[0], int(max_seqlen_k), more.get("window_left", -1) + 1)
    op = _split.planned_prefill(s, desc, batch) if split else s.op("prefill", **desc)
    if slopes is not None:
        more = dict(more, hook_arg=slopes_at(op, slopes))
    if out is None:
        out = c.rows(q, (q.shape[0], q.shape[1], head_dim_v), desc["dtype"])
    if return_lse and lse is None:
        lse = c.floats(q, (q.shape[1], q.shape[0]))
    call = dict(keys, q=q, out=out, lse=lse, sinks=sinks, cu_seqlens_q=cu_seqlens_q,
                max_seqlen_q=int(max_seqlen_q), max_seqlen_k=int(max_seqlen_k), **more, stream=c.stream(q))
    if split:
        _split.launch_prefill(s, desc, call)
    else:
        op(**call)
    return (out, lse) if return_lse else out


def mha_batch_prefill_func(q, k, v, cu_seqlens_q, kv_indptr, kv_page_indices, max_seqlen_q,
                           max_seqlen_k, dropout_p=0.0, softmax_scale=None, logits_soft_cap=0.0,
                           causal=False, window_size=(-1, -1), alibi_slopes=None,
                           deterministic=False, return_lse=False, return_attn_probs=False, out=None,
                           kv_last_page_lens=None, block_table=None, seqlen_k=None, q_descale=None,
                           k_descale=None, v_descale=None, kv_block_descale=None, sink_ptr=None,
                           sink_size=0):
    """Computes prefill over keys and values of a paged cache: [slots, kv heads, D], NHD pages or SHUFFLE pages.
    k_descale and v_descale have one element, which may be expanded, or are [sequences, kv heads] or [kv heads]; strides
    of 0 share scales. q_descale has the same form."""
    call, sequences = "mha_batch_prefill_func", cu_seqlens_q.shape[0] - 1
    made, scales = made_of(call, q, q_descale, out, k, by_head=True)
    c.refuse(call, dropout_p=(dropout_p != 0, DROPOUT),
             return_attn_probs=(return_attn_probs, "the probabilities are never in memory"),
             sink_size=(sink_size != 0, "no kernel keeps the first tokens visible"),
             kv_block_descale=(kv_block_descale is not None and (k_descale is not None or v_descale is not None),
                               "beside k_descale or v_descale"))
    kinds = ("tensor", "head")
    if kv_block_descale is not None:
        k_descale, v_descale, kinds = kv_block_descale[..., 0], kv_block_descale[..., 1], ("block", "tensor")
    s = c.session(q)
    cache = c.Cache(call, k, v, made, k_descale, v_descale, kinds=kinds, sequences=sequences)
    shared, scales = head_scales(call, scales, cache, sequences)
    mask, left, right = mask_of(call, causal, window_size)
    sinks, cap = c.sinks_of(s, sink_ptr), logits_soft_cap or 0.0
    desc = attention_desc(q, cache.head_dim_v, cache.kv_heads, mask, sinks, cap, return_lse, made)
    desc.update(logits=alibi_of(call, alibi_slopes, mask, return_lse, sinks), q_dtype="fp8" if scales else None,
                qkv_scale=shared)
    keys = dict(cache.tensors(), **scales)
    if block_table is not None:
        if seqlen_k is None:
            raise NotServed(call, "block_table needs seqlen_k")
        desc.update(paged=True, cache=cache.desc, page_table="blocks")
        keys.update(block_table=block_table, kv_lens=c.cast(seqlen_k, "int32"))
    else:
        desc.update(paged=True, cache=cache.desc, page_table="indices")
        lens = seqlen_k
        if lens is None:
            lens = c.lens_of_pages(kv_indptr, kv_last_page_lens, cache.page)
        keys.update(kv_indptr=kv_indptr, kv_indices=kv_page_indices, kv_lens=c.cast(lens, "int32"))
    return prefill(s, desc, q, cache.head_dim_v, cu_seqlens_q, max_seqlen_q, max_seqlen_k, out,
                   return_lse, sinks, keys, numbers(softmax_scale, cap, mask, left, right),
                   alibi_slopes)


def decode_desc(q, cache, mask, sinks, cap, q_len, table, lse=False, made=None):
    desc = attention_desc(q, cache.head_dim_v, cache.kv_heads, mask, sinks, cap, lse, made)
    return dict(desc, q_len=q_len, cache=cache.desc, page_table=table,
                q_dtype="fp8" if c.dtype(q) == "fp8" else None)


def values_as_stored(k, v):
    """Returns values v in SHUFFLE layout, [page, head, token / x, D, x]. Some engines give this memory four dimensions,
    [page, head, D, token]."""
    if k.ndim == 5 and v.ndim == 4:
        x = k.shape[4]
        return c.view(v, v.shape[0], v.shape[1], v.shape[3] // x, v.shape[2], x)
    return v


def check_asm(call, q, block_tables, row_said, kernel):
    check_q(call, q)
    c.refuse(call, kernelName=(kernel is not None, "it names a kernel of AITER"))
    row = block_tables.stride(0) if c.is_torch(block_tables) else block_tables.strides[0] // 4
    if block_tables.shape[0] > 1 and row_said != row:
        raise NotServed(call, f"block_tables_stride0 is {row_said}, the tensor's is {row}")


def pa_fwd_asm(Q, K, V, block_tables, context_lens, block_tables_stride0, max_qlen=1, K_QScale=None,
               V_QScale=None, out_=None, qo_indptr=None, high_precision=1, kernelName=None):
    """Decodes over SHUFFLE pages. Scores are scaled by 1 / sqrt(D)."""
    call = "pa_fwd_asm"
    check_asm(call, Q, block_tables, block_tables_stride0, kernelName)
    c.refuse_bytes(call, K, "int8")
    s = c.session(Q)
    cache = c.Cache(call, K, values_as_stored(K, V), c.dtype(Q), K_QScale, V_QScale, shuffled=True,
                    kinds=("token", "tensor"))
    out = c.new_like(Q) if out_ is None else out_
    desc = decode_desc(Q, cache, "causal", None, 0.0, int(max_qlen), "blocks")
    batch = context_lens.shape[0]
    _split.launch(s, "decode", desc, dict(
        cache.tensors(), q=Q, out=out, qo_indptr=qo_indptr, kv_lens=context_lens,
        block_table=block_tables[:batch]), batch)
    return out


def pa_decode_gluon(output, query, key_cache, value_cache, context_lengths, block_tables,
                    softmax_scale, query_length, max_context_partition_num,
                    context_partition_size=256, compute_type=None, query_scale=None, key_scale=None,
                    value_scale=None, exp_sums=None, max_logits=None, temporary_output=None,
                    alibi_slopes=None, sinks=None, sliding_window=0, ps=True):
    """Decodes over SHUFFLE pages, with sinks and a window. The keys of a sequence are split over
    max_context_partition_num workgroups. The window ends one position after the last key, as in AITER's kernel and its
    test: one query sees sliding_window - 1 keys."""
    call = "pa_decode_gluon"
    made, scaled, q_scale = q_scales_of(call, query, query_scale, output, key_cache)
    c.refuse(call, alibi_slopes=(alibi_slopes is not None, "AITER's kernel does not look at them"),
             ps=(sliding_window > 0 and not ps and max_context_partition_num > 1,
                 "without it AITER's window counts from another key"))
    s = c.session(query)
    cache = c.Cache(call, key_cache, value_cache, made, key_scale, value_scale, shuffled=True,
                    kinds=("token", "tensor"))
    batch = query.shape[0] // int(query_length)
    mask, left = "causal", -1
    if sliding_window > 0:
        mask, left = "window", sliding_window - 1 - query_length
        if left < 0:
            raise NotServed(call, f"a window of {sliding_window} keys for {query_length} queries")
    sinks = c.sinks_of(s, sinks)
    desc = decode_desc(query, cache, mask, sinks, 0.0, int(query_length), "blocks", made=made)
    desc.update(scaled)
    _split.launch(s, "decode", desc, dict(
        cache.tensors(), q=query, out=output, sinks=sinks, kv_lens=c.cast(c.first(context_lengths, batch), "int32"),
        block_table=c.cast(c.first(block_tables, batch), "int32"), q_scale=q_scale,
        **numbers(softmax_scale, 0.0, mask, left, 0)), batch, int(max_context_partition_num) or None)


DECODE_QUERIES = 8  # largest number of queries of a sequence that decode computes; prefill computes longer sequences


def unified_attention(q, k, v, out, cu_seqlens_q, max_seqlen_q, seqused_k, max_seqlen_k,
                      softmax_scale, causal, window_size, block_table, softcap, q_descale, k_descale,
                      v_descale, q_scales=None, alibi_slopes=None, output_scale=None, qq_bias=None,
                      sinks=None, shuffled_kv_cache=False, skip_reduce=False):
    """Computes prompts, decode, or both in one batch, over NHD or SHUFFLE pages. k_descale and v_descale have one
    element, which may be expanded, or are [sequences, kv heads] or [kv heads]; strides of 0 share scales. q_descale has
    the same form. Returns out."""
    call = "unified_attention"
    c.refuse_bytes(call, k, "fp4")
    made, scales = made_of(call, q, q_descale, out, k, by_head=True)
    c.refuse(call, qq_bias=(qq_bias is not None, BIAS),
             sinks=(alibi_slopes is not None and sinks is not None, "with alibi_slopes: AITER's bias "
                    "is of the prefix's end, which changes a sink's share"),
             q_scales=(q_scales is not None, "one scale for all queries is served, q_descale"),
             output_scale=(output_scale is not None, WRITES_16),
             causal=(not causal, "AITER's is causal, too"),
             skip_reduce=(skip_reduce, "the parts of an output are joined"))
    s = c.session(q)
    batch = seqused_k.shape[0]
    k_descale, v_descale = (x if x is None or x.ndim < 2 else c.first(x, batch) for x in (k_descale, v_descale))
    cache = c.Cache(call, k, v, made, k_descale, v_descale, shuffled=bool(shuffled_kv_cache), kinds=("tensor", "head"),
                    sequences=batch)
    if "q_descale" in scales and scales["q_descale"].ndim > 1:
        scales = {"q_descale": c.first(scales["q_descale"], batch)}
    shared, scales = head_scales(call, scales, cache, batch)
    left = window_size[0]
    mask = "window" if left >= 0 else "causal"
    sinks, cap = c.sinks_of(s, sinks), softcap or 0.0
    more = numbers(softmax_scale, cap, mask, left, 0)
    cu_seqlens_q, seqused_k, block_table = (c.cast(x, "int32") for x in (
        c.first(cu_seqlens_q, batch + 1), seqused_k, c.first(block_table, batch)))
    keys = dict(cache.tensors(), kv_lens=seqused_k, block_table=block_table)
    logits = alibi_of(call, alibi_slopes)
    if max_seqlen_q <= DECODE_QUERIES:
        desc = decode_desc(q, cache, mask, sinks, cap, int(max_seqlen_q), "blocks", made=made)
        desc.update(logits=logits, q_scale=shared)
        if s.has("decode", **desc):
            if alibi_slopes is not None:
                more["hook_arg"] = slopes_at(s.op("decode", **desc), alibi_slopes)
            _split.launch(s, "decode", desc, dict(
                keys, q=q, out=out, sinks=sinks, qo_indptr=cu_seqlens_q,
                q_scale=scales.get("q_descale"), **more), batch, longest=int(max_seqlen_k))
            return out
    desc = attention_desc(q, cache.head_dim_v, cache.kv_heads, mask, sinks, cap, False, made)
    desc.update(paged=True, cache=cache.desc, logits=logits, q_dtype="fp8" if scales else None, qkv_scale=shared)
    return prefill(s, desc, q, cache.head_dim_v, cu_seqlens_q, max_seqlen_q, max_seqlen_k, out, False,
                   sinks, dict(keys, **scales), more, alibi_slopes)


def get_pa_metadata_info_v1(batch_size, num_head_k=1):
    """Returns (shape, type) of each tensor of a plan: work_metadata_ptrs, work_indptr, work_info, reduce_indptr,
    reduce_final_map, reduce_partial_map."""
    return info(batch_size, num_head_k)


def any_session():
    s = next(iter(c._devices.values()), None)
    if s is None:
        raise c.AttnError("ATTN_NO_DEVICE", "attn.aiter.use(packs) was not called")
    return s


def info(batch_size, kv_heads):
    from attn.attention import plan_sizes
    s = any_session()
    lists = max(s.device.compute_units, kv_heads)
    items, partials, _ = plan_sizes(batch_size, 1, kv_heads, kv_heads, lists)
    i32, u64 = number_types()
    return (((2,), u64), ((lists + 1,), i32), ((items, 8), i32), ((batch_size + 1,), i32),
            ((batch_size, 2), i32), ((max(partials, 1),), i32))


def number_types():
    import sys
    torch = sys.modules.get("torch")
    if torch:
        return torch.int32, getattr(torch, "uint64", torch.int64)
    return "int32", "uint64"


def get_pa_metadata_v1(seqlens_qo_indptr, pages_kv_indptr, context_lens, num_heads_per_head_k,
                       num_heads_k, is_causal, work_metadata_ptrs, work_indptr, work_info,
                       reduce_indptr, reduce_final_map, reduce_partial_map, kv_granularity=16,
                       block_size=16, max_seqlen_qo=-1, uni_seqlen_qo=-1, fast_mode=True, topk=-1,
                       max_split_per_batch=-1):
    """Makes work lists from the sequences' lengths, on the device. libattn chooses granularity and splits, so the
    arguments about them have no effect. work_metadata_ptrs is not written, since no call of attn.aiter reads it."""
    c.refuse("get_pa_metadata_v1", topk=(topk >= 0, "sparse attention has lists of slots"))
    plan("get_pa_metadata_v1", seqlens_qo_indptr, context_lens,
         num_heads_per_head_k * num_heads_k, num_heads_k,
         max(max_seqlen_qo, uni_seqlen_qo), work_indptr, work_info, reduce_indptr, reduce_final_map,
         reduce_partial_map)


def plan(call, qo_indptr, kv_lens, heads, kv_heads, q_len, work_indptr, work_info,
         reduce_indptr, reduce_final_map, reduce_partial_map):
    if q_len < 1:
        raise NotServed(call, "max_seqlen_qo or uni_seqlen_qo is needed: it bounds the grid")
    batch = kv_lens.shape[0] if qo_indptr is None else min(kv_lens.shape[0], qo_indptr.shape[0] - 1)
    c.session(kv_lens).op("plan")(
        kv_lens=kv_lens[:batch], qo_indptr=None if qo_indptr is None else qo_indptr[:batch + 1], work_indptr=work_indptr,
        work_info=work_info, reduce_indptr=reduce_indptr[:batch + 1],
        reduce_final_map=reduce_final_map[:batch], reduce_partial_map=reduce_partial_map, q_len=q_len,
        heads=heads, kv_heads=kv_heads, stream=c.stream(kv_lens))


def pa_persistent_fwd(Q, K, V, output, max_qlen, qo_indptr, kv_indptr, kv_indices, context_lens,
                      work_indptr, work_info, reduce_indptr, reduce_final_map, reduce_partial_map,
                      K_QScale=None, V_QScale=None, softmax_scale=None, mask=0, quant_type=None):
    """Decodes by the work lists of get_pa_metadata_v1(), and sums the parts of outputs that were split. Returns (parts,
    LSE [queries, heads]). The LSE is of all queries if the pack has a kernel with lse. Else it is only of queries that
    were split, as in AITER."""
    call = "pa_persistent_fwd"
    check_q(call, Q)
    c.refuse_bytes(call, K, "int8")
    s = c.session(Q)
    cache = c.Cache(call, K, values_as_stored(K, V), c.dtype(Q), K_QScale, V_QScale)
    parts = c.floats(Q, (reduce_partial_map.shape[0] * max_qlen, 1, Q.shape[1], cache.head_dim_v))
    part_lse = c.floats(Q, (parts.shape[0], 1, Q.shape[1], 1))
    final = c.floats(Q, (Q.shape[0], Q.shape[1]))
    desc = decode_desc(Q, cache, "causal" if mask else "none", None, 0.0, int(max_qlen), "indices",
                       lse=True)
    if not s.has("decode", **desc):
        desc["lse"] = False
    batch = context_lens.shape[0]
    s.op("decode", **desc)(
        q=Q, out=output, lse=c.transpose(final) if desc["lse"] else None,
        qo_indptr=qo_indptr[:batch + 1], kv_indptr=kv_indptr[:batch + 1], kv_indices=kv_indices,
        kv_lens=context_lens, work_indptr=work_indptr, work_info=work_info,
        partial_out=parts[:, 0], partial_lse=part_lse[:, 0, :, 0], scale=softmax_scale or 0.0,
        **cache.tensors(), stream=c.stream(Q))
    pa_reduce_v1(parts, part_lse, reduce_indptr[:batch + 1], reduce_final_map, reduce_partial_map,
                 max_qlen, output, final)
    return parts, final


def pa_reduce_v1(partial_output, partial_lse, reduce_indptr, reduce_final_map, reduce_partial_map,
                 max_seqlen_q, final_output, final_lse=None, num_kv_splits=0):
    """Writes the weighted sum of the parts of each output that was split to final_output, and its LSE to final_lse
    unless that is None."""
    call = "pa_reduce_v1"
    if reduce_final_map is None:
        raise NotServed(call, "reduce_final_map is needed: it says which queries a tile has")
    heads, dim = final_output.shape[1:]
    tiles = reduce_indptr.shape[0] - 1
    op = c.session(final_output).op("combine", dtype=c.dtype(final_output), head_dim=dim,
                                    heads=heads, partials="csr")
    op(out=final_output, lse=None if final_lse is None else c.transpose(final_lse),
       partial_out=c.view(partial_output, partial_output.shape[0], heads, dim),
       partial_lse=c.view(partial_lse, partial_lse.shape[0], heads), reduce_indptr=reduce_indptr,
       reduce_final_map=reduce_final_map[:tiles], reduce_partial_map=reduce_partial_map,
       q_len=int(max_seqlen_q), stream=c.stream(final_output))
