# SPDX-License-Identifier: Apache-2.0
"""Tests an engine's steps of sparse latent attention, without an engine: the indexer's cache, its choice, and attention
to the chosen keys."""
import unittest

import numpy as np

import attn
from attn import _engine, _selection
import attn.aiter as aiter
import support

PAGE, TOP_K, HEADS = 16, 16, 8
LATENT = _engine.LatentKind(dtype="fp16", heads=4, latent=512, rope=64, head_dim=192, head_dim_v=128, scale=0.07)
INDEXER = _selection.IndexerKind(dtype="fp16", heads=HEADS, top_k=TOP_K, rope="neox", weight_scale=0.03, eps=1e-6)
# Largest error of a score divided by the largest score: queries and keys are rounded to fp8, products to f16.
NEAR = 2.0 ** -4


def rotated(x, angles):
    """Rotates the first 64 elements of x [tokens, ..., 128] in double precision. The elements of a pair are 32
    apart."""
    x = x.astype(np.float64)
    angles = angles.reshape(len(x), *[1] * (x.ndim - 2), 32)
    a, b = x[..., :32], x[..., 32:64]
    return np.concatenate((a * np.cos(angles) - b * np.sin(angles), b * np.cos(angles) + a * np.sin(angles), x[..., 64:]), -1)


class Step:
    """The inputs of an engine's step. Sequences have `lengths` keys. The last `counts` keys are the tokens of this
    step."""

    def __init__(self, lengths, counts):
        self.lengths, total = lengths, sum(lengths)
        pages = [-(-n // PAGE) for n in lengths]
        order, at = np.random.default_rng(5).permutation(sum(pages) + 2), 0
        self.table = np.zeros((len(lengths), max(pages)), np.int32)
        for s, n in enumerate(pages):
            self.table[s, :n], at = order[at:at + n], at + n
        self.positions = np.concatenate([np.arange(n) for n in lengths])
        sequences = np.repeat(np.arange(len(lengths)), lengths)
        self.slots = self.table[sequences, self.positions // PAGE].astype(np.int64) * PAGE + self.positions % PAGE
        self.rows = np.concatenate([np.arange(n)[n - c:] + sum(lengths[:s]) for s, (n, c) in enumerate(zip(lengths, counts))])
        self.sequences, self.ends = sequences[self.rows].astype(np.int32), (self.positions[self.rows] + 1).astype(np.int32)
        self.q, self.k = support.random((total, HEADS, 128), 1), support.random((total, 128), 2)
        self.weights = support.random((total, HEADS), 3)
        self.norm = (1 + support.random((128,), 4, np.float32) / 4, support.random((128,), 6, np.float32))
        angles = np.arange(max(lengths))[:, None] / 100.0 ** (np.arange(32) / 32)
        self.cos_sin, self.angles = np.concatenate((np.cos(angles), np.sin(angles)), 1).astype(np.float32), angles
        self.cache = np.full((len(order), PAGE, _selection.KEY_BYTES), 0xff, np.uint8)

    def scores(self, row):
        """Returns the scores of the keys that a row sees, in double precision."""
        s, t = self.sequences[row], self.rows[row]
        seen = np.arange(self.ends[row]) + sum(self.lengths[:s])
        k = self.k.astype(np.float64)
        k = (k - k.mean(-1, keepdims=True)) / np.sqrt(k.var(-1, keepdims=True) + INDEXER.eps) * self.norm[0] + self.norm[1]
        k = rotated(k, self.angles[self.positions])[seen]
        q = rotated(self.q[t:t + 1], self.angles[self.positions[t:t + 1]])[0]
        return np.maximum(q @ k.T, 0).T @ (self.weights[t].astype(np.float64) * INDEXER.weight_scale)


class SparseSteps(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        entries = _selection.kernels(LATENT, INDEXER)
        cls.device = attn.Device(attn.build({"targets": [support.TARGET], "kernels": entries}), hip="sim")
        aiter.use(device=cls.device)

    def choose(self, step, selection=None):
        """Returns the slots of the keys that the indexer chooses for each row."""
        selection = selection or _selection.Selection(self.device, INDEXER, page_size=PAGE)
        out = np.full((len(step.rows), TOP_K), -7, np.int32)
        q, weights = selection.write(step.q, step.weights, step.k, step.norm, step.cos_sin, step.positions, step.slots, step.cache)
        selection.choose(q[step.rows], weights[step.rows], step.cache, step.ends, step.sequences, step.table,
                         max(step.lengths), out)
        return out

    def check_choice(self, step, chosen):
        """Checks that each row chose the keys of the best scores, in ascending order of positions, and nothing
        else."""
        for row, slots in enumerate(chosen):
            count, table = min(step.ends[row], TOP_K), step.table[step.sequences[row]]
            self.assertTrue((slots[count:] == -1).all())
            page = {int(p): i for i, p in enumerate(table[:-(-step.ends[row] // PAGE)])}
            at = np.array([page[s // PAGE] * PAGE + s % PAGE for s in slots[:count].tolist()])
            self.assertTrue((np.diff(at) > 0).all() and at[-1] < step.ends[row])
            scores = step.scores(row)
            others = np.delete(scores, at)
            if len(others):
                self.assertLess(others.max() - scores[at].min(), NEAR * np.abs(scores).max())

    def test_attends_to_the_chosen_keys(self):
        step = Step([40, 7, 300], [3, 1, 5])
        chosen = self.choose(step)
        self.check_choice(step, chosen)
        steps = _selection.SparseSteps(self.device, LATENT, page_size=PAGE, max_rows=32, top_k=TOP_K)
        cache, q = support.random((len(step.cache), PAGE, 576), 7), support.random((len(step.rows), 4, 576), 8)
        for n in (len(step.rows), 4):  # the second plan of a smaller step uses the same memory
            out = np.zeros((n, 4, 512), np.float16)
            steps.plan(np.minimum(step.ends[:n], TOP_K).astype(np.int32))
            steps.run(q[:n], cache, chosen[:n], out)
            for row in range(n):
                rows = cache.reshape(-1, 1, 576)[chosen[row][chosen[row] >= 0]]
                want, _ = support.attention(q[row:row + 1], rows, rows[..., :512], scale=LATENT.scale, causal=False)
                self.assertLess(np.abs(out[row] - want[0]).max(), 2e-3 * np.abs(rows).max())

    def test_long_context_is_cut_into_parts(self):
        step = Step([3000], [1])
        selection = _selection.Selection(self.device, INDEXER, page_size=PAGE)
        self.assertGreater(_selection.choose_parts(selection.select, 1, 3000), 1)
        self.check_choice(step, self.choose(step))

    def test_layers_and_steps_share_the_memory_of_parts(self):
        room, units = _selection.Room(self.device, TOP_K), self.device.compute_units
        layers = [_selection.Selection(self.device, INDEXER, page_size=PAGE, room=room) for _ in range(2)]
        for rows in (1, 2, 7, units // 2, units, 4 * units):
            for keys in (2048, 8192, 131072, 2 ** 24):
                parts = _selection.choose_parts(layers[0].select, rows, keys)
                self.assertTrue(parts == 1 or rows * parts <= units)
        for layer, counts in zip(layers, ([1, 1], [2, 1])):
            step = Step([3000, 40], counts)
            parts = len(step.rows) * _selection.choose_parts(layer.select, len(step.rows), 3000)
            self.assertGreater(parts, len(step.rows))
            room.lists(step.q, units, 1)[0][:] = -7
            self.check_choice(step, self.choose(step, layer))
            written = (room.made[0] != -7).all(-1)
            self.assertTrue(written[:parts].all() and not written[parts:].any())

    def test_padding_has_no_keys(self):
        step = Step([40], [2])
        step.ends[1] = 0
        chosen = self.choose(step)
        self.assertTrue((chosen[1] == -1).all())


if __name__ == "__main__":
    unittest.main()
