# SPDX-License-Identifier: Apache-2.0
"""Attention of new tokens over a cached prefix and over themselves: one launch for each, and one that merges both
results."""
from attn.aiter import _attention as a
from attn.aiter import _cache
from attn.aiter import _common as c


def cut(mask, mask_indptr, rows, keys, skipped, wanted, room):
    """Cuts columns out of a packed mask, in which sequence s has rows[s] rows of keys[s] columns. Keeps wanted[s]
    columns from column skipped[s] on. Returns (packed mask of `room` elements, start of each sequence in it). The
    device computes both; the host reads nothing back."""
    ends = c.sums(c.cast(rows, "int64") * wanted)
    starts = c.join(ends[:1] * 0, ends)
    at = c.arange(mask, min(c.count(mask), room), "int64")
    s = c.least(c.place(ends, at), rows.shape[0] - 1)
    width = c.most(wanted[s], 1)
    own = at - starts[s]
    row = own // width
    source = mask_indptr[s] + row * keys[s] + skipped[s] + own - row * width
    return mask[c.least(c.most(source, 0), c.count(mask) - 1)], starts


def masks_of(custom_mask, mask_indptr, q_lens, prefixes, skip_prefix, room):
    """Returns (arguments of the prefix's mask, arguments of the new tokens' mask) for prefill. A row of an engine's
    mask has both parts. skip_prefix: True if the prefix has no mask; its arguments are then {}."""
    mask = c.reinterpret(c.view(custom_mask, -1), "uint8")
    starts = c.cast(mask_indptr[:q_lens.shape[0]], "int64")
    q_lens, prefixes = c.cast(q_lens, "int64"), c.cast(prefixes, "int64")
    keys, none = q_lens + prefixes, prefixes * 0
    parts = [(prefixes, q_lens)] if skip_prefix else [(none, prefixes), (prefixes, q_lens)]
    cuts = [cut(mask, starts, q_lens, keys, *part, room) for part in parts]
    made = [{"custom_mask": m, "mask_indptr": at} for m, at in cuts]
    return ({}, made[0]) if skip_prefix else made


def extend_attention_fwd(q_extend, k_extend, v_extend, o_extend, k_buffer, v_buffer, qo_indptr, kv_indptr,
                         kv_indices, custom_mask, is_causal, mask_indptr, max_len_extend, sm_scale=None,
                         logit_cap=0.0, skip_prefix_custom_mask=True, config=None):
    """Attends with new tokens to a prefix, the slots kv_indices of k_buffer and v_buffer [slots, kv heads, D], and to
    the new tokens themselves. A custom mask has a row of prefix and new tokens for each query, and replaces is_causal;
    with skip_prefix_custom_mask all of the prefix is visible. `config` is for AITER's kernel and has no effect. Writes
    o_extend."""
    call = "extend_attention_fwd"
    a.check_q(call, q_extend)
    own, batch = c.dtype(q_extend), qo_indptr.shape[0] - 1
    c.refuse(call, o_extend=(c.dtype(o_extend) != own, f"it is {c.dtype(o_extend)}, the queries are {own}"),
             k_buffer=(c.dtype(k_buffer) != own or c.dtype(v_buffer) != own,
                       f"it is {c.dtype(k_buffer)}: AITER rounds queries of {own} to that"),
             mask_indptr=(custom_mask is not None and mask_indptr is None, "a custom mask needs it"))
    s, cap = c.session(q_extend), logit_cap or 0.0
    qo_indptr, kv_indptr = c.cast(qo_indptr, "int32"), c.cast(kv_indptr[:batch + 1], "int32")
    prefixes, before = kv_indptr[1:] - kv_indptr[:-1], kv_indices.shape[0] > 0
    masks, kinds = ({}, {}), ("none", "causal" if is_causal else "none")
    if custom_mask is not None:
        # SGLang's buffer for masks has the size of the longest step
        room = q_extend.shape[0] * (kv_indices.shape[0] + int(max_len_extend))
        masks = masks_of(custom_mask, mask_indptr, qo_indptr[1:] - qo_indptr[:-1], prefixes, skip_prefix_custom_mask, room)
        kinds = ["custom" if mask else "none" for mask in masks]
    more = {"scale": sm_scale or 0.0, "soft_cap": cap}
    heads, dim_v, longest = k_extend.shape[1], v_extend.shape[2], int(max_len_extend)
    desc = a.attention_desc(q_extend, dim_v, heads, kinds[1], None, cap, before)
    new = {"k": k_extend, "v": v_extend, "cu_seqlens_k": qo_indptr, **masks[1]}
    if not before:
        a.prefill(s, desc, q_extend, dim_v, qo_indptr, longest, longest, o_extend, False, None, new, more)
        return
    cache = c.Cache(call, k_buffer, v_buffer, own)
    old = a.attention_desc(q_extend, dim_v, heads, kinds[0], None, cap, True)
    old.update(paged=True, cache=cache.desc, page_table="indices")
    keys = dict(cache.tensors(), kv_indptr=kv_indptr, kv_indices=c.cast(kv_indices, "int32"),
                kv_lens=prefixes, **masks[0])
    parts = [a.prefill(s, desc, q_extend, dim_v, qo_indptr, longest, longest, None, True, None, new, more),
             a.prefill(s, old, q_extend, dim_v, qo_indptr, longest, kv_indices.shape[0], None, True, None, keys, more)]
    (suffix, suffix_lse), (prefix, prefix_lse) = parts
    _cache.merge_attn_states(o_extend, prefix, prefix_lse, suffix, suffix_lse)
