# SPDX-License-Identifier: Apache-2.0
"""The command `hipsim` of the wheel."""
import os
import pathlib
import sys


def main():
    """Replaces this process by the command in the wheel."""
    path = str(pathlib.Path(__file__).resolve().parent / "bin" / "hipsim")
    try:
        os.execv(path, [path] + sys.argv[1:])
    except OSError as e:
        sys.exit(f"hipsim: {path}: {e.strerror}")


if __name__ == "__main__":
    main()
