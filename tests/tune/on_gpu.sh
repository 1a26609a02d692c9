#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# on_gpu.sh ATTNC LIBRARIES: attnc on-gpu with the simulator as the GPU, whose times vary, and attnc calibrate of
# what it leaves, on a machine without that GPU.
set -eu
attnc=$(realpath "$1")
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
cd "$root"
fail() { echo "on_gpu: $*" >&2; exit 1; }
export XDG_CACHE_HOME="$root/cache"
mkdir -p here lines in/hooks in/lib
echo 'kernels: [{ op: decode, head_dim: 64, gqa: 8, page_size: 16 }]' >d.yaml
# A description may have the name of another file of the archive.
echo 'kernels: [{ op: decode, head_dim: 64, gqa: 8, page_size: 16, logits: hooks/half.c }]' >in/shapes
echo '#define FACTOR 0.5f' >'in/hooks/a factor.h'
# The hook is a link: its kernel has the link's name, and the archive a file.
ln -s ../lib/half_v2.c in/hooks/half.c
cat >in/lib/half_v2.c <<'END'
#include <attn_hook.h>
#include "a factor.h"

float attn_logits(float logit, int query, int key, int head, int q_len, int kv_len, const ATTN_DEVICE void *arg)
{
    return FACTOR * logit;
}
END
echo 'decode batch=1,k=128,heads=8' >lines/shapes
LD_LIBRARY_PATH="$2" HIPSIM=target=gfx950 SHAKY=noise=1,execute=4096 \
    "$attnc" on-gpu in/shapes --short --shapes lines/shapes -o here/out.tar.gz 2>log || { cat log; exit 1; }
grep -q '1 kernel, about two minutes' log || fail 'no estimate'
grep -qF '[5/5] tune: good' log || fail 'no progress'
! "$attnc" on-gpu d.yaml --device sim -o here/out.tar.gz 2>again || fail 'replaced results'
grep -q 'remove it' again || fail 'no advice'

# Refuses hooks in two folders, and names a hook that is not below its description's folder.
mkdir -p second/hooks outside
cp in/shapes second/second.yaml
cp in/hooks/* second/hooks
sed 's:hooks/half:../in/hooks/half:' in/shapes >outside/third.yaml
status=0
"$attnc" on-gpu outside/third.yaml in/shapes second/second.yaml --device sim --short -o two.tar.gz 2>places || status=$?
[ "$status" -eq 1 ] && grep -q 'put them into one folder' places || { cat places; fail 'took hooks of two folders'; }
grep -q '/in/hooks/half.c is outside .*/outside, so the archive lacks it' places || { cat places; fail 'a missing hook is not named'; }

# A hook below a linked folder, one by way of another folder, and an include by an absolute path.
mkdir -p links/hooks links/detour beyond
cp 'in/hooks/a factor.h' links/hooks/factor.h
sed "s:\"a factor.h\":\"$root/links/hooks/factor.h\":" in/hooks/half.c >links/hooks/half.c
cp in/hooks/half.c beyond/far.c
cp 'in/hooks/a factor.h' beyond
ln -s ../beyond links/linked
sed 's:hooks/half:linked/far:' in/shapes >links/far.yaml
sed 's:hooks/half:detour/../hooks/half:' in/shapes >links/way.yaml
status=0
"$attnc" on-gpu links/way.yaml links/far.yaml --device sim --short -o far.tar.gz 2>places || status=$?
[ "$status" -eq 1 ] && grep -q 'put them into one folder' places || { cat places; fail 'took a linked folder for the same'; }
grep -qF "/links/detour/../hooks/half.c names $root/links/hooks/factor.h by its absolute path" places ||
    { cat places; fail 'an absolute include is not named'; }
[ "$(grep -c 'by its absolute path' places)" -eq 1 ] || { cat places; fail 'more is named than one include'; }
cmp links/hooks/half.c far/descriptions/detour/../hooks/half.c && cmp links/hooks/factor.h far/descriptions/hooks/factor.h ||
    fail 'hooks by way of another folder are missing'
rm -r far
"$attnc" on-gpu links/far.yaml in/shapes --device sim --short -o far.tar.gz 2>places && fail 'took two folders'
cmp beyond/far.c far/descriptions/linked/far.c && cmp 'beyond/a factor.h' 'far/descriptions/linked/a factor.h' ||
    fail 'hooks of a linked folder are missing'

mkdir other && cp d.yaml other
status=0
"$attnc" on-gpu d.yaml other/d.yaml --device sim -o names.tar.gz 2>names || status=$?
[ "$status" -eq 1 ] && grep -q 'have the same name in the archive' names || fail 'took two files of one name'

mkdir there
tar -C there -xzf here/out.tar.gz
for file in on-gpu.json verify.json bench.out tuned.yaml tuned.attnpack tuned.sqlite loops; do
    [ -s "there/out/$file" ] || fail "$file is missing"
done
for file in half.c 'a factor.h'; do
    cmp "in/hooks/$file" "there/out/descriptions/hooks/$file" || fail "$file is missing"
done
[ ! -e there/out/descriptions/hooks/attn_hook.h ] || fail 'the archive has a file of attnc'
cmp in/shapes there/out/descriptions/shapes && cmp lines/shapes there/out/shapes || fail 'a description and another file share a name'
python3 - there/out/on-gpu.json "$root" <<'END' || fail 'facts are wrong'
import json, sys
text = open(sys.argv[1]).read()
facts = json.loads(text)
assert facts['simulated'] is True and facts['short'] is True and facts['device'] == 'hip'
assert facts['gpu']['target'] == 'gfx950' and facts['gpu']['compute_units'] == 256, facts['gpu']
assert facts['gpu']['engine_mhz'] == 2400 and facts['gpu']['hip_version'] > 0, facts['gpu']
assert facts['host']['kernel'] and facts['host']['system'] and 'rocm' in facts['host']
assert set(facts['driver']) >= {'amdgpu', 'vbios', 'engine_clocks', 'power_cap_uw'}
assert [s['name'] for s in facts['steps']] == ['build', 'verify', 'bench', 'loops', 'tune']
assert all(s['status'] == 0 and s['seconds'] > 0 for s in facts['steps']), facts['steps']
assert sys.argv[2] not in text, 'paths of this machine'
END

# Elsewhere there is no such GPU, and what arrives is enough. Times vary by
# 1 %, and what varies is no reason to change a parameter.
unset LD_LIBRARY_PATH
mv in away
"$attnc" calibrate here/out.tar.gz >fit || { cat fit; exit 1; }
for line in 'SIMULATED' 'gfx950 --parameters (nothing changes)' 'root mean square'; do
    grep -qF -- "$line" fit || { cat fit; fail "$line is missing"; }
done
# In older archives the descriptions are beside the other files.
cp -r there older && rm older/out/loops
mv older/out/descriptions/shapes older/out/old.yaml && mv older/out/descriptions/hooks older/out && rmdir older/out/descriptions
sed 's/"shapes"/"old.yaml"/' older/out/on-gpu.json >facts && mv facts older/out/on-gpu.json
tar -C older -czf older.tar.gz out
"$attnc" calibrate older.tar.gz >fit || { cat fit; fail 'does not read an older archive'; }
grep -q 'root mean square' fit || { cat fit; fail 'fits no launch of an older archive'; }
# An archive of the simulator has loops, and no launches that were measured.
sed 's/"device": "hip"/"device": "sim"/' there/out/on-gpu.json >facts && mv facts there/out/on-gpu.json
rm there/out/loops
tar -C there -czf sim.tar.gz out
"$attnc" calibrate sim.tar.gz >fit || { cat fit; exit 1; }
grep -q 'no loops' fit && grep -q 'Launches: none' fit || { cat fit; fail 'fits what was not measured'; }
"$attnc" calibrate d.yaml 2>none && fail 'took a description'
grep -q 'not an archive' none || fail 'no reason'

status=0
"$attnc" on-gpu d.yaml --device hip -o none.tar.gz 2>none || status=$?
[ "$status" -eq 2 ] || fail "without a GPU: $status"
grep -q -- '--device sim shows' none || fail 'no advice without a GPU'
