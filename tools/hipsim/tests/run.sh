#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh HIPSIM CLANG: launches kernels of a code object with `hipsim run`.
set -eu
hipsim=$(readlink -f "$1") clang=$2
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
cd "$root"
fail() { echo "run: $*" >&2; [ ! -f log ] || cat log >&2; exit 1; }

cat >axpy.c <<'END'
#define GLOBAL __attribute__((address_space(1)))
__attribute__((amdgpu_kernel)) void axpy(const GLOBAL float *x, GLOBAL float *y, float a, int n)
{
    const int i = 64 * __builtin_amdgcn_workgroup_id_x() + __builtin_amdgcn_workitem_id_x();
    if (i < n)
        y[i] += a * x[i];
}
#ifdef SECOND
__attribute__((amdgpu_kernel)) void bytes(GLOBAL unsigned char *to, GLOBAL short *wide, double d)
{
    const int i = __builtin_amdgcn_workitem_id_x();
    to[i] = to[i] + 1;
    if (wide)
        wide[i] = d;
}
__attribute__((amdgpu_kernel)) void nothing(void) {}
#endif
END
for target in gfx942 gfx950; do
    "$clang" -O2 -target amdgcn-amd-amdhsa -mcpu=$target -nogpulib -mcode-object-version=5 axpy.c -o $target.co
done
"$clang" -O2 -DSECOND -target amdgcn-amd-amdhsa -mcpu=gfx942 -nogpulib -mcode-object-version=5 axpy.c -o two.co

# Runs a command that has to end with a status and print a text: expect STATUS TEXT WORD...
expect() {
    wanted=$1 text=$2
    shift 2
    status=0
    "$hipsim" "$@" >log 2>&1 || status=$?
    [ "$status" = "$wanted" ] && grep -q -- "$text" log || fail "$*: status $status"
}
for target in gfx942 gfx950; do
    expect 0 '^argument 1: 1 3.5 6$' run $target.co --grid 3 --block 64 --arg f32:130=ramp --arg f32:130=1 \
        --arg f32=2.5 --arg i32=130 --print 1:3 --dump 1:y.bin
    [ "$(wc -c <y.bin)" = 520 ] || fail 'a dump has another size'
done
expect 0 '^argument 1: 1 3.5 6 8.5$' run gfx942.co --grid 1 --block 64 --arg @y.bin --arg f32:4=@y.bin --arg f32=0 \
    --arg i32=4 --print 1:9
expect 0 'modelled, not measured' --time run gfx950.co --grid 1 --block 64 --arg f32:64=random --arg f32:64=zero \
    --arg f32=1 --arg i32=64
expect 0 '^argument 0: 8 8 8$' run two.co --kernel bytes --grid 1 --block 3 --arg u8:3=7 --arg null --arg f64=1 --print 0
expect 0 '^argument 1: -3 -3$' run two.co --kernel bytes --grid 1,1,1 --block 2,1 --arg u8:2=7 --arg i16:2 \
    --arg f64=-3.5 --print 1
expect 0 '^argument 1: 1 2 3$' run gfx942.co --grid 1 --block 3 --arg f32:3=ramp --arg f32:3=1 --arg hex=0000803f \
    --arg hex=03000000 --print 1
expect 0 'modelled' --time run two.co --kernel nothing --grid 2 --block 64
expect 1 'out of bounds' run gfx942.co --grid 1 --block 64 --arg f32:64=ramp --arg f32:63=1 --arg f32=1 --arg i32=64
expect 1 'undefined value' run gfx942.co --grid 1 --block 64 --arg f32:64=ramp --arg f32:64 --arg f32=1 --arg i32=64
expect 0 '^hipsim: 6 of 100 workgroups' --sample 6 run gfx942.co --grid 100 --block 64 --arg f32:6400=1 \
    --arg f32:6400=1 --arg f32=1 --arg i32=6400 --dump 1:y.bin
[ "$(od -An -v -w256 -tf4 y.bin | grep -c ' 2 ')" = 6 ] || fail 'a sample runs other workgroups'


# Prints the value of a column in the last row of counters.csv.
column() {
    python3 -c 'import csv, sys; print(list(csv.DictReader(open("counters.csv")))[-1][sys.argv[1]])' "$1"
}
expect 0 '^argument' --counters counters.csv run gfx942.co --grid 2 --block 64 --arg f32:128=1 --arg f32:128=1 --arg f32=1 \
    --arg i32=128 --print 1
[ "$(column SQ_WAVES) $(column SQ_INSTS_VMEM) $(column SQ_INSTS_MFMA) $(column Cycles)" = '2 6 0 ' ] || fail 'wrong counters'
expect 0 'modelled' --time --counters counters.csv run gfx942.co --grid 2 --block 64 --arg f32:128=1 --arg f32:128=1 \
    --arg f32=1 --arg i32=128
[ "$(column Cycles)" -gt 100 ] && [ "$(column Store_Bytes)" = 512 ] && [ "$(column Load_Bytes)" -ge 1024 ] || fail 'wrong modelled counters'
expect 1 'no/where.csv: No such file' --counters no/where.csv run gfx942.co --grid 1 --block 64 --arg null --arg null \
    --arg f32=1 --arg i32=0

# Patches a dword to s_endpgm at the entry, so the buffer does not change. A longer latency changes no result.
expect 0 '^argument 1: 1 1$' --patch axpy+0:bf810000 run gfx942.co --grid 1 --block 64 --arg f32:64=2 --arg f32:64=1 \
    --arg f32=1 --arg i32=64 --print 1:2
expect 1 'option patch does not take "axpy+2:0"' --patch axpy+2:0 run gfx942.co --grid 1 --block 64 --arg null --arg null \
    --arg f32=1 --arg i32=0
expect 0 '^argument 1: 3 3$' --patch other+0:bf810000 --latency 1000 run gfx942.co --grid 1 --block 64 --arg f32:64=2 \
    --arg f32:64=1 --arg f32=1 --arg i32=64 --print 1:2

expect 2 'takes 4 arguments of 8 8 4 4 bytes; the command line has 8$' run gfx942.co --grid 1 --block 64 --arg f32:8=1
expect 2 'the command line has 8 8 8 4$' run gfx942.co --grid 1 --block 64 --arg f32:8 --arg null --arg f64=1 --arg i32=1
expect 2 'there is no kernel other' run gfx942.co --kernel other --grid 1 --block 64
expect 2 '^  bytes$' run two.co --grid 1 --block 64
expect 2 'the code object is for gfx950' --target gfx942 run gfx950.co --grid 1 --block 64
expect 2 'nothere.co: No such file' run nothere.co --grid 1 --block 64
expect 2 'one code object is needed' run --grid 1 --block 64
expect 2 'grid and --block are needed' run gfx942.co --grid 1
expect 2 'cannot read "0"' run gfx942.co --grid 0 --block 64
expect 2 'cannot read "1,2,3,4"' run gfx942.co --grid 1,2,3,4 --block 64
for form in hex= hex=123 hex=0g i32 f32:0 f32:x i8=128 i8=-129 u8=256 u16=-1 f16=one i32:4=1.5 i32:4=@ @ int=3 f32:4x; do
    expect 2 "argument \"$form\"" run gfx942.co --grid 1 --block 64 --arg "$form"
done
expect 1 'y.bin has 25600 bytes, 40000 are needed' run gfx942.co --grid 1 --block 64 --arg f32:10000=@y.bin --arg null \
    --arg f32=1 --arg i32=1
expect 2 'take the number of a buffer' run gfx942.co --grid 1 --block 64 --arg i32=1 --print 0
expect 0 'TYPE:COUNT=FILL' run --help
echo 'kernels of a code object run from the command line'
