# SPDX-License-Identifier: Apache-2.0
"""Tests the calls of linear attention with vLLM's names and arguments against the recurrences in doubles."""
import inspect
import types
import unittest
import unittest.mock

import numpy as np

import attn.linear as linear
from attn.aiter import _common
import support
from test_linear import Layer, sigmoid, softplus

K, HEADS, VALUE_HEADS, TAPS, SLOTS = 128, 1, 2, 4, 9
CHANNELS = 2 * HEADS * K + VALUE_HEADS * K

# Names of vLLM's arguments in their order, in causal_conv1d.py, ssu_dispatch.py, ssd_combined.py and
# fused_recurrent.py. The last argument of a convolution is pad_slot_id under its newer name.
SIGNATURES = {
    "causal_conv1d_fn": "x weight bias conv_states query_start_loc cache_indices has_initial_state activation pad_slot_id "
                        "block_idx_first_scheduled_token block_idx_last_scheduled_token initial_state_idx "
                        "num_computed_tokens block_size_to_align metadata validate_data null_block_id",
    "causal_conv1d_update": "x conv_state weight bias activation conv_state_indices num_accepted_tokens query_start_loc "
                            "max_query_len pad_slot_id block_idx_last_scheduled_token initial_state_idx validate_data "
                            "null_block_id out",
    "fused_recurrent_gated_delta_rule": "q k v g beta scale initial_state inplace_final_state cu_seqlens ssm_state_indices "
                                        "num_accepted_tokens retrieve_parent_token use_qk_l2norm_in_kernel",
    "fused_recurrent_kda": "q k v g beta scale initial_state inplace_final_state use_qk_l2norm_in_kernel cu_seqlens "
                           "ssm_state_indices kwargs",
    "chunk_gated_delta_rule": "q k v g beta scale initial_state output_final_state cu_seqlens chunk_indices chunk_offsets "
                              "use_qk_l2norm_in_kernel core_attn_out",
    "chunk_kda": "q k v g beta scale initial_state output_final_state use_qk_l2norm_in_kernel cu_seqlens kwargs",
    "rmsnorm_fn": "x weight bias z eps group_size norm_before_gate activation",
    "rms_norm_gated": "x g weight bias activation residual prenorm residual_in_fp32 eps",
    "selective_state_update": "state x dt A B C D dt_bias z dt_softplus state_batch_indices dst_state_batch_indices "
                              "null_block_id out num_accepted_tokens cu_seqlens is_blackwell",
    "mamba_chunk_scan_combined_varlen": "x dt A B C chunk_size cu_seqlens cu_chunk_seqlens last_chunk_indices seq_idx out D z "
                                        "dt_bias initial_states dt_softplus dt_limit return_intermediate_states state_dtype "
                                        "final_states_out final_state_indices",
}


class Calls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.device = support.device(
            {"op": "conv1d", "act": "silu", "bias": [False, True]},
            {"op": "gated_delta", "head_dim": K, "l2_norm": True, "gates": "given"},
            {"op": "ssd", "head_dim": K, "head_dim_v": 64, "act": ["none", "silu"]},
            {"op": "ssd_prefill", "head_dim": K, "head_dim_v": 64, "segments": ["none", "states", "outputs"]},
            {"op": "selective_scan", "head_dim": 16, "head_dim_v": 64, "act": "silu"},
            {"op": "gated_delta", "head_dim": K, "l2_norm": True, "gates": "given", "decay": "channel"},
            {"op": "gated_delta_prefill", "head_dim": K, "l2_norm": True, "gates": "given", "decay": ["head", "channel"]},
            {"op": "gated_delta_prefill", "head_dim": K, "l2_norm": True, "gates": "given",
             "stage": ["chunks", "segments", "scan", "outputs"]},
            {"op": "gated_rmsnorm", "width": K, "act": ["none", "silu", "sigmoid", "silu_first"]},
            {"op": "gated_rmsnorm", "width": K, "act": "silu_first", "stage": ["sums", "outputs"]})
        linear.use(device=cls.device)

    def check_prompts(self, chunk, step, g):
        """Checks that a prompt in chunks, from the states of another prompt, has the results of the same tokens one
        by one."""
        rng, tokens = np.random.default_rng(50), g.shape[1]
        q, k = (rng.standard_normal((1, tokens, HEADS, K)).astype(np.float16) for _ in range(2))
        v = rng.standard_normal((1, tokens, VALUE_HEADS, K)).astype(np.float16)
        beta = rng.random((1, tokens, VALUE_HEADS)).astype(np.float32)
        cu, slots = np.array([0, 70, tokens], np.int32), np.array([3, 5], np.int32)
        state = np.full((SLOTS, VALUE_HEADS, K, K), 0, np.float32)
        want, _ = step(q, k, v, g, beta, initial_state=state, cu_seqlens=cu, ssm_state_indices=slots,
                       use_qk_l2norm_in_kernel=True)
        out, final = chunk(q, k, v, g, beta, output_final_state=True, cu_seqlens=cu, use_qk_l2norm_in_kernel=True)
        bound = 2.0 ** -8 * np.abs(want).max()
        np.testing.assert_allclose(np.float32(out), np.float32(want), atol=bound, rtol=0)
        np.testing.assert_allclose(final, state[slots], atol=2.0 ** -8 * np.abs(final).max(), rtol=0)
        again, last = chunk(q[:, :70], k[:, :70], v[:, :70], g[:, :70], beta[:, :70], None, final[:1], True,
                            cu_seqlens=cu[:2], use_qk_l2norm_in_kernel=True)
        more, _ = step(q[:, :70], k[:, :70], v[:, :70], g[:, :70], beta[:, :70], initial_state=state, cu_seqlens=cu[:2],
                       ssm_state_indices=slots[:1], use_qk_l2norm_in_kernel=True)
        np.testing.assert_allclose(np.float32(again), np.float32(more), atol=bound, rtol=0)
        np.testing.assert_allclose(last, state[slots[:1]], atol=2.0 ** -8 * np.abs(last).max(), rtol=0)
        self.assertIsNone(chunk(q, k, v, g, beta, cu_seqlens=cu, use_qk_l2norm_in_kernel=True)[1])

    def test_prompts_of_gdn_and_kda(self):
        rng = np.random.default_rng(51)
        self.check_prompts(linear.chunk_gated_delta_rule, linear.fused_recurrent_gated_delta_rule,
                           -rng.random((1, 75, VALUE_HEADS)).astype(np.float32))
        kda = -rng.random((1, 75, VALUE_HEADS, K)).astype(np.float32)
        self.check_prompts(linear.chunk_kda, linear.fused_recurrent_kda, kda)
        with self.assertRaisesRegex(linear.NotServed, "g of a head"):
            linear.chunk_kda(None, None, None, kda[..., 0], None)

    def test_gated_norms(self):
        rng = np.random.default_rng(70)
        x, z = (rng.standard_normal((3, 2 * K)).astype(np.float16) for _ in range(2))
        w = rng.standard_normal(2 * K).astype(np.float16)

        def rms(y, weight):
            y = np.float64(y).reshape(3, 2, K)
            return y / np.sqrt((y * y).mean(-1, keepdims=True) + 1e-6) * np.float64(weight).reshape(-1, K)

        gates, groups = np.float64(z), z.reshape(3, 2, K)
        silu = gates * sigmoid(gates)
        for got, want in (
                (linear.rmsnorm_fn(x, w, None, z, group_size=K), rms(x, w) * silu.reshape(3, 2, K)),
                (linear.rmsnorm_fn(x, w, None, z, 1e-6, K, False), rms(x * silu, w)),
                (linear.rmsnorm_fn(x, w, None, group_size=K), rms(x, w)),
                (linear.rms_norm_gated(x.reshape(3, 2, K), groups, w[:K], None, "sigmoid"),
                 rms(x, w[:K]) * sigmoid(np.float64(groups)))):
            np.testing.assert_allclose(got.reshape(3, 2, K), want, rtol=2.0 ** -10, atol=2.0 ** -16)
        with self.assertRaisesRegex(linear.NotServed, "a bias"):
            linear.rmsnorm_fn(x, w, w, z, group_size=K)

    def test_mixer2_norms(self):
        """The norm's groups are split over ranks: four ranks have two groups, then two ranks have a group each. The
        reference has whole groups."""
        rng = np.random.default_rng(71)
        x, z, w = (rng.standard_normal(shape).astype(np.float16) for shape in ((3, 4 * K), (3, 4 * K), (4 * K,)))
        gated = np.float64(x) * np.float64(z) * sigmoid(np.float64(z))

        def run(ranks, groups, all_reduce=None):
            parts = []
            for rank in range(ranks):
                part = slice(rank * K, (rank + 1) * K)
                layer = types.SimpleNamespace(use_rms_norm=True, n_groups=groups, tp_size=ranks, weight=w[part],
                                              variance_epsilon=1e-6, group_size=ranks * K // groups)
                own = None if all_reduce is None else lambda sums, rank=rank: all_reduce(sums, rank)
                parts.append(linear.mixer2_gated_rms_norm(layer, x[:, part].copy(), z[:, part].copy(), own))
            y = gated[:, :ranks * K].reshape(3, groups, -1)
            y = y / np.sqrt((y * y).mean(-1, keepdims=True) + 1e-6)
            np.testing.assert_allclose(np.concatenate(parts, 1), y.reshape(3, -1) * np.float64(w[:ranks * K]),
                                       rtol=2.0 ** -10, atol=2.0 ** -16)

        def all_reduce(sums, rank):
            squares = (gated * gated).reshape(3, 4, K).sum(-1)
            np.testing.assert_allclose(sums[:, 0], squares[:, rank], rtol=2.0 ** -18)
            first = rank // 2 * 2
            return squares[:, first:first + 2].sum(-1, keepdims=True).astype(np.float32)

        run(4, 2, all_reduce)
        run(2, 2)
        for ranks, groups, reduce in ((4, 3, all_reduce), (4, 2, None)):
            with self.assertRaisesRegex(linear.NotServed, "parts of several groups"):
                run(ranks, groups, reduce)

    def test_signatures(self):
        for name, parameters in SIGNATURES.items():
            self.assertEqual(" ".join(inspect.signature(getattr(linear, name)).parameters), parameters)

    def test_a_gdn_layer(self):
        layer, rng = Layer(3), np.random.default_rng(4)
        x, a, b = (rng.standard_normal(s).astype(np.float16) for s in ((7, CHANNELS), (7, VALUE_HEADS), (7, VALUE_HEADS)))
        window = np.full((SLOTS, CHANNELS, TAPS - 1), np.nan, np.float16)
        state = np.full((SLOTS, VALUE_HEADS, K, K), 0, np.float32)
        slot, got = np.array([5], np.int32), []
        g = (-np.exp(layer.a_log) * softplus(np.float32(a) + layer.dt_bias)).astype(np.float32)
        beta = sigmoid(np.float32(b)).astype(np.float32)
        for first, end in ((0, 4), (4, 5), (5, 6), (6, 7)):
            cu = np.array([0, end - first], np.int32)
            if first == 0:
                y = linear.causal_conv1d_fn(x[:4].T, layer.weight, None, window, cu, slot, np.zeros(1, bool)).T
            else:
                y = linear.causal_conv1d_update(x[first:end].copy(), window, layer.weight, None, "silu", slot)
            q, k, v = y[None, :, None, :K], y[None, :, None, K:2 * K], y[None, :, 2 * K:].reshape(1, -1, VALUE_HEADS, K)
            out, same = linear.fused_recurrent_gated_delta_rule(
                q, k, v, g[None, first:end], beta[None, first:end], None, state, True, cu, slot, None, None, True)
            self.assertIs(same, state)
            got.append(out[0])
        # Layer.run() ends in a norm and a gate, which leave the direction of each head's output as it is.
        z = np.full((7, VALUE_HEADS, K), 1.0)
        layer.norm = np.ones(K)
        want = layer.run(x, a, b, z) / sigmoid(1.0)
        got = np.concatenate(got).astype(np.float64)
        got /= np.sqrt((got * got).mean(-1, keepdims=True) + 1e-6)
        np.testing.assert_allclose(got, want, rtol=0.02, atol=0.03)

    def test_convolutions_with_blocks_of_a_prefix_cache(self):
        """Two sequences in blocks of 64 tokens: a prompt of 150 tokens, and 86 tokens after a cached block. Then a step of
        both."""
        rng = np.random.default_rng(9)
        weight = rng.standard_normal((CHANNELS, TAPS)).astype(np.float16)
        tokens = rng.standard_normal((2, 151, CHANNELS)).astype(np.float16)
        state = np.full((12, CHANNELS, TAPS - 1), np.nan, np.float16)
        table, computed = np.array([[3, 5, 2, 7], [4, 9, 1, 0]], np.int32), np.array([0, 64], np.int32)
        state[4] = tokens[1, 64 - TAPS + 1:64].T
        x = np.concatenate([tokens[0, :150], tokens[1, 64:150]])
        y = linear.causal_conv1d_fn(
            x.T, weight, None, state, np.array([0, 150, 236], np.int32), table, np.array([False, True]), "silu",
            block_idx_first_scheduled_token=np.array([0, 1]), block_idx_last_scheduled_token=np.array([2, 2]),
            initial_state_idx=np.array([0, 0]), num_computed_tokens=computed, block_size_to_align=64).T
        step = linear.causal_conv1d_update(tokens[:, 150].copy(), state, weight, None, "silu", table,
                                           block_idx_last_scheduled_token=np.array([3, 2]), initial_state_idx=np.array([2, 2]))
        for i, out in enumerate((np.concatenate([y[:150], step[:1]]), np.concatenate([y[150:], step[1:]]))):
            rows = np.concatenate([np.zeros((TAPS - 1, CHANNELS)), np.float64(tokens[i])])
            want = np.array([(rows[t:t + TAPS] * np.float64(weight).T).sum(0) for t in range(computed[i], 151)])
            np.testing.assert_allclose(np.float64(out), want * sigmoid(want), rtol=2e-3, atol=2e-3)
        for slot, i, end in ((3, 0, 64), (5, 0, 128), (2, 0, 150), (7, 0, 151), (4, 1, 64), (9, 1, 128), (1, 1, 151)):
            np.testing.assert_array_equal(state[slot].T, tokens[i, end - TAPS + 1:end])
        self.assertTrue(np.isnan(state[[0, 6, 8, 10, 11]]).all())

        def piece():
            linear.causal_conv1d_fn(
                x.T, weight, None, state, np.array([0, 150, 236], np.int32), table, np.array([False, True]), "silu",
                block_idx_first_scheduled_token=computed, block_idx_last_scheduled_token=computed, initial_state_idx=computed,
                num_computed_tokens=computed + 1, block_size_to_align=64)

        self.assertRaisesRegex(linear.NotServed, "does not begin at the end of a block", piece)
        stream = self.device.stream()
        with self.device.graph(stream), unittest.mock.patch.object(_common, "stream", return_value=stream.handle):
            self.assertRaisesRegex(linear.NotServed, "in the capture of a graph", piece)

    def test_mamba2(self):
        rng, heads, groups, p, n = np.random.default_rng(6), 4, 2, 64, K
        x, z = (rng.standard_normal((3, heads, p)).astype(np.float16) for _ in range(2))
        b, c = (rng.standard_normal((3, groups, n)).astype(np.float16) for _ in range(2))
        dt, skip = rng.standard_normal((3, heads)).astype(np.float16), rng.standard_normal(heads).astype(np.float32)
        rate, bias = -np.exp(rng.standard_normal(heads)).astype(np.float32), rng.standard_normal(heads).astype(np.float32)
        state = rng.standard_normal((SLOTS, heads, p, n)).astype(np.float32)
        slots, before, out = np.array([4, 0, 7], np.int32), state.copy(), np.full_like(x, np.nan)
        spread = np.broadcast_to
        linear.selective_state_update(
            state, x, spread(dt[:, :, None], (3, heads, p)), spread(rate[:, None, None], (heads, p, n)), b, c,
            spread(skip[:, None], (heads, p)), spread(bias[:, None], (heads, p)), z, True, slots, out=out)
        for i, slot in enumerate(slots):
            if slot == 0:  # slot 0 is the null block, which no sequence has
                np.testing.assert_array_equal(out[i], 0)
                np.testing.assert_array_equal(state[slot], before[slot])
                continue
            w = softplus(np.float64(dt[i]) + bias)
            group = np.arange(heads) // (heads // groups)
            s = np.exp(rate * w)[:, None, None] * before[slot] + \
                (w[:, None] * x[i])[:, :, None] * np.float64(b[i])[group][:, None, :]
            y = (s * np.float64(c[i])[group][:, None, :]).sum(-1) + skip[:, None] * x[i]
            y *= np.float64(z[i]) * sigmoid(np.float64(z[i]))
            np.testing.assert_allclose(state[slot], s, rtol=1e-5, atol=1e-5)
            np.testing.assert_allclose(out[i], y, rtol=2e-3, atol=2e-3)

    def test_mamba1(self):
        rng, channels, n = np.random.default_rng(7), 128, 16
        x, z, dt = (rng.standard_normal((2, channels)).astype(np.float16) for _ in range(3))
        b, c = (rng.standard_normal((2, n)).astype(np.float16) for _ in range(2))
        skip, bias = (rng.standard_normal(channels).astype(np.float32) for _ in range(2))
        rate = -np.exp(rng.standard_normal((channels, n))).astype(np.float32)
        state = rng.standard_normal((SLOTS, channels, n)).astype(np.float32)
        slots, before, out = np.array([4, 7], np.int32), state.copy(), np.full_like(x, np.nan)
        linear.selective_state_update(state, x, dt, rate, b, c, skip, bias, z, True, slots, out=out)
        for i, slot in enumerate(slots):
            w = softplus(np.float64(dt[i]) + bias)[:, None]
            s = np.exp(rate * w) * before[slot] + w * np.float64(x[i])[:, None] * np.float64(b[i])
            y = s @ np.float64(c[i]) + skip * x[i]
            y *= np.float64(z[i]) * sigmoid(np.float64(z[i]))
            np.testing.assert_allclose(state[slot], s, rtol=1e-5, atol=1e-5)
            np.testing.assert_allclose(out[i], y, rtol=2e-3, atol=2e-3)

    def test_prompts_of_mamba2_and_a_step(self):
        """Prompts in one call, in two with the states between, and a step after them."""
        rng, heads, p, n = np.random.default_rng(8), 2, 64, K
        cu, tokens = np.array([0, 200, 200, 330], np.int32), 331
        x = rng.standard_normal((tokens, heads, p)).astype(np.float16)
        b, c = (rng.standard_normal((tokens, 1, n)).astype(np.float16) for _ in range(2))
        dt = rng.standard_normal((tokens, heads)).astype(np.float16)
        rate = -np.exp(rng.standard_normal(heads)).astype(np.float32)
        bias, skip = (rng.standard_normal(heads).astype(np.float32) for _ in range(2))

        def scan(first, end, lens, states=None, into=(None, None)):
            out = np.full_like(x[first:end], np.nan)
            last = linear.mamba_chunk_scan_combined_varlen(
                x[first:end], dt[first:end], rate, b[first:end], c[first:end], 256, np.array(lens, np.int32), None, None, None,
                out, skip, None, bias, states, True, state_dtype=np.float32, final_states_out=into[0],
                final_state_indices=into[1])
            return out, last

        out, last = scan(0, 330, cu)
        np.testing.assert_array_equal(last[1], 0)
        half, states = scan(0, 128, [0, 128])
        rest, states = scan(128, 200, [0, 72], states)
        np.testing.assert_array_equal(np.concatenate([half, rest]), out[:200])
        np.testing.assert_array_equal(states[0], last[0])
        pool = np.full((5, heads, p, n), np.nan, np.float32)
        self.assertIsNone(scan(0, 128, [0, 128], into=(pool, np.array([3], np.int32)))[1])
        rest, _ = scan(128, 200, [0, 72], pool[[3]], into=(pool, np.array([1], np.int32)))
        np.testing.assert_array_equal(rest, out[128:200])
        np.testing.assert_array_equal(pool[1], last[0])
        want, state = np.zeros((131, heads, p)), np.zeros((heads, p, n))
        for i, t in enumerate(range(200, 331)):
            w = softplus(np.float64(dt[t]) + bias)
            state = np.exp(rate * w)[:, None, None] * state + (w[:, None] * x[t])[:, :, None] * np.float64(b[t, 0])
            want[i] = state @ np.float64(c[t, 0]) + skip[:, None] * x[t]
        size = np.abs(want).max()
        np.testing.assert_allclose(out[200:330], want[:130], rtol=2e-3, atol=2e-3 * size)
        spread, step = np.broadcast_to, np.full_like(x[:1], np.nan)
        linear.selective_state_update(
            last, x[330:], spread(dt[330:, :, None], (1, heads, p)), spread(rate[:, None, None], (heads, p, n)), b[330:],
            c[330:], spread(skip[:, None], (heads, p)), spread(bias[:, None], (heads, p)), None, True,
            np.array([2], np.int32), out=step)
        np.testing.assert_allclose(step[0], want[130], rtol=2e-3, atol=2e-3 * size)
        np.testing.assert_allclose(last[2], state, rtol=2e-3, atol=1e-3 * np.abs(state).max())

    def test_a_long_prompt_is_cut_into_segments(self):
        """A prompt in segments has the outputs and the last states of many short pieces, which are too short for
        segments."""
        rng, tokens, piece = np.random.default_rng(9), 1024, 64
        x = rng.standard_normal((tokens, 1, 64)).astype(np.float16)
        b, c = (rng.standard_normal((tokens, 1, K)).astype(np.float16) for _ in range(2))
        dt, rate = rng.standard_normal((tokens, 1)).astype(np.float16), np.float32([-0.01])

        def scan(first, end, states):
            out = np.full_like(x[first:end], np.nan)
            return out, linear.mamba_chunk_scan_combined_varlen(
                x[first:end], dt[first:end], rate, b[first:end], c[first:end], 256,
                np.array([0, end - first], np.int32), None, None, None, out, initial_states=states, dt_softplus=True,
                state_dtype=np.float32)

        cut, last = scan(0, tokens, None)
        states, whole = None, []
        for first in range(0, tokens, piece):
            out, states = scan(first, first + piece, states)
            whole.append(out)
        whole = np.concatenate(whole).astype(np.float64)
        self.assertFalse(np.array_equal(last, states))  # sums are in another order, so bits differ
        np.testing.assert_allclose(cut, whole, rtol=2e-3, atol=1e-3 * np.abs(whole).max())
        np.testing.assert_allclose(last, states, rtol=1e-4, atol=1e-5 * np.abs(states).max())

    def test_a_long_prompt_takes_several_launches(self):
        """A prompt of GDN in segments has the output and the last state of short pieces, which take one launch each."""
        rng, tokens, piece = np.random.default_rng(19), 1600, 64
        q, k, v = (rng.standard_normal((1, tokens, 1, K)).astype(np.float16) for _ in range(3))
        g = -0.02 * rng.random((1, tokens, 1)).astype(np.float32)
        beta = rng.random((1, tokens, 1)).astype(np.float32)

        def run(first, end, state):
            return linear.chunk_gated_delta_rule(
                *(x[:, first:end] for x in (q, k, v, g, beta)), initial_state=state, output_final_state=True,
                cu_seqlens=np.array([0, end - first], np.int32), use_qk_l2norm_in_kernel=True)

        cut, last = run(0, tokens, np.zeros((1, 1, K, K), np.float32))
        state, pieces = np.zeros((1, 1, K, K), np.float32), []
        for first in range(0, tokens, piece):
            out, state = run(first, first + piece, state)
            pieces.append(out)
        whole = np.concatenate(pieces, axis=1).astype(np.float64)
        self.assertFalse(np.array_equal(last, state))  # states between segments are rounded, so bits differ
        np.testing.assert_allclose(cut, whole, rtol=4e-3, atol=4e-3 * np.abs(whole).max())
        np.testing.assert_allclose(last, state, rtol=4e-3, atol=4e-3 * np.abs(state).max())

    def test_steps_into_out_and_the_null_block(self):
        """Slot 0 belongs to no sequence unless null_block_id is None. With `out` the call does not change x."""
        rng = np.random.default_rng(73)
        weight, x = (rng.standard_normal(shape).astype(np.float16) for shape in ((CHANNELS, TAPS), (2, CHANNELS)))
        before, slots = np.ones((2, CHANNELS, TAPS - 1), np.float16), np.array([0, 1], np.int32)
        want = np.float64(weight)[:, :-1].sum(-1) + np.float64(x) * np.float64(weight)[:, -1]
        want *= sigmoid(want)
        for more, first in ((dict(), 1), (dict(null_block_id=None), 0), (dict(pad_slot_id=0, null_block_id=None), 1)):
            rows, state, out = x.copy(), before.copy(), np.full_like(x, np.nan)
            got = linear.causal_conv1d_update(rows, state, weight, None, "silu", slots, out=out, **more)
            self.assertIs(got, out)
            np.testing.assert_array_equal(rows, x)
            np.testing.assert_allclose(np.float64(out[first:]), want[first:], rtol=2e-3, atol=2e-3)
            np.testing.assert_array_equal(out[:first], 0)
            np.testing.assert_array_equal(state[:first], before[:first])
            np.testing.assert_array_equal(state[first:, :, -1], x[first:])
        prompts, state = np.concatenate([x, x]), before.copy()
        linear.causal_conv1d_fn(prompts.T, weight, None, state, np.array([0, 2, 4], np.int32), slots, np.ones(2, bool))
        np.testing.assert_array_equal(state[0], before[0])
        np.testing.assert_array_equal(state[1, :, 1:], x.T)

    def test_forms_that_are_not_served(self):
        x = np.zeros((2, CHANNELS), np.float16)
        weight, state = np.zeros((CHANNELS, TAPS), np.float16), np.zeros((SLOTS, CHANNELS, TAPS - 1), np.float16)
        slots = np.array([1, 2], np.int32)
        for wrong, text in ((dict(activation="gelu"), "activation 'gelu'"), (dict(pad_slot_id=7), "slot 7 as padding"),
                            (dict(block_idx_last_scheduled_token=slots), "without a table of them")):
            with self.assertRaisesRegex(linear.NotServed, text):
                linear.causal_conv1d_update(x, state, weight, conv_state_indices=slots, **wrong)


if __name__ == "__main__":
    unittest.main()
