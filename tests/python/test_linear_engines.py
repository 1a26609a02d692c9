# SPDX-License-Identifier: Apache-2.0
"""Tests the calls of linear attention under SGLang's, ATOM's and flash-linear-attention's names, against the
recurrences in doubles."""
import inspect
import unittest

import numpy as np

import attn.aiter as c
import attn.linear as linear
import support
from attn.linear import atom, fla, sglang
from test_linear import sigmoid, softplus

K, HEADS, VALUE_HEADS, TAPS, SLOTS, DRAFTS = 128, 1, 2, 4, 7, 3
CHANNELS = 2 * HEADS * K + VALUE_HEADS * K

# Names of arguments in their order: of SGLang 0.5.23 (sglang.kernels.ops.attention.fla, .linear and
# sglang.kernels.ops.mamba), of ROCm/ATOM ffdf3bb5 (atom/model_ops), and of flash-linear-attention bc3b101d. Arguments
# that FLA takes by **kwargs are last.
SIGNATURES = {
    sglang: {
        "causal_conv1d_fn": "x weight bias conv_states query_start_loc seq_lens_cpu cache_indices has_initial_state activation "
                            "pad_slot_id validate_data block_table kwargs",
        "causal_conv1d_update": "x conv_state weight bias activation cache_seqlens conv_state_indices num_accept_tokens "
                                "intermediate_conv_window intermediate_state_indices retrieve_next_token "
                                "retrieve_next_sibling retrieve_parent_token pad_slot_id metadata validate_data",
        "fused_sigmoid_gating_delta_rule_update":
            "A_log a dt_bias softplus_beta softplus_threshold q k v b initial_state_source initial_state_indices scale "
            "use_qk_l2norm_in_kernel cu_seqlens is_kda lower_bound disable_state_update intermediate_states_buffer "
            "intermediate_state_indices cache_steps retrieve_parent_token cache_ring replayssm_rawv replayssm_rawk "
            "replayssm_g replayssm_beta match_cutedsl_decode",
        "fused_recurrent_gated_delta_rule_packed_decode":
            "mixed_qkv a b A_log dt_bias scale initial_state out ssm_state_indices use_qk_l2norm_in_kernel",
        "fused_recurrent_kda_packed_decode":
            "mixed_qkv a b A_log dt_bias scale initial_state out ssm_state_indices use_qk_l2norm_in_kernel lower_bound",
        "chunk_gated_delta_rule": "q k v g beta scale initial_state initial_state_indices cu_seqlens head_first "
                                  "use_qk_l2norm_in_kernel inplace_update",
        "chunk_kda": "q k v g beta scale initial_state initial_state_indices use_qk_l2norm_in_kernel cu_seqlens A_log dt_bias "
                     "lower_bound output_intermediate_states track_state track_chunk_idx beta_is_raw chunk_indices "
                     "chunk_offsets kwargs",
        "rms_norm_gated": "x weight bias z eps group_size norm_before_gate is_rms_norm activation",
        "layernorm_fn": "x weight bias z eps group_size norm_before_gate is_rms_norm activation",
    },
    atom: {
        "causal_conv1d_fn": "x weight bias conv_states query_start_loc k_dim_size v_dim_size cache_indices cache_indices_in "
                            "has_initial_state activation pad_slot_id block_idx_first_scheduled_token "
                            "block_idx_last_scheduled_token initial_state_idx num_computed_tokens block_size_to_align metadata "
                            "validate_data",
        "causal_conv1d_update": "x conv_state weight k_dim_size v_dim_size bias activation conv_state_indices "
                                "conv_state_indices_in num_accepted_tokens query_start_loc max_query_len pad_slot_id "
                                "block_idx_last_scheduled_token initial_state_idx validate_data",
        "chunk_gated_delta_rule": "q k v g beta scale initial_state output_final_state cu_seqlens head_first "
                                  "use_qk_l2norm_in_kernel o",
        "chunk_gated_delta_rule_vk": "q k v g beta scale initial_state output_final_state cu_seqlens "
                                     "use_qk_l2norm_in_kernel o",
        "fused_recurrent_gated_delta_rule": "q k v g beta scale initial_state inplace_final_state cu_seqlens ssm_state_indices "
                                            "ssm_state_indices_in num_accepted_tokens use_qk_l2norm_in_kernel",
        "fused_sigmoid_gating_delta_rule_update":
            "A_log a b dt_bias q k v o beta threshold scale initial_state inplace_final_state cu_seqlens ssm_state_indices "
            "num_accepted_tokens use_qk_l2norm_in_kernel is_kda lower_bound",
    },
    fla: {
        "chunk_gated_delta_rule": "q k v g beta scale initial_state output_final_state use_qk_l2norm_in_kernel "
                                  "use_beta_sigmoid_in_kernel allow_neg_eigval state_v_first cu_seqlens cu_seqlens_cpu "
                                  "chunk_indices cp_context use_gate_in_kernel A_log dt_bias kwargs",
        "fused_recurrent_gated_delta_rule": "q k v g gk gv beta scale initial_state output_final_state "
                                            "use_qk_l2norm_in_kernel use_gate_in_kernel A_log dt_bias "
                                            "use_beta_sigmoid_in_kernel allow_neg_eigval state_v_first cu_seqlens kwargs",
        "chunk_kda": "q k v g beta scale initial_state output_final_state use_qk_l2norm_in_kernel use_gate_in_kernel "
                     "use_beta_sigmoid_in_kernel allow_neg_eigval safe_gate lower_bound disable_recompute "
                     "return_intermediate_states state_v_first cu_seqlens cu_seqlens_cpu cp_context A_log dt_bias kwargs",
        "fused_recurrent_kda": "q k v g beta A_log dt_bias scale initial_state output_final_state use_qk_l2norm_in_kernel "
                               "use_gate_in_kernel use_beta_sigmoid_in_kernel allow_neg_eigval lower_bound state_v_first "
                               "cu_seqlens kwargs",
    },
}


class Tokens:
    """Random tensors [1, n, heads, ...] of a layer, and its recurrence in doubles. kda: True for a KDA layer, False for
    GDN. bound: lower bound of the logarithm of KDA's decay; None: no bound."""

    def __init__(self, n, seed, kda=False, bound=None):
        rng = np.random.default_rng(seed)
        self.q, self.k = (rng.standard_normal((1, n, HEADS, K)).astype(np.float16) for _ in range(2))
        self.v = rng.standard_normal((1, n, VALUE_HEADS, K)).astype(np.float16)
        self.a = rng.standard_normal((1, n, VALUE_HEADS) + (K,) * kda).astype(np.float16)
        self.b = rng.standard_normal((1, n, VALUE_HEADS)).astype(np.float16)
        self.rate = rng.standard_normal(VALUE_HEADS).astype(np.float32)
        self.bias = rng.standard_normal((VALUE_HEADS,) + (K,) * kda).astype(np.float32)
        rate = np.exp(np.float64(self.rate)).reshape((-1,) + (1,) * kda)
        x = np.float64(self.a) + self.bias
        self.g = -rate * softplus(x) if bound is None else bound * sigmoid(rate * x)
        self.beta = sigmoid(np.float64(self.b))

    def given(self):
        """Returns (logarithm of decays, beta) in float32."""
        return np.float32(self.g), np.float32(self.beta)

    def run(self, state, first=0, end=None):
        """Returns the output of tokens `first` to `end` and the states [value heads, K, V] after each of them."""
        state, out, states = np.float64(state), [], []
        for t in range(first, self.q.shape[1] if end is None else end):
            y = np.zeros((VALUE_HEADS, K))
            q, k = (np.float64(x[0, t, 0]) for x in (self.q, self.k))
            q, k = (x / np.sqrt((x * x).sum() + 1e-6) for x in (q, k))
            for h in range(VALUE_HEADS):
                s = np.exp(self.g[0, t, h]).reshape(-1, 1) * state[h]
                s += np.outer(k, self.beta[0, t, h] * (np.float64(self.v[0, t, h]) - k @ s))
                state[h], y[h] = s, K ** -0.5 * q @ s
            out.append(y)
            states.append(state.copy())
        return np.array(out), np.array(states)


def transposed(state):
    """Exchanges the last two dimensions of states, which are [K, V] or [V, K]."""
    return np.ascontiguousarray(state.swapaxes(-1, -2))


class Engines(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        delta = {"head_dim": K, "l2_norm": True}
        both, v_major, k_major = {"decay": ["head", "channel"]}, {"state_layout": "v_major"}, {"state_layout": "k_major"}
        linear.use(device=support.device(
            {"op": "conv1d", "act": "silu", "tree": [False, True]},
            {"op": "gated_delta", **delta, **v_major, "gates": "softplus", "tree": True},
            {"op": "gated_delta", **delta, **both, **v_major, "gates": ["given", "softplus"]},
            {"op": "gated_delta", **delta, **k_major, "gates": ["given", "softplus"]},
            {"op": "gated_delta", **delta, **v_major, "gates": "bounded", "decay": "channel"},
            {"op": "gated_delta_prefill", **delta, **both, **v_major, "gates": "given"},
            {"op": "gated_delta_prefill", **delta, **v_major, "gates": "bounded", "decay": "channel"},
            {"op": "gated_delta_prefill", **delta, **both, **k_major, "gates": ["given", "softplus"]},
            {"op": "gated_rmsnorm", "width": K, "act": "silu"}))

    def setUp(self):
        self.rng = np.random.default_rng(21)
        self.pool = self.rng.standard_normal((SLOTS, VALUE_HEADS, K, K)).astype(np.float32)  # [.., K, V]

    def near(self, got, want, part=2.0 ** -8):
        np.testing.assert_allclose(np.float64(got), want, rtol=0, atol=part * np.abs(want).max())

    def test_signatures(self):
        for module, calls in SIGNATURES.items():
            for name, parameters in calls.items():
                self.assertEqual(" ".join(inspect.signature(getattr(module, name)).parameters), parameters, name)

    def test_sglang_steps_and_drafts(self):
        for kda in (False, True):
            x, slots = Tokens(2 * DRAFTS, 3, kda), np.array([4, -1, 2], np.int32)
            args = dict(A_log=x.rate, dt_bias=x.bias.ravel(), softplus_beta=1.0, softplus_threshold=20.0, is_kda=kda,
                        use_qk_l2norm_in_kernel=True)
            pool = transposed(self.pool)
            out = sglang.fused_sigmoid_gating_delta_rule_update(
                q=x.q[:, :2], k=x.k[:, :2], v=x.v[:, :2], a=x.a[0, :2].reshape(2, -1), b=x.b[0, :2], cu_seqlens=np.int32([0, 1, 2]),
                initial_state_source=pool, initial_state_indices=slots[::2].copy(), **args)
            for i, slot in enumerate((4, 2)):
                want, states = x.run(self.pool[slot], i, i + 1)
                self.near(out[0, i], want[0])
                self.near(transposed(pool[slot]), states[0], 1e-5)
            pool, buffer = transposed(self.pool), np.full((SLOTS, DRAFTS, VALUE_HEADS, K, K), np.nan, np.float32)
            before, rows = pool.copy(), np.array([1, 6, 3], np.int32)
            out = sglang.fused_sigmoid_gating_delta_rule_update(
                q=x.q, k=x.k, v=x.v, a=x.a, b=x.b, initial_state_source=pool, initial_state_indices=slots,
                cu_seqlens=np.int32([0, DRAFTS, DRAFTS, 2 * DRAFTS]), disable_state_update=True,
                intermediate_states_buffer=buffer, intermediate_state_indices=rows, cache_steps=DRAFTS, **args)
            np.testing.assert_array_equal(pool, before)
            for i, (slot, row) in enumerate(((4, 1), (2, 3))):
                want, states = x.run(self.pool[slot], i * DRAFTS, (i + 1) * DRAFTS)
                self.near(out[0, i * DRAFTS:(i + 1) * DRAFTS], want)
                self.near(transposed(buffer[row]), states, 1e-5)

    def test_sglang_trees(self):
        """Two drafts follow the root, and one follows the second of them. Each path has the results of a run of its tokens."""
        parents, paths, slots, rows = np.array([[-1, 0, 0, 2]]), ((0,), (0, 1), (0, 2), (0, 2, 3)), np.int32([4]), np.int32([1])
        x, pool = Tokens(4, 16), transposed(self.pool)
        buffer = np.full((SLOTS, 4, VALUE_HEADS, K, K), np.nan, np.float32)
        out = sglang.fused_sigmoid_gating_delta_rule_update(
            x.rate, x.a, x.bias, 1.0, 20.0, x.q, x.k, x.v, x.b, pool, slots, use_qk_l2norm_in_kernel=True,
            cu_seqlens=np.int32([0, 4]), disable_state_update=True, intermediate_states_buffer=buffer,
            intermediate_state_indices=rows, cache_steps=4, retrieve_parent_token=parents)
        weight = self.rng.standard_normal((CHANNELS, TAPS)).astype(np.float16)
        state = self.rng.standard_normal((SLOTS, CHANNELS, TAPS - 1)).astype(np.float16)
        inputs = self.rng.standard_normal((1, 4, CHANNELS)).astype(np.float16).swapaxes(1, 2)
        windows = np.zeros((SLOTS, 4, CHANNELS, TAPS - 1), np.float16)
        y = sglang.causal_conv1d_update(inputs, state, weight, None, "silu", None, slots, None, windows, rows,
                                        retrieve_next_token=parents, retrieve_parent_token=parents)
        for path in paths:
            path, last, after = list(path), path[-1], self.pool[4]
            for t in path:
                want, states = x.run(after, t, t + 1)
                after = states[0]
            self.near(out[0, last], want[0])
            self.near(transposed(buffer[1, last]), after, 1e-5)
            want, history = self.convolved(inputs[0].T[path], weight, state[4].T)
            self.near(y[0, :, last], want[-1], 2.0 ** -10)
            np.testing.assert_array_equal(windows[1, last].T, history[-TAPS + 1:])

    def test_sglang_packed_steps(self):
        for kda, bound, call in ((False, (), sglang.fused_recurrent_gated_delta_rule_packed_decode),
                                 (True, (), sglang.fused_recurrent_kda_packed_decode),
                                 (True, (-5.0,), sglang.fused_recurrent_kda_packed_decode)):
            x, pool, slots = Tokens(3, 5, kda, *bound), transposed(self.pool), np.array([1, -1, 6], np.int32)
            rows = np.concatenate([t[0].reshape(3, -1) for t in (x.q, x.k, x.v)], 1)
            wide = np.concatenate([rows, rows[:, :64]], 1)[:, :CHANNELS]
            out = np.full((3, 1, VALUE_HEADS, K), np.nan, np.float16)
            got, same = call(wide, x.a[0].reshape(3, -1), x.b[0], x.rate, x.bias.ravel(), K ** -0.5, pool, out, slots, True, *bound)
            self.assertIs(got, out)
            self.assertIs(same, pool)
            np.testing.assert_array_equal(out[1], 0)
            for i, slot in ((0, 1), (2, 6)):
                want, states = x.run(self.pool[slot], i, i + 1)
                self.near(out[i], want)
                self.near(transposed(pool[slot]), states[0], 1e-5)

    def test_sglang_prompts(self):
        x, pool, slots = Tokens(70, 7), transposed(self.pool), np.array([5], np.int32)
        args = (x.q, x.k, x.v, *x.given(), None, pool, slots, np.array([0, 70], np.int32))
        before = pool.copy()
        out, last, chunks = sglang.chunk_gated_delta_rule(*args, False, True, False)
        np.testing.assert_array_equal(pool, before)
        again, last, chunks = sglang.chunk_gated_delta_rule(*args, False, True)
        np.testing.assert_array_equal(out, again)
        self.assertEqual((last, chunks), (None, None))
        want, states = x.run(self.pool[5])
        self.near(out[0], want)
        self.near(transposed(pool[5]), states[-1])
        for bound in (None, -5.0):
            x, pool = Tokens(70, 8, True, bound), transposed(self.pool)
            out = sglang.chunk_kda(x.q, x.k, x.v, x.a, np.float32(x.beta), None, pool, slots, True, np.array([0, 70], np.int32),
                                   x.rate, x.bias, bound)
            want, states = x.run(self.pool[5])
            self.near(out[0], want)
            self.near(transposed(pool[5]), states[-1])
        raw, flat = transposed(self.pool), x.a.reshape(1, 70, -1)
        again = sglang.chunk_kda(x.q, x.k, x.v, flat, x.b, None, raw, slots, True, np.array([0, 70], np.int32), x.rate,
                                 x.bias.ravel(), bound, beta_is_raw=True)
        self.near(again[0], want)
        self.near(transposed(raw[5]), states[-1])
        for refused in ({"track_state": raw}, {"transposed": True}):
            with self.assertRaises(c.NotServed):
                sglang.chunk_kda(x.q, x.k, x.v, x.a, x.b, None, raw, slots, True, np.array([0, 70], np.int32), x.rate, x.bias,
                                 bound, **refused)

    def convolved(self, x, weight, history):
        """Returns the convolution of rows [tokens, channels] in doubles. history [taps - 1, channels] are the rows
        before them."""
        rows = np.concatenate([np.float64(history), np.float64(x)])
        y = np.array([(rows[t:t + TAPS] * np.float64(weight).T).sum(0) for t in range(len(x))])
        return y * sigmoid(y), rows

    def test_sglang_convolutions(self):
        weight = self.rng.standard_normal((CHANNELS, TAPS)).astype(np.float16)
        state = self.rng.standard_normal((SLOTS, CHANNELS, TAPS - 1)).astype(np.float16)
        x = self.rng.standard_normal((3, DRAFTS, CHANNELS)).astype(np.float16).swapaxes(1, 2)
        live, slots, rows = state.copy(), np.array([3, 5, 0], np.int32), np.array([1, 0, 2], np.int32)
        memory = np.full((SLOTS, CHANNELS, DRAFTS + TAPS - 2), np.nan, np.float16)
        windows = np.lib.stride_tricks.as_strided(memory, (SLOTS, DRAFTS, CHANNELS, TAPS - 1), (
            memory.strides[0], memory.strides[2], memory.strides[1], memory.strides[2]))
        out = sglang.causal_conv1d_update(x, state, weight, None, "silu", None, slots, None, windows, rows, pad_slot_id=0)
        np.testing.assert_array_equal(state, live)
        self.assertFalse(out[2].any())
        for i in range(2):
            want, inputs = self.convolved(x[i].T, weight, live[slots[i]].T)
            self.near(out[i].T, want, 2.0 ** -10)
            for t in range(DRAFTS):
                np.testing.assert_array_equal(windows[rows[i], t].T, inputs[t + 1:t + TAPS])
        step = sglang.causal_conv1d_update(x[:2, :, 0].copy(), state, weight, None, "silu", conv_state_indices=slots[:2])
        self.near(step, np.array([self.convolved(x[i, :, :1].T, weight, live[slots[i]].T)[0][0] for i in range(2)]), 2.0 ** -10)
        prompt = self.rng.standard_normal((9, CHANNELS)).astype(np.float16)
        y = sglang.causal_conv1d_fn(prompt.T, weight, None, state, np.array([0, 9], np.int32), [9], slots[:1],
                                    np.zeros(1, bool))
        self.near(y.T, self.convolved(prompt, weight, np.zeros((TAPS - 1, CHANNELS)))[0], 2.0 ** -10)

    def test_atom_layer(self):
        """A prompt, a step that forks its state, and a verification, in ATOM's order of states."""
        weight = self.rng.standard_normal((CHANNELS, TAPS)).astype(np.float16)
        window = np.zeros((SLOTS, CHANNELS, TAPS - 1 + DRAFTS - 1), np.float16)
        x = self.rng.standard_normal((9, CHANNELS)).astype(np.float16)
        q, k, v = atom.causal_conv1d_fn(x.T, weight, None, window, np.array([0, 9], np.int32), K, VALUE_HEADS * K,
                                        np.array([2], np.int32), np.array([4], np.int32), np.zeros(1, bool))
        want, rows = self.convolved(x, weight, np.zeros((TAPS - 1, CHANNELS)))
        self.near(np.concatenate([q, k, v], 1), want, 2.0 ** -10)
        np.testing.assert_array_equal(window[2, :, :TAPS - 1].T, rows[-TAPS + 1:])
        more = self.rng.standard_normal((1, CHANNELS)).astype(np.float16)
        parts = atom.causal_conv1d_update(more, window, weight, K, VALUE_HEADS * K, None, "silu", np.array([3], np.int32),
                                          np.array([2], np.int32))
        self.near(np.concatenate(parts, 1), self.convolved(more, weight, rows[-TAPS + 1:])[0], 2.0 ** -10)
        self.assertEqual([p.shape[1] for p in parts], [K, K, VALUE_HEADS * K])

        t = Tokens(70, 9)
        for call, states in ((atom.chunk_gated_delta_rule, self.pool[:1]), (atom.chunk_gated_delta_rule_vk, transposed(self.pool[:1]))):
            out, last = call(t.q, t.k, t.v, *t.given(), initial_state=states, output_final_state=True,
                             cu_seqlens=np.array([0, 70], np.int32), use_qk_l2norm_in_kernel=True)
            want, after = t.run(self.pool[0])
            self.near(out[0], want)
            self.near(last[0] if call is atom.chunk_gated_delta_rule else transposed(last[0]), after[-1])
        t, pool = Tokens(2, 10), self.pool.copy()
        ends, to, of = np.array([0, 1, 2], np.int32), np.array([1, 3], np.int32), np.array([5, 3], np.int32)
        out, same = atom.fused_recurrent_gated_delta_rule(
            t.q, t.k, t.v, *t.given(), initial_state=pool, cu_seqlens=ends, ssm_state_indices=to, ssm_state_indices_in=of,
            use_qk_l2norm_in_kernel=True)
        other = self.pool.copy()
        lossy, _ = atom.gdn_decode_update_lossy_fast(t.rate, t.a[0], t.b[0], t.bias, t.q, t.k, t.v, other, to, of,
                                                     use_qk_l2norm_in_kernel=True)
        for i in range(2):
            want, after = t.run(self.pool[of[i]], i, i + 1)
            for got, states in ((out, pool), (lossy, other)):
                self.near(got[0, i], want[0])
                self.near(states[to[i]], after[0], 1e-5)
        np.testing.assert_array_equal(pool[5], self.pool[5])

    def test_atom_kda_drafts(self):
        t, pool = Tokens(DRAFTS, 11, True, -5.0), transposed(self.pool)
        slots, out = np.array([[6, 0, 4]], np.int32), np.full((DRAFTS, VALUE_HEADS, K), np.nan, np.float16)
        got, _ = atom.fused_sigmoid_gating_delta_rule_update(
            t.rate, t.a, t.b, t.bias, t.q, t.k, t.v, out, initial_state=pool, cu_seqlens=np.array([0, DRAFTS], np.int32),
            ssm_state_indices=slots, num_accepted_tokens=np.array([2], np.int32), use_qk_l2norm_in_kernel=True, is_kda=True,
            lower_bound=-5.0)
        self.assertIs(got, out)
        want, states = t.run(self.pool[0])
        self.near(out, want)
        self.near(transposed(pool[slots[0]]), states, 1e-5)

    def test_fla(self):
        for kda, chunk, recurrent in ((False, fla.chunk_gated_delta_rule, fla.fused_recurrent_gated_delta_rule),
                                      (True, fla.chunk_kda, fla.fused_recurrent_kda)):
            t = Tokens(66, 12, kda)
            g, beta = t.given()
            want, states = t.run(self.pool[0])
            raw = dict(g=t.a, beta=t.b, A_log=t.rate, dt_bias=t.bias, use_gate_in_kernel=True, use_beta_sigmoid_in_kernel=True)
            for gates in (dict(g=g, beta=beta), raw, dict(raw, beta=beta, use_beta_sigmoid_in_kernel=False)):
                out, last = chunk(t.q, t.k, t.v, initial_state=self.pool[:1], output_final_state=True,
                                  use_qk_l2norm_in_kernel=True, **gates)
                self.near(out[0], want)
                self.near(last[0], states[-1])
            out, last = recurrent(t.q, t.k, t.v, g=g, beta=beta, initial_state=transposed(self.pool[:1]), output_final_state=True,
                                  use_qk_l2norm_in_kernel=True, state_v_first=True, cu_seqlens=np.array([0, 66], np.int32))
            self.near(out[0], want)
            self.near(transposed(last[0]), states[-1], 1e-4)
        # Two sequences of one length, without cu_seqlens and without states.
        a, b = Tokens(40, 13), Tokens(40, 14)
        both = [np.concatenate([getattr(a, n), getattr(b, n)]) for n in ("q", "k", "v")]
        gates = [np.concatenate(x) for x in zip(a.given(), b.given())]
        out, none = fla.chunk_gated_delta_rule(*both, *gates, use_qk_l2norm_in_kernel=True)
        self.assertIsNone(none)
        for i, t in enumerate((a, b)):
            self.near(out[i], t.run(np.zeros((VALUE_HEADS, K, K)))[0])

    def test_norms(self):
        x, z = (self.rng.standard_normal((3, 2 * K)).astype(np.float16) for _ in range(2))
        w = self.rng.standard_normal(2 * K).astype(np.float16)
        y, gate = np.float64(x).reshape(3, 2, K), np.float64(z) * sigmoid(np.float64(z))
        want = (y / np.sqrt((y * y).mean(-1, keepdims=True) + 1e-6)).reshape(3, -1) * np.float64(w) * gate
        self.near(sglang.layernorm_fn(x, w, None, z, 1e-6, K, True, True), want, 2.0 ** -10)
        with self.assertRaisesRegex(linear.NotServed, "subtracts the mean"):
            sglang.rms_norm_gated(x=x, weight=w, bias=None, z=z)

    def test_forms_that_are_not_served(self):
        t, slots = Tokens(2, 15), np.array([1, 2], np.int32)
        x, weight = np.zeros((2, CHANNELS), np.float16), np.zeros((CHANNELS, TAPS), np.float16)
        args = (t.rate, t.a, t.bias, 1.0, 20.0, t.q, t.k, t.v, t.b, self.pool, slots)
        for text, call in (
                ("a tree", lambda: sglang.fused_sigmoid_gating_delta_rule_update(*args, retrieve_parent_token=slots)),
                ("a tree", lambda: sglang.causal_conv1d_update(x, x, weight, retrieve_next_token=slots)),
                ("a ring of records", lambda: sglang.fused_sigmoid_gating_delta_rule_update(*args, cache_ring=True)),
                ("boundaries of chunks", lambda: sglang.chunk_kda(None, None, None, None, None, output_intermediate_states=True)),
                ("channels that are not twice", lambda: atom.causal_conv1d_update(x, x, weight, 8, 8, conv_state_indices=slots)),
                ("allow_neg_eigval", lambda: fla.chunk_gated_delta_rule(t.q, t.k, t.v, *t.given(), allow_neg_eigval=True)),
                ("use_beta_sigmoid", lambda: fla.chunk_gated_delta_rule(t.q, t.k, t.v, *t.given(),
                                                                        use_beta_sigmoid_in_kernel=True)),
                ("no cu_seqlens", lambda: atom.chunk_gated_delta_rule(t.q, t.k, t.v, *t.given()))):
            with self.assertRaisesRegex(linear.NotServed, text):
                call()


if __name__ == "__main__":
    unittest.main()
