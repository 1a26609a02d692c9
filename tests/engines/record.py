# SPDX-License-Identifier: Apache-2.0
"""A plugin of SGLang for tests, which SGLang finds by attn_tests.dist-info and loads in its scheduler's process. It records the
choices of the model's indexers in the file that ATTN_CHOICES names, and judges them as choices.py does."""
import os


def register():
    """Entry point of sglang.srt.plugins."""
    path = os.environ.get("ATTN_CHOICES")
    if path:
        import choices
        choices.Choices(os.environ["ATTN_CHOICES_TARGET"]).record(path)
