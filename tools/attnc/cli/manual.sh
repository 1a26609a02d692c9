#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# manual.sh ATTNC VERSION >attnc.1: prints a manual page, man(7), from the help texts of attnc.
set -eu
attnc=$1 version=$2

# Prints the output of a command of attnc without changes.
says() {
    echo '.nf'
    "$attnc" "$@" | sed 's/\\/\\e/g; s/-/\\-/g; s/^\([.'"'"']\)/\\\&\1/'
    echo '.fi'
}

cat <<END
.TH ATTNC 1 "" "attnc $version" "attnc"
.SH NAME
attnc \\- ahead\\-of\\-time compiler for attention kernels on AMD GPUs
.SH SYNOPSIS
.B attnc
.I COMMAND
\\&...
.SH DESCRIPTION
END
says help
echo '.SH COMMANDS'
"$attnc" help | sed -n 's/^  \([a-z-]*\)  *[A-Z].*/\1/p' | while read -r command; do
    echo ".SS attnc $command" | sed 's/-/\\-/g'
    says "$command" --help
done
for topic in fields ops targets passes; do
    echo ".SH $(echo $topic | tr '[:lower:]' '[:upper:]')"
    says help $topic
done
printf '.SH SEE ALSO\n.BR attn (3)\n'
