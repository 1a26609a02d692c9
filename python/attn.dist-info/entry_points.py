# SPDX-License-Identifier: Apache-2.0
"""entry_points.py PYPROJECT VERSION METADATA ENTRY_POINTS: writes the two files by which Python knows an installed package, and
by which vLLM and SGLang find its plugins, from pyproject.toml. pip writes them itself; a build and Debian's package do not
come by pip."""
import pathlib
import re
import sys


def main(pyproject, version, metadata, entry_points):
    text = pathlib.Path(pyproject).read_text()
    name = re.search(r'^name = "(.*)"', text, re.MULTILINE).group(1)
    groups = re.findall(r'^\[project\.entry-points\."(.*?)"\]\n((?:\w.*\n)+)', text, re.MULTILINE)
    pathlib.Path(metadata).write_text(f'Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n')
    pathlib.Path(entry_points).write_text('\n'.join(f'[{group}]\n{rows}' for group, rows in groups).replace('"', ''))


main(*sys.argv[1:])
