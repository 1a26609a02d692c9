#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# attnc_wheel.sh SOURCE [SUITE]...: the wheels and the tarball, installed on roots that have nothing else.
#
# On Debian 12 and 13 and Ubuntu 24.04 the wheel of attnc and the tarball compile and verify a kernel, with the same bytes, and
# run attnc on-gpu; the wheel of hipsim loads the simulator. attnc verifies every kernel of a prebuilt pack, on its first 6 shapes,
# in at most two minutes of two cores. All shapes take longer (docs/install.md), too near to the limit on a machine with other work.
# On Ubuntu 22.04, whose C library is too old for attnc, pip refuses the wheel of attnc and installs that of libattn, which opens
# the pack. SUITEs choose roots; all by default. It needs root and the network.
set -eu
cd "$1"
shift
[ $# -gt 0 ] || set -- bookworm trixie noble jammy
fail() { echo "attnc_wheel: $*" >&2; exit 1; }
[ "$(id -u)" -eq 0 ] || fail 'needs root, for chroot'
tools/packages debootstrap wget
. tests/bare_root.sh
export PYTHON="${PYTHON:-/usr/bin/python3}"
files=${ATTN_WHEELS:-}
if [ -z "$files" ]; then
    files=$(mktemp -d)
    tools/attnc/wheel "$files" >/dev/null
    tools/wheel "$files" -Dcompiler=false -Dhipsim=false >/dev/null
    tools/hipsim/wheel "$files" >/dev/null
fi
ls "$files"/attnc-*-py3-none-manylinux_*.whl "$files"/attn-*-py3-none-manylinux_*.whl "$files"/hipsim-*-py3-none-manylinux_*.whl >/dev/null ||
    fail 'a wheel has no manylinux tag'
mkdir -p "$files/unpacked" "$files/packs"
tar -xzf "$files"/attnc-*-linux-*.tar.gz -C "$files/unpacked"
if grep -rlF "${PWD#/}/" "$files/unpacked"; then fail 'these files have the path of the build'; fi
tools/packs "$files/packs" --attnc "$files"/unpacked/attnc-*/bin/attnc --verify 0 examples/llama3.yaml >/dev/null

cat >"$files/try" <<'END'
set -eu
cd /tmp
python3 -m venv wheel
wheel/bin/pip install -q --no-index ./attnc-*.whl
tar -xzf attnc-*-linux-*.tar.gz
rm attnc-*-linux-*.tar.gz
tar -xzf llama3-*.tar.gz
python3 - wheel/bin/attnc verify llama3/llama3.attnpack --shapes 6 -q <<'PY'
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
seconds = used.ru_utime + used.ru_stime
print(f"the pack is verified in {seconds:.0f} CPU seconds")
sys.exit(seconds > 240)
PY
echo '{ targets: [gfx942, gfx950], kernels: [{ op: prefill, dtype: bf16, head_dim: 64 }] }' >d.yaml
HOME=/tmp/a wheel/bin/attnc build d.yaml -q -o wheel.attnpack
HOME=/tmp/b attnc-*/bin/attnc build d.yaml -q -o tar.attnpack
cmp wheel.attnpack tar.attnpack
attnc-*/bin/attnc list tar.attnpack | grep '^prefill_bf16_d64_gfx950 '
for folder in attnc-*/ wheel/lib/python3*/site-packages/attnc/; do
    "$folder/bin/attnc" on-gpu --help >/dev/null
    "$folder/bin/hipsim" run --help >/dev/null
    [ -s "$folder/include/attn_hook.h" ] # beside bin/, where attnc looks for it
done
attnc-*/bin/attnc verify tar.attnpack --shapes 2 -q
wheel/bin/attnc verify wheel.attnpack --shapes 2 -q
python3 -m venv simulator
simulator/bin/pip install -q --no-index ./hipsim-*.whl
simulator/bin/hipsim run --help >/dev/null
simulator/bin/python -c 'from hipsim import _library; _library.library().configure(target="gfx950")'
wheel/bin/attnc on-gpu --device sim --short
wheel/bin/attnc calibrate on-gpu.tar.gz | grep SIMULATED
END
cat >"$files/try_library" <<'END'
set -eu
cd /tmp
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-cffi >log 2>&1 || { cat log; exit 1; }
python3 -m venv --system-site-packages wheel
if wheel/bin/pip install -q --no-index --no-deps ./attnc-*.whl >refused 2>&1; then
    echo 'pip took the wheel of attnc'
    exit 1
fi
grep -q 'is not a supported wheel on this platform' refused
wheel/bin/pip install -q --no-index --no-deps ./attn-*.whl
tar -xzf llama3-*.tar.gz
wheel/bin/python -c '
import attn
kernels = attn.Pack("llama3/llama3.attnpack").kernels()
assert len(kernels) > 10
print(len(kernels), "kernels of a pack")'
END
for suite; do
    script=try
    [ "$suite" != jammy ] || script=try_library
    bare_root "$suite" python3-minimal,python3-pip,python3-venv
    cp "$files"/*.whl "$files"/attnc-*-linux-*.tar.gz "$files"/packs/*.tar.gz "$files/$script" "$root/tmp"
    chroot "$root" sh "/tmp/$script" || fail "does not work on $suite"
    echo "$suite: works on a bare root"
done
