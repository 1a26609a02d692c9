#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# limits.sh ATTNC SOURCE: the page of limits is what `attnc help limits` says, and these are limits of
# `attnc build`: it takes the ends of a range and refuses what lies behind them.
set -eu
attnc=$1 source=$2
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
fail() { echo "limits: $*" >&2; exit 1; }

"$attnc" help limits >"$root/limits.md"
diff -u "$source/docs/limits.md" "$root/limits.md" ||
    fail 'docs/limits.md is old: attnc help limits >docs/limits.md'
grep -n ': ,' "$root/limits.md" && fail 'a tensor is described by half of a sentence'

# The line of an op's field: "- `q_len`: 1 to 64".
range() { awk -v op="## $1" -v field="- \`$2\`: " '$0 == op { on = 1; next } /^## / { on = 0 }
    on && index($0, field) == 1 { sub(/.*[:,] /, ""); print $1, $3; exit }' "$root/limits.md"; }
takes() {
    printf 'targets: [gfx950]\nkernels: [{ op: %s, head_dim: 128, %s: %s }]\n' "$1" "$2" "$3" >"$root/d.yaml"
    "$attnc" build "$root/d.yaml" --emit=variants >"$root/log" 2>&1
}
for pair in 'decode q_len' 'mla_decode q_len' 'decode page_size' 'decode gqa' 'cache_write page_size'; do
    op=${pair% *} field=${pair#* }
    range "$op" "$field" >"$root/range"
    read -r low high <"$root/range" || fail "no range of $pair"
    if [ "$op" != mla_decode ]; then
        takes "$op" "$field" "$low" && takes "$op" "$field" "$high" || { cat "$root/log"; fail "$pair: $low, $high"; }
    fi
    takes "$op" "$field" $((high + 1)) && fail "$pair: $((high + 1)) is taken"
done
echo 'the page of limits is right'
