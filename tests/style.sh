#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The house rules that a script can see: the dialect of .clang-format, no tabs, no trailing blanks, a
# final newline, lines of at most 100 columns (tables in .def files apart), files of at most 800
# lines, functions of at most 60, an SPDX line first, sizeof with parentheses, comments that begin with
# a subject or a verb, paths in comments that lead to a file, and no question of
# "which gfx is this" outside targets/ and hipsim, which is made of them, and in templates/ no layout written
# bit by bit and no name of a kernel's argument spelt out.
set -eu
cd "$1"
files=$(find ops pack ir templates targets compiler runtime tools tests examples -type f \
    \( -name '*.c' -o -name '*.h' -o -name '*.def' -o -name '*.hip' \))
status=0
# shellcheck disable=SC2086
LC_ALL=C.UTF-8 awk '
    function say(what) { printf "%s:%d: %s\n", f, n, what; bad = 1 }
    # A comment begins with a sentence or a name, not with a clause that has no head.
    function headless(text) {
        return text ~ /^(What|Of|Where|Whose|Lets|Nor|How|Which|Whether|Who|As far as) /
    }
    function end_file() { if (n > 800 && !table) say("a file of " n " lines") }
    FNR == 1 { end_file(); f = FILENAME; table = f ~ /[.]def$/; start = opens = 0 }
    { n = FNR }
    FNR == 1 && !/SPDX-License-Identifier: Apache-2.0/ { say("no SPDX line") }
    /\t/ { say("a tab") }
    /[ \t]$/ { say("trailing blanks") }
    /(^|[^a-z_])sizeof [a-z*_]/ && !/[*] .*sizeof/ { say("sizeof without parentheses") }
    length($0) > 100 && !table { say("more than 100 columns") }
    match($0, /[/][*]+<?( ----)? /) && headless(substr($0, RSTART + RLENGTH)) ||
        opens && /^ *[*] / && headless(substr($0, index($0, "*") + 2)) {
        say("a comment without a subject or a verb")
    }
    { opens = /^ *[/][*]+( SPDX[^*]*)?$/ || opens && /^ *[*]$/ }
    /^[{]/ { start = FNR }
    /^[}]/ { if (start && FNR - start > 60) say("a function of " FNR - start " lines"); start = 0 }
    END {
        end_file()
        exit bad
    }' $files || status=1
# shellcheck disable=SC2086
if [ -n "$(tail -q -c 1 $files)" ]; then
    for f in $files; do
        [ -z "$(tail -c 1 "$f")" ] || echo "$f: no final newline"
    done
    status=1
fi
# The simulator's tables of instructions (vop_*.c, tables.c) keep their rows as they are.
formatted=$(echo "$files" | grep '[.][ch]$' | grep -vE '/(vop_[a-z_0-9]*|tables)[.]c$')
# shellcheck disable=SC2086
if ! clang-format-22 --dry-run -Werror $formatted; then
    echo "not as clang-format writes it: tools/format mends it"
    status=1
fi
if grep -nE '(strcmp|strncmp)\([^;]*"gfx9|gfx *[<>]=? *9|[<>]=? *gfx9' -r ir templates compiler runtime \
    --include='*.c' --include='*.h'; then
    echo "ask for a capability, not for a generation"
    status=1
fi
# What differs between generations stands in targets/isa_*.c.
if grep -nE 'machine[.]has_' targets/lower*.c | grep -v 'assert('; then
    echo "a slot of struct lower_isa, not a question in targets/lower*.c"
    status=1
fi
if grep -nE '^ *"""(What|Of|Where|Whose|Nor|How|Which|Whether|Who) ' -r ops python tests tools \
    --include='*.py'; then
    echo "a docstring without a subject or a verb"
    status=1
fi
# The number of lanes of a wave comes from the machine: no literal 6 or 64, and no size computed from
# TIR_WAVE_LANES, the largest number. Templates may compare a machine's number with it.
if grep -nE 'TIR_WAVE_(LANES|BITS)' -r ir templates targets --include='*.c' --include='*.h' |
    grep -vE 'lane_bits (<|==) TIR_WAVE_BITS|TIR_WAVE_BITS - m->lane_bits|lanes", TIR_WAVE_LANES' |
    grep -vE '^ir/(layout|convert|mma_operands)[.]h:|^ir/interp_values[.]c:'; then
    echo "tir_lanes() of the machine, not a wave of 64 lanes"
    status=1
fi
if grep -nE 'lane_bits *(=|==|!=|<) *6|LANES = 64|(<|-|[+]) 6\b|\b64 *[*] *w|[*/%] 64\b' -r ir templates targets \
    --include='*.c' --include='*.h' | grep -vE ': *(/[*]| [*])|1024|/[*].*64'; then
    echo "the machine's lane_bits, not a literal"
    status=1
fi
# The room of layouts writes images of bits, and the parser, which reads them. All others compose
# layouts with its functions: ir/spread.h, ir/matrix.h, ir/layout.h, ir/address_map.h.
if grep -nE 'basis(\[[^]]*\])? *[|^&+]?=[^=]|mem(cpy|move|set)\([^,]*basis|[.](reg|lane|wave)_bits = .*basis' \
    -r ir templates targets compiler --include='*.c' --include='*.h' |
    grep -vE '^ir/(layout|spread|matrix|address_map|parse)[.][ch]:|^ir/mma_operands[.]h:'; then
    echo "compose the layout, do not write its basis"
    status=1
fi
if grep -nE '[.>]basis|[.]lane_bits = |layout[.](reg|lane|wave)_bits *[|+-]?=[^=]' -r templates --include='*.c' --include='*.h'; then
    echo "ask a function of the layout, do not read its basis"
    status=1
fi
# ARG_* of op_names.h are the arguments' names: one that is composed is not checked by the C compiler.
if grep -nE 'tir_arg\([^;]*"|att_stride\([^;]*"|printf\(.*_(stride|share)"' -r templates \
    --include='*.c' --include='*.h'; then
    echo "name the argument by its ARG_ macro"
    status=1
fi
# A path in a comment leads to a file; x.def and the like stand for any.
rooms='ops|pack|ir|templates|targets|compiler|runtime|tools|tests|examples|docs'
# shellcheck disable=SC2086
lost=$(grep -noE "\b($rooms)/[a-z0-9_/-]+[.](c|h|def|md|py|sh)\b" $files | grep -v '/x[.]' |
    while IFS=: read -r file line path; do [ -e "$path" ] || echo "$file:$line: $path"; done)
if [ -n "$lost" ]; then
    echo "$lost"
    echo "there is no such file"
    status=1
fi
exit $status
