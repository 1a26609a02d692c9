#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# wheel.sh SOURCE PYTHON CLANG: builds hipsim's own wheel, installs it in a fresh virtual environment, and runs a kernel with it.
set -eu
source=$1 python=$2 clang=$3
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
fail() { echo "wheel: $*" >&2; [ ! -f "$root/log" ] || tail -n 40 "$root/log" >&2; exit 1; }
"$python" -c 'import wheel, venv, ensurepip' 2>"$root/log" || { echo 'wheel or venv is not installed'; exit 77; }
PYTHON=$python "$source/tools/hipsim/wheel" "$root" >"$root/log" 2>&1 || fail 'no wheel'
# The tag manylinux: the wheel needs the C library of the system and no other library.
ls "$root"/hipsim-*-py3-none-manylinux_2_*.whl >"$root/log" 2>&1 || fail "$(cd "$root" && echo hipsim-*.whl) has another tag"
"$python" -m venv "$root/venv" && "$root/venv/bin/pip" install -q --no-index --no-deps "$root"/hipsim-*.whl >"$root/log" 2>&1 ||
    fail 'the wheel does not install'
cd "$root"
cat >twice.c <<'END'
__attribute__((amdgpu_kernel)) void twice(__attribute__((address_space(1))) int *x)
{
    x[__builtin_amdgcn_workitem_id_x()] *= 2;
}
END
"$clang" -O2 -target amdgcn-amd-amdhsa -mcpu=gfx950 -nogpulib -mcode-object-version=5 twice.c -o twice.co
unset HIPSIM_LIBRARY LD_LIBRARY_PATH PYTHONPATH
venv/bin/hipsim run twice.co --grid 1 --block 4 --arg i32:4=21 --print 0 >log 2>&1 || fail 'the command fails'
grep -qx 'argument 0: 42 42 42 42' log || fail 'the command is wrong'
venv/bin/python -c 'from hipsim import _library; _library.Library(_library.library_path()).configure(target="mi355x")' >log 2>&1 || fail 'the package does not find its library'
XDG_CACHE_HOME=$root/cache venv/bin/python -c 'import os
from hipsim import _library, _triton
path = _library.library_path()
named = _triton.named_library(path)
assert named.endswith("/libamdhip64.so") and os.path.samefile(named, path) and _triton.named_library(path) == named' >log 2>&1 ||
    fail 'Triton does not take the library'
echo 'hipsim installs and runs without attnc'
