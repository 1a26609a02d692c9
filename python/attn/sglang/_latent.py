# SPDX-License-Identifier: Apache-2.0
"""SGLang's attention backend "attn" for models with latent attention: absorbed decode and absorbed prefill, over a pool of
latents [slots, 1, latent + rope]."""
import copy

import torch

import attn.aiter as aiter
from attn import _engine
from attn.aiter import NotServed
from attn.aiter import _common as calls
from attn.aiter._mla import plan_prefill
from attn.sglang._backend import DTYPES, MOST_DRAFTS, Pages, Pooled, drafts_of, layers_of, open_device

PIECE = 16  # largest number of queries of a sequence in one piece of absorbed prefill
ROWS = 1024  # largest product of heads and queries of a sequence that mla_decode takes


def kind_of(runner):
    """Returns the LatentKind of a model's layers."""
    config = runner.model_config
    fp8 = str(runner.kv_cache_dtype).startswith("torch.float8")
    layer = next(x for x in layers_of(runner) if x.tp_k_head_num == 1 and x.v_head_dim == config.kv_lora_rank)
    return _engine.LatentKind(
        dtype=DTYPES[runner.dtype], heads=layer.tp_q_head_num, latent=config.kv_lora_rank, rope=config.qk_rope_head_dim,
        head_dim=config.qk_nope_head_dim + config.qk_rope_head_dim, head_dim_v=config.v_head_dim,
        scale=float(layer.scaling), kv_dtype="fp8" if fp8 else "same")


class LatentRows(Pooled):
    """Base of backends of latent attention: views of queries and of the pool as rows. `kind` is a LatentKind."""

    def rows(self, layer):
        """Returns a layer's latents and rotated keys [pages, P, 1, latent + rope]."""
        return self.pool.get_key_buffer(layer.layer_id).view(-1, self.page, 1, self.kind.latent + self.kind.rope)

    def write(self, layer, rows, k, k_rope, slots, scale):
        """Writes the step's latents k to `slots` of the pool `rows`. Rotated keys are k_rope, or if that is None the
        last elements of k."""
        latents, rotated = (k, k_rope) if k_rope is not None else k.split([self.kind.latent, self.kind.rope], -1)
        aiter.concat_and_cache_mla(latents.reshape(-1, self.kind.latent), rotated.reshape(-1, self.kind.rope),
                                   rows[:, :, 0], slots, "fp8" if self.kind.kv_dtype == "fp8" else "auto", scale)

    @staticmethod
    def queries(q, q_rope, layer):
        """Returns queries [tokens, heads, latent + rope]. If q_rope is not None, it is the rotated part, and q lacks
        that part."""
        q = q.view(-1, layer.tp_q_head_num, q.shape[-1] // (1 if q.ndim == 3 else layer.tp_q_head_num))
        return q if q_rope is None else torch.cat((q, q_rope.view(*q.shape[:2], -1)), -1)


class LatentBackend(LatentRows):
    """Attention of queries [tokens, heads, latent + rope] to a pool of latents."""

    def __init__(self, runner, linear=()):
        """`linear` are entries of a description for layers without attention."""
        super().__init__(runner)
        self.kind = kind_of(runner)
        drafts, most = drafts_of()[0], min(ROWS // self.kind.heads, MOST_DRAFTS)
        self.drafts = drafts if drafts <= most else 1  # with more drafts a step that verifies them is prefill
        entries = _engine.latent_kernels([self.kind], self.drafts, absorbed=True)
        pieces = [1, next(n for n in (PIECE, 8, 4, 2) if n <= most)]
        entries += [{**entry, "page_table": "indices", "q_len": pieces} for entry in entries if entry["op"] == "mla_decode"]
        self.device = device = open_device(runner, [*entries, *linear])
        sequences = runner.req_to_token_pool.size
        self.pages = Pages(runner, sequences)
        # {queries of a sequence: LatentSteps}, for steps of one query and steps that verify drafts.
        self.steps = {queries: _engine.LatentSteps(device, self.kind, page_size=self.page, max_batch=sequences,
                                                   decode_queries=queries) for queries in (1, self.drafts)}
        self.planned = None  # the member of self.steps that planned the current step; None in a step with prompts
        self.one = torch.ones(1, dtype=torch.float32, device=self.pages.table.device)
        self.step = None
        self.pieces = None  # a function that computes a layer of a step with prompts; None before its first layer

    def fresh(self, runner, rows):
        """Returns a copy that plans steps of up to `rows` queries, one of each sequence, in tensors of its own."""
        out = copy.copy(self)
        out.pages = Pages(runner, rows)
        out.planned = _engine.LatentSteps(self.device, self.kind, page_size=self.page, max_batch=rows)
        return out

    def plan_drafts(self, batch, *step):
        """Plans a step in which a draft model proposes tokens. `step` are arguments of Pages.fill_drafts()."""
        lengths, table, starts, _ = self.pages.fill_drafts(batch, *step)
        self.planned.plan(lengths, table, starts, calls.stream(lengths))

    def init_forward_metadata_out_graph(self, forward_batch, in_capture=False):
        """Plans a step of decode, one that verifies a chain of drafts, or one in which a draft model takes verified
        tokens. For a step with prompts it only makes lists of pages, which prefill() reads."""
        if forward_batch.forward_mode.is_idle():
            return
        lengths, table, starts, longest = self.step = self.pages.fill(forward_batch)
        self.pieces = None
        if self.pages.tree(forward_batch):
            raise NotServed("attn", "latent attention to drafts that form trees")
        mode = forward_batch.forward_mode
        decodes = longest <= self.drafts and (mode.is_decode() or mode.is_target_verify() or mode.is_draft_extend_v2())
        self.planned = self.steps[1 if longest == 1 else self.drafts] if decodes else None
        if self.planned:
            self.planned.plan(lengths, table, starts, calls.stream(lengths))
        elif in_capture:  # a graph would not read the new lists of pages that a step of prefill makes
            raise NotServed("attn", f"captured steps of {longest} queries a sequence and {self.kind.heads} heads")
        else:
            counts = (lengths + self.page - 1) // self.page
            self.indptr = torch.nn.functional.pad(counts.cumsum(0, dtype=torch.int32), (1, 0))
            width = torch.arange(table.shape[1], device=table.device)
            self.indices = table[width[None] < counts[:, None]]
            self.last = lengths - (counts - 1) * self.page

    def run(self, q, k, v, layer, batch, save_kv_cache, k_rope=None, q_rope=None, **others):
        """Writes the step's latents to the pool if save_kv_cache is true, and attends to the pool."""
        unknown = [name for name, value in others.items() if value is not None and value is not False]
        if unknown or layer.tp_k_head_num != 1:
            raise NotServed("attn", f"latent attention with {', '.join(unknown) or 'expanded keys'}")
        rows, scale = self.rows(layer), self.one if layer.k_scale is None else layer.k_scale.view(1)
        if save_kv_cache and k is not None:
            self.write(layer, rows, k, k_rope, batch.out_cache_loc, scale)
        q = self.queries(q, q_rope, layer)
        out = q.new_empty(*q.shape[:2], self.kind.latent)
        if self.planned:
            self.planned.run(q, rows[:, :, 0], out, k_scale=scale, stream=calls.stream(q))
        else:
            self.prefill(q, rows, out)
        return out.view(q.shape[0], -1)

    def prefill(self, q, rows, out):
        """Computes prompts and chunks of prompts in one launch. Long ones are cut into pieces of up to PIECE
        queries. The step's first layer makes the pieces and the plan for all layers."""
        if self.kind.kv_dtype == "fp8":
            raise NotServed("attn", "absorbed prefill over a cache of fp8")
        _, _, starts, longest = self.step
        if self.pieces is None:
            self.pieces = plan_prefill(q, rows, out, starts, self.indptr, self.indices, self.last, longest,
                                       sm_scale=self.kind.scale)
        self.pieces(q, rows, out)
