# SPDX-License-Identifier: Apache-2.0
"""Three layers of DeepSeek-V4.1 that share rows of groups of 2 tokens. The first layer makes the rows, and chooses both
rows and blocks of rows. The second uses its rows and its choice. The third chooses rows again, in the first one's blocks.
The calls are prompts in chunks, decode steps, and steps that verify drafts. Outputs and choices are compared with formulas
in doubles. Rows of groups have 288 bytes, e2m1 with scales of fp8, and rows of windows 528, fp8 with scales of e8m0. One list
names rows of both. The indexer's keys are of mxfp4 on gfx950, and of fp8 on gfx942 and gfx1250, for which attnc builds no indexer of mxfp4.
Exit status: 0 all right, 1 wrong results.

Usage: v41.py [gfx942|gfx950|gfx1250]      on the simulated GPU"""
import sys

import attn
import numpy as np

from formulas import COS_SIN, EPS, ROTARY, as_fp4, as_fp8, attend, inversion, norm, numbers, rotate, score_error
from layers import BOUND, DIM, HEADS, INDEX_DIM, INDEX_PAGE, LONGEST, PAGE, PAGES, RING, SCALE, WINDOW, WindowStep
from pooled import Pooled
from steps import DRAFTS, ROWS, Engine

INDEX_HEADS, TOP, BLOCKS, BLOCK, RATIO = 32, 16, 3, 8, 2  # choices: BLOCKS blocks of BLOCK rows each, and TOP rows
ENTRIES = TOP + WINDOW
MAIN_ROW, WINDOW_ROW = 288, 528  # bytes
MAIN_ROWS, RINGS = ROWS * PAGES * PAGE, 3 * ROWS * RING  # rows of groups, and of the windows of all layers
# The indexer's keys by target: their type, the bytes of a key, and the rounding of an element.
FP8, FP4 = ("fp8", INDEX_DIM + 4, 2.0 ** -4), ("mxfp4", INDEX_DIM // 2 + 4, 2.0 ** -2)
KEYS = {"gfx942": FP8, "gfx950": FP4, "gfx1250": FP8}


def kernels(keys):
    """Returns the kernels for keys of the indexer of type `keys`."""
    return [
        {"op": "compress", "head_dim": DIM, "norm": "rms", "rope": "gptj", "rotary_dim": ROTARY, "kv_dtype": "fp8",
         "kv_layout": ["packed_fp4", "packed_mxfp8"]},
        {"op": "rope_heads", "head_dim": DIM, "rope": "gptj", "rotary_dim": ROTARY},
        {"op": "head_product", "head_dim": DIM, "head_dim_v": INDEX_DIM},
        {"op": "indexer_rope_cache", "rope": "gptj", "hadamard": True, "index_keys": keys},
        {"op": "indexer_topk", "top_k": TOP, "index_heads": INDEX_HEADS, "paged": True, "small_pages": True,
         "top_blocks": BLOCKS, "block_size": BLOCK, "index_keys": keys},
        {"op": "indexer_topk", "top_k": TOP, "index_heads": INDEX_HEADS, "paged": True, "small_pages": True, "listed": True,
         "block_size": BLOCK, "index_keys": keys},
        {"op": "chosen_lists"},
        {"op": "mla_decode", "head_dim": DIM, "head_dim_v": DIM, "gqa": HEADS, "sinks": True, "sparse": "slots",
         "two_sources": True, "kv_dtype": "fp8", "kv_layout": "packed_fp4"},
    ]


class Groups(WindowStep):
    """A step of layers that share rows of groups. Each has a ring of its own among the rows of windows."""
    PAGE_ROWS, CHOSEN = {RATIO: PAGE}, RATIO

    def __init__(self, layers, lengths, stream=None, chunk=False):
        super().__init__(layers, lengths, stream, chunk)
        self.rings = np.full((len(layers), self.tokens), -1, np.int64)  # for each layer and token, the row of the layer's ring
        self.starts = np.zeros(self.tokens, np.int64)  # position of the first token of each token's group

    def put_token(self, layers, at, row, position, sequence, token):
        super().put_token(layers, at, row, position, sequence, token)
        self.starts[at] = position // RATIO * RATIO
        for layer in layers:
            self.rings[layer.number, at] = layer.first + sequence.number * RING + position % RING


class Maker:
    """Makes rows of groups, and the indexer's keys: a projection of the rows before they rotate."""

    def __init__(self, device):
        self.rows = Pooled(device, 90, DIM, RATIO, row="fp8", layout="packed_fp4", first=DIM - ROTARY, ape=False)
        self.keys_type, key_bytes, self.rounding = KEYS[device.target]
        self.rope = device.indexer_rope_cache(dtype="fp16", heads=INDEX_HEADS, rope="gptj", hadamard=True,
                                              index_keys=self.keys_type)
        self.weight = np.float32(1 + numbers((INDEX_DIM,), 91) / 8)
        self.product = device.head_product(dtype="fp16", head_dim=DIM, head_dim_v=INDEX_DIM, heads=1)
        self.project = np.float16(numbers((1, INDEX_DIM, DIM), 92) * DIM ** -0.5)
        self.latent, self.k = np.zeros((LONGEST, 1, DIM), np.float16), np.zeros((LONGEST, 1, INDEX_DIM), np.float16)
        self.stride = INDEX_PAGE * key_bytes
        self.keys = np.zeros(ROWS * PAGES * self.stride, np.uint8)

    def launch(self, step, given, pool):
        n = step.tokens
        self.rows.launch(step, given, step.group_rows[RATIO], pool, PAGE, PAGE * MAIN_ROW, self.latent[:n, 0])
        self.product(x=self.latent[:n], w=self.project, out=self.k[:n], stream=step.stream)
        self.rope(k=self.k[:n, 0], k_weight=self.weight, slot_mapping=step.group_rows[RATIO], positions=step.starts,
                  cos_sin=COS_SIN, keys=self.keys, page_size=INDEX_PAGE, page_stride=self.stride, eps=EPS, stream=step.stream)

    def index_keys(self, given):
        z = norm(self.rows.rows(given, rotated=False) @ np.float64(self.project[0].T), np.float64(self.weight))
        return np.array([rotate(key, group * RATIO, 0) for group, key in enumerate(z)]).reshape(-1, INDEX_DIM)


class Chooser:
    """Makes a layer's queries of the indexer, and its choice. With `source`, an earlier Chooser, it chooses rows in the
    source's blocks; without, it chooses blocks too."""

    def __init__(self, number, device, maker, source=None):
        self.number, self.maker, self.source = number, maker, source
        level = dict(listed=True) if source else dict(top_blocks=BLOCKS)
        self.op = device.indexer_topk(top_k=TOP, heads=INDEX_HEADS, paged=True, small_pages=True, block_size=BLOCK,
                                      index_keys=maker.keys_type, **level)
        self.rope = maker.rope
        self.q, self.weights = np.zeros((LONGEST, INDEX_HEADS, INDEX_DIM), np.uint8), np.zeros((LONGEST, INDEX_HEADS), np.float32)
        self.chosen, self.counts = np.full((LONGEST, TOP), -1, np.int32), np.zeros(LONGEST, np.int32)
        self.blocks, self.block_counts = np.full((LONGEST, BLOCKS), -1, np.int32), np.zeros(LONGEST, np.int32)
        self.no_key, self.no_slots = np.ones((LONGEST, INDEX_DIM), np.float16), np.full(LONGEST, -1, np.int64)

    def inputs(self, token):
        return {"q": numbers((INDEX_HEADS, INDEX_DIM), self.number, token, 7),
                "weights": abs(numbers((INDEX_HEADS,), self.number, token, 8))}

    def launch(self, step, given):
        n, m = step.tokens, self.maker
        self.rope(q=given["q"], weights=given["weights"], q_out=self.q[:n], weights_out=self.weights[:n], k=self.no_key[:n],
                  k_weight=m.weight, slot_mapping=self.no_slots[:n], positions=step.positions, cos_sin=COS_SIN, keys=m.keys,
                  page_size=INDEX_PAGE, page_stride=m.stride, eps=EPS, weight_scale=(INDEX_DIM * INDEX_HEADS) ** -0.5,
                  stream=step.stream)
        if self.source:
            level = dict(candidates=self.source.blocks[:n], candidate_counts=self.source.block_counts[:n])
        else:
            level = dict(blocks=self.blocks[:n, None], block_counts=self.block_counts[:n, None], last_blocks=1)
        self.op(q=self.q[:n], weights=self.weights[:n], keys=m.keys, row_ends=step.groups, block_table=step.pages,
                row_sequences=step.sequences, indices=self.chosen[:n, None], counts=self.counts[:n, None],
                page_size=INDEX_PAGE, page_stride=m.stride, stream=step.stream, **level)

    def choice(self, at):
        """Returns the rows that token `at` of a step chose, and the blocks that its rows may be of."""
        source = self.source or self
        return self.chosen[at][:self.counts[at]].copy(), source.blocks[at][:source.block_counts[at]].copy()

    def scores(self, token, position, keys):
        """Returns the scores of the rows that a query sees, and a bound of their error."""
        g = self.inputs(token)
        q = rotate(np.float64(np.float16(g["q"])), position)
        w = np.float64(np.float16(g["weights"])) * (INDEX_DIM * INDEX_HEADS) ** -0.5
        return w @ np.maximum(q @ keys.T, 0), score_error(w, q, keys, self.maker.rounding)


class Layer:
    """A layer over the rows of `maker`, with the choice of `chooser`, its own or an earlier layer's."""
    BOUND, exact = BOUND, staticmethod(np.float64)

    def __init__(self, number, device, pool, windows, chooser):
        self.number, self.pool, self.windows, self.chooser = number, pool, windows, chooser
        self.first, self.largest = number * ROWS * RING, 240 if device.target == "gfx942" else 448  # largest: of fp8
        self.window = Pooled(device, 10 * number + 1, DIM, 1, scored=False, row="fp8", layout="packed_mxfp8", first=DIM - ROTARY)
        self.heads = device.rope_heads(dtype="fp16", head_dim=DIM, heads=HEADS, rope="gptj", rotary_dim=ROTARY)
        self.lists_op = device.chosen_lists()
        self.attend = device.mla_decode(dtype="fp16", head_dim=DIM, head_dim_v=DIM, heads=HEADS, sinks=True, sparse="slots",
                                        two_sources=True, cache=attn.CacheDesc(dtype="fp8", layout="packed_fp4", page_size=PAGE))
        self.sinks = np.float32(numbers((HEADS,), number, 5))
        self.lists, self.list_lens = np.zeros((LONGEST, ENTRIES), np.int32), np.zeros(LONGEST, np.int32)
        self.q, self.out = (np.zeros((LONGEST, HEADS, DIM), np.float16) for _ in range(2))

    def inputs(self, token):
        given = {"q": numbers((HEADS, DIM), self.number, token, 6), "window": self.window.inputs(token)}
        if self.chooser.number == self.number:
            given["index"] = self.chooser.inputs(token)
        if self.number == 0:
            given["main"] = self.chooser.maker.rows.inputs(token)
        return given

    def launch(self, step):
        given, n, chooser = step.inputs[self.number], step.tokens, self.chooser
        rope = dict(positions=step.positions, cos_sin=COS_SIN, rotary_first=DIM - ROTARY, stream=step.stream)
        ring = step.rings[self.number]
        self.heads(x=given["q"], out=self.q[:n], eps=EPS, **rope)
        rows = ring if step.new_lens is None else step.chunk_rows + RINGS  # rows of a chunk follow the rings
        self.window.launch(step, given["window"], rows, self.windows, 1, WINDOW_ROW)
        if self.number == 0:
            chooser.maker.launch(step, given["main"], self.pool)
        if chooser.number == self.number:
            chooser.launch(step, given["index"])
        self.lists_op(kv_lens=step.sees, block_table=step.pages, row_sequences=step.sequences, chosen=chooser.chosen[:n],
                      counts=chooser.counts[:n], window_slots=step.window_slots, lists=self.lists[:n],
                      list_lens=self.list_lens[:n], kv_heads=1, ratio=RATIO, page_entries=PAGE, window=WINDOW, ring=RING,
                      window_first=MAIN_ROWS + self.first, window_stride=RING, new_lens=step.new_lens,
                      second_first=MAIN_ROWS + RINGS,
                      stream=step.stream)
        self.attend(q=self.q[:n], out=self.out[:n], k_cache=self.pool, second=self.windows, second_first=MAIN_ROWS,
                    block_table=self.lists[:n], kv_lens=self.list_lens[:n], sinks=self.sinks, scale=SCALE, stream=step.stream)
        if step.new_lens is not None:
            self.window.launch(step, given["window"], ring, self.windows, 1, WINDOW_ROW)
        self.heads(x=self.out[:n], out=self.out[:n], backwards=True, **rope)

    def choice(self, at):
        return self.chooser.choice(at)

    def reference(self, tokens, chosen):
        """Returns outputs [token, head, element] and the sums of p |v| by which their errors are bounded. `chosen` has the
        choices of the launches, which check() compares."""
        maker, out, sizes = self.chooser.maker, [], []
        rows = as_fp4(maker.rows.rows([maker.rows.inputs(token) for token in tokens]))
        window = as_fp8(self.window.rows([self.window.inputs(token) for token in tokens]), self.largest)
        for t, token in enumerate(tokens):
            q = rotate(np.float64(np.float16(self.inputs(token)["q"])), t, DIM - ROTARY)
            keys = np.concatenate([rows[chosen[t][0]], window[max(t + 1 - WINDOW, 0):t + 1]])
            o, size = attend(q, keys, keys, SCALE, self.sinks)
            out.append(rotate(o, t, DIM - ROTARY, back=True))
            sizes.append(size)
        return np.array(out), np.array(sizes)

    def check(self, tokens, chosen):
        """Returns the largest amount by which a block or row that was not chosen scores above a chosen one, over its bound;
        infinity if a choice is malformed."""
        if self.chooser.number != self.number:
            return 0.0
        maker = self.chooser.maker
        keys = maker.index_keys([maker.rows.inputs(token) for token in tokens])
        return max(self.inversion(token, t, keys[:(t + 1) // RATIO], *chosen[t])
                   for t, token in enumerate(tokens) if t + 1 >= RATIO)

    def inversion(self, token, t, keys, chosen, blocks):
        """Returns check() of one token at position t, which sees `keys`."""
        n = len(keys)
        scores, off = self.chooser.scores(token, t, keys)
        newest, seen, worst = (n - 1) // BLOCK, np.arange(n), 0.0
        if newest not in blocks:
            return np.inf
        if self.chooser.source:
            seen = seen[np.isin(seen // BLOCK, blocks)]
        else:
            best = np.array([scores[b * BLOCK:(b + 1) * BLOCK].max() for b in range(newest + 1)])
            best[newest] = np.inf
            worst = inversion(best, blocks, np.arange(newest + 1), BLOCKS, off)
        return max(worst, inversion(scores, chosen, seen, TOP, off))


def make(device):
    """Returns the layers, with the rows of groups that they share, and their rows of windows."""
    pool, windows = np.zeros((ROWS * PAGES, PAGE, 1, MAIN_ROW), np.uint8), np.zeros((RINGS + LONGEST, WINDOW_ROW), np.uint8)
    maker = Maker(device)
    full = Chooser(0, device, maker)
    return [Layer(i, device, pool, windows, c) for i, c in enumerate((full, full, Chooser(2, device, maker, full)))]


def main(target):
    if target not in KEYS:
        sys.exit(f"v41.py: {target}: the targets are {', '.join(KEYS)}")
    engine = Engine(target, kernels(KEYS[target][0]), make, Groups)
    for pieces in ([45, 18], [45, 0]):
        engine.prefill(pieces)
    engine.steps(1, [(1, 1), (1, 1)])
    engine.steps(DRAFTS, [(2, 1), (3, 2), (1, 3)])
    return engine.report(("makes and chooses", "takes rows and choice", "chooses in blocks"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "gfx942"))
