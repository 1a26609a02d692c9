#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# triton_kernels.sh PYTHON: installs Triton's wheel in a fresh virtual environment, and runs tools/bench/aiter/triton_kernels.py
# under all checks for the targets with waves of 32 lanes.
set -eu
python=$1
check=$(dirname "$0")/../../../bench/aiter/check
build=$(dirname "$HIPSIM_LIBRARY")/../../..
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
"$python" -m venv "$root/venv"
"$root/venv/bin/pip" install -q --disable-pip-version-check 'triton==3.9.0' numpy
for target in gfx1250 gfx1201; do
    TRITON_CACHE_DIR=$root/cache "$root/venv/bin/python" -B "$check" --build "$build" --target $target --set triton \
        --options checks=on,halt=on
done
