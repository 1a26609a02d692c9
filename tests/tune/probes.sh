#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# probes.sh ATTNC: measures the simulator instead of a GPU, with its own parameters and with changed
# ones. `--fit` must find the changes from the measured loops.
set -eu
attnc=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# measure TARGET FILE [OPTION]...
measure() {
    target=$1 file=$2
    shift 2
    "$attnc" probes --device sim --target "$target" -o "$file" "$@"
}
# The loops of grids, laws, MALL and power take most of the time: each kind is measured on one target, below.
measure gfx942 "$work/own" --only '[!glmp]*'
"$attnc" probes --fit "$work/own" >"$work/fit"
grep -q -- "gfx942 --parameters (nothing changes)" "$work/fit" || { cat "$work/fit"; exit 1; }

# expect_found TARGET NAME=VALUE,... GLOB: measures loops with these parameters; the fit must find them within 1 %.
expect_found() {
    target=$1 other=$2
    measure "$target" "$work/other" --parameters "$other" --only "$3"
    "$attnc" probes --fit "$work/other" >"$work/fit"
    ! grep 'NOT REACHED' "$work/fit" || exit 1
    for one in $(echo "$other" | tr , ' '); do
        found=$(awk -v name="${one%=*}" '$1 == name { print $3 }' "$work/fit")
        awk -v found="$found" -v right="${one#*=}" \
            'BEGIN { off = found - right; exit !(found != "" && off * off <= 1e-4 * right * right) }' ||
            { cat "$work/fit"; echo "$one is found as $found"; exit 1; }
    done
}
other=valu_mul32_cycles=12,branch_taken_cycles=28,branch_fall_cycles=12,straddle_cycles=2
other=$other,branch_straddle_cycles=13,barrier_cycles=40,ifetch_latency=700,scalar_latency=80,lds_latency=55
other=$other,lds_write_b128_issue=12,l1_latency=118,dispatch_cycles=9,workgroup_idle_cycles=900
other=$other,graph_node_us=3,atomic_cycles=5,code_warm=0,mall_gb_per_s=13000,l2_writeback_cycles=300,l1_invalidate_cycles=40
expect_found gfx950 "$other,matrix_closed_short=4,grid_barrier_cycles=1700,power_matrix_4=0.9,power_matrix_32=0.7" '*'
expect_found gfx942 law_mhz=2080,law_slope=10.5,power_matrix_8=0.9 '[lp][ao]w*'
