# SPDX-License-Identifier: Apache-2.0
# Minimal systems for tests that source this file: bare_root SUITE [PACKAGE,...] makes one in the folder $root, with /proc.
# SUITE is bookworm or trixie of Debian, jammy or noble of Ubuntu. It needs root and the network. The end of the test or the
# next call removes the root.

# Ubuntu's package of its archive keys, and the SHA-256 of the file. Debian has no such package.
ubuntu_keyring=ubuntu-keyring_2023.11.28.1_all.deb
ubuntu_keyring_sum=36de43b15853ccae0028e9a767613770c704833f82586f28eb262f0311adb8a8

# Removes the root that the last call made.
remove_root() {
    [ -n "${root:-}" ] || return 0
    umount "$root/proc" 2>/dev/null || true
    rm -rf --one-file-system "$root" "$root.keys"
    root=
}

# Downloads the keys of Ubuntu's archive, and prints the options of debootstrap for that archive.
archive_keys() {
    mkdir "$root.keys"
    wget -q -O "$root.keys/keyring.deb" "http://archive.ubuntu.com/ubuntu/pool/main/u/ubuntu-keyring/$ubuntu_keyring" || return 1
    echo "$ubuntu_keyring_sum  $root.keys/keyring.deb" | sha256sum -c --quiet >&2 || return 1
    dpkg-deb -x "$root.keys/keyring.deb" "$root.keys"
    echo "--keyring=$root.keys/usr/share/keyrings/ubuntu-archive-keyring.gpg --components=main,universe"
}

bare_root() {
    remove_root
    root=$(mktemp -d)
    trap remove_root EXIT
    options= steps= mirror=http://deb.debian.org/debian
    case $1 in
    jammy | noble)
        mirror=http://archive.ubuntu.com/ubuntu
        # A debootstrap that is older than the suite has no script by its name; all suites of Ubuntu share this one.
        [ -e "/usr/share/debootstrap/scripts/$1" ] || steps=/usr/share/debootstrap/scripts/gutsy
        options=$(archive_keys) || { echo 'bare_root: the keys of Ubuntu'"'"'s archive could not be downloaded or verified' >&2; exit 1; }
        ;;
    esac
    # shellcheck disable=SC2086
    debootstrap --variant=minbase $options ${2:+--include="$2"} "$1" "$root" "$mirror" $steps >"$root.log" ||
        { cat "$root.log"; rm -f "$root.log"; echo "bare_root: debootstrap of $1 failed" >&2; exit 1; }
    rm -f "$root.log"
    mount -t proc proc "$root/proc"
}
