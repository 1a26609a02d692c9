# SPDX-License-Identifier: Apache-2.0
"""Tests layers of linear attention step by step: drafts that are accepted or refused, replay, prefill and decode."""
import unittest

import numpy as np

import attn
import support

K, HEADS, VALUE_HEADS, TAPS, DRAFTS, SLOTS = 128, 1, 2, 4, 4, 12
CHANNELS = 2 * HEADS * K + VALUE_HEADS * K
SCALE = K ** -0.5


def softplus(x):
    return np.logaddexp(0, x)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


class Layer:
    """The weights of a GDN layer, and its formula in doubles."""

    def __init__(self, seed):
        self.weight = support.random((CHANNELS, TAPS), seed)
        self.norm = support.random((K,), seed + 1)
        self.a_log = support.random((VALUE_HEADS,), seed + 2, np.float32)
        self.dt_bias = support.random((VALUE_HEADS,), seed + 3, np.float32)

    def run(self, x, a, b, z):
        """Returns the layer's output for the tokens x, with states that begin at 0. a and b are inputs of the gates, z
        is the gate of the norm."""
        x, a, b, z = (np.float64(t) for t in (x, a, b, z))
        state, out = np.zeros((VALUE_HEADS, K, K)), np.zeros((len(x), VALUE_HEADS, K))
        padded = np.concatenate([np.zeros((TAPS - 1, CHANNELS)), x])
        for t in range(len(x)):
            y = (padded[t:t + TAPS] * np.float64(self.weight).T).sum(0)
            y *= sigmoid(y)
            q, k, v = y[:K], y[K:2 * K], y[2 * K:].reshape(VALUE_HEADS, K)
            q, k = (u / np.sqrt((u * u).sum() + 1e-6) for u in (q, k))
            g = -np.exp(np.float64(self.a_log)) * softplus(a[t] + self.dt_bias)
            for h in range(VALUE_HEADS):
                s = np.exp(g[h]) * state[h]
                u = sigmoid(b[t, h]) * (v[h] - k @ s)
                state[h] = s + np.outer(k, u)
                o = SCALE * q @ state[h]
                o *= np.float64(self.norm) / np.sqrt((o * o).mean() + 1e-6)
                out[t, h] = o * z[t, h] * sigmoid(z[t, h])
        return out


class Steps(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.device = device = support.device(
            {"op": "conv1d", "act": "silu", "tree": [False, True]},
            {"op": "gated_delta", "head_dim": K, "l2_norm": True, "replay": [False, True]},
            {"op": "gated_delta", "head_dim": K, "l2_norm": True, "tree": True},
            {"op": "gated_delta_commit", "head_dim": K},
            {"op": "state_copy"},
            {"op": "gated_delta_prefill", "head_dim": K, "l2_norm": True, "stage": ["all", "chunks", "scan", "outputs"]},
            {"op": "gated_rmsnorm", "width": K, "act": "silu"})
        shape = dict(dtype="fp16", head_dim=K, heads=HEADS, value_heads=VALUE_HEADS, l2_norm=True)
        cls.conv1d = device.conv1d(dtype="fp16", taps=TAPS, channels=CHANNELS, act="silu")
        cls.delta = device.gated_delta(**shape)
        cls.replay = device.gated_delta(**shape, replay=True)
        cls.conv1d_tree = device.conv1d(dtype="fp16", taps=TAPS, channels=CHANNELS, act="silu", tree=True)
        cls.tree = device.gated_delta(**shape, tree=True)
        cls.chunked = device.gated_delta_prefill(**shape)
        cls.stages = [device.gated_delta_prefill(**shape, stage=stage) for stage in ("chunks", "scan", "outputs")]
        cls.commit = device.gated_delta_commit(head_dim=K, value_heads=VALUE_HEADS)
        cls.norm = device.gated_rmsnorm(dtype="fp16", width=K, groups=VALUE_HEADS, act="silu", shared_weight=True)

    def setUp(self):
        self.layer = Layer(7)
        self.window = np.full((SLOTS, CHANNELS, TAPS - 1 + DRAFTS - 1), np.nan, np.float16)
        self.state = np.full((SLOTS, VALUE_HEADS, K, K), np.nan, np.float32)
        self.records = np.full((SLOTS, VALUE_HEADS, DRAFTS, 2 * K + 4), np.nan, np.float32)

    def tokens(self, count, seed):
        """Returns random inputs x, a, b, z of `count` tokens."""
        shapes = ((count, CHANNELS), (count, VALUE_HEADS), (count, VALUE_HEADS), (count, VALUE_HEADS, K))
        return [support.random(shape, seed + i) for i, shape in enumerate(shapes)]

    def convolve(self, x, slots, lengths, op=None, **more):
        """Runs the causal convolution of x on the windows of `slots`. Returns q, k, v and the starts of sequences."""
        q, k = np.zeros((len(x), K), np.float16), np.zeros((len(x), K), np.float16)
        v = np.zeros((len(x), VALUE_HEADS * K), np.float16)
        cu = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        (op or self.conv1d)(x=x, weight=self.layer.weight, state=self.window, state_slots=np.array(slots, np.int32),
                            cu_seqlens=cu, q_out=q, k_out=k, out=v, max_seqlen=int(max(lengths)), **more)
        return q[:, None], k[:, None], v.reshape(-1, VALUE_HEADS, K), cu

    def step(self, tokens, slots, lengths, columns, op=None, conv=None, **more):
        """Runs convolution, recurrence and norm for sequences that are one after the other in `tokens`. `columns` has a
        row of state slots for each sequence. Returns the output."""
        x, a, b, z = tokens
        q, k, v, cu = self.convolve(x, slots, lengths, **(conv or {}))
        out = np.zeros_like(v)
        (op or self.delta)(q=q, k=k, v=v, gate_in=a, beta_in=b, a_log=self.layer.a_log, dt_bias=self.layer.dt_bias,
                           state=self.state, state_slots=np.array(columns, np.int32), cu_seqlens=cu, out=out,
                           max_seqlen=int(max(lengths)), scale=SCALE, l2_eps=1e-6, **more)
        self.norm(x=out, z=z, weight=self.layer.norm, out=out, eps=1e-6)
        return out

    def prefill(self, tokens, slot, column):
        """Runs a prompt from empty states with the op for steps. `slot` is the window's slot, `column` the state's."""
        fresh = np.zeros(1, np.uint8)
        return self.step(tokens, [slot], [len(tokens[0])], [[column]], conv={"has_state": fresh}, has_state=fresh)

    def close(self, out, want):
        # Values on the way are rounded to fp16 three times, and the norm does not make errors much larger.
        np.testing.assert_allclose(out, want, rtol=0.02, atol=0.02 * np.abs(want).max())

    def test_prefill_and_decode_are_one_run(self):
        tokens = self.tokens(9, 1)
        want = self.layer.run(*tokens)
        out = [self.prefill([t[:5] for t in tokens], 3, 4)]
        for i in range(5, 9):
            out.append(self.step([t[i:i + 1] for t in tokens], [3], [1], [[4]]))
        self.close(np.concatenate(out), want)

    def chunks(self, tokens, slot, **more):
        """Runs a prompt or a piece of one with the op for chunks of 64 tokens."""
        conv = {name: more[name] for name in ("has_state", "block_slots", "block_tokens") if name in more}
        return self.step(tokens, [slot], [len(tokens[0])], [slot], op=self.chunked, conv=conv, **more)

    def test_chunks_and_decode_are_one_run(self):
        tokens = self.tokens(90, 70)
        out = [self.chunks([t[:87] for t in tokens], 2, has_state=np.zeros(1, np.uint8))]
        for i in range(87, 90):
            out.append(self.step([t[i:i + 1] for t in tokens], [2], [1], [[2]]))
        self.close(np.concatenate(out), self.layer.run(*tokens))

    def test_calls_without_max_seqlen_skip_no_token(self):
        layer, tokens, lengths = self.layer, self.tokens(9, 75), [3, 2, 4]
        slots, fresh = np.arange(3, dtype=np.int32), np.zeros(3, np.uint8)
        cu = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        columns = np.arange(3 * DRAFTS, dtype=np.int32).reshape(3, DRAFTS)

        def run(starts, columns, more):
            x, a, b, _ = tokens
            q, k = np.zeros((2, len(x), 1, K), np.float16)
            v = np.zeros((len(x), VALUE_HEADS, K), np.float16)
            out = np.zeros_like(v)
            self.conv1d(x=x, weight=layer.weight, state=self.window, state_slots=slots, cu_seqlens=starts,
                        q_out=q[:, 0], k_out=k[:, 0], out=v.reshape(len(x), -1), has_state=fresh, **more)
            (self.chunked if columns is slots else self.delta)(
                q=q, k=k, v=v, gate_in=a, beta_in=b, a_log=layer.a_log, dt_bias=layer.dt_bias, state=self.state,
                state_slots=columns, cu_seqlens=starts, has_state=fresh, out=out, scale=SCALE, l2_eps=1e-6, **more)
            return out

        for starts, longest in ((cu, 4), (None, 3)):
            for rows in (slots, slots[:, None], columns):
                want = run(starts, rows, {"max_seqlen": longest})
                self.assertTrue(np.all(np.any(want, axis=(1, 2))))
                np.testing.assert_array_equal(run(starts, rows, {}), want)

    def test_a_copy_needs_the_bytes_of_a_span(self):
        copy = self.device.state_copy()
        source, target = np.arange(64, dtype=np.uint8), np.zeros(64, np.uint8)
        spans = np.array([[16, 32, 16]], np.int64)
        with self.assertRaisesRegex(attn.AttnError, "max_bytes is 0: it is needed"):
            copy(source=source, target=target, spans=spans)
        copy(source=source, target=target, spans=spans[:0])
        copy(source=source, target=target, spans=spans, max_bytes=16)
        np.testing.assert_array_equal(target[32:48], source[16:32])
        self.assertEqual(np.count_nonzero(target), 16)

    def test_pieces_of_a_prompt_are_the_prompt(self):
        tokens, fresh = self.tokens(200, 80), np.zeros(1, np.uint8)
        whole = self.chunks(tokens, 1, has_state=fresh, block_slots=np.array([[-1, 5, 6]], np.int32), block_tokens=64)
        pieces = [self.chunks([t[:128] for t in tokens], 2, has_state=fresh),
                  self.chunks([t[128:] for t in tokens], 2)]
        np.testing.assert_array_equal(np.concatenate(pieces), whole)
        np.testing.assert_array_equal(self.state[2], self.state[1])
        self.window[7], self.state[7] = self.window[5], self.state[5]  # the copies are what a prefix cache restores
        np.testing.assert_array_equal(self.chunks([t[128:] for t in tokens], 7), whole[128:])
        np.testing.assert_array_equal(self.state[7], self.state[1])
        np.testing.assert_array_equal(self.window[7], self.window[1])
        self.assertTrue(np.isnan(self.state[[3, 4, 8, 9]]).all())

    def test_three_launches_have_the_bits_of_one(self):
        tokens, slots = self.tokens(200, 90), np.array([[5, 6, -1]], np.int32)
        q, k, v, cu = self.convolve(tokens[0], [1], [200], has_state=np.zeros(1, np.uint8))
        call = dict(q=q, k=k, v=v, gate_in=tokens[1], beta_in=tokens[2], a_log=self.layer.a_log, state=self.state,
                    dt_bias=self.layer.dt_bias, cu_seqlens=cu, has_state=np.zeros(1, np.uint8), max_seqlen=200,
                    scale=SCALE, l2_eps=1e-6, block_tokens=64)
        one, several = np.zeros_like(v), np.zeros_like(v)
        self.chunked(out=one, state_slots=np.array([1], np.int32), block_slots=slots, **call)
        chunks = np.zeros((4, VALUE_HEADS, 2756 + 64 * K + K * K // 2), np.int32)
        for op in self.stages:
            op(out=several, chunks=chunks, state_slots=np.array([2], np.int32), block_slots=slots + 3, **call)
        np.testing.assert_array_equal(several, one)
        np.testing.assert_array_equal(self.state[[2, 8, 9]], self.state[[1, 5, 6]])

    def test_rejected_drafts_leave_nothing(self):
        tokens, wrong = self.tokens(10, 20), self.tokens(10, 30)
        plain = [self.prefill([t[:4] for t in tokens], 1, 1)]
        for i in range(4, 10):
            plain.append(self.step([t[i:i + 1] for t in tokens], [1], [1], [[1]]))
        columns = [[5, 6, 7, 8]]
        drafted, at, accepted = [self.prefill([t[:4] for t in tokens], 2, 5)], 4, 1
        for right in (1, 3, 2):  # number of the four drafts that are right, so that verification accepts them
            mixed = [np.concatenate([t[at:at + right], w[:DRAFTS - right]]) for t, w in zip(tokens, wrong)]
            counts = np.array([accepted], np.int32)
            out = self.step(mixed, [2], [DRAFTS], columns, conv={"accepted": counts}, accepted=counts)
            drafted.append(out[:right])
            at, accepted = at + right, right
        np.testing.assert_array_equal(np.concatenate(drafted), np.concatenate(plain))

    def test_an_accepted_path_of_a_tree_is_a_run(self):
        """Two steps with trees of five drafts have the bits of steps without drafts. The second one begins after the last
        accepted draft of the first."""
        parents, paths = np.array([9, 0, 0, 2, 2], np.int32), ((0, 2, 4), (0, 2, 3))
        tokens, wrong, columns = self.tokens(10, 20), self.tokens(10, 30), np.array([[5, 6, 7, 8, 9]], np.int32)
        plain = [self.prefill([t[:4] for t in tokens], 1, 1)]
        for i in range(4, 10):
            plain.append(self.step([t[i:i + 1] for t in tokens], [1], [1], [[1]]))
        drafted, at = [self.prefill([t[:4] for t in tokens], 2, 5)], 4
        windows = np.full((SLOTS, 5, CHANNELS, TAPS - 1), np.nan, np.float16)
        accepted = None
        for path in paths:
            mixed = [w[:5].copy() for w in wrong]
            for i, draft in enumerate(path):
                for all_drafts, right in zip(mixed, tokens):
                    all_drafts[draft] = right[at + i]
            more = dict(parents=parents, accepted=accepted)
            out = self.step(mixed, [2], [5], columns, op=self.tree, conv=dict(more, op=self.conv1d_tree, windows=windows), **more)
            drafted.append(out[list(path)])
            at, accepted = at + len(path), np.array([path[-1] + 1], np.int32)
        np.testing.assert_array_equal(np.concatenate(drafted), np.concatenate(plain))
        np.testing.assert_array_equal(windows[2, paths[1][-1]], self.window[1, :, :TAPS - 1])
        np.testing.assert_array_equal(self.state[columns[0, paths[1][-1]]], self.state[1])

    def test_a_graph_follows_lengths_and_slots(self):
        """One captured step of two sequences is replayed with other lengths, slots and accepted counts."""
        x, a, b, z = self.tokens(8, 60)
        self.window[:], self.state[:] = support.random(self.window.shape, 61), support.random(self.state.shape, 62)
        window, state = self.window.copy(), self.state.copy()
        q, k = (np.zeros((8, 1, K), np.float16) for _ in range(2))
        v, out = (np.zeros((8, VALUE_HEADS, K), np.float16) for _ in range(2))
        cu, slots, accepted = np.zeros(3, np.int32), np.zeros(2, np.int32), np.zeros(2, np.int32)
        columns = np.zeros((2, DRAFTS), np.int32)
        steps = (([0, 4, 8], [1, 2], [[1, 2, 3, 4], [5, 6, 7, 8]], [1, 4]),
                 ([0, 3, 3], [2, -1], [[5, 6, 7, 8], [-1, -1, -1, -1]], [2, 1]),
                 ([0, 1, 5], [1, 2], [[1, 2, 3, 4], [5, 6, 7, 8]], [3, 3]))

        def say(step):
            for array, values in zip((cu, slots, columns, accepted), step):
                array[...] = values

        say(steps[0])
        with self.device.graph() as graph:
            self.conv1d(x=x, weight=self.layer.weight, state=self.window, state_slots=slots, cu_seqlens=cu, accepted=accepted,
                        q_out=q[:, 0], k_out=k[:, 0], out=v.reshape(8, -1), max_seqlen=DRAFTS, stream=graph.stream)
            self.delta(q=q, k=k, v=v, gate_in=a, beta_in=b, a_log=self.layer.a_log, dt_bias=self.layer.dt_bias,
                       state=self.state, state_slots=columns, cu_seqlens=cu, accepted=accepted, out=out,
                       max_seqlen=DRAFTS, scale=SCALE, l2_eps=1e-6, stream=graph.stream)
            self.norm(x=out, z=z, weight=self.layer.norm, out=out, eps=1e-6, stream=graph.stream)
        for step in steps:
            say(step)
            out[:] = 0
            graph.replay()
            got, end = out.copy(), step[0][-1]
            graphed, self.window, self.state = (self.window, self.state), window, state
            counts = np.array(step[3], np.int32)
            want = self.step([t[:end] for t in (x, a, b, z)], step[1], np.diff(step[0]), step[2],
                             conv={"accepted": counts}, accepted=counts)
            window, state, (self.window, self.state) = self.window, self.state, graphed
            np.testing.assert_array_equal(got[:end], want)
            np.testing.assert_array_equal(self.state, state)
            np.testing.assert_array_equal(self.window, window)

    def test_a_commit_is_what_the_step_would_have_stored(self):
        tokens, drafts = self.tokens(4, 40), self.tokens(DRAFTS, 50)
        self.prefill(tokens, 1, 1)
        self.window[2], self.state[9] = self.window[1], self.state[1]
        one = np.array([1], np.int32)
        stepped = self.step(drafts, [1], [DRAFTS], [[1, 2, 3, 4]], conv={"accepted": one}, accepted=one)
        before = self.state[9].copy()
        recorded = self.step(drafts, [2], [DRAFTS], [[9]], op=self.replay, conv={"accepted": one},
                             records=self.records)
        np.testing.assert_array_equal(stepped, recorded)
        np.testing.assert_array_equal(self.state[9], before)
        for accepted in range(1, DRAFTS + 1):
            self.commit(state=self.state, records=self.records, layer_states=np.zeros(1, np.int64),
                        layer_records=np.zeros(1, np.int64), state_slots=np.array([10], np.int32),
                        state_slots_in=np.array([9], np.int32), accepted=np.array([accepted], np.int32))
            np.testing.assert_array_equal(self.state[10], self.state[accepted])


if __name__ == "__main__":
    unittest.main()
