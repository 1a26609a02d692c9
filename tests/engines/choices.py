# SPDX-License-Identifier: Apache-2.0
"""Makes transformers' model attend to the keys that an engine's indexers have chosen, and judges the choices.

Scores of two keys are often so close that rounding decides between them, and the model's output then changes as a whole. So
the reference attends to the engine's own choice. A choice is judged by how much more a key that was left out scores than a
chosen one, over the row's largest score. Scores are float32, of queries and keys rounded to fp8. The choices of the bf16
model are judged in the same way."""
import torch


class Choices:
    """Records what the plugin of vLLM chooses, and replaces the indexers of transformers."""

    def __init__(self):
        from attn import _selection
        self.rows, self.layers, self.page, self.exact = {}, {}, None, {}
        self.worst = [0.0, 0.0]  # of the engine's choices, and of the bf16 model's
        plain = _selection.Selection.choose

        def choose(selection, q, weights, cache, ends, sequences, table, longest, out, **more):
            plain(selection, q, weights, cache, ends, sequences, table, longest, out, **more)
            layer = self.layers.setdefault(id(selection), len(self.layers))
            for end, pages, slots in zip(ends.tolist(), table[sequences.long()].tolist(), out.tolist()):
                at = {page: n for n, page in enumerate(pages[:-(-end // selection.page_size)])}
                size = selection.page_size
                self.rows[layer, pages[0], end] = [at[slot // size] * size + slot % size for slot in slots if slot >= 0]

        _selection.Selection.choose = choose

    def take(self, tokens):
        """Chooses the sequence whose last row has `tokens` keys. The reference computes it next."""
        last = {}
        for _, page, end in self.rows:
            last[page] = max(last.get(page, 0), end)
        self.page = next(page for page, end in last.items() if end == tokens)

    def force(self):
        """Replaces the indexers of transformers' DeepSeek-V3.2."""
        from transformers.models.deepseek_v32 import modeling_deepseek_v32 as model

        def forward(indexer, hidden_states, q_resid, position_embeddings, attention_mask, position_ids=None, past_key_values=None):
            rope = indexer.qk_rope_head_dim
            parts = (indexer.wq_b(q_resid).unflatten(-1, (indexer.n_heads, indexer.head_dim)),
                     indexer.k_norm(indexer.wk(hidden_states))[:, :, None])
            rotated = model.apply_rotary_pos_emb(*(x[..., :rope] for x in parts), *position_embeddings, unsqueeze_dim=2)
            q, k = (fp8(torch.cat((a, x[..., rope:]), -1)) for a, x in zip(rotated, parts))
            products = torch.einsum("bshd,btd->bsht", q, k[:, :, 0]).relu()
            scores = torch.einsum("bsh,bsht->bst", indexer.weights_proj(hidden_states).float(), products)[0]
            chosen = [self.rows[indexer.number, self.page, end] for end in range(1, len(scores) + 1)]
            if hidden_states.dtype == torch.float32:  # the float32 model runs first
                self.exact[indexer.number] = scores
            for end, (row, exact, keys) in enumerate(zip(scores, self.exact[indexer.number], chosen), 1):
                own = hidden_states.dtype != torch.float32
                keys = row[:end].topk(min(indexer.index_topk, end)).indices.tolist() if own else keys
                self.worst[own] = max(self.worst[own], gap(exact[:end], keys, indexer.index_topk))
            wide = [keys + keys[:1] * (indexer.index_topk - len(keys)) for keys in chosen]
            return torch.tensor(wide, dtype=torch.int32)[None]

        plain = model.DeepseekV32Indexer.__init__

        def made(indexer, config, layer_idx):
            plain(indexer, config, layer_idx)
            indexer.number = layer_idx

        model.DeepseekV32Indexer.__init__ = made
        model.DeepseekV32Indexer.forward = forward


def gap(scores, keys, top_k):
    """Returns by how much a key that was left out scores more than a chosen one, over the largest score. `scores` are of
    the keys that a row sees."""
    assert len(set(keys)) == min(top_k, len(scores)), f"{len(set(keys))} keys are chosen of {len(scores)}"
    others = [n for n in range(len(scores)) if n not in set(keys)]
    return float((scores[others].max() - scores[keys].min()) / scores.abs().max()) if others else 0.0


def fp8(x):
    """Rounds rows to fp8 with scales that are powers of two."""
    scale = (x.float().abs().amax(-1, keepdim=True).clamp(min=1e-4) / 448).log2().ceil().exp2()
    return (x.float() / scale).to(torch.float8_e4m3fn).float() * scale
