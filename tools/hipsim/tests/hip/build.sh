#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds a HIP program with stock Clang 22 and Debian's headers and device libraries:
#   build.sh CLANG++ SOURCE OUTPUT [more arguments]
# The device libraries of Debian 12 (5.2.3) support none of the simulated targets. They only lack the file
# with the number of the instruction set, so this script makes one. The file also sets the switch for
# denormals. These libraries read it, but Clang 22 does not set it any more. Debian 13 has LLVM 17's libraries.
set -eu
clang=$1
source=$2
output=$3
shift 3
installed=/usr/lib/x86_64-linux-gnu/amdgcn/bitcode
[ -d "$installed" ] || installed=$(ls -d /usr/lib/llvm-*/lib/clang/*/amdgcn/bitcode | tail -1)
libraries=$output.bitcode
mkdir -p "$libraries"
ln -sf "$installed"/*.bc "$libraries"
for isa in 942:9402 950:9500 1201:12001 1250:12500; do
    file=$libraries/oclc_isa_version_${isa%:*}.bc
    echo "const __constant int __oclc_ISA_version = ${isa#*:};
          const __constant bool __oclc_daz_opt = false;" |
        "$clang" -x cl -target amdgcn-amd-amdhsa -nogpulib -Xclang -mcode-object-version=none \
            -fvisibility=protected -emit-llvm -c -o "$file.new" -
    mv "$file.new" "$file"
done
lanes=64
case " $* " in *gfx1[0-9]*) lanes=32 ;; esac
exec "$clang" -x hip --rocm-path=/usr --rocm-device-lib-path="$libraries" \
    -D__AMDGCN_WAVEFRONT_SIZE=$lanes -O2 -Wall -Wno-linker-warnings \
    -Wno-deprecated-declarations "$source" -o "$output" "$@"
