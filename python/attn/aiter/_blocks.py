# SPDX-License-Identifier: Apache-2.0
"""Writes new tokens into a cache in which a block of several pages shares scales. The blocks that get tokens are
copied, written as one page each, and copied back. torch or numpy copies on the device; the host reads no slot."""
from attn.aiter import _cache
from attn.aiter import _common as c
from attn.aiter._common import NotServed

# orders of dimensions for as_page(): SHUFFLE keys, SHUFFLE values, values [page, head, D, token]
KEYS, VALUES, COLUMNS = (0, 2, 3, 1, 4, 5), (0, 2, 1, 3, 4, 5), (0, 2, 3, 1, 4)


class Blocks:
    """The blocks that a batch writes, and copies of them. Copies i * n to i * n + n - 1 belong to sequence i, in the
    order of its tokens. slots is [batch, length], n the largest number of blocks of a sequence, size the tokens of a
    block."""

    def __init__(self, slots, n, size):
        batch, there, block = slots.shape[0], slots >= 0, slots // size
        turn = c.cast(there, "int64")  # 1 for a token that begins a new block of its sequence
        turn[:, 1:] *= block[:, 1:] != block[:, :-1]
        own = c.least(c.most(c.sums(turn, 1) - 1, 0), n - 1)
        ids = c.scattered(batch, n + 1, c.where(there, own, n), block)[:, :n].reshape(-1)
        first = c.arange(slots, batch, "int64")[:, None] * n
        self.slots = c.where(there, (first + own) * size + slots % size, -1)
        # put_back() writes the first used copy again in place of each unused copy, to the same block.
        used, at = ids >= 0, c.arange(slots, batch * n, "int64")
        self.source = c.where(used, at, c.cast(used, "int64").argmax(0))
        self.ids = c.most(ids, 0)

    def copy(self, x):
        return c.dense(x[self.ids])

    def put_back(self, x, copies):
        x[self.ids[self.source]] = copies[self.source]


def as_page(pages, order):
    """Returns copies of blocks [n, pages of a block, ...] as one page each. `order` is an order of dimensions in which
    the pages of a block come directly before the tokens of a page."""
    x = c.dense(c.permute(pages, order))
    tokens = order.index(1)  # dimension of the result that joins pages and tokens
    return c.view(x, *x.shape[:tokens], x.shape[tokens] * x.shape[tokens + 1], *x.shape[tokens + 2:])


def as_pages(page, order, shape):
    """Reverses as_page(): returns `page` as copies of blocks with dimensions `shape`."""
    wide = c.view(page, *(shape[i] for i in order))
    return c.permute(wide, [order.index(i) for i in range(len(order))])


def reshape_and_cache_with_block_quant_for_asm_pa(key, value, key_cache, value_cache, k_dequant_scales, v_dequant_scales,
                                                  slot_mapping, asm_layout, ori_block_size=128):
    """Writes new tokens [batch, length, heads, D] to fp8 or int8 SHUFFLE pages. ori_block_size tokens of a head share a
    scale. Scales are [blocks, kv heads]. Without asm_layout they are [kv heads, blocks], and values are [page, head, D,
    token]."""
    call = "reshape_and_cache_with_block_quant_for_asm_pa"
    if key.ndim != 4 or value.ndim != 4:
        raise NotServed(call, "key and value have the dimensions [batch, length, heads, D]")
    batch, length, size = key.shape[0], key.shape[1], int(ori_block_size)
    pages, heads, page = key_cache.shape[0], key_cache.shape[1], key_cache.shape[3]
    stored = c.dtype(key_cache)
    c.refuse(call, ori_block_size=(size not in (128, 256) or size % page != 0 or pages * page % size != 0,
                                   f"{pages} pages of {page} tokens in blocks of {size}: AITER has 128 and 256"),
             key_cache=(stored not in ("fp8", "int8"), f"it is {stored}"))
    if asm_layout:
        value_cache = _cache.as_shuffled(key_cache, value_cache)
    orders = (KEYS, VALUES if value_cache.ndim == 5 else COLUMNS)
    b = Blocks(c.cast(c.view(slot_mapping[:batch * length], batch, length), "int64"), (length + size - 2) // size + 1, size)
    parts = [c.view(c.bytes_of(x), -1, size // page, *x.shape[1:]) for x in (key_cache, value_cache)]
    scales = [_cache.of_pages(call, x, pages * page // size, heads, asm_layout)
              for x in (k_dequant_scales, v_dequant_scales)]
    copies, scale_copies = [b.copy(x) for x in parts], [b.copy(x) for x in scales]
    whole = [c.as_type(as_page(x, order), key_cache) for x, order in zip(copies, orders)]
    rows = [c.view(x, -1, *x.shape[-2:]) for x in (key, value)]
    _cache.write(call, *rows, *whole, c.view(b.slots, -1), *scale_copies, True, kv_scale=("block",))
    for x, copy, page_x, order in zip(parts, copies, whole, orders):
        b.put_back(x, as_pages(c.bytes_of(page_x), order, copy.shape))
    for x, copy in zip(scales, scale_copies):
        b.put_back(x, copy)
