# SPDX-License-Identifier: Apache-2.0
"""entry_points.py PYPROJECT VERSION METADATA ENTRY_POINTS: writes two files from pyproject.toml. By them Python finds an installed
package, and vLLM and SGLang find its plugins. pip writes them itself. This is for the build and for Debian's package, which do
not use pip."""
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
