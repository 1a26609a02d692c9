# SPDX-License-Identifier: Apache-2.0
"""A sparse layer of GLM-5.3-Flash on a rank of eight: latent attention without rotation, 8 heads over rows of 512. The indexer
of 32 heads chooses groups of 4 tokens; the tokens after the last whole group are attended to as well. The launches include both
products of absorption. Outputs are compared with formulas in doubles, and choices with scores in doubles. Exit status: 0 all
right, 1 wrong results.

Usage: glm.py [gfx942|gfx950]      on the simulated GPU"""
import sys

import attn
import numpy as np

from formulas import EPS, ROTARY, attend, bf16, from_bf16, inversion, norm, numbers, score_error
from pooled import Pooled
from steps import DRAFTS, ROWS, Engine, Step

HEADS, LATENT, DIM, GROUP, TOP = 8, 512, 256, 4, 8  # DIM: of q and of the output; TOP: groups that a query attends to
INDEX_HEADS, INDEX_DIM = 32, 128
PAGE, PAGES, LONGEST = 64, 2, 70                    # tokens of a page; pages of a sequence; tokens of a call
SCALE, PAGE_BYTES = DIM ** -0.5, PAGE // GROUP * (INDEX_DIM + 4)
ROW = {"head_dim": LATENT, "head_dim_v": LATENT}
NO_ROTATION = np.float32([[1] * (ROTARY // 2) + [0] * (ROTARY // 2)])  # a table of one position
KERNELS = [
    {"op": "head_product", "head_dim": DIM, "head_dim_v": LATENT}, {"op": "head_product", "head_dim": LATENT, "head_dim_v": DIM},
    {"op": "mla_rope_cache", **ROW, "rope": "none", "norm": "rms", "product_dim": ["none", DIM]},
    {"op": "rope_heads", "head_dim": INDEX_DIM, "dtype": "bf16", "norm": "rms", "layer_norm": True, "rope": "none"},
    {"op": "compress", "head_dim": INDEX_DIM, "state_dtype": "bf16", "rope": "none", "hadamard": True, "kv_dtype": "fp8"},
    {"op": "indexer_rope_cache", "rope": "neox", "hadamard": True},
    {"op": "indexer_topk", "top_k": TOP, "index_heads": INDEX_HEADS, "paged": True, "small_pages": True},
    {"op": "chosen_lists"}, {"op": "mla_decode", **ROW, "gqa": HEADS, "page_size": GROUP},
]


class GroupStep(Step):
    PAGE_ROWS, CHOSEN, PAGES = {1: PAGE, GROUP: PAGE // GROUP}, GROUP, PAGES


class Layer:
    # Rows and the absorbed query are rounded to fp16, 2^-11 of each element; so are the weights of rows, the output before
    # W_UV, and the result. A weight is also off by the error of its score.
    BOUND, exact = 5 * 2.0 ** -11, staticmethod(np.float64)

    def __init__(self, device):
        self.absorb = device.head_product(dtype="fp16", head_dim=DIM, head_dim_v=LATENT, heads=HEADS)
        self.expand = device.head_product(dtype="fp16", head_dim=LATENT, head_dim_v=DIM, heads=HEADS)
        shape = dict(dtype="fp16", heads=HEADS, **ROW)
        self.write = device.mla_rope_cache(**shape, norm="rms", cache=attn.CacheDesc(page_size=PAGE))
        self.absorb_and_write = device.mla_rope_cache(**shape, norm="rms", product_dim=DIM, cache=attn.CacheDesc(page_size=PAGE))
        self.attend = device.mla_decode(**shape, cache=attn.CacheDesc(page_size=GROUP))
        self.keys_of = Pooled(device, 10, INDEX_DIM, GROUP, row="fp8", hadamard=True, state_dtype="bf16", norm="none", rope="none")
        self.layer_norm = device.rope_heads(dtype="bf16", head_dim=INDEX_DIM, heads=1, norm="rms", layer_norm=True)
        self.norm_weight, self.norm_bias = bf16(1 + numbers((INDEX_DIM,), 11) / 8), bf16(numbers((INDEX_DIM,), 12) / 8)
        self.index_rope = device.indexer_rope_cache(dtype="fp16", heads=INDEX_HEADS, rope="neox", hadamard=True)
        self.choose = device.indexer_topk(top_k=TOP, heads=INDEX_HEADS, paged=True, small_pages=True)
        self.lists_op = device.chosen_lists()
        self.weight = np.float16(1 + numbers((LATENT,), 1) / 8)
        self.w_uk = np.float16(numbers((HEADS, LATENT, DIM), 2) * LATENT ** -0.5)
        self.w_uv = np.float16(numbers((HEADS, DIM, LATENT), 3) * LATENT ** -0.5)
        self.rows = np.zeros((ROWS * PAGES, PAGE, 1, LATENT), np.float16)
        self.keys = np.zeros(ROWS * PAGES * PAGE_BYTES, np.uint8)
        self.q, self.latent = (np.zeros((LONGEST, HEADS, LATENT), np.float16) for _ in range(2))
        self.out = np.zeros((LONGEST, HEADS, DIM), np.float16)
        self.index_q = np.zeros((LONGEST, INDEX_HEADS, INDEX_DIM), np.uint8)
        self.index_weights = np.zeros((LONGEST, INDEX_HEADS), np.float32)
        self.no_key, self.no_weight = np.ones((LONGEST, INDEX_DIM), np.float16), np.ones(INDEX_DIM, np.float32)
        self.no_slots, self.no_positions = np.full(LONGEST, -1, np.int64), np.zeros(LONGEST, np.int64)
        self.chosen, self.counts = np.full((LONGEST, TOP), -1, np.int32), np.zeros(LONGEST, np.int32)
        self.lists, self.list_lens = np.zeros((LONGEST, TOP + 1), np.int32), np.zeros(LONGEST, np.int32)

    def inputs(self, token):
        shapes = {"q": (HEADS, DIM), "kv": (LATENT,), "iq": (INDEX_HEADS, INDEX_DIM), "weights": (INDEX_HEADS,)}
        given = {name: numbers(shape, token, i) for i, (name, shape) in enumerate(shapes.items(), 3)}
        given["weights"] = abs(given["weights"])
        return given | {"keys": self.keys_of.inputs(token)}

    def launch(self, step):
        given, n, s = step.inputs[0], step.tokens, dict(stream=step.stream)
        pages = dict(block_table=step.pages, row_sequences=step.sequences)
        row = dict(kv_c=given["kv"], kv_weight=self.weight, k_cache=self.rows, slot_mapping=step.group_rows[1], eps=EPS, **s)
        if step.chunk:
            self.absorb(x=given["q"], w=self.w_uk, out=self.q[:n], **s)
            self.write(**row)
        else:
            self.absorb_and_write(q_nope=given["q"], w_uk=self.w_uk, q_out=self.q[:n], **row)
        keys = given["keys"]["x"][:, None]
        self.layer_norm(x=keys, out=keys, weight=self.norm_weight, bias=self.norm_bias, eps=EPS, **s)
        self.keys_of.launch(step, given["keys"], step.group_rows[GROUP], self.keys, PAGE // GROUP, PAGE_BYTES)
        self.index_rope(q=given["iq"], weights=given["weights"], q_out=self.index_q[:n], weights_out=self.index_weights[:n],
                        k=self.no_key[:n], k_weight=self.no_weight, slot_mapping=self.no_slots[:n], keys=self.keys,
                        positions=self.no_positions[:n], cos_sin=NO_ROTATION, page_size=PAGE // GROUP, page_stride=PAGE_BYTES,
                        eps=EPS, weight_scale=(INDEX_DIM * INDEX_HEADS) ** -0.5, power_of_two_scales=True, **s)
        self.choose(q=self.index_q[:n], weights=self.index_weights[:n], keys=self.keys, row_ends=step.groups,
                    indices=self.chosen[:n, None], counts=self.counts[:n, None], page_size=PAGE // GROUP,
                    page_stride=PAGE_BYTES, **pages, **s)
        self.lists_op(kv_lens=step.sees, chosen=self.chosen[:n], counts=self.counts[:n], lists=self.lists[:n],
                      list_lens=self.list_lens[:n], kv_heads=1, window=0, ratio=GROUP, page_entries=PAGE // GROUP,
                      open_group=True, **pages, **s)
        self.attend(q=self.q[:n], out=self.latent[:n], k_cache=self.rows.reshape(-1, GROUP, 1, LATENT),
                    block_table=self.lists[:n], kv_lens=self.list_lens[:n], scale=SCALE, **s)
        self.expand(x=self.latent[:n], w=self.w_uv, out=self.out[:n], **s)

    def choice(self, at):
        return self.chosen[at][:self.counts[at]].copy()

    def reference(self, tokens, chosen):
        """Returns the outputs by the formula that does not absorb: keys and values of each head are products of the latents."""
        given = [self.inputs(t) for t in tokens]
        q, kv = (np.float64(np.float16([g[name] for g in given])) for name in ("q", "kv"))
        rows, out = norm(kv, np.float64(self.weight)), []
        keys = np.einsum("tl,hld->htd", rows, np.float64(self.w_uk))
        values = np.einsum("tl,hdl->htd", rows, np.float64(self.w_uv))
        for t in range(len(tokens)):
            seen = np.arange(t + 1)
            seen = seen[np.isin(seen // GROUP, chosen[t]) | (seen >= (t + 1) // GROUP * GROUP)]
            heads = [attend(q[t, h], keys[h, seen], values[h, seen], SCALE) for h in range(HEADS)]
            out.append(tuple(np.array(x) for x in zip(*heads)))
        return tuple(np.array(x) for x in zip(*out))

    def normalised(self, given):
        """Returns inputs of compress with a LayerNorm of x."""
        x, weight, bias = (np.float64(from_bf16(a)) for a in (given["x"], self.norm_weight, self.norm_bias))
        return given | {"x": bf16((x - x.mean()) / np.sqrt(x.var() + EPS) * weight + bias)}

    def check(self, tokens, chosen):
        """Returns the largest inversion of the choice of groups. Queries and keys are rounded to fp8."""
        given, worst = [self.inputs(t) for t in tokens], 0.0
        keys = self.keys_of.rows([self.normalised(g["keys"]) for g in given])
        for t, g in enumerate(given):
            q, w = (np.float64(np.float16(g[name])) for name in ("iq", "weights"))
            n = (t + 1) // GROUP
            off = score_error(w, q, keys[:n]) if n else 1
            worst = max(worst, inversion(w @ np.maximum(q @ keys[:n].T, 0), chosen[t], np.arange(n), TOP, off))
        return worst


def main(target):
    engine = Engine(target, KERNELS, lambda device: [Layer(device)], GroupStep)
    for pieces in ([50, 13], [47, 18]):
        engine.prefill(pieces)
    engine.steps(1, [(1, 1), (1, 1), (1, 1)])
    engine.steps(DRAFTS, [(2, 1), (3, 2), (1, 3)])
    return engine.report(["latents in groups of 4"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "gfx942"))
