# SPDX-License-Identifier: Apache-2.0
"""An attention layer of MiniMax-M3 on a rank of eight: 8 heads over one KV head, one head of the indexer. Each query attends
to the blocks of 128 tokens whose best key scores highest, and to its own block. Queries of a prompt share lists of blocks.
Outputs are compared with formulas in doubles, and choices with scores in doubles. Exit status: 0 all right, 1 wrong results.

Usage: m3.py [gfx942|gfx950]      on the simulated GPU"""
import sys

import attn
import numpy as np
from attn.attention import BatchPrefill

from formulas import COS_SIN, EPS, ROTARY, attend, inversion, norm, numbers, rotate, score_error
from steps import DRAFTS, ROWS, Engine, Step

HEADS, DIM, TOP, BLOCK = 8, 128, 3, 128  # TOP: blocks that a query attends to
PAGE, PAGES, LONGEST = 16, 5, 400        # tokens of a page; blocks of a sequence; tokens of a call
INSIDE = BLOCK // PAGE                   # pages of a block
SCALE, KEY_BYTES = DIM ** -0.5, DIM + 4
TILE = 16                                # queries that share a list
MASK_WORDS = 1 + -(-PAGES * BLOCK // 2048)  # integers of a query's row of a mask
KERNELS = [
    {"op": "rope_qk_norm_cache", "head_dim": DIM, "norm": "gemma_rms", "rope": "neox", "rotary_dim": ROTARY},
    {"op": "rope_heads", "head_dim": DIM, "norm": "rms", "rope": "none"},
    {"op": "indexer_rope_cache", "rope": "neox"},
    {"op": "indexer_topk", "top_k": TOP, "index_heads": 1, "paged": True, "all_signs": True, "top_blocks": TOP,
     "block_size": BLOCK},
    {"op": "chosen_lists"}, {"op": "decode", "head_dim": DIM, "gqa": HEADS, "page_size": PAGE},
    {"op": "shared_lists"}, {"op": "plan", "q_tiles": True}, {"op": "combine", "head_dim": DIM, "partials": "csr"},
    {"op": "prefill", "head_dim": DIM, "gqa": HEADS, "mask": "blocks", "paged": True, "planned": True, "page_size": PAGE},
]


class BlockStep(Step):
    """A step whose prompts are cut into tiles of queries of one sequence. An entry of `pages` is a block, INSIDE pages."""
    PAGE_ROWS, PAGES = {1: BLOCK}, PAGES

    def __init__(self, layers, lengths, stream=None, chunk=False):
        super().__init__(layers, lengths, stream, chunk)
        self.tables = np.zeros((ROWS, PAGES * INSIDE), np.int32)
        firsts = [(row, first) for row, n in enumerate(lengths) for first in range(0, n, TILE)]
        self.tiles = np.int32([self.cu[row] + first for row, first in firsts] + [self.tokens])
        self.tile_sequences = np.int32([row for row, _ in firsts])

    def say(self, layers, rows):
        super().say(layers, rows)
        self.tables[:] = (self.pages[:, :, None] * INSIDE + np.arange(INSIDE)).reshape(ROWS, -1)


class Layer:
    # q, k, v and the weights of keys are rounded to fp16, 2^-11 of each. A weight is also off by the error of its score.
    BOUND, exact = 4 * 2.0 ** -11, staticmethod(np.float64)

    def __init__(self, device):
        cache = attn.CacheDesc(page_size=PAGE)
        self.rope = device.rope_qk_norm_cache(dtype="fp16", head_dim=DIM, heads=HEADS, kv_heads=1, norm="gemma_rms", rope="neox",
                                              rotary_dim=ROTARY, cache=cache)
        self.index_norm = device.rope_heads(dtype="fp16", head_dim=DIM, heads=1, norm="rms")
        self.index_rope = device.indexer_rope_cache(dtype="fp16", heads=1, rope="neox")
        self.choose = device.indexer_topk(top_k=TOP, heads=1, paged=True, all_signs=True, top_blocks=TOP, block_size=BLOCK)
        self.lists_op, self.shared_op = device.chosen_lists(), device.shared_lists()
        self.decode = device.decode(dtype="fp16", head_dim=DIM, heads=HEADS, kv_heads=1, cache=cache)
        self.prefill = BatchPrefill(device, dtype="fp16", head_dim=DIM, heads=HEADS, kv_heads=1, mask="blocks", cache=cache,
                                    planned=True, max_batch=LONGEST // TILE + ROWS, max_tokens=LONGEST)
        self.weights = np.float16(numbers((2, DIM), 1) / 8)  # of the norms of q and k, less 1
        self.index_weights = np.float16(1 + numbers((2, DIM), 2) / 8)
        self.key_weight = np.float32(self.index_weights[1])
        self.k, self.v = (np.zeros((ROWS * PAGES * INSIDE, PAGE, 1, DIM), np.float16) for _ in range(2))
        self.keys = np.zeros(ROWS * PAGES * BLOCK * KEY_BYTES, np.uint8)
        self.q, self.out = (np.zeros((LONGEST, HEADS, DIM), np.float16) for _ in range(2))
        self.index_q, self.head_weight = np.zeros((LONGEST, 1, DIM), np.uint8), np.zeros((LONGEST, 1), np.float32)
        self.ones = np.ones((LONGEST, 1), np.float16)
        self.best, self.blocks = (np.full((LONGEST, TOP), -1, np.int32) for _ in range(2))
        self.counts, self.list_lens = np.zeros(LONGEST, np.int32), np.zeros(LONGEST, np.int32)
        self.lists = np.zeros((LONGEST, TOP * INSIDE), np.int32)

    def inputs(self, token):
        """Returns a token's inputs by name. Index keys of a block have a part in common, so that scores of blocks
        differ."""
        given = {name: numbers((n, DIM), token, i) for i, (name, n) in enumerate((("q", HEADS), ("k", 1), ("v", 1), ("iq", 1)), 3)}
        return given | {"ik": numbers((DIM,), token, 8) + 2 * numbers((DIM,), token // BLOCK, 9)}

    def launch(self, step):
        given, n, s = step.inputs[0], step.tokens, dict(stream=step.stream)
        rows, at = step.group_rows[1], dict(positions=step.positions, cos_sin=COS_SIN)
        self.rope(q=given["q"], k=given["k"], v=given["v"], q_out=self.q[:n], k_cache=self.k, v_cache=self.v, slot_mapping=rows,
                  q_weight=self.weights[0], k_weight=self.weights[1], eps=EPS, **at, **s)
        self.index_norm(x=given["iq"], out=given["iq"], weight=self.index_weights[0], eps=EPS, **s)
        self.index_rope(q=given["iq"], weights=self.ones[:n], q_out=self.index_q[:n], weights_out=self.head_weight[:n],
                        k=given["ik"], k_weight=self.key_weight, slot_mapping=rows, keys=self.keys,
                        page_size=BLOCK, page_stride=BLOCK * KEY_BYTES, eps=EPS, weight_scale=SCALE, **at, **s)
        self.choose(q=self.index_q[:n], weights=self.head_weight[:n], keys=self.keys, row_ends=step.sees, block_table=step.pages,
                    row_sequences=step.sequences, indices=self.best[:n, None], blocks=self.blocks[:n, None],
                    block_counts=self.counts[:n, None], last_blocks=1, page_size=BLOCK, page_stride=BLOCK * KEY_BYTES, **s)
        self.attend_tiles(step) if step.chunk else self.attend_rows(step)

    def attend_rows(self, step):
        """Attends with a list of pages for each query."""
        n = step.tokens
        self.lists_op(kv_lens=step.sees, chosen=self.blocks[:n], counts=self.counts[:n], block_table=step.tables,
                      row_sequences=step.sequences, lists=self.lists[:n], list_lens=self.list_lens[:n], kv_heads=1, window=0,
                      ratio=BLOCK, group_entries=INSIDE, open_group=True, stream=step.stream)
        self.decode(q=self.q[:n], out=self.out[:n], k_cache=self.k, v_cache=self.v, block_table=self.lists[:n],
                    kv_lens=self.list_lens[:n], scale=SCALE, stream=step.stream)

    def attend_tiles(self, step):
        """Attends with a list of pages for each tile of a prompt's queries, and a mask."""
        n, tiles = step.tokens, len(step.tile_sequences)
        lists, lens = np.zeros((1, tiles, PAGES * INSIDE), np.int32), np.zeros((1, tiles), np.int32)
        mask = np.zeros((1, tiles, TILE * MASK_WORDS), np.int32)
        self.shared_op(cu_tiles=step.tiles, kv_lens=step.sees, chosen=self.blocks[:n], counts=self.counts[:n],
                       block_table=step.tables, tile_sequences=step.tile_sequences, lists=lists, list_lens=lens, mask=mask,
                       kv_heads=1, ratio=BLOCK, group_entries=INSIDE)
        self.prefill.plan(step.tiles, TILE, max_seqlen_k=PAGES * BLOCK, kv_lens=lens[0], block_table=lists[0],
                          custom_mask=mask.reshape(-1).view(np.uint8), mask_indptr=np.arange(tiles + 1) * mask.shape[2] * 4)
        self.prefill.run(self.q[:n], self.k, self.v, out=self.out[:n])

    def choice(self, at):
        return self.blocks[at][:self.counts[at]].copy()

    def rotated(self, given, name, weight):
        """Returns normalised and rotated rows [token, head, element] of an input."""
        x = np.float64(np.float16([g[name] for g in given])).reshape(len(given), -1, DIM)
        return np.array([rotate(norm(y, np.float64(weight)), t, rope="neox") for t, y in enumerate(x)])

    def reference(self, tokens, chosen):
        given = [self.inputs(t) for t in tokens]
        q, k = (self.rotated(given, name, 1 + np.float64(w)) for name, w in zip(("q", "k"), self.weights))
        v = np.float64(np.float16([g["v"] for g in given]))
        out = []
        for t in range(len(tokens)):
            seen = np.arange(t + 1)
            seen = seen[np.isin(seen // BLOCK, chosen[t])]
            out.append(attend(q[t], k[seen, 0], v[seen, 0], SCALE))
        return tuple(np.array(x) for x in zip(*out))

    def check(self, tokens, chosen):
        """Returns the largest inversion of the choice of blocks. The newest block is always chosen."""
        given, worst = [self.inputs(t) for t in tokens], 0.0
        q, k = (self.rotated(given, name, w)[:, 0] for name, w in zip(("iq", "ik"), self.index_weights))
        for t in range(len(tokens)):
            scores = k[:t + 1] @ q[t]
            best = np.array([scores[b:b + BLOCK].max() for b in range(0, t + 1, BLOCK)])
            best[-1] = np.inf
            off = score_error(np.ones(1), q[t:t + 1], k[:t + 1])
            worst = max(worst, inversion(best, chosen[t], np.arange(len(best)), TOP, off))
        return worst


def main(target):
    engine = Engine(target, KERNELS, lambda device: [Layer(device)], BlockStep)
    for pieces in ([290, 110], [220, 33]):
        engine.prefill(pieces)
    engine.steps(1, [(1, 1), (1, 1), (1, 1)])
    engine.steps(DRAFTS, [(2, 1), (3, 2), (1, 3)])
    return engine.report(["blocks of 128 tokens"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "gfx942"))
