#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# wheel_tools.sh SOURCE COMPILER...: tools/wheel-tag and tools/bring-libraries on small programs, without building a wheel.
set -eu
tools=$1/tools
shift
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
fail() { echo "wheel_tools: $*" >&2; exit 1; }
cd "$root"
mkdir -p library/lib program/bin both/lib/deep missing/lib/deep taken empty
echo 'void free(void *); void give(void *x) { free(x); }' >give.c
printf 'void give(void *);\nint main(void) { give(0); return 0; }\n' >program.c
"$@" -shared -fPIC -nostartfiles give.c -Wl,-soname,libgive.so.1 -o library/lib/libgive.so.1
"$@" program.c library/lib/libgive.so.1 -o program/bin/run

# A program elsewhere than in bin/ counts, even if its mode is lost, and so does a library that it needs.
cp program/bin/run both/lib/deep
chmod 644 both/lib/deep/run
cp library/lib/libgive.so.1 both/lib
cp both/lib/deep/run missing/lib/deep
cp library/lib/libgive.so.1 program
all=$("$tools/wheel-tag" program) one=$("$tools/wheel-tag" library)
case $all in py3-none-manylinux_2_[0-9]*) ;; *) fail "a program with its library: $all" ;; esac
newest=$(LC_ALL=C readelf -V program/bin/run | grep -oE 'GLIBC_2\.[0-9]+' | sort -t. -k2 -n | tail -n 1 | tr . _)
[ "$all" = "py3-none-manylinux_${newest#GLIBC_}_$(uname -m)" ] || fail "$all is not of $newest"
[ "$("$tools/wheel-tag" both)" = "$all" ] || fail "a program in lib/: $("$tools/wheel-tag" both), not $all"
[ "$("$tools/wheel-tag" missing)" = "py3-none-linux_$(uname -m)" ] || fail "without a library: $("$tools/wheel-tag" missing)"
[ "$one" != "$all" ] || echo "the library needs the program's version, so the test of the version shows less"
! "$tools/wheel-tag" empty >log 2>&1 || fail "an empty folder has the tag $(cat log)"
grep -q 'no programs' log || fail 'an empty folder: no reason'

! "$tools/bring-libraries" program/bin/run taken 2>log || fail 'a library that is not installed is no error'
grep -q 'not installed' log && grep -q libgive log || { cat log; fail 'the missing library is not named'; }
! "$tools/bring-libraries" give.c taken 2>log || fail 'a file that ldd refuses is no error'
grep -q 'ldd cannot read give.c' log || { cat log; fail 'the file is not named'; }
! LD_LIBRARY_PATH=$root/library/lib "$tools/bring-libraries" program/bin/run none/such 2>log || fail 'a copy that fails is no error'
LD_LIBRARY_PATH=$root/library/lib "$tools/bring-libraries" program/bin/run taken
[ "$(ls taken)" = libgive.so.1 ] || fail "copied: $(ls taken)"
"$tools/bring-libraries" library/lib/libgive.so.1 empty
[ -z "$(ls empty)" ] || fail "copied for a library that needs nothing: $(ls empty)"
