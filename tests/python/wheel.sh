#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# wheel.sh SOURCE PYTHON library|full: the wheel, made as pip makes it, is installed in a fresh virtual
# environment and runs the examples. `library` is libattn alone, which takes seconds; it takes attnc and
# hipsim from the build. `full` makes the sdist first and the wheel of that, with attnc and hipsim.
set -eu
source=$1 python=$2 kind=$3
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
fail() { echo "wheel: $*" >&2; exit 1; }
if ! "$python" -c 'import mesonpy, wheel, venv, ensurepip' 2>"$root/log"; then
    echo "skipped, since meson-python, wheel or venv is not installed: $(tail -n 1 "$root/log")"
    exit 77
fi
unset PYTHONPATH LD_LIBRARY_PATH
if [ "$kind" = full ]; then
    unset ATTN_LIBRARY ATTN_ATTNC ATTN_HIPSIM
    git -C "$source" rev-parse -q --verify HEAD >"$root/log" 2>&1 || { echo 'skipped, since meson dist needs git'; exit 77; }
    git clone -q "$source" "$root/clone"
    (cd "$root/clone" && "$python" -c "import mesonpy; mesonpy.build_sdist('$root')") >"$root/log" 2>&1 ||
        { cat "$root/log"; fail 'no sdist'; }
    tar -xzf "$root"/attn-*.tar.gz -C "$root"
    tree=$(echo "$root"/attn-*/)
    set --
else
    unset ATTN_LIBRARY
    mkdir "$root/tree"
    (cd "$source" && tar -cf - --exclude='./build*' --exclude=./.git .) | tar -xf - -C "$root/tree"
    tree=$root/tree
    set -- -Dcompiler=false -Dhipsim=false
fi
# wheel-python skips a python3 on the path that lacks the modules. It does not replace the one that PYTHON names.
mkdir "$root/bin"
printf '#!/bin/sh\nexit 1\n' >"$root/bin/python3"
chmod +x "$root/bin/python3"
if /usr/bin/python3 -c 'import mesonpy, wheel' 2>/dev/null; then
    found=$(unset PYTHON; PATH="$root/bin:$PATH" "$tree/tools/wheel-python" mesonpy wheel) || fail 'no Python is found'
    [ "$found" = /usr/bin/python3 ] || fail "$found makes wheels in place of /usr/bin/python3"
fi
! PYTHON=$root/bin/python3 "$tree/tools/wheel-python" wheel 2>"$root/log" || fail 'a Python without wheel is taken'
grep -q 'lacks one of: wheel' "$root/log" || fail "$(cat "$root/log")"
PYTHON=$python "$tree/tools/wheel" "$root" "$@" >"$root/log" 2>&1 || { tail -n 40 "$root/log"; fail 'no wheel'; }
# libattn needs the C library alone; attnc needs LLVM's too.
case $kind:$(basename "$root"/attn-*.whl) in
library:attn-*-py3-none-manylinux_2_*.whl | full:attn-*-py3-none-linux_*.whl) ;;
*) fail "$(basename "$root"/attn-*.whl) has another tag" ;;
esac

# cffi and numpy are the system's; of attn there is nothing but the wheel.
"$python" -m venv --system-site-packages "$root/venv"
"$root/venv/bin/pip" install -q --no-index --no-deps --disable-pip-version-check "$root"/attn-*.whl
cd "$root"
"$root/venv/bin/python" -c "import attn, sys; sys.exit('venv' not in attn.__file__)" || fail 'another attn'
for example in "$source"/examples/python/*.py; do
    "$root/venv/bin/python" "$example" >"$root/log" 2>&1 || { cat "$root/log"; fail "$example"; }
done
if [ "$kind" = full ]; then
    "$root/venv/bin/attnc" version >"$root/log" 2>&1 || { cat "$root/log"; fail 'no attnc command'; }
    printf 'targets: [gfx942]\nkernels: [{ op: plan }]\n' >d.yaml
    "$root/venv/bin/attnc" build d.yaml -o d.attnpack -q && "$root/venv/bin/attnc" verify d.attnpack \
        --device sim >"$root/log" 2>&1 || { cat "$root/log"; fail 'the attnc of the wheel does not verify'; }
fi
echo "$(ls -s "$root"/attn-*.whl | awk '{ print $1 }') KiB, installed, and the examples run"
