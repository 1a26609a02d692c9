# SPDX-License-Identifier: Apache-2.0
"""The indexer of sparse attention: writes of its cache, scores of keys against queries, and selection of the largest
scores of each row."""
from attn.aiter import _common as c
from attn.aiter._common import NotServed

DIM = 128  # elements of an indexer's key
FP4 = DIM // 2 + 4  # bytes of a key: 128 elements of e2m1 and 4 scales of e8m0


def pages_of(call, kv_cache, least=DIM + 4):
    """Returns the cache as arguments of the ops. Bytes of a page after its keys and scales are not used. `least` is the
    number of bytes of a key with its scales."""
    c.refuse(call, kv_cache=(kv_cache.shape[-1] < least, f"{kv_cache.shape[-1]} bytes for a key and its scale"))
    keys, step = c.flat_pages(call, "kv_cache", kv_cache)
    c.refuse(call, kv_cache=(step % 16 != 0, f"its pages are {step} bytes apart, which is no multiple of 16"))
    return {"keys": keys, "page_size": kv_cache.shape[1], "page_stride": step}


def check_dim(call, q):
    if q.shape[-1] != DIM:
        raise NotServed(call, f"keys of {q.shape[-1]} elements: an indexer's have {DIM}")


def fp8_mqa_logits(Q, KV, kv_scales, weights, cu_starts, cu_ends, clean_logits=True):
    """Returns float32 [queries, keys]. Element [t, n] is kv_scales[n] sum_h weights[t, h] max(Q[t, h] KV[n], 0) for
    cu_starts[t] <= n < cu_ends[t]. Other elements are minus infinity, or with clean_logits=False undefined."""
    check_dim("fp8_mqa_logits", Q)
    rows, keys = Q.shape[0], KV.shape[0]
    logits = c.floats(Q, (rows, -(-max(keys, 1) // 256) * 256))[:, :keys]
    c.session(Q).op("indexer_logits", heads=Q.shape[1], paged=False)(
        q=Q, weights=c.cast(weights, "float32"), keys=c.view(KV, -1),
        key_scales=c.view(c.cast(kv_scales, "float32"), -1), row_starts=cu_starts[:rows],
        row_ends=cu_ends[:rows], logits=logits, clean=bool(clean_logits), stream=c.stream(Q))
    return logits


def flydsl_fp8_mqa_logits(Q, KV, kv_scales, weights, cu_starts, cu_ends, clean_logits=True, stream=None, variant=None):
    """Calls fp8_mqa_logits(). `variant`, which selects among AITER's kernels, has no effect."""
    c.refuse("flydsl_fp8_mqa_logits", stream=(stream is not None, "launches are on the current stream"))
    return fp8_mqa_logits(Q, KV, kv_scales, weights, cu_starts, cu_ends, clean_logits)


def deepgemm_fp8_paged_mqa_logits(q_fp8, kv_cache, weights, out_logits, context_lens, kv_indices,
                                  max_model_len, Preshuffle=False, KVBlockSize=1, ChunkK=256,
                                  TotalCuCount=None, WavePerEU=2, VarCtxSchedule=None):
    """Writes logits over pages [pages, KVBlockSize, 1, 132], which have their keys and then the scales. Query t of a
    sequence's next_n sees context_lens - next_n + t + 1 keys; later columns are not written. On gfx950 pages may have
    mxfp4 keys, [pages, KVBlockSize, 1, 68], in DeepGEMM's order: all keys of a page, then a scale for each 32
    elements."""
    call = "deepgemm_fp8_paged_mqa_logits"
    check_dim(call, q_fp8)
    batch, next_n, heads, _ = q_fp8.shape
    page = kv_cache.shape[1]
    c.refuse(call, KVBlockSize=(KVBlockSize != page, f"it is {KVBlockSize}, the cache has pages of {page}"))
    c.refuse(call, context_lens=(c.count(context_lens) != context_lens.shape[0],
                                 f"it has dimensions {tuple(context_lens.shape)}: a sequence has one length"))
    context_lens, rows = c.view(context_lens, -1), batch * next_n
    table = kv_indices[:batch]
    more, s, fp4 = {}, c.session(q_fp8), kv_cache.shape[-1] == FP4
    c.refuse(call, kv_cache=(fp4 and s.device.target != "gfx950", f"{s.device.target} has no matrix instruction for keys of 4 bits"))
    if next_n > 1:
        more["row_sequences"] = c.repeated(table, batch, next_n)
    s.op("indexer_logits", heads=heads, paged=True, small_pages=page < 32 or page & (page - 1) != 0,
         layout="shuffle" if Preshuffle else "nhd", index_keys="mxfp4" if fp4 else "fp8")(
        q=c.view(q_fp8, rows, heads, DIM), weights=weights[:rows],
        row_ends=row_ends(context_lens[:batch], next_n), block_table=table,
        logits=out_logits[:rows, :max_model_len], stream=c.stream(q_fp8), **pages_of(call, kv_cache, FP4 if fp4 else DIM + 4), **more)


def row_ends(lens, next_n):
    """Returns the number of keys that each query sees, [sequences * next_n], if each sequence has next_n queries at its
    end."""
    lens = c.cast(lens, "int32")
    if next_n == 1:
        return lens
    return c.view(lens[:, None] + (c.arange(lens, next_n) - (next_n - 1))[None], -1)


def select(call, logits, starts, ends, indices, values, rows, k, stride0, stride1):
    steps = logits.stride() if c.is_torch(logits) else [n // logits.itemsize for n in logits.strides]
    c.refuse(call, stride0=(rows > 1 and stride0 != steps[0], f"it is {stride0}, the tensor's is {steps[0]}"),
             stride1=(stride1 != steps[1], f"it is {stride1}, the tensor's is {steps[1]}"))
    indices, target = indices[:rows], indices
    if indices.shape[1] < k:
        raise NotServed(call, f"indices has {indices.shape[1]} columns for k = {k}")
    plain = indices.shape[1] == k and (indices.is_contiguous() if c.is_torch(indices)
                                       else indices.flags.c_contiguous)
    found = indices if plain else c.new_like(indices, (rows, k))
    if values is not None:
        values = c.view(values[:rows], rows, 1, k)
    c.session(logits).op("topk", top_k=k)(
        scores=logits[:rows], row_starts=starts, row_ends=ends, indices=c.view(found, rows, 1, k),
        values=values, stream=c.stream(logits))
    if starts is not None:
        found += (found >= 0) * starts[:, None]
    if not plain:
        target[:rows, :k] = found


def top_k_per_row_prefill(logits, rowStarts, rowEnds, indices, values, numRows, stride0, stride1,
                          k=2048, stable=False):
    """Writes the columns of the k largest of logits[r, rowStarts[r]:rowEnds[r]], ascending, then -1. With and without
    `stable`, the smaller columns are selected among equal scores."""
    select("top_k_per_row_prefill", logits, rowStarts[:numRows], rowEnds[:numRows], indices, values,
           numRows, k, stride0, stride1)


def top_k_per_row_decode(logits, next_n, seqLens, indices, numRows, stride0, stride1, k=2048,
                         stable=False):
    """Selects like top_k_per_row_prefill(). Row r has seqLens[r // next_n] - next_n + r % next_n + 1 scores."""
    select("top_k_per_row_decode", logits, None, row_ends(seqLens[:numRows // next_n], next_n), indices,
           None, numRows, k, stride0, stride1)


# An epsilon and weights with which the RMS norm changes no bit of a key. A key's mean square is negligible beside EPS,
# so the norm divides by ROOT, a power of two. Weights of ROOT multiply by it again.
EPS, ROOT = 2.0 ** 100, 2.0 ** 50


def indexer_k_quant_and_cache(k, kv_cache, slot_mapping, quant_block_size, scale_fmt, preshuffle=False):
    """Writes keys, which are normed and rotated already, as fp8 into the cache [pages, P, 132] or [pages, P, 1, 132].
    Launches indexer_rope_cache with a rotation by 0 and an RMS norm without effect. Scales are powers of two if
    scale_fmt is ue8m0."""
    call = "indexer_k_quant_and_cache"
    check_dim(call, k)
    c.refuse(call, quant_block_size=(quant_block_size != DIM, f"{quant_block_size}: a key has one scale"))
    s = c.session(k)
    tokens = min(k.shape[0], slot_mapping.shape[0])
    table, weight = (s.made.of((name, type(k)), (), make) for name, make in (
        ("no rotation", lambda: c.cast(c.arange(k, DIM // 2) < DIM // 4, "float32")),
        ("no norm", lambda: c.ones(k, DIM) * ROOT)))
    slots = c.cast(slot_mapping[:tokens], "int64")
    s.op("indexer_rope_cache", dtype=c.dtype(k), heads=64, rope="neox", layer_norm=False,
         layout="shuffle" if preshuffle else "nhd")(
        k=k[:tokens], k_weight=weight, slot_mapping=slots, positions=slots * 0, cos_sin=c.view(table, 1, -1),
        page_count=kv_cache.shape[0], eps=EPS, power_of_two_scales=scale_fmt == "ue8m0",
        stream=c.stream(k), **pages_of(call, kv_cache))


def indexer_qk_rope_quant_and_cache(q, q_out, weights, weights_out, k, kv_cache, slot_mapping,
                                    norm_weight, norm_bias, positions, cos_cache, sin_cache, epsilon,
                                    quant_block_size, scale_fmt, weights_scale, preshuffle=False,
                                    is_neox=True, compute_all_q_rope=False):
    """Rotates queries and converts them to fp8. weights_out gets the weights times weights_scale and times each query's
    scale. Applies LayerNorm to keys, rotates them, and writes them as fp8 into the cache [pages, P, 132] or [pages, P,
    1, 132]. Scales are powers of two if scale_fmt is ue8m0. Queries of tokens without a slot are computed with and
    without compute_all_q_rope."""
    call = "indexer_qk_rope_quant_and_cache"
    check_dim(call, q)
    c.refuse(call, quant_block_size=(quant_block_size != DIM, f"{quant_block_size}: a key has one scale"))
    s, tokens = c.session(q), min(k.shape[0], slot_mapping.shape[0])
    q, weights, q_out, weights_out = (x[:tokens] for x in (q, weights, q_out, weights_out))
    if c.dtype(cos_cache) == "f32":
        table = c.cosines(s, cos_cache, sin_cache)
    else:
        table = s.made.of("cos_sin_f32", (cos_cache, sin_cache), lambda a, b: c.cast(c.join(
            c.view(a, a.shape[0], -1), c.view(b, b.shape[0], -1)), "float32"))
    norm = [s.made.of("f32", (x,), lambda a: c.cast(a, "float32")) for x in (norm_weight, norm_bias)]
    s.op("indexer_rope_cache", dtype=c.dtype(q), heads=q.shape[1], rope="neox" if is_neox else "gptj",
         layer_norm=True, layout="shuffle" if preshuffle else "nhd")(
        q=q, weights=weights, q_out=q_out, weights_out=weights_out, k=k[:tokens], k_weight=norm[0],
        k_bias=norm[1], slot_mapping=c.cast(slot_mapping[:tokens], "int64"),
        positions=c.cast(positions, "int64")[:tokens], cos_sin=table,
        page_count=kv_cache.shape[0], weight_scale=float(weights_scale), eps=float(epsilon),
        power_of_two_scales=scale_fmt == "ue8m0", stream=c.stream(q), **pages_of(call, kv_cache))


def cp_gather_indexer_k_quant_cache(kv_cache, dst_k, dst_scale, block_table, cu_seq_lens, preshuffle=False):
    """Gathers keys of sequences: from [pages, P, 132] or [pages, P, 1, 132] to dst_k [tokens, 128]. Their scales go to
    dst_scale, [tokens, 1] of float32 or [tokens, 4] of bytes."""
    call = "cp_gather_indexer_k_quant_cache"
    check_dim(call, dst_k)
    tokens, batch = dst_k.shape[0], cu_seq_lens.shape[0] - 1
    scales = dst_scale if c.dtype(dst_scale) == "f32" else c.reinterpret(dst_scale, "float32")
    c.refuse(call, dst_scale=(c.count(scales) < tokens or scales.shape[-1] != 1 and scales.ndim > 1,
                              f"it has dimensions {tuple(dst_scale.shape)}: a key has one scale"))
    c.session(dst_k).op("indexer_gather", layout="shuffle" if preshuffle else "nhd")(
        block_table=block_table[:batch], cu_seqlens_k=cu_seq_lens, keys_out=dst_k,
        key_scales_out=c.view(scales, -1)[:tokens], max_seqlen_k=tokens, stream=c.stream(dst_k),
        **pages_of(call, kv_cache))
