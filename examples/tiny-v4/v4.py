# SPDX-License-Identifier: Apache-2.0
"""An engine with the three kinds of DeepSeek-V4's layers: prompts in chunks, decode steps, and steps that verify drafts.
Some drafts are rejected. Each kind of step is captured once and replayed. Every output that counts is compared with the
layers' formulas in doubles, and every selection with the scores in doubles. Exit status: 0 all right, 1 wrong results.

Usage: v4.py [gfx942|gfx950]      on the simulated GPU"""
import sys

import attn
import numpy as np

from layers import DRAFTS, KERNELS, PAGE, PAGES, RING, ROWS, Layer, length

# Rows of the pool and queries are rounded to fp16, 2^-11 of each element. So are the weights of rows and the result. A
# weight is also off by the error of its score, the product of a query and a row of sqrt 512 each.
BOUND = 4 * 2.0 ** -11


def zeros(given, tokens):
    """Arrays for a layer's inputs of `tokens` tokens: q and weights in fp16, the others in single precision. `given` are the
    inputs of one token."""
    short = ("q", "weights")
    return {name: zeros(x, tokens) if isinstance(x, dict) else
            np.zeros((tokens,) + x.shape, np.float16 if name in short else np.float32) for name, x in given.items()}


def put(arrays, at, given):
    """Copies the inputs of one token to place `at` of such arrays."""
    for name, x in given.items():
        if isinstance(x, dict):
            put(arrays[name], at, x)
        else:
            arrays[name][at] = x


class Step:
    """Lists and inputs that the launches of a step read, written before each replay. With `chunk`, for prompts, the rows
    of the window go to its ring after the attention: the first tokens still see the rows that they overwrite."""
    RATIOS, CHOSEN = (4, 128), 4  # tokens of a group in each pool; tokens of a group that the indexer chooses

    def __init__(self, layers, lengths, stream=None, chunk=False):
        self.tokens, self.longest, self.stream = int(sum(lengths)), int(max(lengths)), stream
        self.cu = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        self.slots, self.lengths = np.full(ROWS, -1, np.int32), np.zeros(ROWS, np.int32)
        self.window_slots, self.pages = np.zeros(ROWS, np.int32), np.zeros((ROWS, PAGES), np.int32)
        self.positions, self.sequences = np.zeros(self.tokens, np.int64), np.zeros(self.tokens, np.int32)
        self.sees, self.groups = np.zeros(self.tokens, np.int32), np.zeros(self.tokens, np.int32)
        self.window_rows, self.index_rows = (np.full(self.tokens, -1, np.int64) for _ in range(2))
        self.new_lens, self.chunk_rows = np.zeros(self.tokens, np.int32) if chunk else None, np.arange(self.tokens)
        self.group_rows = {ratio: np.full(self.tokens, -1, np.int64) for ratio in self.RATIOS}
        self.inputs = [zeros(layer.inputs(0), self.tokens) for layer in layers]

    def say(self, layers, rows):
        """Writes a step: `rows` has (sequence, position of its first new token, new tokens) for each sequence."""
        for s, (sequence, position, tokens) in enumerate(rows):
            self.slots[s] = self.window_slots[s] = sequence.number
            self.pages[s], self.lengths[s] = sequence.pages, position + len(tokens)
            for i, token in enumerate(tokens):
                self.put_token(layers, int(self.cu[s]) + i, s, position + i, sequence, token)

    def put_token(self, layers, at, row, position, sequence, token):
        """Writes the lists and inputs of one token, the step's number `at`."""
        self.positions[at], self.sequences[at] = position, row
        if self.new_lens is not None:
            self.new_lens[at] = at - self.cu[row] + 1
        self.sees[at], self.groups[at] = position + 1, (position + 1) // self.CHOSEN
        self.window_rows[at] = layers[0].first + sequence.number * RING + position % RING
        for ratio, rows in self.group_rows.items():
            group = position // ratio
            ends = (position + 1) % ratio == 0
            rows[at] = sequence.pages[group // PAGE] * PAGE + group % PAGE if ends else -1
        self.index_rows[at] = self.group_rows[self.CHOSEN][at]
        for layer, inputs in zip(layers, self.inputs):
            put(inputs, at, layer.inputs(token))


class Sequence:
    def __init__(self, number):
        self.number, self.tokens, self.got, self.chosen = number, [], [], []
        self.pages = [(number * PAGES + i) * 5 % (ROWS * PAGES) for i in range(PAGES)]

    def coming(self, count):
        """The next `count` tokens, which a model would sample or a prompt has."""
        return [1000 * self.number + len(self.tokens) + i for i in range(count)]

    def keep(self, layers, tokens, first):
        """Keeps what the layers computed for accepted tokens, which are in the step from number `first` on."""
        self.tokens += tokens
        index = next(layer.index for layer in layers if layer.index)
        for at in range(first, first + len(tokens)):
            self.got.append([layer.out[at].copy() for layer in layers])
            self.chosen.append(index.chosen[at][:index.counts[at]].copy())


class Engine:
    def __init__(self, target):
        pack = attn.build({"targets": [target], "defaults": {"dtype": "fp16"}, "kernels": KERNELS})
        self.device = attn.Device(pack, hip="sim")
        self.layers = [Layer(n, self.device, ratio) for n, ratio in enumerate((0, 4, 128))]
        self.sequences = [Sequence(i) for i in range(ROWS - 1)]

    def launch(self, step):
        for layer in self.layers:
            layer.launch(step)

    def prefill(self, pieces):
        """One chunk of each prompt: `pieces` are tokens of each sequence."""
        step = Step(self.layers, pieces + [0], chunk=True)
        rows = [(s, len(s.tokens), s.coming(n)) for s, n in zip(self.sequences, pieces)]
        step.say(self.layers, rows)
        self.launch(step)
        for s, row in zip(self.sequences, rows):
            s.keep(self.layers, row[2], int(step.cu[s.number]))

    def capture(self, queries):
        """Captures a step of `queries` tokens a sequence. Returns the graph, and the step that it reads."""
        with self.device.graph() as graph:
            step = Step(self.layers, [queries] * ROWS, graph.stream)
            step.say(self.layers, [(s, len(s.tokens), s.coming(queries)) for s in self.sequences])
            self.launch(step)
        return graph, step

    def steps(self, queries, kept):
        """Steps of `queries` tokens a sequence. In step n, the first kept[n][s] of sequence s are accepted, and the others are
        rejected drafts."""
        graph, step = self.capture(queries)
        for right in kept:
            rows = []
            for s, n in zip(self.sequences, right):
                wrong = [90000 + 100 * len(s.tokens) + i for i in range(queries - n)]
                rows.append((s, len(s.tokens), s.coming(n) + wrong))
            step.say(self.layers, rows)
            graph.replay()
            for s, row, n in zip(self.sequences, rows, right):
                s.keep(self.layers, row[2][:n], queries * s.number)

    def worst(self):
        """For each layer, the largest error of a head of a token as a part of its bound; and the largest of a selection."""
        worst, choice = [0.0] * len(self.layers), 0.0
        for s in self.sequences:
            for n, layer in enumerate(self.layers):
                want, size = layer.reference(s.tokens, s.chosen)
                error = length(np.float64([out[n] for out in s.got]) - want) / (BOUND * size)
                worst[n] = max(worst[n], float(np.where(np.isnan(error), np.inf, error).max()))
                if layer.index:
                    choice = max(choice, layer.index.check(s.tokens, s.chosen))
        return worst, choice


def main(target):
    engine = Engine(target)
    for pieces in ([50, 13], [50, 7], [50, 0], [37, 0]):
        engine.prefill(pieces)
    engine.steps(1, [(1, 1), (1, 1)])
    engine.steps(DRAFTS, [(2, 1), (3, 2), (1, 3)])
    worst, choice = engine.worst()
    print(f"{target}: sequences of {', '.join(str(len(s.tokens)) for s in engine.sequences)} tokens")
    for name, error in zip(("window", "CSA, 4 tokens", "HCA, 128 tokens"), worst):
        print(f"  {name:16} largest error {error:.2f} of its bound")
    print(f"  {'choice of CSA':16} largest inversion {choice:.2f} of its bound")
    return any(error > 1 for error in worst + [choice])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "gfx942"))
