# SPDX-License-Identifier: Apache-2.0
# Turns public headers into a manual page, man(7): awk -v version=V -f manual.awk HEADER... >attn.3
#
# What it reads is how the headers are written: a header's opening comment describes it, a line
# comment between dashes opens a section, a comment that starts with two stars belongs to the
# declaration behind it, one that starts with two stars and < to what stands on its line.

# Text, so that troff takes it as it is.
function text(s) {
    gsub(/\\/, "\\e", s)
    gsub(/-/, "\\-", s)
    if (s ~ /^[.']/)
        s = "\\&" s
    return s
}

# A line of a comment without what frames it.
function bare(s) {
    sub(/^ *\/\*+ ?/, "", s)
    sub(/ *\*\/ *$/, "", s)
    sub(/^ *\* ?/, "", s)
    return s
}

# Prints a comment: paragraphs are filled, indented lines stay as they are.
function paragraphs(s,    line, n, i, kept) {
    n = split(s, line, "\n")
    for (i = 1; i <= n; i++) {
        if ((line[i] ~ /^(  |[a-z_]+  )/) != kept) {
            print kept ? ".fi" : ".nf"
            kept = !kept
        }
        if (line[i] != "")
            print text(line[i])
        else if (i > 1 && i < n)
            print kept ? "" : ".sp"
    }
    if (kept)
        print ".fi"
}

function declaration_ends() {
    documented++
    print ".PP\n.nf"
    n = split(code, line, "\n")
    for (i = 1; i < n; i++)
        print (line[i] == "" ? "" : "\\fB" text(line[i]) "\\fR")
    print ".fi\n.RS 4"
    paragraphs(about)
    print ".RE"
    about = code = ""
    depth = 0
}

FNR == 1 {
    opening = 1
    about = code = ""
    if (NR == 1) {
        print ".TH ATTN 3 \"\" \"attnc " version "\" \"libattn\""
        print ".SH NAME\nattn \\- dispatch of compiled attention kernels on AMD GPUs"
        print ".SH SYNOPSIS\n.nf\n\\fB#include <attn.h>\\fR"
        print "\\fBcc \\&... $(pkg\\-config \\-\\-cflags \\-\\-libs attn)\\fR\n.fi"
        print ".SH DESCRIPTION"
    } else {
        name = FILENAME
        sub(/.*\//, "", name)
        print ".SH " toupper(name)
    }
    next # its licence
}

# The opening comment.
opening && /^\/\*$/ { inside = 1; next }
opening && inside && /^ \*\/$/ { paragraphs(about); about = ""; opening = inside = 0; next }
opening && inside { about = about (about == "" ? "" : "\n") bare($0); next }

/^\/\* ---- .* ---- \*\/$/ {
    sub(/^\/\* ---- /, "")
    sub(/ ---- \*\/$/, "")
    print ".SH " toupper(text($0))
    next
}

/^ *\/\*\*[^<]/ || /^ *\/\*\*$/ {
    if (code == "") {
        inside = 1
        about = ""
    }
}
inside && code == "" {
    line1 = bare($0)
    if (line1 != "" || about != "")
        about = about (about == "" ? "" : "\n") line1
    if (/\*\//) {
        inside = 0
        sub(/\n$/, "", about)
    }
    next
}

# A declaration: everything up to its semicolon, or a macro's line.
about != "" || code != "" || /^(ATTN_PUBLIC|struct|enum|typedef).*[^;{]$/ || /^(struct|enum).*{/ {
    if ($0 == "")
        next
    shown = $0
    if (code == "")
        exported = sub(/^ATTN_PUBLIC /, "", shown)
    else if (exported)
        sub(/^            /, "", shown) # as far as ATTN_PUBLIC had moved it
    sub(/\/\*\*</, "/*", shown)
    code = code shown "\n"
    bones = $0
    sub(/\/\*.*/, "", bones)
    sub(/^ +\*.*/, "", bones)
    depth += gsub(/{/, "{", bones) - gsub(/}/, "}", bones)
    if (depth == 0 && (bones ~ /; *$/ || bones ~ /^#define/))
        declaration_ends()
}

END {
    print ".SH SEE ALSO\n.BR attnc (1)"
    exit documented == 0
}
