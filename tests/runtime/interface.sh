#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# interface.sh SHARED SAVED HEADER... [--save]: compares libattn's functions and structs with SAVED, the interface of the
# last release as abidw writes it, by abidiff of Debian's abigail-tools. Programs that were built with that release
# must run with this library, so only additions are allowed: functions, enumerators, members at the end of a struct.
# --save writes SAVED: before the first release of a minor version, and with each release.
set -eu
shared=$1 saved=$2
shift 2
command -v abidiff >/dev/null || { echo 'interface: skipped, since abidiff is not installed (abigail-tools)'; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "interface: $*" >&2; exit 1; }
mkdir "$work/headers"
save=
for word; do
    if [ "$word" = --save ]; then save=yes; else cp "$word" "$work/headers"; fi
done
abidw --no-show-locs --no-corpus-path --no-comp-dir-path --no-elf-needed --no-parameter-names --type-id-style hash \
    --exported-interfaces-only --drop-private-types --drop-undefined-syms --hd "$work/headers" "$shared" >"$work/now"
grep -q "name='attn_prefill_args' size-in-bits" "$work/now" || { echo 'interface: skipped, since libattn has no debug information'; exit 77; }
[ -z "$save" ] || cp "$work/now" "$saved"

# True if programs of the interface $1 run with the library $2. Bit 4 of abidiff's status: something that is not
# suppressed has changed; functions that were added do not count. Bits 1 and 2: it could not compare.
compatible() {
    python3 "$(dirname "$0")/interface_members.py" "$1" "$2" >"$work/difference" || return 1
    status=0
    abidiff --suppressions "$(dirname "$0")/interface.suppr" --no-added-syms "$1" "$2" >"$work/difference" 2>&1 || status=$?
    [ $((status & 3)) -eq 0 ] || { cat "$work/difference"; fail "abidiff: status $status"; }
    [ "$status" -eq 0 ]
}
compatible "$saved" "$work/now" || {
    cat "$work/difference"
    fail "programs that were built with the last release would break (docs/compatibility.md); before the first one, --save"
}

# What would break a program is noticed, and what would not is none.
python3 - "$work" <<'END'
import sys, xml.etree.ElementTree as tree
work = sys.argv[1]
def change(name, how):
    document = tree.parse(work + '/now')
    how(document.getroot())
    document.write(f'{work}/{name}')
def members(root, struct):
    kind = next(c for c in root.iter('class-decl') if c.get('name') == struct and c.get('size-in-bits'))
    return kind, kind.findall('data-member')
def drop(root, which):
    kind, all_members = members(root, 'attn_prefill_args')
    kind.remove(all_members[which])
def drop_function(root):
    for parent in root.iter():
        for child in list(parent):
            if child.get('name') == 'attn_device_open':
                parent.remove(child)
def pad(root):
    kind, all_members = members(root, 'attn_prefill_args')
    kind.remove(all_members[-1])
def shorten(root):
    kind, all_members = members(root, 'attn_prefill_args')
    last = int(all_members[-1].get('layout-offset-in-bits'))
    kind.remove(all_members[-1])
    kind.set('size-in-bits', str(last))
change('without-member', lambda root: drop(root, 3))
change('without-function', drop_function)
change('padded', pad)
change('shorter', shorten)
END
! compatible "$work/now" "$work/without-member" || fail 'a member that is gone is not noticed'
! compatible "$work/without-member" "$work/now" || fail 'a member that came into the middle is not noticed'
! compatible "$work/padded" "$work/now" || fail 'a member that came into padding is not noticed'
! compatible "$work/now" "$work/without-function" || fail 'a function that is gone is not noticed'
compatible "$work/without-function" "$work/now" || fail 'a function that came is refused'
compatible "$work/shorter" "$work/now" || { cat "$work/difference"; fail 'a member that came at the end is refused'; }
