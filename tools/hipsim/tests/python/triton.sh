#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# triton.sh PYTHON: installs Triton's wheel in a fresh virtual environment, and runs test_triton.py for each target.
set -eu
python=$1
here=$(dirname "$0")
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
"$python" -c 'import torch' 2>"$root/log" || { echo "skipped: $(tail -n 1 "$root/log")"; exit 77; }
"$python" -m venv --system-site-packages "$root/venv"
"$root/venv/bin/pip" install -q --disable-pip-version-check 'triton==3.9.0'
for target in gfx942 gfx950 gfx1201; do
    TRITON_CACHE_DIR=$root/cache TRITON_DEFAULT_FP_FUSION=1 \
        "$root/venv/bin/python" -B -m hipsim --target $target "$here/test_triton.py" && status=0 || status=$?
    [ $status -eq 3 ] || { echo "$target: exit status $status, not 3 for the findings that two tests make"; exit 1; }
done
