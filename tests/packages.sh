#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# packages.sh SOURCE: the Debian packages, on a root that has nothing else. Builds them, or takes those of the folder
# ATTN_DEBS, makes a minimal Debian 12 with debootstrap, lets apt install them there, and compiles, verifies and uses a
# kernel from the command line, from C and from Python. As root; takes the packages of the network.
set -eu
cd "$1"
fail() { echo "packages: $*" >&2; exit 1; }
[ "$(id -u)" -eq 0 ] || fail 'needs root, for chroot'
tools/packages debootstrap
debs=${ATTN_DEBS:-}
if [ -z "$debs" ]; then
    tools/deb >/dev/null
    debs=build-deb
fi

. tests/bare_root.sh
bare_root bookworm
rm -f "$root/etc/apt/sources.list"
cat >"$root/etc/apt/sources.list" <<END
deb http://deb.debian.org/debian bookworm main
deb http://deb.debian.org/debian bookworm-updates main
deb http://deb.debian.org/debian-security bookworm-security main
END
[ ! -f /etc/apt/apt.conf.d/99proxy ] || cp /etc/apt/apt.conf.d/99proxy "$root/etc/apt/apt.conf.d/"
cp "$debs"/*.deb "$root/tmp/"
rm -f "$root"/tmp/*-dbgsym_*.deb

cat >"$root/tmp/p.yaml" <<END
targets: [gfx942, gfx950]
kernels:
  - op: prefill
    head_dim: 64
END
cat >"$root/tmp/first.c" <<END
#include <attn.h>
#include <stdio.h>
int main(void)
{
    struct attn_pack *pack;
    if (attn_pack_open("p.attnpack", &pack) != ATTN_OK)
        return 1;
    printf("C: %u kernels\n", attn_pack_kernel_count(pack));
    attn_pack_close(pack);
    return 0;
}
END
cp examples/python/first.py "$root/tmp/"
cat >"$root/tmp/try" <<'END'
set -eu
export DEBIAN_FRONTEND=noninteractive
cd /tmp
apt-get update -qq
apt-get install -y -qq --no-install-recommends ./*.deb gcc libc6-dev pkg-config python3-numpy >log 2>&1 ||
    { cat log; exit 1; }
attnc build p.yaml -o p.attnpack -q
attnc verify p.attnpack --device sim --shapes 2 | tail -1
cc first.c $(pkg-config --cflags --libs attn) -o first
./first
python3 first.py
END
chroot "$root" sh /tmp/try || fail 'does not work there'
echo 'installed on a bare root, and used from there'
