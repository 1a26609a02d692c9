#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# attnc_wheel.sh SOURCE: tools/attnc/wheel. Its wheel and its tarball are installed on a root that has nothing else, where they
# compile and verify a kernel, with the same bytes, and run attnc on-gpu. As root; takes packages of the network.
set -eu
cd "$1"
fail() { echo "attnc_wheel: $*" >&2; exit 1; }
[ "$(id -u)" -eq 0 ] || fail 'needs root, for chroot'
tools/packages debootstrap
. tests/bare_root.sh
bare_root python3-minimal,python3-pip,python3-venv
PYTHON=${PYTHON:-/usr/bin/python3} tools/attnc/wheel "$root/tmp" >/dev/null
ls "$root"/tmp/attnc-*-py3-none-manylinux_*.whl >/dev/null || fail 'the wheel is for systems with more libraries'
cat >"$root/tmp/try" <<'END'
set -eu
cd /tmp
python3 -m venv wheel
wheel/bin/pip install -q --no-index ./attnc-*.whl
tar -xzf attnc-*.tar.gz
echo '{ targets: [gfx942, gfx950], kernels: [{ op: prefill, dtype: bf16, head_dim: 64 }] }' >d.yaml
HOME=/tmp/a wheel/bin/attnc build d.yaml -q -o wheel.attnpack
HOME=/tmp/b attnc-*/bin/attnc build d.yaml -q -o tar.attnpack
cmp wheel.attnpack tar.attnpack
attnc-*/bin/attnc verify tar.attnpack --shapes 2 -q
wheel/bin/attnc verify wheel.attnpack --shapes 2 -q
wheel/bin/attnc on-gpu --device sim --short
wheel/bin/attnc calibrate on-gpu.tar.gz | grep SIMULATED
END
chroot "$root" sh /tmp/try || fail 'does not work there'
echo 'wheel and tarball work on a bare root'
