# SPDX-License-Identifier: Apache-2.0
"""Three linear layers and one of attention at the shapes of a rank of eight: Qwen3-Next's gated delta net, Kimi-K3's
KDA, Nemotron-H's Mamba2 and its attention. Each has its launches, its states in a pool, and its formula in doubles.

What a token brings to a layer, q, k, v, gates and so on, is made up from the token's number: projections are no part
of attention. So the layers of a stack may be checked one by one."""
import numpy as np

TAPS, DRAFTS, ROWS, SLOTS = 4, 3, 4, 16  # ROWS: sequences of a step; the last is padding
PAGE, PAGES = 64, 3                      # tokens of a page of the cache, pages of a sequence
EPS = 1e-6


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def silu(x):
    return x * sigmoid(x)


def numbers(shape, *seed):
    return np.random.default_rng(seed).standard_normal(shape)


def length(x):
    """Returns the Euclidean length of each row."""
    return np.sqrt((x * x).sum(-1))


class Pool:
    """The states of all layers in one piece of memory, so that one launch copies any of them."""

    def __init__(self, size):
        self.bytes, self.used = np.zeros(size, np.uint8), 0

    def take(self, shape, dtype):
        count = int(np.prod(shape)) * np.dtype(dtype).itemsize
        at = self.bytes[self.used:self.used + count]
        self.used += -(-count // 256) * 256
        return at.view(dtype).reshape(shape)

    def offset(self, array):
        return array.__array_interface__["data"][0] - self.bytes.__array_interface__["data"][0]


class Linear:
    """The convolution, the norm and the lists of slots that all linear layers have."""

    def __init__(self, number, device, pool, channels, splits, heads, width, act, bias):
        self.number, self.channels, self.splits, self.heads, self.width = number, channels, splits, heads, width
        self.weight = np.float16(numbers((channels, TAPS), number, 1) / 2)
        self.bias = np.float16(numbers((channels,), number, 2)) if bias else None
        self.norm_weight = np.float16(1 + numbers((width,), number, 3) / 8)
        self.act = act
        self.window = pool.take((SLOTS, channels, TAPS - 1 + DRAFTS - 1), np.float16)
        self.conv = device.conv1d(dtype="fp16", taps=TAPS, channels=channels, act="silu", bias=bias)
        self.norm = device.gated_rmsnorm(dtype="fp16", width=width, groups=heads, act=act, shared_weight=True)
        self.parts = [np.zeros((ROWS * 80, n), np.float16) for n in splits]
        self.mixed = np.zeros((ROWS * 80, heads, width), np.float16)
        self.out = np.zeros_like(self.mixed)

    def inputs(self, token):
        """Inputs of a token: x of the convolution, the gates of the norm, and more in each kind of layer."""
        return {"x": numbers((self.channels,), self.number, token, 0),
                "z": numbers((self.heads, self.width), self.number, token, 1)}

    def convolve(self, step, accepted=None):
        given = {"bias": self.bias} if self.bias is not None else {}
        given |= {"accepted": accepted} if accepted is not None else {}
        n = step.tokens
        self.conv(x=step.inputs[self.number]["x"], weight=self.weight, state=self.window, state_slots=step.slots,
                  cu_seqlens=step.cu, q_out=self.parts[0][:n], k_out=self.parts[1][:n], out=self.parts[2][:n],
                  max_seqlen=step.longest, first_slot=1, stream=step.stream, **given,
                  **({} if step.has_state is None else {"has_state": step.has_state}))
        return [part[:n] for part in self.parts]

    def normalise(self, step):
        n = step.tokens
        self.norm(x=self.mixed[:n], z=step.inputs[self.number]["z"], weight=self.norm_weight, out=self.out[:n], eps=EPS,
                  stream=step.stream)

    # The formula, token by token.

    def reference(self, tokens):
        """Returns the outputs [token, head, element]. Also returns the size of the terms of each head's sums over
        the size of the sums, which cancellation makes large."""
        given = [self.inputs(t) for t in tokens]
        given = [{name: np.float64(np.float16(x)) for name, x in g.items()} for g in given]
        xs = np.concatenate([np.zeros((TAPS - 1, self.channels)), [g["x"] for g in given]])
        state, out, terms = None, [], []
        for t, g in enumerate(given):
            y = silu((xs[t:t + TAPS] * np.float64(self.weight).T).sum(0) +
                     (0 if self.bias is None else np.float64(self.bias)))
            mixed, size, state = self.advance(y, g, state)
            terms.append(size / length(mixed))
            gate = silu(g["z"]) if self.act.startswith("silu") else sigmoid(g["z"])
            if self.act == "silu_first":
                mixed = mixed * gate
            rows = mixed / np.sqrt((mixed ** 2).mean(-1, keepdims=True) + EPS) * np.float64(self.norm_weight)
            out.append(rows if self.act == "silu_first" else rows * gate)
        return np.array(out), np.array(terms)


class Delta(Linear):
    """Gated delta net or KDA. A step of drafts stores a state after each, or records that a commit applies."""

    def __init__(self, number, device, pool, heads, value_heads, kda):
        self.kda, self.k, self.key_heads = kda, 128, heads
        splits = [heads * 128, heads * 128, value_heads * 128]
        super().__init__(number, device, pool, sum(splits), splits, value_heads, 128, "sigmoid" if kda else "silu", False)
        self.a_log = np.float32(numbers((value_heads,), number, 4) / 2)
        self.dt_bias = np.float32(numbers((value_heads, 128) if kda else (value_heads,), number, 5))
        self.state = pool.take((SLOTS, value_heads, 128, 128), np.float32)
        decays = {"decay": "channel", "gates": "bounded"} if kda else {}
        shape = dict(dtype="fp16", head_dim=128, heads=heads, value_heads=value_heads, l2_norm=True, **decays)
        self.prompt = device.gated_delta_prefill(**shape)
        self.op, self.gates = device.gated_delta(**shape), {"lower_bound": -5} if kda else {}
        self.step_op = device.gated_delta_step(**shape, taps=TAPS, act=self.act)
        if kda:
            self.record = device.gated_delta(**shape, replay=True)
            self.commit_op = device.gated_delta_commit(head_dim=128, value_heads=value_heads, decay="channel")
            self.records = np.zeros((SLOTS, value_heads, DRAFTS, 3 * 128), np.float32)
            self.zero = np.zeros(1, np.int64)

    def inputs(self, token):
        gates = (self.heads, 128) if self.kda else (self.heads,)
        return super().inputs(token) | {"gate": numbers(gates, self.number, token, 2),
                                        "beta": numbers((self.heads,), self.number, token, 3)}

    def shared(self, step):
        given = step.inputs[self.number]
        return dict(gate_in=given["gate"], beta_in=given["beta"], a_log=self.a_log, dt_bias=self.dt_bias,
                    state=self.state, scale=128 ** -0.5, l2_eps=EPS, first_slot=1, stream=step.stream, **self.gates)

    def mix(self, step, op, slots, **more):
        q, k, v = self.convolve(step, more.get("accepted"))
        n = step.tokens
        if self.kda:
            more.pop("accepted", None)
        op(q=q.reshape(n, -1, 128), k=k.reshape(n, -1, 128), v=v.reshape(n, -1, 128), out=self.mixed[:n],
           state_slots=slots, cu_seqlens=step.cu, max_seqlen=step.longest, **self.shared(step), **more)
        self.normalise(step)

    def prefill(self, step):
        self.mix(step, self.prompt, step.slots, has_state=step.has_state)

    def decode(self, step):
        given = step.inputs[self.number]
        self.step_op(x=given["x"], conv_weight=self.weight, conv_state=self.window, state_slots=step.slots, z=given["z"],
                     weight=self.norm_weight, out=self.out[:step.tokens], eps=EPS, **self.shared(step))

    def verify(self, step):
        if self.kda:
            self.mix(step, self.record, step.slots[:, None], records=self.records, accepted=step.accepted)
        else:
            self.mix(step, self.op, step.columns, accepted=step.accepted)

    def commit(self, step):
        """Applies the records of the drafts that were accepted."""
        self.commit_op(state=self.state, records=self.records, layer_states=self.zero, layer_records=self.zero,
                       state_slots=step.slots, accepted=step.accepted_now, first_slot=1, stream=step.stream)

    def advance(self, y, given, state):
        n, m, h = self.splits[0], self.splits[1], self.heads
        q, k, v = (part.reshape(-1, 128) for part in (y[:n], y[n:n + m], y[n + m:]))
        q, k = (np.repeat(u / np.sqrt((u * u).sum(-1, keepdims=True) + EPS), h // self.key_heads, 0) for u in (q, k))
        a, x = np.exp(np.float64(self.a_log)), given["gate"] + np.float64(self.dt_bias)
        g = -5 * sigmoid(a[:, None] * x) if self.kda else -(a * np.logaddexp(0, x))[:, None]
        state = np.zeros((h, 128, 128)) if state is None else state
        s = np.exp(g)[:, :, None] * state
        u = sigmoid(given["beta"])[:, None] * (v - np.einsum("hkv,hk->hv", s, k))
        s = s + k[:, :, None] * u[:, None, :]
        size = length(np.einsum("hkv,hk->hv", abs(s), abs(q))) * 128 ** -0.5
        return np.einsum("hkv,hk->hv", s, q) * 128 ** -0.5, size, s


class Mamba2(Linear):
    """The state-space recurrence: prompts in chunks, decode and drafts token by token."""

    def __init__(self, number, device, pool):
        self.n, self.p, self.h = 128, 64, 16
        splits = [self.h * self.p, self.n, self.n]  # x, B, C of one group
        super().__init__(number, device, pool, sum(splits), splits, 1, self.h * self.p, "silu_first", True)
        self.rate = np.float32(-np.exp(numbers((self.h,), number, 4) / 2))
        self.dt_bias, self.skip = (np.float32(numbers((self.h,), number, i)) for i in (5, 6))
        self.state = pool.take((SLOTS, self.h, self.p, self.n), np.float32)
        shape = dict(dtype="fp16", head_dim=self.n, head_dim_v=self.p, heads=1, value_heads=self.h)
        self.op, self.prompt = device.ssd(**shape), device.ssd_prefill(**shape)

    def inputs(self, token):
        return super().inputs(token) | {"dt": numbers((self.h,), self.number, token, 2)}

    def mix(self, step, op, slots, **more):
        x, b, c = self.convolve(step, more.get("accepted"))
        n = step.tokens
        op(x=x.reshape(n, self.h, self.p), b=b[:, None], c=c[:, None], dt=step.inputs[self.number]["dt"],
           dt_bias=self.dt_bias, rate=self.rate, d=self.skip, state=self.state, state_slots=slots,
           cu_seqlens=step.cu, out=self.mixed[:n].reshape(n, self.h, self.p), max_seqlen=step.longest, first_slot=1,
           stream=step.stream, **more)
        self.normalise(step)

    def prefill(self, step):
        self.mix(step, self.prompt, step.slots, has_state=step.has_state)

    def decode(self, step):
        self.mix(step, self.op, step.slots[:, None])

    def verify(self, step):
        self.mix(step, self.op, step.columns, accepted=step.accepted)

    def advance(self, y, given, state):
        x, b, c = y[:self.splits[0]].reshape(self.h, self.p), y[-2 * self.n:-self.n], y[-self.n:]
        dt = np.logaddexp(0, given["dt"] + np.float64(self.dt_bias))
        state = np.zeros((self.h, self.p, self.n)) if state is None else state
        state = np.exp(np.float64(self.rate) * dt)[:, None, None] * state + (dt[:, None] * x)[:, :, None] * b
        skip = np.float64(self.skip)[:, None] * x
        size = length((abs(state) @ abs(c) + abs(skip)).reshape(1, -1))
        return (state @ c + skip).reshape(1, -1), size, state


class Attention:
    """Attention without rotation over a paged cache, of 4 query heads and one of keys."""

    def __init__(self, number, device):
        self.number, self.heads, self.width = number, 4, 128
        self.write = device.cache_write(dtype="fp16", head_dim=128, kv_heads=1, cache=device_cache())
        shape = dict(dtype="fp16", head_dim=128, heads=4, kv_heads=1, cache=device_cache())
        self.prompt = device.prefill(**shape, mask="causal", paged=True)
        self.one, self.few = device.decode(**shape), device.decode(**shape, q_len=DRAFTS)
        self.k_cache = np.zeros((ROWS * PAGES, PAGE, 1, 128), np.float16)
        self.v_cache = np.zeros_like(self.k_cache)
        self.out = np.zeros((ROWS * 80, 4, 128), np.float16)

    def inputs(self, token):
        return {name: numbers((n, 128), self.number, token, i) for i, (name, n) in
                enumerate((("q", 4), ("k", 1), ("v", 1)))}

    def launch(self, step, op, **more):
        given = step.inputs[self.number]
        cache = dict(k_cache=self.k_cache, v_cache=self.v_cache, stream=step.stream)
        self.write(k_in=given["k"], v_in=given["v"], slot_mapping=step.cache_slots, **cache)
        op(q=given["q"], out=self.out[:step.tokens], kv_lens=step.lengths, block_table=step.pages, **cache, **more)

    def prefill(self, step):
        self.launch(step, self.prompt, cu_seqlens_q=step.cu, max_seqlen_q=step.longest, max_seqlen_k=PAGE * PAGES)

    def decode(self, step):
        self.launch(step, self.one)

    def verify(self, step):
        self.launch(step, self.few, qo_indptr=step.cu, q_len=DRAFTS)

    def reference(self, tokens):
        given = [self.inputs(t) for t in tokens]
        q, k, v = (np.float64(np.float16([g[name] for g in given])) for name in ("q", "k", "v"))
        out, terms = np.zeros_like(q), np.zeros((len(tokens), 4))
        for t in range(len(tokens)):
            s = q[t] @ k[:t + 1, 0].T * 128 ** -0.5
            p = np.exp(s - s.max(-1, keepdims=True))
            p /= p.sum(-1, keepdims=True)
            out[t] = p @ v[:t + 1, 0]
            terms[t] = length(p @ abs(v[:t + 1, 0])) / length(out[t])
        return out, terms


def device_cache():
    import attn
    return attn.CacheDesc(page_size=PAGE)


KERNELS = [
    {"op": "conv1d", "act": "silu", "bias": [False, True]},
    {"op": "gated_delta", "head_dim": 128, "l2_norm": True},
    {"op": "gated_delta", "head_dim": 128, "l2_norm": True, "decay": "channel", "gates": "bounded", "replay": [False, True]},
    {"op": "gated_delta_prefill", "head_dim": 128, "l2_norm": True},
    {"op": "gated_delta_prefill", "head_dim": 128, "l2_norm": True, "decay": "channel", "gates": "bounded"},
    {"op": "gated_delta_commit", "head_dim": 128, "decay": "channel"},
    {"op": "gated_delta_step", "head_dim": 128, "l2_norm": True, "gqa": 2, "act": "silu"},
    {"op": "gated_delta_step", "head_dim": 128, "l2_norm": True, "gqa": 1, "act": "sigmoid", "decay": "channel",
     "gates": "bounded"},
    {"op": "ssd", "head_dim": 128, "head_dim_v": 64}, {"op": "ssd_prefill", "head_dim": 128, "head_dim_v": 64},
    {"op": "gated_rmsnorm", "width": 128, "act": ["silu", "sigmoid"]},
    {"op": "gated_rmsnorm", "width": 1024, "act": "silu_first"},
    {"op": "state_copy"},
    {"op": "cache_write", "head_dim": 128, "page_size": PAGE},
    {"op": "prefill", "head_dim": 128, "mask": "causal", "paged": True, "page_size": PAGE},
    {"op": "decode", "head_dim": 128, "gqa": 4, "page_size": PAGE, "q_len": [1, DRAFTS]},
]


def stack(device):
    """Returns the layers, and the pool of their states."""
    pool = Pool(SLOTS * (1 << 21) + (1 << 24))
    linear = [Delta(0, device, pool, 2, 4, False), Delta(1, device, pool, 12, 12, True), Mamba2(2, device, pool)]
    return linear + [Attention(3, device)], pool
