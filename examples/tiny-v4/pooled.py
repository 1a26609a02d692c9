# SPDX-License-Identifier: Apache-2.0
"""Rows of groups of tokens: the ring of earlier tokens, the launch of compress, and the formula."""
import numpy as np

from formulas import COS_SIN, EPS, ROTARY, bf16, from_bf16, norm, numbers, rotate
from steps import DRAFTS, ROWS


class Pooled:
    """Rows that compress makes from x and scores. Without `scored` weights are equal. With `overlap` a row also has the tokens
    of the group before. `first`: the first element that rotates. `form` has fields of compress that differ from DeepSeek-V4's."""

    def __init__(self, device, number, dim, ratio, overlap=False, scored=True, row="fp16", first=0, ape=True, **form):
        self.number, self.dim, self.ratio, self.overlap, self.scored, self.first = number, dim, ratio, overlap, scored, first
        self.form = dict(dtype="fp16", state_dtype="f32", norm="rms", rope="gptj", rotary_dim=ROTARY) | form
        self.columns = dim * (2 if overlap else 1)
        self.op = device.compress(head_dim=dim, row_dtype=row, **self.form)
        self.weight = np.float32(1 + numbers((dim,), number, 1) / 8)
        self.norm_weight = np.float32(self.weight - 1) if self.form["norm"] == "gemma_rms" else self.weight
        self.ape = np.float32(numbers((ratio, self.columns), number, 2) * ape) if scored else None
        self.ring = ratio * (2 if overlap else 1) + DRAFTS
        self.short = self.form["state_dtype"] == "bf16"
        nan, kind = (0x7fff, np.uint16) if self.short else (np.nan, np.float32)
        self.state = np.full((ROWS, self.ring, self.columns), nan, kind)
        self.state_scores = self.state.copy()

    def rounded(self, x):
        return bf16(x) if self.short else np.float32(x)

    def inputs(self, token):
        given = {"x": self.rounded(numbers((self.columns,), self.number, token, 3))}
        return given | ({"scores": self.rounded(numbers((self.columns,), self.number, token, 4))} if self.scored else {})

    def launch(self, step, given, slots, pool, page_size, page_stride, latent=None):
        scores = dict(scores=given["scores"], state_scores=self.state_scores, ape=self.ape) if self.scored else {}
        weight = dict(weight=self.norm_weight) if self.form["norm"] != "none" else {}
        rope = dict(cos_sin=COS_SIN, rotary_first=self.first) if self.form["rope"] != "none" else {}
        self.op(x=given["x"], state=self.state, state_slots=step.slots, cu_seqlens=step.cu, context_lens=step.lengths,
                slot_mapping=slots, pool=pool.view(np.uint8).reshape(-1), max_seqlen=step.longest, ratio=self.ratio,
                overlap=self.overlap, page_size=page_size, page_stride=page_stride, eps=EPS, power_of_two_scales=True,
                stream=step.stream, latent=latent, **scores, **weight, **rope)

    def exact(self, given, name):
        x = np.array([g[name] for g in given]).reshape(-1, self.columns)
        return np.float64(from_bf16(x) if self.short else x)

    def rows(self, given, rotated=True):
        """Returns the rows of all complete groups of a sequence, by the formula; without `rotated` as the op's `latent` has
        them. A product of rows is the same with the Hadamard matrix and without."""
        x = self.exact(given, "x")
        scores = self.exact(given, "scores") if self.scored else np.zeros_like(x)
        ape = np.float64(self.ape) if self.scored else np.zeros((self.ratio, self.columns))
        rows, last = [], slice(self.columns - self.dim, self.columns)
        for group in range(len(given) // self.ratio):
            own = np.arange(group * self.ratio, (group + 1) * self.ratio)
            xs, ss = [x[own, last]], [scores[own, last] + ape[:, last]]
            if self.overlap and group:
                older = own - self.ratio
                xs.append(x[older, :self.dim])
                ss.append(scores[older, :self.dim] + ape[:, :self.dim])
            xs, ss = np.concatenate(xs), np.concatenate(ss)
            w = np.exp(ss - ss.max(0))
            z = (w * xs).sum(0) / w.sum(0)
            z = norm(z, np.float64(self.weight)) if self.form["norm"] != "none" else z
            turns = rotated and self.form["rope"] != "none"
            rows.append(rotate(z, group * self.ratio, self.first, rope=self.form["rope"]) if turns else z)
        return np.array(rows).reshape(-1, self.dim)
