# SPDX-License-Identifier: Apache-2.0
"""A layer of each kind of DeepSeek-V4 at the shapes of a rank of eight: a window alone, chosen rows of 4 tokens (CSA),
every row of 128 tokens (HCA). Each has its launches, its rows in one pool, and its formula in doubles.

A layer's inputs, which a model's projections would compute, are random numbers with the token's number as seed."""
import attn
import numpy as np

HEADS, DIM, ROTARY, WINDOW = 8, 512, 64, 128
INDEX_HEADS, INDEX_DIM, TOP = 64, 128, 16  # TOP: rows that the indexer chooses
DRAFTS = 3                       # queries of a step that verifies
ROWS = 3                         # sequences of a step; the last one is padding
LONGEST, POSITIONS = 63, 224     # tokens of a call, of a sequence
PAGE, INDEX_PAGE, PAGES = 16, 16, 4  # rows of a page, also of the indexer; pages of a sequence
RING = DRAFTS + WINDOW           # rows of a sequence's ring: the tokens of a step, and the window before them
EPS = 1e-6
SCALE = DIM ** -0.5


def numbers(shape, *seed):
    return np.random.default_rng(seed).standard_normal(shape)


def length(x):
    """The lengths of rows."""
    return np.sqrt((x * x).sum(-1))


def angles():
    pair = np.arange(ROTARY // 2)
    angle = np.arange(POSITIONS)[:, None] * 10000.0 ** (-2 * pair / ROTARY)
    return np.float32(np.concatenate([np.cos(angle), np.sin(angle)], -1))


COS_SIN = angles()


def rotate(x, position, first, back=False):
    """Rotates pairs of neighbours from element `first` on."""
    cos, sin = np.float64(COS_SIN[position][:ROTARY // 2]), np.float64(COS_SIN[position][ROTARY // 2:])
    sin = -sin if back else sin
    y = x.copy()
    a, b = x[..., first:first + ROTARY:2], x[..., first + 1:first + ROTARY:2]
    y[..., first:first + ROTARY:2], y[..., first + 1:first + ROTARY:2] = a * cos - b * sin, b * cos + a * sin
    return y


def norm(x, weight=1.0):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS) * weight


class Pooled:
    """Rows of groups of tokens that `compress` makes from x and scores: the ring of earlier tokens, the launch, the formula.
    Without `scored` a group is one token. With `overlap` a row also has the tokens of the group before."""

    def __init__(self, device, number, dim, ratio, overlap, scored, row, hadamard=False, ape=True):
        self.number, self.dim, self.ratio, self.overlap, self.scored = number, dim, ratio, overlap, scored
        self.columns = dim * (2 if overlap else 1)
        self.first = 0 if hadamard else dim - ROTARY  # the first element that rotates
        self.op = device.compress(dtype="fp16", state_dtype="f32", head_dim=dim, norm="rms", rope="gptj",
                                  rotary_dim=ROTARY, hadamard=hadamard, row_dtype=row)
        self.weight = np.float32(1 + numbers((dim,), number, 1) / 8)
        self.ape = np.float32(numbers((ratio, self.columns), number, 2) * ape) if scored else None
        self.ring = ratio * (2 if overlap else 1) + DRAFTS
        self.state = np.full((ROWS, self.ring, self.columns), np.nan, np.float32)
        self.state_scores = np.full_like(self.state, np.nan)

    def inputs(self, token):
        given = {"x": numbers((self.columns,), self.number, token, 3)}
        return given | ({"scores": numbers((self.columns,), self.number, token, 4)} if self.scored else {})

    def launch(self, step, given, slots, pool, page_size, page_stride, latent=None):
        scores = dict(scores=given["scores"], state_scores=self.state_scores, ape=self.ape) if self.scored else {}
        self.op(x=given["x"], state=self.state, state_slots=step.slots, cu_seqlens=step.cu, context_lens=step.lengths,
                weight=self.weight, cos_sin=COS_SIN, slot_mapping=slots,
                pool=pool.view(np.uint8).reshape(-1), max_seqlen=step.longest,
                ratio=self.ratio, overlap=self.overlap, rotary_first=self.first,
                page_size=page_size, page_stride=page_stride, eps=EPS, power_of_two_scales=True, stream=step.stream,
                latent=latent, **scores)

    def rows(self, given, rotated=True):
        """Returns the rows of all complete groups of a sequence, by the formula; without `rotated` as the op's `latent` has
        them."""
        x = np.float64([np.float32(g["x"]) for g in given])
        scores = np.float64([np.float32(g["scores"]) for g in given]) if self.scored else np.zeros_like(x)
        rows = []
        for group in range(len(given) // self.ratio):
            own = np.arange(group * self.ratio, (group + 1) * self.ratio)
            last = slice(self.columns - self.dim, self.columns)
            ape = np.float64(self.ape) if self.scored else np.zeros((self.ratio, self.columns))
            xs, ss = [x[own, last]], [scores[own, last] + ape[:, last]]
            if self.overlap and group:
                older = own - self.ratio
                xs.append(x[older, :self.dim])
                ss.append(scores[older, :self.dim] + ape[:, :self.dim])
            xs, ss = np.concatenate(xs), np.concatenate(ss)
            w = np.exp(ss - ss.max(0))
            z = norm((w * xs).sum(0) / w.sum(0), np.float64(self.weight))
            rows.append(rotate(z, group * self.ratio, self.first) if rotated else z)
        return np.array(rows).reshape(-1, self.dim)


class Layer:
    """A layer by the tokens of a group, `ratio`. 0: a window; 4: a window and chosen rows; 128: a window and every row."""

    def __init__(self, number, device, ratio):
        self.number, self.ratio = number, ratio
        self.window = Pooled(device, 10 * number + 1, DIM, 1, False, False, "fp16")
        self.main = Pooled(device, 10 * number + 2, DIM, ratio, ratio == 4, True, "fp16") if ratio else None
        shape = dict(dtype="fp16", head_dim=DIM, heads=HEADS, rope="gptj", rotary_dim=ROTARY)
        self.heads_in, self.heads_out = device.rope_heads(**shape, norm="rms"), device.rope_heads(**shape)
        self.lists_op = device.chosen_lists()
        attend = dict(dtype="fp16", head_dim=DIM, head_dim_v=DIM, heads=HEADS, sinks=True, sparse="slots",
                      cache=attn.CacheDesc(page_size=1))
        self.attend, self.attend_two = device.mla_decode(**attend), device.mla_decode(**attend, two_sources=True)
        self.sinks = np.float32(numbers((HEADS,), number, 5))
        self.first = ROWS * PAGES * PAGE       # rows of the pages come before those of the windows
        self.pool = np.zeros((self.first + ROWS * RING, DIM), np.float16)
        self.chunk = np.zeros((LONGEST, DIM), np.float16)  # rows of a prompt's chunk, the second source
        entries = (TOP if ratio == 4 else POSITIONS // 128) + WINDOW
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
        stride, chosen = PAGE * DIM * 2, {}
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
                      window_stride=RING, new_lens=step.new_lens, second_first=len(self.pool), stream=step.stream,
                      **chosen)
        attend = dict(q=self.q[:n], out=self.out[:n], k_cache=self.pool.reshape(-1, 1, 1, DIM),
                      block_table=self.lists[:n], kv_lens=self.list_lens[:n], sinks=self.sinks, scale=SCALE,
                      stream=step.stream)
        if step.new_lens is None:
            self.attend(**attend)
        else:
            self.attend_two(**attend, second=self.chunk, second_first=len(self.pool))
            self.window.launch(step, given["window"], step.window_rows, self.pool, PAGE, stride)
        self.heads_out(x=self.out[:n], out=self.out[:n], backwards=True, **rope)

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
            groups = chosen[t] if self.index else groups
            keys = np.concatenate([rows[groups], window[max(t + 1 - WINDOW, 0):t + 1]])
            scores = q @ keys.T * SCALE
            sinks = np.float64(self.sinks)[:, None]
            most = np.maximum(scores.max(-1, keepdims=True), sinks)
            p = np.exp(scores - most)
            p /= p.sum(-1, keepdims=True) + np.exp(sinks - most)
            out.append(rotate(p @ keys, t, DIM - ROTARY, back=True))
            sizes.append(p @ length(keys))
        return np.array(out), np.array(sizes)


class Index:
    """The indexer of a CSA layer: each rank has all of its 64 heads. The model rotates the last 64 of
    128 elements, indexer_rope_cache the first: an engine exchanges the halves of the projections' rows when it loads
    them, which changes no product of a query and a key."""

    def __init__(self, number, device):
        self.number, self.device = number, device
        self.keys = Pooled(device, 10 * number + 3, INDEX_DIM, 4, True, True, "fp8", hadamard=True)
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
        self.keys.launch(step, given["keys"], step.index_rows, self.pool, INDEX_PAGE, self.stride)
        self.rope(q=given["q"], weights=given["weights"], q_out=self.q[:n], weights_out=self.weights[:n], k=self.no_key[:n],
                  k_weight=self.no_weight, slot_mapping=self.no_slots[:n], positions=step.positions, cos_sin=COS_SIN,
                  keys=self.pool, page_size=INDEX_PAGE, page_stride=self.stride, eps=EPS,
                  weight_scale=(INDEX_DIM * INDEX_HEADS) ** -0.5, stream=step.stream)
        self.choose(q=self.q[:n], weights=self.weights[:n], keys=self.pool, row_ends=step.groups, block_table=step.pages,
                    row_sequences=step.sequences, indices=self.chosen[:n, None], counts=self.counts[:n, None],
                    page_size=INDEX_PAGE, page_stride=self.stride, stream=step.stream)

    def check(self, tokens, chosen):
        """The largest amount, as a part of its bound, by which a group that was left out scores above a chosen one. Elements
        of fp8 are off by 2^-4 of themselves; products of 128 add up like random numbers, and so do heads."""
        given = [self.inputs(t) for t in tokens]
        keys, worst = self.keys.rows([g["keys"] for g in given]), 0.0
        for t, g in enumerate(given):
            q = rotate(np.float64(np.float16(g["q"])), t, 0)
            n, w = (t + 1) // 4, np.float64(np.float16(g["weights"])) * (INDEX_DIM * INDEX_HEADS) ** -0.5
            if sorted(chosen[t]) != list(chosen[t]) or len(set(chosen[t])) != min(n, TOP) or max(chosen[t], default=0) >= max(n, 1):
                return np.inf
            if n <= TOP:
                continue
            scores = w @ np.maximum(q @ keys[:n].T, 0)
            off = length(w) * length(q).max() * length(keys[:n]).max() * INDEX_DIM ** -0.5 * 2.0 ** -4 * 6
            left = np.setdiff1d(np.arange(n), chosen[t])
            worst = max(worst, (scores[left].max() - scores[chosen[t]].min()) / off)
        return worst


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
