#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests attnc step: its sums, its choice among ways to launch a stage, and each figure against attnc trace.

Usage: step.py ATTNC HIP_LIBRARIES

HIP_LIBRARIES are folders with the simulator as amdhip64.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

attnc, hip = os.path.abspath(sys.argv[1]), sys.argv[2]
os.chdir(tempfile.mkdtemp(prefix="step."))

WINDOWS = {"model_type": "gpt_oss", "hidden_size": 512, "num_attention_heads": 16, "num_key_value_heads": 2,
           "num_hidden_layers": 6, "head_dim": 64, "sliding_window": 128, "attention_bias": True,
           "layer_types": ["sliding_attention", "full_attention", "full_attention"] * 2}
LATENT = {"model_type": "deepseek_v3", "hidden_size": 512, "num_attention_heads": 32, "num_key_value_heads": 32,
          "num_hidden_layers": 3, "q_lora_rank": 512, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
          "qk_rope_head_dim": 64, "v_head_dim": 128}

SPARSE = LATENT | {"model_type": "deepseek_v32", "index_n_heads": 64, "index_head_dim": 128, "index_topk": 2048}
ENCODER = {"architectures": ["ModernBertForMaskedLM"], "model_type": "modernbert", "hidden_size": 1024,
           "num_attention_heads": 16, "num_hidden_layers": 3, "global_attn_every_n_layers": 3,
           "local_attention": 128}

HYBRID = {"model_type": "qwen3_next", "hidden_size": 2048, "num_attention_heads": 16, "num_key_value_heads": 2,
          "num_hidden_layers": 8, "head_dim": 256}

ROWS = {"model_type": "deepseek_v41_text", "hidden_size": 512, "num_attention_heads": 16, "num_key_value_heads": 1,
        "num_hidden_layers": 8, "head_dim": 512, "qk_rope_head_dim": 64, "q_lora_rank": 512, "sliding_window": 128,
        "compress_ratios": [0, 2, 2, 2, 1, 1, 1, 1], "kv_source_layer_ids": [1, 4],
        "index_source_layer_ids": [1, 4, 6], "candidate_source_layer_id": 4, "candidate_topk_blocks": 64,
        "candidate_block_size": 8, "index_n_heads": 32, "index_head_dim": 128, "index_topk": 64}
BLOCKS = {"model_type": "minimax_m3", "hidden_size": 512, "num_attention_heads": 32, "num_key_value_heads": 4,
          "num_hidden_layers": 3, "head_dim": 128, "rotary_dim": 64, "sparse_attention_config": {
              "sparse_index_dim": 128, "sparse_num_index_heads": 4, "sparse_topk_blocks": 16, "sparse_block_size": 128,
              "sparse_attention_freq": [0, 1, 1]}}

STEP = {"architecture", "model_type", "target", "device", "gpu", "tp", "batch", "context", "queries", "launch_us",
        "graph_node_us", "layers", "plans", "step_us", "missing"}
KIND = {"kind", "layers", "heads", "kv_heads", "us", "graph_us", "launches", "ways"}
LAUNCH = {"op", "kernel", "shape", "us", "launch_us", "share", "cycles", "least_bytes", "memory_share",
          "matrix_share", "bound"}
WAY = {"stage", "way", "launches", "graph_us", "taken", "fault"}


def run(words, status=0, **environment):
    """Runs attnc with `words` and returns the finished process. `status` is the exit code that it must have."""
    done = subprocess.run([attnc, *words.split()], capture_output=True, text=True, env=os.environ | environment)
    assert done.returncode == status, (words, done.returncode, done.stdout[-2000:], done.stderr[-2000:])
    return done


def near(a, b):
    """Checks that two numbers are equal, except for rounding in the output."""
    assert abs(a - b) <= 1e-4 * max(abs(a), abs(b)) + 1e-9, (a, b)


def step(words, status=0, **environment):
    """Runs attnc step --json, checks the object's members and sums, and returns it."""
    s = json.loads(run(f"step --json --cache cache {words}", status, **environment).stdout)
    assert set(s) == STEP, set(s) ^ STEP
    total = s["launch_us"] - s["graph_node_us"]
    for kind in s["layers"]:
        assert set(kind) == KIND, set(kind) ^ KIND
        launches = kind["launches"]
        near(kind["us"], sum(x["us"] for x in launches))
        near(kind["graph_us"], kind["us"] - s["launch_us"] + s["graph_node_us"])
        near(sum(x["share"] for x in launches), 1)
        for i, x in enumerate(launches):
            assert set(x) == LAUNCH, set(x) ^ LAUNCH
            near(x["launch_us"], s["graph_node_us"] if i else s["launch_us"])
            assert x["us"] > x["launch_us"], x
            most = max(x["memory_share"], x["matrix_share"])
            assert x["bound"] == (None if most == 0 else "latency" if most < 0.5 else
                                  "HBM" if most == x["memory_share"] else "matrix"), x
        check_ways(s, kind)
        total += kind["layers"] * kind["graph_us"]
    for plan in s["plans"]:
        assert set(plan) == LAUNCH and plan["op"] == "plan"
        total += plan["us"]
    near(s["step_us"], total)
    return s


def is_whole(way):
    """True if the kernel of a way also computes an adjacent stage: the rotation before attention, or attention before
    the output's product."""
    return way["way"].startswith("rope_decode") or way["way"].startswith("with the ") or way["stage"] == "Output" and (
        way["way"] != "head_product")


def check_ways(s, kind):
    """Checks that the fastest way is taken and that the layer has its launches."""
    stages = {}
    for w in kind["ways"]:
        assert set(w) == WAY, set(w) ^ WAY
        stages.setdefault(w["stage"], []).append(w)
    chosen = {}
    for name, ways in stages.items():
        taken = [w for w in ways if w["taken"]]
        assert len(taken) <= 1 and len(ways) > 1
        for w in ways:
            assert not taken or w["fault"] or is_whole(w) != is_whole(taken[0]) or w["graph_us"] >= taken[0]["graph_us"]
        chosen[name] = taken
    if "Linear attention" in chosen:
        assert len(kind["launches"]) == chosen.pop("Linear attention")[0]["launches"]
    if not chosen:
        return
    # Attention is launched by its own stage, or together with the product after it by the stage "Output".
    includes = [w for w in chosen.get("Output", []) if is_whole(w)]
    assert bool(chosen["Attention"]) != bool(includes), chosen
    taken = chosen["Attention"] or includes
    attention = [x for x in kind["launches"]
                 if x["op"] in ("decode", "rope_decode", "mla_decode", "combine", "prefill")]
    assert len(attention) == taken[0]["launches"]
    first = s["launch_us"] - s["graph_node_us"] if attention[0] is kind["launches"][0] else 0
    near(taken[0]["graph_us"], sum(x["us"] for x in attention) - first)


def ops(kind):
    """Returns the names of the ops that a layer launches, in order."""
    return [x["op"] for x in kind["launches"]]


def check_trace(s, config, words):
    """Traces each launch from a pack of the model's description and compares its clocks with the step."""
    run(f"describe {config} -o d.yaml {words}")
    for x in [x for kind in s["layers"] for x in kind["launches"]] + s["plans"]:
        run(f"build d.yaml -q --cache cache -o k.pack --only {x['kernel']}")
        done = run(f"trace k.pack {x['kernel']} --samples-only --json --shape {x['shape']}")
        traced = json.loads(done.stdout)[0]
        near(traced["cycles"], x["cycles"])
        alone = x["us"] - x["launch_us"]
        near(traced["us_at_power_clock"] - traced["launch_us"], alone)
        for share, fraction in (("memory_share", "memory_fraction"), ("matrix_share", "matrix_fraction")):
            near(x[share] * alone, traced[fraction] * traced["us_at_power_clock"])


def kinds_of_layers_add_up():
    s = step("windows.json --tp 2 --context 2000")
    assert [(k["kind"], k["layers"], k["heads"], k["kv_heads"]) for k in s["layers"]] == [
        ("window 128", 2, 8, 1), ("full", 4, 8, 1)], s["layers"]
    assert s["launch_us"] > s["graph_node_us"] > 0 and s["device"] == "model"
    assert [len(k["ways"]) for k in s["layers"]] == [5, 5]
    for kind in s["layers"]:
        assert ops(kind) == ["rope_decode"]
        # with two launches, the same work takes longer
        assert min(w["graph_us"] for w in kind["ways"][:3]) + s["graph_node_us"] > kind["graph_us"]
    window, full = (k["launches"][0] for k in s["layers"])
    assert "window=128" in window["shape"] and "window" not in full["shape"]
    assert window["us"] < full["us"]
    # The cache has 2,000 keys and values with 64 elements of 2 bytes. A layer with a window reads 128 of them.
    assert full["least_bytes"] > 2000 * 64 * 4 > 10 * window["least_bytes"]
    check_trace(s, "windows.json", "--tp 2")


def more_queries_have_a_kernel_of_their_own():
    s = step("windows.json --tp 2 --context 500 --queries 3 --batch 2 --target gfx942")
    for kind in s["layers"]:
        assert [w["way"] for w in kind["ways"]] == ["one launch", "plan and combine", "no plan",
                                                     "rope_decode in one launch", "rope_decode, no plan",
                                                     "planned prefill in one launch", "planned prefill and combine",
                                                     "paged prefill"]
        assert kind["launches"][0]["shape"].startswith("tokens=6," if len(kind["launches"]) > 1 else "batch=2,")
    s = step("windows.json --tp 2 --context 500 --batch 65")
    for kind in s["layers"]:
        assert ops(kind)[:2] == ["rope_qk_norm_cache", "decode"] and len(kind["ways"]) == 3
    s = step("windows.json --tp 2 --context 500 --queries 100")
    for kind in s["layers"]:
        assert [w["way"] for w in kind["ways"]] == [
            "planned prefill in one launch", "planned prefill and combine", "paged prefill"]


def chunks_are_planned_as_tiles():
    # windows of 256 keys: a plan of shorter ones saves less than it costs
    s = step("wider.json --tp 2 --context 1000 --batch 4 --queries 100")
    window, full = s["layers"]
    assert ops(full) == ["rope_qk_norm_cache", "prefill"], full
    assert [(w["launches"], w["taken"]) for w in full["ways"]] == [(1, True), (2, False), (1, False)], full["ways"]
    prefill = full["launches"][1]
    tile = re.search(r",q_tile=(\d+)", prefill["shape"])[1]
    plan = next(p for p in s["plans"] if "window" not in p["shape"])
    assert "_planned" in prefill["kernel"] and "_tiles_" in plan["kernel"], (prefill, plan)
    assert "_one_launch" in prefill["kernel"] and f"q=100,q_tile={tile}," in plan["shape"], plan
    # A layer with a short window has tiles of fewer rows and more lists, since several workgroups share a compute unit.
    small, shape = window["launches"][1]["shape"], prefill["shape"]
    sizes = [[int(re.search(rf",{name}=(\d+)", s)[1]) for s in (small, shape)] for name in ("q_tile", "lists")]
    assert sizes[0][0] < sizes[0][1] and sizes[1][0] > sizes[1][1], sizes
    # The other layer is not traced: that would take most of the test's time.
    check_trace(s | {"layers": [window]}, "wider.json", "--tp 2")


def latent_layers_have_their_products():
    s = step("latent.json --tp 2 --context 300 --kv-dtype fp8 --kv-scale tensor")
    (kind,) = s["layers"]
    assert (kind["kind"], kind["layers"], kind["heads"]) == ("MLA", 3, 16)
    assert ops(kind) == ["qk_rmsnorm", "mla_rope_cache", "mla_decode"]
    assert all("product128" in x["kernel"] and "kv_fp8" in x["kernel"] for x in kind["launches"][1:])
    # each weight of 16 heads is read once
    assert all(x["least_bytes"] > 16 * 128 * 512 * 2 for x in kind["launches"][1:])
    check_trace(s, "latent.json", "--tp 2 --kv-dtype fp8 --kv-scale tensor")
    (kind,) = step("latent.json --tp 2 --context 100 --batch 65")["layers"]
    chain = ["qk_rmsnorm", "head_product", "mla_rope_cache", "mla_decode", "head_product"]
    assert [op for op in ops(kind) if op != "combine"] == chain


def sparse_layers_have_an_indexer():
    s = step("sparse.json --tp 2 --context 200 --queries 2")
    (kind,) = s["layers"]
    assert kind["kind"] == "MLA, indexer" and kind["layers"] == 3
    assert ops(kind)[2:] == ["indexer_rope_cache", "indexer_topk", "mla_decode"], ops(kind)
    # Each of the two queries has its own list of slots.
    assert kind["launches"][4]["shape"].startswith("batch=2,k=200,q=1,") and "rows=2," in kind["launches"][3]["shape"]


def rows_of_groups_are_made_and_chosen_once():
    s = step("rows.json --tp 2 --context 9000 --page-size 64")
    before, lists = ["qk_rmsnorm", "rope_heads", "compress"], ["chosen_lists", "mla_decode", "rope_heads"]
    choice = ["indexer_rope_cache", "indexer_topk"]
    assert [(k["kind"], k["layers"], ops(k)) for k in s["layers"]] == [
        ("window 128", 1, [*before, *lists]),
        ("window 128, rows of 2: its own choice", 1,
         [*before, "compress", *choice, "topk", *lists]),
        ("window 128, rows of 2: a layer's before", 2, [*before, *lists]),
        ("window 128, rows of 1: its own choice, and blocks", 1,
         [*before, "compress", *choice, "topk", "topk", *lists]),
        ("window 128, rows of 1: a layer's before", 2, [*before, *lists]),
        ("window 128, rows of 1: its own choice in blocks", 1, [*before, *choice, *lists])], s["layers"]
    blocks = s["layers"][3]["launches"]
    # 9,000 keys are cut into 5 parts of up to 2,048. Their lists of 64 keys and of 64 blocks are merged.
    assert "keys=9000,page=64,splits=5" in blocks[5]["shape"] and "_b64" in blocks[5]["kernel"], blocks[5]
    assert [x["shape"] for x in blocks[6:8]] == ["rows=1,columns=320"] * 2
    assert "k=192," in blocks[9]["shape"] and "keys=4500,page=32" in s["layers"][1]["launches"][5]["shape"]


def chosen_blocks_are_of_a_query_and_a_head():
    s = step("blocks.json --tp 2 --context 4000 --batch 2")
    assert [k["layers"] for k in s["layers"]] == [1, 2]
    chosen = s["layers"][1]
    assert ops(chosen)[:7] == ["rope_qk_norm_cache", "rope_heads", "indexer_rope_cache", "indexer_topk", "topk",
                               "chosen_lists", "decode"], ops(chosen)
    shapes = [x["shape"] for x in chosen["launches"]]
    assert shapes[3] == "rows=4,keys=4000,page=16,splits=2" and "kv_heads=2" in shapes[5]
    assert shapes[6].startswith("batch=4,k=2048,q=1,heads=8,kv_heads=1")


def check_long_pieces():
    """A piece of a prompt stores one state of a sequence."""
    linear = step("hybrid.json --tp 8 --context 600 --queries 9 --page-size 272")["layers"][1]
    assert ops(linear) == ["conv1d", "gated_delta", "gated_rmsnorm"]
    assert [x["shape"] for x in linear["launches"]] == [
        "channels=1024,batch=1,length=9", "heads=2,value_heads=4,batch=1,length=9", "tokens=9,groups=4"]
    # Windows of 3 inputs are read and written. x and out have 9 rows each, and weights have 4 taps.
    assert linear["launches"][0]["least_bytes"] == 2 * 1024 * (2 * 9 + 3 + 3 + 4)


def linear_layers_have_their_recurrence():
    s = step("hybrid.json --tp 8 --context 600 --batch 4 --queries 2 --page-size 272")
    full, linear = s["layers"]
    assert (linear["kind"], linear["layers"], linear["heads"], linear["kv_heads"]) == ("gated delta net", 6, 4, 2)
    assert ops(linear) == ["gated_delta_step"] and full["layers"] == 2
    assert [x["shape"] for x in linear["launches"]] == ["heads=2,batch=4,length=2"]
    # The states of four sequences are read once, and written after each of two tokens.
    assert linear["launches"][0]["least_bytes"] > 3 * 4 * 4 * 128 * 128 * 4
    check_long_pieces()
    assert "page_size=272," in full["launches"][1]["shape"] and "p272" in full["launches"][1]["kernel"]
    assert not s["missing"]
    check_trace(s, "hybrid.json", "--tp 8 --page-size 272 --draft-tokens 1")


def encoders_have_one_prefill():
    s = step("encoder.json --context 4096")
    for kind in s["layers"]:
        assert ops(kind) == ["rope_qk_norm_cache", "prefill"] and "keepkv" in kind["launches"][0]["kernel"]
        assert kind["launches"][0]["shape"].startswith("tokens=4096,")
    assert {k["kind"]: k["layers"] for k in s["layers"]} == {"no mask": 1, "window 64": 2}
    assert s["layers"][0]["launches"][1]["bound"] == "matrix", s["layers"][0]
    assert s["layers"][0]["launches"][0]["bound"] == "HBM", s["layers"][0]


def a_table_has_the_same_figures():
    s = step("windows.json --tp 2 --context 200")
    out = run("step windows.json --tp 2 --context 200 --cache cache").stdout
    assert "modelled: TP 2, batch 1, 200 keys, 1 query each" in out
    for x in [x for kind in s["layers"] for x in kind["launches"]]:
        line = next(line for line in out.splitlines() if line.endswith(" " + x["kernel"]))
        assert line.split()[0] == x["op"] and f"{x['us']:.2f}" in line.split()[1], line
    assert f"{s['step_us']:.2f}" in out.splitlines()[-1]
    assert out.count("(taken)") == 2


def a_tuning_has_its_splits():
    key = "gfx950 decode head_dim=64 gqa=8 sinks=true page_size=16"
    whole = key.replace("decode", "rope_decode") + " bias=true one_launch=true"
    rows = [(f"{key} one_launch=true", 96, "one_launch: true"), (key, 0, "one_launch: false"),
            (whole, 97, "one_launch: true")]
    with open("tuning.yaml", "w") as f:
        f.write("tuning: 2\nkernels:\n")
        f.writelines(f"  - key: {key}\n    tile: auto\n" for key, _, _ in rows)
        f.write("splits:\n")
        f.writelines(f"  - key: {key}\n    call: batch=1,k=2000,heads=8,kv_heads=1\n    lists: {lists}\n    {one}\n"
                     for key, lists, one in rows)
    _, full = step("windows.json --tp 2 --context 2000 --tuning tuning.yaml")["layers"]
    assert full["launches"][-1]["shape"].endswith("lists=97" if len(full["launches"]) == 1 else "lists=96"), full
    faults = {w["way"]: w["fault"] for w in full["ways"]}
    assert faults["plan and combine"] == "the tuning has no plan for this batch" and not faults["one launch"], faults


def gaps_are_named():
    unknown = WINDOWS | {"model_type": "new"}
    with open("unknown.json", "w") as f:
        json.dump(unknown, f)
    s = step("unknown.json --tp 2 --context 100", 3)
    assert any("model_type 'new'" in text for text in s["missing"])
    done = run("step unknown.json --tp 2 --context 100 --cache cache", 3)
    assert "missing: knowledge of model_type 'new'" in done.stderr and "Step in one graph" in done.stdout


def a_gpu_is_measured():
    gpu = {"LD_LIBRARY_PATH": hip, "HIPSIM": "target=gfx950", "SHAKY": ""}
    words = "windows.json --tp 2 --context 64 --seconds 0.2"
    s = step(f"{words} --device hip", **gpu)
    assert s["device"] == "hip" and "gfx950" in s["gpu"] and s["launch_us"] == 0
    assert all(x["kernel"] and x["cycles"] == 0 for kind in s["layers"] for x in kind["launches"])
    done = run(f"step {words} --cache cache --device hip --target gfx942", 2, **gpu)
    assert "no launch was timed" in done.stderr and not done.stdout


def mistakes_are_told():
    with open("mamba.json", "w") as f:
        json.dump({"model_type": "mamba2", "num_hidden_layers": 2, "num_attention_heads": 8, "head_dim": 64,
                   "layer_types": ["mamba", "mamba"]}, f)
    for words, status, text in (
            ("", 1, "usage: attnc step CONFIG_JSON"),
            ("none.json", 2, "none.json: No such file"),
            ("mamba.json", 1, "model_type 'mamba2' has no attention layers"),
            ("windows.json --tp 3", 1, "TP 3: 16 query heads and 2 key/value heads cannot be shared out"),
            ("windows.json --queries 9 --context 8", 1, "9 queries of a sequence, but only 8 keys"),
            ("windows.json --batch 0", 1, "expected --batch to be 1 to 4096, saw '0'"),
            ("windows.json --target gfx90a", 1, "unknown target 'gfx90a'; there are gfx942"),
            ("windows.json --device gpu", 1, "--device is hip or sim, not 'gpu'"),
            ("windows.json --seconds x", 1, "expected --seconds to be 0.01 to 3600, saw 'x'"),
            ("windows.json --kv-scale token", 1, "step: the cache: a cache of 16-bit numbers has no scale"),
            ("windows.json --tuning none.yaml", 2, "none.yaml"),
            ("latent.json --queries 65", 1, "absorbed decode has at most 64 queries")):
        done = run(f"step {words}", status)
        assert text in done.stderr and not done.stdout, (words, done.stderr)


for name, config in (("windows", WINDOWS), ("wider", WINDOWS | {"sliding_window": 256}), ("latent", LATENT),
                     ("sparse", SPARSE), ("encoder", ENCODER), ("hybrid", HYBRID), ("rows", ROWS), ("blocks", BLOCKS)):
    with open(f"{name}.json", "w") as f:
        json.dump(config, f)
for test in (mistakes_are_told, kinds_of_layers_add_up, more_queries_have_a_kernel_of_their_own,
             chunks_are_planned_as_tiles, latent_layers_have_their_products, sparse_layers_have_an_indexer,
             rows_of_groups_are_made_and_chosen_once, chosen_blocks_are_of_a_query_and_a_head,
             linear_layers_have_their_recurrence, encoders_have_one_prefill, a_table_has_the_same_figures,
             a_tuning_has_its_splits, gaps_are_named, a_gpu_is_measured):
    test()
    print(test.__name__.replace("_", " "))
