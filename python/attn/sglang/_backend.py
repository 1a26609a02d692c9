# SPDX-License-Identifier: Apache-2.0
"""SGLang's attention backend "attn": for layers whose heads have keys and values. Steps may have whole prompts, chunks,
decode, or a mix.

A step's lengths and pages are copied into tensors that keep their addresses. Each kind of layer has one plan; layers
only launch attention. Captured graphs of decode read the same tensors, so eager steps and replays have one path."""
import copy

import torch
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend
from sglang.srt.layers.radix_attention import AttentionType, RadixAttention
from sglang.srt.layers.rotary_embedding import base as rotations
from sglang.srt.runtime_context import get_spec

import attn.aiter as aiter
from attn import _engine
from attn.aiter import NotServed
from attn.aiter import _common as calls
from attn.sglang import _rotation

MOST_DRAFTS = 64  # largest number of queries per sequence that decode takes; planned prefill takes longer ones
DTYPES = {torch.bfloat16: "bf16", torch.float16: "fp16"}


def layers_of(runner):
    """Returns the attention layers of a runner's model."""
    return [module for module in runner.model.modules() if isinstance(module, RadixAttention)]


def drafts_of():
    """Returns (queries, trees) from SGLang's settings: the largest number of queries per sequence in a step that
    verifies drafts (1 without drafts), and True if drafts may form trees."""
    spec = get_spec()
    trees = (spec.speculative_eagle_topk or 1) > 1 or spec.speculative_algorithm == "NGRAM"
    return spec.speculative_num_draft_tokens or 1, trees


_opened = {}  # {ordinal of a GPU: (entries of a description, Device with their kernels)}


def open_device(runner, entries):
    """Returns the Device for a model, with the kernels of `entries`. A draft model's device also has the target model's
    kernels, since attn.aiter's calls use the last opened device for both models."""
    ordinal = runner.gpu_id if torch.cuda.is_available() else 0
    known, device = _opened.get(ordinal, ((), None))
    if runner.is_draft_worker:
        if all(entry in known for entry in entries):
            return device
        entries = _engine.unique([*known, *entries])
    device = _engine.open_device(entries, ordinal)
    _opened[ordinal] = entries, device
    aiter.use(device=device)
    return device


class Pages:
    """The tensors of a step: keys, pages and first query of each sequence. Their addresses stay the same in all steps,
    as captured graphs need."""

    def __init__(self, runner, sequences):
        pool, self.page = runner.req_to_token_pool, runner.token_to_kv_pool.page_size
        self.tokens = pool.req_to_token
        device, width = self.tokens.device, -(-self.tokens.shape[1] // self.page)
        self.lengths = torch.zeros(sequences, dtype=torch.int32, device=device)
        self.table = torch.zeros(sequences, width, dtype=torch.int32, device=device)
        self.starts = torch.zeros(sequences + 1, dtype=torch.int32, device=device)
        self.counted = torch.arange(sequences + 1, dtype=torch.int32, device=device)
        self.masks, self.mask = torch.zeros(sequences + 1, dtype=torch.int64, device=device), None
        self.translate = getattr(runner.token_to_kv_pool, "translate_loc_from_full_to_swa", None)

    def fill(self, batch):
        """Fills in a step. Returns (lengths, table, starts, largest number of queries of a sequence). batch.seq_lens
        counts the step's tokens, but not drafts to verify: fill() adds their number."""
        n, mode = batch.batch_size, batch.forward_mode
        self.lengths[:n].copy_(batch.seq_lens)
        slots = self.tokens[batch.req_pool_indices, ::self.page]
        torch.div(slots, self.page, rounding_mode="floor", out=self.table[:n])
        longest = 1
        if mode.is_target_verify() or mode.is_draft_extend_v2():
            longest = batch.spec_info.num_tokens_per_req
            self.lengths[:n] += longest if mode.is_target_verify() else 0
            torch.mul(self.counted[:n + 1], longest, out=self.starts[:n + 1])
        elif mode.is_decode():
            self.starts[:n + 1].copy_(self.counted[:n + 1])
        else:
            torch.cumsum(batch.extend_seq_lens, 0, dtype=torch.int32, out=self.starts[1:n + 1])
            longest = max(batch.extend_seq_lens_cpu)
        return self.lengths[:n], self.table[:n], self.starts[:n + 1], longest

    def fill_drafts(self, batch, step, topk, steps):
        """Fills in step number `step` of the `steps` in which a draft model proposes tokens. Each of a sequence's
        `topk` branches is a row with one query. Returns what fill() returns. batch.seq_lens counts no draft. SGLang
        reserves `steps` slots per branch after a sequence, one branch after the other. Several branches need pages of
        one token."""
        n = batch.batch_size
        rows, before = n * topk, batch.seq_lens.repeat_interleave(topk)
        torch.add(before, step + 1, out=self.lengths[:rows])
        pages = torch.div(self.tokens[batch.req_pool_indices, ::self.page], self.page, rounding_mode="floor")
        pages = pages.repeat_interleave(topk, 0)
        if topk > 1:
            branch = torch.arange(topk, device=before.device).repeat(n)
            column = torch.arange(pages.shape[1], device=before.device)[None]
            moved = column + (branch * steps)[:, None] * (column >= before[:, None])
            pages = pages.gather(1, moved.clamp(max=pages.shape[1] - 1))
        self.table[:rows].copy_(pages)
        self.starts[:rows + 1].copy_(self.counted[:rows + 1])
        return self.lengths[:rows], self.table[:rows], self.starts[:rows + 1], 1

    def tree(self, batch):
        """Returns (mask, offset of each sequence in the mask) of a step that verifies trees of drafts; None for any
        other step. A query's row of the mask has a byte for every key of its sequence."""
        spec, n = batch.spec_info, batch.batch_size
        # N-gram drafts have no topk and form trees. A topk of 1 is a chain, which needs no mask.
        if not batch.forward_mode.is_target_verify() or spec.custom_mask is None or getattr(spec, "topk", 0) == 1:
            return None
        torch.cumsum(self.lengths[:n] * spec.num_tokens_per_req, 0, out=self.masks[1:n + 1])
        mask = spec.custom_mask.view(torch.uint8)
        # a larger step is not captured and keeps its own mask
        if self.mask is not None and mask.shape[0] <= self.mask.shape[0]:
            mask = self.mask[:mask.shape[0]].copy_(mask)
        return mask, self.masks[:n + 1]

    def keep_mask(self, queries):
        """Allocates memory for masks of steps of `queries` queries, which captured graphs read."""
        tokens = self.table.shape[1] * self.page
        self.mask = torch.zeros(queries * tokens, dtype=torch.uint8, device=self.table.device)


class Pooled(AttentionBackend):
    """Base of the backends: attention over one of SGLang's pools. A backend plans steps outside of captured graphs."""

    def __init__(self, runner):
        super().__init__()
        self.pool, self.page = runner.token_to_kv_pool, runner.token_to_kv_pool.page_size
        # SGLang itself reads the next three members of each backend.
        self.token_to_kv_pool, self.req_to_token_pool = self.pool, runner.req_to_token_pool
        self.kv_index_translator = runner.kv_index_translator

    def init_cuda_graph_state(self, max_bs, max_num_tokens):
        """Allocates nothing: tensors for the largest batch are there already."""

    def get_cuda_graph_seq_len_fill_value(self):
        return 1

    def support_triton(self):
        return False

    def forward_extend(self, q, k, v, layer, forward_batch, save_kv_cache=True, **kwargs):
        return self.run(q, k, v, layer, forward_batch, save_kv_cache, **kwargs)

    forward_decode = forward_mixed = forward_extend


class Backend(Pooled):
    """Attention over a pool of tokens [slots, heads, D]."""

    def __init__(self, runner, linear=()):
        """`linear` are entries of a description for the model's layers without attention."""
        super().__init__(runner)
        self.dtype, self.views = DTYPES[runner.dtype], {}
        if getattr(self.pool, "full_to_swa_index_mapping", None) is not None:
            raise NotServed("attn", "a pool of its own for layers with a window: --disable-hybrid-swa-memory has one pool")
        fp8 = str(runner.kv_cache_dtype).startswith("torch.float8")
        self.kv_dtype = "fp8" if fp8 else "same"
        self.sinks = any(name.endswith("sinks") for name, _ in runner.model.named_parameters())
        self.kinds = kinds = [self.kind(layer, self.sinks) for layer in layers_of(runner)]
        drafts, self.trees = drafts_of()
        queries = min(drafts, MOST_DRAFTS)
        self.device = device = open_device(runner, [*_engine.kernels(kinds, queries, self.trees), *linear])
        sequences = runner.req_to_token_pool.size
        self.pages = Pages(runner, sequences)
        tokens = max(runner.server_args.chunked_prefill_size or 0, runner.server_args.max_prefill_tokens,
                     sequences * drafts)
        self.steps = _engine.Steps(device, kinds, page_size=self.page, max_batch=sequences, max_tokens=tokens,
                                   decode_queries=queries, trees=self.trees)
        self.one = torch.ones(1, dtype=torch.float32, device=self.pages.table.device)
        self.rotated = {self.pool.get_key_buffer(layer.layer_id).data_ptr(): kind for layer, kind in zip(layers_of(runner), kinds)}
        self.pending = None  # the _rotation.Pending between a call that rotates and the layer's attention; else None
        if not runner.is_draft_worker:
            _rotation.install(self, rotations)

    def fresh(self, runner, rows):
        """Returns a copy of this backend that plans steps of up to `rows` sequences with one query each, in its own
        tensors."""
        out = copy.copy(self)
        out.pages = Pages(runner, rows)
        out.steps = _engine.Steps(self.device, self.kinds, page_size=self.page, max_batch=rows, max_tokens=rows)
        return out

    def plan_drafts(self, batch, *step):
        """Plans a step in which a draft model proposes tokens. `step` are arguments of Pages.fill_drafts()."""
        planned = self.pages.fill_drafts(batch, *step)
        self.steps.plan(*planned, stream=calls.stream(planned[0]))

    def kind(self, layer, sinks):
        """Returns the Kind of a layer."""
        if layer.attn_type != AttentionType.DECODER or layer.is_cross_attention:
            raise NotServed("attn", "attention without a causal mask")
        return _engine.Kind(dtype=self.dtype, heads=layer.tp_q_head_num, kv_heads=layer.tp_k_head_num,
                            head_dim=layer.qk_head_dim, head_dim_v=layer.v_head_dim, scale=float(layer.scaling),
                            window=layer.sliding_window_size, sinks=sinks, soft_cap=float(layer.logit_cap),
                            kv_dtype=self.kv_dtype)

    def init_forward_metadata_out_graph(self, forward_batch, in_capture=False):
        """Plans a step."""
        if forward_batch.forward_mode.is_idle():
            return
        step, tree = self.pages.fill(forward_batch), self.pages.tree(forward_batch)
        self.steps.plan(*step, stream=calls.stream(step[0]), tree=tree)

    def init_cuda_graph_state(self, max_bs, max_num_tokens):
        """Allocates the memory for masks of trees, which captured graphs read. Other tensors exist since __init__()."""
        if self.trees:
            self.pages.keep_mask(max_num_tokens)

    def cache(self, layer):
        """Returns a layer's keys and values [pages, P, heads, D]. Every call returns the same two objects."""
        keys, values = self.pool.get_kv_buffer(layer.layer_id)
        found = self.views.get(layer.layer_id)
        if found is None or found[0].data_ptr() != keys.data_ptr():
            found = self.views[layer.layer_id] = tuple(x.view(-1, self.page, *x.shape[-2:]) for x in (keys, values))
        return found

    def scales(self, layer):
        """Returns the scales of a layer's keys and values, [1] each; 1.0 if the layer has none."""
        return tuple(self.one if x is None else x.view(1) for x in (layer.k_scale, layer.v_scale))

    def run(self, q, k, v, layer, batch, save_kv_cache, sinks=None, **others):
        """Writes the step's keys and values to the pool if save_kv_cache is true, and attends to the pool. Returns
        [tokens, heads * D]."""
        unknown = [name for name, value in others.items() if value is not None and value is not False]
        if unknown:
            raise NotServed("attn", f"arguments {', '.join(unknown)}")
        keys, values = self.cache(layer)
        k_scale, v_scale = self.scales(layer)
        if save_kv_cache and k is not None:
            aiter.reshape_and_cache_flash(k.view(-1, *keys.shape[-2:]), v.view(-1, *values.shape[-2:]), keys, values,
                                          batch.out_cache_loc, "fp8" if self.kv_dtype == "fp8" else "auto", k_scale, v_scale)
        q = q.view(-1, layer.tp_q_head_num, layer.qk_head_dim)
        out = q.new_empty(q.shape[0], layer.tp_q_head_num, layer.v_head_dim)
        kind, (pending, self.pending) = self.kind(layer, self.sinks), (self.pending, None)
        tensors = {"k_scale": k_scale, "v_scale": v_scale, "stream": calls.stream(q),
                   "sinks": None if sinks is None else self.float(sinks)}
        if pending is None:
            self.steps.run(kind, q, keys, values, out, **tensors)
        else:
            pending.check(q, keys)
            self.steps.run_rotated(kind, pending.rotation, *pending.rows, keys, values, out, **pending.tables, **tensors)
        return out.view(q.shape[0], -1)

    def float(self, sinks):
        """Returns sinks as float32. The copy is made once for a tensor."""
        return calls.sinks_of(calls.session(sinks), sinks)
