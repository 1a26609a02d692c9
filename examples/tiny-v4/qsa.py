# SPDX-License-Identifier: Apache-2.0
"""An attention layer of Qwen3.8-Flash-Next (QSA) on a rank of eight: 3 heads of 256 over one KV head, 4 heads of the indexer.
Each query attends to the groups of 4 tokens that score highest, by keys of bf16, and to the tokens after the last whole group.
Outputs are compared with formulas in doubles, and choices with scores in doubles. Exit status: 0 all right, 1 wrong results.

Usage: qsa.py [gfx942|gfx950]      on the simulated GPU"""
import sys

import attn
import numpy as np

from formulas import COS_SIN, EPS, ROTARY, attend, bf16, from_bf16, inversion, norm, numbers, rotate, score_error
from pooled import Pooled
from steps import DRAFTS, ROWS, Engine, Step

HEADS, DIM, GROUP, TOP = 3, 256, 4, 8  # TOP: groups that a query attends to
INDEX_HEADS, INDEX_DIM = 4, 128
PAGE, PAGES, LONGEST = 64, 2, 70       # tokens of a page; pages of a sequence; tokens of a call
SCALE, PAGE_BYTES = DIM ** -0.5, PAGE // GROUP * INDEX_DIM * 2
KERNELS = [
    {"op": "rope_qk_norm_cache", "head_dim": DIM, "norm": "gemma_rms", "rope": "neox", "rotary_dim": ROTARY, "gate": True},
    {"op": "rope_heads", "head_dim": INDEX_DIM, "norm": "rms", "rope": "neox", "rotary_dim": ROTARY},
    {"op": "compress", "head_dim": INDEX_DIM, "state_dtype": "bf16", "norm": "gemma_rms", "rope": "neox", "rotary_dim": ROTARY,
     "kv_layout": "shuffle"},
    {"op": "indexer_topk", "top_k": TOP, "index_heads": INDEX_HEADS, "paged": True, "small_pages": True, "index_keys": "bf16",
     "kv_layout": "shuffle"},
    {"op": "chosen_lists"}, {"op": "decode", "head_dim": DIM, "gqa": HEADS, "page_size": GROUP},
    {"op": "rope_heads", "head_dim": DIM, "rope": "none", "act": "sigmoid"},
]


def aligned(shape, dtype, alignment=32):
    """An array at a multiple of `alignment` bytes, as a GPU's allocator would place it."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.zeros(size + alignment, np.uint8)
    first = -memory.ctypes.data % alignment
    return memory[first:first + size].view(dtype).reshape(shape)


class GroupStep(Step):
    PAGE_ROWS, CHOSEN, PAGES = {1: PAGE, GROUP: PAGE // GROUP}, GROUP, PAGES


class Layer:
    # q, k, v and the weights of keys are rounded to bf16, 2^-8 of each. A weight is also off by the error of its score. The
    # output is rounded before it is multiplied with its gate, and after.
    BOUND, exact = 5 * 2.0 ** -8, staticmethod(from_bf16)

    def __init__(self, device):
        cache = attn.CacheDesc(page_size=PAGE)
        self.rope = device.rope_qk_norm_cache(dtype="bf16", head_dim=DIM, heads=HEADS, kv_heads=1, norm="gemma_rms", rope="neox",
                                              rotary_dim=ROTARY, gate=True, cache=cache)
        self.index_rope = device.rope_heads(dtype="bf16", head_dim=INDEX_DIM, heads=INDEX_HEADS, norm="rms", rope="neox",
                                            rotary_dim=ROTARY)
        self.index_keys = Pooled(device, 10, INDEX_DIM, GROUP, scored=False, row="bf16", dtype="bf16", state_dtype="bf16",
                                 norm="gemma_rms", rope="neox", layout="shuffle")
        self.choose = device.indexer_topk(top_k=TOP, heads=INDEX_HEADS, paged=True, small_pages=True, index_keys="bf16", layout="shuffle")
        self.lists_op = device.chosen_lists()
        self.decode = device.decode(dtype="bf16", head_dim=DIM, heads=HEADS, kv_heads=1, cache=attn.CacheDesc(page_size=GROUP))
        self.gates = device.rope_heads(dtype="bf16", head_dim=DIM, heads=HEADS, act="sigmoid")
        self.weights = bf16(numbers((2, DIM), 1) / 8)  # of the norms of q and k, less 1
        self.index_weight = bf16(1 + numbers((INDEX_DIM,), 2) / 8)
        self.score_weights = np.full((LONGEST, INDEX_HEADS), INDEX_DIM ** -0.5, np.float32)
        self.k, self.v = (np.zeros((ROWS * PAGES, PAGE, 1, DIM), np.uint16) for _ in range(2))
        self.keys = np.zeros(ROWS * PAGES * PAGE_BYTES, np.uint8)
        self.q, self.gate, self.out = (np.zeros((LONGEST, HEADS, DIM), np.uint16) for _ in range(3))
        self.index_q = aligned((LONGEST, INDEX_HEADS, INDEX_DIM), np.uint16)
        self.chosen, self.counts = np.full((LONGEST, TOP), -1, np.int32), np.zeros(LONGEST, np.int32)
        self.lists, self.list_lens = np.zeros((LONGEST, TOP + 1), np.int32), np.zeros(LONGEST, np.int32)

    def inputs(self, token):
        """Returns a token's inputs by name. In q each head is followed by its gate."""
        shapes = {"q": (HEADS, 2 * DIM), "k": (1, DIM), "v": (1, DIM), "iq": (INDEX_HEADS, INDEX_DIM)}
        given = {name: bf16(numbers(shape, token, i)) for i, (name, shape) in enumerate(shapes.items(), 3)}
        return given | {"keys": self.index_keys.inputs(token)}

    def launch(self, step):
        given, n, s = step.inputs[0], step.tokens, dict(stream=step.stream)
        at, pages = dict(positions=step.positions, cos_sin=COS_SIN), dict(block_table=step.pages, row_sequences=step.sequences)
        self.rope(q=given["q"], k=given["k"], v=given["v"], q_out=self.q[:n], gate=self.gate[:n], k_cache=self.k, v_cache=self.v,
                  slot_mapping=step.group_rows[1], q_weight=self.weights[0], k_weight=self.weights[1], eps=EPS, **at, **s)
        self.index_rope(x=given["iq"], out=self.index_q[:n], weight=self.index_weight, eps=EPS, **at, **s)
        self.index_keys.launch(step, given["keys"], step.group_rows[GROUP], self.keys, PAGE // GROUP, PAGE_BYTES)
        self.choose(q=self.index_q[:n], weights=self.score_weights[:n], keys=self.keys,
                    row_ends=step.groups, indices=self.chosen[:n, None], counts=self.counts[:n, None], page_size=PAGE // GROUP,
                    page_stride=PAGE_BYTES, **pages, **s)
        self.lists_op(kv_lens=step.sees, chosen=self.chosen[:n], counts=self.counts[:n], lists=self.lists[:n],
                      list_lens=self.list_lens[:n], kv_heads=1, window=0, ratio=GROUP, page_entries=PAGE // GROUP,
                      open_group=True, **pages, **s)
        self.decode(q=self.q[:n], out=self.out[:n], k_cache=self.k.reshape(-1, GROUP, 1, DIM),
                    v_cache=self.v.reshape(-1, GROUP, 1, DIM), block_table=self.lists[:n], kv_lens=self.list_lens[:n],
                    scale=SCALE, **s)
        self.gates(x=self.out[:n], gate=self.gate[:n], out=self.out[:n], **s)

    def choice(self, at):
        return self.chosen[at][:self.counts[at]].copy()

    @staticmethod
    def rotated(x, weight):
        """Returns normalised and rotated rows [token, head, element]."""
        return np.array([rotate(norm(y, weight), t, rope="neox") for t, y in enumerate(np.float64(from_bf16(x)))])

    def reference(self, tokens, chosen):
        given = [self.inputs(t) for t in tokens]
        q, k, v = (np.array([g[name] for g in given]) for name in ("q", "k", "v"))
        gate = 1 / (1 + np.exp(-np.float64(from_bf16(q[..., DIM:]))))
        q, k = (self.rotated(x, 1 + np.float64(from_bf16(w))) for x, w in zip((q[..., :DIM], k), self.weights))
        v, out = np.float64(from_bf16(v)), []
        for t in range(len(tokens)):
            seen = np.arange(t + 1)
            seen = seen[np.isin(seen // GROUP, chosen[t]) | (seen >= (t + 1) // GROUP * GROUP)]
            o, size = attend(q[t], k[seen, 0], v[seen, 0], SCALE)
            out.append((o * gate[t], size * gate[t].max(-1)))
        return tuple(np.array(x) for x in zip(*out))

    def check(self, tokens, chosen):
        """Returns the largest inversion of the choice of groups. Queries and keys are rounded to bf16."""
        given, worst = [self.inputs(t) for t in tokens], 0.0
        q = self.rotated(np.array([g["iq"] for g in given]), np.float64(from_bf16(self.index_weight)))
        keys, w = self.index_keys.rows([g["keys"] for g in given]), np.float64(self.score_weights[0])
        for t in range(len(tokens)):
            n = (t + 1) // GROUP
            off = score_error(w, q[t], keys[:n], 2.0 ** -8) if n else 1
            worst = max(worst, inversion(w @ np.maximum(q[t] @ keys[:n].T, 0), chosen[t], np.arange(n), TOP, off))
        return worst


def main(target):
    engine = Engine(target, KERNELS, lambda device: [Layer(device)], GroupStep, "bf16")
    for pieces in ([50, 13], [47, 18]):
        engine.prefill(pieces)
    engine.steps(1, [(1, 1), (1, 1), (1, 1)])
    engine.steps(DRAFTS, [(2, 1), (3, 2), (1, 3)])
    return engine.report(["groups of 4 tokens"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "gfx942"))
