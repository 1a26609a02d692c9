#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Holds every folder to the folders that it may see: an #include from the project's root names one of
# them. A row: the folder, then what its files may include, folders or headers. The rooms of the
# simulator have their own include paths in meson, so a wrong include there does not compile.
set -eu
cd "$1"
status=0
while read -r room seen; do
    allowed=$(echo "$seen" | tr ' ' '|')
    if grep -rnE '#include "[a-z_]+/' "$room" --include='*.c' --include='*.h' --include='*.def' |
        grep -vE "#include \"($allowed)(/|\.h\")"; then
        echo "$room may include only: $seen"
        status=1
    fi
done <<ROWS
ops ops
pack pack
ir ir
templates ops ir templates
templates/variant.c ops ir templates/variant
templates/cache_write.c ops ir templates/template templates/workgroup templates/cache
templates/workgroup ops ir templates/template templates/variant templates/workgroup
templates/pipeline ir templates/pipeline
templates/attention ops ir templates/variant templates/workgroup templates/pipeline templates/attention
templates/cache ops ir templates/template templates/variant templates/workgroup templates/cache
templates/select ops ir templates/variant templates/workgroup templates/cache templates/select
templates/index ops ir templates/variant templates/workgroup templates/pipeline templates/cache templates/index
templates/linear ops ir templates/template templates/variant templates/workgroup templates/linear
templates/gated_delta_prefill ops ir templates/variant templates/workgroup templates/linear templates/gated_delta_prefill
templates/rope ops ir templates/variant templates/workgroup templates/cache templates/rope
templates/head_product ops ir templates/template templates/variant templates/workgroup templates/pipeline templates/head_product
templates/prefill ops ir templates/template templates/variant templates/workgroup templates/pipeline templates/attention templates/cache templates/prefill
templates/split_kv ops ir templates/variant templates/workgroup templates/pipeline templates/attention templates/cache templates/split_kv
templates/decode ops ir templates/template templates/variant templates/workgroup templates/pipeline templates/attention templates/cache templates/split_kv templates/decode
templates/rope_decode ops ir templates/template templates/variant templates/workgroup templates/pipeline templates/attention templates/cache templates/split_kv templates/decode templates/rope templates/rope_decode
templates/mla_decode ops ir templates/template templates/variant templates/workgroup templates/pipeline templates/attention templates/cache templates/split_kv templates/mla_decode
templates/ssd_prefill ops ir templates/template templates/variant templates/workgroup templates/linear templates/ssd_prefill
targets ir targets
compiler ops pack ir templates targets compiler
runtime ops pack runtime
tools/hipsim targets/facts targets/comgr tests/unit_test tools/hipsim
tools/reference ir tools/reference
tools/verify ops compiler runtime targets tools/reference tools/verify
tools/attnc/cli ops pack ir templates targets compiler runtime tools/verify tools/reference tools/hipsim tools/attnc/cli
tools/attnc/compile ops pack ir templates targets compiler runtime tools/verify tools/reference tools/hipsim tools/attnc/cli tools/attnc/compile
tools/attnc/describe ops pack ir templates targets compiler runtime tools/verify tools/reference tools/hipsim tools/attnc/cli tools/attnc/describe
tools/attnc/trace ops pack ir templates targets compiler runtime tools/verify tools/reference tools/hipsim tools/attnc/cli tools/attnc/trace
tools/attnc/report ops pack ir templates targets compiler runtime tools/verify tools/reference tools/hipsim tools/attnc/cli tools/attnc/trace tools/attnc/report
tools/attnc/tune ops pack ir templates targets compiler runtime tools/verify tools/reference tools/hipsim tools/attnc/cli tools/attnc/compile tools/attnc/describe tools/attnc/trace tools/attnc/report tools/attnc/tune
tools/attnc/bench ops pack ir templates targets compiler runtime tools/verify tools/reference tools/hipsim tools/attnc/cli tools/attnc/trace tools/attnc/tune tools/attnc/bench
tools/attnc/on_gpu ops pack ir templates targets compiler runtime tools/verify tools/reference tools/hipsim tools/attnc/cli tools/attnc/on_gpu
tools/attnc/limits ops ir templates targets tools/attnc/limits
tools/attnc/step ops pack ir templates targets compiler runtime tools/verify tools/reference tools/hipsim tools/attnc/cli tools/attnc/compile tools/attnc/describe tools/attnc/trace tools/attnc/tune tools/attnc/bench tools/attnc/step
ROWS
exit $status
