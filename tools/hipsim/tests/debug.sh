#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# debug.sh HIPSIM CLANG: stops a kernel at lines and stores, steps it, and prints registers and memory.
set -eu
hipsim=$(readlink -f "$1") clang=$2
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
cd "$root"
fail() { echo "debug: $*" >&2; cat log >&2; exit 1; }

cat >axpy.cl <<'END'
__kernel void axpy(const __global float *x, __global float *y, float a, int n)
{
    __local int shared[64];
    const int lane = __builtin_amdgcn_workitem_id_x(), i = 64 * __builtin_amdgcn_workgroup_id_x() + lane;

    shared[lane] = 100 + lane;
    __builtin_amdgcn_s_barrier();
    if (i < n)
        y[i] += a * x[i] + shared[lane ^ 1];
}
END
"$clang" -O1 -g -target amdgcn-amd-amdhsa -mcpu=gfx942 -nogpulib -mcode-object-version=5 axpy.cl -o axpy.co -w

# Runs the kernel with commands and writes the output to `log`: debug PLACE COMMANDS
debug() {
    printf "$2" | "$hipsim" --break "$1" run axpy.co --grid 3 --block 64 --arg f32:192=ramp --arg f32:${3-192}=1 --arg f32=0.5 \
        --arg i32=192 --print 1:3 >log 2>&1
}
# Fails unless a line of the log matches: has REGEX [COUNT].
has() {
    count=$(grep -c -- "$1" log || true)
    [ "$count" -ge 1 ] && [ "$count" -eq "${2-$count}" ] || fail "$1: $count lines"
}

debug axpy 'p pc v0[3] exec scc\nc\nc\n' || fail 'the kernel does not end'
has '^stopped before entry+0 in kernel axpy, workgroup' 3
has 'workgroup (2, 0, 0), wave 0'
has '^pc = 0x200000'
has '^v0\[3\] = 0x00000003$'
has '^exec = 0xffffffff ffffffff$'
has '^scc = 0x?$'
has '^argument 1: 102 101.5 105$'

debug axpy:9 'l 0 4\nl 252 2\nt 3\ns 2\ns 1000\n' || fail 'the kernel does not end'
has '^  source .*axpy.cl:9 in axpy$'
has '^lds 0: 00000064 00000065 00000066 00000067$'
has '^lds 252: 000000a3 the workgroup has 256 bytes of LDS$'
has '^  entry+[0-9]*: ' 3
has '^the wave has ended$'

debug axpy 'd\ng 2 0\nb :9\nc\ng\012d\ni\n' || fail 'the kernel does not end'
has '^stopped before entry+[0-9]* in kernel axpy, workgroup (2, 0, 0)' 1
has 'written at entry+[0-9]*: '

# The address of y comes from its register pair, in one lane.
debug axpy:9 'p v0\n' || fail 'the kernel does not end'
address=$("$hipsim" run axpy.co --grid 3 --block 64 --arg f32:192=ramp --arg f32:191=1 --arg f32=1 --arg i32=192 2>&1 |
    sed -n 's/.*allocation #2 at \(0x[0-9a-f]*\).*/\1/p')
[ -n "$address" ] || fail 'no address of y'
debug axpy "d\nw $address 8\nx $address 2\nx 0x10 1\nc\nx $address 2\nc\n" || fail 'the kernel does not end'
has "^address $address was stored to; now at entry" 1
has ": 3f800000 3f800000$"
has ": 42cc0000 42cb0000$"
has '^0x10: '
debug axpy 'd\nw lds:8\nc\nc\nc\n' || fail 'the kernel does not end'
has '^lds 0x8 was stored to; now at entry' 3

debug axpy 'p w9\nz\nb\ns 0\nw\nx\nc\nc\nc\n' || fail 'the kernel does not end'
has '^there is no register w9$'
has '^not understood: ' 5
has '^c  *continue$'
debug axpy+0 'q\n' && ! grep -q argument log || fail 'q does not end the program'
! debug axpy:x '' && grep -q 'option break does not take "axpy:x"' log || fail 'a place that is none'
debug axpy:99 '' && grep -q '^line 99 has no code in kernel axpy$' log || fail 'a line without code'

# A report has the registers that the instruction reads, and the instructions that wrote them.
! debug other '' 191 || fail 'no finding'
has '^  v\[[0-9]*:[0-9]*\] = 0x00002000 [0-9a-f]* in lane 63, written at entry+[0-9]*: v_'
echo 'a kernel stops, steps and shows its state'
