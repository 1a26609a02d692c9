#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# symbols.sh SHARED STATIC OPS: libattn exports attn_ names only, needs libc only, and is small: 80 KiB,
# and 8 KiB for each op of ops.def.
set -eu
shared=$1 static=$2 failed=0
most=$((81920 + 8192 * $(grep -c '^OP(' "$3")))

complain() {
    echo "$1" >&2
    failed=1
}

foreign=$(nm -D --defined-only "$shared" | awk '$2 != "A" && $3 !~ /^attn_/ { print $3 }')
[ -z "$foreign" ] || complain "$shared exports: $foreign"
nm -D --defined-only "$shared" | grep -q ' T attn_prefill_launch@@' ||
    complain "$shared does not export attn_prefill_launch"
hidden=$(nm -D --defined-only "$shared" | awk '{ print $3 }' |
    grep -E '^attn_(fail|hip|lookup|launch|key|family|device_(load|log|ref))' || true)
[ -z "$hidden" ] || complain "$shared exports what is internal: $hidden"

plain=$(nm -D --defined-only --with-symbol-versions "$shared" | awk '$3 !~ /@@ATTN_[0-9]+[.][0-9]+$/ && $2 != "A" { print $3 }')
[ -z "$plain" ] || complain "$shared exports without a version of attn.map: $plain"

foreign=$(nm -g --defined-only "$static" | awk 'NF == 3 && $3 !~ /^attn_/ { print $3 }')
[ -z "$foreign" ] || complain "$static defines: $foreign"

needed=$(objdump -p "$shared" | awk '$1 == "NEEDED" && $2 !~ /^(libc\.so|ld-linux)/ { print $2 }')
[ -z "$needed" ] || complain "$shared needs: $needed"

copy=$(mktemp)
trap 'rm -f "$copy"' EXIT
strip -o "$copy" "$shared"
size=$(wc -c <"$copy")
echo "stripped: $size bytes"
[ "$size" -le "$most" ] || complain "$shared has $size bytes, at most $most are allowed"
exit $failed
