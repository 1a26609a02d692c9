# SPDX-License-Identifier: Apache-2.0
# A page as C: a string for each line, in an array of the name NAME. The line @STYLE@ is the file STYLE.
function write_line(text) { gsub(/\\/, "&&", text); gsub(/"/, "\\\"", text); printf "    \"%s\",\n", text }
BEGIN { print "extern const char *const " NAME "[];\nconst char *const " NAME "[] = {" }
$0 == "@STYLE@" { while ((getline text < STYLE) > 0) write_line(text); next }
{ write_line($0) }
END { print "    0,\n};" }
