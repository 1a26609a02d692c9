# SPDX-License-Identifier: Apache-2.0
"""Tests AITER's calls of linear attention against the recurrences in doubles."""
import types
import unittest

import numpy as np

import attn.aiter as aiter
import support
from attn.aiter import NotServed, _linear
from test_linear_engines import CHANNELS, HEADS, K, SLOTS, TAPS, VALUE_HEADS, Tokens, transposed

class Aiter(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        delta = {"head_dim": K, "l2_norm": True}
        aiter.use(device=support.device(
            {"op": "conv1d", "act": "silu"},
            {"op": "gated_delta", **delta, "gates": "softplus", "state_layout": "v_major"},
            {"op": "gated_delta_prefill", **delta, "gates": "bounded", "decay": "channel"},
            {"op": "gated_delta_prefill", **delta, "gates": "given"}))

    def setUp(self):
        self.rng = np.random.default_rng(22)
        self.pool = self.rng.standard_normal((SLOTS, VALUE_HEADS, K, K)).astype(np.float32)  # [.., K, V]

    def near(self, got, want, part=2.0 ** -8):
        np.testing.assert_allclose(np.float64(got), want, rtol=0, atol=part * np.abs(want).max())

    def test_prompts_of_kda(self):
        """Makes the call as ATOM does for Kimi-K3, with logits of beta that are widened to float."""
        x, states = Tokens(70, 11, True, -5.0), transposed(self.pool[:1])
        out, last = aiter.chunk_kimi_delta_attn(
            x.q, x.k, x.v, x.a, np.float32(x.b), x.rate, x.bias.ravel(), None, states, True, True, True, True, True, -5.0,
            True, cu_seqlens=np.array([0, 70], np.int32))
        want, after = x.run(self.pool[0])
        self.near(out[0], want)
        self.near(transposed(last[0]), after[-1])

    def test_prompts_of_gdn(self):
        """A prompt after two sequences of a decode step, with states in a new tensor and in a pool."""
        x, ends = Tokens(70, 12), np.array([0, 1, 2, 72], np.int32)
        args = dict(g=x.given()[0], beta=x.given()[1], output_final_state=True, use_qk_l2norm_in_kernel=True, cu_seqlens=ends,
                    num_decodes=2, num_decode_tokens=2)
        want, after = x.run(self.pool[3])
        out, last = aiter.chunk_gated_delta_rule_opt_vk(x.q, x.k, x.v, initial_state=transposed(self.pool[3:4]), **args)
        self.near(out[0], want)
        self.near(transposed(last[0]), after[-1])
        pool, into = transposed(self.pool), np.zeros_like(x.v)
        out, same = aiter.chunk_gated_delta_rule_opt_vk(x.q, x.k, x.v, into, initial_state=pool,
                                                        initial_state_indices=np.array([3], np.int32), **args)
        self.assertIs(same, pool)
        np.testing.assert_array_equal(into, out)
        self.near(transposed(pool[3]), after[-1])
        with self.assertRaisesRegex(NotServed, "not updated in place"):
            aiter.chunk_gated_delta_rule_opt_vk(x.q, x.k, x.v, initial_state=pool, inplace_final_state=False,
                                                initial_state_indices=np.array([3], np.int32), **args)

    def test_steps(self):
        """A step of two sequences has the same bits by two calls. The second one writes states to other slots."""
        x, slots, others = Tokens(2, 13), np.array([5, 1], np.int32), np.array([4, 0], np.int32)
        rows = np.concatenate([t[0].reshape(2, -1) for t in (x.q, x.k, x.v)], 1)
        pool, forked, out = transposed(self.pool), transposed(self.pool), np.zeros((1, 2, VALUE_HEADS, K), np.float16)
        whole, same = aiter.fused_rearrange_sigmoid_gated_delta_rule(
            x.rate, x.a[0], x.b[0], x.bias, rows, HEADS * K, VALUE_HEADS * K, K, K, initial_state=pool,
            cu_seqlens=np.array([0, 1, 2], np.int32), ssm_state_indices=slots, use_qk_l2norm_in_kernel=True)
        self.assertIs(same, pool)
        gates = (x.a[0][:, None], x.b[0][:, None], x.bias, x.rate, slots, forked, out, True)
        # Stand-ins for torch.cuda.Stream.
        current, other = (types.SimpleNamespace(cuda_stream=handle) for handle in (0, 7))
        aiter.flydsl_gdr_decode(x.q.swapaxes(0, 1), x.k, x.v, *gates, False, current, write_indices=others)
        np.testing.assert_array_equal(whole, out)
        np.testing.assert_array_equal(forked[others], pool[slots])
        for i, slot in enumerate(slots):
            want, states = x.run(self.pool[slot], i, i + 1)
            self.near(out[0, i], want[0])
            self.near(transposed(pool[slot]), states[0], 1e-5)
        with self.assertRaisesRegex(NotServed, "states K x V"):
            aiter.flydsl_gdr_decode(x.q, x.k, x.v, *gates, True)
        with self.assertRaisesRegex(NotServed, "not the current one"):
            aiter.flydsl_gdr_decode(x.q, x.k, x.v, *gates, False, other)

    def test_convolutions(self):
        """A prompt and a step after it have the bits of one call with the same rows."""
        weight = self.rng.standard_normal((CHANNELS, TAPS)).astype(np.float16)
        x, state = self.rng.standard_normal((9, CHANNELS)).astype(np.float16), np.zeros((2, CHANNELS, TAPS - 1), np.float16)
        whole, dims, slot = state.copy(), (HEADS * K, VALUE_HEADS * K), np.array([1], np.int32)
        new = np.zeros(1, bool)
        parts = aiter.causal_conv1d_split_qkv_triton_tile_fn(x.T, weight, None, whole, np.array([0, 9], np.int32), *dims, slot,
                                                             new)
        first = aiter.causal_conv1d_fn(x[:8].T, weight, None, state, np.array([0, 8], np.int32), [8], slot, new)
        step = aiter.causal_conv1d_update(x[8:].copy(), state, weight, None, "silu", conv_state_indices=slot)
        np.testing.assert_array_equal(np.concatenate([first.T, step]), np.concatenate(parts, 1))
        np.testing.assert_array_equal(state, whole)

    def test_packed_convolutions(self):
        """Interleaved and flat rows have the same results; the last row is padding."""
        weight = self.rng.standard_normal((CHANNELS, TAPS)).astype(np.float16)
        state = self.rng.standard_normal((3, CHANNELS, TAPS - 1)).astype(np.float16)
        flat, gates = (self.rng.standard_normal((3, n)).astype(np.float16) for n in (CHANNELS + VALUE_HEADS * K, 2 * VALUE_HEADS))
        slots, heads = np.array([2, 0], np.int32), (HEADS, VALUE_HEADS, K, K)
        want = aiter.causal_conv1d_update(flat[:2, :CHANNELS].copy(), state.copy(), weight, None, "silu",
                                          conv_state_indices=slots)
        for layout in ("flat", "interleaved"):  # the two layouts are the same for one head of q and k
            z, y = (np.ones((3, VALUE_HEADS, K), np.float16) for _ in range(2))
            got, b, a = aiter.fused_reshape_causal_conv1d_update_single_token(
                flat, 2, *heads, gates, z, y, state.copy(), weight, None, "silu", slots, qkvz_layout=layout)
            np.testing.assert_array_equal(got, want)
            np.testing.assert_array_equal(np.concatenate([b, a], 1), gates[:2])
            np.testing.assert_array_equal(z.reshape(3, -1), np.concatenate([flat[:2, CHANNELS:], 0 * flat[2:, CHANNELS:]]))
            np.testing.assert_array_equal(y[:, 0, 0], [1, 1, 0])
        # Two heads of q and k with one element each, and four values and gates with one each.
        rows = np.arange(2 * 12).reshape(2, 12)
        mixed, z, b, a = _linear._unpacked(rows, rows[:, :8], 2, 4, 1, 1, True)
        np.testing.assert_array_equal(mixed[0], [0, 6, 1, 7, 2, 3, 8, 9])
        np.testing.assert_array_equal(z[0], [4, 5, 10, 11])
        np.testing.assert_array_equal(b[0], [0, 1, 4, 5])
        np.testing.assert_array_equal(a[0], [2, 3, 6, 7])


if __name__ == "__main__":
    unittest.main()
