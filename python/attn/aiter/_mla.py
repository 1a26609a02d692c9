# SPDX-License-Identifier: Apache-2.0
"""AITER's calls of latent attention: absorbed decode and prefill, plans, norms of latents, and writes of the cache."""
from attn.aiter import _attention as a
from attn.aiter import _common as c
from attn.aiter import _split
from attn.aiter._cache import typed
from attn.aiter._common import NotServed

CAP = "latent attention has no soft cap"
NO_NUMBER = float("nan")


def latent_call(call, q, kv_buffer, o, qo_indptr, kv_indptr, kv_indices, kv_lens, q_len, sm_scale, q_scale=None,
                kv_scale=None, return_lse=False, causal=True, sinks=None):
    """Returns (session, descriptor, arguments, LSE [queries, heads] or None) for mla_decode over lists of pages."""
    c.refuse_bytes(call, kv_buffer, "rows of several types")
    own, stored, made = c.dtype(q), c.dtype(kv_buffer), c.dtype(o)
    if own == "fp8" and q_scale is None:
        raise NotServed(call, "fp8 queries need q_scale")
    scaled = stored == "fp8" and kv_scale is not None
    desc = {"dtype": made, "q_dtype": "fp8" if own == "fp8" else None, "head_dim": q.shape[2],
            "head_dim_v": o.shape[2], "heads": q.shape[1], "q_len": int(q_len),
            "mask": "causal" if causal else "none", "sinks": sinks is not None, "lse": return_lse, "page_table": "indices",
            "cache": c.CacheDesc(dtype=stored if stored != made else None, page_size=kv_buffer.shape[1],
                                 scale="tensor" if scaled else "none")}
    final = c.floats(q, (q.shape[0], q.shape[1])) if return_lse else None
    return c.session(q), desc, {
        "q": q, "out": o, "lse": None if final is None else c.transpose(final), "sinks": sinks,
        "scale": q.shape[2] ** -0.5 if sm_scale is None else sm_scale,
        "qo_indptr": qo_indptr, "kv_indptr": kv_indptr, "kv_indices": kv_indices, "k_cache": kv_buffer, "kv_lens": kv_lens,
        "k_scale": c.scalar(call, "kv_scale", kv_scale) if scaled else None,
        "q_scale": c.scalar(call, "q_scale", q_scale) if own == "fp8" else None}, final


def mla_decode_fwd(q, kv_buffer, o, qo_indptr, kv_indptr, kv_indices, kv_last_page_lens, max_seqlen_q,
                   page_size=1, nhead_kv=1, sm_scale=None, logit_cap=0.0, num_kv_splits=None,
                   num_kv_splits_indptr=None, work_meta_data=None, work_indptr=None,
                   work_info_set=None, reduce_indptr=None, reduce_final_map=None,
                   reduce_partial_map=None, q_scale=None, kv_scale=None, intra_batch_mode=False,
                   return_logits=False, return_lse=False, g_kv_indptr=None, cp_world_size=1,
                   cp_rank=0, causal=True, shuffled_kv_cache=False):
    """Decodes over rows [pages, P, 1, latent + rope]. With cp_world_size the cache has every cp_world_size-th token of
    a context from cp_rank on, and g_kv_indptr has the whole contexts. Keys are split by the work lists of
    get_mla_metadata_v1(). Without work lists they are split over num_kv_splits workgroups for each sequence, or over
    all compute units. Returns (parts or None, LSE [queries, heads] or None). shuffled_kv_cache belongs to Triton's form
    of the call, which raises NotServed."""
    call = "mla_decode_fwd"
    c.refuse(call, shuffled_kv_cache=(shuffled_kv_cache, "this is the call of aiter.ops.triton.attention.mla, whose latent "
                                      "caches of fragments, [page, 1, P / 16, ...], are not read"))
    c.refuse(call, logit_cap=(logit_cap != 0, CAP),
             cp_world_size=(cp_world_size != 1 and (g_kv_indptr is None or page_size != 1),
                            "the shares of ranks need g_kv_indptr, and pages of one token"),
             nhead_kv=(nhead_kv != 1, "the latent is one head"),
             return_logits=(return_logits, "the parts of an output are joined"),
             page_size=(page_size != kv_buffer.shape[1],
                        f"it is {page_size}, kv_buffer has pages of {kv_buffer.shape[1]}"))
    batch = qo_indptr.shape[0] - 1
    starts = kv_indptr[:batch + 1]
    lens, topk = c.lens_of_pages(starts, kv_last_page_lens, page_size), None if work_indptr is None else recall(work_indptr)
    if topk is not None:  # the topk that get_mla_metadata_v1() recorded for the plan
        c.refuse(call, kv_indices=(kv_indices.shape[0] <= (batch - 1) * topk,
                                   f"{kv_indices.shape[0]} entries, the plan is of {batch} rows of {topk}"))
        starts, lens = c.arange(starts, batch + 1) * topk, c.least(lens, topk)
    s, desc, call_args, final = latent_call(call, q, kv_buffer, o, qo_indptr, starts, kv_indices, lens, max_seqlen_q,
                                            sm_scale, q_scale, kv_scale, return_lse, causal)
    if cp_world_size != 1 and causal:  # without a mask the positions of keys do not matter
        desc["sharded"] = True
        call_args.update(shards=int(cp_world_size), shard=int(cp_rank), context_lens=c.cast(
            g_kv_indptr[1:batch + 1] - g_kv_indptr[:batch], "int32"))
    if work_indptr is None:
        _split.launch(s, "mla_decode", desc, call_args, batch, num_kv_splits)
        return None, final
    op = s.op("mla_decode", **desc)
    parts = c.floats(q, (reduce_partial_map.shape[0] * max_seqlen_q, 1, q.shape[1], o.shape[2]))
    part_lse = c.floats(q, (parts.shape[0], 1, q.shape[1], 1))
    op(**call_args, work_indptr=work_indptr, work_info=work_info_set, partial_out=parts[:, 0],
       partial_lse=part_lse[:, 0, :, 0], stream=c.stream(q))
    a.pa_reduce_v1(parts, part_lse, reduce_indptr[:batch + 1], reduce_final_map, reduce_partial_map,
                   max_seqlen_q, o, final)
    return parts, final


QUERIES = 64  # largest number of queries of a sequence in a launch of mla_decode


def lengths_for(longest):
    """Returns numbers of queries for which to look up a kernel, in order of preference: `longest`, all of a sequence,
    then sizes of pieces."""
    return [longest] * (longest <= QUERIES) + [n for n in (QUERIES, 32, 16, 8, 4, 2, 1) if n < longest]


def pieces(qo_indptr, kv_indptr, kv_lens, tokens, size):
    """Splits sequences into pieces of `size` queries. Each piece sees the keys up to its last query. Returns
    (qo_indptr, kv_indptr, kv_lens) for the largest possible number of pieces; pieces after the last one have no
    query."""
    batch = kv_lens.shape[0]
    ends, pages, lens = (c.cast(x, "int64") for x in (qo_indptr, kv_indptr, kv_lens))
    parts = (ends[1:] - ends[:-1] + (size - 1)) // size
    sums = c.sums(parts)
    at = c.arange(qo_indptr, tokens // size + batch, "int64")
    s = c.least(c.place(sums, at), batch - 1)
    end = ends[1:][s]
    first = c.smaller(ends[:-1][s] + (at - sums[s] + parts[s]) * size, end)
    seen = c.most(lens[s] - end + c.smaller(first + size, end), 0)
    return [c.cast(x, "int32") for x in (c.join(first, ends[batch:]), c.join(pages[s], pages[batch:]), seen)]


def mla_prefill_fwd(q, kv_buffer, o, qo_indptr, kv_indptr, kv_indices, kv_last_page_lens, max_seqlen_q,
                    sm_scale=None, logit_cap=0.0, num_kv_splits=None):
    """Computes absorbed attention of queries after a cached prefix, with a causal mask, in one launch. A sequence with
    more queries than the pack's kernels take is split into pieces. Returns (o, LSE [queries, 1, heads, 1]); the LSE is
    None if the pack has no kernel with lse."""
    c.refuse("mla_prefill_fwd", logit_cap=(logit_cap != 0, CAP))
    lse = plan_prefill(q, kv_buffer, o, qo_indptr, kv_indptr, kv_indices, kv_last_page_lens, max_seqlen_q, sm_scale,
                       num_kv_splits)(q, kv_buffer, o)
    return o, None if lse is None else c.view(lse, lse.shape[0], 1, lse.shape[1], 1)


def plan_prefill(q, kv_buffer, o, qo_indptr, kv_indptr, kv_indices, kv_last_page_lens, max_seqlen_q, sm_scale=None,
                 num_kv_splits=None):
    """Cuts the sequences of mla_prefill_fwd() into pieces and plans their work lists. Returns a function of (q,
    kv_buffer, o) that computes one layer of the step and returns its LSE [queries, heads], or None. Every layer has the
    shapes, types and lists of pages of the arguments here."""
    call, page, batch = "mla_prefill_fwd", kv_buffer.shape[1], qo_indptr.shape[0] - 1
    starts, longest = kv_indptr[:batch + 1], int(max_seqlen_q)
    lists = [qo_indptr, starts, c.lens_of_pages(starts, kv_last_page_lens, page)]
    s, desc, call_args, _ = latent_call(call, q, kv_buffer, o, *lists[:2], kv_indices, lists[2], longest, sm_scale)
    found = [dict(desc, q_len=n, lse=lse) for n in lengths_for(longest) for lse in (True, False)
             if s.has("mla_decode", **dict(desc, q_len=n, lse=lse))][:1]
    desc = found[0] if found else dict(desc, q_len=min(longest, QUERIES))
    if desc["q_len"] < longest:
        lists = pieces(*lists, q.shape[0], desc["q_len"])
    call_args.update(zip(("qo_indptr", "kv_indptr", "kv_lens"), lists))
    launch = _split.plan(s, "mla_decode", desc, call_args, lists[2].shape[0], num_kv_splits)
    del call_args["q"], call_args["out"], call_args["k_cache"]  # a layer's own, which a step must not keep

    def run(q, kv_buffer, o):
        lse = c.floats(q, (q.shape[0], q.shape[1])) if desc["lse"] else None
        launch(dict(call_args, q=q, k_cache=kv_buffer, out=o, lse=None if lse is None else c.transpose(lse)))
        return lse

    return run


def mla_gluon(q_nope, q_pe, kv_c, o, page_table, seq_info, sm_scale, k_pe=None, kv_pe_offset=512, use_2d_view=True,
              kv_scale=1.0, min_kv_seq_len=1, return_lse=False, has_pe=True, attn_sink=None):
    """Decodes over rows [slots, 576] with queries [batch, heads, 512] and their rotated parts [batch, heads, 64]. For
    several queries of a sequence both are [batch, queries, heads, ...]. With use_2d_view, page_table is a table of
    slots and seq_info has lengths. Without use_2d_view, page_table is one list of slots and seq_info has each
    sequence's start in it. Without has_pe rows are [slots, 512], as in DeepSeek-V4, and q_pe and k_pe are ignored.
    attn_sink is [heads]. Returns (o, LSE [batch, queries, heads] or None)."""
    call, use_2d_view = "mla_gluon", use_2d_view and has_pe
    stored, (latent, rope) = c.dtype(kv_c), (q_nope.shape[-1], q_pe.shape[-1] if has_pe else 0)
    c.refuse(call, k_pe=(has_pe and not (k_pe is None or same(k_pe, kv_c)), "latents and rotated keys are one row"),
             kv_pe_offset=(has_pe and kv_pe_offset != latent, f"it is {kv_pe_offset}, latents have {latent} elements"),
             kv_scale=(stored != "fp8" and kv_scale != 1.0, f"it is {kv_scale}, the cache is {stored}"))
    batch, q_len, heads = q_nope.shape[0], q_nope.shape[1] if q_nope.ndim == 4 else 1, q_nope.shape[-2]
    q = c.view(c.beside(q_nope, q_pe) if has_pe else q_nope, batch * q_len, heads, latent + rope)
    made = c.session(q).made
    starts = made.of(("starts", type(q), batch, q_len), (), lambda: c.arange(q, batch + 1) * q_len)
    scale = None
    if stored == "fp8":
        scale = made.of(("kv_scale", type(q), float(kv_scale)), (), lambda: c.ones(q, 1) * float(kv_scale))
    lens = c.cast(seq_info[:batch] if use_2d_view else seq_info[1:batch + 1] - seq_info[:batch], "int32")
    s, desc, call_args, lse = latent_call(
        call, q, c.view(kv_c, -1, 1, 1, latent + rope), c.view(o, batch * q_len, heads, latent), starts,
        None if use_2d_view else seq_info[:batch + 1], None if use_2d_view else page_table, lens, q_len, sm_scale,
        kv_scale=scale, return_lse=return_lse, sinks=attn_sink)
    if use_2d_view:
        desc["page_table"] = "blocks"
        del call_args["kv_indptr"], call_args["kv_indices"]
        call_args["block_table"] = c.cast(page_table[:batch], "int32")
    _split.launch(s, "mla_decode", desc, call_args, batch)
    return o, c.view(lse, batch, q_len, heads) if return_lse else None


def unified_attention_sparse_mla(q, kv, out, cu_seqlens_q, max_seqlen_q, seqused_k, max_seqlen_k, softmax_scale,
                                 topk_indices, block_table, kv_lora_rank):
    """Attends with each query [tokens, heads, latent + rope] to the slots in its row of topk_indices [tokens, k]. A
    slot is page * P + token of kv [pages, P, 1, latent + rope]; -1 means no slot. Tokens after the last sequence get 0.
    Lengths and block_table are not read."""
    call, tokens = "unified_attention_sparse_mla", q.shape[0]
    stored = c.dtype(kv)
    a.check_q(call, q)
    c.refuse(call, kv=(stored != c.dtype(q), f"the cache is {stored}, queries are {c.dtype(q)}"),
             out=(c.dtype(out) != c.dtype(q), f"it is {c.dtype(out)}, queries are {c.dtype(q)}"),
             kv_lora_rank=(out.shape[2] != kv_lora_rank, f"it is {kv_lora_rank}, out has {out.shape[2]} elements"))
    s, width = c.session(q), topk_indices.shape[1]
    desc = {"dtype": c.dtype(q), "q_dtype": None, "head_dim": q.shape[2], "head_dim_v": out.shape[2], "heads": q.shape[1],
            "q_len": 1, "mask": "causal", "lse": False, "page_table": "blocks", "sparse": "slots",
            "cache": c.CacheDesc(page_size=kv.shape[1])}
    lens = c.cast(c.arange(q, tokens) < cu_seqlens_q[-1:], "int32") * width
    _split.launch(s, "mla_decode", desc, {
        "q": q, "out": out, "lse": None, "scale": softmax_scale, "k_cache": kv, "kv_lens": lens,
        "block_table": c.cast(topk_indices, "int32")}, tokens)


def same(a, b):
    """True if two tensors have the same address, or both are None."""
    return a is b or (a is not None and b is not None and c.address(a) == c.address(b))


def decode_attention_fwd(q, k_buffer, v_buffer, o, lse, req_to_token, b_seq_len, attn_logits,
                         num_kv_splits, sm_scale, page_size=1, logit_cap=0.0, k_scale=None,
                         v_scale=None):
    """Decodes with one query for each sequence and a page table [batch, entries]. k_buffer has rows [pages, P, 1,
    latent + rope], whose first elements are the values. Writes o and lse [batch, heads]; attn_logits is not used."""
    call = "decode_attention_fwd"
    k, v = k_buffer, v_buffer
    c.refuse(call, logit_cap=(logit_cap != 0, CAP),
             v_buffer=(c.address(k) != c.address(v) or k.shape[-2] != 1,
                       "values that are not the first elements of one key head's rows"),
             v_scale=(c.dtype(k) == "fp8" and not same(k_scale, v_scale),
                      "it is not k_scale: keys and values are the same numbers"))
    if k.ndim == 3:
        k = k[:, None]
    c.refuse(call, page_size=(page_size != k.shape[1],
                              f"it is {page_size}, the buffer has pages of {k.shape[1]}"))
    s, made, stored = c.session(q), c.dtype(o), c.dtype(k)
    scaled = stored == "fp8" and k_scale is not None
    desc = {"dtype": made, "q_dtype": None, "head_dim": q.shape[2], "head_dim_v": o.shape[2],
            "heads": q.shape[1], "q_len": 1, "mask": "causal", "lse": lse is not None,
            "page_table": "blocks",
            "cache": c.CacheDesc(dtype=stored if stored != made else None, page_size=page_size,
                                 scale="tensor" if scaled else "none")}
    batch = b_seq_len.shape[0]
    _split.launch(s, "mla_decode", desc, {
        "q": q[:batch], "out": o[:batch], "lse": None if lse is None else c.transpose(lse[:batch]),
        "scale": sm_scale, "k_cache": k, "kv_lens": c.cast(b_seq_len, "int32"),
        "block_table": c.cast(req_to_token[:batch], "int32"),
        "k_scale": c.scalar(call, "k_scale", k_scale) if scaled else None}, batch, num_kv_splits)


def csr_to_dense_block_table(kv_indices, kv_indptr, dense_table, max_ctx, bs):
    """Copies lists of pages to rows of a table, on the device. Entries after a list stay as they are."""
    entry, starts = c.arange(kv_indices, max_ctx)[None], kv_indptr[:bs, None]
    listed = entry < kv_indptr[1:bs + 1, None] - starts
    rows = dense_table[:bs, :max_ctx]
    rows[...] = c.where(listed, kv_indices[c.cast((starts + entry) * listed, "int64")], rows)


def get_meta_param(num_kv_splits, bs, total_kv, nhead, max_seqlen_q, dtype, tg_factor=1,
                   ignore_total_kv=0):
    """Returns (num_kv_splits, num_kv_splits_indptr) for mla_decode_fwd(). num_kv_splits None or 0: compute units
    divided by bs, the sequences, between 1 and 16."""
    device = a.any_session().device
    splits = num_kv_splits or max(1, min(16, device.compute_units // max(bs, 1)))
    return splits, c.numbered(bs + 1, splits)


def norms(call, q_out_quantized, q_out_scale, q, q_weight, q_epsilon, q_out_unquantized, k_out, q_res_out, k, k_weight,
          k_epsilon, q_residual, gemma_norm, group_size, transpose_scale, by_row=False):
    """Launches RMS norms of the rows of q, once for each output of q. The first launch norms k too. by_row: True if a
    row of fp8 has one scale."""
    added = q_residual is not None
    c.refuse(call, q_residual=(added and q_res_out is None, "it needs q_res_out"),
             k_epsilon=(k is not None and k_epsilon not in (None, q_epsilon), "one for both is served"),
             group_size=(q_out_scale is not None and group_size not in (None, 128),
                         f"{group_size}: a scale is of 128 elements"))
    tokens, width = q.shape
    groups = 1 if by_row else width // 128
    if q_out_scale is not None and c.count(q_out_scale) != tokens * groups:
        raise NotServed(call, f"{c.count(q_out_scale)} scales of {tokens} rows: each {width // groups} elements "
                        "have one")
    outs = [x for x in (q_out_quantized, q_out_unquantized) if x is not None]
    if not outs and k_out is not None:
        outs = [c.new_like(q)]  # an output as AITER allocates one, since k is normed even without an output of q
    s, kv = c.session(q), {}
    if k is not None and k_out is not None:
        kv = {"kv": k, "kv_weight": k_weight, "kv_out": k_out}
    for out in outs:
        quantised = c.dtype(out) == "fp8"
        if added:  # only the last launch writes q_res_out, which may be the same memory as q_residual
            kv.update(q_residual=q_residual, q_sum=q_res_out if out is outs[-1] else c.new_like(q))
        if quantised != (out is q_out_quantized and q_out_scale is not None) or (
                not quantised and c.dtype(out) != c.dtype(q)):
            raise NotServed(call, f"an output of {c.dtype(out)}")
        scale = None
        if quantised:
            scale = q_out_scale
            if transpose_scale:
                scale = c.transpose(c.view(q_out_scale, groups, tokens))
        s.op("qk_rmsnorm", dtype=c.dtype(q), q_out_dtype="fp8" if quantised else None, width=width,
             width_kv=k.shape[1] if k_out is not None else width, gemma=bool(gemma_norm),
             row_scale=quantised and by_row, residual=added)(
            q=q, q_weight=q_weight, q_out=out, q_out_scale=scale, eps=q_epsilon, **kv,
            stream=c.stream(q))
        kv = {}


BY_ROW = 2  # AITER's QuantType.per_Token


def fused_qk_rmsnorm(q_out_quantized=None, q_out_scale=None, q=None, q_weight=None, q_epsilon=1e-6,
                     q_out_unquantized=None, k_out=None, q_res_out=None, k=None, k_weight=None,
                     k_epsilon=None, q_residual=None, gemma_norm=False, quant_type=None,
                     group_size=None, transpose_scale=False):
    """Computes the RMS norm of rows of q and, if k is given, of k. q_out_quantized gets the rows of q in their type, or
    as fp8 with a scale for each 128 elements. Scales are [tokens, n / 128], or with transpose_scale [n / 128, tokens].
    With quant_type per_Token there is a scale for each row, [tokens, 1]. q_out_unquantized gets the rows in their type.
    q_residual is added to q first, and the sums go to q_res_out. The norm uses the sums before they are rounded. With
    gemma_norm the factor is 1 + weight."""
    call, kind = "fused_qk_rmsnorm", getattr(quant_type, "value", quant_type)
    ignored = "AITER passes over it where quant_type is No: fused_qk_rmsnorm_group_quant does not"
    c.refuse(call, q_residual=(not kind and q_residual is not None, ignored), gemma_norm=(not kind and gemma_norm, ignored))
    norms(call, q_out_quantized, q_out_scale, q, q_weight, q_epsilon, q_out_unquantized, k_out, q_res_out, k, k_weight,
          k_epsilon, q_residual, gemma_norm, group_size, transpose_scale, kind == BY_ROW)


def _fused_qk_rmsnorm(q_out, q, q_weight, q_eps, k_out, k, k_weight, k_eps):
    """Writes the RMS norms of q and of k to q_out and k_out, which are allocated if they are None. Returns (q_out,
    k_out)."""
    q_out, k_out = c.new_like(q) if q_out is None else q_out, c.new_like(k) if k_out is None else k_out
    fused_qk_rmsnorm(q_out, None, q, q_weight, q_eps, None, k_out, None, k, k_weight, k_eps)
    return q_out, k_out


def fused_qk_rmsnorm_group_quant(q_out_quantized=None, q_out_scale=None, q=None, q_weight=None,
                                 q_epsilon=1e-6, q_out_unquantized=None, k_out=None, q_res_out=None,
                                 k=None, k_weight=None, k_epsilon=None, q_residual=None,
                                 group_size=128, transpose_scale=False, gemma_norm=False):
    """Computes RMS norms like fused_qk_rmsnorm() without a quant_type."""
    norms("fused_qk_rmsnorm_group_quant", q_out_quantized, q_out_scale, q, q_weight, q_epsilon, q_out_unquantized, k_out,
          q_res_out, k, k_weight, k_epsilon, q_residual, gemma_norm, group_size, transpose_scale)


def fused_qk_rmsnorm_per_token_quant(q_out_quantized, q_out_scale, q, q_weight, q_epsilon, q_out_unquantized=None,
                                     k_out=None, q_res_out=None, k=None, k_weight=None, k_epsilon=None,
                                     q_residual=None, gemma_norm=False):
    """Computes RMS norms like fused_qk_rmsnorm(), with one scale for each row of fp8, [tokens, 1]."""
    norms("fused_qk_rmsnorm_per_token_quant", q_out_quantized, q_out_scale, q, q_weight, q_epsilon, q_out_unquantized,
          k_out, q_res_out, k, k_weight, k_epsilon, q_residual, gemma_norm, None, False, by_row=True)


def get_mla_metadata_info_v1(batch_size, max_seqlen_qo, num_head_qo, q_dtype, kv_dtype, is_sparse,
                             fast_mode=True, num_kv_splits=32, intra_batch_mode=False,
                             max_split_per_batch=-1):
    """Returns shapes and types of the plan's tensors like get_pa_metadata_info_v1(). Any number of heads is one
    tile."""
    return a.info(batch_size * max_seqlen_qo if is_sparse else batch_size, 1)


def get_mla_metadata_v1(seqlens_qo_indptr, seqlens_kv_indptr, kv_last_page_lens, num_heads_per_head_k,
                        num_heads_k, is_causal, work_metadata_ptrs, work_info_set, work_indptr,
                        reduce_indptr, reduce_final_map, reduce_partial_map, page_size=1,
                        kv_granularity=16, max_seqlen_qo=-1, uni_seqlen_qo=-1, fast_mode=True,
                        topk=-1, max_split_per_batch=-1, intra_batch_mode=False,
                        is_cp_round_robin=False, mla_version=None, dtype_q_nope=None,
                        dtype_q_rope=None, dtype_kv_nope=None, dtype_kv_rope=None, dtype_q=None,
                        dtype_kv=None):
    """Makes work lists like get_pa_metadata_v1(), from the lengths of the lists of pages. With is_cp_round_robin these
    are a rank's share of the lengths. With topk, kv_indices has a row of topk slots for each query; only the first
    slots of a row are used, as many as kv_indptr gives the sequence. intra_batch_mode without fast_mode ignores topk,
    as in AITER."""
    call, q_len = "get_mla_metadata_v1", max(max_seqlen_qo, uni_seqlen_qo)
    rows = topk >= 0 and (fast_mode or not intra_batch_mode)
    c.refuse(call, topk=(rows and (q_len != 1 or page_size != 1),
                         f"{q_len} queries of a sequence, in pages of {page_size}: it is for one query and pages of one token"),
             num_heads_k=(num_heads_k != 1, "the latent is one head"))
    batch = (seqlens_kv_indptr if seqlens_qo_indptr is None else seqlens_qo_indptr).shape[0] - 1
    lens = c.lens_of_pages(seqlens_kv_indptr[:batch + 1], kv_last_page_lens, page_size)
    remember(work_indptr, topk if rows else None)
    a.plan(call, seqlens_qo_indptr, c.least(lens, topk) if rows else lens, num_heads_per_head_k, 1, q_len, work_indptr,
           work_info_set, reduce_indptr, reduce_final_map, reduce_partial_map)


def decode_update_mla_metadata_v1(seqlens_qo_indptr, seqlens_kv_indptr, kv_last_page_lens,
                                  num_heads_per_head_k, num_heads_k, is_causal, work_metadata_ptrs,
                                  work_info_set, work_indptr, reduce_indptr, reduce_final_map,
                                  reduce_partial_map, page_size=1, kv_granularity=16, max_seqlen_qo=1,
                                  dtype_q=None, dtype_kv=None, num_reject_tokens=None):
    """Makes the plan of the next draft anew, from the current lengths of the lists of pages. Each sequence has one
    query."""
    get_mla_metadata_v1(None, seqlens_kv_indptr[:seqlens_qo_indptr.shape[0]], kv_last_page_lens,
                        num_heads_per_head_k, num_heads_k, is_causal, work_metadata_ptrs, work_info_set,
                        work_indptr, reduce_indptr, reduce_final_map, reduce_partial_map, page_size,
                        max_seqlen_qo=1)


def get_ps_metadata_info_v1(batch_size, num_head_k, max_qlen, qlen_granularity=256, max_kvlen=None, kvlen_granularity=128):
    """Returns (shape, type) of each tensor of mla_prefill_ps_asm_fwd()'s plan. The tensors are AITER's, but there are
    no parts."""
    tiles = batch_size * -(-max_qlen // qlen_granularity)
    (i32, u64), units = a.number_types(), a.any_session().device.compute_units
    return ((2, u64), (units + 1, i32), ((1, 8), i32), (tiles + 1, i32), ((tiles, 2), i32), (0, i32))


def remember(plan, what):
    """Records `what` launches of a plan need: True if they write an LSE, or the topk of rows. The key is the address of
    `plan`, a tensor of the plan, since engines pass views of their buffers. A call that fills the tensor for another
    plan replaces the record."""
    a.any_session().plans[c.address(plan)] = what


def recall(plan):
    """Returns what remember() recorded for a tensor of a plan; None if it recorded nothing."""
    return a.any_session().plans.get(c.address(plan))


def get_ps_metadata_v1(seqlens_qo_indptr, pages_kv_indptr, context_lens, gqa_ratio, num_heads_k,
                       work_metadata_ptrs, work_indptr, work_info, reduce_indptr, reduce_final_map,
                       reduce_partial_map, qhead_granularity=1, qlen_granularity=256,
                       kvlen_granularity=16, block_size=16, is_causal=True, need_lse=None):
    """Makes a plan without parts: mla_prefill_ps_asm_fwd() writes whole outputs, and with need_lse the LSE of each
    query to its row of splitLse. The last number of reduce_indptr is the size of splitLse, in tiles of qlen_granularity
    queries. need_lse None: an LSE is written if the pack has kernels with lse."""
    c.refuse("get_ps_metadata_v1", block_size=(block_size != 1, f"{block_size}: keys are listed one by one"))
    for x in (work_indptr, reduce_indptr):
        c.zero(x)
    if need_lse is not False:
        lens = seqlens_qo_indptr[1:] - seqlens_qo_indptr[:-1]
        reduce_indptr[1:] = ((lens + (qlen_granularity - 1)) // qlen_granularity).sum()
    for x in (work_indptr, reduce_indptr):
        remember(x, need_lse)


def mla_prefill_ps_asm_fwd(Q, K, V, qo_indptr, kv_indptr, kv_page_indices, work_indptr, work_info_set,
                           max_seqlen_q, softmax_scale, is_causal, splitData, splitLse, output,
                           q_scale=None, k_scale=None, v_scale=None):
    """Attends with packed fp8 queries to listed slots of fp8 keys and values [slots, heads, D]. Writes output, and if
    the plan needs an LSE, the LSE of each query and head to splitLse. splitData is not used."""
    call = "mla_prefill_ps_asm_fwd"
    if any(c.dtype(x) != "fp8" for x in (Q, K, V)):
        raise NotServed(call, f"Q, K and V are {c.dtype(Q)}, {c.dtype(K)} and {c.dtype(V)}, not fp8")
    batch = qo_indptr.shape[0] - 1
    starts = kv_indptr[:batch + 1]
    scales = [c.one(c.session(Q), Q) if x is None else c.scalar(call, name, x) for name, x in (
        ("q_scale", q_scale), ("k_scale", k_scale), ("v_scale", v_scale))]
    s, cache = c.session(Q), c.Cache(call, K, V, c.dtype(output), *scales[1:])
    desc = a.attention_desc(Q, cache.head_dim_v, cache.kv_heads, "causal" if is_causal else "none",
                            None, 0.0, False, c.dtype(output))
    desc.update(paged=True, cache=cache.desc, page_table="indices", q_dtype="fp8")
    need, lse, (tokens, heads) = recall(work_indptr), None, Q.shape[:2]
    if need or (need is None and s.has("prefill", **dict(desc, lse=True))):
        if splitLse is not None and splitLse.shape[0] >= tokens:
            lse = c.transpose(c.view(splitLse[:tokens], tokens, heads))
        c.refuse(call, splitLse=(need and lse is None, f"{tokens} rows are needed"))
    desc["lse"] = lse is not None
    if lse is None and need is None and splitLse is not None:
        c.fill(splitLse, NO_NUMBER)  # no kernel writes an LSE, so NaN shows any use of splitLse
    a.prefill(s, desc, Q, cache.head_dim_v, qo_indptr, max_seqlen_q, 0, output, desc["lse"], None,
              dict(cache.tensors(), q_descale=scales[0], kv_indptr=starts, kv_indices=kv_page_indices,
                   kv_lens=c.cast(starts[1:] - starts[:-1], "int32")), {"scale": softmax_scale}, lse=lse)


def mla_reduce_v1(partial_output, partial_lse, reduce_indptr, reduce_final_map, reduce_partial_map,
                  max_seqlen_q, num_kv_splits, final_output, final_lse=None):
    """Sums parts like pa_reduce_v1(), with arguments in this order, or in AITER's older order without num_kv_splits.
    With a plan of get_ps_metadata_v1() the outputs are complete already, and only their LSE is copied."""
    if hasattr(num_kv_splits, "shape"):
        final_output, final_lse = num_kv_splits, final_output
    if reduce_partial_map.shape[0] == 0:
        tokens, heads = final_output.shape[:2]
        if final_lse is not None and recall(reduce_indptr) is not False:
            if partial_lse.shape[0] >= tokens:
                final_lse[...] = c.view(partial_lse[:tokens], tokens, heads)
            else:
                c.fill(final_lse, NO_NUMBER)
        return
    a.pa_reduce_v1(partial_output, partial_lse, reduce_indptr, reduce_final_map, reduce_partial_map,
                   max_seqlen_q, final_output, final_lse)


def latent_desc(call, q, kv_cache, k_scale, latent, **more):
    """Returns (descriptor of mla_rope_cache, cache as [pages, P, 1, D], scale of the cache or None)."""
    own, stored = c.dtype(q), c.dtype(kv_cache)
    if kv_cache.ndim == 3:
        kv_cache = kv_cache[:, :, None]
    if stored not in (own, "fp8"):
        raise NotServed(call, f"rows are {own}, the cache {stored}")
    scaled = stored == "fp8" and k_scale is not None
    cache = c.CacheDesc(dtype=stored if stored != own else None, page_size=kv_cache.shape[1],
                        scale="tensor" if scaled else "none")
    desc = {"dtype": own, "head_dim": kv_cache.shape[3], "head_dim_v": latent, "cache": cache, **more}
    return desc, kv_cache, c.scalar(call, "scale", k_scale) if scaled else None


def concat_and_cache_mla(kv_c, k_pe, kv_cache, slot_mapping, kv_cache_dtype, scale):
    """Writes rows to the cache: each is a latent of kv_c and then the rotated key of k_pe."""
    call = "concat_and_cache_mla"
    _, scale = typed(call, kv_cache, kv_cache_dtype, scale, scale)
    rows_alone(call, kv_c, k_pe, kv_cache, slot_mapping, scale)


def rows_alone(call, kv_c, k_pe, kv_cache, slots, scale, rotation=None, more=None):
    """Writes rows into the cache, without queries. `rotation` has the descriptor's fields for a rotation of keys,
    `more` the arguments of the rotation; None: no rotation."""
    tokens = min(kv_c.shape[0], slots.shape[0])
    kv_c, k_pe = (c.view(x, x.shape[0], x.shape[-1])[:tokens] for x in (kv_c, k_pe))
    desc, cache, k_scale = latent_desc(call, kv_c, kv_cache, scale, kv_c.shape[1], heads=1, **(rotation or {}))
    # The op also copies a query's rotated part, which is not used here.
    unused = c.new_like(k_pe, (tokens, 1, k_pe.shape[1]))
    c.zero(unused)
    c.session(kv_c).op("mla_rope_cache", **desc)(
        q_pe=unused, kv_c=kv_c, k_pe=k_pe, k_cache=cache, k_scale=k_scale,
        slot_mapping=c.cast(slots[:tokens], "int64"), stream=c.stream(kv_c), **(more or {}))


def plain_rows(call, k_nope, kv_cache, k_scale, apply_scale, shuffled):
    """Returns the scale of a cache [slots, 1, latent + rope] for a call of AITER's Triton modules; None without
    apply_scale. Raises NotServed for forms that are not served."""
    c.refuse_bytes(call, kv_cache, "fp4")
    stored, scale = c.dtype(kv_cache), k_scale if apply_scale else None
    c.refuse(call, shuffled_kv_cache=(shuffled, "latent caches of fragments, [page, 1, P / 16, ...], are not written"),
             k_nope=(k_nope.shape[1] != 1, f"{k_nope.shape[1]} heads: the latent is one"),
             k_scale=(stored != "fp8" and scale is not None,
                      f"AITER divides by it, and the cache is {stored}: apply_scale=False does not"))
    return scale


def cat_and_cache_mla(k_nope, k_pe, kv_cache, slot_mapping, k_scale, apply_scale=True, shuffled_kv_cache=False):
    """Writes rows, each a latent of k_nope [tokens, 1, 512] and the rotated key of k_pe, to a cache [slots, 1, latent +
    rope]."""
    call = "cat_and_cache_mla"
    rows_alone(call, k_nope, k_pe, kv_cache, slot_mapping,
               plain_rows(call, k_nope, kv_cache, k_scale, apply_scale, shuffled_kv_cache))


def fused_qk_rope_cat_and_cache_mla(q_nope, q_pe, k_nope, k_pe, kv_cache, slot_mapping, pos, cos, sin, k_scale, is_neox,
                                    num_decode_toks_for_zeros=0, apply_scale=True, q_out=None, decode_q_pe_out=None,
                                    k_pe_out=None, q_out_dtype=None, shuffled_kv_cache=False, upcast_operand=False):
    """Rotates and writes like fused_qk_rope_concat_and_cache_mla(), over a cache [slots, 1, latent + rope]. An fp8
    q_out has no scale. Rows of k_nope after the last query are only cached. Returns (q_out, decode_q_pe_out, k_pe_out,
    zeros). k_pe_out has the rotated keys. decode_q_pe_out [num_decode_toks_for_zeros, heads, 64] has the first tokens'
    rotated parts of q. The zeros have q_nope's dimensions for the same tokens."""
    call, n, width = "fused_qk_rope_cat_and_cache_mla", int(num_decode_toks_for_zeros), q_pe.shape[2]
    s, (tokens, heads, latent) = c.session(q_nope), q_nope.shape
    scale = plain_rows(call, k_nope, kv_cache, k_scale, apply_scale, shuffled_kv_cache)
    if q_out is None:
        q_out = c.new_like(q_nope, (tokens, heads, latent + width), q_nope.dtype if q_out_dtype is None else q_out_dtype)
    fp8_out, k_pe_out = c.dtype(q_out) == "fp8", c.new_like(k_pe) if k_pe_out is None else k_pe_out
    c.refuse(call, cos=(cos.shape[-1] * 2 != width, f"{cos.shape[-1]} cosines of {width} elements: a pair of them has one"),
             num_decode_toks_for_zeros=(n > 0 and fp8_out, f"it is {n}, q_out is fp8"))
    table = c.cosines(s, cos, sin)
    rotation = {"rope": "neox" if is_neox else "gptj", "cos_sin_short": c.dtype(table) != "f32", "keep_kv": True}
    slots, at = c.cast(slot_mapping, "int64"), c.cast(pos, "int64")
    kv_c, rotated, kept = (c.view(x, x.shape[0], x.shape[-1]) for x in (k_nope, k_pe, k_pe_out))
    desc, cache, one = latent_desc(call, q_nope, kv_cache, scale, latent, heads=heads,
                                   q_out_dtype="fp8" if fp8_out else None, **rotation)
    s.op("mla_rope_cache", **desc)(
        q_nope=q_nope, q_pe=q_pe, q_out=q_out, kv_c=kv_c[:tokens], k_pe=rotated[:tokens], kv_c_out=kv_c[:tokens],
        k_pe_out=kept[:tokens], k_cache=cache, k_scale=one, slot_mapping=slots[:tokens], positions=at[:tokens],
        cos_sin=table, q_out_scale=c.one(s, q_nope) if fp8_out else None, stream=c.stream(q_nope))
    rows = slots.shape[0]
    if rows > tokens:
        rest = kv_c[tokens:rows]
        rows_alone(call, rest, rotated[tokens:rows], kv_cache, slots[tokens:], scale, rotation, {
            "positions": at[tokens:rows], "cos_sin": table, "kv_c_out": rest, "k_pe_out": kept[tokens:rows]})
    zeros = c.new_like(q_nope, (n, heads, latent), q_nope.dtype)
    if decode_q_pe_out is None:
        decode_q_pe_out = c.new_like(q_nope, (n, heads, width), q_nope.dtype)
    if n:
        decode_q_pe_out[...] = q_out[:n, :, latent:]
        c.zero(zeros)
    return q_out, decode_q_pe_out, k_pe_out, zeros


def fused_qk_rope_concat_and_cache_mla(q_nope, q_pe, kv_c, k_pe, kv_cache, q_out, slot_mapping,
                                       k_scale, q_scale, positions, cos_cache, sin_cache, is_neox,
                                       is_nope_first, compute_all_q_rope=False):
    """Rotates q_pe and k_pe. Writes queries, q_nope and the rotated part joined, to q_out, and rows to the cache.
    Queries of tokens without a slot are written too; AITER writes them only with compute_all_q_rope."""
    call = "fused_qk_rope_concat_and_cache_mla"
    c.refuse(call, is_nope_first=(not is_nope_first, "the latent comes first"))
    tokens, s = min(q_nope.shape[0], slot_mapping.shape[0]), c.session(q_nope)
    q_nope, q_pe, q_out = (x[:tokens] for x in (q_nope, q_pe, q_out))
    kv_c, k_pe = (c.view(x, x.shape[0], x.shape[-1])[:tokens] for x in (kv_c, k_pe))
    table = c.cosines(s, cos_cache, sin_cache)
    short, fp8_out = c.dtype(table) != "f32", c.dtype(q_out) == "fp8"
    desc, cache, k_scale = latent_desc(
        call, q_nope, kv_cache, k_scale, kv_c.shape[1], heads=q_nope.shape[1],
        q_out_dtype="fp8" if fp8_out else None, rope="neox" if is_neox else "gptj",
        cos_sin_short=short)
    s.op("mla_rope_cache", **desc)(
        q_nope=q_nope, q_pe=q_pe, q_out=q_out, kv_c=kv_c, k_pe=k_pe, k_cache=cache, k_scale=k_scale,
        slot_mapping=c.cast(slot_mapping[:tokens], "int64"), positions=c.cast(positions, "int64")[:tokens],
        cos_sin=table, q_out_scale=c.scalar(call, "q_scale", q_scale) if fp8_out else None,
        stream=c.stream(q_nope))
