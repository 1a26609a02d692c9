# SPDX-License-Identifier: Apache-2.0
"""`python3 -m attn.aiter` prints the tables of docs/python.md; `python3 -m attn.aiter imports PATH` lists what an engine
takes from AITER against them."""
import sys

from attn.aiter._imports import main
from attn.aiter._table import table

if sys.argv[1:2] == ["imports"]:
    sys.exit(main(sys.argv[2:]))
print(table(), end="")
