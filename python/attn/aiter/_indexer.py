# SPDX-License-Identifier: Apache-2.0
"""The indexer of sparse attention: scores of keys against queries, and the largest of each row."""
from attn.aiter import _common as c
from attn.aiter._common import NotServed

DIM, ROW_BYTES = 128, 132  # of a key, and with its scale


def check_dim(call, q):
    if q.shape[-1] != DIM:
        raise NotServed(call, f"keys of {q.shape[-1]} elements: an indexer's have {DIM}")


def fp8_mqa_logits(Q, KV, kv_scales, weights, cu_starts, cu_ends, clean_logits=True):
    """[queries, keys] of float32: kv_scales[n] sum_h weights[t, h] max(Q[t, h] KV[n], 0) for
    cu_starts[t] <= n < cu_ends[t]; minus infinity elsewhere, or with clean_logits=False nothing."""
    check_dim("fp8_mqa_logits", Q)
    rows, keys = Q.shape[0], KV.shape[0]
    logits = c.floats(Q, (rows, -(-max(keys, 1) // 256) * 256))[:, :keys]
    c.session(Q).op("indexer_logits", heads=Q.shape[1], paged=False)(
        q=Q, weights=c.cast(weights, "float32"), keys=c.view(KV, -1),
        key_scales=c.view(c.cast(kv_scales, "float32"), -1), row_starts=cu_starts[:rows],
        row_ends=cu_ends[:rows], logits=logits, clean=bool(clean_logits), stream=c.stream(Q))
    return logits


def deepgemm_fp8_paged_mqa_logits(q_fp8, kv_cache, weights, out_logits, context_lens, kv_indices,
                                  max_model_len, Preshuffle=False, KVBlockSize=1, ChunkK=256,
                                  TotalCuCount=None, WavePerEU=2, VarCtxSchedule=None):
    """The same over pages [pages, KVBlockSize, 1, 132], keys and then their scales; query t of next_n
    sees context_lens - next_n + t + 1 keys. Columns behind these are not touched."""
    call = "deepgemm_fp8_paged_mqa_logits"
    check_dim(call, q_fp8)
    batch, next_n, heads, _ = q_fp8.shape
    page = kv_cache.shape[1]
    c.refuse(call, KVBlockSize=(KVBlockSize != page, f"it is {KVBlockSize}, the cache has pages of {page}"))
    rows = batch * next_n
    table = kv_indices[:batch]
    more = {}
    if next_n > 1:
        more["row_sequences"] = c.repeated(table, batch, next_n)
    c.session(q_fp8).op("indexer_logits", heads=heads, paged=True,
                        layout="shuffle" if Preshuffle else "nhd")(
        q=c.view(q_fp8, rows, heads, DIM), weights=weights[:rows], keys=c.view(kv_cache, -1),
        row_ends=row_ends(context_lens[:batch], next_n), block_table=table,
        logits=out_logits[:rows, :max_model_len], page_size=page, page_stride=page * ROW_BYTES,
        stream=c.stream(q_fp8), **more)


def row_ends(lens, next_n):
    """Keys that each of next_n queries of a sequence sees."""
    if next_n == 1:
        return lens
    return c.view(lens[:, None] + (c.arange(lens, next_n) - (next_n - 1))[None], -1)


def select(call, logits, starts, ends, indices, values, rows, k):
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
    """The columns of the k largest of logits[r, rowStarts[r]:rowEnds[r]], ascending, then -1. Always as
    with stable: of equal scores those of the smaller columns."""
    select("top_k_per_row_prefill", logits, rowStarts[:numRows], rowEnds[:numRows], indices, values,
           numRows, k)


def top_k_per_row_decode(logits, next_n, seqLens, indices, numRows, stride0, stride1, k=2048,
                         stable=False):
    """The same, where row r has seqLens[r // next_n] - next_n + r % next_n + 1 scores."""
    select("top_k_per_row_decode", logits, None, row_ends(seqLens[:numRows // next_n], next_n), indices,
           None, numRows, k)
