#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sglang_tests.py BUILD FOLDER [--aiter CHECKOUT] [--target GFX] [--write] [ROW]...: SGLang's own tests of attention backends, on the
simulated GPU.

FOLDER has the environment that prepare.sh makes. SGLang's wheel has the cases, the fixtures and the references. They
run the plugin's backends and SGLang's own backend `aiter` (sglang_run.py). sglang_tests.txt has the number of results
of each kind. The program fails if a case is wrong or the text differs; --write writes it. ROWs choose rows, such as
"attn dense"."""
import sys

import own_tests
from own_tests import row

ROWS = {
    "gfx942": [row(f"attn {kind}") for kind in ("dense", "latent", "delta", "kda", "mamba2", "drafts", "linear-drafts")],
    # "extend" is left out for aiter latent: SGLang's own backend takes a prompt's latents and rotated keys as two
    # tensors, but the fixture passes one.
    "gfx950": [row("attn delta"), row("attn kda"), row("attn mamba2"), row("aiter dense"), row("aiter latent", leave="extend")],
}
SUITE = own_tests.Suite(own_tests.HERE / "sglang_tests.txt", ROWS, "sglang", "")

if __name__ == "__main__":
    sys.exit(own_tests.main(SUITE, __doc__))
