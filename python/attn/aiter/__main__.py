# SPDX-License-Identifier: Apache-2.0
"""`python3 -m attn.aiter` prints the tables of docs/python.md."""
from attn.aiter._table import table

print(table(), end="")
