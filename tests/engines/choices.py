# SPDX-License-Identifier: Apache-2.0
"""Checks the keys that an engine's indexers have chosen, and makes transformers' model attend to the same keys.

Scores of two keys are often so close that rounding decides, and the model's output then changes as a whole. So the
reference attends to the engine's own choice. The choice is checked in three steps. Each uses the engine's inputs of
that step, so that no limit contains another step's rounding:

* Products: queries, keys, weights and the rows of cosines that enter the plugin's kernels, against transformers' in float32. The
  norm of their difference may be LIMIT times the bf16 model's, which rounds as often. Log probabilities have the same limit.
* Numbers of fp8: what indexer_rope_cache wrote, against norm and rotation of its own inputs in double precision.
* The choice: what indexer_topk chose, against scores in double precision of its own inputs.

The last two steps have the engine's inputs, so their limits follow from the formats: see Choices.numbers() and
Choices.choice()."""
import collections

import torch

F32 = 2.0 ** -23  # error of a float32 addition that rounds or truncates, relative to the sum
E4M3 = 2.0 ** -4  # rounding error of a number in e4m3, relative to the number: half a step of 3 bits of mantissa
# A target's fp8 format: torch's dtype, the largest number, and half of the smallest step.
Format = collections.namedtuple("Format", "dtype largest half_step")
FORMATS = {"gfx942": Format(torch.float8_e4m3fnuz, 240.0, 2.0 ** -11), "gfx950": Format(torch.float8_e4m3fn, 448.0, 2.0 ** -10)}
PARTS = "queries", "keys", "weights", "cosines"


class Choices:
    """Records the keys that a plugin chooses, and replaces the indexers of transformers. `used` has for each limit the
    largest fraction of the limit that an error reached. `products` has for each of PARTS the norms of the engine's and
    of bf16's differences."""

    def __init__(self, target, record=True):
        """record=False: another process records the choices, and take_record() reads them."""
        from attn import _selection
        self.target, self.format = target, FORMATS[target]
        self.rows, self.layers, self.page = {}, {}, None
        self.inputs, self.exact, self.products = {}, {}, {}
        self.used = {"queries": 0.0, "keys": 0.0, "weights": 0.0, "choice": 0.0}
        self.path = None  # path of the file that each choice writes; None: no file
        if not record:
            return
        write, choose = _selection.Selection.write, _selection.Selection.choose

        def wrote(selection, q, weights, k, norm, cos_sin, positions, slots, cache, **more):
            made = write(selection, q, weights, k, norm, cos_sin, positions, slots, cache, **more)
            cosines = cos_sin[positions].double()
            self.numbers(selection, (q, weights, k), norm, cosines, stored(selection, cache, slots, self.format), made)
            selection.products = q.float(), k.float(), weights.float(), cosines.float()
            return made

        def chose(selection, q, weights, cache, ends, sequences, table, longest, out, **more):
            choose(selection, q, weights, cache, ends, sequences, table, longest, out, **more)
            layer = self.layers.setdefault(id(selection), len(self.layers))
            for t, (end, pages, slots) in enumerate(zip(ends.tolist(), table[sequences.long()].tolist(), out.tolist())):
                size = selection.page_size
                at = {page: n for n, page in enumerate(pages[:-(-end // size)])}
                keys = [at[slot // size] * size + slot % size for slot in slots if slot >= 0]
                seen = torch.tensor([pages[n // size] * size + n % size for n in range(end)])
                self.choice(selection, q[t], weights[t], stored(selection, cache, seen, self.format), keys)
                self.rows[layer, pages[0], end] = keys
                self.inputs[layer, pages[0], end] = [x[t] for x in selection.products]
            if self.path:
                torch.save((self.rows, self.inputs, self.used), self.path)

        _selection.Selection.write, _selection.Selection.choose = wrote, chose

    def record(self, path):
        """Sets the file to which each choice writes all records. take_record() reads the file."""
        self.path = path

    def take_record(self, path):
        """Reads the file that record() of another process has written."""
        self.rows, self.inputs, self.used = torch.load(path, weights_only=False)

    def numbers(self, selection, inputs, norm, cosines, keys, made):
        """Checks queries, keys and scales that a launch has computed from `inputs`.

        A number is off by half a step of e4m3: 2^-4 of itself, or half of the least step times the scale. Before that,
        float32 is off by 2^-23 of the largest number it meets in each operation. These are two sums of 128 elements, for mean
        and variance, and 8 operations of norm and rotation. bf16 is not in the limit: the inputs are of bf16, and nothing
        later is rounded to it. A scale is the least power of two with which no number is out of range."""
        q, weights, k = (x.double() for x in inputs)
        gain, bias = (x.double() for x in norm)
        centred = k - k.mean(-1, keepdim=True)
        inverse = (centred.square().mean(-1, keepdim=True) + selection.kind.eps).rsqrt()
        exact = {"queries": rotated(q, cosines[:, None]), "keys": rotated(centred * inverse * gain + bias, cosines)}
        met = {"queries": 2 * q.abs().amax(-1, keepdim=True),
               "keys": 2 * (2 * k.abs().amax(-1, keepdim=True) * inverse * gain.abs().max() + bias.abs().max())}
        raw = made[0].view(self.format.dtype).double()
        factor = made[1].double() / (weights * selection.kind.weight_scale)
        scales = torch.where(weights == 0, 1.0, factor.log2().round().exp2())
        self.use("weights", (factor / scales - 1).abs().nan_to_num(0.0) / (4 * F32))
        parts = {"queries": (raw[weights != 0], scales[weights != 0]), "keys": keys}
        for name, (numbers, scale) in parts.items():
            want, single = (x[name][weights != 0] if name == "queries" else x[name] for x in (exact, met))
            largest, single = want.abs().amax(-1, keepdim=True), (2 * 128 + 8) * F32 * single
            bound = torch.maximum(E4M3 * want.abs(), self.format.half_step * scale[..., None]) + single
            self.use(name, (numbers * scale[..., None] - want).abs() / bound)
            # between 1/2 and 1 if the scale is the smallest that suffices
            ratio = largest.clamp(min=1e-4)[..., 0] / (scale * self.format.largest)
            slack = single[..., 0] / largest.clamp(min=1e-4)[..., 0] + 2 * F32
            assert (ratio <= 1 + slack).all() and (ratio > 0.5 - slack).all(), f"scales of {name} are not the least"

    def choice(self, selection, q, weights, keys, chosen):
        """Checks a row's choice by scores in double precision of the same fp8 numbers. The products of such numbers are
        exact in float32.

        gfx942: a score is off by 2^-23 of its terms for each addition of 128 elements and of the heads, the weight and
        the scale. gfx950 also rounds a product and a weight to f16, 2^-11 each, and takes products below 2^-14 of a
        limit for 0. That limit is the power of two above the largest sum of |q| times 448 (docs/indexer.md). A chosen
        key's score may be smaller than one that was not chosen, by the sum of both errors."""
        q, (numbers, scale) = q.view(self.format.dtype).double(), keys
        assert len(set(chosen)) == len(chosen) == min(selection.kind.top_k, len(scale)), f"{len(chosen)} of {len(scale)} keys"
        products, w = (q @ numbers.T).clamp(min=0), weights.double()[:, None]
        scores, terms = ((w * products).sum(0) * scale, (w.abs() * products).sum(0) * scale)
        sums = (w.abs() * (q.abs() @ numbers.abs().T)).sum(0) * scale
        error = (128 + len(q) + 2) * F32 * sums
        if self.target == "gfx950":
            limit = 2 * q.abs().sum(-1).max() * self.format.largest
            error = error + 2.0 ** -10 * terms + 2.0 ** -14 * limit * w.abs().sum() * scale
        left = torch.ones(len(scale), dtype=torch.bool)
        left[chosen] = False
        if left.any():
            gap, room = scores[left][:, None] - scores[~left], error[left][:, None] + error[~left]
            self.use("choice", gap / room)

    def use(self, name, parts):
        """Records under `name` the largest of `parts`, errors divided by their limit; above 1 the limit is exceeded.
        Raises an error for NaN."""
        assert not parts.isnan().any(), name
        self.used[name] = max(self.used[name], float(parts.max()))

    def take(self, tokens):
        """Selects the recorded sequence whose last row has `tokens` keys. The reference computes this sequence
        next."""
        last = {}
        for _, page, end in self.rows:
            last[page] = max(last.get(page, 0), end)
        self.page = next(page for page, end in last.items() if end == tokens)

    def force(self):
        """Replaces the indexers of transformers' DeepSeek-V3.2."""
        from transformers.models.deepseek_v32 import modeling_deepseek_v32 as model

        def forward(indexer, hidden_states, q_resid, position_embeddings, attention_mask, position_ids=None, past_key_values=None):
            half = indexer.qk_rope_head_dim // 2
            own = (indexer.wq_b(q_resid).unflatten(-1, (indexer.n_heads, indexer.head_dim)), indexer.wk(hidden_states),
                   indexer.weights_proj(hidden_states), torch.cat([x[..., :half] for x in position_embeddings], -1))
            own, layer, ends = [x[0].float() for x in own], indexer.number, range(1, hidden_states.shape[1] + 1)
            if hidden_states.dtype == torch.float32:  # the float32 model runs first
                self.exact[layer] = own
                own = [torch.stack(x) for x in zip(*(self.inputs[layer, self.page, end] for end in ends))]
                at = 0
            else:
                at = 1
            for name, x, exact in zip(PARTS, own, self.exact[layer]):
                self.products.setdefault(f"{name} {layer} {self.page}", [0.0, 0.0])[at] = float((x - exact).norm() / exact.norm())
            chosen = [self.rows[layer, self.page, end] for end in ends]
            wide = [keys + keys[:1] * (indexer.index_topk - len(keys)) for keys in chosen]
            return torch.tensor(wide, dtype=torch.int32)[None]

        plain = model.DeepseekV32Indexer.__init__

        def made(indexer, config, layer_idx):
            plain(indexer, config, layer_idx)
            indexer.number = layer_idx

        model.DeepseekV32Indexer.__init__ = made
        model.DeepseekV32Indexer.forward = forward


def rotated(x, cosines):
    """Rotates the first 64 elements of rows. Element i is paired with element i + 32. `cosines` [..., 64] has cosines,
    then sines."""
    cos, sin = cosines.chunk(2, -1)
    a, b, rest = x.split([32, 32, x.shape[-1] - 64], -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin, rest), -1)


def stored(selection, cache, slots, kind):
    """Returns (elements [slots, 128], scales [slots]) of keys in the indexer's cache. A page has its keys, and then
    their scales."""
    size = selection.page_size
    pages = cache.contiguous().view(torch.uint8).view(cache.shape[0], -1)[slots // size]
    keys = pages[:, :size * 128].view(-1, size, 128)[torch.arange(len(slots)), slots % size]
    scales = pages[:, size * 128:size * 132].contiguous().view(torch.float32)[torch.arange(len(slots)), slots % size]
    return keys.contiguous().view(kind.dtype).double(), scales.double()
