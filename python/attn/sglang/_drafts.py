# SPDX-License-Identifier: Apache-2.0
"""The steps in which a draft model of SGLang (EAGLE, MTP, standalone) proposes tokens, on the backend "attn".

SGLang plans all steps before it runs the first, so each step has a backend with its own tensors. SGLang makes the
backends of a draft model by a table in its source; install() adds "attn" to it."""
from sglang.srt.speculative.draft_utils import DraftBackendFactory


class DraftSteps:
    """A backend for each step of a draft model but the last, with the methods that SGLang calls. The last step runs no
    layer: its tokens come from the scores of the step before."""
    needs_cpu_seq_lens = False

    def __init__(self, runner, backend, topk, steps):
        self.topk, self.steps = topk, steps
        rows = runner.req_to_token_pool.size * topk
        self.attn_backends = [backend.fresh(runner, rows) for _ in range(steps - 1)]

    def init_forward_metadata(self, forward_batch):
        """Plans all steps."""
        for step, backend in enumerate(self.attn_backends):
            backend.plan_drafts(forward_batch, step, self.topk, self.steps)

    def init_forward_metadata_out_graph(self, forward_batch, in_capture=False):
        """Plans all steps outside of a captured graph, in the tensors that the graph reads."""
        self.init_forward_metadata(forward_batch)

    def init_forward_metadata_in_graph(self, forward_batch):
        """Returns at once: plans are made outside of the graph."""

    def init_cuda_graph_state(self, max_bs, max_num_tokens):
        """Allocates nothing: tensors for the largest batch are there already."""


def install(make):
    """Adds the backend to SGLang's table of draft models, once in a process. make(runner) returns a backend for a model."""
    plain = DraftBackendFactory._create_backend
    if hasattr(plain, "plain"):
        return

    def create(factory, backend_name, backend_map, error_template, stamps_children=False):
        """Creates a backend as SGLang's method does. With stamps_children the result is for decode: DraftSteps with a
        backend for each step."""
        def ours():
            runner = factory.draft_model_runner
            backend = make(runner)
            steps = (runner, backend, factory.topk, factory.speculative_num_steps)
            return "attn", DraftSteps(*steps) if stamps_children else backend
        return plain(factory, backend_name, dict(backend_map, attn=ours), error_template, stamps_children)

    create.plain = plain
    DraftBackendFactory._create_backend = create
