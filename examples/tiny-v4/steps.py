# SPDX-License-Identifier: Apache-2.0
"""An engine: prompts in chunks, decode steps, and steps that verify drafts. Some drafts are rejected. Each kind of step is
captured once and replayed. Outputs of all tokens except rejected drafts are compared with the layers' formulas in doubles.

A layer has inputs(token), launch(step), choice(at), reference(tokens, chosen), check(tokens, chosen), `out` and BOUND."""
import attn
import numpy as np

from formulas import length

DRAFTS = 3  # queries of a step that verifies
ROWS = 3    # sequences of a step; the last one is padding


def zeros(given, tokens):
    """Returns arrays for a layer's inputs of `tokens` tokens. `given` has the inputs of one token; doubles become fp16."""
    return {name: zeros(x, tokens) if isinstance(x, dict) else
            np.zeros((tokens,) + x.shape, np.float16 if x.dtype == np.float64 else x.dtype) for name, x in given.items()}


def put(arrays, at, given):
    """Copies the inputs of one token to index `at` of arrays that zeros() made."""
    for name, x in given.items():
        if isinstance(x, dict):
            put(arrays[name], at, x)
        else:
            arrays[name][at] = x


class Step:
    """Lists and inputs that the launches of a step read, written before each replay. `chunk`: the step is of prompts.
    PAGE_ROWS: rows in a page of the pool of groups, by the tokens of a group. CHOSEN: tokens of a group that the indexer
    chooses. PAGES: pages of a sequence."""
    PAGE_ROWS, CHOSEN, PAGES = {}, 1, 1

    def __init__(self, layers, lengths, stream=None, chunk=False):
        self.tokens, self.longest, self.stream, self.chunk = int(sum(lengths)), int(max(lengths)), stream, chunk
        self.cu = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        self.slots, self.lengths = np.full(ROWS, -1, np.int32), np.zeros(ROWS, np.int32)
        self.pages = np.zeros((ROWS, self.PAGES), np.int32)
        self.positions, self.sequences = np.zeros(self.tokens, np.int64), np.zeros(self.tokens, np.int32)
        self.sees, self.groups = np.zeros(self.tokens, np.int32), np.zeros(self.tokens, np.int32)
        self.group_rows = {ratio: np.full(self.tokens, -1, np.int64) for ratio in self.PAGE_ROWS}
        self.inputs = [zeros(layer.inputs(0), self.tokens) for layer in layers]

    def say(self, layers, rows):
        """Writes a step: `rows` has (sequence, position of its first new token, new tokens) for each sequence."""
        for s, (sequence, position, tokens) in enumerate(rows):
            self.slots[s] = sequence.number
            self.pages[s], self.lengths[s] = sequence.pages, position + len(tokens)
            for i, token in enumerate(tokens):
                self.put_token(layers, int(self.cu[s]) + i, s, position + i, sequence, token)

    def put_token(self, layers, at, row, position, sequence, token):
        """Writes the lists and inputs of one token, the step's number `at`."""
        self.positions[at], self.sequences[at] = position, row
        self.sees[at], self.groups[at] = position + 1, (position + 1) // self.CHOSEN
        for ratio, rows in self.group_rows.items():
            group, page = position // ratio, self.PAGE_ROWS[ratio]
            ends = (position + 1) % ratio == 0
            rows[at] = sequence.pages[group // page] * page + group % page if ends else -1
        for layer, inputs in zip(layers, self.inputs):
            put(inputs, at, layer.inputs(token))


class Sequence:
    def __init__(self, number, pages, layers=0):
        self.number, self.tokens, self.got, self.chosen = number, [], [], [[] for _ in range(layers)]
        self.pages = [(number * pages + i) * 7 % (ROWS * pages) for i in range(pages)]

    def coming(self, count):
        """Returns the next `count` tokens, which a model would sample or a prompt has."""
        return [1000 * self.number + len(self.tokens) + i for i in range(count)]

    def keep(self, layers, tokens, first):
        """Records the layers' outputs and choices for accepted tokens, which begin at number `first` of the step."""
        self.tokens += tokens
        for at in range(first, first + len(tokens)):
            self.got.append([layer.out[at].copy() for layer in layers])
            for chosen, layer in zip(self.chosen, layers):
                chosen.append(layer.choice(at))


class Engine:
    """Runs layers of one model. `make` returns them for a device; `step` is the model's class of steps."""

    def __init__(self, target, kernels, make, step, dtype="fp16"):
        pack = attn.build({"targets": [target], "defaults": {"dtype": dtype}, "kernels": kernels})
        self.target, self.device, self.step = target, attn.Device(pack, hip="sim"), step
        self.layers = make(self.device)
        self.sequences = [Sequence(i, step.PAGES, len(self.layers)) for i in range(ROWS - 1)]

    def launch(self, step):
        for layer in self.layers:
            layer.launch(step)

    def prefill(self, pieces):
        """Runs one chunk of each prompt. `pieces` has the number of tokens of each sequence's chunk."""
        step = self.step(self.layers, pieces + [0], chunk=True)
        rows = [(s, len(s.tokens), s.coming(n)) for s, n in zip(self.sequences, pieces)]
        step.say(self.layers, rows)
        self.launch(step)
        for s, row in zip(self.sequences, rows):
            s.keep(self.layers, row[2], int(step.cu[s.number]))

    def capture(self, queries):
        """Captures a step of `queries` tokens a sequence. Returns the graph, and the step that it reads."""
        with self.device.graph() as graph:
            step = self.step(self.layers, [queries] * ROWS, graph.stream)
            step.say(self.layers, [(s, len(s.tokens), s.coming(queries)) for s in self.sequences])
            self.launch(step)
        return graph, step

    def steps(self, queries, kept):
        """Runs steps of `queries` tokens a sequence. Step n accepts the first kept[n][s] tokens of sequence s; the others are
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
        """Returns the largest error of a token's head in each layer, as a fraction of its bound, and the largest
        inversion of a choice."""
        worst, choice = [0.0] * len(self.layers), 0.0
        for s in self.sequences:
            for n, (layer, chosen) in enumerate(zip(self.layers, s.chosen)):
                want, size = layer.reference(s.tokens, chosen)
                got = np.array([out[n] for out in s.got])
                error = length(np.float64(layer.exact(got)) - want) / (layer.BOUND * size)
                worst[n] = max(worst[n], float(np.where(np.isnan(error), np.inf, error).max()))
                choice = max(choice, layer.check(s.tokens, chosen))
        return worst, choice

    def report(self, names):
        """Prints the errors of all layers. Returns True if one exceeds its bound."""
        worst, choice = self.worst()
        print(f"{self.target}: sequences of {', '.join(str(len(s.tokens)) for s in self.sequences)} tokens")
        for name, error in zip(names, worst):
            print(f"  {name:22} largest error {error:.2f} of its bound")
        print(f"  {'choice':22} largest inversion {choice:.2f} of its bound")
        return any(error > 1 for error in worst + [choice])
