# SPDX-License-Identifier: Apache-2.0
"""A proposer of drafts for vLLM (method custom_class). A model of random weights has no draft model, so drafts are the best tokens by
float32. The last one is wrong in every second step, so that the tests have steps with refused drafts too."""
import models

COUNT = 2  # number of drafts of a sequence in a step
known = []  # pairs (prompt, tokens that follow the prompt)


def learn(path, tokens):
    """Fills `known` by generating with transformers' model at `path`: `tokens` tokens, and COUNT more as drafts of the
    last step."""
    reference = models.Reference(path)
    for prompt in models.PROMPTS:
        made = []
        while len(made) < tokens + COUNT:
            made.append(int(reference.rows(reference.models[0], prompt, made + [0])[-1].argmax()))
        known.append((prompt, made))


def steps(made):
    """Returns the number of steps in which the sequences of models.PROMPTS get the tokens `made`, with one step for all
    prompts. A step adds a sequence's correct drafts and one token more."""
    proposer, counts, out = Drafts(None), [1] * len(made), 1
    while any(count < len(tokens) for count, tokens in zip(counts, made)):
        proposer.steps += 1
        for i, (prompt, tokens) in enumerate(zip(models.PROMPTS, made)):
            accepted = 0
            for draft, token in zip(proposer.drafts(prompt + tokens[:counts[i]]), tokens[counts[i]:]):
                if draft != token:
                    break
                accepted += 1
            counts[i] += accepted + 1
        out += 1
    return out


class Drafts:
    """A proposer with vLLM's interface, which proposes the known tokens."""

    def __init__(self, vllm_config):
        self.steps = 0

    def load_model(self, model):
        """Loads nothing."""

    def propose(self, sampled, counts, rows, slot_mappings=None):
        """Returns COUNT drafts for each sequence that has sampled tokens. rows[i][:counts[i]] are all tokens of
        sequence i."""
        self.steps += 1
        return [self.drafts(rows[i][:counts[i]].tolist()) if len(new) else [] for i, new in enumerate(sampled)]

    def drafts(self, tokens):
        """Returns the drafts that follow a sequence's tokens. The last one is wrong in every second step."""
        prompt, made = next(one for one in known if tokens[:len(one[0])] == one[0])
        at = len(tokens) - len(prompt)
        out = made[at:at + COUNT]
        return out[:-1] + [(out[-1] + 1) % models.VOCABULARY] if self.steps % 2 else out
