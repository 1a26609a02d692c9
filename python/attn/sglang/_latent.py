# SPDX-License-Identifier: Apache-2.0
"""SGLang's attention backend "attn" for models with latent attention: absorbed decode and absorbed prefill, over a pool of
latents [slots, 1, latent + rope]."""
import torch

import attn.aiter as aiter
from attn import _engine
from attn.aiter import NotServed
from attn.aiter import _common as calls
from attn.sglang._backend import DTYPES, MOST_DRAFTS, Pages, Pooled, drafts_of, layers_of

PIECE = 16  # queries of a sequence in a workgroup of absorbed prefill, at most
ROWS = 1024  # most heads times queries of a sequence that mla_decode takes


class LatentBackend(Pooled):
    """Attention of queries [tokens, heads, latent + rope] to a pool of latents."""

    def __init__(self, runner):
        super().__init__(runner)
        config = runner.model_config
        fp8 = str(runner.kv_cache_dtype).startswith("torch.float8")
        layer = next(x for x in layers_of(runner) if x.tp_k_head_num == 1 and x.v_head_dim == config.kv_lora_rank)
        self.kind = _engine.LatentKind(
            dtype=DTYPES[runner.dtype], heads=layer.tp_q_head_num, latent=config.kv_lora_rank, rope=config.qk_rope_head_dim,
            head_dim=config.qk_nope_head_dim + config.qk_rope_head_dim, head_dim_v=config.v_head_dim,
            scale=float(layer.scaling), kv_dtype="fp8" if fp8 else "same")
        drafts, most = drafts_of()[0], min(ROWS // self.kind.heads, MOST_DRAFTS)
        self.drafts = drafts if drafts <= most else 1  # more are prefill
        entries = _engine.latent_kernels([self.kind], self.drafts, absorbed=True)
        pieces = [1, next(n for n in (PIECE, 8, 4, 2) if n <= most)]
        entries += [{**entry, "page_table": "indices", "q_len": pieces} for entry in entries if entry["op"] == "mla_decode"]
        device = _engine.open_device(entries, runner.gpu_id if torch.cuda.is_available() else 0)
        aiter.use(device=device)
        sequences = runner.req_to_token_pool.size
        self.pages = Pages(runner, sequences)
        # Steps of one query a sequence, and steps that verify drafts.
        self.steps = {queries: _engine.LatentSteps(device, self.kind, page_size=self.page, max_batch=sequences,
                                                   decode_queries=queries) for queries in (1, self.drafts)}
        self.planned = None  # the current step's entry of self.steps; None in a step with prompts
        self.one = torch.ones(1, dtype=torch.float32, device=self.pages.table.device)
        self.step = None

    def init_forward_metadata_out_graph(self, forward_batch, in_capture=False):
        """Plans a step of decode, or one that verifies a chain of drafts; a step with prompts keeps its lists of pages."""
        if forward_batch.forward_mode.is_idle():
            return
        lengths, table, starts, longest = self.step = self.pages.fill(forward_batch)
        if self.pages.tree(forward_batch):
            raise NotServed("attn", "latent attention to drafts that form trees")
        mode = forward_batch.forward_mode
        decodes = longest <= self.drafts and (mode.is_decode() or mode.is_target_verify())
        self.planned = self.steps[1 if longest == 1 else self.drafts] if decodes else None
        if self.planned:
            self.planned.plan(lengths, table, starts, calls.stream(lengths))
        elif in_capture:  # a step of prefill makes new lists of pages, which no graph reads
            raise NotServed("attn", f"captured steps of {longest} queries a sequence and {self.kind.heads} heads")
        else:
            counts = (lengths + self.page - 1) // self.page
            self.indptr = torch.nn.functional.pad(counts.cumsum(0, dtype=torch.int32), (1, 0))
            width = torch.arange(table.shape[1], device=table.device)
            self.indices = table[width[None] < counts[:, None]]
            self.last = lengths - (counts - 1) * self.page

    def run(self, q, k, v, layer, batch, save_kv_cache, k_rope=None, q_rope=None, **others):
        """Writes the step's latents, and attends to the pool."""
        unknown = [name for name, value in others.items() if value is not None and value is not False]
        if unknown or layer.tp_k_head_num != 1:
            raise NotServed("attn", f"latent attention with {', '.join(unknown) or 'expanded keys'}")
        rows = self.pool.get_key_buffer(layer.layer_id).view(-1, self.page, 1, self.kind.latent + self.kind.rope)
        scale = self.one if layer.k_scale is None else layer.k_scale.view(1)
        if save_kv_cache and k is not None:
            latents, rotated = (k, k_rope) if k_rope is not None else k.split([self.kind.latent, self.kind.rope], -1)
            aiter.concat_and_cache_mla(latents.reshape(-1, self.kind.latent), rotated.reshape(-1, self.kind.rope),
                                       rows[:, :, 0], batch.out_cache_loc, "fp8" if self.kind.kv_dtype == "fp8" else "auto",
                                       scale)
        q = q.view(-1, layer.tp_q_head_num, q.shape[-1] // (1 if q.ndim == 3 else layer.tp_q_head_num))
        if q_rope is not None:
            q = torch.cat((q, q_rope.view(*q.shape[:2], -1)), -1)
        out = q.new_empty(*q.shape[:2], self.kind.latent)
        if self.planned:
            self.planned.run(q, rows[:, :, 0], out, k_scale=scale, stream=calls.stream(q))
        else:
            self.prefill(q, rows, out)
        return out.view(q.shape[0], -1)

    def prefill(self, q, rows, out):
        """Prompts and chunks of them, in one launch of pieces."""
        if self.kind.kv_dtype == "fp8":
            raise NotServed("attn", "absorbed prefill over a cache of fp8")
        _, _, starts, longest = self.step
        aiter.mla_prefill_fwd(q, rows, out, starts, self.indptr, self.indices, self.last, longest,
                              sm_scale=self.kind.scale)
