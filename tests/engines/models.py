# SPDX-License-Identifier: Apache-2.0
"""Writes tiny models with random weights, and compares an engine's tokens with transformers' results.

An engine's tokens are forced upon transformers: each position then has the engine's own prefix, so a tie between two
tokens cannot make the rest differ. float32 is the reference. The difference of transformers' own bf16 from float32
measures the effect of rounding."""
import hashlib
import json
import os

import torch

from whole_folder import whole

VOCABULARY = 512
COMMON = dict(vocab_size=VOCABULARY, hidden_size=256, intermediate_size=512, num_hidden_layers=2, max_position_embeddings=512,
              tie_word_embeddings=False, bos_token_id=None, eos_token_id=None, pad_token_id=None)
HEADS = dict(num_attention_heads=4, num_key_value_heads=2, head_dim=128)
MLA = dict(num_attention_heads=8, num_key_value_heads=8, q_lora_rank=128, kv_lora_rank=512, qk_nope_head_dim=128,
           qk_rope_head_dim=64, v_head_dim=128, first_k_dense_replace=2, n_routed_experts=8, num_experts_per_tok=2, n_group=1,
           topk_group=1, moe_intermediate_size=128, moe_layer_freq=1)
YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=128, mscale=1.0, mscale_all_dim=1.0,
            beta_fast=32, beta_slow=1)

# {name: (class of the configuration, its settings)}
MODELS = {
    "qwen3": ("Qwen3Config", dict(HEADS, initializer_range=0.2)),
    "llama": ("LlamaConfig", dict(num_attention_heads=8, num_key_value_heads=2, head_dim=64, initializer_range=0.2)),
    # The target of the draft model that write_draft() makes.
    "llama-1": ("LlamaConfig", dict(HEADS, num_hidden_layers=1, initializer_range=0.2)),
    "mistral": ("MistralConfig", dict(HEADS, sliding_window=24, initializer_range=0.2)),
    "gemma2": ("Gemma2Config", dict(HEADS, sliding_window=24, query_pre_attn_scalar=128, attn_logit_softcapping=20.0,
                                    final_logit_softcapping=None, initializer_range=0.2, tie_word_embeddings=True,
                                    hidden_act="gelu_pytorch_tanh")),  # SGLang reads the activation under this name
    "gemma3": ("Gemma3TextConfig", dict(HEADS, sliding_window=24, query_pre_attn_scalar=128, initializer_range=0.2,
                                        layer_types=["sliding_attention", "full_attention"])),
    "gpt-oss": ("GptOssConfig", dict(num_attention_heads=8, num_key_value_heads=2, head_dim=64, sliding_window=24,
                                     intermediate_size=128, num_local_experts=4, num_experts_per_tok=2, initializer_range=0.2,
                                     layer_types=["sliding_attention", "full_attention"])),
    "qwen3-next": ("Qwen3NextConfig", dict(
        HEADS, layer_types=["linear_attention", "full_attention"], full_attention_interval=2, linear_num_key_heads=2,
        linear_num_value_heads=4, linear_key_head_dim=128, linear_value_head_dim=128, num_experts=2, num_experts_per_tok=2,
        moe_intermediate_size=128, shared_expert_intermediate_size=128, initializer_range=0.2)),
    "granite-4": ("GraniteMoeHybridConfig", dict(
        num_attention_heads=4, num_key_value_heads=2, layer_types=["linear_attention", "full_attention"], mamba_n_heads=8,
        mamba_d_head=64, mamba_d_state=128, mamba_n_groups=1, num_local_experts=0, num_experts_per_tok=0, shared_intermediate_size=512,
        attention_multiplier=0.125, initializer_range=0.2)),
    # 4 groups of 2 heads share B and C, and the gated norm is of each group.
    "nemotron-h": ("NemotronHConfig", dict(
        HEADS, layers_block_type=["linear_attention", "full_attention"], mamba_num_heads=8, mamba_head_dim=64, ssm_state_size=128,
        n_groups=4, initializer_range=0.2, rescale_prenorm_residual=False)),
    "deepseek": ("DeepseekV3Config", dict(MLA, initializer_range=0.1)),
    # The target of a draft model with keys and values.
    "deepseek-1": ("DeepseekV3Config", dict(MLA, num_hidden_layers=1, initializer_range=0.1, rope_parameters=YARN)),
    # One layer, and a layer for multi-token prediction that add_prediction() makes from it. The prediction layer has no
    # experts.
    "deepseek-mtp": ("DeepseekV3Config", dict(MLA, num_hidden_layers=1, num_nextn_predict_layers=1, initializer_range=0.1,
                                              rope_parameters=YARN)),
    # The same for SGLang, where a prediction layer always has experts. Shared experts are as wide as the first layer's
    # unit. The model has two layers, since SGLang would take a model of one layer for the prediction layer. SGLang
    # reads topk_method and scoring_func.
    "deepseek-nextn": ("DeepseekV3Config", dict(MLA, num_nextn_predict_layers=1, initializer_range=0.1, rope_parameters=YARN,
                                                n_shared_experts=4, topk_method="noaux_tc", scoring_func="sigmoid")),
    # An indexer that chooses 16 of up to 45 keys.
    "deepseek-v32": ("DeepseekV32Config", dict(MLA, initializer_range=0.1, index_topk=16, index_n_heads=8, index_head_dim=128)),
    "deepseek-v32-yarn": ("DeepseekV32Config", dict(
        MLA, initializer_range=0.1, index_topk=16, index_n_heads=8, index_head_dim=128, rope_parameters=YARN)),
    # A KDA layer, and latent attention without rotation. The engines read linear_attn_config and mla_use_nope.
    "kimi-linear": ("KimiLinearConfig", dict(
        MLA, q_lora_rank=None, initializer_range=0.1, linear_attn_config=dict(
            head_dim=128, num_heads=4, short_conv_kernel_size=4, kda_layers=[1], full_attn_layers=[2]),
        mla_use_nope=True, moe_router_activation_func="sigmoid", rms_norm_eps=1e-5)),
    "deepseek-yarn": ("DeepseekV3Config", dict(MLA, initializer_range=0.1, rope_parameters=YARN)),
}
# {model: (a part of tensors' names as transformers writes it, the same part as the engines read it)}
NAMES = {"kimi-linear": (".block_sparse_moe.", ".mlp.")}
# {model: fields of its configuration in place of layers_block_type}. Both engines read hybrid_override_pattern, as published
# configurations have it: M is Mamba2, * attention. mamba_n_groups is SGLang's name for the number of groups.
PATTERNS = {"nemotron-h": dict(hybrid_override_pattern="M*", mamba_n_groups=4)}
PREDICTING = ("deepseek-mtp", "deepseek-nextn")  # models whose drafts come from their own prediction layer
DRAFTED = ("llama-1", "deepseek-1", *PREDICTING)
MAMBA2 = ("granite-4", "nemotron-h")  # models whose layers are compared with vLLM's by mixers.py
PROMPTS = [[5, 17, 300, 41, 7, 99, 123, 8, 77, 260, 33], list(range(40, 77))]
FP8 = {"gfx942": "float8_e4m3fnuz", "gfx950": "float8_e4m3fn"}


def load():
    """Imports transformers with its table of weights' names, which takes longer to make than a tiny model takes to run."""
    from transformers import conversion_mapping
    conversion_mapping.get_checkpoint_conversion_mapping("llama")


def write(name, folder):
    """Writes a model's configuration and weights to a folder in `folder`, unless they are there. Returns its path,
    which ends in a hash of the settings, so that a model with other settings is never used."""
    kind, settings = MODELS[name]
    settings, changes = {**COMMON, **settings}, [table[name] for table in (NAMES, PATTERNS) if name in table]
    path = os.path.join(folder, f"{name}-{hashlib.sha256(repr((kind, settings, *changes)).encode()).hexdigest()[:8]}")
    if not os.path.exists(os.path.join(path, "config.json")):
        with whole(path, "config.json") as made:
            write_files(name, kind, settings, made)
    return path


def write_files(name, kind, settings, path):
    """Writes configuration and weights of the model `name` of MODELS to the folder `path`. `kind` is the class of the configuration,
    `settings` are its arguments."""
    import transformers
    torch.manual_seed(0)
    config = getattr(transformers, kind)(**settings)
    model = transformers.AutoModelForCausalLM.from_config(config)
    for parameter in (p for n, p in model.named_parameters() if n.endswith("sinks")):
        torch.nn.init.normal_(parameter)
    model.to(torch.bfloat16).save_pretrained(path)
    if name in DRAFTED:
        level(os.path.join(path, "model.safetensors"))
    if name in PREDICTING:
        add_prediction(os.path.join(path, "model.safetensors"), config)
    if name in NAMES:
        rename(os.path.join(path, "model.safetensors"), *NAMES[name])
    if name in PATTERNS:
        set_pattern(os.path.join(path, "config.json"), PATTERNS[name])


def level(path):
    """Divides the rows of a model's embeddings by their root mean square, so that the norm before the first layer
    changes nothing."""
    from safetensors.torch import load_file, save_file
    weights = load_file(path)
    rows = weights["model.embed_tokens.weight"].float()
    weights["model.embed_tokens.weight"] = (rows * rows.square().mean(-1, keepdim=True).rsqrt()).to(torch.bfloat16)
    save_file(weights, path, metadata={"format": "pt"})


def add_prediction(path, config):
    """Adds a layer for multi-token prediction to the weights of a model, as DeepSeek-V3's checkpoints have it. The
    layer is a copy of the model's first layer and uses a token's embedding, not the hidden state, so that most drafts
    are accepted. Outputs of a second layer are made small. If `config` has several shared experts, they are the copied
    layer's unit, and other experts add nothing."""
    from safetensors.torch import load_file, save_file
    weights, old, new = load_file(path), "model.layers.0.", f"model.layers.{config.num_hidden_layers}."
    for key in ("model.layers.1.self_attn.o_proj.weight", "model.layers.1.mlp.down_proj.weight"):
        if key in weights:
            weights[key] = weights[key] / 16
    more = {new + key[len(old):]: x.clone() for key, x in weights.items() if key.startswith(old)}
    if config.n_shared_experts > 1:
        more = {key.replace(".mlp.", ".mlp.shared_experts."): x for key, x in more.items()}
        add_experts(more, new + "mlp.", config)
    rows = weights["model.embed_tokens.weight"]
    size, one = rows.shape[1], torch.ones(rows.shape[1], dtype=torch.bfloat16)
    more.update({new + "embed_tokens.weight": rows.clone(), new + "enorm.weight": one, new + "hnorm.weight": one.clone(),
                 new + "eh_proj.weight": torch.cat((torch.eye(size), torch.zeros(size, size)), 1).to(torch.bfloat16),
                 new + "shared_head.norm.weight": weights["model.norm.weight"].clone(),
                 new + "shared_head.head.weight": weights["lm_head.weight"].clone()})
    save_file({**weights, **more}, path, metadata={"format": "pt"})


def add_experts(weights, prefix, config):
    """Adds routed experts that return zeros, and the gate that chooses them, to the weights of a layer."""
    size, width, count = config.hidden_size, config.moe_intermediate_size, config.n_routed_experts
    weights[prefix + "gate.weight"] = torch.zeros(count, size, dtype=torch.bfloat16)
    weights[prefix + "gate.e_score_correction_bias"] = torch.zeros(count)
    for n in range(count):
        for name, shape in ("gate_proj", (width, size)), ("up_proj", (width, size)), ("down_proj", (size, width)):
            weights[f"{prefix}experts.{n}.{name}.weight"] = torch.zeros(shape, dtype=torch.bfloat16)


def write_draft(target, engine):
    """Writes an EAGLE draft model beside a model of DRAFTED, whose path `target` is. Returns its path.

    The model takes the embedding of a token and not the target's hidden state, and has the target's one layer. The
    draft model has no key of the first token. It lacks the target's first and last norm, whose weights are 1: the first
    changes nothing, the last does not change the order of tokens. So most drafts are accepted, and some are not. For a
    target with latent attention, take_heads() gives the draft model keys and values."""
    from safetensors.torch import load_file, save_file
    path = f"{target}-draft-{engine}"
    if os.path.exists(os.path.join(path, "config.json")):
        return path
    layer = "model.layers.0."
    weights = {key[len("model."):]: x for key, x in load_file(os.path.join(target, "model.safetensors")).items()
               if key.startswith(layer) and "input_layernorm" not in key}
    with open(os.path.join(target, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    if "kv_lora_rank" in config:
        config = take_heads(weights)
    size = config["hidden_size"]
    weights["fc.weight"] = torch.cat((torch.eye(size), torch.zeros(size, size)), 1).to(torch.bfloat16)
    if engine == "sglang":
        weights["fc.bias"] = torch.zeros(size, dtype=torch.bfloat16)
    name = {"sglang": "LlamaForCausalLMEagle", "vllm": "LlamaForCausalLM"}[engine]
    with whole(path, "config.json") as made:
        save_file(weights, os.path.join(made, "model.safetensors"), metadata={"format": "pt"})
        with open(os.path.join(made, "config.json"), "w", encoding="utf-8") as file:
            json.dump(dict(config, architectures=[name]), file, indent=2)
    return path


def take_heads(weights):
    """Replaces latent attention in the weights of a draft model's layer by heads with keys and values. Returns the
    model's configuration. The new weights are small, so that the target's feed-forward unit decides most tokens."""
    import transformers
    config = transformers.LlamaConfig(**{**COMMON, **HEADS, "num_hidden_layers": 1})
    for key in [key for key in weights if ".self_attn." in key]:
        del weights[key]
    size, of_heads = config.hidden_size, [n * config.head_dim for n in (config.num_attention_heads, config.num_key_value_heads)]
    torch.manual_seed(0)
    for name, shape in (("q", (of_heads[0], size)), ("k", (of_heads[1], size)), ("v", (of_heads[1], size)), ("o", (size, of_heads[0]))):
        weights[f"layers.0.self_attn.{name}_proj.weight"] = torch.empty(shape).normal_(std=0.02).to(torch.bfloat16)
    return config.to_dict()


def rename(path, old, new):
    """Replaces `old` by `new` in the names of all tensors in the model's file of weights."""
    from safetensors.torch import load_file, save_file
    save_file({key.replace(old, new): x for key, x in load_file(path).items()}, path, metadata={"format": "pt"})


def set_pattern(path, fields):
    """Replaces the list of layers in a model's configuration by the fields `fields`."""
    with open(path, encoding="utf-8") as file:
        config = json.load(file)
    del config["layers_block_type"]
    with open(path, "w", encoding="utf-8") as file:
        json.dump(dict(config, **fields), file, indent=2)


def rounding_cache(kind):
    """Returns a cache of transformers that rounds keys and values to the fp8 type `kind`, with a scale of 1."""
    from transformers import DynamicCache

    class Rounded(DynamicCache):
        def update(self, keys, values, *args, **kwargs):
            return super().update(keys.to(kind).to(keys.dtype), values.to(kind).to(values.dtype), *args, **kwargs)
    return Rounded()


class Reference:
    """transformers' log probabilities of the tokens that an engine made, in float32 and in bf16."""

    def __init__(self, path, kind=None, choices=None):
        """`kind` is the fp8 type of the engine's cache; None: 16 bits. `choices` are the keys that the engine has
        chosen; None: no indexer."""
        import transformers
        self.kind = kind
        with open(os.path.join(path, "config.json"), encoding="utf-8") as file:
            # The class is found by name, since an engine may have registered another class for the model's type.
            found = getattr(transformers, json.load(file)["architectures"][0])
        self.choices = choices
        if choices:
            choices.force()
        self.models = [found.from_pretrained(path, dtype=dtype, attn_implementation="eager").eval()
                       for dtype in (torch.float32, torch.bfloat16)]

    def rows(self, model, prompt, made):
        """Returns the log probabilities [tokens made, vocabulary] from which each token of `made` was chosen."""
        ids = torch.tensor([prompt + made[:-1]])
        cache = {"past_key_values": rounding_cache(self.kind)} if self.kind else {}
        with torch.no_grad():
            logits = model(ids, **cache).logits[0, len(prompt) - 1:]
        return logits.float().log_softmax(-1)

    def judge(self, prompt, made, rows):
        """Returns three differences of log probabilities: the engine's largest from float32, bf16's largest from
        float32, and the largest amount by which a token of the engine is below float32's best token. `rows` are the
        engine's log probabilities, [tokens made, vocabulary]."""
        if self.choices:
            self.choices.take(len(prompt) + len(made) - 1)
        exact, rounded = (self.rows(model, prompt, made) for model in self.models)
        below = exact.max(-1).values - exact.gather(-1, torch.tensor(made)[:, None])[:, 0]
        return float((rows - exact).abs().max()), float((rounded - exact).abs().max()), float(below.max())
