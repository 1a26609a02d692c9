# SPDX-License-Identifier: Apache-2.0
"""A plugin of SGLang for tests, found by attn_tests.dist-info. SGLang's scheduler is a process of its own.
It records the choices of its indexers in the file of the environment's ATTN_CHOICES, and judges them as choices.py does."""
import os


def register():
    """Entry point of sglang.srt.plugins."""
    path = os.environ.get("ATTN_CHOICES")
    if path:
        import choices
        choices.Choices(os.environ["ATTN_CHOICES_TARGET"]).record(path)
