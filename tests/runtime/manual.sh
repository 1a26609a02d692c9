#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# manual.sh LIBRARY ATTN.3 COMMANDS.DEF ATTNC.1: each exported function has an entry that says
# something of it, each command a section.
set -eu
library=$1 reference=$2 commands=$3 manual=$4 failed=0

functions=$(nm -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }')
for function in $functions; do
    # Its entry: from the bold line with its name to .RE; text is what is neither request nor bold.
    awk -v name="$function" '
        /^\\fB/ && match($0, "[ *]" name "\\(") { entry = 1 }
        entry && /^\.RE/ { exit }
        entry && !/^\./ && !/^\\fB/ { text++ }
        END { exit !text }' "$reference" || {
        echo "$reference says nothing of $function()" >&2
        failed=1
    }
done
for command in $(sed -n 's/^COMMAND(\(.*\))/\1/p' "$commands" | tr _ -); do
    grep -qxF ".SS attnc $(echo "$command" | sed 's/-/\\-/g')" "$manual" || {
        echo "$manual has no section on $command" >&2
        failed=1
    }
done
echo "$(echo "$functions" | wc -l) functions"
exit $failed
