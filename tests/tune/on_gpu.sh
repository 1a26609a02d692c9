#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# on_gpu.sh SOURCE ATTNC LIBRARIES PROBES: tools/on-gpu with the simulator as the GPU.
set -eu
source=$1 attnc=$(realpath "$2") probes=$(realpath "$4")
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
cd "$root"
export XDG_CACHE_HOME="$root/cache" LD_LIBRARY_PATH="$3" HIPSIM=target=gfx950 SHAKY=noise=1,execute=4096
export ON_GPU_TUNE='--tiles 1 --verify 1 --seconds 1 --flush 1'
echo 'kernels: [{ op: decode, head_dim: 64, gqa: 8, page_size: 16 }]' >d.yaml
echo 'decode batch=1,k=128,heads=8' >shapes
"$source/tools/on-gpu" -a "$attnc" -p "$probes" -t gfx950 -s shapes -o out.tar.gz d.yaml
tar -xzf out.tar.gz
for file in machine.out verify.json bench.out tuned.yaml tuned.attnpack tuned.sqlite calibrate.out loops loops-fit.out d.yaml shapes; do
    [ -s "on-gpu/$file" ] || { echo "$file is missing"; exit 1; }
done
grep -q 'root mean square' on-gpu/calibrate.out
# Times vary by 1 %, and what varies is no reason to change a parameter.
grep -q -- 'gfx950 --parameters (nothing changes)' on-gpu/loops-fit.out || { cat on-gpu/loops-fit.out; exit 1; }
# What arrives elsewhere is enough for a calibration there.
cd on-gpu
unset LD_LIBRARY_PATH
"$attnc" tune d.yaml --target gfx950 --shapes shapes --tiles 1 --db tuned.sqlite --tuning x.yaml --calibrate
