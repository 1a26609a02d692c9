# SPDX-License-Identifier: Apache-2.0
"""The attnc command of the wheel."""
import os
import sys

from attn._native import compiler_path


def main():
    path = compiler_path()
    os.execvp(path, ["attnc"] + sys.argv[1:])


if __name__ == "__main__":
    main()
