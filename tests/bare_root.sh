# SPDX-License-Identifier: Apache-2.0
# A minimal Debian 12 in the folder $root, with /proc, for tests that source this file: bare_root [PACKAGE,...]. As root;
# takes the packages of the network. The root goes with the test.
bare_root() {
    root=$(mktemp -d)
    trap 'umount "$root/proc" 2>/dev/null || true; rm -rf --one-file-system "$root"' EXIT
    debootstrap --variant=minbase ${1:+--include="$1"} bookworm "$root" http://deb.debian.org/debian >"$root.log" ||
        { cat "$root.log"; rm -f "$root.log"; echo 'bare_root: debootstrap failed' >&2; exit 1; }
    rm -f "$root.log"
    mount -t proc proc "$root/proc"
}
