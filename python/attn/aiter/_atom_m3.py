# SPDX-License-Identifier: Apache-2.0
"""ATOM's own kernels for MiniMax-M3 (atom.model_ops.minimax_m3): the choice of blocks of 128 tokens, lists of the
chosen blocks' pages, and attention to these pages. A row is a pair of a query and a KV head, with a choice of its
own."""
from attn.aiter import _attention as a
from attn.aiter import _common as c
from attn.aiter import _split
from attn.aiter._indexer import DIM, row_ends
from attn.aiter._minimax import fused_qknorm_idxrqknorm
from attn.aiter._paged import get_recommended_splits
from attn.attention import choose_parts

BLOCK, PAGE = 128, 16  # tokens of a block, and of a page in SHUFFLE layout
INSIDE = BLOCK // PAGE  # number of pages in a block


def queries_of(cu_seqlens_q, prefix_lens, tokens):
    """Returns (sequences, ends) of `tokens` packed queries, int32: the sequence of each query, and how many keys the
    query sees. Queries after the last sequence see no key."""
    at = c.arange(cu_seqlens_q, tokens)
    sequence = c.least(c.place(cu_seqlens_q[1:], at), cu_seqlens_q.shape[0] - 2)
    lens = prefix_lens[sequence] + at - cu_seqlens_q[sequence] + 1
    return c.cast(sequence, "int32"), c.cast(c.where(at < cu_seqlens_q[-1], lens, lens * 0), "int32")


def each_head(x, heads):
    """Returns x [queries] as [rows]: each element repeated for each of `heads` KV heads."""
    return x if heads == 1 else x[c.arange(x, x.shape[0] * heads, "int64") // heads]


def rows_of_heads(topk_idx):
    """Returns ATOM's topk_idx [kv heads, queries, topk] as [rows, topk]."""
    heads, queries, topk = topk_idx.shape
    return c.view(c.dense(c.permute(topk_idx, (1, 0, 2))), heads * queries, topk) if heads > 1 else topk_idx[0]


def counts_of(blocks):
    """Returns how many entries of each row name a block."""
    return c.cast((blocks >= 0).sum(-1), "int32")


def select(call, q, cache, places, topk, pinned, longest):
    """Returns the best blocks of each row of q [rows, 1, 128], ascending, then -1: [rows, topk]. `places` has the
    arguments that say which keys a row sees. `pinned` is (number of first blocks, number of last blocks) that are
    always selected. `longest` is the number of keys of the longest row, which determines into how many parts rows are
    split."""
    s, rows = c.session(q), q.shape[0]
    op = s.op("indexer_topk", top_k=topk, heads=1, paged=True, all_signs=True, index_keys=c.dtype(q), top_blocks=topk,
              block_size=BLOCK)
    keys, step = c.flat_pages(call, "index_kv_cache", c.bytes_of(cache))
    parts = choose_parts(op, rows, max(int(longest), 1)) if rows and s.has("topk", top_k=topk) else 1
    shape = (rows, parts, topk)
    blocks, best = c.integers(q, shape), c.integers(q, shape)
    more = {} if parts == 1 else {"values": c.floats(q, shape), "block_values": c.floats(q, shape)}
    op(q=q, weights=c.view(c.ones(q, rows), rows, 1), keys=keys, page_size=BLOCK, page_stride=step, indices=best, blocks=blocks,
       first_blocks=pinned[0], last_blocks=pinned[1], stream=c.stream(q), **places, **more)
    if parts > 1:
        merged = c.integers(q, (rows, 1, topk))
        s.op("topk", top_k=topk)(scores=c.view(more["block_values"], rows, parts * topk), indices=merged,
                                 source=c.view(blocks, rows, parts * topk), stream=c.stream(q))
        blocks = merged
    return c.view(blocks, rows, topk)


def page_lists(blocks, kv_lens, table, sequences, heads, inside=INSIDE):
    """Returns (lists, lens): the pages of each row's chosen blocks [rows, topk * inside], and the tokens in each list
    [rows]. Entries after a row's last page are 0. kv_lens and `sequences` have an element for each query; `sequences`
    None: query i belongs to sequence i. `table` has a number for each block, and a block has `inside` pages."""
    rows, topk = blocks.shape
    lists, lens = c.integers(blocks, (rows, topk * inside)), c.integers(blocks, (rows,))
    c.zero(lists)
    if rows:
        c.session(blocks).op("chosen_lists")(
            kv_lens=c.cast(kv_lens, "int32"), chosen=blocks, counts=counts_of(blocks), block_table=table, row_sequences=sequences,
            lists=lists, list_lens=lens, kv_heads=heads, window=0, ratio=BLOCK, group_entries=inside, page_entries=inside,
            open_group=True, stream=c.stream(blocks))
    return lists, lens


def choice(call, idx_q, cache, table, sequences, ends, longest, topk, init_blocks, local_blocks, kv_heads, emit):
    """Returns ATOM's topk_idx [kv heads, queries, topk], or with `emit` (topk_idx, lists of pages of 16 tokens, tokens
    of each list)."""
    queries, heads, dim = idx_q.shape
    own = c.dtype(idx_q)
    c.refuse(call, idx_q=(heads != kv_heads or dim != DIM, f"{heads} heads of {dim} for {kv_heads} KV heads: each has one of {DIM}"),
             index_kv_cache=(c.dtype(cache) != own or tuple(cache.shape[1:]) != (BLOCK, DIM),
                             f"pages {tuple(cache.shape[1:])} of {c.dtype(cache)}: they have {BLOCK} keys of {DIM}, {own} like idx_q"),
             local_blocks=(local_blocks < 1, "the newest block of a query is in every list"))
    # ATOM's captured graphs pass queries without a sequence, whose lengths are below 1.
    ends = c.most(ends, 0)
    places = {"block_table": table, "row_ends": each_head(ends, heads), "row_sequences": each_head(sequences, heads)}
    rows = queries * heads
    blocks = select(call, c.view(idx_q, rows, 1, dim), cache, places, topk, (init_blocks, local_blocks), longest)
    found = c.permute(c.view(blocks, queries, heads, topk), (1, 0, 2))
    return (found, *page_lists(blocks, ends, table, sequences, heads)) if emit else found


def minimax_m3_index_topk(idx_q, index_kv_cache, block_table, cu_seqlens_q, seq_lens, prefix_lens, max_query_len, max_seq_len, topk,
                          init_blocks, local_blocks, num_kv_heads, sm_scale, emit_sparse_block_table=False):
    """Chooses blocks for the queries of prompts, [kv heads, queries, topk], ascending, then -1. A positive sm_scale changes
    no choice and is not used. With emit_sparse_block_table it returns (topk_idx, lists of pages of 16 tokens, their
    tokens)."""
    sequences, ends = queries_of(cu_seqlens_q, prefix_lens, idx_q.shape[0])
    return choice("minimax_m3_index_topk", idx_q, index_kv_cache, block_table, sequences, ends, max_seq_len, topk, init_blocks,
                  local_blocks, num_kv_heads, emit_sparse_block_table)


def minimax_m3_index_topk_decode(idx_q, index_kv_cache, block_table, seq_lens, max_seq_len, topk, init_blocks, local_blocks,
                                 num_kv_heads, sm_scale, emit_sparse_block_table=False, max_query_len=1):
    """Chooses blocks as minimax_m3_index_topk() does. Each sequence has max_query_len queries, the last of its seq_lens
    tokens."""
    each = int(max_query_len)
    batch = idx_q.shape[0] // each
    return choice("minimax_m3_index_topk_decode", idx_q, index_kv_cache, block_table, c.repeated(idx_q, batch, each),
                  row_ends(seq_lens[:batch], each), max_seq_len, topk, init_blocks, local_blocks, num_kv_heads,
                  emit_sparse_block_table)


def minimax_m3_build_sparse_block_table(topk_idx, block_table, seq_lens):
    """Returns lists of pages of 16 tokens of one query a sequence, and their tokens. topk_idx [1, queries, topk] ascends, as
    minimax_m3_index_topk_decode() writes it."""
    return page_lists(rows_of_heads(topk_idx), seq_lens[:topk_idx.shape[1]], block_table, None, topk_idx.shape[0])


def minimax_m3_build_sparse_block_table_prefill(topk_idx, block_table, query_req_id, query_abs_pos):
    """Returns lists of pages and their tokens as minimax_m3_build_sparse_block_table() does, for queries at positions
    query_abs_pos of sequences query_req_id."""
    queries = topk_idx.shape[1]
    return page_lists(rows_of_heads(topk_idx), query_abs_pos[:queries] + 1, block_table, c.cast(query_req_id[:queries], "int32"),
                      topk_idx.shape[0])


def attend_blocks(call, q, kv_cache, topk_idx, table, sequences, kv_lens, kv_heads, scale, output):
    """Attends to chosen blocks of a cache [blocks, 2, 128, kv heads, D], which may be fp8 without scales. Makes one
    launch for each KV head."""
    s, queries, group = c.session(q), q.shape[0], q.shape[1] // kv_heads
    for head in range(kv_heads if queries else 0):
        lists, lens = page_lists(topk_idx[head], kv_lens, table, sequences, 1, inside=1)
        own, of_head = slice(head * group, (head + 1) * group), slice(head, head + 1)
        cache = c.Cache(call, kv_cache[:, 0, :, of_head], kv_cache[:, 1, :, of_head], c.dtype(q))
        desc = a.decode_desc(q[:, own], cache, "causal", None, 0.0, 1, "blocks")
        _split.launch(s, "decode", desc, dict(
            cache.tensors(), q=q[:, own], out=output[:, own], sinks=None, kv_lens=lens, block_table=lists,
            **a.numbers(scale, 0.0, "causal", -1, 0)), queries, longest=lists.shape[1] * BLOCK)


def minimax_m3_sparse_attn(q, kv_cache, topk_idx, block_table, cu_seqlens_q, seq_lens, prefix_lens, max_query_len, num_kv_heads,
                           sm_scale, output):
    """Attends with prompts to chosen blocks; each query has its own list of blocks. topk_idx ascends, as
    minimax_m3_index_topk() writes it."""
    sequences, lens = queries_of(cu_seqlens_q, prefix_lens, q.shape[0])
    attend_blocks("minimax_m3_sparse_attn", q, kv_cache, topk_idx, block_table, sequences, lens, num_kv_heads, sm_scale, output)


def minimax_m3_sparse_attn_decode(q, kv_cache, topk_idx, block_table, seq_lens, num_kv_heads, sm_scale, output):
    """Attends with one query for each sequence to chosen blocks, and writes output."""
    attend_blocks("minimax_m3_sparse_attn_decode", q, kv_cache, topk_idx, block_table, None, seq_lens[:q.shape[0]], num_kv_heads,
                  sm_scale, output)


def attend_pages(q, k_cache, v_cache, lists, lens, kv_heads, scale, output, k_scale, v_scale):
    """Attends with each row to its own list of pages of 16 tokens, over SHUFFLE caches. A page has its KV heads one
    after the other."""
    rows, group = q.shape[0] * kv_heads, q.shape[1] // kv_heads
    if rows == 0:
        return
    k, v = (c.view(x, x.shape[0] * kv_heads, 1, *x.shape[2:]) for x in (k_cache, v_cache))
    scales = [None if x is None else c.view(x, x.shape[0] * kv_heads, 1, x.shape[-1]) for x in (k_scale, v_scale)]
    shape = (rows, group, q.shape[2])
    a.pa_decode_gluon(c.view(output, *shape), c.view(q, *shape), k, v, lens, lists, scale, 1, get_recommended_splits(rows, 1),
                      key_scale=scales[0], value_scale=scales[1])


def minimax_m3_sparse_attn_decode_asm(q, k_cache, v_cache, topk_idx, block_table, seq_lens, num_kv_heads, sm_scale, output,
                                      k_scale=None, v_scale=None, sparse_bt=None, sparse_ctx=None):
    """Attends with one query for each sequence over SHUFFLE caches of 16 bits, or of fp8 with a scale for each token.
    sparse_bt and sparse_ctx are lists of pages and their tokens; if None, they are made from topk_idx."""
    if sparse_bt is None or sparse_ctx is None:
        sparse_bt, sparse_ctx = minimax_m3_build_sparse_block_table(topk_idx, block_table, seq_lens)
    attend_pages(q, k_cache, v_cache, sparse_bt, sparse_ctx, num_kv_heads, sm_scale, output, k_scale, v_scale)


def minimax_m3_sparse_attn_prefill_asm(q, k_cache, v_cache, topk_idx, block_table, query_req_id, query_abs_pos, qo_indptr,
                                       num_kv_heads, sm_scale, output, k_scale=None, v_scale=None, cu_seqlens_q=None,
                                       prefix_lens=None, sparse_bt=None, sparse_ctx=None):
    """Attends like minimax_m3_sparse_attn_decode_asm() for prompts, in which each query has its own list. qo_indptr
    must be 0, 1, 2, and so on, and is not read."""
    if sparse_bt is None or sparse_ctx is None:
        if query_req_id is None or query_abs_pos is None:
            query_req_id, lens = queries_of(cu_seqlens_q, prefix_lens, q.shape[0])
            query_abs_pos = lens - 1
        sparse_bt, sparse_ctx = minimax_m3_build_sparse_block_table_prefill(topk_idx, block_table, query_req_id, query_abs_pos)
    attend_pages(q, k_cache, v_cache, sparse_bt, sparse_ctx, num_kv_heads, sm_scale, output, k_scale, v_scale)


def minimax_m3_fused_qknorm_rope_kv_insert_shuffle(
        qkv, q_norm_weight, k_norm_weight, cos_sin_cache, positions, num_heads, num_kv_heads, rotary_dim, eps, index_q_norm_weight,
        index_k_norm_weight, num_index_heads, slot_mapping, kv_cache_k, kv_cache_v, index_cache, q_out, index_q_out, idx_head_dim):
    """Norms and rotates queries and keys, and writes to SHUFFLE caches with pages of 16 tokens and to the index cache,
    like fused_qknorm_idxrqknorm() with asm_layout. Caches of fp8 have no scales."""
    call = "minimax_m3_fused_qknorm_rope_kv_insert_shuffle"
    c.refuse(call, idx_head_dim=(idx_head_dim != c.count(q_norm_weight), f"{idx_head_dim}: heads have {c.count(q_norm_weight)} elements"))
    stored = "fp8_e4m3_unit" if c.dtype(kv_cache_k) == "fp8" else "auto"
    fused_qknorm_idxrqknorm(
        qkv, q_norm_weight, k_norm_weight, cos_sin_cache, positions, num_heads, num_kv_heads, rotary_dim, eps, index_q_norm_weight,
        index_k_norm_weight, num_index_heads, slot_mapping, kv_cache_k, kv_cache_v, index_cache, PAGE, q_out, index_q_out,
        kv_cache_dtype=stored, asm_layout=True)
