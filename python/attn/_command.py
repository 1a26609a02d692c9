# SPDX-License-Identifier: Apache-2.0
"""The wheel's console command `attnc`: replaces this process by the compiler."""
import os
import sys

from attn._native import compiler_path


def main():
    path = compiler_path()
    os.execvp(path, ["attnc"] + sys.argv[1:])


if __name__ == "__main__":
    main()
