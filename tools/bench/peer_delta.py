# SPDX-License-Identifier: Apache-2.0
"""Compares layers of GDN and KDA with flash-linear-attention's Triton kernels, for tools/bench/peers."""
import json
import os
import sys

import peer_fla

DESCRIPTION = """
targets: [%s]
defaults: { dtype: bf16, head_dim: 128, l2_norm: true }
kernels:
  - { op: gated_delta_prefill, stage: [all, chunks, segments, scan, outputs] }
  - { op: gated_delta_prefill, decay: channel, gates: bounded, stage: [all, chunks, segments, scan, outputs] }
  - { op: gated_delta_step, gqa: 1, decay: channel, gates: bounded, act: sigmoid }
"""

# Layers of a rank, by the call in peer_fla: a label, the fields in our kernel's name, heads, value heads.
LAYERS = {"gdn": ("Qwen3-Next TP 8", "bf16_d128_l2", 2, 4),
          "kda": ("Kimi-K3 TP 8", "bf16_d128_decay_channel_gates_bounded_l2", 12, 12)}
PROMPTS = [(8, 2048), (64, 256), (1, 16384)]  # (sequences, tokens of each); the first one chooses the configurations
STEPS = [1, 4, 8, 16, 32]  # sequences of a decode step
CONFIGS = 6  # maximum of configurations that are compared for a kernel of fla's

class Peer:
    """fla's kernels, each with the configuration that is fastest at the first shape."""

    NAME = "fla"

    def __init__(self, time_object, target, directory):
        self.time_object, self.target = time_object, target
        self.directory = os.path.join(directory, self.NAME + "-" + target)
        os.makedirs(self.directory, exist_ok=True)
        self.picks = {}

    def launches(self, call, batch, tokens):
        """Returns (kernel, [(configuration, file of the launch)]) of each launch of a call."""
        return peer_fla.launches(call, self.target, self.directory, CONFIGS, batch, tokens)

    def times(self, call, batch, tokens):
        """Returns (kernel, us) of each launch of a call."""
        with open(os.path.join(self.directory, "picks.json"), "w") as f:
            json.dump(self.picks, f)
        found = []
        for kernel, ways in self.launches(call, batch, tokens):
            if not ways:
                sys.exit("peers: %s: no configuration of %s compiles" % (self.NAME, kernel))
            us, config = min((self.time_object("object:" + file)["us"], config) for config, file in ways)
            self.picks.setdefault(kernel, config)
            found.append((kernel, us))
        return found


def plan_of(build, op, result, desc, target, shape):
    """Returns struct `result` as attn_<op>_plan() of the build fills it. desc and shape are members of the op's structs;
    target is the GPU's, as "gfx942"."""
    sys.path.insert(0, os.path.join(build, "python"))
    os.environ.setdefault("ATTN_LIBRARY", os.path.join(build, "runtime/libattn.so.0"))
    from attn.linear import _launches

    return _launches.plan_for(target, op, result, desc, **shape)


def planned(build, layer, batch, tokens, units, target):
    """Returns the chunks of a segment, 0 without segments, and the stages that libattn plans for a call. No stages: one
    launch."""
    _, _, heads, value_heads = LAYERS[layer]
    desc = {"head_dim": 128, "head_dim_v": 128, "heads": heads, "value_heads": value_heads,
            "decay": 1 if layer == "kda" else 0}
    out = plan_of(build, "gated_delta_prefill", "attn_gated_delta_prefill_launches", desc, target, {
        "batch": batch, "tokens": batch * tokens, "max_seqlen": tokens, "compute_units": units})
    if not out.chunk_rows:
        return 0, []
    cut = ["segments"] if out.segment_tokens else []
    return out.segment_tokens // 64, ["chunks", *cut, "scan", "outputs"]


def prompt(trace, target, layer, batch, tokens, segment, stages):
    """Returns the trace of each launch of one of our calls on prompts. `segment`: chunks, 0 without segments."""
    _, fields, heads, value_heads = LAYERS[layer]
    shape = "heads=%d,value_heads=%d,batch=%d,length=%d" % (heads, value_heads, batch, tokens)
    if segment:
        shape += ",segment=%d" % segment
    kernels = [["gated_delta_prefill_%s%s_%s" % (fields, end, target)]
               for end in ["_stage_" + stage for stage in stages]] if stages else [
                   ["gated_delta_prefill_%s%s_%s" % (fields, end, target) for end in ("", "_tile2")]]
    return [trace(names, shape, "--samples-only") for names in kernels]


def step(trace, target, batch):
    """Returns the trace of the fused decode step of KDA, in a list."""
    name = "gated_delta_step_bf16_d128_g1_sigmoid_decay_channel_gates_bounded_l2_" + target
    return [trace([name], "heads=12,batch=%d" % batch)]


def us_of(reports):
    return sum(report["us_at_power_clock"] for report in reports)


def share(reports):
    """Returns the shares of the roofline that bounds each launch, in per cent."""
    return "+".join("%.0f" % (100 * max(r["matrix_fraction"], r["memory_fraction"])) for r in reports)


HEAD = "target layer B tokens | attnc us, of each launch, %% of its roofline | %s us, launches | ratio"


def row(target, what, batch, tokens, reports, segment, peer):
    """Prints a comparison and returns it as a row of the page."""
    us, theirs = us_of(reports), sum(us for _, us in peer)
    each = " + ".join("%.1f" % report["us_at_power_clock"] for report in reports)
    if segment:
        each += " (segments of %d chunks)" % segment
    print("%s %s %3d x %5d | %8.1f = %s, %s | %8.1f, %d | %5.2f" % (
        target, what, batch, tokens, us, each, share(reports), theirs, len(peer), us / theirs), flush=True)
    for kernel, its in peer:
        print("    %8.1f %s" % (its, kernel), flush=True)
    return ("%s %s, %d x %d" % (target, what, batch, tokens), us / theirs,
            [us, each, share(reports), theirs, len(peer)])


def columns(name):
    """Returns the heads of the page's columns for a peer."""
    return ["us", "of each launch", "% of its roofline", name + " us", "launches"]


def prompts(trace, make_peer, build, target, units, shapes):
    """Yields the rows of prompts of a target. make_peer(): returns the peer of a layer."""
    for layer, (what, *_) in LAYERS.items():
        peer = make_peer()
        for batch, tokens in shapes:
            segment, stages = planned(build, layer, batch, tokens, units, target)
            reports = prompt(trace, target, layer, batch, tokens, segment, stages)
            yield row(target, what, batch, tokens, reports, segment, peer.times(layer, batch, tokens))


def steps(trace, time_object, target, directory):
    """Yields the rows of decode steps of KDA."""
    peer = Peer(time_object, target, directory)
    for batch in STEPS:
        yield row(target, LAYERS["kda"][0], batch, 1, step(trace, target, batch), 0, peer.times("kda_step", batch, 1))
