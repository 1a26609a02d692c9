# SPDX-License-Identifier: Apache-2.0
# A page as C: a string for each line, in an array of the name NAME.
BEGIN { print "extern const char *const " NAME "[];\nconst char *const " NAME "[] = {" }
{ gsub(/\\/, "&&"); gsub(/"/, "\\\""); printf "    \"%s\",\n", $0 }
END { print "    0,\n};" }
