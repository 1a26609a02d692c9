#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# probes.sh PROBES SIMULATOR: the simulator as the GPU, as it is and with other parameters, which have to be
# found from what the loops saw.
set -eu
probes=$1 simulator=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# measure TARGET FILE [OPTION]...
measure() {
    target=$1 file=$2
    shift 2
    HIPSIM=target=$target "$probes" measure --target "$target" --library "$simulator" -o "$file" "$@"
}
measure gfx942 "$work/own"
"$probes" fit "$work/own" >"$work/fit"
grep -q -- "gfx942 --parameters (nothing changes)" "$work/fit" || { cat "$work/fit"; exit 1; }

other=valu_mul32_cycles=12,branch_taken_cycles=28,branch_fall_cycles=12,straddle_cycles=2
other=$other,branch_straddle_cycles=13,barrier_cycles=40,ifetch_latency=700,scalar_latency=80,lds_latency=55
other=$other,lds_write_b128_issue=12,l1_latency=118,dispatch_cycles=9,workgroup_idle_cycles=900
measure gfx950 "$work/other" --parameters $other
"$probes" fit "$work/other" >"$work/fit"
! grep 'NOT REACHED' "$work/fit" || exit 1
for one in $(echo $other | tr , ' '); do
    found=$(awk -v name="${one%=*}" '$1 == name { print $3 }' "$work/fit")
    awk -v found="$found" -v right="${one#*=}" 'BEGIN { exit !(found > 0.99 * right && found < 1.01 * right) }' ||
        { cat "$work/fit"; echo "$one is found as $found"; exit 1; }
done
