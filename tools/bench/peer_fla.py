# SPDX-License-Identifier: Apache-2.0
"""Launches of flash-linear-attention's Triton kernels for tools/bench/peers, as its own functions make them.

Triton compiles for an absent GPU. The functions of `fla` run on tensors without memory. Each kernel that they would launch is
compiled and written to a file instead. A package is loaded for one target, so peers runs this as a program:

    peer_fla.py gdn|kda|kda_step TARGET DIRECTORY CONFIGS BATCH TOKENS

It prints a JSON list with an entry for each launch: the kernel's name, and the configurations of its autotuner. These are
CONFIGS at most, evenly spaced. Each has its text and the file for `calibrate --shape object:FILE`. DIRECTORY/picks.json may
name a kernel's configuration; no other is compiled then.
"""
import json
import os
import sys

import peer_triton

DIM = 128
LDS = {"gfx942": 65536, "gfx950": 163840}  # bytes, which some lists of configurations depend on
UNITS = {"gfx942": 304, "gfx950": 256}  # compute units
SAMPLES = 4  # workgroups that are executed of a launch of many


def set_driver(target):
    """Makes Triton and fla find a GPU of the target, which is absent."""
    import torch
    import triton
    from triton.backends.compiler import GPUTarget

    class Utilities:
        def get_device_properties(self, device):
            return {"max_shared_mem": LDS[target], "multiprocessor_count": UNITS[target]}

    class Driver:
        utils = Utilities()

        def get_current_target(self):
            return GPUTarget("hip", target, 64)

        def get_current_device(self):
            return 0

        def get_active_torch_device(self):
            return torch.device("cpu")

    triton.runtime.driver.set_active(Driver())


class Recorder:
    """Takes the place of Triton's launcher and autotuner. `launches` is what the program prints."""

    def __init__(self, target, directory, configs):
        self.target, self.directory, self.configs = target, directory, configs
        self.launches, self.config, self.files = [], None, 0
        path = os.path.join(directory, "picks.json")
        self.picks = json.load(open(path)) if os.path.exists(path) else {}

    def install(self):
        """Replaces the launcher and the autotuners in this process."""
        from triton.runtime.autotuner import Autotuner
        from triton.runtime.jit import JITFunction
        import fla.ops.utils.cache as cache

        def launch(kernel, *args, grid, warmup=False, **named):
            self.record(kernel, dict(zip(kernel.arg_names, args), **named), grid)

        def tune(tuner, *args, **named):
            self.launches.append((tuner.base_fn.__name__, []))
            for config in self.chosen(tuner):
                self.config = config
                tuner.fn.run(*args, **named, **config.all_kwargs())
            self.config = None

        JITFunction.run = launch
        Autotuner.run = cache.CachedAutotuner.run = tune

    def chosen(self, tuner):
        """Returns the configurations of a kernel to compile: the one of picks.json, else some of all, evenly spaced."""
        picked = self.picks.get(tuner.base_fn.__name__)
        if picked is not None:
            return [c for c in tuner.configs if str(c) == picked]
        count, all_of_them = min(self.configs, len(tuner.configs)), tuner.configs
        return [all_of_them[i * len(all_of_them) // count] for i in range(count)]

    def record(self, kernel, values, grid):
        """Compiles a kernel for a call and writes its launch. A configuration that does not compile is left out."""
        from triton.backends.amd.compiler import HIPOptions

        grid = grid(values) if callable(grid) else grid
        given = {p.name: self.argument(values.get(p.name), p) for p in kernel.params}
        options = {k: v for k, v in values.items() if k not in given and k in HIPOptions.__dataclass_fields__}
        options.pop("num_ctas", None)
        try:
            compiled, lines = peer_triton.compile_kernel(kernel, self.target, given, options)
        except Exception as e:  # of the compiler's passes, such as too much LDS
            if self.config is None:
                raise
            print("peer_fla: %s, %s: %s" % (kernel.__name__, self.config, str(e)[:200]), file=sys.stderr)
            return
        if self.config is None:
            self.launches.append((kernel.__name__, []))
        grid = tuple(grid) + (1,) * (3 - len(grid))
        samples = SAMPLES if grid[0] * grid[1] * grid[2] > SAMPLES else 0
        self.files += 1
        file = peer_triton.write_launch(compiled, lines, grid, samples, self.directory, "fla%d" % self.files)
        self.launches[-1][1].append((str(self.config), file))

    def argument(self, value, parameter):
        """Returns an argument as peer_triton.compile_kernel() takes it. A tensor with data becomes a file."""
        import torch

        kinds = {torch.bfloat16: "*bf16", torch.float16: "*fp16", torch.float32: "*fp32", torch.int32: "*i32", torch.int64: "*i64"}
        if not isinstance(value, torch.Tensor):
            wide = parameter.annotation_type == "i64" and not parameter.is_constexpr
            return ("l", str(value), "i64") if wide else value
        kind = kinds[value.dtype]
        if value.is_meta:
            return peer_triton.buffer(value.numel() * value.element_size(), kind)
        self.files += 1
        path = os.path.join(self.directory, "data%d" % self.files)
        value.numpy().tofile(path)
        return ("f", path, kind)


def empty(*shape, kind="bfloat16"):
    import torch

    return torch.empty(*shape, dtype=getattr(torch, kind), device="meta")


def sequences(batch, tokens):
    """Returns cu_seqlens of equal sequences."""
    import torch

    return torch.arange(0, (batch + 1) * tokens, tokens)


def rows(batch, tokens, heads, value_heads):
    """Returns q, k and v of packed sequences."""
    return [empty(1, batch * tokens, n, DIM) for n in (heads, heads, value_heads)]


def gdn(batch, tokens):
    """Prompts of a rank of Qwen3-Next at TP 8: 2 heads, 4 value heads. The decay is made from its logit in the launch
    that adds it up, and beta in its own."""
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule

    logit = empty(1, batch * tokens, 4)
    chunk_gated_delta_rule(
        *rows(batch, tokens, 2, 4), logit, logit, initial_state=empty(batch, 4, DIM, DIM, kind="float32"),
        output_final_state=True, use_qk_l2norm_in_kernel=True, use_gate_in_kernel=True, use_beta_sigmoid_in_kernel=True,
        A_log=empty(4, kind="float32"), dt_bias=empty(4, kind="float32"), cu_seqlens=sequences(batch, tokens))


def kda_call(batch, tokens):
    """Returns the arguments that KDA's functions share, for a rank of Kimi-K3 at TP 8: 12 heads, bounded gates."""
    return dict(
        zip("qkv", rows(batch, tokens, 12, 12)), g=empty(1, batch * tokens, 12, DIM), beta=empty(1, batch * tokens, 12),
        A_log=empty(12, kind="float32"), dt_bias=empty(12 * DIM, kind="float32"), lower_bound=-5.0,
        initial_state=empty(batch, 12, DIM, DIM, kind="float32"), output_final_state=True, use_qk_l2norm_in_kernel=True,
        use_gate_in_kernel=True, use_beta_sigmoid_in_kernel=True, cu_seqlens=sequences(batch, tokens))


def kda(batch, tokens):
    from fla.ops.kda import chunk_kda

    chunk_kda(**kda_call(batch, tokens), safe_gate=True)


def kda_step(batch, tokens):
    """A decode step in three launches: the convolution of q, k and v, the recurrence, and the gated norm."""
    from fla.modules.causal_conv1d import causal_conv1d_update
    from fla.modules.norm.fused_norm_gate import rms_norm_gated
    from fla.ops.kda import fused_recurrent_kda

    channels = 3 * 12 * DIM
    causal_conv1d_update(empty(batch, channels), empty(batch, channels, 4), weight=empty(channels, 4), activation="silu")
    fused_recurrent_kda(**kda_call(batch, tokens))
    out = empty(batch * 12, DIM)
    rms_norm_gated(out, empty(batch * 12, DIM), empty(DIM), None, activation="sigmoid", eps=1e-6)


CALLS = {"gdn": gdn, "kda": kda, "kda_step": kda_step}


def launches(call, target, directory, configs, batch, tokens, what="fla", program=(__file__,)):
    """Returns the list that `program` prints for a call in another process: this one, or one with the same last arguments."""
    text = peer_triton.run_program(what, *program, call, target, directory, configs, batch, tokens,
                                   TRITON_CACHE_DIR=os.path.join(directory, "triton"), FLA_DISABLE_TENSOR_CACHE="1")
    return json.loads(text.splitlines()[-1])


def record(calls, call, target, directory, configs, batch, tokens):
    """Prints the launches of a function of `calls`."""
    import torch

    set_driver(target)
    recorder = Recorder(target, directory, int(configs))
    recorder.install()
    with torch.no_grad():
        calls[call](int(batch), int(tokens))
    print(json.dumps(recorder.launches))


if __name__ == "__main__":
    record(CALLS, *sys.argv[1:])
