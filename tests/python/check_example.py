# SPDX-License-Identifier: Apache-2.0
"""check_example.py FILE LINES TEXT: tests an example of the documentation. It fails if FILE has more than LINES lines
of code, does not run, or if its output does not end with TEXT."""
import io
import contextlib
import runpy
import sys
import tokenize

path, limit, end = sys.argv[1], int(sys.argv[2]), sys.argv[3]
lines = set()
with open(path, "rb") as f:
    for token in tokenize.tokenize(f.readline):
        quiet = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.ENCODING,
                 tokenize.ENDMARKER, tokenize.INDENT, tokenize.DEDENT)
        if token.type not in quiet and not token.string.startswith('"""'):
            lines.update(range(token.start[0], token.end[0] + 1))
if len(lines) > limit:
    sys.exit(f"{path}: {len(lines)} lines of code, {limit} are promised")
out = io.StringIO()
with contextlib.redirect_stdout(out):
    runpy.run_path(path)
print(out.getvalue())
if not out.getvalue().rstrip().endswith(end):
    sys.exit(f"the output does not end with {end}")
