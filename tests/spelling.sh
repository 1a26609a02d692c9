#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Checks the spelling of sources and pages with codespell. Names that it takes for mistakes are listed here.
set -eu
cd "$1"
names=valu,hsa,inout,maks,uscaled,thn
find . \( -name 'build*' -o -name '.?*' -o -path ./tests/fuzz -o -name golden \) -prune -o -type f \
    \( -name '*.[ch]' -o -name '*.def' -o -name '*.md' -o -name '*.py' -o -name '*.sh' \) -print0 |
    xargs -0 codespell -L "$names"
