#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# install.sh BUILD SOURCE: what `meson install` makes is enough for an engine and for attnc itself. A
# program finds libattn through pkg-config, loads a pack that the installed attnc made, and the
# installed attnc finds its simulator and the header of hooks. The build without LLVM and HIP configures and is libc only.
set -eu
build=$1 source=$2
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
fail() { echo "install: $*" >&2; exit 1; }

DESTDIR=$root meson install -C "$build" --no-rebuild >"$root/log" 2>&1 || { cat "$root/log"; exit 1; }
prefix=$(meson introspect "$build" --buildoptions | tr '{' '\n' | sed -n 's/.*"name": "prefix", "value": "\([^"]*\)".*/\1/p')
libdir=$(cd "$root$prefix" && dirname "$(find lib* -name libattn.so)")
attnc=$root$prefix/bin/attnc

cat >"$root/d.yaml" <<END
targets: [gfx942]
kernels: [{ op: plan }]
END
"$attnc" build "$root/d.yaml" -o "$root/p.attnpack" -q --no-cache || fail 'attnc cannot build'
"$attnc" verify "$root/p.attnpack" --device sim >"$root/log" 2>&1 || { cat "$root/log"; fail 'attnc cannot verify'; }
cat >"$root/hook.c" <<END
#include <attn_hook.h>
float attn_logits(float logit, int query, int key, int head, int q_len, int kv_len, const ATTN_DEVICE void *arg)
{
    return logit + 1.0f;
}
END
cat >"$root/h.yaml" <<END
targets: [gfx942]
kernels: [{ op: prefill, head_dim: 64, logits: hook.c }]
END
(cd "$root" && "$attnc" build h.yaml -o h.attnpack -q --no-cache --depfile h.d) || fail 'attnc cannot build a hook'
grep -qF "$(realpath "$root$prefix/include")/attn_hook.h" "$root/h.d" ||
    fail "a hook does not include the installed header: $(cat "$root/h.d")"
for file in share/man/man1/attnc.1 share/man/man3/attn.3 "$libdir/pkgconfig/attn.pc" \
    "$libdir/cmake/attn/attn-config.cmake" share/bash-completion/completions/attnc \
    share/zsh/site-functions/_attnc share/fish/vendor_completions.d/attnc.fish; do
    [ -s "$root$prefix/$file" ] || fail "no $file"
done

cat >"$root/first.c" <<END
#include <attn.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    struct attn_pack *pack;
    if (argc != 2 || attn_pack_open(argv[1], &pack) != ATTN_OK)
        return 1;
    printf("%u kernel\n", attn_pack_kernel_count(pack));
    attn_pack_close(pack);
    return 0;
}
END
export PKG_CONFIG_SYSROOT_DIR="$root" PKG_CONFIG_PATH="$root$prefix/$libdir/pkgconfig"
# shellcheck disable=SC2046
cc -std=c11 "$root/first.c" $(pkg-config --cflags --libs attn) -o "$root/first"
[ "$(LD_LIBRARY_PATH=$root$prefix/$libdir "$root/first" "$root/p.attnpack")" = '1 kernel' ] ||
    fail 'a program with libattn does not see the kernel'
needs=$(LC_ALL=C readelf -d "$root$prefix/$libdir/libattn.so.0" |
    sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' | grep -v '^ld-linux') # the loader is libc's
[ "$needs" = libc.so.6 ] || fail "libattn needs $needs"

unset PKG_CONFIG_SYSROOT_DIR PKG_CONFIG_PATH
meson setup "$root/alone" "$source" -Dcompiler=false -Dhipsim=false -Dtests=false \
    >"$root/log" 2>&1 || { cat "$root/log"; fail 'libattn alone'; }
! grep -E 'LLVM|llvm|hip_runtime|cmocka' "$root/log" || fail 'libattn alone asks for LLVM or HIP'
echo 'installed, and used from there'
