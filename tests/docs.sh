#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# docs.sh BUILD SOURCE: runs the commands of the pages, as a reader would, with an installed attnc. A
# block ```sh is run, all of a page in one folder; ```yaml NAME writes a file. Links to files of the
# repository have to lead somewhere.
set -eu
build=$1 source=$2
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
fail() { echo "docs: $*" >&2; exit 1; }

DESTDIR=$root meson install -C "$build" --no-rebuild >"$root/log" 2>&1 || { cat "$root/log"; exit 1; }
library=$(find "$root" -name libattn.so | head -n 1)
libdir=$(dirname "$library")
PATH=$(dirname "$(find "$root" -type f -name attnc -path '*bin*')"):$PATH
SIMULATOR=$(dirname "$(find "$root" -name libamdhip64.so.5)")
export PATH SIMULATOR
export PKG_CONFIG_SYSROOT_DIR="$root" PKG_CONFIG_PATH="$libdir/pkgconfig" XDG_CACHE_HOME="$root/cache"
export LD_LIBRARY_PATH="$libdir"

for page in tutorial install models troubleshooting; do
    mkdir "$root/$page"
    cp "$source"/examples/first/first.c "$root/$page"
    awk -v folder="$root/$page" '
        /^```/ && inside { inside = 0; next }
        /^```sh$/ { inside = 1; out = folder "/run.sh"; next }
        /^```yaml / { inside = 1; out = folder "/" $2; next }
        /^```/ { inside = 1; out = "/dev/null"; next }
        inside { print >out }' "$source/docs/$page.md"
    [ -s "$root/$page/run.sh" ] || fail "$page.md has no command"
    (cd "$root/$page" && sh -eux run.sh >log 2>&1) || { cat "$root/$page/log"; fail "$page.md"; }
done
grep -q '^64 tokens, all right$' "$root/tutorial/log" || fail 'the first launch says nothing'

for page in "$source"/*.md "$source"/docs/*.md "$source"/tools/hipsim/*.md "$source"/tools/hipsim/docs/*.md; do
    grep -o '](\([^):#]*\))' "$page" | sed 's/](\(.*\))/\1/' | while read -r link; do
        [ -e "$(dirname "$page")/$link" ] || fail "${page#"$source"/}: $link does not exist"
    done
done
echo 'every command and link of the pages is good'
