#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sources.sh PREPARE: tests from where prepare.sh takes AITER's sources, without a network.
set -eu
prepare=$1 work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "sources: $*" >&2; cat "$work/log" >&2; exit 1; }
# This `git clone` finds no host.
mkdir "$work/bin"
printf '#!/bin/sh\n[ "$1" != clone ] || { echo "Could not resolve host" >&2; exit 128; }\nexit 1\n' >"$work/bin/git"
chmod +x "$work/bin/git"
PATH=$work/bin:$PATH

sh "$prepare" "$work/none" --sources >"$work/log" 2>&1 || fail 'prepare.sh fails where github.com is not reachable'
grep -q 'op_tests.py needs AITER from elsewhere, by --aiter DIR' "$work/log" || fail 'the message does not name --aiter'
[ ! -e "$work/none/aiter" ] || fail 'a folder without sources is left'

mkdir -p "$work/copy/aiter" "$work/copy/op_tests" "$work/other/aiter" "$work/other/op_tests"
for copy in other copy; do # the second one takes the place of the first
    (cd "$work" && sh "$prepare" given --aiter "$copy" --sources) >"$work/log" 2>&1 || fail "prepare.sh refuses --aiter $copy"
    [ "$work/given/aiter" -ef "$work/$copy" ] || fail "$copy is not what op_tests.py finds"
done
mkdir -p "$work/full/aiter/op_tests"
! sh "$prepare" "$work/full" --aiter "$work/copy" --sources >"$work/log" 2>&1 || fail 'a folder is replaced'
grep -q 'is there already' "$work/log" && [ -d "$work/full/aiter/op_tests" ] || fail 'a folder is replaced'
for bad in "$work/none" "$work/absent"; do
    ! sh "$prepare" "$work/x" --aiter "$bad" --sources >"$work/log" 2>&1 || fail "$bad is taken for AITER"
    [ ! -e "$work/x" ] || fail "a folder is made for $bad"
done
! sh "$prepare" --sources >"$work/log" 2>&1 || fail 'prepare.sh runs without a FOLDER'
