#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# site.sh BUILD SOURCE: the site of the documentation is built without a warning, has every page and every
# op, takes nothing from other hosts, and is good in a browser, and so is a report (pages.py).
set -eu
build=$1 source=$2
fail() { echo "site: $*" >&2; exit 1; }
if ! command -v mkdocs >/dev/null || ! command -v doxygen >/dev/null; then
    echo 'mkdocs and doxygen are not installed'
    exit 77
fi
"$source/tools/site" "$build"
for page in "$source"/docs/*.md "$source"/tools/hipsim/docs/*.md; do
    name=$(basename "$page" .md)
    [ -s "$build/site/$name.html" ] || fail "there is no $name.html"
done
sed -n 's/^OP(\([a-z_]*\)).*/\1/p' "$source/ops/ops.def" | while read -r op; do
    grep -q "id=\"struct-attn_${op}_args\"" "$build/site/ops.html" || fail "ops.html lacks $op"
    grep -q "id=\"struct-attn_${op}_args\"" "$build/site/api-ops.html" ||
        fail "the C API lacks struct attn_${op}_args"
done
if grep -rlE '(<script|<link rel="stylesheet"|<img)[^>]*(src|href)="(https?:)?//' "$build/site" --include='*.html'; then
    fail 'these pages need another host'
fi
python3 "$source/tests/pages.py" "$build/site" "$build/tools/attnc/attnc"
echo 'the site is complete'
