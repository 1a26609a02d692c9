#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# weaken.sh WEAKEN HIPSIM CLANG: each weakened wait and barrier of a small kernel is caught, except where no result depends
# on it. `alarms`, beside WEAKEN, tells clean programs from others.
set -eu
weaken=$1 hipsim=$(readlink -f "$2") clang=$3
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
cd "$root"
fail() { echo "weaken: $*" >&2; cat log >&2; exit 1; }

cat >turn.cl <<'END'
__kernel void turn(const __global float *x, __global float *y)
{
    __local float shared[128];
    const int lane = __builtin_amdgcn_workitem_id_x();

    shared[lane] = x[lane];
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
    y[lane] = shared[127 - lane];
}
END
# A barrier of GFX12 has two halves, and its waits are of one or two counters each.
for target in gfx1250 gfx950; do
    "$clang" -w -O2 -target amdgcn-amd-amdhsa -mcpu=$target -nogpulib -mcode-object-version=5 turn.cl -o turn.co
    halves=1
    case $target in gfx12*) halves=2 ;; esac
    set -- "$hipsim" --target $target run turn.co --grid 1 --block 128 --arg f32:128=ramp --arg f32:128
    "$@" --dump 1:want
    printf '#!/bin/sh\n%s\n' "$* --dump 1:got && cmp got want" >try
    chmod +x try
    python3 -B "$weaken" --list --object turn.co -- ./try >log 2>&1 || fail "$target: something is missed"
    grep -q "barrier: $halves caught" log || fail "$target: the barrier is not caught"
    grep -q '^in all: wait: [4-9] caught' log || fail "$target: a wait is not caught"
    grep -q '^score: 100.0 % of [1-9]' log || fail "$target: no score"
done

# With the checks off, a wrong result without a finding counts as missed.
HIPSIM=checks=off python3 -B "$weaken" --object turn.co -- ./try >log 2>&1 && fail 'nothing is missed without checks'
grep -q '^score: 0.0 %' log || fail 'a score without checks'
# A command that fails before any change has no score.
python3 -B "$weaken" --object turn.co -- false >log 2>&1 && fail 'a command that fails as it is'
grep -q 'not clean as it is' log || fail 'it does not say that the command fails'

cat >loud <<END
#!/bin/sh
"$hipsim" run turn.co --grid 1 --block 128 --arg f32:128 --arg f32:128
true
END
chmod +x loud
cat >list <<'END'
# NAME | FOLDER | COMMAND | PATTERN
clean | . | run turn.co --grid 1 --block 128 --arg f32:128=ramp --arg f32:128 --print 1:2 | 127.*126
loud | . | ./loud
other | . | run turn.co --grid 1 --block 128 --arg f32:128=ramp --arg f32:128 --print 1:2 | 128
idle | . | true
END
set -- python3 -B "$(dirname "$weaken")/alarms" --targets gfx950 --hipsim "$hipsim"
"$@" --only clean list >log 2>&1 || fail 'a clean program has findings'
"$@" list >log 2>&1 && fail 'findings do not change the exit status'
for text in 'clean     gfx950 clean 1' 'findings  gfx950 loud 1 uninit: 1 (turn)' 'wrong     gfx950 other 1' 'no launch gfx950 idle 0' \
    'gfx950: 1 clean, 1 findings, 1 wrong, 1 no launch'; do
    grep -qx "$text" log || fail "no line $text"
done

# Functions of a Python file: one raises an exception, one aborts, two do not end. None affects the others, since each has its own
# process.
cat >functions.py <<'END'
import ctypes
import os
import time
import hipsim

BYTES = 512


def turn(values):
    """Launches the kernel on 128 floats; None: on memory that nobody has written."""
    hip, source, result = hipsim.library(), ctypes.c_void_p(), ctypes.c_void_p()
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    hip.call("hipModuleLoad", ctypes.byref(module), b"turn.co")
    hip.call("hipModuleGetFunction", ctypes.byref(function), module, b"turn")
    for pointer in (source, result):
        hip.call("hipMalloc", ctypes.byref(pointer), ctypes.c_size_t(BYTES))
    if values:
        hip.call("hipMemcpy", source, (ctypes.c_float * 128)(*values), ctypes.c_size_t(BYTES), 1)
    arguments = (ctypes.c_void_p * 2)(*(ctypes.addressof(pointer) for pointer in (source, result)))
    hip.call("hipModuleLaunchKernel", function, 1, 1, 1, 128, 1, 1, 0, None, arguments, None)
    out = (ctypes.c_float * 128)()
    hip.call("hipMemcpy", out, result, ctypes.c_size_t(BYTES), 2)
    return list(out)


def case_right():
    assert turn(range(128)) == list(range(127, -1, -1))


def case_loud():
    turn(None)


def case_other():
    assert turn(range(128))[0] == 0, "the first is not 0"


def case_idle():
    pass


def case_crash():
    os.abort()


def case_endless():
    while True:
        pass


def case_asleep():
    time.sleep(1000)
END
PYTHONPATH=$(readlink -f "$(dirname "$weaken")/../../../python") HIPSIM_LIBRARY=$(dirname "$hipsim")/../hip/libamdhip64.so.5
export PYTHONPATH HIPSIM_LIBRARY
"$@" --only right functions.py >log 2>&1 || fail 'a right function has findings'
"$@" --seconds 1 functions.py >log 2>&1 && fail 'findings of functions do not change the exit status'
for text in 'clean     gfx950 right 1' 'findings  gfx950 loud 1 uninit: 1 (turn)' 'wrong     gfx950 other 1' \
    '          AssertionError: the first is not 0' '          ended by signal 6' 'no launch gfx950 idle 0' 'no end    gfx950 endless 0' 'wrong     gfx950 crash 0' \
    'no end    gfx950 asleep 0' 'gfx950: 1 clean, 1 findings, 2 wrong, 2 no end, 1 no launch'; do
    grep -qx "$text" log || fail "no line $text"
done
echo 'weakened waits are caught'
