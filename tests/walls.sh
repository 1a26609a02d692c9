#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Holds every folder to the folders that it may see: an #include from the project's root names one of
# them. A row: the folder, then what its files may include. The rooms of the simulator have their own
# include paths in meson, so a wrong include there does not compile.
set -eu
cd "$1"
status=0
while read -r room seen; do
    allowed=$(echo "$seen" | tr ' ' '|')
    if grep -rnE '#include "[a-z_]+/' "$room" --include='*.c' --include='*.h' --include='*.def' |
        grep -vE "#include \"($allowed)/"; then
        echo "$room may include only: $seen"
        status=1
    fi
done <<ROWS
ops ops
pack pack
ir ir
templates ops ir templates
targets ir targets
compiler ops pack ir templates targets compiler
runtime ops pack runtime
tools/hipsim targets/facts tools/hipsim
tools/reference ir tools/reference
tools/verify ops compiler runtime targets tools/reference tools/verify
tools/attnc ops pack ir templates targets compiler runtime tools
ROWS
exit $status
