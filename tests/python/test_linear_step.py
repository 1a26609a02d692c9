# SPDX-License-Identifier: Apache-2.0
"""Tests that gated_delta_step, which makes a decode step or a verification in one launch, has the bits of three
launches."""
import unittest

import numpy as np

import support

K, TAPS, SLOTS, BATCH, STEPS = 128, 4, 9, 5, 4


class Layer:
    """Random tensors of one layer. kda: True for KDA, whose decay is of each element of a key; False for GDN, whose
    decay is of each head."""

    def __init__(self, heads, gqa, seed, kda=False, bias=False, layout="v_major", rows=BATCH, slots=SLOTS, columns=TAPS - 1,
                 fp8=False):
        self.heads, self.value_heads, self.kda, self.layout = heads, heads * gqa, kda, layout
        self.channels = (2 * heads + self.value_heads) * K
        gates = (rows, self.value_heads) + ((K,) if kda else ())
        self.x = support.random((rows, self.channels), seed)
        self.z = support.random((rows, self.value_heads, K), seed + 1)
        self.gate, self.beta = support.random(gates, seed + 2), support.random((rows, self.value_heads), seed + 3)
        self.weight, self.norm = support.random((self.channels, TAPS), seed + 4), support.random((K,), seed + 5)
        self.bias = support.random((self.channels,), seed + 6) if bias else None
        self.a_log = support.random((self.value_heads,), seed + 7, np.float32)
        self.dt_bias = support.random((self.value_heads, K) if kda else (self.value_heads,), seed + 8, np.float32)
        self.windows = support.random((slots, self.channels, columns), seed + 9)
        state = (K // 4, 4 * K) if layout == "k_fours" else (K, K)
        self.states = support.random((slots, self.value_heads) + state, seed + 10, np.float32)
        self.out = np.zeros((rows, self.value_heads, K), np.uint8 if fp8 else np.float16)
        self.scales = np.zeros((rows, self.value_heads), np.float32)
        self.norm_dtype = dict(out_dtype="fp8") if fp8 else {}
        self.norm_scales = dict(out_scale=self.scales) if fp8 else {}

    def delta(self):
        return dict(dtype="fp16", head_dim=K, heads=self.heads, value_heads=self.value_heads, l2_norm=True,
                    state_layout=self.layout, **(dict(decay="channel", gates="bounded") if self.kda else {}))

    def act(self):
        return "sigmoid" if self.kda else "silu"

    def gates(self):
        return dict(gate_in=self.gate, beta_in=self.beta, a_log=self.a_log, dt_bias=self.dt_bias, scale=K ** -0.5,
                    l2_eps=1e-6, **(dict(lower_bound=-5) if self.kda else {}))

    def chain(self, device, slots, source, columns=None, **more):
        """Makes the three launches: convolution, recurrence and norm. `columns` is the matrix of state slots if
        sequences have several tokens; None: each sequence has the slot of `slots`."""
        rows, n, more = self.heads * K, len(self.x), more or dict(max_seqlen=1)
        q, k = (np.zeros((n, rows), np.float16) for _ in range(2))
        v = np.zeros((n, self.value_heads * K), np.float16)
        conv = device.conv1d(dtype="fp16", taps=TAPS, channels=self.channels, act="silu", bias=self.bias is not None)
        conv(x=self.x, weight=self.weight, state=self.windows, state_slots=slots, q_out=q, k_out=k, out=v, first_slot=1,
             **more, **(dict(bias=self.bias) if self.bias is not None else {}),
             **(dict(state_slots_in=source) if source is not None else {}))
        out = np.zeros(self.out.shape, np.float16)
        device.gated_delta(**self.delta())(
            q=q.reshape(n, self.heads, K), k=k.reshape(n, self.heads, K), v=v.reshape(n, self.value_heads, K),
            state=self.states, state_slots=slots[:, None] if columns is None else columns, out=out, first_slot=1, **more,
            **self.gates(), **(dict(state_slots_in=source[:, None]) if source is not None else {}))
        norm = device.gated_rmsnorm(dtype="fp16", width=K, groups=self.value_heads, act=self.act(), shared_weight=True,
                                     **self.norm_dtype)
        norm(x=out, z=self.z, weight=self.norm, out=self.out, eps=1e-6, **self.norm_scales)

    def step(self, device, slots, source, **more):
        """Makes the one launch for a step of `slots`. `source` are the slots from which states are read; None: the
        same."""
        op = device.gated_delta_step(**self.delta(), taps=TAPS, act=self.act(), bias=self.bias is not None, drafts=bool(more),
                                     **self.norm_dtype)
        op(x=self.x, conv_weight=self.weight, conv_state=self.windows, state=self.states, state_slots=slots, z=self.z,
           weight=self.norm, out=self.out, eps=1e-6, first_slot=1, **more, **self.gates(), **self.norm_scales,
           **(dict(conv_bias=self.bias) if self.bias is not None else {}),
           **(dict(state_slots_in=source) if source is not None else {}))


class Steps(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        step = {"op": "gated_delta_step", "head_dim": K, "l2_norm": True}
        kda = {"decay": "channel", "gates": "bounded"}
        delta = {"op": "gated_delta", "head_dim": K, "l2_norm": True}
        cls.device = support.device(
            {"op": "conv1d", "act": "silu", "bias": [False, True]},
            delta | {"state_layout": ["v_major", "k_major", "k_fours"]}, delta | kda,
            {"op": "gated_rmsnorm", "width": K, "act": ["silu", "sigmoid"]},
            {"op": "gated_rmsnorm", "width": K, "act": "silu", "out_dtype": "fp8"},
            step | {"gqa": 2, "act": "silu", "drafts": True, "out_dtype": ["same", "fp8"]}, step | kda | {"gqa": 1, "act": "sigmoid", "bias": True, "drafts": True},
            step | {"gqa": [1, 2], "act": "silu"}, step | {"gqa": 3, "act": "silu", "state_layout": ["k_major", "k_fours"]},
            step | kda | {"gqa": [1, 2], "act": "sigmoid", "bias": True})

    def check(self, source=None, **layer):
        """Compares outputs, windows and states of three steps. Sequences of slots 0 and -1 are padding."""
        slots = np.array([4, 0, 7, -1, 2], np.int32)
        chain, step = Layer(**layer), Layer(**layer)
        for _ in range(3):
            chain.chain(self.device, slots, source)
            step.step(self.device, slots, source)
            for name in ("out", "windows", "states"):
                np.testing.assert_array_equal(getattr(step, name), getattr(chain, name), name)
        self.assertTrue(np.abs(step.out[[0, 2, 4]]).min() > 0 and not step.out[[1, 3]].any())

    def test_gdn_has_the_bits_of_three_launches(self):
        self.check(heads=3, gqa=1, seed=1)
        self.check(heads=2, gqa=2, seed=20)

    def test_so_have_states_of_other_layouts(self):
        self.check(heads=1, gqa=3, seed=40, layout="k_major")
        self.check(heads=2, gqa=3, seed=60, layout="k_fours")

    def test_so_has_kda_with_a_bias(self):
        self.check(heads=2, gqa=1, seed=80, kda=True, bias=True)
        self.check(heads=1, gqa=2, seed=100, kda=True, bias=True)

    def test_a_fork_leaves_its_source(self):
        source = np.array([1, 0, 3, -1, 8], np.int32)
        self.check(heads=1, gqa=2, seed=120, source=source)
        layer = Layer(heads=1, gqa=2, seed=120)
        windows, states = layer.windows.copy(), layer.states.copy()
        layer.step(self.device, np.array([4, 0, 7, -1, 2], np.int32), source)
        for kept in (1, 3, 8, 0, 5, 6):
            np.testing.assert_array_equal(layer.windows[kept], windows[kept])
            np.testing.assert_array_equal(layer.states[kept], states[kept])

    def check_drafts(self, **layer):
        """Compares three steps of a ragged batch with drafts. Each step begins after the last token that was
        accepted."""
        columns = np.array([[4, 9, 2, 6], [0, 0, 0, 0], [1, 3, 5, 7], [12, 11, -1, 8]], np.int32)
        lengths = np.array([[4, 1, 3, 2], [1, 2, 4, 3], [3, 0, 2, 2]])
        accepted = np.array([[1, 1, 0, 1], [4, 1, 2, 2], [1, 2, 4, 1]], np.int32)
        size = dict(rows=10, slots=14, columns=TAPS - 2 + STEPS)
        chain, step = Layer(**layer, **size), Layer(**layer, **size)
        for length, counts in zip(lengths, accepted):
            cu = np.concatenate([[0], np.cumsum(length)]).astype(np.int32)
            more = dict(cu_seqlens=cu, accepted=counts, max_seqlen=STEPS)
            chain.out[:], step.out[:] = 0, 0
            chain.chain(self.device, columns[:, 0].copy(), None, columns, **more)
            step.step(self.device, columns, None, **more)
            for name in ("scales", "windows", "states"):
                end = cu[-1] if name == "scales" else None
                np.testing.assert_array_equal(getattr(step, name)[:end], getattr(chain, name)[:end], name)
            # Rows without the second sequence, which is padding: its zeros may have either sign.
            real = np.r_[0:cu[1], cu[2]:cu[-1]]
            np.testing.assert_array_equal(step.out[real], chain.out[real])
            for x in step.out, chain.out:
                padding = x[cu[1]:cu[2]]
                self.assertFalse((support.FP8[padding] if x.dtype == np.uint8 else padding).any())
            self.assertTrue(step.out[0].any() and not step.out[cu[-1]:].any())

    def test_drafts_have_the_bits_of_three_launches(self):
        self.check_drafts(heads=2, gqa=2, seed=180)
        self.check_drafts(heads=1, gqa=2, seed=180, fp8=True)
        self.check_drafts(heads=2, gqa=1, seed=200, kda=True, bias=True)

    def test_one_column_of_slots_is_for_one_token(self):
        """Without max_seqlen a step with drafts has at most as many tokens of a sequence as there are columns of slots."""
        slots, cu, ones = np.int32([[4], [7], [2]]), np.arange(4, dtype=np.int32), np.ones(3, np.int32)
        given, derived = (Layer(heads=2, gqa=2, seed=220, rows=3, slots=14, columns=TAPS - 1) for _ in range(2))
        given.step(self.device, slots, None, cu_seqlens=cu, accepted=ones, max_seqlen=1)
        derived.step(self.device, slots, None, cu_seqlens=cu, accepted=ones)
        self.assertTrue(given.out.any())
        for name in ("out", "windows", "states"):
            np.testing.assert_array_equal(getattr(derived, name), getattr(given, name))

    def test_wrong_calls_name_the_field(self):
        layer = Layer(heads=1, gqa=2, seed=140)
        slots = np.arange(1, 6, dtype=np.int32)
        layer.windows = layer.windows[:, :, :2]
        with self.assertRaisesRegex(Exception, "conv_columns is below taps - 1"):
            layer.step(self.device, slots, None)
        layer = Layer(heads=1, gqa=4, seed=160)
        with self.assertRaisesRegex(Exception, "gqa"):
            layer.step(self.device, slots, None)


if __name__ == "__main__":
    unittest.main()
