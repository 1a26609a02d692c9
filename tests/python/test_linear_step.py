# SPDX-License-Identifier: Apache-2.0
"""A decode step in one launch, gated_delta_step, has the bits of three launches."""
import unittest

import numpy as np

import support

K, TAPS, SLOTS, BATCH = 128, 4, 9, 5


class Layer:
    """Tensors of one layer, of GDN (a decay of each head) or of KDA (of each element of a key)."""

    def __init__(self, heads, gqa, seed, kda=False, bias=False, layout="v_major"):
        self.heads, self.value_heads, self.kda, self.layout = heads, heads * gqa, kda, layout
        self.channels = (2 * heads + self.value_heads) * K
        gates = (BATCH, self.value_heads) + ((K,) if kda else ())
        self.x = support.random((BATCH, self.channels), seed)
        self.z = support.random((BATCH, self.value_heads, K), seed + 1)
        self.gate, self.beta = support.random(gates, seed + 2), support.random((BATCH, self.value_heads), seed + 3)
        self.weight, self.norm = support.random((self.channels, TAPS), seed + 4), support.random((K,), seed + 5)
        self.bias = support.random((self.channels,), seed + 6) if bias else None
        self.a_log = support.random((self.value_heads,), seed + 7, np.float32)
        self.dt_bias = support.random((self.value_heads, K) if kda else (self.value_heads,), seed + 8, np.float32)
        self.windows = support.random((SLOTS, self.channels, TAPS - 1), seed + 9)
        state = (K // 4, 4 * K) if layout == "k_fours" else (K, K)
        self.states = support.random((SLOTS, self.value_heads) + state, seed + 10, np.float32)
        self.out = np.zeros((BATCH, self.value_heads, K), np.float16)

    def delta(self):
        return dict(dtype="fp16", head_dim=K, heads=self.heads, value_heads=self.value_heads, l2_norm=True,
                    state_layout=self.layout, **(dict(decay="channel", gates="bounded") if self.kda else {}))

    def act(self):
        return "sigmoid" if self.kda else "silu"

    def gates(self):
        return dict(gate_in=self.gate, beta_in=self.beta, a_log=self.a_log, dt_bias=self.dt_bias, scale=K ** -0.5,
                    l2_eps=1e-6, **(dict(lower_bound=-5) if self.kda else {}))

    def chain(self, device, slots, source):
        rows = self.heads * K
        q, k = (np.zeros((BATCH, rows), np.float16) for _ in range(2))
        v = np.zeros((BATCH, self.value_heads * K), np.float16)
        conv = device.conv1d(dtype="fp16", taps=TAPS, channels=self.channels, act="silu", bias=self.bias is not None)
        conv(x=self.x, weight=self.weight, state=self.windows, state_slots=slots, q_out=q, k_out=k, out=v, max_seqlen=1,
             first_slot=1, **(dict(bias=self.bias) if self.bias is not None else {}),
             **(dict(state_slots_in=source) if source is not None else {}))
        out = np.zeros_like(self.out)
        device.gated_delta(**self.delta())(
            q=q.reshape(BATCH, self.heads, K), k=k.reshape(BATCH, self.heads, K),
            v=v.reshape(BATCH, self.value_heads, K), state=self.states, state_slots=slots[:, None], out=out, max_seqlen=1,
            first_slot=1, **self.gates(), **(dict(state_slots_in=source[:, None]) if source is not None else {}))
        norm = device.gated_rmsnorm(dtype="fp16", width=K, groups=self.value_heads, act=self.act(), shared_weight=True)
        norm(x=out, z=self.z, weight=self.norm, out=self.out, eps=1e-6)

    def step(self, device, slots, source):
        op = device.gated_delta_step(**self.delta(), taps=TAPS, act=self.act(), bias=self.bias is not None)
        op(x=self.x, conv_weight=self.weight, conv_state=self.windows, state=self.states, state_slots=slots, z=self.z,
           weight=self.norm, out=self.out, eps=1e-6, first_slot=1, **self.gates(),
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
            step | {"gqa": [1, 2], "act": "silu"}, step | {"gqa": 3, "act": "silu", "state_layout": ["k_major", "k_fours"]},
            step | kda | {"gqa": [1, 2], "act": "sigmoid", "bias": True})

    def check(self, source=None, **layer):
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
