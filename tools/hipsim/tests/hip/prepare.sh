#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prepares the build of HIP programs with stock Clang 22 and Debian's headers and device libraries:
#   prepare.sh CLANG++ HEADER CONFIG LANES TARGET…
# It writes Clang's configuration file CONFIG, and in the folder CONFIG.d the device libraries and HEADER,
# precompiled for the host and for each target. Clang chooses the right one of HEADER.pch by itself.
# The device libraries of Debian 12 (5.2.3) support none of the simulated targets. They only lack the file
# with the number of the instruction set, so this script makes one. The file also sets the switch for
# denormals. These libraries read it, but Clang 22 does not set it any more. Debian 13 has LLVM 17's libraries.
set -eu
clang=$1
header=$2
config=$3
lanes=$4
shift 4
installed=/usr/lib/x86_64-linux-gnu/amdgcn/bitcode
[ -d "$installed" ] || installed=$(ls -d /usr/lib/llvm-*/lib/clang/*/amdgcn/bitcode | tail -1)
folder=$(realpath -m "$config.d")
precompiled=$folder/$(basename "$header").pch
rm -rf "$folder"
mkdir -p "$precompiled"
ln -s "$installed"/*.bc "$folder"
for target in "$@"; do
    isa=${target#gfx}
    series=${isa%?}
    file=$folder/oclc_isa_version_$isa.bc
    echo "const __constant int __oclc_ISA_version = ${series}0${isa#"$series"};
          const __constant bool __oclc_daz_opt = false;" |
        "$clang" -x cl -target amdgcn-amd-amdhsa -nogpulib -Xclang -mcode-object-version=none \
            -fvisibility=protected -emit-llvm -c -o "$file.new" -
    mv "$file.new" "$file"
done
cat >"$config.new" <<END
-x hip --rocm-path=/usr --rocm-device-lib-path=$folder
-D__AMDGCN_WAVEFRONT_SIZE=$lanes -mcode-object-version=5 -pthread
-O2 -Xarch_host -O0
-Wall -Wno-linker-warnings -Wno-deprecated-declarations
END
precompile() {
    "$clang" "--config=$config.new" -c -Xclang -emit-pch "$header" "$@"
}
precompile --cuda-host-only -o "$precompiled/host" -MD -MT "$config" -MF "$config.deps"
for target in "$@"; do
    precompile --cuda-device-only --offload-arch="$target" --no-gpu-bundle-output -emit-llvm -o "$precompiled/$target"
done
mv "$config.new" "$config"
