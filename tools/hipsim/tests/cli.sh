#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# cli.sh HIPSIM CLANG EXAMPLES WEAKEN: compiles HIP programs with `hipsim cc`, and runs them with the options of the command. Weakens
# the waits of one program.
set -eu
hipsim=$(readlink -f "$1") clang=$2 examples=$(readlink -f "$3") weaken=$(readlink -f "$4")
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
cd "$root"
fail() { echo "cli: $*" >&2; [ ! -f log ] || cat log >&2; exit 1; }

cat >sum.hip <<'END'
#include <hip/hip_runtime.h>
#include <hip/hip_fp16.h>
#include <cstdio>
#include <cstring>

__global__ void sum(const int *in, int *out, int n)
{
    __shared__ int part[256];
    __shared__ unsigned turns;
    part[threadIdx.x] = in[threadIdx.x];
    if (threadIdx.x == 0)
        turns = 0;
    __syncthreads();
    atomicInc(&turns, 200); // 256 times: 55 after the return to 0
    for (int half = 128; half; half /= 2) {
        if (threadIdx.x < half)
            part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        out[n] = part[0] + turns - 55;
}

int main(int argc, char **argv)
{
    int *in, *out, host[256], result = 0;
    for (int i = 0; i < 256; i++)
        host[i] = i;
    hipDeviceProp_t properties;
    if (hipGetDeviceProperties(&properties, 0) || hipMalloc((void **)&in, sizeof(host)) || hipMalloc((void **)&out, 4) ||
        hipMemcpy(in, host, sizeof(host), hipMemcpyHostToDevice))
        return 1;
    sum<<<1, 256>>>(in, out, argc > 1 && !strcmp(argv[1], "beyond") ? 1 : 0);
    if (hipMemcpy(&result, out, 4, hipMemcpyDeviceToHost))
        return 3;
    std::printf("%s: %d\n", properties.gcnArchName, result);
    return result != 255 * 128;
}
END
# gfx90a is not simulated: its code is compiled, and no launch takes it.
targets=gfx942,gfx950,gfx1250,gfx1201,gfx90a
"$hipsim" cc --clang "$clang" --target $targets -c sum.hip -o sum.o >log 2>&1 || fail 'the program does not compile'
"$hipsim" cc --clang "$clang" --target $targets sum.o -o sum >log 2>&1 || fail 'an object is not linked'
"$hipsim" ./sum >log 2>&1 && grep -q '^gfx942.*: 32640$' log || fail 'wrong on the default target'
"$hipsim" --target mi355x ./sum >log 2>&1 && grep -q '^gfx950.*: 32640$' log || fail 'wrong on MI355X'
"$hipsim" --target rx9070xt ./sum >log 2>&1 && grep -q '^gfx1201.*: 32640$' log || fail 'wrong on RX 9070 XT'
"$hipsim" --target mi455x ./sum >log 2>&1 && grep -q '^gfx1250.*: 32640$' log || fail 'wrong on MI455X'
"$hipsim" --time --stats=off --seed=7 -- ./sum >log 2>&1 && grep -q 'modelled' log || fail 'no time is printed'
! "$hipsim" --target mi355x ./sum beyond >log 2>&1 && grep -q 'sum' log || fail 'a store out of bounds is not found'
HIPSIM=target=gfx950 "$hipsim" --stats ./sum >log 2>&1 && grep -q '^gfx950' log || fail 'HIPSIM of the environment is lost'

echo 'sum | . | ./sum | gfx950.*: 32640' >list
LD_LIBRARY_PATH=$(dirname "$hipsim")/../hip python3 -B "$weaken" --sites 4 --programs list --target gfx950 >log 2>&1 &&
    grep -q '^score: 100.0 % of [1-9]' log || fail 'weakened waits of a program are missed'

copy=$examples/copy_to_lds.hip
"$hipsim" cc --clang "$clang" "$copy" -o early >log 2>&1 && "$hipsim" cc --clang "$clang" "$copy" -DWAIT -o late >log 2>&1 ||
    fail 'copy_to_lds.hip does not compile'
! "$hipsim" ./early >log 2>&1 && grep -q 'while a load to LDS that writes it is outstanding' log ||
    fail 'a copy to LDS that nobody waits for is not found'
"$hipsim" ./late >log 2>&1 && [ "$(cat log)" = '0 of 128 wrong' ] || fail 'a finding where each wave waits for its copy'

# Runs a command that has to end with a status and print a text: refuse STATUS TEXT WORD...
refuse() {
    wanted=$1 text=$2
    shift 2
    status=0
    "$hipsim" "$@" >log 2>&1 || status=$?
    [ "$status" = "$wanted" ] && grep -q -- "$text" log || fail "$*: status $status"
}
refuse 2 'there is no option --tarket' --tarket gfx942 ./sum
refuse 2 'does not take "mi999"' --target mi999 ./sum
refuse 2 'no value of --seed' --seed
refuse 2 'a comma' --seed 1,checks=off ./sum
refuse 2 'no program' --time
refuse 127 'nothere: No such file' nothere
refuse 2 'no source' cc
refuse 0 'gfx942 or mi300x' --help
echo 'hipsim compiles, runs and refuses'
