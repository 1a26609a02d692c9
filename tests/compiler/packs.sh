#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# packs.sh SOURCE ATTNC: tools/packs twice. Archives and manifest have the same bytes, the manifest says what is in them, and
# a description that does not build leaves no manifest.
set -eu
source=$(realpath "$1") attnc=$(realpath "$2")
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
cd "$root"
fail() { echo "packs: $*" >&2; exit 1; }
echo '{ targets: [gfx942, gfx950], kernels: [{ op: decode, dtype: bf16, head_dim: 64, gqa: 8, page_size: 16 }] }' >tiny.yaml
for out in one two; do
    "$source/tools/packs" "$out" --attnc "$attnc" --verify 1 tiny.yaml 2>log || { cat log; exit 1; }
done
cmp one/manifest.json two/manifest.json
cmp one/tiny-*.tar.gz two/tiny-*.tar.gz
tar -xzf one/tiny-*.tar.gz
python3 - <<'END' || fail 'the manifest is wrong'
import glob, hashlib, json
family, = json.load(open('one/manifest.json'))['families']
def digest(path):
    return hashlib.sha256(open(path, 'rb').read()).hexdigest()
assert family['sha256'] == digest('one/' + family['archive'])
assert set(family['files']) == {'tiny.attnpack', 'tiny.yaml'}
assert all(facts['sha256'] == digest('tiny/' + name) for name, facts in family['files'].items())
assert family['kernels'] == {'gfx942': 1, 'gfx950': 1}
assert family['verified'] == {'device': 'hipsim', 'kernels': 2, 'shapes': 2}
END
"$attnc" list tiny/tiny.attnpack >/dev/null
echo '{ targets: gfx942, kernels: [{ op: none }] }' >bad.yaml
! "$source/tools/packs" three --attnc "$attnc" bad.yaml 2>log || fail 'packed what does not build'
grep -q 'attnc build .*exit status 1' log || { cat log; fail 'no reason'; }
[ ! -e three/manifest.json ] || fail 'wrote a manifest of nothing'
