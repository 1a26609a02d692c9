# SPDX-License-Identifier: Apache-2.0
"""An engine with three linear layers and one of attention: prompts in pieces, a fork of a cached prefix, decode steps
and steps that verify drafts, each kind of step captured once and replayed. Every output that counts is compared with
the layers' formulas in doubles. Exit status: 0 all right, 1 wrong results.

Usage: hybrid.py [gfx942|gfx950]      on the simulated GPU"""
import sys

import attn
import numpy as np

from layers import DRAFTS, KERNELS, PAGE, PAGES, ROWS, length, stack

PREFIX = 64  # tokens that sequence 2 shares with sequence 0: whole chunks and whole pages
# Between the three launches of a layer numbers are rounded to fp16, 2^-11 of each, and so is the result; the
# products of prompts in chunks have operands in fp16. States fade, so that no error grows with the tokens. Where the
# terms of a sum cancel, its error is the larger a part of it: a head's bound is this times terms / sum.
BOUND = 4 * 2.0 ** -11


class Step:
    """Lists and inputs that the launches of a step read, written before each replay."""

    def __init__(self, layers, lengths, stream=None):
        self.tokens, self.longest, self.stream = int(sum(lengths)), int(max(lengths)), stream
        self.cu = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        self.slots, self.lengths = np.full(ROWS, -1, np.int32), np.zeros(ROWS, np.int32)
        self.columns = np.full((ROWS, DRAFTS), -1, np.int32)
        self.accepted, self.accepted_now = np.ones(ROWS, np.int32), np.zeros(ROWS, np.int32)
        self.cache_slots = np.full(self.tokens, -1, np.int64)
        self.pages, self.has_state = np.zeros((ROWS, PAGES), np.int32), None
        self.inputs = [{name: np.zeros((self.tokens,) + x.shape, np.float16) for name, x in layer.inputs(0).items()}
                       for layer in layers]

    def say(self, layers, rows):
        """Writes a step. `rows` has (sequence, position of its first new token, new tokens) for each sequence, or
        None."""
        for s, row in enumerate(rows):
            if row is None:
                continue
            sequence, position, tokens = row
            self.slots[s], self.columns[s] = sequence.slots[0], sequence.slots
            self.pages[s], self.lengths[s] = sequence.pages, position + len(tokens)
            for i, token in enumerate(tokens):
                at = int(self.cu[s]) + i
                self.cache_slots[at] = sequence.pages[(position + i) // PAGE] * PAGE + (position + i) % PAGE
                for n, layer in enumerate(layers):
                    for name, x in layer.inputs(token).items():
                        self.inputs[n][name][at] = x


class Sequence:
    def __init__(self, number):
        self.number, self.tokens, self.got = number, [], []
        self.slots = [1 + DRAFTS * number + i for i in range(DRAFTS)]
        self.pages = [number * PAGES + i for i in range(PAGES)]
        self.accepted = 1

    def coming(self, count):
        """Returns the next `count` tokens, which a model would sample or a prompt has."""
        return [1000 * self.number + len(self.tokens) + i for i in range(count)]

    def keep(self, layers, tokens, first):
        """Records the layers' outputs for accepted tokens, which begin at number `first` of the step."""
        self.tokens += tokens
        for i in range(len(tokens)):
            self.got.append([layer.out[first + i].copy() for layer in layers])


class Engine:
    def __init__(self, target):
        pack = attn.build({"targets": [target], "defaults": {"dtype": "fp16"}, "kernels": KERNELS})
        self.device = attn.Device(pack, hip="sim")
        self.layers, self.pool = stack(self.device)
        self.copy = self.device.state_copy()
        self.sequences = [Sequence(i) for i in range(ROWS - 1)]

    def prefill(self, pieces):
        """Runs one piece of each prompt. `pieces` has the number of tokens of each sequence's piece; 0: none."""
        step = Step(self.layers, pieces + [0])
        rows = [(s, len(s.tokens), s.coming(n)) if n else None for s, n in zip(self.sequences, pieces)]
        step.has_state = np.array([row is not None and row[1] > 0 for row in rows] + [False], np.uint8)
        step.say(self.layers, rows)
        for layer in self.layers:
            layer.prefill(step)
        for s, row in zip(self.sequences, rows):
            if row:
                s.keep(self.layers, row[2], int(step.cu[s.number]))

    def fork(self, source, target):
        """Copies the states of all linear layers in one launch; the page of the prefix is shared."""
        spans = []
        for layer in self.layers[:-1]:
            for pool in (layer.state, layer.window):
                at, to = pool[source.slots[0]], pool[target.slots[0]]
                spans.append((self.pool.offset(at), self.pool.offset(to), at.nbytes))
        self.copy(source=self.pool.bytes, target=self.pool.bytes, spans=np.array(spans, np.int64),
                  max_bytes=max(span[2] for span in spans))
        target.tokens, target.got = list(source.tokens), list(source.got)
        target.pages = source.pages[:PREFIX // PAGE] + target.pages[PREFIX // PAGE:]

    def capture(self, lengths, launch):
        with self.device.graph() as graph:
            step = Step(self.layers, lengths, graph.stream)
            step.say(self.layers, [(s, len(s.tokens), s.coming(n)) for s, n in zip(self.sequences, lengths)])
            launch(step)
        return graph, step

    def decode(self, steps):
        graph, step = self.capture([1] * ROWS, lambda step: [layer.decode(step) for layer in self.layers])
        for _ in range(steps):
            rows = [(s, len(s.tokens), s.coming(1)) for s in self.sequences]
            step.say(self.layers, rows)
            graph.replay()
            for s, row in zip(self.sequences, rows):
                s.keep(self.layers, row[2], s.number)

    def verify(self, rights):
        """Runs steps that verify drafts. rights[n][s] is the number of drafts of sequence s that step n accepts,
        besides its first token."""
        def launch(step):
            self.layers[1].commit(step)
            for layer in self.layers:
                layer.verify(step)

        graph, step = self.capture([DRAFTS] * ROWS, launch)
        for right in rights:
            rows = []
            for s, n in zip(self.sequences, right):
                wrong = [90000 + 100 * len(s.tokens) + i for i in range(DRAFTS - 1 - n)]
                rows.append((s, len(s.tokens), s.coming(1 + n) + wrong))
                step.accepted[s.number] = s.accepted
            step.say(self.layers, rows)
            graph.replay()
            for s, row, n in zip(self.sequences, rows, right):
                s.keep(self.layers, row[2][:1 + n], DRAFTS * s.number)
                s.accepted = step.accepted_now[s.number] = 1 + n

    def worst(self):
        """Returns, for each layer, the largest error of a token's head as a fraction of its bound."""
        worst = [0.0] * len(self.layers)
        for s in self.sequences:
            for n, layer in enumerate(self.layers):
                (want, terms), got = layer.reference(s.tokens), np.float64([out[n] for out in s.got])
                error = length(got - want) / length(want) / (BOUND * terms)
                worst[n] = max(worst[n], float(np.where(np.isnan(error), np.inf, error).max()))
        return worst


def main(target):
    engine = Engine(target)
    first, _, second = engine.sequences
    engine.prefill([PREFIX, 9, 0])
    engine.fork(first, second)
    engine.prefill([36, 0, 20])
    engine.decode(3)
    engine.verify([(1, 2, 0), (0, 1, 2), (2, 0, 1), (2, 2, 2)])
    names = ("gated delta net", "KDA", "Mamba2", "attention")
    worst = engine.worst()
    print(f"{target}: sequences of {', '.join(str(len(s.tokens)) for s in engine.sequences)} tokens")
    for name, error in zip(names, worst):
        print(f"  {name:16} largest error {error:.2f} of its bound")
    return any(error > 1 for error in worst)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "gfx942"))
