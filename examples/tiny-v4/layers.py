# SPDX-License-Identifier: Apache-2.0
"""A layer of each kind of DeepSeek-V4 at the shapes of a rank of eight: a window alone, chosen rows of 4 tokens (CSA),
every row of 128 tokens (HCA). Each has its launches, its rows in one pool, and its formula in doubles."""
import attn
import numpy as np

from formulas import COS_SIN, EPS, ROTARY, attend, inversion, norm, numbers, rotate, score_error
from pooled import Pooled
from steps import DRAFTS, ROWS, Step

HEADS, DIM, WINDOW = 8, 512, 128
INDEX_HEADS, INDEX_DIM, TOP = 64, 128, 16  # TOP: rows that the indexer chooses
LONGEST, TOKENS = 63, 224        # tokens of a call, of a sequence
PAGE, INDEX_PAGE, PAGES = 16, 16, 4  # rows of a page, also of the indexer; pages of a sequence
RING = DRAFTS + WINDOW           # rows of a sequence's ring: the tokens of a step, and the window before them
SCALE = DIM ** -0.5
# Rows of the pool and queries are rounded to fp16, 2^-11 of each element. So are the weights of rows and the result. A
# weight is also off by the error of its score, the product of a query and a row of sqrt 512 each.
BOUND = 4 * 2.0 ** -11


class Rows:
    """The form of the pool's rows: fp16, or with `fp8` 584 bytes, which are 448 elements of fp8, 64 of fp16, and scales."""

    def __init__(self, fp8):
        self.bytes = 584 if fp8 else DIM * 2
        self.form = dict(row="fp8", layout="scales_last") if fp8 else dict(row="fp16")
        self.cache = attn.CacheDesc(dtype="fp8", layout="scales_last", page_size=PAGE) if fp8 else attn.CacheDesc(page_size=1)
        # An element of fp8 is off by 2^-4 of itself at most, and by less than half as much on average. A weight is also off by
        # the error of its score.
        self.bound = 2.0 ** -4 if fp8 else BOUND
        self.fp8 = fp8

    def pages(self, rows):
        """Returns memory for at least `rows` rows, in pages."""
        return np.zeros((-(-rows // PAGE), PAGE * self.bytes), np.uint8)

    def tensor(self, pages):
        """Returns the pages as mla_decode's k_cache."""
        return pages if self.fp8 else pages.view(np.float16).reshape(-1, 1, 1, DIM)

    def second(self, pages):
        """Returns the pages as mla_decode's second source."""
        return pages if self.fp8 else pages.view(np.float16).reshape(-1, DIM)


class WindowStep(Step):
    """A step of layers with a window. Rows of a prompt's chunk go to the window's ring after the attention. They overwrite
    older rows, which the chunk's first tokens still see."""
    PAGE_ROWS, CHOSEN, PAGES = {4: PAGE, 128: PAGE}, 4, PAGES

    def __init__(self, layers, lengths, stream=None, chunk=False):
        super().__init__(layers, lengths, stream, chunk)
        self.window_slots, self.window_rows = np.zeros(ROWS, np.int32), np.full(self.tokens, -1, np.int64)
        self.new_lens, self.chunk_rows = np.zeros(self.tokens, np.int32) if chunk else None, np.arange(self.tokens)

    def put_token(self, layers, at, row, position, sequence, token):
        super().put_token(layers, at, row, position, sequence, token)
        if self.new_lens is not None:
            self.new_lens[at] = at - self.cu[row] + 1
        self.window_slots[row] = sequence.number
        self.window_rows[at] = layers[0].first + sequence.number * RING + position % RING


class Layer:
    """A layer by the tokens of a group, `ratio`. 0: a window; 4: a window and chosen rows; 128: a window and every row."""
    exact = staticmethod(np.float64)

    def __init__(self, number, device, ratio, fp8=False):
        self.number, self.ratio, self.stored = number, ratio, Rows(fp8)
        self.BOUND, form = self.stored.bound, dict(first=DIM - ROTARY, **self.stored.form)
        self.window = Pooled(device, 10 * number + 1, DIM, 1, scored=False, **form)
        self.main = Pooled(device, 10 * number + 2, DIM, ratio, ratio == 4, **form) if ratio else None
        shape = dict(dtype="fp16", head_dim=DIM, heads=HEADS, rope="gptj", rotary_dim=ROTARY)
        self.heads_in, self.heads_out = device.rope_heads(**shape, norm="rms"), device.rope_heads(**shape)
        self.lists_op = device.chosen_lists()
        attend = dict(dtype="fp16", head_dim=DIM, head_dim_v=DIM, heads=HEADS, sinks=True, sparse="slots",
                      cache=self.stored.cache)
        self.attend, self.attend_two = device.mla_decode(**attend), device.mla_decode(**attend, two_sources=True)
        self.sinks = np.float32(numbers((HEADS,), number, 5))
        self.first = ROWS * PAGES * PAGE       # rows of the pages come before those of the windows
        self.pool = self.stored.pages(self.first + ROWS * RING)
        self.chunk = self.stored.pages(LONGEST)  # rows of a prompt's chunk, the second source
        self.second_first = len(self.pool) * PAGE
        entries = (TOP if ratio == 4 else TOKENS // 128) + WINDOW
        self.lists = np.zeros((LONGEST, entries), np.int32)
        self.list_lens = np.zeros(LONGEST, np.int32)
        self.q, self.out = (np.zeros((LONGEST, HEADS, DIM), np.float16) for _ in range(2))
        self.index = Index(number, device) if ratio == 4 else None

    def inputs(self, token):
        given = {"q": numbers((HEADS, DIM), self.number, token, 6), "window": self.window.inputs(token)}
        if self.main:
            given["main"] = self.main.inputs(token)
        if self.index:
            given["index"] = self.index.inputs(token)
        return given

    def launch(self, step):
        given, n = step.inputs[self.number], step.tokens
        stride, chosen = PAGE * self.stored.bytes, {}
        rope = dict(positions=step.positions, cos_sin=COS_SIN, rotary_first=DIM - ROTARY, stream=step.stream)
        self.heads_in(x=given["q"], out=self.q[:n], eps=EPS, **rope)
        pool, rows = (self.pool, step.window_rows) if step.new_lens is None else (self.chunk, step.chunk_rows)
        self.window.launch(step, given["window"], rows, pool, PAGE, stride)
        if self.main:
            self.main.launch(step, given["main"], step.group_rows[self.ratio], self.pool, PAGE, stride)
        if self.index:
            self.index.launch(step, given["index"])
            chosen = dict(chosen=self.index.chosen[:n], counts=self.index.counts[:n])
        self.lists_op(kv_lens=step.sees, block_table=step.pages, row_sequences=step.sequences,
                      window_slots=step.window_slots, lists=self.lists[:n], list_lens=self.list_lens[:n], kv_heads=1,
                      ratio=self.ratio or 4096, page_entries=PAGE, window=WINDOW, ring=RING, window_first=self.first,
                      window_stride=RING, new_lens=step.new_lens, second_first=self.second_first, stream=step.stream,
                      **chosen)
        attend = dict(q=self.q[:n], out=self.out[:n], k_cache=self.stored.tensor(self.pool),
                      block_table=self.lists[:n], kv_lens=self.list_lens[:n], sinks=self.sinks, scale=SCALE,
                      stream=step.stream)
        if step.new_lens is None:
            self.attend(**attend)
        else:
            self.attend_two(**attend, second=self.stored.second(self.chunk), second_first=self.second_first)
            self.window.launch(step, given["window"], step.window_rows, self.pool, PAGE, stride)
        self.heads_out(x=self.out[:n], out=self.out[:n], backwards=True, **rope)

    def choice(self, at):
        return self.index.chosen[at][:self.index.counts[at]].copy() if self.index else None

    def check(self, tokens, chosen):
        return self.index.check(tokens, chosen) if self.index else 0.0

    def reference(self, tokens, chosen):
        """Outputs [token, head, element], and the sizes of the terms of their sums. For CSA, `chosen` has the groups that
        the launches chose for each token; Index.check() compares them."""
        given = [self.inputs(t) for t in tokens]
        window = self.window.rows([g["window"] for g in given])
        rows = self.main.rows([g["main"] for g in given]) if self.main else np.zeros((0, DIM))
        out, sizes = [], []
        for t, g in enumerate(given):
            q = rotate(norm(np.float64(np.float16(g["q"]))), t, DIM - ROTARY)
            groups = np.arange((t + 1) // self.ratio) if self.ratio else np.arange(0)
            keys = np.concatenate([rows[chosen[t] if self.index else groups], window[max(t + 1 - WINDOW, 0):t + 1]])
            o, size = attend(q, keys, keys, SCALE, self.sinks)
            out.append(rotate(o, t, DIM - ROTARY, back=True))
            sizes.append(size)
        return np.array(out), np.array(sizes)


class Index:
    """The indexer of a CSA layer: each rank has all of its 64 heads. The model rotates the last 64 of
    128 elements, indexer_rope_cache the first: an engine exchanges the halves of the projections' rows when it loads
    them, which changes no product of a query and a key."""

    def __init__(self, number, device):
        self.number, self.device = number, device
        self.keys = Pooled(device, 10 * number + 3, INDEX_DIM, 4, True, row="fp8", hadamard=True)
        self.rope = device.indexer_rope_cache(dtype="fp16", heads=INDEX_HEADS, rope="gptj", hadamard=True)
        self.choose = device.indexer_topk(top_k=TOP, heads=INDEX_HEADS, paged=True, small_pages=True)
        self.stride = INDEX_PAGE * (INDEX_DIM + 4)
        self.pool = np.zeros(ROWS * PAGES * self.stride, np.uint8)
        rows = LONGEST
        self.q, self.weights = np.zeros((rows, INDEX_HEADS, INDEX_DIM), np.uint8), np.zeros((rows, INDEX_HEADS), np.float32)
        self.chosen, self.counts = np.full((rows, TOP), -1, np.int32), np.zeros(rows, np.int32)
        self.no_key, self.no_weight = np.ones((rows, INDEX_DIM), np.float16), np.ones(INDEX_DIM, np.float32)
        self.no_slots = np.full(rows, -1, np.int64)

    def inputs(self, token):
        return {"q": numbers((INDEX_HEADS, INDEX_DIM), self.number, token, 7),
                "weights": abs(numbers((INDEX_HEADS,), self.number, token, 8)), "keys": self.keys.inputs(token)}

    def launch(self, step, given):
        n = step.tokens
        self.keys.launch(step, given["keys"], step.group_rows[4], self.pool, INDEX_PAGE, self.stride)
        self.rope(q=given["q"], weights=given["weights"], q_out=self.q[:n], weights_out=self.weights[:n], k=self.no_key[:n],
                  k_weight=self.no_weight, slot_mapping=self.no_slots[:n], positions=step.positions, cos_sin=COS_SIN,
                  keys=self.pool, page_size=INDEX_PAGE, page_stride=self.stride, eps=EPS,
                  weight_scale=(INDEX_DIM * INDEX_HEADS) ** -0.5, stream=step.stream)
        self.choose(q=self.q[:n], weights=self.weights[:n], keys=self.pool, row_ends=step.groups, block_table=step.pages,
                    row_sequences=step.sequences, indices=self.chosen[:n, None], counts=self.counts[:n, None],
                    page_size=INDEX_PAGE, page_stride=self.stride, stream=step.stream)

    def check(self, tokens, chosen):
        """Returns the largest inversion of a choice of rows."""
        given = [self.inputs(t) for t in tokens]
        keys, worst = self.keys.rows([g["keys"] for g in given]), 0.0
        for t, g in enumerate(given):
            q = rotate(np.float64(np.float16(g["q"])), t)
            n, w = (t + 1) // 4, np.float64(np.float16(g["weights"])) * (INDEX_DIM * INDEX_HEADS) ** -0.5
            off = score_error(w, q, keys[:n]) if n else 1
            worst = max(worst, inversion(w @ np.maximum(q @ keys[:n].T, 0), chosen[t], np.arange(n), TOP, off))
        return worst


ROWS_OF_FP8 = [
    {"op": "compress", "head_dim": DIM, "norm": "rms", "rope": "gptj", "rotary_dim": ROTARY, "kv_dtype": "fp8",
     "kv_layout": "scales_last"},
    {"op": "mla_decode", "head_dim": DIM, "head_dim_v": DIM, "gqa": HEADS, "sinks": True, "sparse": "slots", "page_size": PAGE,
     "two_sources": [False, True], "kv_dtype": "fp8", "kv_layout": "scales_last"},
]
KERNELS = [
    {"op": "compress", "head_dim": DIM, "norm": "rms", "rope": "gptj", "rotary_dim": ROTARY},
    {"op": "compress", "head_dim": INDEX_DIM, "norm": "rms", "rope": "gptj", "rotary_dim": ROTARY, "hadamard": True,
     "kv_dtype": "fp8"},
    {"op": "rope_heads", "head_dim": DIM, "norm": ["rms", "none"], "rope": "gptj", "rotary_dim": ROTARY},
    {"op": "indexer_rope_cache", "rope": "gptj", "hadamard": True},
    {"op": "indexer_topk", "top_k": TOP, "index_heads": INDEX_HEADS, "paged": True, "small_pages": True},
    {"op": "chosen_lists"},
    {"op": "mla_decode", "head_dim": DIM, "head_dim_v": DIM, "gqa": HEADS, "sinks": True, "sparse": "slots",
     "two_sources": [False, True]},
]
